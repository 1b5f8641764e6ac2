//! Code of other languages. It isn't followed: string literals that are commands or paths are judged, all else is unknown.

use super::{Act, Call, block, high};
use crate::policy::piece::Text;
use crate::policy::programs::{Parsed, listed};
use crate::proto::action::Risk;

const CODE_BYTES_MAX: usize = 16 * 1024;
const LITERALS_MAX: usize = 64;

struct Literal {
    text: String,
    /// Its beginning and end.
    from: usize,
    to: usize,
}

fn has_any(code: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| code.contains(mark))
}

/// Cuts the string literals out of code. Comments are passed over if they can't be anything else.
fn literals(code: &str, has_hash_comments: bool) -> Vec<Literal> {
    let mut found = Vec::new();
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() && found.len() < LITERALS_MAX {
        let byte = bytes[at];
        let is_start = at == 0 || bytes[at - 1].is_ascii_whitespace();
        if byte == b'#' && has_hash_comments && is_start || byte == b'/' && bytes.get(at + 1) == Some(&b'/') && is_start
        {
            at += code[at..].find('\n').unwrap_or(code.len() - at);
            continue;
        }
        if !matches!(byte, b'"' | b'\'' | b'`') {
            at += 1;
            continue;
        }
        let triple = [byte; 3];
        let width = if bytes[at..].starts_with(&triple) { 3 } else { 1 };
        let mut text = Vec::new();
        let mut end = at + width;
        while end < bytes.len() && !bytes[end..].starts_with(&triple[..width]) {
            if bytes[end] == b'\\' && end + 1 < bytes.len() {
                end += 1;
                match bytes[end] {
                    b'n' => text.push(b'\n'),
                    b't' => text.push(b'\t'),
                    other => text.push(other),
                }
            } else {
                text.push(bytes[end]);
            }
            end += 1;
        }
        let to = (end + width).min(bytes.len());
        found.push(Literal { text: String::from_utf8_lossy(&text).into_owned(), from: at, to });
        at = to;
    }
    found
}

/// Perl's and Ruby's other quotes, and Tcl's and Lisp's braces: `qw(…)`, `%x{…}`.
fn other_quotes(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for mark in ["qx", "qw", "qq", "q", "%x", "%w", "%q", "%Q", "%"] {
        for (at, _) in code.match_indices(mark).take(16) {
            let is_word = at > 0 && code.as_bytes()[at - 1].is_ascii_alphanumeric();
            let rest = &code[at + mark.len()..];
            let quotes = [('(', ')'), ('{', '}'), ('[', ']'), ('/', '/'), ('|', '|'), ('<', '>')];
            let Some((_, close)) = quotes.into_iter().find(|(open, _)| rest.starts_with(*open)) else { continue };
            if let Some(end) = rest[1..].find(close).filter(|_| !is_word) {
                found.push(rest[1..=end].to_owned());
            }
        }
    }
    found
}

/// Returns whether a literal may be run, by the code before it: one that is printed or compared isn't.
fn is_run(before: &str) -> bool {
    let trimmed = before.trim_end_matches(|c: char| c.is_whitespace() || "([{".contains(c));
    let opened = &before[trimmed.len()..];
    let word = trimmed.rsplit(|c: char| !(c.is_alphanumeric() || "=!~_".contains(c))).next().unwrap_or_default();
    let is_shown = listed("shown").contains(&word) || trimmed.ends_with([':', '/']);
    // A list that is only assigned.
    !(is_shown || word.ends_with('=') && opened.contains('['))
}

