//! References in tables (reftable), which the library can't read: git's program answers each query in a process of its own. Its
//! configuration comes from the repository, and none of the hooks that could run does.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::program::{Program, Ran, run_with};
use super::{GitError, Head, Identity, LOCKED_MAX, Oid, PAUSE, PAUSE_MAX, oid_of, other};

/// The references of a repository.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    git: PathBuf,
    git_dir: PathBuf,
}

/// Successful output as text without the end of its last line.
fn text(ran: &Ran) -> Option<String> {
    (ran.status == Some(0)).then(|| String::from_utf8_lossy(ran.out.trim_ascii_end()).into_owned())
}

fn failed(ran: &Ran) -> GitError {
    other(ran.err.trim().replace('\n', " "))
}

impl Tables {
    /// The references of the repository with this directory; `None` if git isn't installed.
    pub(super) fn of(git_dir: &Path) -> Option<Self> {
        let git = Program::find(&BTreeMap::new())?.path;
        Some(Self { git, git_dir: git_dir.to_owned() })
    }

    fn run(&self, words: &[&str], input: &[u8], who: Option<&Identity>) -> Result<Ran, GitError> {
        let mut command = Command::new(&self.git);
        command.env_clear().envs([("LC_ALL", "C"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
        command.envs([("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_GRAFT_FILE", "/dev/null")]);
        command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_DIR", &self.git_dir).current_dir(&self.git_dir);
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]).args(words);
        if let Some(who) = who {
            command.env("GIT_COMMITTER_NAME", &who.name).env("GIT_COMMITTER_EMAIL", &who.email);
        }
        run_with(command, input)
    }

    fn output(&self, words: &[&str]) -> Result<Option<String>, GitError> {
        Ok(text(&self.run(words, b"", None)?))
    }

    pub(super) fn head(&self) -> Result<Head, GitError> {
        Ok(Head { branch: self.link("HEAD"), commit: self.find_commit("HEAD")? })
    }

    pub(super) fn find_commit(&self, revision: &str) -> Result<Option<Oid>, GitError> {
        let commit = format!("{revision}^{{commit}}");
        let found = self.output(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])?;
        Ok(found.as_deref().and_then(oid_of))
    }

    /// Every reference whose name is or begins with `prefix`: name, object, target of a symbolic one.
    fn all(&self, prefix: &str) -> Result<Vec<(String, Oid, String)>, GitError> {
        let pattern = prefix.trim_end_matches('/');
        let ran =
            self.run(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)", "--", pattern], b"", None)?;
        let lines = text(&ran).ok_or_else(|| failed(&ran))?;
        let one = |line: &str| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), oid_of(words.next()?)?, words.next().unwrap_or_default().to_owned()))
        };
        Ok(lines.lines().filter_map(one).collect())
    }

    pub(super) fn tip(&self, name: &str) -> Result<Option<Oid>, GitError> {
        let found = self.all(name)?.into_iter().find(|(it, _, target)| it == name && target.is_empty());
        Ok(found.map(|(_, id, _)| id))
    }

    pub(super) fn refs(&self, prefix: &str) -> Result<Vec<(String, Oid)>, GitError> {
        let own = self.all(prefix)?.into_iter().filter(|(_, _, target)| target.is_empty());
        Ok(own.map(|(name, id, _)| (name, id)).collect())
    }

    pub(super) fn links(&self, prefix: &str) -> Result<Vec<(String, String)>, GitError> {
        let links = self.all(prefix)?.into_iter().filter(|(_, _, target)| !target.is_empty());
        Ok(links.map(|(name, _, target)| (name, target)).collect())
    }

    pub(super) fn link(&self, name: &str) -> Option<String> {
        self.output(&["symbolic-ref", "--quiet", name]).ok()?
    }

    pub(super) fn set_link(&self, name: &str, target: Option<&str>) -> Result<(), GitError> {
        if target.is_some() && self.link(name).is_some() {
            return Err(other(format!("{name} is there already")));
        }
        let words = match target {
            Some(target) => ["symbolic-ref", name, target],
            None => ["symbolic-ref", "--delete", name],
        };
        let ran = self.run(&words, b"", None)?;
        if ran.status == Some(0) { Ok(()) } else { Err(failed(&ran)) }
    }

    /// Moves a reference if it is at `old`; a lock that another process holds is waited for.
    pub(super) fn swap(
        &self,
        name: &str,
        (old, new): (Option<Oid>, Option<Oid>),
        who: &Identity,
    ) -> Result<(), GitError> {
        let order = match (old, new) {
            (Some(old), Some(new)) => format!("update {name} {new} {old}\n"),
            (None, Some(new)) => format!("create {name} {new}\n"),
            (Some(old), None) => format!("delete {name} {old}\n"),
            (None, None) => return Ok(()),
        };
        let (deadline, mut pause) = (Instant::now() + LOCKED_MAX, PAUSE);
        loop {
            let words = ["update-ref", "--no-deref", "-m", "session", "--stdin"];
            let ran = self.run(&words, order.as_bytes(), Some(who))?;
            if ran.status == Some(0) {
                return Ok(());
            }
            let is = self.tip(name)?;
            if is != old {
                return Err(GitError::Moved { name: name.to_owned(), is });
            }
            if !ran.err.contains("lock") || Instant::now() >= deadline {
                return Err(failed(&ran));
            }
            std::thread::park_timeout(pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    pub(super) fn checked_out(&self) -> Vec<(String, PathBuf)> {
        let Ok(ran) = self.run(&["worktree", "list", "--porcelain", "-z"], b"", None) else { return Vec::new() };
        let (mut all, mut at) = (Vec::new(), PathBuf::new());
        for line in ran.out.split(|byte| *byte == 0) {
            if let Some(path) = line.strip_prefix(b"worktree ") {
                at = PathBuf::from(OsStr::from_bytes(path));
            } else if let Some(branch) = line.strip_prefix(b"branch ") {
                all.push((String::from_utf8_lossy(branch).into_owned(), at.clone()));
            }
        }
        all
    }
}
