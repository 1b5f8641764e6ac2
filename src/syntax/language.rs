//! The languages: their grammars, their file name extensions, and their names after a fence.

use std::path::Path;

/// A language with a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// Bash, and the syntax that other shells share with it.
    Bash,
    /// C.
    C,
    /// C++, and headers of either.
    Cpp,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript, with JSX.
    JavaScript,
    /// Lua.
    Lua,
    /// Python.
    Python,
    /// Rust.
    Rust,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
}

/// A language: its name, its file name extensions, and its other names after a fence, all in lower case.
struct Row {
    language: Language,
    name: &'static str,
    ends: &'static [&'static str],
    aliases: &'static [&'static str],
}

const fn row(
    language: Language,
    name: &'static str,
    ends: &'static [&'static str],
    aliases: &'static [&'static str],
) -> Row {
    Row { language, name, ends, aliases }
}

/// In the order of the variants.
const ROWS: &[Row] = &[
    row(Language::Bash, "bash", &["sh", "bash", "ksh", "bats"], &["shell", "zsh", "shellscript"]),
    row(Language::C, "c", &["c"], &[]),
    // A header may be of either language; C++ reads nearly all of C.
    row(Language::Cpp, "cpp", &["cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inl"], &["c++", "cplusplus"]),
    row(Language::Go, "go", &["go"], &["golang"]),
    row(Language::Java, "java", &["java"], &[]),
    row(Language::JavaScript, "javascript", &["js", "cjs", "mjs", "jsx"], &["node", "nodejs"]),
    row(Language::Lua, "lua", &["lua"], &["luau"]),
    row(Language::Python, "python", &["py", "pyi", "pyw"], &["python3", "python2"]),
    row(Language::Rust, "rust", &["rs"], &[]),
    row(Language::TypeScript, "typescript", &["ts", "cts", "mts"], &[]),
    row(Language::Tsx, "tsx", &["tsx"], &[]),
];
/// Shell files without an extension.
const SHELL_FILES: &[&str] = &[".bashrc", ".bash_profile", ".bash_aliases", ".profile", ".zshrc", "PKGBUILD"];

impl Language {
    /// Every language.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.language)
    }

    /// Returns the language of a file by its name.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if SHELL_FILES.contains(&name) {
            return Some(Self::Bash);
        }
        let end = path.extension()?.to_str()?.to_ascii_lowercase();
        ROWS.iter().find(|row| row.ends.contains(&end.as_str())).map(|row| row.language)
    }

    /// Returns the language of a name: the text after a fence (including `rust,ignore` and `{.python}`), an alias, or a file name
    /// extension.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.trim_start_matches(|c: char| c.is_whitespace() || "{.".contains(c));
        let end = name.find(|c: char| !c.is_alphanumeric() && !"+#-".contains(c)).unwrap_or(name.len());
        let name = name[..end].to_ascii_lowercase();
        let known = |row: &&Row| row.name == name || row.ends.contains(&&*name) || row.aliases.contains(&&*name);
        ROWS.iter().find(known).map(|row| row.language)
    }

    /// Returns its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        ROWS[self as usize].name
    }

    pub(super) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Bash => reedclaw_grammars::bash(),
            Self::C => reedclaw_grammars::c(),
            Self::Cpp => reedclaw_grammars::cpp(),
            Self::Go => reedclaw_grammars::go(),
            Self::Java => reedclaw_grammars::java(),
            Self::JavaScript => reedclaw_grammars::javascript(),
            Self::Lua => reedclaw_grammars::lua(),
            Self::Python => reedclaw_grammars::python(),
            Self::Rust => reedclaw_grammars::rust(),
            Self::TypeScript => reedclaw_grammars::typescript(),
            Self::Tsx => reedclaw_grammars::tsx(),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_language_in_order() {
        assert!(ROWS.iter().enumerate().all(|(at, row)| row.language as usize == at));
        assert_eq!(ROWS.last().map(|row| row.language), Some(Language::Tsx));
    }

    #[test]
    fn files_and_fences_have_their_language() {
        for (path, language) in [
            ("src/main.rs", Some(Language::Rust)),
            ("a/b.c/README", None),
            ("A.PY", Some(Language::Python)),
            ("include/x.h", Some(Language::Cpp)),
            ("ui/App.tsx", Some(Language::Tsx)),
            ("ui/App.jsx", Some(Language::JavaScript)),
            ("home/.bashrc", Some(Language::Bash)),
            ("x.rsx", None),
            ("rs", None),
        ] {
            assert_eq!(Language::of_path(Path::new(path)), language, "{path}");
        }
        for (info, language) in [
            ("rust", Some(Language::Rust)),
            ("Rust", Some(Language::Rust)),
            ("rs,no_run", Some(Language::Rust)),
            ("python title=\"x.py\"", Some(Language::Python)),
            ("{.python .numberLines}", Some(Language::Python)),
            ("c++", Some(Language::Cpp)),
            ("sh", Some(Language::Bash)),
            ("ts", Some(Language::TypeScript)),
            ("golang", Some(Language::Go)),
            ("", None),
            ("text", None),
            ("c#", None),
        ] {
            assert_eq!(Language::of_name(info), language, "{info}");
        }
    }
}