/// The arguments of a call that are literals: `["rm", "-rf", "/"]` is one command.
fn commands(code: &str, literals: &[Literal], is_list: bool) -> Vec<(usize, Vec<String>)> {
    let mut made: Vec<(usize, Vec<String>)> = Vec::new();
    let mut end = 0;
    for literal in literals {
        let between = code.get(end..literal.from).unwrap_or_default().trim();
        let joins = !made.is_empty()
            && (matches!(between, "," | ",[" | ", [" | "],[" | "=>") || is_list && between.is_empty())
            && end > 0;
        if let Some((_, last)) = made.last_mut().filter(|_| joins) {
            last.push(literal.text.clone());
        } else if let Some((_, last)) = made.last_mut().filter(|_| matches!(between, "" | "+" | "." | "..") && end > 0)
        {
            // Concatenated literals are one text.
            last.last_mut().into_iter().for_each(|text| text.push_str(&literal.text));
        } else {
            made.push((literal.from, vec![literal.text.clone()]));
        }
        end = literal.to;
    }
    made
}

fn looks_like_path(text: &str) -> bool {
    let is_path = text.starts_with(['/', '~']) || text.starts_with("../") || matches!(text, "." | ".." | "*");
    is_path && text.len() < 1024 && !text.contains(['\n', ' ', '$', '|', ';'])
}

/// Judges code of a language by its literals.
pub(in crate::policy) fn code(language: &str, text: &Text, acts: &mut Vec<Act>) {
    if language != "sql" && language != "text" {
        high(acts, "code", format!("{language} runs code that isn't followed"));
    }
    if text.is_foreign() && language != "sql" && language != "text" {
        return block(acts, "fed-code", format!("{language} runs what came over the network or out of a decoder"));
    }
    let mut code = text.code();
    for home in listed("home-in-text") {
        code = code.replace(home, "$HOME");
    }
    code = code.replace("ENVIRON[\"HOME\"]", "\"$HOME\"");
    if code.len() > CODE_BYTES_MAX {
        return block(acts, "too-complex", "the code is longer than is looked at");
    }
    let has_hash =
        !matches!(language, "node" | "nodejs" | "deno" | "php" | "java" | "sql" | "vim" | "emacs" | "bun" | "editor");
    let found = literals(&code, has_hash);
    let runs = (has_any(&code, listed("runs")) || language == "text") && language != "sql";
    let is_list = !matches!(language, "awk" | "gawk" | "mawk") && !language.starts_with("python");
    for (from, command) in commands(&code, &found, is_list) {
        let is_tick = code.as_bytes()[from] == b'`'
            && matches!(language, "perl" | "ruby" | "php")
            && !code[..from].ends_with('/');
        if !runs || !(is_tick || is_run(&code[..from])) {
            continue;
        }
        let before = code[..from].trim_end_matches(['(', ' ']);
        if let ([inner], true) =
            (command.as_slice(), before.ends_with("exec") || before.ends_with("eval") || before.ends_with("compile"))
            && inner.len() < code.len() / 2 + 64
            && inner.len() + 6 < code.len()
        {
            self::code(language, &inner.as_str().into(), acts);
        }
        match command.as_slice() {
            [line] => acts.push(Act::Suspect(line.as_str().into())),
            // The name of a program may precede its own first argument: `execl("/bin/sh", "sh", "-c", …)`.
            words => {
                let texts: Vec<Text> = words.iter().map(|word| word.as_str().into()).collect();
                if texts.get(1).is_some_and(|second| words[0].ends_with(second.lossy()) && !second.is_empty()) {
                    acts.push(Act::SuspectRun(texts[1..].to_vec()));
                }
                let program = words[0].as_str();
                if !program.contains(' ') {
                    acts.push(Act::SuspectRun(texts));
                } else {
                    acts.push(Act::Suspect(program.into()));
                }
            }
        }
    }
    if runs {
        acts.extend(other_quotes(&code).into_iter().map(|line| Act::Suspect(line.into())));
    }
    paths(&code, &found, acts);
    whole(&code, language, acts);
}

/// A line of an editor or a client of a database: its own command that runs a line of a shell, or writes a file. `writes`
/// is the list of those that write; returns whether it is one of these commands.
fn own_command(line: &str, writes: &str, acts: &mut Vec<Act>) -> bool {
    let after = |list: &str| listed(list).iter().find_map(|mark| line.strip_prefix(mark));
    if let Some(code) = after("line-runs").or_else(|| after(writes)?.trim().strip_prefix('|')) {
        acts.push(Act::Suspect(code.into()));
    } else if let Some(target) = after(writes) {
        acts.push(Act::write(&target.trim_matches(['\'', '"', '>', ' ']).into()));
    }
    after("line-runs").or_else(|| after(writes)).is_some()
}

