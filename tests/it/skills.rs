//! Skills and prompt templates: the parts that a question carries, and that a project's have no effect until they are trusted.

use std::fs;

use crate::context::repository;
use crate::pty::{Session, left_of_cursor};
use crate::server::{Server, answer, tool_call};

const LEMON: &str = ".claude/skills/lemon/SKILL.md";

/// Waits until keys answer the question about trust.
#[track_caller]
fn expect_question(session: &Session) {
    session.expect("the keys", |screen| left_of_cursor(screen).trim_end().ends_with("no [n, Enter]"));
}

#[test]
fn a_projects_skills_and_templates_count_once_they_are_trusted_and_as_they_were() {
    let server = Server::start();
    let home = tempfile::tempdir().expect("a home");
    let project = home.path().join("work");
    fs::create_dir_all(project.join(".claude/skills/lemon")).expect("directories");
    fs::create_dir_all(project.join(".claude/commands")).expect("directories");
    repository(&project);
    fs::write(project.join(LEMON), "---\ndescription: squeezes lemons\n---\nPress them TWICE.\n").expect("a skill");
    fs::write(project.join(".claude/commands/sour.md"), "Make $1 sour\n").expect("a template");
    let tea = "---\nname: tea\ndescription: brews tea\n---\nBoil water.\n";
    let spawn = server.shell("", "editor = {autosuggest = false}, context = {git_ms = 60000}");
    let spawn = spawn.file(".config/reedclaw/skills/tea/SKILL.md", tea).home(home.path()).size(50, 110);
    let session = Session::spawn(spawn.file(".config/reedclaw/prompts/brew.md", "Brew $ARGUMENTS now"));
    session.run("cd work");
    session.run("what is it here?");
    session.expect_text("brings 1 skill and 1 prompt template, off until you trust them");
    let first = server.request(1).raw;
    assert!(first.contains("- tea: brews tea") && first.contains("\"skill\""), "{first}");
    assert!(!first.contains("squeezes") && !first.contains("Boil water"), "{first}");

    session.run(":p sour tea");
    session.expect_text("sour is the project's, and isn't trusted as it is now");
    session.run(":p brew two cups");
    assert!(server.request(2).content(-1).ends_with("Brew two cups now"));

    session.expect_prompt();
    session.line(":skills trust");
    expect_question(&session);
    session.type_text("l");
    session.expect_text("Press them TWICE.");
    expect_question(&session);
    session.type_text("t");
    session.expect_prompt();
    session.expect_text("trusted");
    server.reply(tool_call("skill", "{\"name\": \"lemon\"}"));
    server.reply(answer("Pressed."));
    session.run("what is it with lemons?");
    session.expect_text("Pressed.");
    assert!(server.request(3).raw.contains("- lemon: squeezes lemons"));
    assert!(server.request(4).raw.contains("Press them TWICE."));
    session.run(":p sour tea");
    assert!(server.request(5).content(-1).ends_with("Make tea sour"));

    // One changed byte makes it an untrusted text again.
    fs::write(project.join(LEMON), "---\ndescription: squeezes lemons\n---\nPress them THRICE.\n").expect("a skill");
    server.reply(tool_call("skill", "{\"name\": \"lemon\"}"));
    server.reply(answer("Not pressed."));
    session.run("what is it with lemons now?");
    session.expect_text("Not pressed.");
    let last = server.request(7).raw;
    assert!(last.contains("there is no skill lemon") && !last.contains("THRICE"), "{last}");
    session.run(":skills");
    session.expect_text("not trusted");
}

#[test]
fn the_instructions_of_other_programs_go_with_a_question_the_nearest_last() {
    let server = Server::start();
    let home = tempfile::tempdir().expect("a home");
    let project = home.path().join("work");
    fs::create_dir_all(project.join("deep")).expect("directories");
    repository(&project);
    fs::write(project.join("CLAUDE.md"), "Speak of plums.").expect("a file");
    fs::write(project.join("deep/GEMINI.md"), "Speak of figs.").expect("a file");
    let session = Session::spawn(server.shell("", "context = {git_ms = 60000}").home(home.path()).size(40, 110));
    session.run("cd work/deep");
    session.run("what is it here?");
    session.expect_text("3 files of instructions");
    let content = server.request(1).content(-1);
    let at = |text: &str| content.find(text).unwrap_or_else(|| panic!("no {text}: {content}"));
    assert!(at("Speak of lemons.") < at("Speak of plums.") && at("Speak of plums.") < at("Speak of figs."));
}
