//! The schema of a database and its versions: steps that are never edited once they are released.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use super::sql::{Connection, Pool, Target, params};
use super::{LedgerError, now_text, uuid_v7};

/// The steps to the schema that this program reads and writes; their number is its version.
const SCHEMAS: [&str; 12] = [
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
    include_str!("schema-7.sql"),
    include_str!("schema-8.sql"),
    include_str!("schema-9.sql"),
    include_str!("schema-10.sql"),
    include_str!("schema-11.sql"),
    include_str!("schema-12.sql"),
];
/// The same on PostgreSQL: the first of them has version 6.
const SCHEMAS_SERVER: [&str; 7] = [
    include_str!("schema-pg.sql"),
    include_str!("schema-pg-7.sql"),
    include_str!("schema-pg-8.sql"),
    include_str!("schema-pg-9.sql"),
    include_str!("schema-pg-10.sql"),
    include_str!("schema-pg-11.sql"),
    include_str!("schema-pg-12.sql"),
];
/// The version of the first of them.
const SERVER_FIRST: usize = 6;

/// Tables that each version of a file's schema has.
const OWN_TABLES: [&str; 3] = ["instance", "tenant", "event"];

/// Makes the tables of a new database, and brings the schema of a file up to date.
pub fn open(pool: &Pool) -> Result<(), LedgerError> {
    let is_server = pool.target().is_server();
    let (found, known) = migrate(pool, is_server)?;
    if is_server && found == 0 {
        return migrate(pool, false).map(drop);
    }
    if is_server && found < known {
        let why = format!(
            "its schema has version {found}, and this program needs {known}: reedclaw gateway migrate changes it"
        );
        return Err(LedgerError::Forbidden(why));
    }
    Ok(())
}

/// Updates a schema, or with `is_dry`, only checks it. Returns the versions before and after; 0 if it is new.
pub fn migrate(pool: &Pool, is_dry: bool) -> Result<(usize, usize), LedgerError> {
    if let Target::File(path) = pool.target() {
        let failed = |error: std::io::Error| LedgerError::Database(error.to_string());
        let mut options = OpenOptions::new();
        OpenOptionsExt::mode(options.read(true).write(true).create(true).truncate(false), 0o600);
        options.open(path).map_err(failed)?;
        // This check comes before any write to the file.
        let tables = Target::tables_of_file(path)?;
        if !tables.is_empty() && !OWN_TABLES.iter().all(|own| tables.iter().any(|table| table == own)) {
            return Err(LedgerError::Forbidden("it belongs to another program".into()));
        }
    }
    let connection = pool.take()?;
    // This locks the database: if two gateways start at once, one makes the schema.
    connection.run(if pool.target().is_server() {
        "BEGIN; SELECT pg_advisory_xact_lock(4117)"
    } else {
        "BEGIN IMMEDIATE"
    })?;
    let (found, steps) = match pool.target().is_server() {
        true => (version_of_server(&connection)?, server_steps()),
        false => (version_of_file(&connection)?, (1..).zip(SCHEMAS).collect()),
    };
    let known = SCHEMAS.len();
    if found > known {
        let why = format!("its schema has version {found}, and this program knows up to {known}");
        return Err(LedgerError::Forbidden(why));
    }
    if pool.target().is_server() && (1..SERVER_FIRST).contains(&found) {
        let why = format!("its schema has version {found}, which no released program has written");
        return Err(LedgerError::Forbidden(why));
    }
    if is_dry {
        connection.roll_back()?;
        return Ok((found, known));
    }
    for (_, step) in steps.iter().filter(|(version, _)| *version > found) {
        connection.run(step)?;
    }
    if found == 0 {
        begin_instance(&connection)?;
    }
    if found < known && !pool.target().is_server() {
        connection.run(&format!("PRAGMA user_version = {known}"))?;
    }
    connection.commit()?;
    Ok((found, known))
}

fn server_steps() -> Vec<(usize, &'static str)> {
    (SERVER_FIRST..).zip(SCHEMAS_SERVER).collect()
}

fn version_of_file(connection: &Connection) -> Result<usize, LedgerError> {
    let version: i64 = connection.query_row("PRAGMA user_version", params![], |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn version_of_server(connection: &Connection) -> Result<usize, LedgerError> {
    let sql = "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'schema_version'";
    if !connection.prepare_cached(sql)?.exists(params![])? {
        return Ok(0);
    }
    let version: i64 = connection.query_row("SELECT version FROM schema_version", params![], |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

/// The first rows of a new database.
fn begin_instance(connection: &Connection) -> Result<(), LedgerError> {
    let now = now_text(connection)?;
    let sql = "INSERT INTO instance (one, system_id, created_at) VALUES (1, ?1, ?2)";
    connection.execute(sql, params![uuid_v7(), now])?;
    connection.execute("INSERT INTO tenant (tenant, mode) VALUES ('local', 'lab')", params![])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_have_the_same_newest_version() {
        assert_eq!(server_steps().last().map(|(version, _)| *version), Some(SCHEMAS.len()));
    }
}
