//! Skills and prompt templates: Markdown files that begin with `name: value` lines, in directories of the user and of a project.
//! It reads them and describes a project's files exactly, so that a person can trust exactly that text. It must not know who
//! trusts them, nor how a model learns of them.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::base::hash::sha256_hex;
use crate::base::text::{is_invisible, quoted_words};
use crate::files::open_plain;

/// Limit on the files that are read of each kind of place; further ones are left out and reported.
const FILES_MAX: usize = 100;
/// Limit on one file in bytes: a longer text is unsuitable for sending with a question.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Limit on a description, which every question carries, in characters.
const DESCRIPTION_CHARS_MAX: usize = 500;
/// Limit on a name, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Directories of skills and templates. If several directories contain a name, the first one counts.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Directories that contain a directory with a `SKILL.md` for each skill.
    pub skills: Vec<PathBuf>,
    /// Directories of templates, each a Markdown file.
    pub templates: Vec<PathBuf>,
    /// A project's directory, outside of which no link may lead. The user's own skills may link anywhere.
    pub within: Option<PathBuf>,
}

impl Places {
    /// The user's own directories, together with those of other programs.
    #[must_use]
    pub fn of_user(config: Option<&Path>, home: Option<&Path>) -> Self {
        let mut places = Self::default();
        if let Some(config) = config {
            places.skills.push(config.join("skills"));
            places.templates.push(config.join("prompts"));
        }
        if let Some(home) = home {
            places.skills.extend([home.join(".agents/skills"), home.join(".claude/skills")]);
            places.templates.extend([home.join(".agents/prompts"), home.join(".claude/commands")]);
        }
        places
    }

    /// A project's directories.
    #[must_use]
    pub fn of_project(root: &Path) -> Self {
        let at = |names: [&str; 3]| names.iter().map(|name| root.join(name)).collect();
        Self {
            skills: at([".reedclaw/skills", ".agents/skills", ".claude/skills"]),
            templates: at([".reedclaw/prompts", ".agents/prompts", ".claude/commands"]),
            within: Some(root.to_owned()),
        }
    }
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its name.
    pub name: String,
    /// Its purpose, in its author's words.
    pub description: String,
    /// The text after the head.
    pub body: String,
    /// The path of its file.
    pub path: PathBuf,
    /// Hash of its bytes.
    hash: String,
}

/// The contents of all directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Skills, by name.
    pub skills: Vec<Text>,
    /// Templates, by name.
    pub templates: Vec<Text>,
    /// Files that can't be used, with the reasons.
    pub problems: Vec<String>,
}

impl Found {
    /// Returns whether there are no skills and no templates.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.templates.is_empty()
    }

    /// The text that a person trusts: a line with hash and path for each file. Trust in this text is trust in exactly those
    /// files.
    #[must_use]
    pub fn manifest(&self) -> String {
        let all = self.skills.iter().chain(&self.templates);
        all.map(|it| format!("{}  {}\n", it.hash, it.path.display())).collect()
    }
}

/// Reads the contents of the directories.
#[must_use]
pub fn read(places: &Places) -> Found {
    let mut found = Found::default();
    let skills = files(&places.skills, &mut found.problems, |path| path.is_dir().then(|| path.join("SKILL.md")));
    let templates = files(&places.templates, &mut found.problems, |path| {
        path.extension().is_some_and(|it| it == "md").then(|| path.to_owned())
    });
    for (into, paths) in [(&mut found.skills, skills), (&mut found.templates, templates)] {
        for (name, path) in paths {
            match text_of(&name, &path, places.within.as_deref()) {
                Ok(text) if into.iter().any(|known| known.name == text.name) => {}
                Ok(text) => into.push(text),
                Err(why) => found.problems.push(format!("{}: {why}", path.display())),
            }
        }
        into.sort_by(|one, other| one.name.cmp(&other.name));
    }
    found
}

/// Inserts arguments into a template: `$ARGUMENTS` or `$@` are all of them, `$1` to `$9` single ones. If the template contains
/// none of these, the arguments follow its text. A quoted part is one argument.
#[must_use]
pub fn filled(body: &str, arguments: &str) -> String {
    let words = quoted_words(arguments);
    let mut out = String::with_capacity(body.len() + arguments.len());
    let mut rest = body;
    let mut is_filled = false;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digit = rest.chars().next().and_then(|c| c.to_digit(10)).filter(|digit| *digit > 0);
        let (value, length) = match digit {
            Some(digit) => (words.get(digit as usize - 1).copied().unwrap_or_default(), 1),
            None if rest.starts_with("ARGUMENTS") => (arguments, "ARGUMENTS".len()),
            None if rest.starts_with('@') => (arguments, 1),
            None => {
                out.push('$');
                continue;
            }
        };
        is_filled = true;
        out.push_str(value);
        rest = &rest[length..];
    }
    out.push_str(rest);
    if !is_filled && !arguments.is_empty() {
        out.push_str(&format!("\n\n{arguments}"));
    }
    out
}

