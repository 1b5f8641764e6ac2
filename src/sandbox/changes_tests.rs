//! Changes read from an upper directory that is made by hand as the kernel makes it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, mknod};

use super::scratch::{Layer, Scratch};
use super::*;
use crate::files::Layers;

/// A workspace and the layer of a copy of it.
struct Scene {
    dir: tempfile::TempDir,
    layer: Layer,
}

impl Scene {
    /// A workspace with these files, unchanged since.
    fn of(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for (name, text) in files {
            write(&dir.path().join("work").join(name), text);
        }
        fs::create_dir_all(dir.path().join("work")).unwrap();
        // The layers outlive their lock, which only prevents another session from removing them.
        let scratch = Scratch::make(&dir.path().join("wall")).unwrap();
        let mut layer = scratch.layer(&dir.path().join("work"), None).unwrap();
        layer.since_ns = i64::MAX / 2;
        std::mem::forget(scratch);
        Self { dir, layer }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    fn upper(&self, name: &str) -> PathBuf {
        self.layer.upper.join(name)
    }

    fn whiteout(&self, name: &str) {
        fs::create_dir_all(self.upper(name).parent().unwrap()).unwrap();
        mknod(&self.upper(name), SFlag::S_IFCHR, Mode::empty(), 0).unwrap();
    }

    fn opaque(&self, name: &str, attribute: &str) {
        fs::create_dir_all(self.upper(name)).unwrap();
        rustix::fs::lsetxattr(self.upper(name), attribute, b"y", rustix::fs::XattrFlags::empty()).unwrap();
    }

    fn lower(&self) -> Layers {
        Layers::open([&*self.work("")]).unwrap()
    }

    fn changes(&self) -> Changes {
        collect(&self.layer, &self.lower(), &CollectLimits::default()).unwrap()
    }

    /// The changes in words: path, kind, and whether they are contested.
    fn in_words(&self) -> Vec<String> {
        let word = |change: &Change| {
            let kind = match &change.kind {
                ChangeKind::File { mode, bytes, .. } => format!("file {mode:o} {bytes}"),
                ChangeKind::Link { target } => format!("link {}", target.display()),
                ChangeKind::Directory { mode } => format!("directory {mode:o}"),
                ChangeKind::Deleted => "deleted".to_owned(),
            };
            let before = if change.before.is_some() { "" } else { ", new" };
            let contested = if change.is_contested { ", contested" } else { "" };
            format!("{} {kind}{before}{contested}", change.path.display())
        };
        self.changes().items.iter().map(word).collect()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_whiteout_deletes_what_is_there_with_all_below() {
    let scene = Scene::of(&[("gone", "x"), ("dir/a", "x"), ("dir/deep/b", "x"), ("kept", "x")]);
    scene.whiteout("gone");
    scene.whiteout("dir");
    scene.whiteout("never-was");
    assert_eq!(
        scene.in_words(),
        ["dir deleted", "dir/a deleted", "dir/deep deleted", "dir/deep/b deleted", "gone deleted"]
    );
}

/// The other name of a file in the workspace silently kept the old content.
#[test]
fn names_of_a_changed_file_that_keep_its_old_content_are_counted() {
    let scene = Scene::of(&[("a", "x"), ("looked-at", "x"), ("alone", "x")]);
    for (of, other) in [("a", "b"), ("a", "c"), ("looked-at", "../outside")] {
        fs::hard_link(scene.work(of), scene.work(other)).unwrap();
    }
    for (name, text) in [("a", "new"), ("b", "other"), ("looked-at", "x"), ("alone", "new")] {
        write(&scene.upper(name), text);
    }
    let count = |it: &Change| (it.path.display().to_string(), it.other_names);
    let counts: Vec<_> = scene.changes().items.iter().map(count).collect();
    assert_eq!(counts, [("a".to_owned(), 1), ("alone".to_owned(), 0), ("b".to_owned(), 1)]);
}

#[test]
fn an_opaque_directory_replaces_what_was_below() {
    let scene = Scene::of(&[("dir/same", "x"), ("dir/other", "x"), ("dir/gone", "x"), ("dir/deep/gone", "x")]);
    scene.opaque("dir", "user.overlay.opaque");
    write(&scene.upper("dir/same"), "x");
    write(&scene.upper("dir/other"), "changed");
    write(&scene.upper("dir/new"), "n");
    let expected = [
        "dir/deep deleted",
        "dir/deep/gone deleted",
        "dir/gone deleted",
        "dir/new file 644 1, new",
        "dir/other file 644 7",
    ];
    assert_eq!(scene.in_words(), expected);
}

#[test]
fn an_attribute_that_the_command_set_hides_nothing() {
    let scene = Scene::of(&[("dir/a", "x")]);
    // This is how the kernel stores what a program sets as `user.overlay.opaque`.
    scene.opaque("dir", "user.overlay.overlay.opaque");
    fs::set_permissions(scene.upper("dir"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(scene.changes().is_empty(), "{:?}", scene.in_words());
}

#[test]
fn a_renamed_file_is_gone_and_new() {
    let scene = Scene::of(&[("old", "text")]);
    scene.whiteout("old");
    write(&scene.upper("new"), "text");
    assert_eq!(scene.in_words(), ["new file 644 4, new", "old deleted"]);
}

#[test]
fn a_path_that_changes_its_kind_is_one_change() {
    let scene = Scene::of(&[("file", "x"), ("dir/a", "x"), ("link-to-be", "x")]);
    symlink("file", scene.work("link")).unwrap();
    fs::create_dir(scene.upper("file")).unwrap();
    write(&scene.upper("file/inside"), "x");
    write(&scene.upper("dir"), "now a file");
    symlink("dir", scene.upper("link-to-be")).unwrap();
    write(&scene.upper("link"), "now a file");
    let expected = [
        "dir file 644 10",
        "dir/a deleted",
        "file directory 755",
        "file/inside file 644 1, new",
        "link file 644 10",
        "link-to-be link dir",
    ];
    assert_eq!(scene.in_words(), expected);
}

#[test]
fn identical_files_are_no_change_and_a_new_mode_is_one() {
    let scene = Scene::of(&[("touched", "x"), ("mode", "x"), ("setuid", "x"), ("dir/a", "x"), ("closed/a", "x")]);
    for name in ["touched", "mode", "setuid"] {
        write(&scene.upper(name), "x");
    }
    fs::set_permissions(scene.upper("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    // Bits by which it would run as its owner aren't applied.
    fs::set_permissions(scene.upper("setuid"), fs::Permissions::from_mode(0o4644)).unwrap();
    for (name, mode) in [("dir", 0o755), ("closed", 0o700)] {
        fs::create_dir(scene.upper(name)).unwrap();
        fs::set_permissions(scene.upper(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(scene.in_words(), ["closed directory 700", "mode file 755 1"]);
}

#[test]
fn links_pipes_and_sockets() {
    let scene = Scene::of(&[("a", "x")]);
    symlink("a", scene.work("same")).unwrap();
    symlink("a", scene.upper("same")).unwrap();
    symlink("/etc/passwd", scene.upper("out")).unwrap();
    write(&scene.upper("one"), "x");
    fs::hard_link(scene.upper("one"), scene.upper("other")).unwrap();
    mknod(&scene.upper("pipe"), SFlag::S_IFIFO, Mode::S_IRWXU, 0).unwrap();
    let expected = ["one file 644 1, new", "other file 644 1, new", "out link /etc/passwd, new"];
    assert_eq!(scene.in_words(), expected);
    assert_eq!(scene.changes().left_out, [PathBuf::from("pipe")]);
}

#[test]
fn files_changed_by_others_are_contested_whatever_their_date() {
    let mut scene = Scene::of(&[("mine", "x"), ("theirs", "x")]);
    let changed = |scene: &Scene, name: &str| {
        let data = fs::metadata(scene.work(name)).unwrap();
        data.ctime() * 1_000_000_000 + data.ctime_nsec()
    };
    // Changed long after the copy was made, and dated back.
    scene.layer.since_ns = changed(&scene, "theirs") - 1_000_000_000;
    let file = fs::File::options().write(true).open(scene.work("theirs")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    write(&scene.upper("theirs"), "model's");
    scene.whiteout("mine");
    assert_eq!(scene.in_words(), ["mine deleted, contested", "theirs file 644 7, contested"]);
    scene.layer.since_ns = changed(&scene, "theirs") + 1_000_000_000;
    assert_eq!(scene.in_words(), ["mine deleted", "theirs file 644 7"]);
}

/// A file that was deleted while a command appended to it came back with its old content.
#[test]
fn files_deleted_by_others_are_contested_unless_the_command_moved_them() {
    let mut scene = Scene::of(&[("moved", "x")]);
    scene.layer.since_ns = 0;
    let copied_up = |name: &str| {
        write(&scene.upper(name), "old\nmore\n");
        let upper = scene.upper(name);
        rustix::fs::lsetxattr(upper, "user.overlay.origin", b"", rustix::fs::XattrFlags::empty()).unwrap();
    };
    copied_up("gone/file");
    write(&scene.upper("new"), "n");
    assert_eq!(
        scene.in_words(),
        ["gone directory 755, new, contested", "gone/file file 644 9, new, contested", "new file 644 1, new"]
    );
    fs::remove_dir_all(scene.upper("gone")).unwrap();
    copied_up("elsewhere");
    assert_eq!(scene.in_words()[0], "elsewhere file 644 9, new, contested");
    scene.whiteout("moved");
    assert_eq!(scene.in_words()[..2], ["elsewhere file 644 9, new", "moved deleted, contested"]);
}

#[test]
fn too_much_is_refused_as_a_whole() {
    let scene = Scene::of(&[("dir/a", "x"), ("dir/b", "x"), ("dir/c", "x")]);
    scene.whiteout("dir");
    let limits = CollectLimits { entries_max: 3, ..CollectLimits::default() };
    let collected = collect(&scene.layer, &scene.lower(), &limits);
    assert_eq!(collected, Err(CollectError::TooMany(3)));
}

/// A command of an ordinary user removed its own access to a directory, and all its changes were dropped. Root can read it
/// anyway; the escape suite covers the ordinary user.
#[test]
fn directories_that_are_closed_are_read() {
    let scene = Scene::of(&[("kept/a", "x")]);
    for (name, mode) in [("closed/deep", 0o000), ("closed", 0o300), ("kept", 0o000)] {
        write(&scene.upper(name).join("new"), "n");
        fs::set_permissions(scene.upper(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let words = [
        "closed directory 300, new",
        "closed/deep directory 0, new",
        "closed/deep/new file 644 1, new",
        "closed/new file 644 1, new",
        "kept directory 0",
        "kept/new file 644 1, new",
    ];
    assert_eq!(scene.in_words(), words);
}
