//! Git's own program, for the tasks that it does better than a library: merging trees, and moving a branch that is checked out.
//!
//! Merges run in a bare directory of ours with a configuration of ours; the repository's objects are only read through it.
//! So neither the repository's nor the user's configuration is read, and no merge driver, filter or hook runs. Only
//! [`Program::fast_forward`] and [`Program::sign`] run git as the user has configured it, after a person's yes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::{Read, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use gix::refs::FullName;

use super::{GitError, Identity, Oid, Repo, oid_of, other};

/// Longest run of git: a merge of the largest repositories takes seconds.
const TIME: Duration = Duration::from_secs(120);
/// Bytes of an output that are read.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A merge of two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The tree that came out; with marks of conflicts in it if there are conflicts.
    pub tree: Oid,
    /// The conflicts, by path.
    pub conflicts: Vec<Conflict>,
}

/// A file that both sides of a merge changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its path.
    pub path: PathBuf,
    /// Its kind in git's words, such as `contents`, `modify/delete` or `rename/delete`.
    pub kind: String,
}

/// Git's program.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) path: PathBuf,
    env: BTreeMap<OsString, OsString>,
}

pub(super) struct Ran {
    pub(super) status: Option<i32>,
    pub(super) out: Vec<u8>,
    pub(super) err: String,
}

impl Program {
    /// Finds git in the absolute directories of `PATH` in the user's environment.
    #[must_use]
    pub fn find(env: &BTreeMap<OsString, OsString>) -> Option<Self> {
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let found = std::env::split_paths(&path).filter(|it| it.is_absolute()).map(|it| it.join("git"));
        let env = env.iter().filter(|(name, _)| !name.as_bytes().starts_with(b"GIT_"));
        let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
        Some(Self { path: found.into_iter().find(|path| path.is_file())?, env })
    }

    /// Merges two commits as `git merge` would, in memory: neither a reference nor a work tree changes. `base` replaces their
    /// merge base. `bare` is a directory that [`make_bare`] made; new objects go there.
    ///
    /// # Errors
    /// Git can't be run, or can't merge them.
    pub fn merge(&self, bare: &Path, base: Option<Oid>, (ours, theirs): (Oid, Oid)) -> Result<Merged, GitError> {
        self.merge_as(bare, base, [&ours.to_string(), &theirs.to_string()])
    }

    /// Merges as [`Program::merge`] does, and names the sides in the marks of conflicts.
    ///
    /// # Errors
    /// As of [`Program::merge`].
    pub fn merge_named(
        &self,
        bare: &Path,
        base: Option<Oid>,
        [ours, theirs]: [(&str, Oid); 2],
    ) -> Result<Merged, GitError> {
        let called = |(name, id): (&str, Oid)| {
            // A side that isn't a branch, such as HEAD~1, is named by its commit; so is a name that git would read as an option
            // or a commit.
            let is_misread = name.starts_with('-') || name.len() >= 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
            let full = FullName::try_from(format!("refs/heads/{name}")).ok();
            let path =
                full.filter(|_| !is_misread && !bare.join(name).exists()).map(|_| bare.join("refs/heads").join(name));
            let written = path.is_some_and(|path| {
                let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
                made.and_then(|()| std::fs::write(path, format!("{id}\n"))).is_ok()
            });
            if written { name.to_owned() } else { id.to_string() }
        };
        self.merge_as(bare, base, [&called(ours), &called(theirs)])
    }

