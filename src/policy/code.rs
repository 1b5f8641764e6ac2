//! Code of other languages as a row of pieces: names, strings, signs. Strings that the code puts together in a plain way
//! are put together, variables that hold one are followed, and each string is told with the call that it is handed to.
//! One reader for all languages: it knows how they write strings, comments and calls, not their grammars.

use std::collections::BTreeMap;

use super::text::{self, ANY, has_open};

/// Pieces that are looked at: enough for any script of the longest length.
const PIECES_MAX: usize = 32 * 1024;
/// Pieces of one call that are looked at for what it does.
const ARGUMENT_PIECES_MAX: usize = 128;
/// Names by which code reaches what it doesn't name.
const HIDES: &str = " getattr setattr eval exec __import__ import_module vars globals locals __dict__ __builtins__ attrgetter \
    methodcaller Function constructor globalThis Reflect load loadstring _G _ENV ";
/// Strings in strings whose code is looked at.
const STRINGS_DEPTH_MAX: usize = 4;
/// What stands for the home among the names of variables.
const HOME: &str = "~";
/// Rounds of putting together.
const ROUNDS_MAX: usize = 24;

/// What a call does with a string that it is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Prints, compares or searches it.
    Data,
    /// Runs it.
    Run,
    /// Takes it for the path of a file that is only read.
    Read,
    /// Takes it for the path of a file that is changed.
    Write,
    /// Takes it for the path of what is moved elsewhere.
    Move,
    /// Nothing is known.
    Other,
}

/// A string of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    pub(super) text: String,
    pub(super) how: Use,
}

/// A piece of code.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Name(String),
    Text(String),
    Number(i64),
    Sign(char),
}

/// Calls that print, compare or search.
const DATA: &str = " print println printf puts p pp say echo log info debug warn error write writelines findall match search sub \
    split len startswith endswith includes indexOf index find test count contains append \
    assertEqual add_argument console.log inspect console.error strlen cat( message fputs fwrite puts gsub compile \
    startsWith endsWith include? message( writeln display newline length assert input title ";
/// Calls that run what they are handed.
pub(super) const RUN: &str = " system popen popen2 popen3 execSync exec execp execv execve execvp execvpe execl execlp execle spawn spawnSync \
    spawnlp spawnvp spawnl spawnv shell_exec passthru qx call check_call check_output run Popen getoutput getstatusoutput \
    execFile execFileSync Command os.execute os.cmd cmd command shell proc_open pcntl_exec capture2 capture2e capture3 \
    create_subprocess_shell create_subprocess_exec posix_spawn shell-command call-process start-process ProcessBuilder \
    getRuntime().exec async_process process_lines callProcess readProcess callCommand system* process* ";
/// Words that say in a statement that it starts a program.
const STARTERS: &str = " Command sh run-program start process-program shell-out Process new-process ProcessBuilder ";
/// Calls that read a file or look at it.
const READ: &str = " read_text read_bytes readFile readFileSync exists isfile isdir stat lstat getsize \
    readlines readline read_csv load ReadFile File.read IO.read file_get_contents is_file is_dir fileExists existsSync \
    statSync access realpath basename dirname readlink File.exist? exist? slurp ";
/// Calls that copy from the first of their strings to the second.
const COPIES: &str = " copy copy2 copyfile copytree copyFile copyFileSync cp cp_r cpSync File.copy copystat copymode ";
/// Calls that move the first of their strings to the second.
const MOVES: &str = " shutil.move os.rename os.renames os.replace renameSync fs.rename rename File.rename FileUtils.mv mv move \
    fs.moveSync moveSync ";
/// Calls that call what their first argument names.
const SENDS: &str = " send public_send __send__ call_user_func call_user_func_array method ";
/// Calls whose first string is a file that is written; what comes behind it is what is written.
const WRITES: &str = " File.write IO.write File.binwrite writeFile writeFileSync appendFile appendFileSync file_put_contents outputFile \
    outputFileSync write_file spit os.WriteFile ioutil.WriteFile fs.write Deno.writeTextFile writeLines ";
/// Calls that open a file, for writing only where they say so.
const OPENS: &str = " open fopen File.open io.open openSync os.open file ";

