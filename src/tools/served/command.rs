//! The commands of a person about servers of tools, `:mcp WORDS` and `reedclaw mcp WORDS`, with results as plain data.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::browser::AtBrowser;
use super::instructions::{self, INSTRUCTIONS};
use super::names::RESOURCES;
use super::shown::{changed_lines, in_words, parts, place_kind, place_line, said_lines, short_name, tool_lines, word};
use super::{Asked, Configured, Listed, Servers, none_of, resources_definition, tokens};
use crate::base::text::{age, counted};
use crate::gate::pin;
use crate::mcp::{McpError, Place, Standing};
use crate::proto::Failure;
use crate::proto::served::{Definition, PinStanding, Reach};
use crate::render::text::escape_visible;
use crate::tools::Replies;

/// The words that `:mcp` and `reedclaw mcp` know, each with its arguments and what it does.
pub const MCP_WORDS: [(&str, &str, &str); 19] = [
    ("list", "", "lists the servers, and how far each is"),
    ("show", "NAME", "shows a server with all that it says of its tools"),
    ("tools", "[NAME]", "lists tools, and which of them you have allowed"),
    (
        "connect",
        "NAME | URL | -- PROGRAM [ARGUMENT …]",
        "starts a server; an address or a program adds one for this session only",
    ),
    ("disconnect", "NAME", "ends a server until it is needed"),
    ("restart", "NAME", "starts a server again, also after failures"),
    ("log", "NAME", "shows the newest of a server's standard error"),
    ("allow", "NAME [TOOL]", "shows tools that are new or have changed, and asks whether a model may call them"),
    ("deny", "NAME [TOOL]", "revokes what you allowed"),
    ("login", "NAME", "logs in at a server, with your browser"),
    ("logout", "NAME", "forgets the tokens and the registration at a server"),
    ("test", "NAME", "connects to a server, and shows times, problems, and tools that are new or have changed"),
    ("fetch", "NAME", "starts a server once with the network, so that it can install itself"),
    ("import", "FILE", "prints the servers in another client's JSON as Lua for your config"),
    ("call", "NAME.TOOL [JSON]", "calls a tool by hand; nothing is sent to a model"),
    ("resources", "NAME", "lists a server's resources"),
    ("read", "NAME URI", "prints a resource"),
    ("prompts", "NAME", "lists a server's prompts, each with its arguments"),
    ("prompt", "NAME PROMPT [KEY=VALUE …]", "puts a server's prompt into the line, for you to read and send"),
];

/// Characters of a description that are shown in a list.
const LINE_CHARS_MAX: usize = 100;
/// Longest wait for a server that a person names.
const WAIT: Duration = Duration::from_secs(60);
/// The version of the protocol without a ping request.
const NO_PING: &str = "2026-07-28";
/// Longest time in which a server installs itself.
const FETCH: Duration = Duration::from_secs(600);
/// Lines of a server's standard error that a failed test shows.
const TEST_LINES_MAX: usize = 20;

/// The result of such a line. Every text is escaped.
pub enum Done {
    /// Lines to print.
    Lines(Vec<String>),
    /// Rows of a table.
    Rows(Vec<Vec<String>>),
    /// Tools for the person to review: lines to print, and what a yes allows.
    Ask {
        /// The server.
        server: String,
        /// The tools as they are shown.
        tools: Vec<Arc<Definition>>,
        /// Full details about them.
        lines: Vec<String>,
    },
    /// A text for the editor.
    Insert(String),
    /// The outcome of a test: lines to print, and whether all is well.
    Tested {
        /// The lines that were found.
        lines: Vec<String>,
        /// The result.
        end: TestEnd,
    },
    /// A call of a tool by the person's own hand.
    Call {
        /// The tool's name, as models see it.
        name: String,
        /// Its arguments as JSON.
        arguments: String,
    },
}

/// End of a test of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEnd {
    /// All is well.
    Good,
    /// There is no connection.
    NoConnection,
    /// Tools are new or have changed.
    NewTools,
    /// Needs a login.
    NeedsLogin,
}

/// The person at whom a line about servers was typed.
pub struct Face<'f> {
    /// The words with which the person begins such a line: `:mcp` or `reedclaw mcp`.
    pub typed: &'static str,
    /// Says whether the line is to stop.
    pub stop: &'f (dyn Fn() -> bool + Sync),
    /// Answers questions of servers.
    pub person: &'f mut dyn Replies,
    /// The user's environment, which names their browser.
    pub env: &'f BTreeMap<OsString, OsString>,
    /// Reads a file that the person names.
    pub read: &'f dyn Fn(&str) -> Result<String, String>,
}

