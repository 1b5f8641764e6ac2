//! Programs that run other programs: `sudo`, `env`, `xargs`, `ssh`, `docker run` and their like. The plain ones are rows
//! of `wrappers.tsv`; an option that a row lacks may or may not take the next word, so both are looked at.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::exec::{nothing, output};
use super::options::Options;
use super::run::{Run, Value};
use super::text::{self, ALL_BELOW, ANY};
use crate::proto::action::Risk;

/// A row of the table.
struct Wrapper {
    short_with_value: &'static str,
    short: &'static str,
    long_with_value: Vec<&'static str>,
    long: Vec<&'static str>,
    words_before: usize,
    kind: &'static str,
}

static WRAPPERS: LazyLock<BTreeMap<&'static str, Wrapper>> = LazyLock::new(|| {
    let rows = include_str!("wrappers.tsv").lines().filter(|line| !line.starts_with('#'));
    let list = |cell: &'static str| cell.split(',').filter(|name| !name.is_empty()).collect();
    let row = |line: &'static str| {
        let cells: Vec<&'static str> = line.split('\t').collect();
        let [name, short_with_value, short, long_with_value, long, before, kind] = cells[..] else { return None };
        let words_before = before.parse().ok()?;
        let (long_with_value, long) = (list(long_with_value), list(long));
        Some((name, Wrapper { short_with_value, short, long_with_value, long, words_before, kind }))
    };
    rows.filter_map(row).collect()
});

/// The container programs whose `run` and `exec` are alike.
const CONTAINERS: [&str; 4] = ["docker", "podman", "nerdctl", "finch"];

/// Commands of a multiplexer that run what stands behind them.
const MULTIPLEXER_RUNS: &str = " new-session new new-window neww split-window splitw run-shell run if-shell ";
/// Options of a multiplexer that take a value.
const MULTIPLEXER_VALUED: &str = "sSnctFextyplTLhc";
/// Words of `tmux` behind which no command stands; what `#(…)` in them holds is looked at all the same.
const MULTIPLEXER_TELLS: &str = "attach attach-session a capture-pane choose-tree clear-history detach detach-client display \
    display-message has has-session info kill-pane kill-session kill-window kill-server list-buffers list-clients list-keys \
    list-panes list-sessions list-windows ls load-buffer lsw rename rename-session rename-window renamew resize-pane \
    save-buffer select-layout select-pane select-window server-info show show-options swap-pane switch-client";

/// Whether a program only runs the one that stands behind its options.
pub(super) fn is_plain(name: &str) -> bool {
    WRAPPERS.contains_key(name)
}

impl Run<'_, '_> {
    /// Runs a program that runs another one; `None` where it isn't such a program.
    pub(super) fn wrapper(&mut self, name: &str, words: &[String]) -> Option<Value> {
        if let Some(row) = WRAPPERS.get(name) {
            return Some(self.plain_wrapper(name, row, words));
        }
        Some(match name {
            "xargs" => self.xargs(words),
            "parallel" => self.parallel(words),
            "gdb" | "lldb" => self.debugger(words),
            "bwrap" => {
                let rest = behind_bubblewrap(words).to_vec();
                self.note(Risk::High, "wrapper", "bwrap runs it with other mounts");
                self.exec_program(rest)
            }
            "watch" | "hyperfine" | "concurrently" | "entr" | "watchexec" | "nodemon" | "chokidar" | "expect"
            | "su" | "runuser" | "sg" | "newgrp" | "script" | "flock" | "tmux" | "screen" | "at" | "batch"
            | "crontab" | "capsh" | "ifup" | "start-stop-daemon" | "machinectl" | "run-parts" | "pee" | "perf"
            | "man" | "less" | "more" | "vi" | "vim" | "nvim" | "view" | "vimdiff" | "rview" | "rvim" | "gvim"
            | "ex" | "ed" | "emacs" | "nano" => self.line_wrapper(name, words),
            "ssh" | "mosh" | "rsh" | "dbclient" | "autossh" | "slogin" => self.ssh(words),
            "npx" | "bunx" | "pnpx" | "uvx" | "pipx" => {
                self.net("");
                self.launcher(words)
            }
            "xterm"
            | "uxterm"
            | "rxvt"
            | "urxvt"
            | "gnome-terminal"
            | "konsole"
            | "alacritty"
            | "kitty"
            | "foot"
            | "wezterm"
            | "terminator"
            | "x-terminal-emulator"
            | "xfce4-terminal"
            | "mate-terminal"
            | "tilix"
            | "st" => self.terminal(name, words),
            "direnv" | "mise" | "rtx" | "asdf" | "conda" | "mamba" | "micromamba" | "corepack" | "volta" | "fnm"
            | "rbenv" | "pyenv" | "nodenv" | "hatch" | "flatpak" | "snap" | "toolbox" | "distrobox" | "nvm" | "op"
            | "doppler" | "dotenv"
                if words
                    .iter()
                    .take(2)
                    .any(|word| matches!(word.as_str(), "exec" | "run" | "x" | "yarn" | "pnpm" | "npm" | "enter")) =>
            {
                self.launcher(words)
            }
            "kubectl" | "oc" | "k3s" | "lxc" | "vagrant" | "docker-compose" => self.cluster(words),
            _ if CONTAINERS.contains(&name) => self.container(words),
            _ => return None,
        })
    }

