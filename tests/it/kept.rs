//! The display of a command's changes to the person, and the parts of them that the person can accept. The built executable with
//! a scripted model.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::changes::{numbered, read, work};
use crate::sessions::git;
use crate::wall::{KEEP, output, results, scene, session};

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

/// A removed directory and a file that isn't text have no hunks: together they are one choice after the last hunk.
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
    // Packed objects are one row, not one for each directory.
    session.expect_text("  D  .git/objects/  7 files, ");
    session.expect_text(KEEP);
    session.send(b"y");
    session.expect_text("that was it");
    assert_eq!(git(&at, &["log", "--format=%s"]), "mend the sum\none");
    git(&at, &["fsck", "--full"]);
}

#[test]
fn build_directories_are_kept_after_one_answer() {
    let commands = [
        "mkdir target && echo one > target/one",
        "mkdir target/deep && echo two > target/deep/two && chmod +x target/one",
        "echo three > target/three; echo mine > src.txt",
    ];
    let home = scene(&commands, "");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("always, in this project [a]");
    session.send(b"a");
    // The keys are shown once they count.
    session.expect_text("which you may run later [e]");
    session.send(b"e");
    session.expect_text("src.txt");
    assert_eq!(read(home.path(), "target/deep/two"), "two\n", "another command, and nobody was asked");
    session.expect_text(KEEP);
    session.send(b"n");
    session.expect_text("that was it");
    let left = ["target/three", "src.txt"].map(|name| read(home.path(), name));
    assert_eq!(left, ["(no file)"; 2], "more than the directory was changed");
    session.expect_prompt();
    session.send(b":allow\r");
    session.expect_text("(every command)");
}

#[test]
fn a_new_repository_is_kept_unasked_unless_its_config_runs_something() {
    let init = "git init -q new && git -C new config user.name 'Ada L.' && git -C new config user.email a@l.example && \
                git -C new commit -q --allow-empty -m one";
    let evil = "git init -q evil && git -C evil config core.fsmonitor ./x";
    let home = scene(&[init, "git -C new log --oneline", evil], "security = {autonomy = \"full\"}");
    let results = results(home.path());
    assert_eq!(results[0]["success"], json!(true), "{}", results[0]);
    assert!(output(&results[1]).ends_with("one"), "{}", results[1]);
    assert!(work(home.path(), "new/.git/config").exists());
    let dropped = output(&results[2]);
    assert!(
        dropped.contains("[dropped, it would have changed: ") && dropped.contains("+ evil/.git/config"),
        "{dropped}"
    );
    assert!(!work(home.path(), "evil/.git/config").exists());
}

