//! The line editor: completion, colours, lines of several rows, abbreviations, vi.

use crate::need::require;
use crate::pty::{Key, PROMPT, Session, Spawn, cursor_line};

fn config(lines: &str) -> Spawn {
    Spawn::reedclaw().file(".config/reedclaw/config.lua", &format!("return {{\n{lines}\n}}\n"))
}

/// Settings for a busy machine: a late completion isn't a failure of these tests.
fn editor(more: &str) -> String {
    format!("editor = {{autosuggest = false, completion_timeout_ms = 10000, {more}}}")
}

/// A session without suggestions, so that the line shows only the typed text and its completion.
fn plain() -> Spawn {
    config(&editor(""))
}

/// Waits until the text after the prompt, up to the cursor, is `typed`.
#[track_caller]
fn expect_typed(session: &Session, typed: &str) {
    session.expect(&format!("{typed:?} in the line"), |screen| {
        let (row, column) = screen.cursor_position();
        let line = screen.rows(0, column).nth(usize::from(row)).unwrap_or_default();
        // Blanks at the end of a row are cells that were never drawn.
        let end = line.find(PROMPT).map(|at| at + PROMPT.len() + 1);
        end.and_then(|end| line.get(end..)).is_some_and(|text| text.trim_end() == typed.trim_end())
    });
}

#[test]
fn a_name_with_blanks_completes_to_what_the_shell_reads_as_one_word() {
    for (name, typed, shown) in [
        ("a file.txt", "cat a", "cat a\\ file.txt"),
        ("it's $HOME & co", "cat it", "cat it\\'s\\ \\$HOME\\ \\&\\ co"),
        ("two  words", "cat \"two", "cat \"two  words\""),
        ("naïve 漢字", "cat na", "cat naïve\\ 漢字"),
    ] {
        let session = Session::spawn(plain().file(name, "the text\n"));
        session.expect_prompt();
        session.type_text(&format!("{typed}\t"));
        expect_typed(&session, shown);
        session.press(Key::Enter);
        session.expect_line("the text");
    }
}

#[test]
fn commands_variables_and_folders_complete() {
    let rc = "PS1='❯ '\nalias zz_alias='echo by-alias'\nzz_function() { echo by-function; }\nzz_variable=by-variable\n";
    let session = Session::spawn(plain().file(".bashrc", rc).file("zz folder/inner/leaf", ""));
    session.run("true");
    session.type_text("zz_a\t");
    expect_typed(&session, "zz_alias ");
    session.press(Key::Enter);
    session.expect_line("by-alias");
    session.expect_prompt();
    session.type_text("zz_f\t\r");
    session.expect_line("by-function");
    session.expect_prompt();
    session.type_text("echo $zz_v\t\r");
    session.expect_line("by-variable");
    session.expect_prompt();
    session.type_text("cd zz\t");
    expect_typed(&session, "cd zz\\ folder/");
    session.type_text("i\t");
    expect_typed(&session, "cd zz\\ folder/inner/");
    session.press(Key::Enter);
    session.run("ls");
    session.expect_line("leaf");
}

#[test]
fn several_candidates_are_shown_and_tab_walks_through_them() {
    let session = Session::spawn(plain().file("many-one", "1\n").file("many-two", "2\n"));
    session.expect_prompt();
    session.type_text("cat ma\t");
    expect_typed(&session, "cat many-");
    session.expect("both", |screen| screen.contents().contains("many-one") && screen.contents().contains("many-two"));
    // Further editing closes the menu: Enter then runs the line, and accepts no candidate.
    session.press(Key::Ctrl('u'));
    session.expect("no menu", |screen| !screen.contents().contains("many-one"));
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}

