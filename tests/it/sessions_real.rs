//! Statements 10 and 37 of the contract of git sessions: commands that change files at random, and realistic repositories, with
//! Windows line ends, composed and decomposed names, and many submodules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::need::require;
use crate::sessions::{calls, git};
use crate::sessions_cli::{differing, held, home, output, reedclaw, write};

/// Pseudorandom numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).expect("small")]
    }
}

/// A line of bash that changes files. Some of its commands fail, which is intended.
fn script(numbers: &mut Numbers) -> String {
    const NAMES: [&str; 9] = ["a", "b", "d", "d/a", "d/e", "d/e/f", "g", "g/h", "a.sh"];
    let mut lines = Vec::new();
    for at in 0..12 {
        let (one, two) = (numbers.of(&NAMES), numbers.of(&NAMES));
        lines.push(match numbers.below(12) {
            0 | 1 => format!("mkdir -p \"$(dirname {one})\"; echo {at} > {one}"),
            2 => format!("echo {at} >> {one}"),
            3 => format!("rm -rf {one}"),
            4 => format!("rm -f {one}; mkdir -p {one}; echo {at} > {one}/new"),
            5 => format!("rm -rf {one}; ln -s {two} {one}"),
            6 => format!("chmod +x {one}"),
            // Outside of the sandbox root can still do everything in a directory without the bit.
            7 => format!("test -d {one} || chmod -x {one}"),
            8 => format!("mv -T {one} {two}"),
            9 => format!("ln {one} {two}"),
            10 => format!("test -f {one} && sed -i s/./x/ {one}"),
            _ => format!("rm -rf {one}; mkdir {one}; rmdir {one}; truncate -s 3 {one}"),
        });
    }
    lines.join("\n")
}

/// Statement 10.
#[test]
fn changes_of_a_command_equal_those_that_git_finds() {
    if require(&["git", "bwrap", "bash"]) {
        changes_equal("");
    }
}

/// Compares the changes of random scripts in a session with the changes that git finds after they have run in a clone. `config`
/// has lines of the config.
pub fn changes_equal(config: &str) {
    let home = home(&[], config);
    let (at, project) = (home.path(), home.path().join("project"));
    fs::remove_file(project.join("a.txt")).expect("removed");
    for (path, text) in [("a", "1\n"), ("b", "2\n"), ("d/a", "3\n"), ("d/e/f", "4\n"), ("g/h", "5\n"), ("a.sh", "6\n")]
    {
        fs::create_dir_all(project.join(path).parent().expect("a parent")).expect("a directory");
        fs::write(project.join(path), text).expect("a file");
    }
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "files"]);
    let id = output(at, &["session", "start"]).trim().to_owned();
    let (copy, mut numbers) = (at.join("copy"), Numbers(1));
    git(at, &["clone", "-q", "project", "copy"]);
    // Each round has another script: REEDCLAW_TEST_LONG=1 runs more of them.
    let rounds = if std::env::var_os("REEDCLAW_TEST_LONG").is_some() { 500 } else { 20 };
    for round in 0..rounds {
        let script = script(&mut numbers);
        Command::new("bash").args(["-c", &script]).current_dir(&copy).output().expect("bash");
        git(&copy, &["add", "-A"]);
        let wanted = git(&copy, &["ls-files", "-s"]);
        // Hard links become separate files for the next command in a session, since git doesn't know links.
        let apart =
            "find . -name .git -prune -o -type f -links +1 -exec sh -c 'cp -p \"$1\" t && mv t \"$1\"' - {} ';'";
        Command::new("sh").args(["-c", apart]).current_dir(&copy).status().expect("sh");
        let (_, _, err) = reedclaw(at, &["session", "run", &id, "--yes", &script]);
        let found =
            git(&project, &["ls-tree", "-r", "--format=%(objectmode) %(objectname) 0\t%(path)", &tip(&project, &id)]);
        let found: Vec<&str> = found.lines().filter(|it| !it.contains("\t.reedclaw/")).collect();
        assert_eq!(found.join("\n"), wanted, "{config} round {round}\n{script}\n{err}");
    }
}

/// The only tree that is checked out for the repository of a home.
pub fn shared_tree(home: &Path) -> PathBuf {
    let only = |at: &Path| {
        let mut all: Vec<PathBuf> = fs::read_dir(at).expect("a directory").flatten().map(|it| it.path()).collect();
        all.retain(|it| it.is_dir());
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    };
    let repository = only(&home.join(".local/state/reedclaw/sessions"));
    only(&repository.join("trees")).join("files")
}

