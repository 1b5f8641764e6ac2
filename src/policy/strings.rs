//! Programs that print or change text and touch nothing: what they print is followed where it can be, so that a command
//! put together by them is seen.

use super::exec::output;
use super::options::Options;
use super::run::{Run, Value, joined};
use super::tellers::{date, devices, number, processes, seq};
use super::text::{self, ANY, DECODED, DECODED_MARK, NAME, OUTPUT, SETTINGS, STAR, has_open, is_known};

/// Programs that read their operands and print something about them.
const READERS: &str = " cat tac head tail wc nl fold fmt paste join comm cut tr rev sort uniq grep egrep fgrep zgrep rg ag \
    ack strings hexdump od xxd base64 base32 basenc md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum \
    cksum sum diff cmp colordiff sdiff column expand unexpand jq yq bat batcat zcat bzcat xzcat zstdcat gunzip uncompress \
     pr look iconv csvcut xmllint nm objdump readelf ldd size c++filt addr2line tokei cloc scc \
    shellcheck hadolint yamllint jsonlint lolcat glow mdcat pygmentize highlight hd tldr \
    exiftool mediainfo ffprobe identify bc ";
/// Programs that look at names, sizes and dates.
const LISTERS: &str = " ls dir vdir stat file du df tree exa eza lsd realpath readlink basename dirname namei lsof \
    lsattr getfacl mountpoint findmnt pathchk locate plocate test [ ";
/// Programs that tell something and take no file.
const TELLERS: &str = " pwd whoami id uname uptime free nproc arch who w users groups last lastlog date cal ncal seq yes \
    printenv locale tty getconf lscpu lsblk lsusb lspci lsmod lsns ps pgrep pidof top vmstat iostat mpstat sar \
    dmesg journalctl getent tput clear reset expr factor numfmt logname hostid hostname printf echo \
    whatis apropos info tldr figlet cowsay fortune toilet neofetch fastfetch screenfetch lsb_release dpkg-query \
    ss netstat sleep blkid findfs sensors acpi upower xdpyinfo nvidia-smi \
    true false type tsort shuf smartctl udevadm stty ";
/// Programs that print settings for a shell to run.
const SETTINGS_PRINTERS: &str = " ssh-agent direnv starship pyenv rbenv nodenv goenv opam minikube docker-machine brew \
    dircolors keychain fnm zoxide mise rtx asdf luarocks conda mamba register-python-argcomplete kubectl helm gh npm \
    rustup lesspipe lesspipe.sh resize tset gpg-agent stack atuin fzf thefuck pip3 poetry jenv nvm sdk volta spack \
    pipx hub glab flux argocd k3d kind istioctl oc doctl just zellij carapace mcfly navi broot activate-global-python-argcomplete \
    gnome-keyring-daemon dbus-launch systemctl locale ";

/// Whether a program prints settings for a shell.
pub(super) fn prints_settings(name: &str) -> bool {
    text::listed(SETTINGS_PRINTERS, name)
}

