//! Trees that a command changes at random and that are restored exactly; a person's changes stay; a crash at any step leaves the
//! state before or after.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use proptest::prelude::*;

use super::together::turn;
use super::*;

pub(super) const LIMITS: Limits = Limits {
    bytes_max: 64 * 1024 * 1024,
    file_bytes_max: 1024 * 1024,
    files_max: 10_000,
    look_time: Duration::from_secs(60),
    read_time: Duration::from_secs(60),
    compare_time: Duration::from_secs(60),
};

pub(super) struct Scene {
    pub(super) top: tempfile::TempDir,
}

impl Scene {
    pub(super) fn new() -> Self {
        let top = tempfile::tempdir().expect("a directory");
        fs::create_dir(top.path().join("ws")).expect("a workspace");
        Self { top }
    }

    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let scene = Self::new();
        files.iter().for_each(|(path, text)| scene.write(path, text));
        scene
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.top.path().join("ws").join(path)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.top.path().join("state")
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).expect("a file")
    }

    pub(super) fn steps(&self) -> Steps {
        self.steps_with(LIMITS)
    }

    pub(super) fn steps_with(&self, limits: Limits) -> Steps {
        Steps::new(&self.state(), &self.at(""), limits, &[]).expect("steps")
    }

    pub(super) fn held(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        held(&self.at(""))
    }
}

/// Returns everything below a directory: kind and mode, and content.
pub(super) fn held(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).expect("a directory").flatten() {
            let (path, data) = (entry.path(), entry.path().symlink_metadata().expect("an entry"));
            let bytes = if data.is_dir() {
                waiting.push(path.clone());
                Vec::new()
            } else if data.is_symlink() {
                fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec()
            } else {
                fs::read(&path).expect("a file")
            };
            found.insert(path.strip_prefix(top).expect("below").to_owned(), (data.mode(), bytes));
        }
    }
    found
}

pub(super) fn command(steps: &mut Steps, work: impl FnOnce()) -> StepReport {
    let open = steps.before("work").expect("a look");
    work();
    steps.after(open).expect("a step")
}

#[test]
fn sessions_that_make_the_store_together_all_begin_their_edits() {
    for _ in 0..20 {
        let scene = Scene::of(&[("a", "old\n")]);
        std::thread::scope(|scope| {
            let edit = || scene.steps().before_edit("a", &[PathBuf::from("a")]).map(drop);
            let running: Vec<_> = (0..8).map(|_| scope.spawn(edit)).collect();
            for it in running {
                assert_eq!(it.join().expect("no panic"), Ok(()));
            }
        });
    }
}

#[test]
fn a_command_is_taken_back_and_made_again() {
    let scene = Scene::of(&[("a", "old\n"), ("gone/deep", "x"), ("kept", "k"), ("turned", "file")]);
    fs::set_permissions(scene.at("a"), fs::Permissions::from_mode(0o751)).expect("a mode");
    symlink("kept", scene.at("link")).expect("a link");
    let before = scene.held();
    let mut steps = scene.steps();
    let made = command(&mut steps, || {
        scene.write("a", "new\n");
        fs::remove_dir_all(scene.at("gone")).expect("it goes");
        scene.write("made/on/the/way", "m");
        fs::remove_file(scene.at("link")).expect("it goes");
        symlink("/etc/passwd", scene.at("link")).expect("a link");
        fs::remove_file(scene.at("turned")).expect("it goes");
        scene.write("turned/inside", "directory");
        fs::set_permissions(scene.at("kept"), fs::Permissions::from_mode(0o600)).expect("a mode");
    });
    let after = scene.held();
    assert_eq!((made.step, made.lost), (Some(1), 0));
    // a, gone/deep, made/on/the/way, link, turned, turned/inside, kept.
    assert_eq!(made.files, 7);
    for _ in 0..3 {
        let back = steps.undo(1, false).expect("taken back");
        assert_eq!(back.left, []);
        assert_eq!(scene.held(), before);
        assert!(steps.list()[0].is_undone);
        let again = steps.redo(1, false).expect("made again");
        assert_eq!(again.left, []);
        assert_eq!(scene.held(), after);
    }
    assert!(fs::read_dir(scene.state()).expect("a state").count() > 0);
}

