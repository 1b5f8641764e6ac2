//! Asks a shell once which names it resolves, outside of any session: it reads the user's start-up files, reports the names, and
//! ends. It has no terminal, so that it can neither ask nor stop, and its time is limited.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::proto::Names;
use crate::shell::lookup::names;
use crate::shell::spawn::Dialect;
use crate::shell::sys;

/// Limit on the time; a start-up file that takes longer is hanging.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Limit on the report: that of one record of a session.
const REPORT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The mark before the report; start-up files may print text, and leave programs running that hold the pipe open.
const BEGIN: &str = "reedclaw-names-begin-here";
const END: &str = "[reedclaw-names-end-here]";

/// Returns the script for a shell; it writes the names in the form of a session's report.
fn script(dialect: Dialect) -> String {
    let sections: [(&str, &str); 5] = match dialect {
        Dialect::Bash => [
            ("alias", "builtin alias -p"),
            ("function", "builtin compgen -A function"),
            ("builtin", "builtin compgen -b"),
            ("keyword", "builtin compgen -k"),
            ("path", "builtin printf '%s\\n' \"$PATH\""),
        ],
        Dialect::Zsh => [
            ("alias", "builtin alias -rL"),
            ("function", "builtin print -rl -- ${(k)functions}"),
            ("builtin", "builtin print -rl -- ${(k)builtins}"),
            ("keyword", "builtin print -rl -- ${(k)reswords}"),
            ("path", "builtin print -r -- $PATH"),
        ],
        Dialect::Fish => [
            ("alias", "true"),
            ("function", "functions -n | string split ', '"),
            ("builtin", "builtin -n"),
            ("keyword", "printf '%s\\n' and begin case else end for function if not or switch while"),
            ("path", "string join : -- $PATH"),
        ],
    };
    let sections = sections.map(|(name, command)| format!("echo '[{name}]'; {command}"));
    format!("echo {BEGIN}; {}; echo '{END}'", sections.join("; "))
}

/// The names that `program` resolves, without those on `PATH`, and its `PATH`; `None` if it doesn't answer in time.
#[must_use]
pub fn names_of(program: &Path) -> Option<(Names, OsString)> {
    let dialect = Dialect::of(program)?;
    let mut command = Command::new(program);
    command.arg("-ic").arg(script(dialect)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    sys::leave_terminal(&mut command);
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take()?;
    let (report_sender, telling) = channel();
    let read = move || {
        let _ = report_sender.send(read_report(output.take(REPORT_BYTES_MAX)));
    };
    let reader = std::thread::Builder::new().name("survey".into()).spawn(read);
    let report = reader.ok().and_then(|_| telling.recv_timeout(TIME_MAX).ok());
    let _ = child.kill();
    let _ = child.wait();
    let report = report?;
    let begin = memchr::memmem::find(&report, BEGIN.as_bytes())? + BEGIN.len();
    let end = memchr::memmem::rfind(&report, END.as_bytes()).filter(|end| *end >= begin)?;
    Some(names::parse(&report[begin..end]))
}

/// Reads up to the end mark.
fn read_report(mut output: impl Read) -> Vec<u8> {
    let mut report = Vec::new();
    let mut piece = [0; 8192];
    loop {
        match output.read(&mut piece) {
            Ok(count) if count > 0 => report.extend_from_slice(&piece[..count]),
            _ => return report,
        }
        let tail = report.len().saturating_sub(piece.len() + END.len());
        if memchr::memmem::find(&report[tail..], END.as_bytes()).is_some() {
            return report;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_tells_its_builtins_and_its_path() {
        let (names, path) = names_of(Path::new("/bin/bash")).expect("bash tells");
        assert!(names.builtins.contains("cd") && names.keywords.contains("if") && !path.is_empty());
        assert!(names_of(Path::new("/nonexistent/bash")).is_none() && names_of(Path::new("/bin/cat")).is_none());
    }
}
