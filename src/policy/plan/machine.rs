//! Programs that act on the whole machine, and programs that speak to others: their words → acts.

use super::{Act, Call, block, comes_back, host_of};
use crate::policy::Elsewhere;
use crate::policy::piece::{Source, Text};
use crate::policy::programs::{Parsed, listed};
use crate::proto::action::{Risk, WriteKind};

fn is_power_unit(word: &str) -> bool {
    let name = word.trim_end_matches(".target").trim_end_matches(".service").trim_start_matches("systemd-");
    listed("power-units").contains(&name)
        || matches!(word, "runlevel0.target" | "runlevel6.target" | "runlevel1.target")
}

fn known<'a>(parsed: &'a Parsed<'_>) -> Vec<&'a str> {
    parsed.operands.iter().map(Text::lossy).collect()
}

pub(super) fn ip(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let words = known(parsed);
    if let Some(at) = words.iter().position(|word| *word == "exec") {
        return acts.push(Act::Run(parsed.operands.iter().skip(at + 2).cloned().collect()));
    }
    let changes = ["add", "del", "delete", "set", "flush", "replace", "change", "down", "up", "netns"];
    if words.iter().any(|word| changes.contains(word)) {
        let cuts_off = words.contains(&"down") || words.contains(&"flush");
        let risk = if cuts_off { Risk::Blocked } else { Risk::High };
        acts.push(Act::Note(risk, "system", "sets up the machine's network".into()));
        acts.push(Act::Host("the machine's network".into()));
    }
}

pub(super) fn systemctl(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let words = known(parsed);
    let verb = words.first().copied().unwrap_or_default();
    let units = words.get(1..).unwrap_or_default();
    let starting = ["isolate", "start", "restart", "enable", "set-default", "try-restart", "reload-or-restart"];
    let starts = starting.contains(&verb);
    if starts && units.iter().any(|unit| is_power_unit(unit)) || parsed.operands.first().is_some_and(Text::is_open) {
        return block(acts, "power", format!("{} {verb} ends the system", call.name));
    }
    let is_vital = |unit: &&str| listed("vital-units").contains(&unit.trim_end_matches(".service"));
    if matches!(verb, "stop" | "disable" | "mask" | "kill") && units.iter().any(is_vital) {
        return block(acts, "power", format!("{} {verb} cuts this machine off, or ends sessions", call.name));
    }
    let by_path = units.iter().any(|unit| unit.contains('/'));
    if by_path && matches!(verb, "link" | "enable" | "reenable") || verb == "edit" && parsed.has_word(&["--stdin"]) {
        block(acts, "persistence", format!("{} {verb} adds a unit from a file", call.name));
    }
}

pub(super) fn service(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    match known(parsed).as_slice() {
        // The name of a service is a path below `/etc/init.d`.
        [path, ..] if path.contains('/') => acts.push(Act::Run(parsed.operands.clone())),
        [name, verb, ..] if is_power_unit(name) && *verb == "start" => {
            block(acts, "power", format!("{} {name} {verb} ends the system", call.name));
        }
        _ => {}
    }
}

pub(super) fn bus(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let words: Vec<&str> = parsed.words.iter().map(Text::lossy).collect();
    let has = |names: &[&str]| names.iter().any(|name| words.iter().any(|word| word.contains(name)));
    let starts = has(&["StartUnit", "RestartUnit", "StartTransientUnit", "SetDefaultTarget"]);
    let unit = |word: &&str| is_power_unit(word.rsplit(':').next().unwrap_or_default().trim_matches(['"', '\'']));
    if has(listed("bus-ends")) && !has(&["CanReboot", "CanPowerOff"]) || starts && words.iter().any(unit) {
        block(acts, "power", "asks over D-Bus to end the system or the session");
    }
}

