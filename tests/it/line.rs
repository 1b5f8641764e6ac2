//! Editing the line with the keys of other shells: Up, Ctrl-R, readline's keys, vi's keys.

use crate::need::require;
use crate::other_shells::{complete_by_fzf, press_fzfs_keys, run_line_of_key};
use crate::pty::{Key, PROMPT, Session, Spawn, cursor_line, left_of_cursor, status_code};
use crate::wait::wait_until;

fn config(lines: &str) -> Spawn {
    Spawn::reedclaw().file(".config/reedclaw/config.lua", &format!("return {{\n{lines}\n}}\n"))
}

/// A session without suggestions, so that the line shows only what was typed.
fn plain() -> Spawn {
    config("editor = {autosuggest = false}")
}

/// The line after the prompt's glyph, whichever that is.
fn line(screen: &vt100::Screen) -> String {
    let row = cursor_line(screen);
    let line = ["❯", "❮", " ?", " :", " ~"].iter().find_map(|glyph| row.split_once(glyph));
    line.map_or(String::from("no prompt"), |(_, line)| line.trim().to_owned())
}

/// Waits until the line is `typed`.
#[track_caller]
fn expect_line_is(session: &Session, typed: &str) {
    session.expect(&format!("{typed:?} in the line"), |screen| line(screen) == typed);
}

fn clear(session: &Session) {
    session.press(Key::Ctrl('u'));
    session.press(Key::Ctrl('k'));
    expect_line_is(session, "");
}

/// Up and Enter once repeated the last command of another terminal.
#[test]
fn up_gives_this_terminals_lines_first_and_then_the_others() {
    let home = tempfile::TempDir::new().expect("a home");
    let first = Session::spawn(plain().home(home.path()));
    first.run("echo before-A");
    let second = Session::spawn(Spawn::reedclaw().home(home.path()));
    first.run("echo A1");
    second.run("echo B1");
    second.run("echo B2");
    // The database is written a moment after the prompt.
    second.expect_outside("the line in the file", || {
        let database = rusqlite::Connection::open(home.path().join(".local/share/reedclaw/reedclaw.db")).ok()?;
        database.query_row("SELECT 1 FROM history WHERE line = 'echo B2'", [], |_| Ok(())).ok()
    });
    first.press(Key::Up);
    expect_line_is(&first, "echo A1");
    first.press(Key::Up);
    expect_line_is(&first, "echo before-A");
    first.press(Key::Up);
    expect_line_is(&first, "echo B2");
    first.press(Key::Down);
    expect_line_is(&first, "echo before-A");
    // The search covers all sessions.
    clear(&first);
    first.press(Key::Ctrl('r'));
    first.type_text("B1");
    first.expect_text("▸ echo B1");
}

#[test]
fn up_puts_the_cursor_at_the_end_of_a_command_of_several_rows() {
    let session = Session::spawn(plain());
    session.expect_prompt();
    session.type_text("for i in 1; do\recho n$i");
    session.expect("the second row", |screen| cursor_line(screen).contains("echo n$i"));
    session.type_text("\rdone\r");
    session.expect_line("n1");
    session.expect_prompt();
    session.press(Key::Up);
    session.expect("the last row", |screen| cursor_line(screen).trim_end().ends_with("done"));
    session.type_text(" > out");
    session.press(Key::Enter);
    session.run("cat out");
    session.expect_line("n1");
}

fn history() -> Session {
    let session = Session::spawn(plain().size(30, 100));
    for line in ["echo needle in haystack", "true docker run 777", "mkdir sub", "cd sub", "false --failed", "cd .."] {
        session.run(line);
    }
    session.run("clear");
    session
}

