//! The licences of everything that is built in: each must allow distributing the program as `MIT OR Apache-2.0`. Works offline,
//! with cargo's own data.

use std::process::Command;

use serde_json::Value;

/// Licences without requirements that our binaries don't fulfil.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn every_dependency_has_an_accepted_licence() {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let host = String::from_utf8(host.stdout).expect("text");
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names the host");
    // For this platform only: the sources for other platforms may be missing on this machine.
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20, "only {} packages: that isn't all of them", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(accepts))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "not to be given away under our licence:\n{}", refused.join("\n"));
    let foreign: Vec<&Value> = packages
        .iter()
        .filter(|package| package["source"].as_str().is_some_and(|source| !source.starts_with("registry+")))
        .map(|package| &package["id"])
        .collect();
    assert!(foreign.is_empty(), "not from a registry: {foreign:?}");
}

#[test]
fn the_licence_reader_knows_and_or_with_and_brackets() {
    for expression in [
        "MIT",
        "MIT/Apache-2.0",
        "MIT OR GPL-3.0-only",
        "GPL-2.0 OR (MIT AND Zlib)",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "MIT AND (GPL-3.0 OR ISC)",
    ] {
        assert!(accepts(expression), "{expression}");
    }
    for expression in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "GPL-2.0 WITH Classpath-exception-2.0",
        "(GPL-2.0 OR AGPL-3.0) AND MIT",
        "MIT OR",
        "(MIT",
        "MIT ISC",
    ] {
        assert!(!accepts(expression), "{expression}");
    }
}

/// Returns whether the accepted licences satisfy an SPDX expression. An unreadable expression isn't accepted.
fn accepts(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest).unwrap_or(false) && rest.is_empty()
}

fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut accepted = all_of(rest)?;
    while rest.first() == Some(&"OR") {
        *rest = &rest[1..];
        accepted |= all_of(rest)?;
    }
    Some(accepted)
}

fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut accepted = one(rest)?;
    while rest.first() == Some(&"AND") {
        *rest = &rest[1..];
        accepted &= one(rest)?;
    }
    Some(accepted)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    let (word, mut after) = rest.split_first()?;
    if *word == "(" {
        let accepted = any_of(&mut after)?;
        *rest = after.strip_prefix(&[")"])?;
        return Some(accepted);
    }
    let mut licence = (*word).to_string();
    if let ["WITH", exception, left @ ..] = after {
        licence = format!("{licence} WITH {exception}");
        after = left;
    }
    *rest = after;
    Some(ACCEPTED.contains(&licence.as_str()))
}