/// Whether code has more pieces than are looked at.
pub(super) fn is_too_long(code: &str, language: &str) -> bool {
    code.len() >= PIECES_MAX && pieces(code, language).len() >= PIECES_MAX
}

/// The strings of code, each as it stands and put together with its neighbours.
pub(super) fn literals(code: &str, language: &str, home: &str) -> Vec<Literal> {
    let written = pieces(code, language);
    let mut found = listed_literals(&written, language);
    let folded = folded(written.clone(), home);
    if folded != written {
        found.extend(listed_literals(&folded, language));
    }
    // A shell that is written to runs what is printed.
    if found.iter().any(is_shell_pipe) || hands_on_runner(&written) {
        found.iter_mut().filter(|literal| literal.how == Use::Data).for_each(|literal| literal.how = Use::Run);
        // `print PIPE "…"`
        let others = found.iter().filter(|literal| literal.how == Use::Other).cloned();
        let others: Vec<Literal> = others.map(|literal| Literal { how: Use::Run, ..literal }).collect();
        found.extend(others);
    }
    found.retain(|literal| !literal.text.is_empty());
    found.sort_by(|a, b| a.text.cmp(&b.text).then((a.how as u8).cmp(&(b.how as u8))));
    found.dedup();
    found
}

/// Whether a call that runs something is itself handed to another: `map(os.system, […])`, `array_map("system", …)`.
fn hands_on_runner(pieces: &[Piece]) -> bool {
    const RUNNERS: &str = " system popen shell_exec passthru execSync ";
    pieces.windows(3).any(|window| match window {
        [Piece::Sign('.' | '(' | '='), Piece::Name(name), Piece::Sign(',' | ')')] => text::listed(RUNNERS, name),
        [Piece::Name(map), Piece::Sign('('), Piece::Text(name)] => {
            text::listed("array_map array_walk usort forward_static_call", map) && text::listed(RUNNERS, name)
        }
        _ => false,
    })
}

fn is_shell_pipe(literal: &Literal) -> bool {
    let command = literal.text.trim().trim_start_matches(['|', '-']).trim();
    let is_pipe = literal.text.trim_start().starts_with('|') || literal.how == Use::Run;
    is_pipe && super::exec::is_shell(super::exec::base(command))
}

/// The name of an interpreter without its version.
fn plain_name(language: &str) -> &str {
    language.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// What begins a comment up to the end of its line.
fn comment_of(language: &str) -> &'static str {
    match plain_name(language) {
        "python" | "pypy" | "ipython" | "perl" | "ruby" | "irb" | "jruby" | "R" | "Rscript" | "julia" | "elixir"
        | "raku" | "tclsh" | "wish" | "expect" | "crystal" | "nim" | "octave" => "#",
        "lua" | "luajit" | "ghc" | "runghc" | "ghci" | "psql" | "mysql" | "sqlite" | "mariadb" => "--",
        "guile" | "emacs" | "sbcl" | "racket" | "clisp" | "gosh" | "clojure" | "clj" | "bb" => ";",
        "erl" => "%",
        _ => "//",
    }
}

/// Cuts code into pieces.
pub(super) fn pieces(code: &str, language: &str) -> Vec<Piece> {
    pieces_within(code, language, 0)
}

