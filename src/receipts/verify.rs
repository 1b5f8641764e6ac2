//! Checks a log: every hash, number and seal, the head file, the anchors, and a head that a person noted. Changes nothing.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::keys::{self, Key};
use super::lock::{self, open_private};
use super::read::{self, Lines, Open, OpenIntent};
use super::record::{Kind, NO_HASH, Parsed, Record};
use super::wire::{Counted, Head};
use super::{Options, ReceiptError, head};

/// Limit on the bytes that a writer of receipts counts: some 1,000 receipts.
const KEPT_BYTES_MAX: u64 = 1024 * 1024;

/// The sources to check besides the log and its files.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// A hash that must be that of a receipt.
    pub expect_head: Option<String>,
    /// The verification key, if it isn't in the state directory.
    pub key: Option<PathBuf>,
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it is valid.
    Whole,
    /// A receipt was changed, removed, added or moved.
    Broken {
        /// The number of the first invalid one.
        receipt: u64,
        /// Its problem.
        why: String,
    },
    /// The last line was not written to its end; the next receipt moves it away.
    Torn {
        /// Its length.
        bytes: u64,
    },
    /// The end is missing, or the whole log was rewritten: other evidence names more records than the log has.
    Cut {
        /// The source that remembers more, and the part that it remembers.
        why: String,
        /// Another log was at this place; a person may have moved it away.
        is_other_log: bool,
    },
    /// All receipts hold, but the head file or the anchors are missing, so a cut end can't be noticed; or the key named for the
    /// check is that of another log.
    Unconfirmed {
        /// The missing part.
        why: String,
    },
}

impl Verdict {
    /// The exit status: 0 whole, 1 broken, 8 a torn end, 9 cut off or unconfirmed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Whole => 0,
            Self::Broken { .. } => 1,
            Self::Torn { .. } => 8,
            Self::Cut { .. } | Self::Unconfirmed { .. } => 9,
        }
    }
}

/// The findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The result.
    pub verdict: Verdict,
    /// Number of valid receipts.
    pub receipts: u64,
    /// Number of those that record the start of a call.
    pub calls: u64,
    /// Number of those that record a refusal.
    pub denials: u64,
    /// The log's id; none if it is empty.
    pub log_id: Option<String>,
    /// The hash of the last receipt that holds.
    pub head: Option<String>,
    /// The missing ones of `head` and `anchors`, although there are receipts.
    pub missing: Vec<&'static str>,
    /// Calls with an unknown outcome.
    pub unknown: Vec<OpenIntent>,
    /// Findings that are worth a look but prove nothing: recoveries, a clock that went back, seals that could not be
    /// checked.
    pub notes: Vec<String>,
    /// Seals that were not checked: a log that was rewritten without them would look the same.
    pub warnings: Vec<String>,
}

/// The receipts of a log, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Receipts that are linked to those before them.
    pub receipts: u64,
    /// Number of those that record the start of a call.
    pub calls: u64,
    /// Number of those that record a refusal.
    pub denials: u64,
    /// Reason why the chain doesn't hold.
    pub broken: Option<String>,
}

/// Counts the receipts and checks the link between each and the one before. Only those since the last count are read: how far
/// it came is stored in the state directory. Seals and anchors, and receipts that were counted before, are left to [`verify`].
///
/// # Errors
/// The log can't be read. One that isn't there is empty.
pub fn tally(options: &Options) -> Result<Tally, ReceiptError> {
    count(options, u64::MAX)
}

/// Counts the records since the last count, so that [`tally`] has little to read. A long log that was never counted is left to
/// that.
pub(super) fn keep_count(options: &Options) {
    // Without it the next count takes longer.
    let _ = count(options, KEPT_BYTES_MAX);
}

