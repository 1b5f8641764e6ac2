//! What a person is shown of a command's changes, and which parts of them they can take. The built executable with a scripted
//! model.

use std::fs;

use crate::changes::{numbered, read, work};
use crate::sessions::git;
use crate::wall::{KEEP, scene, session};

#[test]
fn hunks_of_a_commands_changes_are_taken_singly() {
    let home = scene(&["sed -i 's/line 5$/line five/; s/line 25$/line twenty-five/' a.txt; echo new > b.txt"], "");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.send(b"h");
    for (hunk, key) in [("hunk 1 of 3", b"y"), ("hunk 2 of 3", b"n"), ("hunk 3 of 3", b"n")] {
        session.expect_text(hunk);
        session.expect_text("take [y]");
        session.send(key);
    }
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "a.txt"), numbered(30).replace("line 5\n", "line five\n"));
    assert_eq!(read(home.path(), "b.txt"), "(no file)");
}

/// A removed directory and a file that is no text have no hunks: they are one choice after the last hunk.
#[test]
fn changes_without_hunks_are_a_choice_of_their_own() {
    let command = "echo new > b.txt; rm -r old; printf 'a\\0b' > c.bin";
    for (keys, kept) in [([b"y", b"n"], "b.txt"), ([b"n", b"y"], "c.bin"), ([b"y", b"y"], "b.txt, c.bin")] {
        let home = scene(&[command], "");
        fs::write(work(home.path(), "old/x"), "a\0b").expect("a file that is no text");
        let session = session(home.path());
        session.send(b"?please do\r");
        session.expect_text(KEEP);
        session.send(b"h");
        for (head, key) in ["hunk 1 of", "the other "].into_iter().zip(keys) {
            session.expect_text(head);
            session.expect_text("take [y]");
            session.send(key);
        }
        session.expect_text("that was it");
        let are_made = [("b.txt", "new\n"), ("c.bin", "a\0b")].map(|(name, text)| read(home.path(), name) == text);
        assert_eq!(are_made, [kept.contains("b.txt"), kept.contains("c.bin")], "{kept}");
        assert_eq!(work(home.path(), "old").exists(), kept == "b.txt", "{kept}");
        session.expect_prompt();
        session.run("clear");
        session.run(":show 1");
        session.expect("what the model was told", |screen| {
            let text = screen.contents();
            let line = |head: &str| {
                text.lines().find(|line| line.trim_start().starts_with(head)).unwrap_or_default().to_owned()
            };
            let (made, dropped) = (line("[kept:"), line("[not kept:"));
            ["b.txt", "c.bin"].iter().all(|name| made.contains(name) == kept.contains(name))
                && ["b.txt", "c.bin"].iter().all(|name| dropped.contains(name) != kept.contains(name))
        });
    }
}

#[test]
fn a_commit_is_asked_about_as_a_branch_that_moves() {
    let commit = "git add -A && git -c user.name=x -c user.email=x@y commit -qm 'mend the sum'";
    let home = scene(&[commit, "git gc -q"], "");
    let at = work(home.path(), ".");
    for words in [&["init", "-q", "-b", "main"][..], &["add", "a.txt"], &["commit", "-qm", "one"]] {
        git(&at, words);
    }
    let before = git(&at, &["rev-parse", "--short=7", "main"]);
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    let screen = session.screen_text();
    let moved = format!("M  .git/refs/heads/main  {} to ", before);
    assert!(screen.contains(&moved) && screen.contains("(commit: mend the sum)"), "{screen}");
    assert!(screen.contains("+  .git/objects/  "), "{screen}");
    assert!(screen.contains("M  .git/  git's own records: "), "{screen}");
    session.send(b"y");
    // Objects that were packed are one row, not one for each directory.
    session.expect_text("  D  .git/objects/  7 files, ");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(git(&at, &["log", "--format=%s"]), "mend the sum\none");
    git(&at, &["fsck", "--full"]);
}
