//! An action and what the session allows → effects, needs, a risk and a decision, with reasons. Pure: it reads no file, runs
//! nothing and has no clock; what it must know of the disk it asks through [`Files`].
//!
//! It isn't the wall: a model's command runs on a copy of the workspace if possible. So it refuses obvious catastrophes, and
//! reports what a command needs beyond the copy, and what is proved harmless; everything else is unknown, never guessed.
//!
//! ```
//! use reedclaw::policy::{Context, Rules, judge};
//! use reedclaw::proto::action::{Action, Risk};
//!
//! let rules = Rules::new("/home/u/proj", "/home/u");
//! let command = "rm -rf /".to_owned();
//! assert_eq!(judge(&Action::Shell { command }, &Context::new(&rules)).risk, Risk::Blocked);
//! ```

mod builtins;
mod exec;
mod expand;
mod findings;
mod piece;
mod place;
mod plan;
mod programs;
mod rules;
mod shell;
mod walk;

#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use crate::base::text::is_odd;
use crate::proto::action::{Action, Autonomy, Decision, Effect, Hold, Need, PolicyVerdict, Reason, Risk, WriteKind};
use crate::proto::served::{PinStanding, Reach};
use findings::Findings;
use place::{Map, Zone};
use rules::{ASKED, Elsewhere};
use walk::Walk;

pub use crate::bash::SCRIPT_BYTES_MAX;
pub use rules::{Context, Files, High, NoFiles, Rules};

/// Judges an action.
#[must_use]
pub fn judge(action: &Action, context: &Context<'_>) -> PolicyVerdict {
    let map = Map::new(context.rules, context.files);
    let mut found = match action {
        Action::Shell { command } => shell(&map, context, command),
        _ => Findings::new(&map),
    };
    match action {
        Action::Shell { .. } => {}
        Action::Inert { name } => found.note(Risk::Low, "inert", format!("{name} touches nothing outside")),
        Action::Canvas { canvas } => found.note(Risk::Medium, "canvas", format!("changes the canvas {canvas}")),
        Action::External { name } => {
            found.high("external", format!("{name} is a tool that someone else made"));
        }
        Action::Served { .. } => served(&mut found, action),
        Action::Http { method, url } => http(&mut found, method, url),
        Action::Read { path } | Action::List { path } | Action::Write { path } | Action::Delete { path } => {
            file(&mut found, context, action, path, false);
        }
        Action::Open { paths } => {
            for path in paths {
                file(&mut found, context, &Action::Read { path: path.clone() }, path, false);
            }
        }
        Action::Edit { writes, deletes } | Action::Keep { writes, deletes, .. } => {
            let is_keep = matches!(action, Action::Keep { .. });
            found.is_exact = true;
            let writes = writes.iter().map(|path| (path, Action::Write { path: path.clone() }));
            let deletes = deletes.iter().map(|path| (path, Action::Delete { path: path.clone() }));
            writes.chain(deletes).for_each(|(path, each)| file(&mut found, context, &each, path, is_keep));
            if let Action::Keep { directories, guarded, .. } = action {
                directories.iter().for_each(|path| directory(&mut found, context, path));
                guarded.iter().for_each(|(path, why)| found.high("protected", format!("{path}: {why}")));
            }
        }
    }
    finish(found, context, action)
}

/// Notes what happens on a copy to a line that connects only to this machine: it reaches the loopback of its own jail.
fn note_loopback(found: &mut Findings<'_, '_>) {
    let Some(host) = found.effects.iter().find_map(|effect| match effect {
        Effect::Net { host } => Some(host.clone()),
        _ => None,
    }) else {
        return;
    };
    if found.needs.iter().any(|need| matches!(need, Need::Network { .. })) {
        return;
    }
    let is_network = |reason: &Reason| reason.rule == "network";
    let risk = found.reasons.iter().filter(|it| is_network(it)).map(|reason| reason.risk).max();
    found.reasons.retain(|reason| !is_network(reason));
    let text = format!("gets no network: {host} is the sandbox's own, without your servers");
    found.note(risk.unwrap_or(Risk::Low), "network", text);
}