pub(super) fn disk(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let mut risks = parsed.options.iter().filter_map(|(option, _)| option.risk);
    let looks = risks.any(|(risk, _, lowers)| lowers && risk == Risk::High);
    let only_tells = match call.name {
        "wipefs" => !parsed.has("wipes") && parsed.values("wipes").next().is_none(),
        "parted" => parsed.has_word(&["print"]) && !parsed.has_word(&["rm", "mklabel", "mkpart"]),
        _ => false,
    };
    let erases = parsed.has_word(&["--delete", "-Z", "--zap-all", "-o", "--zap", "--zero-superblock"]);
    if (looks || only_tells) && !erases {
        return;
    }
    let is_file = |word: &&Text| word.head().contains(['/', '.']) || word.is_open() || call.name.starts_with("mk");
    let mut targets = parsed.operands.iter().filter(is_file).peekable();
    if targets.peek().is_none() {
        return block(acts, "disk", format!("{} makes or wipes a file system or partition", call.name));
    }
    for target in targets.take(8) {
        if target.head().starts_with("/dev/") {
            block(acts, "disk", format!("{} makes or wipes {}", call.name, target.shown()));
        }
        acts.push(Act::write(target));
    }
}

pub(super) fn kill(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (mut is_signal, mut is_over) = (true, false);
    let mut words = parsed.words.iter();
    let mut is_outside = false;
    while let Some(word) = words.next() {
        match word.lossy() {
            "-l" | "-L" | "--list" | "--table" => return,
            "-s" | "-n" | "--signal" | "-q" => {
                words.next();
                is_signal = false;
            }
            "--" => is_over = true,
            option if option.starts_with('-') && is_signal && !is_over => is_signal = false,
            target => {
                acts.push(Act::Signal(word.shown()));
                let is_first = target.trim_start_matches('-').trim_start_matches('0') == "1";
                if is_first || word.has_pattern() || word.source() == Some(Source::Processes) {
                    block(acts, "kill-all", "sends a signal to every process, or to the first");
                }
                // Jobs of this shell, and their children, are in the jail.
                is_outside |= !target.starts_with('%') && word.source() != Some(Source::Name) && target != "0";
            }
        }
    }
    if is_outside {
        acts.push(Act::Host("processes".into()));
    }
}

pub(super) fn kill_name(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let is_every = |word: &Text| word.dead().as_str().is_some_and(|text| text.chars().all(|c| ".*^$+?".contains(c)));
    let by_user = ["-u", "-U", "--user", "--euid", "--uid"].iter().any(|name| parsed.has_option(name));
    let vital = ["systemd", "init", "dbus-daemon", "Xorg", "gnome-shell", "systemd-logind"];
    let inverse = call.name == "pkill" && parsed.has_word(&["-v", "--inverse"]);
    // `-9` and the like are the signal.
    let names = &parsed.operands;
    if inverse
        || names.iter().any(|name| is_every(name) || vital.contains(&name.lossy()))
        || names.is_empty() && (by_user || call.name == "xkill" && parsed.has_word(&["-a", "-all"]))
    {
        block(acts, "kill-all", format!("{} ends every process, or one that the session needs", call.name));
    }
    acts.extend(names.iter().map(|name| Act::Signal(name.shown())));
}

pub(super) fn later(call: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    acts.extend(call.input.map(|input| Act::Code(input.clone())));
}

/// Handles programs that fetch: their output came over the network.
pub(super) fn fetch(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let mut urls: Vec<&Text> = parsed.operands.iter().chain(parsed.values("url")).collect();
    if matches!(call.name, "http" | "https" | "xh" | "xhs" | "httpie") {
        let methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"];
        urls.retain(|word| !word.head().contains('=') && !methods.contains(&word.lossy()));
    }
    for url in &urls {
        match url.strip_prefix("file://") {
            Some(path) => acts.push(Act::Read(path)),
            None => acts.push(Act::Net(host_of(url))),
        }
    }
    if urls.is_empty() {
        acts.push(Act::Net(String::new()));
    }
    for data in parsed.values("upload") {
        let shown = data.shown();
        let file = shown.rsplit_once(['@', '<']).filter(|(before, _)| before.is_empty() || before.ends_with('='));
        if let Some((_, file)) = file.filter(|(_, file)| *file != "-") {
            acts.push(Act::Read(file.split(';').next().unwrap_or_default().into()));
        }
    }
    saved(call, parsed, &urls, acts);
}