/// What is below so many strings whose holes hold code.
fn pieces_within(code: &str, language: &str, depth: usize) -> Vec<Piece> {
    let mut found: Vec<Piece> = Vec::new();
    let comment = comment_of(language);
    let is_lisp = comment == ";";
    // `"#{ENV["HOME"]}"`: quotes in quotes.
    let quotes_alike = text::listed("ruby irb jruby php", plain_name(language));
    let alike = (quotes_alike && code.contains("\"HOME\""))
        .then(|| code.replace("[\"HOME\"]", "['HOME']").replace("(\"HOME\")", "('HOME')"));
    let mut rest = alike.as_deref().unwrap_or(code);
    while let Some(c) = rest.chars().next() {
        if found.len() >= PIECES_MAX {
            break;
        }
        if rest.starts_with(comment) && !rest.starts_with("//=")
            || c == '#' && comment == "//" && rest.starts_with("# ")
        {
            rest = rest.find('\n').map_or("", |at| &rest[at..]);
            continue;
        }
        if let Some(behind) = rest.strip_prefix("/*").filter(|_| comment == "//") {
            rest = behind.find("*/").map_or("", |at| &behind[at + 2..]);
            continue;
        }
        if let Some((text, behind)) = string_at(rest, &found, language) {
            // Behind a stroke it belongs to a pattern.
            let runs = c == '`'
                && found.last() != Some(&Piece::Sign('/'))
                && text::listed("perl ruby irb jruby crystal php julia", plain_name(language));
            drop_prefix(&mut found, runs);
            let is_ruby = c != '\'' && text::listed("ruby irb jruby crystal elixir", plain_name(language));
            let code = code_in(rest, rest.len() - behind.len()).filter(|_| is_ruby && depth < STRINGS_DEPTH_MAX);
            found.push(Piece::Text(text));
            if let Some(code) = code {
                found.push(Piece::Sign(';'));
                found.extend(pieces_within(code, language, depth + 1));
                found.push(Piece::Sign(';'));
            }
            rest = behind;
            continue;
        }
        let is_word = |c: char| {
            c.is_alphanumeric()
                || c == '_'
                || is_lisp && matches!(c, '-' | '*')
                || c == '$'
                || c == '?' && language == "ruby"
        };
        if c.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let digits = rest[..length].replace('_', "");
            let (radix, digits) = match digits.get(..2) {
                Some("0x" | "0X") => (16, &digits[2..]),
                Some("0o") => (8, &digits[2..]),
                _ => (10, digits.as_str()),
            };
            found.push(i64::from_str_radix(digits, radix).map_or(Piece::Sign('0'), Piece::Number));
            rest = &rest[length..];
        } else if is_word(c) || c == '@' {
            let length = rest.find(|c: char| !is_word(c) && c != '@').unwrap_or(rest.len());
            found.push(Piece::Name(rest[..length].to_owned()));
            rest = &rest[length..];
        } else {
            if !c.is_whitespace() || c == '\n' {
                found.push(Piece::Sign(c));
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    found
}

/// The code in the string that begins here, with the text between: `"a #{b} c #{d}"`. Where a quote in it seemed to end the
/// string, the code goes on up to its brace.
fn code_in(rest: &str, length: usize) -> Option<&str> {
    let from = rest[..length].find("#{")? + "#{".len();
    let inner = match rest[from..length].rsplit_once('}') {
        Some((inner, _)) => inner,
        None => rest[from..].split_once('}').map_or("", |(inner, _)| inner),
    };
    (inner.len() < text::TEXT_BYTES_MAX && inner.contains(['(', '`', '"', '%', ' '])).then_some(inner)
}

/// Letters in front of a string belong to it: `f"…"`, `rb'…'`, `qq{…}`, `%q(…)`. Of a string that a shell runs `qx` stays.
fn drop_prefix(found: &mut Vec<Piece>, mut runs: bool) {
    if let [.., Piece::Sign('%'), Piece::Name(name)] = found.as_slice()
        && text::listed("x q Q w", name)
    {
        runs |= name == "x";
        found.truncate(found.len() - 2);
    } else if let Some(Piece::Name(name)) = found.last()
        && text::listed("f r b u rb br F R B q qq qw", name)
    {
        found.pop();
    }
    if runs {
        found.push(Piece::Name("qx".to_owned()));
    }
}

/// The string that begins here, and what is behind it.
fn string_at<'a>(rest: &'a str, before: &[Piece], language: &str) -> Option<(String, &'a str)> {
    let c = rest.chars().next()?;
    let name = match before.last() {
        Some(Piece::Name(name)) => name.as_str(),
        _ => "",
    };
    let is_perl = matches!(plain_name(language), "perl" | "ruby" | "raku" | "elixir");
    let is_percent = matches!(before, [.., Piece::Sign('%'), Piece::Name(name)] if text::listed("x q Q w", name));
    let end = match c {
        '"' => '"',
        '\'' if !matches!(plain_name(language), "awk" | "guile" | "emacs" | "sbcl" | "racket" | "ghc" | "rust") => '\'',
        '`' if !matches!(plain_name(language), "awk" | "emacs" | "guile" | "racket" | "sbcl") => '`',
        '{' if is_perl && (text::listed("q qq qx qw", name) || is_percent) => '}',
        '(' if is_perl && (text::listed("q qq qx qw", name) || is_percent) => ')',
        '[' if is_perl && (text::listed("q qq qx qw", name) || is_percent) => ']',
        '/' | '|' | '!' | '#' if is_perl && text::listed("q qq qx qw", name) => c,
        '[' if plain_name(language).starts_with("lua") && rest.starts_with("[[") => ']',
        _ => return None,
    };
    let triple: String = std::iter::repeat_n(c, 3).collect();
    let is_triple = matches!(c, '"' | '\'') && rest.starts_with(&triple);
    let open = if is_triple { 3 } else { c.len_utf8() + usize::from(end == ']' && rest.starts_with("[[")) };
    let body = &rest[open..];
    // Brackets that quote are counted.
    let opens = if matches!(c, '(' | '{') { Some(c) } else { None };
    let (mut at, mut escaped, mut depth) = (None, false, 0_usize);
    for (place, own) in body.char_indices() {
        if Some(own) == opens {
            depth += 1;
        } else if own == end && depth > 0 {
            depth -= 1;
        } else if escaped {
            escaped = false;
        } else if own == '\\' {
            escaped = true;
        } else if own == end && (!is_triple || body[place..].starts_with(&triple)) {
            at = Some(place);
            break;
        }
    }
    let length = at.unwrap_or(body.len());
    let inner = &body[..length];
    let is_raw = text::listed("r R rb br", name) && !is_perl;
    let mut made = if inner.contains('\\') && !is_raw { crate::bash::unescaped(inner, true) } else { inner.to_owned() };
    let (marks, has_sigil) = marks_of(c, name, language);
    if !marks.is_empty() {
        made = holes(&made, marks, has_sigil);
    }
    let behind = if is_triple { 3 } else { usize::from(at.is_some()) };
    Some((made, body.get(length + behind..).unwrap_or_default()))
}

/// What stands for variables in a string: marks up to a closing brace, and whether a dollar sign does.
fn marks_of(quote: char, name: &str, language: &str) -> (&'static [&'static str], bool) {
    match plain_name(language) {
        "python" | "pypy" | "ipython" if text::listed("f F rf fr", name) => (&["{"], false),
        "ruby" | "elixir" | "jruby" | "irb" | "crystal" if quote != '\'' && name != "q" => (&["#{"], false),
        "perl" | "php" | "julia" | "raku" | "groovy" | "tclsh" | "wish" if quote != '\'' && name != "q" => {
            (&["${", "{$"], true)
        }
        "node" | "nodejs" | "deno" | "bun" if quote == '`' => (&["${"], false),
        _ => (&[], false),
    }
}

