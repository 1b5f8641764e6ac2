//! The definitions of a repository's sources in a file: little-endian numbers and texts with their lengths. A file that deviates
//! from this format is ignored.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{Source, Stamp};
use crate::files::read_plain;
use crate::syntax::{Definition, Kind};

/// The mark of the format; the number grows with each new format or grammar.
const MAGIC: &[u8; 8] = b"reedsym1";
/// Limit on the size of the file: 20,000 sources take some 30 MB.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
const KINDS: [Kind; 4] = [Kind::Function, Kind::Type, Kind::Module, Kind::Value];

/// Reads the stored sources of a root.
pub(super) fn read(path: &Path, root: &Path) -> Option<Vec<Source>> {
    let (_, bytes) = read_plain(path, BYTES_MAX).ok()?;
    let mut reader = Reader { rest: bytes.strip_prefix(MAGIC)? };
    if reader.bytes()? != root.as_os_str().as_bytes() {
        return None;
    }
    let count = reader.number()?;
    // Reserves no more room than the file can fill.
    let mut sources = Vec::with_capacity(count.min(bytes.len() / 32));
    for _ in 0..count {
        sources.push(reader.source()?);
    }
    reader.rest.is_empty().then_some(sources)
}

/// Stores the sources in the file, completely or not at all.
pub(super) fn write(path: &Path, root: &Path, sources: &[Source]) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    put(&mut bytes, root.as_os_str().as_bytes());
    put_number(&mut bytes, sources.len());
    sources.iter().for_each(|source| put_source(&mut bytes, source));
    super::super::storage::put(path, &bytes)
}

fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    put_number(bytes, text.len());
    bytes.extend_from_slice(text);
}

/// Writes a number: lengths, counts and lines are all below 4 GiB.
fn put_number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_source(bytes: &mut Vec<u8>, source: &Source) {
    put(bytes, source.path.as_os_str().as_bytes());
    bytes.extend_from_slice(&source.stamp.time_ns.to_le_bytes());
    bytes.extend_from_slice(&source.stamp.bytes.to_le_bytes());
    bytes.extend_from_slice(&source.stamp.inode.to_le_bytes());
    put_number(bytes, source.definitions.len());
    for it in &source.definitions {
        put(bytes, it.name.as_bytes());
        put_number(bytes, KINDS.iter().position(|kind| *kind == it.kind).unwrap_or(0));
        put_number(bytes, it.lines.0);
        put_number(bytes, it.lines.1);
        put(bytes, it.signature.as_bytes());
        put_number(bytes, it.depth);
        put(bytes, it.within.as_deref().unwrap_or_default().as_bytes());
    }
    put_number(bytes, source.references.len());
    for (number, count) in &source.references {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.fixed()?)).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn source(&mut self) -> Option<Source> {
        let path = PathBuf::from(std::ffi::OsString::from_vec(self.bytes()?.to_vec()));
        let stamp = Stamp {
            time_ns: i128::from_le_bytes(self.fixed()?),
            bytes: u64::from_le_bytes(self.fixed()?),
            inode: u64::from_le_bytes(self.fixed()?),
        };
        let mut definitions = Vec::new();
        for _ in 0..self.number()? {
            definitions.push(Definition {
                name: self.text()?,
                kind: *KINDS.get(self.number()?)?,
                lines: (self.number()?, self.number()?),
                signature: self.text()?,
                depth: self.number()?,
                within: self.text().map(|name| Some(name).filter(|name| !name.is_empty()))?,
            });
        }
        let mut references = Vec::new();
        for _ in 0..self.number()? {
            references.push((u32::from_le_bytes(self.fixed()?), u16::from_le_bytes(self.fixed()?)));
        }
        Some(Source { path, stamp, definitions, references })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_sources_are_read_back_and_a_damaged_file_is_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/kept");
        let definition = Definition {
            name: "go".into(),
            kind: Kind::Type,
            lines: (3, 9),
            signature: "fn gö()".into(),
            depth: 1,
            within: Some("Foo".into()),
        };
        let source = Source {
            path: "src/a.rs".into(),
            stamp: Stamp { time_ns: -5, bytes: 7, inode: u64::MAX },
            definitions: vec![definition.clone(), Definition { within: None, ..definition }],
            references: vec![(7, 1), (u32::MAX, 9)],
        };
        let sources = vec![source.clone(), Source { definitions: Vec::new(), ..source }];
        let root = Path::new("/here");
        write(&path, root, &sources).expect("written");
        assert_eq!(read(&path, root), Some(sources));
        assert_eq!(read(&path, Path::new("/there")), None, "another root's");
        let bytes = std::fs::read(&path).expect("bytes");
        for cut in 0..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).expect("written");
            assert_eq!(read(&path, root), None, "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            std::fs::write(&path, &damaged).expect("written");
            let _ = read(&path, root);
        }
        std::fs::write(&path, [&bytes[..], b"x"].concat()).expect("written");
        assert_eq!(read(&path, root), None);
    }
}
