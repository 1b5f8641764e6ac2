//! Git's packs: many contents in one file. The store of steps writes the new contents of a snapshot into packs of its own, since
//! one file for each would cost ten times as much; those of the user's repository are only read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::hash::Kind as Hash;
use gix::objs::Kind as ObjectKind;
use gix::odb::pack::data::decode::entry::ResolvedBase;
use gix::odb::pack::data::decode::header::ResolvedBase as ResolvedHeader;
use gix::odb::pack::data::entry::Header;
use gix::odb::pack::{cache, data, index};
use gix::zlib::stream::deflate::{Compress, FlushCompress};
use gix::zlib::{Compression, Inflate, Status};

use super::name_of;

/// Size at which a pack is written, in bytes: it is held in memory until then.
const PACK_BYTES: usize = 16 * 1024 * 1024;
/// Limit on the packs of a repository that are held open, the largest ones; each needs two descriptors.
const HELD_MAX: usize = 100;
/// Prefix of the name of an unfinished pack.
const UNFINISHED: &str = "tmp_";

/// Packs that are open for reading.
#[derive(Default)]
pub struct Packs {
    packs: Vec<Pack>,
}

struct Pack {
    /// Without its extension.
    path: PathBuf,
    index: index::File<gix::odb::pack::MMap>,
    data: data::File<gix::odb::pack::MMap>,
}

impl Packs {
    /// Opens those below a directory of objects; one that can't be read is left out.
    pub fn open(objects: &Path) -> Self {
        let pack = |path: PathBuf| {
            let (index, data) = (path.with_extension("idx"), path.with_extension("pack"));
            Pack::open(path, &index, &data, None)
        };
        Self { packs: names(objects).into_iter().filter_map(pack).collect() }
    }

    /// Returns whether one of them holds this content.
    pub fn hold(&self, id: &ObjectId) -> bool {
        self.packs.iter().any(|pack| pack.index.lookup(id).is_some())
    }

    /// The length of a content, as the pack's headers say it.
    pub fn length(&self, id: &ObjectId, inflate: &mut Inflate) -> Option<u64> {
        let pack = self.packs.iter().find(|pack| pack.index.lookup(id).is_some())?;
        let base = |id: &gix::oid| Ok(pack.entry(id)?.map(ResolvedHeader::InPack));
        let header = pack.data.decode_header(pack.entry(id).ok()??, inflate, &base).ok()?;
        (header.kind == ObjectKind::Blob).then_some(header.object_size)
    }

    /// Returns a content; `None` if no pack has it, or it doesn't match its hash.
    pub fn content(&self, id: &ObjectId) -> Option<Vec<u8>> {
        self.packs.iter().find_map(|pack| {
            let (mut bytes, mut inflate) = (Vec::new(), Inflate::default());
            let base = |id: &gix::oid, _: &mut Vec<u8>| Ok(pack.entry(id)?.map(ResolvedBase::InPack));
            let entry = pack.entry(id).ok()??;
            let found = pack.data.decode_entry(entry, &mut bytes, &mut inflate, &base, &mut cache::Never).ok()?;
            (found.kind == ObjectKind::Blob && name_of(&bytes) == Some(*id)).then_some(bytes)
        })
    }

    /// Returns all contents, each with its size in the pack.
    pub fn sizes(&self) -> HashMap<ObjectId, u64> {
        let sizes = self.packs.iter().flat_map(|pack| pack.entries().map(|(id, from, to)| (id, to - from)));
        sizes.collect()
    }

    /// Returns the number of packs below the full size.
    pub fn small(&self) -> usize {
        self.packs.iter().filter(|pack| pack.is_small()).count()
    }

    /// Merges the small packs; contents that aren't wanted are removed, and the packs that had them are rewritten. No other
    /// process may write here meanwhile.
    pub fn rewrite(&self, objects: &Path, wanted: Option<&HashSet<ObjectId>>) -> std::io::Result<()> {
        let is_wanted = |id: &ObjectId| wanted.is_none_or(|wanted| wanted.contains(id));
        let is_kept = |pack: &&Pack| !pack.is_small() && pack.index.iter().all(|entry| is_wanted(&entry.oid));
        let (staying, old): (Vec<&Pack>, Vec<&Pack>) = self.packs.iter().partition(is_kept);
        let (mut packer, mut seen) = (Packer::new(objects), HashSet::new());
        for (pack, (id, from, to)) in old.iter().flat_map(|pack| pack.entries().map(move |entry| (pack, entry))) {
            if is_wanted(&id) && seen.insert(id) {
                let entry = pack.data.entry_slice(from..to).ok_or(std::io::ErrorKind::InvalidData)?;
                packer.take_over(id, entry)?;
            }
        }
        packer.finish()?;
        let staying: HashSet<&Path> =
            staying.iter().map(|pack| pack.path.as_path()).chain(packer.new_packs()).collect();
        for pack in old.iter().filter(|pack| !staying.contains(pack.path.as_path())) {
            let _ = std::fs::remove_file(pack.path.with_extension("idx"));
            let _ = std::fs::remove_file(pack.path.with_extension("pack"));
        }
        let entries = std::fs::read_dir(objects.join("pack")).into_iter().flatten().flatten();
        let unfinished = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(UNFINISHED));
        unfinished.for_each(|entry| drop(std::fs::remove_file(entry.path())));
        Ok(())
    }
}

