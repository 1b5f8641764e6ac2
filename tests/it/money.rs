//! The cost of questions: folded thoughts and stored tokens, in a session and without one.

use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::home::{TestHome, run};
use crate::need::TEST_PATH;
use crate::pty::{Session, program};
use crate::server::{Server, Step, answer, end_with, head, piece, refusal, thought};

/// A home with a config; `model` are lines of its model, `rest` are the others.
fn home(server: &Server, model: &str, rest: &str) -> TempDir {
    TestHome::new().asks(server, "tiny", model, rest).done()
}

fn priced(tokens: [u64; 4]) -> Vec<Step> {
    vec![head(), piece("ok"), end_with(tokens)]
}

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

#[test]
fn thoughts_can_be_read_and_the_last_ones_are_shown() {
    let server = Server::start();
    server.reply(vec![head(), thought("one\u{1b}[31m two"), piece("yes"), end_with([5, 0, 5, 4])]);
    let session = Session::spawn(server.shell("", ""));
    session.run(":thoughts");
    session.expect_text("the model showed no thoughts");
    session.run("why is it so?");
    session.run(":thoughts");
    session.expect_line("one two");
    session.run("and what else?");
    session.run("clear");
    session.run(":thoughts");
    session.expect_text("the model showed no thoughts");
}

/// Tokens read, cached, written and thought cost as much as the config specifies, to the last digit, in all three places.
#[test]
fn costs_are_summed_up_by_conversation_day_and_month() {
    let server = Server::start();
    let prices = "prices = {tiny = {input = 1000, cache_read = 100, output = 2000}}, console = {usage = true}";
    server.reply(priced([1200, 200, 500, 100]));
    server.reply(priced([2000, 0, 0, 0]));
    let session = Session::spawn(server.shell("", prices));
    session.run("what is the first thing?");
    // 1000 * 0.001 + 200 * 0.0001 + 500 * 0.002; 1700 tokens of 24000.
    session.expect("the right edge", |screen| screen.contents().contains("context 7 %, $2.02"));
    session.run("clear");
    session.run(":cost");
    session.expect("the sums", |screen| {
        let text = screen.contents();
        ["conversation", "today", "this month"].iter().all(|period| {
            text.lines().any(|line| line.starts_with(period) && line.contains("$2.02") && line.contains("1 request"))
        })
    });
    let screen = session.screen_text();
    assert!(screen.contains("1200 read, 200 cached  500 written, 100 thought"), "{screen}");
    session.run(":new");
    session.run("what is the second thing?");
    session.run("clear");
    session.run(":cost");
    session.expect("two conversations", |screen| {
        let text = screen.contents();
        let line = |period: &str| text.lines().find(|line| line.starts_with(period)).unwrap_or_default().to_owned();
        line("conversation").contains("$2.00") && line("today").contains("$4.02")
    });
    session.run("clear");
    session.run(":cost detail");
    session.expect("the request", |screen| {
        let text = screen.contents();
        text.contains("2000 tokens in (estimated ")
            && text.contains(" 0 out")
            && text.contains("$2.00")
            && !text.contains("1200")
    });
    let (code, out, _) = run(session.home(), &["cost", "--json"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let expected = |period: &str| {
        json!({"period": period, "model": "tiny", "requests": 2, "unpriced_requests": 0, "input_tokens": 3000,
            "cache_read_tokens": 200, "cache_write_tokens": 0, "output_tokens": 400, "reasoning_tokens": 100,
            "cost_usd": 4.02})
    };
    assert_eq!((code, lines), (Some(0), vec![expected("day"), expected("month")]));
    let (_, out, _) = run(session.home(), &["cost"]);
    assert!(out.lines().next().is_some_and(|line| line.starts_with("today") && line.contains("$4.02")), "{out}");
}

#[test]
fn a_servers_own_cost_counts_before_any_price() {
    let server = Server::start();
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":10,"cost":0.0123}}"#;
    let mut steps = answer("ok");
    steps.insert(2, Step::Raw(format!("{usage}\n\n").into_bytes()));
    server.reply(steps);
    let home = home(&server, "", "prices = {tiny = {input = 5, output = 5}}");
    let (status, _, errors) = run(home.path(), &["agent", "-m", "what?"]);
    assert_eq!(status, Some(0), "{errors}");
    let (_, told, _) = run(home.path(), &["cost"]);
    assert!(told.contains("$0.0123"), "{told}");
}

#[test]
fn a_model_without_a_price_is_local_here_and_never_free() {
    let server = Server::start();
    server.reply(priced([100, 0, 10, 0]));
    let home = home(&server, "", "");
    let (_, out, _) = run(home.path(), &["agent", "-m", "what?", "--json"]);
    let usage: Value = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line))
        .find(|line| line["event"] == "usage")
        .expect("usage");
    assert_eq!((&usage["cost_usd"], &usage["input_tokens"]), (&Value::Null, &100.into()));
    let (_, out, _) = run(home.path(), &["cost"]);
    assert!(out.contains("local") && !out.contains('$'), "{out}");
}