impl Run<'_, '_> {
    /// Runs a program that only prints; `None` where it does more.
    pub(super) fn printer(&mut self, name: &str, words: &[String]) -> Option<Value> {
        let plain: Vec<String> = words.to_vec();
        match name {
            "echo" => return Some(echo(&plain)),
            "printf" => return Some(self.printf(&plain)),
            "cat" | "tac" | "head" | "tail" | "tr" | "rev" | "cut" | "sort" | "uniq" | "nl" | "fold" | "base64"
            | "base32" | "xxd" | "grep" | "paste" | "zcat" | "gunzip" | "bzcat" | "xzcat" | "zstdcat"
            | "uncompress" | "iconv" | "envsubst" | "column" | "basenc" => return Some(self.filter(name, words)),
            "seq" => return Some(seq(words)),
            "basename" | "dirname" => return Some(part_of_path(name, words)),
            "pwd" => return Some(vec![format!("{}\n", self.cwd())]),
            "whoami" | "logname" => {
                let home = &self.map.rules.home;
                return Some(vec![format!("{}\n", home.rsplit('/').next().unwrap_or("user"))]);
            }
            "mktemp" => return Some(self.mktemp(words)),
            "date" if words.iter().any(|word| word.starts_with("-s") || word.starts_with("--set")) => {
                self.signal("system", "sets the clock");
                return Some(output());
            }
            "date" => return Some(date(words)),
            "nproc" | "hostid" | "uname" | "arch" => return Some(vec![format!("{NAME}\n")]),
            "uuidgen" if words.iter().all(|word| text::listed("-r -t", word)) => return Some(number()),
            "wc" if matches!(words, [one] if text::listed("-l -w -c -m", one)) => return Some(number()),
            "hostname" if words.iter().all(|word| word.starts_with('-')) => return Some(vec![format!("{NAME}\n")]),
            "hostname" => {
                self.signal("system", "sets the machine's name");
                return Some(output());
            }
            "realpath" | "readlink" => return Some(self.real(words)),
            "ls" => return Some(self.list(words)),
            "ps" | "pgrep" => return Some(processes(name, words)),
            "yes" => return Some(self.yes(words)),
            "printenv" => {
                let value = words.first().and_then(|name| self.variable(name));
                return Some(value.map_or_else(output, |value| vec![value + "\n"]));
            }
            "dmesg" | "journalctl"
                if words.iter().any(|word| {
                    word.starts_with("--vacuum")
                        || word == "-C"
                        || word == "-c"
                        || word == "--rotate"
                        || word == "--clear"
                }) =>
            {
                self.signal("system", "clears the system's log");
                return Some(output());
            }
            _ => {}
        }
        if text::listed(READERS, name) {
            self.file_operands(name, words);
            return Some(output());
        }
        if text::listed(LISTERS, name) {
            Options::read(words, "cfIPL", "").operands.iter().for_each(|path| self.lists(path));
            return Some(devices(name, words));
        }
        if !text::listed(TELLERS, name) {
            return None;
        }
        self.scan_secrets(words);
        if name == "shuf" {
            let options = Options::read(words, "oin", "output input-range head-count random-source");
            options.values("o", "output").for_each(|path| self.writes(path, crate::proto::action::WriteKind::Write));
        }
        Some(if name == "sleep" { super::exec::nothing() } else { devices(name, words) })
    }

    /// Reads the files among the operands of a program that only reads; some have options that write.
    fn file_operands(&mut self, name: &str, words: &[String]) {
        let pattern = text::listed("grep egrep fgrep zgrep rg ag ack jq yq look", name);
        let short = match name {
            "grep" | "egrep" | "fgrep" | "zgrep" => "efmABCdD",
            "rg" | "ag" | "ack" => "efmABCgtTjMrd",
            "jq" | "yq" => "fL",
            "head" | "tail" => "ncs",
            "sort" => "kotTS",
            "cut" => "dfbc",
            _ => "",
        };
        let long = "output pre regexp file include exclude exclude-dir arg argjson color";
        let options = Options::read(words, short, long);
        if matches!(name, "sort" | "xmllint" | "iconv" | "shuf") {
            for path in options.values("o", "output").map(str::to_owned).collect::<Vec<_>>() {
                self.writes(&path, crate::proto::action::WriteKind::Write);
            }
        }
        if name == "yq" && options.has("i", "inplace") {
            options.operands.iter().skip(1).for_each(|path| self.writes(path, crate::proto::action::WriteKind::Write));
        }
        if text::listed("rg ag ack bat batcat delta", name)
            && let Some(at) = words.iter().position(|word| word.starts_with("--pager"))
        {
            let inline = words[at].split_once('=').map(|(_, code)| code.to_owned());
            self.code_elsewhere(&inline.or_else(|| words.get(at + 1).cloned()).unwrap_or_default());
        }
        if let Some(code) = options.values("", "pre").next().filter(|_| name == "rg") {
            self.exec_program(vec![code.to_owned()]);
        }
        if name == "sort" {
            for code in options.values("", "compress-program").map(str::to_owned).collect::<Vec<_>>() {
                self.code_elsewhere(&code);
            }
        }
        if matches!(name, "uniq" | "xxd") && options.operands.len() > 1 {
            self.writes(&options.operands[1], crate::proto::action::WriteKind::Write);
        }
        let has_pattern = options.has("ef", "regexp");
        let skipped = usize::from(pattern && !has_pattern);
        for path in options.operands.iter().skip(skipped) {
            self.reads(path);
        }
    }

