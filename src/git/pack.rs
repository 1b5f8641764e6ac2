//! Packs of whole objects, without deltas, with their index: version 2 of both, as in git's `gitformat-pack(5)`.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use gix::ObjectId;
use gix::objs::Kind;

use super::fault;

/// Bytes of objects after which another pack begins: an index of this form has offsets of 31 bits.
const PACK_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Number of attempts to write a temporary file that a collection removes.
const TRIES_MAX: usize = 100;

/// An object: its id, kind and content.
pub(super) type Object<'a> = (ObjectId, Kind, &'a [u8]);

/// An object in a pack.
struct Packed {
    id: ObjectId,
    crc: u32,
    offset: u32,
}

/// Writes objects into packs below the directory of a repository's objects, and waits until these are on the disk.
///
/// # Errors
/// One can't be written.
pub(super) fn write(directory: &Path, hash: gix::hash::Kind, objects: &[Object<'_>]) -> std::io::Result<()> {
    let (mut rest, mut bytes) = (objects, 0);
    while !rest.is_empty() {
        let too_much = rest[1..].iter().position(|(_, _, content)| {
            bytes += content.len();
            bytes > PACK_BYTES_MAX
        });
        let (some, more) = rest.split_at(too_much.map_or(rest.len(), |it| it + 1));
        write_one(directory, hash, some)?;
        (rest, bytes) = (more, 0);
    }
    Ok(())
}

fn write_one(directory: &Path, hash: gix::hash::Kind, objects: &[Object<'_>]) -> std::io::Result<()> {
    let checksum_of = |bytes: &[u8]| {
        let mut hasher = gix::hash::hasher(hash);
        hasher.update(bytes);
        hasher.try_finalize().map_err(std::io::Error::other)
    };
    let (mut pack, packed) = pack_of(objects)?;
    let checksum = checksum_of(&pack)?;
    pack.extend_from_slice(checksum.as_slice());
    let mut index = index_of(packed);
    index.extend_from_slice(checksum.as_slice());
    let own_checksum = checksum_of(&index)?;
    index.extend_from_slice(own_checksum.as_slice());
    let folder = directory.join("pack");
    std::fs::create_dir_all(&folder)?;
    let place = |ending: &str| folder.join(format!("pack-{checksum}.{ending}"));
    // Git looks for packs by their indexes.
    publish(&place("pack"), &pack)?;
    publish(&place("idx"), &index)?;
    let opened = File::open(&folder)?;
    fault::sync(&opened, &folder)
}

/// Writes a file under another name first.
fn publish(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..TRIES_MAX {
        // Git's own prefix of such names, so that its `gc` removes the remains of a crash. It may remove this one as well.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!("tmp_pack_rc{}-{number}", std::process::id()));
        let written = (|| {
            let mut file = File::create_new(&temporary)?;
            let mode = file.metadata()?.permissions().mode();
            file.set_permissions(Permissions::from_mode(mode & 0o444))?;
            fault::write()?;
            file.write_all(bytes)?;
            fault::sync(&file, &temporary)?;
            std::fs::rename(&temporary, path)
        })();
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => {}
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                return Err(error);
            }
            Ok(()) => return Ok(()),
        }
    }
    Err(std::io::Error::other("another program removes each pack before it has its name"))
}

/// Returns a pack without its checksum, and the places of its objects.
fn pack_of(objects: &[Object<'_>]) -> std::io::Result<(Vec<u8>, Vec<Packed>)> {
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend_from_slice(&number(objects.len())?.to_be_bytes());
    let mut packed = Vec::with_capacity(objects.len());
    for (id, kind, bytes) in objects {
        let begin = pack.len();
        let kind = match kind {
            Kind::Commit => 1,
            Kind::Tree => 2,
            Kind::Blob => 3,
            Kind::Tag => 4,
        };
        // The byte with the kind has four bits of the size, each further byte has seven; the first bit means that more bytes
        // follow.
        let (mut byte, mut size) = (kind << 4 | (bytes.len() & 15) as u8, bytes.len() >> 4);
        while size > 0 {
            pack.push(byte | 0x80);
            (byte, size) = ((size & 0x7f) as u8, size >> 7);
        }
        pack.push(byte);
        let mut deflated = ZlibEncoder::new(&mut pack, Compression::fast());
        deflated.write_all(bytes)?;
        deflated.finish()?;
        let mut crc = Crc::new();
        crc.update(&pack[begin..]);
        packed.push(Packed { id: *id, crc: crc.sum(), offset: number(begin)? });
    }
    Ok((pack, packed))
}

/// Returns the index of a pack but for both checksums.
fn index_of(mut packed: Vec<Packed>) -> Vec<u8> {
    packed.sort_by_key(|it| it.id);
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=u8::MAX {
        let count = packed.partition_point(|it| it.id.as_slice()[0] <= first) as u32;
        index.extend_from_slice(&count.to_be_bytes());
    }
    packed.iter().for_each(|it| index.extend_from_slice(it.id.as_slice()));
    packed.iter().for_each(|it| index.extend_from_slice(&it.crc.to_be_bytes()));
    packed.iter().for_each(|it| index.extend_from_slice(&it.offset.to_be_bytes()));
    index
}

fn number(of: usize) -> std::io::Result<u32> {
    u32::try_from(of).ok().filter(|it| *it < 1 << 31).ok_or_else(|| std::io::Error::other("too much for one pack"))
}
