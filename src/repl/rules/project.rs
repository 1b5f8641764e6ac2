//! A project's file in a running session: found from the shell's directory, shown and asked about before anything of it
//! runs, applied and removed as the directory changes.

use std::path::Path;

use nu_ansi_term::{Color, Style};

use crate::config::{Change, Effective, Env, Look, Overlay, Refused, Trust, TrustVerdict, Trusted};
use crate::ops::commands;
use crate::proto::Failure;
use crate::render::diff::{Line, diff};
use crate::render::text::escape_visible;
use crate::repl::editing::state;
use crate::repl::hub::{Flow, Repl};
use crate::repl::rules::configure;
use crate::shell::session::KeysTo;

/// Lines of changes, or of a comparison, that a question shows before the whole file is asked for.
const SHOWN_LINES_MAX: usize = 40;
/// Lines of the file that a look shows.
const LOOK_LINES_MAX: usize = 2_000;

/// The state of the project's file at the shell's directory.
pub(in crate::repl) struct ProjectState {
    trust: Trust,
    look: Option<Look>,
    now: Now,
    /// Files that were ignored in this session, with their exact text.
    ignored: Vec<Overlay>,
    /// The file that the last question showed.
    shown: Option<Overlay>,
    /// A line has run since the last look, or there was no look yet.
    is_due: bool,
    /// The file is to be read again, though it looks the same.
    is_stale: bool,
}

/// The present state of the file.
enum Now {
    None,
    Applied(String),
    Broken(String),
    Ignored(String),
    Never(String),
    Refused(Refused),
}

/// The person's choice about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Trust,
    Look,
    Ignore,
    Never,
}

fn choice(keys: &[u8]) -> Option<Choice> {
    match keys {
        b"t" | b"T" => Some(Choice::Trust),
        b"l" | b"L" => Some(Choice::Look),
        b"i" | b"I" | b"\r" | b"\n" | b"\x1b" | b"\x03" | b"\x04" => Some(Choice::Ignore),
        b"n" | b"N" => Some(Choice::Never),
        _ => None,
    }
}

impl ProjectState {
    pub(in crate::repl) fn new(env: &Env) -> Self {
        Self {
            trust: Trust::of(env),
            look: None,
            now: Now::None,
            ignored: Vec::new(),
            shown: None,
            is_due: true,
            is_stale: false,
        }
    }

    /// Makes the next prompt read the file again, even if it looks unchanged.
    pub(in crate::repl) fn forget_look(&mut self) {
        (self.is_due, self.is_stale) = (true, true);
    }

    /// Notes that a line runs: it may change the directory and the project's file.
    pub(in crate::repl) fn line_done(&mut self) {
        self.is_due = true;
    }

    /// Returns whether the next prompt is a fresh one, and not one that is drawn again after output or a key.
    pub(in crate::repl) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Describes the state of the project's file in one line.
    pub(in crate::repl) fn summary(&self) -> String {
        match &self.now {
            Now::None => "no project file (.reedclaw.lua) here or above".into(),
            Now::Applied(file) => format!("{file} applies; :config untrust undoes that"),
            Now::Broken(file) => broken(file),
            Now::Ignored(file) => format!("{file} is off: you have not trusted it; :config trust does"),
            Now::Never(file) => format!("{file} is off for good; :config trust asks again"),
            Now::Refused(refused) => format!("{} is not used: {}", refused.file, refused.why),
        }
    }
}

/// Looks at the project's file for the shell's directory; asks about one that hasn't been decided on.
pub(in crate::repl) fn look_for_project(repl: &mut Repl) -> Flow {
    let cwd = state::read(&repl.state).cwd.clone();
    let look = Look::around(&cwd, repl.home.as_deref(), repl.runtime.config().start_directory());
    let project = &mut repl.configured.project;
    let is_stale = std::mem::take(&mut project.is_stale);
    if look == project.look && !is_stale {
        return Flow::Continue;
    }
    project.look.clone_from(&look);
    let Some(look) = look else {
        leave_project(repl, None);
        return Flow::Continue;
    };
    let overlay = match look.read(repl.runtime.env()) {
        Ok(overlay) => overlay,
        Err(refused) => {
            leave_project(repl, None);
            let message = format!("{} is not used: {}", refused.file, refused.why);
            repl.console.failure(&Failure::config(message));
            repl.configured.project.now = Now::Refused(refused);
            return Flow::Continue;
        }
    };
    let file = overlay.shown().to_owned();
    match repl.configured.project.trust.judge(overlay) {
        TrustVerdict::Trusted(trusted) => {
            apply_project(repl, &trusted);
            Flow::Continue
        }
        TrustVerdict::Never => {
            leave_project(repl, None);
            repl.configured.project.now = Now::Never(file);
            Flow::Continue
        }
        TrustVerdict::Unknown { overlay, .. } if repl.configured.project.ignored.contains(&overlay) => {
            leave_project(repl, None);
            repl.configured.project.now = Now::Ignored(file);
            Flow::Continue
        }
        TrustVerdict::Unknown { overlay, before } => {
            // Meanwhile it is off, not on with the old text.
            leave_project(repl, Some(&file));
            ask_about(repl, overlay, before.as_deref())
        }
    }
}

