//! `reedclaw agent`: one question without a session, or a chat at a terminal. The answer goes to standard output, all
//! else to standard error. Starts no shell and runs no command; works with no terminal, no HOME and a broken config.

use std::borrow::Cow;
use std::cell::{RefCell, RefMut};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::{Arg, ArgAction, ArgMatches, Command};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

use crate::agent::{Cancel, Person, changed_line};
use crate::app::{self, Channel, ChannelKind, Request, Resume, Runtime};
use crate::base::text::shorten;
use crate::cli::answers::chat::{has_terminal, next_question, unreadable};
use crate::cli::answers::norris;
use crate::cli::answers::person::AtTty;
use crate::cli::exit;
use crate::cli::options::{autonomy, set_autonomy};
use crate::cli::out::{outside_the_shell, shown_json, without_meta_commands};
use crate::host;
use crate::ops::sessions::first_branch_notice;
use crate::proto::tool::Step;
use crate::proto::wire::Line;
use crate::proto::{Event, Failure, FailureKind, SessionEvent};
use crate::render::text::{escape_visible, wrap};
use crate::render::{Markdown, Options, sanitise, strip_controls};
use crate::schema::Schema;
use crate::share::{EVERYBODY, Share, Wanted};
use crate::shell::supervise::Ending;
use crate::shell::terminal::RawTerminal;
use crate::store::ConversationId;
use crate::turn::Thinking;

/// Bytes of standard input that are attached: far more than most models read at once.
const ATTACHED_BYTES_MAX: usize = 1024 * 1024;
/// Characters of the title of what is shared.
const TITLE_CHARS_MAX: usize = 200;
/// Bytes of a file with a schema.
const SCHEMA_BYTES_MAX: usize = 1024 * 1024;
/// Milliseconds without a byte on standard input after which the user learns what the program waits for.
const WAIT_TOLD_MS: u16 = 2_000;

/// Milliseconds that a run without attachments waits for the first byte of one.
const AUTO_WAIT_MS: u16 = 200;

/// The subcommand, as clap knows it.
pub(in crate::cli) fn definition() -> Command {
    let text = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("agent")
        .about("Asks a model one question: the answer on standard output, everything else on standard error; or a chat")
        .after_help(
            "What comes through a pipe or from a file on standard input is attached to the question; with --auto that is \
             refused. Exit status: 0 answered, 1 failed, 2 called wrongly, 3 refused, 4 no model, 5 budget, 130 \
             interrupted; with --auto 0 verified, and also 6 not verified, 7 waits for a yes, 8 no progress, 9 emergency stop.",
        )
        .arg(
            text("message", "MESSAGE")
                .short('m')
                .allow_hyphen_values(true)
                .help("The question; without it, at a terminal, a chat"),
        )
        .arg(text("model", "NAME").help("Uses another model of the config than the default"))
        .arg(
            text("path", "DIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Works in the repository or project around DIR instead of the configured workspace"),
        )
        .arg(autonomy("How much the model may do without asking, instead of the config's setting"))
        .arg(
            text("conversation", "ID")
                .value_parser(conversation)
                .help("Continues a stored conversation; `last` is the newest"),
        )
        .arg(
            text("session", "ID")
                .conflicts_with("conversation")
                .help("Continues a session on git; `new` begins one, whose turns become commits"),
        )
        .args(shown_args())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .requires("message")
                .help("Prints the events of the answer as JSON, one a line (see config/schema/events.json)"),
        )
        .arg(
            Arg::new("auto")
                .long("auto")
                .action(ArgAction::SetTrue)
                .requires("message")
                .conflicts_with_all(["conversation", "output-schema", "autonomy"])
                .help("Takes the message as a goal and works until it is reached, as reedclaw norris does"),
        )
        .args(args_of_auto())
        .arg(
            text("output-schema", "FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .requires("message")
                .help("Answers with JSON that is valid against the JSON Schema in FILE, or fails"),
        )
}

/// The flags for how the answer is shown, and to whom.
fn shown_args() -> [Arg; 2] {
    [
        Arg::new("share").long("share").value_name("watch|approve[=USER,…]").conflicts_with("auto").help(
            "Shows it in the gateway's console, to all members or to these; approve: they may answer questions, too",
        ),
        Arg::new("plain")
            .long("plain")
            .action(ArgAction::SetTrue)
            .conflicts_with("json")
            .help("Prints the text as it comes, on a terminal too: no drawn Markdown, no colour"),
    ]
}

