//! Programs that print, and programs that make, change, find and remove files: their words → acts.

use super::{Act, Call, below, block, high};
use crate::policy::piece::{Piece, Source, Text};
use crate::policy::programs::{self, Parsed, listed};
use crate::proto::action::WriteKind;

/// Turns of a count or a list that are followed.
const TURNS_MAX: usize = 16;

fn line(text: impl Into<String>) -> Act {
    Act::Prints(Text::from(text.into() + "\n"))
}

/// All below a directory, however deep: hardly a line writes it so.
fn all_below() -> Text {
    [Piece::Star, Piece::Star, Piece::Unknown(Source::Name)].into_iter().collect()
}

/// Adds nothing to the acts of the row.
pub(super) fn nothing(_: &Call<'_>, _: &Parsed<'_>, _: &mut Vec<Act>) {}

pub(super) fn echo(call: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    let is_option = |word: &&Text| {
        let letters = word.lossy().strip_prefix('-').unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|c| "neE".contains(c))
    };
    let options: Vec<&str> = call.words.iter().take_while(is_option).map(Text::lossy).collect();
    let mut text = Text::join(&call.words[options.len()..], " ").dead();
    if options.iter().any(|word| word.contains('e')) {
        text = text.changed(|known| crate::bash::unescaped(known, false).into());
    }
    if !options.iter().any(|word| word.contains('n')) {
        text.push_str("\n");
    }
    if call.name == "yes" {
        // And so on, without an end.
        text.push(Piece::Unknown(Source::Program));
    }
    acts.push(Act::Prints(text));
}

pub(super) fn printf(call: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    let words: Vec<&Text> = call.words.iter().filter(|word| word.as_str() != Some("--")).collect();
    let Some(form) = words.first().and_then(|form| form.as_str()) else {
        return acts.push(Act::Prints(Source::Any.into()));
    };
    let form = crate::bash::unescaped(form, false);
    let mut rest = words[1..].iter();
    let mut made = Text::default();
    for _ in 0..TURNS_MAX {
        let left = rest.len();
        let mut characters = form.chars();
        while let Some(c) = characters.next() {
            if c != '%' {
                made.push_str(c.encode_utf8(&mut [0; 4]));
                continue;
            }
            match characters.find(|c| !c.is_ascii_digit() && !"-+ #.*l".contains(*c)) {
                Some('%') | None => made.push_str("%"),
                Some('s') => rest.next().into_iter().for_each(|word| made.append(&word.dead())),
                Some('b') => rest
                    .next()
                    .into_iter()
                    .for_each(|word| made.append(&word.changed(|it| crate::bash::unescaped(it, false).into()))),
                Some('d' | 'i' | 'u') => made.append(rest.next().copied().unwrap_or(&Source::Name.into())),
                Some(_) => {
                    rest.next();
                    made.push(Piece::Unknown(Source::Name));
                }
            }
        }
        if rest.len() == 0 || rest.len() == left {
            break;
        }
    }
    acts.push(Act::Prints(made));
}

pub(super) fn cat(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let mut made = Text::default();
    let mut paths = parsed.operands.iter().peekable();
    if paths.peek().is_none() {
        made = call.input.cloned().unwrap_or_else(|| Source::Any.into());
    }
    for path in paths {
        if matches!(path.as_str(), Some("-" | "/dev/stdin")) {
            made.append(call.input.unwrap_or(&Source::Any.into()));
            continue;
        }
        acts.push(Act::read(path));
        made.append(&(call.written)(path).unwrap_or_else(|| Source::File.into()));
    }
    acts.push(Act::Prints(made));
}

/// Prints names: all of a directory, if no word selects among them.
pub(super) fn ls(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let tells_more = ['l', 's', 'R', 'i'].iter().any(|letter| parsed.has_letter(*letter));
    if call.name == "ls" && !tells_more {
        let is_chosen = parsed.operands.iter().any(Text::has_pattern);
        let names = if is_chosen { Text::join(&parsed.operands, "\n") } else { all_below().then(&"\n".into()) };
        acts.push(Act::Prints(names));
    }
}

/// Prints a name or a number.
pub(super) fn name(_: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    acts.push(Act::Prints(Source::Name.into()));
}

