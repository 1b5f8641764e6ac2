//! Help for small models: the files that a question names are read before it is asked, since such a model invents what is in them.

use crate::home::{TestHome, run};
use crate::server::{Server, answer, refusal};

#[test]
fn files_that_a_question_names_are_read_before_a_small_model_is_asked() {
    let server = Server::start();
    let home = TestHome::for_commands().asks(&server, "m", "", "memory = {auto = false}");
    let home = home.file("work/app.ini", "timeout = 47\n").file("work/src/main.py", "print(1)\n").done();
    server.reply(answer("47"));
    let (status, output, errors) = run(
        home.path(),
        &["agent", "--path", "work", "-m", "Which timeout does `app.ini` have, and what of src/main.py?"],
    );
    assert_eq!((status, output.trim()), (Some(0), "47"), "{errors}");
    let request = server.request(1);
    assert_eq!(request.roles(), ["system", "user", "assistant", "tool", "tool"]);
    assert!(request.whole_content(-2).contains("timeout = 47"), "{:?}", request.body);
    assert!(request.whole_content(-1).contains("print(1)"), "{:?}", request.body);
    assert_eq!(server.requests(), 1, "the answer needed no call of the model's own");
    let (status, receipts, errors) = run(home.path(), &["receipt", "list", "--json"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(receipts.matches("file_read").count() >= 2, "each reading has its receipt: {receipts}");
}

#[test]
fn files_that_are_closed_long_or_no_text_are_not_read_unasked() {
    let server = Server::start();
    let more = "memory = {auto = false}, security = {forbidden_paths = {\"~/work/closed\"}}";
    let home = TestHome::for_commands().asks(&server, "m", "", more);
    let home = home
        .file("work/closed/key.txt", "marigold\n")
        .file("work/long.txt", "marigold\n".repeat(1_000))
        .file("work/bytes", b"marigold\0\n")
        .directory("work/src")
        .file("outside", "marigold\n")
        .done();
    server.reply(answer("nothing"));
    let outside = home.path().join("outside");
    let question =
        format!("What is in closed/key.txt, long.txt, bytes, src, missing.txt, ../outside and {}?", outside.display());
    assert_eq!(run(home.path(), &["agent", "--path", "work", "-m", &question]).0, Some(0));
    let request = server.request(1);
    assert_eq!(request.roles(), ["system", "user"]);
    assert!(!request.body.to_string().contains("marigold"), "{}", request.body);
}

#[test]
fn a_model_that_takes_no_tools_gets_the_question_without_what_was_read() {
    let server = Server::start();
    let home = TestHome::for_commands().asks(&server, "m", "", "memory = {auto = false}");
    let home = home.file("work/app.ini", "timeout = 47\n").done();
    server.reply(refusal("400 Bad Request", "this model does not support tools"));
    server.reply(answer("I can't see it."));
    let (status, _, errors) = run(home.path(), &["agent", "--path", "work", "-m", "Which timeout does app.ini have?"]);
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(server.request(1).roles(), ["system", "user", "assistant", "tool"]);
    assert_eq!(server.request(2).roles(), ["system", "user"]);
}