/// Adds the paths among the literals, judged by what the code shows signs of.
fn paths(code: &str, found: &[Literal], acts: &mut Vec<Act>) {
    let deletes = has_any(code, listed("deletes"));
    // A mode may precede a path.
    let bare = |text: &str| text.trim_start_matches(['>', '<', '+', ' ']).to_owned();
    let mut texts: Vec<String> = found.iter().map(|literal| bare(&literal.text)).collect();
    // Expressions for the home.
    let homes = listed("foreign-homes");
    if has_any(code, homes) {
        let below: Vec<String> = texts
            .iter()
            .filter(|text| text.starts_with(['.', '/']) && text.len() > 1)
            .map(|text| format!("~/{}", text.trim_start_matches('/')))
            .collect();
        texts.extend(below);
        if deletes && !texts.iter().any(|text| text.starts_with("~/")) {
            texts.push("~".to_owned());
        }
    }
    for text in texts.iter().filter(|text| looks_like_path(text)) {
        let path = Text::from(text.as_str()).alive();
        let is_here = matches!(text.as_str(), "." | ".." | "*");
        let takes_trees = has_any(code, &["rmtree", "rm_rf", "rm_r", "rmSync", "removeAll", "RemoveAll"]);
        if deletes && (takes_trees || !is_here) {
            acts.push(Act::Suspect(Text::from("rm -rf ").then(&Text::from(text.as_str()))));
        }
        // Of a copy the first path is read.
        let is_target = has_any(code, &["copy", "Copy", "cp("]) && code.contains(&format!(",\"{text}"))
            || [", \"", ", '", ",'"].iter().any(|mark| code.contains(&format!("{mark}{text}")));
        acts.push(Act::SuspectPath(path, deletes || has_any(code, listed("writes")) || is_target));
    }
}

/// Adds the signs that the whole code has.
fn whole(code: &str, language: &str, acts: &mut Vec<Act>) {
    let mut block = |rule: &'static str, text: String| block(acts, rule, text);
    let evaluates = has_any(code, listed("evaluates"));
    if evaluates && has_any(code, listed("fetches")) && language != "text" {
        block("fed-code", format!("{language} runs what it fetches"));
    } else if evaluates && has_any(code, listed("decodes")) && language != "text" {
        block("fed-code", format!("{language} runs what it decodes"));
    }
    let forks = code.contains("fork") && !has_any(code, &["wait", "fork(\"", "fork('"]);
    let is_again = has_any(code, listed("loops")) || code.matches("fork").count() > 2;
    if forks && is_again && !matches!(language, "text" | "sql") {
        block("fork-bomb", format!("{language} starts itself again and again"));
    }
    let connects = has_any(code, &["socket", "Socket", "/inet/tcp", "net.connect", "fsockopen"]);
    if connects && has_any(code, &["dup2", "/bin/sh", "/bin/bash", "sh -i", "\"sh\"", "'sh'", "pty.spawn", "cmd.exe"]) {
        block("network-shell", format!("{language} ties a shell to the network"));
    }
    let kills = code.contains("kill") && has_any(code, &["-1,", ", -1", "-1)", "(1,", "(-1"]);
    if kills {
        block("kill-all", format!("{language} sends a signal to every process"));
    }
    if code.contains("chmod") && has_any(code, listed("foreign-modes")) {
        block("setuid", format!("{language} makes a program that runs with its owner's rights"));
    }
    if has_any(code, &["os.reboot", "reboot(", "syscall(169", "syscall(88", "LinuxReboot"]) && language != "text" {
        block("power", format!("{language} ends the system"));
    }
}