/// The options of a run that a question doesn't have.
fn args_of_auto() -> impl Iterator<Item = Arg> {
    let own = norris::run_args().into_iter();
    own.filter(|arg| !matches!(arg.get_id().as_str(), "path" | "json" | "session")).map(|arg| {
        let is_optional = arg.get_default_values().is_empty();
        let arg = arg.help_heading("With --auto");
        if is_optional { arg.requires("auto") } else { arg }
    })
}

fn conversation(word: &str) -> Result<Resume, String> {
    match word {
        "last" => Ok(Resume::Last),
        _ => word.parse().map(Resume::Id).map_err(|_| "a number or `last`".to_owned()),
    }
}

/// Carries it out; `config` is the file that `--config` names, `path` and `model` are the options before the
/// subcommand.
pub(in crate::cli) fn run(
    matches: &ArgMatches,
    config: Option<PathBuf>,
    path: Option<PathBuf>,
    model: Option<String>,
) -> ExitCode {
    if matches.get_flag("auto") {
        if let Err(failure) = nothing_attached() {
            return ExitCode::from(exit::run_failed(&failure, None, matches.get_flag("json")));
        }
        let path = matches.get_one::<PathBuf>("path").cloned().or(path);
        return norris::begun(matches, "message", config, path, model);
    }
    let channel = AtCli::new(matches);
    let named = Named {
        path: matches.get_one::<PathBuf>("path").cloned().or(path),
        model: matches.get_one::<String>("model").cloned().or(model),
    };
    let ended = match begin(matches, config, named, &channel) {
        Ok(runtime) => runtime.run(&channel),
        // No question was asked, because the arguments can't be used.
        Err(failure) => channel.failed(failure),
    };
    let Ending::Exit(code) = ended else { return ExitCode::from(exit::FAILED) };
    ExitCode::from(channel.face().finish(u8::try_from(code).unwrap_or(exit::FAILED)))
}

/// The workspace and the model that the command line named.
struct Named {
    path: Option<PathBuf>,
    model: Option<String>,
}

/// Puts together the runtime that answers.
fn begin(matches: &ArgMatches, config: Option<PathBuf>, named: Named, channel: &AtCli) -> Result<Runtime, Failure> {
    if channel.message.is_none() && !has_terminal() {
        let failure = Failure::user("there is no terminal to chat at");
        return Err(failure.hint("reedclaw agent --message MESSAGE asks one question"));
    }
    channel.face().schema = matches.get_one::<PathBuf>("output-schema").map(|path| read_schema(path)).transpose()?;
    let resume = matches.get_one::<Resume>("conversation").copied();
    let cwd = named.path.as_deref().map(directory).transpose()?;
    let request = Request { config, resume, channel: ChannelKind::Agent, cwd, ..Request::default() };
    let mut runtime = Runtime::start(&request).map_err(|failure| match failure.kind {
        // The named file can't be read; a broken one is reported and ignored.
        FailureKind::Config => Failure { kind: FailureKind::User, ..failure },
        _ => failure,
    })?;
    runtime.problems().iter().for_each(tell);
    if let Some(failure) = app::closed(runtime.settings(), ChannelKind::Agent) {
        return Err(failure);
    }
    channel.face().draw_for(&runtime);
    if channel.message.is_none() {
        // In a chat a person sees each round, as in a session.
        runtime.allow_all_rounds();
    }
    set_autonomy(&mut runtime, matches)?;
    if let Some(name) = &named.model {
        runtime.agent_mut().use_model(name)?;
    }
    let configured = app::workspace_dir(runtime.settings(), runtime.env());
    let workspace = match &named.path {
        Some(_) => app::workspace_named(runtime.env(), runtime.cwd())?,
        None => configured.clone(),
    };
    if let Some(wanted) = matches.get_one::<String>("session") {
        // A session belongs to the repository that the person is in.
        let workspace = match named.path {
            Some(_) => workspace.clone(),
            None => app::workspace_for(runtime.env(), &host::working_directory(), &configured),
        };
        match wanted.as_str() {
            "new" => runtime.start_session(&workspace, None, "")?,
            wanted => {
                let mut person = AtTty::new(&runtime, false, Cancel::new());
                runtime.open_session_asking(&workspace, wanted, &mut person)?;
            }
        }
        if wanted == "new" {
            let notice = runtime.on_git().and_then(|it| first_branch_notice(&it.session));
            notice.into_iter().for_each(|notice| channel.face().take(Event::Notice(format!("[session] {notice}"))));
        }
        events_of_session(&mut runtime).into_iter().for_each(|event| channel.face().take(event));
    }
    if channel.message.is_some() {
        runtime.look_ahead();
    }
    // By default undo works around the working directory: it wouldn't find a model's changes elsewhere.
    let around = app::workspace_for(runtime.env(), &host::working_directory(), &configured);
    if around.canonicalize().ok() != workspace.canonicalize().ok() {
        let place = workspace.display().to_string();
        let place = shlex::try_quote(&place).map_or_else(|_| place.clone(), Cow::into_owned);
        channel.face().undo = format!("reedclaw undo --workspace {place}");
    }
    runtime.take_tools(&workspace).iter().for_each(tell);
    if let Some(words) = matches.get_one::<String>("share") {
        let share = shared(words, &runtime, channel.message.as_deref().unwrap_or("a chat"))?;
        channel.face().take(Event::Notice(format!("[share] {}", share.url())));
        channel.share.replace(Some(Rc::new(share)));
    }
    Ok(runtime)
}

