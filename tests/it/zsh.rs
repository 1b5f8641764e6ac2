//! zsh as the live shell: it behaves as bash does.

use crate::other_shells::{OtherShell, complete_by_fzf, expect_line_is, ready, run_line_of_key};
use crate::pty::{Key, Spawn, cursor_line};

const ZSH: OtherShell =
    OtherShell { name: "zsh", start_up_file: ".zshrc", status: "$?", stopped: "148", interrupted_job: "130" };

#[test]
fn variables_and_options_stay_set() {
    let Some(session) = ZSH.session("") else { return };
    ready(&session);
    session.run("mkdir -p a/b; cd a/b; export ONE=1; alias hi='echo hi-by'");
    session.run("twice() { echo $1-$1; }");
    session.run("hi there; twice x; pwd; sh -c 'echo in-$ONE'; echo type-$TERM");
    session.expect_line("hi-by there");
    session.expect_line("x-x");
    session.expect_line("in-1");
    session.expect_line("type-xterm-256color");
    session.expect("the directory in the prompt", |screen| screen.contents().contains("~/a/b ❯"));
}

#[test]
fn a_trace_and_a_trap_of_failures_show_the_user_s_commands_and_not_ours() {
    let Some(session) = ZSH.session("") else { return };
    ready(&session);
    session.run("set -x");
    session.run("echo traced-$((1+1))");
    session.expect_text("> echo traced-2");
    session.run("set +x; trap 'echo failed-$((40+2))' ZERR");
    session.run("true");
    session.run("false");
    session.run("trap - ZERR; echo done-$((1+1))");
    session.expect_line("done-2");
    let all = String::from_utf8_lossy(&session.raw()).into_owned();
    assert!(!all.contains("__rc") && all.matches("failed-42").count() == 1, "{all}");
}

#[test]
fn the_prompt_names_the_virtual_environment() {
    let Some(session) = ZSH.session("") else { return };
    ready(&session);
    session.run("export VIRTUAL_ENV='/srv/projects/my env;1'");
    session.expect_text("(my_env_1) ~ ❯");
    session.run("unset VIRTUAL_ENV");
    session.run("clear");
    session.expect("a prompt without it", |screen| crate::pty::cursor_line(screen).starts_with("~ ❯"));
}

#[test]
fn an_interrupt_right_after_enter_reaches_the_command() {
    ZSH.interrupts_at_once();
}

#[test]
fn vi_keys_of_the_shell_are_the_editor_s() {
    ZSH.has_vi_keys("bindkey -v\n");
}

#[test]
fn ctrl_c_at_the_prompt_sets_the_status_or_runs_the_trap() {
    let Some(session) = ZSH.session("") else { return };
    ready(&session);
    session.run("true");
    session.press(Key::Ctrl('c'));
    session.run("echo status-$?");
    session.expect_line("status-130");
    // With a trap, zsh continues with its line and its status.
    session.run("trap 'echo trap-$((40+2))' INT");
    session.press(Key::Ctrl('c'));
    session.expect_line("trap-42");
    session.run("echo status-$?");
    session.expect_line("status-0");
}

#[test]
fn a_status_is_shown_and_available_to_the_next_line() {
    ZSH.shows_statuses();
}

#[test]
fn several_lines_are_one_command_and_a_half_one_goes_on() {
    let Some(session) = ZSH.session("") else { return };
    ready(&session);
    session.expect_prompt();
    session.send(b"\x1b[200~for i in 1 2; do\necho r-$i\ndone\necho behind\x1b[201~\r");
    session.expect_line("r-1");
    session.expect_line("r-2");
    session.expect_line("behind");
    session.run("clear");
    session.line("echo 'begun");
    // The line is back in the editor, still open. Text that is typed earlier may be read by zsh's own editor and be lost.
    session.expect_text("∙");
    session.line("ended'");
    session.expect_line("begun");
    session.expect_line("ended");
    session.run("clear");
    session.expect_prompt();
    session.line("if true; then echo whole");
    session.expect_text("∙");
    session.type_text("fi");
    session.press(Key::Enter);
    session.expect_line("whole");
    session.expect_prompt();
}

#[test]
fn a_syntax_error_is_shown_once() {
    let Some(session) = ZSH.session("") else { return };
    ready(&session);
    session.run("echo a )");
    session.expect_text("zsh: parse error near `)'");
    session.run("echo alive");
    session.run("clear");
    session.run("printf half; true");
    session.expect("the mark of an open line, once", |screen| screen.contents().matches("half⏎").count() == 1);
}