/// The words of a line about servers as a person types it. Quotes hold a word together; the arguments of a call are JSON, and
/// stay as they are.
#[must_use]
pub fn words_of(line: &str) -> Vec<String> {
    let plain = |text: &str| {
        shlex::split(text).unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    };
    let line = line.trim();
    match line.strip_prefix("call").filter(|rest| rest.starts_with(char::is_whitespace)).map(str::trim_start) {
        None => plain(line),
        Some(rest) => {
            let (target, arguments) = rest.split_at(word_end(rest));
            let arguments = Some(arguments.trim().to_owned()).filter(|arguments| !arguments.is_empty());
            std::iter::once("call".to_owned()).chain(plain(target)).chain(arguments).collect()
        }
    }
}

/// The end of a text's first word.
fn word_end(text: &str) -> usize {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, _) if c.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

/// Carries out a line about servers, as its words.
///
/// # Errors
/// A word or name that isn't known, or a server that can't do it.
pub fn mcp_command(servers: &Servers, words: &[String], face: &mut Face<'_>) -> Result<Done, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["prompt", server, prompt, ref values @ ..] => {
            prompt_text(servers, known(servers, server)?, prompt, values, face).map(Done::Insert)
        }
        [] | ["list"] => Ok(Done::Rows(rows(servers, face.typed))),
        ["tools"] => {
            let rows = servers.names().iter().flat_map(|name| tool_rows(servers, name)).collect();
            Ok(rows_or(rows, || "no server has told its tools yet".to_owned()))
        }
        // A name with blanks may come without quotes.
        ["import", ref path @ ..] if !path.is_empty() => import_file(&path.join(" "), face.read).map(Done::Lines),
        ["call", target, ref arguments @ ..] => called(servers, target, &arguments.join(" "), face),
        ["connect", "--", ref program @ ..] if !program.is_empty() => {
            added(servers, &Place::Program(program.iter().map(|word| (*word).to_owned()).collect()), face)
        }
        ["connect", url] if url.starts_with("http://") || url.starts_with("https://") => {
            added(servers, &Place::Url(url.to_owned()), face)
        }
        ["connect", "--"] => Err(usage("connect")),
        [word, name, ref rest @ ..] if MCP_WORDS.iter().any(|(known, ..)| *known == word) && word != "list" => {
            of_server(servers, word, known(servers, name)?, rest, face)
        }
        [word, ..] => Err(usage(word)),
    }
}

fn of_server(servers: &Servers, word: &str, name: &str, rest: &[&str], face: &mut Face<'_>) -> Result<Done, Failure> {
    let stop = face.stop;
    match (word, rest) {
        ("show", []) => {
            // The server's configuration is most useful to see if it doesn't start.
            let failure = ready(servers, name, face).err();
            Ok(Done::Lines(show(servers, name, failure.as_ref())))
        }
        ("tools", []) => {
            ready(servers, name, face)?;
            Ok(rows_or(tool_rows(servers, name), || format!("{name} has no tools")))
        }
        ("connect", []) => {
            ready(servers, name, face)?;
            Ok(Done::Rows(rows(servers, face.typed)))
        }
        ("disconnect", []) => {
            servers.mcp().close(name);
            Ok(Done::Lines(vec![format!("{name} has ended; it starts again when it is needed")]))
        }
        ("restart", []) => {
            servers.mcp().close(name);
            ready(servers, name, face)?;
            Ok(Done::Rows(rows(servers, face.typed)))
        }
        ("log", []) => Ok(Done::Lines(match servers.mcp().log(name) {
            text if text.is_empty() => vec![format!("{name} has printed nothing to its standard error")],
            text => text.lines().map(escape_visible).collect(),
        })),
        ("allow", [] | [_]) => {
            ready(servers, name, face)?;
            allow(servers, name, rest.first().copied(), face.typed)
        }
        ("deny", [] | [_]) => deny(servers, name, rest.first().copied()),
        ("login", []) => {
            let mut browser = AtBrowser { server: name, person: face.person, env: face.env };
            servers.mcp().login(name, &mut browser, stop).map_err(|error| failed(&error, face.typed))?;
            Ok(Done::Lines(vec![format!("logged in at {name}; the token is in the state directory, unencrypted")]))
        }
        ("logout", []) => {
            let had = servers.mcp().logout(name).map_err(|error| failed(&error, face.typed))?;
            let line = if had { "tokens and registration are forgotten" } else { "there was no token" };
            Ok(Done::Lines(vec![line.to_owned()]))
        }
        ("test", []) => Ok(test(servers, name, face)),
        ("fetch", []) => fetch(servers, name, face),
        ("resources", []) => {
            let row = ready(servers, name, face)?;
            Ok(rows_or(resources(servers, name), || none_of(name, "resources", row.server.has_resources)))
        }
        ("prompts", []) => {
            let row = ready(servers, name, face)?;
            Ok(rows_or(prompts(servers, name), || none_of(name, "prompts", row.server.has_prompts)))
        }
        ("read", [uri]) => {
            is_used(servers, name, "resources", |row| row.server.has_resources)?;
            servers.renew(name);
            let found = servers.mcp().read(name, uri, stop, &mut Asked(face.person));
            Ok(Done::Lines(parts(found.map_err(|error| failed(&error, face.typed))?.parts)))
        }
        _ => Err(usage(word)),
    }
}

