//! The `.git` that commands of a session see: a view of the user's repository whose HEAD is the session's newest commit. The
//! objects are the user's, read-only; config, references and index are ours, so nothing that a command does there reaches the
//! user's repository. It is a layer of its own below the bench's files.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RECORDS;
use crate::git::{Changed, Identity, IndexEntry, Oid, Repo, diff, empty_tree, index, oid_of};

/// The beginnings of the names of references that commands don't see: those of sessions.
const HIDDEN: [&str; 2] = ["refs/reedclaw/", "refs/heads/reedclaw/"];
/// References that they see.
const SHOWN: [&str; 3] = ["refs/heads/", "refs/remotes/", "refs/tags/"];
/// Place of the user's objects.
const THEIRS: &str = ".git/theirs";

/// The `.git` of a bench.
#[derive(Debug)]
pub(super) struct GitDir {
    layer: PathBuf,
    repo: Arc<Repo>,
    who: Identity,
}

impl GitDir {
    /// The `.git` of the bench at `bench`; nothing is written yet.
    pub(super) fn beside(bench: &Path, repo: Arc<Repo>, who: Identity) -> Self {
        Self { layer: bench.with_extension("git"), repo, who }
    }

    /// The directory that has it; `None` if it couldn't be made.
    pub(super) fn layer(&self) -> Option<&Path> {
        self.layer.join(".git/HEAD").exists().then_some(&self.layer)
    }

    /// Returns the user's objects, and the place in the workspace at which they are visible.
    pub(super) fn objects(&self) -> Option<(PathBuf, PathBuf)> {
        self.layer().map(|_| (self.repo.common_dir().join("objects"), THEIRS.into()))
    }

    /// Removes it.
    pub(super) fn clear(&self) {
        // Remaining files show up in the next attempt to write it.
        let _ = fs::remove_dir_all(&self.layer);
    }

    /// Sets HEAD to a commit. `stat` returns the numbers of the file at a path, if it is as in the commit. `excludes` are lines
    /// as of `.git/info/exclude`.
    ///
    /// # Errors
    /// A file can't be written, or an object not be read; the bench has no `.git` then.
    pub(super) fn show(&self, commit: Oid, excludes: &[String], stat: &dyn Fn(&Path) -> [u32; 10]) -> io::Result<()> {
        let git = self.layer.join(".git");
        let head = fs::read_to_string(git.join("HEAD")).ok().and_then(|text| oid_of(text.trim()));
        if head == Some(commit) {
            return Ok(());
        }
        let made = self.write(&git, head, commit, excludes, stat);
        if made.is_err() {
            self.clear();
        }
        made
    }

    fn write(
        &self,
        git: &Path,
        head: Option<Oid>,
        commit: Oid,
        excludes: &[String],
        stat: &dyn Fn(&Path) -> [u32; 10],
    ) -> io::Result<()> {
        for name in ["objects/info", "objects/pack", "theirs", "refs/heads", "refs/tags", "info"] {
            DirBuilder::new().recursive(true).mode(0o700).create(git.join(name))?;
        }
        put(&git.join("config"), self.config(commit).as_bytes())?;
        put(&git.join("objects/info/alternates"), b"../theirs\n")?;
        put(&git.join("info/exclude"), (excludes.join("\n") + "\n").as_bytes())?;
        put(&git.join("packed-refs"), self.references()?.as_bytes())?;
        if let Ok(shallow) = fs::read(self.repo.common_dir().join("shallow")) {
            put(&git.join("shallow"), &shallow)?;
        }
        put(&git.join("index"), &self.index(git, head, commit, stat)?)?;
        put(&git.join("HEAD"), format!("{commit}\n").as_bytes())
    }

    /// A config that runs nothing.
    fn config(&self, commit: Oid) -> String {
        let format = match commit.as_bytes().len() {
            20 => "\trepositoryformatversion = 0\n",
            _ => "\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n[core]\n",
        };
        // In quotes only these need a backslash (git-config(1)).
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(char::is_control, " ");
        let [name, email] = [&self.who.name, &self.who.email].map(|it| quoted(it));
        format!(
            "[core]\n{format}\tbare = false\n\tlogAllRefUpdates = false\n\thooksPath = /dev/null\n\tfsmonitor = false\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[user]\n\tname = \"{name}\"\n\temail = \"{email}\"\n"
        )
    }

    /// The user's references, as git packs them.
    fn references(&self) -> io::Result<String> {
        let mut all = Vec::new();
        for prefix in SHOWN {
            all.extend(self.repo.refs(prefix).map_err(io::Error::other)?);
        }
        all.retain(|(name, _)| !HIDDEN.iter().any(|it| name.starts_with(it)));
        all.sort();
        let lines: String = all.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
        Ok(format!("# pack-refs with: sorted \n{lines}"))
    }

    /// The index of a commit: the one of `head` with what differs, or a new one.
    fn index(
        &self,
        git: &Path,
        head: Option<Oid>,
        commit: Oid,
        stat: &dyn Fn(&Path) -> [u32; 10],
    ) -> io::Result<Vec<u8>> {
        let tree = |commit: Oid| self.repo.commit(commit).map(|it| it.tree);
        let changes = |from: Oid, to: Oid| diff(&*self.repo, from, to).map_err(io::Error::other);
        let to = tree(commit).map_err(io::Error::other)?;
        let old = head.and_then(|head| Some((tree(head).ok()?, fs::read(git.join("index")).ok()?)));
        if let Some((from, old)) = old {
            let differ = entries(changes(from, to)?, &|_| [0; 10]);
            if let Ok(index) = index(Some(&old), &differ, commit) {
                return Ok(index);
            }
        }
        index(None, &entries(changes(empty_tree(), to)?, stat), commit).map_err(io::Error::other)
    }
}