/// The events at the beginning of a question that belongs to a session on git.
fn events_of_session(runtime: &mut Runtime) -> Vec<Event> {
    let Some(on_git) = runtime.on_git_mut() else { return Vec::new() };
    let mut events: Vec<Event> = on_git.session.take_notices().into_iter().map(Event::Notice).collect();
    let (session, paths) = (on_git.session.id().to_owned(), on_git.session.meta().conflicts.clone());
    events.push(Event::Session(Box::new(SessionEvent::Started { session: session.clone() })));
    if !paths.is_empty() {
        events.push(Event::Session(Box::new(SessionEvent::Conflict { session, paths })));
    }
    events
}

/// Begins to share the questions and answers.
fn shared(words: &str, runtime: &Runtime, title: &str) -> Result<Share, Failure> {
    let (verb, users) = words.split_once('=').unwrap_or((words, EVERYBODY));
    let users: Vec<String> = users.split(',').filter(|user| !user.is_empty()).map(str::to_owned).collect();
    let (watch, approve) = match verb {
        "watch" => (users, Vec::new()),
        "approve" => (Vec::new(), users),
        _ => {
            return Err(
                Failure::user(format!("--share {words} is nothing")).hint("--share watch, or --share approve=USER")
            );
        }
    };
    let place = app::share_place(runtime.settings(), runtime.env())?;
    let title = shorten(title, TITLE_CHARS_MAX);
    let wanted = Wanted { kind: "agent", title, columns: 80, rows: 24, watch, approve };
    let begun = Share::begin(&place, wanted, runtime.agent().redactor().clone(), Box::new(|| ()));
    begun.map_err(|error| Failure::unavailable(error.to_string()).hint(error.hint()))
}

/// The command line as a channel: one question, or a chat.
struct AtCli {
    /// The question; a chat without one.
    message: Option<String>,
    cancel: Cancel,
    face: RefCell<Face>,
    /// The sharing, if others see it.
    share: RefCell<Option<Rc<Share>>>,
}

impl AtCli {
    fn new(matches: &ArgMatches) -> Self {
        let cancel = Cancel::new();
        let face = RefCell::new(Face::new(matches, cancel.clone()));
        Self { message: matches.get_one::<String>("message").cloned(), cancel, face, share: RefCell::default() }
    }