/// A text in which what stands for variables is marked: the name between braces behind a sign that stands for anything.
fn holes(text: &str, marks: &[&str], has_sigil: bool) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let open = marks.iter().find_map(|mark| rest.strip_prefix(mark));
        if let Some((_, behind)) = open.and_then(|inner| inner.split_once('}')).filter(|(name, _)| says_home(name)) {
            made.push_str(&format!("{ANY}{{{HOME}}}"));
            rest = behind;
        } else if let Some(behind) = ["$ENV{HOME}", "$ENV{'HOME'}"].iter().find_map(|home| rest.strip_prefix(home)) {
            made.push_str(&if has_sigil { format!("{ANY}{{{HOME}}}") } else { ANY.to_string() });
            rest = behind;
        } else if let Some((name, behind)) = open.and_then(|inner| inner.split_once('}'))
            && !name.contains([' ', '\n', '"'])
        {
            made.push_str(&format!("{ANY}{{{}}}", name.trim_start_matches('$')));
            rest = behind;
        } else if has_sigil && c == '$' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let name = &rest[1..];
            let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            made.push_str(&format!("{ANY}{{{}}}", &name[..length]));
            rest = &name[length..];
        } else {
            made.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    made
}

/// Whether what stands in a string for a variable is a way to say the home: `process.env.HOME`, `ENV["HOME"]`.
fn says_home(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| c.is_alphanumeric() || matches!(c, '.' | '_')).collect();
    let of_environment = plain.strip_suffix("HOME").is_some_and(|of| {
        text::listed("process.env. ENV ENV.fetch os.environ os.environ.get os.getenv _SERVER _ENV getenv", of)
    });
    of_environment || ["os.homedir", "Dir.home", "Path.home"].iter().any(|call| plain.ends_with(call))
}