/// Judges a call of a server's tool: by what the person has seen of it, and by its reach. The server's description of its tool
/// can only make it riskier.
fn served(found: &mut Findings<'_, '_>, action: &Action) {
    let Action::Served { server, tool, standing, reach, is_destructive, is_asked, .. } = action else { return };
    let name = format!("{server}.{tool}");
    match standing {
        PinStanding::Pinned => {}
        PinStanding::Changed => {
            return found.block("served-changed", format!("{name} has changed since the user allowed it"));
        }
        PinStanding::New => return found.block("served-new", format!("the user hasn't allowed {name}")),
    }
    match reach {
        Reach::Held => found.note(Risk::Medium, "served", format!("{name} is a server's tool, held in the sandbox")),
        Reach::Network => found.high("served-network", format!("{name} is a server's tool with the network")),
        Reach::Free => found.high("served-free", format!("{name} is a server's tool outside any sandbox")),
        Reach::Remote => found.high("served-remote", format!("{name} runs on another machine")),
    }
    if *is_destructive {
        found.high("served-destructive", format!("its server says that {name} may destroy something"));
    }
    if *is_asked {
        let risk = found.reasons.iter().map(|reason| reason.risk).max().unwrap_or(Risk::Medium);
        found.note(risk, "asked-tool", format!("mcp.servers.{server}.tools says that you are asked about {tool}"));
    }
}

/// Makes the verdict.
fn finish(mut found: Findings<'_, '_>, context: &Context<'_>, action: &Action) -> PolicyVerdict {
    let is_line = matches!(action, Action::Shell { .. });
    let is_command = is_line || matches!(action, Action::External { .. });
    // Within walls a checker runs on a read-only workspace, and forbidden paths are hidden.
    let counts = |reason: &&Reason| match reason.rule {
        "check" => context.hold != Hold::Walls,
        "holds-forbidden" => context.hold < Hold::Walls,
        _ => true,
    };
    let risk = found.reasons.iter().filter(counts).map(|reason| reason.risk).max().unwrap_or(Risk::Low);
    if !is_command {
        found.needs.clear();
    }
    // What a stranger made is asked about where it works on the workspace itself.
    let is_held = is_line || is_command && context.hold == Hold::Copy;
    let decision =
        if is_held { decide_command(risk, &found.reasons, &found.needs, context) } else { decide(risk, context) };
    let decision = match (decision, action) {
        (Decision::Run, Action::Served { is_asked: true, .. }) if context.can_ask => Decision::Ask,
        (Decision::Run, Action::Served { is_asked: true, .. }) => Decision::Deny,
        _ if is_drafted(action, &found, context.rules) => Decision::Run,
        (decision, _) => decision,
    };
    if is_line && context.hold == Hold::Nothing && risk == Risk::High {
        let text = "no sandbox works here, and this isn't proved harmless; install bubblewrap";
        found.high("no-sandbox", text);
    }
    if is_line && context.hold == Hold::Copy {
        note_loopback(&mut found);
    }
    if found.reasons.is_empty() {
        found.note(Risk::Low, "reads", "it only looks, and only where it may");
    }
    found.reasons.sort_by_key(|reason| std::cmp::Reverse(reason.risk));
    PolicyVerdict { risk, decision, reasons: found.reasons, effects: found.effects, needs: found.needs }
}

/// Returns whether an action only changes ordinary files of a draft: nothing in the user's checkout.
fn is_drafted(action: &Action, found: &Findings<'_, '_>, rules: &Rules) -> bool {
    let is_edit =
        matches!(action, Action::Write { .. } | Action::Delete { .. } | Action::Edit { .. } | Action::Keep { .. });
    let is_ordinary = |reason: &Reason| matches!(reason.rule, "write" | "delete");
    rules.is_draft && rules.autonomy != Autonomy::Readonly && is_edit && found.reasons.iter().all(is_ordinary)
}

/// Returns whether a command that would be asked about, or denied, may first run read-only: if there are walls and no copies, and
/// the only objection is that the command is unknown.
#[must_use]
pub fn looks_first(verdict: &PolicyVerdict, hold: Hold) -> bool {
    let is_known =
        |reason: &Reason| reason.risk > Risk::Low && !programs::listed("unknown-rules").contains(&reason.rule);
    hold == Hold::Walls
        && verdict.decision != Decision::Run
        && verdict.risk < Risk::Blocked
        && verdict.needs.is_empty()
        && !verdict.reasons.iter().any(is_known)
}

/// Decides again about a command after more of its needs became known.
#[must_use]
pub fn decide_again(verdict: &PolicyVerdict, context: &Context<'_>) -> Decision {
    decide_command(verdict.risk, &verdict.reasons, &verdict.needs, context)
}

