//! One command's words → its effects, as a list of acts: the table's rows applied, and functions for programs whose words are a
//! language of their own. Pure: must not know the meaning of a path, nor the shell that runs the command.

mod develop;
mod files;
pub(super) mod foreign;
mod machine;

use super::Elsewhere;
use super::piece::{Source, Text};
use super::programs::{self, Parsed, RowNeed, listed};
use crate::proto::action::{Risk, WriteKind};

/// Something that a command does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// A reason that applies regardless of the other acts.
    Note(Risk, &'static str, String),
    Read(Text),
    /// Reads names, sizes and dates.
    List(Text),
    Write(Text, WriteKind),
    /// Changes a directory with all below it.
    Tree(Text, WriteKind),
    Move(Text, Text),
    /// Gives a file another name.
    Link(Text, Text),
    Copy(Text, Text),
    /// Puts this text into a file.
    Store(Text, Text),
    /// Speaks to a host; empty if it isn't known.
    Net(String),
    /// Acts on processes, services or devices outside.
    Host(String),
    Signal(String),
    /// The acts that follow happen in this directory.
    In(Text),
    /// Sets a variable for the command that follows.
    Assign(Text, Text),
    /// Runs a line of shell code in a shell of its own.
    Code(Text),
    /// Runs a line of shell code in this very shell.
    Here(Text),
    Run(Vec<Text>),
    Script(Text, Vec<Text>),
    /// May run this line: only what is refused counts.
    Suspect(Text),
    /// May run this command: only what is refused counts.
    SuspectRun(Vec<Text>),
    /// May read or write this path, by code that isn't followed: only what is refused counts.
    SuspectPath(Text, bool),
    /// Does this on another machine or in a container.
    There(Elsewhere, Vec<Act>),
    /// Remembers what a subcommand of git means.
    Alias(String, String),
    Prints(Text),
}

impl Act {
    pub(super) fn read(path: &Text) -> Self {
        Self::Read(path.clone())
    }

    pub(super) fn write(path: &Text) -> Self {
        Self::Write(path.clone(), WriteKind::Write)
    }

    /// Deletes a directory with all below it.
    pub(super) fn tree(path: &Text) -> Self {
        Self::Tree(path.clone(), WriteKind::DeleteTree)
    }

    pub(super) fn suspect(code: &Text) -> Self {
        Self::Suspect(code.clone())
    }
}

pub(super) fn high(acts: &mut Vec<Act>, rule: &'static str, text: impl Into<String>) {
    acts.push(Act::Note(Risk::High, rule, text.into()));
}

pub(super) fn block(acts: &mut Vec<Act>, rule: &'static str, text: impl Into<String>) {
    acts.push(Act::Note(Risk::Blocked, rule, text.into()));
}

pub(super) struct Call<'a> {
    /// The program, without its directory.
    pub(super) name: &'a str,
    pub(super) words: &'a [Text],
    /// The text that it can read; `None` if that is the terminal.
    pub(super) input: Option<&'a Text>,
    pub(super) home: &'a str,
    pub(super) workspace: &'a str,
    /// The contents of a file that the script wrote.
    pub(super) written: &'a dyn Fn(&Text) -> Option<Text>,
}

/// Reads the words of a handler's program and adds what they do.
type Handler = fn(&Call<'_>, &Parsed<'_>, &mut Vec<Act>);

macro_rules! handlers {
    ($($room:ident: $($name:literal => $read:ident),*;)*) => { &[$($(($name, $room::$read)),*),*] };
}

#[rustfmt::skip]
const HANDLERS: &[(&str, Handler)] = handlers! {
    files: "cat" => cat, "ls" => ls, "echo" => echo, "printf" => printf, "pwd" => nothing, "name" => name, "path-part" => path_part, "mktemp" => mktemp, "date" => date, "ps" => ps, "test" => test, "jq" => jq, "tee" => tee, "copy" => copy, "link" => link, "move" => move_files, "remove" => remove, "mode" => mode, "dd" => dd, "tar" => tar, "archive" => archive, "compress" => compress, "find" => find, "fd" => fd, "xargs" => xargs, "parallel" => parallel, "settings" => nothing, "shell" => nothing, "command" => nothing, "assign" => nothing;
    machine: "ip" => ip, "systemctl" => systemctl, "service" => service, "bus" => bus, "disk" => disk, "kill" => kill, "kill-name" => kill_name, "later" => later, "fetch" => fetch, "netcat" => netcat, "remote-copy" => remote_copy, "copy-id" => copy_id, "container" => container, "own" => own;
    develop: "git" => git, "git-names" => git_names, "git-config" => git_config, "git-look" => git_look, "git-change" => git_change, "git-clean" => git_clean, "git-far" => git_far, "make" => make, "go-remote" => go_remote, "packages" => packages, "launcher" => launcher;
    foreign: "interpreter" => interpreter, "awk" => awk, "sed" => sed, "editor" => editor, "database" => database, "sqlite" => database;
};

