//! Secrets: hidden from the model and from the disk, wherever a stream is cut; reported by kind and place.

use std::path::Path;

use crate::pty::Session;
use crate::server::{Server, Step, answer, end, head, piece};

/// The secrets that are in any file below `dir`.
fn on_disk(dir: &Path, secrets: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(on_disk(&path, secrets));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let holds = |secret: &&&str| memchr::memmem::find(&bytes, secret.as_bytes()).is_some();
        found.extend(secrets.iter().filter(holds).map(|secret| format!("{secret} in {}", path.display())));
    }
    found
}

#[test]
fn secrets_reach_neither_the_model_nor_the_disk() {
    let server = Server::start();
    let home = tempfile::tempdir().expect("a home");
    let (hub, known) = (format!("ghp_{}", "a1B2c3D4".repeat(5)), "topsecret-key-of-tiny");
    std::fs::write(home.path().join("env"), format!("DB_PASSWORD=hunter2\nGH={hub}\n{known}\n")).expect("a file");
    let config = "editor = {autosuggest = false}";
    let spawn = server.shell("key_env = \"TINY_KEY\"", config).home(home.path()).size(40, 100).env("TINY_KEY", known);
    let session = Session::spawn(spawn);
    session.expect_prompt();
    session.run("cat env");
    let (one, other) = hub.split_at(20);
    server.reply(vec![head(), piece("It is "), piece(one), Step::Gate(1), piece(other), piece(" then."), end()]);
    session.line("what is api_key=Zx81Zx81Zx81 in here?");
    session.expect_text("hidden from the model");
    session.expect_text(one);
    let secrets = ["hunter2", &hub, one, known, "Zx81Zx81Zx81"];
    let stored = home.path().join(".local/share/reedclaw");
    assert_eq!(on_disk(&stored, &secrets), [""; 0]);
    server.open(1);
    session.expect_text(" then.");
    session.expect_prompt();
    assert_eq!(on_disk(&stored, &secrets), [""; 0]);
    let sent = server.request(1);
    assert!(secrets.iter().all(|secret| !sent.raw.contains(secret)), "{}", sent.raw);
    for mark in ["DB_PASSWORD=[redacted: password]", "GH=[redacted: GitHub token]", "[redacted: key of tiny]"] {
        assert!(sent.content(-1).contains(mark), "{mark}: {}", sent.raw);
    }
    assert!(sent.content(-1).ends_with("what is api_key=[redacted: secret] in here?"), "{}", sent.raw);

    server.reply(answer("ok"));
    session.run("what about the rest?");
    let again = server.request(2);
    assert!(again.content(2).contains("It is [redacted: GitHub token] then."), "{}", again.raw);
    session.run(" clear");
    session.run(":redact show");
    session.expect("kinds and places", |screen| {
        let text = screen.contents();
        let rows = [
            "password",
            "GitHub token",
            "key of tiny",
            "the output of cat env, line 1",
            "your question, line 1",
            "the answer",
        ];
        rows.iter().all(|row| text.contains(row)) && text.contains("44 characters")
    });
    let screen = session.screen_text();
    assert!(secrets.iter().all(|secret| !screen.contains(secret)), "{screen}");
    // Text that a person typed for the shell stays unchanged.
    session.run("echo password=typed-here");
    session.run(":history typed-here");
    session.expect_text("echo password=typed-here");
}
