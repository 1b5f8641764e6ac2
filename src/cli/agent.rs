//! `reedclaw agent`: one question without a session. The answer goes to standard output, all else to standard error.
//! Starts no shell and runs no command; works with no terminal, no HOME and a broken config.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Arg, ArgAction, ArgMatches, Command};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use super::person::AtTty;
use super::wire::Line;
use crate::agent::Cancel;
use crate::app::{self, App, ChannelKind, Request, Resume};
use crate::proto::tool::Step;
use crate::proto::{Event, Failure, FailureKind};
use crate::render::text::escape_visible;
use crate::render::{Markdown, Options, sanitise, strip_controls};
use crate::turn::Thinking;
use crate::turn::schema::Schema;

/// Bytes of standard input that are attached: far more than most models read at once.
const ATTACHED_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a file with a schema.
const SCHEMA_BYTES_MAX: usize = 1024 * 1024;
/// Milliseconds without a byte on standard input after which the user is told what is waited for.
const WAIT_TOLD_MS: u16 = 2_000;

const ANSWERED: u8 = 0;
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const REFUSED: u8 = 3;
const NO_PROVIDER: u8 = 4;
const BUDGET: u8 = 5;
const INTERRUPTED: u8 = 130;

/// The subcommand, as clap knows it.
pub(super) fn definition() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("agent")
        .about("Asks a model one question; the answer on standard output, all else on standard error")
        .after_help(
            "What comes through a pipe or from a file on standard input is attached to the question. Exit status: 0 \
             answered, 1 failed, 2 usage, 3 refused, 4 no provider, 5 budget, 130 interrupted.",
        )
        .arg(text("message", "MESSAGE").short('m').required(true).allow_hyphen_values(true).help("The question"))
        .arg(text("model", "NAME").help("Another model of the config than the default one"))
        .arg(
            text("conversation", "ID")
                .value_parser(conversation)
                .help("Goes on with a stored conversation; `last` is the newest"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("One JSON object a line: the events of the answer, as config/schema/events.json has them"),
        )
        .arg(
            Arg::new("plain")
                .long("plain")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("The text as it comes, also on a terminal: no markdown is drawn, no colour used"),
        )
        .arg(
            text("output-schema", "FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Answers with JSON that is valid against the JSON Schema in FILE, or fails"),
        )
}

fn conversation(word: &str) -> Result<Resume, String> {
    match word {
        "last" => Ok(Resume::Last),
        _ => word.parse().map(Resume::Id).map_err(|_| "a number or `last`".to_owned()),
    }
}

/// Carries it out; `config` is what `--config` named.
pub(super) fn run(matches: &ArgMatches, config: Option<PathBuf>) -> ExitCode {
    let cancel = Cancel::new();
    let mut face = Face::new(matches, cancel.clone());
    let code = match ask(matches, config, &mut face, &cancel) {
        Ok(code) => code,
        // Nothing was asked: what was given can't be used.
        Err(failure) => {
            let code = if failure.kind == FailureKind::User { USAGE } else { exit_code(failure.kind) };
            face.take(Event::Failed { text: String::new(), failure });
            code
        }
    };
    ExitCode::from(face.finish(code))
}

fn ask(matches: &ArgMatches, config: Option<PathBuf>, face: &mut Face, cancel: &Cancel) -> Result<u8, Failure> {
    let schema = matches.get_one::<PathBuf>("output-schema").map(|path| read_schema(path)).transpose()?;
    let resume = matches.get_one::<Resume>("conversation").copied();
    let mut app =
        App::start(&Request { config, resume, channel: ChannelKind::Agent }).map_err(|failure| match failure.kind {
            // The file that was named can't be read; a broken one is told and left out.
            FailureKind::Config => Failure { kind: FailureKind::User, ..failure },
            _ => failure,
        })?;
    app.problems.iter().for_each(tell);
    face.draw_for(&app);
    if let Some(name) = matches.get_one::<String>("model") {
        app.agent.use_model(name)?;
    }
    if !app.agent.models().is_empty() {
        let workspace = app::workspace_dir(&app.settings, &app.env);
        match app::hands(
            &app.settings,
            &app.env,
            &workspace,
            &app.store,
            Some(ChannelKind::Agent),
            app.config.path.as_deref(),
        ) {
            Ok(handed) => {
                handed.problems.iter().for_each(tell);
                drop(app.agent.take_up(Some(handed.hands)));
            }
            Err(failure) => tell(&failure),
        }
    }
    let mut question = matches.get_one::<String>("message").cloned().unwrap_or_default();
    if let Some(attached) = attached(face)? {
        question = format!("[standard input]\n{}\n\n{question}", attached.trim_end());
    }
    if question.trim().is_empty() {
        return Err(usage("the question is empty".into(), "reedclaw agent -m MESSAGE"));
    }
    watch_interrupts(cancel);
    let Some(schema) = schema else {
        return Ok(face.ask(&mut app, &question, cancel, &mut Some));
    };
    face.is_held = true;
    question.push_str(&format!(
        "\n\nAnswer with one JSON value and nothing else: no words around it, no block of code. It must be valid \
         against this JSON Schema:\n{}",
        schema.as_value()
    ));
    let mut misfit = None;
    let code = face.ask(&mut app, &question, cancel, &mut |end| match hold_against(&schema, end) {
        Ok(end) => Some(end),
        Err((_, problems)) => {
            misfit = Some(problems);
            None
        }
    });
    let Some(problems) = misfit else { return Ok(code) };
    face.take(Event::Notice(format!("[schema] the answer doesn't fit and is asked for once more: {problems}")));
    let again =
        format!("That doesn't fit the schema: {problems}. Answer with the corrected JSON value and nothing else.");
    Ok(face.ask(&mut app, &again, cancel, &mut |end| {
        Some(hold_against(&schema, end).unwrap_or_else(|(text, problems)| {
            let message = format!("the answer doesn't fit the schema, asked twice: {problems}");
            let hint = "try another model, or a simpler schema".to_owned();
            Event::Failed { text, failure: Failure { kind: FailureKind::Unavailable, message, hint } }
        }))
    }))
}

