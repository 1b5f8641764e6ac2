//! Pictures with a question: `@picture.png` and pasted paths go to models that accept pictures; others get none, with a reason.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::home::TestHome;
use crate::need::TEST_PATH;
use crate::pty::{Session, Spawn, program};
use crate::server::{Server, answer};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n a small cat";

fn home(server: &Server, model: &str, more: &str) -> TempDir {
    TestHome::for_commands()
        .asks(server, "m", model, &format!("memory = {{auto = false}}, {more}"))
        .directory("work/.git")
        .file("work/cat.png", PNG)
        .file("work/text.png", "words")
        .file("shot of it.png", [PNG, b"2"].concat())
        .file("closed/key.png", [PNG, b"3"].concat())
        .done()
}

fn ask(home: &TempDir, question: &str, input: Stdio) -> Output {
    let mut command = Command::new(program());
    command.args(["agent", "--path", ".", "-m", question]).env_clear();
    command.env("PATH", TEST_PATH).env("HOME", home.path()).current_dir(home.path().join("work"));
    command.stdin(input).output().expect("it runs")
}

/// The number of pictures in the last message, and the report.
fn sent(server: &Server, output: &Output) -> (usize, String) {
    let request = server.request(1);
    let content = request.body["messages"].as_array().and_then(|all| all.last()).expect("a message")["content"].clone();
    let is_picture = |part: &&Value| part["type"] == "image_url";
    let count = content.as_array().map_or(0, |parts| parts.iter().filter(is_picture).count());
    (count, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn pictures_go_to_a_model_that_takes_them() {
    let server = Server::start();
    let home = home(&server, "images = true", "security = {forbidden_paths = {\"~/closed\"}}");
    let far = home.path().join("shot of it.png").display().to_string();
    let closed = home.path().join("closed/key.png").display().to_string();
    server.reply(answer("a cat"));
    let output = ask(&home, &format!("@cat.png and '{far}' but {closed} @text.png @missing.png"), Stdio::null());
    let (count, told) = sent(&server, &output);
    assert_eq!(count, 2, "{told}");
    assert!(told.contains("attached cat.png (png, 1 KiB)") && told.contains("attached shot of it.png"), "{told}");
    assert!(told.contains("not attached") && told.contains("key.png: "), "{told}");
    assert!(
        told.contains("attached text.png (1 line") && told.contains("missing.png: there is no such file"),
        "{told}"
    );
}

#[test]
fn a_picture_that_was_sent_is_reported_as_there() {
    let server = Server::start();
    let home = home(&server, "images = true", "");
    let session = Session::spawn(Spawn::reedclaw().home(home.path()).cwd(&home.path().join("work")));
    for told in ["attached cat.png (png, 1 KiB)", "cat.png is in the conversation already"] {
        server.reply(answer("a cat"));
        session.run("?what is in @cat.png");
        session.expect_text(told);
    }
}

#[test]
fn a_model_that_takes_none_gets_none_and_the_person_learns_why() {
    for (model, why) in [
        ("images = false", "m takes no pictures"),
        ("model = 'x'", "models.m.images = true"),
        ("model = 'gpt-4'", "takes no"),
    ] {
        let server = Server::start();
        let home = home(&server, model, "");
        server.reply(answer("no idea"));
        let output = ask(&home, "what is in @cat.png?", Stdio::null());
        let (count, told) = sent(&server, &output);
        assert!(count == 0 && told.contains("not attached: cat.png") && told.contains(why), "{told}");
    }
}

#[test]
fn paths_in_piped_text_attach_no_picture_from_elsewhere() {
    let server = Server::start();
    let home = home(&server, "images = true", "");
    let far = home.path().join("shot of it.png").display().to_string();
    fs::write(home.path().join("log"), format!("see '{far}'\n@{far}\n")).expect("a log");
    server.reply(answer("fine"));
    let output = ask(&home, "what is this?", fs::File::open(home.path().join("log")).expect("a log").into());
    let (count, told) = sent(&server, &output);
    assert!(count == 0 && !told.contains("attached shot"), "{told}");
}
