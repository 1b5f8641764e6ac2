//! Findings of a judgement: reasons, effects and needs, and the rules that derive them from paths. Must not know bash.

use super::Elsewhere;
use super::piece::{Piece, Source, Text};
use super::place::{Map, Place, Zone};
use super::programs::listed;
use crate::proto::action::{Effect, Need, Reason, Risk, WriteKind};

const EFFECTS_MAX: usize = 200;
const REASONS_MAX: usize = 40;
const NEEDS_MAX: usize = 40;

/// Reasons, effects and needs, in the order in which they were found.
pub(super) struct Findings<'m, 'a> {
    pub(super) map: &'m Map<'a>,
    pub(super) reasons: Vec<Reason>,
    pub(super) effects: Vec<Effect>,
    pub(super) needs: Vec<Need>,
    /// Each effect is known and named once, as the files of an edit are: then none is left out.
    pub(super) is_exact: bool,
    /// Place in which the current commands run.
    pub(super) elsewhere: Elsewhere,
}

impl<'m, 'a> Findings<'m, 'a> {
    pub(super) fn new(map: &'m Map<'a>) -> Self {
        let (reasons, effects, needs) = (Vec::new(), Vec::new(), Vec::new());
        Self { map, reasons, effects, needs, is_exact: false, elsewhere: Elsewhere::Here }
    }

    pub(super) fn note(&mut self, risk: Risk, rule: &'static str, text: impl Into<String>) {
        let text = text.into();
        // The contents of a container are its own; its disk may be this machine's.
        let is_spared = self.elsewhere == Elsewhere::Container
            && risk == Risk::Blocked
            && !matches!(rule, "delete-tree" | "fork-bomb" | "disk" | "device" | "fed-code");
        let risk = if is_spared { Risk::High } else { risk };
        let is_alike = |reason: &Reason| {
            reason.rule == rule && reason.risk >= risk && (reason.text == text || self.reasons.len() > 8)
        };
        if (self.reasons.len() < REASONS_MAX || risk == Risk::Blocked) && !self.reasons.iter().any(is_alike) {
            self.reasons.push(Reason { rule, risk, text });
        }
    }

    pub(super) fn high(&mut self, rule: &'static str, text: impl Into<String>) {
        self.note(Risk::High, rule, text);
    }

    pub(super) fn block(&mut self, rule: &'static str, text: impl Into<String>) {
        self.note(Risk::Blocked, rule, text);
    }

    /// Removes the reasons after the first `known`, except those that block.
    pub(super) fn keep_blocked(&mut self, known: usize) {
        let mut at = 0;
        self.reasons.retain(|reason| {
            at += 1;
            at <= known || reason.risk == Risk::Blocked
        });
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        if self.is_exact {
            self.effects.push(effect);
        } else if self.effects.len() >= EFFECTS_MAX {
            self.high("not-understood", "too many effects to list");
        } else if !self.effects.contains(&effect) {
            self.effects.push(effect);
        }
    }