/// Puts known values in place of marked names; what isn't known is anything.
fn filled(text: &str, known: &[(String, String)], is_last: bool) -> String {
    let mark = format!("{ANY}{{");
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(&mark) {
        made.push_str(before);
        // Values in values grow fast.
        if made.len() > text::TEXT_BYTES_MAX {
            return ANY.to_string();
        }
        let (name, behind) = behind.split_once('}').unwrap_or((behind, ""));
        match known.iter().rev().find(|(own, _)| own.trim_start_matches('$') == name) {
            Some((_, value)) => made.push_str(value),
            None if is_last => made.push(ANY),
            None => made.push_str(&format!("{mark}{name}}}")),
        }
        rest = behind;
    }
    made + rest
}

/// Puts strings together until nothing more can be.
pub(super) fn folded(mut pieces: Vec<Piece>, home: &str) -> Vec<Piece> {
    let mut known: Vec<(String, String)> = vec![(HOME.to_owned(), home.to_owned())];
    for _ in 0..ROUNDS_MAX {
        let before = pieces.clone();
        let mut made: Vec<Piece> = Vec::with_capacity(pieces.len());
        let mut at = 0;
        while at < pieces.len() {
            match super::fold::step(&pieces[at..], made.last(), home) {
                Some((length, more)) => {
                    made.extend(more);
                    at += length;
                }
                None => {
                    made.push(pieces[at].clone());
                    at += 1;
                }
            }
        }
        pieces = made;
        known.extend(assigned(&pieces).into_iter().filter(|pair| !known.contains(pair)).collect::<Vec<_>>());
        replace_known(&mut pieces, &known);
        replace_called(&mut pieces, &known);
        if pieces == before {
            break;
        }
    }
    pieces
}

/// Variables that a string is assigned to.
fn assigned(pieces: &[Piece]) -> Vec<(String, String)> {
    pieces
        .windows(4)
        .filter_map(|window| match window {
            [Piece::Name(name), Piece::Sign('='), Piece::Text(value), end]
                if !matches!(end, Piece::Sign('.' | '[') | Piece::Text(_)) =>
            {
                Some((name.clone(), value.clone()))
            }
            _ => None,
        })
        .chain(match pieces {
            [.., Piece::Name(name), Piece::Sign('='), Piece::Text(value)] => Some((name.clone(), value.clone())),
            _ => None,
        })
        .take(32)
        .collect()
}

fn replace_known(pieces: &mut [Piece], known: &[(String, String)]) {
    for at in 0..pieces.len() {
        let is_target =
            matches!(pieces.get(at + 1), Some(Piece::Sign('='))) && pieces.get(at + 2) != Some(&Piece::Sign('='));
        let is_member = at > 0 && matches!(pieces[at - 1], Piece::Sign('.' | ':'));
        let is_call = matches!(pieces.get(at + 1), Some(Piece::Sign('(')));
        match &pieces[at] {
            Piece::Name(name) if !is_target && !is_member && !is_call => {
                if let Some((_, value)) = known.iter().rev().find(|(own, _)| own == name) {
                    pieces[at] = Piece::Text(value.clone());
                }
            }
            Piece::Text(text) if text.contains(ANY) => pieces[at] = Piece::Text(filled(text, known, false)),
            _ => {}
        }
    }
}

