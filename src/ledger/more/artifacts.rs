//! Files that belong to canvases, stored by the hash of their content, in parts.

use crate::ledger::sql::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use crate::base::hash;
use crate::ledger::stores::note;
use crate::ledger::{Ledger, LedgerError, now_text};
use crate::proto::team::Identity;

/// Bytes of a part.
const PART: usize = 1024 * 1024;
/// Bytes of all files of a tenant.
pub const ALL_BYTES_MAX: i64 = 1024 * 1024 * 1024;
/// Files of a canvas.
const FILES_MAX: i64 = 1_000;

/// A file without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The hash of its content, which is its id.
    pub sha256: String,
    /// Its length.
    pub bytes: i64,
    /// Its type.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The user who stored it.
    pub by: String,
    /// The time.
    pub at: String,
}

impl Artifact {
    /// The file as endpoints return it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({"artifact_id": self.sha256, "sha256": self.sha256, "bytes": self.bytes, "type": self.kind, "name": self.name,
            "by": self.by, "at": self.at})
    }

    fn from_row(row: &Row<'_>) -> crate::ledger::sql::Result<Self> {
        let (sha256, bytes, kind) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Self { sha256, bytes, kind, name: row.get(3)?, by: row.get(4)?, at: row.get(5)? })
    }
}

/// The files of canvases.
pub struct Artifacts<'l>(pub(in crate::ledger) &'l Ledger);

impl Artifacts<'_> {
    /// Stores a file of a canvas; returns it and whether it is new. The same content again is the same file.
    ///
    /// # Errors
    /// There is no such canvas in this project, its files or the tenant's are too many, or the database fails.
    pub fn add(
        &self,
        who: &Identity,
        canvas: &str,
        (name, kind): (&str, &str),
        content: &[u8],
    ) -> Result<(Artifact, bool), LedgerError> {
        let sha256 = hash::sha256_hex(content);
        self.0.write(&who.tenant, |transaction| {
            check(transaction, who, canvas)?;
            if let Some(there) = find(transaction, who, canvas, &sha256)? {
                return Ok((there, false));
            }
            let sql = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT), sum(CASE WHEN canvas_id = ?2 THEN 1 ELSE 0 END) \
                       FROM artifact WHERE tenant = ?1";
            let (all, here): (i64, Option<i64>) =
                transaction.query_row(sql, params![who.tenant, canvas], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
            if all.saturating_add(bytes) > ALL_BYTES_MAX || here.unwrap_or(0) >= FILES_MAX {
                let why = format!("a canvas has at most {FILES_MAX} files, and a tenant {ALL_BYTES_MAX} bytes of them");
                return Err(LedgerError::Invalid(why));
            }
            let at = now_text(transaction)?;
            let sql = "INSERT INTO artifact_part VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            let mut statement = transaction.prepare_cached(sql)?;
            for (number, part) in (0_i64..).zip(content.chunks(PART)) {
                statement.execute(params![who.tenant, sha256, number, part])?;
            }
            let sql = "INSERT INTO artifact VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            transaction.execute(sql, params![who.tenant, canvas, sha256, bytes, kind, name, who.user, at])?;
            let body = json!({"kind": "artifact", "artifact_id": sha256, "bytes": bytes, "type": kind, "name": name});
            note(transaction, who, "audit", format!("canvas/{canvas}"), body)?;
            let (kind, name, by) = (kind.to_owned(), name.to_owned(), who.user.clone());
            Ok((Artifact { sha256: sha256.clone(), bytes, kind, name, by, at }, true))
        })
    }

    /// The files of a canvas, the newest first.
    ///
    /// # Errors
    /// There is no such canvas in this project, or the database fails.
    pub fn list(&self, who: &Identity, canvas: &str) -> Result<Vec<Artifact>, LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        check(&connection, who, canvas)?;
        let sql = "SELECT sha256, bytes, type, name, by, at FROM artifact WHERE tenant = ?1 AND canvas_id = ?2 ORDER BY at DESC, sha256";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![who.tenant, canvas], Artifact::from_row)?;
        Ok(rows.collect::<crate::ledger::sql::Result<_>>()?)
    }

    /// A file of a canvas with its content.
    ///
    /// # Errors
    /// There is no such file, its content doesn't match its hash, or the database fails.
    pub fn get(&self, who: &Identity, canvas: &str, sha256: &str) -> Result<(Artifact, Vec<u8>), LedgerError> {
        let connection = self.0.view(&who.tenant)?;
        check(&connection, who, canvas)?;
        let found = find(&connection, who, canvas, sha256)?.ok_or(LedgerError::NotFound)?;
        let sql = "SELECT data FROM artifact_part WHERE tenant = ?1 AND sha256 = ?2 ORDER BY n";
        let mut statement = connection.prepare_cached(sql)?;
        let mut content = Vec::new();
        for part in statement.query_map(params![who.tenant, sha256], |row| row.get::<Vec<u8>>(0))? {
            content.extend(part?);
        }
        if hash::sha256_hex(&content) != sha256 {
            return Err(LedgerError::Database(format!("the content of the file {sha256} was changed")));
        }
        Ok((found, content))
    }

    /// Notes the report of an audit of a canvas; returns the event's id.
    ///
    /// # Errors
    /// There is no such canvas in this project, the report is too long, or the database fails.
    pub fn audit(&self, who: &Identity, canvas: &str, kind: &str, report: &Value) -> Result<String, LedgerError> {
        self.0.write(&who.tenant, |transaction| {
            check(transaction, who, canvas)?;
            let draft = crate::proto::team::EventDraft {
                event_type: "audit".into(),
                source: "ui".into(),
                stream: Some(format!("canvas/{canvas}")),
                body: json!({"kind": kind, "canvas_id": canvas, "report": report}),
                ..Default::default()
            };
            let stored = crate::ledger::spine::append_in(transaction, who, &[draft], None)?;
            Ok(stored.into_iter().next().map(|it| it.event_id).unwrap_or_default())
        })
    }
}

/// Checks that a canvas exists in this project.
fn check(connection: &Connection, who: &Identity, canvas: &str) -> Result<(), LedgerError> {
    let sql = "SELECT 1 FROM canvas WHERE tenant = ?1 AND canvas_id = ?2 AND project = ?3";
    let found = connection.prepare_cached(sql)?.exists(params![who.tenant, canvas, who.project])?;
    if found { Ok(()) } else { Err(LedgerError::NotFound) }
}

fn find(connection: &Connection, who: &Identity, canvas: &str, sha256: &str) -> Result<Option<Artifact>, LedgerError> {
    let sql =
        "SELECT sha256, bytes, type, name, by, at FROM artifact WHERE tenant = ?1 AND canvas_id = ?2 AND sha256 = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![who.tenant, canvas, sha256], Artifact::from_row).optional()?)
}
