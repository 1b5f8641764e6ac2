//! Lists of permanently allowed commands: written to a file, and read from a file that the person names. None is read
//! automatically.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use crate::gate::{Allowed, CommandList, Gate};
use crate::host;
use crate::proto::{Failure, FailureKind};
use crate::store::export;

/// A command of a list, held against the policy and the programs here.
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

/// Writes the allowed commands to a new file.
///
/// # Errors
/// The file is there already, or can't be written.
pub fn export_allowed(allowed: &Allowed, path: &Path) -> io::Result<()> {
    export::create(path)?.write_all(CommandList::of(allowed.rules()).to_json().as_bytes())
}

/// Reads a list, and checks for each command whether it may be allowed in the project at `root`. Nothing is changed.
///
/// # Errors
/// The file can't be read, or isn't a list.
pub fn read_list(gate: &Gate, root: &Path, path: &Path) -> Result<Vec<ListedHere>, Failure> {
    let user = |why: String| Failure {
        kind: FailureKind::User,
        message: format!("{}: {why}", path.display()),
        hint: String::new(),
    };
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
