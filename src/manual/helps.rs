//! The help texts of programs without a manual page, as they print them for `--help`. The programs run in a jail that the caller
//! makes, all of them in one, each for a moment; programs in a home don't run, since their effects are unknown.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::roff::{Page, cut, typed};

/// Limit on the programs that are asked.
const PROGRAMS_MAX: usize = 2_000;
/// Time limit for all of them, in seconds.
const SECONDS_MAX: &str = "180";
/// Limit on the bytes that are read in all. The script bounds those of each program.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The first begins the text of a program, the second ends its path (ASCII's record and unit separators).
const RECORD: char = '\u{1e}';
const UNIT: char = '\u{1f}';
/// Asks each argument for its help. Many programs print it as an error.
const SCRIPT: &str = r#"for program do
    printf '\036%s\037' "$program"
    timeout -k 1 2 "$program" --help </dev/null 2>&1 | head -c 65536
done"#;
/// Limit on the options and commands of one program that are read.
const ROWS_MAX: usize = 300;
/// Columns by which a row may be indented.
const INDENT_MAX: usize = 16;

/// Puts a command into a jail: it sees no home, has no network, and can't change anything.
pub type Jail = Arc<dyn Fn(Command) -> Result<Command, String> + Send + Sync>;

/// The programs of this machine that may be asked for their help.
#[derive(Clone)]
pub struct Programs {
    /// The directories of the programs; for each name, the first directory that has it counts.
    pub directories: Vec<PathBuf>,
    /// The jail in which they run.
    pub jail: Jail,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("directories", &self.directories).finish_non_exhaustive()
    }
}

/// Asks all programs except those with a name in `known`; short names first. A jail that fails returns no pages.
pub(super) fn ask(programs: &Programs, known: &HashSet<String>) -> Vec<Page> {
    let files = files(&programs.directories, known);
    // A directory of `PATH` may be missing; the directory of a program exists.
    let Some(directory) = files.first().and_then(|file| file.parent()) else { return Vec::new() };
    let mut command = Command::new("/usr/bin/env");
    command.args(["nice", "-n", "19", "timeout", "-k", "1", SECONDS_MAX, "sh", "-c", SCRIPT, "sh"]).args(&files);
    command.current_dir(directory).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.envs([("LC_ALL", "C.UTF-8"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("COLUMNS", "120"), ("PAGER", "cat")]);
    let Ok(mut command) = (programs.jail)(command) else { return Vec::new() };
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else { return Vec::new() };
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        // The output before an error counts.
        let _ = output.take(BYTES_MAX).read_to_end(&mut bytes);
    }
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8_lossy(&bytes);
    let page = |record: &str| {
        let (path, text) = record.split_once(UNIT)?;
        read(Path::new(path).file_name()?.to_str()?, text)
    };
    text.split(RECORD).filter_map(page).collect()
}

/// The programs of some directories. A program that runs with the rights of its file's owner is left out.
fn files(directories: &[PathBuf], known: &HashSet<String>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let mut files: Vec<(usize, String, PathBuf)> = Vec::new();
    for entry in directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let path = entry.path();
        let Ok(data) = path.metadata() else { continue };
        let mode = data.permissions().mode();
        let is_program = data.is_file() && mode & 0o111 != 0 && mode & 0o6000 == 0;
        let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
        if is_program && is_plain && !known.contains(&name) && seen.insert(name.clone()) {
            files.push((name.matches(['-', '_', '.']).count(), name, path));
        }
    }
    files.sort();
    files.truncate(PROGRAMS_MAX);
    files.into_iter().map(|(_, _, path)| path).collect()
}

/// Reads a help text; `None` for the output of a program that has no such option.
fn read(name: &str, text: &str) -> Option<Page> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(name, line.trim_end());
    }
    reader.end_row();
    let is_help = !reader.usage.is_empty() || reader.rows.len() > 2;
    let summary = if reader.summary.is_empty() { reader.usage } else { reader.summary };
    (is_help && !summary.is_empty()).then(|| Page {
        command: name.to_owned(),
        summary: cut(&summary),
        options: reader.rows,
    })
}

#[derive(Default)]
struct Reader {
    summary: String,
    usage: String,
    /// The lines below the last heading are commands.
    in_commands: bool,
    /// The current row: its indent, the option or command, and its description so far.
    row: Option<(usize, String, String)>,
    rows: Vec<(String, String)>,
}