/// Counts the new part of the log if it has at most this number of bytes.
fn count(options: &Options, most: u64) -> Result<Tally, ReceiptError> {
    let place = options.state.join("receipts-counted.json");
    let stored = std::fs::read(&place).ok().and_then(|bytes| serde_json::from_slice::<Counted>(&bytes).ok());
    let before = stored.unwrap_or_default();
    let head = head::read(options).ok().flatten();
    let Some((mut file, size)) = read::open(options)? else {
        let broken = head.filter(|head| head.seq > 0).map(|_| "the log is gone".to_owned());
        return Ok(Tally { broken, ..Tally::default() });
    };
    let failed = |problem: std::io::Error| ReceiptError::io("read", &options.path, &problem);
    let inode = file.metadata().map_err(failed)?.ino();
    // Another log in its place is read from its start.
    let mut counted = if before.inode == inode { before.clone() } else { Counted { inode, ..Counted::default() } };
    let tally = |counted: &Counted, broken: Option<String>| {
        let Counted { receipts, calls, denials, .. } = *counted;
        Tally { receipts, calls, denials, broken }
    };
    // An incomplete line is being written, and counts the next time.
    let Ok(tail) = read::tail(&file, size) else {
        return Ok(tally(&counted, Some("its last line isn't a receipt".into())));
    };
    if counted.bytes > tail.end {
        return Ok(tally(&counted, Some("its end is missing".into())));
    }
    let uncounted = tail.end - counted.bytes;
    if uncounted > most {
        return Ok(tally(&counted, None));
    }
    file.seek(SeekFrom::Start(counted.bytes)).map_err(failed)?;
    let mut lines = Lines::of(file, uncounted);
    while let Some((line, _)) = lines.next().map_err(failed)? {
        if let Some(why) = counted.next(line) {
            return Ok(tally(&counted, Some(format!("receipt {}: {why}", counted.receipts + 1))));
        }
    }
    if head.is_some_and(|head| head.log_id == counted.log_id && head.seq > counted.receipts) {
        return Ok(tally(&counted, Some("its end is missing".into())));
    }
    if counted != before {
        let bytes = serde_json::to_vec(&counted).unwrap_or_default();
        // Without the file the next count takes longer.
        let _ = head::replace(&place, &bytes, false);
    }
    Ok(tally(&counted, None))
}

impl Counted {
    /// Counts the next line; returns why it isn't the receipt after the last one.
    fn next(&mut self, line: &[u8]) -> Option<&'static str> {
        let Some(parsed) = Parsed::read(line) else { return Some("it isn't in the form of a receipt") };
        let record = &parsed.record;
        let is_first = self.receipts == 0;
        if !parsed.hash_holds() {
            return Some("it was changed");
        }
        if record.seq != self.receipts + 1 || !is_first && record.log_id != self.log_id {
            return Some("it is missing or was moved");
        }
        if record.previous_hash != if is_first { NO_HASH } else { self.hash.as_str() } {
            return Some("the one before it was changed");
        }
        self.calls += u64::from(record.kind == Kind::Intent);
        self.denials += u64::from(record.kind == Kind::Denied);
        self.bytes += line.len() as u64 + 1;
        self.receipts = record.seq;
        record.log_id.as_ref().clone_into(&mut self.log_id);
        parsed.receipt_hash.clone_into(&mut self.hash);
        None
    }
}

/// Checks a log.
///
/// # Errors
/// The log can't be read, or the key that the check names. A log that isn't there is empty.
pub fn verify(options: &Options, check: &Check) -> Result<Report, ReceiptError> {
    let mut walk = Walk::new(options, check);
    if let Some(path) = &check.key {
        walk.key = Some(keys::read(path).map_err(|why| ReceiptError::named_key(path, &why))?);
    }
    let log = walk.snapshot()?;
    let mut verdict = None;
    if let Some((file, size)) = log {
        let mut lines = Lines::of(file, size);
        while verdict.is_none() {
            let next = lines.next().map_err(|problem| ReceiptError::io("read", &options.path, &problem))?;
            let Some((line, is_whole)) = next else { break };
            verdict = match is_whole {
                true => walk.receipt(line).err(),
                false => Some(Verdict::Torn { bytes: line.len() as u64 }),
            };
        }
    }
    if !matches!(verdict, Some(Verdict::Broken { .. } | Verdict::Cut { .. })) {
        verdict = walk.missing(verdict.is_some()).or(verdict);
    }
    let missing = walk.lost();
    let unconfirmed = walk.other_key().or_else(|| walk.unconfirmed(&missing));
    let verdict = verdict.or_else(|| unconfirmed.map(|why| Verdict::Unconfirmed { why }));
    let warnings = walk.unchecked_seals().into_iter().collect();
    Ok(Report {
        verdict: verdict.unwrap_or(Verdict::Whole),
        missing,
        receipts: walk.receipts,
        calls: walk.calls,
        denials: walk.denials,
        head: walk.log_id.is_some().then_some(walk.previous),
        log_id: walk.log_id,
        unknown: walk.open.unknown(options, None),
        notes: walk.notes,
        warnings,
    })
}

