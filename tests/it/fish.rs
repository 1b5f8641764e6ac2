//! fish as the live shell: everything that works with bash works with fish too.

use crate::other_shells::{OtherShell, expect_line_is, ready, run_line_of_key};
use crate::pty::{Key, cursor_line};

const FISH: OtherShell = OtherShell {
    name: "fish",
    start_up_file: ".config/fish/config.fish",
    status: "$status",
    // fish reports success for a job that was stopped, and for `fg`.
    stopped: "0",
    interrupted_job: "0",
};

#[test]
fn variables_and_options_stay_set() {
    let Some(session) = FISH.session("function twice; echo $argv[1]-$argv[1]; end\n") else { return };
    ready(&session);
    session.run("mkdir -p a/b; cd a/b; set -gx ONE 1; alias hi='echo hi-by'");
    session.run("hi there; twice x; pwd; sh -c 'echo in-$ONE'; echo type-$TERM");
    session.expect_line("hi-by there");
    session.expect_line("x-x");
    session.expect_line("in-1");
    session.expect_line("type-xterm-256color");
    session.expect("the directory in the prompt", |screen| screen.contents().contains("~/a/b ❯"));
}

#[test]
fn an_empty_line_keeps_the_status_and_the_environment() {
    let Some(session) = FISH.session("") else { return };
    ready(&session);
    session.run("set -gx VIRTUAL_ENV /srv/env; sh -c 'exit 3'");
    let is_prompt = |screen: &vt100::Screen| crate::pty::cursor_line(screen).trim_end().ends_with("(env) ~ 3 ❯");
    session.expect("the status in the prompt", is_prompt);
    session.press(Key::Enter);
    session.expect("the same prompt again", |screen| {
        is_prompt(screen)
            && screen.contents().lines().filter(|row| row.trim_end().ends_with("(env) ~ 3 ❯")).count() == 2
    });
    session.run("echo after $status");
    session.expect_line("after 3");
}

#[test]
fn the_prompt_names_the_virtual_environment() {
    let Some(session) = FISH.session("") else { return };
    ready(&session);
    session.run("set -gx VIRTUAL_ENV '/srv/projects/my env;1'");
    session.expect_text("(my_env_1) ~ ❯");
    session.run("set -e VIRTUAL_ENV");
    session.run("clear");
    session.expect("a prompt without it", |screen| crate::pty::cursor_line(screen).starts_with("~ ❯"));
}

#[test]
fn an_interrupt_right_after_enter_reaches_the_command() {
    FISH.interrupts_at_once();
}

#[test]
fn vi_keys_of_the_shell_are_the_editor_s() {
    FISH.has_vi_keys("fish_vi_key_bindings\n");
}

#[test]
fn ctrl_c_at_the_prompt_leaves_the_status() {
    let Some(session) = FISH.session("") else { return };
    ready(&session);
    session.run("false");
    session.type_text("left-alone");
    session.expect_text("left-alone");
    session.press(Key::Ctrl('c'));
    session.run("echo status-$status");
    session.expect_line("status-1");
}

#[test]
fn a_status_is_shown_and_available_to_the_next_line() {
    FISH.shows_statuses();
}

#[test]
fn several_lines_are_one_command_and_a_half_one_goes_on() {
    let Some(session) = FISH.session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.send(b"\x1b[200~for i in 1 2\necho r-$i\nend\necho behind\x1b[201~\r");
    session.expect_line("r-1");
    session.expect_line("r-2");
    session.expect_line("behind");
    session.run("clear");
    session.line("echo 'begun");
    session.line("ended'");
    session.expect_line("begun");
    session.expect_line("ended");
    session.run("clear");
    session.expect_prompt();
    session.line("if true; echo whole");
    session.type_text("end");
    session.press(Key::Enter);
    session.expect_line("whole");
    session.expect_prompt();
}

#[test]
fn a_syntax_error_is_shown_once() {
    let Some(session) = FISH.session("") else { return };
    ready(&session);
    session.run("echo a )");
    session.expect_text("fish: Unexpected ')'");
    session.run("echo alive-(math 1+1)");
    session.run("clear");
    session.run("printf half; true");
    session.expect("the mark of an open line, once", |screen| screen.contents().matches("half⏎").count() == 1);
}

#[test]
fn a_handler_of_ctrl_c_runs_at_the_prompt() {
    let Some(session) = FISH.session("") else { return };
    ready(&session);
    session.run("function on_int --on-signal INT; echo got-(math 40 + 2); end");
    session.press(Key::Ctrl('c'));
    session.expect_line("got-42");
    session.type_text("echo next-(math 1 + 1)");
    session.expect("the line at the prompt", |screen| cursor_line(screen).ends_with("❯ echo next-(math 1 + 1)"));
    session.press(Key::Enter);
    session.expect_line("next-2");
}

#[test]
fn ctrl_c_and_ctrl_z_reach_the_job() {
    FISH.controls_jobs();
}

#[test]
fn vim_opens_and_quits() {
    FISH.opens_vim();
}

#[test]
fn keys_typed_ahead_reach_the_command() {
    FISH.takes_keys_typed_ahead();
}

#[test]
fn a_slow_start_takes_the_first_line() {
    FISH.starts_slowly();
}

#[test]
fn a_background_job_speaks_above_the_prompt() {
    FISH.reports_jobs("has ended");
}

