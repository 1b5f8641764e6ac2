//! A shell's prompt that isn't ours: a command has removed our hooks and markers (`PROMPT_COMMAND=(…); PS1=…`), and the shell
//! waits for a line that never comes. The prompt is recognised by the place in the program at which the shell waits, which is the
//! same at each of its prompts and at nothing else (`read -e` waits deeper in the stack). A private key restores the hooks; zsh
//! does so itself, if it still can. If that fails, in fish, and in another shell of the kind that has replaced the shell (`exec
//! zsh`), a line typed at the prompt makes the shell read the integration again.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::termios::{self, InputFlags, LocalFlags};

use super::bytes::drawing::ends_open;
use super::bytes::scan::Mark;
use super::event::{Event, KeysTo};
use super::phase::Phase;
use super::pump::Pump;
use super::spawn::Dialect;
use crate::shell::keys::editor::sleeps;

/// Time without output after which it is checked whether the shell waits at its prompt.
const PROMPT_LOOK: Duration = Duration::from_millis(20);
/// Time in which the shell must restore its hooks; after that, the session continues as a plain terminal.
const REGAIN_WAIT: Duration = Duration::from_secs(1);

/// Makes bash and zsh report the prompt's contents and restore the hooks; bash begins another prompt for it.
const REGAIN_KEYS: &[u8] = b"\x1b[9990~";
/// Number of checks for the first prompt of another shell that has replaced the shell: ten seconds.
const NEWCOMER_LOOKS: u32 = 500;

/// The state of such a prompt.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// The place where the shell waits at each prompt.
    place: Option<String>,
    /// The place at which fish waited at the last check: it may have waited for something else, but hardly twice for the same.
    last_place: Option<String>,
    /// Time of the next check whether it waits there.
    look_at: Option<Instant>,
    /// Deadline for the return of its hooks.
    until: Option<Instant>,
    /// `true` if that was tried since the last prompt of ours.
    tried: bool,
    /// `true` if the integration was read again since.
    reread: bool,
    /// Number of checks left for the first prompt of another shell that has replaced the shell.
    newcomer_looks: u32,
}

impl Lost {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.look_at.into_iter().chain(self.until).min()
    }

    /// Returns whether no attempt has been made yet.
    pub(super) fn is_new(&self) -> bool {
        !self.tried
    }

    /// Returns whether a prompt of ours is awaited.
    pub(super) fn is_awaited(&self) -> bool {
        self.until.is_some()
    }
}

impl Pump {
    /// Remembers the place at which the shell waits at its prompt, if it waits now.
    pub(super) fn learn_place(&mut self) {
        if self.lost.place.is_none() && self.is_raw() && !self.replaced {
            // A shell that is still running, as fish is while it draws, is examined at a later line.
            let Some(place) = place_of(self.shell.child.id()) else { return };
            let is_sure = !self.is_fish() || Some(&place) == self.lost.last_place.as_ref();
            self.lost.place = is_sure.then(|| place.clone());
            self.lost.last_place = Some(place);
        }
    }

    /// Notes that a command has printed something, which may have been a prompt.
    pub(super) fn note_output_of_command(&mut self) {
        if self.lost.newcomer_looks > 0 {
            return;
        }
        let runs =
            matches!(self.phase, Phase::Running { .. }) && self.pressed.is_none() && !self.plain && !self.replaced;
        let looks = runs && self.lost.place.is_some() && self.lost.is_new();
        self.lost.look_at = looks.then(|| Instant::now() + PROMPT_LOOK);
    }

    /// Checks whether the shell waits at a prompt that isn't ours, and whether its hooks return in time.
    pub(super) fn look_for_lost_prompt(&mut self, now: Instant) {
        if self.lost.look_at.take_if(|at| *at <= now).is_some() && matches!(self.phase, Phase::Running { .. }) {
            if self.lost.newcomer_looks > 0 {
                self.look_at_newcomer(now);
            } else if self.lost.place.is_some()
                && self.lost.place == place_of(self.shell.child.id())
                && self.is_shell_in_front()
                && self.is_raw()
            {
                self.regain();
            }
        }
        if self.lost.until.take_if(|at| *at <= now).is_some() && (self.lost.reread || !self.read_anew()) {
            self.phase = Phase::Running { look_at: None, recording: true };
            self.feed.keys_to(KeysTo::Shell);
            if self.replaced {
                self.tell_replaced();
            }
        }
    }