    /// What a filter reads: its operands, or its input.
    fn filtered(&mut self, operands: &[String]) -> Value {
        if operands.is_empty() {
            return self.streams.input.take().unwrap_or_else(|| vec![ANY.to_string()]);
        }
        let mut data = vec![String::new()];
        for path in operands {
            let more = self.content(path);
            data = joined(data, more);
        }
        data
    }

    /// Whether what a filter makes went to the files that its operands name.
    fn filters_to_files(&mut self, name: &str, options: &Options, data: &Value, decodes: bool) -> bool {
        if let ("xxd", [_, target, ..]) = (name, options.operands.as_slice()) {
            let made = |text: &String| if decodes { decoded(name, text) } else { OUTPUT.to_string() };
            self.store(target, &data.iter().map(made).collect(), false);
            return true;
        }
        if !decodes || !matches!(name, "gunzip" | "uncompress") || options.has("c", "stdout") {
            return false;
        }
        for path in &options.operands {
            let target = path.rsplit_once('.').map_or(path.as_str(), |(stem, _)| stem);
            self.writes(target, crate::proto::action::WriteKind::Write);
            let content: Value = self.content(path).iter().map(|text| decoded(name, text)).collect();
            if content.iter().any(|text| text.contains(text::NET)) {
                self.store(target, &content, false);
            }
        }
        !options.operands.is_empty()
    }

    fn filter(&mut self, name: &str, words: &[String]) -> Value {
        if name != "tr" {
            self.file_operands(name, words);
        }
        let short = match name {
            "head" | "tail" => "ncs",
            "cut" => "dfbc",
            "fold" | "base64" | "base32" | "basenc" => "w",
            "xxd" => "clsog",
            "sort" => "kotTS",
            "grep" => "efmABCdD",
            "iconv" => "fto",
            "column" => "tsco",
            _ => "",
        };
        let options = Options::read(words, short, "wrap lines bytes delimiter fields characters");
        let operands = match name {
            "tr" | "envsubst" => &[],
            "grep" => options.operands.get(1..).unwrap_or_default(),
            "uniq" | "xxd" => &options.operands[..options.operands.len().min(1)],
            _ => options.operands.as_slice(),
        };
        self.flows |= self.streams.is_endless && !text::listed("head tail sort tac uniq", name);
        let data = self.filtered(operands);
        // Whole lines of what it gets, or their number.
        let picks = name == "grep" && takes_only(words, "aciEFGPsvwx");
        if picks && options.has("c", "") && operands.len() < 2 {
            return number();
        }
        let decodes = match name {
            "base64" | "base32" | "basenc" => options.has("dD", "decode"),
            "xxd" => options.has("r", "revert"),
            "zcat" | "gunzip" | "bzcat" | "xzcat" | "zstdcat" | "uncompress" => true,
            _ => false,
        };
        if self.filters_to_files(name, &options, &data, decodes) {
            return super::exec::nothing();
        }
        if decodes {
            return data.iter().map(|text| decoded(name, text)).collect();
        }
        // Who searches or takes the first ones chooses among the processes; leaving some out isn't choosing.
        let is_choice = matches!(name, "head" | "tail" | "uniq") || name == "grep" && !options.has("v", "invert-match");
        let is_start = name == "tail" && words.iter().any(|word| word.starts_with('+') || word.starts_with("-n+"));
        let chosen = |text: &String| match is_choice && !is_start {
            true => text.replace(text::PROCESSES, &OUTPUT.to_string()),
            false => text.clone(),
        };
        let data: Value = data.iter().map(chosen).collect();
        // These pass on what they get, or part of it.
        if name == "cat" || name == "grep" && data.iter().any(|text| has_open(text)) {
            return data;
        }
        let change = |text: &String| {
            if text.contains(DECODED_MARK) || text.contains(text::FILE) && turns_letters(name, &options) {
                return DECODED.to_string();
            }
            if !is_known(text) || text.len() > text::TEXT_BYTES_MAX {
                return match text.chars().next() {
                    // Lines and their order don't matter for names that a pattern stands for.
                    Some(_) if picks || matches!(name, "head" | "tail" | "sort" | "uniq" | "tac") => text.clone(),
                    _ => text::weightiest(text).to_string(),
                };
            }
            changed(name, &options, text).unwrap_or_else(|| OUTPUT.to_string())
        };
        data.iter().map(change).collect()
    }