    fn plain_wrapper(&mut self, name: &str, row: &Wrapper, words: &[String]) -> Value {
        match row.kind {
            "none" => return self.streams.input.clone().unwrap_or_else(output),
            "privileged" => self.note(Risk::High, "privilege", format!("{name} runs it with other rights")),
            "remote" => self.net(""),
            _ => {}
        }
        let mut starts = vec![0];
        let mut at = 0;
        let mut is_env = row.kind == "env";
        let mut directory = None;
        while let Some(word) = words.get(at) {
            if word == "--" {
                at += 1;
                break;
            }
            if name == "env" && (word == "-S" || word.starts_with("-S") || word.starts_with("--split-string")) {
                return self.split_string(word, &words[at + 1..]);
            }
            if (is_env || name == "sudo") && word.contains('=') && !word.starts_with('-') {
                if let Some((name, value)) = word.split_once('=') {
                    self.environment_rules(name, &[value.to_owned()], false);
                    is_env = row.kind == "env";
                }
                at += 1;
                continue;
            }
            let Some((takes, known)) = option_arity(row, word) else { break };
            if matches!((name, word.as_str()), ("env", "-C" | "--chdir") | ("sudo", "-D" | "--chdir")) {
                directory = words.get(at + 1).cloned();
            } else if let Some(path) = word.strip_prefix("--chdir=") {
                directory = Some(path.to_owned());
            }
            at += 1 + usize::from(takes);
            if !known {
                self.note(Risk::High, "unknown-option", format!("{word} isn't an option of {name} that is known"));
                starts.push(at + 1);
            }
        }
        starts[0] = at;
        self.named_outputs(name, &words[..at.min(words.len())]);
        if name == "sudo" && words[..at.min(words.len())].iter().any(|word| word == "-e" || word == "--edit") {
            for path in &words[at.min(words.len())..] {
                self.writes(path, crate::proto::action::WriteKind::Write);
            }
            return nothing();
        }
        let mut printed = nothing();
        for start in starts {
            // The name of a machine may be left out.
            let is_machine = words.get(start).is_some_and(|word| word.contains(|c: char| c.is_ascii_digit()));
            let before = if name == "setarch" && !is_machine { 0 } else { row.words_before };
            let Some(rest) = words.get(start + before..).filter(|rest| !rest.is_empty()) else {
                if matches!(name, "sudo" | "doas" | "chroot" | "nsenter" | "unshare" | "pkexec") {
                    printed = self.exec_program(vec!["sh".to_owned()]);
                }
                continue;
            };
            let cwd = self.state.cwd.clone();
            if let Some(path) = &directory {
                self.state.cwd = self.absolute(path);
            }
            printed = self.wrapped(name, rest);
            self.state.cwd = cwd;
        }
        printed
    }

    fn wrapped(&mut self, name: &str, rest: &[String]) -> Value {
        let mut rest = rest.to_vec();
        if matches!(name, "busybox" | "toybox") && rest[0] == "sh" {
            rest[0] = "ash".to_owned();
        }
        // A function isn't known to the program that is started, but to `builtin` and `command` neither.
        self.exec_program(rest)
    }

    fn split_string(&mut self, word: &str, rest: &[String]) -> Value {
        let inline = word.strip_prefix("-S").or_else(|| word.strip_prefix("--split-string=")).unwrap_or_default();
        let mut rest = rest.to_vec();
        let code = if inline.is_empty() && !rest.is_empty() { rest.remove(0) } else { inline.to_owned() };
        let code = format!("env {code} {}", Self::line_of(&rest));
        self.code_elsewhere(&code)
    }