/// Gives an answer's JSON alone, or the answer and what is wrong with it; another end stays as it is.
fn hold_against(schema: &Schema, end: Event) -> Result<Event, (String, String)> {
    let Event::Answered { text } = end else { return Ok(end) };
    match schema.read(&text) {
        Ok(json) => Ok(Event::Answered { text: json.to_owned() }),
        Err(problems) => Err((text, problems.join("; "))),
    }
}

/// Where events go.
struct Face {
    is_json: bool,
    is_plain: bool,
    /// Pieces aren't shown: only an answer that fits its schema is.
    is_held: bool,
    drawing: Markdown,
    thinking: Thinking,
    cancel: Cancel,
    /// Why standard output takes no more.
    broken: Option<io::Error>,
}

impl Face {
    fn new(matches: &ArgMatches, cancel: Cancel) -> Self {
        Self {
            is_json: matches.get_flag("json"),
            is_plain: matches.get_flag("plain"),
            is_held: false,
            drawing: Markdown::new(Options { width_columns: 0, color: false, markdown: false }),
            thinking: Thinking::default(),
            cancel,
            broken: None,
        }
    }

    /// On a terminal an answer is drawn as in a session.
    fn draw_for(&mut self, app: &App) {
        if self.is_plain || self.is_json || !io::stdout().is_terminal() {
            return;
        }
        let width_columns = crossterm::terminal::size().map_or(0, |(columns, _)| usize::from(columns));
        self.drawing =
            Markdown::new(Options { width_columns, color: app.color(), markdown: app.settings.console.markdown });
    }

    /// Asks and shows what comes, and gives the exit status; `judge` may turn the end into another, or keep it back.
    fn ask(
        &mut self,
        app: &mut App,
        question: &str,
        cancel: &Cancel,
        judge: &mut dyn FnMut(Event) -> Option<Event>,
    ) -> u8 {
        let mut code = FAILED;
        let color = io::stderr().is_terminal() && app.color();
        let mut person = AtTty::new(io::stdin().is_terminal(), cancel.clone(), color);
        app.agent.ask_with(
            question,
            cancel,
            &mut |event| {
                let event = match event {
                    Event::Notice(_) | Event::Text(_) | Event::Thought(_) | Event::Usage(_) | Event::Tool(_) => {
                        Some(event)
                    }
                    Event::Failed { text, failure } => Some(Event::Failed { text, failure: without_session(failure) }),
                    end => judge(end),
                };
                let Some(event) = event else { return };
                code = match &event {
                    Event::Answered { .. } => ANSWERED,
                    Event::Cancelled { .. } => INTERRUPTED,
                    Event::Failed { failure, .. } => exit_code(failure.kind),
                    Event::Notice(_) | Event::Text(_) | Event::Thought(_) | Event::Usage(_) | Event::Tool(_) => code,
                };
                self.take(event);
            },
            &mut person,
        );
        code
    }

    fn take(&mut self, event: Event) {
        if self.is_json {
            return self.put(&Line::of(&event).to_json());
        }
        if !matches!(event, Event::Thought(_) | Event::Usage(_) | Event::Notice(_))
            && let Some(line) = self.thinking.fold(Instant::now())
        {
            self.say_beside(&line);
        }
        match event {
            Event::Usage(_) => {}
            Event::Tool(event) => self.tool(&event.step),
            Event::Thought(piece) => {
                self.thinking.push(&piece, Instant::now());
            }
            Event::Text(_) if self.is_held => {}
            Event::Text(piece) => {
                let drawn = self.drawing.push(&piece);
                self.put(&drawn);
            }
            Event::Notice(text) => self.say_beside(&text),
            Event::Answered { text } => {
                if self.is_held {
                    let drawn = self.drawing.push(&text);
                    self.put(&drawn);
                }
                self.end_drawing();
            }
            Event::Cancelled { .. } => {
                self.end_drawing();
                if self.broken.is_none() {
                    say("stopped; what came is kept");
                }
            }
            Event::Failed { failure, .. } => {
                self.end_drawing();
                tell(&failure);
            }
        }
    }

