//! Statement 36 of the contract: the statements about sessions hold in every kind of repository. Each goes through the same
//! suite: commits, conversations, forks, approvals (statements 1 to 6), and merges of all kinds (statement 23), with git's own
//! program as the witness.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tests::{Scene, git, turn, turn_report, write};
use super::untouched_tests::of_another_kind;
use super::*;
use crate::files::Tree as _;

/// Makes a repository of a kind in a scene, and returns its place.
type Make = fn(&Scene) -> PathBuf;

const KINDS: [(&str, Make); 15] = [
    ("plain", Scene::ws),
    ("unborn", |scene| {
        std::fs::remove_dir_all(scene.ws().join(".git")).expect("removed");
        git(&scene.ws(), &["init", "-q", "-b", "main"]);
        scene.ws()
    }),
    ("bare", |scene| cloned(scene, &["--bare"])),
    ("shallow", |scene| cloned(scene, &["--depth", "1"])),
    ("partial", |scene| {
        git(&scene.ws(), &["config", "uploadpack.allowFilter", "true"]);
        cloned(scene, &["--filter=blob:none"])
    }),
    ("sha256", |scene| other(scene, &["--object-format=sha256"])),
    ("reftable", |scene| other(scene, &["--ref-format=reftable"])),
    ("sha256 and reftable", |scene| other(scene, &["--object-format=sha256", "--ref-format=reftable"])),
    ("linked", |scene| {
        git(&scene.ws(), &["worktree", "add", "-q", "-b", "side", "../linked"]);
        scene.dir.path().join("linked")
    }),
    ("sparse", |scene| {
        git(&scene.ws(), &["sparse-checkout", "set", "--no-cone", "/a.txt"]);
        scene.ws()
    }),
    ("packed", |scene| {
        git(&scene.ws(), &["gc", "-q"]);
        scene.ws()
    }),
    ("submodule", |scene| {
        git(scene.dir.path(), &["clone", "-q", "ws", "other"]);
        git(&scene.ws(), &["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../other", "sub"]);
        git(&scene.ws(), &["commit", "-q", "-m", "with a submodule"]);
        scene.ws()
    }),
    ("autocrlf", |scene| {
        git(&scene.ws(), &["config", "core.autocrlf", "true"]);
        std::fs::write(scene.ws().join("crlf.txt"), "one\r\ntwo\r\n").expect("a file");
        committed(scene)
    }),
    ("lfs without content", |scene| pointers(scene, false)),
    ("lfs with content", |scene| pointers(scene, true)),
];

fn committed(scene: &Scene) -> PathBuf {
    git(&scene.ws(), &["add", "-A"]);
    git(&scene.ws(), &["commit", "-q", "-m", "another"]);
    scene.ws()
}

fn other(scene: &Scene, options: &[&str]) -> PathBuf {
    of_another_kind(scene, options);
    scene.ws()
}

fn cloned(scene: &Scene, options: &[&str]) -> PathBuf {
    std::fs::write(scene.ws().join("a.txt"), "one\ntwo\nthree\nfour\n").expect("a file");
    committed(scene);
    let from = format!("file://{}", scene.ws().display());
    git(scene.dir.path(), &[&["clone", "-q"], options, &[&from, "clone"]].concat());
    scene.dir.path().join("clone")
}

/// A pointer of Git LFS; its content lies in the local store if `has_content`. The filters must never run in a session.
fn pointers(scene: &Scene, has_content: bool) -> PathBuf {
    let (content, hash) = ("content\n", crate::base::hash::sha256_hex(b"content\n"));
    for name in ["clean", "smudge"] {
        git(&scene.ws(), &["config", &format!("filter.lfs.{name}"), "cat"]);
    }
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{hash}\nsize {}\n", content.len());
    std::fs::write(scene.ws().join(".gitattributes"), "*.bin filter=lfs -text\n").expect("a file");
    std::fs::write(scene.ws().join("big.bin"), pointer).expect("a file");
    if has_content {
        let folder = scene.ws().join(".git/lfs/objects").join(&hash[..2]).join(&hash[2..4]);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(&hash), content).expect("a file");
    }
    committed(scene)
}

/// The state of the checkout, if there is one.
fn status(at: &Path) -> String {
    let is_bare = git(at, &["rev-parse", "--is-bare-repository"]) == "true";
    if is_bare { String::new() } else { git(at, &["status", "--porcelain"]) }
}

fn has_commit(at: &Path) -> bool {
    let found = Command::new("git").args(["rev-parse", "-q", "--verify", "HEAD"]).current_dir(at).output();
    found.expect("git runs").status.success()
}

