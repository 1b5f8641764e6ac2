//! The location of the config, and reading it: the only file access of this room.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::base::directories::{self, Kind};
use crate::config::reading::expand::Env;

/// Limit on the size of a config, in bytes: the compiler can't be interrupted, and an honest config has a few KiB.
pub(in crate::config) const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Write permission of group and others.
pub(in crate::config) const OTHERS_WRITE: u32 = 0o022;

/// The way in which the config was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Named by `--config`.
    Option,
    /// Named by `$REEDCLAW_CONFIG`.
    Variable,
    /// The user's own, under `$XDG_CONFIG_HOME` or `~/.config`.
    User,
}

/// A config that was found, with its text or the reason why it can't be used.
pub(in crate::config) struct Found {
    pub(in crate::config) source: Source,
    pub(in crate::config) path: PathBuf,
    pub(in crate::config) text: Result<String, String>,
}

/// Finds the first config. If one exists but can't be used, the search ends: the user meant that one. A broken link on the path
/// to it counts as such a config, which isn't available at the moment.
pub(in crate::config) fn first(option: Option<&Path>, env: &Env, cwd: Option<&Path>) -> Option<Found> {
    // An empty path stays empty: joined with the directory, it would name the directory.
    let under_cwd = |path: &Path| match cwd {
        Some(cwd) if !path.as_os_str().is_empty() => cwd.join(path),
        _ => path.to_owned(),
    };
    if let Some(path) = option {
        let path = under_cwd(path);
        let text = read(&path, Source::Option);
        return Some(Found { source: Source::Option, text: text.map_err(|why| why.words), path });
    }
    if let Some(path) = variable(env, "REEDCLAW_CONFIG") {
        let path = under_cwd(Path::new(path));
        let text = read(&path, Source::Variable);
        return Some(Found { source: Source::Variable, text: text.map_err(|why| why.words), path });
    }
    let path = user_path(env)?;
    match read(&path, Source::User) {
        Err(why) if why.absent => {
            let link = broken_link(&path)?;
            let words =
                if link == path { String::new() } else { format!("there is no such file: {} ", display(link, env)) };
            Some(Found { source: Source::User, text: Err(words + "is a link to something that isn't there"), path })
        }
        text => Some(Found { source: Source::User, text: text.map_err(|why| why.words), path }),
    }
}

/// The broken link because of which a path doesn't exist: the path itself, or a directory above it.
fn broken_link(path: &Path) -> Option<&Path> {
    let nearest = path.ancestors().find(|it| it.symlink_metadata().is_ok())?;
    (nearest.is_symlink() && nearest.metadata().is_err()).then_some(nearest)
}

/// `$XDG_CONFIG_HOME/reedclaw/config.lua`. A relative variable doesn't count, as the XDG specification says.
pub(in crate::config) fn user_path(env: &Env) -> Option<PathBuf> {
    Some(directories::of(env, Kind::Config)?.join("reedclaw/config.lua"))
}

fn variable<'a>(env: &'a Env, name: &str) -> Option<&'a OsStr> {
    env.get(OsStr::new(name)).map(|value| value.as_os_str()).filter(|value| !value.is_empty())
}

/// The path as a user would write it.
pub(in crate::config) fn display(path: &Path, env: &Env) -> String {
    if let Some(home) = variable(env, "HOME").filter(|home| home.len() > 1)
        && let Ok(rest) = path.strip_prefix(home)
    {
        return format!("~/{}", rest.display());
    }
    path.display().to_string()
}

struct Unreadable {
    absent: bool,
    words: String,
}

impl From<&str> for Unreadable {
    fn from(words: &str) -> Self {
        Self { absent: false, words: words.into() }
    }
}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Self {
        let absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        let words = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        Self { absent, words }
    }
}

fn read(path: &Path, source: Source) -> Result<String, Unreadable> {
    let flags = match source {
        // The option may name a pipe (`<(…)`), so the read waits for its writer.
        Source::Option => 0,
        // Opening a pipe without a writer must not block a login.
        Source::Variable | Source::User => libc::O_NONBLOCK,
    };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // The metadata are those of the open file, so that it can't be replaced between the check and the reading.
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err("is a directory".into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    text_of(bytes).map_err(|words| Unreadable { absent: false, words })
}

/// Decodes a file's bytes.
pub(in crate::config) fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {} KiB", FILE_BYTES_MAX / 1024));
    }
    // Luau's bytecode starts with its version, a control character.
    if bytes.contains(&0) || bytes.first().is_some_and(|byte| *byte < b'\t') {
        return Err("is not text; compiled Lua is refused".into());
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text")?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
