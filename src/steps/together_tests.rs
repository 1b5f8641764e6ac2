//! A step that concerns the workspace and a place outside it is reverted as one: both or neither.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use super::tests::{LIMITS, Scene, held};
use super::together::turn;
use super::*;

type Held = std::collections::BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// Returns the contents of both places. A stage that is left outside is removed with the next change there.
fn both(scene: &Scene) -> [Held; 2] {
    let mut there = held(&outside(scene));
    there.retain(|path, _| !path.display().to_string().starts_with(".reedclaw-undo"));
    [held(&scene.at("")), there]
}

fn outside(scene: &Scene) -> PathBuf {
    scene.top.path().join("outside")
}

/// A command that changes both places, as a step; returns them as they were before it.
fn changed(scene: &Scene) -> (Steps, [Held; 2]) {
    let out = outside(scene);
    fs::create_dir_all(out.join("gone")).expect("a directory");
    fs::write(out.join("a"), "old").expect("a file");
    fs::write(out.join("gone/b"), "old").expect("a file");
    let before = both(scene);
    let mut steps = scene.steps();
    let open = steps.before_outside("work", std::slice::from_ref(&out)).expect("a look outside");
    let inside = steps.before("work").expect("a look");
    fs::write(out.join("a"), "new").expect("a file");
    fs::remove_dir_all(out.join("gone")).expect("it goes");
    fs::write(out.join("made"), "new").expect("a file");
    scene.write("x", "new");
    scene.write("dir/y", "new");
    let made = steps.after(inside).expect("a step");
    let (all, paths) = steps.after_outside(open).expect("a step");
    assert_eq!((made.step, all.step, paths.len()), (Some(1), Some(2), 4));
    (steps, before)
}

fn start() -> Scene {
    Scene::of(&[("x", "old"), ("z", "old")])
}

#[test]
fn a_step_of_two_places_is_taken_back_and_made_again_as_one() {
    let scene = start();
    let (mut steps, before) = changed(&scene);
    let after = both(&scene);
    let record = steps.list().pop().expect("a step");
    let changed: Vec<PathBuf> = steps.changes_outside(&record).into_iter().map(|it| it.path).collect();
    assert_eq!(changed, ["a", "gone", "gone/b", "made"].map(|name| outside(&scene).join(name)));
    let _ = steps.undo(2, false).expect("taken back");
    assert!(both(&scene) == before);
    let _ = steps.redo(2, false).expect("made again");
    assert!(both(&scene) == after);
    // A person's change in either place blocks all of it, and force stores what it overwrites.
    fs::write(outside(&scene).join("a"), "mine").expect("a file");
    assert!(
        matches!(steps.undo(2, false), Err(StepsError::Conflicts(all)) if all[0].path == outside(&scene).join("a"))
    );
    assert_eq!(scene.read("x"), "new");
    let _ = steps.undo(2, true).expect("taken back by force");
    assert!(both(&scene) == before);
    let mut other = steps.beside(&outside(&scene)).expect("the other steps");
    let _ = other.undo(1, false).expect("what was overwritten comes back");
    assert_eq!(fs::read_to_string(outside(&scene).join("a")).expect("a file"), "mine");
}

#[test]
fn a_failure_in_one_place_undoes_both_or_neither() {
    let mut failures = 0;
    for when in 1.. {
        let scene = start();
        let (mut steps, before) = changed(&scene);
        let after = both(&scene);
        let records = steps.list().into_iter().rev().collect();
        // A link in place of a file's directory: it isn't followed, which fails.
        let mut at = 0;
        let done = turn(&mut steps, records, true, false, &mut || {
            at += 1;
            if at == when && fs::rename(scene.at("dir"), scene.at("moved")).is_ok() {
                std::os::unix::fs::symlink(outside(&scene), scene.at("dir")).expect("a link");
            }
        });
        if when > at {
            break;
        }
        if done.is_err() {
            failures += 1;
            fs::remove_file(scene.at("dir")).expect("it goes");
            fs::rename(scene.at("moved"), scene.at("dir")).expect("it moves back");
            // The next session restores what the link had blocked, in both places.
            let is_finished = !steps.recover().expect("recovered").is_empty();
            let expected = if is_finished { &before } else { &after };
            assert!(both(&scene) == *expected, "at step {when}: {:?}", both(&scene));
            assert!(steps.list().iter().all(|step| step.is_undone == is_finished), "at step {when}");
        }
    }
    assert!(failures >= 3, "{failures}");
}

/// The environment variable by which this test, started as a separate program, learns its directory and the step at which it is
/// killed.
const PLACE: &str = "REEDCLAW_TEST_TOGETHER_PLACE";
const KILLED_AT: &str = "REEDCLAW_TEST_TOGETHER_KILLED_AT";

#[test]
fn killed_at_any_step_both_places_are_old_or_both_are_new() {
    if let Some(top) = std::env::var_os(PLACE) {
        let top = PathBuf::from(top);
        let mut steps = Steps::new(&top.join("state"), &top.join("ws"), LIMITS, &[]).expect("steps");
        let mut left: usize = std::env::var(KILLED_AT).expect("a step").parse().expect("a number");
        let records = steps.list().into_iter().rev().collect();
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
        let scene = start();
        let (steps, before) = changed(&scene);
        drop(steps);
        let after = both(&scene);
        let mut program = Command::new(std::env::current_exe().expect("this test"));
        program.args(["--exact", &name]).env(PLACE, scene.top.path()).env(KILLED_AT, at.to_string());
        let ended = program.output().expect("it runs");
        if ended.status.success() {
            assert!(both(&scene) == before);
            break;
        }
        assert_eq!(ended.status.signal(), Some(Signal::SIGKILL as i32), "{ended:?}");
        let _ = scene.steps().recover().expect("recovered");
        let now = both(&scene);
        let is_undone = scene.steps().list()[1].is_undone;
        if now == before {
            olds += 1;
            assert!(is_undone, "killed at step {at}");
        } else {
            news += 1;
            assert!(now == after && !is_undone, "killed at step {at}: {now:?}");
        }
    }
    assert!(news >= 5 && olds >= 5, "{news} {olds}");
}
