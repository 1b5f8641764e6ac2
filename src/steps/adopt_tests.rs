//! Changes of a copy that are applied while other programs work in the workspace, or while the process is killed: a person's
//! changes in the meantime stay, nothing outside is touched, and a crash leaves the state before or after.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use super::adopt::adopt_in_steps;
use super::tests::{LIMITS, Scene, held};
use super::*;

/// Directory of the contents of a copy.
fn upper(scene: &Scene) -> PathBuf {
    scene.top.path().join("upper")
}

fn file(scene: &Scene, name: &str, text: &str) -> NewContent {
    let source = upper(scene).join(name);
    std::fs::create_dir_all(source.parent().expect("a directory")).expect("a directory");
    std::fs::write(&source, text).expect("a file");
    NewContent::File { mode: 0o644, source }
}

/// A change as it was collected just now.
fn incoming(steps: &Steps, path: &str, content: NewContent) -> Incoming {
    let expected = steps.root.stamp(Path::new(path)).expect("a stamp");
    Incoming { path: path.into(), expected, content }
}

/// Every kind of change that a command can make on its copy of `start`.
fn start() -> Scene {
    Scene::of(&[
        ("a", "old"),
        ("b", "old"),
        ("d/x", "old"),
        ("gone/deep/f", "old"),
        ("turned", "file"),
        ("folder/f", "old"),
    ])
}

fn all(scene: &Scene, steps: &Steps) -> Vec<Incoming> {
    let directory = || NewContent::Directory { mode: 0o755 };
    let link = NewContent::Link { target: "a".into() };
    [
        ("a", file(scene, "a", "new")),
        ("b", file(scene, "b", "new")),
        ("d/x", file(scene, "x", "new")),
        ("folder", file(scene, "folder", "now a file")),
        ("folder/f", NewContent::Nothing),
        ("gone", NewContent::Nothing),
        ("gone/deep", NewContent::Nothing),
        ("gone/deep/f", NewContent::Nothing),
        ("made", directory()),
        ("made/link", link),
        ("made/new", file(scene, "new", "new")),
        ("turned", directory()),
        ("turned/inside", file(scene, "inside", "new")),
    ]
    .map(|(path, content)| incoming(steps, path, content))
    .into()
}

#[test]
fn all_of_it_is_made_real_and_taken_back() {
    let scene = start();
    let before = scene.held();
    let mut steps = scene.steps();
    let changes = all(&scene, &steps);
    let adopted = steps.adopt("work", changes, true).expect("adopted");
    assert_eq!((adopted.left, adopted.report.step), (vec![], Some(1)));
    assert_eq!((scene.read("folder"), scene.read("turned/inside")), ("now a file".into(), "new".into()));
    assert_eq!(std::fs::read_link(scene.at("made/link")).expect("a link"), Path::new("a"));
    assert!(!scene.at("gone").exists());
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.held(), before);
}

/// A list of access: the owner and one user may write, others may read.
fn access_list(user: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, NOBODY), (2, 6, user), (4, 4, NOBODY), (16, 6, NOBODY), (32, 4, NOBODY)];
    let entries = entries
        .iter()
        .flat_map(|(tag, rights, id)| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    2_u32.to_le_bytes().into_iter().chain(entries).collect()
}

