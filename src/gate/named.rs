//! Files that other programs run though their own names don't say so: git's configuration names them (programs, filters, hooks,
//! further configuration), or a link with a protected name leads to them. Configuration is read as text; nothing is started. It
//! must not know what is done about a file.
//!
//! Git has some eighty settings that start a program, and its extensions have more, so the rule isn't a list of settings:
//! a word of any value counts if it is the path of a file. Words without a slash count if a program could read them as a path.

mod links;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::files::{normal, open_plain};
use crate::host;
use crate::proto::known_paths;

pub use links::Tracked;

/// Reasons why a file is protected.
const CONFIGURED: &str = "git's configuration names this";
const LINKED: &str = "other programs run this through a link";
/// Lengths of the names for contents in a repository with SHA-1 and with SHA-256.
const ID_BYTES: [usize; 2] = [20, 32];
/// Files of configuration that are read for one repository, with all that they include.
const FILES_MAX: usize = 64;
/// Bytes of each that are read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Names of one repository.
const NAMES_MAX: usize = 10_000;
/// Bytes of `.git` and `commondir`: one line, which is a path.
const LINE_BYTES_MAX: u64 = 8 * 1024;
/// Files that decide what git and people see, but start nothing.
const HARMLESS: [(&str, &str); 3] = [("blame", "ignorerevsfile"), ("core", "excludesfile"), ("mailmap", "file")];
/// Files that configure git if a `HEAD` lies beside them: a bare repository has no `.git`.
const OF_BARE: [&str; 3] = ["commondir", "config", "config.worktree"];
/// Sections whose values are text of a person's.
const TEXTS: [&str; 2] = ["branch", "user"];

/// The files of the workspace, and of repositories above the paths that are asked about, that other programs run by another name
/// than their own; as they were at the first question.
#[derive(Debug)]
pub struct Named {
    home: PathBuf,
    workspace: PathBuf,
    tracked: Arc<Tracked>,
    /// The settings of the user and of the machine.
    user: OnceLock<Vec<Setting>>,
    above: Mutex<HashMap<PathBuf, Arc<[Name]>>>,
    /// The directory that was asked about last: a command makes many files in one.
    last: Mutex<Option<(PathBuf, Arc<[Name]>)>>,
}

/// A path that is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    path: PathBuf,
    by: By,
}

/// The reason of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// A configuration names this file.
    File,
    /// A configuration names this directory: all below it is meant as well.
    Tree,
    /// The link at this path, from the top of its repository or workspace, leads there.
    Link(PathBuf),
}

/// A value of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    value: String,
    /// True if the value is one path.
    is_path: bool,
    /// True if the value names the hash of the repository.
    is_hash: bool,
    /// True if a word without a slash may be a path.
    has_plain_names: bool,
    /// For a file that is included, the directory of the one that includes it.
    base: Option<PathBuf>,
}

impl Named {
    /// Nothing is read before the first question.
    #[must_use]
    pub fn new(home: &Path, workspace: &Path) -> Self {
        Self::over(home, workspace, Arc::default())
    }

    /// The same, with what is known of git's indices.
    #[must_use]
    pub fn over(home: &Path, workspace: &Path, tracked: Arc<Tracked>) -> Self {
        let (home, workspace) = (home.to_owned(), workspace.to_owned());
        Self { home, workspace, tracked, user: OnceLock::new(), above: Mutex::default(), last: Mutex::default() }
    }

