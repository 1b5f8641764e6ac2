//! Decides the kind of an invocation, from `argv` alone, before anything else happens. Pure.
//!
//! Many programs that have never heard of ReedClaw call a login shell. Every invocation that isn't plainly "a person at
//! a terminal" or one of our own subcommands belongs to the backing shell, with exactly the same arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::command::SUBCOMMANDS;
use crate::sandbox::HELPER_WORD;

/// Facts about the standard streams.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Standard input is a terminal.
    pub input: bool,
    /// Standard output is a terminal.
    pub output: bool,
    /// Standard error is a terminal.
    pub error: bool,
}

/// The kind of an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Become the backing shell with these arguments.
    Become(Vec<OsString>),
    /// A person at a terminal.
    Interactive(Interactive),
    /// One of our subcommands (or `--help`, `--version`), with its arguments.
    Command(Vec<OsString>),
    /// The helper of the sandbox, with its arguments.
    Sandboxed(Vec<OsString>),
}

/// The options of an interactive session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interactive {
    /// A login shell: `argv[0]` begins with a dash, or there is `-l` or `--login`.
    pub login: bool,
    /// Our own options.
    pub own: Own,
    /// Options that are the backing shell's own.
    pub shell_arguments: Vec<OsString>,
}

/// Our own options, which no shell sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// `--config PATH`.
    pub config: Option<OsString>,
    /// `--path DIR`: the directory of the start.
    pub path: Option<OsString>,
    /// `--model NAME`: the model that answers.
    pub model: Option<OsString>,
    /// `--log-level LEVEL`.
    pub log_level: Option<OsString>,
}

impl Own {
    fn field(&mut self, name: &[u8]) -> Option<&mut Option<OsString>> {
        match name {
            b"--config" => Some(&mut self.config),
            b"--path" => Some(&mut self.path),
            b"--model" => Some(&mut self.model),
            b"--log-level" => Some(&mut self.log_level),
            _ => None,
        }
    }

    /// As words, for a subcommand.
    fn words(self) -> impl Iterator<Item = OsString> {
        let all = [
            ("--config", self.config),
            ("--path", self.path),
            ("--model", self.model),
            ("--log-level", self.log_level),
        ];
        all.into_iter().filter_map(|(name, value)| value.map(|value| [name.into(), value])).flatten()
    }
}

/// Long options of bash that take a value.
const LONG_WITH_VALUE: [&str; 2] = ["--rcfile", "--init-file"];
/// Long options of bash after which it isn't a plain interactive session.
const LONG_NOT_INTERACTIVE: [&str; 4] = ["--dump-strings", "--dump-po-strings", "--rpm-requires", "--restricted"];

/// Decides.
#[must_use]
pub fn decide(arguments: &[OsString], streams: Streams) -> Dispatch {
    let login_name = arguments.first().is_some_and(|name| name.as_bytes().starts_with(b"-"));
    if !login_name && arguments.get(1).is_some_and(|word| word == HELPER_WORD) {
        return Dispatch::Sandboxed(arguments[2..].to_vec());
    }
    let (own, rest) = split_own(arguments.get(1..).unwrap_or_default());
    if let Some(first) = rest.first().and_then(|word| word.to_str())
        && (SUBCOMMANDS.iter().any(|it| it.name == first) || matches!(first, "--help" | "-h" | "--version" | "-V"))
    {
        // Before a subcommand it is an option like any other.
        return Dispatch::Command(own.words().chain(rest).collect());
    }
    let interactive = match read_options(&rest) {
        Some(options) if streams.input && streams.output && streams.error => options,
        // These options belong to a session: for any other call they would be ignored, and something else would run.
        _ if own.path.is_some() || own.model.is_some() => return Dispatch::Command(own.words().chain(rest).collect()),
        _ => return Dispatch::Become(rest),
    };
    Dispatch::Interactive(Interactive { login: login_name || interactive.login, own, ..interactive })
}

/// Splits our own options from the leading ones, as `--NAME VALUE` and `--NAME=VALUE`.
fn split_own(arguments: &[OsString]) -> (Own, Vec<OsString>) {
    let mut own = Own::default();
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        let name = bytes.iter().position(|byte| *byte == b'=').map_or(bytes, |at| &bytes[..at]);
        if let Some(field) = own.field(name) {
            let value = bytes.get(name.len() + 1..).map(|value| OsStr::from_bytes(value).to_owned());
            *field = Some(value.or_else(|| words.next().cloned()).unwrap_or_default());
        } else {
            let is_option = bytes.starts_with(b"-") && word != "--" && word != "-c";
            rest.push(word.clone());
            if !is_option {
                rest.extend(words.cloned());
                break;
            }
        }
    }
    (own, rest)
}

/// Reads the backing shell's options; `None` if they ask for anything but an interactive session.
fn read_options(arguments: &[OsString]) -> Option<Interactive> {
    let mut options = Interactive::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.to_str()?;
        match text {
            "--login" => options.login = true,
            _ if LONG_WITH_VALUE.contains(&text) => {
                options.shell_arguments.push(word.clone());
                options.shell_arguments.push(words.next()?.clone());
            }
            _ if LONG_NOT_INTERACTIVE.contains(&text) || text == "--posix" => return None,
            "--" | "-" => return words.next().is_none().then_some(options),
            _ if text.starts_with("--") => options.shell_arguments.push(word.clone()),
            _ if text.starts_with(['-', '+']) && text.len() > 1 => {
                read_letters(text, &mut words, &mut options)?;
            }
            // An operand: a script.
            _ => return None,
        }
    }
    Some(options)
}