#[test]
fn ctrl_c_and_ctrl_z_reach_the_job() {
    ZSH.controls_jobs();
}

#[test]
fn vim_opens_and_quits() {
    ZSH.opens_vim();
}

#[test]
fn keys_typed_ahead_reach_the_command() {
    ZSH.takes_keys_typed_ahead();
}

#[test]
fn a_slow_start_takes_the_first_line() {
    ZSH.starts_slowly();
}

#[test]
fn a_background_job_speaks_above_the_prompt() {
    ZSH.reports_jobs("+ done");
}

#[test]
fn a_script_and_a_command_are_the_shell_itself() {
    ZSH.runs_commands("echo v-${ZSH_VERSION%%.*}", "v-5");
}

#[test]
fn its_own_prompt_is_drawn_as_soon_as_a_project_asks_for_it() {
    ZSH.draws_its_prompt_for_a_project("PS1='own-%? %1~❯ '\n");
}

#[test]
fn its_own_prompt_may_be_drawn() {
    let Some(session) = ZSH.start("PS1='own-%? ❯ '\n", "prompt = \"shell\"", |spawn| spawn) else { return };
    session.run("false");
    session.expect("the prompt with its status", |screen| screen.contents().contains("own-1 ❯"));
    session.run("echo mine-${PS1%% *}");
    session.expect_text("mine-own-%?");
}

#[test]
fn its_completion_answers() {
    ZSH.completes(
        "autoload -Uz compinit; compinit -u\nmine() { :; }\n_mine() { _values things 'one[first]' 'onto[second]' }\ncompdef _mine mine\n",
    );
}

#[test]
fn fzfs_keys_work_from_its_own_file() {
    let rc = "[[ -r /usr/share/doc/fzf/examples/completion.zsh ]] && . /usr/share/doc/fzf/examples/completion.zsh\n";
    ZSH.presses_fzfs_keys(rc, complete_by_fzf);
}

#[test]
fn keys_run_the_persons_widgets_on_the_line() {
    let rc = "setopt prompt_subst\nshout() { BUFFER=\"é${(U)BUFFER}\"; CURSOR=2 }\nzle -N shout\nbindkey '^G' shout\n\
              bindkey -s '\\eq' 'echo macro-$((1+1))^M'\nrunning() { zle push-line; BUFFER='echo ran-$((1+2)) $PS1'; zle accept-line }\n\
              zle -N running\nbindkey '\\C-x\\C-r' running\nPS1='mine> '\n\
              bindkey -s '\\er' \"echo of-key; sh -c 'exit 3'^M\"\n";
    let Some(session) = ZSH.session(rc) else { return };
    ready(&session);
    session.type_text("abc $(touch evil)");
    session.press(Key::Ctrl('g'));
    expect_line_is(&session, "éABC $(TOUCH EVIL)");
    session.type_text("x");
    expect_line_is(&session, "éAxBC $(TOUCH EVIL)");
    session.press(Key::Ctrl('u'));
    // A command that a key makes zsh run is run there, with the person's prompt.
    session.press(Key::Alt('q'));
    session.expect_line("macro-2");
    session.expect_prompt();
    session.type_text("half");
    session.type_text("\x18\x12");
    session.expect_line("ran-3 mine>");
    expect_line_is(&session, "half");
    session.press(Key::Ctrl('u'));
    session.run("echo \"$PS1-$TERM\"");
    session.expect_line("mine> -xterm-256color");
    run_line_of_key(&session, "");
}

#[test]
fn hooks_that_a_start_up_file_takes_away_come_back() {
    let rc = "mine() { echo mine-ran }\nprecmd_functions=(mine); preexec_functions=()\nzle -N zle-line-init mine\nPS1='theirs> '\n";
    let Some(session) = ZSH.session(rc) else { return };
    ready(&session);
    session.run("sh -c 'exit 3'");
    session.expect("our prompt, with the status", |screen| cursor_line(screen).trim_end().ends_with("~ 3 ❯"));
    session.expect_line("mine-ran");
    session.run("echo by-$precmd_functions[2] ${#$(sched)}");
    session.expect_line("by-mine 0");
    assert!(!session.screen_text().contains("theirs>"), "{}", session.screen_text());
}