    /// Programs that run a line, a script or what they read.
    fn line_wrapper(&mut self, name: &str, words: &[String]) -> Value {
        match name {
            "watch" => {
                let rest = leading(words, "nq", "interval equexit");
                if Options::read(&words[..words.len() - rest.len()], "nq", "interval equexit").has("x", "exec") {
                    return self.exec_program(rest.to_vec());
                }
                let code = rest.join(" ");
                return self.code_elsewhere(&code);
            }
            "hyperfine" | "concurrently" | "pee" | "sg" | "chokidar" | "nodemon" | "watchexec" | "entr" => {
                for word in words.iter().filter(|word| word.contains(' ')) {
                    self.code_elsewhere(word);
                }
                let valued = if name == "entr" { "" } else { "wrmepsSLPNc" };
                let rest = leading(words, valued, "warmup runs exec ext watch");
                if !rest.is_empty() && !rest[0].contains(' ') {
                    self.exec_program(rest.to_vec());
                }
            }
            "su" | "runuser" => return self.su(name, words),
            "script" | "flock" | "capsh" | "newgrp" => return self.with_option_c(name, words),
            "at" | "batch" => {
                let options = Options::read(words, "fqtd", "");
                self.note(Risk::High, "later", format!("{name} runs it later"));
                for file in options.values("f", "").map(str::to_owned).collect::<Vec<_>>() {
                    self.script_file(&file);
                }
                if let Some(data) = self.streams.input.clone() {
                    data.iter().for_each(|code| _ = self.code_elsewhere(code));
                }
            }
            "crontab" => self.crontab(words),
            "tmux" | "screen" => self.multiplexer(words),
            "expect" | "perf" | "machinectl" | "start-stop-daemon" | "run-parts" | "ifup" => {
                self.note(Risk::High, "wrapper", format!("{name} runs other programs"));
                let lines: Vec<String> = match name {
                    "expect" => {
                        self.streams.input.iter().flatten().flat_map(|text| text.lines()).map(str::to_owned).collect()
                    }
                    _ => Vec::new(),
                };
                for (at, word) in words.iter().chain(&lines).enumerate() {
                    if name == "expect" && word.contains(' ') {
                        self.other_code(name, word);
                    }
                    if word.contains(' ') {
                        let code = word.replace("spawn ", "").replace("system ", "").replace("exec ", "");
                        self.code_elsewhere(&code);
                    }
                    if name == "machinectl" && word == "shell" {
                        self.exec_program(words.get(at + 2..).unwrap_or_default().to_vec());
                    }
                    if text::listed("-- record stat shell --exec -a --startas -x", word) {
                        let rest = leading(&words[at + 1..], "eop", "event output").to_vec();
                        self.exec_program(rest);
                    }
                }
            }
            _ => return self.viewer(name, words),
        }
        nothing()
    }

    /// Editors and pagers, which run commands that they are given.
    fn viewer(&mut self, name: &str, words: &[String]) -> Value {
        let reads = matches!(name, "man" | "less" | "more" | "view");
        if name == "man" {
            for (at, word) in words.iter().enumerate() {
                if matches!(word.as_str(), "-P" | "--pager" | "-H") {
                    self.code_elsewhere(&words.get(at + 1).cloned().unwrap_or_default());
                } else if let Some(code) = word.strip_prefix("--pager=") {
                    self.code_elsewhere(code);
                }
            }
            return output();
        }
        self.note(Risk::High, "interactive", format!("{name} waits for a person and can run commands"));
        let (mut is_code, mut is_script) = (false, false);
        for word in words {
            let code = if is_code { Some(word.as_str()) } else { word.strip_prefix('+') };
            is_code = matches!(word.as_str(), "--cmd" | "--eval" | "-eval" | "--command")
                || word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
            let names_script = std::mem::replace(&mut is_script, is_script_option(name, word));
            if names_script {
                self.editor_script(name, word);
            } else if let Some(code) = code {
                code.split('|').for_each(|line| self.editor_line(line));
                if let Some((_, shell)) = code.split_once(" !") {
                    self.code_elsewhere(shell);
                }
                self.other_code(if name == "emacs" { name } else { "vim" }, code);
            } else if !word.starts_with('-') && !is_code {
                if reads { self.reads(word) } else { self.writes(word, crate::proto::action::WriteKind::Write) }
            }
        }
        if matches!(name, "ed" | "ex") {
            self.editor_script(name, "-");
        } else if matches!(name, "vim" | "vi" | "nvim") {
            // What isn't text to be shown is commands, or keys.
            let is_ex = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains(['e', 'E']);
            let shows = words.iter().any(|word| word == "-") || name == "nvim";
            if !shows || words.iter().any(is_ex) {
                self.editor_script(name, "-");
            } else {
                self.editor_input();
            }
        }
        output()
    }