/// A command gave another user of the machine the right to write a file, and the question showed only its text.
#[test]
fn an_access_list_of_the_copy_is_not_made_real_and_that_of_the_workspace_stays() {
    const ACL: &str = "system.posix_acl_access";
    let set = |path: &Path, user| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, ACL, &access_list(user), flags).expect("an access list");
    };
    let of = |path: PathBuf| {
        let mut value = [0_u8; 100];
        rustix::fs::getxattr(path, ACL, &mut value[..]).ok().map(|length| value[..length].to_vec())
    };
    let scene = start();
    let mut steps = scene.steps();
    set(&scene.at("b"), 4001);
    // Files that are made in this directory get a right.
    let flags = rustix::fs::XattrFlags::empty();
    let of_directory = "system.posix_acl_default";
    rustix::fs::setxattr(scene.at("d"), of_directory, &access_list(4002), flags).expect("an access list");
    let changes = ["a", "b", "new", "d/new"].map(|name| {
        std::fs::create_dir_all(upper(&scene).join("d")).expect("a directory");
        let content = file(&scene, name, "text");
        set(&upper(&scene).join(name), 4002);
        incoming(&steps, name, content)
    });
    let adopted = steps.adopt("work", changes.into(), true).expect("adopted");
    assert_eq!((adopted.left, scene.read("b")), (vec![], "text".into()));
    assert_eq!((of(scene.at("a")), of(scene.at("new"))), (None, None));
    assert!(of(scene.at("d/new")).is_some());
    let list = of(scene.at("b")).expect("an access list");
    assert!(
        list.windows(4).any(|it| it == 4001_u32.to_le_bytes())
            && !list.windows(4).any(|it| it == 4002_u32.to_le_bytes())
    );
    let _ = steps.undo(1, false).expect("taken back");
    let stayed = of(scene.at("b")).expect("the list stays through an undo");
    assert!(of(scene.at("a")).is_none() && stayed.windows(4).any(|it| it == 4001_u32.to_le_bytes()));
    // An access list is lost with its file: a file that is made again has the group's permissions from before, not those of the
    // mask.
    assert_eq!(scene.held()[Path::new("b")].0 & 0o777, 0o664);
    let gone = incoming(&steps, "b", NewContent::Nothing);
    let _ = steps.adopt("rm b", vec![gone], true).expect("adopted");
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!((of(scene.at("b")), scene.held()[Path::new("b")].0 & 0o777), (None, 0o644));
    // The same for an edit, whose redo finds what its undo has made.
    let scene = start();
    let mut steps = scene.steps();
    set(&scene.at("b"), 4001);
    let before = steps.before_edit("b", &["b".into()]).expect("kept");
    std::fs::remove_file(scene.at("b")).expect("removed");
    steps.after_edit(before).expect("a step");
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!((of(scene.at("b")), scene.held()[Path::new("b")].0 & 0o777), (None, 0o644));
    let _ = steps.redo(1, false).expect("made again");
    assert!(!scene.at("b").exists());
}

/// As root, the kernel's note stayed on each file of the user's that a command had changed.
#[test]
fn overlayfs_leaves_no_attribute_on_the_users_files() {
    let scene = start();
    let mut steps = scene.steps();
    let content = file(&scene, "a", "text");
    let source = upper(&scene).join("a");
    for name in ["user.overlay.origin", "user.own"] {
        rustix::fs::setxattr(&source, name, b"x", rustix::fs::XattrFlags::empty()).expect("an attribute");
    }
    let adopted = steps.adopt("work", vec![incoming(&steps, "a", content)], true).expect("adopted");
    assert_eq!((adopted.left, scene.read("a")), (vec![], "text".into()));
    let mut names = [0_u8; 1024];
    let length = rustix::fs::llistxattr(scene.at("a"), &mut names[..]).expect("its attributes");
    assert_eq!(String::from_utf8_lossy(&names[..length]), "user.own\0");
}

/// The environment variable by which this test, started as a separate program, learns its directory and the step at which it is
/// killed.
const PLACE: &str = "REEDCLAW_TEST_ADOPT_PLACE";
const KILLED_AT: &str = "REEDCLAW_TEST_ADOPT_KILLED_AT";