/// A table, or a line that says why it is empty.
fn rows_or(rows: Vec<Vec<String>>, why_none: impl FnOnce() -> String) -> Done {
    if rows.is_empty() { Done::Lines(vec![why_none()]) } else { Done::Rows(rows) }
}

/// Returns whether a part of a server is used.
///
/// # Errors
/// The config leaves it out.
fn is_used(servers: &Servers, name: &str, kind: &str, is_used: fn(&Configured) -> bool) -> Result<(), Failure> {
    if servers.configured(name).is_none_or(|row| is_used(&row)) {
        return Ok(());
    }
    Err(Failure::refused(none_of(name, kind, false)))
}
/// Converts the servers in another client's file to lines of Lua for a config. No server needs to run for that.
///
/// # Errors
/// The file can't be read, or isn't such a file.
pub fn import_file(path: &str, read: &dyn Fn(&str) -> Result<String, String>) -> Result<Vec<String>, Failure> {
    let text = read(path).and_then(|text| super::import::lua(&text)).map_err(|why| {
        Failure::user(format!("{}: {}", escape_visible(path), escape_visible(&why)))
            .hint("mcp import takes the JSON file in which another client names its servers")
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The call of `SERVER.TOOL`, by the name under which models see it.
fn called(servers: &Servers, target: &str, arguments: &str, face: &Face<'_>) -> Result<Done, Failure> {
    let (server, tool) = target.split_once('.').ok_or_else(|| usage("call"))?;
    let server = known(servers, server)?;
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    servers.renew(server);
    let listed = servers.list(server);
    // A server of which nothing is known is started first.
    let listed = if listed.is_empty() {
        ready(servers, server, face)?;
        servers.list(server)
    } else {
        listed
    };
    let found = listed.into_iter().find(|row| row.tool.name == tool);
    let Some(row) = found else {
        let message = format!("{server} has no tool called {}", escape_visible(tool));
        return Err(Failure::user(message).hint(format!("{} tools {server} lists them", face.typed)));
    };
    if row.standing != PinStanding::Pinned {
        let message = format!("the tool {} is {}", escape_visible(target), standing_word(&row));
        return Err(Failure::refused(message).hint(format!("{} allow {server} shows it and asks", face.typed)));
    }
    Ok(Done::Call { name: row.name, arguments: arguments.to_owned() })
}

/// Adds a server for this session only.
fn added(servers: &Servers, place: &Place, face: &mut Face<'_>) -> Result<Done, Failure> {
    let question = format!(
        "Add {} as a server for this session? A program runs in the sandbox, without the network.",
        escape_visible(&place.line())
    );
    if !face
        .person
        .reply_to("A server for this session:", &question, &["yes".into(), "no".into()])
        .is_some_and(|reply| reply == "yes" || reply == "y")
    {
        return Err(Failure::refused("nothing was added"));
    }
    let name = servers.add(place);
    let is_known_later = face.typed.starts_with(':');
    ready(servers, &name, face).map_err(|failure| match is_known_later {
        true => failure,
        // The next command doesn't know a server that was tried for this one.
        false => Failure { hint: String::new(), ..failure },
    })?;
    Ok(Done::Rows(rows(servers, face.typed)))
}

fn test(servers: &Servers, name: &str, face: &Face<'_>) -> Done {
    let stop = face.stop;
    let began = Instant::now();
    let mut lines = Vec::new();
    servers.renew(name);
    // The allowed tools are read while the server starts.
    let connected = std::thread::scope(|scope| {
        scope.spawn(|| servers.pins.version());
        servers.mcp().connect(name, stop)
    });
    let end = match connected {
        Err(McpError::NeedsLogin(_)) => {
            lines.push(format!("{name} needs a login: {} login {name}", face.typed));
            TestEnd::NeedsLogin
        }
        Err(error) => {
            lines.push(escape_visible(&error.to_string()));
            let log = servers.mcp().log(name);
            let newest = log.lines().count().saturating_sub(TEST_LINES_MAX);
            lines.extend(log.lines().skip(newest).map(|line| format!("printed       {}", escape_visible(line))));
            lines.extend(fetch_hint(servers, name, face.typed));
            TestEnd::NoConnection
        }
        Ok(()) => {
            let manifest = servers.mcp().manifest(name).unwrap_or_default();
            lines.push(format!(
                "{name} ({}) speaks {}, connected in {} ms",
                escape_visible(&manifest.title),
                escape_visible(&manifest.version),
                began.elapsed().as_millis()
            ));
            let (tools, links, prompts) = (manifest.tools.len(), manifest.resources.len(), manifest.prompts.len());
            let parts = [(tools, "tool"), (links, "resource"), (prompts, "prompt")];
            lines.push(parts.map(|(count, what)| counted(count, what)).join(", "));
            lines.extend(manifest.left_out.iter().map(|what| format!("left out: {}", escape_visible(what))));
            let began = Instant::now();
            // The newest version of the protocol has no such request.
            if manifest.version != NO_PING {
                lines.push(match servers.mcp().ping(name, stop) {
                    Ok(()) => format!("answers in {} ms", began.elapsed().as_millis()),
                    Err(error) => escape_visible(&error.to_string()),
                });
            }
            let is_new = |row: &Listed| row.standing != PinStanding::Pinned && !row.is_left_out;
            let new: Vec<Listed> = servers.list(name).into_iter().filter(is_new).collect();
            let line = |row: &Listed| format!("{} is {}", escape_visible(&row.tool.name), standing_word(row));
            lines.extend(new.iter().map(line));
            if new.is_empty() { TestEnd::Good } else { TestEnd::NewTools }
        }
    };
    Done::Tested { lines, end }
}

/// Programs that install the program that they start.
pub const LAUNCHERS: [&str; 5] = ["npx", "bunx", "uvx", "uv", "pipx"];

/// The next thing to do for a server that can't start because it isn't installed yet.
fn fetch_hint(servers: &Servers, name: &str, typed: &str) -> Option<String> {
    let row = servers.configured(name)?;
    let Place::Program(argv) = &row.server.place else { return None };
    let program = argv.first()?.rsplit('/').next()?;
    let is_meant = LAUNCHERS.contains(&program) && (row.reach)() == Reach::Held;
    is_meant.then(|| {
        format!(
            "{program} may have to install it first, which takes the network: {typed} fetch {name} lets it do so once"
        )
    })
}

/// Starts a server with the network and without the workspace, until it answers. A person is asked first.
fn fetch(servers: &Servers, name: &str, face: &mut Face<'_>) -> Result<Done, Failure> {
    let row = servers.configured(name).ok_or_else(|| failed(&McpError::NoServer(name.to_owned()), face.typed))?;
    let reach = (row.reach)();
    match (&row.server.place, reach) {
        (Place::Url(_), _) => {
            return Err(Failure::user(format!("{name} is reached by an address: there is nothing to install")));
        }
        (_, Reach::Network) => {
            return Err(Failure::user(format!(
                "{name} has the network whenever it starts, and can install itself then"
            )));
        }
        _ => {}
    }
    let question = format!(
        "Start {} once with the network and without the workspace, so that it can install itself?",
        place_line(&row.server.place)
    );
    match face.person.reply_to("The network for a server:", &question, &["yes".into(), "no".into()]) {
        Some(reply) if reply == "yes" || reply == "y" => {}
        Some(_) => return Err(Failure::refused("nothing was started")),
        None => {
            return Err(Failure::refused(
                "only a person at a terminal lets a server install itself; nothing was started",
            ));
        }
    }
    let began = Instant::now();
    servers.mcp().fetch(name, FETCH, face.stop).map_err(|error| failed(&error, face.typed))?;
    let end = if reach == Reach::Held { "; from now on it starts without the network" } else { "" };
    let took = began.elapsed().as_secs();
    Ok(Done::Lines(vec![format!("{name} has what it needs in its own directory ({took} s){end}")]))
}

/// Describes the usage of a word.
#[must_use]
pub fn usage(word: &str) -> Failure {
    let known = MCP_WORDS.iter().find(|(known, ..)| *known == word);
    let (message, hint) = match known {
        Some((word, "", what)) => (format!("mcp {word} takes no argument"), format!("it {what}")),
        Some((word, arguments, what)) => (format!("mcp {word} takes {arguments}"), format!("it {what}")),
        None => {
            let words: Vec<&str> = MCP_WORDS.iter().map(|(word, ..)| *word).collect();
            (format!("mcp doesn't know {}", escape_visible(word)), format!("it knows {}", words.join(", ")))
        }
    };
    Failure::user(message).hint(hint)
}

fn known<'n>(servers: &Servers, name: &'n str) -> Result<&'n str, Failure> {
    if servers.configured(name).is_some() {
        return Ok(name);
    }
    Err(Failure::user(format!("there is no server called {}", escape_visible(name)))
        .hint(format!("configured: {}", servers.names().join(", "))))
}

/// Starts a server unless it is running, waits for it, and returns its rules.
fn ready(servers: &Servers, name: &str, face: &Face<'_>) -> Result<Configured, Failure> {
    let typed = face.typed;
    let row = servers.configured(name).ok_or_else(|| failed(&McpError::NoServer(name.to_owned()), typed))?;
    servers.begin(name);
    // The allowed tools are read while the server starts.
    drop(servers.pins.version());
    let late = servers.mcp().wait(&[name.to_owned()], Instant::now() + WAIT, face.stop);
    let standing = servers.mcp().standings().into_iter().find(|(it, _)| it == name);
    match standing {
        Some((_, Standing::Ready { .. })) => Ok(row),
        Some((_, Standing::Failed { why, .. })) => {
            // The person reads about this failure now, so it isn't news later.
            let _ = servers.mcp().failure(name).is_some_and(|fault| servers.is_news(name, &fault));
            let hint = fetch_hint(servers, name, typed).unwrap_or_else(|| {
                // On a command line the server ends with the line, and its log with it; a test shows the log.
                let word = if typed.starts_with(':') { "log" } else { "test" };
                if servers.mcp().log(name).is_empty() {
                    return String::new();
                }
                format!("{typed} {word} {name} shows what it printed")
            });
            Err(Failure::unavailable(format!("the server {name} can't be used: {}", escape_visible(&why))).hint(hint))
        }
        Some((_, Standing::NeedsLogin)) => Err(failed(&McpError::NeedsLogin(name.to_owned()), typed)),
        _ => Err(Failure::unavailable(format!("the server {name} doesn't answer")).hint(if late.is_empty() {
            String::new()
        } else {
            format!("it is still starting: {typed} list")
        })),
    }
}

fn failed(error: &McpError, typed: &str) -> Failure {
    let hint = match error {
        McpError::NeedsLogin(server) => format!("{typed} login {server} opens your browser"),
        _ => String::new(),
    };
    Failure::unavailable(escape_visible(&error.to_string())).hint(hint)
}

fn rows(servers: &Servers, typed: &str) -> Vec<Vec<String>> {
    let row = |(name, standing): (String, Standing)| {
        let failure = servers.mcp().failure(&name);
        let mut why_failed = failure.map(|fault| format!("{} ago: {}", elapsed(fault.at), escape_visible(&fault.why)));
        let how = match standing {
            Standing::Asleep { is_known: true } => "asleep".to_owned(),
            Standing::Asleep { is_known: false } => "never started".to_owned(),
            Standing::Starting(since) => format!("starting for {} s", since.elapsed().as_secs()),
            Standing::Ready { took } => format!("running, started in {} ms", took.as_millis()),
            Standing::NeedsLogin => format!("needs a login: {typed} login {name}"),
            Standing::Failed { why, at, .. } => {
                why_failed = Some(escape_visible(&why));
                format!("failed {} ago", elapsed(at))
            }
        };
        let listed = servers.list(&name);
        let allowed = listed.iter().filter(|row| row.standing == PinStanding::Pinned && !row.is_left_out).count();
        let version = servers.mcp().manifest(&name).map(|manifest| escape_visible(&manifest.version));
        let tools =
            if version.is_some() { format!("{allowed} of {} tools allowed", listed.len()) } else { String::new() };
        let row = servers.configured(&name);
        let transport = row.as_ref().map_or("", |row| transport_word(&row.server.place));
        let reach = row.as_ref().map(|row| (row.reach)().place()).unwrap_or_default();
        // The error is the longest, and what doesn't fit is cut at the end.
        vec![
            name,
            how,
            tools,
            reach.to_owned(),
            transport.to_owned(),
            version.unwrap_or_default(),
            why_failed.unwrap_or_default(),
        ]
    };
    servers.mcp().standings().into_iter().map(row).collect()
}

/// The time since then, in seconds within the first minute.
fn elapsed(since: Instant) -> String {
    match since.elapsed().as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => age(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000)),
    }
}

