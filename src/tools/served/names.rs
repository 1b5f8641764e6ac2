//! The names under which models see the tools of servers.

use std::collections::HashMap;

use crate::base::hash::sha256_hex;

/// Longest name that every provider takes, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Hexadecimal digits of the hash that ends a shortened name.
const HASH_DIGITS: usize = 10;

/// Names for tools, by server and tool: `server__tool`, with `_` for characters that providers refuse. A name that is too long,
/// or that another tool has, ends in a hash of the whole.
#[must_use]
pub fn names(tools: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain(server, tool)).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    plain.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let is_taken = |name: &String| counts.get(name.as_str()).is_some_and(|count| *count > 1);
    let name = |((server, tool), name): (&(&str, &str), &String)| {
        if name.len() <= NAME_BYTES_MAX && !is_taken(name) { name.clone() } else { hashed(name, server, tool) }
    };
    tools.iter().zip(&plain).map(name).collect()
}

fn plain(server: &str, tool: &str) -> String {
    let known = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    format!("{server}__{tool}").chars().map(known).collect()
}

/// The beginning of a name and a hash of the whole that it stands for.
fn hashed(name: &str, server: &str, tool: &str) -> String {
    let hash = sha256_hex(format!("{server}\0{tool}").as_bytes());
    // Only ASCII is left, so every place is a boundary.
    let head = &name[..name.len().min(NAME_BYTES_MAX - 1 - HASH_DIGITS)];
    format!("{head}_{}", &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_plain_short_and_distinct() {
        assert_eq!(names(&[("git", "git_log"), ("fs", "read file")]), ["git__git_log", "fs__read_file"]);
        let long = "x".repeat(100);
        let (one, two) = (format!("{long}1"), format!("{long}2"));
        let tools = [("a", "b c"), ("a", "b_c"), ("a", "b.c"), ("a", one.as_str()), ("a", two.as_str()), ("a", "é")];
        let names = names(&tools);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), tools.len(), "{names:?}");
        for name in &names {
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
            assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-')), "{name}");
        }
        assert_eq!(names[5], "a___");
    }

    #[test]
    fn a_tool_keeps_its_name_when_others_come() {
        let alone = names(&[("a", "one")]);
        assert_eq!(names(&[("a", "one"), ("a", "two")])[0], alone[0]);
    }
}