    fn printf(&mut self, words: &[String]) -> Value {
        let mut words = words;
        let mut variable = None;
        if let [first, name, rest @ ..] = words
            && first == "-v"
        {
            self.subscripts_in(std::slice::from_ref(name));
            variable = Some(name.clone());
            words = rest;
        }
        let words = words.strip_prefix(&["--".to_owned()][..]).unwrap_or(words);
        let printed = match words.split_first() {
            Some((format, rest)) => formatted(format, rest),
            None => String::new(),
        };
        match variable {
            Some(name) => {
                self.assign_scalar(&name, vec![printed]);
                vec![String::new()]
            }
            None => vec![printed],
        }
    }

    fn mktemp(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "p", "tmpdir suffix");
        let directory = options.values("p", "tmpdir").next().unwrap_or("/tmp").to_owned();
        let template = options.operands.first().cloned();
        let path = match template {
            Some(template) => {
                let name = template.trim_end_matches('X');
                let name = format!("{name}{NAME}");
                if name.contains('/') || !options.has("pt", "tmpdir") { name } else { format!("{directory}/{name}") }
            }
            None => format!("{directory}/tmp.{NAME}"),
        };
        self.writes(&path, crate::proto::action::WriteKind::Write);
        vec![format!("{path}\n")]
    }

    fn real(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "", "relative-to relative-base");
        match options.operands.as_slice() {
            [path] => {
                self.lists(path);
                match self.absolute(path).as_slice() {
                    [one] => vec![format!("{one}\n")],
                    _ => output(),
                }
            }
            _ => output(),
        }
    }

    fn list(&mut self, words: &[String]) -> Value {
        let options = Options::read(words, "ITw", "hide ignore block-size color sort time");
        options.operands.iter().for_each(|path| self.lists(path));
        let is_long = options.has("l", "");
        let lines: Vec<String> = match options.operands.as_slice() {
            _ if is_long => return output(),
            [] => vec![STAR.to_string()],
            paths => paths
                .iter()
                .map(|path| match text::has_pattern(path) || self.is_written(path) {
                    true => path.clone(),
                    false => STAR.to_string(),
                })
                .collect(),
        };
        vec![lines.join("\n") + "\n"]
    }
}

/// Whether the options among words are none but these letters.
fn takes_only(words: &[String], letters: &str) -> bool {
    words.iter().filter_map(|word| word.strip_prefix('-')).all(|given| given.chars().all(|c| letters.contains(c)))
}

fn echo(words: &[String]) -> Value {
    let mut words = words;
    let (mut escapes, mut ends) = (false, true);
    while let [first, rest @ ..] = words
        && first.len() > 1
        && first.starts_with('-')
        && first[1..].chars().all(|c| "neE".contains(c))
    {
        escapes |= first.contains('e');
        ends &= !first.contains('n');
        words = rest;
    }
    let mut text = text::dead(words.join(" "));
    if escapes {
        text = crate::bash::unescaped(&text, false);
    }
    if ends {
        text.push('\n');
    }
    vec![text]
}

