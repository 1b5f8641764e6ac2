//! Paths: their meaning for the rules. Compared component by component, never as text; must not know what is done to a path.

use super::piece::{Piece, Source, Text};
use super::programs::listed;
use super::{Files, Rules};
use crate::proto::known_paths;

/// The file of a procedure, and the directory of a workspace's procedures.
pub(super) const PROCEDURE: &str = "SOP.toml";
const PROCEDURES: &str = "sops";

/// Place to which a path leads, the least harm first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Zone {
    /// A place that swallows what is written: `/dev/null` and the terminal.
    Sink,
    /// A directory for temporary files.
    Temporary,
    Workspace,
    /// A name inside the workspace that makes other programs run things, such as `.git/hooks`.
    Protected,
    /// A procedure's file in the workspace, which only a person writes.
    Procedure,
    /// In a directory outside the workspace that may be read.
    Readable,
    Unknown,
    /// Outside the workspace, inside a home.
    Home,
    Outside,
    /// A file that is read when a shell or a session starts.
    Startup,
    /// Keys and passwords.
    Credentials,
    /// A path that the config forbids.
    Forbidden,
    /// A directory of the system, or something in it, that nothing may write.
    System,
    Device,
    /// ReedClaw's own files.
    Own,
}

/// A path's components from the root, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parts: Vec<Text>,
    /// `true` if part of it may be anything.
    pub(super) is_open: bool,
}

impl Place {
    /// Reads an absolute path.
    pub(super) fn of(path: &Text) -> Self {
        let mut parts: Vec<Text> = Vec::new();
        for part in path.split(|c| c == '/') {
            match part.as_str() {
                Some("" | ".") => {}
                Some("..") => _ = parts.pop(),
                _ => parts.push(part),
            }
        }
        Self { is_open: path.is_open(), parts }
    }

    pub(super) fn text(&self) -> Text {
        Text::from("/").then(&Text::join(&self.parts, "/"))
    }

    /// Returns it as text; the original if its beginning isn't known.
    pub(super) fn text_or(&self, path: &Text) -> Text {
        if self.starts_open() || path.head().is_empty() { path.clone() } else { self.text() }
    }

    /// Returns whether it is `base` or below it, patterns counted as what they may match.
    fn is_below(&self, base: &Self) -> bool {
        self.parts.len() >= base.parts.len() && self.meets(base)
    }

    /// Returns whether the components that both have may be the same.
    fn meets(&self, base: &Self) -> bool {
        base.parts.iter().zip(&self.parts).all(|(base, part)| part.may_match(base.lossy(), false))
    }

    /// Returns whether it is `base` or below it for certain.
    fn is_surely_below(&self, base: &Self) -> bool {
        self.parts.len() >= base.parts.len() && base.parts.iter().zip(&self.parts).all(|(base, part)| part == base)
    }

    fn starts_open(&self) -> bool {
        self.parts
            .first()
            .is_some_and(|part| matches!(part.pieces().first(), Some(Piece::Unknown(from)) if *from > Source::Name))
    }

    /// Returns the components from one on, as one known path; empty if the first isn't known.
    fn known_from(&self, from: usize) -> String {
        let known: Vec<&str> = self.parts[from..].iter().map_while(Text::as_str).collect();
        known.join("/")
    }

    fn has_hole_from(&self, from: usize) -> bool {
        self.parts[from..].iter().any(|part| part.as_str().is_none())
    }

    /// Returns whether the components from one on may be one of these names, or below it.
    fn may_hold(&self, from: usize, names: &[&str]) -> bool {
        self.has_hole_from(from)
            && names.iter().any(|name| {
                let count = name.split('/').count();
                self.parts.len() - from >= count
                    && name.split('/').zip(&self.parts[from..]).all(|(name, part)| part.may_match(name, false))
            })
    }

    /// The place without a pattern at its end that matches everything.
    pub(super) fn without_all(&self) -> Self {
        let mut place = self.clone();
        while place.parts.last().is_some_and(is_all) {
            place.parts.pop();
        }
        place
    }
}

fn is_one_of(part: Option<&Text>, names: &[&str]) -> bool {
    part.is_some_and(|part| names.iter().any(|name| part.may_match(name, false)))
}

/// The rules about paths of a session, read once.
pub(super) struct Map<'a> {
    pub(super) workspace: Place,
    home: Place,
    readable: Vec<Place>,
    forbidden: Vec<Place>,
    own: Vec<Place>,
    pub(super) rules: &'a Rules,
    files: &'a dyn Files,
}

impl<'a> Map<'a> {
    pub(super) fn new(rules: &'a Rules, files: &'a dyn Files) -> Self {
        let place = |path: &String| match path.strip_prefix('~') {
            Some(below) if below.is_empty() || below.starts_with('/') => {
                Place::of(&format!("{}{below}", rules.home).into())
            }
            _ => Place::of(&path.as_str().into()),
        };
        Self {
            workspace: place(&rules.workspace),
            home: place(&rules.home),
            readable: rules.readable.iter().map(place).collect(),
            forbidden: rules.forbidden_paths.iter().map(place).collect(),
            own: rules.own_paths.iter().map(place).collect(),
            rules,
            files,
        }
    }

