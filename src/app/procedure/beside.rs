//! The files beside a procedure's own, as shown to the person who is asked to trust it: their text, and the text that
//! was trusted before, from a stored copy. It must not know how they are shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{HELPER_BYTES_MAX, Procedure};
use crate::base::hash::sha256_hex;
use crate::config::{Env, state_directory};
use crate::files::{Root, replace_private};
use crate::sop::FILE_NAME;

/// The directory of the copies, each by its hash.
const COPIES: &str = "trust-sops-files";
/// Bytes of a file that is shown as text.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

/// A file beside a procedure's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Its path below the procedure's directory.
    pub path: String,
    /// Its view.
    pub shown: Shown,
}

/// The view of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Its text, and the one that was trusted before, as far as that is known.
    Text {
        /// The trusted text.
        before: Option<String>,
        /// Its text.
        now: String,
    },
    /// Bytes that are no text, or too many.
    Bytes(usize),
    /// A trusted file that is gone.
    Gone,
    /// A file that has changed since it was looked at.
    Changing,
}

/// Returns the files beside a procedure's own that aren't trusted as they are, in the order of their paths.
#[must_use]
pub fn untrusted_files(env: &Env, procedure: &Procedure) -> Vec<Beside> {
    let (before, now) = (lines(procedure.before.as_deref().unwrap_or_default()), lines(procedure.manifest()));
    let root = Root::open(&procedure.place, None).ok();
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let mut files: Vec<Beside> = gone.map(|path| Beside { path: (*path).to_owned(), shown: Shown::Gone }).collect();
    for (path, hash) in now.iter().filter(|(path, hash)| before.get(*path) != Some(*hash)) {
        let content = root.as_ref().and_then(|root| root.read(path, HELPER_BYTES_MAX).ok());
        let shown = match content.map(|it| it.bytes).filter(|bytes| sha256_hex(bytes) == **hash) {
            None => Shown::Changing,
            Some(bytes) => match text_of(&bytes) {
                Some(now) => Shown::Text { before: before.get(path).and_then(|hash| copy(env, hash)), now },
                None => Shown::Bytes(bytes.len()),
            },
        };
        files.push(Beside { path: (*path).to_owned(), shown });
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Stores copies of the files that are trusted now, for a later difference, and removes those of files that they replace.
/// Without a copy the next look shows a file whole.
#[allow(clippy::disallowed_methods, reason = "copies of ours in the state directory")]
pub(super) fn keep_copies(env: &Env, procedure: &Procedure) {
    let now = lines(procedure.manifest());
    let replaced = lines(procedure.before.as_deref().unwrap_or_default());
    let replaced = replaced.values().filter(|hash| !now.values().any(|other| other == *hash));
    for place in replaced.filter_map(|hash| place(env, hash)) {
        let _ = std::fs::remove_file(place);
    }
    let Ok(root) = Root::open(&procedure.place, None) else { return };
    for (path, hash) in now {
        let content = root.read(path, SHOWN_BYTES_MAX as u64).ok().map(|it| it.bytes);
        let content = content.filter(|bytes| sha256_hex(bytes) == hash && text_of(bytes).is_some());
        if let (Some(bytes), Some(place)) = (content, place(env, hash)) {
            let _ = replace_private(&place, &bytes);
        }
    }
}

/// Returns the paths of the files beside a procedure's own in a manifest, each with its hash.
pub(super) fn lines(manifest: &str) -> BTreeMap<&str, &str> {
    let lines = manifest.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once("  "));
    lines.filter(|(_, path)| *path != FILE_NAME).map(|(hash, path)| (path, hash)).collect()
}

fn text_of(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= SHOWN_BYTES_MAX && !text.contains('\0'));
    text.map(str::to_owned)
}

fn place(env: &Env, hash: &str) -> Option<PathBuf> {
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    state_directory(env).filter(|_| is_hash).map(|state| state.join(COPIES).join(hash))
}

fn copy(env: &Env, hash: &str) -> Option<String> {
    let bytes = crate::host::read_text(&place(env, hash)?).ok()?;
    (sha256_hex(bytes.as_bytes()) == hash).then_some(bytes)
}