/// `basename`, `dirname`.
pub(super) fn path_part(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let [path, ..] = parsed.operands.as_slice() else { return };
    let Some(known) = path.as_str() else {
        let source = if call.name == "basename" { Source::Name } else { Source::Any };
        return acts.push(Act::Prints(source.into()));
    };
    let (directory, name) = known.trim_end_matches('/').rsplit_once('/').unwrap_or((".", known));
    let directory = if directory.is_empty() { "/" } else { directory };
    acts.push(line(if call.name == "basename" { name } else { directory }));
}

pub(super) fn mktemp(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    acts.extend(parsed.operands.iter().map(Act::write));
    acts.push(line("/tmp/tmp.made"));
}

pub(super) fn date(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    for word in parsed.operands.iter().filter(|word| !word.head().starts_with('+')) {
        high(acts, "system", format!("sets the clock to {}", word.shown()));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "%_-.:+/ ".contains(c);
    if parsed.operands.iter().all(|word| word.as_str().is_some_and(|it| it.chars().all(is_plain) && !it.contains("%n")))
    {
        acts.push(Act::Prints(Source::Name.into()));
    }
}

/// Prints the numbers of processes: of all, if nothing selects among them.
pub(super) fn ps(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let is_all = if call.name == "pgrep" {
        let every = |word: &Text| word.lossy().chars().all(|c| ".*^$".contains(c));
        parsed.has_word(&["-v", "--inverse"]) || parsed.options.is_empty() && parsed.operands.iter().all(every)
    } else {
        let chooses = ["-C", "-p", "--pid", "--ppid", "-t", "-q"];
        let every = |word: &Text| match word.lossy().strip_prefix('-') {
            Some(letters) => letters.chars().take_while(|c| *c != 'o').any(|c| matches!(c, 'e' | 'A' | 'a')),
            None => word.lossy().contains(['a', 'x']) && word.lossy().bytes().all(|byte| byte.is_ascii_lowercase()),
        };
        call.words.first().is_some_and(every) && !parsed.has_word(&chooses)
    };
    acts.push(Act::Prints(if is_all { Source::Processes } else { Source::Program }.into()));
}

/// Handles `test` and `stat`: any word may be a path.
pub(super) fn test(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let compares = ["=", "==", "!=", "-eq", "-ne", "-lt", "-gt", "-le", "-ge", "-z", "-n"];
    if matches!(call.name, "test" | "[") && parsed.has_word(&compares) {
        return;
    }
    let paths = parsed.operands.iter().filter(|word| word.head().contains('/') || call.name == "stat");
    acts.extend(paths.cloned().map(Act::List));
}

pub(super) fn jq(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let own = usize::from(parsed.values("pattern").next().is_none());
    acts.extend(parsed.operands.iter().skip(own).map(Act::read));
    let reads = |filter: &str| ["import", "include", "load"].iter().any(|word| filter.contains(word));
    if parsed.operands.iter().take(own).any(|filter| filter.as_str().is_none_or(reads)) {
        high(acts, "code", "a filter that may read other files");
    }
}

pub(super) fn tee(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let data = call.input.cloned().unwrap_or_else(|| Source::Any.into());
    for path in &parsed.operands {
        acts.push(Act::write(path));
        acts.push(Act::Store(path.clone(), data.clone()));
    }
    acts.push(Act::Prints(data));
}

/// The operands of `cp`, `mv`, `ln`: the sources and the target.
fn sources_and_target(parsed: &Parsed<'_>) -> (Vec<Text>, Option<Text>) {
    let mut operands = parsed.operands.clone();
    let target = parsed.values("into").next().cloned().or_else(|| operands.pop());
    (operands, target)
}

pub(super) fn copy(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    if parsed.has("dirs") {
        return acts.extend(parsed.operands.iter().map(Act::write));
    }
    let (sources, target) = sources_and_target(parsed);
    let Some(target) = target else { return };
    acts.extend(sources.iter().map(Act::read));
    acts.push(Act::write(&target));
    acts.extend(sources.into_iter().map(|source| Act::Copy(source, target.clone())));
}

pub(super) fn link(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (mut sources, mut target) = sources_and_target(parsed);
    if sources.is_empty() {
        sources.extend(target.take());
        target = sources.first().and_then(|source| source.split(|c| c == '/').pop());
    }
    let Some(target) = target else { return };
    acts.push(Act::write(&target));
    acts.extend(sources.into_iter().map(|source| Act::Link(source, target.clone())));
}

pub(super) fn move_files(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (sources, target) = sources_and_target(parsed);
    let Some(target) = target else { return };
    acts.push(Act::write(&target));
    let sources = sources.into_iter().filter(|source| !source.is_empty());
    acts.extend(sources.map(|source| Act::Move(source, target.clone())));
    if target.as_str() == Some("/dev/null") {
        block(acts, "device", "moves files onto /dev/null");
    }
}

pub(super) fn remove(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    acts.extend(parsed.operands.iter().map(|path| match parsed.has("tree") {
        true => Act::tree(path),
        false => Act::Write(path.clone(), WriteKind::Delete),
    }));
}

/// Returns whether a mode makes a program run with its owner's or group's rights.
fn is_setuid(mode: &str) -> bool {
    let digits = mode.trim_start_matches(['=', '+']).trim_start_matches('0');
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits.len() == 4 && digits.starts_with(['2', '3', '4', '5', '6', '7']);
    }
    let is_for_files = |part: &&str| !part.starts_with('D');
    mode.split(',').filter(is_for_files).any(|part| {
        part.strip_prefix('F').is_some_and(is_setuid)
            || part
                .split_once(['+', '='])
                .is_some_and(|(who, what)| what.contains('s') && (who.is_empty() || who.contains(|c| c != 'o')))
    })
}

