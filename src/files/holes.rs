//! Files with holes, read without them: a file of 10 GiB may have nothing on the disk.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// The position of the first byte at or after `at` that isn't in a hole; `None` if only a hole is left.
///
/// # Errors
/// The system can't say.
pub fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    let from = i64::try_from(at).map_err(io::Error::other)?;
    match lseek(file, from, Whence::SeekData) {
        Ok(found) => Ok(u64::try_from(found).ok()),
        Err(Errno::ENXIO) => Ok(None),
        // The file system knows no holes.
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => Ok(Some(at)),
        Err(errno) => Err(errno.into()),
    }
}

/// A buffer for the pieces of a file: most files are smaller than the largest piece, and clearing that would take longer than
/// reading them.
fn buffer(data: &Metadata) -> Vec<u8> {
    let bytes = usize::try_from(data.len()).unwrap_or(PIECE_BYTES);
    vec![0; bytes.saturating_add(1).min(PIECE_BYTES)]
}

/// Passes the pieces of a file that aren't in holes to `each`, with their places, until it returns false. Returns the
/// system's facts about the file before it was read.
///
/// # Errors
/// It can't be read.
pub fn each_piece(file: &File, each: &mut dyn FnMut(u64, &[u8]) -> bool) -> io::Result<Metadata> {
    let data_of = file.metadata()?;
    let mut buffer = buffer(&data_of);
    let mut at = 0;
    while let Some(data) = next_data(file, at)? {
        let count = file.read_at(&mut buffer, data)?;
        if count == 0 || !each(data, &buffer[..count]) {
            break;
        }
        at = data + count as u64;
        // A short piece that reaches the end is the last: most files are one piece, and asking for more costs two calls.
        if at >= data_of.len() && count < buffer.len() {
            break;
        }
    }
    Ok(data_of)
}

/// The same for the file at a path; returns the system's error.
///
/// # Errors
/// It can't be read.
pub fn each_piece_at(path: &Path, each: &mut dyn FnMut(u64, &[u8]) -> bool) -> io::Result<Metadata> {
    each_piece(&File::open(path)?, each)
}

/// Returns whether two files of the same size have the same content; `None` if `may_go_on` returned false.
///
/// # Errors
/// One of them can't be read.
pub fn are_equal(left: &File, right: &File, may_go_on: &dyn Fn() -> bool) -> io::Result<Option<bool>> {
    let mut one = buffer(&left.metadata()?);
    let mut other = one.clone();
    let mut at = 0;
    // A hole in both files is equal.
    while let Some(data) = next_data(left, at)?.into_iter().chain(next_data(right, at)?).min() {
        if !may_go_on() {
            return Ok(None);
        }
        let count = left.read_at(&mut one, data)?;
        if count == 0 {
            return Ok(Some(right.read_at(&mut other, data)? == 0));
        }
        match right.read_exact_at(&mut other[..count], data) {
            Ok(()) if one[..count] == other[..count] => at = data + count as u64,
            Ok(()) => return Ok(Some(false)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(false)),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(true))
}

/// Copies a file's content into an empty one, with its holes. If the file system supports it, both share their blocks until one
/// of them is changed.
///
/// # Errors
/// One of them can't be read or written.
pub fn copy(from: &File, to: &File) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let mut failure = Ok(());
    let data = each_piece(from, &mut |at, bytes| {
        failure = to.write_all_at(bytes, at);
        failure.is_ok()
    })?;
    failure?;
    to.set_len(data.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::busy;

    const GIB: u64 = 1 << 30;

    /// A file of 10 GiB with these bytes at these places.
    fn sparse(written: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(10 * GIB).expect("a length");
        written.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).expect("written"));
        file
    }

    #[test]
    fn holes_are_compared_read_and_copied_without_reading_them() {
        let began = busy();
        let equal = |left: &File, right: &File| are_equal(left, right, &|| true).expect("read");
        let one = sparse(&[(0, b"first"), (7 * GIB, b"last")]);
        assert_eq!(equal(&one, &sparse(&[(0, b"first"), (7 * GIB, b"last")])), Some(true));
        // Zeros that were written are the same as a hole.
        assert_eq!(equal(&one, &sparse(&[(0, b"first"), (3 * GIB, &[0; 9000]), (7 * GIB, b"last")])), Some(true));
        for other in [(7 * GIB, b"lost"), (6 * GIB, b"last")] {
            assert_eq!(equal(&one, &sparse(&[(0, b"first"), (other.0, other.1)])), Some(false), "{other:?}");
        }
        assert_eq!(are_equal(&one, &one, &|| false).expect("read"), None);
        let copied = tempfile::tempfile().expect("a file");
        copy(&one, &copied).expect("copied");
        assert_eq!(equal(&one, &copied), Some(true));
        assert_eq!(copied.metadata().expect("it").len(), 10 * GIB);
        // Ten gibibytes of zeros take seconds to read.
        assert!(busy() - began < std::time::Duration::from_secs(2), "{:?}", busy() - began);
    }
}
