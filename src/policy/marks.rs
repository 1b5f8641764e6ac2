//! What some languages do by ways of their own: signs for a shell, moves, walks through a tree.

use super::code::{Literal, Use};
use super::interpret::{has_any, is_database};
use super::place::Place;
use super::run::{Run, Value};
use super::text;
use crate::proto::action::WriteKind;

/// Calls that go through all below a directory.
const WALKS: &[&str] = &[
    "os.walk",
    ".walk(",
    "rglob",
    "File::Find",
    "find(sub",
    "find({",
    "find(\\&",
    "Find.find",
    "finddepth",
    "WalkDir",
    "filepath.Walk",
    "DirectoryIterator",
    "recursive: true",
    "recursive:true",
    "recursive=True",
    "walkSync",
];
/// Signs that code chooses among what it finds.
const CHOOSES: &[&str] = &[
    " if ", " if(", "?.", "endswith", "endsWith", "suffix", "match", "filter", "unless ", "=~", "&&", "fnmatch",
    " and ",
];
/// Calls that remove one file or directory.
const REMOVES: &[&str] = &["remove", "unlink", "rmdir", "delete", "Remove", "truncate"];

impl Run<'_, '_> {
    /// What some languages run by signs of their own; gives whether what a pipe brings comes from elsewhere.
    pub(super) fn own_marks(&mut self, name: &str, code: &str, literals: &[Literal]) -> bool {
        let mut fetches = false;
        if is_database(name) {
            self.database_marks(code);
        }
        if name.starts_with("python") && !self.written.is_empty() {
            for line in code.split(['\n', ';']).map(str::trim_start) {
                let modules = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
                let modules = modules.map_or("", |modules| modules.split(" import ").next().unwrap_or_default());
                let names = modules.split(',').filter_map(|module| module.split_whitespace().next());
                names.for_each(|module| self.written_module(module));
            }
        }
        // A pipe in place of a file's name.
        if matches!(name, "perl" | "ruby") {
            let texts = literals.iter().map(|literal| literal.text.as_str());
            // `open(P, "-|", "…")`
            let by_list = has_any(code, &["\"-|\"", "'-|'"]);
            let codes = texts.filter_map(|text| match text.strip_prefix('|').or_else(|| text.strip_suffix('|')) {
                None => (by_list && text.contains(' ')).then_some(text),
                Some("-") => None,
                code => code,
            });
            let printed: Value = codes.flat_map(|code| self.embedded(code, true)).collect();
            fetches = text::is_foreign(&printed);
        }
        if matches!(name, "tclsh" | "wish") {
            for line in code.lines().filter_map(|line| line.split_once("file rename ")) {
                self.embedded(&format!("mv {}", line.1.replace("-force", "-f")), true);
            }
            let opened = code.match_indices("open ").map(|(at, mark)| code[at + mark.len()..].split([']', '\n']));
            for mut call in opened.filter_map(|mut call| call.next().map(str::split_whitespace)) {
                if let (Some(path), Some(mode)) = (call.next(), call.next())
                    && mode.contains(['w', 'a', '+', 'W', 'A'])
                {
                    self.writes(path.trim_matches(['"', '{', '}']), WriteKind::Write);
                }
            }
            for line in code.lines().filter_map(|line| line.split_once("file delete ")) {
                self.embedded(&format!("rm -r {}", line.1.replace("-force", "-f")), true);
            }
        }
        if matches!(name, "tclsh" | "wish" | "expect" | "gdb") {
            for line in code.lines().filter_map(|line| line.split_once("exec ").or_else(|| line.split_once("shell "))) {
                self.embedded(line.1, true);
            }
        }
        fetches
    }

    /// Code that does the same to all that it finds below a directory does it to the directory.
    pub(super) fn walked(&mut self, code: &str, literals: &[Literal]) {
        let is_choice = |literal: &Literal| {
            literal.text.contains('*')
                && literal.text.chars().any(char::is_alphanumeric)
                && !literal.text.starts_with('/')
        };
        if !has_any(code, WALKS) || has_any(code, CHOOSES) || literals.iter().any(is_choice) {
            return;
        }
        let how = match has_any(code, REMOVES) {
            true => WriteKind::DeleteTree,
            false if has_any(code, &["chmod", "chown", "lchown"]) => WriteKind::Mode,
            false => return,
        };
        for Literal { text, .. } in literals.iter().filter(|literal| literal.how != Use::Run) {
            if text == "." || text.starts_with(['/', '~']) && text.len() < 256 && !text.contains(char::is_whitespace) {
                let path =
                    text.strip_prefix('~').map_or(text.clone(), |below| format!("{}{below}", self.map.rules.home));
                self.whole_tree(&text::alive(&path), how);
            }
        }
    }

    /// What code moves elsewhere.
    pub(super) fn moves_away(&mut self, path: &str) {
        if self.absolute(path).iter().any(|path| self.map.is_vital(&Place::of(path))) {
            self.block("move-tree", format!("moves {path} away"));
        }
        self.writes(path, WriteKind::Move);
    }
}
