//! Which files of a repository are worked on most, from its history. Only git's plumbing runs, which heeds neither pager
//! nor signature checks of the config; what compares or converts by a program of the repository's is switched off.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::program::{Trouble, command, find_git};

/// Newest commits that are looked at, merges apart.
pub const COMMITS_MAX: usize = 5_000;
/// Newest commits of which changed lines are counted: that costs git some times what names do.
pub const COMMITS_WITH_LINES: usize = 50;
/// A commit that changes more files than this tells of a mass change, not of work on them.
const FILES_MAX: usize = 300;
/// Days after which a change counts half.
const HALF_LIFE_DAYS: f64 = 90.0;
const DAY_S: f64 = 86_400.0;
/// Most processes at once.
const PROCESSES_MAX: usize = 4;
/// Bytes of one process's output that are read: 5,000 commits of a large repository are some 10 MB.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How often it is asked whether to stop.
const TICK: Duration = Duration::from_millis(20);

/// How much a file has been worked on.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Its path, from the directory that was asked about; it may be gone by now.
    pub path: PathBuf,
    /// Commits that changed it, of the newest [`COMMITS_MAX`].
    pub commits: usize,
    /// Lines that came or went in the newest [`COMMITS_WITH_LINES`].
    pub lines: usize,
    /// When it was last changed, in seconds of Unix time.
    pub last_unix_s: i64,
    /// One for each commit, more for one that changed many lines, half for each 90 days before the newest commit.
    pub score: f64,
}

/// How long a look may take.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The time.
    pub time: Duration,
    /// Whether it is to stop.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Asks git which files below a directory are worked on most, those first.
///
/// # Errors
/// There is no repository, no git or no commit; it took too long or was stopped.
pub fn heat(root: &Path, env: &[(OsString, OsString)], bounds: Bounds<'_>) -> Result<Vec<Heat>, Trouble> {
    if (bounds.is_stopped)() {
        return Err(Trouble::Stopped);
    }
    let deadline = Instant::now() + bounds.time;
    let git = find_git(root, env).ok_or(Trouble::NoGit)?;
    let git = |words: &str| command(&git, root, env, &words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let list = git(&format!("rev-list --no-merges --timestamp --max-count={COMMITS_MAX} HEAD --"));
    let list = outputs(vec![(list, Vec::new())], deadline, bounds)?.concat();
    let list = String::from_utf8_lossy(&list);
    let commits = commits(&list);
    let diff =
        "diff-tree --stdin --root -r -z --relative --no-renames --no-ext-diff --no-textconv --ignore-submodules=all";
    let asked = |commits: &[Commit<'_>], how: &str| {
        let names: String = commits.iter().flat_map(|commit| [commit.name, "\n"]).collect();
        (git(&format!("{diff} {how}")), names.into_bytes())
    };
    let (newest, older) = commits.split_at(commits.len().min(COMMITS_WITH_LINES));
    let processes = std::thread::available_parallelism().map_or(1, usize::from).min(PROCESSES_MAX);
    let mut parts = vec![asked(newest, "--numstat")];
    parts.extend(older.chunks(older.len().div_ceil(processes).max(1)).map(|part| asked(part, "--name-only")));
    let outputs = outputs(parts, deadline, bounds)?;
    Ok(weighed(&commits, &outputs))
}

/// A commit, by its name.
struct Commit<'a> {
    name: &'a str,
    unix_s: i64,
}

fn commits(list: &str) -> Vec<Commit<'_>> {
    let commit = |line| {
        let (time, name) = str::split_once(line, ' ')?;
        Some(Commit { name, unix_s: time.parse().ok()? })
    };
    list.lines().filter_map(commit).collect()
}