/// Adds the destination of a download: files, or the output.
fn saved(call: &Call<'_>, parsed: &Parsed<'_>, urls: &[&Text], acts: &mut Vec<Act>) {
    let is_wget = call.name.starts_with("wget");
    let names = ["-O", "--output-document", "-o", "--output", "--out"];
    let mut targets: Vec<Text> = parsed.named(&names[..if is_wget { 2 } else { 5 }]).cloned().collect();
    let takes_name =
        matches!(call.name, "aria2c" | "axel" | "lwp-download") || is_wget && !parsed.has_word(&["--spider"]);
    let by_letter = parsed.has_letter('O') || parsed.has_word(&["--remote-name", "--remote-name-all"]);
    if takes_name && targets.is_empty() || call.name.starts_with("curl") && by_letter {
        targets.extend(urls.iter().map(|url| {
            let shown = url.shown();
            let address = shown.split(['?', '#']).next().unwrap_or_default();
            let name = address.rsplit('/').next().unwrap_or_default();
            if name.is_empty() { Source::Name.into() } else { name.into() }
        }));
    }
    let directory = parsed.values("dir-of-output").chain(parsed.values("write-below")).next();
    targets.retain(|path| !matches!(path.lossy(), "-" | "/dev/stdout"));
    acts.push(Act::Prints(if targets.is_empty() { Source::Net.into() } else { Text::default() }));
    for path in targets {
        let path = match directory {
            Some(directory) => Text::join(&[directory.clone(), path], "/"),
            None => path,
        };
        acts.push(Act::write(&path));
        acts.push(Act::Store(path, Source::Net.into()));
    }
}

pub(super) fn netcat(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let shown = parsed.operands.first().map(Text::shown).unwrap_or_default();
    // socat's addresses have their kind in front: `TCP:host:port`.
    let address = shown.split_once(':').filter(|_| call.name == "socat").map_or(shown.as_str(), |(_, rest)| rest);
    let host = address.split([':', ',']).next().unwrap_or_default();
    acts.push(Act::Net(if parsed.has_option("-l") { "localhost".into() } else { host.into() }));
    let ties = parsed.values("ties").any(|code| !matches!(call.name, "telnet" | "socat") && !code.is_empty());
    let executes = parsed.words.iter().any(|word| {
        let word = word.shown().to_ascii_uppercase();
        ["EXEC:", "SYSTEM:", "SHELL:"].iter().any(|kind| word.contains(kind))
    });
    if ties || executes {
        block(acts, "network-shell", format!("{} ties a program to the network", call.name));
    }
}

/// Returns whether a path names a place on another machine.
fn is_remote(path: &Text) -> bool {
    path.head().split_once(':').is_some_and(|(host, _)| !host.contains('/') && !host.is_empty())
}

