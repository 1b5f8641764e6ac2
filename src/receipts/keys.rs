//! The key of a sealed log. It advances every [`EPOCH_RECEIPTS`] receipts, by a step that can't be reversed, and the
//! old value is erased: a thief of the key can't rewrite records that were sealed before. The first value, with which
//! seals are checked, is stored beside it until somebody moves it to another machine; until then it stops only those
//! who don't look. (A file system may retain the bytes of a file that was replaced.)

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::head::replace;
use super::lock::open_private;
use super::record::digest;
use super::wire::StoredKey;
use super::{Options, ReceiptError};
use crate::base::hex;
use crate::files::create_private;

/// Receipts that are sealed with one value of the key.
pub(super) const EPOCH_RECEIPTS: u64 = 64;
/// The domain byte before a key whose id is made.
const DOMAIN_KEY_ID: u8 = 0x03;

/// The epoch of a receipt.
pub(super) fn epoch_of(seq: u64) -> u64 {
    seq.saturating_sub(1) / EPOCH_RECEIPTS
}

/// A key at one epoch.
pub(super) struct Key {
    stored: StoredKey,
    bytes: [u8; 32],
}

impl Key {
    fn of(stored: StoredKey) -> Option<Self> {
        let bytes = hex::decode(&stored.key)?;
        Some(Self { stored, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    pub(super) fn id(&self) -> &str {
        &self.stored.key_id
    }

    pub(super) fn log_id(&self) -> &str {
        &self.stored.log_id
    }

    pub(super) fn epoch(&self) -> u64 {
        self.stored.epoch
    }

    /// The first receipt that is sealed.
    pub(super) fn first_seq(&self) -> u64 {
        self.stored.from_seq
    }

    /// Moves on to an epoch that isn't over.
    pub(super) fn advance(&mut self, epoch: u64) {
        if self.stored.epoch >= epoch {
            return;
        }
        while self.stored.epoch < epoch {
            let next = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.bytes), b"next");
            self.bytes.copy_from_slice(next.as_ref());
            self.stored.epoch += 1;
        }
        self.stored.key = hex::encode(&self.bytes);
    }
}

fn key_path(options: &Options, log_id: &str) -> PathBuf {
    options.keys_path().join(format!("{log_id}.json"))
}

/// Makes the key of a log whose seals begin with the receipt `from_seq`.
pub(super) fn create(options: &Options, log_id: &str, from_seq: u64) -> Result<Key, ReceiptError> {
    let directory = options.keys_path();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|problem| ReceiptError::io("make the directory", &directory, &problem))?;
    let mut bytes = [0; 32];
    let path = key_path(options, log_id);
    SystemRandom::new().fill(&mut bytes).map_err(|_| ReceiptError::key("no random bytes for", &path, &options.path))?;
    let key_id = digest(&[&[DOMAIN_KEY_ID], &bytes])[..16].to_owned();
    let stored =
        StoredKey { epoch: epoch_of(from_seq), from_seq, key: hex::encode(&bytes), key_id, log_id: log_id.to_owned() };
    write_new(&options.verification_key_path(log_id), &stored)?;
    write_new(&path, &stored)?;
    Ok(Key { stored, bytes })
}

/// Removes a key that nothing was sealed with.
pub(super) fn forget(options: &Options, log_id: &str) {
    for path in [key_path(options, log_id), options.verification_key_path(log_id)] {
        let _ = std::fs::remove_file(path);
    }
}

fn write_new(path: &Path, stored: &StoredKey) -> Result<(), ReceiptError> {
    let written = serde_json::to_vec(stored).map_err(io::Error::other);
    written
        .and_then(|bytes| create_private(path, &bytes))
        .map_err(|problem| ReceiptError::io("write the key", path, &problem))
}

/// Reads a key from its file.
pub(super) fn read(path: &Path) -> Result<Key, String> {
    let file = open_private(path, OpenOptions::new().read(true)).map_err(|error| error.message)?;
    let stored = serde_json::from_reader(file).map_err(|problem| problem.to_string())?;
    Key::of(stored).ok_or_else(|| "it isn't a key".to_owned())
}

/// Returns the key for a receipt. `held` is the one used last; `sync` brings the log to the disk before an epoch ends,
/// so that the key never advances before the log.
pub(super) fn for_receipt(
    options: &Options,
    held: Option<Key>,
    log_id: &str,
    seq: u64,
    sync: impl FnOnce() -> io::Result<()>,
) -> Result<Key, ReceiptError> {
    let epoch = epoch_of(seq);
    if let Some(held) = held.filter(|held| held.log_id() == log_id && held.epoch() == epoch) {
        return Ok(held);
    }
    let path = key_path(options, log_id);
    let mut key = read(&path)
        .map_err(|why| ReceiptError::key(&format!("the log's key can't be used ({why})"), &path, &options.path))?;
    if key.epoch() > epoch || key.log_id() != log_id {
        return Err(ReceiptError::key("the key belongs to a longer log: this one was cut off", &path, &options.path));
    }
    if key.epoch() < epoch {
        sync().map_err(|problem| ReceiptError::io("write", &options.path, &problem))?;
        key.advance(epoch);
        let bytes = serde_json::to_vec(&key.stored).map_err(io::Error::other);
        bytes
            .and_then(|bytes| replace(&path, &bytes, true))
            .map_err(|problem| ReceiptError::io("write the key", &path, &problem))?;
    }
    Ok(key)
}
