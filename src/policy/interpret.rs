//! Programs that run code of another language: what their code would do, as far as its calls and its strings tell.

use super::code::{self, Literal, Use};
use super::exec::{nothing, output};
use super::fed;
use super::options::Options;
use super::run::{Run, Value};
use super::text::{self, ANY, DECODED, DECODED_MARK, FILE, NET, OUTPUT, has_open};
use crate::proto::action::{Risk, WriteKind};

/// An interpreter: its name, the letters behind which code stands, long options behind which it does, letters and long
/// options that take another value, a word in front of the code.
struct Language {
    names: &'static [&'static str],
    code_letters: &'static str,
    code_long: &'static [&'static str],
    value_letters: &'static str,
}

const LANGUAGES: &[Language] = &[
    language(&["python", "python2", "python3", "pypy", "pypy3", "ipython", "micropython"], "c", &[], "mWXQ"),
    language(&["perl"], "eE", &[], "IMm"),
    language(&["ruby", "jruby", "irb"], "e", &[], "rIECFKTWx"),
    language(&["node", "nodejs"], "ep", &["eval", "print"], "rC"),
    language(&["bun"], "ep", &["eval", "print"], "r"),
    language(&["deno"], "", &[], ""),
    language(
        &["ocaml", "clojure", "clj", "bb", "jrunscript", "jjs", "slsh", "rhino", "babel-node", "amm"],
        "ef",
        &["eval"],
        "l",
    ),
    language(&["swipl", "gprolog", "yap"], "gt", &["goal"], ""),
    language(&["octave", "octave-cli", "maxima", "gimp"], "b", &["eval", "batch-string", "batch"], ""),
    language(&["pry", "rhai-run", "boa", "quickjs", "qjs", "mujs"], "e", &["eval", "exec"], ""),
    language(&["php"], "rRBE", &["run", "process-code", "process-begin"], "dcz"),
    language(&["lua", "luajit"], "e", &[], "l"),
    language(&["tclsh", "wish", "expect"], "c", &[], ""),
    language(&["Rscript", "R"], "e", &[], ""),
    language(&["julia"], "eE", &["eval", "print"], "LJptm"),
    language(&["osascript"], "e", &[], "l"),
    language(&["guile", "gosh", "racket", "csi", "chicken"], "ce", &["eval"], "lL"),
    language(&["sbcl", "clisp", "ecl"], "x", &["eval"], ""),
    language(&["ghc", "runghc", "ghci"], "e", &[], ""),
    language(&["groovy", "scala", "kotlin", "jshell", "elixir", "erl", "swift", "raku", "perl6"], "e", &["eval"], "r"),
    language(
        &["psql", "mysql", "mariadb", "sqlite3", "mongo", "mongosh", "redis-cli"],
        "ce",
        &["command", "execute", "eval"],
        "hpPUudDF",
    ),
];

const fn language(
    names: &'static [&'static str],
    code_letters: &'static str,
    code_long: &'static [&'static str],
    value_letters: &'static str,
) -> Language {
    Language { names, code_letters, code_long, value_letters }
}