    fn debugger(&mut self, words: &[String]) -> Value {
        self.note(Risk::High, "debugger", "a debugger can run anything");
        for (at, word) in words.iter().enumerate() {
            match word.trim_start_matches('-') {
                "ex" | "iex" | "eval-command" | "o" | "one-line" => {
                    let code = words.get(at + 1).cloned().unwrap_or_default();
                    let code = code.trim_start_matches('!');
                    self.code_elsewhere(code.strip_prefix("shell ").unwrap_or(code));
                    self.other_code("gdb", code);
                }
                "x" | "command" | "s" | "source" | "ix" | "init-command" => {
                    let file = words.get(at + 1).cloned().unwrap_or_default();
                    self.debugger_script(&file);
                }
                option if option.starts_with("command=") && word.starts_with('-') => {
                    self.debugger_script(&option["command=".len()..]);
                }
                "args" | "" if word.starts_with("--") => {
                    self.exec_program(words[at + 1..].to_vec());
                }
                _ => {}
            }
        }
        if self.streams.input.is_some() {
            self.debugger_script("-");
        }
        output()
    }

    /// `NAME exec [OPTIONS] [WHAT] [--] COMMAND`: each word in front may be the command's first.
    fn launcher(&mut self, words: &[String]) -> Value {
        self.note(Risk::High, "wrapper", "runs another program");
        if let Some(at) = words.iter().position(|word| matches!(word.as_str(), "-c" | "--call" | "--command")) {
            let code = words.get(at + 1).cloned().unwrap_or_default();
            self.code_elsewhere(&code);
        }
        let plain = |word: &String| !word.starts_with('-');
        let starts: Vec<usize> = (0..words.len().min(8)).filter(|at| plain(&words[*at])).collect();
        for at in starts {
            let name = super::exec::base(&words[at]).to_owned();
            let known =
                super::files::is_destroyer(&name) || super::system::is_power(&name) || super::exec::is_shell(&name);
            if known
                || WRAPPERS.contains_key(name.as_str())
                || text::listed("rimraf del-cli del trash-cli yarn pnpm concurrently nodemon onchange", &name)
            {
                self.exec_program(words[at..].to_vec());
            }
        }
        output()
    }

    /// A terminal that runs a command.
    fn terminal(&mut self, name: &str, words: &[String]) -> Value {
        self.note(Risk::High, "wrapper", "opens a terminal");
        let at = words
            .iter()
            .position(|word| matches!(word.as_str(), "-e" | "-x" | "--" | "--command" | "start" | "--execute"));
        let takes_words = matches!(name, "kitty" | "foot" | "st");
        let rest = match at {
            Some(at) => &words[at + 1..],
            None if takes_words => {
                leading(words, "cdoTtwWDaAfgnDi", "config directory override title name class app-id")
            }
            None => &[],
        };
        match rest {
            [word, ..] if word.starts_with(['+', '@']) => {}
            [code] => _ = self.code_elsewhere(code),
            [] => {}
            words => _ = self.exec_program(words.to_vec()),
        }
        if let Some(code) = words.iter().find_map(|word| word.strip_prefix("--command=")) {
            self.code_elsewhere(code);
        }
        output()
    }

    fn su(&mut self, name: &str, words: &[String]) -> Value {
        self.note(Risk::High, "privilege", format!("{name} runs it with other rights"));
        let options = Options::read(words, "cgGsuwT", "command group shell user session-command");
        let codes: Vec<String> =
            options.values("c", "command").chain(options.values("", "session-command")).map(str::to_owned).collect();
        if codes.is_empty() {
            let from = usize::from(!options.has("u", "user"));
            let operands = options.operands.iter().filter(|word| *word != "-");
            let rest: Vec<String> = operands.skip(from).cloned().collect();
            if rest.is_empty() {
                return self.exec_program(vec!["sh".to_owned()]);
            }
            return self.exec_program(rest);
        }
        let mut printed = nothing();
        for code in codes {
            printed = self.code_elsewhere(&code);
        }
        printed
    }