/// Removes a project's file from the session. If it is `asked`, a question about it follows, so this doesn't report it.
fn leave_project(repl: &mut Repl, asked: Option<&str>) {
    let project = &mut repl.configured.project;
    if let Now::Applied(file) = std::mem::replace(&mut project.now, Now::None) {
        if asked != Some(file.as_str()) {
            repl.console.notice(&format!("{file} no longer applies"));
        }
        let plain = Effective::plain(&repl.runtime.config().layers);
        configure::apply(repl, plain);
    }
}

fn apply_project(repl: &mut Repl, trusted: &Trusted) {
    let again = matches!(&repl.configured.project.now, Now::Applied(file) if *file == trusted.shown());
    if !again {
        leave_project(repl, None);
    }
    let effective = repl.runtime.config().layers.with(trusted, repl.runtime.env());
    for problem in crate::app::config_problems(&effective.problems) {
        repl.console.failure(&problem);
    }
    let file = trusted.shown();
    let is_broken = effective.changed.is_empty() && effective.problems.iter().any(|problem| problem.key.is_empty());
    let notice = if is_broken { broken(&file) } else { format!("{file} applies: {}", applied_keys(&effective)) };
    configure::apply(repl, effective);
    repl.console.notice(&notice);
    repl.configured.project.now = if is_broken { Now::Broken(file) } else { Now::Applied(file) };
}

fn broken(file: &str) -> String {
    format!("{file} has a mistake; none of it applies")
}

/// The keys that a project's file set, those with problems apart. Commands whose name is one of ReedClaw's own aren't used.
fn applied_keys(effective: &Effective) -> String {
    let is_taken = |key: &str| key.strip_prefix("meta.").is_some_and(|name| commands::name_problem(name).is_some());
    let has_problem = |key: &str| effective.problems.iter().any(|problem| !problem.is_warning && problem.key == key);
    let keys = effective.changed.iter().map(String::as_str).filter(|key| !is_taken(key));
    let (wrong, good): (Vec<&str>, Vec<&str>) = keys.partition(|key| has_problem(key));
    let good = if good.is_empty() { "nothing".to_owned() } else { good.join(", ") };
    if wrong.is_empty() { good } else { format!("{good}; with the problems above: {}", wrong.join(", ")) }
}

/// Shows what a file would change and asks. Nothing of it has run.
fn ask_about(repl: &mut Repl, overlay: Overlay, before: Option<&str>) -> Flow {
    let file = overlay.shown().to_owned();
    show_changes(repl, &overlay, before);
    let question = "trust [t]  look [l]  ignore [i, Enter]  never [n]";
    let reply = loop {
        match repl.put_question(question, choice, Choice::Ignore) {
            Ok(Choice::Look) => {
                repl.console.line("look");
                show_file(repl, &overlay);
            }
            Ok(reply) => break reply,
            Err(flow) => return flow,
        }
    };
    repl.terminal.session.keys_to(KeysTo::Hold);
    repl.configured.project.shown = Some(overlay.clone());
    match reply {
        Choice::Trust => {
            repl.console.line("trusted");
            trust_and_apply(repl, overlay);
        }
        Choice::Never => {
            repl.console.line("never");
            if let Err(error) = repl.configured.project.trust.never(&overlay) {
                let message = format!("this can't be stored for the next session: {error}");
                repl.console.failure(&Failure::config(message));
                repl.configured.project.ignored.push(overlay);
            }
            repl.configured.project.now = Now::Never(file);
        }
        Choice::Ignore | Choice::Look => {
            repl.console.line("ignored in this session; :config trust takes it up");
            repl.configured.project.ignored.push(overlay);
            repl.configured.project.now = Now::Ignored(file);
        }
    }
    Flow::Continue
}

fn trust_and_apply(repl: &mut Repl, overlay: Overlay) {
    repl.configured.project.ignored.retain(|ignored| *ignored != overlay);
    let (trusted, written) = repl.configured.project.trust.trust(overlay);
    if let Err(error) = written {
        let message = format!("the trust holds for this session only: {error}");
        repl.console.failure(&Failure::config(message));
    }
    apply_project(repl, &trusted);
}