/// Returns whether words ask for nothing but help or a version: that of the program, or `--script-version`.
pub(super) fn only_tells(words: &[Text]) -> bool {
    let is_one = |it: &str| it.ends_with("-version") && it.starts_with('-');
    matches!(words, [only] if is_one(only.lossy()) || ["-V", "--help", "-?", "--usage"].contains(&only.lossy()))
}

/// Returns the effects of a command; `None` for a program that the table doesn't have.
pub(super) fn plan(call: &Call<'_>) -> Option<Vec<Act>> {
    let parsed = programs::read(call.name, call.words)?;
    let runs = parsed.row.roles.iter().any(|role| matches!(*role, "run" | "@assign" | "@command" | "code-here"));
    if only_tells(call.words) && !(runs && call.words[0].as_str() == Some("-V")) {
        return Some(vec![Act::Prints(Source::Program.into())]);
    }
    let mut acts = Vec::new();
    base_risk(call, &parsed, &mut acts);
    options(call, &parsed, &mut acts);
    let handler = parsed.row.roles.iter().find_map(|role| role.strip_prefix('@'));
    if let Some(name) = handler
        && let Some((_, read)) = HANDLERS.iter().find(|(own, _)| *own == name)
    {
        read(call, &parsed, &mut acts);
    }
    operands(call, &parsed, &mut acts);
    let says = |act: &Act| matches!(act, Act::Prints(_) | Act::Run(_) | Act::Code(_) | Act::Here(_) | Act::Script(..));
    if !acts.iter().any(says) {
        acts.push(Act::Prints(printed(call, &parsed)));
    }
    Some(acts)
}

fn base_risk(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let row = parsed.row;
    let lowered = parsed.options.iter().filter_map(|(option, _)| option.risk).filter(|(.., lowers)| *lowers);
    let lowered = lowered.map(|(risk, ..)| risk).min();
    let what = if parsed.sub.is_empty() { call.name.to_owned() } else { format!("{} {}", call.name, parsed.sub) };
    if let Some((risk, rule)) = row.risk {
        let risk = lowered.map_or(risk, |lowered| risk.min(lowered));
        let is_lowered = risk < Risk::Blocked && row.risk.is_some_and(|(risk, _)| risk == Risk::Blocked);
        let rule = if is_lowered { "system" } else { rule };
        let says = reason(rule, &what);
        let rule = if listed("may-look").contains(&rule) && announces_look(parsed) { "announced" } else { rule };
        let is_network = rule == "network" && row.need == RowNeed::Network;
        // Functions that read the words themselves say how bad it is.
        if risk > Risk::Low && !is_network {
            acts.push(Act::Note(risk, rule, says));
        }
    }
    match row.need {
        RowNeed::Network if lowered != Some(Risk::Low) => {
            acts.push(Act::Net(parsed.values("host").next().map_or(String::new(), host_of)))
        }
        RowNeed::Host if lowered != Some(Risk::Low) => {
            if row.risk.is_some_and(|(risk, _)| risk == Risk::Low) {
                high(acts, "host", format!("{what} asks services of this machine"));
            }
            acts.push(Act::Host(what));
        }
        _ => {}
    }
}

/// Returns whether an option announces a read-only run, truly or not (`--dry-run`): such a command first runs read-only.
fn announces_look(parsed: &Parsed<'_>) -> bool {
    let is_one = |word: &Text| {
        let name = word.head().trim_start_matches('-').split('=').next().unwrap_or_default();
        let first = name.split(|c: char| c == '-' || c.is_ascii_uppercase()).next().unwrap_or_default();
        word.head().starts_with('-') && [name, first].iter().any(|it| listed("announces").contains(it))
    };
    parsed.words.iter().any(is_one)
        || parsed.options.iter().any(|(option, _)| option.risk.is_some_and(|(_, rule, _)| rule == "announced"))
}