impl Pack {
    fn open(path: PathBuf, index: &Path, data: &Path, longest: Option<usize>) -> Option<Self> {
        let index = index::File::at(index, Hash::Sha1).ok()?;
        let data = data::File::at(data, Hash::Sha1).ok()?.with_alloc_limit_bytes(longest);
        // A truncated pack ends differently from what its index says.
        (index.pack_checksum() == data.checksum()).then_some(Self { path, index, data })
    }

    fn entry(&self, id: &gix::oid) -> gix::Result<Option<data::Entry>> {
        self.index.lookup(id).map(|at| self.data.entry(self.index.pack_offset_at_index(at))).transpose()
    }

    /// Every content: its name, where it begins and where it ends.
    fn entries(&self) -> impl Iterator<Item = (ObjectId, u64, u64)> {
        let mut entries: Vec<_> = self.index.iter().map(|entry| (entry.pack_offset, entry.oid)).collect();
        entries.sort_unstable();
        let ends: Vec<u64> = entries.iter().skip(1).map(|(at, _)| *at).chain([self.data.pack_end() as u64]).collect();
        entries.into_iter().zip(ends).map(|((from, id), to)| (id, from, to.max(from)))
    }

    fn is_small(&self) -> bool {
        self.data.data_len() < PACK_BYTES / 2
    }
}

/// Paths of packs, without the extension, sorted.
fn names(objects: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(objects.join("pack")).into_iter().flatten().flatten();
    let indices = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "idx"));
    indices.map(|path| path.with_extension("")).collect()
}

/// Packs of the user's repository, held open so that their contents can be read even if a command removes them. They are not
/// mapped: a file that is truncated while mapped would kill the program that reads it.
pub struct Held {
    files: Vec<(PathBuf, File, File)>,
}

impl Held {
    /// Takes hold of those below a directory of objects.
    pub fn of(objects: &Path) -> Self {
        let open = |path: PathBuf| {
            let plain = |extension: &str| {
                let path = path.with_extension(extension);
                let is_file = path.symlink_metadata().ok()?.is_file();
                if is_file { File::open(path).ok() } else { None }
            };
            let (index, pack) = (plain("idx")?, plain("pack")?);
            Some((path, index, pack))
        };
        let mut files: Vec<_> = names(objects).into_iter().filter_map(open).collect();
        files.sort_by_key(|(_, index, _)| std::cmp::Reverse(index.metadata().map_or(0, |data| data.len())));
        files.truncate(HELD_MAX);
        Self { files }
    }

    /// Returns the facts that identify these packs: the name, which git derives from the content, the length and the
    /// time.
    pub fn names(&self) -> BTreeSet<PathBuf> {
        let name = |(path, _, pack): &(PathBuf, File, File)| {
            let data = pack.metadata().ok()?;
            let stamp = format!(":{}:{}:{}", data.len(), data.mtime(), data.mtime_nsec());
            Some(PathBuf::from(
                [path.as_os_str(), std::ffi::OsStr::new(&stamp)].into_iter().collect::<std::ffi::OsString>(),
            ))
        };
        self.files.iter().filter_map(name).collect()
    }

    /// Opens them for a moment; contents up to this number of bytes can be read.
    pub fn packs(&self, longest: u64) -> Packs {
        let at = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        // A delta is read together with its base and its result.
        let longest = usize::try_from(longest).unwrap_or(usize::MAX).saturating_mul(4);
        let pack = |(path, index, data): &(PathBuf, File, File)| {
            Pack::open(path.clone(), &at(index), &at(data), Some(longest))
        };
        Packs { packs: self.files.iter().filter_map(pack).collect() }
    }
}

/// Writes contents into packs; contents of an unfinished pack don't exist yet.
pub struct Packer<'a> {
    objects: &'a Path,
    compress: Compress,
    bytes: Vec<u8>,
    entries: Vec<(ObjectId, u32)>,
    new_packs: Vec<PathBuf>,
    written: u64,
}

impl<'a> Packer<'a> {
    pub fn new(objects: &'a Path) -> Self {
        let compress = Compress::new(Compression::BEST_SPEED);
        Self { objects, compress, bytes: Vec::new(), entries: Vec::new(), new_packs: Vec::new(), written: 0 }
    }

    /// Adds a content.
    pub fn add(&mut self, id: ObjectId, content: &[u8]) -> std::io::Result<()> {
        self.add_object(id, Header::Blob, content)
    }

    /// Adds a tree, as git writes it.
    pub fn add_tree(&mut self, id: ObjectId, tree: &[u8]) -> std::io::Result<()> {
        self.add_object(id, Header::Tree, tree)
    }

