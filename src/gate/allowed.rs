//! The commands that a person has allowed permanently, per project: the same line, in the same directory, with the same
//! program; and the calls of servers' tools: the same tool, as it was allowed, with the same arguments. The file is in the state
//! directory, never in the project. Knows nothing of risks.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::hash;
use crate::files::{Locked, lock_file, read_plain, replace_private};
use crate::proto::action::KeptPaths;

/// Longest file of rules that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Maximum number of rules of a project.
const RULES_MAX: usize = 1_000;
/// Maximum number of paths of a rule.
const KEPT_MAX: usize = 200;
/// Longest wait for another session that changes the rules: it takes one write.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Reason why rules can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct AllowedError {
    /// The file.
    pub path: PathBuf,
    /// The problem, in words.
    pub why: String,
}

/// The command of a rule that holds for every command.
const EVERY_COMMAND: &str = "";

/// One allowed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The exact line; empty for a rule about the changes of every command.
    pub command: String,
    /// The directory that it runs in, from the project's root.
    pub cwd: String,
    /// The program that its first word stood for.
    pub program: String,
    /// SHA-256 of that program, hexadecimal.
    pub sha256: String,
    /// For a rule about the changes of a command on its copy: the paths, relative to the project's root, whose new content
    /// is applied without asking. A path that ends in `/` includes everything below it, whatever happens there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<String>,
    /// For such a rule, the paths that are removed without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removes: Vec<String>,
    /// For a rule about a tool of a server, the mark of what the person had allowed of it; the command is then its call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pin: String,
}

impl Rule {
    /// Returns whether it is about a tool of a server.
    #[must_use]
    pub fn is_about_server(&self) -> bool {
        !self.pin.is_empty()
    }

    /// Returns whether it is about the changes of a command on its copy; else it lets one run.
    #[must_use]
    pub fn is_about_changes(&self) -> bool {
        !self.keeps.is_empty() || !self.removes.is_empty()
    }
}

/// The contents of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    root: String,
    rules: Vec<Rule>,
}

/// The rules of one project.
#[derive(Debug)]
pub struct Allowed {
    path: PathBuf,
    root: PathBuf,
    rules: Vec<Rule>,
}

impl Allowed {
    /// Reads the rules of the project at `root`, which is canonical.
    ///
    /// # Errors
    /// There is a file and it can't be used: nothing is allowed then.
    pub fn open(state_dir: &Path, root: &Path) -> Result<Self, AllowedError> {
        let mut allowed = Self::at(state_dir, root);
        allowed.refresh()?;
        Ok(allowed)
    }

    /// The rules of the project at `root`, not read yet. As long as their file can't be used nothing is allowed.
    #[must_use]
    pub fn at(state_dir: &Path, root: &Path) -> Self {
        let name = hash::path_name(root);
        let path = state_dir.join("allowed").join(format!("{name}.json"));
        Self { path, root: root.to_owned(), rules: Vec::new() }
    }

