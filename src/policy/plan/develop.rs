//! Programs of a developer's day: git, builds, package managers. Their words → acts.

use super::{Act, Call, below, block, high, host_of};
use crate::policy::piece::{Source, Text};
use crate::policy::programs::{Parsed, listed};
use crate::proto::action::{Risk, WriteKind};

/// Adds what git would run because of a setting.
fn git_setting(key: &str, value: &Text, acts: &mut Vec<Act>) {
    let key = key.to_ascii_lowercase();
    if let Some(alias) = key.strip_prefix("alias.") {
        acts.push(Act::Alias(alias.to_owned(), value.code()));
        acts.push(Act::Suspect(git_alias(value)));
    } else if listed("git-runs").iter().any(|end| key.ends_with(end)) || key.starts_with("pager.") {
        acts.push(Act::Suspect(value.strip_prefix("!").unwrap_or_else(|| value.clone())));
    }
}

/// An alias of git as a line for a shell.
fn git_alias(value: &Text) -> Text {
    value.strip_prefix("!").unwrap_or_else(|| Text::from("git ").then(value))
}

/// A setting that git gets by an option.
pub(super) fn git_option(setting: &Text, acts: &mut Vec<Act>) {
    if let Some((key, value)) = setting.split_once('=') {
        git_setting(key.lossy(), &value, acts);
    }
}

/// A subcommand of git that the table doesn't have.
pub(super) fn git(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.operands.is_empty() {
        return acts.push(Act::Prints(Source::Program.into()));
    }
    acts.push(Act::Alias(parsed.operands[0].lossy().to_owned(), String::new()));
}

/// Looks: a word with a slash may be a path, and with `--no-index` every word is one.
pub(super) fn git_look(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let is_files = parsed.has("files");
    let mut after = false;
    for word in parsed.words {
        // `REV:PATH` prints the committed content.
        acts.extend(word.split_once(':').map(|(_, path)| Act::SuspectPath(path, false)));
        if word.as_str() == Some("--") {
            after = true;
        } else if is_files || after || word.head().starts_with(['/', '.']) {
            let is_option = word.head().starts_with('-');
            let is_range = word.head().starts_with("..") && !word.head().starts_with("../");
            let only_names =
                matches!(parsed.sub.as_str(), "check-ignore" | "rev-parse") && !word.head().starts_with("../");
            if !(is_option || is_range || only_names) {
                acts.push(Act::read(word));
            }
        }
    }
    if parsed.sub == "ls-files" {
        return acts.push(Act::Prints(below(&".".into()).then(&"\n".into())));
    }
    if parsed.sub == "rev-parse" && parsed.has_word(&["--show-toplevel"]) {
        return acts.push(Act::Prints(Text::from(format!("{}\n", call.workspace))));
    }
    let short = ["--short", "HEAD", "--abbrev-ref", "--tags", "--format=%h", "--format=%H", "--always"];
    if matches!(parsed.sub.as_str(), "rev-parse" | "describe" | "log") && parsed.has_word(&short) {
        acts.push(Act::Prints(Source::Name.into()));
    }
}

pub(super) fn git_config(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let is_verb = |word: &&Text| !matches!(word.lossy(), "set" | "unset" | "get" | "list");
    let words: Vec<&Text> = parsed.operands.iter().filter(is_verb).collect();
    let file = parsed.values("config-file").next();
    let changes = parsed.words.iter().any(|word| {
        word.head().starts_with("--unset")
            || word.head().starts_with("--remove")
            || matches!(word.lossy(), "-e" | "--edit" | "--add" | "--replace-all" | "--rename-section")
    });
    let looks = parsed.has_word(listed("develop-lists")) || words.len() < 2 && !changes;
    if !looks || file.is_some() {
        high(acts, "git-config", "changes settings of git");
    }
    acts.extend(file.map(if looks { Act::read } else { Act::write }));
    if looks {
        return;
    }
    let is_wide = parsed.has_word(&["--global", "--system"]);
    if parsed.has_word(&["--system"]) {
        acts.push(Act::write(&"/etc/gitconfig".into()));
    } else if is_wide {
        acts.push(Act::Host("your git's settings".into()));
    }
    if let [key, value, ..] = words.as_slice() {
        git_setting(key.lossy(), value, acts);
        let key = key.lossy().to_ascii_lowercase();
        let program = value.strip_prefix("!").unwrap_or_else(|| (*value).clone());
        let is_path = ["./", "/tmp/", call.workspace].iter().any(|start| program.head().starts_with(start));
        if is_wide && is_path && listed("git-runs").iter().any(|end| key.ends_with(end)) {
            block(acts, "persistence", "makes git run a file in every repository");
        }
    }
}

pub(super) fn git_change(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let paths = || parsed.operands.iter().cloned();
    match parsed.sub.as_str() {
        "rm" if !parsed.has_word(&["--cached", "-n", "--dry-run"]) => {
            acts.extend(paths().map(|path| match parsed.has_letter('r') {
                true => Act::Tree(path, WriteKind::DeleteTree),
                false => Act::Write(path, WriteKind::Delete),
            }));
        }
        "mv" => acts.extend(paths().map(|path| Act::Write(path, WriteKind::Move))),
        "init" => acts.extend(paths().map(|path| Act::Write(path, WriteKind::Write))),
        "apply" if parsed.values("write").next().is_some() => {
            parsed.values("write").for_each(|path| acts.push(Act::Write(below(path), WriteKind::Write)));
        }
        // Another directory or repository by its path.
        _ => acts.extend(
            paths().filter(|path| path.head().starts_with("../") || path.head().starts_with('/')).map(Act::List),
        ),
    }
}

