//! Answers without a model: how often the wanted line is among the three that are shown, and how they are shown.

use std::path::Path;
use std::time::{Duration, Instant};

use reedclaw::manual::{Answer, Hit, Known, Manual, Options};

use crate::pty::{Key, Session, Spawn, left_of_cursor};
use crate::server::{Server, Step, answer, refusal};
use crate::wait::wait_for;

const CONFIG: &str = ".config/reedclaw/config.lua";
const QUESTIONS: &str = include_str!("../data/manual/questions.tsv");

/// A question, and the words that the answering line must contain: one of several lists.
struct Asked {
    question: &'static str,
    wanted: Vec<Vec<&'static str>>,
}

fn questions() -> Vec<Asked> {
    let lines = QUESTIONS.lines().filter(|line| !line.starts_with('#'));
    let asked = |line: &'static str| {
        let (question, wanted) = line.split_once('\t').expect("a tab");
        Asked { question, wanted: wanted.split(" | ").map(|it| it.split_whitespace().collect()).collect() }
    };
    lines.map(asked).collect()
}

impl Asked {
    fn is_answered_by(&self, hit: &Hit) -> bool {
        let line: Vec<&str> = hit.line.split_whitespace().collect();
        let holds = |(at, word): (usize, &&str)| {
            let flag = word.strip_prefix('-').filter(|it| it.len() == 1);
            let is_cluster =
                |token: &str, flag: &str| token.starts_with('-') && !token.starts_with("--") && token.contains(flag);
            match flag {
                // The letter may be part of a cluster: `-x` in `-xzf`.
                Some(flag) => line.iter().any(|token| is_cluster(token, flag)),
                None if at == 0 => line.contains(word) || word.contains('/') && hit.line.contains(*word),
                None => line.iter().any(|token| token.contains(*word)),
            }
        };
        self.wanted.iter().any(|words| words.iter().enumerate().all(holds))
    }
}

/// Asks every second question, beginning with the first or the second one; returns the number of answered ones, and those that
/// aren't.
fn recall(manual: &mut Manual, first: usize) -> (usize, Vec<String>) {
    let known = Known { has_command: &|_| true, lines: &[], words_min: 1 };
    let mut missed = Vec::new();
    let mut answered = 0;
    for asked in questions().iter().skip(first).step_by(2) {
        let Answer { hits, .. } = manual.ask(asked.question, &known);
        if hits.iter().any(|hit| asked.is_answered_by(hit)) {
            answered += 1;
        } else {
            let lines: Vec<&str> = hits.iter().map(|hit| hit.line.as_str()).collect();
            missed.push(format!("{} -> {lines:?}", asked.question));
        }
    }
    (answered, missed)
}

#[test]
fn four_of_five_questions_find_their_line_among_three() {
    let mut manual = Manual::new(Options::default());
    assert_eq!(questions().len(), 200);
    for (set, first) in [("tuning", 0), ("held out", 1)] {
        let (answered, missed) = recall(&mut manual, first);
        eprintln!("{set}: {answered} of 100");
        assert!(answered >= 80, "{set}: {answered} of 100\n{}", missed.join("\n"));
    }
}

/// Writes manual pages of this many programs that no recipe knows, with options, in `man1` below a directory.
fn many_pages(directory: &Path, pages: usize, options: usize) {
    std::fs::create_dir_all(directory.join("man1")).expect("a section");
    for page in 0..pages {
        let option = |at: usize| {
            format!(".TP\n\\-\\-option{at}\nList the files of kind {at}, and show the process that uses user {page}.\n")
        };
        let options: String = (0..options).map(option).collect();
        let text = format!(".TH X 1\n.SH NAME\nprog{page} \\- show and copy files\n.SH OPTIONS\n{options}");
        std::fs::write(directory.join(format!("man1/prog{page}.1")), text).expect("a page");
    }
}

/// The time that this thread has spent on a processor: other programs on a busy machine don't count.
fn busy() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the scheduler's figures");
    Duration::from_nanos(told.split_whitespace().next().and_then(|it| it.parse().ok()).expect("nanoseconds"))
}