#[test]
fn undo_keeps_the_persons_changes_unless_forced() {
    let scene = Scene::of(&[("a", "one\n"), ("b", "one\n")]);
    let mut steps = scene.steps();
    let _ = command(&mut steps, || {
        scene.write("a", "two\n");
        scene.write("b", "two\n");
    });
    scene.write("a", "mine\n");
    let Err(StepsError::Conflicts(conflicts)) = steps.undo(1, false) else { panic!("it was overwritten") };
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].path, Path::new("a"));
    let text =
        |state: State| String::from_utf8(steps.content(&state.id().expect("kept")).expect("kept")).expect("text");
    assert_eq!((text(conflicts[0].left), text(conflicts[0].now)), ("two\n".to_owned(), "mine\n".to_owned()));
    assert_eq!((scene.read("a"), scene.read("b")), ("mine\n".into(), "two\n".into()), "nothing is done");
    let back = steps.undo(1, true).expect("taken back");
    assert_eq!((scene.read("a"), scene.read("b")), ("one\n".into(), "one\n".into()));
    assert_eq!(back.kept_in, Some(2));
    // The person's own change is a step, and is restored.
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.read("a"), "mine\n");
}

#[test]
fn several_steps_at_once_and_what_lies_between_them() {
    let scene = Scene::of(&[("a", "0")]);
    let mut steps = scene.steps();
    for text in ["1", "2", "3"] {
        let _ = command(&mut steps, || scene.write("a", text));
    }
    let _ = steps.undo(2, false).expect("taken back");
    assert_eq!(scene.read("a"), "1");
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.read("a"), "0");
    assert!(matches!(steps.undo(1, false), Err(StepsError::Nothing(_))));
    let _ = steps.redo(3, false).expect("made again");
    assert_eq!(scene.read("a"), "3");
    let _ = steps.undo(1, false).expect("taken back");
    let _ = command(&mut steps, || scene.write("b", "new"));
    assert!(matches!(steps.redo(1, false), Err(StepsError::Nothing(_))), "a newer step stands in its place");
    // A person's changes between two steps belong to neither.
    scene.write("a", "mine");
    let _ = command(&mut steps, || scene.write("a", "4"));
    let Err(StepsError::Conflicts(conflicts)) = steps.undo(3, false) else { panic!("it was overwritten") };
    assert_eq!(conflicts[0].why, "was changed between these steps");
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.read("a"), "mine");
}

/// Redo repeated the oldest step, which had been reverted before the newer one was made.
#[test]
fn redo_leaves_out_what_a_newer_step_stands_for() {
    let scene = Scene::of(&[("a", "0"), ("b", "0"), ("c", "0")]);
    let mut steps = scene.steps();
    let _ = command(&mut steps, || scene.write("a", "1"));
    let _ = command(&mut steps, || scene.write("b", "1"));
    let _ = steps.undo(1, false).expect("taken back");
    let _ = command(&mut steps, || scene.write("c", "1"));
    let _ = steps.undo(1, false).expect("taken back");
    let texts = || ["a", "b", "c"].map(|name| scene.read(name));
    let again = steps.redo(1, false).expect("made again");
    assert_eq!((texts(), again.steps[0].number), (["1", "0", "1"].map(str::to_owned), 3));
    // The same if the one before both is reverted; the order is that in which they were made.
    let _ = steps.undo(2, false).expect("taken back");
    assert_eq!(texts(), ["0", "0", "0"]);
    let none = steps.undo(1, false).expect_err("all are taken back").to_string();
    assert_eq!(none, "nothing to undo: all 3 steps are already undone");
    let _ = steps.redo(1, false).expect("made again");
    assert_eq!(texts(), ["1", "0", "0"]);
    let _ = steps.redo(1, false).expect("made again");
    assert_eq!(texts(), ["1", "0", "1"]);
    assert!(matches!(steps.redo(1, false), Err(StepsError::Nothing(_))));
    // What a person had changed is such a step, too.
    scene.write("c", "mine");
    let _ = steps.undo(1, true).expect("taken back");
    let _ = steps.undo(1, false).expect("the person's own");
    assert_eq!(texts(), ["1", "0", "mine"]);
    let _ = steps.redo(1, false).expect("made again");
    assert_eq!(texts(), ["1", "0", "0"]);
}