#[test]
fn a_request_that_could_go_over_a_budget_is_not_sent() {
    let server = Server::start();
    let prices = "prices = {tiny = {input = 1000, output = 1000}},";
    // A thousandth of a dollar for each token: the maximum answer alone would cost more.
    for (budget, told) in [
        ("per_turn = {usd = 0.4}", "is left for this question"),
        ("per_day = {tokens = 300}", "300 is left for today"),
        ("per_conversation = {usd = 0}", "$0 is left for this conversation"),
    ] {
        let home = home(&server, "max_output_tokens = 500", &format!("{prices} budget = {{{budget}}}"));
        let (code, out, err) = run(home.path(), &["agent", "-m", "what is it?"]);
        assert_eq!((code, out.as_str()), (Some(5), ""), "{budget}: {err}");
        assert!(err.contains("a request to tiny could cost ") && err.contains(told), "{budget}: {err}");
        assert!(err.contains("budget.per_") && err.contains("max_output_tokens"), "what to do: {err}");
        let (code, out, _) = run(home.path(), &["agent", "-m", "what?", "--json"]);
        let failed: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
        assert_eq!((code, &failed["kind"]), (Some(5), &"budget".into()));
    }
    assert_eq!(server.requests(), 0, "something was sent");
}

#[test]
fn a_budget_warns_is_used_up_and_is_shared_by_sessions() {
    let server = Server::start();
    let rest = "prices = {tiny = {input = 0, output = 10000}},
        budget = {per_day = {usd = 1.5}, warn_at = 0.5}";
    let home = home(&server, "max_output_tokens = 50", rest);
    server.reply(priced([700, 0, 75, 0]));
    let (code, out, err) = run(home.path(), &["agent", "-m", "one?"]);
    assert_eq!((code, out.as_str()), (Some(0), "ok\n"));
    assert!(err.contains("[budget] $0.750 of $1.50 is spent for today (50 %)"), "{err}");
    // An answer without usage counts by its estimate; a request without an answer counts nothing.
    server.reply(refusal("400 No", "no"));
    assert_eq!(run(home.path(), &["agent", "-m", "two?"]).0, Some(1));
    server.reply(priced([640, 0, 66, 0]));
    assert_eq!(run(home.path(), &["agent", "-m", "three?"]).0, Some(0));
    let (code, _, err) = run(home.path(), &["agent", "-m", "four?"]);
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("and $0.0900 is left for today"), "{err}");
    assert_eq!(server.requests(), 3);
    // In a session too: the model isn't asked, and the shell continues.
    let config = std::fs::read_to_string(home.path().join(".config/reedclaw/config.lua")).expect("the config");
    let session =
        Session::spawn(crate::pty::Spawn::reedclaw().home(home.path()).file(".config/reedclaw/config.lua", &config));
    session.run("what is the fifth thing?");
    session.expect_text("is left for today");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    assert_eq!(server.requests(), 3);
}