#[test]
fn git_branches_and_git_s_own_completion() {
    if !require(&["git"]) {
        return;
    }
    let completion = "/usr/share/bash-completion/bash_completion";
    let rc = format!("PS1='❯ '\n[ -r {completion} ] && . {completion}\n");
    let session = Session::spawn(plain().file(".bashrc", &rc).size(40, 120));
    session.run("git init -q -b trunk repository && cd repository");
    let commit = "git -c user.name=n -c user.email=e@e commit -q --allow-empty -m first";
    session.run(commit);
    session.run("git branch feature/zebra; git branch other");
    session.type_text("git checkout fea\t");
    expect_typed(&session, "git checkout feature/zebra ");
    session.press(Key::Enter);
    session.expect_text("Switched to branch 'feature/zebra'");
    session.expect_prompt();
    if !std::path::Path::new(completion).is_file() {
        return;
    }
    session.run("clear");
    session.type_text("git checkout --det\t");
    expect_typed(&session, "git checkout --detach ");
    session.press(Key::Ctrl('u'));
    session.type_text("git checkout --\t");
    session.expect("git's options", |screen| {
        let text = screen.contents();
        text.contains("--detach") && text.contains("--orphan")
    });
}

/// `builtin local before=$line` splits at blanks although `local` alone doesn't: the shell's own completion saw only one word of
/// every line, so that bash-completion never had an answer. And a Tab pressed as soon as the prompt appeared found the shell
/// still on the way to its own prompt, and got the answer that there was nothing to complete.
#[test]
fn a_completion_that_the_user_defined_is_asked() {
    let rc = "PS1='❯ '\n_deploy() { COMPREPLY=($(compgen -W 'staging production' -- \"${COMP_WORDS[COMP_CWORD]}\")); }\n\
        complete -F _deploy deploy\ndeploy() { echo \"deployed-$1\"; }\n";
    let session = Session::spawn(plain().file(".bashrc", rc));
    session.run("x=kept; (exit 3)");
    session.type_text("deploy st\t");
    expect_typed(&session, "deploy staging ");
    session.press(Key::Enter);
    session.expect_line("deployed-staging");
    session.run("clear");
    session.type_text("deploy \t");
    session.expect("both", |screen| screen.contents().contains("staging") && screen.contents().contains("production"));
    session.interrupt();
    session.run("echo $x-${COMP_LINE-unset}-${COMPREPLY-unset}");
    session.expect_line("kept-unset-unset");
}

/// bash's own list of files has a line for each, and returned the two halves of the name.
#[test]
fn a_name_with_a_line_feed_from_the_shell_is_whole() {
    let rc = "PS1='❯ '\n_show() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$2\"); }\n\
        complete -F _show show\nshow() { printf 'shown-%s\\n' \"${1//$'\\n'/+}\"; }\n";
    let session = Session::spawn(plain().file(".bashrc", rc).file("odd\nname", ""));
    session.run("true");
    session.type_text("show odd\t");
    expect_typed(&session, "show $'odd\\nname' ");
    session.press(Key::Enter);
    session.expect_line("shown-odd+name");
}

/// The interrupted subshell died of SIGINT inside `bind -x`, bash left its terminal in line mode, and no line ever ran
/// again.
#[test]
fn a_completion_that_hangs_is_cancelled() {
    let rc = "PS1='❯ '\n_hang() { sleep 600; }\ncomplete -F _hang hang\nhang() { echo \"hung-$1\"; }\n";
    let spawn = config("editor = {autosuggest = false, completion_timeout_ms = 150}");
    let session = Session::spawn(spawn.file(".bashrc", rc).file("file-here", ""));
    session.run("true");
    session.type_text("hang fil\t");
    // If the shell has no answer in time, paths are the answer.
    expect_typed(&session, "hang file-here ");
    session.press(Key::Enter);
    session.expect_line("hung-file-here");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
    session.expect_outside("no sleep is left", || {
        session.descendants().iter().all(|process| process.name != "sleep").then_some(())
    });
}