#[test]
fn one_file_walks_back_alone() {
    let scene = Scene::of(&[("a", "0"), ("b", "0")]);
    let mut steps = scene.steps();
    for text in ["1", "2"] {
        let _ = command(&mut steps, || ["a", "b"].iter().for_each(|name| scene.write(name, text)));
    }
    let _ = steps.undo_file(Path::new("a"), false).expect("taken back");
    assert_eq!((scene.read("a"), scene.read("b")), ("1".into(), "2".into()));
    let _ = steps.undo_file(Path::new("a"), false).expect("taken back");
    assert_eq!(scene.read("a"), "0");
    assert!(steps.undo_file(Path::new("a"), false).is_err());
    let never = steps.undo_file(Path::new("c"), false).expect_err("no step").to_string();
    assert_eq!(never, "c can't be undone: no step changed it");
    let _ = steps.undo(2, false).expect("both are steps");
    assert_eq!(scene.read("a"), "2");
    let _ = steps.undo(2, false).expect("the others");
    let none = steps.undo(1, false).expect_err("all are taken back").to_string();
    assert_eq!(none, "nothing to undo: all 4 steps are already undone; redo repeats them");
    let none = steps.undo_file(Path::new("a"), false).expect_err("all are taken back").to_string();
    assert_eq!(none, "a can't be undone: the step that changed it is already undone");
}

#[test]
fn edits_are_steps_without_a_look_at_the_rest() {
    let scene = Scene::of(&[("a", "old")]);
    let mut steps = scene.steps();
    let before = steps.before_edit("a, new/b", &["a".into(), "new/b".into()]).expect("kept");
    scene.write("a", "new");
    scene.write("new/b", "made");
    scene.write("other", "a person's");
    let made = steps.after_edit(before).expect("a step");
    assert_eq!((made.step, made.files), (Some(1), 2));
    let back = steps.undo(1, false).expect("taken back");
    assert_eq!(back.files, 2);
    assert_eq!(scene.read("a"), "old");
    assert!(!scene.at("new").exists());
    assert_eq!(scene.read("other"), "a person's");
}

