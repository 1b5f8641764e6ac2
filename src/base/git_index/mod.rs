//! Git's index as bytes (gitformat-index(5), versions 2 to 4): its entries in order. A command may have written it, so it isn't
//! trusted: time and memory are proportional to its length, whatever numbers are in it.

/// Number of bytes before the entries: the signature, the version and the number of entries.
const HEAD_BYTES: usize = 12;
/// Number of bytes of an entry before its object id.
const STAT_BYTES: usize = 40;
/// Flag: two more bytes of flags follow.
const EXTENDED: u16 = 0x4000;
/// Flags with a meaning for the entry; the others are the length of its path, and [`EXTENDED`].
const MEANT: u16 = 0xb000;
/// The extension of an index some of whose entries are in another file.
const SPLIT: &[u8] = b"link";
/// The extension with the trees that git has made of directories.
const TREES: &[u8] = b"TREE";
/// Limit on the path of such a directory, in bytes: no system allows a longer one, and many long ones would take much time.
const TREE_PATH_BYTES_MAX: usize = 4096;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its path, which may be longer than any path that exists.
    pub path: &'a [u8],
    /// The id of its object.
    pub id: &'a [u8],
    /// The numbers of the file, as git read them.
    pub stat: Stat,
    /// Its kind and permission bits.
    pub mode: u32,
    /// The flags of each entry, and those of an extended one; all are 0 if it is an ordinary one.
    pub flags: [u16; 2],
}

/// The numbers of a file, each reduced to its low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The last change of anything about it: seconds and nanoseconds.
    pub changed: [u32; 2],
    /// The last change of its content.
    pub modified: [u32; 2],
    /// Its inode.
    pub inode: u32,
    /// Its length in bytes.
    pub size: u32,
}

/// Reads the entries of an index, one after the other.
pub struct Entries<'a> {
    index: &'a [u8],
    id_bytes: usize,
    /// `true` if each path omits the prefix that it shares with the previous one.
    is_packed: bool,
    left: u32,
    at: usize,
    path: Vec<u8>,
}

impl<'a> Entries<'a> {
    /// Starts at the first entry; `None` if the bytes aren't an index. Object ids have `id_bytes` bytes.
    #[must_use]
    pub fn of(index: &'a [u8], id_bytes: usize) -> Option<Self> {
        let version = number(index, 4).filter(|version| index.starts_with(b"DIRC") && (2..=4).contains(version))?;
        let left = number(index, 8)?;
        Some(Self { index, id_bytes, is_packed: version == 4, left, at: HEAD_BYTES, path: Vec::new() })
    }

    /// Reads the next entry; `None` after the last one, and at damaged data. The path of a packed entry is stored in this reader.
    pub fn next_entry(&mut self) -> Option<Entry<'_>> {
        let left = self.left.checked_sub(1)?;
        let (index, at) = (self.index, self.at);
        let flags_at = at + STAT_BYTES + self.id_bytes;
        let flags = short(index, flags_at)?;
        let is_extended = flags & EXTENDED != 0;
        let more = if is_extended { short(index, flags_at + 2)? } else { 0 };
        let mut path_at = flags_at + if is_extended { 4 } else { 2 };
        let common =
            if self.is_packed { self.path.len().checked_sub(packed_number(index, &mut path_at)?)? } else { 0 };
        let rest = index.get(path_at..)?;
        let length = memchr::memchr(0, rest)?;
        self.path.truncate(common);
        self.path.extend_from_slice(&rest[..length]);
        // An unpacked path is followed by one to eight zeros, up to a multiple of eight.
        self.at = if self.is_packed { path_at + length + 1 } else { at + ((path_at - at + length) / 8 + 1) * 8 };
        self.left = left;
        let field = |place: usize| number(index, at + place * 4);
        Some(Entry {
            path: &self.path,
            id: index.get(at + STAT_BYTES..flags_at)?,
            stat: Stat {
                changed: [field(0)?, field(1)?],
                modified: [field(2)?, field(3)?],
                inode: field(5)?,
                size: field(9)?,
            },
            mode: field(6)?,
            flags: [flags & MEANT, more],
        })
    }

    /// Returns whether all entries were read, and the index is complete: another file may contain some.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.extensions().is_some_and(|all| all.iter().all(|(name, _)| *name != SPLIT)) && self.left == 0
    }

    /// Reads, after the last entry, the names of the trees that git has made of whole directories, by their paths. A directory
    /// with an entry that was changed since then isn't included.
    #[must_use]
    pub fn cached_trees(&self) -> Vec<(Vec<u8>, &'a [u8])> {
        let found = self.extensions().filter(|_| self.left == 0).unwrap_or_default();
        let content = found.into_iter().find(|(name, _)| *name == TREES).map(|(_, content)| content);
        content.and_then(|content| trees_of(content, self.id_bytes)).unwrap_or_default()
    }

    /// The extensions after the entries, each with its name; `None` if they don't extend to the end.
    fn extensions(&self) -> Option<Vec<(&'a [u8], &'a [u8])>> {
        let rest = self.index.get(self.at..self.index.len().checked_sub(self.id_bytes)?)?;
        let (mut at, mut all) = (0, Vec::new());
        while at < rest.len() {
            let size = usize::try_from(number(rest, at + 4)?).ok()?;
            all.push((&rest[at..at + 4], rest.get(at + 8..at.checked_add(size)?.checked_add(8)?)?));
            at += size + 8;
        }
        Some(all)
    }
}

/// Reads the extension with trees: for each tree its name, the numbers of its entries and subtrees, its object if it is valid,
/// then its subtrees.
fn trees_of(content: &[u8], id_bytes: usize) -> Option<Vec<(Vec<u8>, &[u8])>> {
    let (mut all, mut rest) = (Vec::new(), content);
    // The paths of the open trees, each with the number of subtrees that are still to come.
    let mut open: Vec<(Vec<u8>, usize)> = Vec::new();
    while !rest.is_empty() {
        let end = memchr::memchr(0, rest)?;
        let line = end + memchr::memchr(b'\n', &rest[end..])?;
        let numbers = std::str::from_utf8(rest.get(end + 1..line)?).ok()?.split_once(' ')?;
        let (entries, subtrees) = (numbers.0.parse::<i64>().ok()?, numbers.1.parse::<usize>().ok()?);
        let mut path = open.last().map(|(path, _)| path.clone()).unwrap_or_default();
        if !open.is_empty() {
            path.extend((!path.is_empty()).then_some(b'/'));
            path.extend(&rest[..end]);
        }
        if path.len() > TREE_PATH_BYTES_MAX {
            return None;
        }
        rest = &rest[line + 1..];
        if entries >= 0 {
            all.push((path.clone(), rest.get(..id_bytes)?));
            rest = &rest[id_bytes..];
        }
        if let Some((_, left)) = open.last_mut() {
            *left = left.checked_sub(1)?;
        }
        open.push((path, subtrees));
        while open.last().is_some_and(|(_, left)| *left == 0) {
            open.pop();
        }
    }
    open.is_empty().then_some(all)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads a number with seven bits per byte, as in packs, and advances past it.
fn packed_number(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut number = 0_usize;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number = number.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
        if byte & 128 == 0 {
            return Some(number);
        }
        number = number.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests;