    /// Returns the kind of place that an absolute path leads to, with its links followed if the disk is known; the more dangerous
    /// one of both if they differ.
    pub(super) fn zone(&self, path: &Text) -> Zone {
        let zone = self.zone_of(&Place::of(path));
        let Some(known) = path.as_str() else { return zone };
        match self.files.canonical(known) {
            Some(real) if real != known => zone.max(self.zone_of(&Place::of(&real.into()))),
            _ => zone,
        }
    }

    /// Returns whether links on a path are known to lead out of the workspace, wherever that is.
    pub(super) fn leads_out(&self, path: &str) -> bool {
        let Some(real) = self.files.canonical(path) else { return false };
        let root = self.files.canonical(&self.rules.workspace).unwrap_or_else(|| self.rules.workspace.clone());
        !Place::of(&real.into()).is_surely_below(&Place::of(&root.into()))
    }

    /// Returns whether a rule names a path below a directory.
    pub(super) fn names_below(&self, directory: &str) -> bool {
        let directory = Place::of(&directory.into());
        self.own.iter().chain(&self.forbidden).any(|named| named.is_surely_below(&directory))
    }

    fn zone_of(&self, place: &Place) -> Zone {
        if place.starts_open() {
            return Zone::Unknown;
        }
        if self.own.iter().any(|own| place.is_below(own)) {
            return Zone::Own;
        }
        if let Some(zone) = device(place) {
            return zone;
        }
        let in_workspace = place.is_surely_below(&self.workspace);
        let is_forbidden = self.forbidden.iter().any(|base| place.is_below(base));
        let is_readable = !in_workspace && self.readable.iter().any(|base| place.is_surely_below(base));
        if is_temporary(place) && !in_workspace && !is_readable && !is_forbidden && !self.is_beside_work(place) {
            return Zone::Temporary;
        }
        if in_workspace && !is_forbidden {
            return self.inside(place);
        }
        if self.is_credential(place) {
            return Zone::Credentials;
        }
        if is_forbidden {
            return Zone::Forbidden;
        }
        if self.is_startup(place) {
            return Zone::Startup;
        }
        if is_readable {
            return Zone::Readable;
        }
        let is_system =
            is_one_of(place.parts.first(), listed("system")) || place.parts.is_empty() || is_system_below_var(place);
        if is_system && !(self.rules.home == "/root" && place.is_surely_below(&self.home)) {
            return Zone::System;
        }
        if place.is_below(&self.home) || is_one_of(place.parts.first(), &["home"]) { Zone::Home } else { Zone::Outside }
    }

    fn inside(&self, place: &Place) -> Zone {
        let from = self.workspace.parts.len();
        let relative = place.known_from(from);
        let last = place.parts[from..].last().map_or("", Text::lossy);
        let is_git = last.eq_ignore_ascii_case(".git");
        let is_procedures = place.parts[from..].first().and_then(Text::as_str).is_some_and(|top| top == PROCEDURES);
        if last.eq_ignore_ascii_case(PROCEDURE) || is_procedures && place.parts.len() > from + 2 {
            return Zone::Procedure;
        }
        if is_git || known_paths::protected(relative.as_bytes()).is_some() {
            return Zone::Protected;
        }
        let hits = |name: &str| {
            (from..place.parts.len()).any(|at| place.may_hold(at, &[name]) && !place.parts[at..].iter().any(is_all))
        };
        if place.has_hole_from(from) && known_paths::protected_names().any(hits) {
            Zone::Protected
        } else {
            Zone::Workspace
        }
    }

    /// Returns whether the home or the workspace is in the same entry of a temporary directory, which then isn't scratch space.
    fn is_beside_work(&self, place: &Place) -> bool {
        let entry = |base: &Place| {
            let depth = if is_one_of(base.parts.first(), &["tmp"]) { 2 } else { 3 };
            is_temporary(base) && base.parts.get(..depth) == place.parts.get(..depth)
        };
        entry(&self.home) || entry(&self.workspace)
    }

    /// Number of components that name a home, if the path is in one.
    fn home_length(&self, place: &Place) -> Option<usize> {
        if place.is_below(&self.home) {
            Some(self.home.parts.len())
        } else if is_one_of(place.parts.first(), &["root"]) {
            Some(1)
        } else if is_one_of(place.parts.first(), &["home", "Users"]) && place.parts.len() > 2 {
            Some(2)
        } else {
            None
        }
    }

    /// Returns whether a path names keys or passwords.
    fn is_credential(&self, place: &Place) -> bool {
        let absolute = format!("/{}", place.known_from(0));
        if known_paths::is_system_credential(absolute.as_bytes()) && (absolute != "/etc/ssh" || !place.has_hole_from(0))
        {
            return absolute != "/etc/ssh";
        }
        if absolute == "/etc"
            && place.may_hold(1, &["shadow", "gshadow", "sudoers"])
            && !place.parts[1..].iter().any(is_all)
        {
            return true;
        }
        let Some(from) = self.home_length(place) else { return false };
        let below = place.known_from(from);
        if known_paths::is_credential(below.as_bytes()) {
            // A pattern that matches only public keys.
            let is_public = |last: &Text| matches!(last.pieces(), [.., Piece::Known(end)] if end.ends_with(".pub"));
            return !place.parts.last().is_some_and(is_public);
        }
        place.may_hold(from, known_paths::CREDENTIALS)
    }