/// Once, the first answer to "how do I mount a usb stick" overwrote the stick.
#[test]
fn lines_that_overwrite_a_device_answer_only_who_wants_that() {
    let mut manual = Manual::new(Options::default());
    let known = Known { has_command: &|_| true, lines: &[], words_min: 1 };
    let mut lines =
        |question: &str| -> Vec<String> { manual.ask(question, &known).hits.into_iter().map(|hit| hit.line).collect() };
    let overwrites = |line: &String| ["of=/dev/", "mkfs", "fdisk /dev"].iter().any(|part| line.contains(part));
    for question in
        ["how do I mount a usb stick", "mount a usb drive", "eject a usb drive", "how do I copy a usb stick"]
    {
        let lines = lines(question);
        assert!(!lines.iter().any(overwrites), "{question}: {lines:?}");
    }
    assert_eq!(lines("how do I mount a usb stick")[0], "mount /dev/DEVICE DIR");
    for (question, part) in [
        ("write an image to a usb stick", "of=/dev/"),
        ("format a usb stick with fat", "mkfs.vfat"),
        ("what does dd do", "dd "),
        ("how do I format json nicely", "json"),
    ] {
        let lines = lines(question);
        assert!(lines.iter().any(|line| line.contains(part)), "{question}: {lines:?}");
    }
}

/// Asks until the manual pages are read; returns the problem with them, if any.
fn read_pages(manual: &mut Manual, known: &Known<'_>) -> Option<String> {
    let read = wait_for("the pages", || Some(manual.ask("list files", known)).filter(|answer| !answer.is_reading));
    read.problem
}

