//! Paths that stay and paths that leave, by every way that there is.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A workspace `ws` with some files, and a secret beside it.
fn scene() -> (tempfile::TempDir, Root) {
    let top = tempfile::tempdir().expect("a directory");
    let ws = top.path().join("ws");
    std::fs::create_dir_all(ws.join("src/deep")).expect("directories");
    std::fs::write(ws.join("src/a.txt"), "inside").expect("a file");
    std::fs::write(ws.join("~file"), "tilde").expect("a file");
    std::fs::create_dir(top.path().join("ws-evil")).expect("a directory");
    std::fs::write(top.path().join("ws-evil/secret"), "secret").expect("a file");
    std::fs::write(top.path().join("secret"), "secret").expect("a file");
    symlink("a.txt", ws.join("src/link")).expect("a link");
    symlink("../src", ws.join("src/around")).expect("a link");
    symlink("../../secret", ws.join("src/out")).expect("a link");
    symlink(ws.join("src/a.txt"), ws.join("absolute")).expect("a link");
    symlink("/etc", ws.join("etc")).expect("a link");
    symlink("loop", ws.join("loop")).expect("a link");
    symlink("nowhere", ws.join("dangling")).expect("a link");
    symlink("../new-outside", ws.join("dangling-out")).expect("a link");
    symlink("/proc/self/root", ws.join("magic")).expect("a link");
    std::fs::hard_link(top.path().join("secret"), ws.join("hard")).expect("a hard link");
    std::fs::hard_link(ws.join("~file"), ws.join("src/twin")).expect("a hard link");
    nix::unistd::mkfifo(&ws.join("pipe"), Mode::from_bits_truncate(0o600)).expect("a pipe");
    let root = Root::open(&ws, Some(top.path())).expect("a root");
    (top, root)
}

#[test]
fn only_files_beneath_the_root_are_read() {
    let (top, root) = scene();
    let ws = root.path().to_owned();
    let absolute = |name: &str| ws.join(name).display().to_string();
    for path in ["src/a.txt", "src/link", "src/around/a.txt", "./src/../src/a.txt", &absolute("src/a.txt")] {
        assert_eq!(root.read(path, 100).expect(path).bytes, b"inside", "{path}");
    }
    for path in ["~/ws/~file", "./~file", "src/twin"] {
        assert_eq!(root.read(path, 100).expect(path).bytes, b"tilde", "{path}");
    }
    // A link from elsewhere into the directory is another name of its contents.
    let elsewhere = top.path().join("elsewhere");
    std::os::unix::fs::symlink(ws.join("src"), &elsewhere).expect("a link");
    assert_eq!(root.read(&elsewhere.join("a.txt").display().to_string(), 100).expect("inside").bytes, b"inside");
    let evil = top.path().join("ws-evil/secret").display().to_string();
    let dotted = absolute("../secret");
    let through = format!("{}/../ws/src/a.txt", top.path().display());
    use PathError::{
        Directory, Empty, HardLinks, Missing, NotDirectory, NotRegular, Nul, Outside, Tilde, TooLong, Variable,
    };
    let long = "a/".repeat(2100);
    for (path, problem) in [
        ("", Empty),
        ("src/a\0.txt", Nul),
        ("../secret", Outside),
        ("src/../../secret", Outside),
        ("src/out", Outside),
        ("absolute", Outside),
        ("etc/passwd", Outside),
        ("/etc/passwd", Outside),
        ("magic/etc/passwd", Outside),
        ("loop", Outside),
        ("~/secret", Outside),
        ("~root/x", Tilde),
        (&evil, Outside),
        (&dotted, Outside),
        (&through, Outside),
        ("hard", HardLinks),
        ("pipe", NotRegular),
        ("src", Directory),
        ("src/a.txt/", NotDirectory),
        ("src/a.txt/x", NotDirectory),
        ("dangling", Missing),
        ("src/A.txt", Missing),
        ("$HOME/secret", Variable),
        ("%2e%2e/secret", Missing),
        (" src/a.txt", Missing),
        (&"x".repeat(256), TooLong),
        (&long, TooLong),
    ] {
        assert_eq!(root.read(path, 100).err(), Some(problem), "{path}");
    }
    assert_eq!(root.read("src/a.txt", 3).err(), Some(PathError::Long(3)));
}