#[test]
fn the_search_replaces_the_line_and_shows_its_query() {
    let session = history();
    session.type_text("foo bar ");
    session.press(Key::Ctrl('r'));
    session.expect_text("history: foo bar");
    session.type_text("needle");
    session.expect_text("▸ echo needle in haystack");
    session.expect("the query alone", |screen| screen.contents().contains("history: needle"));
    assert!(!session.screen_text().contains("Page"), "{}", session.screen_text());
    session.press(Key::Enter);
    expect_line_is(&session, "echo needle in haystack");
    clear(&session);
    // Words in any order, then letters.
    session.press(Key::Ctrl('r'));
    session.type_text("777 DOCK");
    session.expect_text("▸ true docker run 777");
    session.press(Key::Ctrl('u'));
    session.type_text("ndlhay");
    session.expect_text("▸ echo needle in haystack");
    session.press(Key::Tab);
    expect_line_is(&session, "echo needle in haystack");
    clear(&session);
    // Keys that are faster than the display of the hits.
    session.send(b"\x12777 dock\r");
    expect_line_is(&session, "true docker run 777");
    clear(&session);
    session.send(b"\x12ndlhay\r\r");
    session.expect_line("needle in haystack");
}

#[test]
fn a_cancelled_search_brings_the_line_back() {
    for key in [Key::Escape, Key::Ctrl('g')] {
        let session = history();
        session.type_text("half a line");
        session.press(Key::Ctrl('r'));
        session.type_text("needle");
        session.expect_text("▸ echo needle in haystack");
        session.press(key);
        expect_line_is(&session, "half a line");
        session.expect("no menu", |screen| !screen.contents().contains("haystack"));
        clear(&session);
        session.press(Key::Ctrl('r'));
        session.type_text("nothing like it");
        session.expect_text("nothing found");
        // Without a hit, Enter doesn't run the search text.
        session.press(Key::Enter);
        session.press(Key::Ctrl('c'));
        expect_line_is(&session, "");
        session.expect("nothing left", |screen| !screen.contents().contains("history:"));
        session.run("echo on-$((1+1))");
        session.expect_line("on-2");
    }
}

#[test]
fn a_hit_says_where_and_when_it_ran_and_how_it_ended() {
    let session = history();
    session.press(Key::Ctrl('r'));
    session.type_text("failed");
    session.expect("directory, age and status", |screen| {
        let line = screen.rows(0, 100).find(|row| row.contains("false --failed"));
        line.is_some_and(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[words.len() - 3] == "~/sub"
                && words[words.len() - 2].ends_with(['s', 'm'])
                && words[words.len() - 1] == "1"
        })
    });
    // Searches from a directory in which no such line ran.
    session.expect_text("all history; Alt-S searches this session");
    session.press(Key::Alt('s'));
    session.expect_text("this session; Alt-S");
    session.press(Key::Alt('s'));
    session.expect_text("this directory; Alt-S");
    session.expect_text("nothing found");
    session.press(Key::Alt('s'));
    session.expect_text("this machine; Alt-S");
    session.expect_text("▸ false --failed");
}

#[test]
fn failed_commands_are_not_suggested() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("true --kept");
    session.run("false --kept");
    session.run("(exit 3); sleep 0");
    session.run("clear");
    session.type_text("fals");
    session.expect("the line", |screen| cursor_line(screen).ends_with("fals"));
    clear(&session);
    session.type_text("tru");
    session.expect("the suggestion", |screen| cursor_line(screen).ends_with("true --kept"));
    clear(&session);
    session.type_text("fals");
    session.expect("no suggestion", |screen| cursor_line(screen).ends_with("fals"));
}