/// Other names of calls that run something: `f = os.system`, `import system as s`, `{execSync: e}`, `$f = "system"`.
fn replace_called(pieces: &mut [Piece], known: &[(String, String)]) {
    let runs = |name: &String| is_runner(name);
    let mut others: BTreeMap<String, String> = known.iter().filter(|(_, value)| runs(value)).cloned().collect();
    for (at, window) in pieces.windows(3).enumerate() {
        match window {
            [Piece::Name(call), Piece::Name(word), Piece::Name(other)] if word == "as" && runs(call) => {
                others.insert(other.clone(), call.clone());
            }
            [Piece::Name(call), Piece::Sign(':'), Piece::Name(other)] if runs(call) => {
                others.insert(other.clone(), call.clone());
            }
            [Piece::Name(other), Piece::Sign('='), Piece::Name(_)] => {
                let member = |piece: &&Piece| matches!(piece, Piece::Name(_) | Piece::Sign('.'));
                let last = at + 1 + pieces[at + 2..].iter().take(8).take_while(member).count();
                let is_end = !matches!(pieces.get(last + 1), Some(Piece::Sign('(' | '[') | Piece::Text(_)));
                let of = match pieces.get(last.saturating_sub(2)..=last) {
                    Some([Piece::Name(object), Piece::Sign('.'), Piece::Name(call)]) => format!("{object}.{call}"),
                    Some([.., Piece::Name(call)]) => call.clone(),
                    _ => String::new(),
                };
                let call = of.rsplit('.').next().unwrap_or_default();
                if is_end && (is_runner(&of) || is_runner(call)) {
                    others.insert(other.clone(), of);
                }
            }
            _ => {}
        }
    }
    for at in 0..pieces.len().saturating_sub(1) {
        let Piece::Name(name) = &pieces[at] else { continue };
        if pieces[at + 1] == Piece::Sign('(')
            && let Some(call) = others.get(name).filter(|call| *call != name)
        {
            pieces[at] = Piece::Name(call.clone());
        }
    }
}

/// Whether a call of this name runs what it is handed.
pub(super) fn is_runner(name: &str) -> bool {
    text::listed(RUN, name)
}

/// Whether a call of this name calls what its first argument names.
pub(super) fn is_sender(name: &str) -> bool {
    text::listed(SENDS, name)
}

/// Files that awk's code prints to, where their names can be put together.
pub(super) fn redirected(code: &str, home: &str) -> Vec<String> {
    if !code.contains('>') || !code.contains("print") {
        return Vec::new();
    }
    let target = |pair: &[Piece]| match pair {
        [Piece::Sign('>'), Piece::Text(path)] => Some(path.clone()),
        _ => None,
    };
    folded(pieces(code, "awk"), home).windows(2).filter_map(target).collect()
}

/// Whether code gives a file a mode with which it runs with its owner's or group's rights.
pub(super) fn sets_owner_rights(code: &str) -> bool {
    let is_mode = |number: &str| {
        let octal = number.strip_prefix("0o").or_else(|| number.strip_prefix('0')).unwrap_or_default();
        octal.len() == 4
            && octal.starts_with(['2', '3', '4', '5', '6', '7'])
            && octal.bytes().all(|b| b.is_ascii_digit())
    };
    code.split("chmod").skip(1).any(|behind| {
        let call = behind.split([')', '\n', ';']).next().unwrap_or_default();
        // A number as text: `oct("4755")`, `int("4755", 8)`, and as node takes it.
        let by_text = ["oct", "int(", "to_i", "Sync"].iter().any(|how| call.contains(how) || behind.starts_with(how));
        let is_text_mode = |word: &str| by_text && is_mode(&format!("0{word}"));
        call.contains("S_ISUID")
            || call.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| is_mode(word) || is_text_mode(word))
    })
}

/// Whether each call that runs something is handed strings as they stand, so that what else the code holds isn't run; or
/// whether there is no such call, in languages that have no signs for it.
pub(super) fn says_what_it_runs(code: &str, language: &str) -> bool {
    let pieces = pieces(code, language);
    let mut calls = 0;
    for (at, piece) in pieces.iter().enumerate() {
        let Piece::Name(name) = piece else { continue };
        if text::listed(HIDES, name) {
            return false;
        }
        if !text::listed(RUN, name) {
            continue;
        }
        match &pieces[at + 1..] {
            [Piece::Sign('('), Piece::Text(_), Piece::Sign(',' | ')'), ..]
            | [Piece::Sign('('), Piece::Sign('['), Piece::Text(_), ..] => calls += 1,
            _ => return false,
        }
    }
    calls > 0 || matches!(plain_name(language), "python" | "node" | "nodejs" | "lua" | "luajit")
}

