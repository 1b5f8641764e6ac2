//! Git's state in one line. No program that a repository names runs, nothing is fetched and no lock is taken.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::project::repository::program::{GitOptions, Quiet, Trouble};

/// Time limit for a run of git; no question waits that long.
const TIME: Duration = Duration::from_secs(2);
/// The words for a checkout in which everything is committed.
const NOTHING: &str = "nothing changed";
/// Limit on the bytes read of its output: some thousands of changed files.
const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

/// A running request to git.
#[derive(Debug)]
pub(in crate::project) struct Asked {
    pub root: PathBuf,
    receiver: Receiver<Result<String, Trouble>>,
    pub since: Instant,
}

impl Asked {
    /// Asks git on a separate thread.
    pub(in crate::project) fn begin(root: &Path, options: &GitOptions) -> Self {
        let (sender, receiver) = channel();
        let (own_root, options) = (root.to_owned(), options.clone());
        std::thread::spawn(move || {
            let _ = sender.send(read(&own_root, &options));
        });
        Self { root: root.to_owned(), receiver, since: Instant::now() }
    }

    /// The result, if it arrives within `time` of the start.
    pub(in crate::project) fn wait(&self, time: Duration) -> Option<Result<String, Trouble>> {
        match self.receiver.recv_timeout(time.saturating_sub(self.since.elapsed())) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(Trouble::NoGit)),
        }
    }
}

/// Counts the uncommitted files of the checkout at `root`, in words; empty if there are none. `None` if git can't answer in this
/// time.
#[must_use]
pub fn uncommitted(root: &Path, options: &GitOptions, time: Duration) -> Option<String> {
    let answer = Asked::begin(root, options).wait(time)?.ok()?;
    let counts = answer.rsplit_once("; ").map_or("", |(_, counts)| counts);
    Some(if counts == NOTHING { String::new() } else { counts.to_owned() })
}

/// Asks git for its state.
pub(in crate::project) fn read(root: &Path, options: &GitOptions) -> Result<String, Trouble> {
    let git = Quiet::new(root, options, TIME)?;
    let status = "status --porcelain=v2 --branch -z --no-renames --ignore-submodules=all --untracked-files=normal";
    let words: Vec<&str> = status.split(' ').collect();
    git.output(&words, OUTPUT_BYTES_MAX).map(|output| in_words(&output.text()))
}

