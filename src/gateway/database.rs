//! The database that the settings name: its address, how to open it, and the messages if that fails.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config::Env;
use crate::ledger::{Ledger, LedgerError, Target};
use crate::proto::{Failure, FailureKind};

/// Hint about the form of an address.
const HINT: &str = "a database is file:PATH, postgres://HOST/NAME, or env:NAME for a variable with one of these";
/// Hint about a server that can't be used.
const HINT_SERVER: &str =
    "is the server running, and may this user connect to it? psql with the same address says more";

/// Returns the place of a database that `origin`, such as `--database`, names: `file:PATH`, the address of a PostgreSQL server,
/// or `env:NAME` for a variable of `env` that has one of these.
///
/// # Errors
/// The text is none of these, or it is an address with a password, which every user of this machine could read in the arguments.
pub fn database_target(database: &str, origin: &str, env: &Env) -> Result<Target, Failure> {
    if let Some(name) = database.strip_prefix("env:") {
        let value = env.get(OsStr::new(name)).and_then(|value| value.to_str());
        let value = value
            .ok_or_else(|| Failure::user(format!("the variable {name} isn't set")).hint("set it to an address"))?;
        return target(value).ok_or_else(|| Failure::user(format!("the variable {name} names no database")).hint(HINT));
    }
    let found = target(database);
    // A text that isn't an address may still have a password.
    let shown = if database.contains('@') { "its value".to_owned() } else { format!("{database:?}") };
    let found = found.ok_or_else(|| Failure::user(format!("{origin}: {shown} isn't a database")).hint(HINT))?;
    if found.has_password() {
        return Err(Failure::refused(format!(
            "{origin}: the address has a password, which other users of this machine could read"
        ))
        .hint("put the address into a variable, and name it: --database env:NAME"));
    }
    Ok(found)
}

/// Returns the address of a server that a setting names beside the database, if it does.
///
/// # Errors
/// The text isn't the address of a server, or its variable isn't set.
pub fn server_address(setting: &str, text: &str, env: &Env) -> Result<Option<String>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = match text.strip_prefix("env:") {
        Some(name) => env.get(OsStr::new(name)).and_then(|value| target(value.to_str()?)),
        None => target(text),
    };
    match found {
        Some(Target::Server(address)) => Ok(Some(address)),
        _ => Err(Failure::user(format!("{setting} names no server"))
            .hint("it is postgres://HOST/NAME, or env:NAME for a variable with such an address")),
    }
}

fn target(text: &str) -> Option<Target> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Some(Target::Server(text.to_owned()));
    }
    text.strip_prefix("file:").filter(|path| !path.is_empty()).map(|path| Target::File(PathBuf::from(path)))
}

/// Opens the database, and makes it if it doesn't exist.
///
/// # Errors
/// It can't be made or reached, belongs to another program, or has another version of the schema.
pub fn open(target: &Target) -> Result<Ledger, Failure> {
    Ledger::open_at(target.clone()).map_err(|error| unusable(target, &error))
}

/// Opens an existing database.
///
/// # Errors
/// The errors of [`open`], or the database doesn't exist.
pub fn open_existing(target: &Target) -> Result<Ledger, Failure> {
    match target {
        Target::File(path) if !path.exists() => Err(absent(path)),
        _ => open(target),
    }
}

/// Updates the schema, or with `is_dry`, only checks it. Returns the versions before and after.
///
/// # Errors
/// It can't be made or reached, belongs to another program, or a newer program has written it.
pub fn migrate(target: &Target, is_dry: bool) -> Result<(usize, usize), Failure> {
    match target {
        Target::File(path) if is_dry && !path.exists() => Err(absent(path)),
        _ => Ledger::migrate(target.clone(), is_dry).map_err(|error| unusable(target, &error)),
    }
}

fn absent(path: &Path) -> Failure {
    Failure::unavailable(format!("there is no database {}", path.display()))
        .hint("reedclaw gateway makes it when it serves for the first time; --database names another one")
}

/// A failure to open a database, with its place.
fn unusable(target: &Target, error: &LedgerError) -> Failure {
    let why = match error {
        LedgerError::Database(why) => why.clone(),
        other => other.to_string(),
    };
    let hint = match (target, error) {
        (Target::Server(_), LedgerError::Database(_)) => HINT_SERVER,
        (Target::File(path), _) if !path.parent().is_none_or(|it| it.as_os_str().is_empty() || it.is_dir()) => {
            "its directory doesn't exist; make it, or name another file: --database file:PATH"
        }
        _ => "",
    };
    Failure {
        message: format!("the database {target} can't be used: {why}"),
        hint: hint.to_owned(),
        ..of_ledger(error)
    }
}

/// Turns an error of the stores into a failure of the command line: something that the file's state forbids is a refusal.
#[must_use]
pub fn of_ledger(error: &LedgerError) -> Failure {
    let kind = match error {
        LedgerError::Forbidden(_) => FailureKind::Refused,
        LedgerError::NotFound => FailureKind::User,
        _ => FailureKind::Unavailable,
    };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_user_password_and_options() {
        for (text, shown) in [
            ("postgres://anna:secret@db.example:6000/team?password=x", "db.example:6000"),
            ("postgres://db.example/team", "db.example"),
            ("postgres://%2Frun%2Fpg/team", "/run/pg"),
            ("postgresql:///team?host=/run/pg", "PostgreSQL"),
            ("file:/var/lib/x.db", "/var/lib/x.db"),
        ] {
            assert_eq!(target(text).map(|it| it.to_string()).as_deref(), Some(shown));
        }
    }

    #[test]
    fn hints_are_heard_at_a_server_that_the_settings_name() {
        let variable = ("DIRECT".into(), "postgres://anna:secret@db.example/team".into());
        let env: Env = [variable].into_iter().collect();
        let at = |text: &str| server_address("gateway.listen_database", text, &env).map_err(|failure| failure.message);
        assert_eq!(at(""), Ok(None));
        assert_eq!(at("env:DIRECT"), Ok(Some("postgres://anna:secret@db.example/team".to_owned())));
        assert_eq!(at("postgres://db.example/team"), Ok(Some("postgres://db.example/team".to_owned())));
        for wrong in ["env:OTHER", "file:/x.db", "db.example"] {
            assert_eq!(at(wrong), Err("gateway.listen_database names no server".to_owned()));
        }
    }

    #[test]
    fn a_wrong_address_names_where_it_stands_and_keeps_a_password_to_itself() {
        let env = Env::new();
        let message = |text: &str| database_target(text, "gateway.database", &env).expect_err("refused").message;
        assert_eq!(message("gateway.db"), "gateway.database: \"gateway.db\" isn't a database");
        assert!(!message("mysql://anna:secret@host").contains("secret"));
        assert!(!message("postgres://anna:secret@host/team").contains("secret"));
        assert_eq!(message("env:TEAM_DB"), "the variable TEAM_DB isn't set");
    }
}
