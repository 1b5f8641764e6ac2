//! A change of several files, cut off by `kill -9` at each of its steps, and everything that can be wrong with one.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use super::*;

/// Names the place and the step at which this test, started as a separate program, is killed.
const PLACE: &str = "REEDCLAW_TEST_COMMIT_PLACE";
const KILLED_AT: &str = "REEDCLAW_TEST_COMMIT_KILLED_AT";

const OLD: &[(&str, &str)] =
    &[("a.txt", "a old\n"), ("deep/b.txt", "b old\n"), ("gone.txt", "gone\n"), ("kept", "kept\n")];
const NEW: &[(&str, &str)] =
    &[("a.txt", "a new\n"), ("deep/b.txt", "b new\n"), ("kept", "kept\n"), ("made/on/the/way.txt", "made\n")];
const CHANGES: &[Change<'static>] = &[
    Change { path: "a.txt", old: Some(b"a old\n"), new: Some(b"a new\n") },
    Change { path: "made/on/the/way.txt", old: None, new: Some(b"made\n") },
    Change { path: "gone.txt", old: Some(b"gone\n"), new: None },
    Change { path: "deep/b.txt", old: Some(b"b old\n"), new: Some(b"b new\n") },
];

fn scene(top: &Path) -> (Root, Journals) {
    let ws = top.join("ws");
    for (path, text) in OLD {
        let path = ws.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text).expect("a file");
    }
    std::fs::set_permissions(ws.join("a.txt"), std::fs::Permissions::from_mode(0o751)).expect("permissions");
    (Root::open(&ws, None).expect("a root"), Journals::new(top.join("edits")).waiting(Duration::ZERO))
}

/// Everything below a directory, directories too, temporary files too.
fn held(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(at).expect("a directory").flatten() {
            let name = entry.path().strip_prefix(directory).expect("below").display().to_string();
            if entry.path().is_dir() {
                found.insert(name + "/", String::new());
                waiting.push(entry.path());
            } else {
                found.insert(name, std::fs::read_to_string(entry.path()).expect("a file"));
            }
        }
    }
    found
}

fn files(of: &[(&str, &str)], directories: &[&str]) -> BTreeMap<String, String> {
    let files = of.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    files.chain(directories.iter().map(|path| ((*path).to_owned(), String::new()))).collect()
}

fn all_old() -> BTreeMap<String, String> {
    files(OLD, &["deep/"])
}

fn all_new() -> BTreeMap<String, String> {
    files(NEW, &["deep/", "made/", "made/on/", "made/on/the/"])
}

#[test]
fn killed_at_any_step_all_is_old_or_all_is_new() {
    if let Some(top) = std::env::var_os(PLACE) {
        // The program that is killed.
        let top = PathBuf::from(top);
        let (root, journals) = (Root::open(&top.join("ws"), None).expect("a root"), Journals::new(top.join("edits")));
        let mut left: usize = std::env::var(KILLED_AT).expect("a step").parse().expect("a number");
        let step = &mut || {
            left -= 1;
            if left == 0 {
                let _ = kill(getpid(), Signal::SIGKILL);
            }
        };
        journals.commit_in_steps(&root, CHANGES, step).expect("it is changed");
        return;
    }
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let (mut olds, mut news) = (0, 0);
    for at in 1.. {
        assert!(at < 100, "it never ends by itself");
        let top = tempfile::tempdir().expect("a directory");
        let (root, journals) = scene(top.path());
        let mut program = Command::new(std::env::current_exe().expect("this test"));
        program.args(["--exact", &name]).env(PLACE, top.path()).env(KILLED_AT, at.to_string());
        let ended = program.output().expect("it runs");
        if ended.status.success() {
            assert_eq!(held(root.path()), all_new());
            assert_eq!(journals.recover(), []);
            break;
        }
        assert_eq!(ended.status.signal(), Some(Signal::SIGKILL as i32), "{ended:?}");
        let recovered = journals.recover();
        let now = held(root.path());
        match now == all_old() {
            true => olds += 1,
            false => news += 1,
        }
        assert!(now == all_old() || now == all_new(), "killed at step {at}: {now:?}");
        assert!(recovered.iter().all(|it| it.left.is_empty()), "{recovered:?}");
        assert_eq!(journals.recover(), [], "once is enough");
    }
    // One prepared, four staged, one synced; then one that counts, four applied, and the journal put away.
    assert_eq!((olds, news), (6, 6));
}