/// Handles an interpreter: code in an option, a script, or its input.
pub(super) fn interpreter(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let has_code = parsed.values("foreign").next().is_some()
        || parsed.options.iter().any(|(option, _)| option.role.starts_with("foreign:"));
    let files = if has_code { parsed.operands.as_slice() } else { parsed.operands.get(1..).unwrap_or_default() };
    let mut values = parsed.options.iter().filter_map(|(_, value)| value.as_ref());
    let evaluates = values.any(|code| has_any(&code.shown(), listed("evaluates")));
    if evaluates && call.input.is_some_and(Text::is_foreign) {
        block(acts, "fed-code", format!("{} runs what came over the network", call.name));
    }
    if parsed.has("inplace") {
        acts.extend(files.iter().map(Act::write));
    } else if has_code {
        let paths = files.iter().filter(|path| path.head().contains('/'));
        acts.extend(paths.map(|path| Act::SuspectPath(path.clone(), false)));
        // The code may run its arguments.
        let words = files.iter().filter(|word| word.head().contains(' '));
        acts.extend(words.map(Act::suspect));
        return;
    }
    match parsed.operands.first().filter(|path| path.as_str() != Some("-")) {
        Some(script) => acts.push(Act::Script(script.clone(), parsed.operands[1..].to_vec())),
        None => call.input.into_iter().for_each(|text| code(call.name, text, acts)),
    }
}

/// The code that options or the first operand hold, and the files that it works on.
fn codes_and_files<'g>(parsed: &'g Parsed<'_>, role: &'g str) -> (Vec<Text>, &'g [Text]) {
    let codes: Vec<Text> = parsed.values(role).cloned().collect();
    match parsed.operands.split_first() {
        Some((code, files)) if codes.is_empty() && !parsed.has_option("-f") && !parsed.has_option("--file") => {
            (vec![code.clone()], files)
        }
        _ => (codes, &parsed.operands),
    }
}

/// Handles awk: harmless if nothing in the program can run, read or write on its own.
pub(super) fn awk(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (codes, files) = codes_and_files(parsed, "foreign");
    for program in &codes {
        let is_plain = program.as_str().is_some_and(|text| {
            let marks = ["system", "getline", "|", "@", "close", "fflush", "PROCINFO", "/inet"];
            !has_any(&text.replace("||", ""), &marks) && !redirects(text)
        });
        if !is_plain {
            code("awk", program, acts);
        }
    }
    let mut values = parsed.options.iter().filter_map(|(_, value)| value.as_ref());
    let is_changed = values.any(|value| value.as_str() == Some("inplace"));
    let files = files.iter().filter(|path| !path.head().contains('=') && path.as_str() != Some("-"));
    acts.extend(files.map(if is_changed { Act::write } else { Act::read }));
}

/// Returns whether awk's `>` may be a redirection: it is after `print`, or a name of a file is after it.
fn redirects(code: &str) -> bool {
    let prints = |part: &str| part.split_once("print").is_some_and(|(_, rest)| rest.contains('>'));
    code.replace(' ', "").contains(">\"") || code.split(['{', ';', '\n']).any(prints)
}

/// Handles sed: harmless if the script only prints.
pub(super) fn sed(_: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let (scripts, files) = codes_and_files(parsed, "sed");
    for script in &scripts {
        if !script.as_str().is_some_and(only_prints) {
            high(acts, "code", "a script of sed that isn't followed");
            code("sed", script, acts);
        }
    }
    let is_changed = parsed.has("inplace");
    let files = files.iter().filter(|path| path.as_str() != Some("-"));
    acts.extend(files.map(if is_changed { Act::write } else { Act::read }));
}

/// Returns whether a script of sed neither runs nor writes: addresses, substitutions, and commands of one letter that only print.
fn only_prints(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).all(|command| {
        let mut rest = command;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "!$,+~I ".contains(c));
            match rest.strip_prefix('/').map(|pattern| pattern.split_once('/')) {
                Some(Some((pattern, after))) if !pattern.ends_with('\\') => rest = after,
                Some(_) => return false,
                None => break,
            }
        }
        let flags = match (rest.strip_prefix('s'), rest.chars().nth(1)) {
            (Some(pattern), Some(mark)) if !rest.contains('\\') => pattern.split(mark).nth(3).unwrap_or("?"),
            _ => rest.trim_start_matches(|c| "pPdDnNqQgGhHx=".contains(c)),
        };
        flags.chars().all(|c| c.is_ascii_digit() || "gpI ".contains(c))
    })
}