/// Calls that hand text to a shell or start a program.
const RUNS: &[&str] = &[
    "system",
    "popen",
    "subprocess",
    "exec",
    "spawn",
    "shell_exec",
    "passthru",
    "qx",
    "%x",
    "`",
    "os.execute",
    "child_process",
    "Deno.Command",
    "Deno.run",
    "run(",
    "call(",
    "check_output",
    "open(",
    "pcntl_exec",
    "Process.",
    "do shell script",
    "shell-command",
    "call-process",
    "start-process",
    "\\!",
    ".shell",
    ".system",
    "run-process",
    "posix_spawn",
    "pty",
    "Command",
    "getoutput",
    "$`",
    ":cmd(",
    ".cmd(",
    "command(",
    "execCmd",
    "execShellCmd",
    "PROGRAM",
];
/// Calls that remove a tree.
const REMOVES_TREE: &[&str] = &[
    "rmtree",
    "rm_rf",
    "rm_r",
    "remove_tree",
    "rmSync",
    "rmdirSync",
    "fs.rm",
    ".rm(",
    "rimraf",
    "removeSync",
    "emptyDirSync",
    "remove_entry",
    "rmdir",
    "deltree",
    "delete_recursive",
    "remove_all",
    "removedirs",
    "file delete",
    "unlink(recursive",
    "RemoveAll",
    "remove_dir_all",
    "removeDirectoryRecursive",
    "delete-directory",
    "removeDir",
    "recursive=true",
];
/// Calls that change a file.
const CHANGES: &[&str] = &[
    "extractall",
    "urlretrieve",
    "unpack_archive",
    "unlink",
    "remove",
    "write_text",
    "write_bytes",
    "writeFile",
    "appendFile",
    "File.write",
    "IO.write",
    "file_put_contents",
    "rename",
    "chmod",
    "chown",
    "symlink",
    "truncate",
    "shutil.copy",
    "shutil.move",
    "copyFile",
    "createWriteStream",
    "outputFile",
    "fputs",
    "File.open",
    "FileUtils",
    "os.replace",
    "os.link",
    "mkdir",
    "makedirs",
    "touch",
    "fopen",
    "io.open",
    "open ",
    "open(",
    "writefile",
    "Deno.write",
    "Bun.write",
    "os.rename",
    "os.remove",
    "delete",
    "io.output",
    "writeLines",
    "write-region",
    "utime",
    "sysopen",
    "outfile",
    "OUTFILE",
    "dumpfile",
    "writefile(",
    " to '",
    " TO '",
];
/// Calls that speak to the network.
const NETS: &[&str] = &[
    "socket",
    "urllib",
    "requests",
    "http",
    "fetch(",
    "fsockopen",
    "TCPSocket",
    "net.connect",
    "LWP",
    "open-uri",
    "curl",
    "httpx",
    "axios",
    "XMLHttpRequest",
    "/inet/",
    "net/http",
];
/// Calls that run text as code.
const EVALS: &[&str] = &[
    "exec(",
    "eval(",
    "eval ",
    "exec ",
    "Function(",
    "compile(",
    "loadstring",
    "runInThisContext",
    "instance_eval",
    "assert(",
    "(eval",
];
/// Calls that decode text.
const DECODES: &[&str] = &[
    "b64decode",
    "base64",
    "fromhex",
    "unhexlify",
    "atob",
    "Buffer.from",
    "unpack",
    "pack(",
    "rot13",
    "zlib",
    "marshal",
    "codecs",
    "decode(",
    "bytes(",
    "chr(",
    "fromCharCode",
    "hex2bin",
    "str_rot13",
    "gzinflate",
    "join(",
    "[::-1]",
    "reverse",
];
/// Ways to put a command together from codes.
const CODES: &[&str] =
    &["b64decode", "fromhex", "unhexlify", "atob(", "fromCharCode", "chr(", "pack(", "rot13", "[::-1]", "hex2bin"];
/// Calls that hand a whole line to a shell.
const SHELLS: &[&str] =
    &["system(", "popen(", "execSync(", "shell_exec(", "passthru(", "check_output(", "call(", "system "];
/// Calls that start a program.
const STARTS: &[&str] = &["system", "popen", "subprocess", "exec", "spawn", "qx", "%x", "`", "passthru", "Popen"];
/// Ways to say the home.
const HOMES: &[&str] = &["expanduser", "Path.home", "homedir", "Dir.home", "HOME", "ENV{HOME}", "getenv"];

pub(super) fn has_any(code: &str, words: &[&str]) -> bool {
    words.iter().any(|word| code.contains(word))
}

fn language_of(name: &str) -> Option<&'static Language> {
    LANGUAGES
        .iter()
        .find(|language| language.names.contains(&name) || super::builtin::is_versioned(name, language.names))
}

pub(super) fn is_database(name: &str) -> bool {
    text::listed("psql mysql mariadb sqlite3 mongo mongosh redis-cli", name)
}

/// Whether a name is an interpreter's.
pub(super) fn is_interpreter(name: &str) -> bool {
    language_of(name).is_some()
}

impl Run<'_, '_> {
    /// Runs an interpreter; `None` where the program isn't one.
    pub(super) fn interpreter(&mut self, name: &str, words: &[String]) -> Option<Value> {
        match name {
            "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => return Some(self.awk(words)),
            "sed" | "gsed" | "ssed" => return Some(self.sed(words)),
            _ => {}
        }
        let language = language_of(name)?;
        Some(self.language(name, language, words))
    }

