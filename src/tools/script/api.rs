//! The functions available to a tool of a repository: files of the workspace as the tool has changed them so far, JSON, a
//! difference. Nothing is written; the changes are collected at its end.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSet};
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use mlua::{Error, Lua, LuaString, Scope, Table, Value as LuaValue};

use super::json;
use crate::files::{EntryKind, PathError, Tree};
use crate::render::diff::unified;

/// Longest file that is read or written, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files that one call changes.
const CHANGED_MAX: usize = 200;
/// Bytes of all of them.
const CHANGED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Paths that `files.glob` returns.
const PATHS_MAX: usize = 10_000;
/// Lines that `files.search` returns, and bytes of one.
const MATCHES_MAX: usize = 1_000;
const MATCH_BYTES_MAX: usize = 500;
/// Time for searching in one call of a tool: Luau isn't interrupted meanwhile.
const SEARCH_TIME: Duration = Duration::from_secs(5);
/// Lines that a tool may log, and characters of one.
const LOG_LINES_MAX: usize = 64;
const LOG_CHARS_MAX: usize = 500;
/// Longest text that is compared.
const DIFF_BYTES_MAX: usize = 1024 * 1024;

/// Returns whether a model may read a file's content.
pub type MayRead = dyn Fn(&Path) -> bool + Send + Sync;

/// The files as a call sees them.
pub(super) struct Files<'a> {
    tree: &'a dyn Tree,
    writes: &'a GlobSet,
    may_read: &'a MayRead,
    /// The new contents by path; `None` for a deleted file.
    changed: RefCell<BTreeMap<PathBuf, Option<Vec<u8>>>>,
    log: RefCell<Vec<String>>,
    searched: RefCell<Duration>,
}

impl<'a> Files<'a> {
    pub(super) fn new(tree: &'a dyn Tree, writes: &'a GlobSet, may_read: &'a MayRead) -> Self {
        let (changed, log, searched) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { tree, writes, may_read, changed, log, searched }
    }

    /// The same files for a call that may write other paths.
    pub(super) fn copy_for(&self, writes: &'a GlobSet) -> Self {
        Self { changed: self.changed.clone(), ..Self::new(self.tree, writes, self.may_read) }
    }

    /// Takes over the changes of such a call.
    pub(super) fn take_over(&self, other: Self) {
        self.changed.replace(other.changed.into_inner());
    }

    /// The changed files, and the lines that it logged.
    pub(super) fn done(self) -> (BTreeMap<PathBuf, Option<Vec<u8>>>, Vec<String>) {
        (self.changed.into_inner(), self.log.into_inner())
    }

    fn place(&self, path: &str) -> Result<PathBuf, String> {
        if path.chars().any(char::is_control) {
            return Err("the path holds a control character".to_owned());
        }
        self.tree.resolve(path).map_err(|error| format!("{path}: {error}"))
    }