pub(super) fn options(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    for (option, value) in &parsed.options {
        if let Some((risk, rule, false)) = option.risk
            && risk > Risk::Low
        {
            acts.push(Act::Note(risk, rule, reason(rule, &format!("{} with this option", call.name))));
        }
        let Some(value) = value else { continue };
        match option.role {
            "write" if value.as_str() != Some("-") => acts.push(Act::write(value)),
            "write-below" => acts.push(Act::Write(below(value), WriteKind::Write)),
            "read" | "pattern-file" if value.as_str() != Some("-") => acts.push(Act::read(value)),
            "list" => acts.push(Act::List(value.clone())),
            "dir" => acts.push(Act::In(value.clone())),
            "code" => acts.push(Act::Code(value.clone())),
            "script" => acts.push(Act::Script(value.clone(), Vec::new())),
            "host" if parsed.row.need != RowNeed::Network => acts.push(Act::Net(host_of(value))),
            "sql" => foreign::code("sql", value, acts),
            "git-config" => develop::git_option(value, acts),
            "key" => {
                let looks = parsed.options.iter().any(|(option, _)| option.risk.is_some_and(|(.., lowers)| lowers));
                acts.push(if looks { Act::read(value) } else { Act::write(value) });
            }
            "split" => {
                let words: Vec<Text> = parsed.rest.iter().map(|word| word.quoted().into()).collect();
                acts.push(Act::Code(value.clone().then(&" ".into()).then(&Text::join(&words, " "))));
            }
            "width" if value.lossy().parse().is_ok_and(|width: usize| width == 0 || width > 64) => {
                high(acts, "fork-bomb", "starts very many processes at once");
            }
            "setuid" => files::setuid(value.lossy(), acts),
            "option" => {
                let runs = |name: &Text| listed("option-runs").iter().any(|end| name.head().ends_with(end));
                acts.extend(value.split_once('=').filter(|(name, _)| runs(name)).map(|(_, code)| Act::Suspect(code)));
            }
            "foreign" => foreign::code(call.name, value, acts),
            role if role.starts_with("foreign:") => foreign::code(&role["foreign:".len()..], value, acts),
            _ => {}
        }
    }
}

pub(super) fn below(directory: &Text) -> Text {
    directory.clone().then(&"/".into()).then(&Source::Name.into())
}

fn operands(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    // A pattern that an option gives isn't among the operands.
    let has_pattern = parsed.values("pattern").chain(parsed.values("pattern-file")).next().is_some();
    let is_passed = |role: &&&str| role.starts_with('@') || has_pattern && **role == "pattern";
    let roles: Vec<&str> = parsed.row.roles.iter().filter(|role| !is_passed(role)).copied().collect();
    let Some(last) = roles.last().copied() else { return };
    let takes_cwd = last.ends_with('?') && parsed.operands.len() < roles.len() && call.input.is_none();
    if takes_cwd {
        let here = Text::from(".");
        acts.push(if last == "list?" { Act::List(here) } else { Act::Read(here) });
    }
    for (at, operand) in parsed.operands.iter().enumerate() {
        let mut role = roles.get(at).copied().unwrap_or(last).trim_end_matches('?');
        if let Some((first, end)) = role.split_once('~') {
            role = if at + 1 == parsed.operands.len() { end } else { first };
        }
        if operand.as_str() == Some("-") && matches!(role, "read" | "write" | "output") {
            continue;
        }
        let rest = || parsed.operands[at..].to_vec();
        if let Some(code) = operand.strip_prefix("+!") {
            high(acts, "code", format!("{} runs a command", call.name));
            acts.push(Act::Suspect(code));
        }
        match role {
            "read" => acts.push(if parsed.has("moves") { Act::tree(operand) } else { Act::read(operand) }),
            "list" => acts.push(Act::List(operand.clone())),
            "write" => acts.push(Act::write(operand)),
            "output" if !operand.head().contains("://") => acts.push(Act::write(operand)),
            "setting" if operand.head().contains('=') => {
                block(acts, "system-path", "changes settings of the kernel");
            }
            "delete" => acts.push(Act::Write(operand.clone(), WriteKind::Delete)),
            "tree" => acts.push(Act::tree(operand)),
            "script" => acts.push(Act::Script(operand.clone(), Vec::new())),
            "foreign" => foreign::code(call.name, operand, acts),
            "host" => acts.push(Act::Net(host_of(operand))),
            "suspect" => return acts.push(Act::SuspectRun(rest())),
            "run" if parsed.has("edit") => acts.push(Act::write(operand)),
            "run" => return acts.push(Act::Run(rest())),
            "code" if parsed.has("words") => return acts.push(Act::Run(rest())),
            "code" => return acts.push(Act::Code(Text::join(&rest(), " "))),
            "code-here" => return acts.push(Act::Here(Text::join(&rest(), " "))),
            "remote" => {
                let host = parsed.operands.first().unwrap_or(operand);
                return acts.extend(far(call, parsed, host, Act::Code(Text::join(&rest(), " "))));
            }
            // Each word with a blank is a line; the others together are a command.
            "codes" => {
                let lines = parsed.operands.iter().filter(|word| word.head().contains(' '));
                acts.extend(lines.map(|line| Act::Code(line.clone())));
                if !operand.head().contains(' ') {
                    acts.push(Act::Run(parsed.rest.to_vec()));
                }
                return;
            }
            _ => {}
        }
    }
    waits(call, parsed, &roles, acts);
}