#[test]
fn a_change_is_whole_and_keeps_permissions() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, journals) = scene(top.path());
    journals.commit(&root, CHANGES).expect("it is changed");
    assert_eq!(held(root.path()), all_new());
    assert_eq!(std::fs::metadata(root.path().join("a.txt")).expect("a file").permissions().mode() & 0o7777, 0o751);
    assert_eq!(journals.commit(&root, CHANGES).expect_err("it isn't old").error, PathError::Changed);
    assert_eq!(held(root.path()), all_new());
}

/// The group had no right; after an edit, the mask of the lost access list was its permission bits.
#[test]
fn access_lists_and_attributes_stay_with_a_changed_file() {
    const ACL: &str = "system.posix_acl_access";
    let (no_flags, nobody) = (rustix::fs::XattrFlags::empty(), u32::MAX);
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, nobody), (2, 6, 4001), (4, 0, nobody), (16, 6, nobody), (32, 0, nobody)];
    let entries =
        entries.map(|(tag, rights, id)| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    let list = [&2_u32.to_le_bytes()[..], &entries.concat()].concat();
    let top = tempfile::tempdir().expect("a directory");
    let (root, journals) = scene(top.path());
    let path = root.path().join("kept");
    rustix::fs::setxattr(&path, ACL, &list, no_flags).expect("an access list");
    rustix::fs::setxattr(&path, "user.note", b"mine", no_flags).expect("an attribute");
    let of = |name: &str| {
        let mut value = [0_u8; 100];
        rustix::fs::getxattr(&path, name, &mut value[..]).ok().map(|length| value[..length].to_vec())
    };
    let is_same = || {
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((of(ACL).as_ref(), of("user.note").as_deref(), mode), (Some(&list), Some(&b"mine"[..]), 0o660));
    };
    is_same();
    let change = Change { path: "kept", old: Some(b"kept\n"), new: Some(b"new\n") };
    journals.commit(&root, &[change]).expect("it is changed");
    is_same();
    root.write("kept", b"newer\n", None).expect("it is written");
    is_same();
    assert_eq!(root.mode_without_acl(Path::new("kept"), 0o660), 0o600, "the mask isn't the group's");
    assert_eq!(root.mode_without_acl(Path::new("a.txt"), 0o751), 0o751);
}

#[test]
fn one_wrong_file_leaves_all_as_they_were() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, journals) = scene(top.path());
    std::fs::write(top.path().join("secret"), "secret").expect("a file");
    std::fs::hard_link(top.path().join("secret"), root.path().join("hard")).expect("a hard link");
    std::os::unix::fs::symlink("../secret", root.path().join("out")).expect("a link");
    let before = held(root.path());
    let write = |path, old| Change { path, old, new: Some(b"x".as_slice()) };
    let hard: Option<&[u8]> = Some(b"secret");
    for (change, problem) in [
        (write("kept", Some(b"other")), PathError::Changed),
        (write("kept", None), PathError::Changed),
        (write("none", Some(b"")), PathError::Changed),
        (Change { path: "none", old: Some(b""), new: None }, PathError::Changed),
        (write("deep", None), PathError::Directory),
        (write("kept/x", None), PathError::NotDirectory),
        (write("../x", None), PathError::Outside),
        (write("out", hard), PathError::Outside),
        (write("hard", hard), PathError::HardLinks),
        (write("new/../../x", None), PathError::Outside),
    ] {
        let changes: Vec<Change<'_>> = CHANGES.iter().copied().chain([change]).collect();
        let error = journals.commit(&root, &changes).expect_err(change.path);
        assert_eq!((error.path.as_str(), error.error), (change.path, problem));
        assert_eq!(held(root.path()), before, "{}", change.path);
    }
    assert_eq!(std::fs::read(top.path().join("secret")).expect("the secret"), b"secret");
}

