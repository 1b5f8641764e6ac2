//! Channels: closed by the config, tools that no channel knows, and a workspace that is made with the first call.

use std::process::Output;

use tempfile::TempDir;

use crate::home::{TestHome, command};
use crate::pty::{Session, Spawn};
use crate::server::{Server, answer, tool_call};

fn home(config: &str) -> TempDir {
    TestHome::for_commands().config(config).done()
}

fn run(home: &TempDir, arguments: &[&str]) -> Output {
    command(home.path(), arguments).output().expect("it runs")
}

fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_closed_channel_refuses_questions_and_says_how_to_open_it() {
    let server = Server::start();
    let models = format!("models = {{m = {{endpoint = \"{}\"}}}}", server.endpoint());
    let closed = home(&format!("{models}, channels = {{agent = {{enabled = false}}}}"));
    let output = run(&closed, &["agent", "-m", "hello"]);
    assert_eq!(output.status.code(), Some(3), "{}", both(&output));
    assert!(both(&output).contains("channels.agent.enabled = true"), "{}", both(&output));

    let config = format!("return {{{models}, channels = {{shell = {{enabled = false}}}}}}");
    let session = Session::spawn(Spawn::reedclaw().file(".config/reedclaw/config.lua", &config));
    session.run("what is a shell?");
    session.expect_text("channels.shell.enabled = true");
    session.run("echo works-$((1+1))");
    session.expect_line("works-2");
    assert_eq!(server.requests(), 0);
}

#[test]
fn validate_and_doctor_report_tools_that_are_none() {
    let home = home("tools_allow = {shell = {\"shell\", \"shel\"}, agent = {\"time\", \"git__log\", \"skill\"}}");
    let output = run(&home, &["config", "validate"]);
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let told = both(&output);
    assert!(told.contains("tools_allow.shell") && told.contains("there is no tool shel;"), "{told}");
    assert!(!told.contains("git__log") && !told.contains("no tool skill"), "{told}");
    let told = both(&run(&home, &["doctor"]));
    assert!(told.contains("wrong: tools_allow.shell names shel, and there is no such tool"), "{told}");
}

#[test]
fn the_workspace_is_made_with_the_first_call_of_a_tool() {
    let server = Server::start();
    let home = home(&format!("models = {{m = {{endpoint = \"{}\"}}}}, memory = {{auto = false}}", server.endpoint()));
    let workspace = home.path().join("reedclaw-workspace");
    server.reply(answer("hello"));
    // Outside any repository, too.
    let output = command(home.path(), &["agent", "-m", "hello"]).current_dir("/").output().expect("it runs");
    assert!(output.status.success() && !workspace.exists(), "{}", both(&output));
    let told = format!("directory /; tools work not there, but in {}", workspace.display());
    assert!(server.request(1).raw.contains(&told), "{}", server.request(1).raw);

    server.reply(tool_call("shell", "{\"command\": \"pwd\"}"));
    server.reply(answer("there"));
    let output = run(&home, &["agent", "-m", "where are you?"]);
    assert!(output.status.success() && workspace.is_dir(), "{}", both(&output));
    let result = server.request(3).whole_content(-1);
    assert!(result.starts_with(&*workspace.to_string_lossy()), "{result}");
}