    /// Says on standard error what a call is about and how it ended.
    fn tool(&mut self, step: &Step) {
        match step {
            Step::Requested { intent } => self.say_beside(&format!("[tool] {}", escape_visible(intent))),
            Step::Approved => {}
            Step::Denied { why } => self.say_beside(&format!("[tool] denied: {}", escape_visible(why))),
            Step::Done { outcome, .. } => match &outcome.error {
                Some(error) if error.code != "denied" => {
                    self.say_beside(&format!("[tool] failed: {}", escape_visible(&error.message)));
                }
                _ => {}
            },
        }
    }

    /// Says a line on standard error, between what goes to standard output.
    fn say_beside(&mut self, text: &str) {
        // In a pipe an answer isn't cut by what goes elsewhere.
        if io::stdout().is_terminal() {
            self.end_drawing();
        }
        say(text);
    }

    fn end_drawing(&mut self) {
        let rest = self.drawing.finish();
        self.put(&rest);
    }

    fn put(&mut self, text: &str) {
        if self.broken.is_some() || text.is_empty() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Nobody reads the rest: it need not come.
            self.broken = Some(error);
            self.cancel.cancel();
        }
    }

    /// Gives the exit status, where standard output has a say too.
    fn finish(&self, code: u8) -> u8 {
        match &self.broken {
            None => code,
            // The reader has gone, as `head` does: it knows why.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => FAILED,
            Some(error) => {
                say(&format!("reedclaw: standard output can't be written: {error}"));
                FAILED
            }
        }
    }
}

fn exit_code(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::NoModel => NO_PROVIDER,
        FailureKind::Refused => REFUSED,
        FailureKind::Budget => BUDGET,
        FailureKind::User | FailureKind::Config | FailureKind::Unavailable | FailureKind::Internal => FAILED,
    }
}

/// A hint for here: what a session does with a meta command, an option does.
fn without_session(failure: Failure) -> Failure {
    let hint =
        failure.hint.replace(":model NAME", "--model NAME").replace(":models lists", "reedclaw config show says");
    Failure { hint: hint.replace(":clear starts", "a question without --conversation starts"), ..failure }
}

/// Reads what standard input brings: a pipe, a socket or a file, but no terminal and no device.
fn attached(face: &mut Face) -> Result<Option<String>, Failure> {
    let failed = |error: io::Error| Failure {
        kind: FailureKind::Unavailable,
        message: format!("standard input can't be read: {error}"),
        hint: "</dev/null asks without it".into(),
    };
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let kind = input.metadata().map_err(failed)?.file_type();
    if !(kind.is_fifo() || kind.is_socket() || kind.is_file()) {
        return Ok(None);
    }
    let mut waits = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    if poll(&mut waits, PollTimeout::from(WAIT_TOLD_MS)) == Ok(0) {
        say("waiting for the end of standard input; </dev/null asks without it");
    }
    let (bytes, is_whole) = read_bounded(&mut input, ATTACHED_BYTES_MAX).map_err(failed)?;
    if !is_whole {
        let kib = ATTACHED_BYTES_MAX / 1024;
        face.take(Event::Notice(format!("[input] standard input is longer than {kib} KiB: the rest isn't sent")));
    }
    Ok(Some(strip_controls(&bytes)).filter(|text| !text.trim().is_empty()))
}

/// Reads at most so many bytes, and tells whether that was all.
fn read_bounded(input: &mut File, bytes_max: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    input.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() <= bytes_max;
    bytes.truncate(bytes_max);
    Ok((bytes, is_whole))
}

fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let failed = |why: String| usage(format!("the schema {} can't be used: {why}", path.display()), "");
    let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let (bytes, is_whole) = read_bounded(&mut file, SCHEMA_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    if !is_whole {
        return Err(failed(format!("it is longer than {} KiB", SCHEMA_BYTES_MAX / 1024)));
    }
    let value = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
    Schema::new(value).map_err(failed)
}

fn usage(message: String, hint: &str) -> Failure {
    Failure { kind: FailureKind::User, message, hint: hint.to_owned() }
}

/// Stops the question at the first Ctrl-C and the process at the second. Before, Ctrl-C ends the process by itself.
/// Lets Ctrl-C cancel; a second one ends at once.
pub(super) fn watch_interrupts(cancel: &Cancel) {
    let cancel = cancel.clone();
    let Ok(mut signals) = Signals::new([SIGINT]) else { return };
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(i32::from(INTERRUPTED));
            }
            cancel.cancel();
        }
    });
}

/// Says a line on standard error; where that is full or closed, nobody could be told.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", sanitise(text));
}

fn tell(failure: &Failure) {
    say(&format!("reedclaw: {}", failure.message));
    if !failure.hint.is_empty() {
        say(&format!("  {}", failure.hint));
    }
}