/// Without a command a shell waits, here or on another machine.
fn waits(call: &Call<'_>, parsed: &Parsed<'_>, roles: &[&str], acts: &mut Vec<Act>) {
    if let (true, [host], Some(input)) = (roles.contains(&"remote"), parsed.operands.as_slice(), call.input) {
        acts.extend(far(call, parsed, host, Act::Code(input.clone())));
    }
    let is_privileged = parsed.row.risk.is_some_and(|(_, rule)| rule == "privilege");
    if is_privileged && parsed.operands.is_empty() && roles.contains(&"run") {
        acts.push(Act::Run(vec!["sh".into()]));
    }
}

/// Returns whether a host is this machine: at another port it is another one.
pub(super) fn comes_back(parsed: &Parsed<'_>, host: &Text) -> bool {
    let names_port = |word: &Text| {
        let head = word.head();
        head.starts_with("-p") || head.starts_with("-P") || head.starts_with("--port") || head.contains(" -p")
    };
    super::findings::is_loopback(&host_of(host)) && !parsed.words.iter().any(names_port)
}

/// Adds code on another machine; if that is this machine, it starts in the home.
fn far(call: &Call<'_>, parsed: &Parsed<'_>, host: &Text, code: Act) -> Vec<Act> {
    match comes_back(parsed, host) {
        true => vec![Act::In(call.home.into()), code],
        false => vec![Act::There(Elsewhere::Machine, vec![code])],
    }
}

/// Returns the output of a program: its input, if that came from elsewhere.
fn printed(call: &Call<'_>, parsed: &Parsed<'_>) -> Text {
    let mut fed = call.input.and_then(Text::source).unwrap_or(Source::Program);
    if fed == Source::Processes {
        let chooses = matches!(call.name, "grep" | "egrep" | "rg" | "head" | "tail" | "fzf" | "jq")
            && !parsed.has_word(&["-v"])
            || matches!(call.name, "awk" | "sed")
                && parsed.words.iter().any(|word| word.head().contains(['/', '=', '~']));
        fed = if chooses { Source::Program } else { fed };
    }
    let speaks = parsed.row.need == RowNeed::Network || parsed.row.risk.is_some_and(|(_, rule)| rule == "network");
    let decodes = parsed.has("decodes") || listed("decoders").contains(&call.name);
    let source = match fed {
        _ if speaks => Source::Net,
        Source::Net => fed,
        _ if decodes => Source::Decoded,
        Source::Decoded | Source::Processes => fed,
        _ => Source::Program,
    };
    source.into()
}

/// The host in an address; the whole text if it isn't one.
pub(super) fn host_of(address: &Text) -> String {
    let shown = address.shown();
    let rest = shown.split_once("://").map_or(shown.as_str(), |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default().to_owned(),
        None if host.matches(':').count() > 1 => host.to_owned(),
        None => host.split(':').next().unwrap_or_default().to_owned(),
    }
}

/// Returns the reason for a rule of the table, in words.
fn reason(rule: &str, what: &str) -> String {
    let says = listed(&format!("says-{rule}")).first().unwrap_or(&"does more than look");
    format!("{what} {says}")
}
