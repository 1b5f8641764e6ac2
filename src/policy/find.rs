//! `find` and its like: where they look, what they keep, and what is done with what they find.

use super::exec::nothing;
use super::options::Options;
use super::run::{Run, Value};
use super::text::{self, NAME, has_open};
use crate::proto::action::{Effect, Risk, WriteKind};

impl Run<'_, '_> {
    /// `find`: where it looks, what it keeps, and what it does with what it finds.
    pub(super) fn find(&mut self, name: &str, words: &[String]) -> Value {
        let is_fd = matches!(name, "fd" | "fdfind");
        let search = if is_fd { Search::of_fd(words) } else { Search::of_find(words) };
        search.starts.iter().for_each(|path| self.lists(path));
        for path in &search.prints {
            self.writes(path, WriteKind::Write);
        }
        let narrow = search.narrow();
        if search.deletes {
            for start in &search.starts {
                self.found_tree(start, narrow, WriteKind::DeleteTree);
            }
        }
        let mut printed = Value::new();
        for argv in &search.commands {
            for start in &search.starts {
                let before = self.state.cwd.clone();
                let found = if search.in_directory { self.found_directories(start, &search) } else { start.clone() };
                let more = self.found_command(argv, &found, &search);
                self.state.cwd = before;
                printed = super::run::joined(if printed.is_empty() { nothing() } else { printed }, more);
            }
        }
        if search.is_unknown {
            self.note(Risk::High, "unknown-option", format!("{name} gets words that aren't known"));
        }
        let lines: Vec<String> = search.starts.iter().map(|start| search.path(start)).collect();
        let found = lines.join("\n") + "\n";
        search.prints.iter().for_each(|path| self.store(path, &vec![found.clone()], false));
        if !printed.is_empty() && !words.iter().any(|word| word.starts_with("-print")) {
            return printed;
        }
        vec![found]
    }

    /// What is done to what is found below a start: where nothing is left out it is done to the start itself.
    fn found_tree(&mut self, start: &str, narrow: bool, how: WriteKind) {
        if narrow {
            let is_forbidden = self.absolute(start).iter().any(|path| {
                let place = super::place::Place::of(path);
                let inside = self.map.zone(&format!("{path}/{NAME}"));
                let may = matches!(inside, super::place::Zone::Temporary | super::place::Zone::Workspace);
                self.map.is_vital(&place) && !may
            });
            if is_forbidden {
                self.block("delete-tree", format!("deletes files anywhere below {start}"));
            }
            if has_open(start) {
                self.block_unknown("unknown-tree", format!("deletes below a path that isn't known: {start}"));
            }
            self.writes(&format!("{start}/{NAME}"), WriteKind::Delete);
        } else {
            self.whole_tree(start, how);
        }
    }

    /// Goes where `-execdir` runs a command: beside each file that is found; gives the start's absolute path.
    fn found_directories(&mut self, start: &str, search: &Search) -> String {
        let (above, own) = start.trim_end_matches('/').rsplit_once('/').unwrap_or((".", start));
        let takes_start = search.name.as_ref().is_none_or(|name| text::may_match(&text::alive(name), own));
        let above = if start.starts_with('/') { format!("{above}/") } else { above.to_owned() };
        let whole = self.absolute(start);
        let mut places = if takes_start && !search.below { self.absolute(&above) } else { Vec::new() };
        places.extend(whole.iter().flat_map(|start| [start.clone(), format!("{start}/{NAME}")]));
        self.state.cwd = places;
        whole.into_iter().next().unwrap_or_default()
    }

    fn found_command(&mut self, argv: &[String], start: &str, search: &Search) -> Value {
        let place = search.path(start);
        let is_deleter =
            |name: &str| matches!(super::exec::base(name), "rm" | "unlink" | "shred" | "srm" | "rmdir" | "wipe");
        let deletes = argv.iter().take(4).any(|word| is_deleter(word));
        if deletes && argv.iter().any(|word| word.contains("{}")) {
            self.found_tree(start, search.narrow(), WriteKind::DeleteTree);
        }
        let path = if search.narrow() { place } else { start.to_owned() };
        let argv: Vec<String> = argv.iter().map(|word| word.replace("{}", &path)).collect();
        if deletes && search.narrow() {
            // The start was judged; what lies below has the names that were asked for.
            self.effect(Effect::Exec { argv: argv.iter().map(|word| text::shown(word)).collect() });
            self.note(Risk::High, "delete", format!("deletes what it finds below {start}"));
            let known: Vec<String> = argv.iter().filter(|word| **word != path).cloned().collect();
            return self.with_input(None, |run| run.exec_program(known));
        }
        self.with_input(Some(nothing()), |run| run.exec_program(argv))
    }
}

/// What a `find` was asked for.
#[derive(Default)]
struct Search {
    starts: Vec<String>,
    name: Option<String>,
    /// Whether something besides a name leaves files out.
    filters: bool,
    deletes: bool,
    commands: Vec<Vec<String>>,
    prints: Vec<String>,
    in_directory: bool,
    /// Whether the start itself isn't one of those that are found.
    below: bool,
    is_unknown: bool,
}