#[test]
fn killed_at_any_step_all_is_old_or_all_is_new() {
    if let Some(top) = std::env::var_os(PLACE) {
        let scene = Scene { top: tempfile::Builder::new().tempdir_in(&top).expect("a directory") };
        let top = PathBuf::from(top);
        let mut steps = Steps::new(&top.join("state"), &top.join("ws"), LIMITS, &[]).expect("steps");
        let changes = if top.join("ws/many").exists() { many(&scene, &steps) } else { all(&scene, &steps) };
        let mut left: usize = std::env::var(KILLED_AT).expect("a step").parse().expect("a number");
        let adopted = adopt_in_steps(&mut steps, "work", changes, true, &mut || {
            left -= 1;
            if left == 0 {
                let _ = kill(getpid(), Signal::SIGKILL);
            }
        });
        assert_eq!(adopted.expect("adopted").left, []);
        return;
    }
    killed_at_each_step(&start, &all, 1);
    // A large change replaces files by exchange, and removes the old ones afterwards.
    let starts = || {
        let names = (0..MANY).map(|number| format!("many/{number}"));
        let names: Vec<String> = names.chain((0..WIDE).map(|number| format!("wide/deep/{number}"))).collect();
        Scene::of(&names.iter().map(|name| (name.as_str(), "old")).collect::<Vec<_>>())
    };
    killed_at_each_step(&starts, &many, 11);
}

/// Files of a change that is large.
const MANY: usize = 80;
/// Files of one directory that lie on the copy as in the workspace.
const WIDE: usize = 15;

fn many(scene: &Scene, steps: &Steps) -> Vec<Incoming> {
    let content = |number: usize| match number % 8 {
        0 => NewContent::Nothing,
        1 => NewContent::Link { target: "2".into() },
        _ => file(scene, &format!("new{number}"), "new"),
    };
    let all = (0..MANY).map(|number| incoming(steps, &format!("many/{number}"), content(number)));
    let all = all.chain([incoming(steps, "many/new", file(scene, "new", "new"))]);
    std::fs::create_dir_all(upper(scene).join("half")).expect("a directory");
    std::fs::write(upper(scene).join("half/other"), "stays").expect("a file");
    let wide = (0..WIDE).map(|number| format!("wide/deep/{number}"));
    let all = all.chain(wide.map(|name| incoming(steps, &name, file(scene, &name, "new"))));
    all.chain(["half", "tree"].into_iter().flat_map(|name| tree(scene, steps, name))).collect()
}

/// A new directory of a copy with a file, a link and another directory in it.
fn tree(scene: &Scene, steps: &Steps, name: &str) -> Vec<Incoming> {
    let directory = || NewContent::Directory { mode: 0o755 };
    let at = |name: &str| upper(scene).join(name);
    let (link, sub) = (format!("{name}/link"), format!("{name}/sub"));
    let contents = [file(scene, &format!("{name}/a"), "a"), file(scene, &format!("{sub}/b"), "b")];
    symlink("a", at(&link)).expect("a link");
    for (path, mode) in [(name, 0o755), (&sub, 0o755), (&format!("{name}/a"), 0o644), (&format!("{sub}/b"), 0o644)] {
        std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)).expect("its mode");
    }
    let [a, b] = contents;
    let all = [
        (name.to_owned(), directory()),
        (format!("{name}/a"), a),
        (link, NewContent::Link { target: "a".into() }),
        (sub.clone(), directory()),
        (format!("{sub}/b"), b),
    ];
    all.map(|(path, content)| incoming(steps, &path, content)).into()
}

