//! Keys of the table: the row of a key, the strictest value of a restricting setting, and the key that was probably meant. It
//! must not know values.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::Project::{Adds, Drops, Only, Stricter};
use super::{Kind, ROWS, Row};
use crate::config::reading::checked::Setting;

/// The kind of a key.
pub(in crate::config) enum Place {
    /// A setting.
    Leaf(&'static Row),
    /// A table that holds settings.
    Table,
    /// A table whose keys are names of the user's choice.
    Names,
    /// No such key.
    Unknown,
}

impl Place {
    pub(in crate::config) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// A row with the parts of its path.
type Split = (Vec<&'static str>, &'static Row);

/// The rows by the first part of their paths: every key of the defaults and of the config is looked up at each start.
fn rows_by_first() -> &'static BTreeMap<&'static str, Vec<Split>> {
    static ROWS_BY_FIRST: OnceLock<BTreeMap<&'static str, Vec<Split>>> = OnceLock::new();
    ROWS_BY_FIRST.get_or_init(|| {
        let mut rows: BTreeMap<&str, Vec<Split>> = BTreeMap::new();
        for row in ROWS {
            let parts: Vec<&str> = row.path.split('.').collect();
            rows.entry(parts[0]).or_default().push((parts, row));
        }
        rows
    })
}

/// Finds the row or the group of a key from the key's parts.
pub(in crate::config) fn place(key: &[String]) -> Place {
    let Some(first) = key.first() else { return Place::Table };
    for (parts, row) in rows_by_first().get(first.as_str()).into_iter().flatten() {
        let is_so = |(have, part): (&String, &&str)| *part == "NAME" || part == have;
        if parts.len() < key.len() || !key.iter().zip(parts).all(is_so) {
            continue;
        }
        return match parts.get(key.len()) {
            None => Place::Leaf(row),
            Some(&"NAME") => Place::Names,
            Some(_) => Place::Table,
        };
    }
    Place::Unknown
}

/// The strictest value of a security setting or of a list that restricts, which applies if the configured one is wrong. The
/// returned key may be that of another setting.
pub(in crate::config) fn strictest<S: AsRef<str>>(key: &[S]) -> Option<(Vec<String>, Setting)> {
    let key: Vec<String> = key.iter().map(|part| part.as_ref().to_owned()).collect();
    let Place::Leaf(row) = place(&key) else { return None };
    let nothing = || Setting::Words(Vec::new());
    if row.project == Drops && row.kind == Kind::Words {
        return Some((key, nothing()));
    }
    if let [mcp, servers, name, last] = &key[..]
        && mcp == "mcp"
        && (last == "without" || matches!(row.kind, Kind::Rules(_)))
    {
        // It is unknown which tools the wrong value should leave out.
        let only = [mcp, servers, name, &"only".to_owned()].map(Clone::clone).to_vec();
        return Some((only, nothing()));
    }
    if key[0] == "security" && (row.project == Adds || row.kind == Kind::Programs) {
        // It is unknown what the damaged list should forbid.
        return strictest(&["security", "autonomy"]);
    }
    let value = match row.project {
        Stricter(words) => Setting::Text((*words.first()?).to_owned()),
        Only(value) => Setting::Bool(value),
        _ => return None,
    };
    (key[0] == "security").then_some((key, value))
}

/// The strictest value of each setting in a table, for those that have one.
pub(in crate::config) fn strictest_in(table: &[String]) -> Vec<(Vec<String>, Setting)> {
    let parts = ROWS.iter().map(|row| row.path.split('.').collect::<Vec<_>>());
    // No server exists yet whose tools could be left out.
    let inside = parts.filter(|parts| parts.len() > table.len() && !parts.contains(&"NAME"));
    inside
        .filter(|parts| parts.iter().zip(table).all(|(part, have)| part == have))
        .filter_map(|it| strictest(&it))
        .collect()
}

/// Names that other programs' configs use for the address of a model's server.
const ADDRESS_WORDS: &[&str] = &["url", "base_url", "baseurl", "api_base", "api_url", "host", "address"];

/// Finds the key that was probably meant: one beside the unknown key, or the same word elsewhere.
pub(in crate::config) fn suggest(key: &[String]) -> Option<String> {
    let (word, parents) = key.split_last()?;
    if matches!(parents, [models, _] if models == "models") && ADDRESS_WORDS.contains(&&*word.to_ascii_lowercase()) {
        return Some("endpoint".into());
    }
    let most = (word.chars().count() / 3).max(1);
    let is_named = parents.split_last().is_some_and(|(_, above)| matches!(place(above), Place::Names));
    let mut best: Option<(usize, String)> = None;
    for row in ROWS {
        let parts: Vec<&str> = row.path.split('.').collect();
        let beside = parts.len() > parents.len()
            && parents.iter().zip(&parts).all(|(have, part)| *part == "NAME" || part == have);
        if beside {
            let sibling = parts[parents.len()];
            if let Some(off) = slip(word, sibling, most).filter(|_| sibling != "NAME") {
                consider(&mut best, off, sibling.to_owned());
            }
        }
        // A key under NAME is never suggested elsewhere: the NAME would be a guess.
        // Elsewhere only the same word counts, or, for a key at the top level, one typing error as well. A key in a table that
        // the user named belongs in that table.
        let last = parts.last().filter(|_| !is_named && !parts.contains(&"NAME"));
        if let Some(off) = last.and_then(|last| slip(word, last, usize::from(parents.is_empty()))) {
            consider(&mut best, off + 1, row.path.to_owned());
        }
    }
    best.map(|(_, suggestion)| suggestion)
}

/// The number of typing errors between a word and the meant one, if there are at most `most`.
fn slip(word: &str, meant: &str, most: usize) -> Option<usize> {
    // A cheap test that rules out nearly all pairs.
    if word.chars().count().abs_diff(meant.len()) > most {
        return None;
    }
    Some(strsim::osa_distance(word, meant)).filter(|off| *off <= most)
}

fn consider(best: &mut Option<(usize, String)>, off: usize, suggestion: String) {
    if best.as_ref().is_none_or(|(least, _)| off < *least) {
        *best = Some((off, suggestion));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_slip_finds_the_key_that_was_meant() {
        for (wrong, right) in [
            ("defualt_model", Some("default_model")),
            ("context.max_turn", Some("max_turns")),
            ("context.maxturns", Some("max_turns")),
            ("max_turns", Some("context.max_turns")),
            ("models.a.endpont", Some("endpoint")),
            ("models.a.base_url", Some("endpoint")),
            ("models.a.color", None),
            ("editor.colour", None),
            ("shell.color", Some("console.color")),
            ("autonmy", Some("security.autonomy")),
            ("securty", Some("security")),
            ("max_tokens", None),
            ("zzz", None),
        ] {
            assert_eq!(suggest(&key(wrong)).as_deref(), right, "{wrong}");
        }
    }
}
