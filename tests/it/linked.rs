//! Links around files that other programs run: one that replaces a directory with such files, and one that leads from such a name
//! to another file. The built executable with a scripted model, in each tier.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::changes::{home, read, rounds, work};
use crate::sessions::git;
use crate::wall::{KEEP, output, results, scene, session};

/// A repository with links from protected names to `tools`, one of which only git's index knows.
fn link_tools(home: &Path) {
    for (file, text) in [("tools/guide.md", "guide\n"), ("tools/deep.md", "deep\n"), ("tools/hooks/old", "old\n")] {
        fs::create_dir_all(work(home, file).parent().expect("a directory")).expect("directories");
        fs::write(work(home, file), text).expect("a file");
    }
    fs::create_dir_all(work(home, "deep/er")).expect("directories");
    for (name, target) in
        [("AGENTS.md", "tools/guide.md"), (".husky", "tools/hooks"), ("deep/er/CLAUDE.md", "../../tools/deep.md")]
    {
        symlink(target, work(home, name)).expect("a link");
    }
    git(&work(home, "."), &["init", "-q"]);
    git(&work(home, "."), &["add", "-A"]);
}

/// `.cargo -> k` was applied unasked, and cargo read the config in it.
#[test]
fn full_makes_no_link_in_place_of_a_directory_with_protected_files_unasked() {
    let commands = ["mkdir k; echo x > k/config.toml; ln -s k .cargo; ln -s old .hg; echo kept > b.txt"];
    let home = scene(&commands, "security = {autonomy = \"full\", forbidden_commands = {}}");
    let results = results(home.path());
    let told = output(&results[0]);
    assert!(told.contains("[dropped, it would have changed: + .cargo, + .hg; "), "{told}");
    assert!(![".cargo", ".hg"].iter().any(|link| work(home.path(), link).is_symlink()), "{told}");
    assert_eq!((read(home.path(), "b.txt"), read(home.path(), "k/config.toml")), ("kept\n".into(), "x\n".into()));
}

/// `AGENTS.md` was protected, and the file that it led to wasn't, even if it was written through the protected name.
#[test]
fn full_changes_nothing_unasked_that_a_link_with_a_protected_name_leads_to() {
    let write =
        "echo evil > AGENTS.md; echo evil > tools/deep.md; echo evil > tools/hooks/new; echo fine > tools/other";
    let calls = [
        ("shell", json!({"command": write})),
        ("file_write", json!({"path": "tools/guide.md", "content": "evil\n"})),
        ("file_write", json!({"path": "tools/fine.md", "content": "fine\n"})),
    ];
    let home = home(&[rounds("please", &calls, "that was it")], "security = {autonomy = \"full\"}");
    link_tools(home.path());
    let results = results(home.path());
    let dropped = "[dropped, it would have changed: M tools/deep.md, M tools/guide.md, + tools/hooks/new; ";
    assert!(output(&results[0]).contains(dropped), "{results:?}");
    assert_eq!((&results[1]["success"], &results[2]["success"]), (&json!(false), &json!(true)), "{results:?}");
    let now = ["tools/guide.md", "tools/deep.md", "tools/hooks/new", "tools/other"].map(|path| read(home.path(), path));
    assert_eq!(now, ["guide\n", "deep\n", "(no file)", "fine\n"]);
}

#[test]
fn the_question_says_that_other_programs_run_a_file_through_a_link() {
    let home = scene(&["echo evil >> tools/guide.md"], "");
    link_tools(home.path());
    let session = session(home.path());
    session.send(b"?please do\r");
    session.expect_text("PROTECTED: other programs run this through a link");
    session.expect_text(KEEP);
    session.send(b"n");
    session.expect_text("that was it");
}

#[test]
fn without_copies_such_links_and_what_they_lead_to_are_put_back() {
    let write = "mkdir k; ln -s k .cargo; echo evil > tools/guide.md; echo evil > tools/deep.md; echo evil > tools/hooks/new; \
                 echo fine > b.txt";
    for tier in ["bubblewrap", "landlock"] {
        let security = format!("security = {{autonomy = \"full\", tier = \"{tier}\", forbidden_commands = {{}}}}");
        let home = scene(&[write], &security);
        link_tools(home.path());
        let results = results(home.path());
        let told = output(&results[0]);
        // Bubblewrap locks the targets of the names at the top.
        for changed in [".cargo: new, a link", "tools/deep.md: changed"] {
            assert!(told.contains(changed) && told.contains("were restored"), "{tier}, {changed}: {results:?}");
        }
        let paths = ["tools/guide.md", "tools/deep.md", "tools/hooks/new", "b.txt"];
        assert_eq!(paths.map(|path| read(home.path(), path)), ["guide\n", "deep\n", "(no file)", "fine\n"], "{tier}");
        assert!(!work(home.path(), ".cargo").is_symlink(), "{tier}: {told}");
    }
}