/// Each file of a new directory was moved twice, one by one. A directory that contains more than the applied changes, or that has
/// rights and attributes that aren't shown, must not be moved as it is.
#[test]
fn a_new_directory_is_moved_as_a_whole_if_it_holds_nothing_else() {
    let acl = |path: PathBuf| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "system.posix_acl_access", &access_list(4001), flags).expect("an access list");
    };
    let marked = |path: PathBuf| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "user.overlay.opaque", b"y", flags).expect("an attribute");
    };
    let set_mode = |path: PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    };
    let spoil: [(&str, &dyn Fn(PathBuf)); 8] = [
        ("nothing", &|_| ()),
        ("a file", &|tree| std::fs::write(tree.join("sub/more"), "more").expect("a file")),
        ("a pipe", &|tree| nix::unistd::mkfifo(&tree.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe")),
        ("a list", &|tree| acl(tree.join("sub/b"))),
        ("a list of a directory", &|tree| acl(tree.join("sub"))),
        ("an attribute", &|tree| marked(tree.join("sub"))),
        ("a mode", &|tree| set_mode(tree.join("sub"), 0o2755)),
        ("a link", &|tree| {
            std::fs::remove_file(tree.join("link")).expect("gone");
            symlink("/", tree.join("link")).expect("a link");
        }),
    ];
    for (what, spoil) in spoil {
        let scene = start();
        let mut steps = scene.steps();
        let before = scene.held();
        let files = (0..MANY).map(|at| incoming(&steps, &format!("d/{at}"), file(&scene, &at.to_string(), "new")));
        let changes: Vec<Incoming> = files.chain(tree(&scene, &steps, "d/tree")).collect();
        let inode = |path: PathBuf| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("a directory"));
        spoil(upper(&scene).join("d/tree"));
        let copied = inode(upper(&scene).join("d/tree"));
        let adopted = steps.adopt("work", changes, true).expect("adopted");
        assert_eq!(adopted.left, [], "{what}");
        assert_eq!(inode(scene.at("d/tree")) == copied, what == "nothing", "{what}");
        let held = scene.held();
        let names: Vec<_> = held.keys().filter(|path| path.starts_with("d/tree")).collect();
        let expected = ["d/tree", "d/tree/a", "d/tree/link", "d/tree/sub", "d/tree/sub/b"];
        assert_eq!(names, expected.map(Path::new), "{what}");
        assert_eq!(std::fs::read_link(scene.at("d/tree/link")).expect("a link"), Path::new("a"), "{what}");
        assert_eq!(held[Path::new("d/tree/sub")].0 & 0o7777, 0o755, "{what}");
        let list = rustix::fs::llistxattr(scene.at("d/tree/sub/b"), &mut [0_u8; 256][..]);
        assert!(matches!(list, Ok(0)), "{what}: {list:?}");
        let _ = steps.undo(1, false).expect("taken back");
        assert!(scene.held() == before, "{what}");
    }
}

/// The first rename of a file was one of two even if all files of its directory had changed. A directory of the workspace gets
/// nothing from the copy but the applied files.
#[test]
fn a_directory_of_changed_files_is_moved_as_a_whole_and_each_file_of_it_by_itself() {
    let set_mode = |path: PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    };
    let list = |path: PathBuf| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "system.posix_acl_access", &access_list(4001), flags).expect("an access list");
    };
    let spoil: [(&str, &dyn Fn(PathBuf)); 6] = [
        ("nothing", &|_| ()),
        ("a file", &|deep| std::fs::write(deep.join("more"), "more").expect("a file")),
        ("a pipe", &|deep| nix::unistd::mkfifo(&deep.join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe")),
        ("a directory", &|deep| std::fs::create_dir(deep.join("more")).expect("a directory")),
        ("a list", &|deep| list(deep.join("1"))),
        ("a mode", &|deep| set_mode(deep, 0o500)),
    ];
    let names: Vec<String> = (0..MANY).map(|number| format!("wide/deep/{number}")).collect();
    let old: Vec<_> = names.iter().map(|name| (name.as_str(), "old")).chain([("wide/deep/own", "mine")]).collect();
    for (what, spoil) in spoil {
        let scene = Scene::of(&old);
        let mut steps = scene.steps();
        let before = scene.held();
        let changes: Vec<_> = names.iter().map(|name| incoming(&steps, name, file(&scene, name, "new"))).collect();
        std::fs::write(upper(&scene).join("wide/other"), "stays").expect("a file");
        let (copied, kept) = (upper(&scene).join("wide/deep"), scene.at("wide/deep"));
        spoil(copied.clone());
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("an entry"));
        let directory = inode(&kept);
        let adopted = steps.adopt("work", changes, true).expect("adopted");
        assert_eq!(adopted.left, [], "{what}");
        assert_eq!(copied.exists(), what != "nothing", "{what}");
        assert_eq!(inode(&kept), directory, "{what}");
        let held = scene.held();
        assert!(held.keys().eq(before.keys()), "{what}: {:?}", held.keys());
        let texts = names.iter().map(|name| &held[Path::new(name)].1).filter(|text| **text == b"new");
        assert_eq!((texts.count(), scene.read("wide/deep/own")), (MANY, "mine".to_owned()), "{what}");
        let attributes = rustix::fs::llistxattr(scene.at("wide/deep/1"), &mut [0_u8; 256][..]);
        assert!(matches!(attributes, Ok(0)), "{what}: {attributes:?}");
        assert_eq!(std::fs::read_to_string(upper(&scene).join("wide/other")).expect("a file"), "stays");
        let _ = steps.undo(1, false).expect("taken back");
        assert!(scene.held() == before, "{what}");
    }
}