fn transport_word(place: &Place) -> &'static str {
    match place {
        Place::Program(_) => "pipe",
        Place::Url(_) => "HTTP",
    }
}

fn standing_word(row: &Listed) -> &'static str {
    if row.is_left_out { "left out by the config" } else { word(row.standing) }
}

fn tool_rows(servers: &Servers, server: &str) -> Vec<Vec<String>> {
    let sent = servers.sent();
    let row = |row: &Listed| {
        let first: String =
            row.tool.description.lines().next().unwrap_or_default().chars().take(LINE_CHARS_MAX).collect();
        let name = format!("{server}.{}", escape_visible(&short_name(&row.tool.name)));
        let how = match (row.standing == PinStanding::Pinned && !row.is_left_out, sent.contains(&row.name)) {
            (true, true) => "sent",
            (true, false) => "found by a search",
            (false, _) => "",
        };
        let size = format!("{} tokens", tokens(row));
        vec![name, standing_word(row).to_owned(), how.to_owned(), size, escape_visible(&first)]
    };
    servers.list(server).iter().map(row).collect()
}

fn show(servers: &Servers, server: &str, failure: Option<&Failure>) -> Vec<String> {
    let Some(row) = servers.configured(server) else { return Vec::new() };
    // That of its last run, if it doesn't start now.
    let manifest = servers.mcp().manifest(server).unwrap_or_default();
    let title =
        if manifest.title.is_empty() { String::new() } else { format!(" ({})", escape_visible(&manifest.title)) };
    let mut lines = vec![
        format!("server        {server}{title}"),
        format!("{:<13} {}", place_kind(&row.server.place), place_line(&row.server.place)),
        format!("runs          {}", (row.reach)().place()),
    ];
    lines.extend(row.grant.iter().map(|(what, which)| format!("{what:<13} {}", escape_visible(which))));
    let (what, names) = &row.values;
    if !names.is_empty() {
        lines.push(format!("{what:<13} {}", escape_visible(&Value::from(names.clone()).to_string())));
    }
    if !manifest.version.is_empty() {
        lines.push(format!("protocol      {}", escape_visible(&manifest.version)));
    }
    if let Some(Failure { message, hint, .. }) = failure {
        lines.push(format!("problem       {message}"));
        lines.extend(Some(hint).filter(|hint| !hint.is_empty()).map(|hint| format!("              {hint}")));
    }
    lines.extend(servers.whole_pin(server).map(|pin| format!("pin           {pin}")));
    if instructions::definition(&manifest).is_some() {
        let standing = word(servers.instructions_standing(server));
        lines.push(format!("instructions  {standing}"));
    }
    lines.extend(manifest.instructions.lines().map(|line| format!("says          {}", escape_visible(line))));
    lines.extend(manifest.left_out.iter().map(|what| format!("left out      {}", escape_visible(what))));
    let (others, identity) = (servers.others(server), (row.identity)());
    for listed in servers.list(server) {
        lines.push(format!("tool          {} ({})", escape_visible(&listed.tool.name), standing_word(&listed)));
        lines.extend(identity.iter().map(|identity| format!("  pin         {}", pin(identity, &listed.tool))));
        lines.extend(tool_lines(&listed.tool, &others));
    }
    for prompt in &manifest.prompts {
        lines.push(format!("prompt        {}: {}", escape_visible(&prompt.name), escape_visible(&prompt.description)));
    }
    lines
}

