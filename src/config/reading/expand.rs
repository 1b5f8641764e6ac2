//! `~`, `$VAR` and `${VAR}` in paths. The environment is an argument; this file reads neither it nor any file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The environment, as a value.
pub type Env = BTreeMap<OsString, OsString>;

/// Variables that a project's file may read: those that its commands need, and none that may be a secret.
pub(in crate::config) const PROJECT_VARIABLES: [&str; 16] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "EDITOR",
    "VISUAL",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
];

/// The part of the environment that a project's file sees.
pub(in crate::config) fn project_env(env: &Env) -> Env {
    let known = |name: &OsString| PROJECT_VARIABLES.iter().any(|variable| name == *variable);
    env.iter().filter(|(name, _)| known(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Expands a path of the config; the result must be absolute.
///
/// # Errors
/// Its problem, in words that follow the quoted value.
pub(in crate::config) fn path(text: &[u8], env: &Env) -> Result<PathBuf, String> {
    if text.contains(&0) {
        return Err("holds a NUL byte".into());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    if let Some(after) = text.strip_prefix(b"~") {
        if !after.is_empty() && after[0] != b'/' {
            return Err("starts with `~` and a name; write the directory out".into());
        }
        out.extend_from_slice(variable(b"HOME", env)?);
        rest = after;
    }
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, next) = if let Some(inner) = after.strip_prefix(b"{") {
            let end = inner.iter().position(|byte| *byte == b'}').ok_or("has `${` without `}`")?;
            (&inner[..end], &inner[end + 1..])
        } else {
            let end = after.iter().position(|byte| !name_byte(*byte)).unwrap_or(after.len());
            after.split_at(end)
        };
        if name.is_empty() || !name.iter().all(|byte| name_byte(*byte)) {
            return Err("has a `$` that no variable's name follows".into());
        }
        out.extend_from_slice(variable(name, env)?);
        rest = next;
    }
    out.extend_from_slice(rest);
    if out.first() != Some(&b'/') {
        return Err("is not an absolute path".into());
    }
    Ok(PathBuf::from(OsString::from_vec(out)))
}

fn variable<'a>(name: &[u8], env: &'a Env) -> Result<&'a [u8], String> {
    match env.get(OsStr::from_bytes(name)) {
        Some(value) if !value.is_empty() => Ok(value.as_bytes()),
        _ => Err(format!("needs ${}, which is not set", String::from_utf8_lossy(name))),
    }
}

fn name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tilde_and_variables_expand() {
        let env: Env = [("HOME", "/home/ada"), ("X", "/x y"), ("EMPTY", ""), ("REL", "rel")]
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        for (text, want) in [
            ("~", Ok("/home/ada")),
            ("~/h", Ok("/home/ada/h")),
            ("$HOME/h", Ok("/home/ada/h")),
            ("${X}y/~/a", Ok("/x yy/~/a")),
            ("/a/$X", Ok("/a//x y")),
            ("~bob/h", Err("starts with `~` and a name; write the directory out")),
            ("$NOPE/h", Err("needs $NOPE, which is not set")),
            ("$EMPTY/h", Err("needs $EMPTY, which is not set")),
            ("${HOME/h", Err("has `${` without `}`")),
            ("/a$", Err("has a `$` that no variable's name follows")),
            ("/a$(id)", Err("has a `$` that no variable's name follows")),
            ("${a b}", Err("has a `$` that no variable's name follows")),
            ("h", Err("is not an absolute path")),
            ("$REL", Err("is not an absolute path")),
            ("", Err("is not an absolute path")),
            ("/a\0b", Err("holds a NUL byte")),
        ] {
            assert_eq!(path(text.as_bytes(), &env), want.map(PathBuf::from).map_err(str::to_owned), "{text:?}");
        }
    }
}