#[test]
fn a_script_and_a_command_are_the_shell_itself() {
    FISH.runs_commands("echo v-$version | cut -c1-3", "v-3");
}

#[test]
fn its_own_prompt_is_drawn_as_soon_as_a_project_asks_for_it() {
    FISH.draws_its_prompt_for_a_project(
        "function fish_prompt; echo -n \"own-$status \"(string split -r -m1 / -- $PWD)[-1]'❯ '; end\n",
    );
}

#[test]
fn its_own_prompt_may_be_drawn() {
    let Some(session) =
        FISH.start("function fish_prompt; echo own-$status '❯ '; end\n", "prompt = \"shell\"", |spawn| spawn)
    else {
        return;
    };
    session.run("false");
    session.expect("the prompt with its status", |screen| screen.contents().contains("own-1 ❯"));
    session.run("echo mine-(fish_prompt)");
    session.expect_text("mine-own-1");
}

#[test]
fn its_completion_answers() {
    FISH.completes("function mine; end\ncomplete -c mine -f -a one -d first; complete -c mine -f -a onto -d second\n");
}

#[test]
fn names_are_completed_as_one_word_whatever_is_in_them() {
    let Some(session) = FISH.session("") else { return };
    for (name, text) in [("space d.txt", "blank"), ("line\nfeed.txt", "broken")] {
        std::fs::write(session.home().join(name), format!("{text}-$((40+2))\n")).expect("a file");
    }
    session.run("cd");
    for (typed, completed, text) in
        [("cat spa", "space\\ d.txt", "blank-$((40+2))"), ("cat line", "line\\nfeed.txt", "broken-$((40+2))")]
    {
        session.type_text(typed);
        session.press(Key::Tab);
        session.expect("the whole name", |screen| cursor_line(screen).contains(completed));
        session.line("");
        session.expect_line(text);
        session.expect_prompt();
    }
}

#[test]
fn fzfs_keys_work_from_its_own_file() {
    FISH.presses_fzfs_keys("fzf_key_bindings\n", |_| {});
}

#[test]
fn keys_run_the_persons_functions_on_the_line() {
    let rc = "function shout; commandline -r -- é(commandline | string upper); commandline -C 2; end\nbind \\cg shout\n\
              bind \\eq 'commandline -r \"echo ran-\"(math 1 + 2)' 'commandline -f execute'\n\
              bind \\ew 'commandline -i \" word\"' backward-kill-word\n\
              bind \\er 'commandline -r \"echo of-key; sh -c \\'exit 3\\'\"' 'commandline -f execute'\n";
    let Some(session) = FISH.session(rc) else { return };
    ready(&session);
    session.type_text("abc (touch evil)");
    session.press(Key::Ctrl('g'));
    expect_line_is(&session, "éABC (TOUCH EVIL)");
    session.type_text("x");
    expect_line_is(&session, "éAxBC (TOUCH EVIL)");
    session.press(Key::Ctrl('u'));
    session.press(Key::Ctrl('k'));
    session.press(Key::Alt('q'));
    session.expect_line("ran-3");
    session.type_text("one two");
    session.press(Key::Alt('w'));
    expect_line_is(&session, "one two");
    session.press(Key::Ctrl('u'));
    session.run("echo $TERM; type -t commandline");
    session.expect_line("xterm-256color");
    session.expect_line("builtin");
    run_line_of_key(&session, &"typed ".repeat(15));
}

#[test]
fn whatever_a_line_makes_of_the_hooks_the_next_prompt_is_ours() {
    FISH.takes_hooks_back(
        "function fish_prompt; echo 'theirs> '; end\n",
        &[
            "functions -e __rc_arm",
            "functions -e fish_prompt",
            "functions -e (functions -an | string match '__rc_*')",
            "function fish_prompt; echo two; echo 'theirs> '; end; functions -e __rc_arm __rc_done",
            "source ~/.config/fish/config.fish",
        ],
        "sh -c 'exit 3'",
    );
}

#[test]
fn another_fish_in_its_place_becomes_the_live_shell() {
    FISH.is_replaced_by_its_kind(
        "function fish_prompt; echo 'theirs> '; end\ntest -r read; and echo read-(cat read)\n",
    );
}

#[test]
fn names_of_our_own_are_hidden() {
    FISH.hides_our_names(
        "alias al='echo named'; abbr -a ab 'echo named'\nfunction fn; echo named $argv; end\n",
        &["al", "ab", "fn"],
    );
}

#[test]
fn a_login_shell_starts_as_one() {
    let rc = "status is-login; and set kind login\nfunction fish_greeting; echo greeted; end\n";
    let Some(session) = FISH.start(rc, "", |spawn| spawn.argv0("-reedclaw")) else { return };
    session.run("echo kind-$kind");
    session.expect_line("kind-login");
    session.expect_raw(b"greeted", 0);
}

#[test]
fn a_prompt_made_later_is_its_own() {
    let Some(session) = FISH.start("function fish_prompt; echo old; end\n", "prompt = \"shell\"", |spawn| spawn) else {
        return;
    };
    session.expect("the prompt", |screen| screen.contents().contains("old"));
    // As a virtual environment does it: it saves the existing prompt and puts its name in front.
    session.line("functions -c fish_prompt was; function fish_prompt; echo (echo 'env '; was) '❯'; end");
    session.run("echo $TERM");
    session.expect_text("env  old ❯");
    session.expect_line("xterm-256color");
}
