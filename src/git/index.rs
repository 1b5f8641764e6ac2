//! Git's index as a file (gitformat-index(5), version 3): the expected content of a work tree. It is only written for directories
//! of ours, never for a work tree of the user's.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::{GitError, Mode, Oid, other};

/// Bytes before the entries: the signature, the version and their number.
const HEAD_BYTES: usize = 12;
/// Bytes of an entry before the name of its content.
const STAT_BYTES: usize = 40;
/// Flag: two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;
/// Flag among these: the file isn't expected in the work tree.
const SKIPPED: u16 = 0x4000;
/// Longest name whose length the flags hold.
const NAME_BYTES_MAX: usize = 0xfff;

/// The entry of a path.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry {
    /// Its kind.
    pub mode: Mode,
    /// Its content.
    pub id: Oid,
    /// The numbers of the file, by which git sees that it is unchanged; zeros let git read it.
    pub stat: [u32; 10],
    /// `true` if the work tree needn't have it.
    pub is_skipped: bool,
}

/// The numbers of a file, as the index holds them; the mode is git's and not among them.
#[must_use]
pub fn stat_of(data: &Metadata) -> [u32; 10] {
    // The format has the low 32 bits of each.
    let low = |number: u64| (number & 0xffff_ffff) as u32;
    let signed = |number: i64| low(number.cast_unsigned());
    let [ctime, mtime] = [(data.ctime(), data.ctime_nsec()), (data.mtime(), data.mtime_nsec())];
    [
        signed(ctime.0),
        signed(ctime.1),
        signed(mtime.0),
        signed(mtime.1),
        low(data.dev()),
        low(data.ino()),
        0,
        data.uid(),
        data.gid(),
        low(data.len()),
    ]
}

/// Makes an index out of another one and of changes to it, by path; `None` removes an entry. Without another one the changes
/// are all there is. `like` is a name in the hash of the repository.
///
/// # Errors
/// The other one can't be read.
pub fn index(
    old: Option<&[u8]>,
    changes: &BTreeMap<Vec<u8>, Option<IndexEntry>>,
    like: Oid,
) -> Result<Vec<u8>, GitError> {
    let mut all = Vec::with_capacity(old.map_or(0, <[u8]>::len) + changes.len() * 100);
    all.extend(b"DIRC\0\0\0\x03\0\0\0\0");
    let (mut count, mut changes) = (0_u32, changes.iter().peekable());
    let put = |all: &mut Vec<u8>, (path, entry): (&Vec<u8>, &Option<IndexEntry>)| {
        let Some(entry) = entry else { return 0 };
        put(all, path, entry);
        1
    };
    let mut at = HEAD_BYTES;
    for _ in 0..old.map_or(Ok(0), entries_of)? {
        let (entry, path) = old.and_then(|old| entry_at(old, at, like)).ok_or_else(damaged)?;
        at += entry.len();
        while let Some(change) = changes.next_if(|(changed, _)| changed.as_slice() < path) {
            count += put(&mut all, change);
        }
        match changes.next_if(|(changed, _)| changed.as_slice() == path) {
            Some(change) => count += put(&mut all, change),
            None => {
                all.extend(entry);
                count += 1;
            }
        }
    }
    for change in changes {
        count += put(&mut all, change);
    }
    all[8..HEAD_BYTES].copy_from_slice(&count.to_be_bytes());
    let mut hasher = gix::hash::hasher(like.kind());
    hasher.update(&all);
    all.extend(hasher.try_finalize().map_err(other)?.as_bytes());
    Ok(all)
}

fn damaged() -> GitError {
    GitError::Other("an index of a session can't be read".to_owned())
}

/// The number of entries of an index of ours.
fn entries_of(index: &[u8]) -> Result<u32, GitError> {
    let head = index.get(..HEAD_BYTES).filter(|head| head.starts_with(b"DIRC\0\0\0\x03")).ok_or_else(damaged)?;
    Ok(u32::from_be_bytes([head[8], head[9], head[10], head[11]]))
}

/// The entry at an offset, with its path.
fn entry_at(index: &[u8], at: usize, like: Oid) -> Option<(&[u8], &[u8])> {
    let entry = index.get(at..)?;
    let flags_at = STAT_BYTES + like.as_bytes().len();
    let flags = u16::from_be_bytes([*entry.get(flags_at)?, *entry.get(flags_at + 1)?]);
    let name_at = flags_at + if flags & EXTENDED == 0 { 2 } else { 4 };
    let length = entry.get(name_at..)?.iter().position(|byte| *byte == 0)?;
    let end = padded(name_at + length);
    Some((entry.get(..end)?, &entry[name_at..name_at + length]))
}

/// The length of an entry with the zeros after its name: at least one, up to a multiple of eight.
fn padded(length: usize) -> usize {
    (length / 8 + 1) * 8
}

fn put(all: &mut Vec<u8>, path: &[u8], entry: &IndexEntry) {
    let begin = all.len();
    let mode = u32::from_str_radix(entry.mode.octal(), 8).unwrap_or_default();
    let mut stat = entry.stat;
    stat[6] = mode;
    all.extend(stat.iter().flat_map(|number| number.to_be_bytes()));
    all.extend(entry.id.as_bytes());
    let length = u16::try_from(path.len().min(NAME_BYTES_MAX)).unwrap_or_default();
    all.extend((length | if entry.is_skipped { EXTENDED } else { 0 }).to_be_bytes());
    if entry.is_skipped {
        all.extend(SKIPPED.to_be_bytes());
    }
    all.extend(path);
    all.resize(begin + padded(all.len() - begin), 0);
}
