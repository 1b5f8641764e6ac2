//! Behaviour that zsh and fish share as the live shell. Their own files define the texts in which they differ, and call these
//! tests under their own names.

use crate::need::{find, require};
use crate::pty::{Key, Session, Spawn, cursor_line, status_code};

/// A shell other than bash that can be the live one.
pub struct OtherShell {
    /// Its program.
    pub name: &'static str,
    /// Its start-up file, below the home.
    pub start_up_file: &'static str,
    /// The variable of the last status.
    pub status: &'static str,
    /// Its value after Ctrl-Z has stopped a command.
    pub stopped: &'static str,
    /// Its value after `fg` has brought back a job that Ctrl-C then ended.
    pub interrupted_job: &'static str,
}

impl OtherShell {
    /// A session with the shell and this start-up file; `None` if the shell isn't installed.
    pub fn session(&self, rc: &str) -> Option<Session> {
        self.start(rc, "", |spawn| spawn)
    }

    /// Starts a session with additional settings and files.
    pub fn start(&self, rc: &str, settings: &str, change: impl FnOnce(Spawn) -> Spawn) -> Option<Session> {
        if !require(&[self.name]) {
            return None;
        }
        let program = find(self.name).expect("just found");
        // Set explicitly, because the list of programs may come after the first lines; a slow machine completes slowly.
        let config = format!(
            "return {{ shell = {{ program = \"{}\", known_commands = {{ \"sleep\", \"cat\", \"vim\" }} }}, \
             editor = {{ completion_timeout_ms = 10000 }}, {settings} }}",
            program.display()
        );
        let spawn = Spawn::reedclaw().file(".config/reedclaw/config.lua", &config).file(self.start_up_file, rc);
        Some(Session::spawn(change(spawn)))
    }

    /// A session that has already run a line.
    fn ready_session(&self) -> Option<Session> {
        let session = self.session("")?;
        ready(&session);
        session.expect_prompt();
        Some(session)
    }

    /// A Ctrl-C immediately after Enter ends the command, each time.
    pub fn interrupts_at_once(&self) {
        let Some(session) = self.ready_session() else { return };
        for _ in 0..5 {
            session.interrupted_at_once("sleep 600");
            session.run("echo back");
            session.expect_line("back");
            session.run("clear");
        }
    }

    /// Lines are edited with vi's keys once the start-up file has switched them on.
    pub fn has_vi_keys(&self, start_up: &str) {
        let Some(session) = self.session(start_up) else { return };
        ready(&session);
        session.type_text("echo vi-keysx");
        session.press(Key::Escape);
        session.expect_text("❮");
        session.type_text("x");
        session.press(Key::Enter);
        session.expect_line("vi-keys");
    }

    /// The status is in the prompt and in the shell's variable, and the session ends with that of `exit`.
    pub fn shows_statuses(&self) {
        let Some(session) = self.ready_session() else { return };
        session.run("false");
        session.expect("the status in the prompt", |screen| screen.contents().contains(" 1 ❯"));
        session.run(&format!("echo status-{}", self.status));
        session.expect_line("status-1");
        session.line("exit 3");
        assert_eq!(status_code(session.expect_exit()), 3);
    }

    /// Ctrl-C ends the program in front, Ctrl-Z stops it, and `fg` brings it back.
    pub fn controls_jobs(&self) {
        let Some(session) = self.ready_session() else { return };
        session.line("sleep 611");
        running(&session, "sleep");
        session.press(Key::Ctrl('c'));
        session.run(&format!("echo status-{}", self.status));
        session.expect_line("status-130");
        session.line("sleep 612");
        running(&session, "sleep");
        session.press(Key::Ctrl('z'));
        session.run(&format!("echo stopped-{}; jobs | cat", self.status));
        session.expect_text(&format!("stopped-{}", self.stopped));
        session.run("clear");
        session.line("fg");
        session.expect_outside("the job in front", || {
            session.descendants().iter().any(|process| process.name == "sleep" && process.state != 'T').then_some(())
        });
        session.press(Key::Ctrl('c'));
        session.run(&format!("echo then-{}", self.status));
        session.expect_line(&format!("then-{}", self.interrupted_job));
    }

    /// vim gets the whole terminal and returns it.
    pub fn opens_vim(&self) {
        if !require(&["vim"]) {
            return;
        }
        let note = |spawn: Spawn| spawn.file("note.txt", "a line of the note\n");
        let Some(session) = self.start("", "", note) else { return };
        ready(&session);
        session.expect_prompt();
        session.line("vim -u NONE note.txt");
        session.expect("vim", |screen| screen.alternate_screen() && screen.contents().contains("a line of the note"));
        session.type_text("ggxx:wq");
        session.press(Key::Enter);
        session.run("cat note.txt");
        session.expect_line("line of the note");
    }

    /// Lines that are typed while a command runs are run next.
    pub fn takes_keys_typed_ahead(&self) {
        let Some(session) = self.ready_session() else { return };
        session.send(b"sleep 0.3\rcat > kept\rtyped ahead\r");
        session.expect_outside("what cat got", || {
            std::fs::read_to_string(session.home().join("kept")).ok().filter(|text| text == "typed ahead\n")
        });
        session.press(Key::Ctrl('d'));
        session.run("echo next-to-it");
        session.expect_line("next-to-it");
    }