/// The state in words.
fn in_words(porcelain: &str) -> String {
    let (mut branch, mut ahead) = (String::from("no branch"), String::new());
    let (mut staged, mut changed, mut untracked, mut conflicts) = (0, 0, 0, 0);
    for line in porcelain.split('\0') {
        if let Some(name) = line.strip_prefix("# branch.head ") {
            branch = if name == "(detached)" { "no branch".to_owned() } else { format!("branch {name}") };
        } else if let Some((plus, minus)) = line.strip_prefix("# branch.ab ").and_then(|it| it.split_once(' ')) {
            let count = |text: &str| text[1..].parse::<u64>().unwrap_or(0);
            ahead = match (count(plus), count(minus)) {
                (0, 0) => String::new(),
                (ahead, 0) => format!(", {ahead} ahead"),
                (0, behind) => format!(", {behind} behind"),
                (ahead, behind) => format!(", {ahead} ahead, {behind} behind"),
            };
        } else if line.starts_with("u ") {
            conflicts += 1;
        } else if line.starts_with("? ") {
            untracked += 1;
        } else if let Some(state) = line.strip_prefix("1 ").or_else(|| line.strip_prefix("2 ")) {
            staged += u64::from(!state.starts_with('.'));
            changed += u64::from(state.as_bytes().get(1) != Some(&b'.'));
        }
    }
    let counts = [(conflicts, "in conflict"), (staged, "staged"), (changed, "changed"), (untracked, "untracked")];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let counts = if counts.is_empty() { NOTHING.to_owned() } else { counts.join(", ") };
    format!("{branch}{ahead}; {counts}")
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use crate::project::repository::program::{filters, find_git};
    use crate::project::tests::{git_options, repository};

    #[test]
    fn porcelain_becomes_words() {
        let table = [
            ("# branch.oid x\0# branch.head main\0", "branch main; nothing changed"),
            ("# branch.head (detached)\0? a\0", "no branch; 1 untracked"),
            (
                "# branch.head m\0# branch.ab +2 -1\x001 M. N x a\x001 .M N x b\x001 MM N x c\0u UU x\0",
                "branch m, 2 ahead, 1 behind; 1 in conflict, 2 staged, 2 changed",
            ),
            ("# branch.head m\0# branch.ab +0 -3\0", "branch m, 3 behind; nothing changed"),
            ("", "no branch; nothing changed"),
        ];
        for (porcelain, line) in table {
            assert_eq!(in_words(porcelain), line);
        }
        assert_eq!(
            filters("core.bare\0filter.a.b.clean\0filter.lfs.process\0filter.lfs.smudge\0filter\0"),
            ["a.b", "lfs"]
        );
    }

    #[test]
    fn no_program_of_the_repository_runs() {
        let dir = repository(&[("a.txt", "one\n"), (".gitattributes", "*.txt filter=evil\n")]);
        let trace = dir.path().join("../").join(format!("{}-ran", dir.path().file_name().unwrap().to_string_lossy()));
        let evil = dir.path().join("evil.sh");
        fs::write(&evil, format!("#!/bin/sh\necho \"$0 $*\" >>{}\ncat\n", trace.display())).unwrap();
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
        let config = dir.path().join(".git/config");
        let evil = evil.display();
        let more = format!(
            "[core]\n\tfsmonitor = {evil}\n\thooksPath = {}\n[filter \"evil\"]\n\tclean = {evil}\n\tprocess = {evil}\n\t\
             required = true\n[include]\n\tpath = more\n",
            dir.path().display()
        );
        fs::write(&config, fs::read_to_string(&config).unwrap() + &more).unwrap();
        fs::write(dir.path().join(".git/more"), format!("[filter \"second\"]\n\tclean = {evil}\n")).unwrap();
        fs::write(dir.path().join(".gitattributes"), "a.txt filter=evil\nb.txt filter=second\n").unwrap();
        // The same size and another time: git must compare the content.
        fs::write(dir.path().join("a.txt"), "two\n").unwrap();
        fs::write(dir.path().join("git"), "#!/bin/sh\nexit 7\n").unwrap();
        let line = read(&dir.path().canonicalize().unwrap(), &git_options("/usr/bin:/bin")).unwrap();
        assert_eq!(line, "branch main; 2 changed, 2 untracked");
        assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
        // The trap works: plain git runs the filter.
        let plain = Command::new("git").args(["status", "--short"]).current_dir(dir.path()).output().unwrap();
        assert!(trace.exists(), "{plain:?}");
        fs::remove_file(&trace).unwrap();
    }

    #[test]
    fn a_git_of_the_repository_and_one_of_a_relative_path_are_passed_over() {
        let dir = repository(&[("bin/git", "#!/bin/sh\n")]);
        fs::set_permissions(dir.path().join("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
        let root = dir.path().canonicalize().unwrap();
        let env = |path: String| vec![(OsString::from("PATH"), OsString::from(path))];
        assert_eq!(find_git(&root, &env(format!("{}/bin:bin:.", root.display()))), None);
        assert!(
            find_git(&root, &env(format!("{}/bin:/usr/bin", root.display())))
                .is_some_and(|git| git.starts_with("/usr"))
        );
        assert_eq!(read(&root, &git_options("/nonexistent")), Err(Trouble::NoGit));
    }

    #[test]
    fn a_slow_git_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("git");
        fs::write(&git, "#!/bin/sh\nexec sleep 60\n").unwrap();
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            read(root.path(), &git_options(&format!("{}:/bin:/usr/bin", dir.path().display()))),
            Err(Trouble::Slow)
        );
    }

    /// A repository whose files pass through a filter that leaves a mark outside, its config, and the path of the mark.
    fn trapped() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = repository(&[("r/a.txt", "one\n")]);
        let root = dir.path().canonicalize().unwrap();
        let (evil, mark) =
            (root.join("evil.sh"), root.join("../").join(format!("{}-mark", root.file_name().unwrap().display())));
        fs::write(&evil, format!("#!/bin/sh\necho ran >>{}\ncat\n", mark.display())).unwrap();
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
        // The same size and another time: git must compare the content.
        fs::write(root.join("r/a.txt"), "two\n").unwrap();
        (dir, root, mark)
    }

    fn append(path: &Path, bytes: &[u8]) {
        let mut all = fs::read(path).unwrap_or_default();
        all.extend(bytes);
        fs::write(path, all).unwrap();
    }

    /// Checks that nothing runs for us, and that plain git runs the filter, so that the trap works.
    #[track_caller]
    fn is_refused(root: &Path, mark: &Path) {
        assert_eq!(read(root, &git_options("/usr/bin:/bin")), Err(Trouble::Unreadable));
        assert_eq!(crate::project::changes(root, &git_options("/usr/bin:/bin")), Err(Trouble::Unreadable));
        assert!(!mark.exists());
        let plain = Command::new("git").args(["status", "--short"]).current_dir(root).output().unwrap();
        assert!(mark.exists(), "{plain:?}");
        fs::remove_file(mark).unwrap();
    }

    /// Converted to text, such a name becomes another one, so an option would override nothing.
    #[test]
    fn a_filter_whose_name_is_no_utf8_isnt_run() {
        let (_dir, root, mark) = trapped();
        append(&root.join(".gitattributes"), b"*.txt filter=e\xffvil\n");
        let mut section = b"[filter \"e\xffvil\"]\n\tclean = ".to_vec();
        section.extend(format!("{}/evil.sh\n", root.display()).as_bytes());
        append(&root.join(".git/config"), &section);
        is_refused(&root, &mark);
        // The same in a file that the config includes.
        let (_dir, root, mark) = trapped();
        append(&root.join(".git/info/attributes"), b"*.txt filter=e\xffvil\n");
        append(&root.join(OsStr::from_bytes(b".git/mor\xff")), &section_of(&root));
        append(&root.join(".git/config"), b"[include]\n\tpath = mor\xff\n");
        is_refused(&root, &mark);
    }

    fn section_of(root: &Path) -> Vec<u8> {
        [b"[filter \"e\xffvil\"]\n\tclean = ", format!("{}/evil.sh\n", root.display()).as_bytes()].concat()
    }

    /// Names beyond the part that is read of a long list weren't overridden.
    #[test]
    fn a_filter_after_a_megabyte_of_other_names_isnt_run() {
        let (_dir, root, mark) = trapped();
        append(&root.join(".gitattributes"), b"*.txt filter=evil\n");
        let padding: String = (0..5_600).map(|at| format!("[pad \"{}{at}\"]\n\tk = v\n", "x".repeat(200))).collect();
        let evil = format!("[filter \"evil\"]\n\tclean = {}/evil.sh\n", root.display());
        append(&root.join(".git/config"), (padding + &evil).as_bytes());
        is_refused(&root, &mark);
    }

    /// A clone may contain a bare repository with a config of its own; git must not use it.
    #[test]
    fn a_bare_repository_inside_another_is_none() {
        let dir = repository(&[("a.txt", "one\n")]);
        let (root, mark) = (dir.path().canonicalize().unwrap(), tempfile::tempdir().unwrap());
        let (bare, mark) = (root.join("docs/example"), mark.path().join("ran"));
        fs::create_dir_all(&bare).unwrap();
        let git = |words: &[&str], cwd: &Path| Command::new("git").args(words).current_dir(cwd).output().unwrap();
        assert!(git(&["init", "-q", "--bare", "."], &bare).status.success());
        fs::create_dir_all(mark.parent().unwrap()).unwrap();
        fs::write(bare.join("plant.sh"), format!("echo ran >{}\n", mark.display())).unwrap();
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"sh plant.sh; false\"\n";
        fs::write(bare.join("config"), config).unwrap();
        fs::write(bare.join("README.md"), "# docs\n").unwrap();
        let options = git_options("/usr/bin:/bin");
        assert_eq!(read(&bare, &options), Err(Trouble::NoGit));
        assert_eq!(crate::project::changes(&bare, &options), Err(Trouble::NoGit));
        assert_eq!(read(&root, &options), Ok("branch main; 1 untracked".to_owned()));
        assert!(!mark.exists());
        git(&["status", "--short"], &bare);
        assert!(mark.exists(), "the trap works: plain git runs it");
    }
}
