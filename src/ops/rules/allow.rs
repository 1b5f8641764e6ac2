//! The commands that a model may run in a project without a question: listed, withdrawn, written to a file, and read from a
//! file that the person names. No file is read automatically.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use crate::app::allowed_commands;
use crate::config::Env;
use crate::gate::{CommandList, Gate, Rule};
use crate::host;
use crate::proto::Failure;
use crate::render::text::escape_visible;
use crate::store::export;

/// Returns the allowed commands of a workspace as the rows of a table: number, command, place, program.
///
/// # Errors
/// The list can't be read.
pub fn list(env: &Env, workspace: &Path) -> Result<Vec<Vec<String>>, Failure> {
    Ok(rows(allowed_commands(env, workspace)?.rules()))
}

/// Withdraws a command by its number or line, and returns how many were withdrawn. `lister` is the command that lists them,
/// for the hint.
///
/// # Errors
/// Nothing is allowed by this name, or the list can't be changed.
pub fn withdraw(env: &Env, workspace: &Path, which: &str, lister: &str) -> Result<usize, Failure> {
    let unchanged = |message| Failure::unavailable(message).hint("nothing was changed");
    match allowed_commands(env, workspace)?.remove(which).map_err(|error| unchanged(error.to_string()))? {
        0 => {
            let what = if which.parse::<u64>().is_ok() { "has the number" } else { "is" };
            Err(Failure::user(format!("no allowed command {what} {}", escape_visible(which)))
                .hint(format!("{lister} lists them")))
        }
        count => Ok(count),
    }
}

/// Writes the allowed commands to a new file, and returns how many there are.
///
/// # Errors
/// The file is there already, or can't be written.
pub fn export(env: &Env, workspace: &Path, path: &Path) -> Result<usize, Failure> {
    let allowed = allowed_commands(env, workspace)?;
    let list = CommandList::of(allowed.rules());
    let text = list.to_json();
    let written = export::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Failure::unavailable(format!("{} can't be written: {error}", escape_visible(&path.display().to_string())))
            .hint("name a new file")
    })?;
    Ok(list.commands.len())
}

/// A command of a list, checked against the policy and the programs here.
#[derive(Debug)]
pub struct ListedHere {
    /// The line; text from outside.
    pub command: String,
    /// Its directory, from the project's root; text from outside.
    pub below: String,
    /// The directory of the command.
    pub cwd: PathBuf,
    /// The program of its first word, or the reason why it may not be allowed, in words.
    pub program: Result<PathBuf, String>,
}

impl ListedHere {
    /// The command with its program, or the reason against it, in a line.
    #[must_use]
    pub fn line(&self) -> String {
        let place =
            if self.below.is_empty() { String::new() } else { format!(" (in {})", escape_visible(&self.below)) };
        let command = escape_visible(&self.command);
        match &self.program {
            Ok(program) => format!("  {command}{place}  by {}", escape_visible(&program.display().to_string())),
            Err(why) => format!("  refused: {command}{place}: {}", escape_visible(why)),
        }
    }
}

/// Reads a list, and checks for each command whether it may be allowed in the project at `root`. Nothing is changed.
///
/// # Errors
/// The file can't be read, or isn't a list.
pub fn read_list(gate: &Gate, root: &Path, path: &Path) -> Result<Vec<ListedHere>, Failure> {
    let user = |why: String| Failure::user(format!("{}: {why}", path.display()));
    let list = CommandList::parse(&host::read_text(path).map_err(user)?).map_err(user)?;
    let here = |(command, below): (&str, &str)| {
        let cwd = root.join(below);
        let is_below = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
        let program =
            if is_below { gate.may_allow(command, &cwd) } else { Err("its directory isn't in the project".to_owned()) };
        ListedHere { command: command.to_owned(), below: below.to_owned(), cwd, program }
    };
    Ok(list.commands.iter().map(|entry| here(entry.parts())).collect())
}

fn rows(rules: &[Rule]) -> Vec<Vec<String>> {
    let row = |(number, rule): (usize, &Rule)| {
        let Rule { command, cwd, program, keeps, removes, .. } = rule;
        let (word, count) = (if keeps.is_empty() { "removes" } else { "keeps" }, keeps.len() + removes.len());
        let place = match (keeps.iter().chain(removes).next(), cwd.is_empty()) {
            (Some(first), _) if count == 1 => format!("{word} {first}"),
            (Some(first), _) => format!("{word} {first} and {} more", count - 1),
            (None, _) if rule.is_about_server() => "a tool of a server, as it was allowed".to_owned(),
            (None, true) => String::new(),
            (None, false) => format!("in {cwd}"),
        };
        let command = if command.is_empty() { "(every command)".to_owned() } else { command.clone() };
        vec![number.to_string(), command, place, program.clone()]
    };
    (1..).zip(rules).map(row).collect()
}