    /// A line that is typed while the start-up files run is run after them.
    pub fn starts_slowly(&self) {
        let Some(session) = self.session("sleep 0.5; echo started-up\n") else { return };
        session.send(b"echo first-line\r");
        session.expect_line("first-line");
        session.run("echo second-line");
        session.expect_line("second-line");
        session.expect_line("started-up");
    }

    /// The shell's report of a finished job is shown, without any of our marks.
    pub fn reports_jobs(&self, report: &str) {
        let Some(session) = self.ready_session() else { return };
        session.line("sleep 0.3 &");
        session.expect_text(report);
        session.run("echo afterwards");
        session.expect_line("afterwards");
        assert!(!session.screen_text().contains("633"), "{}", session.screen_text());
    }

    /// With `-c` ReedClaw becomes the shell itself.
    pub fn runs_commands(&self, command: &str, printed: &str) {
        if !require(&[self.name]) {
            return;
        }
        let Some(session) = self.start("", "", |spawn| spawn.arg("-c").arg(command)) else { return };
        session.expect_line(printed);
        assert_eq!(status_code(session.expect_exit()), 0);
    }

    /// A project's file that asks for the shell's own prompt is read after the prompt at which it applies: that prompt is still
    /// drawn. `rc` sets a prompt of `own-STATUS DIRECTORY❯`.
    pub fn draws_its_prompt_for_a_project(&self, rc: &str) {
        let own = "return { prompt = \"shell\" }\n";
        let Some(session) = self.start(rc, "", |spawn| spawn.file("p/.reedclaw.lua", own)) else { return };
        ready(&session);
        session.expect_prompt();
        session.type_text("cd p");
        session.press(Key::Enter);
        session.expect_text("trust [t]  look [l]");
        session.type_text("t");
        session.expect("the prompt", |screen| cursor_line(screen).starts_with("own-0 p❯"));
        session.run("cd /");
        session.expect("the default", |screen| cursor_line(screen).starts_with("/ ❯"));
        session.run("cd ~/p");
        session.expect("the prompt at once", |screen| cursor_line(screen).starts_with("own-0 p❯"));
        session.run("echo again-$TERM");
        session.expect_line("again-xterm-256color");
    }

    /// `mine on` is completed by the shell's own rule, of which one candidate is described as `second`.
    pub fn completes(&self, rc: &str) {
        let Some(session) = self.session(rc) else { return };
        ready(&session);
        session.expect_prompt();
        session.type_text("mine on");
        session.press(Key::Tab);
        session.expect_text("second");
        session.press(Key::Ctrl('c'));
        session.run("echo still-here");
        session.expect_line("still-here");
    }

    /// Checks fzf's own keys, from a start-up file that sources them: Ctrl-T, Ctrl-R and Alt-C. `more` does further checks in the
    /// session.
    pub fn presses_fzfs_keys(&self, rc: &str, more: impl FnOnce(&Session)) {
        let file = format!("/usr/share/doc/fzf/examples/key-bindings.{}", self.name);
        if !require(&["fzf"]) || !std::path::Path::new(&file).is_file() {
            return;
        }
        let files = |spawn: Spawn| spawn.file("code/needle.txt", "").file("code/other.txt", "").size(30, 100);
        let Some(session) = self.start(&format!(". {file}\n{rc}"), "", files) else { return };
        ready(&session);
        press_fzfs_keys(&session);
        more(&session);
    }

    /// After each line, whatever it changes about the hooks, the prompt is ours, and shows the status of the command `fails`.
    pub fn takes_hooks_back(&self, rc: &str, lines: &[&str], fails: &str) {
        let Some(session) = self.start(rc, "", |spawn| spawn.size(24, 160)) else { return };
        ready(&session);
        // The place at which a shell waits for a line is learnt from lines, in fish from two with the same place.
        for number in 0..4 {
            session.run(&format!("echo before-{number}"));
            session.expect_line(&format!("before-{number}"));
        }
        session.run("clear");
        for (number, line) in lines.iter().enumerate() {
            session.run(&format!("{line}; echo shown-{number}; {fails}"));
            session.expect_line(&format!("shown-{number}"));
            session.expect("our prompt, with the status", |screen| {
                let shows_theirs = screen.contents().lines().any(|row| row.starts_with("theirs>"));
                cursor_line(screen).trim_end().ends_with("~ 3 ❯") && !shows_theirs
            });
            session.run(&format!("echo alive-{number}-$TERM"));
            session.expect_line(&format!("alive-{number}-xterm-256color"));
            session.run("clear");
        }
    }

