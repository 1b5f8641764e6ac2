//! Hot files compared with git's own answer, in every kind of repository; unreadable parts are reported, and nothing
//! runs.

use std::fs;
use std::process::Command;

use super::*;
use crate::project::tests::repository;

const NEVER: Bounds<'static> = Bounds {
    commits: COMMITS_MAX,
    with_lines: COMMITS_WITH_LINES,
    time: Duration::from_secs(60),
    is_stopped: &|| false,
};

#[test]
fn changes_become_weights() {
    let commit = |day: i64, files: &[(&str, usize)]| Changed {
        unix_s: day * 86_400,
        files: files.iter().map(|(path, lines)| (path.as_bytes().to_vec(), *lines)).collect(),
    };
    let mass: Vec<String> = (0..=FILES_MAX).map(|file| format!("f{file}")).collect();
    let mass: Vec<(&str, usize)> = mass.iter().map(|name| (name.as_str(), 0)).collect();
    let commits = [
        commit(91, &[("src/a", 9), ("picture", 0)]),
        commit(90, &[("src/a", 9)]),
        commit(1, &[("src/a", 0), ("src/b\tc", 0)]),
        commit(1, &mass),
    ];
    let files = weighed(&commits);
    let listed: Vec<_> = files.iter().map(|it| (it.path.to_str().unwrap_or(""), it.commits, it.lines)).collect();
    assert_eq!(listed, [("src/a", 3, 18), ("picture", 1, 0), ("src/b\tc", 1, 0)]);
    let day = 0.5_f64.powf(1.0 / 90.0);
    assert!((files[0].score - (2.0 + 2.0 * day + 0.5)).abs() < 1e-9, "{}", files[0].score);
    assert_eq!((files[0].last_unix_s, files[2].last_unix_s), (91 * 86_400, 86_400));
}

fn rows(files: &[Heat]) -> Vec<(String, usize, usize)> {
    let mut listed: Vec<_> = files.iter().map(|it| (it.path.display().to_string(), it.commits, it.lines)).collect();
    listed.sort();
    listed
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
        "[core]\n\tpager = {evil}\n\tfsmonitor = {evil}\n\tsshCommand = {evil}\n\talternateRefsCommand = {evil}\n[diff]\n\
         \texternal = {evil}\n[diff \"evil\"]\n\tcommand = {evil}\n\ttextconv = {evil}\n[filter \"evil\"]\n\tclean = {evil}\n\
         \tsmudge = {evil}\n[credential]\n\thelper = {evil}\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {evil}\n"
    );
    fs::write(at(".git/config"), config + &more).expect("a config");
    let files = heat(dir.path(), NEVER).expect("a history");
    let own = |path: &str| (path.to_owned(), 1, 1);
    assert_eq!(rows(&files), [own(".gitattributes"), own("a.txt"), own("sub/b.txt")]);
    assert_eq!(rows(&heat(&at("sub"), NEVER).expect("below")), [own("b.txt")]);
    assert!(!at("ran").exists(), "a program of the repository's ran");
    let stopped = Bounds { is_stopped: &|| true, ..NEVER };
    assert_eq!(heat(dir.path(), stopped), Err(Trouble::Stopped));
    let late = Bounds { time: Duration::ZERO, ..NEVER };
    assert_eq!(heat(dir.path(), late), Err(Trouble::Slow));
}

/// Runs git with a script for sh.
fn git(dir: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(dir).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", dir);
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "x").env(format!("GIT_{name}_EMAIL"), "x@y");
    }
    let output = command.output().expect("git");
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A history with a merge, a renamed file, a directory that replaces a file, a link, a submodule and a name of arbitrary bytes.
const HISTORY: &str = r#"
git init -q -b main; n=0
save() { n=$((n+1)); git add -A; GIT_COMMITTER_DATE="$((1700000000 + n * 1000)) +0000" git commit -qm "$n" --allow-empty; }
mkdir -p src/deep; seq 50 >src/a; seq 9 >src/deep/b; echo x >turned; save
seq 51 >src/a; save
git checkout -q -b side; seq 8 >src/deep/b; save; seq 7 >src/deep/b; save
git checkout -q main; seq 52 >src/a; save
n=$((n+1)); GIT_COMMITTER_DATE="$((1700000000 + n * 1000)) +0000" git merge -q --no-ff -m merged side
git mv src/a src/moved; save
git rm -q turned; mkdir turned; echo y >turned/inside; ln -s src/moved link; save
printf 'a\000b' >binary; printf z >"$(printf 'n\303\244me\twith "all"')"; save
git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),module
GIT_COMMITTER_DATE="1700099000 +0000" git commit -qm module
"#;

#[test]
fn hot_files_agree_with_git_log() {
    let dir = tempfile::tempdir().expect("a directory");
    git(dir.path(), HISTORY);
    for packed in [false, true] {
        if packed {
            git(dir.path(), "git gc -q");
        }
        let log = git(dir.path(), "git log --no-merges --no-renames --numstat -z --format= --ignore-submodules=all");
        let mut expected: HashMap<String, (usize, usize)> = HashMap::new();
        for record in log.split(['\0', '\n']).filter(|record| !record.is_empty()) {
            let parts: Vec<&str> = record.splitn(3, '\t').collect();
            let number = |text: &str| text.parse::<usize>().unwrap_or(0);
            let entry = expected.entry(parts[2].to_owned()).or_default();
            entry.0 += 1;
            entry.1 += number(parts[0]) + number(parts[1]);
        }
        let mut expected: Vec<_> =
            expected.into_iter().map(|(path, (commits, lines))| (path, commits, lines)).collect();
        expected.sort();
        assert!(expected.len() > 7, "{expected:?}");
        assert_eq!(rows(&heat(dir.path(), NEVER).expect("a history")), expected, "packed: {packed}");
    }
}

#[test]
fn every_kind_of_repository_tells_or_says_that_it_cannot() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("own")).expect("a directory");
    git(&at("own"), HISTORY);
    let own = rows(&heat(&at("own"), NEVER).expect("a history"));
    git(
        &at("own"),
        "git worktree add -q ../tree HEAD; git clone -q --shared . ../shared; git clone -q --depth 2 file://$PWD ../shallow;
         git clone -q --separate-git-dir ../apart . ../gitfile; git init -q ../empty; git init -q --object-format=sha256 ../sha256;
         cd ../sha256; echo x >a; git add a; git commit -qm one; cp -r ../own ../broken; cd ../broken; git gc -q;
         for pack in .git/objects/pack/*.pack; do chmod u+w $pack; printf broken >$pack; done",
    );
    for name in ["tree", "shared", "gitfile"] {
        assert_eq!(rows(&heat(&at(name), NEVER).expect(name)), own, "{name}");
    }
    assert!(!rows(&heat(&at("shallow"), NEVER).expect("shallow")).is_empty());
    assert_eq!(heat(&at("empty"), NEVER), Err(Trouble::NoGit));
    let sha256 = heat(&at("sha256"), NEVER).expect("sha256");
    assert!(matches!(&sha256[..], [row] if row.path == Path::new("a")), "{sha256:?}");
    assert_eq!(heat(&at("broken"), NEVER), Err(Trouble::Unreadable));
    let elsewhere = tempfile::tempdir().expect("a directory");
    assert_eq!(heat(elsewhere.path(), NEVER), Err(Trouble::NoGit));
}
