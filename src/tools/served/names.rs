//! The names under which models see the tools of servers.

use std::collections::HashMap;

use crate::base::hash::sha256;

/// The name under which a server's resources are allowed to models. No tool can have this name.
pub(super) const RESOURCES: &str = "@resources";
/// Longest name that every provider takes, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Letters of the hash that ends a shortened name: 50 bits.
const HASH_LETTERS: usize = 10;
/// The letters of base32 (RFC 4648), small: names may have all of them, and no two look alike.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Names for tools, by server and tool: `server__tool`, with `_` for characters that providers refuse. A name that is too long,
/// or that another tool has, ends in a hash of the whole.
#[must_use]
pub fn names(tools: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain(server, tool)).collect();
    let mut is_hashed: Vec<bool> = plain.iter().map(|name| name.len() > NAME_BYTES_MAX).collect();
    loop {
        let name = |(at, (server, tool)): (usize, &(&str, &str))| {
            if is_hashed[at] { hashed(&plain[at], server, tool) } else { plain[at].clone() }
        };
        let names: Vec<String> = tools.iter().enumerate().map(name).collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
        // A tool may have the name that another tool's name is changed to.
        let clashing: Vec<usize> =
            (0..names.len()).filter(|at| !is_hashed[*at] && counts[names[*at].as_str()] > 1).collect();
        if clashing.is_empty() {
            return names;
        }
        clashing.into_iter().for_each(|at| is_hashed[at] = true);
    }
}

fn plain(server: &str, tool: &str) -> String {
    let known = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    format!("{server}__{tool}").chars().map(known).collect()
}

/// The beginning of a name and a hash of the whole that it stands for.
fn hashed(name: &str, server: &str, tool: &str) -> String {
    let hash = sha256(format!("{server}\0{tool}").as_bytes());
    let bits = hash.iter().take(8).fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let letter = |at: usize| char::from(BASE32[(bits >> (59 - 5 * at)) as usize & 31]);
    let hash: String = (0..HASH_LETTERS).map(letter).collect();
    // Only ASCII is left, so every place is a boundary.
    let head = &name[..name.len().min(NAME_BYTES_MAX - 1 - HASH_LETTERS)];
    format!("{head}_{hash}")
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
        // SHA-256 of the server, a zero byte and the tool, as `base32` writes its beginning.
        assert_eq!(names[0], "a__b_c_7ipau2vxgr");
        assert_eq!(names[3].len(), NAME_BYTES_MAX);
    }

    #[test]
    fn a_tool_that_is_called_what_another_ones_name_becomes_is_still_another() {
        let first = names(&[("a", "b c"), ("a", "b_c")]);
        let spoofed = first[0].strip_prefix("a__").expect("its server").to_owned();
        let tools = [("a", "b c"), ("a", "b_c"), ("a", spoofed.as_str())];
        let all = names(&tools);
        assert_eq!(all[..2], first[..], "the others keep their names");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), tools.len(), "{all:?}");
    }

    #[test]
    fn a_tool_keeps_its_name_when_others_come() {
        let alone = names(&[("a", "one")]);
        assert_eq!(names(&[("a", "one"), ("a", "two")])[0], alone[0]);
    }
}