/// A walk over the log, with the facts known before.
struct Walk<'a> {
    options: &'a Options,
    check: &'a Check,
    /// The content of the head file.
    head: Option<Head>,
    /// The content of the anchors: of this log, by number, once its id is known; and of others in its place.
    anchors: Vec<Head>,
    anchored: HashMap<u64, Vec<String>>,
    receipts: u64,
    calls: u64,
    denials: u64,
    previous: String,
    log_id: Option<String>,
    timestamp: String,
    open: Open,
    key: Option<Key>,
    sealed: u64,
    expected_at: Option<u64>,
    notes: Vec<String>,
}

impl<'a> Walk<'a> {
    fn new(options: &'a Options, check: &'a Check) -> Self {
        Self {
            options,
            check,
            head: None,
            anchors: Vec::new(),
            anchored: HashMap::new(),
            receipts: 0,
            calls: 0,
            denials: 0,
            previous: NO_HASH.to_owned(),
            log_id: None,
            timestamp: String::new(),
            open: Open::default(),
            key: None,
            sealed: 0,
            expected_at: None,
            notes: Vec::new(),
        }
    }

    /// Opens the log and reads the known facts, all of one moment: a later receipt is not missing.
    fn snapshot(&mut self) -> Result<Option<(std::fs::File, u64)>, ReceiptError> {
        let lock_path = self.options.lock_path();
        let lock = open_private(&lock_path, OpenOptions::new().read(true)).ok();
        // A disk that can't be written may have no lock, and then no writer either.
        let _held = lock.as_ref().map(|lock| lock::take(lock, &lock_path, true)).transpose()?;
        match head::read(self.options) {
            Ok(head) => self.head = head,
            Err(why) => self.notes.push(why),
        }
        match head::anchors(self.options) {
            Ok((anchors, unread)) => {
                self.anchors = anchors;
                if unread > 0 {
                    let path = self.options.anchors_path();
                    self.notes.push(format!("{unread} lines of {} aren't anchors", path.display()));
                }
            }
            Err(why) => self.notes.push(why),
        }
        read::open(self.options)
    }

    /// Checks the next line.
    fn receipt(&mut self, line: &[u8]) -> Result<(), Verdict> {
        let number = self.receipts + 1;
        let broken = |why: String| Verdict::Broken { receipt: number, why };
        let Some(parsed) = Parsed::read(line) else {
            return Err(broken("it isn't in the form of a receipt".into()));
        };
        if !parsed.hash_holds() {
            return Err(broken("it was changed: its hash doesn't match its content".into()));
        }
        let record = &parsed.record;
        if record.seq != number {
            return Err(broken(format!("it is missing or was moved: its line has receipt {}", record.seq)));
        }
        if self.log_id.as_deref().is_some_and(|log_id| log_id != record.log_id) {
            return Err(broken(format!("it belongs to another log, {}", record.log_id)));
        }
        if record.previous_hash != self.previous {
            return Err(broken("the receipt before it has changed since it was written".into()));
        }
        if self.log_id.is_none() {
            self.begin(&record.log_id);
        }
        self.seal(&parsed).map_err(broken)?;
        if !self.open.note(record) {
            return Err(broken("it settles a call that isn't open".into()));
        }
        let anchored = self.anchored.get(&number);
        if let Some(anchored) = anchored.and_then(|all| all.iter().find(|hash| *hash != parsed.receipt_hash)) {
            let why = format!("receipt {number} differs from the anchored {anchored}: the log was rewritten");
            return Err(Verdict::Cut { why, is_other_log: false });
        }
        if self.check.expect_head.as_deref() == Some(parsed.receipt_hash) {
            self.expected_at = Some(number);
        }
        self.note(record);
        self.receipts = number;
        parsed.receipt_hash.clone_into(&mut self.previous);
        Ok(())
    }