#[test]
fn every_kind_of_repository_goes_through_the_same_suite() {
    for (kind, make) in KINDS {
        let scene = Scene::new();
        let at = make(&scene);
        let sessions = Sessions::at(&at, &scene.dir.path().join("state"), None, "tester").expect(kind);
        let before = status(&at);
        let session = turns_are_commits(kind, &sessions, &at);
        forks_and_turns_give_code_and_conversation(kind, &session);
        assert_eq!(status(&at), before, "{kind}: the checkout stays as it is");
        is_merged(kind, &scene, &session, &at);
        git(&at, &["fsck", "--strict", "--no-dangling"]);
    }
}

/// Statements 1, 4, 5 and 6.
fn turns_are_commits(kind: &str, sessions: &Sessions, at: &Path) -> Session {
    let mut session = sessions.start(None, "a title").expect(kind);
    let other = sessions.start(None, "another").expect(kind);
    session.begin_turn("q1").expect(kind);
    write(&session, "x.txt", None, Some("x\n"));
    assert_eq!(session.draft().read("x.txt", 10).expect(kind).bytes, b"x\n", "{kind}");
    session.end_turn(&turn_report("q1", State::Whole)).expect(kind);
    turn(&mut session, "q2", "x.txt", Some("x\n"), Some("two\n"));
    session.begin_turn("q3").expect(kind);
    session.end_turn(&turn_report("q3", State::Cancelled)).expect(kind);
    let count = |session: &Session| {
        let range = if has_commit(at) { format!("HEAD..{}", session.reference()) } else { session.reference().into() };
        git(at, &["rev-list", "--count", &range])
    };
    assert_eq!(count(&session), "4", "{kind}");
    session.begin_turn("q4").expect(kind);
    write(&session, "y.txt", None, Some("y\n"));
    session.commit_so_far().expect(kind).expect(kind);
    session.note_approval("a command").expect(kind).expect(kind);
    session.end_turn(&turn_report("q4", State::Whole)).expect(kind);
    assert_eq!(count(&session), "7", "{kind}: the files before the question, the yes, and the turn");
    assert!(other.draft().read("x.txt", 10).is_err(), "{kind}: another session sees none of it");
    session
}

/// Statements 2 and 3.
fn forks_and_turns_give_code_and_conversation(kind: &str, session: &Session) {
    let view = session.view();
    for number in 1..=4 {
        let records = view.records(number).expect(kind);
        assert_eq!((records.len() as u64, records.last().map(|it| it.turn)), (number, Some(number)), "{kind}");
        let text = if number == 1 { "x\n" } else { "two\n" };
        assert_eq!(view.files(Some(number)).expect(kind).read("x.txt", 10).expect(kind).bytes, text.as_bytes());
    }
    let fork = session.sessions().fork(session.id(), Some(1)).expect(kind);
    assert_eq!(fork.draft().read("x.txt", 10).expect(kind).bytes, b"x\n", "{kind}");
    assert_eq!(fork.view().records(1).expect(kind), view.records(1).expect(kind), "{kind}");
}

/// Statement 23: into branches that are checked out nowhere, and into the one that is checked out, with files of the user's
/// there.
fn is_merged(kind: &str, scene: &Scene, session: &Session, at: &Path) {
    let (sessions, program) = (session.sessions(), scene.program());
    if has_commit(at) {
        for (name, how, commits) in
            [("merged", How::Merge, "8"), ("rebased", How::Rebase, "3"), ("picked", How::Pick(vec![4]), "1")]
        {
            git(at, &["branch", name]);
            let wish = MergeWish { into: Some(name.into()), ..how.into() };
            let plan = plan_merge(sessions, session.id(), wish, &program).expect(kind);
            merge(sessions, &plan, true, &program).expect(kind);
            assert_eq!(git(at, &["show", &format!("{name}:y.txt")]), "y", "{kind}, {name}");
            assert_eq!(git(at, &["rev-list", "--count", &format!("HEAD..{name}")]), commits, "{kind}, {name}");
        }
    }
    let is_bare = git(at, &["rev-parse", "--is-bare-repository"]) == "true";
    if !is_bare {
        std::fs::write(at.join("mine.txt"), "mine\n").expect("a file");
    }
    let before = status(at);
    let plan = plan_merge(sessions, session.id(), How::Squash, &program).expect(kind);
    merge(sessions, &plan, true, &program).expect(kind);
    assert_eq!(git(at, &["show", "HEAD:x.txt"]), "two", "{kind}");
    let names = git(at, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert!(!names.contains(".reedclaw"), "{kind}: the record stays out: {names}");
    // Without a commit, the files of the checkout are untracked before and after.
    assert_eq!(status(at), before, "{kind}: the user's own file is left as it is");
}
