//! What questions cost: thoughts folded, tokens kept, in a session and without one.

use rusqlite::Connection;

use crate::pty::Session;
use crate::server::{Server, Step, end_with, head, piece, thought};

#[test]
fn thoughts_are_one_line_and_the_sign_says_that_the_model_thinks() {
    let server = Server::start();
    server.reply(vec![
        head(),
        thought("secretly "),
        Step::Gate(1),
        thought("weighing it up, at length"),
        Step::Gate(2),
        piece("The answer."),
        end_with([30, 10, 25, 20]),
    ]);
    let session = Session::spawn(server.shell("", ""));
    session.line("why is the sky blue?");
    session.expect("the sign", |screen| screen.contents().contains("thinking… "));
    server.open(1);
    server.open(2);
    session.expect_line("The answer.");
    session.expect_prompt();
    let screen = session.screen_text();
    assert!(screen.contains("thought for ") && screen.contains(" s, about 9 tokens"), "{screen}");
    assert!(!screen.contains("weighing") && !screen.contains("thinking…"), "{screen}");
    let database = Connection::open(session.home().join(".local/share/reedclaw/reedclaw.db")).expect("the database");
    let sql = "SELECT model, uncached_in, cache_read, cache_write, visible_out, reasoning_out, thoughts, conversation
        FROM request";
    let row = database.query_row(sql, [], |row| {
        let tokens: [i64; 5] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
        Ok((row.get::<_, String>(0)?, tokens, row.get::<_, String>(6)?, row.get::<_, i64>(7)?))
    });
    let (model, tokens, thoughts, conversation) = row.expect("one request");
    assert_eq!((tokens, thoughts.as_str()), ([20, 10, 0, 5, 20], "secretly weighing it up, at length"), "{model}");
    assert_eq!(conversation, 1);
}