/// `scp`, `sftp`, `rsync`.
pub(super) fn remote_copy(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    for code in parsed.values("rsh").filter(|code| !matches!(code.lossy(), "ssh" | "rsh")) {
        acts.push(Act::Suspect(code.clone().then(&" host".into())));
    }
    let mut operands = parsed.operands.clone();
    // A relative path on a host that is this machine begins in the home.
    for path in &mut operands {
        let Some((host, rest)) = path.split_once(':').filter(|_| !path.head().starts_with('[')) else { continue };
        if comes_back(parsed, &host) {
            let is_absolute = rest.head().starts_with('/');
            *path = if is_absolute { rest } else { Text::join(&[call.home.into(), rest], "/") };
        }
    }
    let target = if operands.len() > 1 { operands.pop() } else { None };
    for source in &operands {
        if is_remote(source) || call.name == "sftp" {
            acts.push(Act::Net(host_of(source)));
        } else {
            acts.push(if parsed.has("moves") { Act::tree(source) } else { Act::read(source) });
        }
    }
    let lines = call.input.filter(|_| call.name == "sftp").map(|input| input.split(|c| c == '\n')).unwrap_or_default();
    acts.extend(lines.iter().filter_map(|line| line.strip_prefix("!")).map(Act::Suspect));
    let Some(target) = target else { return };
    if is_remote(&target) {
        acts.push(Act::Net(host_of(&target)));
    } else if parsed.has("dry") {
        acts.push(Act::Read(target));
    } else if parsed.has("deletes") {
        acts.push(Act::Tree(target, WriteKind::DeleteTree));
    } else {
        acts.push(Act::write(&target));
        for source in operands.iter().filter(|source| is_remote(source)) {
            let name = source.shown().rsplit(['/', ':']).next().unwrap_or_default().to_owned();
            acts.push(Act::Store(target.clone(), Source::Net.into()));
            acts.push(Act::Store(Text::join(&[target.clone(), name.into()], "/"), Source::Net.into()));
        }
    }
}

/// `ssh-copy-id` to this machine lets a key in.
pub(super) fn copy_id(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.operands.iter().any(|host| comes_back(parsed, host)) {
        acts.push(Act::write(&format!("{}/.ssh/authorized_keys", call.home).into()));
    }
}

/// Handles `docker run` and `kubectl exec`: the command runs in a container, but mounted directories are this machine's.
pub(super) fn container(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let words = known(parsed);
    let verbs = ["run", "exec", "create", "shell", "ssh"];
    let Some(at) = words.iter().position(|word| verbs.contains(word)) else { return };
    // With the whole machine inside, it isn't another machine; with its devices a command is one of this machine.
    let mounts_root = |word: &&str| word.starts_with("/:") || word.contains("source=/,") || word.contains("src=/,");
    let is_whole = words.iter().any(|word| mounts_root(word) || *word == "-v/:/host");
    let has_devices = parsed.words.iter().any(|word| ["--privileged", "--device"].contains(&word.head()));
    let place = match (has_devices, is_whole) {
        (true, _) => Elsewhere::Here,
        (_, true) => Elsewhere::Machine,
        _ => Elsewhere::Container,
    };
    for start in (at + 1..parsed.operands.len().min(at + 24)).filter(|start| !words[*start].starts_with('-')) {
        acts.push(Act::There(place, vec![Act::SuspectRun(parsed.operands[start..].to_vec())]));
    }
    // Mounted directories are this machine's.
    let removes = words.iter().any(|word| word.contains("rm -") || *word == "rm");
    for (source, target) in words.iter().filter_map(|word| word.trim_start_matches("-v").split_once(':')) {
        let target = target.split(':').next().unwrap_or_default();
        acts.push(Act::SuspectPath(source.into(), false));
        if removes
            && source.starts_with('/')
            && target.len() > 1
            && words.windows(2).any(|pair| {
                pair[1].contains(target) && !pair[1].contains(':') && !matches!(pair[0], "-w" | "--workdir")
            })
        {
            acts.push(Act::Tree(source.into(), WriteKind::DeleteTree));
        }
    }
    if is_whole && parsed.operands.iter().any(|word| matches!(word.lossy(), "rm" | "chroot" | "dd" | "shred")) {
        block(acts, "delete-tree", "a container changes the whole machine");
    }
}

/// ReedClaw itself: without a subcommand it is a shell.
pub(super) fn own(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.operands.first().is_some_and(Text::is_open) {
        block(acts, "own-files", "it isn't known what reedclaw does");
    }
    acts.extend(call.input.map(|input| Act::Code(input.clone())));
    acts.push(Act::Run([vec!["bash".into()], parsed.words.to_vec()].concat()));
}