#[test]
fn an_answer_under_a_budget_has_a_limit_of_tokens() {
    let server = Server::start();
    server.reply(answer("ok"));
    server.reply(answer("ok"));
    let budget = |usd: &str| {
        format!("prices = {{tiny = {{input = 0, output = 1000}}}}, budget = {{per_turn = {{usd = {usd}}}}}")
    };
    for (usd, tokens) in [("1.5", 1500), ("1000", 16_384)] {
        let home = home(&server, "", &budget(usd));
        assert_eq!(run(home.path(), &["agent", "-m", "what?"]).0, Some(0));
        assert_eq!(server.request(server.requests()).body["max_tokens"], tokens);
    }
    // Without a budget the server decides.
    let home = home(&server, "", "");
    run(home.path(), &["agent", "-m", "what?"]);
    assert_eq!(server.request(3).body["max_tokens"], Value::Null);
}

/// A process that was killed in the middle of an answer counts as having spent the maximum: less can't be proved.
#[test]
fn the_reservation_of_a_killed_session_stays() {
    let server = Server::start();
    server.reply(vec![head(), piece("half"), Step::Hold]);
    let rest = "prices = {tiny = {input = 0, output = 1000}}, budget = {per_day = {usd = 1}}";
    let home = home(&server, "max_output_tokens = 300", rest);
    let mut child = Command::new(program())
        .args(["agent", "-m", "what?"])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", TEST_PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    server.request(1);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    let database = Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).expect("the database");
    let (written, cost): (i64, i64) = database
        .query_row("SELECT visible_out, cost FROM request WHERE estimate", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("what was reserved");
    assert!(written == 300 && cost == 300_000_000_000, "{written} {cost}");
}

#[test]
fn tokens_are_counted_the_way_that_the_model_has() {
    let server = Server::start();
    let session = Session::spawn(server.shell("model = \"gpt-4o\"", ""));
    session.run(":tokens hello world");
    // It has the name of OpenAI's server but is another one.
    session.expect_line("about 2 tokens (counted by o200k_base)");
    let session = Session::spawn(server.shell("", ""));
    server.reply(priced([1500, 0, 5, 0]));
    session.run(":tokens 12345678");
    session.expect_text("about 2 tokens (estimate: 4 characters per token");
    session.run("what do you count?");
    session.run("clear");
    session.run(":tokens 12345678");
    session.expect_text("characters per token, as counted");
    assert!(!session.screen_text().contains("about 2 tokens"), "{}", session.screen_text());
}

/// No one waits for the title, and a model other than the answering one writes it.
#[test]
fn a_new_conversation_is_named_by_the_model_for_summaries() {
    let (big, small) = (Server::start(), Server::start());
    small.reply(vec![Step::Gate(1), head(), piece("\"Blue skies\"\n"), end_with([20, 0, 4, 0])]);
    let config = format!(
        "return {{default_model = 'auto', console = {{usage = false}}, models = {{
            big = {{endpoint = '{}'}}, small = {{endpoint = '{}'}},
            auto = {{kind = 'router', rules = {{default = 'big', summary = 'small'}}}}}}}}\n",
        big.endpoint(),
        small.endpoint()
    );
    let session = Session::spawn(crate::pty::Spawn::reedclaw().file(".config/reedclaw/config.lua", &config));
    session.run("why is the sky blue?");
    session.expect_line("ok");
    let asked = small.request(1);
    assert!(asked.content(-1).contains("why is the sky blue?") && asked.content(-1).ends_with("ok"), "{}", asked.raw);
    // Meanwhile the shell continues.
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    session.run(":title");
    session.expect_text("why is the sky blue?");
    small.open(1);
    let path = session.home().join(".local/share/reedclaw/reedclaw.db");
    session.expect_outside("the title", || {
        let database = Connection::open(&path).ok()?;
        let title = "SELECT title FROM conversation WHERE title = 'Blue skies'";
        let counted = "SELECT count(*) FROM request WHERE model = 'small' AND uncached_in = 20 AND conversation = 1";
        let is_counted = database.query_row(counted, [], |row| row.get::<_, i64>(0)).ok()? == 1;
        database.query_row(title, [], |_| Ok(())).ok().filter(|()| is_counted)
    });
    session.run("and why is the grass green?");
    session.run(":title");
    session.expect_text("Blue skies");
    assert_eq!((big.requests(), small.requests()), (2, 1));
}
