//! Paths: what a path means for the rules. Compared component by component, never as text; what isn't known in a path
//! may be anything.

use super::text::{self, has_open, may_match};
use super::{Files, Rules};

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Zone {
    /// A place that swallows what is written: `/dev/null` and the terminal.
    Sink,
    /// A directory for temporary files.
    Temporary,
    /// Inside the workspace.
    Workspace,
    /// A name inside the workspace that makes other programs run things, such as `.git/hooks`.
    Protected,
    /// Not known.
    Unknown,
    /// Outside the workspace, inside the home.
    Home,
    /// Elsewhere.
    Outside,
    /// A file that is read when a shell or a session starts.
    Startup,
    /// Keys and passwords.
    Credentials,
    /// A path that the config forbids.
    Forbidden,
    /// A directory of the system, or something in it.
    System,
    /// A device.
    Device,
    /// ReedClaw's own files.
    Own,
}

/// A path's components from the root, without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) parts: Vec<String>,
    /// Whether part of it may be anything.
    pub(super) is_open: bool,
}

/// Top directories of the system, of which nothing below may be written.
const SYSTEM: [&str; 15] = [
    "etc", "boot", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "root", "dev", "proc", "sys", "run", "snap",
];
/// Top directories that may not be deleted, though something below them may be.
const TOPS: [&str; 9] = ["home", "var", "opt", "srv", "mnt", "media", "tmp", "lost+found", "Users"];
/// Directories two deep that are as good as a top one.
const DEEP_SYSTEM: [&str; 12] =
    ["lib", "log", "spool", "cache", "mail", "backups", "local", "opt", "run", "lock", "www", "db"];
/// Devices that anybody may write.
const SINKS: [&str; 11] =
    ["null", "zero", "full", "tty", "stdin", "stdout", "stderr", "fd", "ptmx", "random", "urandom"];
/// Directories in the home that hold keys.
const KEY_DIRS: [&str; 10] =
    [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla", ".thunderbird", ".pki"];
/// Directories in `.config` and `.local/share` that hold keys.
const KEY_SUBDIRS: [&str; 10] =
    ["gh", "gcloud", "hub", "keyrings", "kwalletd", "rclone", "op", "google-chrome", "chromium", "doctl"];
/// Files in the home that hold keys.
const KEY_FILES: [&str; 12] = [
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".my.cnf",
    ".vault-token",
    ".s3cfg",
    ".boto",
    ".bash_history",
    ".zsh_history",
    ".Xauthority",
];
/// Files of the system that hold keys.
const SYSTEM_KEYS: [&str; 6] = ["shadow", "gshadow", "shadow-", "gshadow-", "sudoers", "krb5.keytab"];
/// Files in the home that are read when a shell or a session starts.
const STARTUP: [&str; 24] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".xinitrc",
    ".xsession",
    ".xprofile",
    ".xsessionrc",
    ".pam_environment",
    ".gitconfig",
    ".vimrc",
];
/// Directories in the home from which programs are started.
const STARTUP_DIRS: [[&str; 2]; 5] = [
    [".config", "autostart"],
    [".config", "systemd"],
    [".config", "fish"],
    [".config", "environment.d"],
    [".config", "git"],
];
/// Names in a workspace that make other programs run things.
const PROTECTED: [&str; 9] =
    [".envrc", ".vscode", ".idea", ".cursor", ".mcp.json", ".reedclaw.lua", ".claude", ".codex", ".gitmodules"];
/// Names in `.git` that do.
const PROTECTED_GIT: [&str; 4] = ["hooks", "config", "modules", "info"];

impl Place {
    /// Reads an absolute path.
    pub(super) fn of(path: &str) -> Self {
        let mut parts: Vec<String> = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => _ = parts.pop(),
                part => parts.push(part.to_owned()),
            }
        }
        Self { is_open: has_open(path), parts }
    }

    /// Writes it.
    pub(super) fn text(&self) -> String {
        format!("/{}", self.parts.join("/"))
    }

    /// Whether it is `base` or below it, as far as it is known.
    pub(super) fn is_below(&self, base: &Self) -> bool {
        self.parts.len() >= base.parts.len()
            && base.parts.iter().zip(&self.parts).all(|(base, part)| {
                part == base || has_hole(part) && !part.contains(text::NAME) && may_match(part, base)
            })
    }

    /// Whether it is `base` or below it for certain.
    fn is_surely_below(&self, base: &Self) -> bool {
        self.parts.len() >= base.parts.len() && base.parts.iter().zip(&self.parts).all(|(base, part)| part == base)
    }

    fn equals(&self, other: &Self) -> bool {
        self.parts.len() == other.parts.len() && self.is_below(other)
    }

    fn starts_open(&self) -> bool {
        self.parts.first().is_some_and(|part| part.starts_with(text::is_open))
    }
}

fn has_hole(part: &str) -> bool {
    part.chars().any(text::is_reserved)
}

