//! A project's file, `.reedclaw.lua`, or `config.lua` in the directory of a start without a config: which one counts, its bytes,
//! read once, and its changes, found in its source without running anything. Nothing here puts it into effect; `trust` does.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

use crate::config::overlay::layers::Layers;
use crate::config::overlay::tighten;
use crate::config::reading::find::{self, FILE_BYTES_MAX, OTHERS_WRITE};
use crate::config::reading::places::Places;
use crate::config::reading::problem::{dotted, shorten};
use crate::config::{Env, LoadRequest, Loaded};

/// The name of a project's file.
pub const FILE_NAME: &str = ".reedclaw.lua";
/// The name of a config in the directory where ReedClaw starts.
const CONFIG_NAME: &str = "config.lua";
/// Longest value that the list of changes shows, in characters.
const VALUE_CHARS_MAX: usize = 60;

/// A project's file as one look found it; comparing two looks shows another file or other bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    path: PathBuf,
    /// Device, inode, size, changed and modified times in seconds and nanoseconds.
    stamp: [i128; 5],
}

/// A project's file that can't be used, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file, as a user would write it.
    pub file: String,
    /// Reason why it is refused.
    pub why: String,
}

/// A project's file with the exact bytes that were read. It has no effect yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The directory that contains it, with links resolved.
    pub(in crate::config) root: PathBuf,
    /// The directory's device and inode.
    pub(in crate::config) root_id: (u64, u64),
    pub(in crate::config) text: String,
    file: String,
}

/// One thing that a project's file would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, from the top.
    pub key: String,
    /// The line in the file.
    pub line: u32,
    /// The value without the project's file, as Lua writes it; `None` for a hook, or if there is none.
    pub from: Option<String>,
    /// The source text of the new value.
    pub to: String,
    /// `true` if it can only add to the value in force, whatever its entries are.
    pub adds: bool,
    /// Reason why it will be refused, in words that follow "a project can't".
    pub refused: Option<String>,
}

impl Look {
    /// Looks for the nearest project's file: in `cwd` and above it, up to `home` if that is above, else up to `/`.
    /// Without one, `config.lua` counts in `start`, the directory of the start, if the user has no own config. Opens
    /// nothing.
    #[must_use]
    pub fn around(cwd: &Path, home: Option<&Path>, start: Option<&Path>) -> Option<Self> {
        let cwd = cwd.canonicalize().ok()?;
        let home = home.and_then(|home| home.canonicalize().ok());
        let last = home.as_deref().filter(|home| cwd.starts_with(home));
        for directory in cwd.ancestors() {
            if let Some(look) = Self::at(directory.join(FILE_NAME)) {
                return Some(look);
            }
            if Some(directory) == last {
                break;
            }
        }
        let is_start = start.and_then(|start| start.canonicalize().ok()).is_some_and(|start| start == cwd);
        is_start.then(|| Self::at(cwd.join(CONFIG_NAME))).flatten()
    }

    /// Looks for the project's file of a request's directory; `config.lua` counts only if `loaded` has no config of the user's.
    #[must_use]
    pub fn of_request(request: &LoadRequest, loaded: &Loaded) -> Option<Self> {
        let home = request.env.get(OsStr::new("HOME")).map(PathBuf::from);
        let start = loaded.path.is_none().then_some(request.cwd.as_path());
        Self::around(&request.cwd, home.as_deref(), start)
    }

    fn at(path: PathBuf) -> Option<Self> {
        let data = path.symlink_metadata().ok()?;
        let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        let stamp = [
            i128::from(data.dev()),
            i128::from(data.ino()),
            i128::from(data.size()),
            time(data.ctime(), data.ctime_nsec()),
            time(data.mtime(), data.mtime_nsec()),
        ];
        Some(Self { path, stamp })
    }

    /// The directory that contains the file.
    pub(in crate::config) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns whether this is the directory's `config.lua`, which counts only if the user has no config.
    #[must_use]
    pub fn is_config(&self) -> bool {
        self.path.file_name() == Some(OsStr::new(CONFIG_NAME))
    }

    /// Reads the file that the look found.
    ///
    /// # Errors
    /// It is a link, another user's, writable by others, no plain file, too large or no text.
    pub fn read(&self, env: &Env) -> Result<Overlay, Refused> {
        let file = find::display(&self.path, env);
        let root = self.directory();
        read(root, self.path.file_name().unwrap_or_default())
            .map(|(root_id, text)| Overlay { root: root.to_owned(), root_id, text, file: file.clone() })
            .map_err(|why| Refused { file: shorten(&file, 4096), why })
    }
}

/// Opens the directory, then the file in it, so that neither can be swapped between the checks and the reading.
fn read(root: &Path, name: &OsStr) -> Result<((u64, u64), String), String> {
    let system = |error: nix::Error| match error {
        nix::Error::ELOOP => "it is a link, not a plain file".to_owned(),
        nix::Error::EACCES => "permission denied".to_owned(),
        error => std::io::Error::from(error).to_string(),
    };
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let directory: OwnedFd = open(root, flags | OFlag::O_DIRECTORY, Mode::empty()).map_err(system)?;
    // Opening a pipe without a writer must not block a prompt.
    let file = openat(&directory, name, flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY, Mode::empty());
    let file = File::from(file.map_err(system)?);
    let io = |error: std::io::Error| error.to_string();
    let data = file.metadata().map_err(io)?;
    if !data.is_file() {
        return Err("it is not a plain file".into());
    }
    if data.uid() != nix::unistd::geteuid().as_raw() {
        return Err("it belongs to another user".into());
    }
    if data.mode() & OTHERS_WRITE != 0 {
        return Err(format!("others can write it (chmod go-w {})", name.display()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    let text = find::text_of(bytes).map_err(|why| format!("it {why}"))?;
    let root = File::from(directory).metadata().map_err(io)?;
    Ok(((root.dev(), root.ino()), text))
}

impl Overlay {
    /// A directory and a text about its contents, to be trusted together. No config is read from it.
    ///
    /// # Errors
    /// The directory can't be examined.
    pub fn of_texts(root: &Path, text: String) -> std::io::Result<Self> {
        let data = root.metadata()?;
        let file = root.display().to_string();
        Ok(Self { root: root.to_owned(), root_id: (data.dev(), data.ino()), text, file })
    }

    /// The file, as a user would write it.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.file
    }

    /// Its text, as it was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The changes that its source states, and whether the list is complete: code may change more.
    #[must_use]
    pub fn changes(&self, layers: &Layers) -> (Vec<Change>, bool) {
        let places = Places::of(&self.text);
        let leaves = places.leaves().into_iter().map(|(key, place)| {
            let source = &self.text[place.value.clone()];
            let to = match source.lines().count() {
                _ if source.starts_with("function") => "a function".to_owned(),
                0 | 1 => shorten(source, VALUE_CHARS_MAX),
                lines => {
                    format!("{} … ({lines} lines)", shorten(source.lines().next().unwrap_or_default(), VALUE_CHARS_MAX))
                }
            };
            Change {
                key: dotted(key),
                line: place.line,
                from: layers.shown(key).map(|value| shorten(&value, VALUE_CHARS_MAX)),
                to,
                adds: tighten::only_adds(key),
                refused: layers.refusal(key, source),
            }
        });
        (leaves.collect(), places.is_complete())
    }
}
