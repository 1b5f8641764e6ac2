//! Decides what an invocation is, from `argv` alone, before anything else happens. Pure.
//!
//! A login shell is called by many programs that have never heard of it. Whatever isn't plainly "a person at a
//! terminal" or one of our own subcommands belongs to the backing shell, with the very same arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::sandbox::HELPER_WORD;

/// First words that are ours.
pub const SUBCOMMANDS: [&str; 18] = [
    "route", "history", "agent", "config", "memory", "cost", "doctor", "provider", "onboard", "receipt", "estop",
    "allow", "init", "tool", "plugin", "pdf-text", "policy", "help",
];

/// What is known of the standard streams.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Standard input is a terminal.
    pub input: bool,
    /// Standard output is a terminal.
    pub output: bool,
    /// Standard error is a terminal.
    pub error: bool,
}

/// What an invocation is.
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

/// How the interactive session was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interactive {
    /// A login shell: `argv[0]` begins with a dash, or `-l` or `--login` was given.
    pub login: bool,
    /// `--config PATH`.
    pub config: Option<OsString>,
    /// Options that are the backing shell's own.
    pub shell_arguments: Vec<OsString>,
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
    let (config, rest) = split_config(arguments.get(1..).unwrap_or_default());
    if let Some(first) = rest.first().and_then(|word| word.to_str())
        && (SUBCOMMANDS.contains(&first) || matches!(first, "--help" | "-h" | "--version" | "-V"))
    {
        // Before a subcommand it is an option like any other.
        let config = config.into_iter().flat_map(|path| [OsString::from("--config"), path]);
        return Dispatch::Command(config.chain(rest).collect());
    }
    let interactive = match read_options(&rest) {
        Some(options) if streams.input && streams.output && streams.error => options,
        _ => return Dispatch::Become(rest),
    };
    Dispatch::Interactive(Interactive { login: login_name || interactive.login, config, ..interactive })
}

/// Takes `--config PATH` and `--config=PATH` out of the leading options.
fn split_config(arguments: &[OsString]) -> (Option<OsString>, Vec<OsString>) {
    let mut config = None;
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            config = Some(words.next().cloned().unwrap_or_default());
        } else if let Some(path) = word.as_bytes().strip_prefix(b"--config=") {
            config = Some(OsStr::from_bytes(path).to_owned());
        } else {
            let is_option = word.as_bytes().starts_with(b"-") && word != "--" && word != "-c";
            rest.push(word.clone());
            if !is_option {
                rest.extend(words.cloned());
                break;
            }
        }
    }
    (config, rest)
}

/// Reads the backing shell's options; `None` where they make it anything but an interactive session.
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
    let mut kept = String::from(sign);
    let mut values = Vec::new();
    for letter in letters.chars() {
        match letter {
            'c' | 's' | 'D' | 'r' | 'p' if sign == "-" => return None,
            'l' if sign == "-" => options.login = true,
            'i' if sign == "-" => {}
            'o' | 'O' => {
                kept.push(letter);
                values.push(words.next()?.clone());
            }
            _ => kept.push(letter),
        }
    }
    if kept.len() > 1 {
        options.shell_arguments.push(kept.into());
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
                how.config.map(|path| format!(" config={}", path.to_string_lossy())).unwrap_or_default(),
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
            ("reedclaw --config a.lua", "interactive config=a.lua"),
            ("reedclaw --config=a.lua -l", "interactive login config=a.lua"),
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