#[test]
fn files_that_cannot_be_stored_are_reported() {
    let scene = Scene::of(&[
        ("big", &"x".repeat(3000)),
        ("small", "s"),
        ("cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n"),
        ("cache/object", "o"),
        (".git/HEAD", "ref"),
    ]);
    nix::unistd::mkfifo(&scene.at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let secret = scene.at("secret");
    scene.write("secret/key", "k");
    let limits = Limits { file_bytes_max: 1000, ..LIMITS };
    let mut steps = Steps::new(&scene.state(), &scene.at(""), limits, &[secret]).expect("steps");
    let made = command(&mut steps, || {
        scene.write("big", &"y".repeat(3000));
        scene.write("small", "t");
        scene.write("cache/object", "p");
        scene.write(".git/HEAD", "other");
        scene.write("secret/key", "l");
    });
    assert_eq!((made.files, made.lost), (2, 1));
    let lost: Vec<_> = steps.list()[0].lost().map(|(path, why)| (path.to_owned(), why)).collect();
    assert_eq!(lost, [(PathBuf::from("big"), Why::Large)]);
    let skipped = steps.cover().1;
    let of = |path: &str| skipped.iter().find(|(it, _)| it == Path::new(path)).map(|(_, why)| *why);
    assert_eq!((of(".git"), of("cache"), of("secret")), (Some(Why::Git), Some(Why::Cache), Some(Why::Secret)));
    assert_eq!((of("big"), of("pipe"), of("small")), (Some(Why::Large), Some(Why::Special), None));
    let back = steps.undo(1, false).expect("taken back");
    assert_eq!(back.left.len(), 1);
    assert_eq!(back.unseen, [(PathBuf::from("cache"), Why::Cache)], "what was done there isn't known, and said");
    assert_eq!(scene.read("small"), "s");
    assert_eq!((scene.read("big").starts_with('y'), scene.read("secret/key").as_str()), (true, "l"));
    // A new file that can't be stored stays, which is reported, and the rest of its step is reverted anyway.
    let made = command(&mut steps, || {
        scene.write("huge", &"y".repeat(3000));
        scene.write("small", "u");
    });
    assert_eq!((made.files, made.lost), (2, 1), "it is said at once");
    for by_force in [false, true] {
        let one = steps.undo_file(Path::new("huge"), by_force).expect_err("it can't be kept").to_string();
        assert!(one.ends_with("put it away first") && scene.at("huge").exists(), "{one}");
    }
    let back = steps.undo(1, false).expect("taken back");
    let why = "the step didn't keep what it left there: larger than undo.file_bytes_max";
    assert_eq!(back.left, [(PathBuf::from("huge"), why.to_owned())]);
    assert_eq!((scene.read("small").as_str(), scene.read("huge").len()), ("s", 3000));
    let few = Limits { files_max: 3, ..LIMITS };
    assert!(matches!(scene.steps_with(few).before("x"), Err(StepsError::TooMany(3))));
}

#[test]
fn a_store_that_cannot_be_made_promises_no_undo() {
    let scene = Scene::of(&[("a", "old"), ("in the way", "a file")]);
    // A file in place of a directory, and a file system in which nothing can be created.
    for state in [scene.at("in the way"), scene.at("in the way/below"), PathBuf::from("/proc/reedclaw")] {
        let mut steps = Steps::new(&state, &scene.at(""), LIMITS, &[]).expect("nothing is looked at yet");
        assert!(matches!(steps.before("work"), Err(StepsError::Io { .. })), "{}", state.display());
        assert!(matches!(steps.before_edit("a", &["a".into()]), Err(StepsError::Io { .. })));
        assert!(steps.undo(1, false).is_err() && steps.redo(1, false).is_err());
        assert_eq!((steps.recover(), steps.list(), steps.cover()), (Ok(Vec::new()), Vec::new(), (0, Vec::new())));
    }
    assert_eq!(scene.read("in the way"), "a file");
}

#[test]
fn a_store_that_can_no_longer_be_written_changes_nothing() {
    for closed in ["steps", "git/objects", "undoing.new", "table.new"] {
        let scene = Scene::of(&[("a", "old"), ("b", "old")]);
        let mut steps = scene.steps();
        let _ = command(&mut steps, || scene.write("a", "new"));
        let place = steps.store.folder.join(closed);
        let open = steps.before("work").expect("a look");
        // Something else where it writes: root may write whatever the modes say.
        let aside = scene.top.path().join("aside");
        if place.exists() {
            fs::rename(&place, &aside).expect("it goes");
            fs::write(&place, "in the way").expect("a file");
        } else {
            fs::create_dir(&place).expect("in the way");
        }
        scene.write("b", "new");
        let made = steps.after(open);
        let back = steps.undo(1, false);
        let seen = (scene.read("a"), scene.read("b"));
        match closed {
            "undoing.new" => {
                assert_eq!(made.map(|made| made.step), Ok(Some(2)));
                assert!(matches!(back, Err(StepsError::Io { .. })), "{back:?}");
                assert_eq!(seen, ("new".into(), "new".into()), "an undo that can't be noted isn't begun");
            }
            _ => {
                assert!(matches!(made, Err(StepsError::Io { .. })), "{closed}: {made:?}");
                assert_eq!(seen.1, "new", "what is no step isn't taken back");
            }
        }
        let names: Vec<_> =
            fs::read_dir(scene.at("")).expect("a workspace").flatten().map(|it| it.file_name()).collect();
        assert_eq!(names.len(), 2, "{closed}: {names:?}");
    }
}

#[test]
fn the_oldest_steps_make_room() {
    let scene = Scene::new();
    let limits = Limits { bytes_max: 60_000, ..LIMITS };
    let mut steps = scene.steps_with(limits);
    let mut pruned = 0;
    for round in 0..20_u32 {
        // Content that doesn't compress.
        let mut seed = round.wrapping_mul(2_654_435_761).max(1);
        let text: String = (0..8000)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 17;
                seed ^= seed << 5;
                char::from(b'0' + (seed % 64) as u8)
            })
            .collect();
        pruned += command(&mut steps, || scene.write("a", &text)).pruned;
    }
    let numbers: Vec<u64> = steps.list().iter().map(|step| step.number).collect();
    assert!(pruned > 0 && numbers.len() < 20 && numbers.last() == Some(&20), "{pruned} {numbers:?}");
    assert!(steps.cover().0 <= 60_000, "{}", steps.cover().0);
    let before = scene.read("a");
    let count = numbers.len();
    let _ = steps.undo(count, false).expect("all that are kept");
    let _ = steps.redo(count, false).expect("made again");
    assert_eq!(scene.read("a"), before);
}