    /// `script -c CODE FILE`, `flock FILE CMD…`, `flock FILE -c CODE`.
    fn with_option_c(&mut self, name: &str, words: &[String]) -> Value {
        let at = words.iter().position(|word| text::listed("-c --command -qc -qec -ec -aqc -qefc -qfc", word));
        if let Some(at) = at {
            let code = words.get(at + 1).cloned().unwrap_or_default();
            return self.code_elsewhere(&code);
        }
        if let Some(code) =
            words.iter().find_map(|word| word.strip_prefix("--command=").or_else(|| word.strip_prefix("-c")))
        {
            return self.code_elsewhere(code);
        }
        match name {
            "flock" => {
                let rest = leading(words, "wE", "wait timeout conflict-exit-code");
                self.exec_program(rest.get(1..).unwrap_or_default().to_vec())
            }
            "script" => {
                let rest = leading(words, "EIOBTmo", "").to_vec();
                rest.iter().for_each(|file| self.writes(file, crate::proto::action::WriteKind::Write));
                self.exec_program(vec!["sh".to_owned()])
            }
            _ => self.exec_program(vec!["sh".to_owned()]),
        }
    }

    fn crontab(&mut self, words: &[String]) {
        let options = Options::read(words, "u", "");
        if options.has("lhV", "") {
            return;
        }
        if options.has("e", "") {
            return self.note(Risk::High, "interactive", "crontab -e opens an editor");
        }
        self.block("persistence", "changes what runs at set times (crontab)");
    }

    fn multiplexer(&mut self, words: &[String]) {
        self.note(Risk::High, "wrapper", "runs commands in another terminal");
        for word in words {
            for (at, _) in word.match_indices("#(") {
                let code = word[at + 2..].rsplit_once(')').map_or(&word[at + 2..], |(code, _)| code);
                self.code_elsewhere(code);
            }
        }
        let verb = leading(words, MULTIPLEXER_VALUED, "").first().map(String::as_str).unwrap_or_default();
        if text::listed(MULTIPLEXER_TELLS, verb) && !words.iter().any(|word| word == ";" || word == "\\;") {
            return;
        }
        let is_send = words.iter().any(|word| matches!(word.as_str(), "send-keys" | "send" | "stuff"));
        for word in words {
            if word.contains(' ') || is_send {
                let code = word.trim_end_matches("\\n").trim_end_matches("^M").to_owned();
                if code.contains(' ') {
                    self.code_elsewhere(&code);
                }
                // `if-shell true 'run "…"'`: its own commands in a word.
                let inner = super::strings::shell_words(&code);
                if inner.len() > 1 && text::listed(MULTIPLEXER_RUNS, &inner[0]) {
                    self.deeper(|run| run.multiplexer(&inner), ());
                }
            }
        }
        if is_send {
            let lines: Vec<String> = typed(words).into_iter().filter(|line| text::is_known(line)).collect();
            self.code_elsewhere(&lines.join("\n"));
        }
        // Words behind the options are a command: `screen -dm rm …`, `tmux new-session -d rm …`.
        let from = words.iter().position(|word| text::listed(MULTIPLEXER_RUNS, word)).map_or(0, |at| at + 1);
        let rest = leading(&words[from..], MULTIPLEXER_VALUED, "").to_vec();
        if (from > 0 || !is_send && words.iter().any(|word| word.starts_with('-')))
            && rest.first().is_some_and(|first| {
                !first.contains(' ')
                    && !matches!(
                        first.as_str(),
                        "attach" | "a" | "ls" | "kill-session" | "kill-server" | "list-sessions"
                    )
            })
        {
            self.exec_program(rest);
        }
    }

