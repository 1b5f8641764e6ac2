//! Programs that print, and programs that make, change, find and remove files: their words → acts.

use super::piece::{Piece, Source, Text};
use super::plan::{Act, Call, below, block, high};
use super::programs::Given;
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

/// Does what the row says, and no more.
pub(super) fn nothing(_: &Call<'_>, _: &Given<'_>, _: &mut Vec<Act>) {}

pub(super) fn echo(call: &Call<'_>, _: &Given<'_>, acts: &mut Vec<Act>) {
    let is_option = |word: &&Text| {
        let letters = word.lossy().strip_prefix('-').unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|c| "neE".contains(c))
    };
    let given: Vec<&str> = call.words.iter().take_while(is_option).map(Text::lossy).collect();
    let mut text = Text::join(&call.words[given.len()..], " ").dead();
    if given.iter().any(|word| word.contains('e')) {
        text = unescaped(&text);
    }
    if !given.iter().any(|word| word.contains('n')) {
        text.push_str("\n");
    }
    acts.push(Act::Prints(text));
}

/// Reads backslash escapes in what is known of a text.
fn unescaped(text: &Text) -> Text {
    text.changed(|known| crate::bash::unescaped(known, false).into())
}

pub(super) fn printf(call: &Call<'_>, _: &Given<'_>, acts: &mut Vec<Act>) {
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
                Some('b') => rest.next().into_iter().for_each(|word| made.append(&unescaped(word))),
                Some('c') => match rest.next().and_then(|word| word.head().chars().next()) {
                    Some(first) => made.push_str(first.encode_utf8(&mut [0; 4])),
                    None => made.push(Piece::Unknown(Source::Name)),
                },
                Some('d' | 'i' | 'u') => match rest.next() {
                    Some(word) if word.as_str().is_some() => made.append(word),
                    _ => made.push(Piece::Unknown(Source::Name)),
                },
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

pub(super) fn cat(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let mut made = Text::default();
    let mut paths = given.operands.iter().peekable();
    if paths.peek().is_none() {
        made = call.input.cloned().unwrap_or_else(|| Source::Any.into());
    }
    for path in paths {
        if path.as_str() == Some("-") || path.as_str() == Some("/dev/stdin") {
            made.append(call.input.unwrap_or(&Source::Any.into()));
            continue;
        }
        acts.push(Act::read(path));
        made.append(&(call.written)(path).unwrap_or_else(|| Source::File.into()));
    }
    acts.push(Act::Prints(made));
}

/// Prints names: all of a directory, where nothing in the words chooses among them.
pub(super) fn ls(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let is_more = |word: &Text| word.head().starts_with('-') && word.head().contains(['l', 's', 'R', 'i']);
    let tells_more = call.words.iter().any(is_more);
    if call.name != "ls" || tells_more {
        return;
    }
    if given.operands.iter().any(Text::has_pattern) {
        return acts.push(Act::Prints(Text::join(&given.operands, "\n")));
    }
    acts.push(Act::Prints(all_below().then(&"\n".into())));
}

pub(super) fn whoami(call: &Call<'_>, _: &Given<'_>, acts: &mut Vec<Act>) {
    acts.push(line(call.home.rsplit('/').next().unwrap_or("user")));
}

pub(super) fn seq(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let numbers: Option<Vec<i64>> = given.operands.iter().map(|word| word.as_str()?.parse().ok()).collect();
    let (from, to) = match numbers.as_deref() {
        Some([to]) => (1, *to),
        Some([from, to]) => (*from, *to),
        _ => (1, i64::MAX),
    };
    let is_short = given.options.is_empty() && to.saturating_sub(from) < TURNS_MAX as i64;
    let text: String = if is_short { (from..=to).map(|at| format!("{at}\n")).collect() } else { String::new() };
    acts.push(Act::Prints(if is_short { text.into() } else { Source::Name.into() }));
}

/// `basename`, `dirname`.
pub(super) fn path_part(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let [path, ..] = given.operands.as_slice() else { return };
    let Some(known) = path.as_str() else {
        let source = if call.name == "basename" { Source::Name } else { Source::Any };
        return acts.push(Act::Prints(source.into()));
    };
    let known = if known.len() > 1 { known.trim_end_matches('/') } else { known };
    acts.push(line(match (call.name, known.rsplit_once('/')) {
        ("basename", Some((_, name))) => name,
        ("basename", None) => known,
        (_, Some(("", _))) => "/",
        (_, Some((directory, _))) => directory,
        (_, None) => ".",
    }));
}

pub(super) fn mktemp(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    acts.extend(given.operands.iter().map(Act::write));
    acts.push(line("/tmp/tmp.made"));
}

pub(super) fn yes(call: &Call<'_>, _: &Given<'_>, acts: &mut Vec<Act>) {
    let mut text = if call.words.is_empty() { Text::from("y") } else { Text::join(call.words, " ") };
    text.push_str("\n");
    // And so on, without an end.
    text.push(Piece::Unknown(Source::Program));
    acts.push(Act::Prints(text));
}

pub(super) fn date(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    for word in given.operands.iter().filter(|word| !word.head().starts_with('+')) {
        high(acts, "system", format!("sets the clock to {}", word.shown()));
    }
    let plain = |c: char| !c.is_ascii_alphanumeric() && !"%_-.:+/ ".contains(c);
    if given.operands.iter().all(|word| word.as_str().is_some_and(|word| !word.contains(plain) && !word.contains("%n")))
    {
        acts.push(Act::Prints(Source::Name.into()));
    }
}

/// The numbers of processes: of all where nothing chooses among them.
pub(super) fn ps(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let is_all = if call.name == "pgrep" {
        let every = |word: &Text| word.lossy().chars().all(|c| ".*^$".contains(c));
        given.has_word(&["-v", "--inverse"]) || given.options.is_empty() && given.operands.iter().all(every)
    } else {
        let chooses = ["-C", "-p", "--pid", "--ppid", "-t", "-q"];
        let every = |word: &Text| match word.lossy().strip_prefix('-') {
            Some(letters) => letters.chars().take_while(|c| *c != 'o').any(|c| matches!(c, 'e' | 'A' | 'a')),
            None => word.lossy().contains(['a', 'x']) && word.lossy().bytes().all(|byte| byte.is_ascii_lowercase()),
        };
        call.words.first().is_some_and(every) && !given.has_word(&chooses)
    };
    acts.push(Act::Prints(if is_all { Source::Processes } else { Source::Program }.into()));
}

/// `test`, `stat`: what is looked at may be any word.
pub(super) fn test(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let compares = ["=", "==", "!=", "-eq", "-ne", "-lt", "-gt", "-le", "-ge", "-z", "-n"];
    if matches!(call.name, "test" | "[") && given.has_word(&compares) {
        return;
    }
    let paths = given.operands.iter().filter(|word| word.head().contains('/') || call.name == "stat");
    acts.extend(paths.cloned().map(Act::List));
}

pub(super) fn jq(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let has_file = given.values("pattern").next().is_some();
    let filter = if has_file { None } else { given.operands.first() };
    acts.extend(given.operands.iter().skip(usize::from(!has_file)).map(Act::read));
    let reads = |filter: &str| ["import", "include", "load"].iter().any(|word| filter.contains(word));
    if filter.is_some_and(|filter| filter.as_str().is_none_or(reads)) {
        high(acts, "code", "a filter that may read other files");
    }
}

pub(super) fn tee(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let data = call.input.cloned().unwrap_or_else(|| Source::Any.into());
    for path in &given.operands {
        acts.push(Act::write(path));
        acts.push(Act::Store(path.clone(), data.clone()));
    }
    acts.push(Act::Prints(data));
}

/// The operands of `cp`, `mv`, `ln`: the sources and the target.
fn sources_and_target(given: &Given<'_>) -> (Vec<Text>, Option<Text>) {
    let mut operands = given.operands.clone();
    match given.values("into").next() {
        Some(directory) => (operands, Some(directory.clone())),
        None => {
            let target = operands.pop();
            (operands, target)
        }
    }
}

pub(super) fn copy(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    if given.has("dirs") {
        return acts.extend(given.operands.iter().map(Act::write));
    }
    let (sources, target) = sources_and_target(given);
    let Some(target) = target else { return };
    acts.extend(sources.iter().map(Act::read));
    acts.push(Act::write(&target));
    acts.extend(sources.into_iter().map(|source| Act::Copy(source, target.clone())));
}

pub(super) fn link(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let (mut sources, mut target) = sources_and_target(given);
    if sources.is_empty() {
        sources.extend(target.take());
        target = sources.first().and_then(|source| source.split(|c| c == '/').pop());
    }
    let Some(target) = target else { return };
    acts.push(Act::write(&target));
    acts.extend(sources.into_iter().map(|source| Act::Link(source, target.clone())));
}

pub(super) fn move_files(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let (sources, target) = sources_and_target(given);
    let Some(target) = target else { return };
    acts.push(Act::write(&target));
    let sources = sources.into_iter().filter(|source| !source.is_empty());
    acts.extend(sources.map(|source| Act::Move(source, target.clone())));
    if target.as_str() == Some("/dev/null") {
        block(acts, "device", "moves files onto /dev/null");
    }
}

pub(super) fn remove(_: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    acts.extend(given.operands.iter().map(|path| match given.has("tree") {
        true => Act::tree(path),
        false => Act::Write(path.clone(), WriteKind::Delete),
    }));
}

/// Whether a mode makes a program run with its owner's or group's rights.
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

pub(super) fn mode(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let mut operands = given.operands.clone();
    // Of chmod and chattr a mode may look like an option: `-x`, `+i`.
    let is_mode = |word: &Text| {
        let letters = word.lossy().strip_prefix(['-', '+', '=']).unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|c| "rwxXstaiAcCdDejmPSTu".contains(c))
    };
    let has_minus = matches!(call.name, "chmod" | "chattr")
        && call.words.iter().any(|word| is_mode(word) && !matches!(word.lossy(), "-R" | "-c" | "-v" | "-f"));
    if call.name == "chattr" {
        operands.retain(|word| !is_mode(word));
    }
    let by_value = matches!(call.name, "chmod" | "chown" | "chgrp" | "chcon") && !given.has_option("--reference");
    if by_value && !has_minus && !operands.is_empty() {
        let mode = operands.remove(0);
        if call.name == "chmod" && mode.as_str().is_none() {
            high(acts, "setuid", "sets a mode that isn't known");
        }
        if call.name == "chmod" {
            setuid(mode.lossy(), acts);
        }
    } else if call.name == "chmod" && operands.first().is_some_and(is_mode) {
        setuid(operands.remove(0).lossy(), acts);
    }
    acts.extend(operands.into_iter().map(|path| match given.has("tree") {
        true => Act::Tree(path, WriteKind::Mode),
        false => Act::Write(path, WriteKind::Mode),
    }));
}

