//! An action and what the session allows, to effects, a risk and a decision, with reasons. Pure: it reads no file, runs
//! nothing and has no clock; what it needs to know of the disk it asks through [`Files`]. What isn't understood is never
//! taken for harmless.
//!
//! ```
//! use reedclaw::policy::{Context, Rules, judge};
//! use reedclaw::proto::action::{Action, Risk};
//!
//! let rules = Rules::new("/home/u/proj", "/home/u");
//! let command = "rm -rf /".to_owned();
//! assert_eq!(judge(&Action::Shell { command }, &Context::new(&rules)).risk, Risk::Blocked);
//! ```

mod builtin;
mod cmake;
mod code;
mod database;
mod develop;
mod effects;
mod exec;
mod expand;
mod fed;
mod files;
mod find;
mod flood;
mod fold;
mod here;
mod interpret;
mod make;
mod marks;
mod net;
mod options;
mod outputs;
mod own;
mod place;
mod run;
mod scripts;
mod sed;
mod state;
mod streams;
mod strings;
mod system;
mod tellers;
mod text;
mod wrap;

#[cfg(test)]
mod tests;

use crate::proto::action::{Action, Autonomy, Decision, Effect, Hold, Need, Risk, Verdict, WriteKind};
use place::Map;
use run::Run;

pub use crate::bash::SCRIPT_BYTES_MAX;

/// What holds for a session: the user's settings and where things are. Paths are absolute and without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The directory that a model may work in.
    pub workspace: String,
    /// The user's home.
    pub home: String,
    /// How much runs unasked.
    pub autonomy: Autonomy,
    /// Whether everything outside the workspace is out of bounds.
    pub workspace_only: bool,
    /// Paths below which nothing is read or written.
    pub forbidden_paths: Vec<String>,
    /// Commands that never run, by the last part of their path.
    pub forbidden_commands: Vec<String>,
    /// What happens with high risk under `supervised`.
    pub high: High,
    /// Hosts that may be asked with GET; one that begins with a dot means all below it.
    pub allow_domains: Vec<String>,
    /// ReedClaw's own directories and files: config, state, data. Never written by a model.
    pub own_paths: Vec<String>,
}

/// What happens with high risk under `supervised`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum High {
    /// The person is asked.
    #[default]
    Ask,
    /// It is denied.
    Deny,
}

impl Rules {
    /// Rules with nothing but the two directories: supervised, inside the workspace only.
    #[must_use]
    pub fn new(workspace: &str, home: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
            home: home.to_owned(),
            autonomy: Autonomy::default(),
            workspace_only: true,
            forbidden_paths: Vec::new(),
            forbidden_commands: Vec::new(),
            high: High::default(),
            allow_domains: Vec::new(),
            own_paths: Vec::new(),
        }
    }
}

/// What is known where an action is judged.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// What holds for the session.
    pub rules: &'a Rules,
    /// The directory that the action starts in, absolute.
    pub cwd: &'a str,
    /// Whether a person can be asked; where none can, each question is answered with no.
    pub can_ask: bool,
    /// What holds a command that starts: it decides what is asked before the run, and what after it.
    pub hold: Hold,
    /// The disk.
    pub files: &'a dyn Files,
}

impl<'a> Context<'a> {
    /// A context in the workspace, with a person to ask, in which nothing of the disk is known.
    #[must_use]
    pub fn new(rules: &'a Rules) -> Self {
        Self { rules, cwd: &rules.workspace, can_ask: true, hold: Hold::Walls, files: &NoFiles }
    }
}

/// What a verdict may ask of the disk. Every answer may be `None`, which never makes anything less risky.
pub trait Files {
    /// Where a path leads once every link on it is followed; for what isn't there yet, where its directory leads.
    fn canonical(&self, path: &str) -> Option<String>;
}

/// A disk of which nothing is known.
pub struct NoFiles;

impl Files for NoFiles {
    fn canonical(&self, _path: &str) -> Option<String> {
        None
    }
}

/// Judges an action.
#[must_use]
pub fn judge(action: &Action, context: &Context<'_>) -> Verdict {
    let map = Map::new(context.rules, context.files);
    let mut run = Run::new(&map, context);
    match action {
        Action::Shell { command } => shell(&mut run, command),
        Action::Inert { name } => run.note(Risk::Low, "inert", format!("{name} touches nothing outside")),
        Action::External { name } => {
            run.note(Risk::High, "external", format!("{name} is a tool that somebody else made"))
        }
        Action::Http { method, url } => http(&mut run, method, url),
        Action::Read { path } | Action::List { path } | Action::Write { path } | Action::Delete { path } => {
            file(&mut run, action, path, false);
        }
        Action::Edit { writes, deletes } | Action::Keep { writes, deletes, .. } => {
            let is_keep = matches!(action, Action::Keep { .. });
            let writes = writes.iter().map(|path| (path, Action::Write { path: path.clone() }));
            let deletes = deletes.iter().map(|path| (path, Action::Delete { path: path.clone() }));
            writes.chain(deletes).for_each(|(path, each)| file(&mut run, &each, path, is_keep));
        }
    }
    let is_command = matches!(action, Action::Shell { .. } | Action::External { .. });
    finish(run, context, is_command)
}