fn read_letters<'a>(
    text: &str,
    words: &mut impl Iterator<Item = &'a OsString>,
    options: &mut Interactive,
) -> Option<()> {
    let (sign, letters) = text.split_at(1);
    let mut passed = String::from(sign);
    let mut values = Vec::new();
    for letter in letters.chars() {
        match letter {
            'c' | 's' | 'D' | 'r' | 'p' if sign == "-" => return None,
            'l' if sign == "-" => options.login = true,
            'i' if sign == "-" => {}
            'o' | 'O' => {
                passed.push(letter);
                values.push(words.next()?.clone());
            }
            _ => passed.push(letter),
        }
    }
    if passed.len() > 1 {
        options.shell_arguments.push(passed.into());
        options.shell_arguments.append(&mut values);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINAL: Streams = Streams { input: true, output: true, error: true };

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn seen(line: &str, streams: Streams) -> String {
        match decide(&words(line), streams) {
            Dispatch::Become(rest) => format!("become {}", rest.join(OsStr::new(" ")).to_string_lossy()),
            Dispatch::Interactive(how) => format!(
                "interactive{}{}{}",
                if how.login { " login" } else { "" },
                how.own.words().map(|word| format!(" {}", word.to_string_lossy())).collect::<String>(),
                how.shell_arguments.iter().map(|word| format!(" {}", word.to_string_lossy())).collect::<String>()
            ),
            Dispatch::Command(rest) => format!("command {}", rest.join(OsStr::new(" ")).to_string_lossy()),
            Dispatch::Sandboxed(rest) => format!("sandboxed {}", rest.join(OsStr::new(" ")).to_string_lossy()),
        }
    }

    #[test]
    fn at_a_terminal() {
        let table = [
            ("reedclaw", "interactive"),
            ("-reedclaw", "interactive login"),
            ("reedclaw -l", "interactive login"),
            ("reedclaw --login", "interactive login"),
            ("reedclaw -i", "interactive"),
            ("reedclaw -il", "interactive login"),
            ("reedclaw --norc", "interactive --norc"),
            ("reedclaw --rcfile /x", "interactive --rcfile /x"),
            ("reedclaw -o vi", "interactive -o vi"),
            ("reedclaw +O extglob", "interactive +O extglob"),
            ("reedclaw -x", "interactive -x"),
            ("reedclaw --config a.lua", "interactive --config a.lua"),
            ("reedclaw --config=a.lua -l", "interactive login --config a.lua"),
            ("reedclaw --path d --model m --log-level=debug", "interactive --path d --model m --log-level debug"),
            ("reedclaw --path=d=e", "interactive --path d=e"),
            ("reedclaw --path d -c true", "command --path d -c true"),
            ("reedclaw --log-level info -c true", "become -c true"),
            ("reedclaw -c true --path d", "become -c true --path d"),
            ("reedclaw --model m agent -m x", "command --model m agent -m x"),
            ("reedclaw -c true", "become -c true"),
            ("reedclaw -lc true", "become -lc true"),
            ("-reedclaw -c true", "become -c true"),
            ("reedclaw -c --config", "become -c --config"),
            ("reedclaw -s", "become -s"),
            ("reedclaw -", "interactive"),
            ("reedclaw --", "interactive"),
            ("reedclaw -- route", "become -- route"),
            ("reedclaw ./route", "become ./route"),
            ("reedclaw script.sh -l", "become script.sh -l"),
            ("reedclaw +O extglob script", "become +O extglob script"),
            ("reedclaw --posix", "become --posix"),
            ("reedclaw route ls", "command route ls"),
            ("reedclaw --config a.lua config show", "command --config a.lua config show"),
            ("reedclaw __reedclaw-sandbox {} ls -l", "sandboxed {} ls -l"),
            ("-reedclaw __reedclaw-sandbox {} ls", "become __reedclaw-sandbox {} ls"),
            ("reedclaw -c __reedclaw-sandbox", "become -c __reedclaw-sandbox"),
            ("reedclaw --version", "command --version"),
            ("reedclaw --help", "command --help"),
            ("reedclaw route -c", "command route -c"),
        ];
        for (line, expected) in table {
            assert_eq!(seen(line, TERMINAL), expected, "{line}");
        }
    }

    #[test]
    fn without_a_terminal_it_is_the_backing_shell() {
        for streams in [
            Streams { input: false, ..TERMINAL },
            Streams { output: false, ..TERMINAL },
            Streams { error: false, ..TERMINAL },
        ] {
            assert_eq!(seen("reedclaw", streams), "become ");
            assert_eq!(seen("reedclaw -l", streams), "become -l");
            assert_eq!(seen("reedclaw -i", streams), "become -i");
            assert_eq!(seen("reedclaw route ls", streams), "command route ls");
        }
    }
}