/// Refuses a mode that makes a program run with its owner's rights.
pub(super) fn setuid(mode: &str, acts: &mut Vec<Act>) {
    if is_setuid(mode) {
        block(acts, "setuid", "makes a program that runs with its owner's rights");
    }
}

pub(super) fn mode(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    // Of chmod and chattr a mode may look like an option: `-x`, `+i`.
    let is_mode = |word: &Text| {
        let letters = word.lossy().strip_prefix(['-', '+', '=']).unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|c| "rwxXstaiAcCdDejmPSTu".contains(c))
    };
    let has_sign = matches!(call.name, "chmod" | "chattr")
        && call.words.iter().any(|word| is_mode(word) && !matches!(word.lossy(), "-R" | "-c" | "-v" | "-f"));
    let takes_mode = matches!(call.name, "chmod" | "chown" | "chgrp" | "chcon") && !parsed.has_option("--reference");
    let at = parsed.operands.len().min(usize::from(takes_mode));
    let (modes, operands): (Vec<Text>, Vec<Text>) = match has_sign {
        true => parsed.operands.iter().cloned().partition(is_mode),
        false => (parsed.operands[..at].to_vec(), parsed.operands[at..].to_vec()),
    };
    for mode in modes.iter().filter(|_| call.name == "chmod") {
        if mode.as_str().is_none() {
            high(acts, "setuid", "sets a mode that isn't known");
        }
        setuid(mode.lossy(), acts);
    }
    acts.extend(operands.into_iter().map(|path| match parsed.has("tree") {
        true => Act::Tree(path, WriteKind::Mode),
        false => Act::Write(path, WriteKind::Mode),
    }));
}

pub(super) fn dd(call: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (mut data, mut is_away) = (call.input.cloned(), false);
    for word in call.words {
        if let Some(path) = word.strip_prefix("of=") {
            is_away = true;
            acts.push(Act::write(&path));
            acts.extend(data.clone().map(|data| Act::Store(path, data)));
        } else if let Some(path) = word.strip_prefix("if=") {
            acts.push(Act::read(&path));
            data = Some((call.written)(&path).unwrap_or_else(|| Source::File.into()));
        }
    }
    acts.push(Act::Prints(if is_away { Text::default() } else { data.unwrap_or_else(|| Source::Program.into()) }));
}

/// Writes tar's letters without a dash as options: each that takes a value takes the next of the words after them.
fn dashed(words: &[Text]) -> Vec<Text> {
    let Some((letters, rest)) = words.split_first() else { return Vec::new() };
    let mut rest = rest.iter().cloned();
    let mut made = Vec::new();
    for letter in letters.head().chars() {
        made.push(format!("-{letter}").into());
        made.extend(if "fCTXIFbgHLNKV".contains(letter) { rest.next() } else { None });
    }
    made.extend(rest);
    made
}