#[test]
fn the_keys_of_readline_do_what_hands_expect() {
    let session = Session::spawn(plain());
    session.run("echo -n /x/one");
    session.run("echo -n /a/two");
    session.type_text("echo ");
    session.press(Key::Alt('.'));
    expect_line_is(&session, "echo /a/two");
    session.press(Key::Alt('_'));
    expect_line_is(&session, "echo /x/one");
    session.type_text(" y");
    session.press(Key::Alt('t'));
    expect_line_is(&session, "echo /x/y one");
    session.send(b"\x1f");
    expect_line_is(&session, "echo /x/one y");
    clear(&session);
    session.type_text("cp /a/b.c x");
    session.press(Key::Ctrl('w'));
    session.press(Key::Ctrl('w'));
    expect_line_is(&session, "cp");
    // Two kills in a row form one; the one before comes next.
    session.press(Key::Ctrl('u'));
    session.press(Key::Ctrl('y'));
    expect_line_is(&session, "cp /a/b.c x");
    session.press(Key::Ctrl('a'));
    session.type_text("echo ");
    session.press(Key::Ctrl('k'));
    expect_line_is(&session, "echo");
    session.type_text("z");
    session.press(Key::Ctrl('w'));
    session.press(Key::Ctrl('y'));
    expect_line_is(&session, "echo z");
    session.press(Key::Alt('y'));
    expect_line_is(&session, "echo cp /a/b.c x");
    session.press(Key::Alt('r'));
    expect_line_is(&session, "");
    session.type_text("echo a");
    session.press(Key::Ctrl('v'));
    session.press(Key::Ctrl('a'));
    session.type_text("b | od -An -c\r");
    session.expect_text("a 001   b");
    session.expect_prompt();
    session.type_text("rm something");
    session.press(Key::Alt('#'));
    session.expect("a comment that did nothing", |screen| screen.contents().contains("#rm something"));
    session.expect_prompt();
    session.run("touch zz-1");
    session.type_text("echo zz");
    session.press(Key::Alt('*'));
    expect_line_is(&session, "echo zz-1");
}

#[test]
fn ctrl_w_deletes_a_word_if_the_config_says_so() {
    let session = Session::spawn(config("editor = {autosuggest = false, kill_word = 'word'}"));
    session.expect_prompt();
    session.type_text("ls /a/b");
    session.press(Key::Ctrl('w'));
    expect_line_is(&session, "ls /a/");
}

/// Waits until the text before the cursor is `text`.
#[track_caller]
fn expect_cursor_at(session: &Session, text: &str) {
    session.expect("the cursor", |screen| left_of_cursor(screen).ends_with(text));
}

#[test]
fn a_new_prompt_is_in_vis_insert_mode_and_its_keys_work() {
    let session = Session::spawn(config("editor = {mode = 'vi', autosuggest = false}"));
    session.run("true");
    session.type_text("echo one two");
    session.press(Key::Escape);
    expect_cursor_at(&session, "echo one tw");
    session.press(Key::Ctrl('c'));
    session.expect("a new prompt", |screen| cursor_line(screen).trim_end().ends_with(PROMPT));
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    session.expect_prompt();
    session.type_text("f(a(b)c) xx yy");
    session.press(Key::Escape);
    expect_cursor_at(&session, "f(a(b)c) xx y");
    session.type_text("0d%");
    expect_line_is(&session, "xx yy");
    session.type_text("fx~.");
    expect_line_is(&session, "XX yy");
    session.type_text("0dty");
    expect_line_is(&session, "yy");
    session.type_text("GA !");
    expect_line_is(&session, "yy !");
    // readline's keys of the insert mode.
    session.press(Key::Ctrl('u'));
    expect_line_is(&session, "");
    session.press(Key::Ctrl('y'));
    expect_line_is(&session, "yy !");
    session.press(Key::Ctrl('w'));
    expect_line_is(&session, "yy");
}

#[test]
fn vis_dot_repeats_the_text_and_every_character_can_be_a_target() {
    let session = Session::spawn(config("editor = {mode = 'vi', autosuggest = false}"));
    session.run("true");
    let normal = |text: &str| {
        session.press(Key::Escape);
        session.expect("normal mode", |screen| cursor_line(screen).contains('❮'));
        session.type_text(text);
    };
    session.type_text("cat one two");
    normal("0wcwX");
    expect_line_is(&session, "cat X two");
    normal("w.");
    expect_line_is(&session, "cat X X");
    session.type_text("A!");
    expect_line_is(&session, "cat X X!");
    normal("0.");
    expect_line_is(&session, "cat X X!!");
    session.press(Key::Ctrl('c'));
    session.expect("a new prompt", |screen| cursor_line(screen).trim_end().ends_with(PROMPT));
    session.type_text("ls /usr/lib");
    normal("0ct/a");
    expect_line_is(&session, "a/usr/lib");
    normal("0r#f/x");
    expect_line_is(&session, "#usr/lib");
}

