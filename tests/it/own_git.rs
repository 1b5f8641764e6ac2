//! Git as we start it ourselves in another person's repository: no program that the repository names runs outside a jail, and
//! none learns anything from outside it. Plain git shows that each trap works.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use reedclaw::sandbox::{Grant, Tier, View};

use crate::need::{TEST_PATH, require};
use crate::pty::program;
use crate::sandbox::on_tiers;
use crate::server::Server;

/// A home outside of `/tmp`, which every sandbox hides.
fn home() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a home")
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn append(path: &Path, bytes: &[u8]) {
    fs::write(path, [fs::read(path).unwrap_or_default(), bytes.to_vec()].concat()).expect("a file");
}

fn executable(path: &Path, text: &str) {
    put(path, text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

fn git(cwd: &Path, home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).current_dir(cwd);
    command.env_clear().env("PATH", TEST_PATH).env("HOME", home).output().expect("git")
}

/// A repository below a home with one file that was changed without a change of its length, so that git compares contents.
fn repository(home: &Path) -> PathBuf {
    let root = home.join("r");
    put(&root.join("a.txt"), "one\n");
    for words in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "i"]] {
        assert!(git(&root, home, words).status.success(), "{words:?}");
    }
    put(&root.join("a.txt"), "uno\n");
    root
}

fn reedclaw(home: &Path, path: &str, words: &[&str]) -> String {
    let mut command = Command::new(program());
    command.args(words).env_clear().env("PATH", path).env("HOME", home).env("LANG", "C.UTF-8").current_dir(home);
    command.stdin(std::process::Stdio::null());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Git isn't called if a filter has a name that no option can override, or comes after more names than are read: with a sandbox
/// and without.
#[test]
fn a_filter_that_cant_be_overridden_isnt_run() {
    if !require(&["git"]) {
        return;
    }
    for sandbox in ["prefer", "off"] {
        for name in [&b"e\xffvil"[..], b"evil"] {
            let home = home();
            let root = repository(home.path());
            put(
                &home.path().join(".config/reedclaw/config.lua"),
                &format!("return {{ security = {{ sandbox = \"{sandbox}\" }} }}"),
            );
            let (mark, evil) = (home.path().join("OUT"), root.join("evil.sh"));
            executable(&evil, &format!("#!/bin/sh\necho ran >>{}\ncat\n", mark.display()));
            append(&root.join(".gitattributes"), &[b"*.txt filter=", name, b"\n"].concat());
            if name == b"evil" {
                let padding = (0..5_600).map(|at| format!("[pad \"{}{at}\"]\n\tk = v\n", "x".repeat(200)));
                append(&root.join(".git/config"), padding.collect::<String>().as_bytes());
            }
            let section =
                [b"[filter \"", name, b"\"]\n\tclean = ", evil.as_os_str().as_encoded_bytes(), b"\n"].concat();
            append(&root.join(".git/config"), &section);
            let card = reedclaw(home.path(), TEST_PATH, &["card", "--path", root.to_str().expect("UTF-8")]);
            assert!(card.contains("[git] branch main\n"), "{sandbox}: {card}");
            assert!(!mark.exists(), "{sandbox}: {name:?} ran");
            git(&root, home.path(), &["status", "--short"]);
            assert!(mark.exists(), "the trap works: plain git runs it");
        }
    }
}

/// A filter can be added between two reads of a config. So git runs in a jail, with every program that it may run. Here a git
/// with all filters on simulates a race that was won.
#[test]
fn a_filter_that_runs_all_the_same_runs_in_a_jail() {
    if !require(&["git"]) {
        return;
    }
    let home = home();
    let root = repository(home.path());
    let (inside, outside) = (root.join(".git/IN"), home.path().join("OUT"));
    // It may write to its own temporary directory, and records there that it ran.
    let script = format!(
        "#!/bin/sh\necho ran >>{}\necho ran >>{}\necho ran >>\"$TMPDIR/ran\"\ncat\n",
        inside.display(),
        outside.display()
    );
    executable(&root.join("evil.sh"), &script);
    append(&root.join(".gitattributes"), b"*.txt filter=evil\n");
    append(&root.join(".git/config"), format!("[filter \"evil\"]\n\tclean = {}/evil.sh\n", root.display()).as_bytes());
    let real = crate::need::find("git").expect("git");
    let won = format!(
        "#!/bin/sh\ncase \"$*\" in *--list*) exit 0;; esac\n{} status --short >/dev/null\n[ -e \"$TMPDIR/ran\" ] && \
         printf '# branch.head it-ran\\0'\n",
        real.display()
    );
    executable(&home.path().join("bin/git"), &won);
    let path = format!("{}:{TEST_PATH}", home.path().join("bin").display());
    let card = reedclaw(home.path(), &path, &["card", "--path", root.to_str().expect("UTF-8")]);
    assert!(card.contains("[git] branch it-ran; nothing changed\n"), "the filter ran in the jail: {card}");
    assert!(!inside.exists() && !outside.exists(), "a program of the repository's wrote a file");
    git(&root, home.path(), &["status", "--short"]);
    assert!(inside.exists() && outside.exists(), "the trap works: plain git lets it write");
}

/// The same on every tier of the machine, for all programs that git runs: filters, a monitor, a converter.
#[test]
fn programs_of_git_write_nothing_on_any_tier() {
    if !require(&["git"]) {
        return;
    }
    on_tiers(&[Tier::Overlay, Tier::Bubblewrap, Tier::Landlock], |world| {
        let root = repository(world.home());
        let marks = [root.join(".git/IN"), root.join("IN"), world.path("OUT")];
        let lines: String = marks.iter().map(|mark| format!("echo ran >>{}\n", mark.display())).collect();
        executable(&root.join("evil.sh"), &format!("#!/bin/sh\n{lines}echo ran >&2\ncat \"$@\"\n"));
        append(&root.join(".gitattributes"), b"*.txt filter=evil diff=evil\n");
        let evil = root.join("evil.sh");
        let evil = evil.display();
        let config = format!(
            "[core]\n\tfsmonitor = {evil}\n[filter \"evil\"]\n\tclean = {evil}\n[diff \"evil\"]\n\ttextconv = {evil}\n"
        );
        append(&root.join(".git/config"), config.as_bytes());
        for words in [&["status", "--short"][..], &["diff"]] {
            let grant = Grant { view: View::Look, workspace: root.clone(), cwd: root.clone(), ..world.grant() };
            let words: Vec<_> = words.iter().map(std::ffi::OsString::from).collect();
            let mut command = world.sandbox.command("git".as_ref(), &words, &grant).expect("a command");
            let output = command.output().expect("it starts");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains("ran"), "{:?}: it runs inside: {output:?}", world.sandbox.tier());
            assert!(!marks.iter().any(|mark| mark.exists()), "{:?}: {words:?}", world.sandbox.tier());
        }
        git(&root, world.home(), &["status", "--short"]);
        assert!(marks.iter().all(|mark| mark.exists()), "the trap works");
    });
}