    fn merge_as(&self, bare: &Path, base: Option<Oid>, sides: [&str; 2]) -> Result<Merged, GitError> {
        let mut command = self.closed(bare);
        command.args(["merge-tree", "--write-tree", "-z", "--name-only", "--messages"]);
        if let Some(base) = base {
            command.arg(format!("--merge-base={base}"));
        }
        command.args(sides);
        let ran = run(command)?;
        let failed = || {
            let line = ran.err.lines().next().unwrap_or("it failed");
            let is_shallow = bare.join("shallow").exists();
            let hint = if is_shallow { "; git fetch --deepen=100 gives this shallow clone older commits" } else { "" };
            GitError::Other(format!("merge-tree: {line}{hint}"))
        };
        if !matches!(ran.status, Some(0 | 1)) {
            return Err(failed());
        }
        let mut parts = ran.out.split(|byte| *byte == 0);
        let tree = parts.next().and_then(|it| oid_of(&String::from_utf8_lossy(it))).ok_or_else(failed)?;
        let path = |part: &[u8]| PathBuf::from(OsStr::from_bytes(part));
        let paths: Vec<PathBuf> = parts.by_ref().take_while(|it| !it.is_empty()).map(path).collect();
        let kinds = conflict_kinds(parts);
        let kind =
            |path: &Path| kinds.iter().find(|(paths, _)| paths.iter().any(|it| it == path)).map(|(_, kind)| kind);
        let conflict =
            |path: PathBuf| Conflict { kind: kind(&path).cloned().unwrap_or_else(|| "contents".into()), path };
        Ok(Merged { tree, conflicts: paths.into_iter().map(conflict).collect() })
    }

    /// Merges three versions of a text; `None` if two of them changed the same lines, or one is no text. The files for it go
    /// to `place`, a directory that [`make_bare`] made.
    ///
    /// # Errors
    /// Git can't be run.
    pub fn merge_texts(&self, place: &Path, [base, ours, theirs]: [&[u8]; 3]) -> Result<Option<Vec<u8>>, GitError> {
        let mut command = self.closed(place);
        command.args(["merge-file", "-p", "-q", "ours", "base", "theirs"]);
        for (name, bytes) in [("base", base), ("ours", ours), ("theirs", theirs)] {
            std::fs::write(place.join(name), bytes).map_err(other)?;
        }
        let ran = run(command)?;
        Ok((ran.status == Some(0)).then_some(ran.out))
    }