pub(super) fn dd(call: &Call<'_>, _: &Given<'_>, acts: &mut Vec<Act>) {
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

/// The letters that tar was given, the values of those that take one, and the other words.
fn tar_letters(call: &Call<'_>, acts: &mut Vec<Act>) -> (String, Vec<(char, Text)>, Vec<Text>) {
    const VALUES: &str = "fCTXIFbgHLNKV";
    let (mut letters, mut values, mut operands) = (String::new(), Vec::new(), Vec::new());
    let mut words = call.words.iter().enumerate().filter(|(_, word)| !word.head().starts_with("--"));
    while let Some((at, word)) = words.next() {
        let head = word.head();
        // The first word may be letters without a dash: each takes the next of the following words.
        let is_old = at == 0 && !head.starts_with('-') && !head.is_empty();
        if !is_old && (!head.starts_with('-') || head.len() < 2) {
            operands.push(word.clone());
            continue;
        }
        let known = head.strip_prefix('-').unwrap_or(head);
        for (at, letter) in known.char_indices() {
            letters.push(letter);
            if VALUES.contains(letter) {
                let rest = &known[at + letter.len_utf8()..];
                let is_apart = is_old || rest.is_empty();
                let value =
                    if is_apart { words.next().map(|(_, word)| word.clone()).unwrap_or_default() } else { rest.into() };
                match letter {
                    'I' | 'F' => acts.push(Act::Code(value)),
                    'T' | 'X' => acts.push(Act::Read(value)),
                    _ => values.push((letter, value)),
                }
                if !is_apart {
                    break;
                }
            }
        }
    }
    (letters, values, operands)
}

pub(super) fn tar(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let (mut letters, values, operands) = tar_letters(call, acts);
    letters.extend(["x", "c", "t", "O", "P"].into_iter().filter(|mark| given.has(mark)).flat_map(str::chars));
    acts.extend(given.values("checkpoint").filter_map(|action| action.strip_prefix("exec=")).map(Act::Code));
    let value = |letter: char, role: &str| {
        let short = values.iter().rfind(|(own, _)| *own == letter).map(|(_, value)| value.clone());
        short.or_else(|| given.values(role).next().cloned())
    };
    let directory = value('C', "place").or_else(|| given.values("attached").next().cloned());
    let prints = letters.contains('O');
    let creates = letters.contains(['c', 'r', 'u', 'A']);
    let at = |path: &Text| match &directory {
        Some(directory) if !path.head().starts_with('/') => Text::join(&[directory.clone(), path.clone()], "/"),
        _ => path.clone(),
    };
    if letters.contains('x') && !prints {
        acts.push(Act::Write(below(&directory.clone().unwrap_or_else(|| ".".into())), WriteKind::Write));
        if letters.contains('P') {
            high(acts, "unknown-path", "unpacks to the paths that the archive names");
            let absolute = operands.iter().filter(|path| path.head().starts_with('/'));
            acts.extend(absolute.map(Act::write));
        }
    }
    match value('f', "archive").filter(|archive| archive.as_str() != Some("-")) {
        Some(archive) if archive.head().contains(':') => acts.push(Act::Net(super::plan::host_of(&archive))),
        Some(archive) if creates => acts.push(Act::Write(archive, WriteKind::Write)),
        Some(archive) => acts.push(Act::Read(archive)),
        None => {}
    }
    if creates {
        acts.extend(operands.iter().map(|path| Act::Read(at(path))));
        let removed = operands.iter().filter(|_| given.has("removes"));
        acts.extend(removed.map(|path| Act::Tree(at(path), WriteKind::DeleteTree)));
    }
    let fed = call.input.and_then(Text::source).filter(|source| *source == Source::Net);
    let source = if prints && !letters.contains('t') { fed.unwrap_or(Source::Decoded) } else { Source::Program };
    acts.push(Act::Prints(source.into()));
}

pub(super) fn archive(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let verb = given.operands.first().map_or("", |verb| verb.lossy());
    let only_lists = given.has_word(&["-l", "-t", "l", "t", "-tf", "-it", "tf"]) || verb == "l" || verb == "t";
    if call.name.starts_with('7') && given.has_word(&["-sdel"]) {
        acts.extend(given.operands.iter().skip(2).map(Act::tree));
    }
    let attached = call.words.iter().filter_map(|word| word.strip_prefix("-o")).filter(|_| call.name.starts_with('7'));
    let mut targets: Vec<Text> = attached.map(|path| below(&path)).collect();
    if matches!(call.name, "ar" | "jar") && !verb.contains('x') || verb == "a" {
        targets.extend(given.operands.iter().find(|word| word.head().contains('.')).cloned());
    }
    targets.extend(given.operands.iter().filter(|word| word.head().ends_with('/')).map(below));
    if targets.is_empty() {
        targets.push(below(&".".into()));
    }
    if !only_lists {
        acts.extend(targets.into_iter().map(|path| Act::Write(path, WriteKind::Write)));
    }
    if given.has_word(&["-so", "p", "-p", "--to-stdout"]) {
        acts.push(Act::Prints(Source::Decoded.into()));
    }
}

pub(super) fn compress(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let to_output = given.has("stdout") || given.operands.is_empty();
    let decodes = given.has("decodes") || ["un", "gun", "bun"].iter().any(|it| call.name.starts_with(it));
    acts.extend(given.operands.iter().map(if to_output { Act::read } else { Act::write }));
    let fed = call.input.and_then(Text::source).filter(|source| *source == Source::Net);
    acts.push(Act::Prints(if decodes { fed.unwrap_or(Source::Decoded) } else { Source::Program }.into()));
}

/// A search for files, read.
#[derive(Default)]
struct Search {
    starts: Vec<Text>,
    /// The name that is looked for, if nothing else chooses.
    name: Option<Text>,
    is_narrow: bool,
    /// Whether only the starts themselves are found.
    is_flat: bool,
    commands: Vec<Vec<Text>>,
    deletes: bool,
}

impl Search {
    /// A path as it would be found.
    fn path(&self, start: &Text) -> Text {
        if self.is_flat {
            return start.clone();
        }
        match &self.name {
            Some(name) if !name.has_pattern() => start.clone().then(&"/".into()).then(name),
            None if !self.is_narrow => start.clone().then(&"/".into()).then(&all_below()),
            _ => below(start),
        }
    }

    fn acts(&self, acts: &mut Vec<Act>) {
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

pub(super) fn find(call: &Call<'_>, _: &Given<'_>, acts: &mut Vec<Act>) {
    let mut search = Search::default();
    let mut words = call.words.iter().peekable();
    while let Some(word) = words.peek() {
        let head = word.head();
        if matches!(head, "(" | "!")
            || head.starts_with('-') && !matches!(head, "-H" | "-L" | "-P") && !head.starts_with("-O")
        {
            break;
        }
        search.starts.extend(words.next().filter(|word| !word.head().starts_with('-')).cloned());
    }
    if search.starts.is_empty() {
        search.starts.push(".".into());
    }
    let (mut is_negated, mut has_or) = (false, false);
    while let Some(word) = words.next() {
        let Some(word) = word.as_str() else { continue };
        let mut value = || words.next().cloned().unwrap_or_default();
        match word {
            "!" | "-not" => {
                is_negated = true;
                continue;
            }
            "-o" | "-or" => has_or = true,
            "-name" | "-iname" => {
                let name = value().alive();
                if super::place::is_all(&name) || is_negated {
                    search.is_narrow |= is_negated;
                } else {
                    search.name = Some(name);
                }
            }
            "-path" | "-ipath" | "-wholename" | "-regex" | "-iregex" => {
                let pattern = value();
                search.is_narrow |= !pattern.lossy().trim_start_matches(['/', '.', '*']).is_empty();
            }
            "-empty" | "-executable" | "-nouser" | "-nogroup" => search.is_narrow = true,
            "-mtime" | "-mmin" | "-newer" | "-size" | "-atime" | "-ctime" | "-amin" | "-cmin" | "-user" | "-group"
            | "-perm" | "-links" | "-inum" | "-newermt" => {
                let value = value();
                search.is_narrow |= !matches!(value.lossy(), "+0" | "-0" | "+0c" | "-1");
            }
            "-type" | "-xtype" => search.is_narrow |= !matches!(value().lossy(), "f" | "d" | "f,d" | "d,f"),
            "-maxdepth" => search.is_flat |= value().as_str() == Some("0"),
            "-mindepth" | "-printf" | "-fstype" | "-D" => _ = value(),
            "-delete" => search.deletes = true,
            "-fprint" | "-fprint0" | "-fls" => acts.push(Act::Write(value(), WriteKind::Write)),
            "-fprintf" => {
                acts.push(Act::Write(value(), WriteKind::Write));
                words.next();
            }
            "-files0-from" => {
                acts.push(Act::Read(value()));
                high(acts, "unknown-path", "looks in places that a file names");
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => search.commands.push(command_of(&mut words)),
            _ => {}
        }
        is_negated = false;
    }
    if has_or && search.name.is_some() {
        (search.name, search.is_narrow) = (None, true);
    }
    acts.extend(search.starts.iter().map(|start| Act::List(start.clone())));
    search.acts(acts);
}

pub(super) fn fd(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let mut search = Search::default();
    let at = call.words.iter().position(|word| matches!(word.lossy(), "-x" | "-X" | "--exec" | "--exec-batch"));
    let own = at.unwrap_or(call.words.len());
    let operands: Vec<&Text> = given.operands.iter().filter(|operand| call.words[..own].contains(operand)).collect();
    search.is_narrow = given.has_option("-e")
        || given.has_option("--extension")
        || given.has_option("-S")
        || operands.first().is_some_and(|pattern| !matches!(pattern.lossy(), "." | "" | ".*"));
    search.starts = operands.iter().skip(1).map(|start| (*start).clone()).collect();
    if search.starts.is_empty() {
        search.starts.push(".".into());
    }
    if at.is_some() {
        let mut command = call.words[own + 1..].to_vec();
        if !command.iter().any(|word| word.head().contains("{}")) {
            command.push("{}".into());
        }
        search.commands.push(command);
    }
    acts.extend(search.starts.iter().map(|start| Act::List(start.clone())));
    search.acts(acts);
}

pub(super) fn xargs(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let from_file = given.values("input").next();
    acts.extend(from_file.map(Act::read));
    let input = match from_file {
        Some(path) => (call.written)(path).unwrap_or_else(|| Source::File.into()),
        None => call.input.cloned().unwrap_or_else(|| Source::Any.into()),
    };
    let command = if given.rest.is_empty() { vec!["echo".into()] } else { given.rest.to_vec() };
    let replaces = given.has("replace") || given.options.iter().any(|(option, _)| option.role == "replace");
    let named = given.values("replace").next().map(|mark| mark.lossy().to_owned());
    let mark = named.or_else(|| replaces.then(|| "{}".to_owned()));
    let by_null = given.words.iter().any(|word| matches!(word.lossy(), "-0" | "--null" | "-r0" | "-0r"));
    let is_blank = |c: char| c == '\0' || !by_null && (c == '\n' || mark.is_none() && c.is_whitespace());
    // `echo` and `printf` have quotes that xargs takes away.
    let mut items: Vec<Text> =
        input.split(is_blank).into_iter().filter(|item| !item.is_empty()).map(|item| unquoted(&item)).collect();
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

fn unquoted(item: &Text) -> Text {
    match item.as_str() {
        Some(text) => text.trim_matches(['"', '\'']).into(),
        None => item.clone(),
    }
}

pub(super) fn parallel(call: &Call<'_>, given: &Given<'_>, acts: &mut Vec<Act>) {
    let is_list = |word: &Text| matches!(word.lossy(), ":::" | ":::+" | "::::" | "::::+");
    let at = given.rest.iter().position(is_list);
    let command = &given.rest[..at.unwrap_or(given.rest.len())];
    let items: Vec<Text> = match at {
        Some(at) => given.rest[at..].iter().filter(|word| !is_list(word)).take(TURNS_MAX).cloned().collect(),
        None => {
            let input = call.input.cloned().unwrap_or_else(|| Source::Any.into());
            input.split(|c| c == '\n').into_iter().filter(|item| !item.is_empty()).take(TURNS_MAX).collect()
        }
    };
    for item in items {
        let has_mark = command.iter().any(|word| word.head().contains("{}"));
        let mut words: Vec<Text> = command.iter().map(|word| put_in(word, "{}", &item)).collect();
        if !has_mark {
            words.push(item);
        }
        acts.push(Act::Code(Text::join(&words, " ")));
    }
}