/// What `printf` prints; a format that isn't known gives something that isn't.
fn formatted(format: &str, words: &[String]) -> String {
    if has_open(format) {
        return ANY.to_string();
    }
    let mut printed = String::new();
    let mut rest = words.iter();
    for _ in 0..64 {
        let before = rest.len();
        let mut pieces = format.char_indices().peekable();
        let mut literal = String::new();
        while let Some((_, c)) = pieces.next() {
            if c != '%' {
                literal.push(c);
                if c == '\\' {
                    literal.extend(pieces.next().map(|(_, c)| c));
                }
                continue;
            }
            printed.push_str(&crate::bash::unescaped(&std::mem::take(&mut literal), false));
            let mut spec = String::new();
            let letter = loop {
                match pieces.next() {
                    Some((_, c)) if c.is_ascii_digit() || "-+ #.*'hlLjzt".contains(c) => spec.push(c),
                    Some((_, '(')) => while pieces.next().is_some_and(|(_, c)| c != ')') {},
                    Some((_, c)) => break c,
                    None => break '%',
                }
            };
            if letter == '%' {
                printed.push('%');
                continue;
            }
            if spec.contains('*') {
                rest.next();
            }
            let word = rest.next().cloned().unwrap_or_default();
            printed.push_str(&conversion(letter, &spec, &word));
        }
        printed.push_str(&crate::bash::unescaped(&literal, false));
        if rest.len() == 0 || rest.len() == before {
            break;
        }
    }
    text::dead(printed)
}

fn conversion(letter: char, spec: &str, word: &str) -> String {
    match letter {
        's' | 'b' | 'q' => {
            let text = if letter == 'b' { crate::bash::unescaped(word, false) } else { word.to_owned() };
            match spec.split_once('.').and_then(|(_, most)| most.parse::<usize>().ok()) {
                Some(most) if is_known(&text) => text.chars().take(most).collect(),
                Some(_) => ANY.to_string(),
                None => text,
            }
        }
        'c' => word.chars().take(1).collect(),
        'd' | 'i' | 'u' | 'o' | 'x' | 'X' => {
            let number = match word.strip_prefix(['\'', '"']) {
                Some(c) => c.chars().next().map(|c| i64::from(u32::from(c))),
                None => crate::bash::calculate(word, &|_| None),
            };
            match (number, letter) {
                (Some(number), 'o') => format!("{number:o}"),
                (Some(number), 'x') => format!("{number:x}"),
                (Some(number), 'X') => format!("{number:X}"),
                (Some(number), _) => number.to_string(),
                (None, _) => NAME.to_string(),
            }
        }
        _ => NAME.to_string(),
    }
}

fn part_of_path(name: &str, words: &[String]) -> Value {
    let words: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let Some(path) = words.first() else { return output() };
    let trimmed = path.trim_end_matches('/');
    let (directory, last) = trimmed.rsplit_once('/').unwrap_or((".", trimmed));
    let directory = if directory.is_empty() { "/" } else { directory };
    if has_open(if name == "dirname" { directory } else { last }) || name == "dirname" && has_open(last) {
        return vec![format!("{ANY}\n")];
    }
    if name == "dirname" {
        return vec![format!("{directory}\n")];
    }
    let last = words.get(1).and_then(|suffix| last.strip_suffix(suffix.as_str())).unwrap_or(last);
    vec![format!("{last}\n")]
}

/// Whether a filter turns lines round, or puts other letters in place of letters, as rot13 does; another case is none.
fn turns_letters(name: &str, options: &Options) -> bool {
    let Some(made) = options.operands.get(1).filter(|_| name == "tr") else { return name == "rev" };
    let mut made = made.trim_start_matches('[').chars();
    made.next().is_some_and(|c| c.is_ascii_alphabetic() && !matches!(c, 'a' | 'A')) && made.next() == Some('-')
}