    /// Reason why a change of an absolute path changes what other programs do: the path is named, lies above a named one, or
    /// below a named directory. The configuration of a bare repository counts as well.
    #[must_use]
    pub fn reason(&self, path: &Path) -> Option<&'static str> {
        let is_of_bare = |name: &std::ffi::OsStr| OF_BARE.iter().any(|it| name.eq_ignore_ascii_case(it));
        if path.file_name().is_some_and(is_of_bare) && path.with_file_name("HEAD").symlink_metadata().is_ok() {
            return Some(CONFIGURED);
        }
        let names = path.parent().map(|directory| self.beside(directory)).unwrap_or_default();
        names.iter().find_map(|name| name.reason(path))
    }

    /// The same for a path of the workspace.
    #[must_use]
    pub fn reason_below(&self, relative: &Path) -> Option<&'static str> {
        self.reason(&self.workspace.join(relative))
    }

    /// The same as [`Named::above`], remembering the last answer.
    fn beside(&self, directory: &Path) -> Arc<[Name]> {
        let mut last = self.last.lock();
        match &*last {
            Some((known, names)) if known.as_os_str() == directory.as_os_str() => names.clone(),
            _ => last.insert((directory.to_owned(), self.above(directory))).1.clone(),
        }
    }

    /// The names of the repositories that hold a directory.
    fn above(&self, directory: &Path) -> Arc<[Name]> {
        if let Some(known) = self.above.lock().get(directory) {
            return known.clone();
        }
        let further = directory.parent().map(|parent| self.above(parent));
        let own = self.of(directory);
        let names = match further {
            Some(further) if own.is_empty() => further,
            Some(further) => own.into_iter().chain(further.iter().cloned()).collect(),
            None => own.into(),
        };
        self.above.lock().insert(directory.to_owned(), names.clone());
        names
    }

    /// The names of the repository with its top at a directory, and of the workspace. The user's configuration can name any path
    /// of the machine.
    fn of(&self, top: &Path) -> Vec<Name> {
        let git = git_directories(top);
        let mut names = Vec::new();
        let mut id_bytes = ID_BYTES[0];
        if !git.is_empty() || top.parent().is_none() {
            let user = self.user.get_or_init(|| self.user_settings());
            let mut settings = Vec::new();
            let mut left = FILES_MAX;
            for directory in &git {
                for name in ["config", "config.worktree"] {
                    self.read(&directory.join(name), &mut left, &mut settings);
                }
            }
            id_bytes = ID_BYTES[usize::from(settings.iter().any(|it| it.is_hash && it.value == "sha256"))];
            settings.iter().chain(user).for_each(|setting| self.name(setting, top, &mut names));
            names.truncate(NAMES_MAX);
            let real: Vec<Name> = names.iter().filter_map(Name::resolved).collect();
            names.extend(real);
        }
        if !git.is_empty() || top == self.workspace {
            let index = git.first().map(|git| git.join("index"));
            let links = links::links(top, index.as_deref().map(|index| (index, id_bytes)), &self.tracked);
            names.extend(links.into_iter().take(NAMES_MAX).map(|it| Name { path: it.target, by: By::Link(it.name) }));
        }
        names
    }

    fn user_settings(&self) -> Vec<Setting> {
        let environment = host::environment();
        let named = |name: &str| environment.get(std::ffi::OsStr::new(name)).map(PathBuf::from);
        // git takes a relative one, too.
        let config = named("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"));
        let files = [Some("/etc/gitconfig".into()), named("GIT_CONFIG_SYSTEM"), named("GIT_CONFIG_GLOBAL")];
        let own = [config.join("git/config"), self.home.join(".gitconfig")];
        let mut settings = Vec::new();
        let mut left = FILES_MAX;
        files.into_iter().flatten().chain(own).for_each(|file| self.read(&file, &mut left, &mut settings));
        settings
    }

    /// Reads a configuration and those that it includes, whatever the condition is.
    fn read(&self, file: &Path, left: &mut usize, all: &mut Vec<Setting>) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (Some(text), Some(directory)) = (text_of(file, FILE_BYTES_MAX), file.parent()) else { return };
        for (section, setting) in settings(&text) {
            let is_include = matches!(section.as_str(), "include" | "includeif") && setting.is_path;
            let base = is_include.then(|| directory.to_owned());
            if is_include {
                self.read(&self.at(directory, &setting.value), left, all);
            }
            all.push(Setting { base, ..setting });
        }
    }

    /// The target of a path in a configuration.
    fn at(&self, base: &Path, path: &str) -> PathBuf {
        path.strip_prefix("~/").map_or_else(|| base.join(path), |below| self.home.join(below))
    }

    /// Adds the paths below a repository's top that a setting names.
    fn name(&self, setting: &Setting, top: &Path, names: &mut Vec<Name>) {
        for word in setting.words() {
            // `$PWD/x` and `$(git rev-parse --show-toplevel)/x` are at the top.
            let word = if word.starts_with('$') { word.split_once('/').map_or("", |(_, below)| below) } else { word };
            let at_top = || top.join(word.trim_start_matches('/'));
            let places = [Some(self.at(setting.base.as_deref().unwrap_or(top), word)), Some(at_top())];
            for path in places.into_iter().flatten().map(|path| normal(&path)) {
                let name = Name { path, by: if setting.is_path { By::Tree } else { By::File } };
                if name.path != top && name.path.starts_with(top) && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
}

impl Name {
    /// Returns the same with its links followed, if they lead elsewhere.
    fn resolved(&self) -> Option<Self> {
        let path = std::fs::canonicalize(&self.path).ok().filter(|path| *path != self.path)?;
        Some(Self { path, by: self.by.clone() })
    }

    /// Reason why a path is protected.
    fn reason(&self, path: &Path) -> Option<&'static str> {
        match &self.by {
            By::File | By::Tree if self.path.starts_with(path) => Some(CONFIGURED),
            By::Tree if path.starts_with(&self.path) => Some(CONFIGURED),
            By::File | By::Tree => None,
            By::Link(_) if self.path.starts_with(path) => Some(LINKED),
            // The other name of the path.
            By::Link(link) => {
                let other = link.join(path.strip_prefix(&self.path).ok()?);
                known_paths::protected(other.as_os_str().as_encoded_bytes()).map(|_| LINKED)
            }
        }
    }
}

impl Setting {
    /// The words of the value that may be paths.
    fn words(&self) -> Vec<&str> {
        let value = self.value.as_str();
        if self.is_path {
            let is_switch = matches!(value, "true" | "false");
            return if is_switch { Vec::new() } else { vec![value] };
        }
        let is_between = |c: char| c.is_whitespace() || "'\";|&()<>`=,:{}!+".contains(c);
        let all: Vec<&str> = value.split(is_between).filter(|word| !word.is_empty()).collect();
        // A name alone is a program on `PATH`.
        let has_plain_names = self.has_plain_names && all.len() > 1;
        // A path in quotes may contain blanks.
        let quoted = ['\'', '"'].into_iter().flat_map(|quote| value.split(quote).skip(1).step_by(2));
        let whole = quoted.chain([value]).filter(|text| text.contains(char::is_whitespace));
        all.iter()
            .copied()
            .chain(whole)
            .filter(|word| !word.starts_with('-') && (word.contains('/') || has_plain_names))
            .collect()
    }
}

/// The directories with the configuration of the repository that has its top here.
fn git_directories(top: &Path) -> Vec<PathBuf> {
    let dot_git = top.join(".git");
    let git = match std::fs::metadata(&dot_git) {
        Ok(data) if data.is_dir() => dot_git,
        Ok(_) => {
            let line = text_of(&dot_git, LINE_BYTES_MAX).unwrap_or_default();
            let Some(path) = line.strip_prefix("gitdir:") else { return Vec::new() };
            top.join(path.trim())
        }
        Err(_) => return Vec::new(),
    };
    let common = text_of(&git.join("commondir"), LINE_BYTES_MAX).map(|line| git.join(line.trim()));
    [Some(git), common].into_iter().flatten().collect()
}

/// The beginning of a plain file. A pipe isn't waited for.
fn text_of(path: &Path, bytes_max: u64) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The settings of a configuration, each with its section in small letters; the syntax is that of git-config(1). What git would
/// refuse is read as far as it makes sense.
fn settings(text: &str) -> Vec<(String, Setting)> {
    let mut found = Vec::new();
    let mut section = String::new();
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '#' | ';' => rest.split_once('\n').map_or("", |(_, after)| after),
            '[' => {
                let (name, after) = header(&rest[1..]);
                section = name;
                after
            }
            _ => {
                let end = rest.find(['=', '\n']).unwrap_or(rest.len());
                let key = rest[..end].trim().to_ascii_lowercase();
                let (value, after) = match rest[end..].strip_prefix('=') {
                    Some(value) => unquoted(value),
                    None => (String::new(), &rest[end..]),
                };
                let value = value.trim().to_owned();
                if !value.is_empty() && !HARMLESS.contains(&(section.as_str(), key.as_str())) {
                    found.push((section.clone(), setting(&section, &key, value)));
                }
                after
            }
        }
        .trim_start();
    }
    found
}