fn may_be(part: &str, name: &str) -> bool {
    if has_hole(part) { may_match(part, name) } else { part == name }
}

fn is_one_of(part: Option<&String>, names: &[&str]) -> bool {
    part.is_some_and(|part| names.iter().any(|name| may_be(part, name)))
}

/// Compares without regard to case, for names that a disk without case would take for the same.
fn is_one_of_folded(part: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        part.eq_ignore_ascii_case(name) || has_hole(part) && !part.contains(text::NAME) && may_match(part, name)
    })
}

/// The rules about paths of a session, read once.
pub(super) struct Map<'a> {
    pub(super) workspace: Place,
    pub(super) home: Place,
    forbidden: Vec<Place>,
    own: Vec<Place>,
    pub(super) rules: &'a Rules,
    files: &'a dyn Files,
}

impl<'a> Map<'a> {
    pub(super) fn new(rules: &'a Rules, files: &'a dyn Files) -> Self {
        let place = |path: &String| match path.strip_prefix('~') {
            Some(below) if below.is_empty() || below.starts_with('/') => Place::of(&format!("{}{below}", rules.home)),
            _ => Place::of(path),
        };
        Self {
            workspace: Place::of(&rules.workspace),
            home: Place::of(&rules.home),
            forbidden: rules.forbidden_paths.iter().map(place).collect(),
            own: rules.own_paths.iter().map(place).collect(),
            rules,
            files,
        }
    }

    /// Where a path leads, links on it followed where the disk is known; the more dangerous of both where they differ.
    pub(super) fn zone(&self, path: &str) -> Zone {
        let zone = self.zone_of(&Place::of(path));
        if !text::is_known(path) {
            return zone;
        }
        match self.files.canonical(path) {
            Some(real) if real != path => zone.max(self.zone_of(&Place::of(&real))),
            _ => zone,
        }
    }

    /// Whether links on a path are known to lead out of the workspace, wherever that is.
    pub(super) fn leads_out(&self, path: &str) -> bool {
        let Some(real) = self.files.canonical(path) else { return false };
        let root = self.files.canonical(&self.rules.workspace).unwrap_or_else(|| self.rules.workspace.clone());
        !Place::of(&real).is_surely_below(&Place::of(&root))
    }

    fn zone_of(&self, place: &Place) -> Zone {
        if place.starts_open() {
            return Zone::Unknown;
        }
        if self.own.iter().any(|own| place.is_below(own)) {
            return Zone::Own;
        }
        if let Some(zone) = self.device(place) {
            return zone;
        }
        let in_workspace = place.is_surely_below(&self.workspace);
        if is_temporary(place) && !in_workspace && !self.is_forbidden(place) && !self.is_beside_work(place) {
            return Zone::Temporary;
        }
        if self.is_forbidden(place) {
            return if self.is_credential(place) { Zone::Credentials } else { Zone::Forbidden };
        }
        if self.is_credential(place) && !in_workspace {
            return Zone::Credentials;
        }
        if self.is_startup(place) {
            return Zone::Startup;
        }
        if in_workspace {
            let inside = &place.parts[self.workspace.parts.len()..];
            return if is_protected(inside) { Zone::Protected } else { Zone::Workspace };
        }
        if is_one_of(place.parts.first(), &SYSTEM) || place.parts.is_empty() || is_system_below_var(place) {
            return Zone::System;
        }
        if place.is_below(&self.home) { Zone::Home } else { Zone::Outside }
    }

    /// Whether the home or the workspace lies in the same entry of a temporary directory: that is no scratch then.
    fn is_beside_work(&self, place: &Place) -> bool {
        let entry = |base: &Place| {
            let depth = if base.parts.first().is_some_and(|top| top == "var") { 3 } else { 2 };
            is_temporary(base) && base.parts.get(..depth) == place.parts.get(..depth)
        };
        entry(&self.home) || entry(&self.workspace)
    }

    fn is_forbidden(&self, place: &Place) -> bool {
        self.forbidden.iter().any(|base| place.is_below(base))
    }

    fn device(&self, place: &Place) -> Option<Zone> {
        let first = place.parts.first()?;
        if !may_be(first, "dev") {
            return None;
        }
        let second = place.parts.get(1)?;
        Some(if SINKS.contains(&second.as_str()) || matches!(second.as_str(), "tcp" | "udp" | "pts") {
            Zone::Sink
        } else if second == "shm" {
            if place.parts.len() > 2 { Zone::Temporary } else { Zone::System }
        } else {
            Zone::Device
        })
    }