pub(super) fn tar(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let has_dash = call.words.first().is_none_or(|first| first.is_empty() || first.head().starts_with('-'));
    let words = if has_dash { Vec::new() } else { dashed(call.words) };
    match programs::read(call.name, &words).filter(|_| !has_dash) {
        Some(parsed) => {
            super::options(call, &parsed, acts);
            unpack(call, &parsed, acts);
        }
        None => unpack(call, parsed, acts),
    }
}

fn unpack(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    acts.extend(parsed.values("checkpoint").filter_map(|action| action.strip_prefix("exec=")).map(Act::Code));
    let directory = parsed.values("place").chain(parsed.values("attached")).last();
    let (prints, creates) = (parsed.has("O"), parsed.has("c"));
    let at = |path: &Text| match directory {
        Some(directory) if !path.head().starts_with('/') => Text::join(&[directory.clone(), path.clone()], "/"),
        _ => path.clone(),
    };
    if parsed.has("x") && !prints {
        acts.push(Act::write(&below(directory.unwrap_or(&".".into()))));
        if parsed.has("P") {
            high(acts, "unknown-path", "unpacks to the paths that the archive names");
            acts.extend(parsed.operands.iter().filter(|path| path.head().starts_with('/')).map(Act::write));
        }
    }
    match parsed.values("archive").last().filter(|archive| archive.as_str() != Some("-")) {
        Some(archive) if archive.head().contains(':') => acts.push(Act::Net(super::host_of(archive))),
        Some(archive) if creates => acts.push(Act::write(archive)),
        Some(archive) => acts.push(Act::read(archive)),
        None => {}
    }
    if creates {
        acts.extend(parsed.operands.iter().map(|path| Act::Read(at(path))));
        acts.extend(parsed.operands.iter().filter(|_| parsed.has("removes")).map(|path| Act::tree(&at(path))));
    }
    let fed = call.input.and_then(Text::source).filter(|source| *source == Source::Net);
    let source = if prints && !parsed.has("t") { fed.unwrap_or(Source::Decoded) } else { Source::Program };
    acts.push(Act::Prints(source.into()));
}

pub(super) fn archive(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let verb = parsed.operands.first().map_or("", |verb| verb.lossy());
    let only_lists = parsed.has_word(&["-l", "-t", "l", "t", "-tf", "-it", "tf"]);
    if call.name.starts_with('7') && parsed.has_word(&["-sdel"]) {
        acts.extend(parsed.operands.iter().skip(2).map(Act::tree));
    }
    let attached = call.words.iter().filter_map(|word| word.strip_prefix("-o")).filter(|_| call.name.starts_with('7'));
    let mut targets: Vec<Text> = attached.map(|path| below(&path)).collect();
    if matches!(call.name, "ar" | "jar") && !verb.contains('x') || verb == "a" {
        targets.extend(parsed.operands.iter().find(|word| word.head().contains('.')).cloned());
    }
    targets.extend(parsed.operands.iter().filter(|word| word.head().ends_with('/')).map(below));
    if targets.is_empty() {
        targets.push(below(&".".into()));
    }
    acts.extend(targets.iter().filter(|_| !only_lists).map(Act::write));
    if parsed.has_word(&["-so", "p", "-p", "--to-stdout"]) {
        acts.push(Act::Prints(Source::Decoded.into()));
    }
}

pub(super) fn compress(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let to_output = parsed.has("stdout") || parsed.operands.is_empty();
    let decodes = parsed.has("decodes") || ["un", "gun", "bun"].iter().any(|it| call.name.starts_with(it));
    acts.extend(parsed.operands.iter().map(if to_output { Act::read } else { Act::write }));
    let fed = call.input.and_then(Text::source).filter(|source| *source == Source::Net);
    acts.push(Act::Prints(if decodes { fed.unwrap_or(Source::Decoded) } else { Source::Program }.into()));
}

/// A search for files, read.
#[derive(Default)]
struct Search {
    starts: Vec<Text>,
    /// The name that is searched, if nothing else selects.
    name: Option<Text>,
    is_narrow: bool,
    /// `true` if only the starts themselves are found.
    is_flat: bool,
    commands: Vec<Vec<Text>>,
    deletes: bool,
    seeks_keys: bool,
}

