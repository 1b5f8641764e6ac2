//! The workspace at the last snapshot: each entry with its stamp and, if it is stored, the hash of its content. A file with an
//! unchanged stamp isn't read again.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::ObjectId;

use super::state::{State, Why};
use crate::files::Stamp;

/// First bytes of a table's file: what it is, and its version.
const HEAD: &[u8] = b"reedclaw-table 2\n";
/// Last bytes of a complete table.
const END: &[u8] = b"end\n";

/// Place where the content of an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A directory has none.
    None,
    /// In the store of steps.
    Kept(ObjectId),
    /// In the packs of the user's repository, which has it anyway. It was read, or git's index says so.
    Packed { id: ObjectId, is_read: bool },
    /// Nowhere.
    Lost(Why),
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Box<[u8]>,
    pub stamp: Stamp,
    pub content: Content,
    /// Read within the tick of its last change: another one could have left the same stamp.
    pub is_racy: bool,
}

impl Entry {
    /// Returns the state of the entry.
    pub fn state(&self) -> State {
        let mode = self.stamp.permissions();
        match self.content {
            Content::None => State::Directory { mode },
            Content::Kept(id) | Content::Packed { id, .. } if self.stamp.is_link() => State::Link { id },
            Content::Kept(id) | Content::Packed { id, .. } => State::File { mode, id },
            Content::Lost(why) => State::Unknown(why),
        }
    }

    /// Returns whether both have the same content, as far as that is known.
    fn is_same(&self, other: &Self) -> bool {
        match (self.content, other.content) {
            (Content::Lost(_), _) | (_, Content::Lost(_)) => self.stamp == other.stamp,
            _ => self.state() == other.state(),
        }
    }
}

/// Entries of a directory, by name.
pub type Listing = Vec<Entry>;

/// Everything that is covered.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub directories: BTreeMap<PathBuf, Arc<Listing>>,
    /// The paths that aren't covered, and why.
    pub skipped: BTreeSet<(PathBuf, Why)>,
    /// The packs of the user's repository that contents are in.
    pub packs: BTreeSet<PathBuf>,
}

/// A difference at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The place.
    pub path: PathBuf,
    /// The earlier state.
    pub before: State,
    /// The present state.
    pub after: State,
}

impl Table {
    /// Returns whether both say the very same, to the stamp.
    pub fn is_as(&self, other: &Self) -> bool {
        self.skipped == other.skipped
            && self.packs == other.packs
            && self.directories.len() == other.directories.len()
            && self.directories.iter().zip(&other.directories).all(|((path, listing), (other_path, other))| {
                path == other_path && (Arc::ptr_eq(listing, other) || listing == other)
            })
    }

    /// Bytes of the contents that the store holds for it.
    pub fn kept_bytes(&self) -> u64 {
        let entries = self.directories.values().flat_map(|listing| listing.iter());
        entries.filter(|it| matches!(it.content, Content::Kept(_))).map(|it| it.stamp.size).sum()
    }