/// One file with a character of another direction in its name made ReedClaw drop everything that the command had done.
#[test]
fn a_name_that_hides_something_is_refused_without_the_rest() {
    let odd = "odd\u{202e}txt";
    let commands = [
        r"echo new > b.txt; mkdir -p d; echo x > $'d/odd\u202etxt'; echo x > $'bad\xff'; echo more >> a.txt",
        "rm -r old",
    ];
    let home = scene(&commands, "security = {autonomy = \"full\"}");
    fs::write(work(home.path(), "old").join(odd), "x\n").expect("a file");
    let results = results(home.path());
    let first = output(&results[0]);
    assert!(first.contains("[kept: M a.txt, + b.txt, + bad\u{fffd}]"), "{first}");
    let refused =
        r"[dropped, it would have changed: + d, + d/odd\u{202e}txt; blocked: the path holds the character U+202E]";
    assert!(first.contains(refused), "{first}");
    // "its changes were dropped" appeared above "changed 3 files".
    let told = r"some of its changes (+ d, + d/odd\u{202e}txt) were dropped: blocked: ";
    let message = results[0]["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(told), "{results:?}");
    assert_eq!(read(home.path(), "a.txt"), numbered(30) + "more\n");
    assert!(!work(home.path(), "d").exists());
    assert!(!work(home.path(), "old").exists(), "what is there can be deleted: {results:?}");
}

/// If a command works on the workspace itself, such a file was applied silently.
#[test]
fn without_copies_a_name_that_hides_something_is_reported() {
    for tier in ["bubblewrap", "landlock"] {
        let command = r"echo x > $'odd\u202etxt'; echo x > $'e\e[2J'; echo x > plain.txt";
        let home = scene(&[command], &format!("security = {{autonomy = \"full\", tier = \"{tier}\"}}"));
        let results = results(home.path());
        let told = r"[names that hide something were made, with the characters shown here: e\u{1b}[2J, odd\u{202e}txt]";
        assert!(output(&results[0]).ends_with(told), "{tier}: {results:?}");
        assert_eq!(read(home.path(), "plain.txt"), "x\n");
    }
}

/// The name of a pipe printed lines that looked like notices.
#[test]
fn the_name_of_a_pipe_is_spelled_out() {
    let home = scene(&[r"mkfifo $'x]\n[undo] all was taken back\u202e\e[2K'"], "security = {autonomy = \"full\"}");
    let results = results(home.path());
    let told = r"[pipes and sockets aren't kept: x]\n[undo] all was taken back\u{202e}\u{1b}[2K]";
    assert_eq!(output(&results[0]), told);
}

/// A rule for more than 20 paths covered everything below their directories, and each rule covered any change of its paths.
#[test]
fn always_covers_neither_other_paths_nor_links_modes_and_deletions() {
    let home = scene(&["sh gen.sh"], "");
    let write_script = |script: &str| fs::write(work(home.path(), "gen.sh"), script).expect("a script");
    write_script("mkdir -p out; for n in $(seq 25); do echo $n > out/$n; done; echo more >> a.txt");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("end [G]");
    session.send(b"G");
    session.expect_text("always, in this project [a]");
    session.send(b"a");
    session.expect_text("new content of a.txt, out/1, out/10 and 23 more?");
    session.expect_text("press a again [a]");
    session.send(b"a");
    session.expect_text("that was it");
    session.expect_prompt();
    for script in ["echo x > out/other", "rm out/1", "chmod 755 a.txt", "ln -sf gen.sh a.txt", "rm out/2; mkdir out/2"]
    {
        session.run("clear");
        write_script(script);
        session.send(b"?please do\r");
        session.expect_text(KEEP);
        session.send(b"n");
        session.expect_text("that was it");
        session.expect_prompt();
    }
    assert_eq!(read(home.path(), "a.txt"), numbered(30) + "more\n");
    session.run("clear");
    write_script("echo changed > out/1");
    session.send(b"?please do\r");
    session.expect_text("that was it");
    assert_eq!(read(home.path(), "out/1"), "changed\n", "nobody was asked");
}

/// The other name of a file silently retained the old content.
#[test]
fn the_other_names_of_a_changed_file_are_reported() {
    let home = scene(&["echo more >> a.txt; touch old/x"], "security = {autonomy = \"full\"}");
    fs::hard_link(work(home.path(), "a.txt"), work(home.path(), "b.txt")).expect("another name");
    fs::hard_link(work(home.path(), "old/x"), home.path().join("x")).expect("a name outside");
    let results = results(home.path());
    assert_eq!(output(&results[0]), "[kept: M a.txt (its other name keeps the old content)]");
    assert_eq!((read(home.path(), "a.txt"), read(home.path(), "b.txt")), (numbered(30) + "more\n", numbered(30)));

    let home = scene(&["echo more >> a.txt"], "");
    fs::hard_link(work(home.path(), "a.txt"), work(home.path(), "b.txt")).expect("another name");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.expect_text("(its other name keeps the old content)");
}

/// The other files that a command made together with a protected one stayed, among them half of a work tree in `.git`.
#[test]
fn companions_of_a_refused_protected_file_are_removed() {
    let commands = [
        r"mkdir -p $'e\e[2J\u202e'; echo x > $'e\e[2J\u202e/.envrc'; git worktree add -q tree; echo x > .git/worktrees/tree/config.worktree",
    ];
    let home = scene(&commands, "security = {autonomy = \"full\", tier = \"landlock\"}");
    for words in [&["init", "-q"][..], &["commit", "-qm", "one", "--allow-empty"]] {
        git(&work(home.path(), "."), words);
    }
    let session = session(home.path());
    session.send(b"?please do\r");
    // The words are ReedClaw's: they are outside of the gutter of the command's output.
    session.expect("the warning", |screen| {
        let text = screen.contents();
        let has = |start: &str| text.lines().any(|row| row.starts_with(start));
        has("ReedClaw asks:") && has("  Files that other programs run changed") && has("  1. restore them")
    });
    session.expect_text(r"e\u{1b}[2J\u{202e}/.envrc");
    session.expect_text("your answer:");
    session.type_text("1\r");
    session.expect_text("that was it");
    let mut names: Vec<_> =
        fs::read_dir(work(home.path(), ".")).expect("a list").flatten().map(|it| it.file_name()).collect();
    names.sort();
    assert_eq!(names, [".git", "a.txt", "old"]);
    assert!(!work(home.path(), ".git/worktrees").exists());
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

/// If all changes were directories, they were applied unasked in every autonomy.
#[test]
fn directories_are_asked_about_like_files() {
    let commands = ["mkdir -p zz/y; chmod 0777 .git/hooks old", "chmod 0700 old"];
    let of = |autonomy: &str| {
        let home = scene(&commands, &format!("security = {{autonomy = \"{autonomy}\"}}"));
        fs::create_dir_all(work(home.path(), ".git/hooks")).expect("directories");
        for path in [".git", ".git/hooks", "old"] {
            fs::set_permissions(work(home.path(), path), fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        home
    };
    let modes = |home: &std::path::Path| [".git/hooks", "old"].map(|path| mode(&work(home, path)));
    for autonomy in ["readonly", "supervised"] {
        let home = of(autonomy);
        let results = results(home.path());
        let told = "[dropped, it would have changed: M .git/hooks, M old, + zz, + zz/y; ";
        assert!(output(&results[0]).starts_with(told), "{autonomy}: {results:?}");
        assert_eq!(results[1]["error"]["code"], json!("changes-dropped"), "{autonomy}: {results:?}");
        assert_eq!((modes(home.path()), work(home.path(), "zz").exists()), ([0o755; 2], false), "{autonomy}");
    }
    let home = of("full");
    let all = results(home.path());
    assert!(output(&all[0]).contains("[kept: M old, + zz, + zz/y]"), "{all:?}");
    assert!(output(&all[0]).contains("[dropped, it would have changed: M .git/hooks; "), "{all:?}");
    assert_eq!(modes(home.path()), [0o755, 0o700]);
    let home = of("supervised");
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text(KEEP);
    session.expect_text("!  .git/hooks  mode 755 to 777  PROTECTED: who may change what git runs");
    session.expect_text("M  old  mode 755 to 777");
    session.expect_text("+  zz/y  new directory");
    session.send(b"y");
    session.expect_text("mode 777 to 700");
    session.expect_text(KEEP);
    session.send(b"n");
    session.expect_text("that was it");
    assert_eq!(modes(home.path()), [0o777; 2]);
}

/// Changes without hunks were only named on the screen, and the question about them showed neither their kind nor that they are
/// protected.
#[test]
fn changes_without_hunks_are_named_in_their_own_question_and_afterwards() {
    let command = "ln -s /etc/hostname lnk; chmod 700 old; sed -i s/line/LINE/ long; printf '\\0' > b.bin";
    let home = scene(&[command], "");
    fs::write(work(home.path(), "long"), numbered(199)).expect("a file");
    fs::set_permissions(work(home.path(), "old"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let session = session(home.path());
    let named = ["lnk  -> /etc/hostname", "M  old  mode 755 to 700", "+  b.bin  new, 1 bytes"];
    session.send(b"?please do\r");
    session.expect_text("end [G]");
    session.send(b"G");
    session.expect_text(KEEP);
    session.send(b"h");
    session.expect_text("hunk 1 of");
    session.expect_text("leave [n, Enter]");
    session.send(b"G");
    session.expect_text("take [y]");
    session.send(b"y");
    session.expect_text("the other changes");
    named.iter().for_each(|row| session.expect_text(row));
    session.expect_text("take [y]");
    session.send(b"y");
    session.expect_text("that was it");
    named.iter().for_each(|row| session.expect_text(row));
    assert!(work(home.path(), "lnk").is_symlink());
}