/// Decides about a command line, by the wall that confines it; what the user wants to be asked about always needs a question.
fn decide_command(risk: Risk, reasons: &[Reason], needs: &[Need], context: &Context<'_>) -> Decision {
    let (autonomy, is_free) = (context.rules.autonomy, needs.is_empty());
    let is_denied = autonomy == Autonomy::Readonly
        || !context.can_ask
        || autonomy == Autonomy::Supervised && context.rules.high == High::Deny;
    let is_build = |reason: &Reason| reason.risk == Risk::Medium && reason.rule != "write";
    let decision = match (context.hold, risk) {
        (_, Risk::Blocked) => Decision::Deny,
        // Only needs that a copy can't satisfy are asked about before the run.
        (Hold::Copy, _) if is_free => Decision::Run,
        (Hold::Copy, _) if is_denied => Decision::Deny,
        (Hold::Copy, _) => Decision::Ask,
        // Without confinement, a build can reach anything.
        (Hold::Off, Risk::Medium) if autonomy == Autonomy::Full && reasons.iter().any(is_build) => {
            decide(Risk::High, context)
        }
        (Hold::Off, _) => decide(risk, context),
        // Within walls the workspace itself changes.
        (Hold::Walls, _) if autonomy == Autonomy::Full && is_free => Decision::Run,
        (Hold::Walls, _) => decide(risk, context),
        // Without confinement, only what is proved harmless runs unasked.
        (Hold::Nothing, Risk::Low) => Decision::Run,
        (Hold::Nothing, Risk::Medium) if autonomy != Autonomy::Readonly && context.can_ask => Decision::Ask,
        (Hold::Nothing, _) => Decision::Deny,
    };
    match decision {
        Decision::Run if reasons.iter().any(|reason| reason.rule == ASKED) => decide(Risk::High, context),
        decision => decision,
    }
}

/// Walks through a command.
fn shell<'m, 'a>(map: &'m Map<'a>, context: &'m Context<'a>, command: &str) -> Findings<'m, 'a> {
    let mut walk = Walk::new(map, context);
    if command.len() > SCRIPT_BYTES_MAX {
        walk.found.block("too-long", format!("the command is longer than {SCRIPT_BYTES_MAX} bytes"));
    } else if let Some(c) = command.chars().find(|c| is_odd(*c)) {
        walk.found.block("odd-character", format!("the command holds the character U+{:04X}", u32::from(c)));
    } else {
        walk.text(command);
        walk.run_traps();
    }
    walk.found
}

fn http(found: &mut Findings<'_, '_>, method: &str, url: &str) {
    let host = host_of(url);
    found.effect(Effect::Net { host: host.clone() });
    let is_allowed = found.map.rules.allow_domains.iter().any(|own| is_host(&host, own));
    match (method, host.is_empty()) {
        (_, true) => found.block("address", format!("{url} isn't an address that can be asked")),
        ("GET" | "HEAD", _) if is_allowed => {
            found.note(Risk::Low, "allowed-domain", format!("{host} is in security.allow_domains"))
        }
        ("GET" | "HEAD", _) => found.high("network", format!("speaks to {host}")),
        _ => found.high("network", format!("sends {method} to {host}")),
    }
}

/// The host of an address, in small letters; empty if there is none.
fn host_of(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return String::new();
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A name and a password in front are a disguise.
    let is_odd = |c: char| c == '@' || c.is_whitespace() || c.is_control();
    if authority.contains(is_odd) || url.contains('\\') {
        return String::new();
    }
    plan::host_of(&url.into()).trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether a host is one of the config's: the same, or below one that begins with a dot or `*.`.
fn is_host(host: &str, own: &str) -> bool {
    let own = own.trim_start_matches('*').to_ascii_lowercase();
    match own.strip_prefix('.') {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1),
        None => host == own,
    }
}

