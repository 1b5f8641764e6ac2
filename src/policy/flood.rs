//! Fork bombs of every kind: loops without an end that start what nobody waits for, in the shell and in other languages,
//! and what prints without an end to what starts a process for each line.

use super::code::{self, Piece};
use super::run::Run;
use super::text::listed;
use crate::bash::{Command, Item, Kind, Part, Pipeline, Script, Word};

/// Calls that start a process and go on.
const STARTS: &str = " fork vfork forkpty pcntl_fork Popen popen2 popen3 spawn spawnl spawnlp spawnv spawnvp posix_spawn \
    create_subprocess_shell create_subprocess_exec Process start_process proc_open ";
/// Words that loops begin with.
const LOOPS: &[&str] = &["while", "until", "for", "loop", "redo", "setInterval", "forever", "repeat"];
/// Calls of a library that start a process and go on, where it is loaded.
const NODE_STARTS: &str = " exec execFile fork spawn ";
/// Words that say that a loop takes its time, or ends.
const WAITS: &str = " wait waitpid wait4 wait3 waitall join communicate sleep usleep nanosleep delay setTimeout accept recv recvfrom input \
    gets readline readlines read getline poll select get put acquire break last return exit die await close ";
/// Commands that go well whatever happens, and at once.
const ALWAYS: &str = " : true false echo printf ";
/// Commands of the shell that take no time.
const AT_ONCE: &str = " : true false echo printf let disown jobs bg continue unset export declare local shift umask ";

impl Run<'_, '_> {
    /// Loops without an end that start jobs without waiting are fork bombs, whatever they start.
    pub(super) fn endless(&mut self, is_endless: bool, body: &Script) {
        if is_endless && starts_jobs(body) && !waits(body) {
            self.block("fork-bomb", "an endless loop that starts jobs and never waits");
        }
    }

    /// A shell that is fed without an end.
    pub(super) fn fed_without_end(&mut self, code: &str) {
        let (script, _) = crate::bash::parse(code, self.depth);
        self.endless(true, &script);
    }

    /// Code in another language that starts processes in a loop without an end.
    pub(super) fn floods(&mut self, name: &str, code: &str) {
        if is_flood(code, name) {
            self.block("fork-bomb", "starts processes in an endless loop");
        }
    }
}

/// Whether the test of a loop goes well, or badly, each time and at once.
pub(super) fn never_ends(test: &Script) -> bool {
    !test.items.is_empty()
        && test.items.iter().flat_map(pipelines).flat_map(|pipeline| &pipeline.commands).all(turns_out_alike)
}

fn pipelines(item: &Item) -> impl Iterator<Item = &Pipeline> {
    std::iter::once(&item.first).chain(item.rest.iter().map(|(_, pipeline)| pipeline))
}

/// Whether a command ends each time alike, and at once.
fn turns_out_alike(command: &Command) -> bool {
    match &command.kind {
        Kind::Simple { words, .. } => {
            let first = words.first().map(crate::bash::unquoted).unwrap_or_default();
            match (first.as_str(), words.get(1).map(crate::bash::unquoted)) {
                ("sleep", Some(time)) => time.bytes().all(|byte| matches!(byte, b'0' | b'.')) || time.starts_with("0."),
                ("[" | "test", _) => words.iter().all(stays),
                _ => listed(ALWAYS, &first),
            }
        }
        Kind::Test(words) => words.iter().all(stays),
        Kind::Arithmetic(_) => true,
        Kind::Group(inner) | Kind::Subshell(inner) => never_ends(inner),
        _ => false,
    }
}

/// Whether a word is the same each time.
fn stays(word: &Word) -> bool {
    word.parts.iter().all(|part| match part {
        Part::Plain(_) | Part::Dead(_) => true,
        Part::Double(inner) => inner.iter().all(|part| matches!(part, Part::Plain(_) | Part::Dead(_))),
        _ => false,
    })
}

/// Whether a list starts jobs in the background, in brackets and loops too.
fn starts_jobs(script: &Script) -> bool {
    let starts = |command: &Command| match &command.kind {
        Kind::Coprocess(_) => true,
        kind => inner(kind).is_some_and(starts_jobs),
    };
    script.items.iter().any(|item| item.background || item.first.commands.iter().any(starts))
}

/// Whether a list does something that takes its time before the next turn.
fn waits(script: &Script) -> bool {
    let here = script.items.iter().filter(|item| !item.background);
    here.flat_map(pipelines).flat_map(|pipeline| &pipeline.commands).any(takes_time)
}

fn takes_time(command: &Command) -> bool {
    match &command.kind {
        Kind::Simple { words, .. } => words.first().is_some_and(|word| {
            let name = crate::bash::unquoted(word);
            !name.is_empty() && !listed(AT_ONCE, &name)
        }),
        Kind::If { .. } | Kind::Case { .. } => true,
        kind => inner(kind).is_some_and(waits),
    }
}

/// The list in brackets or in a loop.
fn inner(kind: &Kind) -> Option<&Script> {
    match kind {
        Kind::Group(inner) | Kind::Subshell(inner) => Some(inner),
        Kind::For { body, .. } | Kind::While { body, .. } | Kind::ArithmeticFor { body, .. } => Some(body),
        _ => None,
    }
}

