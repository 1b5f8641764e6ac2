//! Calls with an unknown outcome, from a session that was killed, each reported once. The position up to which the log
//! was read is stored in the state directory, so that a start reads only the new part.

use std::io::{Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use super::head::replace;
use super::read::{self, Lines, Open, OpenIntent};
use super::record::Parsed;
use super::wire::{Running, Seen};
use super::{Options, ReceiptError};

/// Returns the calls without an outcome of sessions that have ended, except those that it returned before.
///
/// # Errors
/// The log can't be read, or the position can't be stored: the calls are reported again then.
pub fn take_unknown(options: &Options) -> Result<Vec<OpenIntent>, ReceiptError> {
    let Some((mut file, size)) = read::open(options)? else { return Ok(Vec::new()) };
    let failed = |problem: std::io::Error| ReceiptError::io("read", &options.path, &problem);
    let inode = file.metadata().map_err(failed)?.ino();
    let path = options.state.join("receipts-told.json");
    let seen: Seen =
        std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    // Another log in its place is read from its start.
    let seen = if seen.inode == inode && seen.bytes <= size { seen } else { Seen { inode, ..Seen::default() } };
    // Another session is still writing an incomplete line: it counts the next time.
    let end = read::tail(&file, size).map_or(0, |tail| tail.end);
    let mut open = Open::default();
    seen.running.iter().for_each(|running| open.carry(running.intent()));
    if end > seen.bytes {
        file.seek(SeekFrom::Start(seen.bytes)).map_err(failed)?;
        let mut lines = Lines::of(file, end - seen.bytes);
        while let Some((line, _)) = lines.next().map_err(failed)? {
            if let Some(parsed) = Parsed::read(line) {
                open.note(&parsed.record);
            }
        }
    }
    let all = open.all();
    let unknown = open.unknown(options, None);
    let running: Vec<Running> = all.iter().filter(|intent| !unknown.contains(intent)).map(Running::of).collect();
    let now = Seen { inode, bytes: end.max(seen.bytes.min(size)), running };
    if now != seen {
        let bytes = serde_json::to_vec(&now).unwrap_or_default();
        replace(&path, &bytes, true).map_err(|problem| ReceiptError::io("write", &path, &problem))?;
    }
    Ok(unknown)
}

impl Running {
    fn of(intent: &OpenIntent) -> Self {
        let OpenIntent { seq, id, timestamp, tool } = intent.clone();
        Self { seq, id, timestamp, tool }
    }

    fn intent(&self) -> OpenIntent {
        let Self { seq, id, timestamp, tool } = self.clone();
        OpenIntent { seq, id, timestamp, tool }
    }
}