    /// Git in a directory of ours, with no configuration but the one there.
    fn closed(&self, bare: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs([("LC_ALL", "C"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
        command.env("GIT_DIR", bare).current_dir(bare);
        command
    }

    /// Moves the branch that is checked out in `work_tree` forward to `commit`, as `git merge --ff-only` does: it refuses to
    /// overwrite local changes, and does filters and hooks as the user has configured them.
    ///
    /// # Errors
    /// Git's own words; nothing has moved then.
    pub fn fast_forward(&self, work_tree: &Path, commit: Oid) -> Result<(), GitError> {
        let mut command = self.as_user(work_tree);
        command.args(["merge", "--ff-only", "--quiet", &commit.to_string()]);
        let ran = run(command)?;
        if ran.status == Some(0) {
            return Ok(());
        }
        Err(GitError::Other(ran.err.trim().replace('\n', " ")))
    }

    /// Makes a repository of a directory, as the user has configured it.
    ///
    /// # Errors
    /// Git's own words.
    pub fn init(&self, directory: &Path) -> Result<(), GitError> {
        let mut command = self.as_user(directory);
        command.args(["init", "--quiet"]);
        let ran = run(command)?;
        if ran.status == Some(0) { Ok(()) } else { Err(GitError::Other(ran.err.trim().replace('\n', " "))) }
    }

    /// The current tree of a checkout, with the new files that git doesn't ignore. `bare` is a directory that [`make_bare`] made,
    /// which gets the objects, and `index` is the path of a private index; the checkout's own index is only read.
    ///
    /// # Errors
    /// Git's own words.
    pub fn tree_of_checkout(
        &self,
        work_tree: &Path,
        repo: &Repo,
        (bare, index): (&Path, &Path),
    ) -> Result<Oid, GitError> {
        match std::fs::copy(repo.git_dir().join("index"), index) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(other(error)),
            _ => {}
        }
        let run_here = |arguments: &[&str]| {
            let mut command = self.as_user(work_tree);
            command.env("GIT_INDEX_FILE", index).env("GIT_OBJECT_DIRECTORY", bare.join("objects"));
            command.env("GIT_OPTIONAL_LOCKS", "0").args(arguments);
            let ran = run(command)?;
            if ran.status == Some(0) { Ok(ran.out) } else { Err(GitError::Other(ran.err.trim().replace('\n', " "))) }
        };
        run_here(&["-c", "core.fsmonitor=false", "-c", "advice.addEmbeddedRepo=false", "add", "-A", "."])?;
        let tree = run_here(&["write-tree"])?;
        oid_of(&String::from_utf8_lossy(&tree)).ok_or_else(|| other("write-tree names no tree"))
    }

    /// Makes a commit of `who` that is signed as the user has configured it.
    ///
    /// # Errors
    /// Git's own words.
    pub fn sign(
        &self,
        work_tree: &Path,
        who: &Identity,
        (tree, parents, message): (Oid, &[Oid], &str),
    ) -> Result<Oid, GitError> {
        let mut command = self.as_user(work_tree);
        for part in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{part}_NAME"), &who.name).env(format!("GIT_{part}_EMAIL"), &who.email);
        }
        command.args(["commit-tree", "-S", "-m", message]);
        for parent in parents {
            command.args(["-p", &parent.to_string()]);
        }
        command.arg(tree.to_string());
        let ran = run(command)?;
        let id = oid_of(&String::from_utf8_lossy(&ran.out)).filter(|_| ran.status == Some(0));
        id.ok_or_else(|| GitError::Other(ran.err.trim().replace('\n', " ")))
    }

    /// Returns whether the repository at a work tree has hooks that check a commit.
    ///
    /// # Errors
    /// Git can't be started.
    pub fn has_commit_hooks(&self, at: &Path) -> Result<bool, GitError> {
        let mut asks = self.as_user(at);
        asks.args(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]);
        let ran = run(asks)?;
        let hooks = PathBuf::from(OsStr::from_bytes(ran.out.trim_ascii_end()));
        // Git runs only executable ones.
        let runs =
            |name: &str| std::fs::metadata(hooks.join(name)).is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0);
        Ok(ran.status == Some(0) && ["pre-commit", "commit-msg"].into_iter().any(runs))
    }

    /// Runs the user's hooks `pre-commit` and `commit-msg` on a commit before it is made: on files of its own below
    /// `place`, with an index of its own. Returns the tree and the message as the hooks leave them. `at` is the work
    /// tree that the hooks belong to.
    ///
    /// # Errors
    /// The words of a hook that refuses, or git's.
    pub fn checked_by_hooks(
        &self,
        (repo, at): (&Repo, &Path),
        place: &Path,
        (tree, message): (Oid, &str),
    ) -> Result<(Oid, String), GitError> {
        let failed = |ran: &Ran| {
            let words = if ran.err.trim().is_empty() {
                String::from_utf8_lossy(&ran.out).into_owned()
            } else {
                ran.err.clone()
            };
            GitError::Other(words.trim().replace('\n', " "))
        };
        if !self.has_commit_hooks(at)? {
            return Ok((tree, message.to_owned()));
        }
        let (files, text) = (place.join("files"), place.join("COMMIT_EDITMSG"));
        DirBuilder::new().recursive(true).mode(0o700).create(&files).map_err(other)?;
        std::fs::write(&text, message).map_err(other)?;
        let run_here = |arguments: &[&OsStr]| {
            let mut command = self.as_user(&files);
            command.env("GIT_DIR", repo.git_dir()).env("GIT_WORK_TREE", &files);
            command.env("GIT_INDEX_FILE", place.join("index")).env("GIT_OPTIONAL_LOCKS", "0").args(arguments);
            let ran = run(command)?;
            if ran.status == Some(0) { Ok(ran.out) } else { Err(failed(&ran)) }
        };
        let words = |text: &'static str| text.split(' ').map(OsStr::new).collect::<Vec<_>>();
        run_here(&[OsStr::new("read-tree"), OsStr::new(&tree.to_string())])?;
        run_here(&words("checkout-index -q -a -u"))?;
        run_here(&words("hook run --ignore-missing pre-commit"))?;
        let hook = words("hook run --ignore-missing commit-msg --");
        run_here(&[&hook[..], &[text.as_os_str()]].concat())?;
        let tree = run_here(&words("write-tree"))?;
        let tree = oid_of(&String::from_utf8_lossy(&tree)).ok_or_else(|| other("write-tree names no tree"))?;
        Ok((tree, std::fs::read_to_string(&text).map_err(other)?))
    }

    fn as_user(&self, work_tree: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs(&self.env).env("GIT_TERMINAL_PROMPT", "0").env("GIT_PAGER", "cat");
        // The plan was made of the objects as they were committed.
        command.env("GIT_NO_REPLACE_OBJECTS", "1");
        command.current_dir(work_tree);
        command
    }
}