    /// Reads the file again: another session, or a person, may have changed it.
    fn read(&self) -> Result<Vec<Rule>, AllowedError> {
        let failed = |why: String| AllowedError { path: self.path.clone(), why };
        let content = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Content::default(),
            Err(error) => return Err(failed(error.to_string())),
            Ok(data) if data.len() > FILE_BYTES_MAX => return Err(failed("it is too long".into())),
            Ok(_) => {
                let text = std::fs::read_to_string(&self.path).map_err(|error| failed(error.to_string()))?;
                serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?
            }
        };
        Ok(content.rules)
    }

    /// Reads changes that others have made since.
    ///
    /// # Errors
    /// As [`Self::open`]; the rules then don't change.
    pub fn refresh(&mut self) -> Result<(), AllowedError> {
        self.rules = self.read()?;
        Ok(())
    }

    /// The rules, in the order in which they were made.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns whether exactly this call is allowed, by the file as it is now: a withdrawal in another session counts
    /// at once.
    #[must_use]
    pub fn allows(&self, command: &str, cwd: &Path, program: &Path) -> bool {
        let rules = self.read().unwrap_or_default();
        let is_same = |rule: &&Rule| rule.command == command && !rule.is_about_changes() && !rule.is_about_server();
        let mut same = rules.iter().filter(is_same).peekable();
        if same.peek().is_none() {
            return false;
        }
        let Some(wanted) = self.rule(command, cwd, program) else { return false };
        same.any(|rule| *rule == wanted)
    }

    /// Returns whether exactly this call of a server's tool is allowed, by the file as it is now.
    #[must_use]
    pub fn allows_served(&self, call: &str, pin: &str) -> bool {
        let rules = self.read().unwrap_or_default();
        rules.iter().any(|rule| rule.is_about_server() && rule.pin == pin && rule.command == call)
    }

    /// Allows a call of a server's tool permanently, as long as the tool is the one with this mark.
    ///
    /// # Errors
    /// The file can't be read or written, or there are too many rules.
    pub fn add_served(&mut self, call: String, pin: String) -> Result<(), AllowedError> {
        let _lock = self.lock()?;
        self.rules = self.read()?;
        // A rule of an earlier yes is of no use.
        self.rules.retain(|rule| !rule.is_about_server() || rule.command != call);
        if self.rules.len() >= RULES_MAX {
            return Err(AllowedError { path: self.path.clone(), why: "there are too many rules".to_owned() });
        }
        let (cwd, program, sha256) = (String::new(), String::new(), String::new());
        self.rules.push(Rule { command: call, cwd, program, sha256, keeps: Vec::new(), removes: Vec::new(), pin });
        self.save()
    }

    /// Returns whether all changes of a command on its copy may be applied, by the file as it is now.
    #[must_use]
    pub fn allows_to_keep(&self, command: &str, paths: &KeptPaths) -> bool {
        let is_below = |rule: &Rule, path: &str| {
            rule.keeps.iter().any(|place| place.ends_with('/') && path.starts_with(place.as_str()))
        };
        let is_covered = |rule: &&Rule| {
            let is_one_of = |paths: &[String], path: &String| paths.contains(path) || is_below(rule, path);
            paths.written.iter().all(|path| is_one_of(&rule.keeps, path))
                && paths.removed.iter().all(|path| is_one_of(&rule.removes, path))
        };
        let rules = self.read().unwrap_or_default();
        let is_of = |rule: &&Rule| rule.command == command || rule.command == EVERY_COMMAND;
        !paths.has_special
            && rules.iter().filter(is_of).filter(|rule| rule.is_about_changes()).any(|it| is_covered(&it))
    }

    /// Allows such changes of a command at these paths to be applied from now on.
    ///
    /// # Errors
    /// The file can't be read or written, or there are too many rules.
    pub fn add_to_keep(&mut self, command: &str, paths: KeptPaths) -> Result<(), AllowedError> {
        let KeptPaths { written: keeps, removed: removes, .. } = paths;
        let _lock = self.lock()?;
        self.rules = self.read()?;
        let failed = |why: &str| AllowedError { path: self.path.clone(), why: why.to_owned() };
        if self.rules.len() >= RULES_MAX || keeps.len() + removes.len() > KEPT_MAX {
            return Err(failed("there are too many rules"));
        }
        let (command, cwd, program, sha256) = (command.to_owned(), String::new(), String::new(), String::new());
        self.rules.push(Rule { command, cwd, program, sha256, keeps, removes, pin: String::new() });
        self.save()
    }

    /// Allows the changes of every command in these directories, each with a slash at its end, to be applied from now on.
    ///
    /// # Errors
    /// As of [`Self::add_to_keep`].
    pub fn add_to_fill(&mut self, directories: Vec<String>) -> Result<(), AllowedError> {
        self.add_to_keep(EVERY_COMMAND, KeptPaths { written: directories, ..KeptPaths::default() })
    }

    /// Allows a command permanently.
    ///
    /// # Errors
    /// The program can't be read, the directory isn't the project's, or the file can't be written.
    pub fn add(&mut self, command: &str, cwd: &Path, program: &Path) -> Result<(), AllowedError> {
        self.add_all(&[(command, cwd, program.to_owned())])
    }

    /// Allows commands permanently, each with its working directory and its program: all of them, or none if there is an error.
    ///
    /// # Errors
    /// Those of [`Self::add`], of any of them.
    pub fn add_all(&mut self, commands: &[(&str, &Path, PathBuf)]) -> Result<(), AllowedError> {
        let failed = |why: &str| AllowedError { path: self.path.clone(), why: why.to_owned() };
        let unreadable = || failed("the program can't be read");
        let new =
            commands.iter().map(|(command, cwd, program)| self.rule(command, cwd, program).ok_or_else(unreadable));
        let new = new.collect::<Result<Vec<Rule>, _>>()?;
        let _lock = self.lock()?;
        let mut rules = self.read()?;
        for rule in new {
            if rules.contains(&rule) {
                continue;
            }
            if rules.len() >= RULES_MAX {
                return Err(failed("there are too many rules"));
            }
            // The program may be another than it was: the old rule is of no use.
            let is_other = |old: &Rule| (&old.command, &old.cwd) != (&rule.command, &rule.cwd);
            rules.retain(|old| is_other(old) || old.is_about_changes() || old.is_about_server());
            rules.push(rule);
        }
        self.rules = rules;
        self.save()
    }

    /// Removes the rules of a command, or the rule of a number in the list (from 1). Returns the number of removed
    /// rules.
    pub fn remove(&mut self, which: &str) -> Result<usize, AllowedError> {
        let _lock = self.lock()?;
        self.rules = self.read()?;
        let before = self.rules.len();
        match which.parse::<usize>() {
            Ok(number) if (1..=before).contains(&number) => {
                self.rules.remove(number - 1);
            }
            _ => self.rules.retain(|rule| rule.command != which),
        }
        let removed = before - self.rules.len();
        if removed > 0 {
            self.save()?;
        }
        Ok(removed)
    }

    /// Keeps other sessions from changing the rules until it is dropped. The lock has a file of its own, for the file of rules
    /// is replaced.
    fn lock(&self) -> Result<Locked<File>, AllowedError> {
        let failed = |error: std::io::Error| AllowedError { path: self.path.clone(), why: error.to_string() };
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let file = lock_file(&self.path.with_extension("lock")).map_err(failed)?;
        Locked::take(file, false, LOCK_WAIT).map_err(|error| match error {
            TryLockError::WouldBlock => failed(std::io::Error::other("another session holds it")),
            TryLockError::Error(error) => failed(error),
        })
    }

    fn rule(&self, command: &str, cwd: &Path, program: &Path) -> Option<Rule> {
        let cwd = cwd.strip_prefix(&self.root).ok()?.to_str()?.to_owned();
        let real = std::fs::canonicalize(program).ok()?;
        let (_, bytes) = read_plain(&real, u64::MAX).ok()?;
        let sha256 = hash::sha256_hex(&bytes);
        let (command, program) = (command.to_owned(), real.to_str()?.to_owned());
        Some(Rule { command, cwd, program, sha256, keeps: Vec::new(), removes: Vec::new(), pin: String::new() })
    }

    /// Writes the rules: all of them or none.
    fn save(&self) -> Result<(), AllowedError> {
        let failed = |error: std::io::Error| AllowedError { path: self.path.clone(), why: error.to_string() };
        let content = Content { root: self.root.display().to_string(), rules: self.rules.clone() };
        let text = serde_json::to_string_pretty(&content).unwrap_or_default() + "\n";
        replace_private(&self.path, text.as_bytes()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_same_call_is_allowed() {
        let top = tempfile::tempdir().expect("a directory");
        let (state, root) = (top.path().join("state"), top.path().join("project"));
        let (program, other) = (top.path().join("tool"), top.path().join("other"));
        std::fs::create_dir_all(root.join("sub")).expect("directories");
        std::fs::write(&program, "one").expect("a program");
        std::fs::write(&other, "one").expect("a program");
        let mut allowed = Allowed::open(&state, &root).expect("none yet");
        allowed.add("tool test", &root, &program).expect("added");
        let allowed = Allowed::open(&state, &root).expect("read back");
        assert!(allowed.allows("tool test", &root, &program));
        assert!(!allowed.allows("tool test ", &root, &program), "another line");
        assert!(!allowed.allows("tool test", &root.join("sub"), &program), "another directory");
        assert!(!allowed.allows("tool test", &root, &other), "another program");
        assert!(!allowed.allows("tool test", top.path(), &program), "outside");
        assert!(!Allowed::open(&state, top.path()).expect("another project").allows("tool test", &root, &program));
        std::fs::write(&program, "two").expect("a changed program");
        assert!(!allowed.allows("tool test", &root, &program), "a program that changed");
    }

    #[test]
    fn changes_are_allowed_only_at_the_paths_that_were_shown() {
        let top = tempfile::tempdir().expect("a directory");
        let mut allowed = Allowed::open(top.path(), top.path()).expect("none yet");
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let paths = |written: &[&str], removed: &[&str]| KeptPaths {
            written: owned(written),
            removed: owned(removed),
            has_special: false,
        };
        let written = |list: &[&str]| paths(list, &[]);
        allowed.add_to_keep("make", paths(&["out/a.o", "out/b.o", "log"], &["old"])).expect("added");
        assert!(allowed.allows_to_keep("make", &paths(&["log", "out/a.o"], &["old"])));
        assert!(!allowed.allows_to_keep("make", &written(&["log", "out/c.o"])), "another path");
        assert!(!allowed.allows_to_keep("make all", &written(&["log"])), "another command");
        assert!(!allowed.allows_to_keep("make", &paths(&[], &["log"])), "it was written, not removed");
        assert!(!allowed.allows_to_keep("make", &written(&["old"])), "it was removed, not written");
        let special = KeptPaths { has_special: true, ..written(&["log"]) };
        assert!(!allowed.allows_to_keep("make", &special), "a link or a mode");
        // Thirty files became their directory, with all that is below it.
        let many: Vec<String> = (0..30).map(|number| format!("src/{number}.o")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        allowed.add_to_keep("cc", written(&many)).expect("added");
        assert!(allowed.allows_to_keep("cc", &written(&many)));
        assert!(!allowed.allows_to_keep("cc", &written(&["src/99.o"])));
        let program = top.path().join("tool");
        std::fs::write(&program, "one").expect("a program");
        assert!(!allowed.allows("make", top.path(), &program), "that it may run is another rule");
        allowed.add_to_fill(vec!["out/".to_owned()]).expect("added");
        assert!(
            allowed.allows_to_keep("anything", &paths(&["out/new.o"], &["out/old.o"])),
            "every command may fill it"
        );
        assert!(!allowed.allows_to_keep("anything", &written(&["out/new.o", "log"])), "and nothing beside it");
        assert!(!allowed.allows("", top.path(), &program), "nothing runs by that rule");
    }

    #[test]
    fn rules_of_another_session_count_at_once_and_arent_lost() {
        let top = tempfile::tempdir().expect("a directory");
        let program = top.path().join("tool");
        std::fs::write(&program, "one").expect("a program");
        let open = || Allowed::open(top.path(), top.path()).expect("rules");
        let (mut here, mut there) = (open(), open());
        here.add("tool a", top.path(), &program).expect("added");
        there.add("tool b", top.path(), &program).expect("added");
        assert!(here.allows("tool b", top.path(), &program) && there.allows("tool a", top.path(), &program));
        there.remove("tool a").expect("removed");
        assert!(!here.allows("tool a", top.path(), &program));
        here.add("tool c", top.path(), &program).expect("added");
        assert!(!open().allows("tool a", top.path(), &program), "an old rule doesn't come back");
        std::fs::write(&here.path, "{").expect("a broken file");
        assert!(!here.allows("tool c", top.path(), &program) && here.add("tool d", top.path(), &program).is_err());
    }

    #[test]
    fn rules_are_withdrawn_by_number_or_line_and_a_broken_file_allows_nothing() {
        let top = tempfile::tempdir().expect("a directory");
        let program = top.path().join("tool");
        std::fs::write(&program, "one").expect("a program");
        let mut allowed = Allowed::open(top.path(), top.path()).expect("none yet");
        for command in ["tool a", "tool b", "tool c"] {
            allowed.add(command, top.path(), &program).expect("added");
        }
        assert_eq!(allowed.remove("2").expect("removed"), 1);
        assert_eq!(allowed.remove("tool a").expect("removed"), 1);
        assert_eq!(allowed.remove("tool x").expect("none"), 0);
        let commands: Vec<_> = allowed.rules().iter().map(|rule| rule.command.as_str()).collect();
        assert_eq!(commands, ["tool c"]);
        std::fs::write(&allowed.path, "{\"root\": 1").expect("a broken file");
        assert!(Allowed::open(top.path(), top.path()).is_err());
    }
}