    /// A shell that replaces itself by `exec`, as people do to reload their start-up files, becomes the live shell again.
    pub fn is_replaced_by_its_kind(&self, rc: &str) {
        let Some(session) = self.start(rc, "", |spawn| spawn.size(24, 160)) else { return };
        ready(&session);
        session.run("echo not-yet >read");
        session.line(&format!("exec {}", self.name));
        session.expect_line("read-not-yet");
        session.run(&format!("alias hi='echo hi-by'; echo {} in-place", self.name));
        session.expect_line(&format!("{} in-place", self.name));
        session.run("hi there");
        session.expect_line("hi-by there");
        session.run("sh -c 'exit 3'");
        session.expect("our prompt, with the status", |screen| cursor_line(screen).trim_end().ends_with("~ 3 ❯"));
        let text = session.screen_text();
        assert!(!text.contains("theirs>") && !text.contains("replaced") && !text.contains("/fd/"), "{text}");
    }

    /// The start-up file's functions print `named` and their arguments; our own names aren't offered.
    pub fn hides_our_names(&self, rc: &str, names: &[&str]) {
        let Some(session) = self.session(rc) else { return };
        ready(&session);
        session.run("echo ready");
        for name in names {
            session.run(&format!("{name} one two"));
            session.expect_line("named one two");
            session.run("clear");
        }
        session.type_text("__rc");
        session.press(Key::Tab);
        session.expect_text("__rc");
        assert!(!session.screen_text().contains("__rc_"), "{}", session.screen_text());
    }
}

/// Returns whether a row counts matches as fzf does: `  12/34`.
fn is_counter(row: &str) -> bool {
    let row = row.trim().split(' ').next().unwrap_or_default();
    row.split_once('/')
        .is_some_and(|(some, all)| some == all && !all.is_empty() && all.bytes().all(|b| b.is_ascii_digit()))
}

/// Presses fzf's keys in a home with the directory `code`, which contains `needle.txt` and `other.txt`.
pub fn press_fzfs_keys(session: &Session) {
    session.run("cd code; mkdir -p sub/deeper");
    session.run("clear");
    session.type_text("cat ");
    // fzf has applied the query once its counter shows one match.
    session.press(Key::Ctrl('t'));
    session.expect_text("  4/4");
    session.type_text("needl");
    session.expect_text("  1/4");
    session.press(Key::Enter);
    expect_line_is(session, "cat needle.txt");
    session.press(Key::Ctrl('u'));
    session.press(Key::Ctrl('r'));
    session.expect("fzf over the history", |screen| screen.contents().lines().any(is_counter));
    session.type_text("mkdir");
    session.expect_text("  1/");
    session.press(Key::Enter);
    expect_line_is(session, "cd code; mkdir -p sub/deeper");
    session.press(Key::Ctrl('u'));
    session.run("clear");
    // In fish, the word at the cursor would be the query.
    session.type_text("half ");
    session.press(Key::Alt('c'));
    session.expect_text("2/2");
    session.type_text("deeper");
    session.expect_text("  1/2");
    session.press(Key::Enter);
    session.expect("the prompt there, with the line", |screen| cursor_line(screen).contains("deeper ❯ half"));
    session.press(Key::Ctrl('u'));
    session.run("pwd");
    session
        .expect("the new directory", |screen| screen.contents().lines().any(|row| row.ends_with("/code/sub/deeper")));
}

/// Completes a name with fzf's own menu.
pub fn complete_by_fzf(session: &Session) {
    session.run("touch found.txt; clear");
    session.type_text("ls **");
    session.press(Key::Tab);
    session.expect_text("  2/2");
    session.type_text("found");
    session.expect_text("  1/2");
    session.press(Key::Enter);
    expect_line_is(session, "ls found.txt");
}

/// Alt-R makes the shell run `echo of-key; sh -c 'exit 3'` in place of the typed text. The line counts as typed: it is shown
/// after the prompt, sets the status, and is in the history.
pub fn run_line_of_key(session: &Session, typed: &str) {
    let line = "echo of-key; sh -c 'exit 3'";
    session.run("clear");
    session.type_text(typed);
    session.press(Key::Alt('r'));
    session.expect("the line behind the prompt, once, and its status", |screen| {
        let text = screen.contents();
        let rows: Vec<&str> = text.lines().collect();
        let at: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].ends_with(line)).collect();
        let [at] = at[..] else { return false };
        let has_prompt = rows[at].contains(&format!("❯ {line}"));
        has_prompt && rows.get(at + 1) == Some(&"of-key") && cursor_line(screen).trim_end().ends_with("~ 3 ❯")
    });
    session.press(Key::Up);
    expect_line_is(session, line);
    session.press(Key::Ctrl('u'));
    session.press(Key::Ctrl('k'));
}

/// Waits until the line after the prompt, whichever sign that has, is `typed`.
#[track_caller]
pub fn expect_line_is(session: &Session, typed: &str) {
    session.expect(&format!("{typed:?} in the line"), |screen| {
        let row = cursor_line(screen);
        ["❯ ", "? ", "~ "].iter().any(|sign| row.trim_end().ends_with(&format!("{sign}{typed}")))
    });
}

/// Waits until the shell has run a line.
#[track_caller]
pub fn ready(session: &Session) {
    session.run("echo ready");
    session.expect_line("ready");
    session.run("clear");
}

#[track_caller]
fn running(session: &Session, name: &str) {
    session.expect_outside(&format!("a running {name}"), || {
        session.descendants().iter().any(|process| process.name == name).then_some(())
    });
}