#[test]
fn a_question_among_thousands_of_options_takes_at_most_50_ms() {
    let home = tempfile::tempdir().expect("a directory");
    many_pages(&home.path().join("man"), 500, 20);
    let directory = home.path().join("index");
    let man_path = vec![home.path().join("man")];
    let mut manual = Manual::new(Options { directory: Some(directory.clone()), man_path, programs: None });
    assert!(!directory.exists(), "nothing is made before the first question");
    let known = Known { has_command: &|_| true, lines: &[], words_min: 1 };
    assert!(manual.ask("list files", &known).is_reading, "the first question doesn't wait for the pages");
    assert_eq!(read_pages(&mut manual, &known), None);
    let mut slow = Vec::new();
    for asked in questions() {
        let mut took = || {
            let began = busy();
            manual.ask(asked.question, &known);
            busy() - began
        };
        // On a virtual machine the same loop is sometimes charged six times its usual time. A question that is really slow is
        // slow each time.
        let times = [took(), took(), took()];
        if times.iter().all(|took| *took > Duration::from_millis(50)) {
            slow.push((asked.question, times));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
    // Even among so many similar texts, the wanted lines are found.
    let (answered, missed) = recall(&mut manual, 1);
    assert!(answered >= 80, "{answered} of 100\n{}", missed.join("\n"));
}

#[test]
fn the_task_counts_more_than_a_command_that_the_question_names() {
    let mut manual = Manual::new(Options::default());
    let known = Known { has_command: &|_| true, lines: &[], words_min: 2 };
    for (question, wanted) in [
        ("how do I kill a process by name?", &["killall", "pkill"][..]),
        ("how do I kill a process?", &["kill PID"]),
        ("what is my ip address?", &["ip -brief addr", "hostname -I"]),
        ("which files are in this directory?", &["ls"]),
        ("rename branch in git", &["git branch -m"]),
        ("find files larger than 100 MB", &["find . -type f -size"]),
        // Words that mean nothing alone decide it together.
        ("what time is it?", &["date"]),
        ("what's the time?", &["date"]),
        ("who am I?", &["whoami"]),
        ("where am I?", &["pwd"]),
    ] {
        let lines: Vec<String> = manual.ask(question, &known).hits.into_iter().map(|hit| hit.line).collect();
        let first = lines.first().map_or("", String::as_str);
        assert!(wanted.iter().any(|it| first.starts_with(it)), "{question}: {lines:?}");
    }
    for question in ["why?", "what is it?", "and now?", "zanzibar?"] {
        assert_eq!(manual.ask(question, &known).hits, [], "{question}");
    }
}

/// Figures for this machine's own manual pages: `REEDCLAW_MEASURE=1 cargo test --test it manual::this_machine -- --nocapture`.
#[test]
fn this_machines_pages_take_no_answer_away() {
    if std::env::var_os("REEDCLAW_MEASURE").is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let man_path = reedclaw::manual::man_path(None, std::env::var_os("PATH").as_deref());
    let mut manual = Manual::new(Options { directory: Some(directory.path().to_owned()), man_path, programs: None });
    let known = Known { has_command: &|_| true, lines: &[], words_min: 1 };
    let began = Instant::now();
    assert!(manual.ask("list files", &known).is_reading);
    let first = began.elapsed();
    assert_eq!(read_pages(&mut manual, &known), None);
    let made = began.elapsed();
    let bytes = std::fs::metadata(directory.path().join("pages.db")).expect("an index").len();
    let mut times: Vec<_> = questions()
        .iter()
        .map(|asked| {
            let began = Instant::now();
            manual.ask(asked.question, &known);
            began.elapsed()
        })
        .collect();
    times.sort();
    eprintln!("first {first:?}, made {made:?}, {bytes} bytes, median {:?}, slowest {:?}", times[100], times[199]);
    for (set, first) in [("tuning", 0), ("held out", 1)] {
        let (answered, missed) = recall(&mut manual, first);
        eprintln!("{set}: {answered} of 100");
        if first == 0 {
            eprintln!("{}", missed.join("\n"));
        }
        assert!(answered >= 80, "{set}: {answered} of 100");
    }
}

/// A shell that doesn't run programs to read their help, since there may be many.
fn without_help() -> Spawn {
    Spawn::reedclaw().file(CONFIG, "return {manual = {help = false}}")
}

/// A home whose only manual page is that of a program that no recipe knows.
fn with_a_page(spawn: Spawn) -> Spawn {
    let page = ".TH FROBNICATE 1\n.SH NAME\nfrobnicate \\- polish widgets\n.SH OPTIONS\n.TP\n\\-\\-gloss=N\nSet how shiny \
        widgets become\n";
    let spawn = spawn.file("man/man1/frobnicate.1", page).file("bin/frobnicate", "");
    spawn.env("MANPATH", "/nonexistent").size(40, 100)
}

/// Waits for the hints about the keys that choose a line.
#[track_caller]
fn expect_lines(session: &Session) {
    session.expect("the keys", |screen| left_of_cursor(screen).trim_end().ends_with("none [n, Esc]"));
}

#[test]
fn a_chosen_line_waits_in_the_editor_until_enter() {
    let session = Session::spawn(with_a_page(without_help()));
    session.expect_prompt();
    let index = session.home().join(".local/state/reedclaw/manual");
    assert!(!index.exists(), "nothing is made before it is wanted");
    session.line(":man how do I make nested directories");
    expect_lines(&session);
    session.expect_text("mkdir -p PARENT/CHILD");
    session.expect_text("recipe");
    session.press(Key::Enter);
    session.expect("the line in the editor", |screen| left_of_cursor(screen).ends_with("mkdir -p PARENT/CHILD"));
    assert!(!session.home().join("PARENT").exists(), "it was run before it was entered");
    session.press(Key::Enter);
    session.expect_prompt();
    session.expect_outside("the directory", || session.home().join("PARENT/CHILD").exists().then_some(()));
}

#[test]
fn typing_on_takes_no_line_and_loses_no_letter() {
    let session = Session::spawn(with_a_page(without_help()));
    session.expect_prompt();
    session.line(":man how do I make nested directories");
    expect_lines(&session);
    session.type_text("e");
    session.expect("the first letter", |screen| left_of_cursor(screen).ends_with(" e"));
    session.line("cho on-$((1+1))");
    session.expect_line("on-2");
}

#[test]
fn manual_pages_and_the_persons_own_lines_answer_too() {
    let home = tempfile::tempdir().expect("a home");
    let man_path = home.path().join("man").display().to_string();
    let session = Session::spawn(with_a_page(without_help()).home(home.path()).env("MANPATH", &man_path));
    session.run("echo widgets zanzibar");
    session.expect_prompt();
    session.line(":man make nested directories");
    expect_lines(&session);
    // The first question doesn't wait for the index of the pages.
    let index = home.path().join(".local/state/reedclaw/manual/pages.db");
    session.expect_outside("the index", || index.exists().then_some(()));
    session.press(Key::Escape);
    session.expect_prompt();
    session.line(":man how shiny do widgets become");
    session.expect_text("frobnicate --gloss=N");
    session.expect_text("man frobnicate(1)");
    session.expect_text("frobnicate isn't installed");
    expect_lines(&session);
    session.press(Key::Escape);
    session.expect_prompt();
    session.line(":man zanzibar widgets");
    session.expect_text("from your history");
    expect_lines(&session);
    session.press(Key::Escape);
    session.expect_prompt();
    session.line(":man quux");
    session.expect_text("nothing on this machine answers that");
}

#[test]
fn programs_without_a_page_answer_with_their_help_and_change_nothing() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (mark, program) = (place.path().join("mark"), place.path().join("frobnicate"));
    let start = |config: &str| {
        // The harness itself needs the machine's programs.
        let path = format!("PATH=/nonexistent:{}", place.path().display());
        let program = crate::pty::program().display().to_string();
        let spawn = Spawn::new("/usr/bin/env").arg(&path).arg(&program).env("MANPATH", "/nonexistent").size(40, 100);
        Session::spawn(spawn.file(".bashrc", "PS1='$ '\n").file(CONFIG, config).file("secret", ""))
    };
    let ask = |session: &Session, question: &str| {
        let index = session.home().join(".local/state/reedclaw/manual");
        session.expect_prompt();
        session.line(&format!(":man {question}"));
        session.expect_outside("the index", || index.join("pages.db").exists().then_some(()));
        session.expect_outside("its end", || (!index.join("pages.new").exists()).then_some(()));
        session.expect_prompt();
        session.line(&format!(":man {question}"));
    };
    let session = start("return {}");
    let text = format!(
        "#!/bin/sh\necho 'Polishes all the widgets'\ntouch {mark}\n[ -e {secret} ] && echo 'Usage: with xylophones'\necho 'Usage: \
        frobnicate [OPTIONS]\n\n  --gloss=N  Set how shiny widgets become'\n",
        mark = mark.display(),
        secret = session.home().join("secret").display(),
    );
    std::fs::write(&program, text).expect("a program");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    ask(&session, "how shiny do widgets become");
    session.expect_text("frobnicate --gloss=N");
    session.expect_text("Set how shiny widgets become · frobnicate --help");
    expect_lines(&session);
    session.press(Key::Escape);
    session.expect_prompt();
    // The answer to the first question is no answer to this one.
    session.press(Key::Ctrl('l'));
    session.expect("an empty screen", |screen| !screen.contents().contains("answers that"));
    ask(&session, "xylophones");
    session.expect_text("nothing on this machine answers that");
    for config in ["return {manual = {help = false}}", "return {security = {sandbox = 'off'}}"] {
        let session = start(config);
        ask(&session, "how shiny do widgets become");
        session.expect_text("nothing on this machine answers that");
    }
    assert!(!mark.exists(), "it has written a file");
}

#[test]
fn a_question_that_no_model_answers_is_answered_from_here() {
    let session = Session::spawn(with_a_page(without_help()));
    session.expect_prompt();
    session.line("how do I make nested directories?");
    session.expect_text("no model is set up");
    session.expect_text("from this machine, without a model");
    session.expect_text("mkdir -p PARENT/CHILD");
    expect_lines(&session);

    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let config =
        format!("return {{manual = {{help = false}}, models = {{gone = {{endpoint = \"http://127.0.0.1:{port}\"}}}}}}");
    let spawn = Spawn::reedclaw().file(CONFIG, &config);
    let session = Session::spawn(with_a_page(spawn));
    session.expect_prompt();
    session.line("how do I make nested directories?");
    session.expect_text("connection refused");
    session.expect_text("mkdir -p PARENT/CHILD");
    expect_lines(&session);
    session.press(Key::Escape);
    session.run("clear");
    session.line("what time is it?");
    session.expect_text("connection refused");
    session.expect_text("1 │ date");
    expect_lines(&session);
    session.press(Key::Escape);
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}

/// Once, a model that was asked and paid for returned nothing useful, and the machine answered "without a model".
#[test]
fn a_model_that_was_reached_is_not_answered_for() {
    let server = Server::start();
    (0..2).for_each(|_| server.reply(answer("")));
    let session = Session::spawn(with_a_page(server.shell("retries = 0", "")));
    session.expect_prompt();
    session.line("how do I make nested directories?");
    session.expect_text("the model gave no answer, though it was asked twice");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    assert!(!session.screen_text().contains("from this machine"), "{}", session.screen_text());
    for (refused, told) in [
        (refusal("400 Bad Request", "no such field"), "HTTP 400"),
        (refusal("500 Internal Server Error", "it broke"), "HTTP 500"),
        (
            vec![Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>".to_vec())],
            "doesn't follow the server's protocol",
        ),
    ] {
        server.reply(refused);
        session.line("how do I make nested directories?");
        session.expect_text(told);
        session.run("echo on-$((2+1))");
        session.expect_line("on-3");
        assert!(!session.screen_text().contains("from this machine"), "{}", session.screen_text());
        session.run("clear");
    }
}

#[test]
fn every_recipe_is_a_whole_line_of_bash() {
    let text = include_str!("../../config/manual/recipes.txt");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (task, command) = line.split_once('\t').unwrap_or_else(|| panic!("no tab: {line}"));
        assert!(!task.is_empty() && !reedclaw::bash::is_unfinished(command), "{line}");
    }
}