#[test]
fn further_directories_are_read_by_absolute_paths_and_never_written() {
    let (top, root) = scene();
    let further = top.path().join("further");
    std::fs::create_dir_all(further.join("sub")).expect("directories");
    std::fs::write(further.join("sub/b.txt"), "further").expect("a file");
    std::os::unix::fs::symlink("../secret", further.join("out")).expect("a link");
    let further = further.canonicalize().expect("a path");
    let absolute = |name: &str| further.join(name).display().to_string();
    let closed: &dyn Tree = &root;
    assert!(closed.read(&absolute("sub/b.txt"), 100).is_err(), "only what was opened is read");
    let beside = Root::open(&further, None).expect("a directory");
    let root = root.with_readable(vec![beside]);
    let tree: &dyn Tree = &root;
    assert_eq!(tree.read(&absolute("sub/b.txt"), 100).expect("a file").bytes, b"further");
    assert_eq!(tree.read("src/a.txt", 100).expect("a file").bytes, b"inside", "relative paths are the workspace's");
    assert_eq!(tree.list(&absolute("sub")).expect("a list")[0].name, "b.txt");
    assert_eq!(tree.resolve(&absolute("sub/../sub/b.txt")).expect("a path"), further.join("sub/b.txt"));
    assert_eq!(tree.look(&absolute("")).expect("the directory"), (further.clone(), true));
    assert!(tree.holds(&further.join("sub/b.txt")) && !tree.holds(&further.join("out/none")));
    for path in [absolute("out"), absolute("../secret"), top.path().join("secret").display().to_string()] {
        assert!(tree.read(&path, 100).is_err(), "{path}");
    }
    let seen = parking_lot::Mutex::new(Vec::new());
    tree.walk(&further, &|| {
        Box::new(|file| {
            seen.lock().push(file.path.to_owned());
            true
        })
    });
    assert_eq!(seen.into_inner(), [further.join("sub/b.txt")]);
    let (_, bytes) = tree.opener()(&further.join("sub/b.txt")).expect("an open file");
    assert_eq!(bytes, 7);
    assert!(root.write(&absolute("sub/b.txt"), b"x", None).is_err() && root.delete(&absolute("sub/b.txt")).is_err());
    assert_eq!(std::fs::read(further.join("sub/b.txt")).expect("the file"), b"further");
}

#[test]
fn a_write_replaces_a_whole_file_and_never_one_outside() {
    let (top, root) = scene();
    let ws = root.path().to_owned();
    std::fs::set_permissions(ws.join("src/a.txt"), std::fs::Permissions::from_mode(0o750)).expect("permissions");
    root.write("src/link", b"new", None).expect("through a link that stays");
    assert_eq!(std::fs::read(ws.join("src/a.txt")).expect("the file"), b"new");
    assert!(std::fs::symlink_metadata(ws.join("src/link")).expect("the link").is_symlink());
    assert_eq!(std::fs::metadata(ws.join("src/a.txt")).expect("the file").permissions().mode() & 0o777, 0o750);
    root.write("made/on/the/way.txt", b"x", Some(None)).expect("new directories");
    assert_eq!(std::fs::read(ws.join("made/on/the/way.txt")).expect("the file"), b"x");
    for path in ["src/out", "../secret", "hard", "pipe", "etc/reedclaw-test", "dangling-out", "new/", ".", "a/../../x"]
    {
        assert!(root.write(path, b"gone", None).is_err(), "{path}");
    }
    assert_eq!(std::fs::read(top.path().join("secret")).expect("the secret"), b"secret");
    assert!(!top.path().join("new-outside").exists() && !top.path().join("x").exists());
    let left: Vec<_> = root.list(".").expect("a list").into_iter().filter(|it| it.name.ends_with(".tmp")).collect();
    assert_eq!(left, []);
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let (_top, root) = scene();
    assert_eq!(root.write("src/a.txt", b"x", Some(Some(b"other"))), Err(PathError::Changed));
    assert_eq!(root.write("src/a.txt", b"x", Some(None)), Err(PathError::Changed));
    assert_eq!(root.write("src/none.txt", b"x", Some(Some(b""))), Err(PathError::Changed));
    assert_eq!(root.write("src/a.txt", b"x", Some(Some(b"inside"))), Ok(()));
}