    fn face(&self) -> RefMut<'_, Face> {
        self.face.borrow_mut()
    }

    /// Reports why nothing was asked.
    fn failed(&self, failure: Failure) -> Ending {
        let code = exit::of(&failure);
        self.face().take(Event::Failed { text: String::new(), failure: outside_the_shell(failure) });
        Ending::Exit(i32::from(code))
    }

    /// Asks, and returns the exit status.
    fn ask(&self, runtime: &mut Runtime, question: &str, person: &mut AtTty) -> u8 {
        self.face().code = exit::FAILED;
        let over = self.share.borrow().as_ref().and_then(|share| share.is_over());
        if let Some(why) = over {
            self.share.replace(None);
            self.face().take(Event::Notice(format!("[share] it is over: {why}")));
        }
        if let Some(share) = &*self.share.borrow() {
            share.line(question, "model", false);
        }
        runtime.answer(self, question, &self.cancel, person);
        self.face().code
    }

    /// Asks the one question, and once more if the answer doesn't match the schema.
    fn once(&self, runtime: &mut Runtime, mut question: String) -> Result<u8, Failure> {
        if let Some(attached) = attached(&mut self.face())? {
            question = format!("{}{}\n\n{question}", app::PIPED, attached.trim_end());
        }
        if question.trim().is_empty() {
            return Err(Failure::user("the question is empty").hint("reedclaw agent -m MESSAGE"));
        }
        let mut person = AtTty::new(runtime, false, self.cancel.clone()).shared(self.share.borrow().clone());
        watch_interrupts(&self.cancel, person.modes());
        if let Some(servers) = runtime.agent_mut().runner().filter(|_| !person.can_ask()).and_then(|it| it.servers()) {
            servers.ask_nobody();
        }
        if let Some(schema) = &self.face().schema {
            question.push_str(&format!(
                "\n\nAnswer with one JSON value and nothing else: no words around it, no block of code. It must be \
                 valid against this JSON Schema:\n{}",
                schema.as_value()
            ));
        }
        // The server makes the model keep to the schema, if it can: in the first request only if no tools are offered.
        let schema = self.face().schema.as_ref().map(|schema| schema.as_value().to_string());
        if !runtime.agent().offers_tools() {
            runtime.agent_mut().answer_as(schema.clone());
        }
        let code = self.ask(runtime, &question, &mut person);
        let Some(problems) = self.face().misfit.take() else { return Ok(code) };
        let notice = format!("[schema] the answer doesn't match the schema; the model is asked once more: {problems}");
        self.face().take(Event::Notice(notice));
        self.face().is_second_try = true;
        let again = format!(
            "That doesn't match the schema: {problems}. Answer with the corrected JSON value and nothing else."
        );
        runtime.agent_mut().answer_as(schema);
        Ok(self.ask(runtime, &again, &mut person))
    }

    /// Answers questions until the person ends the chat.
    fn chat(&self, runtime: &mut Runtime) -> Result<u8, Failure> {
        let mut person = AtTty::new(runtime, true, self.cancel.clone()).shared(self.share.borrow().clone());
        watch_interrupts(&self.cancel, person.modes());
        person.listen().map_err(unreadable)?;
        say("a chat with the model; /help lists its commands, /exit or Ctrl-D ends it");
        let unknown = app::unknown_outcomes(runtime.settings(), runtime.env());
        unknown.iter().for_each(|line| say(&escape_visible(line)));
        if !unknown.is_empty() {
            say("it may have run or not: check its effects; reedclaw receipt list");
        }
        while let Some(question) = next_question(runtime, &mut person)? {
            self.ask(runtime, &question, &mut person);
            if self.face().broken.is_some() {
                return Ok(exit::FAILED);
            }
        }
        Ok(exit::DONE)
    }
}

impl Channel for AtCli {
    fn name(&self) -> &'static str {
        ChannelKind::Agent.word()
    }

    fn start(&self, mut runtime: Runtime) -> Ending {
        let done = match &self.message {
            Some(question) => self.once(&mut runtime, question.clone()),
            None => self.chat(&mut runtime),
        };
        done.map_or_else(|failure| self.failed(failure), |code| Ending::Exit(i32::from(code)))
    }

    fn send(&self, _: Option<ConversationId>, message: Event) {
        if let Some(share) = &*self.share.borrow() {
            share.event(&message);
        }
        self.face().receive(message);
    }

    /// An answer that must match a schema is shown only once it does. A program reads each event.
    fn supports_draft_updates(&self) -> bool {
        let face = self.face.borrow();
        face.is_json || face.schema.is_none()
    }
}

/// Returns an answer's JSON alone, or the answer and its problems; another end stays as it is.
fn hold_against(schema: &Schema, end: Event) -> Result<Event, (String, String)> {
    let Event::Answered { text, shortfall } = end else { return Ok(end) };
    match schema.read(&text) {
        Ok(json) => Ok(Event::Answered { text: json.to_owned(), shortfall }),
        Err(problems) => Err((text, problems.join("; "))),
    }
}

/// Shows events.
struct Face {
    is_json: bool,
    is_plain: bool,
    /// The schema that the answer must match: pieces aren't shown, only an answer that matches.
    schema: Option<Schema>,
    /// Reason why the last answer doesn't match.
    misfit: Option<String>,
    /// `true` if the answer was requested again for that reason.
    is_second_try: bool,
    /// The command that reverts the changes.
    undo: String,
    /// The exit status for the last question.
    code: u8,
    drawing: Markdown,
    thinking: Thinking,
    cancel: Cancel,
    /// Reason why standard output takes no more.
    broken: Option<io::Error>,
}