#[test]
fn a_command_that_was_cut_off_becomes_a_step() {
    let scene = Scene::of(&[("a", "old")]);
    let mut killed = scene.steps();
    let open = killed.before("sleep 1; echo new >a").expect("a look");
    scene.write("a", "new");
    let mut other = scene.steps();
    assert_eq!(other.recover(), Ok(Vec::new()), "it still runs");
    assert!(matches!(other.undo(1, false), Err(StepsError::Running(_))));
    // The process ends; its note stays.
    drop(open);
    let notices = other.recover().expect("recovered");
    assert_eq!(notices, ["`sleep 1; echo new >a` was cut off; it changed 1 file, which is step 1 (:undo)"]);
    assert_eq!(other.recover(), Ok(Vec::new()), "once is enough");
    let _ = other.undo(1, false).expect("taken back");
    assert_eq!(scene.read("a"), "old");
}

#[test]
fn a_job_whose_session_was_killed_becomes_a_step_of_the_next_one() {
    let scene = Scene::of(&[("a", "old"), ("b", "old")]);
    let mut killed = scene.steps();
    let _ = command(&mut killed, || scene.write("a", "the call's"));
    let job = killed.job("serve --write");
    let before = killed.before_edit("b", &["b".into()]).expect("a look");
    scene.write("b", "an edit's");
    let _ = killed.after_edit(before).expect("a step");
    scene.write("a", "the job's");
    scene.write("log", "the job's");
    let mut other = scene.steps();
    assert_eq!(other.recover(), Ok(Vec::new()), "it still runs");
    // The process ends; its note stays.
    drop((killed, job));
    let notices = other.recover().expect("recovered");
    let line = "the session of the job `serve --write` was cut off; it changed 2 files, which is step 3 (:undo)";
    assert_eq!(notices, [line]);
    assert_eq!(other.recover(), Ok(Vec::new()), "once is enough");
    let _ = other.undo(1, false).expect("taken back");
    assert_eq!((scene.read("a"), scene.read("b")), ("the call's".into(), "an edit's".into()));
    assert!(!scene.at("log").exists());
    // A command that ended with its session doesn't concern the next one.
    let mut ended = scene.steps();
    let job = ended.job("serve again");
    scene.write("log", "more");
    let _ = ended.after_job(job).expect("a step");
    assert_eq!(other.recover(), Ok(Vec::new()));
}