/// Puts the verdict together.
fn finish(mut run: Run<'_, '_>, context: &Context<'_>, is_command: bool) -> Verdict {
    let mut risk = run.reasons.iter().map(|reason| reason.risk).max().unwrap_or(Risk::Low);
    let raised = match risk {
        Risk::Low => Risk::Medium,
        Risk::Medium => Risk::High,
        // A step more would be blocked, and nobody could say yes to it.
        risk => risk,
    };
    if is_command && context.hold == Hold::Nothing && raised != risk {
        run.note(raised, "weak-sandbox", "the sandbox is weaker than it should be: one step more risk");
        risk = raised;
    }
    if run.reasons.is_empty() {
        run.note(Risk::Low, "reads", "it only looks, and only where it may");
    }
    run.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.risk));
    let needs = if is_command { needs(&run.effects, run.map) } else { Vec::new() };
    let decision = if is_command && context.hold == Hold::Copy {
        decide_on_copy(risk, &needs, context)
    } else {
        decide(risk, context)
    };
    Verdict { risk, decision, reasons: run.reasons, effects: run.effects, needs }
}

/// What a command needs beyond a private copy of the workspace, by what it would do.
fn needs(effects: &[Effect], map: &Map<'_>) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for effect in effects {
        let need = match effect {
            Effect::Net { host } => Need::Network { host: host.clone() },
            Effect::Write { path, .. } => match map.zone(path) {
                place::Zone::Home | place::Zone::Outside => Need::Write { path: path.clone() },
                _ => continue,
            },
            Effect::Read { path } => match map.zone(path) {
                place::Zone::Home => Need::Read { path: path.clone() },
                _ => continue,
            },
            _ => continue,
        };
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs
}

/// What follows for a command of which more needs are known than were when it was judged.
#[must_use]
pub fn decide_again(verdict: &Verdict, context: &Context<'_>) -> Decision {
    match context.hold {
        Hold::Copy => decide_on_copy(verdict.risk, &verdict.needs, context),
        Hold::Walls | Hold::Nothing => decide(verdict.risk, context),
    }
}

/// What follows for a command that runs on a copy: only what the copy can't give is asked about before the run.
fn decide_on_copy(risk: Risk, needs: &[Need], context: &Context<'_>) -> Decision {
    match (risk, needs.is_empty(), context.rules.autonomy) {
        (Risk::Blocked, ..) => Decision::Deny,
        (_, true, _) => Decision::Run,
        (_, false, Autonomy::Readonly) => Decision::Deny,
        (_, false, _) if context.can_ask => Decision::Ask,
        _ => Decision::Deny,
    }
}

fn shell(run: &mut Run<'_, '_>, command: &str) {
    if command.len() > SCRIPT_BYTES_MAX {
        return run.block("too-long", format!("the command is longer than {SCRIPT_BYTES_MAX} bytes"));
    }
    if let Some(c) = command.chars().find(|c| is_odd(*c)) {
        return run.block("odd-character", format!("the command holds the character U+{:04X}", u32::from(c)));
    }
    run.text(command);
    run.run_traps();
    run.feed_the_rest();
    let came = run.written.values().flatten().any(|text| text.contains(text::NET));
    if came && !run.reasons.iter().any(|reason| reason.risk == Risk::Blocked) {
        // What a pipe or a file gets from the network may be read by what stands before: once more, with that known.
        let written = std::mem::take(&mut run.written);
        let mut again = Run::new(run.map, run.context);
        again.written = written;
        again.text(command);
        again.run_traps();
        again.feed_the_rest();
        for reason in again.reasons.into_iter().filter(|reason| reason.risk == Risk::Blocked) {
            run.block(reason.rule, reason.text);
        }
    }
}

/// Characters that no command needs and that hide what it is: controls, marks of direction, ones without width, and those
/// that stand for something here.
fn is_odd(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || text::is_reserved(c)
}