/// The strings of each statement that starts a program, as one line: `Command::new("rm").args(["-rf", "/"])`, and all of
/// a form of Lisp.
fn started(pieces: &[Piece], found: &[Literal]) -> Vec<Literal> {
    let runs =
        |piece: &Piece| matches!(piece, Piece::Name(name) if text::listed(RUN, name) || text::listed(STARTERS, name));
    let mut lines = Vec::new();
    if found.iter().all(|literal| literal.how == Use::Data) {
        return lines;
    }
    for statement in pieces.split(|piece| matches!(piece, Piece::Sign(';' | '\n'))) {
        let Some(from) = statement.iter().position(runs) else { continue };
        let words: Vec<String> = statement[from..]
            .iter()
            .filter_map(|piece| match piece {
                Piece::Text(text) if !text.is_empty() => Some(filled(text, &[], true)),
                _ => None,
            })
            .take(16)
            .collect();
        if words.len() > 1 && !words[0].contains(' ') {
            lines.push(Literal { text: argv_line(&words), how: Use::Run });
        }
    }
    lines
}

/// The strings of pieces with the calls that they are handed to; those of a list also as one line.
fn listed_literals(pieces: &[Piece], language: &str) -> Vec<Literal> {
    let mut found: Vec<Literal> = Vec::new();
    // Open brackets with what is called, and the strings that were in them.
    let mut open: Vec<(String, usize)> = vec![(String::new(), 0)];
    // The strings of one list, and what is done with them.
    let mut row: (Vec<String>, Use) = (Vec::new(), Use::Other);
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Sign('(' | '[' | '{') => {
                let called = callee(&pieces[..at]);
                // Lists are handed to what the call around them is.
                let called = if called.is_empty() || *piece == Piece::Sign('[') {
                    open.last().map_or(String::new(), |(outer, _)| outer.clone())
                } else {
                    called
                };
                open.push((called, at));
            }
            Piece::Sign(')' | ']' | '}') if open.len() > 1 => _ = open.pop(),
            Piece::Text(raw) => {
                let text = filled(raw, &[], true);
                let (called, from) = open.last().cloned().unwrap_or_default();
                let how = used(&called, pieces, at, from, &text, language);
                let goes_on =
                    matches!(&pieces[..at], [.., Piece::Sign(',')] | [.., Piece::Sign(','), Piece::Sign('[')]);
                // Behind the environment of a program stand its words.
                let goes_on = goes_on && !matches!(&pieces[..at], [.., Piece::Sign('}'), Piece::Sign(',')]);
                // Of a copy the first is read and the second written; behind a file that is written stands its text.
                if !goes_on || how != row.1 && matches!(row.1, Use::Read | Use::Write | Use::Move) {
                    end_row(&mut row, &mut found);
                }
                if row.0.is_empty() {
                    row.1 = how;
                }
                row.0.push(text);
            }
            _ => {}
        }
    }
    end_row(&mut row, &mut found);
    found.extend(started(pieces, &found));
    found
}

/// Tells the strings of a list: each by itself, and as one line where it is the words of one command.
fn end_row(row: &mut (Vec<String>, Use), found: &mut Vec<Literal>) {
    let (words, how) = (std::mem::take(&mut row.0), row.1);
    let is_argv = words.len() > 1 && !words[0].contains(char::is_whitespace);
    if words.len() > 1 {
        let line = if is_argv && how == Use::Run { argv_line(&words) } else { words.join(" ") };
        found.push(Literal { text: line, how });
    }
    // No shell reads the words of a command that is started with a list.
    let is_mode = words.get(1).is_some_and(|mode| matches!(mode.as_str(), "w" | "r+" | "wb" | "w+" | "r"));
    let each = if is_argv && how == Use::Run && !is_mode { Use::Data } else { how };
    found.extend(words.into_iter().map(|text| Literal { text, how: each }));
}