const BASH_COMPLETION: &str = "/usr/share/bash-completion/bash_completion";

/// A session with Debian's own completions for bash, in a repository.
fn completing() -> Session {
    let rc = format!("PS1='❯ '\n. {BASH_COMPLETION}\n");
    let spawn = config("editor = {autosuggest = false, completion_timeout_ms = 10000}");
    let session = Session::spawn(spawn.file(".bashrc", &rc).size(40, 120));
    session.run("git init -q -b trunk . && touch 'file with space.txt'");
    session.run("clear");
    session
}

/// Each of these completed in bash, but here gave nothing or something that broke the line.
#[test]
fn tab_completes_the_simple_command_at_the_cursor() {
    if !require(&["git"]) || !std::path::Path::new(BASH_COMPLETION).is_file() {
        return;
    }
    let session = completing();
    for (typed, completed) in [
        ("ls && git stat", "ls && git status"),
        ("if true; then git cherry-p", "if true; then git cherry-pick"),
        ("FOO=1 git cherry-p", "FOO=1 git cherry-pick"),
        ("FOO=1 BAR=2 git log --onel", "FOO=1 BAR=2 git log --oneline"),
        ("echo a; ls --so", "echo a; ls --sort"),
        ("cat x | grep --colo", "cat x | grep --colo"),
        ("ls | sort --num", "ls | sort --numeric-sort"),
        ("ls ~roo", "ls ~root/"),
        ("cd ~roo", "cd ~root/"),
        ("ls $HOME/fi", "ls $HOME/file\\ with\\ space.txt"),
        ("echo $(git stat", "echo $(git status"),
        ("ls FILE", "ls file\\ with\\ space.txt"),
        ("ls space", "ls file\\ with\\ space.txt"),
        ("git CHERRY-P", "git cherry-pick"),
    ] {
        session.type_text(typed);
        session.press(Key::Tab);
        expect_line_is(&session, completed);
        session.press(Key::Ctrl('c'));
        session.expect("a new prompt", |screen| line(screen).is_empty());
        session.run("clear");
    }
    for (typed, offered) in [
        ("cd /tmp && tar --ext", "--extract"),
        ("ps aux | sort --r", "--reverse"),
        ("if true; then git che", "cherry-pick"),
        ("cat x | grep --col", "--colour"),
    ] {
        session.type_text(typed);
        session.press(Key::Tab);
        session.expect(offered, |screen| screen.contents().contains(offered));
        session.press(Key::Ctrl('c'));
        session.expect("a new prompt", |screen| line(screen).is_empty());
        session.run("clear");
    }
}

#[test]
fn candidates_are_names_sorted_unique_and_say_how_many_more_there_are() {
    let session = Session::spawn(plain().file("d/z-last", "").file("d/a-first", "").file("d/m-middle", ""));
    session.run("mkdir many; touch many/file-{100..299}; clear");
    session.type_text("ls d/");
    session.press(Key::Tab);
    session.expect("the names in their order", |screen| {
        let text = screen.contents();
        let at = |name: &str| text.find(name);
        at("a-first") < at("m-middle") && at("m-middle") < at("z-last") && text.contains("z-last")
    });
    assert!(!session.screen_text().contains("d/a-first"), "{}", session.screen_text());
    session.press(Key::Ctrl('c'));
    session.run("clear");
    session.type_text("ls many/");
    session.press(Key::Tab);
    session.expect("what else there is", |screen| {
        let more =
            screen.contents().lines().find_map(|row| row.strip_prefix("… ")?.strip_suffix(" more")?.parse().ok());
        let shown = screen.contents().matches("file-").count();
        more.is_some_and(|more: usize| more + shown >= 200 && shown < 60)
    });
}