#[test]
fn two_sessions_in_one_workspace_share_their_steps() {
    let scene = Scene::of(&[("a", "0"), ("b", "0")]);
    let (mut one, mut two) = (scene.steps(), scene.steps());
    let open = one.before("one").expect("a look");
    scene.write("a", "1");
    let other = two.before("two").expect("a look");
    scene.write("b", "2");
    let _ = two.after(other).expect("a step");
    scene.write("a", "3");
    let _ = one.after(open).expect("a step");
    let listed: Vec<_> = one.list().iter().map(|step| (step.text.clone(), step.files())).collect();
    assert_eq!(listed, [("one".to_owned(), 1), ("two".to_owned(), 1), ("one".to_owned(), 1)]);
    let _ = two.undo(3, false).expect("taken back");
    assert_eq!((scene.read("a"), scene.read("b")), ("0".into(), "0".into()));
}

#[test]
fn a_damaged_store_harms_nothing() {
    let scene = Scene::of(&[("a", "old")]);
    let mut steps = scene.steps();
    let _ = command(&mut steps, || scene.write("a", "new"));
    let objects = steps.store.folder.join("git/objects");
    for file in held(&objects).into_iter().filter(|(_, (mode, _))| mode & 0o170_000 == 0o100_000) {
        let path = objects.join(file.0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::write(path, "damaged").expect("a file");
    }
    assert!(steps.undo(1, false).is_err());
    assert_eq!(scene.read("a"), "new");
    fs::write(steps.store.folder.join("table"), "damaged").expect("a file");
    fs::write(steps.store.folder.join("steps/000001"), "damaged").expect("a file");
    assert!(scene.steps().list().is_empty());
}

/// The environment variable by which this test, started as a separate program, learns its directory and the step at which it is
/// killed.
const PLACE: &str = "REEDCLAW_TEST_STEPS_PLACE";
const KILLED_AT: &str = "REEDCLAW_TEST_STEPS_KILLED_AT";

#[test]
fn killed_at_any_step_of_an_undo_all_is_old_or_all_is_new() {
    if let Some(top) = std::env::var_os(PLACE) {
        let top = PathBuf::from(top);
        let mut steps = Steps::new(&top.join("state"), &top.join("ws"), LIMITS, &[]).expect("steps");
        let mut left: usize = std::env::var(KILLED_AT).expect("a step").parse().expect("a number");
        let records = steps.list();
        let _ = turn(&mut steps, records, true, false, &mut || {
            left -= 1;
            if left == 0 {
                let _ = kill(getpid(), Signal::SIGKILL);
            }
        });
        return;
    }
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let (mut news, mut olds) = (0, 0);
    for at in 1.. {
        assert!(at < 100, "it never ends by itself");
        let scene = Scene::of(&[("a", "old"), ("gone/b", "old"), ("c", "c")]);
        let before = scene.held();
        let mut steps = scene.steps();
        let _ = command(&mut steps, || {
            scene.write("a", "new");
            fs::remove_dir_all(scene.at("gone")).expect("it goes");
            scene.write("made/d", "new");
            fs::remove_file(scene.at("c")).expect("it goes");
            symlink("a", scene.at("c")).expect("a link");
        });
        let after = scene.held();
        let mut program = Command::new(std::env::current_exe().expect("this test"));
        program.args(["--exact", &name]).env(PLACE, scene.top.path()).env(KILLED_AT, at.to_string());
        let ended = program.output().expect("it runs");
        if ended.status.success() {
            assert_eq!(scene.held(), before);
            break;
        }
        assert_eq!(ended.status.signal(), Some(Signal::SIGKILL as i32), "{ended:?}");
        let notices = scene.steps().recover().expect("recovered");
        let now = scene.held();
        if now == before {
            olds += 1;
            assert!(scene.steps().list()[0].is_undone, "{notices:?}");
        } else {
            news += 1;
            assert!(now == after, "killed at step {at}: {:?}", now.keys());
        }
    }
    assert!(news >= 5 && olds >= 5, "{news} {olds}");
}

/// The environment variable by which this test, started under a limit of file sizes, learns its directory.
const FULL: &str = "REEDCLAW_TEST_STEPS_FULL";

#[test]
fn undo_on_a_full_disk_changes_nothing() {
    if let Some(top) = std::env::var_os(FULL) {
        let top = PathBuf::from(top);
        let mut steps = Steps::new(&top.join("state"), &top.join("ws"), LIMITS, &[]).expect("steps");
        assert!(matches!(steps.undo(1, false), Err(StepsError::Path { .. })), "it can't lay the content ready");
        fs::write(top.join("ws/b"), "small").expect("a file");
        let open = steps.before("x").expect("nothing large is new");
        fs::rename(top.join("large"), top.join("ws/large")).expect("a file");
        assert!(matches!(steps.after(open), Err(StepsError::Io { .. })), "it can't be kept");
        return;
    }
    let noise = |mut seed: u32| -> String {
        let next = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'0' + (seed >> 26) as u8)
        };
        std::iter::repeat_with(next).take(200_000).collect()
    };
    let scene = Scene::of(&[("a", &noise(1))]);
    let before = scene.held();
    let mut steps = scene.steps();
    let _ = command(&mut steps, || scene.write("a", "short"));
    fs::write(scene.top.path().join("large"), noise(2)).expect("a file");
    let name = std::thread::current().name().expect("the test's name").to_owned();
    let mut program = Command::new("sh");
    program.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact \"$1\""]);
    program.arg(std::env::current_exe().expect("this test")).arg(name).env(FULL, scene.top.path());
    let ended = program.output().expect("it runs");
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(scene.read("a"), "short");
    assert_eq!(fs::read_dir(scene.at("")).expect("a directory").count(), 3, "none of our files is left");
    fs::remove_file(scene.at("b")).expect("it goes");
    fs::remove_file(scene.at("large")).expect("it goes");
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.held(), before);
}

