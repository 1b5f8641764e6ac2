//! The tests in a Rust source, which are beside the work itself: found by their attributes and by the layout that `rustfmt`
//! produces, and restored to their earlier version.

use std::ops::Range;

/// An item with an attribute of tests: a module or a function.
struct Item<'t> {
    /// The words before its parameters or its body, such as `mod tests`.
    name: &'t str,
    /// Its place, with its attributes.
    place: Range<usize>,
}

/// Returns whether a source has tests in it.
pub(super) fn has_tests(source: &[u8]) -> bool {
    std::str::from_utf8(source).is_ok_and(|text| !items(text).is_empty())
}

/// Returns the present source with the tests of an earlier one, `None` if they are there as they were.
pub(super) fn put_back(earlier: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    let (earlier, mut text) = (std::str::from_utf8(earlier).ok()?, String::from_utf8_lossy(now).into_owned());
    let mut is_changed = false;
    for item in items(earlier) {
        let before = &earlier[item.place.clone()];
        let place = items(&text).into_iter().find(|it| it.name == item.name).map(|it| it.place);
        match place {
            Some(place) if &text[place.clone()] == before => continue,
            Some(place) => text.replace_range(place, before),
            None => text.push_str(&format!("\n{before}")),
        }
        is_changed = true;
    }
    is_changed.then(|| text.into_bytes())
}

/// The items of a source that are tests.
fn items(text: &str) -> Vec<Item<'_>> {
    let mut found = Vec::new();
    let (mut at, mut attributes, mut is_test, mut open) = (0, None, false, 0_usize);
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let (start, trimmed) = (at, line.trim());
        at += line.len();
        if open > 0 || trimmed.starts_with("#[") {
            attributes.get_or_insert(start);
            is_test |= names_tests(trimmed);
            open = (open + trimmed.matches('[').count()).saturating_sub(trimmed.matches(']').count());
            // An attribute may be on the item's own line.
            if open > 0 || trimmed.ends_with(']') {
                continue;
            }
        } else if trimmed.is_empty() || trimmed.starts_with("//") {
            continue;
        }
        if let Some(first) = attributes.take().filter(|_| std::mem::take(&mut is_test)) {
            let indent = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indent}}}");
            if !(trimmed.ends_with(';') || trimmed.ends_with('}')) {
                for line in lines.by_ref() {
                    at += line.len();
                    if line.trim_end() == end {
                        break;
                    }
                }
            }
            let head =
                trimmed.rsplit_once(']').map_or(trimmed, |(_, head)| if head.is_empty() { trimmed } else { head });
            let name = head.split(['{', '(', ';', '<']).next().unwrap_or(head).trim();
            found.push(Item { name, place: first..at });
        }
        is_test = false;
    }
    found
}

/// Returns whether an attribute has the word `test` in it, as `#[test]`, `#[cfg(test)]` and `#[tokio::test]` do.
fn names_tests(attribute: &str) -> bool {
    let mut words = attribute.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|word| matches!(word, "test" | "rstest" | "test_case" | "proptest" | "quickcheck"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn one() -> u32 {\n    2\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn is_one() {\n        \
                          assert_eq!(super::one(), 1);\n    }\n}\n\n#[test]\nfn alone() {}\n#[cfg(test)]\nmod far;\nfn end() {}\n";

    #[test]
    fn the_tests_of_a_source_are_found() {
        let names: Vec<&str> = items(SOURCE).iter().map(|item| item.name).collect();
        assert_eq!(names, ["mod tests", "fn alone", "mod far"]);
        assert_eq!(&SOURCE[items(SOURCE)[2].place.clone()], "#[cfg(test)]\nmod far;\n");
        assert!(has_tests(SOURCE.as_bytes()) && !has_tests(b"#[derive(Debug)]\nstruct Latest;\n"));
        let other = "#[tokio::test(\n    flavor = \"x\"\n)]\nasync fn two() {\n}\n#[cfg(not(unix))]\nfn no() {}\n";
        assert_eq!(items(other).iter().map(|item| item.name).collect::<Vec<_>>(), ["async fn two"]);
    }

    #[test]
    fn changed_and_removed_tests_are_put_back_and_new_work_stays() {
        let work = SOURCE.replace("    2\n", "    1\n");
        let back =
            |now: &str| put_back(SOURCE.as_bytes(), now.as_bytes()).map(|it| String::from_utf8(it).expect("text"));
        assert_eq!(back(&work), None, "only the work has changed");
        let more = work.replace("#[test]\nfn alone", "#[test]\nfn more() {}\n\n#[test]\nfn alone");
        assert_eq!(back(&more), None, "a new test is no change of the others");
        let bent = work.replace("one(), 1", "one(), 2").replace("#[test]\nfn alone", "#[test]\n#[ignore]\nfn alone");
        assert_eq!(back(&bent).as_deref(), Some(work.as_str()));
        let gone = work.replace("#[cfg(test)]\nmod far;\n", "");
        assert_eq!(back(&gone), Some(format!("{gone}\n#[cfg(test)]\nmod far;\n")));
        let bare = work.replace("#[test]\nfn alone", "fn alone");
        assert_eq!(
            back(&bare),
            Some(format!("{bare}\n#[test]\nfn alone() {{}}\n")),
            "it doesn't compile, which is no pass"
        );
    }
}