impl Search {
    /// A path as it would be found.
    fn path(&self, start: &Text) -> Text {
        if self.is_flat {
            return start.clone();
        }
        match &self.name {
            // The usual place of keys; it doesn't matter whose home it is.
            _ if self.seeks_keys && start.head().starts_with('/') => {
                let is_above = matches!(start.lossy().trim_end_matches('/'), "" | "/home");
                let home = if is_above { Text::from("/root") } else { start.clone() };
                home.then(&"/.ssh/id_rsa".into())
            }
            Some(name) if !name.has_pattern() && start.as_str() != Some("/") => {
                start.clone().then(&"/".into()).then(name)
            }
            None if !self.is_narrow => start.clone().then(&"/".into()).then(&all_below()),
            _ => below(start),
        }
    }

    fn acts(&self, acts: &mut Vec<Act>) {
        acts.extend(self.starts.iter().cloned().map(Act::List));
        for start in &self.starts {
            let found = self.path(start);
            if self.deletes {
                acts.push(match self.is_narrow || self.name.is_some() {
                    true => Act::Write(found.clone(), WriteKind::Delete),
                    false => Act::tree(&found),
                });
            }
            for command in &self.commands {
                acts.push(Act::Run(command.iter().map(|word| put_in(word, "{}", &found)).collect()));
            }
        }
        let mut printed = Text::default();
        for start in self.starts.iter().take(TURNS_MAX) {
            printed = printed.then(&self.path(start)).then(&"\n".into());
        }
        acts.push(Act::Prints(printed));
    }
}

/// Puts a text in place of a mark in a word.
fn put_in(word: &Text, mark: &str, with: &Text) -> Text {
    word.changed(|known| {
        let mut parts = known.split(mark);
        let first = Text::from(parts.next().unwrap_or_default());
        parts.fold(first, |made, part| made.then(with).then(&part.into()))
    })
}

/// The command after `-exec`, up to its `;` or `+`.
fn command_of<'t>(words: &mut impl Iterator<Item = &'t Text>) -> Vec<Text> {
    let mut command: Vec<Text> = Vec::new();
    for word in words {
        let is_plus = word.as_str() == Some("+") && command.last().is_some_and(|last| last.as_str() == Some("{}"));
        if is_plus || word.as_str() == Some(";") {
            break;
        }
        command.push(word.clone());
    }
    command
}

pub(super) fn find(call: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (mut search, mut own) = (Search::default(), Vec::new());
    let mut words = call.words.iter();
    while let Some(word) = words.next() {
        match word.lossy() {
            "-exec" | "-execdir" | "-ok" | "-okdir" => search.commands.push(command_of(&mut words)),
            _ => own.push(word.clone()),
        }
    }
    let Some(parsed) = programs::read(call.name, &own) else { return };
    let is_option = |word: &Text| matches!(word.head(), "-H" | "-L" | "-P") || word.head().starts_with("-O");
    let is_test = |word: &Text| matches!(word.head(), "(" | "!") || word.head().starts_with('-') && !is_option(word);
    search.starts = own.iter().take_while(|word| !is_test(word)).filter(|word| !is_option(word)).cloned().collect();
    if search.starts.is_empty() {
        search.starts.push(".".into());
    }
    search.deletes = call.words.iter().any(|word| word.as_str() == Some("-delete"));
    search.is_flat = parsed.values("depth").any(|depth| depth.as_str() == Some("0"));
    let names: Vec<Text> =
        parsed.values("name").map(Text::alive).filter(|name| !crate::policy::place::is_all(name)).collect();
    // With `-o` and `!` a name says little about the matches.
    let is_loose = parsed.has_word(&["-o", "-or", "!", "-not"]);
    search.is_narrow = parsed.has("narrows")
        || parsed.values("narrows").any(|value| !matches!(value.lossy(), "+0" | "-0" | "+0c" | "-1"))
        || parsed.values("path").any(|path| !path.lossy().trim_start_matches(['/', '.', '*']).is_empty())
        || parsed.values("type").any(|kind| !matches!(kind.lossy(), "f" | "d" | "f,d" | "d,f"))
        || is_loose && parsed.values("name").next().is_some();
    search.name = names.last().filter(|_| !is_loose).cloned();
    search.seeks_keys = parsed.values("name").chain(parsed.values("path")).any(names_keys);
    search.acts(acts);
}