impl Search {
    fn of_find(words: &[String]) -> Self {
        let mut search = Self::default();
        let mut at = search.take_starts(words);
        let mut negated = false;
        while let Some(word) = words.get(at) {
            at += 1;
            let mut value = || {
                at += 1;
                words.get(at - 1).cloned().unwrap_or_default()
            };
            match word.as_str() {
                "!" | "-not" => {
                    negated = true;
                    continue;
                }
                "-name" | "-iname" | "-path" | "-ipath" | "-wholename" | "-regex" | "-iregex" | "-lname" => {
                    let pattern = value();
                    let is_all = pattern.chars().all(|c| "*?./".contains(c));
                    if !is_all && !negated {
                        search.name = Some(pattern.rsplit('/').next().unwrap_or_default().to_owned());
                    }
                    search.filters |= !is_all && negated && pattern.contains('*');
                }
                "-type" | "-xtype" => {
                    // Links, pipes and sockets are few; files and directories are all there is.
                    let kinds = value();
                    search.filters |= !kinds.contains(['f', 'd']);
                }
                "-mindepth" => search.below = value() != "0",
                "-maxdepth" | "-printf" | "-fstype" | "-depth0" => _ = value(),
                "-size" | "-mtime" | "-atime" | "-ctime" | "-mmin" | "-amin" | "-cmin" | "-newer" | "-user"
                | "-group" | "-perm" | "-links" | "-inum" | "-samefile" | "-uid" | "-gid" | "-newermt" | "-anewer"
                | "-cnewer" | "-used" => {
                    let value = value();
                    search.filters |= !value.is_empty();
                }
                "-empty" | "-nouser" | "-nogroup" | "-executable" => search.filters = true,
                "-delete" => search.deletes = true,
                "-fprint" | "-fprint0" | "-fls" => {
                    let path = value();
                    search.prints.push(path);
                }
                "-fprintf" => {
                    let path = value();
                    at += 1;
                    search.prints.push(path);
                }
                "-files0-from" => _ = value(),
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    search.in_directory |= word.ends_with("dir");
                    let end = command_length(&words[at..]);
                    search.commands.push(words[at..at + end].to_vec());
                    at += end + 1;
                }
                word if word.starts_with(text::is_open) => search.is_unknown = true,
                _ => {}
            }
            negated = false;
        }
        search
    }

    /// Takes the words in front of the expression; gives their number.
    fn take_starts(&mut self, words: &[String]) -> usize {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if word.starts_with('-') && !matches!(word.as_str(), "-H" | "-L" | "-P") && !word.starts_with("-O")
                || matches!(word.as_str(), "(" | "!" | "\\(")
            {
                break;
            }
            if !word.starts_with('-') {
                self.starts.push(word.clone());
            }
            at += 1;
        }
        if self.starts.is_empty() {
            self.starts.push(".".to_owned());
        }
        at
    }

    fn of_fd(words: &[String]) -> Self {
        let mut search = Self::default();
        let at = words.iter().position(|word| matches!(word.as_str(), "-x" | "-X" | "--exec" | "--exec-batch"));
        let (given, command) = words.split_at(at.unwrap_or(words.len()));
        let options = Options::read(given, "etdEcjS", "extension type max-depth exclude size changed-within");
        search.filters = options.has("eS", "extension")
            || options.operands.first().is_some_and(|pattern| !matches!(pattern.as_str(), "." | "" | ".*"));
        search.starts = options.operands.iter().skip(1).cloned().collect();
        if search.starts.is_empty() {
            search.starts.push(".".to_owned());
        }
        if let Some((_, argv)) = command.split_first() {
            let mut argv = argv.to_vec();
            if !argv.iter().any(|word| word.contains("{}")) {
                argv.push("{}".to_owned());
            }
            search.commands.push(argv);
        }
        search
    }

    /// Whether not all below the start is meant.
    fn narrow(&self) -> bool {
        self.filters || self.name.is_some()
    }

    /// A path as it would be found.
    fn path(&self, start: &str) -> String {
        match &self.name {
            Some(name) => super::wrap::found_path(start, Some(&text::alive(name))),
            None if self.filters => super::wrap::found_path(start, Some(&NAME.to_string())),
            None => super::wrap::found_path(start, None),
        }
    }
}

/// The length of the command behind `-exec`, up to its `;` or `+`.
fn command_length(words: &[String]) -> usize {
    let end = words.iter().position(|word| matches!(word.as_str(), ";" | "\\;"));
    let plus = words.windows(2).position(|pair| pair[0] == "{}" && pair[1] == "+").map(|at| at + 1);
    match (end, plus) {
        (Some(end), Some(plus)) => end.min(plus),
        (end, plus) => end.or(plus).unwrap_or(words.len()),
    }
}