    fn xargs(&mut self, words: &[String]) -> Value {
        const SHORT: &str = "aEIdLnPs";
        const LONG: &str = "arg-file delimiter max-lines max-args max-procs max-chars process-slot-var";
        let command = leading(words, SHORT, LONG).to_vec();
        let given = &words[..words.len() - command.len()];
        let options = Options::read(given, SHORT, LONG);
        let data = match options.values("a", "arg-file").next() {
            Some(file) => self.content(file),
            None => self.streams.input.clone().unwrap_or_else(|| vec![ANY.to_string()]),
        };
        let replace = options.values("I", "replace").next().map(str::to_owned);
        let replace = replace.or_else(|| options.has("i", "replace").then(|| "{}".to_owned()));
        let command = if command.is_empty() { vec!["echo".to_owned()] } else { command };
        let at_once = options.values("P", "max-procs").next().and_then(|count| count.parse::<u32>().ok());
        if self.streams.is_endless && at_once.is_some_and(|count| count == 0 || count > 256) {
            self.block("fork-bomb", "starts processes without an end, all at once");
        }
        let mut printed = nothing();
        for text in data {
            let by_nul = options.has("0", "null") && text.contains('\0');
            let text = if by_nul { text } else { text.replace('\0', "\n") };
            let items: Vec<String> = match (&replace, options.values("d", "delimiter").next()) {
                (None, _) if by_nul => text.split('\0').map(str::to_owned).collect(),
                // What `find` may print is told by lines, whatever stands between.
                (None, _) if options.has("0", "null") && text::is_known(&text) => vec![text],
                (None, _) if options.has("0", "null") => text.lines().map(str::to_owned).collect(),
                (Some(_), _) if by_nul => text.split('\0').map(str::to_owned).collect(),
                (Some(_), _) => text.lines().map(str::to_owned).collect(),
                (None, Some(delimiter)) => {
                    let delimiter = crate::bash::unescaped(delimiter, true);
                    text.split(delimiter.as_str()).map(|item| item.trim_end_matches('\n').to_owned()).collect()
                }
                (None, None) => super::strings::shell_words(&text),
            };
            let items: Vec<String> = items.into_iter().filter(|item| !item.is_empty()).take(64).collect();
            printed = match &replace {
                Some(mark) => {
                    let mut printed = nothing();
                    for item in items.iter().take(8) {
                        let argv = command.iter().map(|word| word.replace(mark.as_str(), item)).collect();
                        printed = self.with_input(Some(nothing()), |run| run.exec_program(argv));
                    }
                    printed
                }
                None => self.with_input(Some(nothing()), |run| run.with_words(&command, &items)),
            };
        }
        printed
    }

    fn parallel(&mut self, words: &[String]) -> Value {
        let rest =
            leading(words, "jNndDSLIaPs", "jobs delay retries timeout joblog results colsep sshlogin arg-file halt");
        let split = rest.iter().position(|word| word.starts_with(":::"));
        let command: Vec<String> = rest[..split.unwrap_or(rest.len())].to_vec();
        let options = &words[..words.len() - rest.len()];
        if options.iter().any(|word| super::text::listed("--pipe --pipepart --pipe-part --spreadstdin", word)) {
            return self.exec_program(command);
        }
        let items: Vec<String> = match split {
            Some(at) => rest[at + 1..].iter().filter(|word| !word.starts_with(":::")).cloned().collect(),
            None => {
                let data = self.streams.input.clone().unwrap_or_else(|| vec![ANY.to_string()]);
                data.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
            }
        };
        // With `-q` no shell reads the command's words again.
        let is_quoted = options.iter().any(|word| {
            matches!(word.as_str(), "--quote") || word.starts_with('-') && !word.starts_with("--") && word.contains('q')
        });
        let quote = |word: &String| if is_quoted { super::exec::quote(word) } else { word.clone() };
        let command: Vec<String> = command.iter().map(quote).collect();
        for item in items.iter().take(16) {
            let mut code = command.join(" ");
            code = if code.contains("{}") { code.replace("{}", item) } else { format!("{code} {item}") };
            self.code_elsewhere(code.trim());
            // In place of `{}` a word with blanks stays one word.
            if command.len() > 1 && item.contains(' ') && command.iter().any(|word| word.contains("{}")) {
                self.code_elsewhere(&command.join(" ").replace("{}", &super::exec::quote(item)));
            }
        }
        output()
    }

    fn ssh(&mut self, words: &[String]) -> Value {
        let rest = leading(words, "bcDEeFIiJLlmOopQRSWwBMp", "ssh").to_vec();
        let options = Options::read(&words[..words.len() - rest.len()], "bcDEeFIiJLlmOopQRSWwB", "");
        for option in options.values("o", "") {
            for name in ["ProxyCommand", "LocalCommand", "KnownHostsCommand"] {
                if let Some(code) = option.strip_prefix(name) {
                    self.code_elsewhere(code.trim_start_matches(['=', ' ']));
                }
            }
        }
        let host = rest.first().map(String::as_str).unwrap_or_default().to_owned();
        self.net(host.rsplit('@').next().unwrap_or_default());
        let is_here = self.comes_back(&host, &options, "p");
        let code = rest.get(1..).unwrap_or_default();
        let code = code.strip_prefix(&["--".to_owned()][..]).unwrap_or(code).join(" ");
        let input = self.streams.input.clone();
        let cwd = if is_here { self.map.rules.home.clone() } else { "/home/remote".to_owned() };
        self.elsewhere(usize::from(!is_here), &cwd, |run| {
            if code.trim().is_empty() {
                if let Some(data) = input {
                    data.iter().for_each(|code| {
                        if super::text::is_known(code) || code.trim().len() > 4 {
                            run.code_elsewhere(code);
                        }
                    });
                }
            } else {
                run.code_elsewhere(&code);
            }
        });
        output()
    }

