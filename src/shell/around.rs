//! Reports to terminals and multiplexers, in the form that the shells' own integrations use: the directory (OSC 7), the start and
//! end of commands (OSC 133), the title (OSC 0), and, through the supervisor, which is the process that they look at, the working
//! directory and the program in the foreground. A terminal without the focus announces that a long command has ended. Decides
//! nothing about commands.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::event::Notify;
use super::supervise::Front;
use crate::base::percent;

/// Limit on the characters of a command in a title.
const TITLE_CHARS_MAX: usize = 60;
/// Delay before the first look at the program in the foreground, and the longest pause between looks; each pause is twice the one
/// before.
const FIRST_LOOK: Duration = Duration::from_millis(60);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Terminals that may print such sequences.
const WITHOUT_SEQUENCES: [&str; 5] = ["linux", "dumb", "cons25", "vt52", ""];

/// Returns whether a terminal of this type (`$TERM`) accepts operating system commands without printing them.
#[must_use]
pub fn takes_sequences(term: &str) -> bool {
    !WITHOUT_SEQUENCES.contains(&term)
}

/// Builds the reports.
#[derive(Debug)]
pub(super) struct Around {
    sequences: bool,
    host: String,
    /// `user@host: ` over ssh.
    title_start: String,
    home: Option<PathBuf>,
    front: Option<Front>,
    cwd: Option<PathBuf>,
    /// The directory that was reported last.
    announced: Option<PathBuf>,
    /// Time of the next look at the program in the foreground, and the pause before that look.
    look: Option<(Instant, Duration)>,
    program: Option<String>,
    /// `true` while the command in the foreground has written nothing.
    pub(super) quiet: bool,
    notify: Option<Notify>,
    /// Way in which this terminal shows a notification.
    notice: Option<Notice>,
    /// `true` if the terminal was asked to report its focus.
    watching: bool,
    /// `true` if the terminal reported that it lost the focus.
    unseen: bool,
}

/// The sequence by which a terminal shows a notification on the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// OSC 9, of iTerm2.
    Text,
    /// OSC 777, of rxvt-unicode.
    TitleAndText,
}

/// Makes the terminal report when it gets (`CSI I`) and loses (`CSI O`) the focus; the second sequence ends the reports.
const WATCH: &str = "\x1b[?1004h";
const UNWATCH: &str = "\x1b[?1004l";
const FOCUS_IN: &[u8] = b"\x1b[I";
const FOCUS_OUT: &[u8] = b"\x1b[O";

impl Around {
    pub(super) fn new(front: Option<Front>, notify: Option<Notify>) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let host = crate::host::host_name().unwrap_or_default();
        let title_start = if variable("SSH_CONNECTION").is_empty() {
            String::new()
        } else {
            format!("{}@{host}: ", variable("USER"))
        };
        Self {
            sequences: takes_sequences(&variable("TERM")),
            host,
            title_start,
            home: std::env::var_os("HOME").map(PathBuf::from),
            front,
            cwd: None,
            announced: None,
            look: None,
            program: None,
            quiet: false,
            notify,
            notice: Notice::of(&variable),
            watching: false,
            unseen: false,
        }
    }

    /// Sets the way in which the end of commands is announced from now on.
    pub(super) fn announce(&mut self, notify: Option<Notify>) {
        self.notify = notify;
    }

    /// Notes that a program has switched off the reports of the focus.
    pub(super) fn stopped_watching(&mut self) {
        self.watching = false;
    }

    /// Returns the sequence that the terminal gets at the end of the session.
    pub(super) fn over(&mut self) -> &'static str {
        if std::mem::take(&mut self.watching) { UNWATCH } else { "" }
    }

    /// Removes the terminal's reports of its focus from the keys, unless a program has asked for them too.
    pub(super) fn without_focus<'a>(&mut self, keys: &'a [u8], wanted: bool) -> Cow<'a, [u8]> {
        if !self.watching {
            return Cow::Borrowed(keys);
        }
        let mut left = Vec::new();
        let mut rest = keys;
        let mut others = false;
        while let Some(first) = rest.first() {
            let report = [FOCUS_IN, FOCUS_OUT].into_iter().find(|report| rest.starts_with(report));
            let length = report.map_or(1, <[u8]>::len);
            match report {
                Some(report) => self.unseen = report == FOCUS_OUT,
                None => others = true,
            }
            if report.is_none() {
                left.push(*first);
            }
            rest = &rest[length..];
        }
        // A person who types is looking, whatever the terminal has reported.
        self.unseen &= !others;
        if wanted || left.len() == keys.len() { Cow::Borrowed(keys) } else { Cow::Owned(left) }
    }

    /// Returns the sequence that announces the end of a command to a person who is looking elsewhere.
    pub(super) fn announcement(&self, line: &str, status: i32, duration: Duration) -> String {
        let Some(notify) = self.notify.filter(|notify| self.unseen && duration > notify.after) else {
            return String::new();
        };
        let how = if status == 0 { "ended".to_owned() } else { format!("failed ({status})") };
        let text = format!("{how} after {}", whole_seconds(duration));
        match self.notice.filter(|_| !notify.bell_only) {
            None => "\x07".to_owned(),
            Some(Notice::Text) => format!("\x1b]9;{}: {text}\x07", short(line)),
            Some(Notice::TitleAndText) => format!("\x1b]777;notify;{};{text}\x07", short(line).replace(';', ",")),
        }
    }

    /// Notes the shell's directory.
    pub(super) fn at(&mut self, cwd: &Path) {
        self.cwd = Some(cwd.to_owned());
    }

    /// Returns the sequences that the terminal gets when a command starts.
    pub(super) fn started(&mut self, line: &str) -> String {
        self.quiet = true;
        if self.front.as_ref().is_some_and(Front::shows_program) {
            self.look = Some((Instant::now() + FIRST_LOOK, FIRST_LOOK));
        }
        if !self.sequences {
            return String::new();
        }
        format!("{}\x1b]133;C\x07", self.title(&short(line)))
    }

    /// Returns the sequences that the terminal gets at a prompt; `status` is that of the command before it, if there was one.
    pub(super) fn ended(&mut self, status: Option<i32>) -> String {
        self.look = None;
        self.name_program(None);
        let moved = self.cwd.is_some() && self.cwd != self.announced;
        if moved {
            self.announced.clone_from(&self.cwd);
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
            let _ = write!(text, "\x1b]7;file://{}{}\x07", self.host, in_url(cwd));
        }
        let shown = match self.home.as_deref().and_then(|home| cwd.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => cwd.display().to_string(),
        };
        text.push_str(&self.title(&shown));
        if self.watching != self.notify.is_some() {
            self.watching = !self.watching;
            text.push_str(if self.watching { WATCH } else { UNWATCH });
        }
        text
    }

    fn title(&self, text: &str) -> String {
        format!("\x1b]0;{}{}\x07", self.title_start, without_controls(text))
    }

    /// Time of the next look at the program in the foreground.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.look.map(|(at, _)| at)
    }

    /// Looks at the program in the foreground, by the command line of its process group's leader; `None` means the shell itself.
    /// Returns the sequence for the terminal: tmux looks at names only after output, so for a program that writes nothing it is
    /// one without effect.
    pub(super) fn look(&mut self, now: Instant, leader: impl FnOnce() -> Option<Vec<u8>>) -> &'static str {
        let Some((_, pause)) = self.look.filter(|(at, _)| *at <= now) else { return "" };
        let pause = (pause * 2).min(LOOK_PAUSE_MAX);
        self.look = Some((now + pause, pause));
        let name = leader().and_then(|line| program_name(&line));
        let other = name != self.program;
        self.name_program(name);
        if other && self.quiet && self.sequences { "\x1b[m" } else { "" }
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