    /// Whether a path names keys or passwords.
    pub(super) fn is_credential(&self, place: &Place) -> bool {
        let parts = &place.parts;
        if is_one_of(parts.first(), &["etc"]) {
            return is_one_of(parts.get(1), &SYSTEM_KEYS)
                || parts.get(1).is_some_and(|part| part == "ssh")
                    && parts.get(2).is_some_and(|name| may_be(name, "ssh_host_rsa_key") || name.ends_with("_key"));
        }
        let below = if place.is_below(&self.home) {
            &parts[self.home.parts.len()..]
        } else if is_one_of(parts.first(), &["root"]) {
            &parts[1..]
        } else if is_one_of(parts.first(), &["home"]) && parts.len() > 2 {
            &parts[2..]
        } else {
            return false;
        };
        let public = |name: &String| {
            name.ends_with(".pub") || matches!(name.as_str(), "known_hosts" | "config" | "authorized_keys" | "id_*.pub")
        };
        if is_one_of(below.first(), &[".ssh"]) {
            return below.get(1).is_none_or(|name| !public(name));
        }
        is_one_of(below.first(), &KEY_DIRS)
            || is_one_of(below.first(), &KEY_FILES)
            || is_one_of(below.first(), &[".config"]) && is_one_of(below.get(1), &KEY_SUBDIRS)
            || is_one_of(below.first(), &[".local"]) && is_one_of(below.get(2), &KEY_SUBDIRS)
    }

    fn is_startup(&self, place: &Place) -> bool {
        if !place.is_below(&self.home) {
            return false;
        }
        let below = &place.parts[self.home.parts.len()..];
        let Some(first) = below.first() else { return false };
        // A pattern such as `*` isn't taken for each of these names: the home itself is judged then.
        if has_hole(first) && !first.starts_with('.') {
            return false;
        }
        below.len() == 1 && is_one_of_folded(first, &STARTUP)
            || STARTUP_DIRS.iter().any(|[one, two]| first == one && is_one_of(below.get(1), &[two]))
            || first == ".local" && below.get(1).is_some_and(|part| part == "bin")
    }

    /// Whether all of something important would be gone with this path: the root, a directory of the system, the home,
    /// the workspace or what holds it.
    pub(super) fn is_vital(&self, place: &Place) -> bool {
        if place.starts_open() {
            return false;
        }
        let all_below = place.parts.last().is_some_and(|last| is_all(last));
        if all_below {
            let parent = Place { parts: place.parts[..place.parts.len() - 1].to_vec(), is_open: false };
            return self.is_vital(&parent);
        }
        if self.workspace.is_below(place) || self.home.is_below(place) {
            return true;
        }
        if self.workspace_part_of(place) {
            return true;
        }
        match place.parts.as_slice() {
            [] => true,
            [top] => is_one_of(Some(top), &SYSTEM) || is_one_of(Some(top), &TOPS) || has_hole(top),
            [top, below] => {
                is_one_of(Some(top), &["var"]) && is_one_of(Some(below), &DEEP_SYSTEM)
                    || is_one_of(Some(top), &["home"])
            }
            _ => false,
        }
    }

    /// Whether a pattern in place of a name may hit the workspace or the home.
    fn workspace_part_of(&self, place: &Place) -> bool {
        let may_hit = |base: &Place| {
            place.parts.len() <= base.parts.len()
                && !place.is_open
                && place.parts.iter().zip(&base.parts).all(|(part, base)| may_be(part, base))
        };
        place.parts.iter().any(|part| has_hole(part)) && (may_hit(&self.workspace) || may_hit(&self.home))
    }

    /// Whether it is the workspace itself, or one with all in it.
    pub(super) fn is_workspace_root(&self, place: &Place) -> bool {
        place.equals(&self.workspace)
    }
}

/// Whether a last component matches everything in its directory: `*`, `.*`, `[a-z]*`, `?*`.
pub(super) fn is_all(part: &str) -> bool {
    // All but what stands in it.
    if part.starts_with("!(") || part == text::ALL_BELOW {
        return true;
    }
    if !part.contains(text::STAR) {
        return false;
    }
    let mut in_bracket = false;
    part.chars().all(|c| {
        match c {
            text::BRACKET => in_bracket = true,
            ']' => {
                in_bracket = false;
                return true;
            }
            _ => {}
        }
        in_bracket || matches!(c, text::STAR | text::QUESTION | text::BRACKET | '.' | '!')
    })
}

fn is_temporary(place: &Place) -> bool {
    match place.parts.as_slice() {
        [tmp, _, ..] if tmp == "tmp" => true,
        [var, tmp, _, ..] if var == "var" && tmp == "tmp" => true,
        _ => false,
    }
}

fn is_system_below_var(place: &Place) -> bool {
    is_one_of(place.parts.first(), &["var"]) && is_one_of(place.parts.get(1), &["lib", "spool", "log", "run", "mail"])
}

/// Whether a path inside the workspace is one that makes other programs run things.
fn is_protected(inside: &[String]) -> bool {
    inside.iter().enumerate().any(|(at, part)| {
        is_one_of_folded(part, &PROTECTED) && !is_all(part)
            || part.eq_ignore_ascii_case(".git")
                && inside.get(at + 1).is_some_and(|next| is_one_of_folded(next, &PROTECTED_GIT))
    })
}