/// A clone that contains a bare repository whose monitor plants a filter in the clone's own `.git`: a look runs it neither there
/// nor at the top.
#[test]
fn a_bare_repository_in_a_clone_plants_nothing() {
    if !require(&["git"]) {
        return;
    }
    let home = home();
    let clone = repository(home.path());
    let bare = clone.join("docs/example");
    put(&bare.join("README.md"), "# docs\n");
    assert!(git(&bare, home.path(), &["init", "-q", "--bare", "."]).status.success());
    let config =
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"sh plant.sh; false\"\n";
    put(&bare.join("config"), config);
    let (mark, planted) = (home.path().join("OUT"), clone.join(".git/PLANTED"));
    put(&bare.join("plant.sh"), &format!("echo ran >{}\necho ran >{}\n", mark.display(), planted.display()));
    for path in [&bare, &clone] {
        let card = reedclaw(home.path(), TEST_PATH, &["card", "--path", path.to_str().expect("UTF-8")]);
        assert!(card.contains("[git] branch main; 1 changed, 1 untracked"), "{card}");
        assert!(!mark.exists() && !planted.exists(), "{} ran it", path.display());
    }
    git(&bare, home.path(), &["status", "--short"]);
    assert!(mark.exists() && planted.exists(), "the trap works: plain git runs it");
}

/// `core.worktree` doesn't lead `@diff` out of the repository, and the diff doesn't contain names of forbidden paths.
#[test]
fn a_diff_holds_nothing_from_elsewhere() {
    if !require(&["git"]) {
        return;
    }
    let server = Server::start();
    let home = home();
    let root = repository(home.path());
    put(&root.join("app/notes"), "nothing\n");
    assert!(git(&root, home.path(), &["add", "app"]).status.success());
    put(&root.join("closed/new-name"), "x\n");
    put(&home.path().join("app/notes"), "launch on 3 May\n");
    append(&root.join(".git/config"), format!("[core]\n\tworktree = {}\n", home.path().display()).as_bytes());
    put(
        &home.path().join(".config/reedclaw/config.lua"),
        &format!(
            "return {{ context = {{ git_ms = 20000 }}, models = {{ tiny = {{ endpoint = \"{}\" }} }}, security = {{ forbidden_paths = {{ \"~/r/closed\" }} }} }}",
            server.endpoint()
        ),
    );
    reedclaw(home.path(), TEST_PATH, &["agent", "--path", root.to_str().expect("UTF-8"), "-m", "see @diff"]);
    let content = server.request(1).content(-1);
    assert!(content.contains("+uno") && content.contains("+nothing"), "{content}");
    assert!(!content.contains("3 May") && !content.contains("new-name") && !content.contains("closed"), "{content}");
}