impl Face {
    fn new(matches: &ArgMatches, cancel: Cancel) -> Self {
        Self {
            is_json: matches.get_flag("json"),
            is_plain: matches.get_flag("plain"),
            schema: None,
            misfit: None,
            is_second_try: false,
            undo: "reedclaw undo".to_owned(),
            code: exit::FAILED,
            drawing: Markdown::new(Options { width_columns: 0, color: false, markdown: false }),
            thinking: Thinking::default(),
            cancel,
            broken: None,
        }
    }

    /// On a terminal an answer is drawn as in a session.
    fn draw_for(&mut self, runtime: &Runtime) {
        if self.is_plain || self.is_json || !io::stdout().is_terminal() {
            return;
        }
        let width_columns = crate::console::terminal_size().map_or(0, |(columns, _)| usize::from(columns));
        let (color, markdown) = (runtime.color(), runtime.settings().console.markdown);
        self.drawing = Markdown::new(Options { width_columns, color, markdown });
    }

    /// Shows an event of a question, and notes its exit status.
    fn receive(&mut self, message: Event) {
        let event = match message {
            Event::Failed { text, failure } => Event::Failed { text, failure: outside_the_shell(failure) },
            Event::Notice(text) => Event::Notice(without_meta_commands(&text)),
            Event::Answered { .. } => match self.judged(message) {
                Some(event) => event,
                None => return,
            },
            other => other,
        };
        match &event {
            Event::Answered { .. } => self.code = exit::DONE,
            Event::Cancelled { .. } => self.code = exit::INTERRUPTED,
            Event::Failed { failure, .. } => self.code = exit::of_answer(failure.kind),
            Event::Session(it) if matches!(**it, SessionEvent::NotCommitted { .. }) && self.code == exit::DONE => {
                self.code = exit::FAILED;
            }
            _ => {}
        }
        self.take(event);
    }

    /// Returns the answer to show; `None` if it doesn't match the schema and the model is asked once more.
    fn judged(&mut self, end: Event) -> Option<Event> {
        let Some(schema) = &self.schema else { return Some(end) };
        match hold_against(schema, end) {
            Ok(end) => Some(end),
            Err((text, problems)) if self.is_second_try => {
                let message = format!("the answer doesn't match the schema, asked twice: {problems}");
                let hint = "try another model, or a simpler schema";
                Some(Event::Failed { text, failure: Failure::unavailable(message).hint(hint) })
            }
            Err((_, problems)) => {
                self.misfit = Some(problems);
                None
            }
        }
    }

    fn take(&mut self, event: Event) {
        if self.is_json {
            return self.put(&shown_json(Line::of(&event).to_json()));
        }
        if !matches!(event, Event::Thought(_) | Event::Usage(_) | Event::Notice(_) | Event::Session(_))
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
            Event::Text(piece) => {
                let drawn = self.drawing.push(&piece);
                self.put(&drawn);
            }
            Event::Notice(text) => self.say_beside(&text),
            Event::Session(event) => event.text().iter().for_each(|text| self.say_beside(text)),
            Event::Answered { text, .. } => {
                if self.schema.is_some() {
                    let drawn = self.drawing.push(&text);
                    self.put(&drawn);
                }
                self.end_drawing();
            }
            Event::Cancelled { text } => {
                self.end_drawing();
                if self.broken.is_none() {
                    say(crate::repl::stopped(&text));
                }
            }
            Event::Failed { failure, .. } => {
                self.end_drawing();
                tell(&failure);
            }
        }
    }

    /// Prints a call's effect and its end on standard error.
    fn tool(&mut self, step: &Step) {
        match step {
            Step::Requested { intent, .. } => self.say_beside(&format!("[tool] {}", escape_visible(intent))),
            Step::Approved => {}
            Step::Denied { why } => self.say_beside(&format!("[tool] denied: {}", escape_visible(why))),
            Step::Done { outcome, .. } => {
                if let Some(error) = outcome.error.as_ref().filter(|error| error.code != "denied") {
                    let failed = if error.is_failure() { "failed: " } else { "" };
                    self.say_beside(&format!("[tool] {failed}{}", escape_visible(error.headline())));
                }
                if let Some(line) = changed_line(outcome, &self.undo) {
                    self.say_beside(&format!("[tool] {line}"));
                }
            }
        }
    }

    /// Prints a line on standard error, in between the output on standard output.
    fn say_beside(&mut self, text: &str) {
        // In a pipe, lines on standard error don't interrupt the answer.
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
            // The reader has gone, so the rest needn't be written.
            self.broken = Some(error);
            self.cancel.cancel();
        }
    }

    /// Returns the exit status; a failure of standard output takes precedence.
    fn finish(&self, code: u8) -> u8 {
        match &self.broken {
            None => code,
            // The reader has gone, as `head` does: it knows why.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::FAILED,
            Some(error) => {
                say(&format!("reedclaw: standard output can't be written: {error}"));
                exit::FAILED
            }
        }
    }
}