    fn add_object(&mut self, id: ObjectId, kind: Header, content: &[u8]) -> std::io::Result<()> {
        self.begin(id)?;
        kind.write_to(content.len() as u64, &mut self.bytes)?;
        self.compress.reset();
        let mut rest = content;
        loop {
            let from = self.bytes.len();
            self.bytes.resize(from + rest.len() + rest.len() / 8 + 64, 0);
            let (read, wrote) = (self.compress.total_in(), self.compress.total_out());
            let status = self.compress.compress(rest, &mut self.bytes[from..], FlushCompress::Finish);
            let status = status.map_err(|error| std::io::Error::other(error.to_string()))?;
            let count = |from: u64, to: u64| usize::try_from(to - from).unwrap_or(0);
            self.bytes.truncate(from + count(wrote, self.compress.total_out()));
            rest = &rest[count(read, self.compress.total_in())..];
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }

    /// Adds an entry in the form that another pack has.
    fn take_over(&mut self, id: ObjectId, entry: &[u8]) -> std::io::Result<()> {
        self.begin(id)?;
        self.bytes.extend_from_slice(entry);
        Ok(())
    }

    fn begin(&mut self, id: ObjectId) -> std::io::Result<()> {
        if self.bytes.len() >= PACK_BYTES {
            self.finish()?;
        }
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&data::header::encode(data::Version::V2, 0));
        }
        // A pack is finished long before it is longer than that.
        self.entries.push((id, u32::try_from(self.bytes.len()).map_err(std::io::Error::other)?));
        Ok(())
    }

    /// Writes the remaining contents, if there are any.
    pub fn finish(&mut self) -> std::io::Result<()> {
        let (mut bytes, mut entries) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.entries));
        if entries.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(entries.len()).map_err(std::io::Error::other)?;
        let header = data::header::encode(data::Version::V2, count);
        bytes[..header.len()].copy_from_slice(&header);
        let end = bytes.len();
        let checksum = checksum(&bytes)?;
        bytes.extend_from_slice(checksum.as_slice());
        let index = index_of(&mut entries, &bytes, end, &checksum)?;
        let folder = self.objects.join("pack");
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("pack-{}", checksum.to_hex()));
        // The index comes last: without it the pack doesn't exist.
        put(&folder, &path.with_extension("pack"), &bytes)?;
        put(&folder, &path.with_extension("idx"), &index)?;
        self.written += (bytes.len() + index.len()) as u64;
        self.new_packs.push(path);
        Ok(())
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn new_packs(&self) -> impl Iterator<Item = &Path> {
        self.new_packs.iter().map(PathBuf::as_path)
    }
}

/// Writes a file atomically.
fn put(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!("{UNFINISHED}{}_{name}", std::process::id()));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o400).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(&temporary, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

fn checksum(bytes: &[u8]) -> std::io::Result<ObjectId> {
    let mut hasher = gix::hash::hasher(Hash::Sha1);
    hasher.update(bytes);
    hasher.try_finalize().map_err(|error| std::io::Error::other(error.to_string()))
}

/// The index of a pack, as git's documentation of pack files (`gitformat-pack`, version 2) has it.
fn index_of(
    entries: &mut Vec<(ObjectId, u32)>,
    pack: &[u8],
    end: usize,
    pack_checksum: &ObjectId,
) -> std::io::Result<Vec<u8>> {
    let failed = |error: gix::Error| std::io::Error::other(error.to_string());
    let data = data::File::from_data(pack, PathBuf::new(), Hash::Sha1).map_err(failed)?;
    let ends = entries.iter().skip(1).map(|(_, from)| *from as usize).chain([end]);
    let crcs: Vec<u32> = entries
        .iter()
        .zip(ends)
        .map(|((_, from), to)| data.entry_crc32(u64::from(*from), to - *from as usize))
        .collect();
    let mut rows: Vec<(ObjectId, u32, u32)> =
        entries.drain(..).zip(crcs).map(|((id, from), crc)| (id, from, crc)).collect();
    rows.sort_unstable();
    let mut out = Vec::with_capacity(rows.len() * 28 + 1100);
    out.extend_from_slice(b"\xfftOc\0\0\0\x02");
    let mut before = 0;
    for first in 0..=u8::MAX {
        before += rows[before..].iter().take_while(|(id, ..)| id.first_byte() == first).count();
        out.extend_from_slice(&u32::try_from(before).unwrap_or(0).to_be_bytes());
    }
    rows.iter().for_each(|(id, ..)| out.extend_from_slice(id.as_slice()));
    rows.iter().for_each(|(.., crc)| out.extend_from_slice(&crc.to_be_bytes()));
    rows.iter().for_each(|(_, from, _)| out.extend_from_slice(&from.to_be_bytes()));
    out.extend_from_slice(pack_checksum.as_slice());
    let own = checksum(&out)?;
    out.extend_from_slice(own.as_slice());
    Ok(out)
}