    fn language(&mut self, name: &str, language: &Language, words: &[String]) -> Value {
        let words = match (name, words.split_first()) {
            (_, Some((verb, rest))) if verb == "eval" && text::listed("deno crystal", name) => {
                rest.iter().for_each(|code| self.other_code(name, code));
                return output();
            }
            ("deno" | "bun", Some((verb, rest))) if verb == "run" => rest,
            _ => words,
        };
        let mut codes: Vec<String> = Vec::new();
        let mut operands: Vec<String> = Vec::new();
        let mut in_place = false;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            if let Some(long) = word.strip_prefix("--") {
                let (long, value) = long.split_once('=').map_or((long, None), |(long, value)| (long, Some(value)));
                if language.code_long.contains(&long) {
                    codes.push(value.map_or_else(|| words.get(at).cloned().unwrap_or_default(), str::to_owned));
                    at += usize::from(value.is_none());
                } else if matches!(long, "require" | "import" | "loader") {
                    at += usize::from(value.is_none());
                } else if long.is_empty() {
                    operands.extend(words[at..].iter().cloned());
                    break;
                }
                continue;
            }
            if word.len() < 2 || !word.starts_with('-') {
                operands.extend(words[at - 1..].iter().cloned());
                break;
            }
            if name.starts_with("python") && word == "-m" {
                return self
                    .python_module(words.get(at).map_or("", String::as_str), words.get(at + 1..).unwrap_or_default());
            }
            // Erlang's and others' options are long behind one dash.
            if matches!(word.as_str(), "-eval" | "-noshell" | "-command" | "-noinput") {
                codes.extend(words.get(at).filter(|_| word.ends_with("eval")).cloned());
                at += usize::from(word.ends_with("eval"));
                continue;
            }
            let letters = &word[1..];
            for (place, letter) in letters.char_indices() {
                let rest = &letters[place + letter.len_utf8()..];
                in_place |= letter == 'i' && matches!(name, "perl" | "ruby");
                if language.code_letters.contains(letter) {
                    codes.push(if rest.is_empty() {
                        words.get(at).cloned().unwrap_or_default()
                    } else {
                        rest.to_owned()
                    });
                    at += usize::from(rest.is_empty());
                    break;
                }
                if letter == 'i' && in_place {
                    break;
                }
                if language.value_letters.contains(letter) {
                    self.loaded_first(name, letter, [rest, words.get(at).map_or("", String::as_str)]);
                    at += usize::from(rest.is_empty());
                    break;
                }
            }
        }
        self.language_runs(name, codes, operands, in_place)
    }

    /// What is loaded before the code, where this very script wrote it: the rest of the option's word, or the next word.
    fn loaded_first(&mut self, name: &str, letter: char, values: [&str; 2]) {
        let file = if values[0].is_empty() { values[1] } else { values[0] };
        if letter == 'r' && self.is_written(file) {
            self.content(file).iter().for_each(|code| self.other_code(name, code));
        }
    }

    fn language_runs(&mut self, name: &str, codes: Vec<String>, operands: Vec<String>, in_place: bool) -> Value {
        let is_database = is_database(name);
        if in_place {
            operands.iter().for_each(|path| self.writes(path, WriteKind::Write));
        }
        if self.streams.is_net && codes.is_empty() {
            self.block("network-shell", format!("{name} is tied to the network"));
        }
        if !codes.is_empty() {
            let mut code = codes.join("\n");
            // What stands behind the code is handed to it.
            if operands.len() < 16 && !in_place {
                for word in &operands {
                    code.push_str(&format!("\n\"{word}\""));
                }
            }
            let foreign = self.streams.input.iter().flatten().any(|text| text.contains([NET, DECODED, DECODED_MARK]));
            if foreign && has_any(&code, EVALS) {
                self.block("fed-code", format!("{name} runs what came over the network or out of a decoder"));
            }
            if fed::runs_its_input(&code, name) {
                let input = self.streams.input.take().unwrap_or_default();
                input.iter().flat_map(|text| text.lines()).take(64).for_each(|line| _ = self.code_elsewhere(line));
            }
            self.other_code(name, &code);
            return folded(&codes).unwrap_or_else(output);
        }
        if is_database {
            self.note(Risk::High, "database", format!("{name} may change a database"));
            if name == "sqlite3" {
                operands
                    .iter()
                    .take(1)
                    .filter(|path| *path != ":memory:")
                    .for_each(|path| self.writes(path, WriteKind::Write));
            }
            let has_code = name == "sqlite3" || operands.first().is_some_and(|verb| verb.eq_ignore_ascii_case("eval"));
            operands.iter().skip(1).filter(|_| has_code).for_each(|code| self.other_code(name, code));
            if let Some(data) = self.streams.input.clone() {
                // Queries aren't code; what could start a program in them is looked for where they are known.
                data.iter().filter(|text| !has_open(text)).for_each(|code| self.other_code(name, code));
            }
            return output();
        }
        match operands.first().filter(|file| *file != "-" && *file != "/dev/stdin") {
            Some(file) if file.starts_with("http://") || file.starts_with("https://") => {
                self.net("");
                self.block("fed-code", format!("{name} runs what comes over the network"));
            }
            Some(file) => {
                self.reads(file);
                self.note(Risk::High, "script", format!("{name} runs the script {file}"));
                for code in self.content(file) {
                    self.other_code(name, &code);
                }
            }
            // What is read as code isn't there for what the code starts.
            None => match self.streams.input.replace(nothing()) {
                Some(data) => data.iter().for_each(|code| self.other_code(name, code)),
                None => self.note(Risk::High, "interactive", format!("{name} waits for code")),
            },
        }
        output()
    }

    /// Looks at code of another language.
    pub(super) fn other_code(&mut self, name: &str, code: &str) {
        if code.contains([NET, DECODED, DECODED_MARK]) {
            return self.block("fed-code", format!("{name} runs what came over the network or out of a decoder"));
        }
        let body = code.trim();
        if !body.is_empty() && body.chars().all(|c| text::is_open(c) || c.is_whitespace()) {
            return match text::weightiest(body) {
                FILE => self.note(Risk::High, "script", format!("{name} runs a script whose contents aren't known")),
                _ => self.block_unknown("unknown-code", format!("{name} runs code that isn't known before it runs")),
            };
        }
        self.note(Risk::High, "code", format!("{name} runs code, of which calls and strings are looked at"));
        if code::is_too_long(code, name) {
            self.block("too-complex", format!("{name} runs more code than is looked at"));
        }
        let literals = code::literals(code, name, &self.map.rules.home);
        let (nets, evals) = (has_any(code, NETS), has_any(code, EVALS));
        let runs = has_any(code, RUNS)
            || has_any(code, &["getattr(", "__import__", ".send(", "vars(", "globals(", "__dict__"]);
        if has_any(code, SHELLS) && has_any(code, CODES) {
            self.block("fed-code", format!("{name} runs a command that is put together from codes"));
        }
        if evals {
            // Code in a string of code.
            let inner = literals.iter().map(|literal| &literal.text);
            let inner = inner.filter(|text| text.len() > 8 && text.contains(['(', '`', '"']) && *text != code);
            self.deeper(|run| inner.for_each(|text| run.other_code(name, text)), ());
        }
        if fed::ties_a_shell(code, runs) {
            self.block("network-shell", format!("{name} ties a shell to the network"));
        }
        if nets && fed::runs_what_comes(code, name) {
            self.block("fed-code", format!("{name} runs what came over the network"));
        }
        if evals && (nets || has_any(code, DECODES)) {
            self.block("fed-code", format!("{name} runs what came over the network or out of a decoder"));
        }
        if code.contains("fork")
            && has_any(code, &["while", "for(", "for (", "loop", "for _", "until", "for;", "fork()&&fork", "for i"])
            && !code.contains("wait")
        {
            self.block("fork-bomb", "starts processes in an endless loop");
        }
        self.floods(name, code);
        if code.contains("kill") && has_any(code, &["-1,", "-1)", ", -1", ",-1", "-9, -1"]) {
            self.block("kill-all", "sends a signal to every process");
        }
        if has_any(code, &["reboot(", "SYS_reboot", "poweroff(", "syscall(169", "fee1dead"]) {
            self.block("power", "ends the system");
        }
        if nets && name != "vim" {
            self.net("");
        }
        let fetches = self.own_marks(name, code, &literals);
        self.code_effects(name, code, &literals, runs, fetches);
    }

    fn code_effects(&mut self, name: &str, code: &str, literals: &[Literal], runs: bool, mut fetches: bool) {
        // Where each call that runs something says what, other strings aren't run.
        let runs_more = runs && !code::says_what_it_runs(code, name);
        for Literal { text, how } in literals.iter().filter(|literal| literal.how != Use::Data) {
            // A lone word is a command only where it is handed to what runs it.
            if (*how == Use::Run || runs && runs_more && text.contains([' ', '/', '|', '\n']))
                && text.len() > 1
                && (text.contains("(){") || text.chars().any(|c| c.is_ascii_alphabetic()))
            {
                let printed = self.embedded(text, *how == Use::Run);
                fetches |= *how == Use::Run && text::is_foreign(&printed);
            }
            if runs && has_any(code, STARTS) && deletes_what_follows(text) {
                self.block_unknown("unknown-tree", "deletes all below a path that the code puts together");
            }
        }
        if fetches && fed::runs_what_it_gets(code, name, &self.map.rules.home) {
            self.block("fed-code", format!("{name} runs what came over the network or out of a decoder"));
        }
        if super::code::sets_owner_rights(code) {
            self.block("setuid", "makes a program that runs with its owner's rights");
        }
        let removes = has_any(code, REMOVES_TREE);
        let changes =
            has_any(code, CHANGES) || code.contains('>') || literals.iter().any(|literal| literal.how == Use::Write);
        if !removes && !changes {
            return;
        }
        self.walked(code, literals);
        let names_home = has_any(code, HOMES);
        if removes && names_home && !literals.iter().any(|literal| literal.text.contains('/') && literal.text.len() > 2)
        {
            let home = self.map.rules.home.clone();
            self.whole_tree(&home, WriteKind::DeleteTree);
        }
        let reads_only = !removes && only_reads(code);
        let paths = literals.iter().filter(|it| !matches!(it.how, Use::Data | Use::Run) && is_path(&it.text, removes));
        for Literal { text: literal, how } in paths {
            let path = literal.trim_start_matches(['>', '<', '+', ' ']);
            let path = match path.strip_prefix('~') {
                Some(below) if below.is_empty() || below.starts_with('/') => format!("{}{below}", self.map.rules.home),
                _ => path.to_owned(),
            };
            let path = text::alive(&path);
            match how {
                Use::Read => self.reads(&path),
                Use::Write => self.writes(&path, WriteKind::Write),
                Use::Move => self.moves_away(&path),
                _ if removes => self.whole_tree(&path, WriteKind::DeleteTree),
                _ if reads_only && !literal.starts_with('>') => self.reads(&path),
                _ => self.writes(&path, WriteKind::Write),
            }
        }
    }

    /// A string of another language that its shell may run, or surely runs: only what it is blocked for counts.
    /// Gives what it prints.
    pub(super) fn embedded(&mut self, text: &str, surely: bool) -> Value {
        let before = self.reasons.len();
        let printed = self.code_elsewhere(text);
        let mut at = 0;
        self.reasons.retain(|reason| {
            at += 1;
            at <= before
                || reason.risk == Risk::Blocked
                    && (surely && reason.rule == "unknown-tree"
                        || !matches!(
                            reason.rule,
                            "unknown-command" | "unknown-code" | "unknown-tree" | "outside-workspace"
                        ))
        });
        self.note(Risk::High, "code", "code that runs other programs");
        printed
    }

    fn awk(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "fvFieElE", "file assign field-separator include exec source");
        let mut operands = options.operands.clone();
        let mut codes: Vec<String> = options.values("e", "source").map(str::to_owned).collect();
        let files: Vec<String> = options.values("fE", "file").map(str::to_owned).collect();
        for file in &files {
            self.reads(file);
            self.note(Risk::High, "script", format!("awk runs the script {file}"));
            codes.extend(self.content(file));
        }
        if codes.is_empty() && !operands.is_empty() {
            codes.push(operands.remove(0));
        }
        if options.values("i", "include").any(|file| file == "inplace") {
            operands.iter().for_each(|path| self.writes(path, WriteKind::Write));
        }
        operands.iter().filter(|path| !path.contains('=')).for_each(|path| self.reads(path));
        for code in &codes {
            self.awk_code(code);
            // Where a variable names the file: one of those that `-v` or an operand sets.
            let names_file = |name: &str| ["> ", ">"].iter().any(|to| code.contains(&format!("{to}{name}")));
            let set = options.values("v", "assign").chain(operands.iter().map(String::as_str));
            let set: Vec<(&str, &str)> = set.filter_map(|word| word.split_once('=')).collect();
            for (_, path) in set.into_iter().filter(|(name, _)| names_file(name)) {
                if self.zone_of(path) > super::place::Zone::Outside {
                    self.writes(path, WriteKind::Write);
                }
            }
        }
        let data = self.streams.input.take();
        if let Some(printed) = codes.iter().find_map(|code| awk_prints(code)) {
            return vec![printed];
        }
        match data {
            Some(data) => {
                // A program that begins with its block takes every line.
                let takes_all = codes.iter().all(|code| code.trim_start().starts_with(['{', 'N']));
                let printed = |text: &String| match text {
                    _ if text.contains(NET) => NET,
                    _ if takes_all && text.contains(text::PROCESSES) => text::PROCESSES,
                    _ => OUTPUT,
                };
                data.iter().map(|text| printed(text).to_string()).collect()
            }
            None => output(),
        }
    }

    fn awk_code(&mut self, code: &str) {
        if has_open(code.trim()) && code.trim().chars().all(text::is_open) {
            return self.other_code("awk", code);
        }
        // Comparisons such as `$1 > 5` write nothing: a file's name is a string or a variable behind `print`.
        let literals: Vec<String> =
            code::literals(code, "awk", &self.map.rules.home).into_iter().map(|literal| literal.text).collect();
        let pipes = code.contains('|') && !code.replace("||", "").is_empty() && code.replace("||", "").contains('|');
        if code.contains("system") || pipes {
            self.note(Risk::High, "code", "awk runs other programs");
            let printed: Value = literals.iter().flat_map(|text| self.embedded(text, false)).collect();
            let fetches = code.contains("getline") && text::is_foreign(&printed);
            let has_shell = pipes && literals.iter().any(|text| super::exec::is_shell(super::exec::base(text.trim())));
            if fetches && (has_shell || fed::runs_what_it_gets(code, "awk", &self.map.rules.home)) {
                self.block("fed-code", "awk runs what came over the network or out of a decoder");
            }
            if literals.iter().any(|text| deletes_what_follows(text)) {
                self.block_unknown("unknown-tree", "deletes all below a path that the code puts together");
            }
            if code.contains("system") && literals.is_empty()
                || code.contains("system($")
                || pipes && code.contains("| getline") && literals.is_empty()
            {
                self.block_unknown("unknown-code", "awk runs commands that aren't known before it runs");
            }
        }
        self.floods("awk", code);
        if code.contains("/inet/") {
            self.net("");
            self.block("network-shell", "awk is tied to the network");
        }
        for path in code::redirected(code, &self.map.rules.home) {
            if self.zone_of(&path) > super::place::Zone::Outside {
                self.writes(&path, WriteKind::Write);
            }
        }
        let mut rest = code;
        while let Some(at) = rest.find('>') {
            let behind = rest[at + 1..].trim_start_matches(['>', ' ']);
            if let Some(quoted) = behind.strip_prefix('"') {
                let name: String = quoted.chars().take_while(|c| *c != '"').collect();
                self.writes(&name, WriteKind::Write);
            } else if rest[..at].contains("print")
                && !behind.starts_with(['=', '$'])
                && behind.starts_with(|c: char| c.is_alphabetic())
            {
                self.note(Risk::High, "unknown-path", "awk writes a file whose name isn't known");
                self.may_write_one_of(&literals, code.contains("HOME"));
            }
            rest = &rest[at + 1..];
        }
        self.note(Risk::Low, "filter", "awk filters text");
    }

    fn sed(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "efl", "expression file line-length");
        let mut operands = options.operands.clone();
        let mut codes: Vec<String> = options.values("e", "expression").map(str::to_owned).collect();
        for file in options.values("f", "file").map(str::to_owned).collect::<Vec<_>>() {
            self.reads(&file);
            codes.extend(self.content(&file));
        }
        if codes.iter().any(|code| code.contains([NET, DECODED, DECODED_MARK])) {
            self.block("fed-code", "sed runs a script that came over the network or out of a decoder");
        }
        if codes.is_empty() && !operands.is_empty() {
            codes.push(operands.remove(0));
        }
        let in_place = options.has("i", "in-place");
        for path in &operands {
            if in_place { self.writes(path, WriteKind::Write) } else { self.reads(path) }
        }
        let parsed: Vec<super::sed::Script> = codes.iter().map(|code| super::sed::read(code)).collect();
        for script in &parsed {
            script.writes.iter().for_each(|path| self.writes(path, WriteKind::Write));
            script.reads.iter().for_each(|path| self.reads(path));
            let foreign = self.streams.input.iter().flatten().any(|text| text.contains([NET, DECODED, DECODED_MARK]));
            if foreign && !script.runs.is_empty() {
                self.block("fed-code", "sed runs what came over the network or out of a decoder");
            }
            for code in &script.runs {
                self.note(Risk::High, "code", "sed runs commands");
                match code.trim().is_empty() {
                    true => self.block_unknown("unknown-code", "sed runs its input as commands"),
                    false => _ = self.code_elsewhere(code),
                }
            }
        }
        if in_place {
            for path in &operands {
                let lost = |text: &String| if has_open(text) { text.clone() } else { FILE.to_string() };
                let edited = |text: &String| super::sed::apply(&parsed, text).unwrap_or_else(|| lost(text));
                let made = self.content(path).iter().map(edited).collect();
                self.store(path, &made, false);
            }
            return nothing();
        }
        let data = match operands.as_slice() {
            [] => self.streams.input.take().unwrap_or_else(|| vec![ANY.to_string()]),
            paths => paths.iter().flat_map(|path| self.content(path)).collect(),
        };
        data.iter()
            .map(|text| match super::sed::follows(&parsed, text) {
                true => super::sed::apply(&parsed, text).unwrap_or_else(|| OUTPUT.to_string()),
                false if text.contains(DECODED_MARK) => DECODED.to_string(),
                false if is_path_text(text) => ANY.to_string(),
                false => text::weightiest(text).to_string(),
            })
            .collect()
    }
}