/// Changes of trees as changes of an index. Records of sessions aren't expected on the bench.
fn entries(changes: Vec<Changed>, stat: &dyn Fn(&Path) -> [u32; 10]) -> BTreeMap<Vec<u8>, Option<IndexEntry>> {
    let entry = |it: Changed| {
        let is_skipped = it.path.starts_with(RECORDS);
        let stat = if is_skipped { [0; 10] } else { stat(&it.path) };
        let entry = it.new.map(|(mode, id)| IndexEntry { mode, id, stat, is_skipped });
        (it.path.into_os_string().as_bytes().to_vec(), entry)
    };
    changes.into_iter().map(entry).collect()
}

/// Replaces a file at once: an earlier command may still see it.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::{Bench, Draft};
    use super::*;
    use crate::git::Mode;

    fn git(at: &Path, more: &[(&str, &Path)], arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=p", "-c", "user.email=p@example.org"]).args(arguments).current_dir(at);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").envs(more.iter().copied());
        let done = command.output().expect("git runs");
        assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
    }

    #[test]
    fn git_on_a_bench_shows_the_sessions_commit_and_what_differs_from_it() {
        for format in ["sha1", "sha256"] {
            let dir = crate::git::in_memory();
            let ws = dir.path().join("ws");
            fs::create_dir_all(ws.join("deep")).expect("a directory");
            git(&ws, &[], &["init", "-q", "-b", "main", "--object-format", format]);
            let long = "n".repeat(200);
            for (path, text) in [("a.txt", "a\n"), ("deep/b.txt", "b\n"), (&*long, "c\n"), ("z", "z\n")] {
                fs::write(ws.join(path), text).expect("a file");
            }
            git(&ws, &[], &["add", "-A"]);
            git(&ws, &[], &["commit", "-q", "-m", "first"]);
            git(&ws, &[], &["branch", "reedclaw/session/other"]);
            let repo = Arc::new(Repo::open(&ws).expect("a repository"));
            let head = |rev: &str| oid_of(&git(&ws, &[], &["rev-parse", rev])).expect("a commit");
            let tree = |rev: &str| repo.commit(head(rev)).expect("a commit").tree;
            let draft = Arc::new(Draft::on(repo.clone(), tree("HEAD"), &ws, None));
            draft.note_commit(head("HEAD"));
            draft.exclude(vec!["mine".to_owned()]);
            let bench = Bench::new(dir.path().join("bench"), None, draft.clone())
                .with_git(repo.clone(), Identity { name: "A \"B\" \\C".into(), email: "a@b".into() });
            let objects = ws.join(".git/objects");
            let there = |arguments: &[&str]| {
                let layer = dir.path().join("bench.git/.git");
                let places = [("GIT_DIR", &*layer), ("GIT_WORK_TREE", bench.dir())];
                let places = [places.as_slice(), &[("GIT_ALTERNATE_OBJECT_DIRECTORIES", &*objects)]].concat();
                git(bench.dir(), &places, arguments)
            };
            bench.ready().expect("ready");
            assert_eq!(there(&["status", "--porcelain"]), "");
            assert_eq!(there(&["log", "--format=%s"]), "first");
            assert_eq!(there(&["show", "--no-patch", "--format=%D", "main"]), "HEAD, main");
            assert_eq!(there(&["branch", "--format=%(refname:short)"]).lines().last(), Some("main"));
            draft.put(Path::new("a.txt"), Some((Mode::File, b"A\n"))).expect("put");
            draft.put(Path::new("z"), None).expect("put");
            bench.ready().expect("ready");
            fs::write(bench.dir().join("new"), "n").expect("a file");
            fs::write(bench.dir().join("mine"), "n").expect("a file");
            assert_eq!(there(&["status", "--porcelain"]), " M a.txt\n D z\n?? new");
            // The session continues: a commit with a record, whose files the bench doesn't have.
            let record = ws.join(RECORDS).join("id");
            fs::create_dir_all(&record).expect("a directory");
            fs::write(record.join("session.json"), "{}").expect("a file");
            fs::write(ws.join("a.txt"), "A\n").expect("a file");
            fs::write(ws.join("a0"), "0\n").expect("a file");
            fs::remove_file(ws.join("z")).expect("gone");
            git(&ws, &[], &["add", "-A"]);
            git(&ws, &[], &["commit", "-q", "-m", "second"]);
            draft.start_over(tree("HEAD"));
            draft.note_commit(head("HEAD"));
            bench.ready().expect("ready");
            assert_eq!(there(&["status", "--porcelain"]), "?? new", "{format}");
            assert_eq!(there(&["log", "--format=%s"]), "second\nfirst");
            assert_eq!(there(&["ls-files", "-v", RECORDS]), format!("S {RECORDS}/id/session.json"));
            there(&["fsck", "--strict", "--no-dangling"]);
        }
    }
}
