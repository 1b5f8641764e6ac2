//! The defaults as lines of text, so that no interpreter has to run before the first prompt. `config/default.tsv` is written
//! from `config/default.lua`, and a test compares them. Must not know which keys there are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::reading::checked::{Setting, Tree};
use crate::config::reading::expand::{self, Env};
use crate::config::reading::problem::dotted;

/// One line for each key: the key, the kind of its value, and the value or the entries of a list, with tabs between.
const LINES: &str = include_str!("../../../config/default.tsv");

/// The directory for programs' data as a line writes it, and its location without an absolute `$XDG_DATA_HOME`.
const DATA: (&str, &str) = ("$XDG_DATA_HOME", "~/.local/share");
/// The values of `$HOME` and `$XDG_DATA_HOME` with which the lines are written.
const WRITTEN_WITH: [(&str, &str); 2] = [("HOME", "/home-of-the-user"), ("XDG_DATA_HOME", "/data-of-the-user")];

/// Returns the defaults; `None` if a path can't be expanded in this environment, which the script reports.
pub(in crate::config) fn read(env: &Env) -> Option<Tree> {
    LINES.lines().filter(|line| !line.starts_with('#')).map(|line| entry(line, env)).collect()
}

fn entry(line: &str, env: &Env) -> Option<(Vec<String>, Setting)> {
    let mut fields = line.split('\t');
    let (key, kind) = (fields.next()?, fields.next()?);
    let words = || fields.clone().map(str::to_owned).collect();
    let value = fields.clone().next().unwrap_or_default();
    let setting = match kind {
        "text" => Setting::Text(value.to_owned()),
        "path" => Setting::Path(path(value, env)?),
        "integer" => Setting::Integer(value.parse().ok()?),
        "number" => Setting::Number(value.parse().ok()?),
        "bool" => Setting::Bool(value.parse().ok()?),
        "words" => Setting::Words(words()),
        "program" => Setting::Argv(words()),
        "ports" => Setting::Ports(fields.map(|port| port.parse().ok()).collect::<Option<_>>()?),
        "map" => Setting::WordMap(Default::default()),
        "sources" => Setting::Sources(Default::default()),
        _ => return None,
    };
    Some((key.split('.').map(str::to_owned).collect(), setting))
}

fn path(text: &str, env: &Env) -> Option<PathBuf> {
    let (data, otherwise) = DATA;
    let bytes = match text.strip_prefix(data) {
        Some(rest) => {
            let set = env.get(OsStr::new("XDG_DATA_HOME")).map(|home| home.as_bytes());
            let home = set.filter(|home| home.starts_with(b"/")).unwrap_or(otherwise.as_bytes());
            [home, rest.as_bytes()].concat()
        }
        None => text.as_bytes().to_vec(),
    };
    expand::path(&bytes, env).ok()
}

/// The environment in which the script runs for [`write`].
pub(in crate::config) fn written_env() -> Env {
    WRITTEN_WITH.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Writes the script's values, computed in [`written_env`], as lines.
///
/// # Errors
/// The key whose value can't be written as a line.
pub(in crate::config) fn write(tree: &Tree) -> Result<String, String> {
    let mut lines = String::new();
    for (key, setting) in tree {
        let (kind, fields): (&str, Vec<String>) = match setting {
            Setting::Text(text) => ("text", vec![text.clone()]),
            Setting::Path(path) => ("path", vec![written_path(path)]),
            Setting::Integer(number) => ("integer", vec![number.to_string()]),
            Setting::Number(number) => ("number", vec![number.to_string()]),
            Setting::Bool(value) => ("bool", vec![value.to_string()]),
            Setting::Words(words) => ("words", words.clone()),
            Setting::Argv(words) => ("program", words.clone()),
            Setting::Ports(ports) => ("ports", ports.iter().map(u16::to_string).collect()),
            Setting::WordMap(map) if map.is_empty() => ("map", Vec::new()),
            Setting::Sources(map) if map.is_empty() => ("sources", Vec::new()),
            _ => return Err(dotted(key)),
        };
        if key.iter().chain(&fields).any(|text| text.contains(['\t', '\n', '\r'])) {
            return Err(dotted(key));
        }
        lines.push_str(&[key.join("."), kind.to_owned()].into_iter().chain(fields).collect::<Vec<_>>().join("\t"));
        lines.push('\n');
    }
    Ok(lines)
}

fn written_path(path: &Path) -> String {
    let [(_, home), (_, data)] = WRITTEN_WITH;
    let text = path.to_string_lossy();
    match (text.strip_prefix(home), text.strip_prefix(data)) {
        (Some(rest), _) => format!("~{rest}"),
        (_, Some(rest)) => format!("{}{rest}", DATA.0),
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(values: &[(&str, &str)]) -> Env {
        values.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn lines_hold_what_the_script_returns_in_each_environment() {
        for values in [
            &[("HOME", "/home/ada")][..],
            &[("HOME", "/home/ada b"), ("XDG_DATA_HOME", "/data")],
            &[("HOME", "/h"), ("XDG_DATA_HOME", "data")],
            &[("HOME", "/h"), ("XDG_DATA_HOME", "")],
            &[("HOME", "/h"), ("XDG_DATA_HOME", "/x/$HOME")],
        ] {
            let (tree, problems) = crate::config::defaults(&env(values)).expect("the script runs");
            assert_eq!(problems, [], "{values:?}");
            assert_eq!(read(&env(values)), Some(tree), "{values:?}");
        }
    }

    #[test]
    fn script_runs_where_a_path_has_a_problem() {
        for values in
            [&[][..], &[("HOME", "")], &[("HOME", "relative")], &[("HOME", "/h"), ("XDG_DATA_HOME", "/$NOPE")]]
        {
            assert_eq!(read(&env(values)), None, "{values:?}");
        }
    }
}
