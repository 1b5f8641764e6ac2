//! The man page `docs/reedclaw.1`, written from the same tables as the documents. `REEDCLAW_WRITE_DOCS=1 cargo test --test it
//! generated` writes it again.

use std::fmt::Write as _;
use std::process::Command;

use clap::Command as Definition;
use reedclaw::cli::command::definition;
use reedclaw::ops::commands::of_shell;
use reedclaw::repl::keys::KEYS;

use super::generated::{help_with_values, spelling, usage_after};
use super::root;
use crate::need::require;

/// The day of the last change of the hand-written parts.
const DATE: &str = "2026-11-22";

/// The sections before the tables.
const HEAD: &str = "\
.SH NAME
reedclaw \\- a login shell with one prompt for commands and for questions to a language model
.SH SYNOPSIS
.B reedclaw
.RI [ OPTIONS ]
.br
.B reedclaw
.I SUBCOMMAND
.RI [ ARGUMENTS ]
.SH DESCRIPTION
At a terminal,
.B reedclaw
is a shell: a command runs in your own live bash, zsh or fish, a sentence goes to a language model that you choose, and a line
that begins with a colon is for ReedClaw itself.
The glyph at the end of the prompt shows where the line goes.
.PP
With
.BR \\-c ,
.BR \\-s ,
a script, or without a terminal it becomes the backing shell with the same arguments.
Other options than those below have the meaning that they have for bash.
A script that is named like a subcommand is written
.B ./route
or after
.BR \\-\\- .
";

/// The sections after the tables.
const TAIL: &str = "\
.SH EXIT STATUS
The shell ends with the status of the shell inside.
.B reedclaw agent
exits with 0 (answered), 1 (failed), 2 (usage), 3 (refused), 4 (no provider), 5 (over a budget) or 130 (interrupted);
.B reedclaw tool run
with 0 (done), 1 (failed), 2 (usage) or 3 (denied).
.SH ENVIRONMENT
.TP
.B REEDCLAW_CONFIG
The config, unless
.B \\-\\-config
names one.
.TP
.B REEDCLAW_LOG_LEVEL
The threshold of the log: error, warn, info, debug or off.
.TP
.B REEDCLAW_LOG
With the value json, a command without a session prints its log on standard error as JSON lines.
.TP
.BR VISUAL \", \" EDITOR
The editor for lines and for proposed files.
.TP
.BR SSL_CERT_FILE \", \" SSL_CERT_DIR
Certificates to trust instead of the built-in authorities.
.TP
.B NO_COLOR
Switches colours off.
.SH FILES
.TP
.I ~/.config/reedclaw/config.lua
The config.
.TP
.I .reedclaw.lua
A project's config, in the project's directory.
.TP
.I ~/.local/share/reedclaw
History, conversations and plugins.
.TP
.I ~/.local/state/reedclaw
Receipts, trust, undo, caches, the log.
.SH SEE ALSO
.BR bash (1),
.BR zsh (1),
.BR fish (1),
.BR bwrap (1)
.PP
The documents are installed in
.IR /usr/share/doc/reedclaw .
";

/// Writes the man page.
pub(super) fn page() -> String {
    let mut built = definition();
    built.build();
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        ".\\\" Generated: REEDCLAW_WRITE_DOCS=1 cargo test --test it generated\n\
         .TH REEDCLAW 1 {DATE} \"reedclaw {version}\" \"User Commands\"\n{HEAD}.SH OPTIONS\n"
    );
    entries(&built, &mut text);
    text.push_str(".SH SUBCOMMANDS\n");
    for command in built.get_subcommands().filter(|command| !command.is_hide_set()) {
        subcommand(command, "", &mut text);
    }
    text.push_str(".SH KEYS\n");
    for key in &KEYS {
        entry(key.name, key.help, &mut text);
    }
    text.push_str(".SH META COMMANDS\n");
    for meta in of_shell() {
        entry(&meta.form(), meta.help, &mut text);
    }
    text.push_str(TAIL);
    text
}

/// A part for a command, then one for each command below it.
fn subcommand(command: &Definition, path: &str, text: &mut String) {
    let words = format!("{path}{}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, ".SS \"{}\"\n{}.\n", quoted(&usage_after(command, &words)), roff(&about));
    entries(command, text);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        subcommand(inner, &format!("{words} "), text);
    }
}

/// An entry for each option or argument with a help text.
fn entries(command: &Definition, text: &mut String) {
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        if !help.is_empty() && argument.get_id() != "help" {
            entry(&spelling(argument).replace('`', ""), &help_with_values(argument, &help), text);
        }
    }
}

fn entry(name: &str, help: &str, text: &mut String) {
    let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(name), roff(help));
}

/// A text with the words between backticks in bold.
fn roff(text: &str) -> String {
    let mut line = String::new();
    for (number, span) in text.split('`').enumerate() {
        let _ =
            if number % 2 == 1 { write!(line, "\\fB{}\\fR", escaped(span)) } else { write!(line, "{}", escaped(span)) };
    }
    // A line that begins like a roff request is escaped.
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\n', " ")
}

fn quoted(text: &str) -> String {
    escaped(text).replace('"', "\\(dq")
}

#[test]
fn the_man_page_is_drawn_without_a_warning() {
    if !require(&["groff"]) {
        return;
    }
    let output = Command::new("groff")
        .args(["-man", "-ww", "-K", "utf8", "-T", "utf8", "-P", "-cbu"])
        .arg(root().join("docs/reedclaw.1"))
        .output()
        .expect("groff starts");
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && warnings.is_empty(), "{warnings}");
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["login shell", "--log-level", "receipt verify", "Ctrl-T", ":undo"] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn signs_of_the_language_are_text() {
    assert_eq!(roff(".a `b-c` \\n"), "\\&.a \\fBb\\-c\\fR \\en");
    assert_eq!(quoted("a \"b\""), "a \\(dqb\\(dq");
}