/// Returns whether a search is for keys or passwords by their usual names.
fn names_keys(pattern: &Text) -> bool {
    listed("key-names").iter().any(|name| pattern.lossy().contains(name))
}

pub(super) fn fd(call: &Call<'_>, _: &Parsed<'_>, acts: &mut Vec<Act>) {
    let at = call.words.iter().position(|word| matches!(word.lossy(), "-x" | "-X" | "--exec" | "--exec-batch"));
    let own = at.unwrap_or(call.words.len());
    let Some(parsed) = programs::read(call.name, &call.words[..own]) else { return };
    let is_pattern = |pattern: &Text| !matches!(pattern.lossy(), "." | "" | ".*");
    let is_narrow = parsed.values("narrows").next().is_some() || parsed.operands.first().is_some_and(is_pattern);
    let starts = parsed.operands.get(1..).filter(|starts| !starts.is_empty());
    let starts = starts.map_or_else(|| vec![".".into()], <[Text]>::to_vec);
    let mut search = Search { is_narrow, starts, ..Search::default() };
    if at.is_some() {
        let mut command = call.words[own + 1..].to_vec();
        if !command.iter().any(|word| word.head().contains("{}")) {
            command.push("{}".into());
        }
        search.commands.push(command);
    }
    search.acts(acts);
}

pub(super) fn xargs(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let from_file = parsed.values("input").next();
    acts.extend(from_file.map(Act::read));
    let input = match from_file {
        Some(path) => (call.written)(path).unwrap_or_else(|| Source::File.into()),
        None => call.input.cloned().unwrap_or_else(|| Source::Any.into()),
    };
    let command = if parsed.rest.is_empty() { vec!["echo".into()] } else { parsed.rest.to_vec() };
    let replaces = parsed.has("replace") || parsed.options.iter().any(|(option, _)| option.role == "replace");
    let named = parsed.values("replace").next().map(|mark| mark.lossy().to_owned());
    let mark = named.or_else(|| replaces.then(|| "{}".to_owned()));
    let by_null = parsed.has_word(&["-0", "--null", "-r0", "-0r"]);
    let is_blank = |c: char| c == '\0' || !by_null && (c == '\n' || mark.is_none() && c.is_whitespace());
    // `echo` and `printf` have quotes that xargs takes away.
    let bare = |item: Text| item.as_str().map(|text| text.trim_matches(['"', '\'']).into()).unwrap_or(item.clone());
    let mut items: Vec<Text> = input.split(is_blank).into_iter().filter(|item| !item.is_empty()).map(bare).collect();
    let is_long = items.len() > TURNS_MAX;
    items.truncate(TURNS_MAX);
    if is_long {
        items.push(Source::Any.into());
    }
    match mark {
        Some(mark) => {
            let filled = |item: &Text| Act::Run(command.iter().map(|word| put_in(word, &mark, item)).collect());
            acts.extend(items.iter().map(filled));
        }
        None => acts.push(Act::Run([command, items].concat())),
    }
}

/// Handles `parallel`: the words after `:::`, or each line of the input, in place of `{}`.
pub(super) fn parallel(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let is_list = |word: &Text| word.head().starts_with(":::");
    let at = parsed.rest.iter().position(is_list).unwrap_or(parsed.rest.len());
    let (command, listed) = parsed.rest.split_at(at);
    let input = call.input.cloned().unwrap_or_else(|| Source::Any.into());
    let items = if listed.is_empty() { input.split(|c| c == '\n') } else { listed.to_vec() };
    for item in items.iter().filter(|item| !is_list(item) && !item.is_empty()).take(TURNS_MAX) {
        let words: Vec<Text> = command.iter().map(|word| put_in(word, "{}", item)).collect();
        let added = if words == command { Some(item.clone()) } else { None };
        let words: Vec<Text> = words.into_iter().chain(added).collect();
        let is_quoted = parsed.has_word(&["-q", "--quote"]);
        acts.push(if is_quoted { Act::Run(words) } else { Act::Code(Text::join(&words, " ")) });
    }
}