/// Statement 13.
#[test]
fn commands_of_two_sessions_share_files_that_neither_changes() {
    if !require(&["git", "bwrap", "python3"]) {
        return;
    }
    let home = home(&[], "");
    let (at, project) = (home.path(), home.path().join("project"));
    for path in ["sed", "append", "cut", "mapped", "d/moved", "d/gone", "e/f/g"] {
        fs::create_dir_all(project.join(path).parent().expect("a parent")).expect("a directory");
        fs::write(project.join(path), "one\n").expect("a file");
    }
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "files"]);
    let [one, two] = ["one", "two"].map(|title| output(at, &["session", "start", title]).trim().to_owned());
    output(at, &["session", "run", &two, "--yes", "cat sed"]);
    let shared = shared_tree(at);
    let before = held(&shared);
    assert_eq!(before.len(), 8);
    let script = "sed -i s/one/two/ sed; echo more >>append; truncate -s 1 cut; rm d/gone; mv d/moved moved\n\
        python3 -c 'import mmap\nf = open(\"mapped\", \"r+b\")\nm = mmap.mmap(f.fileno(), 0)\nm[0:3] = b\"two\"\nm.flush()'\n\
        rm -r e; mkdir -p e/new; echo new >e/new/file; chmod +x sed";
    output(at, &["session", "run", &one, "--yes", script]);
    let files = |id: &str| git(&project, &["ls-tree", "-r", "--name-only", &tip(&project, id)]);
    let own =
        |text: String| text.lines().filter(|it| !it.starts_with(".reedclaw/")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(own(files(&one)), ["a.txt", "append", "cut", "e/new/file", "mapped", "moved", "sed"]);
    assert_eq!(git(&project, &["show", &format!("{}:mapped", tip(&project, &one))]), "two");
    // The next command of each session sees its own files.
    let seen = |id: &str| {
        output(
            at,
            &[
                "session",
                "run",
                id,
                "--yes",
                "cat sed append mapped; find . -name .git -prune -o -type f -print | wc -l",
            ],
        )
    };
    assert_eq!(seen(&one), "two\none\nmore\ntwo\n7\n");
    assert_eq!(seen(&two), "one\none\none\n8\n");
    assert_eq!(differing(&before, &held(&shared)), Vec::<&PathBuf>::new(), "nobody has changed what both share");
    assert_eq!(shared_tree(at), shared);
    // A separate bench has all files.
    let config = at.join(".config/reedclaw/config.lua");
    let text = fs::read_to_string(&config).expect("a config");
    for word in ["copy", "off"] {
        fs::write(&config, text.replace("return {", &format!("return {{ sessions = {{bench = \"{word}\"}},")))
            .expect("written");
        let (ended, out, err) = reedclaw(at, &["session", "run", &two, "--yes", "cat sed"]);
        assert_eq!(ended == Some(0), word == "copy", "{word}: {out}{err}");
        assert!(word == "copy" && out == "one\n" || err.contains("sessions.bench"), "{word}: {out}{err}");
    }
}

#[test]
fn other_repositories_beneath_a_session_stay_as_they_are() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let home = home(&[], "");
    let (at, project) = (home.path(), home.path().join("project"));
    let commit = git(&project, &["rev-parse", "HEAD"]);
    git(&project, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
    git(&project, &["commit", "-q", "-m", "a submodule"]);
    let id = output(at, &["session", "start", "one"]).trim().to_owned();
    let run = |line: &str| reedclaw(at, &["session", "run", &id, "--yes", line]);
    let changed = || git(&project, &["diff", "--name-only", "main", &tip(&project, &id), "--", ".", ":!.reedclaw"]);
    let (code, _, err) =
        run("mkdir -p sub/build; touch sub/build/x; echo own >own.txt; git init -q dep && echo 1 >dep/f");
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(changed(), "own.txt", "{err}");
    for other in ["dep/", "sub/"] {
        assert!(err.contains(&format!("{other} (another repository, whose files no commit takes)")), "{err}");
    }
    // They stay on the bench, and later changes to them aren't part of a commit, either.
    let (code, out, err) = run("cat dep/f; ls sub/build; echo 2 >dep/f; rm -r sub; rm own.txt");
    assert_eq!((code, out.as_str()), (Some(0), "1\nx\n"), "{err}");
    assert_eq!(changed(), "", "{err}");
}