impl Notice {
    /// Chooses the sequence from the environment's variables about the terminal. A multiplexer in between passes none on.
    fn of(variable: &impl Fn(&str) -> String) -> Option<Self> {
        let (term, program) = (variable("TERM"), variable("TERM_PROGRAM"));
        if !variable("TMUX").is_empty() || !variable("STY").is_empty() {
            return None;
        }
        if ["iTerm.app", "WezTerm", "ghostty"].contains(&program.as_str())
            || ["xterm-kitty", "xterm-ghostty"].contains(&term.as_str())
        {
            return Some(Self::Text);
        }
        let known = !variable("VTE_VERSION").is_empty() || term.starts_with("foot") || term.starts_with("rxvt");
        known.then_some(Self::TitleAndText)
    }
}

/// The start of a command's first row, shortened.
fn short(line: &str) -> String {
    let first = line.trim_start().lines().next().unwrap_or_default();
    without_controls(&first.chars().take(TITLE_CHARS_MAX).collect::<String>())
}

fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A duration in words.
fn whole_seconds(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The name of a program, from its command line.
fn program_name(line: &[u8]) -> Option<String> {
    let first = String::from_utf8_lossy(line.split(|byte| *byte == 0).next()?).into_owned();
    let word = first.trim_start_matches('-').split(' ').next()?.rsplit('/').next()?.to_owned();
    (!word.is_empty() && !word.contains(char::is_control)).then_some(word)
}

/// A path, escaped for a URL.
fn in_url(path: &Path) -> String {
    percent::encode(path.as_os_str().as_bytes(), "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_command_is_announced_to_a_person_who_looks_elsewhere() {
        let notify = Notify { after: Duration::from_secs(10), bell_only: false };
        let mut around = Around::new(None, Some(notify));
        around.sequences = true;
        around.at(Path::new("/"));
        let long = Duration::from_secs(75);
        assert!(around.ended(None).ends_with(WATCH) && !around.ended(None).contains(WATCH));
        assert_eq!(around.announcement("make", 0, long), "");
        assert_eq!(around.without_focus(b"a\x1b[I\x1b[O", false), &b"a"[..]);
        assert_eq!(around.announcement("make", 0, long), "", "the key came in the same moment");
        assert_eq!(around.without_focus(b"\x1b[O", true), &b"\x1b[O"[..]);
        for (notice, text) in [
            (None, "\x07"),
            (Some(Notice::Text), "\x1b]9;make a;b: failed (2) after 1 min 15 s\x07"),
            (Some(Notice::TitleAndText), "\x1b]777;notify;make a,b;failed (2) after 1 min 15 s\x07"),
        ] {
            around.notice = notice;
            assert_eq!(around.announcement("make a;b\nx", 2, long), text);
            assert_eq!(around.announcement("make", 0, Duration::from_secs(9)), "");
        }
        assert_eq!(around.without_focus(b"x", false), &b"x"[..]);
        assert_eq!(around.announcement("make", 0, long), "", "somebody types");
        around.stopped_watching();
        assert!(around.ended(Some(0)).ends_with(WATCH));
        assert_eq!((around.over(), around.over()), (UNWATCH, ""));
        assert_eq!(around.without_focus(b"\x1b[O", false), &b"\x1b[O"[..]);
    }

    #[test]
    fn paths_are_encoded_and_programs_named() {
        assert_eq!(in_url(Path::new("/a b/é;\x07")), "/a%20b/%C3%A9%3B%07");
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