fn changed(name: &str, options: &Options, text: &str) -> Option<String> {
    let lines = || text.lines();
    Some(match name {
        "rev" => lines().map(|line| line.chars().rev().collect::<String>() + "\n").collect(),
        "nl" => lines().enumerate().map(|(at, line)| format!("{:6}\t{line}\n", at + 1)).collect(),
        "tac" => unlines(lines().rev().collect()),
        "sort" => {
            let mut sorted: Vec<&str> = lines().collect();
            sorted.sort_unstable();
            if options.has("r", "reverse") {
                sorted.reverse();
            }
            unlines(sorted)
        }
        "uniq" => {
            let mut kept: Vec<&str> = lines().collect();
            kept.dedup();
            unlines(kept)
        }
        "head" | "tail" => ends(name, options, text)?,
        "tr" => translated(options, text)?,
        "cut" => cut(options, text)?,
        "base64" | "base32" | "basenc" | "xxd" => OUTPUT.to_string(),
        "fold" | "column" | "iconv" => text.to_owned(),
        "paste" => {
            let between = options.given.iter().any(|(name, _)| name == "s");
            if !between {
                return None;
            }
            let delimiter = options.values("d", "delimiters").next().unwrap_or("\t").to_owned();
            lines().collect::<Vec<_>>().join(&delimiter) + "\n"
        }
        "grep" => {
            let wanted = options.operands.first()?;
            if wanted.contains(['.', '*', '[', '\\', '^', '$', '+', '?', '(']) {
                return None;
            }
            let is_wanted = |line: &&str| line.contains(wanted.as_str()) != options.has("v", "invert-match");
            if options.has("o", "only-matching") {
                return Some(
                    lines().filter(|line| line.contains(wanted.as_str())).map(|_| format!("{wanted}\n")).collect(),
                );
            }
            unlines(lines().filter(is_wanted).collect())
        }
        _ => return None,
    })
}

fn unlines(lines: Vec<&str>) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What `head` or `tail` keeps.
fn ends(name: &str, options: &Options, text: &str) -> Option<String> {
    let count = |letter: &str, long: &str| options.values(letter, long).next().map(str::to_owned);
    let numbered = |count: Option<String>| match count {
        Some(count) => count.trim_start_matches('+').parse::<usize>().ok(),
        None => Some(10),
    };
    if let Some(bytes) = count("c", "bytes") {
        let bytes = numbered(Some(bytes))?;
        let all: Vec<char> = text.chars().collect();
        let bytes = bytes.min(all.len());
        return Some(if name == "head" {
            all[..bytes].iter().collect()
        } else {
            all[all.len() - bytes..].iter().collect()
        });
    }
    let given = count("n", "lines").or_else(|| {
        options.given.first().filter(|(name, _)| name.parse::<u32>().is_ok()).map(|(name, _)| name.clone())
    });
    let from = given.as_deref().and_then(|text| text.strip_prefix('+')).map(str::to_owned);
    let wanted = numbered(given)?;
    let all: Vec<&str> = text.lines().collect();
    Some(unlines(match (name, from) {
        ("head", _) => all.into_iter().take(wanted).collect(),
        (_, Some(_)) => all.into_iter().skip(wanted.saturating_sub(1)).collect(),
        _ => all[all.len().saturating_sub(wanted)..].to_vec(),
    }))
}

/// The characters of a set of `tr`.
fn set_of(text: &str) -> Option<Vec<char>> {
    let mut set = Vec::new();
    let text = crate::bash::unescaped(text, false);
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        if let Some((class, behind)) = rest.strip_prefix("[:").and_then(|class| class.split_once(":]")) {
            let fits = |c: &char| match class {
                "upper" => c.is_ascii_uppercase(),
                "lower" => c.is_ascii_lowercase(),
                "digit" => c.is_ascii_digit(),
                "alpha" => c.is_ascii_alphabetic(),
                "alnum" => c.is_ascii_alphanumeric(),
                "space" => c.is_ascii_whitespace(),
                "punct" => c.is_ascii_punctuation(),
                _ => false,
            };
            set.extend((0..128_u8).map(char::from).filter(fits));
            rest = behind;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let mut ahead = rest.chars();
        if ahead.next() == Some('-')
            && let Some(last) = ahead.next()
        {
            set.extend(c..=last);
            rest = ahead.as_str();
        } else {
            set.push(c);
        }
        if set.len() > 4096 {
            return None;
        }
    }
    Some(set)
}