    /// Returns whether a mark has no meaning now.
    pub(super) fn passes_over(&self, mark: &Mark) -> bool {
        match mark {
            // The start of the line that makes the shell read the integration again.
            Mark::Started { .. } => self.lost.is_awaited(),
            // Without its line editor the shell gets all lines at once.
            Mark::Incomplete { .. } => self.plain,
            _ => false,
        }
    }

    /// Restores the hooks, at a prompt of the shell's.
    pub(super) fn regain(&mut self) {
        // In fish the hooks are functions: once erased, they have to be read again.
        if self.options.dialect != Dialect::Fish || !self.read_anew() {
            self.await_hooks(REGAIN_KEYS);
        }
    }

    /// Notes that a prompt of ours has appeared.
    pub(super) fn prompt_is_ours(&mut self) {
        (self.lost.until, self.lost.tried, self.lost.reread, self.replaced) = (None, false, false, false);
    }

    /// Types the keys that restore the hooks, and waits for the hooks.
    fn await_hooks(&mut self, keys: &[u8]) {
        self.lost.tried = true;
        self.lost.until = Some(Instant::now() + REGAIN_WAIT);
        self.show_held();
        self.flush_output();
        if self.feed.whom() == KeysTo::Shell {
            self.feed.keys_to(KeysTo::Hold);
        }
        self.want_names = true;
        self.phase = Phase::Completing { answered: false };
        self.feed.to_shell.extend_from_slice(keys);
    }

    /// Types a line that makes the shell read the integration again, and waits for the hooks; `false` if it can't be written.
    fn read_anew(&mut self) -> bool {
        let dialect = self.options.dialect;
        let Ok(path) = self.shell.channels.write_for_adopted(dialect, &self.scanner.nonce()) else { return false };
        let word = if dialect == Dialect::Fish { "source" } else { "." };
        // Keys typed before are dropped: they would precede the line.
        self.await_hooks(format!("\x15 {word} {path}\r").as_bytes());
        self.lost.reread = true;
        true
    }

    /// Checks whether another shell that has replaced the shell (`exec bash`) has read its files and waits for its first line;
    /// then it becomes the live shell.
    fn look_at_newcomer(&mut self, now: Instant) {
        let place = format!("/proc/{}", self.shell.child.id());
        let reads = self.is_shell_in_front() && self.has_line_editor() && sleeps(&place);
        self.lost.newcomer_looks -= 1;
        if reads && self.read_anew() {
            self.command_line = self.read_command_line();
            (self.lost.place, self.lost.last_place, self.lost.newcomer_looks) = (None, None, 0);
        } else if self.lost.newcomer_looks == 0 {
            self.tell_replaced();
        } else {
            self.lost.look_at = Some(now + PROMPT_LOOK);
        }
    }

    /// Returns whether a line editor has the terminal: it reads single keys, and distinguishes Enter from a line feed.
    fn has_line_editor(&self) -> bool {
        let Ok(modes) = termios::tcgetattr(&self.shell.master) else { return false };
        let tells = match self.options.dialect {
            // zsh swaps the two.
            Dialect::Zsh => modes.input_flags.contains(InputFlags::INLCR),
            Dialect::Bash | Dialect::Fish => !modes.input_flags.contains(InputFlags::ICRNL),
        };
        tells && !modes.local_flags.contains(LocalFlags::ICANON)
    }

    fn tell_replaced(&mut self) {
        let row = self.open_row();
        self.tell(Event::Replaced(row));
    }

    pub(super) fn read_command_line(&self) -> Vec<u8> {
        std::fs::read(format!("/proc/{}/cmdline", self.shell.child.id())).unwrap_or_default()
    }