#[test]
fn a_command_of_a_session_finds_the_packages_of_the_checkout_if_the_config_shares_them() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let home = home(&[], "");
    let (at, project) = (home.path(), home.path().join("project"));
    fs::create_dir_all(project.join("node_modules/one")).expect("a directory");
    fs::write(project.join("node_modules/one/index.js"), "one\n").expect("a file");
    fs::write(project.join(".gitignore"), "node_modules\n").expect("a file");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "rules"]);
    let run = |title: &str, line: &str| {
        let id = output(at, &["session", "start", title]).trim().to_owned();
        let (ended, out, err) = reedclaw(at, &["session", "run", &id, "--yes", line]);
        (ended, out, err, git(&project, &["ls-tree", "-r", "--name-only", &tip(&project, &id)]))
    };
    let line = "cat node_modules/*/index.js; echo >node_modules/new; git status --short";
    assert!(run("none", "test ! -e node_modules").0 == Some(0), "nothing is shared unasked");
    let config = at.join(".config/reedclaw/config.lua");
    let text = fs::read_to_string(&config).expect("a config");
    fs::write(&config, text.replace("return {", "return { sessions = {share = {\"node_modules\"}},")).expect("written");
    let (ended, out, err, files) = run("shared", line);
    assert_eq!((ended, out.as_str()), (Some(0), "one\n"), "{err}");
    assert!(!files.contains("node_modules"), "{files}");
    assert!(!project.join("node_modules/new").exists(), "the checkout's own stay as they are");
}

fn tip(project: &Path, id: &str) -> String {
    git(project, &["rev-parse", &format!("reedclaw/session/{id}")])
}

/// Statement 37, as far as a machine without a network can test it.
#[test]
fn line_ends_decomposed_names_and_fifty_submodules_stay_as_they_are() {
    if !require(&["git", "bwrap"]) {
        return;
    }
    let home = home(
        &[
            write("first", "a.txt", "new\n"),
            calls("second", "edit_replace_exact", json!({"path": "crlf.txt", "old": "two", "new": "TWO"})),
            write("third", "cafe\u{301}.txt", "decomposed\n"),
        ],
        "",
    );
    let (at, project) = (home.path(), home.path().join("project"));
    fs::write(project.join("crlf.txt"), "one\r\ntwo\r\n").expect("a file");
    fs::write(project.join(".gitattributes"), "*.win text eol=crlf\n").expect("a file");
    fs::write(project.join("converted.win"), "one\r\ntwo\r\n").expect("a file");
    fs::write(project.join("caf\u{e9}.txt"), "composed\n").expect("a file");
    fs::write(project.join("cafe\u{301}.txt"), "other\n").expect("a file");
    git(&project, &["config", "core.precomposeunicode", "false"]);
    git(&project, &["add", "-A"]);
    let commit = git(&project, &["rev-parse", "HEAD"]);
    for number in 0..50 {
        git(&project, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},modules/m{number}")]);
    }
    git(&project, &["commit", "-q", "-m", "as people have them"]);
    let (code, _, told) = reedclaw(at, &["agent", "--session", "new", "-m", "first change"]);
    assert_eq!(code, Some(0), "{told}");
    let id = told.lines().find_map(|line| line.strip_prefix("[session] ")).expect("the id").to_owned();
    for question in ["second change", "third change"] {
        let (code, _, told) = reedclaw(at, &["agent", "--session", &id, "-m", question]);
        assert_eq!((code, told.contains("· 1 file +1 -1 ·")), (Some(0), true), "{told}");
    }
    let (code, out, err) = reedclaw(at, &["session", "run", &id, "--yes", "ls modules | wc -l; echo >> crlf.txt"]);
    assert_eq!((code, out.trim()), (Some(0), "50"), "{err}");
    let changed = git(
        &project,
        &["-c", "core.quotePath=false", "diff", "--name-only", "main", &tip(&project, &id), "--", ".", ":!.reedclaw"],
    );
    assert_eq!(changed, "a.txt\ncafe\u{301}.txt\ncrlf.txt");
    output(at, &["session", "merge", &id, "--yes"]);
    assert_eq!(fs::read(project.join("crlf.txt")).expect("a file"), b"one\r\nTWO\r\n\n");
    assert_eq!(fs::read(project.join("converted.win")).expect("a file"), b"one\r\ntwo\r\n");
    assert_eq!(fs::read_to_string(project.join("caf\u{e9}.txt")).expect("a file"), "composed\n");
    assert_eq!(git(&project, &["ls-files", "-s", "modules"]).lines().filter(|it| it.starts_with("160000")).count(), 50);
    git(&project, &["fsck", "--strict", "--no-dangling"]);
}
