//! The manifests of servers from their last runs, and the versions of the protocol that they spoke: files of the state directory.
//! They only save a start; a caller that decides anything compares them with the server's offer at the time of the call.

use std::path::PathBuf;
use std::time::Duration;

use super::wire::{Record, Spoken};
use super::{Era, Server};
use crate::host;
use crate::proto::served::Manifest;

/// Time for which the version that a server spoke is remembered.
const ERA_TIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Age from which on an unchanged server's file is rewritten.
const RENEWED: Duration = Duration::from_secs(24 * 3600);

pub(super) struct Cache {
    directory: Option<PathBuf>,
}

impl Cache {
    pub(super) fn new(state: Option<PathBuf>) -> Self {
        Self { directory: state.map(|state| state.join("manifests")) }
    }

    /// The manifest of a server's last run, if it is still started in the same way.
    pub(super) fn manifest(&self, server: &Server) -> Option<Manifest> {
        self.read(server).map(Record::into_manifest)
    }

    /// The version that a server spoke within the last seven days.
    pub(super) fn era(&self, server: &Server) -> Option<Era> {
        self.spoken(server).filter(|spoken| is_younger(spoken, ERA_TIME)).map(|spoken| spoken.era())
    }

    /// Stores a server's offer, and the version that it speaks. A failure only means that the next session asks it again.
    /// `is_known` means that this process has read or written the same manifest before.
    pub(super) fn keep(&self, server: &Server, era: Era, manifest: &Manifest, is_known: bool) {
        let is_fresh = |spoken: Spoken| spoken.era() == era && is_younger(&spoken, RENEWED);
        if is_known && self.spoken(server).is_some_and(is_fresh) {
            return;
        }
        // An installation tries the versions in another order, which mustn't be remembered.
        let known = || self.spoken(server).map_or(Era::Auto, |spoken| spoken.era());
        let era = if server.is_fetching { known() } else { era };
        let record = Record::new(server, era, manifest, host::now_unix_ms());
        if let (Some(path), Ok(bytes)) = (self.path(&server.name), serde_json::to_vec(&record)) {
            let _ = crate::files::replace_for_now(&path, &bytes);
        }
    }

    /// The manifest of a server's last run, even if its start was reconfigured.
    pub(super) fn last(&self, server: &str) -> Option<Manifest> {
        let bytes = std::fs::read(self.path(server)?).ok()?;
        serde_json::from_slice::<Record>(&bytes).ok().map(Record::into_manifest)
    }

    /// The version alone: of a long list, most is passed over.
    fn spoken(&self, server: &Server) -> Option<Spoken> {
        let bytes = std::fs::read(self.path(&server.name)?).ok()?;
        let spoken: Spoken = serde_json::from_slice(&bytes).ok()?;
        (spoken.place == server.place.line()).then_some(spoken)
    }

    fn read(&self, server: &Server) -> Option<Record<'_>> {
        let bytes = std::fs::read(self.path(&server.name)?).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        (record.place == server.place.line()).then_some(record)
    }

    fn path(&self, server: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{server}.json")))
    }
}

fn is_younger(spoken: &Spoken, time: Duration) -> bool {
    let age = u64::try_from(host::now_unix_ms() - spoken.seen_ms);
    age.is_ok_and(|age| Duration::from_millis(age) < time)
}