#[test]
fn files_that_change_during_undo_are_left() {
    let scene = Scene::of(&[("a", "old"), ("b", "old")]);
    let mut steps = scene.steps();
    let _ = command(&mut steps, || ["a", "b"].iter().for_each(|name| scene.write(name, "new")));
    let mut at = 0;
    let mut change_at = |when: usize, text: &'static str| {
        let scene = &scene;
        at = 0;
        move || {
            at += 1;
            if at == when {
                scene.write("b", text);
            }
        }
    };
    // While the contents are laid ready: nothing is done.
    let list = steps.list();
    assert!(turn(&mut steps, list.clone(), true, false, &mut change_at(2, "mine")).is_err());
    assert_eq!((scene.read("a"), scene.read("b")), ("new".into(), "mine".into()));
    scene.write("b", "new");
    // Once the undo is in effect: the rest is done, and this path reported.
    let back = turn(&mut steps, list, true, false, &mut change_at(5, "mine")).expect("taken back");
    assert_eq!(back.left, [(PathBuf::from("b"), "it has changed meanwhile".to_owned())]);
    assert_eq!((scene.read("a"), scene.read("b")), ("old".into(), "mine".into()));
}

#[test]
fn a_move_of_the_repository_is_reported() {
    let scene = Scene::of(&[("a", "old")]);
    let git = |words: &str| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@y"]).args(words.split(' ')).current_dir(scene.at(""));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scene.top.path());
        assert!(command.output().expect("git").status.success(), "{words}");
    };
    git("init -q -b main");
    git("add .");
    git("commit -qm one");
    let mut steps = scene.steps();
    let made = command(&mut steps, || {
        scene.write("a", "new");
        git("checkout -q -b other");
        git("commit -qam two");
    });
    assert_eq!(made.files, 1);
    let notes = &steps.list()[0].notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0] == "git: the branch moved from main to other; undo leaves it there", "{notes:?}");
    assert!(notes[1].starts_with("git: HEAD moved from "), "{notes:?}");
    let (head, log) = (fs::read(scene.at(".git/HEAD")), fs::read(scene.at(".git/index")));
    let _ = steps.undo(1, false).expect("taken back");
    assert_eq!(scene.read("a"), "old");
    assert_eq!((fs::read(scene.at(".git/HEAD")).ok(), fs::read(scene.at(".git/index")).ok()), (head.ok(), log.ok()));
}