    /// Selects the known facts about this log, now that its id is known.
    fn begin(&mut self, log_id: &str) {
        self.log_id = Some(log_id.to_owned());
        let of_log = self.anchors.iter().chain(&self.head).filter(|head| head.log_id == log_id);
        // After a cut two anchors may name one number for two receipts, of which one is lost.
        for head in of_log {
            self.anchored.entry(head.seq).or_default().push(head.hash.clone());
        }
        if self.check.key.is_some() {
            self.key = self.key.take().filter(|key| key.log_id() == log_id);
            return;
        }
        let path = self.options.verification_key_path(log_id);
        match keys::read(&path) {
            Ok(key) if key.log_id() == log_id => self.key = Some(key),
            Ok(_) => self.notes.push(format!("{} is the key of another log", path.display())),
            Err(_) => {}
        }
    }

    fn seal(&mut self, parsed: &Parsed) -> Result<(), String> {
        let record = &parsed.record;
        let Some(seal) = &record.seal else {
            let is_due = self.sealed > 0 || self.key.as_ref().is_some_and(|key| record.seq >= key.first_seq());
            return if is_due { Err("it has no seal, and must have one".into()) } else { Ok(()) };
        };
        self.sealed += 1;
        if seal.epoch != keys::epoch_of(record.seq) {
            return Err("its seal is of another epoch".into());
        }
        let Some(key) = &mut self.key else { return Ok(()) };
        key.advance(seal.epoch);
        if parsed.seal_holds(key.bytes()) { Ok(()) } else { Err("its seal doesn't match the log's key".into()) }
    }

    fn note(&mut self, record: &Record) {
        let number = record.seq;
        self.calls += u64::from(record.kind == Kind::Intent);
        self.denials += u64::from(record.kind == Kind::Denied);
        if *record.timestamp < *self.timestamp {
            self.notes.push(format!("the clock went back before receipt {number}, to {}", record.timestamp));
        }
        if record.kind == Kind::Recovery {
            let rule = record.rule.as_deref().unwrap_or_default();
            self.notes.push(format!("receipt {number} is a recovery ({rule})"));
        }
        record.timestamp.as_ref().clone_into(&mut self.timestamp);
    }

    /// Returns the evidence that remembers more than the log has. A torn line may be the one that is remembered.
    fn missing(&self, is_torn: bool) -> Option<Verdict> {
        let cut = |why| Some(Verdict::Cut { why, is_other_log: false });
        let have = self.receipts + u64::from(is_torn);
        let place = self.options.path.to_string_lossy();
        // One that was only announced has lost nothing.
        let known = self.head.iter().chain(&self.anchors).filter(|head| head.path == place && head.seq > 0);
        let (own, others): (Vec<&Head>, Vec<&Head>) =
            known.partition(|head| self.log_id.as_deref() == Some(head.log_id.as_str()));
        if let Some(most) = own.iter().map(|head| head.seq).max().filter(|most| *most > have) {
            return cut(format!("it had {most} receipts and has {}: the end is missing", self.receipts));
        }
        if let Some(other) = others.last() {
            let Head { log_id, seq, .. } = other;
            // The id of a log whose only line is torn is unknown.
            if !(is_torn && self.receipts == 0 && *seq <= have) {
                let why = format!("another log was here, {log_id} with {seq} receipts");
                return Some(Verdict::Cut { why, is_other_log: true });
            }
        }
        match &self.check.expect_head {
            Some(hash) if self.expected_at.is_none() => cut(format!("no receipt has the hash {hash}")),
            _ => None,
        }
    }