#[test]
fn a_list_has_the_kind_of_each_entry() {
    let (_top, root) = scene();
    let entries = root.list("src").expect("a list");
    let shown: Vec<(&str, EntryKind)> = entries.iter().map(|it| (it.name.as_str(), it.kind)).collect();
    use EntryKind::{Directory, File, Link};
    assert_eq!(
        shown,
        [("deep", Directory), ("a.txt", File), ("twin", File), ("around", Link), ("link", Link), ("out", Link)]
    );
    assert_eq!(root.list("etc").err(), Some(PathError::Outside));
    assert_eq!(root.list("src/a.txt").err(), Some(PathError::NotDirectory));
}

#[test]
fn deleting_takes_a_regular_file_beneath_only() {
    let (top, root) = scene();
    for path in ["src", "../secret", "etc/passwd", "hard", "src/out", "none"] {
        assert!(root.delete(path).is_err(), "{path}");
    }
    root.delete("src/a.txt").expect("deleted");
    assert!(!root.path().join("src/a.txt").exists() && top.path().join("secret").exists());
}

/// A directory is swapped with a link that leads out, as fast as it goes, while files are written into it.
#[test]
fn a_link_swapped_in_while_writing_touches_nothing_outside() {
    const ROUNDS: usize = 10_000;
    let (top, root) = scene();
    let outside = top.path().join("outside");
    std::fs::create_dir(&outside).expect("a directory");
    let ws = root.path().to_owned();
    std::fs::create_dir(ws.join("dir")).expect("a directory");
    symlink(&outside, ws.join("trap")).expect("a link");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let exchange = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
                let _ = nix::fcntl::renameat2(AT_FDCWD, &ws.join("dir"), AT_FDCWD, &ws.join("trap"), exchange);
            }
        });
        // Until both outcomes have occurred, even on a busy machine.
        let (mut written, mut refused) = (0, 0);
        while written + refused < ROUNDS || written == 0 || refused == 0 {
            match root.write("dir/file.txt", b"x", None) {
                Ok(()) => written += 1,
                Err(_) => refused += 1,
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_dir(&outside).expect("the directory").count(), 0, "something was written outside");
}

#[test]
fn files_of_a_walk_are_opened_without_links() {
    let (_top, root) = scene();
    let links = Links::default();
    let open = |path: &str| root.open_found(Path::new(path), &links).err();
    use PathError::{HardLinks, Missing, NotRegular, Outside};
    for (path, problem) in [
        ("src/a.txt", None),
        ("src/twin", None),
        ("~file", None),
        ("hard", Some(HardLinks)),
        ("src/link", Some(Outside)),
        ("src/around/a.txt", Some(Outside)),
        ("etc/passwd", Some(Outside)),
        ("../secret", Some(Outside)),
        ("pipe", Some(NotRegular)),
        ("src", Some(NotRegular)),
        ("none", Some(Missing)),
    ] {
        assert_eq!(open(path), problem, "{path}");
    }
    for (path, is_held) in [("src/a.txt", true), ("etc/passwd", false), ("src/around/a.txt", false), ("none", false)] {
        assert_eq!(root.holds(Path::new(path)), is_held, "{path}");
    }
    assert_eq!(root.look("src/around/deep"), Ok((PathBuf::from("src/deep"), true)));
    assert_eq!(root.look("src/link"), Ok((PathBuf::from("src/a.txt"), false)));
    assert_eq!(root.look("."), Ok((PathBuf::new(), true)));
    assert_eq!(root.look("src/out"), Err(Outside));
}