#[test]
fn a_change_that_fails_halfway_is_reverted() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, journals) = scene(top.path());
    let mut steps = 0;
    // After the first file is new, another program makes the second one.
    let outcome = journals.commit_in_steps(&root, CHANGES, &mut || {
        steps += 1;
        if steps == 8 {
            assert_eq!(std::fs::read(root.path().join("a.txt")).expect("a file"), b"a new\n");
            std::fs::write(root.path().join("made/on/the/way.txt"), "mine").expect("a file");
        }
    });
    assert_eq!(outcome.expect_err("it fails").path, "made/on/the/way.txt");
    let mut expected = files(OLD, &["deep/", "made/", "made/on/", "made/on/the/"]);
    expected.insert("made/on/the/way.txt".into(), "mine".into());
    assert_eq!(held(root.path()), expected);
    assert_eq!(std::fs::metadata(root.path().join("a.txt")).expect("a file").permissions().mode() & 0o7777, 0o751);
    assert_eq!(journals.recover(), []);
}

#[test]
fn a_file_that_changes_while_others_are_written_stops_it() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, journals) = scene(top.path());
    let mut steps = 0;
    let outcome = journals.commit_in_steps(&root, CHANGES, &mut || {
        steps += 1;
        if steps == 3 {
            std::fs::write(root.path().join("a.txt"), "my own\n").expect("a file");
        }
    });
    assert_eq!(outcome, Err(CommitError { path: "a.txt".into(), error: PathError::Changed }));
    let mut expected = all_old();
    expected.insert("a.txt".into(), "my own\n".into());
    assert_eq!(held(root.path()), expected);
}

#[test]
fn a_recovery_overwrites_no_newer_change_and_two_sessions_wait_for_each_other() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, journals) = scene(top.path());
    let mut steps = 0;
    let cut_off = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        journals.commit_in_steps(&root, CHANGES, &mut || {
            steps += 1;
            let other = journals.commit(&root, CHANGES).map_err(|error| error.error);
            assert_eq!(other, Err(PathError::Busy));
            assert_eq!(journals.recover(), [], "it is still held");
            if steps == 8 {
                std::panic::resume_unwind(Box::new("cut off"));
            }
        })
    }));
    assert!(cut_off.is_err() && held(root.path()) != all_old() && held(root.path()) != all_new());
    std::fs::write(root.path().join("gone.txt"), "my own\n").expect("a file");
    let recovered = journals.recover();
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].left, [PathBuf::from("gone.txt")]);
    assert_eq!(recovered[0].finished.len(), 3);
    let mut expected = all_new();
    expected.insert("gone.txt".into(), "my own\n".into());
    assert_eq!(held(root.path()), expected);
}

#[test]
fn an_incomplete_journal_does_not_count() {
    let entry = Entry { path: "a b\n\u{fc}".into(), temporary: "t".into(), old: None, new: Some("ff".into()) };
    let journal = Journal { root: "/r".into(), directories: vec!["d".into()], entries: vec![entry] };
    let text = journal.text();
    let again = Journal::of(&text).expect("it is whole");
    assert_eq!(again.text(), text);
    assert_eq!(again.entries[0].path, PathBuf::from("a b\n\u{fc}"));
    for end in 0..text.len() {
        assert!(Journal::of(&text[..end]).is_none(), "{end}");
    }
}

#[test]
fn two_names_of_a_place_are_one() {
    let top = tempfile::tempdir().expect("a directory");
    let (root, _) = scene(top.path());
    std::os::unix::fs::symlink("deep", root.path().join("link")).expect("a link");
    for (path, place) in [
        ("./a.txt", "a.txt"),
        ("deep/../a.txt", "a.txt"),
        ("link/b.txt", "deep/b.txt"),
        ("link/new.txt", "deep/new.txt"),
        ("deep/../new/x", "new/x"),
        ("./new//x", "new/x"),
    ] {
        assert_eq!(root.resolve(path), Ok(PathBuf::from(place)), "{path}");
    }
    assert_eq!(root.resolve("new/../x"), Err(PathError::Outside));
    assert_eq!(root.resolve("../x"), Err(PathError::Outside));
}