/// Waits until `word` was drawn in this colour after the position `from`.
#[track_caller]
fn expect_color(session: &Session, sgr: &str, word: &str) {
    session.expect_raw(format!("\x1b[{sgr}m{word}").as_bytes(), 0);
}

#[test]
fn an_unknown_command_is_red_before_enter_and_a_known_one_green() {
    let session = Session::spawn(plain());
    session.run("true");
    session.type_text("./nothing-there -x");
    expect_color(&session, "31", "./nothing-there");
    session.interrupt();
    session.type_text("ls -x");
    expect_color(&session, "32", "ls");
    session.interrupt();
    let session = Session::spawn(plain().env("NO_COLOR", "1"));
    session.run("true");
    session.type_text("./nothing-there -x");
    expect_typed(&session, "./nothing-there -x");
    assert!(memchr::memmem::find(&session.raw(), b"\x1b[31m").is_none());
}

#[test]
fn alt_enter_and_unfinished_commands_take_more_lines() {
    let session = Session::spawn(plain());
    session.run("true");
    session.type_text("echo first-$((1+1))");
    session.press(Key::AltEnter);
    session.type_text("echo second-$((2+2))");
    session.expect_text("echo second-$((2+2))");
    assert!(!session.screen_text().contains("first-2"));
    session.press(Key::Enter);
    session.expect_line("first-2");
    session.expect_line("second-4");
    session.run("clear");
    session.line("if true");
    session.line("then echo in-if-$((1+1))");
    session.line("fi");
    session.expect_line("in-if-2");
    session.expect_prompt();
    session.line("cat <<'END'");
    session.line("in $((here))");
    session.line("END");
    session.expect_line("in $((here))");
    session.expect_prompt();
    session.line("echo \"open");
    session.line("quote-$((2+2))\"");
    session.expect_line("open");
    session.expect_line("quote-4");
    session.expect_prompt();
    session.line("echo one-$((1+1)) |");
    session.line("cat -");
    session.expect_line("one-2");
    session.expect_prompt();
    session.line("echo con\\");
    session.line("tinued");
    session.expect_line("continued");
}

#[test]
fn a_paste_of_several_lines_is_edited_and_runs_with_one_enter() {
    let session = Session::spawn(plain());
    session.run("true");
    session.send(b"\x1b[200~touch one\r\ntouch two\r\n# what is this?\r\x1b[201~");
    session.expect_text("what is this?");
    session.send(b"\x1b[200~rm -rf nothing\n\x1b[201~");
    session.expect_text("rm -rf nothing");
    assert!(!session.home().join("one").exists(), "a paste ran by itself");
    session.interrupt();
    session.run("ls");
    assert!(!session.home().join("one").exists() && !session.home().join("two").exists());
}

#[test]
fn abbreviations_expand_at_a_blank_and_at_enter() {
    let session = Session::spawn(config(&editor("abbreviations = {zq = \"echo by-abbreviation\"}")));
    session.run("true");
    // Key by key: in a burst of keys, an abbreviation isn't expanded until Enter.
    session.type_text("zq");
    expect_typed(&session, "zq");
    session.type_text(" ");
    expect_typed(&session, "echo by-abbreviation ");
    session.type_text("one\r");
    session.expect_line("by-abbreviation one");
    session.expect_prompt();
    session.line("zq");
    session.expect_line("by-abbreviation");
}

#[test]
fn vi_keys_move_and_change() {
    let session = Session::spawn(config(&editor("mode = \"vi\"")));
    session.expect_prompt();
    session.type_text("echo wrong word");
    expect_typed(&session, "echo wrong word");
    session.press(Key::Escape);
    session.expect("the glyph of the normal mode", |screen| cursor_line(screen).contains("❮ echo wrong word"));
    session.type_text("0wcwright");
    session.expect("the change", |screen| cursor_line(screen).ends_with("echo right word"));
    session.press(Key::Enter);
    session.expect_line("right word");
    session.run("echo on-$((1+1))");
    session.expect_line("on-2");
}