    /// Returns whether a path, its links followed, is among the tools of the home. A jail shows these, but masks their credentials.
    pub(super) fn is_tool(&self, path: &Text) -> bool {
        let shown = Place::of(path);
        let known = path.as_str().map_or_else(|| format!("/{}", shown.known_from(0)), str::to_owned);
        let real = |path: &str| Place::of(&self.files.canonical(path).unwrap_or_else(|| path.to_owned()).into());
        let is_in = |place: &Place, home: &Place| {
            place.is_surely_below(home) && known_paths::is_tool(place.known_from(home.parts.len()).as_bytes())
        };
        !path.is_open() && is_in(&shown, &self.home) && is_in(&real(&known), &real(&self.home.text().shown()))
    }

    /// Returns whether something in the workspace that the config forbids lies below a path.
    pub(super) fn holds_forbidden(&self, path: &Text) -> bool {
        let mut inside = self.forbidden.iter().filter(|base| base.is_surely_below(&self.workspace)).peekable();
        inside.peek().is_some() && {
            let place = Place::of(path);
            inside.any(|base| base.is_surely_below(&place))
        }
    }

    /// Returns whether a file only describes the machine, unless the user forbids it by its own name.
    pub(super) fn is_fact(&self, path: &Text) -> bool {
        path.as_str().is_some_and(|path| listed("facts").contains(&path)) && !self.forbidden.contains(&Place::of(path))
    }

    /// Returns whether a person may let a command write this file, which other programs run.
    pub(super) fn may_be_asked(&self, path: &Text) -> bool {
        let place = Place::of(path);
        let Some(from) = self.home_length(&place) else { return false };
        let below = place.known_from(from);
        let is_below =
            |name: &&str| below.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let name = place.parts.last().map_or("", Text::lossy);
        let hides = ["destroyers", "everyday"].iter().any(|list| listed(list).contains(&name));
        path.as_str().is_some() && !hides && listed("asked-startup").iter().any(is_below)
    }

    fn is_startup(&self, place: &Place) -> bool {
        let Some(from) = self.home_length(place) else { return false };
        let below = place.known_from(from);
        known_paths::is_startup(below.as_bytes()) || place.may_hold(from, known_paths::STARTUP)
    }

    /// Returns whether something important would be gone completely with this path: the root, a directory of the system, the
    /// home, the workspace or a directory that contains it.
    pub(super) fn is_vital(&self, place: &Place) -> bool {
        if place.starts_open() {
            return false;
        }
        if place.parts.last().is_some_and(is_all) {
            let parent = Place { parts: place.parts[..place.parts.len() - 1].to_vec(), is_open: false };
            return self.is_vital(&parent);
        }
        let holds = |base: &Place| place.parts.len() <= base.parts.len() && place.meets(base);
        if holds(&self.workspace) || holds(&self.home) {
            return true;
        }
        match place.parts.as_slice() {
            [] => true,
            [top] => ["system", "tops"].iter().any(|name| is_one_of(Some(top), listed(name))) || top.has_pattern(),
            [top, below] => {
                is_one_of(Some(top), &["var"]) && is_one_of(Some(below), listed("deep-system"))
                    || is_one_of(Some(top), &["home", "Users"])
            }
            _ => false,
        }
    }
}

/// Returns whether a last component matches everything in its directory: `*`, `.*`, `[a-z]*`, `?*`.
pub(super) fn is_all(part: &Text) -> bool {
    // Everything except what it names.
    if part.head().starts_with("!(") || part.pieces().starts_with(&[Piece::Star, Piece::Star]) {
        return true;
    }
    part.pieces().contains(&Piece::Star)
        && part.pieces().iter().all(|piece| match piece {
            Piece::Star | Piece::One => true,
            Piece::Known(text) => text.bytes().all(|byte| byte == b'.'),
            Piece::Unknown(_) => false,
        })
}

fn device(place: &Place) -> Option<Zone> {
    if !is_one_of(place.parts.first(), &["dev"]) {
        return None;
    }
    let second = place.parts.get(1)?;
    Some(if second.as_str().is_some_and(|name| listed("sinks").contains(&name)) {
        Zone::Sink
    } else if second.as_str() == Some("shm") {
        // Its contents are like those of any directory for temporary files.
        return (place.parts.len() <= 2).then_some(Zone::System);
    } else {
        Zone::Device
    })
}

fn is_temporary(place: &Place) -> bool {
    let known: Vec<&str> = place.parts.iter().take(3).map(Text::lossy).collect();
    matches!(known.as_slice(), ["tmp", _, ..] | ["var", "tmp", _] | ["dev", "shm", _])
}

fn is_system_below_var(place: &Place) -> bool {
    is_one_of(place.parts.first(), &["var"]) && is_one_of(place.parts.get(1), &["lib", "spool", "log", "run", "mail"])
}