    /// Walks where paths are another machine's.
    pub(super) fn elsewhere(&mut self, kind: usize, cwd: &str, walk: impl FnOnce(&mut Self)) {
        let before = (self.elsewhere, self.state.cwd.clone());
        self.elsewhere = self.elsewhere.max(kind);
        self.state.cwd = vec![cwd.to_owned()];
        walk(self);
        (self.elsewhere, self.state.cwd) = before;
    }

    fn cluster(&mut self, words: &[String]) -> Value {
        if words.first().is_some_and(|word| word == "completion") {
            return super::strings::settings();
        }
        self.note(Risk::High, "elsewhere", "acts on machines elsewhere");
        if let Some(at) = words.iter().position(|word| word == "--") {
            let argv = words[at + 1..].to_vec();
            self.elsewhere(2, "/work", |run| _ = run.exec_program(argv));
        } else if let Some(at) = words.iter().position(|word| word == "-c" || word == "--command") {
            let code = words.get(at + 1).cloned().unwrap_or_default();
            self.elsewhere(2, "/work", |run| _ = run.code_elsewhere(&code));
        }
        output()
    }

    fn container(&mut self, words: &[String]) -> Value {
        const VALUES: &str = "evpwuhlmcHD";
        const LONG: &str = "env volume publish workdir user name network entrypoint mount hostname label memory cpus platform env-file device cap-add cap-drop security-opt pid ipc restart gpus shm-size tmpfs add-host link volumes-from log-driver log-opt dns ulimit userns uts context host config runtime pull cidfile group-add ip";
        let verb = words.iter().find(|word| !word.starts_with('-')).map(String::as_str).unwrap_or_default().to_owned();
        let from = words.iter().position(|word| *word == verb).map_or(words.len(), |at| at + 1);
        if !matches!(verb.as_str(), "run" | "exec" | "create") {
            self.note(Risk::High, "elsewhere", "acts on containers");
            // `podman unshare COMMAND` stays on this machine; `docker compose run` takes directories as `docker run` does.
            if verb == "unshare" {
                return self.exec_program(leading(&words[from..], "", "").to_vec());
            }
            let run = words[from..].iter().position(|word| word == "run").filter(|_| verb == "compose");
            if let Some(at) = run {
                return self.container(&words[from + at..]);
            }
            return output();
        }
        self.note(Risk::High, "container", "runs a container");
        let rest = leading(&words[from..], VALUES, LONG).to_vec();
        let options = Options::read(&words[from..words.len() - rest.len()], VALUES, LONG);
        let mut is_open = options.has("", "privileged") || options.values("", "pid").any(|pid| pid == "host");
        let mounts = mounts(&options);
        let argv: Vec<String> = rest.get(1..).unwrap_or_default().to_vec();
        let entry = options.values("", "entrypoint").next().map(str::to_owned);
        let argv: Vec<String> = entry.into_iter().chain(argv).collect();
        for (host, inside) in mounts.iter().filter(|(host, inside)| host.starts_with('/') && !inside.is_empty()) {
            self.links.insert(inside.trim_end_matches('/').to_owned(), host.trim_end_matches('/').to_owned());
            is_open |= host == "/";
        }
        let before = self.links.clone();
        let kind = if is_open || !mounts.is_empty() { 1 } else { 2 };
        let cwd = options.values("w", "workdir").next().unwrap_or("/work").to_owned();
        self.elsewhere(kind, &cwd, |run| _ = run.exec_program(argv));
        self.links = before;
        for (_, inside) in mounts {
            self.links.remove(inside.trim_end_matches('/'));
        }
        output()
    }
}

