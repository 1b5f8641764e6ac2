//! The state of a path, the changes of a step, and the written form of both: lines of text, names as hexadecimal digits.

use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::table::Change;

/// First line of a record: what it is, and its version.
const HEAD: &str = "reedclaw-step 1";
/// Last line of a complete record.
const END: &str = "end";

/// Reason why something isn't covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Larger than `undo.file_bytes_max`.
    Large,
    /// A pipe, a socket, a device.
    Special,
    /// There was no time or no space to store it.
    Budget,
    /// Unreadable.
    Closed,
    /// Belongs to a place of credentials, or is the shell's own.
    Secret,
    /// A cache according to its `CACHEDIR.TAG`: its contents can be made again.
    Cache,
    /// Another file system is mounted there.
    Mount,
    /// Git's own state.
    Git,
    /// Only the user's repository had it, and has it no more.
    Gone,
}

impl Why {
    const ALL: [(Self, u8, &'static str); 9] = [
        (Self::Large, b'l', "larger than undo.file_bytes_max"),
        (Self::Special, b's', "no regular file"),
        (Self::Budget, b'b', "not kept in time, or no room for it in undo.bytes_max"),
        (Self::Closed, b'x', "it can't be read"),
        (Self::Secret, b'c', "a place of credentials"),
        (Self::Cache, b't', "a cache (CACHEDIR.TAG)"),
        (Self::Mount, b'm', "another file system"),
        (Self::Git, b'g', "git's own state"),
        (Self::Gone, b'o', "only git had it, and its packs were damaged"),
    ];

    pub fn letter(self) -> u8 {
        Self::ALL.iter().find(|(why, ..)| *why == self).map_or(b'b', |(_, letter, _)| *letter)
    }

    pub fn of(letter: u8) -> Option<Self> {
        Self::ALL.iter().find(|(_, it, _)| *it == letter).map(|(why, ..)| *why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(why, ..)| why == self).map_or("", |(.., words)| words))
    }
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Nothing,
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// The name of its content.
        id: ObjectId,
    },
    /// A symbolic link.
    Link {
        /// The hash of its target.
        id: ObjectId,
    },
    /// Something whose content isn't stored.
    Unknown(Why),
}

impl State {
    /// The name of its content.
    #[must_use]
    pub fn id(self) -> Option<ObjectId> {
        match self {
            Self::File { id, .. } | Self::Link { id } => Some(id),
            _ => None,
        }
    }

    /// Returns whether it is a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    fn text(self) -> String {
        match self {
            Self::Nothing => "-".to_owned(),
            Self::Directory { mode } => format!("d:{mode:o}"),
            Self::File { mode, id } => format!("f:{mode:o}:{}", id.to_hex()),
            Self::Link { id } => format!("l:{}", id.to_hex()),
            Self::Unknown(why) => format!("?:{}", char::from(why.letter())),
        }
    }

    fn of(text: &str) -> Option<Self> {
        let id = |text: &str| ObjectId::from_hex(text.as_bytes()).ok();
        let mode = |text: &str| u32::from_str_radix(text, 8).ok();
        Some(match text.split(':').collect::<Vec<_>>()[..] {
            ["-"] => Self::Nothing,
            ["d", bits] => Self::Directory { mode: mode(bits)? },
            ["f", bits, name] => Self::File { mode: mode(bits)?, id: id(name)? },
            ["l", name] => Self::Link { id: id(name)? },
            ["?", letter] => Self::Unknown(Why::of(*letter.as_bytes().first()?)?),
            _ => return None,
        })
    }
}

/// The origin of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command of a model, or a program of a plugin.
    Command,
    /// An edit of a model.
    Edit,
    /// An undo by a person, which can be undone too.
    Undo,
}

impl Kind {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Edit => "edit",
            Self::Undo => "undo",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Command, Self::Edit, Self::Undo].into_iter().find(|kind| kind.word() == word)
    }
}

/// A step of another place that belongs to a step of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The directory of the other steps.
    pub root: PathBuf,
    /// The number of the step there.
    pub number: u64,
    /// Files that it changed.
    pub files: usize,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, from 1 in each workspace.
    pub number: u64,
    /// Time when it was over, Unix milliseconds.
    pub time: i64,
    /// The session that it came from, or [`OF_RUN`] and the number of a run.
    pub session: String,
    /// The origin.
    pub kind: Kind,
    /// The command line, or what was edited.
    pub text: String,
    /// The tree of the changed paths before.
    pub before: ObjectId,
    /// The tree of the changed paths after.
    pub after: ObjectId,
    /// True if it has been reverted.
    pub is_undone: bool,
    /// The first of the earlier steps that were reverted when it was made. Redo leaves those out: this one replaces them.
    pub sets_aside: Option<u64>,
    /// Further notes: git's own state, a command that was cut off.
    pub notes: Vec<String>,
    /// Steps of other places that belong to it.
    pub outside: Vec<Elsewhere>,
    /// The changes.
    pub changes: Vec<Change>,
}