fn http(run: &mut Run<'_, '_>, method: &str, url: &str) {
    let host = host_of(url);
    run.effect(Effect::Net { host: host.clone() });
    let is_allowed = run.map.rules.allow_domains.iter().any(|own| is_host(&host, own));
    match (method, host.is_empty()) {
        (_, true) => run.block("address", format!("{url} isn't an address that can be asked")),
        ("GET" | "HEAD", _) if is_allowed => {
            run.note(Risk::Low, "allowed-domain", format!("{host} is in security.allow_domains"))
        }
        ("GET" | "HEAD", _) => run.note(Risk::High, "network", format!("speaks to {host}")),
        _ => run.note(Risk::High, "network", format!("sends {method} to {host}")),
    }
}

/// The host of an address, in small letters; empty where there is none.
fn host_of(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return String::new();
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A name and a password in front are a disguise.
    if authority.contains('@')
        || url.contains('\\')
        || authority.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return String::new();
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a host is one of the config's: the same, or below one that begins with a dot or `*.`.
fn is_host(host: &str, own: &str) -> bool {
    let own = own.trim_start_matches('*').to_ascii_lowercase();
    match own.strip_prefix('.') {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1),
        None => host == own,
    }
}

/// A tool's own file: what lies outside is refused, for reading too. `is_keep` says that it is a change that a command
/// made on its copy: to delete is then as easily undone as to write.
fn file(run: &mut Run<'_, '_>, action: &Action, path: &str, is_keep: bool) {
    if path.is_empty() || path.contains('\0') || path.len() > 4095 || path.split('/').any(|part| part.len() > 255) {
        return run.block("path", "that isn't a path");
    }
    if path.chars().any(text::is_reserved) {
        return run.block("odd-character", "the path holds a character that no path needs");
    }
    let home = &run.map.rules.home;
    let path = match path.strip_prefix('~') {
        Some(below) if below.is_empty() || below.starts_with('/') => format!("{home}{below}"),
        Some(_) => return run.block("path", format!("{path}: another user's home isn't looked up")),
        None => path.to_owned(),
    };
    let writes = matches!(action, Action::Write { .. } | Action::Delete { .. });
    // As it is written: behind a link `..` is another directory.
    let written = if path.starts_with('/') { path.clone() } else { format!("{}/{path}", run.context.cwd) };
    let leads_out = run.map.leads_out(&written);
    for path in run.absolute(&path) {
        run.effect(match action {
            Action::Write { .. } => Effect::Write { path: path.clone(), how: WriteKind::Write },
            Action::Delete { .. } => Effect::Write { path: path.clone(), how: WriteKind::Delete },
            _ => Effect::Read { path: path.clone() },
        });
        let zone = match run.map.zone(&path) {
            place::Zone::Workspace | place::Zone::Protected if leads_out => place::Zone::Outside,
            zone => zone,
        };
        match zone {
            place::Zone::Workspace | place::Zone::Protected if !writes => {
                run.note(Risk::Low, "reads", format!("reads {path}"));
            }
            place::Zone::Workspace => match action {
                Action::Delete { .. } if is_keep => {
                    run.note(Risk::Medium, "delete", format!("deletes {path}"));
                }
                Action::Delete { .. } => run.note(Risk::High, "delete", format!("deletes {path}")),
                _ => run.note(Risk::Medium, "write", format!("writes {path}")),
            },
            place::Zone::Protected => {
                run.note(Risk::High, "protected", format!("{path} makes other programs run things"));
            }
            place::Zone::Own => run.block("own-files", format!("{path} is ReedClaw's own")),
            place::Zone::Forbidden => run.block("forbidden-path", format!("{path} is in security.forbidden_paths")),
            place::Zone::Credentials => run.block("credentials", format!("{path} holds keys or passwords")),
            place::Zone::Startup if writes => {
                run.block("startup-file", format!("{path} runs when a shell or session starts"));
            }
            place::Zone::Device | place::Zone::System if writes => {
                run.block("system-path", format!("{path} is the system's"));
            }
            place::Zone::Device | place::Zone::Sink => run.block("device", format!("{path} is a device")),
            _ if run.map.rules.workspace_only => {
                run.block("outside-workspace", format!("{path} is outside the workspace"));
            }
            _ => run.note(Risk::High, "outside", format!("{path} is outside the workspace")),
        }
    }
}

/// What follows from a risk.
#[must_use]
pub fn decide(risk: Risk, context: &Context<'_>) -> Decision {
    let decision = match (context.rules.autonomy, risk) {
        (_, Risk::Blocked) => Decision::Deny,
        (_, Risk::Low) | (Autonomy::Full, Risk::Medium) => Decision::Run,
        (Autonomy::Readonly, _) => Decision::Deny,
        (Autonomy::Supervised, Risk::High) if context.rules.high == High::Deny => Decision::Deny,
        (Autonomy::Supervised | Autonomy::Full, Risk::Medium | Risk::High) => Decision::Ask,
    };
    if decision == Decision::Ask && !context.can_ask { Decision::Deny } else { decision }
}