/// The lines that are typed into another terminal: words are put together, the names of keys stand for what they type.
fn typed(words: &[String]) -> Vec<String> {
    let at = words.iter().position(|word| matches!(word.as_str(), "send-keys" | "send" | "stuff"));
    let mut lines = vec![String::new()];
    for word in leading(at.map_or(&[], |at| &words[at + 1..]), "tNc", "") {
        match word.as_str() {
            "Enter" | "C-m" | "KPEnter" | "C-j" | ";" => lines.push(String::new()),
            "Space" => lines.last_mut().into_iter().for_each(|line| line.push(' ')),
            key if key.starts_with("C-")
                || key.starts_with("M-")
                || text::listed("Escape Up Down Left Right BSpace Tab", key) =>
            {
                lines.push(String::new());
            }
            word => {
                let text = word.replace("\\n", "\n").replace("^M", "\n");
                lines.last_mut().into_iter().for_each(|line| line.push_str(&text));
            }
        }
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Directories of this machine that a container gets, and where it has them.
fn mounts(options: &Options) -> Vec<(String, String)> {
    let mut mounts: Vec<(String, String)> = Vec::new();
    for volume in options.values("v", "volume") {
        let mut parts = volume.split(':');
        mounts.push((parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default().to_owned()));
    }
    for mount in options.values("", "mount") {
        let part = |names: &[&str]| {
            let found = mount.split(',').filter_map(|pair| pair.split_once('=')).find(|(name, _)| names.contains(name));
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        mounts.push((part(&["source", "src"]), part(&["target", "dst", "destination"])));
    }
    mounts
}

/// The words behind bubblewrap's options.
fn behind_bubblewrap(words: &[String]) -> &[String] {
    let mut at = 0;
    while let Some(option) = words.get(at).and_then(|word| word.strip_prefix("--")) {
        let plain = option.trim_end_matches("-try");
        at += 1 + match plain {
            "" => return &words[at + 1..],
            "bind" | "ro-bind" | "dev-bind" | "bind-fd" | "symlink" | "setenv" | "file" | "bind-data"
            | "ro-bind-data" | "chmod" | "ro-bind-fd" => 2,
            "clearenv" | "die-with-parent" | "new-session" | "as-pid-1" | "share-net" | "disable-userns" | "help"
            | "version" | "level-prefix" => 0,
            _ if plain.starts_with("unshare") || plain.starts_with("assert") => 0,
            _ => 1,
        };
    }
    words.get(at..).unwrap_or_default()
}

/// Whether the next word of an editor names a file of its commands.
fn is_script_option(name: &str, option: &str) -> bool {
    match name {
        "emacs" => text::listed("-l --load -load --script -script", option),
        "less" | "more" | "man" | "nano" | "ed" => false,
        _ => matches!(option, "-S" | "-u" | "-U") || option == "-s" && name != "ex",
    }
}

/// The words from the first that isn't an option, nor the value of one.
pub(super) fn leading<'w>(words: &'w [String], short: &str, long: &str) -> &'w [String] {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            return &words[at + 1..];
        }
        if let Some(name) = word.strip_prefix("--") {
            at += 1 + usize::from(text::listed(long, name));
        } else if word.len() > 1 && word.starts_with('-') {
            let letters = &word[1..];
            let value = letters.char_indices().find(|(_, letter)| short.contains(*letter));
            at += 1 + usize::from(value.is_some_and(|(at, letter)| at + letter.len_utf8() == letters.len()));
        } else {
            break;
        }
    }
    &words[at.min(words.len())..]
}

/// Whether a word is an option: whether it takes the next word, and whether it is known.
fn option_arity(row: &Wrapper, word: &str) -> Option<(bool, bool)> {
    if let Some(name) = word.strip_prefix("--") {
        let (name, has_value) = name.split_once('=').map_or((name, false), |(name, _)| (name, true));
        let is = |own: &&&str| own.starts_with(name);
        return Some(match (row.long_with_value.iter().find(is), row.long.iter().find(is)) {
            (Some(_), _) => (!has_value, true),
            (None, Some(_)) => (false, true),
            (None, None) => (false, has_value),
        });
    }
    if !word.starts_with('-') || word.len() < 2 {
        return None;
    }
    let letters = &word[1..];
    if let Some((at, letter)) = letters.char_indices().find(|(_, letter)| row.short_with_value.contains(*letter)) {
        let known = letters[..at].chars().all(|letter| row.short.contains(letter));
        return Some((at + letter.len_utf8() == letters.len(), known));
    }
    Some((false, letters.chars().all(|letter| row.short.contains(letter))))
}

/// The paths that `find` may print below a start, as text: one line.
pub(super) fn found_path(start: &str, name: Option<&str>) -> String {
    let start = start.trim_end_matches('/');
    let start = if start.is_empty() { "/" } else { start };
    match name {
        Some(name) => format!("{}/{}/{name}", start.trim_end_matches('/'), text::NAME),
        None => format!("{}/{ALL_BELOW}", start.trim_end_matches('/')),
    }
}