/// Once, the editor was that of the environment before the start-up files, and without one the key did nothing.
#[test]
fn the_line_opens_in_the_editor_that_the_live_shell_names() {
    let script =
        "#!/bin/sh\nprintf 'echo edited-$((1+1)) # ' > \"$1.new\"\ncat \"$1\" >> \"$1.new\"\nmv \"$1.new\" \"$1\"\n";
    let rc = format!("PS1='{PROMPT} '\nexport EDITOR=\"sh $HOME/edit.sh\"\n");
    let session = Session::spawn(plain().file(".bashrc", &rc).file("edit.sh", script));
    session.expect_prompt();
    session.type_text("half");
    session.press(Key::Ctrl('x'));
    session.press(Key::Ctrl('e'));
    expect_line_is(&session, "echo edited-$((1+1)) # half");
    session.press(Key::Enter);
    session.expect_line("edited-2");
    session.expect_prompt();
    // Without an editor the key reports that.
    session.run("mkdir bin; PATH=$PWD/bin; unset EDITOR VISUAL");
    session.press(Key::Ctrl('x'));
    session.press(Key::Ctrl('e'));
    session.expect_text("no editor: VISUAL and EDITOR are empty");
}

#[test]
fn keys_run_functions_of_the_shell_on_the_line() {
    let rc = format!(
        "PS1='{PROMPT} '\nshout() {{ READLINE_LINE=\"é${{READLINE_LINE^^}}\"; READLINE_POINT=2; }}\nbind -x '\"\\C-g\": shout'\n\
         bind '\"\\eq\": \"echo macro-$((1+1))\\C-m\"'\nquiet() {{ seen=$READLINE_POINT; : > ran; }}\nshown() {{ echo \"<${{PS1@P}}>\"; }}\n"
    );
    let spawn = config(
        "editor = {autosuggest = false}, keys = {f5 = {shell = 'shout'}, f6 = {shell = 'quiet'}, f7 = {shell = 'shown'}}",
    );
    let session = Session::spawn(spawn.file(".bashrc", &rc));
    session.run("true");
    session.type_text("ab cd");
    session.send(b"\x1b[15~");
    expect_line_is(&session, "éAB CD");
    session.type_text("x");
    expect_line_is(&session, "éAxB CD");
    // Keys that `bind -x` has bound work, too.
    session.press(Key::Ctrl('g'));
    expect_line_is(&session, "éÉAXB CD");
    clear(&session);
    session.type_text("é ü");
    session.send(b"\x1b[17~");
    session.expect_outside("the function's file", || session.home().join("ran").exists().then_some(()));
    session.type_text("!");
    expect_line_is(&session, "é ü!");
    clear(&session);
    // A function that expands the prompt gets the one on the screen.
    session.send(b"\x1b[18~");
    session.expect("the prompt between angles", |screen| {
        let text = screen.contents();
        text.lines().any(|row| row.starts_with('<') && row.ends_with(&format!("{PROMPT} >")))
    });
    session.type_text("again");
    expect_line_is(&session, "again");
    clear(&session);
    // After a macro that runs a command, readline's line is as it was.
    session.press(Key::Alt('q'));
    session.expect_line("macro-2");
    session.run("echo seen-$seen");
    session.expect_line("seen-3");
    session.run("rm ran; false");
    session.run("false");
    session.send(b"\x1b[17~");
    session.expect_outside("the function's file", || session.home().join("ran").exists().then_some(()));
    session.run("echo status-$?");
    session.expect_line("status-1");
}

