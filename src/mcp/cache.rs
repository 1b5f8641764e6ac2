//! The manifests of servers from their last runs, and the versions of the protocol that they spoke: files of the state directory.
//! They only save a start; whoever decides compares with what a server says when it is called.

use std::path::PathBuf;
use std::time::Duration;

use super::wire::Record;
use super::{Era, Server};
use crate::host;
use crate::proto::served::Manifest;

/// Time for which the version that a server spoke is remembered.
const ERA_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

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
        let record = self.read(server)?;
        let age = u64::try_from(host::now_unix_ms() - record.seen_ms).ok()?;
        (age < u64::try_from(ERA_TIME.as_millis()).ok()?).then(|| record.era())
    }

    /// Keeps what a server offers. A failure only means that the next session asks it again.
    pub(super) fn keep(&self, server: &Server, manifest: &Manifest) {
        let era = self.read(server).map_or(Era::Auto, |record| record.era());
        self.write(server, &Record::new(server, era, manifest, host::now_unix_ms()));
    }

    /// Keeps the version that a server speaks.
    pub(super) fn keep_era(&self, server: &Server, era: Era) {
        let manifest = self.manifest(server).unwrap_or_default();
        self.write(server, &Record::new(server, era, &manifest, host::now_unix_ms()));
    }

    /// The manifest of a server's last run, however it is started now.
    pub(super) fn last(&self, server: &str) -> Option<Manifest> {
        let bytes = std::fs::read(self.path(server)?).ok()?;
        serde_json::from_slice::<Record>(&bytes).ok().map(Record::into_manifest)
    }

    fn read(&self, server: &Server) -> Option<Record> {
        let bytes = std::fs::read(self.path(&server.name)?).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        (record.place == server.place.line()).then_some(record)
    }

    fn write(&self, server: &Server, record: &Record) {
        if let (Some(path), Ok(bytes)) = (self.path(&server.name), serde_json::to_vec(record)) {
            let _ = crate::files::replace_private(&path, &bytes);
        }
    }

    fn path(&self, server: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{server}.json")))
    }
}