/// The original files are restored, not copies of them: they are exchanged with the new ones.
#[test]
fn files_that_were_replaced_go_back_when_a_later_one_fails() {
    let names: Vec<String> = (0..MANY).map(|number| format!("first/{number}")).collect();
    let old: Vec<_> = names.iter().map(|name| (name.as_str(), "old")).chain([("last/own", "mine")]).collect();
    let scene = Scene::of(&old);
    let inodes = || {
        let inode = |name: &String| std::fs::metadata(scene.at(name)).expect("a file");
        names.iter().map(inode).map(|data| std::os::unix::fs::MetadataExt::ino(&data)).collect::<Vec<_>>()
    };
    let (before, old) = (scene.held(), inodes());
    let mut steps = scene.steps();
    let changes = names.iter().map(|name| incoming(&steps, name, file(&scene, name, "new")));
    let made = incoming(&steps, "last/made", NewContent::Directory { mode: 0o755 });
    let changes = changes.chain([made]).collect();
    let failed = adopt_in_steps(&mut steps, "work", changes, true, &mut || {
        if scene.read("first/9") == "new" && std::fs::rename(scene.at("last"), scene.at("moved")).is_ok() {
            symlink(scene.top.path(), scene.at("last")).expect("a link");
        }
    });
    assert!(failed.is_err(), "{failed:?}");
    std::fs::remove_file(scene.at("last")).expect("it goes");
    std::fs::rename(scene.at("moved"), scene.at("last")).expect("it moves back");
    assert!(scene.held() == before && inodes() == old);
    assert!(steps.recover().expect("recovered").is_empty() && steps.list().is_empty());
}

/// Kills this test, started as a program of its own, at each of these steps of making changes real.
fn killed_at_each_step(start: &dyn Fn() -> Scene, all: &dyn Fn(&Scene, &Steps) -> Vec<Incoming>, apart: usize) {
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let whole = start();
    let mut steps = whole.steps();
    let changes = all(&whole, &steps);
    let _ = steps.adopt("work", changes, true).expect("adopted");
    let after = whole.held();
    let (mut news, mut olds) = (0, 0);
    for at in (1..).step_by(apart) {
        assert!(at < 300, "it never ends by itself");
        let scene = start();
        let before = scene.held();
        let mut program = Command::new(std::env::current_exe().expect("this test"));
        program.args(["--exact", &name]).env(PLACE, scene.top.path()).env(KILLED_AT, at.to_string());
        let ended = program.output().expect("it runs");
        if ended.status.success() {
            assert_eq!(scene.held(), after);
            break;
        }
        assert_eq!(ended.status.signal(), Some(Signal::SIGKILL as i32), "{ended:?}");
        let _ = scene.steps().recover().expect("recovered");
        let (now, made) = (scene.held(), scene.steps().list());
        if now == before {
            olds += 1;
            assert!(made.is_empty(), "killed at step {at}: {made:?}");
        } else {
            news += 1;
            assert!(now == after, "killed at step {at}: {:?}", now.keys());
            // Between the last change and its step a crash left no step; after the step there would be two.
            assert_eq!(made.len(), 1, "killed at step {at}");
            let _ = scene.steps().undo(1, false).expect("taken back");
            assert!(scene.held() == before, "killed at step {at}");
        }
    }
    assert!(news >= 5 && olds >= 5, "{news} {olds}");
}