    /// Returns the changes since `self`.
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        static NONE: Listing = Vec::new();
        let mut changes = Vec::new();
        let paths: BTreeSet<&PathBuf> = self.directories.keys().chain(now.directories.keys()).collect();
        for path in paths {
            let (old, new) = (self.directories.get(path), now.directories.get(path));
            if let (Some(old), Some(new)) = (old, new)
                && Arc::ptr_eq(old, new)
            {
                continue;
            }
            let (old, new) = (old.map_or(&NONE, |it| &**it), new.map_or(&NONE, |it| &**it));
            joined(old, new, |name, old, new| {
                let is_same = match (old, new) {
                    (Some(old), Some(new)) => old.is_same(new),
                    (None, None) => true,
                    _ => false,
                };
                if !is_same {
                    let state = |it: Option<&Entry>| it.map_or(State::Nothing, Entry::state);
                    let path = path.join(std::ffi::OsStr::from_bytes(name));
                    changes.push(Change { path, before: state(old), after: state(new) });
                }
            });
        }
        // A path that is covered at one time only is unknown at the other.
        let skipped: BTreeSet<&Path> =
            self.skipped.iter().chain(&now.skipped).map(|(path, _)| path.as_path()).collect();
        changes.retain(|it| !it.path.ancestors().any(|path| skipped.contains(path)));
        changes.sort_by(|left, right| left.path.cmp(&right.path));
        changes
    }

    /// Returns all files whose contents aren't stored, and why.
    pub fn lost(&self) -> impl Iterator<Item = (PathBuf, Why)> + '_ {
        let entries = self.directories.iter().flat_map(|(path, listing)| listing.iter().map(move |it| (path, it)));
        entries.filter_map(|(path, entry)| match entry.content {
            Content::Lost(why) => Some((path.join(std::ffi::OsStr::from_bytes(&entry.name)), why)),
            _ => None,
        })
    }

    /// Every object that it names as kept.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.directories.values().flat_map(|listing| listing.iter()).filter_map(|entry| match entry.content {
            Content::Kept(id) => Some(id),
            _ => None,
        })
    }

    /// As bytes, to be read by [`Table::read`].
    pub fn bytes(&self) -> Vec<u8> {
        let entries: usize = self.directories.values().map(|listing| listing.len()).sum();
        let mut out = Vec::with_capacity(entries * 96 + 4096);
        out.extend_from_slice(HEAD);
        let put = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        let number = |out: &mut Vec<u8>, number: usize| out.extend_from_slice(&(number as u64).to_le_bytes());
        number(&mut out, self.skipped.len());
        for (path, why) in &self.skipped {
            put(&mut out, path.as_os_str().as_bytes());
            out.push(why.letter());
        }
        number(&mut out, self.packs.len());
        self.packs.iter().for_each(|path| put(&mut out, path.as_os_str().as_bytes()));
        number(&mut out, self.directories.len());
        for (path, listing) in &self.directories {
            put(&mut out, path.as_os_str().as_bytes());
            number(&mut out, listing.len());
            for Entry { name, stamp, content, is_racy } in listing.iter() {
                put(&mut out, name);
                out.extend_from_slice(&stamp.mode.to_le_bytes());
                out.extend_from_slice(&stamp.size.to_le_bytes());
                out.extend_from_slice(&stamp.inode.to_le_bytes());
                out.extend_from_slice(&stamp.modified_ns.to_le_bytes());
                out.extend_from_slice(&stamp.changed_ns.to_le_bytes());
                out.push(u8::from(*is_racy));
                match content {
                    Content::None => out.push(b'-'),
                    Content::Lost(why) => out.push(why.letter()),
                    Content::Kept(id) => {
                        out.push(b'K');
                        out.extend_from_slice(id.as_slice());
                    }
                    Content::Packed { id, is_read } => {
                        out.push(if *is_read { b'P' } else { b'I' });
                        out.extend_from_slice(id.as_slice());
                    }
                }
            }
        }
        out.extend_from_slice(END);
        out
    }

    /// Reads one; nothing if it isn't whole.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes.strip_prefix(HEAD)?);
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        let mut table = Self::default();
        for _ in 0..from.number()? {
            table.skipped.insert((path(from.text()?), Why::of(from.byte()?)?));
        }
        for _ in 0..from.number()? {
            table.packs.insert(path(from.text()?));
        }
        for _ in 0..from.number()? {
            let directory = path(from.text()?);
            let count = usize::try_from(from.number()?).ok()?;
            let mut listing = Listing::with_capacity(count.min(bytes.len()));
            for _ in 0..count {
                listing.push(from.entry()?);
            }
            table.directories.insert(directory, Arc::new(listing));
        }
        (from.0 == END).then_some(table)
    }
}

/// Walks over two listings at once, by name.
pub fn joined(old: &[Entry], new: &[Entry], mut each: impl FnMut(&[u8], Option<&Entry>, Option<&Entry>)) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(old), Some(new)) => old.name.cmp(&new.name),
        };
        let left = if order.is_le() { old.next() } else { None };
        let right = if order.is_ge() { new.next() } else { None };
        if let Some(name) = left.or(right).map(|it| &it.name) {
            each(name, left, right);
        }
    }
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.array().map(u32::from_le_bytes)?;
        self.take(length as usize)
    }

    fn entry(&mut self) -> Option<Entry> {
        let name = self.text()?.into();
        let mode = self.array().map(u32::from_le_bytes)?;
        let (size, inode) = (self.number()?, self.number()?);
        let (modified_ns, changed_ns) = (self.array().map(i64::from_le_bytes)?, self.array().map(i64::from_le_bytes)?);
        let (is_racy, letter) = (self.byte()? != 0, self.byte()?);
        let mut id = || Some(ObjectId::from_bytes_or_panic(self.take(20)?));
        let content = match letter {
            b'-' => Content::None,
            b'K' => Content::Kept(id()?),
            b'P' | b'I' => Content::Packed { id: id()?, is_read: letter == b'P' },
            letter => Content::Lost(Why::of(letter)?),
        };
        Some(Entry { name, stamp: Stamp { mode, size, inode, modified_ns, changed_ns }, content, is_racy })
    }
}