    /// The present content at a place; `None` if there is nothing.
    fn content(&self, place: &Path) -> Result<Option<Vec<u8>>, String> {
        if let Some(now) = self.changed.borrow().get(place) {
            return Ok(now.clone());
        }
        let name = place.to_str().ok_or("the path is no text")?;
        if !(self.may_read)(place) {
            return Err(format!("{name} is closed to models"));
        }
        match self.tree.read(name, FILE_BYTES_MAX) {
            Ok(content) => Ok(Some(content.bytes)),
            Err(PathError::Missing) => Ok(None),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.content(&self.place(path)?)?.ok_or_else(|| format!("{path}: no such file"))
    }

    fn lines(&self, path: &str, from: Option<usize>, to: Option<usize>) -> Result<Vec<String>, String> {
        let text = String::from_utf8(self.read(path)?).map_err(|_| format!("{path} is no text"))?;
        let from = from.unwrap_or(1).max(1);
        let count = to.unwrap_or(usize::MAX).saturating_sub(from - 1);
        Ok(text.lines().skip(from - 1).take(count).map(str::to_owned).collect())
    }

    fn put(&self, path: &str, new: Option<Vec<u8>>) -> Result<(), String> {
        let place = self.place(path)?;
        if new.is_none() && self.content(&place)?.is_none() {
            return Err(format!("{path}: no such file"));
        }
        let first = place.iter().next().map(|it| it.to_string_lossy().to_lowercase()).unwrap_or_default();
        let is_closed = first == super::FOLDER || first.starts_with(".git") || first == ".reedclaw";
        if is_closed || !self.writes.is_match(&place) {
            return Err(format!("{} isn't among the paths of `writes`", place.display()));
        }
        if new.as_ref().is_some_and(|it| it.len() as u64 > FILE_BYTES_MAX) {
            return Err(format!("{path} would be longer than 16 MiB"));
        }
        let mut changed = self.changed.borrow_mut();
        if changed.len() == CHANGED_MAX && !changed.contains_key(&place) {
            return Err(format!("it changes more than {CHANGED_MAX} files"));
        }
        changed.insert(place, new);
        if changed.values().flatten().map(Vec::len).sum::<usize>() > CHANGED_BYTES_MAX {
            return Err("its files exceed 64 MiB in total".to_owned());
        }
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let place = if path.is_empty() || path == "." { PathBuf::new() } else { self.place(path)? };
        let named = if place.as_os_str().is_empty() { "." } else { path };
        let changed = self.changed.borrow();
        let mut names: Vec<String> = match self.tree.list(named) {
            Ok(entries) => entries
                .into_iter()
                .filter(|it| !matches!(changed.get(&place.join(&it.name)), Some(None)))
                .map(|it| if it.kind == EntryKind::Directory { format!("{}/", it.name) } else { it.name })
                .collect(),
            Err(PathError::Missing) if changed.keys().any(|it| it.starts_with(&place)) => Vec::new(),
            Err(error) => return Err(format!("{path}: {error}")),
        };
        for below in changed.iter().filter(|(_, new)| new.is_some()).filter_map(|(at, _)| at.strip_prefix(&place).ok())
        {
            let mut parts = below.iter();
            let Some(first) = parts.next().and_then(|it| it.to_str()) else { continue };
            names.push(if parts.next().is_some() { format!("{first}/") } else { first.to_owned() });
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The paths that a glob names, as a search sees them: no hidden or ignored ones.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let glob = glob.map_err(|error| error.to_string())?.compile_matcher();
        let (found, deadline) = (Mutex::new(Vec::new()), Instant::now() + SEARCH_TIME);
        self.tree.walk(Path::new(""), &|| {
            let (glob, found) = (&glob, &found);
            Box::new(move |file| {
                let mut found = found.lock();
                if glob.is_match(file.path) {
                    found.push(file.path.to_owned());
                }
                found.len() <= PATHS_MAX && Instant::now() < deadline
            })
        });
        let mut found = found.into_inner();
        if found.len() > PATHS_MAX || Instant::now() >= deadline {
            return Err(format!("{pattern} names too many paths"));
        }
        let changed = self.changed.borrow();
        found.retain(|path| !changed.contains_key(path));
        found.extend(
            changed.iter().filter(|(path, new)| new.is_some() && glob.is_match(path)).map(|(it, _)| it.clone()),
        );
        found.sort();
        Ok(found.into_iter().filter_map(|it| it.into_os_string().into_string().ok()).collect())
    }

    fn search(&self, pattern: &str, glob: Option<&str>) -> Result<Vec<(String, usize, String)>, String> {
        let matcher = RegexMatcher::new(pattern).map_err(|error| error.to_string())?;
        let (began, before) = (Instant::now(), *self.searched.borrow());
        let mut found = Vec::new();
        for path in self.glob(glob.unwrap_or("**"))? {
            if before + began.elapsed() > SEARCH_TIME {
                return Err("its searches take more than 5 s".to_owned());
            }
            let Ok(Some(bytes)) = self.content(Path::new(&path)) else { continue };
            let Ok(text) = std::str::from_utf8(&bytes) else { continue };
            for (number, line) in text.lines().enumerate() {
                if matcher.is_match(line.as_bytes()).unwrap_or(false) {
                    let line = line[..line.floor_char_boundary(MATCH_BYTES_MAX)].to_owned();
                    found.push((path.clone(), number + 1, line));
                }
                if found.len() == MATCHES_MAX {
                    return Ok(found);
                }
            }
        }
        *self.searched.borrow_mut() += began.elapsed();
        Ok(found)
    }

    fn note(&self, text: &str) {
        let mut log = self.log.borrow_mut();
        if log.len() < LOG_LINES_MAX {
            log.push(text.chars().filter(|c| !c.is_control()).take(LOG_CHARS_MAX).collect());
        }
    }
}

/// The tables `files` and `ctx`, which expire with the scope.
pub(super) fn tables<'scope>(
    lua: &Lua,
    scope: &'scope Scope<'scope, '_>,
    files: &'scope Files<'scope>,
) -> mlua::Result<(Table, Table)> {
    let failed = |why: String| Error::runtime(why);
    let table = lua.create_table()?;
    let read = scope.create_function(move |lua, path: String| lua.create_string(files.read(&path).map_err(failed)?))?;
    table.raw_set("read", read)?;
    let lines = move |_: &Lua, (path, from, to): (String, Option<usize>, Option<usize>)| {
        files.lines(&path, from, to).map_err(failed)
    };
    table.raw_set("lines", scope.create_function(lines)?)?;
    let write = move |_: &Lua, (path, text): (String, LuaString)| {
        files.put(&path, Some(text.as_bytes().to_vec())).map_err(failed)
    };
    table.raw_set("write", scope.create_function(write)?)?;
    let delete = move |_: &Lua, path: String| files.put(&path, None).map_err(failed);
    table.raw_set("delete", scope.create_function(delete)?)?;
    let rename = move |_: &Lua, (from, to): (String, String)| {
        let moved = files.read(&from).and_then(|bytes| files.put(&to, Some(bytes)));
        moved.and_then(|()| files.put(&from, None)).map_err(failed)
    };
    table.raw_set("rename", scope.create_function(rename)?)?;
    let exists = move |_: &Lua, path: String| Ok(files.read(&path).is_ok() || files.list(&path).is_ok());
    table.raw_set("exists", scope.create_function(exists)?)?;
    let list = move |_: &Lua, path: Option<String>| files.list(&path.unwrap_or_default()).map_err(failed);
    table.raw_set("list", scope.create_function(list)?)?;
    let glob = move |_: &Lua, pattern: String| files.glob(&pattern).map_err(failed);
    table.raw_set("glob", scope.create_function(glob)?)?;
    let search = move |lua: &Lua, (pattern, glob): (String, Option<String>)| {
        let all = lua.create_table()?;
        for (path, line, text) in files.search(&pattern, glob.as_deref()).map_err(failed)? {
            let one = lua.create_table()?;
            one.raw_set("path", path)?;
            one.raw_set("line", line)?;
            one.raw_set("text", text)?;
            all.raw_push(one)?;
        }
        Ok(all)
    };
    table.raw_set("search", scope.create_function(search)?)?;
    let ctx = lua.create_table()?;
    let active = files.tree.open_files().unwrap_or_default();
    let active: Vec<String> = active.into_iter().filter_map(|it| it.into_os_string().into_string().ok()).collect();
    ctx.raw_set("active", active)?;
    let log = move |_: &Lua, text: String| {
        files.note(&text);
        Ok(())
    };
    ctx.raw_set("log", scope.create_function(log)?)?;
    Ok((table, ctx))
}

/// The global functions that need no files: `json` and `diff`.
pub(super) fn globals(lua: &Lua) -> mlua::Result<[(&'static str, LuaValue); 2]> {
    let table = lua.create_table()?;
    let encode = |_: &Lua, value: LuaValue| json::of_lua(&value).map(|it| it.to_string()).map_err(Error::runtime);
    table.raw_set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: LuaString| {
        let value: serde_json::Value =
            serde_json::from_slice(&text.as_bytes()).map_err(|error| Error::runtime(format!("no JSON: {error}")))?;
        json::to_lua(lua, &value)
    };
    table.raw_set("decode", lua.create_function(decode)?)?;
    let diff = lua.create_function(|_, (old, new): (String, String)| {
        if old.len() + new.len() > DIFF_BYTES_MAX {
            return Err(Error::runtime("diff: the texts are longer than 1 MiB"));
        }
        Ok(unified("text", Some(&old), &new))
    })?;
    Ok([("json", LuaValue::Table(table)), ("diff", LuaValue::Function(diff))])
}