pub(super) fn git_clean(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.has_word(&["--dry-run"]) || parsed.has_letter('n') {
        return;
    }
    let here = Text::from(".");
    let paths = if parsed.operands.is_empty() { std::slice::from_ref(&here) } else { &parsed.operands };
    acts.extend(paths.iter().map(|path| Act::Write(below(path), WriteKind::Delete)));
}

/// Speaks to the repository that the operands name.
pub(super) fn git_far(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let mut is_named = false;
    for word in &parsed.operands {
        if let Some(code) = word.strip_prefix("ext::") {
            acts.push(Act::Code(code));
        }
        if word.head().contains("://") || word.head().contains('@') && word.head().contains(':') {
            is_named = true;
            match word.strip_prefix("file://") {
                Some(path) => acts.push(Act::Read(path)),
                None => acts.push(Act::Net(host_of(word))),
            }
        }
    }
    match parsed.operands.first().filter(|path| path.head().starts_with(['.', '/'])) {
        _ if is_named => {}
        Some(path) => acts.push(Act::read(path)),
        None => acts.push(Act::Net(String::new())),
    }
    if parsed.sub == "clone" {
        acts.extend(parsed.named(&["-u"]).map(Act::suspect));
        acts.extend(parsed.operands.get(1).map(Act::write));
    }
}

pub(super) fn make(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    for word in parsed.operands.iter().chain(parsed.words) {
        if let Some((name, value)) = word.split_once('=').filter(|_| !word.head().starts_with('-')) {
            if matches!(name.lossy(), "SHELL" | "CC" | "CXX" | "LD" | "AR" | "MAKE" | "RM" | "INSTALL" | "PYTHON")
                || value.head().contains("$(shell")
            {
                high(acts, "script", format!("sets {} for {}", name.shown(), call.name));
                acts.push(Act::suspect(&value));
            }
            let has_stage = parsed.words.iter().any(|it| it.head().len() > 8 && it.head().starts_with("DESTDIR="));
            if name.as_str() == Some("DESTDIR") || matches!(name.lossy(), "PREFIX" | "prefix") && !has_stage {
                acts.push(Act::Write(below(&value), WriteKind::Write));
            }
        }
    }
    let prints = parsed.row.risk.is_some_and(|(_, rule)| rule == "check");
    if !prints && parsed.has_word(&["install", "uninstall", "publish", "deploy"]) {
        high(acts, "install", "may write outside the workspace");
    }
}

/// `go run PATH@VERSION` fetches; `go run .` doesn't.
pub(super) fn go_remote(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.sub == "run" && parsed.operands.first().is_some_and(|path| path.head().contains('@')) {
        high(acts, "install", "runs code that comes over the network");
        acts.push(Act::Net(String::new()));
    }
}

pub(super) fn packages(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let verb = parsed.operands.first().map_or("", |verb| verb.lossy());
    let removes = matches!(verb, "remove" | "purge" | "autoremove" | "erase" | "del" | "uninstall")
        || parsed.words.iter().any(|word| {
            word.head().starts_with("-R") && call.name == "pacman"
                || matches!(word.lossy(), "--purge" | "--force-all" | "-P" | "-r" | "-e" | "--erase")
        });
    let is_vital = |word: &Text| {
        listed("develop-vital").contains(&word.lossy()) || word.head().starts_with("linux-image") || word.has_pattern()
    };
    let pretends = parsed.has_word(&["-s", "--simulate", "--dry-run", "--just-print", "--recon", "--assumeno"]);
    if removes && !(pretends && call.name.starts_with("apt")) && parsed.words.iter().any(is_vital) {
        block(acts, "system-path", format!("{} removes what the system needs", call.name));
    }
}

/// `NAME exec [OPTIONS] [WHAT] [--] COMMAND`, `tmux`: each word in front may be the command's first, and each with a blank a
/// line; keys that are sent are typed together.
pub(super) fn launcher(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if let Some(at) = parsed.words.iter().position(|word| matches!(word.lossy(), "send-keys" | "send" | "stuff")) {
        acts.push(Act::Suspect(Text::join(&parsed.words[at + 1..], "").then(&"\n".into())));
    }
    let shows = ["display-message", "display", "set", "set-option", "rename-window"];
    if parsed.operands.first().is_some_and(|verb| shows.contains(&verb.lossy())) {
        return;
    }
    let is_line = |word: &&Text| word.head().contains(' ');
    acts.extend(parsed.words.iter().filter(is_line).map(Act::suspect));
    let starts = (0..parsed.words.len().min(8)).filter(|at| !parsed.words[*at].head().starts_with('-'));
    acts.extend(starts.map(|at| Act::SuspectRun(parsed.words[at..].to_vec())));
}

/// `git branch`, `git tag`, `git remote`: with a name they make something.
pub(super) fn git_names(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.sub != "reflog" && !parsed.has_word(listed("git-lists")) && !parsed.operands.is_empty() {
        acts.push(Act::Note(Risk::Medium, "git", format!("git {} changes the repository", parsed.sub)));
    }
}