/// Reads standard input if it is a pipe, a socket or a file, but no terminal and no device.
fn attached(face: &mut Face) -> Result<Option<String>, Failure> {
    let failed = |error: io::Error| {
        Failure::unavailable(format!("standard input can't be read: {error}")).hint("</dev/null asks without it")
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

/// Refuses text on standard input: a run's goal has no attachment, and without the text it would be another goal. Text
/// that may arrive later isn't awaited.
fn nothing_attached() -> Result<(), Failure> {
    let Ok(input) = io::stdin().as_fd().try_clone_to_owned() else { return Ok(()) };
    let mut input = File::from(input);
    let Ok(data) = input.metadata() else { return Ok(()) };
    let kind = data.file_type();
    let brings = if kind.is_file() {
        input.stream_position().is_ok_and(|at| at < data.len())
    } else if kind.is_fifo() || kind.is_socket() {
        let mut waits = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if poll(&mut waits, PollTimeout::from(AUTO_WAIT_MS)) == Ok(0) {
            say("with --auto standard input isn't read; </dev/null says so");
        }
        let found = waits[0].revents().unwrap_or(PollFlags::empty());
        // A socket whose other end has closed can be read, too.
        found.contains(PollFlags::POLLIN) && !(kind.is_socket() && found.contains(PollFlags::POLLHUP))
    } else {
        false
    };
    if !brings {
        return Ok(());
    }
    let failure = Failure::user("with --auto nothing is attached from standard input");
    Err(failure.hint("put it into a file of the workspace, or run it with </dev/null"))
}

/// Reads up to this number of bytes, and returns whether that was all.
fn read_bounded(input: &mut File, bytes_max: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    input.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() <= bytes_max;
    bytes.truncate(bytes_max);
    Ok((bytes, is_whole))
}

/// The directory that `--path` names.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let failed =
        |why: String| Failure::user(format!("--path {}: {why}", path.display())).hint("name an existing directory");
    let real = path.canonicalize().map_err(|error| failed(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(failed("it is no directory".into())) }
}

fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let failed = |why: String| {
        Failure::user(format!("the schema {} can't be used: {why}", path.display()))
            .hint("name a file with a JSON Schema")
    };
    let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let (bytes, is_whole) = read_bounded(&mut file, SCHEMA_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    if !is_whole {
        return Err(failed(format!("it is longer than {} KiB", SCHEMA_BYTES_MAX / 1024)));
    }
    let value = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
    Schema::new(value).map_err(failed)
}

/// Stops the question at the first Ctrl-C and the process at the second, with the terminal's modes as they were. Before
/// this call, Ctrl-C simply ends the process.
pub(in crate::cli) fn watch_interrupts(cancel: &Cancel, terminal: Option<RawTerminal>) {
    watch_signals(cancel, terminal, &[SIGINT]);
}

/// Cancels at the first of some signals, and ends the process at the second.
pub(in crate::cli) fn watch_signals(cancel: &Cancel, terminal: Option<RawTerminal>, signals: &[i32]) {
    let cancel = cancel.clone();
    let Ok(mut signals) = Signals::new(signals) else { return };
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if cancel.is_cancelled() {
                terminal.iter().for_each(RawTerminal::restore);
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            cancel.cancel();
        }
    });
}

/// Prints a line on standard error, on a terminal broken between words; a failure can't be reported anywhere.
pub(in crate::cli) fn say(text: &str) {
    let text = sanitise(text);
    let columns = crate::console::terminal_size().filter(|_| io::stderr().is_terminal());
    let indent = " ".repeat(text.len() - text.trim_start().len() + 2);
    let text = columns.map_or(text.clone(), |(columns, _)| wrap(&text, usize::from(columns), &indent).into());
    let _ = writeln!(io::stderr(), "{text}");
}

pub(in crate::cli) fn tell(failure: &Failure) {
    say(&format!("reedclaw: {}", failure.message));
    if !failure.hint.is_empty() {
        say(&format!("  {}", failure.hint));
    }
}