impl Reader {
    fn line(&mut self, name: &str, line: &str) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        // A text with an escape sequence isn't worth searching.
        if text.is_empty() || text.contains('\u{1b}') {
            return self.end_row();
        }
        let lower = text.to_ascii_lowercase();
        if let Some(usage) = lower.find("usage:").filter(|at| *at < 40) {
            self.end_row();
            if self.usage.is_empty() {
                self.usage = text[usage..].to_owned();
            }
        } else if indent == 0 && !text.starts_with('-') {
            self.end_row();
            self.in_commands = lower.contains("command") && (text.ends_with(':') || lower.len() == text.len());
            self.sentence(name, text, &lower);
        } else if let Some((tag, about)) = columns(text).filter(|_| indent <= INDENT_MAX) {
            self.row(indent, tag, about);
        } else if let Some((_, _, about)) = self.row.as_mut().filter(|(of, ..)| indent > *of) {
            about.push_str(if about.is_empty() { "" } else { " " });
            about.push_str(text);
        } else if text.starts_with('-') {
            self.row(indent, text, "");
        } else {
            self.sentence(name, text, &lower);
        }
    }

    /// Takes the first sentence that says what the program is for.
    fn sentence(&mut self, name: &str, text: &str, lower: &str) {
        const OTHERS: [&str; 7] = ["error", "note", "try", "or:", "warning", "options", "copyright"];
        let text = text.strip_prefix("OVERVIEW:").unwrap_or(text).trim_start();
        let is_sentence = text.split_whitespace().count() > 2
            && text.starts_with(|c: char| c.is_alphabetic())
            && !text.ends_with(':')
            && !lower.starts_with(&format!("{name}:"))
            && !OTHERS.iter().any(|word| lower.starts_with(word))
            && !["unrecognized", "unknown", "invalid", "not found"].iter().any(|word| lower.contains(word));
        if self.summary.is_empty() && is_sentence {
            text.clone_into(&mut self.summary);
        }
    }

    fn row(&mut self, indent: usize, tag: &str, about: &str) {
        let is_command = |word: &str| {
            let word = word.trim_end_matches(['*', ',', ':']);
            let letters = word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            (letters && word.starts_with(|c: char| c.is_ascii_alphabetic())).then(|| word.to_owned())
        };
        let found = if tag.starts_with('-') {
            typed(tag)
        } else if self.in_commands && !about.is_empty() {
            tag.split_whitespace().next().and_then(is_command)
        } else {
            None
        };
        if let Some(found) = found {
            self.end_row();
            self.row = Some((indent, found, about.to_owned()));
        } else if let Some((_, _, text)) = self.row.as_mut().filter(|(of, ..)| indent > *of) {
            text.push_str(&format!(" {tag} {about}"));
        }
    }

    fn end_row(&mut self) {
        if let Some((_, found, about)) = self.row.take()
            && !about.is_empty()
            && self.rows.len() < ROWS_MAX
        {
            self.rows.push((found, cut(&about)));
        }
    }
}

/// The two columns of a row, which two blanks, a tab, or a colon or dash between blanks part.
fn columns(text: &str) -> Option<(&str, &str)> {
    let gap = text.find("  ").into_iter().chain(text.find('\t')).min()?;
    let about = text[gap..].trim_start().trim_start_matches([':', '-', '–']).trim_start();
    Some((text[..gap].trim_end_matches(':'), about))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(page: &Page) -> Vec<(&str, &str)> {
        page.options.iter().map(|(row, about)| (row.as_str(), about.as_str())).collect()
    }

    #[test]
    fn help_of_the_usual_kinds_gives_summary_options_and_commands() {
        let gnu = "Usage: xls [OPTION]... [FILE]...\nList information about the FILEs.\n\n  -a, --all    do not ignore \
            entries\n               starting with a dot\n      --author  with -l, print the author. And more.\n";
        let page = read("xls", gnu).expect("a page");
        assert_eq!(page.summary, "List information about the FILEs");
        assert_eq!(
            rows(&page),
            [("--all", "do not ignore entries starting with a dot"), ("--author", "with -l, print the author"),]
        );

        let cobra = "Controls the cluster.\n\nUsage:\n  xctl [command]\n\nAvailable Commands:\n  apply       Apply a \
            configuration\n  get*        Display resources\n\nFlags:\n  -h, --help   help for xctl\n";
        let page = read("xctl", cobra).expect("a page");
        assert_eq!((page.command.as_str(), page.summary.as_str()), ("xctl", "Controls the cluster"));
        assert_eq!(
            rows(&page),
            [("apply", "Apply a configuration"), ("get", "Display resources"), ("--help", "help for xctl"),]
        );

        let clap = "A fast search\n\nUsage: xg [OPTIONS] PATTERN\n\nOptions:\n  -i, --ignore-case\n          Searches without \
            case\n\n  -n <NUM>\n          Most matches\n";
        let page = read("xg", clap).expect("a page");
        assert_eq!(page.summary, "A fast search");
        assert_eq!(rows(&page), [("--ignore-case", "Searches without case"), ("-n <NUM>", "Most matches")]);

        let llvm = "OVERVIEW: Trace tools for logs\nUSAGE: xray [options]\n\nSUBCOMMANDS:\n\n  account    - Call accounting\n\
            \nOptions:\n  --color=<x>   - Use colors\n";
        let page = read("xray", llvm).expect("a page");
        assert_eq!(page.summary, "Trace tools for logs");
        assert_eq!(rows(&page), [("account", "Call accounting"), ("--color=<x>", "Use colors")]);
    }

    #[test]
    fn output_of_programs_without_help_is_left_out() {
        for text in [
            "",
            "xtool: unrecognized option '--help'\n",
            "Starting iteration #1 with 2 entries established.\n",
            "/usr/bin/env: 'python': No such file or directory\n",
            "Can't locate DBI.pm in @INC (you may need to install the DBI module)\n",
        ] {
            assert_eq!(read("xtool", text), None, "{text}");
        }
    }

    #[test]
    fn known_names_other_files_and_setuid_programs_are_not_asked() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str, mode: u32| {
            let path = directory.path().join(name);
            fs::write(&path, "").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        for (name, mode) in [
            ("xa", 0o755),
            ("xb-long", 0o755),
            ("paged", 0o755),
            ("text", 0o644),
            ("root", 0o4755),
            ("two words", 0o755),
        ] {
            file(name, mode);
        }
        fs::create_dir(directory.path().join("subdirectory")).expect("a directory");
        let found = files(&[directory.path().to_owned()], &HashSet::from(["paged".to_owned()]));
        assert_eq!(found, ["xa", "xb-long"].map(|name| directory.path().join(name)));
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "(Usage: x\n|Commands:\n|  )?[ -~\n\té–\u{1b}]{0,160}") {
            if let Some(page) = read("x", &text) {
                prop_assert!(!page.summary.is_empty() && page.options.iter().all(|(_, about)| !about.is_empty()), "{page:?}");
            }
        }
    }
}