/// One thing that a command does to a tree.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize, Vec<u8>),
    Remove(usize),
    Mode(usize, u32),
    Link(usize, usize),
    Directory(usize),
}

const NAMES: [&str; 10] = ["a", "b", "d/a", "d/b", "d/e/a", "d/e/f/a", "z/a", "name with\nnewline", "d", "d/e"];

fn deed() -> impl Strategy<Value = Deed> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => (name.clone(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(at, bytes)| Deed::Write(at, bytes)),
        2 => name.clone().prop_map(Deed::Remove),
        1 => (name.clone(), 0..0o10u32).prop_map(|(at, bits)| Deed::Mode(at, 0o700 | bits << 3 | bits)),
        1 => (name.clone(), name.clone()).prop_map(|(at, to)| Deed::Link(at, to)),
        1 => name.prop_map(Deed::Directory),
    ]
}

/// Does it as a command would; an operation that fails is skipped.
fn do_it(top: &Path, deed: &Deed) {
    let at = |name: usize| top.join(NAMES[name]);
    // A link on the way would lead elsewhere; no such tree is made here.
    let has_link = |name: usize| {
        let path = Path::new(NAMES[name]);
        path.ancestors().any(|it| !it.as_os_str().is_empty() && top.join(it).is_symlink())
    };
    let clear = |path: &Path| {
        let _ = fs::remove_file(path);
        let _ = fs::remove_dir_all(path);
    };
    match deed {
        Deed::Write(name, bytes) if !has_link(*name) => {
            let path = at(*name);
            if path.is_dir() {
                clear(&path);
            }
            let _ = fs::create_dir_all(path.parent().expect("a parent"));
            let _ = fs::write(path, bytes);
        }
        Deed::Remove(name) => clear(&at(*name)),
        Deed::Mode(name, mode) if !has_link(*name) => {
            let _ = fs::set_permissions(at(*name), fs::Permissions::from_mode(*mode));
        }
        Deed::Link(name, to) if !has_link(*name) => {
            clear(&at(*name));
            let _ = symlink(NAMES[*to], at(*name));
        }
        Deed::Directory(name) if !has_link(*name) => {
            let _ = fs::create_dir_all(at(*name));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_a_command_did_comes_back_to_the_bit(
        first in prop::collection::vec(deed(), 0..15),
        rounds in prop::collection::vec(prop::collection::vec(deed(), 0..10), 1..4),
    ) {
        let scene = Scene::new();
        first.iter().for_each(|deed| do_it(&scene.at(""), deed));
        let mut steps = scene.steps();
        let mut trees = vec![scene.held()];
        for round in &rounds {
            let made = command(&mut steps, || round.iter().for_each(|deed| do_it(&scene.at(""), deed)));
            if made.step.is_some() {
                trees.push(scene.held());
            } else {
                prop_assert_eq!(&scene.held(), trees.last().expect("one"));
            }
        }
        let last = trees.pop().expect("one");
        for tree in trees.iter().rev() {
            prop_assert_eq!(&steps.undo(1, false).expect("taken back").left, &[]);
            prop_assert_eq!(&scene.held(), tree);
        }
        if !trees.is_empty() {
            let _ = steps.redo(trees.len(), false).expect("made again");
            prop_assert_eq!(&scene.held(), &last);
            let _ = steps.undo(trees.len(), false).expect("taken back at once");
            prop_assert_eq!(&scene.held(), &trees[0]);
        }
    }
}