fn setting(section: &str, key: &str, value: String) -> Setting {
    let is_path = ["path", "file", "dir"].iter().any(|end| key.ends_with(end));
    let is_git_alias = section == "alias" && !value.starts_with('!');
    let is_hash = section == "extensions" && key == "objectformat";
    Setting { is_path, is_hash, has_plain_names: !is_git_alias && !TEXTS.contains(&section), value, base: None }
}

/// Returns the name of a section in lower case, without its subsection, and the text after the header.
fn header(text: &str) -> (String, &str) {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name = text.trim_start().split(|c| !is_of_name(c)).next().unwrap_or_default().to_ascii_lowercase();
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.find(|c| {
        let is_end = c == '\n' || c == ']' && !is_quoted;
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    (name, end.map_or("", |end| &text[end + 1..]))
}

/// A value as git reads it, and the text after it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut is_quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => return (value, &text[at..]),
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => {
                return (value, text[at..].split_once('\n').map_or("", |(_, after)| after));
            }
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('\n') | None => {}
                Some('n' | 't') => value.push(' '),
                Some(c) => value.push(c),
            },
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// The files of a workspace that a configuration of its repository names.
    fn named(config: &str, user: &str, paths: &[&str]) -> Vec<String> {
        let home = tempfile::tempdir().expect("a directory");
        let home = fs::canonicalize(home.path()).expect("a path");
        let top = home.join("code");
        fs::create_dir_all(top.join(".git")).expect("a directory");
        fs::write(top.join(".git/config"), config).expect("a file");
        fs::write(home.join(".gitconfig"), user).expect("a file");
        let names = Named::new(&home, &top);
        paths
            .iter()
            .filter(|path| names.reason(&top.join(path)) == Some(CONFIGURED))
            .map(|path| (*path).to_owned())
            .collect()
    }

    #[test]
    fn each_file_that_a_setting_of_git_runs_or_reads_is_named() {
        for (config, path) in [
            ("[include]\n path = ../local.gitconfig", "local.gitconfig"),
            ("[INCLUDEIF \"gitdir:~/wo]rk/\"]\n Path = \"../conf/more\"", "conf/more"),
            ("[core]\n attributesFile = attributes", "attributes"),
            ("[core]\n hooksPath = .hooks # ours\n", ".hooks/lib/common.sh"),
            ("[core] hooksPath = ./.hooks/", ".hooks"),
            ("[core]\n fsmonitor = tools/monitor", "tools/monitor"),
            ("[core]\n sshCommand = ssh -F ssh_config", "ssh_config"),
            ("[core]\n pager = sh ./pager.sh | less", "pager.sh"),
            ("[core]\n editor = \"python3 \\\"my tools/edit.py\\\"\"", "my tools/edit.py"),
            ("[filter \"x\"]\n clean = python3 clean.py %f", "clean.py"),
            ("[filter \"x\"]\n smudge = \\\n   tools/smudge", "tools/smudge"),
            ("[filter \"x\"]\n process = node --require=./hook.js x", "hook.js"),
            ("[diff \"x\"]\n textconv = $PWD/text.sh", "text.sh"),
            ("[merge \"x\"]\n driver = tools/merge %O %A %B", "tools/merge"),
            ("[gpg]\n program = ./sign", "sign"),
            ("[gpg \"ssh\"]\n defaultKeyCommand = sh -c 'tools/key a'", "tools/key"),
            ("[alias]\n x = \"!f() { tools/a && ./b; }; f\"", "b"),
            ("[alias]\n x = !$(git rev-parse --show-toplevel)/tools/a", "tools/a"),
            ("[alias]\n st = -c core.fsmonitor=./m status", "m"),
            ("[alias]\n x = !sh run.sh", "run.sh"),
            ("[remote \"o\"]\n uploadpack = ./pack", "pack"),
            ("[remote \"o\"]\n url = ext::tools/speak %S", "tools/speak"),
            ("[credential]\n helper = !tools/credential", "tools/credential"),
            ("[somebody-elses \"new\"]\n runs = ./it", "it"),
            // A link that would replace it.
            ("[filter \"x\"]\n clean = tools/deep/clean", "tools"),
        ] {
            assert_eq!(named(config, "", &[path]), [path], "{config}");
            assert_eq!(named("", config.replace("../", "~/code/").as_str(), &[path]), [path], "the user's: {config}");
        }
    }

    #[test]
    fn settings_that_name_no_file_protect_none() {
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tquotePath = true\n\teditor = vim\n\
                      \texcludesFile = .gitignore_local\n[blame]\n ignoreRevsFile = .git-blame-ignore-revs\n\
                      [remote \"origin\"]\n\turl = https://example.org/src/main.git\n\
                      \tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                      [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n description = fix the docs\n\
                      [user]\n name = Jane src\n[init]\n defaultBranch = main\n[alias]\n co = checkout main\n\
                      # ./note.txt\n; ./note.txt\n[x] y = z ; ./note.txt\n[safe]\n directory = ~/code\n\
                      [pack] dir = .\n";
        let paths =
            ["main", "main/a", "src", "src/main.rs", "docs", "true", "origin", "z", "note.txt", "vim", "tools/x"];
        assert_eq!(named(config, config, &paths), Vec::<String>::new());
        let harmless = [".gitignore_local", ".git-blame-ignore-revs", "Cargo.toml"];
        assert_eq!(named(config, "", &harmless), Vec::<String>::new());
        // A directory in which a command works isn't the command.
        assert_eq!(named("[alias]\n t = !cd src/lib && make", "", &["src/lib/a.rs"]), Vec::<String>::new());
    }

    #[test]
    fn included_files_linked_directories_and_repositories_below_count() {
        let top = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(top.path()).expect("a path");
        let put = |path: &str, text: &str| {
            fs::create_dir_all(top.join(path).parent().expect("a parent")).expect("directories");
            fs::write(top.join(path), text).expect("a file");
        };
        put(".git/config", "[include]\n path = ../a.inc\n");
        put("a.inc", "[include]\n path = b.inc\n path = a.inc\n[core]\n pager = tools/pager\n");
        put("b.inc", "[core]\n editor = ./edit\n");
        put("real/pager", "");
        symlink("real", top.join("tools")).expect("a link");
        put("lib/.git", "gitdir: ../.git/modules/lib\n");
        put(".git/modules/lib/config", "[filter \"x\"]\n clean = ./tidy\n");
        put("tree/.git", "gitdir: ../.git/worktrees/tree\n");
        put(".git/worktrees/tree/commondir", "../..\n");
        put("odd/.git/HEAD", "");
        put("bare/HEAD", "");
        nix::unistd::mkfifo(&top.join("odd/.git/config"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let names = Named::new(Path::new("/nowhere"), &top);
        for path in [
            "a.inc",
            "b.inc",
            "edit",
            "tools/pager",
            "real/pager",
            "tools",
            "lib/tidy",
            "tree/tools/pager",
            "tree/edit",
            "bare/config",
        ] {
            assert!(names.reason_below(Path::new(path)).is_some(), "{path}");
        }
        for path in ["tidy", "lib/a.rs", "real/other", "odd/edit.rs", "src", "bare/a", "src/config"] {
            assert_eq!(names.reason_below(Path::new(path)), None, "{path}");
        }
    }
    /// `AGENTS.md` was protected, but its target wasn't.
    #[test]
    fn the_target_of_a_link_with_a_protected_name_is_protected() {
        let top = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(top.path()).expect("a path");
        for directory in ["tools/hooks", "k", "bare"] {
            fs::create_dir_all(top.join(directory)).expect("a directory");
        }
        for (name, target) in [("AGENTS.md", "tools/guide.md"), (".husky", "tools/hooks"), (".cargo", "k")] {
            symlink(target, top.join(name)).expect("a link");
        }
        let names = || Named::new(Path::new("/nowhere"), &top);
        // The workspace needn't be a repository.
        for path in ["tools/guide.md", "tools", "tools/hooks/new", "k/config.toml", "k"] {
            assert_eq!(names().reason_below(Path::new(path)), Some(LINKED), "{path}");
        }
        for path in ["tools/other.md", "tools/guide.md.txt", "k/registry/x", "bare/hooks/pre-push", "guide.md"] {
            assert_eq!(names().reason_below(Path::new(path)), None, "{path}");
        }
        let beside = || Named::new(Path::new("/nowhere"), Path::new("/elsewhere"));
        assert_eq!(beside().reason(&top.join("k/config.toml")), None);
        symlink("bare", top.join(".git")).expect("a link");
        assert_eq!(beside().reason(&top.join("k/config.toml")), Some(LINKED), "a repository is no workspace");
        assert_eq!(names().reason_below(Path::new("bare/hooks/pre-push")), Some(LINKED));
        assert_eq!(names().reason_below(Path::new("bare/objects/ab/cd")), None);
    }
}