#[test]
fn whatever_a_line_makes_of_the_hooks_the_next_prompt_is_ours() {
    ZSH.takes_hooks_back(
        "autoload -Uz add-zsh-hook; PS1='theirs> '\nmine() { :; }\n",
        &[
            "precmd_functions=()",
            "precmd_functions=(mine); preexec_functions=(mine)",
            "add-zsh-hook -D precmd '__rc_*'",
            "unset -f __rc_arm",
            "precmd_functions=(); zle -N zle-line-init mine",
            "unfunction -m '__rc_*'",
            "PS1=$'two\\ntheirs> '; precmd_functions=(); bindkey -d",
        ],
        "(exit 3)",
    );
}

#[test]
fn a_start_up_file_that_is_read_again_leaves_the_prompt_ours() {
    let rc = "(( ${+again} )) && precmd_functions=(); again=1; PS1='theirs> '; echo read-it\n";
    let Some(session) = ZSH.session(rc) else { return };
    ready(&session);
    session.run("source ~/.zshrc; (exit 3)");
    session.expect_line("read-it");
    session.expect("our prompt", |screen| {
        cursor_line(screen).trim_end().ends_with("~ 3 ❯") && !screen.contents().contains("theirs>")
    });
}

#[test]
fn another_zsh_in_its_place_becomes_the_live_shell() {
    let rc = "PS1='theirs> '; SAVEHIST=100 HISTFILE=~/.zsh_history\n[[ ! -r read ]] || echo read-$(<read)\n";
    ZSH.is_replaced_by_its_kind(rc);
    let Some(session) = ZSH.session(rc) else { return };
    ready(&session);
    session.line("exec zsh -o vi");
    session.expect("our prompt", |screen| {
        cursor_line(screen).trim_end().ends_with("~ ❯") && screen.contents().contains("exec zsh -o vi")
    });
    session.run("true");
    session.line("exit");
    session.expect_exit();
    let history = std::fs::read_to_string(session.home().join(".zsh_history")).expect("a history");
    assert!(history.contains("exec zsh") && history.contains("true") && !history.contains("/proc/"), "{history}");
}

#[test]
fn names_of_our_own_are_hidden() {
    ZSH.hides_our_names("alias al='echo named'; alias -g GLOBAL=x\nfn() { echo named $*; }\n", &["al", "fn"]);
}

#[test]
fn its_start_up_files_are_read_in_order() {
    let files = |spawn: Spawn| {
        spawn
            .argv0("-reedclaw")
            .file(".zshenv", "order=env; ZDOTDIR=~/dots\n")
            .file("dots/.zprofile", "order+=-profile\n")
            .file("dots/.zshrc", "order+=-rc\n")
            .file("dots/.zlogin", "order+=-login\n")
    };
    let Some(session) = ZSH.start("", "", files) else { return };
    session.run("echo $order-${ZDOTDIR:t}; [[ -o login ]] && echo is-login");
    session.expect_line("env-profile-rc-login-dots");
    session.expect_line("is-login");
    session.run("clear");
    session.run("echo left-$(ls ~/.run | grep -c zsh)-");
    session.expect_line("left-0-");
}

#[test]
fn start_up_files_may_be_left_out() {
    let Some(session) = ZSH.start("echo was-read\n", "", |spawn| spawn.arg("-f")) else { return };
    session.run("echo opt-$options[rcs]");
    session.expect_line("opt-off");
    assert!(!session.screen_text().contains("was-read"));
}

#[test]
fn hostile_settings_leave_it_working() {
    let Some(session) = ZSH.session("bindkey -v; setopt ignore_eof correct prompt_sp hist_verify ksh_arrays\n") else {
        return;
    };
    ready(&session);
    for line in
        ["set -u", "set -e", "precmd_functions=(true)", "preexec_functions=()", "set -x", "set +x", "bindkey -d"]
    {
        session.run(line);
    }
    session.run("echo alive-$((1+1))");
    session.expect_line("alive-2");
    session.run("clear");
    session.run("set -o | grep promptsp; echo $TERM");
    session.expect_line("xterm-256color");
    // Once, zsh's mark for an unfinished line came before the first hook, and sometimes before a command's output.
    session.run("echo mark-${PROMPT_EOL_MARK-unset}");
    session.expect_line("mark-unset");
    assert!(!String::from_utf8_lossy(&session.raw()).contains("\x1b[7m"), "a mark was shown");
}