    /// Time to check whether the shell was replaced: once per command, a while after its start.
    pub(super) fn replaced_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running { look_at: Some(at), .. } => Some(at),
            _ => None,
        }
    }

    pub(super) fn check_replaced(&mut self) {
        if let Phase::Running { look_at, .. } = &mut self.phase {
            *look_at = None;
        }
        self.note_output_of_command();
        let now = self.read_command_line();
        if !self.replaced && !self.command_line.is_empty() && now != self.command_line && !now.is_empty() {
            self.replaced = true;
            if is_interactive(&now, self.options.dialect) {
                self.lost.newcomer_looks = NEWCOMER_LOOKS;
                self.lost.look_at = Some(Instant::now());
            } else {
                self.tell_replaced();
            }
        }
    }

    pub(super) fn remember_command_line(&mut self) {
        if self.command_line.is_empty() {
            self.command_line = self.read_command_line();
        }
    }

    /// Handles the shell's report of its drawing and of the keys typed at that prompt: the prompt is erased again, and the keys
    /// go to ours.
    pub(super) fn prompt_found(&mut self, body: &[u8]) {
        // Anything that readline has drawn since is dropped.
        self.read_output_so_far();
        if self.feed.whom() == KeysTo::Shell {
            self.feed.keys_to(KeysTo::Hold);
        }
        let (prompt, line) = body.split_at(body.iter().position(|byte| *byte == 0x1f).unwrap_or(body.len()));
        // fish clears the rest of each row.
        let end = if self.options.dialect == Dialect::Fish { "\x1b[K\r\n" } else { "\r\n" };
        let drawn = String::from_utf8_lossy(prompt).replace(['\x01', '\x02'], "").replace('\n', end);
        if self.recorder.forget_from(drawn.as_bytes()).is_some_and(|drawn| !drawn.is_empty()) {
            let rows = prompt.iter().filter(|byte| **byte == b'\n').count();
            let row = self.open_row().unwrap_or_default();
            let erased = ["\r".as_bytes(), "\x1b[A".repeat(rows).as_bytes(), b"\x1b[J", &row].concat();
            self.out.extend_from_slice(&erased);
            self.leave_to_tap(&erased);
            self.flush_output();
            if let Some(current) = &mut self.current {
                current.open_line = ends_open(&row, false);
                current.first_column = row.is_empty();
            }
        }
        let mut keys = line.get(1..).unwrap_or_default().to_vec();
        keys.extend(self.read_unread_keys());
        self.feed.give_back(keys);
        let _ = self.shell.channels.acknowledge.write_all(b"\n");
    }
}

/// The place at which a process waits: the number of the system call, the stack and the address in the program; `None` if it
/// runs, or the system doesn't report it. Source: proc_pid_syscall(5).
fn place_of(process: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/syscall")).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    (fields.len() == 9).then(|| [fields[0], fields[7], fields[8]].join(" "))
}

/// Returns whether a command line starts a shell of this kind that reads lines from its terminal: it has neither a command nor a
/// script.
fn is_interactive(command_line: &[u8], dialect: Dialect) -> bool {
    const WITH_VALUE: [&str; 8] = ["--rcfile", "--init-file", "-o", "+o", "-O", "+O", "-C", "--init-command"];
    let text = String::from_utf8_lossy(command_line);
    let mut words = text.trim_end_matches('\0').split('\0');
    let name = words.next().unwrap_or_default().trim_start_matches('-');
    if Dialect::of(Path::new(name)) != Some(dialect) {
        return false;
    }
    while let Some(word) = words.next() {
        let is_option = word.len() > 1 && word.starts_with(['-', '+']);
        let is_command = word.starts_with("--command") || !word.starts_with("--") && word.contains('c');
        if !is_option || is_command {
            return false;
        }
        if WITH_VALUE.contains(&word) {
            words.next();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_with_a_command_or_a_script_reads_no_lines() {
        let reads = |line: &str, dialect| is_interactive(format!("{line}\0").as_bytes(), dialect);
        for line in ["bash", "-bash", "/bin/bash\0-l", "bash\0--norc\0-o\0vi", "bash\0--rcfile\0file\0-i"] {
            assert!(reads(line, Dialect::Bash), "{line:?}");
        }
        for line in ["bash\0-c\0ls", "bash\0-lc\0ls", "bash\0file", "bash\0-x\0file", "zsh", "sh\0bash", ""] {
            assert!(!reads(line, Dialect::Bash), "{line:?}");
        }
        assert!(reads("-zsh", Dialect::Zsh) && reads("zsh\0-f\0-o\0vi", Dialect::Zsh));
        assert!(!reads("zsh\0-ic\0ls", Dialect::Zsh) && !reads("bash", Dialect::Zsh));
        assert!(reads("fish\0-l\0-C\0echo c", Dialect::Fish) && !reads("fish\0--command=ls", Dialect::Fish));
    }

    #[test]
    fn a_process_that_waits_is_at_a_place_and_one_that_has_ended_is_not() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let until = Instant::now() + Duration::from_secs(30);
        while place_of(child.id()).is_none_or(|place| !place.starts_with("0 ")) {
            assert!(Instant::now() < until, "cat never waits for its input");
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert_eq!(place_of(child.id()), None);
    }
}