#[test]
fn a_line_that_a_key_has_bash_run_counts_as_one_that_was_typed() {
    let rc = "HISTCONTROL=ignoreboth\nbind '\"\\er\": \"echo of-key; sh -c '\"'exit 3'\"'\\C-m\"'\nbind '\"\\eh\": \" echo hidden-$((1+1))\\C-m\"'\n\
              long=$(printf 'z%.0s' {1..150})\nbind '\"\\el\": \"echo '$long'; sh -c '\"'exit 4'\"'\\C-m\"'\n";
    let session = Session::spawn(config("editor = {autosuggest = false}").file(".bashrc", rc));
    run_line_of_key(&session, "");
    // bash's history already has the line, ours gets it again.
    run_line_of_key(&session, "");
    session.press(Key::Alt('h'));
    session.expect_line("hidden-2");
    session.press(Key::Up);
    expect_line_is(&session, "echo of-key; sh -c 'exit 3'");
    clear(&session);
    for _ in 0..2 {
        session.run("clear");
        session.press(Key::Alt('l'));
        session.expect("the whole line, and its status", |screen| {
            let text = screen.contents();
            text.matches('z').count() == 300 && cursor_line(screen).trim_end().ends_with("~ 4 ❯")
        });
    }
}

/// Like atuin's Enter: it redraws the prompt from its first row, with the line after it, and runs the line.
#[test]
fn a_key_that_runs_the_line_draws_it_in_the_same_row() {
    let rc = [
        &format!("PS1='top\\nperson {PROMPT} '"),
        r#"accept() { local up; up=$(printf %s "${PS1@P}" | wc -l); ((up)) && printf '\e[%dA' "$up""#,
        r#"printf '%s%s\n' "${PS1@P}" "$READLINE_LINE"; eval "$READLINE_LINE"; READLINE_LINE=; }"#,
        r#"mark() { PS1="(env) $PS1"; }"#,
        r#"bind -x '"\C-xg": accept'; bind -x '"\C-xm": mark'"#,
        "",
    ];
    let rc = rc.join("\n");
    for (settings, rows) in [("editor = {autosuggest = false}", 1), ("prompt = \"shell\"", 2)] {
        let session = Session::spawn(config(settings).file(".bashrc", &rc));
        session.run("echo before");
        session.type_text("echo run-$((1+1))");
        session.press(Key::Ctrl('x'));
        session.send(b"g");
        session.expect("the rows in their order", |screen| {
            let text = screen.contents();
            let found: Vec<&str> = text.lines().collect();
            let Some(at) = found.iter().position(|row| *row == "before") else { return false };
            let line = found.get(at + rows).is_some_and(|row| row.ends_with("echo run-$((1+1))"));
            line && found.get(at + rows + 1) == Some(&"run-2")
        });
        // A key's change of the prompt persists, and none of our own text gets into it.
        session.press(Key::Ctrl('x'));
        session.send(b"m");
        session.run("echo \"<${PS1@Q}>\"");
        session.expect("the changed prompt", |screen| screen.contents().contains("<'(env) top\\nperson"));
    }
}

#[test]
fn the_shells_vi_mode_and_inputrc_are_read() {
    let session = Session::spawn(plain().file(".inputrc", "\"\\C-p\": kill-whole-line\n\"\\ez\": backward-word\n"));
    session.run("true");
    session.type_text("gone");
    session.press(Key::Ctrl('p'));
    expect_line_is(&session, "");
    session.type_text("one two");
    session.press(Key::Alt('z'));
    session.type_text("X");
    expect_line_is(&session, "one Xtwo");
    clear(&session);
    session.run("set -o vi");
    session.type_text("one two");
    session.press(Key::Escape);
    expect_cursor_at(&session, "one tw");
    session.type_text("0x");
    expect_line_is(&session, "ne two");
    session.press(Key::Ctrl('c'));
    session.run("set -o emacs");
    session.type_text("one two");
    session.press(Key::Ctrl('w'));
    expect_line_is(&session, "one");

    let session = Session::spawn(plain().file(".inputrc", "set editing-mode vi\n"));
    session.run("set -o | grep '^vi'");
    session.expect("vi's keys", |screen| {
        screen.contents().lines().any(|row| row.starts_with("vi") && row.ends_with("on"))
    });
    session.expect_prompt();
    session.type_text("one two");
    session.press(Key::Escape);
    expect_cursor_at(&session, "one tw");
}