fn resources(servers: &Servers, server: &str) -> Vec<Vec<String>> {
    let manifest = servers.mcp().manifest(server).unwrap_or_else(|| Arc::new(Default::default()));
    let row = |link: &crate::proto::served::Link| {
        [&link.uri, &link.name, &link.media_type, &link.description].map(|text| escape_visible(text)).to_vec()
    };
    manifest.resources.iter().map(row).collect()
}

/// A row for each prompt: its name, its arguments (those in brackets may be left out), its description.
fn prompts(servers: &Servers, server: &str) -> Vec<Vec<String>> {
    let manifest = servers.mcp().manifest(server).unwrap_or_else(|| Arc::new(Default::default()));
    let row = |prompt: &crate::proto::served::PromptSpec| {
        let argument = |(name, is_required): &(String, bool)| {
            if *is_required { format!("{name}=…") } else { format!("[{name}=…]") }
        };
        let arguments = prompt.arguments.iter().map(argument).collect::<Vec<_>>().join(" ");
        [&prompt.name, &arguments, &prompt.description].map(|text| escape_visible(text)).to_vec()
    };
    manifest.prompts.iter().map(row).collect()
}

fn allow(servers: &Servers, server: &str, tool: Option<&str>, typed: &str) -> Result<Done, Failure> {
    let is_meant = |row: &Listed| tool.is_none_or(|tool| row.tool.name == tool);
    let all: Vec<Listed> = servers.list(server).into_iter().filter(is_meant).collect();
    if let (Some(tool), true) = (tool.filter(|tool| ![RESOURCES, INSTRUCTIONS].contains(tool)), all.is_empty()) {
        let message = format!("{server} has no tool called {}", escape_visible(tool));
        return Err(Failure::user(message).hint(format!("{typed} tools {server} lists them")));
    }
    let new: Vec<Listed> =
        all.into_iter().filter(|row| row.standing != PinStanding::Pinned && !row.is_left_out).collect();
    let links = servers.mcp().manifest(server).map_or(0, |manifest| manifest.resources.len());
    let has_new_links = links > 0
        && tool.is_none_or(|tool| tool == RESOURCES)
        && servers.configured(server).is_some_and(|row| !row.leaves_out(RESOURCES))
        && servers.resources_standing(server) != PinStanding::Pinned;
    let instructions = new_instructions(servers, server, tool);
    if new.is_empty() && !has_new_links && instructions.is_none() {
        return Ok(Done::Lines(vec![nothing_new(servers, server, tool)]));
    }
    let (mut lines, others) = (Vec::new(), servers.others(server));
    for row in &new {
        lines.push(format!("tool          {} ({})", escape_visible(&row.tool.name), standing_word(row)));
        match servers.allowed_definition(server, &row.tool.name) {
            None => lines.extend(tool_lines(&row.tool, &others)),
            Some(old) => lines.extend(changed_lines(&old, &row.tool, &others)),
        }
    }
    let mut tools: Vec<Arc<Definition>> = new.into_iter().map(|row| row.tool).collect();
    if has_new_links {
        lines.push(format!("resources     {links}, which a model may search and read"));
        tools.push(Arc::new(resources_definition()));
    }
    if let Some(instructions) = instructions {
        lines.push(format!(
            "instructions  for models, which are sent {} bytes of them at most",
            instructions::BYTES_MAX
        ));
        match servers.allowed_definition(server, INSTRUCTIONS) {
            None => lines.extend(said_lines(&instructions.description, &others)),
            Some(old) => lines.extend(changed_lines(&old, &instructions, &others)),
        }
        tools.push(Arc::new(instructions));
    }
    Ok(Done::Ask { server: server.to_owned(), tools, lines })
}