    /// A file that is made before the first receipt of a log, and is missing.
    fn lost(&self) -> Vec<&'static str> {
        let Some(log_id) = self.log_id.as_deref() else { return Vec::new() };
        let has_anchors = self.anchors.iter().any(|anchor| anchor.log_id == log_id);
        let lost = [("head", self.head.is_none()), ("anchors", !has_anchors)];
        lost.into_iter().filter(|(_, is_lost)| *is_lost).map(|(name, _)| name).collect()
    }

    fn unconfirmed(&self, missing: &[&str]) -> Option<String> {
        let place = |name: &&str| match *name {
            "head" => format!("head file {}", self.options.head_path().display()),
            _ => format!("anchor of this log in {}", self.options.anchors_path().display()),
        };
        let places: Vec<String> = missing.iter().map(place).collect();
        let joined = places.join(" or ");
        (!places.is_empty()).then(|| format!("it is unknown whether the end was cut off: there is no {joined}"))
    }

    /// Reports that the named key belongs to no log, or to another one: a log that was rewritten may have another id and no
    /// seals.
    fn other_key(&self) -> Option<String> {
        let path = self.check.key.as_ref()?;
        let is_checked = self.log_id.is_some() && self.key.is_some();
        let warning = || format!("{} is the key of another log: no seal of this one was checked", path.display());
        (!is_checked).then(warning)
    }

    fn unchecked_seals(&self) -> Option<String> {
        let path = self.options.verification_key_path(self.log_id.as_deref().unwrap_or_default());
        let warning = || format!("the seals were not checked: the verification key isn't here ({})", path.display());
        (self.sealed > 0 && self.key.is_none() && self.check.key.is_none()).then(warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipts::{Entry, Log, hash};

    #[test]
    fn a_count_reads_only_what_is_new_and_finds_a_broken_link() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(dir.path().join("r"), dir.path().into());
        assert_eq!(tally(&options).unwrap(), Tally::default());
        let write = |from: u64, to: u64| {
            let log = Log::open(options.clone()).unwrap();
            for number in from..to {
                let entry = Entry { conversation_id: Some(number), ..Entry::new("file_read", hash(b"{}"), "low") };
                log.denied(&entry).unwrap();
            }
        };
        write(0, 10);
        let counted = |receipts, denials| Tally { receipts, denials, ..Tally::default() };
        assert_eq!(tally(&options).unwrap(), counted(10, 10));
        // Its writer has counted, too.
        assert!(std::fs::read(dir.path().join("receipts-counted.json")).is_ok());
        write(10, 20);
        let text = std::fs::read(&options.path).unwrap();
        let changed = |at: usize, of: usize| {
            let mut lines: Vec<Vec<u8>> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            lines[at][of] ^= 1;
            // In place, so that the file is the same one.
            std::fs::write(&options.path, lines.concat()).unwrap();
        };
        changed(2, 40);
        assert_eq!(tally(&options).unwrap(), counted(20, 20), "it was counted before");
        std::fs::remove_file(dir.path().join("receipts-counted.json")).unwrap();
        assert_eq!(tally(&options).unwrap().broken.as_deref(), Some("receipt 3: it was changed"));
        std::fs::write(&options.path, &text).unwrap();
        assert_eq!(tally(&options).unwrap(), counted(20, 20));
        std::fs::write(&options.path, &text[..text.len() / 2]).unwrap();
        assert!(tally(&options).unwrap().broken.is_some());
    }

    /// Changes one bit in every byte of 1,000 receipts: the check of that line fails, whatever the change.
    #[test]
    fn a_changed_byte_anywhere_is_found() {
        for (hmac, receipts) in [(false, 1_000), (true, 100)] {
            let dir = tempfile::tempdir().unwrap();
            let options = Options { hmac, ..Options::new(dir.path().join("r"), dir.path().into()) };
            let log = Log::open(options.clone()).unwrap();
            for number in 0..receipts {
                let entry = Entry { conversation_id: Some(number), ..Entry::new("file_read", hash(b"{}"), "low") };
                log.denied(&entry).unwrap();
            }
            drop(log);
            let text = std::fs::read(&options.path).unwrap();
            let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            let check = Check::default();
            let mut walk = Walk::new(&options, &check);
            for (number, line) in lines.iter().enumerate() {
                let mut changed = line[..line.len() - 1].to_vec();
                for at in 0..changed.len() {
                    let was = changed[at];
                    changed[at] ^= 1 << (at % 8);
                    // A line feed in the middle makes two lines, of which the first is checked.
                    let first = changed.split(|byte| *byte == b'\n').next().unwrap();
                    let found = walk.receipt(first);
                    assert!(
                        matches!(found, Err(Verdict::Broken { receipt, .. }) if receipt == number as u64 + 1),
                        "byte {at} of receipt {}: {found:?}",
                        number + 1
                    );
                    changed[at] = was;
                }
                // Without its line feed it runs into the next one.
                if let Some(next) = lines.get(number + 1) {
                    changed.push(b'\n' ^ 1);
                    changed.extend_from_slice(next);
                    assert!(walk.receipt(changed.trim_ascii_end()).is_err());
                }
                walk.receipt(&line[..line.len() - 1]).unwrap();
            }
            assert_eq!(walk.receipts, receipts);
        }
    }
}