fn translated(options: &Options, text: &str) -> Option<String> {
    let first = set_of(options.operands.first()?)?;
    let second = options.operands.get(1).map_or(Some(Vec::new()), |set| set_of(set))?;
    let complement = options.has("cC", "complement");
    let is_in = |c: char| first.contains(&c) != complement;
    if options.has("d", "delete") {
        return Some(text.chars().filter(|c| !is_in(*c)).collect());
    }
    let mut made = String::new();
    for c in text.chars() {
        let changed = match (is_in(c), second.last()) {
            (true, Some(last)) if complement => *last,
            (true, Some(last)) => {
                let at = first.iter().rposition(|own| *own == c).unwrap_or(0);
                *second.get(at).unwrap_or(last)
            }
            _ => c,
        };
        let squeezed = options.has("s", "squeeze-repeats") && made.ends_with(changed);
        let in_last = second.contains(&changed) || second.is_empty() && first.contains(&changed);
        if !(squeezed && in_last) {
            made.push(changed);
        }
    }
    Some(made)
}

fn cut(options: &Options, text: &str) -> Option<String> {
    let list = |spec: &str| -> Option<Vec<(usize, usize)>> {
        spec.split(',')
            .map(|part| match part.split_once('-') {
                Some((from, to)) => Some((
                    if from.is_empty() { 1 } else { from.parse().ok()? },
                    if to.is_empty() { usize::MAX } else { to.parse().ok()? },
                )),
                None => part.parse().ok().map(|at| (at, at)),
            })
            .collect()
    };
    let keeps = |ranges: &[(usize, usize)], at: usize| ranges.iter().any(|(from, to)| (*from..=*to).contains(&at));
    let mut made = String::new();
    let fields = options.values("f", "fields").next();
    let ranges = list(fields.or_else(|| options.values("cb", "characters").next())?)?;
    for line in text.lines() {
        if fields.is_some() {
            let delimiter =
                options.values("d", "delimiter").next().and_then(|text| text.chars().next()).unwrap_or('\t');
            // A line without one goes through whole.
            let kept: Vec<&str> = if !line.contains(delimiter) && !options.has("s", "only-delimited") {
                vec![line]
            } else {
                line.split(delimiter).enumerate().filter(|(at, _)| keeps(&ranges, at + 1)).map(|(_, it)| it).collect()
            };
            made.push_str(&kept.join(&delimiter.to_string()));
        } else {
            made.extend(line.chars().enumerate().filter(|(at, _)| keeps(&ranges, at + 1)).map(|(_, c)| c));
        }
        made.push('\n');
    }
    Some(made)
}

/// What a decoder prints: the text where it can be said, with a mark that it was decoded.
pub(super) fn decoded(name: &str, text: &str) -> String {
    if text.contains(text::NET) {
        return text::NET.to_string();
    }
    let bytes = match name {
        _ if !is_known(text) || text.len() > text::TEXT_BYTES_MAX => None,
        "base64" => from_bits(text, 6, |c| match c {
            'A'..='Z' => Some(u32::from(c) - 65),
            'a'..='z' => Some(u32::from(c) - 71),
            '0'..='9' => Some(u32::from(c) + 4),
            '+' | '-' => Some(62),
            '/' | '_' => Some(63),
            _ => None,
        }),
        "base32" => from_bits(text, 5, |c| match c.to_ascii_uppercase() {
            c @ 'A'..='Z' => Some(u32::from(c) - 65),
            c @ '2'..='7' => Some(u32::from(c) - 24),
            _ => None,
        }),
        "xxd" => from_bits(text, 4, |c| c.to_digit(16)),
        _ => None,
    };
    match bytes.map(String::from_utf8) {
        Some(Ok(text)) if !text.chars().any(text::is_reserved) => format!("{text}{DECODED_MARK}"),
        _ => DECODED.to_string(),
    }
}

fn from_bits(text: &str, width: u32, value: impl Fn(char) -> Option<u32>) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut count) = (Vec::new(), 0_u32, 0);
    for c in text.chars().filter(|c| !c.is_whitespace() && *c != '=') {
        held = held << width | value(c)?;
        count += width;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(held >> count & 0xff).ok()?);
        }
        held &= (1 << count) - 1;
    }
    Some(bytes)
}

/// Splits text as `xargs` does: at blanks, quotes keep.
pub(super) fn shell_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What stands for settings that a program prints.
pub(super) fn settings() -> Value {
    vec![SETTINGS.to_string()]
}
