//! What a script does to the world → reasons: the rules about reading, writing, deleting, the network and the environment.

use super::place::{Place, Zone};
use super::run::Run;
use super::text::{self, ALL_BELOW, has_open, is_known};
use crate::proto::action::{Effect, Risk, WriteKind};

/// Variables that say which program or code another program runs.
const CODE_VARIABLES: [&str; 28] = [
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "SYSTEMD_PAGER",
    "AWS_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "FCEDIT",
    "GIT_SEQUENCE_EDITOR",
    "SUDO_EDITOR",
    "SYSTEMD_EDITOR",
    "KUBE_EDITOR",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "GIT_PROXY_COMMAND",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "PROMPT_COMMAND",
    "RSYNC_RSH",
    "CVS_RSH",
    "RUSTC_WRAPPER",
    "MAKEFLAGS",
];
/// Variables that change what programs load or find.
const LOAD_VARIABLES: [&str; 22] = [
    "PATH",
    "IFS",
    "BASH_ENV",
    "ENV",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "HOME",
    "GIT_DIR",
    "CLASSPATH",
    "TAR_OPTIONS",
    "RSYNC_OPTIONS",
    "GREP_OPTIONS",
    "HISTFILE",
];
const LOAD_PREFIXES: [&str; 8] = ["LD_", "DYLD_", "GIT_", "PYTHON", "BASH_FUNC_", "CARGO_", "npm_config_", "GLIBC_"];

impl Run<'_, '_> {
    /// A file's contents are read.
    pub(super) fn reads(&mut self, path: &str) {
        if path.starts_with("/dev/fd/") || path == "-" || path.is_empty() {
            return;
        }
        for path in self.absolute(path) {
            self.effect(Effect::Read { path: text::shown(&path) });
            let place = Place::of(&path);
            match self.map.zone(&path) {
                // In a container what is mounted is this machine's.
                Zone::Credentials if self.elsewhere == 0 || self.is_linked(&path) => {
                    self.block("read-credentials", format!("reads keys or passwords: {path}"));
                }
                Zone::Own => self.block("own-files", format!("reads ReedClaw's own files: {path}")),
                Zone::Device => self.block("device", format!("reads a device: {path}")),
                Zone::Forbidden if !is_public(&place) => {
                    self.block("forbidden-path", format!("{path} is in security.forbidden_paths"));
                }
                Zone::Sink | Zone::Temporary | Zone::Workspace | Zone::Protected if !place.is_open => {}
                Zone::Unknown | Zone::Sink | Zone::Temporary | Zone::Workspace | Zone::Protected => {
                    self.note(Risk::High, "unknown-path", format!("reads a path that isn't known: {path}"));
                }
                _ => self.note(Risk::High, "read-outside", format!("reads outside the workspace: {path}")),
            }
        }
    }