/// Makes a bare repository of ours at `path`, with a configuration of ours, that reads the objects of `repo`.
///
/// # Errors
/// It can't be written.
pub fn make_bare(path: &Path, repo: &Repo) -> std::io::Result<()> {
    for path in [path.join("objects/info"), path.join("refs")] {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    let mut alternates = repo.common_dir().join("objects").into_os_string().into_encoded_bytes();
    alternates.push(b'\n');
    std::fs::write(path.join("objects/info/alternates"), alternates)?;
    if repo.is_shallow() {
        // Otherwise git would look for the parents of its oldest commits.
        std::fs::copy(repo.common_dir().join("shallow"), path.join("shallow"))?;
    }
    std::fs::write(path.join("HEAD"), "ref: refs/heads/none\n")?;
    let format = match repo.hash() {
        gix::hash::Kind::Sha1 => "0\n",
        _ => "1\n[extensions]\n\tobjectFormat = sha256\n",
    };
    std::fs::write(path.join("config"), format!("[core]\n\tbare = true\n\trepositoryformatversion = {format}"))
}

fn run(command: Command) -> Result<Ran, GitError> {
    run_with(command, b"")
}

/// Runs git with a short input, which must fit into a pipe's buffer.
pub(super) fn run_with(mut command: Command, input: &[u8]) -> Result<Ran, GitError> {
    let deadline = Instant::now() + TIME;
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(other)?;
    if let Some(mut pipe) = child.stdin.take() {
        // If git has already ended, its output has the reason.
        let _ = pipe.write_all(input);
    }
    // Git has ended when both of its outputs have: no look at it in between is needed.
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            }
            let _ = sender.send(bytes);
        });
        receiver
    };
    let out = read(child.stdout.take().map(|it| Box::new(it) as Box<dyn Read + Send>));
    let err = read(child.stderr.take().map(|it| Box::new(it) as Box<dyn Read + Send>));
    let heard = |it: Receiver<Vec<u8>>| it.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    let (Ok(out), Ok(err)) = (heard(out), heard(err)) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(GitError::Other(format!("it ran for more than {} s and was ended", TIME.as_secs())));
    };
    let status = child.wait().map_err(other)?;
    Ok(Ran { status: status.code(), out, err: String::from_utf8_lossy(&err).into_owned() })
}

/// Reads the messages of git-merge-tree(1): the number of paths, the paths, the type, and the message of each. Returns the
/// conflicts among them.
fn conflict_kinds<'o>(mut parts: impl Iterator<Item = &'o [u8]>) -> Vec<(Vec<PathBuf>, String)> {
    let mut kinds = Vec::new();
    while let Some(count) = parts.next().and_then(|it| std::str::from_utf8(it).ok()?.parse::<usize>().ok()) {
        let paths = parts.by_ref().take(count).map(|it| PathBuf::from(OsStr::from_bytes(it))).collect();
        let (Some(kind), Some(_)) = (parts.next(), parts.next()) else { break };
        let kind = String::from_utf8_lossy(kind);
        if let Some(kind) = kind.strip_prefix("CONFLICT (").and_then(|it| it.strip_suffix(')')) {
            kinds.push((paths, kind.to_owned()));
        }
    }
    kinds
}