/// Shows what is new in a running server, and asks, as [`mcp_command`] does for `allow`; `None` if it isn't running.
#[must_use]
pub fn ask_to_allow_started(servers: &Servers, server: &str) -> Option<Done> {
    let is_ready = |(name, standing): &(String, Standing)| name == server && matches!(standing, Standing::Ready { .. });
    servers.mcp().standings().iter().any(is_ready).then(|| allow(servers, server, None, "").ok())?
}

/// Says why there is nothing to allow.
fn nothing_new(servers: &Servers, server: &str, tool: Option<&str>) -> String {
    let Some(tool) = tool else {
        return format!("every tool of {server} that the config offers is allowed as it is");
    };
    let manifest = servers.mcp().manifest(server).unwrap_or_default();
    let (shown, is) = match tool {
        RESOURCES => (format!("the resources of {server}"), "are allowed as they are"),
        INSTRUCTIONS => (format!("the instructions of {server}"), "are allowed as they are"),
        _ => (format!("{server}.{}", escape_visible(tool)), "is allowed as it is"),
    };
    match servers.configured(server) {
        Some(row) if row.leaves_out(tool) => format!("the config leaves out {shown}"),
        Some(row) if tool == RESOURCES && manifest.resources.is_empty() => {
            none_of(server, "resources", row.server.has_resources)
        }
        _ if tool == INSTRUCTIONS && instructions::definition(&manifest).is_none() => {
            format!("{server} has no instructions")
        }
        _ => format!("{shown} {is}"),
    }
}