/// Reads what `diff-tree -z` says: the name of a commit, then its files, each with the lines that came and went where these
/// were counted.
fn weighed(commits: &[Commit<'_>], outputs: &[Vec<u8>]) -> Vec<Heat> {
    use std::os::unix::ffi::OsStrExt;
    let times: HashMap<&[u8], i64> = commits.iter().map(|commit| (commit.name.as_bytes(), commit.unix_s)).collect();
    let newest = commits.iter().map(|commit| commit.unix_s).max().unwrap_or(0);
    let mut files: HashMap<&[u8], Heat> = HashMap::new();
    for output in outputs {
        let mut records = output.split(|byte| *byte == 0).filter(|record| !record.is_empty()).peekable();
        while let Some(record) = records.next() {
            let Some(time) = times.get(record) else { continue };
            let mut changed = Vec::new();
            while let Some(record) = records.next_if(|record| !times.contains_key(record)) {
                changed.push(record);
            }
            if changed.len() > FILES_MAX {
                continue;
            }
            let age_days = (newest - time).max(0) as f64 / DAY_S;
            let weight = 0.5_f64.powf(age_days / HALF_LIFE_DAYS);
            for record in changed {
                let (lines, path) = counted(record);
                let heat = files.entry(path).or_insert_with(|| Heat {
                    path: std::ffi::OsStr::from_bytes(path).into(),
                    commits: 0,
                    lines: 0,
                    last_unix_s: *time,
                    score: 0.0,
                });
                heat.commits += 1;
                heat.lines += lines;
                heat.last_unix_s = heat.last_unix_s.max(*time);
                heat.score += weight * (1.0 + (1.0 + lines as f64).log10());
            }
        }
    }
    let mut files: Vec<Heat> = files.into_values().collect();
    files.sort_unstable_by(|left, right| right.score.total_cmp(&left.score).then_with(|| left.path.cmp(&right.path)));
    files
}

/// The lines in front of a path, and the path: `ADDED TAB DELETED TAB PATH`, `-` for a binary file; or a path alone.
fn counted(record: &[u8]) -> (usize, &[u8]) {
    let mut parts = record.splitn(3, |byte| *byte == b'\t');
    let number = |part: Option<&[u8]>| {
        let text = std::str::from_utf8(part?).ok()?;
        if text == "-" { Some(0) } else { text.parse::<usize>().ok() }
    };
    match (number(parts.next()), number(parts.next()), parts.next()) {
        (Some(added), Some(deleted), Some(path)) => (added + deleted, path),
        _ => (0, record),
    }
}

/// Runs these side by side, each with its input; gives what they print.
fn outputs(parts: Vec<(Command, Vec<u8>)>, deadline: Instant, bounds: Bounds<'_>) -> Result<Vec<Vec<u8>>, Trouble> {
    let mut children: Vec<Child> = Vec::new();
    let mut inputs = Vec::new();
    for (mut command, input) in parts {
        match command.stdin(Stdio::piped()).spawn() {
            Ok(child) => children.push(child),
            Err(_) => {
                end(&mut children);
                return Err(Trouble::NoGit);
            }
        }
        inputs.push(input);
    }
    let mut outputs = vec![Vec::new(); children.len()];
    let mut trouble = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for ((child, input), output) in children.iter_mut().zip(inputs).zip(&mut outputs) {
            let (stdin, stdout, sender) = (child.stdin.take(), child.stdout.take(), sender.clone());
            // Where it is ended early, its input is closed under the writer, which is no matter then.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
            scope.spawn(move || {
                let read = stdout.map(|stdout| stdout.take(OUTPUT_BYTES_MAX).read_to_end(output));
                drop((read, sender));
            });
        }
        drop(sender);
        while receiver.recv_timeout(TICK) == Err::<(), _>(RecvTimeoutError::Timeout) {
            let why = if (bounds.is_stopped)() {
                Trouble::Stopped
            } else if Instant::now() > deadline {
                Trouble::Slow
            } else {
                continue;
            };
            trouble = trouble.or(Some(why));
            for child in &mut children {
                let _ = child.kill();
            }
        }
    });
    let have_ended: Vec<bool> =
        children.iter_mut().map(|child| child.wait().is_ok_and(|status| status.success())).collect();
    let is_full = |output: &Vec<u8>| output.len() as u64 == OUTPUT_BYTES_MAX;
    match trouble {
        Some(trouble) => Err(trouble),
        None if have_ended.iter().zip(&outputs).all(|(ended, output)| *ended || is_full(output)) => Ok(outputs),
        None => Err(Trouble::NoGit),
    }
}

