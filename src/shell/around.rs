//! What terminals and multiplexers are told of a session, as the shells' own integrations tell it: directory (OSC 7), where
//! commands begin and end (OSC 133), the title (OSC 0), and through the supervisor, which is the process that they look at,
//! the working directory and the program in the foreground. Decides nothing about commands.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::supervise::Front;

/// Characters of a command that a title shows.
const TITLE_CHARS_MAX: usize = 60;
/// When the program in the foreground is first looked at, and the longest pause between looks, which grow twofold.
const FIRST_LOOK: Duration = Duration::from_millis(60);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Terminals that may print such sequences.
const WITHOUT_SEQUENCES: [&str; 5] = ["linux", "dumb", "cons25", "vt52", ""];

/// Tells them.
#[derive(Debug)]
pub(super) struct Around {
    sequences: bool,
    host: String,
    /// `user@host: ` over ssh.
    title_start: String,
    home: Option<PathBuf>,
    front: Option<Front>,
    cwd: Option<PathBuf>,
    /// The directory that was told last.
    told: Option<PathBuf>,
    /// When the program in the foreground is looked at, and the pause after that.
    look: Option<(Instant, Duration)>,
    program: Option<String>,
}

impl Around {
    pub(super) fn new(front: Option<Front>) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let host = crate::host::host_name().unwrap_or_default();
        let title_start = if variable("SSH_CONNECTION").is_empty() {
            String::new()
        } else {
            format!("{}@{host}: ", variable("USER"))
        };
        Self {
            sequences: !WITHOUT_SEQUENCES.contains(&variable("TERM").as_str()),
            host,
            title_start,
            home: std::env::var_os("HOME").map(PathBuf::from),
            front,
            cwd: None,
            told: None,
            look: None,
            program: None,
        }
    }

    /// The shell is in this directory.
    pub(super) fn at(&mut self, cwd: &Path) {
        self.cwd = Some(cwd.to_owned());
    }

    /// A command starts: what the terminal gets.
    pub(super) fn started(&mut self, line: &str) -> String {
        if self.front.as_ref().is_some_and(Front::shows_program) {
            self.look = Some((Instant::now() + FIRST_LOOK, FIRST_LOOK));
        }
        if !self.sequences {
            return String::new();
        }
        let first = line.trim_start().lines().next().unwrap_or_default();
        let title: String = first.chars().take(TITLE_CHARS_MAX).collect();
        format!("{}\x1b]133;C\x07", self.title(&title))
    }

    /// A prompt comes, after a command with this status where there was one: what the terminal gets.
    pub(super) fn ended(&mut self, status: Option<i32>) -> String {
        self.look = None;
        self.name_program(None);
        let moved = self.cwd.is_some() && self.cwd != self.told;
        if moved {
            self.told.clone_from(&self.cwd);
        }
        let Some(cwd) = self.cwd.as_deref() else { return String::new() };
        if moved && let Some(front) = &self.front {
            front.go_to(cwd);
        }
        if !self.sequences {
            return String::new();
        }
        let mut text = String::new();
        if let Some(status) = status {
            let _ = write!(text, "\x1b]133;D;{status}\x07");
        }
        if moved {
            let _ = write!(text, "\x1b]7;file://{}{}\x07", self.host, encoded(cwd));
        }
        let shown = match self.home.as_deref().and_then(|home| cwd.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => cwd.display().to_string(),
        };
        text.push_str(&self.title(&shown));
        text
    }

    fn title(&self, text: &str) -> String {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("\x1b]0;{}{text}\x07", self.title_start)
    }

    /// When the program in the foreground is looked at.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.look.map(|(at, _)| at)
    }

    /// Looks at it, by the command line that leads the foreground; `None` for the shell itself.
    pub(super) fn look(&mut self, now: Instant, leader: impl FnOnce() -> Option<Vec<u8>>) {
        let Some((_, pause)) = self.look.filter(|(at, _)| *at <= now) else { return };
        let pause = (pause * 2).min(LOOK_PAUSE_MAX);
        self.look = Some((now + pause, pause));
        let name = leader().and_then(|line| program_name(&line));
        self.name_program(name);
    }

    fn name_program(&mut self, name: Option<String>) {
        if self.program != name {
            if let Some(front) = &self.front {
                front.name_program(name.as_deref().unwrap_or_default());
            }
            self.program = name;
        }
    }
}

/// The name of a program by its command line.
fn program_name(line: &[u8]) -> Option<String> {
    let first = String::from_utf8_lossy(line.split(|byte| *byte == 0).next()?).into_owned();
    let word = first.trim_start_matches('-').split(' ').next()?.rsplit('/').next()?.to_owned();
    (!word.is_empty() && !word.contains(char::is_control)).then_some(word)
}

/// A path in a URL.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_and_programs_named() {
        assert_eq!(encoded(Path::new("/a b/é;\x07")), "/a%20b/%C3%A9%3B%07");
        for (line, name) in [
            ("vim\0file\0", Some("vim")),
            ("-zsh\0", Some("zsh")),
            ("/usr/bin/less\0x", Some("less")),
            ("nginx: master", Some("nginx:")),
            ("", None),
        ] {
            assert_eq!(program_name(line.as_bytes()).as_deref(), name, "{line:?}");
        }
    }
}