/// A server's instructions, if they are meant and aren't allowed as they are.
fn new_instructions(servers: &Servers, server: &str, meant: Option<&str>) -> Option<Definition> {
    let is_meant = meant.is_none_or(|meant| meant == INSTRUCTIONS);
    let is_used = servers.configured(server).is_some_and(|row| !row.leaves_out(INSTRUCTIONS));
    let is_new = || servers.instructions_standing(server) != PinStanding::Pinned;
    let manifest = servers.mcp().manifest(server).filter(|_| is_meant && is_used && is_new())?;
    instructions::definition(&manifest)
}

/// Allows tools as they were shown.
///
/// # Errors
/// It can't be written down; nothing is allowed then.
pub fn allow_tools(servers: &Servers, server: &str, tools: &[Arc<Definition>]) -> Result<String, Failure> {
    let all: Vec<&Definition> = tools.iter().map(Arc::as_ref).collect();
    let unavailable = |message: String| Failure::unavailable(message).hint("nothing was allowed");
    servers.allow(server, &all).map_err(|error| unavailable(error.to_string()))?;
    let count = tools.iter().filter(|tool| !tool.name.starts_with('@')).count();
    let has = |name: &&str| tools.iter().any(|tool| tool.name == *name);
    let others: Vec<&str> = [RESOURCES, INSTRUCTIONS].into_iter().filter(has).collect();
    Ok(format!("allowed {} of {server}, as long as they stay as they are", counted_parts(count, &others)))
}

