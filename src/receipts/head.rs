//! The head file and the anchors: the end of the log, noted outside the log, so that a cut end is noticed. They name
//! only records that are on the disk, or a power failure would look like a cut.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::lock::open_private;
use super::wire::Head;
use super::{Options, ReceiptError};
use crate::files::{replace_for_now, replace_private};

/// Socket at which the system's log accepts datagrams.
const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility `authpriv` (10), severity `notice` (5): RFC 3164, section 4.1.1.
const SYSLOG_PRIORITY: u8 = 10 * 8 + 5;
/// Maximum number of digits of a record's number.
const HEAD_NUMBER_MAX: usize = 20;
/// Bytes of the newest anchors that are read; some 300,000 anchors.
const ANCHORS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Writes the head file atomically, and waits until it is on the disk.
pub(super) fn write(options: &Options, head: &Head) -> Result<(), ReceiptError> {
    let path = options.head_path();
    padded(head)
        .and_then(|bytes| replace(&path, &bytes, true))
        .map_err(|problem| ReceiptError::io("write the head file", &path, &problem))
}

/// Updates the head file in place without waiting for the disk: after a power failure it may name an older record, which isn't a
/// sign of a cut. A missing file, or one with another length, is written completely.
pub(super) fn update(options: &Options, head: &Head) -> Result<(), ReceiptError> {
    let path = options.head_path();
    let updated = padded(head).is_ok_and(|bytes| {
        open_private(&path, OpenOptions::new().write(true)).is_ok_and(|file| {
            file.metadata().is_ok_and(|data| data.len() == bytes.len() as u64)
                && file.write_at(&bytes, 0).is_ok_and(|length| length == bytes.len())
        })
    });
    if updated { Ok(()) } else { write(options, head) }
}

/// Returns the bytes of the head file. With spaces at the end its length stays the same while the number grows.
fn padded(head: &Head) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(head)?;
    bytes.resize(bytes.len() + HEAD_NUMBER_MAX - head.seq.to_string().len(), b' ');
    Ok(bytes)
}

/// Puts a file in the place of another; if it `is_needed` after a power failure, the disk has it.
pub(super) fn replace(path: &Path, bytes: &[u8], is_needed: bool) -> io::Result<()> {
    if is_needed { replace_private(path, bytes) } else { replace_for_now(path, bytes) }
}

/// Reads the head file; none if it isn't there or can't be understood, and then why.
pub(super) fn read(options: &Options) -> Result<Option<Head>, String> {
    let path = options.head_path();
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|problem| format!("the head file {} can't be understood: {problem}", path.display())),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(problem) => Err(format!("the head file {} can't be read: {problem}", path.display())),
    }
}

/// Adds an anchor, and also sends it to the system's log if that is configured.
pub(super) fn anchor(options: &Options, head: &Head) -> Result<(), ReceiptError> {
    let path = options.anchors_path();
    let file = open_private(&path, OpenOptions::new().append(true).create(true))?;
    let line = serde_json::to_string(head).map_err(io::Error::other).map(|line| line + "\n");
    line.and_then(|line| append(&file, line.as_bytes()))
        .map_err(|problem| ReceiptError::io("write an anchor to", &path, &problem))?;
    if options.syslog {
        // The syslog may be absent or full and must not delay a tool: the file has the anchor already.
        let _ = tell_syslog(head);
    }
    Ok(())
}

fn append(mut file: &File, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    file.sync_data()
}

fn tell_syslog(head: &Head) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let Head { log_id, seq, hash, .. } = head;
    let text = format!("<{SYSLOG_PRIORITY}>reedclaw: receipts log={log_id} seq={seq} hash={hash}");
    socket.send_to(text.as_bytes(), SYSLOG_SOCKET).map(drop)
}

/// The anchors of all logs, and how many lines are none.
pub(super) fn anchors(options: &Options) -> Result<(Vec<Head>, usize), String> {
    let path = options.anchors_path();
    let mut text = String::new();
    let read = File::open(&path).and_then(|mut file| {
        let skipped = file.metadata()?.len().saturating_sub(ANCHORS_BYTES_MAX);
        file.seek(SeekFrom::Start(skipped))?;
        file.take(ANCHORS_BYTES_MAX).read_to_string(&mut text)?;
        Ok(skipped > 0)
    });
    match read {
        // The first line of a piece is incomplete.
        Ok(is_piece) if is_piece => drop(text.drain(..text.find('\n').map_or(0, |at| at + 1))),
        Ok(_) => {}
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(problem) => return Err(format!("the anchors {} can't be read: {problem}", path.display())),
    }
    let heads: Vec<Option<Head>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let unread = heads.iter().filter(|head| head.is_none()).count();
    Ok((heads.into_iter().flatten().collect(), unread))
}