fn end(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{options, repository};
    use super::*;

    const NEVER: Bounds<'static> = Bounds { time: Duration::from_secs(60), is_stopped: &|| false };

    #[test]
    fn what_git_says_becomes_weights() {
        let list = format!("{} aa\n{} bb\n{} cc\nno commit\n", 91 * 86_400, 90 * 86_400, 86_400);
        let commits = commits(&list);
        assert_eq!(commits.len(), 3);
        let lines = b"aa\x009\t0\tsrc/a\0-\t-\tpicture\0bb\x004\t5\tsrc/a\0".to_vec();
        let names = b"cc\0src/a\0src/b\tc\0".to_vec();
        let files = weighed(&commits, &[lines, names]);
        let told: Vec<_> = files.iter().map(|it| (it.path.to_str().unwrap_or(""), it.commits, it.lines)).collect();
        assert_eq!(told, [("src/a", 3, 18), ("picture", 1, 0), ("src/b\tc", 1, 0)]);
        let day = 0.5_f64.powf(1.0 / 90.0);
        assert!((files[0].score - (2.0 + 2.0 * day + 0.5)).abs() < 1e-9, "{}", files[0].score);
        assert_eq!((files[0].last_unix_s, files[2].last_unix_s), (91 * 86_400, 86_400));
        let mass: String = (0..=FILES_MAX).map(|file| format!("f{file}\0")).collect();
        assert_eq!(weighed(&commits, &[format!("aa\0{mass}bb\0only\0").into_bytes()]).len(), 1);
    }

    #[test]
    fn a_repository_tells_and_runs_no_program() {
        let dir = repository(&[("a.txt", "one\n"), ("sub/b.txt", "two\n"), (".gitattributes", "*.txt diff=evil\n")]);
        let at = |name: &str| dir.path().join(name);
        fs::write(at("evil"), format!("#!/bin/sh\necho ran >>{}\ncat \"$1\"\n", at("ran").display())).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(at("evil"), mode).expect("permissions");
        let evil = at("evil").display().to_string();
        let config = fs::read_to_string(at(".git/config")).expect("a config");
        let more = format!(
            "[core]\n\tpager = {evil}\n\tfsmonitor = {evil}\n[diff]\n\texternal = {evil}\n[diff \"evil\"]\n\tcommand = {evil}\n\
             \ttextconv = {evil}\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {evil}\n"
        );
        fs::write(at(".git/config"), config + &more).expect("a config");
        let env = options(0).env;
        let files = heat(dir.path(), &env, NEVER).expect("a history");
        let told =
            |files: &[Heat]| -> Vec<_> { files.iter().map(|it| (it.path.clone(), it.commits, it.lines)).collect() };
        let all: [(PathBuf, usize, usize); 3] =
            [(".gitattributes".into(), 1, 1), ("a.txt".into(), 1, 1), ("sub/b.txt".into(), 1, 1)];
        assert_eq!(told(&files), all);
        assert_eq!(told(&heat(&at("sub"), &env, NEVER).expect("below")), [("b.txt".into(), 1, 1)]);
        assert!(!at("ran").exists(), "a program of the repository's ran");
        let stopped = Bounds { is_stopped: &|| true, ..NEVER };
        assert_eq!(heat(dir.path(), &env, stopped), Err(Trouble::Stopped));
        let elsewhere = tempfile::tempdir().expect("a directory");
        assert_eq!(heat(elsewhere.path(), &env, NEVER), Err(Trouble::NoGit));
    }
}