    /// Whether a path is behind a link or a mount that this very script made.
    fn is_linked(&self, path: &str) -> bool {
        self.links
            .values()
            .any(|to| path.strip_prefix(to.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// Names, sizes and dates are looked at.
    pub(super) fn lists(&mut self, path: &str) {
        for path in self.absolute(path) {
            self.effect(Effect::Read { path: text::shown(&path) });
            match self.map.zone(&path) {
                Zone::Sink | Zone::Temporary | Zone::Workspace | Zone::Protected => {}
                Zone::Own => self.block("own-files", format!("looks into ReedClaw's own files: {path}")),
                _ => self.note(Risk::High, "read-outside", format!("looks outside the workspace: {path}")),
            }
        }
    }

    /// A file is changed.
    pub(super) fn writes(&mut self, path: &str, how: WriteKind) {
        if path.starts_with("/dev/fd/") || path.is_empty() {
            return;
        }
        for mut path in self.absolute(path) {
            // What goes to a directory for temporary files goes into it.
            let into =
                matches!(how, WriteKind::Write | WriteKind::Append) && matches!(path.as_str(), "/tmp" | "/var/tmp");
            if into {
                path.push_str(&format!("/{}", text::NAME));
            }
            self.effect(Effect::Write { path: text::shown(&path), how });
            // Every file that `find` finds.
            if how == WriteKind::Delete
                && let Some(root) = path.strip_suffix(ALL_BELOW).and_then(|root| root.strip_suffix('/'))
                && self.map.is_vital(&Place::of(root))
            {
                self.block("delete-tree", format!("deletes all files below {root}/"));
            }
            self.writes_absolute(&path, how);
        }
    }

    fn writes_absolute(&mut self, path: &str, how: WriteKind) {
        let verb = match how {
            WriteKind::Write | WriteKind::Append => "writes",
            WriteKind::Delete | WriteKind::DeleteTree => "deletes",
            WriteKind::Mode => "changes the mode or owner of",
            WriteKind::Move => "moves",
        };
        let place = Place::of(path);
        let said = format!("{verb} {path}");
        let zone = self.map.zone(path);
        let in_container = self.elsewhere > 1;
        match zone {
            Zone::Own => self.block("own-files", format!("{said}, ReedClaw's own")),
            Zone::System | Zone::Forbidden | Zone::Startup | Zone::Credentials | Zone::Device if in_container => {
                self.note(Risk::High, "elsewhere", format!("{said}, in a container"));
            }
            Zone::System => self.block("system-path", format!("{said}, a path of the system")),
            Zone::Forbidden => self.block("forbidden-path", format!("{said}, which is in security.forbidden_paths")),
            Zone::Startup => self.block("startup-file", format!("{said}, which runs when a shell or session starts")),
            Zone::Credentials => self.block("credentials", format!("{said}, which holds keys or passwords")),
            Zone::Device => self.block("device", format!("{said}, a device")),
            Zone::Home | Zone::Outside if self.elsewhere > 0 => {
                self.note(Risk::High, "elsewhere", format!("{said}, on another machine"));
            }
            Zone::Home | Zone::Outside if self.map.rules.workspace_only => {
                self.block("outside-workspace", format!("{said}, outside the workspace"));
            }
            Zone::Home | Zone::Outside => self.note(Risk::High, "outside", format!("{said}, outside the workspace")),
            Zone::Unknown => self.note(Risk::High, "unknown-path", format!("{verb} a path that isn't known: {path}")),
            Zone::Protected => {
                self.note(Risk::High, "protected", format!("{said}, which makes other programs run things"));
            }
            Zone::Sink if matches!(how, WriteKind::Write | WriteKind::Append) => {}
            Zone::Sink => self.block("device", format!("{said}, a device")),
            Zone::Temporary | Zone::Workspace => {
                let deletes = matches!(how, WriteKind::Delete | WriteKind::DeleteTree);
                let risk = if deletes || place.is_open { Risk::High } else { Risk::Medium };
                self.note(risk, if deletes { "delete" } else { "write" }, said);
            }
        }
    }

    /// A directory goes, or changes, with all below it.
    pub(super) fn whole_tree(&mut self, path: &str, how: WriteKind) {
        let verb = if how == WriteKind::Mode { "changes the mode or owner of" } else { "deletes" };
        if path.is_empty() {
            return;
        }
        for path in self.absolute(path) {
            let place = Place::of(&path);
            let rule = if how == WriteKind::Mode { "mode-tree" } else { "delete-tree" };
            // In a container a directory for temporary files is nobody's.
            let is_scratch = self.elsewhere > 1 && matches!(strip_all(&place).parts.as_slice(), [tmp] if tmp == "tmp");
            if is_scratch {
                self.note(Risk::High, "elsewhere", format!("{verb} {path}, in a container"));
            } else if self.map.is_vital(&place)
                && (how != WriteKind::Mode || !self.map.is_workspace_root(&strip_all(&place)))
            {
                self.block(rule, format!("{verb} {path} and all below it"));
            } else if place.is_open {
                self.block_unknown("unknown-tree", format!("{verb} all below a path that isn't known: {path}"));
            }
        }
        self.writes(path, how);
    }

    /// Another machine is spoken to.
    pub(super) fn net(&mut self, host: &str) {
        let host = text::shown(host);
        self.effect(Effect::Net { host: host.clone() });
        let text = if host.is_empty() { "uses the network".to_owned() } else { format!("speaks to {host}") };
        self.note(Risk::High, "network", text);
    }

    /// A variable is set; `lasts` where that holds for later commands too.
    pub(super) fn environment_rules(&mut self, name: &str, value: &[String], lasts: bool) {
        let loads = LOAD_VARIABLES.contains(&name) || LOAD_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let runs = CODE_VARIABLES.contains(&name);
        if !loads && !runs && !matches!(name, "PS0" | "PS1" | "PS2" | "PS4") {
            return;
        }
        self.effect(Effect::Define { name: name.to_owned() });
        if name == "IFS" {
            if lasts {
                self.note(Risk::High, "environment", "sets IFS, by which words are split");
            }
            return;
        }
        if name.starts_with("PS") {
            return self.prompt_expansion(value);
        }
        self.note(Risk::High, "environment", format!("sets {name}, which changes what other programs run"));
        let program = match name {
            "TAR_OPTIONS" => "tar -x",
            "PERL5OPT" => "perl -e 1",
            "NODE_OPTIONS" => "node -e 1",
            _ => "",
        };
        for way in value.iter().filter(|_| !program.is_empty()) {
            let known = self.reasons.len();
            self.code_elsewhere(&format!("{program} {way}"));
            self.keep_blocked(known);
        }
        // The shell writes there at its end.
        if name == "HISTFILE" {
            for path in value {
                if self.zone_of(path) > Zone::Outside {
                    self.writes(path, WriteKind::Append);
                }
            }
        }
        if name.starts_with("GIT_TRACE") {
            value.iter().filter(|path| path.starts_with('/')).for_each(|path| self.writes(path, WriteKind::Append));
        }
        if runs || matches!(name, "BASH_ENV" | "ENV") || name.starts_with("GIT_CONFIG") {
            for way in value {
                if name.ends_with("ENV") {
                    self.script_file(way);
                } else if is_known(way) || way.contains(' ') || name == "PROMPT_COMMAND" {
                    self.code_elsewhere(way);
                }
            }
        }
        if name.starts_with("LD_") || name.starts_with("BASH_FUNC_") {
            for way in value.iter().filter(|way| way.contains("() {")) {
                let body = way.split_once("() {").map_or("", |(_, body)| body.trim_end_matches('}')).to_owned();
                self.code_elsewhere(&body);
            }
        }
    }

    /// Text that is expanded as a prompt is: its substitutions run.
    pub(super) fn prompt_expansion(&mut self, ways: &[String]) {
        for way in ways {
            if has_open(way) {
                self.block_unknown("unknown-code", "expands as a prompt what isn't known");
            }
            let quoted = format!(": \"{}\"", way.replace('"', "\\\""));
            if way.contains(['$', '`']) {
                self.signal("prompt", "a text whose substitutions run as in a prompt");
                self.code_elsewhere(&quoted);
            }
        }
    }
}

/// A path without the pattern at its end that matches everything.
fn strip_all(place: &Place) -> Place {
    let mut place = place.clone();
    while place.parts.last().is_some_and(|last| super::place::is_all(last)) {
        place.parts.pop();
    }
    place
}

/// Directories of the system that anybody may read: to read there tells nothing secret.
fn is_public(place: &Place) -> bool {
    let first = place.parts.first().map(String::as_str);
    matches!(
        first,
        None | Some("etc" | "sys" | "boot" | "usr" | "proc" | "bin" | "lib" | "lib64" | "sbin" | "dev" | "run")
    ) || place.parts.iter().any(|part| part == ".ssh")
}