#[test]
fn a_block_that_begins_with_a_bracket_alone_goes_on() {
    let session = Session::spawn(plain());
    session.run("true");
    for (lines, printed) in [
        (&["(", "cd /", "echo in-$PWD", ")", "echo out-$((1+1))"][..], &["in-/", "out-2"][..]),
        (&["{ # a group", "echo a-$((1+1))", "}"], &["a-2"]),
        (&["(echo b-$((1+1))", "while false", "do :", "done)"], &["b-2"]),
    ] {
        lines.iter().for_each(|line| session.line(line));
        printed.iter().for_each(|line| session.expect_line(line));
        session.expect_prompt();
    }
    session.run("[ \"$PWD\" = \"$HOME\" ] && echo still-$((1+1))");
    session.expect_line("still-2");
}

/// fzf's own files, sourced as people do it.
#[test]
fn fzfs_keys_and_completion_work_from_its_own_files() {
    let files = ["/usr/share/doc/fzf/examples/key-bindings.bash", "/usr/share/bash-completion/completions/fzf"];
    if !require(&["fzf"]) || !files.iter().all(|file| std::path::Path::new(file).is_file()) {
        return;
    }
    let sourced = files.map(|file| format!(". {file}\n")).concat();
    let rc = format!("PS1='{PROMPT} '\n. {BASH_COMPLETION}\n{sourced}");
    let spawn = plain().file(".bashrc", &rc).file("code/needle.txt", "").file("code/other.txt", "").size(30, 100);
    let session = Session::spawn(spawn);
    press_fzfs_keys(&session);
    complete_by_fzf(&session);
}

#[test]
fn the_first_prompt_is_shown_before_the_terminal_says_where_the_cursor_is_and_once() {
    let session = Session::spawn(Spawn::reedclaw().deaf());
    session.line("echo deaf-$((40+2))");
    session.expect("the line and the next prompt", |screen| {
        let text = screen.contents();
        text.contains("\ndeaf-42\n") && text.matches('❯').count() == 2 && cursor_line(screen).trim_end().ends_with('❯')
    });
    let raw = session.raw();
    let at = |wanted: &str| raw.windows(wanted.len()).position(|bytes| bytes == wanted.as_bytes()).expect(wanted);
    assert!(at("❯") < at("\x1b[6n"), "the prompt waited for the terminal");
}

#[test]
fn the_next_prompt_is_shown_before_the_terminal_says_where_the_cursor_is() {
    let session = Session::spawn(Spawn::reedclaw());
    session.run("true");
    session.type_text("echo shown-$((40+2))");
    // The editor draws typed text only once it knows the cursor's position.
    session.expect("the line", |screen| cursor_line(screen).ends_with("$((40+2))"));
    let asked = session.queries();
    session.stop_answering();
    session.line("");
    session.expect("the next prompt", |screen| {
        screen.contents().contains("\nshown-42\n") && cursor_line(screen).trim_end().ends_with('❯')
    });
    // The editor may not have asked yet; an earlier answer would be read as keys.
    wait_until(|| session.queries() != asked);
    let row = session.screen_text().lines().count();
    // It may ask again, if it was interrupted.
    session.answer_again();
    session.send(format!("\x1b[{row};1R").as_bytes());
    session.type_text("exit 3");
    session.expect("one prompt, in its row", |screen| cursor_line(screen).ends_with("❯ exit 3"));
    assert_eq!(session.screen_text().lines().count(), row, "{}", session.screen_text());
    session.line("");
    assert_eq!(status_code(session.expect_exit()), 3);
}