/// Whether a loop's test takes one line of its input.
pub(super) fn reads_a_line(test: &Script) -> bool {
    matches!(test.items.as_slice(), [item] if matches!(item.first.commands.as_slice(),
        [Command { kind: Kind::Simple { words, .. }, .. }] if words.first().is_some_and(|word| crate::bash::unquoted(word) == "read")))
}

/// Whether code holds a loop without an end, a start of processes, and nothing that takes its time.
fn is_flood(code: &str, language: &str) -> bool {
    if !super::interpret::has_any(code, LOOPS) {
        return false;
    }
    let pieces = code::pieces(code, language);
    let is_node = pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.ends_with("child_process")));
    // In tcl the words of a program stand bare.
    let is_tcl = listed("tclsh wish expect", language);
    let (mut starts, mut in_exec) = (false, false);
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Name(name) if is_tcl && name == "exec" => in_exec = true,
            Piece::Name(_) if in_exec => {}
            Piece::Name(name) if listed(WAITS, name) => return false,
            Piece::Name(name) => starts |= listed(STARTS, name) || is_node && listed(NODE_STARTS, name),
            // `system("… &")`
            Piece::Text(text) => starts |= text.trim_end().ends_with('&') && !text.trim_end().ends_with("&&"),
            Piece::Sign('\n' | ';' | '}' | ']') => in_exec = false,
            // tcl's `exec … &`
            Piece::Sign('&') => starts |= matches!(pieces.get(at + 1), None | Some(Piece::Sign('}' | '\n' | ';'))),
            _ => {}
        }
    }
    starts && (0..pieces.len()).any(|at| begins_endless(&pieces[at..]))
}

/// Whether a loop without an end begins here.
fn begins_endless(pieces: &[Piece]) -> bool {
    let Some(Piece::Name(word)) = pieces.first() else { return false };
    let rest = match &pieces[1..] {
        [Piece::Sign('{'), rest @ ..] if word == "while" => rest,
        [Piece::Sign('('), rest @ ..] => rest,
        rest => rest,
    };
    let ends = |next: Option<&Piece>| match next {
        None | Some(Piece::Sign(')' | '{' | '}' | ':' | ';' | '\n')) => true,
        Some(Piece::Name(name)) => listed("do", name),
        _ => false,
    };
    match (word.as_str(), rest) {
        ("while", [Piece::Number(number), rest @ ..]) => *number != 0 && ends(rest.first()),
        ("while", [Piece::Name(not), Piece::Name(_) | Piece::Number(0), rest @ ..]) if not == "not" => {
            ends(rest.first())
        }
        ("while", [Piece::Name(name), rest @ ..]) => {
            (listed("true True TRUE", name) || listed(STARTS, name)) && ends(rest.first())
        }
        ("while", [Piece::Sign('!'), Piece::Number(0) | Piece::Name(_), rest @ ..]) => ends(rest.first()),
        ("until", [Piece::Number(0), rest @ ..]) => ends(rest.first()),
        ("until", [Piece::Name(name), rest @ ..]) => listed("false nil", name) && ends(rest.first()),
        ("for", rest) => {
            let head = rest.iter().take(12).take_while(|piece| !matches!(piece, Piece::Sign('{')));
            let head: Vec<&Piece> = head.collect();
            head.windows(2).any(|pair| pair[0] == &Piece::Sign(';') && pair[1] == &Piece::Sign(';'))
                || matches!(rest.first(), Some(Piece::Sign('{')))
        }
        ("loop", rest) => matches!(rest.first(), Some(Piece::Sign('{'))) || ends(rest.first()),
        ("redo" | "setInterval" | "forever" | "repeat", _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_without_an_end_are_told_from_others() {
        for (language, code) in [
            ("node", "while(1) require('child_process').spawn('x')"),
            ("node", "const c=require('child_process');for(let i=0;;i++)c.exec('x')"),
            ("awk", "BEGIN{while(1) system(\"x &\")}"),
            ("lua", "while true do os.execute('x &') end"),
            ("tclsh", "while 1 {exec sleep 9 &}"),
            ("tclsh", "while {1} {exec x &}"),
            ("python3", "while not False: Popen(['x'])"),
            ("perl", "{fork;redo}"),
            ("perl", "system('x &') while 1"),
            ("python3", "while 1: Popen(['x'])"),
            ("ruby", "loop do spawn 'x' end"),
        ] {
            assert!(is_flood(code, language), "{code}");
        }
        for (language, code) in [
            ("node", "while(1) { /x/.exec(y) }"),
            ("awk", "BEGIN{while(1 < n) system(\"x &\")}"),
            ("awk", "BEGIN{while(1) system(\"x\")}"),
            ("python3", "while True:\n  p = Popen(['x'])\n  p.wait()"),
            ("python3", "for x in y: Popen([x])"),
            ("node", "for(let i=0;i<3;i++) c.spawn('x')"),
            ("perl", "while(<>){system('x &')}"),
        ] {
            assert!(!is_flood(code, language), "{code}");
        }
    }
}