/// A number of tools, and the other parts of a server, in words.
fn counted_parts(tools: usize, others: &[&str]) -> String {
    let mut what: Vec<String> = (tools > 0).then(|| counted(tools, "tool")).into_iter().collect();
    what.extend(others.iter().map(|name| format!("the {}", name.trim_start_matches('@'))));
    in_words(&what)
}

fn deny(servers: &Servers, server: &str, tool: Option<&str>) -> Result<Done, Failure> {
    let (tools, others) = servers
        .forget(server, tool)
        .map_err(|error| Failure::unavailable(error.to_string()).hint("nothing was revoked"))?;
    Ok(Done::Lines(vec![match (tools, &others[..]) {
        (0, []) => "nothing of it was allowed".into(),
        (tools, others) => format!("no longer allowed: {}", counted_parts(tools, others)),
    }]))
}

fn prompt_text(
    servers: &Servers,
    server: &str,
    prompt: &str,
    values: &[&str],
    face: &mut Face<'_>,
) -> Result<String, Failure> {
    is_used(servers, server, "prompts", |row| row.server.has_prompts)?;
    servers.renew(server);
    let pair = |value: &&str| value.split_once('=').map(|(name, value)| (name.to_owned(), Value::from(value)));
    let arguments: Map<String, Value> = values.iter().filter_map(pair).collect();
    if arguments.len() < values.len() {
        return Err(usage("prompt"));
    }
    let reply = servers.mcp().prompt(server, prompt, &arguments, face.stop, &mut Asked(face.person));
    let reply = reply.map_err(|error| failed(&error, face.typed))?;
    Ok(parts(reply.parts).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::words_of;

    #[test]
    fn quotes_hold_a_word_together_and_json_stays_as_it_is() {
        let table: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("  tools   one ", &["tools", "one"]),
            ("deny odd \"my tool\"", &["deny", "odd", "my tool"]),
            ("prompt one greet who='Ada L'", &["prompt", "one", "greet", "who=Ada L"]),
            ("prompt one greet who=it's", &["prompt", "one", "greet", "who=it's"]),
            ("call one.echo  {\"text\": \"a  'b'\"} ", &["call", "one.echo", "{\"text\": \"a  'b'\"}"]),
            ("call \"odd.my tool\" {}", &["call", "odd.my tool", "{}"]),
        ];
        for (line, words) in table {
            assert_eq!(words_of(line), words, "{line}");
        }
    }
}
