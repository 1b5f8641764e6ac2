//! Becoming the backing shell.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::base::program::is_program;

/// Places of bash if `PATH` has none.
const USUAL: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

/// Finds the backing shell: the configured program, else the bash on `PATH`, else `/bin/sh`. Never this program.
#[must_use]
pub fn find(configured: Option<PathBuf>) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("bash"));
    configured
        .into_iter()
        .chain(on_path)
        .chain(USUAL.into_iter().map(PathBuf::from))
        .find(|program| is_absolute_program(program) && !is_self(program))
        .unwrap_or_else(|| "/bin/sh".into())
}

/// The sentence about a configured shell that can't be run, and the shell that runs in its place.
#[must_use]
pub fn why_another(configured: Option<&Path>) -> Option<String> {
    let configured = configured?;
    let program = find(Some(configured.to_owned()));
    (configured != program).then(|| format!("{} can't be run, so {} is", configured.display(), program.display()))
}

fn is_absolute_program(path: &Path) -> bool {
    path.is_absolute() && is_program(path)
}

/// Returns whether a program is this one: a shell that became itself would never end.
fn is_self(path: &Path) -> bool {
    match (std::fs::canonicalize(path), std::fs::read_link("/proc/self/exe")) {
        (Ok(path), Ok(own)) => path == own,
        _ => false,
    }
}

/// Replaces this process by the backing shell, with the dash of `argv[0]`. Returns only if that fails.
#[must_use]
pub fn become_shell(program: &Path, login: bool, arguments: &[OsString]) -> io::Error {
    let mut name = OsString::from(if login { "-" } else { "" });
    name.push(program.file_name().unwrap_or(OsStr::from_bytes(b"sh")));
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    let error = command.exec();
    if program == Path::new("/bin/sh") {
        return error;
    }
    let mut last_resort = Command::new("/bin/sh");
    last_resort.arg0(if login { "-sh" } else { "sh" }).args(arguments);
    last_resort.exec()
}
