//! File names that some file systems treat as equal: those that differ only in case, or in the Unicode form of a letter. Pure.

use unicode_normalization::UnicodeNormalization as _;

/// The common form of all names that macOS or Windows may treat as equal; a name that isn't UTF-8 has none.
#[must_use]
pub fn folded(name: &[u8]) -> Option<String> {
    // A letter with a separate accent becomes one letter first, so that it has only one lower-case form.
    std::str::from_utf8(name).ok().map(|name| name.nfc().flat_map(char::to_lowercase).nfc().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_file_elsewhere_have_one_form() {
        for (one, other, is_same) in [
            ("README.md", "readme.MD", true),
            ("caf\u{e9}", "cafe\u{301}", true),
            ("CAFE\u{301}", "caf\u{e9}", true),
            ("a", "b", false),
            ("a-b", "a_b", false),
        ] {
            assert_eq!(folded(one.as_bytes()) == folded(other.as_bytes()), is_same, "{one} {other}");
        }
        assert_eq!(folded(b"\xff"), None);
    }
}