/// The words of a command as a line; `execl("/bin/sh", "sh", …)` names the program twice.
fn argv_line(words: &[String]) -> String {
    let is_twice = words.len() > 2 && super::exec::base(&words[0]) == super::exec::base(&words[1]);
    words[usize::from(is_twice)..].iter().map(|word| super::exec::quote(word)).collect::<Vec<_>>().join(" ")
}

/// The name in front of a bracket, with what it is a member of: `os.execute`.
fn callee(pieces: &[Piece]) -> String {
    match pieces {
        [.., Piece::Name(object), Piece::Sign('.' | ':'), Piece::Name(name)] => format!("{object}.{name}"),
        [.., Piece::Name(name)] => name.clone(),
        _ => String::new(),
    }
}

/// What is done with the string at a place.
fn used(called: &str, pieces: &[Piece], at: usize, from: usize, text: &str, language: &str) -> Use {
    // Without brackets: `system "…"`, `puts "a", "b"`; the start of the row of strings decides.
    let mut first = at;
    while first >= 2
        && pieces[first - 1] == Piece::Sign(',')
        && matches!(pieces[first - 2], Piece::Text(_))
        && first - 2 > from
        && at - first < ARGUMENT_PIECES_MAX
    {
        first -= 2;
    }
    let direct = match pieces.get(first.wrapping_sub(1)) {
        Some(Piece::Name(_)) => callee(&pieces[..first]),
        _ => called.to_owned(),
    };
    let last = direct.rsplit(['.', ':']).next().unwrap_or_default();
    let is = |list: &str| text::listed(list, &direct) || text::listed(list, last);
    if comment_of(language) == ";" {
        return of_form(&pieces[..first], pieces);
    }
    if is(RUN) || language == "awk" {
        return Use::Run;
    }
    // `"…".execute()`, `"…".!`
    if let [Piece::Sign('.'), next, ..] = &pieces[(at + 1).min(pieces.len())..]
        && (*next == Piece::Sign('!')
            || matches!(next, Piece::Name(name) if text::listed("execute lines lineStream", name)))
    {
        return Use::Run;
    }
    if pieces.get(at + 1) == Some(&Piece::Sign('=')) && pieces.get(at + 2) == Some(&Piece::Sign('=')) {
        return Use::Data;
    }
    let strings: Vec<&String> = pieces[first..]
        .iter()
        .take(ARGUMENT_PIECES_MAX)
        .take_while(|piece| !matches!(piece, Piece::Sign(')' | ';' | '\n')))
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    if is(WRITES) {
        return if at == first { Use::Write } else { Use::Data };
    }
    if is(OPENS) {
        let modes = strings.iter().skip(1);
        let is_mode = |text: &&&String| text.len() <= 4 && text.contains(['w', 'a', 'x', '+', '>']);
        let flags = pieces[first..].iter().take(16).any(|piece| {
            matches!(piece, Piece::Name(name) if name.contains("WR") || name.contains("CREAT") || name == "mode")
        });
        let reads = !text.starts_with(['>', '+', '|']) && !text.ends_with('|');
        return if flags || modes.clone().any(|text| is_mode(&text) || text.starts_with('>')) || !reads {
            Use::Write
        } else {
            Use::Read
        };
    }
    if is(READ) {
        return Use::Read;
    }
    if is(MOVES) && strings.len() > 1 {
        return if at == first { Use::Move } else { Use::Write };
    }
    if is(COPIES) && strings.len() > 1 {
        return if at == first { Use::Read } else { Use::Write };
    }
    if is(DATA) && !has_open(&direct) { Use::Data } else { Use::Other }
}

/// In Lisp the name stands behind the bracket.
fn of_form(before: &[Piece], pieces: &[Piece]) -> Use {
    let near = before.len().saturating_sub(ARGUMENT_PIECES_MAX);
    let open = before[near..].iter().rposition(|piece| *piece == Piece::Sign('('));
    match open.and_then(|open| pieces.get(near + open + 1)) {
        Some(Piece::Name(name)) if text::listed(RUN, name) || text::listed(STARTERS, name) => Use::Run,
        Some(Piece::Name(name)) if text::listed(DATA, name) => Use::Data,
        _ => Use::Other,
    }
}