/// Interferes at each step of applying the changes in turn, in a fresh scene, and checks the result.
fn at_each_step(meddle: impl Fn(&Scene), look: impl Fn(&Scene, usize)) {
    for when in 1.. {
        assert!(when < 100, "it never ends by itself");
        let scene = start();
        let mut steps = scene.steps();
        let changes = all(&scene, &steps);
        let mut at = 0;
        let adopted = adopt_in_steps(&mut steps, "work", changes, true, &mut || {
            at += 1;
            if at == when {
                meddle(&scene);
            }
        });
        if when > at {
            return;
        }
        if adopted.is_err() {
            // Files that weren't interfered with are unchanged.
            assert_eq!(scene.read("a"), "old", "at step {when}");
        }
        look(&scene, when);
    }
}

#[test]
fn files_edited_during_adoption_stay() {
    let edit = |scene: &Scene| scene.write("b", "mine");
    at_each_step(edit, |scene, when| assert_eq!(scene.read("b"), "mine", "at step {when}"));
}

#[test]
fn an_edit_that_is_dated_back_stays() {
    let edit = |scene: &Scene| {
        let modified = std::fs::metadata(scene.at("b")).and_then(|data| data.modified()).expect("a time");
        scene.write("b", "own");
        let file = std::fs::File::options().write(true).open(scene.at("b")).expect("a file");
        file.set_modified(modified).expect("a time");
    };
    at_each_step(edit, |scene, when| assert_eq!(scene.read("b"), "own", "at step {when}"));
}

#[test]
fn files_deleted_during_adoption_stay_deleted() {
    let delete = |scene: &Scene| std::fs::remove_file(scene.at("b")).expect("it goes");
    at_each_step(delete, |scene, when| assert!(!scene.at("b").exists(), "at step {when}"));
}

#[test]
fn files_created_during_adoption_stay() {
    let make = |scene: &Scene| scene.write("made/new", "mine");
    at_each_step(make, |scene, when| assert_eq!(scene.read("made/new"), "mine", "at step {when}"));
    // The same with a file that appears in a directory that will be removed.
    let make = |scene: &Scene| scene.write("gone/deep/mine", "mine");
    at_each_step(make, |scene, when| assert_eq!(scene.read("gone/deep/mine"), "mine", "at step {when}"));
}

#[test]
fn a_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let swap = |scene: &Scene| {
        let outside = scene.top.path().join("outside");
        std::fs::create_dir(&outside).expect("a directory");
        std::fs::write(outside.join("x"), "old").expect("a file");
        std::fs::rename(scene.at("d"), scene.at("e")).expect("moved");
        symlink(&outside, scene.at("d")).expect("a link");
    };
    at_each_step(swap, |scene, when| {
        let outside = held(&scene.top.path().join("outside"));
        assert_eq!(outside.len(), 1, "at step {when}");
        assert_eq!(outside[Path::new("x")].1, b"old", "at step {when}");
    });
}

#[test]
fn a_directory_that_is_swapped_for_another_is_left() {
    let swap = |scene: &Scene| {
        std::fs::rename(scene.at("d"), scene.at("e")).expect("moved");
        scene.write("d/x", "mine");
    };
    at_each_step(swap, |scene, when| assert_eq!(scene.read("d/x"), "mine", "at step {when}"));
}

#[test]
fn a_content_that_is_swapped_for_a_link_is_not_followed() {
    let scene = start();
    let mut steps = scene.steps();
    let changes = all(&scene, &steps);
    let before = scene.held();
    std::fs::write(scene.top.path().join("secret"), "secret").expect("a file");
    std::fs::remove_file(upper(&scene).join("a")).expect("it goes");
    symlink(scene.top.path().join("secret"), upper(&scene).join("a")).expect("a link");
    assert!(steps.adopt("work", changes, true).is_err());
    assert_eq!(scene.held(), before);
}

/// The environment variable by which this test, started in its own mount namespace, learns the place of a small disk.
const FULL: &str = "REEDCLAW_TEST_ADOPT_FULL";