/// Judges a tool's own file: outside paths are refused, for reading too. `is_keep` says that it is a change that a command made
/// on its copy: deleting is then as easily undone as writing.
fn file(found: &mut Findings<'_, '_>, context: &Context<'_>, action: &Action, path: &str, is_keep: bool) {
    if path.is_empty() || path.contains('\0') || path.len() > 4095 || path.split('/').any(|part| part.len() > 255) {
        return found.block("path", "that isn't a path");
    }
    // If a command has deleted it, nothing is hidden by such a name any more.
    let is_gone = is_keep && matches!(action, Action::Delete { .. });
    if let Some(c) = path.chars().find(|c| is_odd(*c)).filter(|_| !is_gone) {
        return found.block("odd-character", format!("the path holds the character U+{:04X}", u32::from(c)));
    }
    let home = &context.rules.home;
    let path = match path.strip_prefix('~') {
        Some(below) if below.is_empty() || below.starts_with('/') => format!("{home}{below}"),
        Some(_) => return found.block("path", format!("{path}: another user's home isn't looked up")),
        None => path.to_owned(),
    };
    let writes = matches!(action, Action::Write { .. } | Action::Delete { .. });
    // The names of what a command changed are relative to the workspace.
    let cwd = if is_keep { context.rules.workspace.as_str() } else { context.cwd };
    // As it is written: after a link `..` is another directory.
    let written = if path.starts_with('/') { path.clone() } else { format!("{cwd}/{path}") };
    let leads_out = found.map.leads_out(&written);
    for place in shell::Shell::new(cwd).absolute(&path.as_str().into()) {
        let path = place.shown();
        found.effect(match action {
            Action::Write { .. } => Effect::Write { path: path.clone(), how: WriteKind::Write },
            Action::Delete { .. } => Effect::Write { path: path.clone(), how: WriteKind::Delete },
            _ => Effect::Read { path: path.clone() },
        });
        let zone = match found.map.zone(&place) {
            Zone::Workspace | Zone::Protected | Zone::Procedure if leads_out => Zone::Outside,
            Zone::Workspace if writes && context.files.is_named(&path, context.rules) => Zone::Protected,
            zone => zone,
        };
        let is = |risk, rule, says: &str| (risk, rule, format!("{path} {says}"));
        let (risk, rule, text) = match zone {
            Zone::Workspace | Zone::Protected | Zone::Procedure | Zone::Readable if !writes => {
                (Risk::Low, "reads", format!("reads {path}"))
            }
            Zone::Workspace => match action {
                Action::Delete { .. } if is_keep => (Risk::Medium, "delete", format!("deletes {path}")),
                Action::Delete { .. } => (Risk::High, "delete", format!("deletes {path}")),
                _ => (Risk::Medium, "write", format!("writes {path}")),
            },
            Zone::Protected => is(Risk::High, "protected", "makes other programs run things"),
            Zone::Own => is(Risk::Blocked, "own-files", "is ReedClaw's own"),
            Zone::Procedure => is(Risk::Blocked, "own-files", "is a procedure's file, which only you write"),
            Zone::Forbidden => is(Risk::Blocked, "forbidden-path", "is in security.forbidden_paths"),
            Zone::Credentials => is(Risk::Blocked, "credentials", "holds keys or passwords"),
            Zone::Startup if writes => is(Risk::Blocked, "startup-file", "runs when a shell or session starts"),
            Zone::Device | Zone::System if writes => is(Risk::Blocked, "system-path", "is the system's"),
            Zone::Device | Zone::Sink => is(Risk::Blocked, "device", "is a device"),
            _ if context.rules.workspace_only || is_keep => {
                is(Risk::Blocked, "outside-workspace", "is outside the workspace")
            }
            _ => is(Risk::High, "outside", "is outside the workspace"),
        };
        found.note(risk, rule, text);
    }
}

/// Judges a directory of the workspace that a command made on its copy, or whose mode it changed. A directory alone runs nothing,
/// so one that would have protected files is like any other.
fn directory(found: &mut Findings<'_, '_>, context: &Context<'_>, path: &str) {
    let mut alone = Findings::new(found.map);
    file(&mut alone, context, &Action::Write { path: path.to_owned() }, path, true);
    match alone.reasons.into_iter().find(|reason| reason.risk == Risk::Blocked) {
        Some(Reason { rule, text, .. }) => found.block(rule, text),
        None => found.note(Risk::Medium, "write", format!("makes or changes the directory {path}")),
    }
}

/// Returns whether no rule distinguishes the files below a directory of the workspace: no forbidden path and none of ReedClaw's
/// own is at or below it.
#[must_use]
pub fn is_plain_below(rules: &Rules, directory: &str) -> bool {
    !Map::new(rules, &NoFiles).names_below(directory)
}

/// Returns whether a file's name alone matches none of the rules about paths.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    !name.contains(is_odd) && !name.eq_ignore_ascii_case(place::PROCEDURE) && !name.eq_ignore_ascii_case(".git")
}

/// Returns the decision that follows from a risk.
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