/// The files of directories, with the names that apply if a file has no head.
fn files(
    directories: &[PathBuf],
    problems: &mut Vec<String>,
    file_of: impl Fn(&Path) -> Option<PathBuf>,
) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        let mut here: Vec<(String, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let path = file_of(&entry.path())?;
                let name = entry.path().file_stem()?.to_str()?.to_owned();
                path.symlink_metadata().is_ok().then_some((name, path))
            })
            .collect();
        here.sort();
        files.append(&mut here);
    }
    if files.len() > FILES_MAX {
        problems.push(format!("{} more files are left out", files.len() - FILES_MAX));
        files.truncate(FILES_MAX);
    }
    files
}

fn text_of(name: &str, path: &Path, within: Option<&Path>) -> Result<Text, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    let is_inside = within.is_none_or(|root| root.canonicalize().is_ok_and(|root| real.starts_with(root)));
    if !is_inside {
        return Err("it leads out of the project".into());
    }
    let mut bytes = Vec::new();
    let file = open_plain(&real).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {} KiB", FILE_BYTES_MAX / 1024));
    }
    let hash = sha256_hex(&bytes);
    let text = String::from_utf8(bytes).map_err(|_| "it isn't text".to_owned())?;
    let is_hidden = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_invisible(c);
    let text: String = text.chars().filter(|c| !is_hidden(*c)).collect();
    let (head, body) = parts(&text);
    let value = |key: &str| head.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let name = value("name").filter(|name| !name.is_empty()).unwrap_or(name).to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        return Err("its name has characters other than letters, digits, - _ . :".into());
    }
    let first = || body.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let description = value("description").or_else(first).unwrap_or_default();
    let description = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
    Ok(Text { name, description, body: body.trim().to_owned(), path: path.to_owned(), hash })
}

/// The head's names and values, and the text below it. A value may be in quotes or continue in indented lines.
fn parts(text: &str) -> (Vec<(String, String)>, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return (Vec::new(), text) };
    let Some(end) = rest.find("\n---") else { return (Vec::new(), text) };
    let mut head: Vec<(String, String)> = Vec::new();
    for line in rest[..end].lines() {
        let goes_on = line.starts_with([' ', '\t']);
        match (line.split_once(':'), head.last_mut()) {
            (_, Some((_, value))) if goes_on => {
                value.push_str(if value.is_empty() { "" } else { " " });
                value.push_str(line.trim());
            }
            (Some((name, value)), _) if !goes_on => {
                let value = value.trim().trim_start_matches(['>', '|']);
                head.push((name.trim().to_owned(), value.trim_matches(['"', '\'']).to_owned()));
            }
            _ => {}
        }
    }
    let below = &rest[end + 1..];
    (head, below.split_once('\n').map_or("", |(_, body)| body))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn skills_and_templates_are_read_with_their_heads() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        };
        put(".claude/skills/pdf/SKILL.md", "---\nname: pdf-forms\ndescription: >\n  Fill in\n  forms\n---\n# Body\n");
        put(".agents/skills/plain/SKILL.md", "# Just a title\nand a body\n");
        put(
            ".claude/commands/fix.md",
            "---\ndescription: \"fixes\u{202e} it\"\n---\nFix $1 in $2 ($ARGUMENTS) for $5.\n",
        );
        put("outside", "SECRET");
        let root = dir.path().join("project");
        let found = read(&Places::of_project(dir.path()));
        let named: Vec<(&str, &str)> = found.skills.iter().map(|it| (&*it.name, &*it.description)).collect();
        assert_eq!(named, [("pdf-forms", "Fill in forms"), ("plain", "Just a title")]);
        assert_eq!(found.skills[0].body, "# Body");
        assert_eq!(found.templates[0].description, "fixes it");
        assert_eq!(filled(&found.templates[0].body, "a b"), "Fix a in b (a b) for .");
        assert_eq!(filled("Review $1. Then $2.", "\"f one.txt\" two"), "Review f one.txt. Then two.");
        assert_eq!(filled("Cost $ and $x", "more"), "Cost $ and $x\n\nmore");

        let before = found.manifest();
        put(".claude/commands/fix.md", "Fix it all\n");
        assert_ne!(read(&Places::of_project(dir.path())).manifest(), before);

        fs::create_dir_all(root.join(".claude/skills/evil")).expect("directories");
        std::os::unix::fs::symlink(dir.path().join("outside"), root.join(".claude/skills/evil/SKILL.md"))
            .expect("a link");
        let found = read(&Places::of_project(&root));
        assert!(found.is_empty() && found.problems[0].contains("leads out of the project"), "{found:?}");
    }
}