fn name(path: &Path) -> String {
    crate::base::hex::encode(path.as_os_str().as_bytes())
}

pub fn bytes_of(text: &str) -> Option<Vec<u8>> {
    text.as_bytes()
        .chunks(2)
        .map(|digits| crate::base::hex::decode::<1>(std::str::from_utf8(digits).ok()?).map(|[byte]| byte))
        .collect()
}

fn path_of(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes_of(text)?)))
}

fn text_of(text: &str) -> Option<String> {
    String::from_utf8(bytes_of(text)?).ok()
}

/// Changes, a line each.
pub fn change_lines(changes: &[Change]) -> String {
    let line =
        |Change { path, before, after }: &Change| format!("change {} {} {}\n", name(path), before.text(), after.text());
    changes.iter().map(line).collect()
}

/// Reads one such line.
pub fn change_of(line: &str) -> Option<Change> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["change", path, before, after] => {
            Some(Change { path: path_of(path)?, before: State::of(before)?, after: State::of(after)? })
        }
        _ => None,
    }
}

/// The beginning of the name of a run's steps, which has no session's name.
pub const OF_RUN: &str = "run-";

impl Record {
    pub fn text(&self) -> String {
        let hex = |text: &str| crate::base::hex::encode(text.as_bytes());
        let Self { number, time, session, kind, text, before, after, is_undone, sets_aside, notes, outside, changes } =
            self;
        let mut out = format!(
            "{HEAD}\nnumber {number}\ntime {time}\nsession {session}\nkind {}\ntext {}\nbefore {}\nafter {}\nundone {}\n",
            kind.word(),
            hex(text),
            before.to_hex(),
            after.to_hex(),
            u8::from(*is_undone)
        );
        sets_aside.iter().for_each(|first| out.push_str(&format!("aside {first}\n")));
        notes.iter().for_each(|note| out.push_str(&format!("note {}\n", hex(note))));
        for Elsewhere { root, number, files } in outside {
            out.push_str(&format!("outside {} {number} {files}\n", name(root)));
        }
        out + &change_lines(changes) + END + "\n"
    }

    /// Reads one; nothing if it isn't whole.
    pub fn of(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?.strip_suffix(&format!("{END}\n"))?.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let id = |text: &str| ObjectId::from_hex(text.as_bytes()).ok();
        let mut record = Self {
            number: field("number")?.parse().ok()?,
            time: field("time")?.parse().ok()?,
            session: field("session")?.to_owned(),
            kind: Kind::of(field("kind")?)?,
            text: text_of(field("text")?)?,
            before: id(field("before")?)?,
            after: id(field("after")?)?,
            is_undone: field("undone")? == "1",
            sets_aside: None,
            notes: Vec::new(),
            outside: Vec::new(),
            changes: Vec::new(),
        };
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["aside", first] => record.sets_aside = Some(first.parse().ok()?),
                ["note", note] => record.notes.push(text_of(note)?),
                ["outside", root, number, files] => {
                    let (number, files) = (number.parse().ok()?, files.parse().ok()?);
                    record.outside.push(Elsewhere { root: path_of(root)?, number, files });
                }
                _ => record.changes.push(change_of(line)?),
            }
        }
        Some(record)
    }

    /// The run towards a goal that made it.
    #[must_use]
    pub fn run(&self) -> Option<i64> {
        self.session.strip_prefix(OF_RUN)?.parse().ok()
    }

    /// Files and links that it changed.
    #[must_use]
    pub fn files(&self) -> usize {
        let outside: usize = self.outside.iter().map(|it| it.files).sum();
        self.changes.iter().filter(|it| !is_of_directories(it)).count() + outside
    }

    /// Returns the changes that undo can't revert, with the reason: the earlier state wasn't stored, or it can't be known whether
    /// the result of the step is still there.
    pub fn lost(&self) -> impl Iterator<Item = (&Path, Why)> {
        self.changes.iter().filter_map(|it| match (it.before, it.after) {
            (State::Unknown(why), _) | (_, State::Unknown(why)) => Some((it.path.as_path(), why)),
            _ => None,
        })
    }
}

/// Returns whether a change concerns only directories.
pub fn is_of_directories(change: &Change) -> bool {
    let is = |state: State| state.is_directory() || state == State::Nothing;
    is(change.before) && is(change.after)
}