fn is_path_text(text: &str) -> bool {
    !has_open(text)
}

/// Whether a string is a recursive delete that still lacks its target.
fn deletes_what_follows(text: &str) -> bool {
    let text = text.replace('\'', "");
    let mut words = text.split_whitespace();
    words.next().is_some_and(|word| super::exec::base(word) == "rm")
        && text.split_whitespace().skip(1).all(|word| word.starts_with('-'))
        && text.split_whitespace().skip(1).any(|word| word.contains(['r', 'R']))
}

/// Whether code that opens files only reads them.
fn only_reads(code: &str) -> bool {
    let changes: Vec<&&str> = CHANGES
        .iter()
        .filter(|word| {
            code.contains(**word) && !matches!(**word, "open(" | "open " | "fopen" | "io.open" | "File.open")
        })
        .collect();
    let modes =
        ["'w", "\"w", "'a'", "\"a\"", "'ab", "\"ab", "'x'", "'r+", "\"r+", "'>", "\">", "mode=", "+<", "'a+", "\"a+"];
    changes.is_empty() && !has_any(code, &modes)
}

/// Whether a string may be a path that is meant.
pub(super) fn is_path(text: &str, removes: bool) -> bool {
    let plain = text.trim_start_matches(['>', '<', '+', ' ']);
    !plain.is_empty()
        && plain.len() < 256
        && !plain.contains("://")
        && !plain.contains(['\n', ' ', '(', ')'])
        && (plain.starts_with(['/', '~'])
            || plain.contains('/')
            || removes && plain.len() > 1
            || plain == "."
            || plain == "*")
}

/// What code prints that only prints one string: `print("…")`, `puts '…'`, `console.log('…')`.
fn folded(codes: &[String]) -> Option<Value> {
    let [code] = codes else { return None };
    let code = code.trim().trim_end_matches(';');
    let call = ["print(", "print ", "puts ", "console.log(", "echo ", "say ", "printf("]
        .iter()
        .find_map(|call| code.strip_prefix(call))?;
    let call = call.trim_end_matches(')');
    let quote = call.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = call.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains(quote) && !inner.contains(['$', '#'])).then(|| vec![crate::bash::unescaped(inner, true) + "\n"])
}

/// What awk prints that prints one string before it reads.
fn awk_prints(code: &str) -> Option<String> {
    let body = code.trim().strip_prefix("BEGIN")?.trim().strip_prefix('{')?.trim();
    let body = body.strip_prefix("printf").or_else(|| body.strip_prefix("print"))?.trim().trim_start_matches('(');
    let inner = body.strip_prefix('"')?;
    let (text, behind) = inner.split_once('"')?;
    let behind = behind.trim().trim_end_matches(['}', ';', ')', ' ']);
    behind.is_empty().then(|| crate::bash::unescaped(text, true) + "\n")
}