fn show_changes(repl: &Repl, overlay: &Overlay, before: Option<&str>) {
    let console = &repl.console;
    let news = if before.is_some() { "has changed since you trusted it, and is off" } else { "is new to you" };
    let head = format!("{} {news}. Nothing of it has run. It would change:", escape_visible(overlay.shown()));
    console.wrapped(Color::Yellow.bold(), &head, "  ");
    let (changes, is_complete) = overlay.changes(&repl.runtime.config().layers);
    for change in changes.iter().take(SHOWN_LINES_MAX) {
        console.wrapped(Style::new(), &format!("  {}", change_line(change)), "    ");
    }
    if changes.len() > SHOWN_LINES_MAX {
        console.line(&format!("  … {} more", changes.len() - SHOWN_LINES_MAX));
    }
    if !is_complete {
        console.line("  … and what its code decides: look at it");
    }
    let Some(before) = before else { return };
    console.line(&console.paint(Color::Yellow.bold(), "Against what you trusted:"));
    let lines = diff(before, overlay.text());
    let differs: Vec<&Line<&str>> = lines.iter().filter(|line| !matches!(line, Line::Kept(_))).collect();
    for line in differs.iter().take(SHOWN_LINES_MAX) {
        let (color, mark, text) = match line {
            Line::Gone(text) => (Color::Red, '-', text),
            Line::New(text) | Line::Kept(text) => (Color::Green, '+', text),
        };
        console.line(&console.paint(color.normal(), &format!("  {mark} {}", escape_visible(text))));
    }
    if differs.len() > SHOWN_LINES_MAX {
        console.line(&format!("  … {} more lines differ", differs.len() - SHOWN_LINES_MAX));
    }
}

fn show_file(repl: &Repl, overlay: &Overlay) {
    for (index, line) in overlay.text().lines().take(LOOK_LINES_MAX).enumerate() {
        repl.console.line(&format!("{:>5}  {}", index + 1, escape_visible(line)));
    }
    let lines = overlay.text().lines().count();
    if lines > LOOK_LINES_MAX {
        repl.console.notice(&format!("{} more lines: open it in an editor", lines - LOOK_LINES_MAX));
    }
}

/// `:config trust`: trusts the file if its bytes are those that were shown last; others are shown first.
pub(in crate::repl) fn trust_project(repl: &mut Repl) -> Flow {
    let cwd = state::read(&repl.state).cwd.clone();
    let Some(overlay) = read_project(repl, &cwd) else { return Flow::Continue };
    match repl.configured.project.trust.judge(overlay.clone()) {
        TrustVerdict::Trusted(_) => {
            repl.console.notice(&format!("{} is trusted already", overlay.shown()));
            Flow::Continue
        }
        _ if repl.configured.project.shown.as_ref() == Some(&overlay) => {
            trust_and_apply(repl, overlay);
            Flow::Continue
        }
        TrustVerdict::Unknown { before, .. } => ask_about(repl, overlay, before.as_deref()),
        TrustVerdict::Never => ask_about(repl, overlay, None),
    }
}

/// `:config untrust`: forgets the decision about the directory; its file is off for this session.
pub(in crate::repl) fn untrust_project(repl: &mut Repl) {
    let cwd = state::read(&repl.state).cwd.clone();
    let Some(overlay) = read_project(repl, &cwd) else { return };
    match repl.configured.project.trust.forget(&overlay) {
        Ok(true) => repl.console.notice(&format!("{} is no longer trusted", overlay.shown())),
        Ok(false) => repl.console.notice(&format!("there was no record of {}", overlay.shown())),
        Err(error) => {
            let message = format!("the record of {} can't be removed: {error}", overlay.shown());
            repl.console.failure(&Failure::config(message));
        }
    }
    let file = overlay.shown().to_owned();
    leave_project(repl, Some(&file));
    repl.configured.project.ignored.push(overlay);
    repl.configured.project.now = Now::Ignored(file);
}

fn read_project(repl: &Repl, cwd: &Path) -> Option<Overlay> {
    let Some(look) = Look::around(cwd, repl.home.as_deref(), repl.runtime.config().start_directory()) else {
        repl.console.notice("there is no project file (.reedclaw.lua) here or above");
        return None;
    };
    match look.read(repl.runtime.env()) {
        Ok(overlay) => Some(overlay),
        Err(refused) => {
            let message = format!("{} is not used: {}", refused.file, refused.why);
            repl.console.failure(&Failure::config(message));
            None
        }
    }
}

/// Writes a change as one line.
fn change_line(change: &Change) -> String {
    let key = escape_visible(&change.key);
    let to = escape_visible(&change.to);
    let line = change.line;
    match (&change.refused, &change.from) {
        (Some(what), _) => {
            format!("line {line}: {key} = {to}: will be refused, a project can't {}", escape_visible(what))
        }
        (None, Some(from)) if change.adds => format!("line {line}: {key}: adds {to} to {}", escape_visible(from)),
        (None, Some(from)) => format!("line {line}: {key}: {} → {to}", escape_visible(from)),
        (None, None) => format!("line {line}: {key} = {to}"),
    }
}