    pub(super) fn need(&mut self, need: Need) {
        if self.needs.len() < NEEDS_MAX && !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    /// A file's contents are read; `path` is absolute.
    pub(super) fn reads(&mut self, path: &Text) {
        if !path.head().starts_with("/dev/fd/") {
            self.looks(path, true);
        }
    }

    /// Notes that names, sizes and dates are read; `path` is absolute.
    pub(super) fn lists(&mut self, path: &Text) {
        self.looks(path, false);
    }

    fn looks(&mut self, path: &Text, reads: bool) {
        if self.elsewhere != Elsewhere::Here {
            return;
        }
        let shown = path.shown();
        self.effect(Effect::Read { path: shown.clone() });
        let (verb, at, into) = if reads { ("reads", "", "") } else { ("looks", " at", " into") };
        match self.map.zone(path) {
            _ if !reads && (is_for_all(path) || matches!(path.lossy(), "/tmp" | "/var/tmp" | "/")) => {}
            Zone::Own => self.block("own-files", format!("{verb}{into} ReedClaw's own files: {shown}")),
            Zone::Credentials if reads => self.block("read-credentials", format!("reads keys or passwords: {shown}")),
            Zone::Device if reads => self.block("device", format!("reads a device: {shown}")),
            Zone::Forbidden if reads && !is_public(path) => {
                self.block("forbidden-path", format!("{shown} is in security.forbidden_paths"));
            }
            Zone::System | Zone::Forbidden if reads && (is_for_all(path) || self.map.is_fact(path)) => {}
            zone if zone <= Zone::Unknown => {
                if path.is_open() || reads && zone == Zone::Unknown {
                    self.high("unknown-path", format!("{verb}{at} a path that isn't known: {shown}"));
                } else if reads && self.map.holds_forbidden(path) {
                    self.high(
                        "holds-forbidden",
                        format!("reads {shown}, which holds what security.forbidden_paths names"),
                    );
                }
            }
            zone => {
                self.high("read-outside", format!("{verb} outside the workspace: {shown}"));
                self.needs_to_read(zone, path);
            }
        }
    }

    /// Notes the need: a jail shows the system read-only, and hides homes except for tools, and what the config forbids.
    fn needs_to_read(&mut self, zone: Zone, path: &Text) {
        let is_hidden = match zone {
            Zone::Home | Zone::Startup | Zone::Credentials | Zone::Outside => !self.map.is_tool(path),
            Zone::Forbidden => !is_public(path),
            Zone::System => path.head().starts_with("/root") && !self.map.is_tool(path),
            _ => false,
        };
        if is_hidden {
            self.need(Need::Read { path: path.shown() });
        }
    }

    /// A file is changed; `path` is absolute.
    pub(super) fn writes(&mut self, path: &Text, how: WriteKind) {
        let mut path = path.clone();
        let shown = path.shown();
        if shown.starts_with("/dev/fd/") {
            return;
        }
        // Writing to a directory for temporary files means writing a file in it.
        if matches!(how, WriteKind::Write | WriteKind::Append) && matches!(path.lossy(), "/tmp" | "/var/tmp") {
            path.push_str("/file");
        }
        if self.elsewhere == Elsewhere::Here {
            self.effect(Effect::Write { path: shown.clone(), how });
        }
        // Every file that a search finds.
        if how == WriteKind::Delete
            && let Some(last) = Place::of(&path).parts.last()
            && last.pieces() == [Piece::Star, Piece::Star, Piece::Unknown(Source::Name)]
            && self.map.is_vital(&Place::of(&path))
        {
            self.block("delete-tree", format!("deletes all files below {shown}"));
        }
        let verb = match how {
            WriteKind::Write | WriteKind::Append => "writes",
            WriteKind::Delete | WriteKind::DeleteTree => "deletes",
            WriteKind::Mode => "changes the mode or owner of",
            WriteKind::Move => "moves",
        };
        let text = format!("{verb} {shown}");
        let zone = self.map.zone(&path);
        if self.elsewhere != Elsewhere::Here {
            return self.high("elsewhere", format!("{text}, on another machine"));
        }
        match zone {
            Zone::Own => self.block("own-files", format!("{text}, ReedClaw's own")),
            Zone::Procedure => self.block("own-files", format!("{text}, a file of a procedure, which only you write")),
            Zone::System => self.block("system-path", format!("{text}, a path of the system")),
            Zone::Forbidden => self.block("forbidden-path", format!("{text}, which is in security.forbidden_paths")),
            Zone::Startup if !is_gone(how) && self.map.may_be_asked(&path) => {
                self.high("startup-file", format!("{text}, which other programs run"));
                self.need(Need::Write { path: shown });
            }
            Zone::Startup => self.block("startup-file", format!("{text}, which runs when a shell or session starts")),
            Zone::Credentials => self.block("credentials", format!("{text}, which holds keys or passwords")),
            Zone::Device => self.block("device", format!("{text}, a device")),
            Zone::Readable | Zone::Home | Zone::Outside => {
                // A path that isn't completely known may be everything there.
                if is_gone(how) || path.as_str().is_none() {
                    self.block("outside-workspace", format!("{text}, outside the workspace"));
                } else {
                    self.high("outside-workspace", format!("{text}, outside the workspace"));
                }
                self.need(Need::Write { path: shown });
            }
            Zone::Unknown => self.high("unknown-path", format!("{verb} a path that isn't known: {shown}")),
            Zone::Protected => {
                self.high("protected", format!("{text}, which makes other programs run things"));
            }
            Zone::Sink if matches!(how, WriteKind::Write | WriteKind::Append) => {}
            Zone::Sink => self.block("device", format!("{text}, a device")),
            Zone::Temporary | Zone::Workspace => {
                let deletes = matches!(how, WriteKind::Delete | WriteKind::DeleteTree);
                let risk = if deletes || path.is_open() { Risk::High } else { Risk::Medium };
                self.note(risk, if deletes { "delete" } else { "write" }, text);
            }
        }
    }

    /// Notes that a directory is removed or changed with everything below it; `path` is absolute.
    pub(super) fn whole_tree(&mut self, path: &Text, how: WriteKind) {
        let verb = if how == WriteKind::Mode { "changes the mode or owner of" } else { "deletes" };
        let rule = if how == WriteKind::Mode { "mode-tree" } else { "delete-tree" };
        // A variable that nothing sets is empty: then it is another tree.
        let empty = Place::of(&path.without_unset());
        let place = Place::of(path);
        let is_scratch =
            |place: &Place| place.without_all().parts.first().is_some_and(|top| top.as_str() == Some("tmp"));
        let is_vital = |place: &Place| match self.elsewhere {
            Elsewhere::Container if is_scratch(place) => false,
            Elsewhere::Here => {
                self.map.is_vital(place) && (how != WriteKind::Mode || place.without_all() != self.map.workspace)
            }
            // There the directories of the system count, and no workspace.
            _ => place.without_all().parts.len() <= 1 && self.map.is_vital(place),
        };
        if is_vital(&place) || path.has_unset() && !path.without_unset().is_empty() && is_vital(&empty) {
            self.block(rule, format!("{verb} {} and all below it", path.shown()));
        } else if place.is_open {
            self.high("unknown-tree", format!("{verb} all below a path that isn't known: {}", path.shown()));
        }
        self.writes(path, how);
    }

    /// Something is moved away; `path` is absolute.
    pub(super) fn moves_away(&mut self, path: &Text, into: Zone) {
        let place = Place::of(path);
        let is_all = place.parts.last().is_some_and(super::place::is_all);
        if self.elsewhere == Elsewhere::Here && self.map.is_vital(&place) && !(is_all && into <= Zone::Protected) {
            self.block("move-tree", format!("moves {} away", path.shown()));
        }
        self.writes(path, WriteKind::Move);
    }

    /// Notes a connection to another machine. What this machine answers itself needs nothing.
    pub(super) fn net(&mut self, host: &str) {
        if self.elsewhere != Elsewhere::Here {
            return;
        }
        self.effect(Effect::Net { host: host.to_owned() });
        let text = if host.is_empty() { "uses the network".to_owned() } else { format!("speaks to {host}") };
        self.high("network", text);
        if !is_loopback(host) {
            self.need(Need::Network { host: host.to_owned() });
        }
    }

    /// Notes an action on outside processes, services or devices.
    pub(super) fn host(&mut self, what: String) {
        if self.elsewhere == Elsewhere::Here {
            self.need(Need::Host { what });
        }
    }
}

/// Returns whether something is no longer at its place afterwards: outside, the answer to a question can't undo that.
fn is_gone(how: WriteKind) -> bool {
    matches!(how, WriteKind::Delete | WriteKind::DeleteTree | WriteKind::Move)
}

/// Returns whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    matches!(host, "localhost" | "::1" | "0.0.0.0" | "ip6-localhost")
        || host.ends_with(".localhost")
        || host.strip_prefix("127.").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Directories of programs, libraries and their documents.
fn is_for_all(path: &Text) -> bool {
    let place = Place::of(path);
    !path.is_open()
        && place.parts.first().is_some_and(|first| matches!(first.lossy(), "usr" | "bin" | "sbin" | "lib" | "lib64"))
}

/// System directories that every user may read: reading there reveals no secrets.
fn is_public(path: &Text) -> bool {
    let place = Place::of(path);
    let first = place.parts.first().map(Text::lossy);
    first.is_none_or(|first| listed("public").contains(&first))
        || place.parts.iter().any(|part| part.as_str() == Some(".ssh"))
}