/// Editors: their command lines run and write.
pub(super) fn editor(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let mut lines: Vec<Text> = parsed.values("editor").cloned().collect();
    lines.extend(parsed.operands.iter().filter_map(|word| word.strip_prefix("+")));
    let is_batch = matches!(call.name, "ed" | "ex" | "red")
        || parsed.words.iter().any(|word| matches!(word.lossy(), "-es" | "-e" | "-Es" | "-s"));
    if let Some(input) = call.input.filter(|_| is_batch || matches!(call.name, "vim" | "vi")) {
        if input.is_foreign() && is_batch {
            block(acts, "fed-code", format!("{} runs what came over the network", call.name));
        }
        lines.extend(input.split(|c| c == '\n'));
    }
    for file in parsed.values("editor-file") {
        lines.extend((call.written)(file).iter().flat_map(|text| text.split(|c| c == '\n')));
    }
    for line in lines.iter().take(64) {
        let text = line.code();
        let text = text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || ":%.,$".contains(c));
        let before = ["silent! ", "silent ", "exe ", "execute ", "normal "];
        let text = before.iter().find_map(|it| text.strip_prefix(it)).unwrap_or(text);
        if !own_command(text, "editor-writes", acts) {
            code("editor", &text.into(), acts);
        }
    }
    let reads = matches!(call.name, "view" | "vimdiff");
    let files = parsed.operands.iter().filter(|path| !path.head().starts_with('+'));
    acts.extend(files.map(if reads { Act::read } else { Act::write }));
}

/// Databases: what a client's own commands run or write.
pub(super) fn database(call: &Call<'_>, parsed: &Parsed<'_>, acts: &mut Vec<Act>) {
    let mut codes: Vec<Text> = parsed.values("sql").cloned().collect();
    let is_file = matches!(call.name, "sqlite3" | "duckdb" | "sqlite" | "litecli" | "csvsql");
    codes.extend(parsed.operands.iter().skip(usize::from(is_file)).cloned());
    codes.extend(call.input.cloned());
    acts.extend(parsed.operands.iter().take(usize::from(is_file)).map(Act::read));
    let looks = |text: &str| {
        let text = text.trim_start().to_ascii_lowercase();
        listed("sql-looks").iter().any(|mark| text.starts_with(mark))
            && !has_any(&text, listed("sql-acts"))
            && !text.contains('\n')
    };
    if is_file
        && !codes.is_empty()
        && codes.iter().all(|text| text.as_str().is_some_and(looks))
        && parsed.options.iter().all(|(option, _)| option.risk.is_none_or(|(risk, ..)| risk == Risk::Low))
    {
        acts.retain(|act| !matches!(act, Act::Note(Risk::High, "announced" | "database", _)));
    }
    codes.iter().flat_map(|text| text.split(|c| c == '\n')).for_each(|line| database_line(line.code().trim(), acts));
}

/// A line of a database's client: what its own commands and its SQL run or write.
fn database_line(line: &str, acts: &mut Vec<Act>) {
    own_command(line, "client-writes", acts);
    let lower = line.to_ascii_lowercase();
    let runs = has_any(&lower, listed("sql-runs"));
    let writes = has_any(&lower, listed("sql-writes"));
    for literal in literals(line, false) {
        if runs {
            acts.push(Act::Suspect(literal.text.as_str().into()));
        }
        if looks_like_path(&literal.text) {
            acts.push(Act::SuspectPath(literal.text.as_str().into(), writes));
        }
    }
    if lower.contains("flushall") || lower.contains("dropdatabase") || lower.contains("drop database") {
        high(acts, "database", "removes a whole database");
    }
}