#[test]
fn a_full_disk_changes_nothing() {
    if let Some(top) = std::env::var_os(FULL) {
        let top = PathBuf::from(top);
        std::fs::write(top.join("ws/a"), "old").expect("a file");
        std::fs::write(top.join("source"), vec![b'x'; 300_000]).expect("a file");
        let mut steps = Steps::new(&top.join("state"), &top.join("ws"), LIMITS, &[]).expect("steps");
        let small = NewContent::Bytes { mode: 0o644, bytes: b"new".to_vec() };
        let large = NewContent::File { mode: 0o644, source: top.join("source") };
        let changes = vec![incoming(&steps, "a", small), incoming(&steps, "large", large)];
        assert!(matches!(steps.adopt("work", changes, true), Err(StepsError::Path { .. })), "it can't lay it ready");
        let names: Vec<_> = held(&top.join("ws")).into_iter().map(|(path, (_, bytes))| (path, bytes)).collect();
        assert_eq!(names, [(PathBuf::from("a"), b"old".to_vec())]);
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let scene = Scene::new();
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t tmpfs -o size=200k none \"$1\" && exec \"$0\" --exact \"$2\""]);
    command.arg(std::env::current_exe().expect("this test")).arg(scene.at("")).arg(name);
    let ended = command.env(FULL, scene.top.path()).output().expect("it runs");
    assert!(ended.status.success(), "{ended:?}");
}

/// The environment variable by which this test, started as a program of an ordinary user, learns its directory.
const ORDINARY: &str = "REEDCLAW_TEST_ADOPT_ORDINARY";

/// Root reads everything; anybody else was refused the undo of a directory or a file that a command had closed.
#[test]
fn an_ordinary_user_takes_back_what_a_command_closed() {
    const NOBODY: u32 = 65_534;
    let Some(top) = std::env::var_os(ORDINARY).map(PathBuf::from) else {
        let top = tempfile::tempdir().expect("a directory");
        let name = std::thread::current().name().expect("the test's name").to_owned();
        let mut program = Command::new(std::env::current_exe().expect("this test"));
        program.args(["--exact", &name]).env(ORDINARY, top.path());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(top.path(), Some(NOBODY), Some(NOBODY)).expect("its owner");
            std::os::unix::process::CommandExt::uid(program.current_dir("/"), NOBODY);
        }
        let ended = program.output().expect("it runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        return;
    };
    let scene = Scene { top: tempfile::tempdir_in(top).expect("a directory") };
    scene.write("d/x", "old");
    scene.write("key", "old");
    let before = scene.held();
    let mut steps = scene.steps();
    let closed = |name: &str| {
        let NewContent::File { source, .. } = file(&scene, name, "new") else { panic!("a file") };
        NewContent::File { mode: 0o200, source }
    };
    let directory = |mode| NewContent::Directory { mode };
    let changes = [
        ("d", directory(0o000)),
        ("d/x", closed("x")),
        ("key", closed("key")),
        ("shut", directory(0o100)),
        ("shut/in", directory(0o000)),
        ("shut/in/a", closed("a")),
    ];
    let adopted = steps.adopt("work", changes.map(|(path, it)| incoming(&steps, path, it)).into(), true);
    assert_eq!(adopted.expect("adopted").left, []);
    let mode = |path: &str| std::fs::metadata(scene.at(path)).expect("an entry").permissions().mode() & 0o777;
    let modes = || [mode("d"), mode("key"), mode("shut")];
    for _ in 0..2 {
        assert_eq!(modes(), [0o000, 0o200, 0o100]);
        let _ = steps.undo(1, false).expect("taken back");
        assert!(scene.held() == before);
        let _ = steps.redo(1, false).expect("made again");
    }
    // What can't be reverted stays closed.
    std::fs::set_permissions(scene.at("d"), std::fs::Permissions::from_mode(0o700)).expect("its mode");
    scene.write("d/mine", "mine");
    std::fs::set_permissions(scene.at("d"), std::fs::Permissions::from_mode(0o000)).expect("its mode");
    std::fs::write(scene.at("key"), "mine").expect("a file that may be written");
    assert!(matches!(steps.undo(1, false), Err(StepsError::Conflicts(_))));
    assert_eq!(modes(), [0o000, 0o200, 0o100]);
}
