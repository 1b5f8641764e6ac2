//! A draft as a tree that tools read: paths are resolved as the kernel would beneath a directory, on the entries of git.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::node::{Content, Node};
use super::{Draft, LINKS_MAX, NAME_BYTES_MAX, OPEN_MAX, PATH_BYTES_MAX, State};
use crate::base::names::folded;
use crate::files::{
    Change, CommitError, DirEntry, EntryKind, FileContent, FileStamp, Journals, Opened, Opener, PathError, Tree,
    Visitor, Walked, expanded,
};
use crate::git::{GitError, Mode, Objects};

/// Threads that show files to visitors.
const THREADS_MAX: usize = 8;
/// Longest target of a link that is followed.
const TARGET_BYTES_MAX: u64 = 4096;

/// The entry at a path, with the path without links.
pub(super) enum Found {
    Missing,
    Directory,
    Submodule,
    Leaf(Mode, Content),
}

/// Returns a tool's error for git's failure.
pub(super) fn of_git(error: &GitError) -> PathError {
    match error {
        GitError::Long(bytes) => PathError::Long(*bytes),
        GitError::NotFetched(_) => PathError::Reserved(
            "its content was never fetched, since this is a partial clone; `git fetch --refetch --no-filter` fetches it",
        ),
        GitError::Object(_) => PathError::Reserved("the repository lacks its content (a damaged clone)"),
        _ => PathError::System(nix::errno::Errno::EIO),
    }
}

impl State {
    /// Returns the entry at a path that goes through no link.
    pub(super) fn at(&mut self, objects: &dyn Objects, parts: &[OsString]) -> Result<Found, PathError> {
        let mut node = &mut self.top;
        for part in parts {
            if matches!(node, Node::Leaf(Mode::Submodule, _)) {
                return Ok(Found::Missing);
            }
            let below = node.enter(objects).map_err(|error| of_git(&error))?;
            match below.and_then(|below| below.get_mut(part.as_bytes())) {
                Some(next) => node = next,
                None => return Ok(Found::Missing),
            }
        }
        Ok(match node {
            Node::Unread(_) | Node::Directory(..) => Found::Directory,
            Node::Leaf(Mode::Submodule, _) => Found::Submodule,
            Node::Leaf(mode, content) => Found::Leaf(*mode, content.clone()),
        })
    }

    /// The entry that has a new path's name, or that of a directory above it, but for case or the Unicode form of a letter.
    pub(super) fn twin(&mut self, objects: &dyn Objects, path: &Path) -> Option<PathBuf> {
        let (mut node, mut at) = (&mut self.top, PathBuf::new());
        for part in path.iter().map(OsStr::as_bytes) {
            let below = node.enter(objects).ok()??;
            if !below.contains_key(part) {
                let wanted = folded(part)?;
                let twin = below.keys().find(|name| folded(name).as_ref() == Some(&wanted))?;
                return Some(at.join(OsStr::from_bytes(twin)));
            }
            node = below.get_mut(part)?;
            at.push(OsStr::from_bytes(part));
        }
        None
    }

    /// Follows a path; a link at its end too if `follows_last`. A missing last name is [`Found::Missing`]; a missing name
    /// before that is an error.
    pub(super) fn locate(
        &mut self,
        objects: &dyn Objects,
        relative: &Path,
        follows_last: bool,
    ) -> Result<(PathBuf, Found), PathError> {
        let mut at: Vec<OsString> = Vec::new();
        let mut left: VecDeque<OsString> = parts_of(relative.as_os_str().as_bytes()).collect();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            match part.as_bytes() {
                b"." => continue,
                b".." => {
                    at.pop().ok_or(PathError::Outside)?;
                    continue;
                }
                _ => at.push(part),
            }
            match self.at(objects, &at)? {
                Found::Directory => {}
                Found::Submodule if left.is_empty() => return Ok((at.iter().collect(), Found::Submodule)),
                Found::Submodule => return Err(PathError::Reserved("it lies in another repository (a submodule)")),
                Found::Missing if left.is_empty() => return Ok((at.iter().collect(), Found::Missing)),
                Found::Missing => return Err(PathError::Missing),
                Found::Leaf(Mode::Link, content) if follows_last || !left.is_empty() => {
                    links += 1;
                    let target = bytes_of(objects, &content, TARGET_BYTES_MAX)?;
                    if links > LINKS_MAX || target.starts_with(b"/") {
                        return Err(PathError::Outside);
                    }
                    at.pop();
                    parts_of(&target).rev().for_each(|part| left.push_front(part));
                }
                Found::Leaf(mode, content) if left.is_empty() => {
                    return Ok((at.iter().collect(), Found::Leaf(mode, content)));
                }
                Found::Leaf(..) => return Err(PathError::NotDirectory),
            }
        }
        Ok((at.iter().collect(), Found::Directory))
    }
}

/// Returns the names of a path; a slash at its end means the directory itself.
fn parts_of(path: &[u8]) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    let ends = path.ends_with(b"/");
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    parts.chain(ends.then_some(&b"."[..])).map(|part| OsStr::from_bytes(part).to_owned())
}

pub(super) fn bytes_of(objects: &dyn Objects, content: &Content, bytes_max: u64) -> Result<Vec<u8>, PathError> {
    match content {
        Content::New(bytes, _) if bytes.len() as u64 > bytes_max => Err(PathError::Long(bytes_max)),
        Content::New(bytes, _) => Ok(bytes.to_vec()),
        Content::Object(id) => objects.blob(*id, bytes_max).map_err(|error| of_git(&error)),
    }
}

fn size_of(objects: &dyn Objects, content: &Content) -> u64 {
    match content {
        Content::New(bytes, _) => bytes.len() as u64,
        Content::Object(id) => objects.size(*id).unwrap_or(0),
    }
}

impl Draft {
    /// The file or link at a path, without following links.
    ///
    /// # Errors
    /// There is none.
    pub fn walked(&self, relative: &Path) -> Result<(Mode, Content), PathError> {
        let parts: Vec<OsString> = relative.iter().map(OsStr::to_owned).collect();
        match self.state().at(&*self.objects, &parts)? {
            Found::Leaf(mode, content) => Ok((mode, content)),
            Found::Missing => Err(PathError::Missing),
            Found::Directory | Found::Submodule => Err(PathError::Directory),
        }
    }

    /// Returns every file below a directory, without hidden ones, with the name of its content.
    fn files(&self, below: &Path) -> Vec<(PathBuf, Content)> {
        let mut all = Vec::new();
        let parts: Vec<OsString> = below.iter().map(OsStr::to_owned).collect();
        let mut state = self.state();
        match state.at(&*self.objects, &parts) {
            Ok(Found::Leaf(mode, content)) if mode.is_file() => all.push((below.to_owned(), content)),
            Ok(Found::Directory) => {
                let mut node = &state.top;
                for part in &parts {
                    let Node::Directory(entries, _) = node else { break };
                    let Some(next) = entries.get(part.as_bytes()) else { return all };
                    node = next;
                }
                collect(&*self.objects, node, below, &mut all);
            }
            _ => {}
        }
        all
    }
}

/// Lists the files of a node without caching what is read for that.
fn collect(objects: &dyn Objects, node: &Node, at: &Path, all: &mut Vec<(PathBuf, Content)>) {
    let is_hidden = |name: &[u8]| name.starts_with(b".");
    match node {
        Node::Directory(below, _) => {
            for (name, node) in below.iter().filter(|(name, _)| !is_hidden(name)) {
                let path = at.join(OsStr::from_bytes(name));
                match node {
                    Node::Leaf(mode, content) if mode.is_file() => all.push((path, content.clone())),
                    Node::Leaf(..) => {}
                    node => collect(objects, node, &path, all),
                }
            }
        }
        Node::Unread(tree) => {
            for entry in objects.entries(*tree).unwrap_or_default().iter().filter(|it| !is_hidden(&it.name)) {
                let path = at.join(OsStr::from_bytes(&entry.name));
                match entry.mode {
                    Mode::Directory => collect(objects, &Node::Unread(entry.id), &path, all),
                    mode if mode.is_file() => all.push((path, Content::Object(entry.id))),
                    _ => {}
                }
            }
        }
        Node::Leaf(..) => {}
    }
}

impl Tree for Draft {
    fn path(&self) -> &Path {
        &self.path
    }

    fn beneath(&self, path: &str) -> Result<PathBuf, PathError> {
        let is_there = |name: &str| {
            let found = self.state().locate(&*self.objects, Path::new(name), false);
            found.is_ok_and(|(_, found)| !matches!(found, Found::Missing))
        };
        let expanded = expanded(path, self.home.as_deref(), &is_there)?;
        if !expanded.is_absolute() {
            return Ok(expanded);
        }
        let beneath = expanded.strip_prefix(&self.path).map_err(|_| PathError::Outside)?;
        let beneath = if beneath.as_os_str().is_empty() { Path::new(".") } else { beneath };
        Ok(if path.ends_with('/') { beneath.join("") } else { beneath.to_owned() })
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, PathError> {
        let relative = self.beneath(path)?;
        if relative.as_os_str().as_bytes().ends_with(b"/") {
            return Err(PathError::Directory);
        }
        let is_long = |part: Component<'_>| part.as_os_str().len() > NAME_BYTES_MAX;
        if relative.as_os_str().len() > PATH_BYTES_MAX || relative.components().any(is_long) {
            return Err(PathError::TooLong);
        }
        let (mut there, mut missing) = (relative, Vec::new());
        let mut state = self.state();
        loop {
            match state.locate(&*self.objects, &there, true) {
                Ok((_, Found::Missing)) => {}
                Ok((found, _)) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
                Err(PathError::Missing) => {}
                Err(problem) => return Err(problem),
            }
            match there.components().next_back() {
                Some(Component::Normal(name)) => missing.push(name.to_owned()),
                _ => return Err(PathError::Outside),
            }
            there.pop();
        }
    }

    fn look(&self, path: &str) -> Result<(PathBuf, bool), PathError> {
        let relative = self.beneath(path)?;
        match self.state().locate(&*self.objects, &relative, true)? {
            (_, Found::Missing) => Err(PathError::Missing),
            (found, Found::Directory | Found::Submodule) => Ok((found, true)),
            (found, Found::Leaf(..)) => Ok((found, false)),
        }
    }

    fn read(&self, path: &str, bytes_max: u64) -> Result<FileContent, PathError> {
        let relative = self.beneath(path)?;
        let (_, found) = self.state().locate(&*self.objects, &relative, true)?;
        match found {
            Found::Missing => Err(PathError::Missing),
            Found::Directory | Found::Submodule => Err(PathError::Directory),
            Found::Leaf(mode, content) => Ok(FileContent {
                bytes: bytes_of(&*self.objects, &content, bytes_max)?,
                mode: if mode == Mode::Executable { 0o755 } else { 0o644 },
            }),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<DirEntry>, PathError> {
        let relative = self.beneath(path)?;
        let mut state = self.state();
        let (found, what) = state.locate(&*self.objects, &relative, true)?;
        match what {
            Found::Missing => return Err(PathError::Missing),
            Found::Submodule => return Err(PathError::Reserved("it is another repository (a submodule)")),
            Found::Leaf(..) => return Err(PathError::NotDirectory),
            Found::Directory => {}
        }
        let mut node = &mut state.top;
        for part in found.iter() {
            let below = node.enter(&*self.objects).map_err(|error| of_git(&error))?;
            node = below.and_then(|below| below.get_mut(part.as_bytes())).ok_or(PathError::Missing)?;
        }
        let below = node.enter(&*self.objects).map_err(|error| of_git(&error))?.ok_or(PathError::NotDirectory)?;
        let entry = |(name, node): (&Vec<u8>, &Node)| {
            let (kind, bytes) = match node {
                Node::Unread(_) | Node::Directory(..) => (EntryKind::Directory, 0),
                Node::Leaf(Mode::Link, _) => (EntryKind::Link, 0),
                Node::Leaf(mode, content) if mode.is_file() => (EntryKind::File, size_of(&*self.objects, content)),
                Node::Leaf(..) => (EntryKind::Directory, 0),
            };
            DirEntry { name: String::from_utf8_lossy(name).into_owned(), kind, bytes }
        };
        let mut entries: Vec<DirEntry> = below.iter().map(entry).collect();
        entries.sort_by(|left, right| (left.kind, &left.name).cmp(&(right.kind, &right.name)));
        Ok(entries)
    }

    fn unignored(&self, _: &Path) -> Option<BTreeSet<String>> {
        // Files that git has aren't ignored.
        None
    }

    fn holds(&self, relative: &Path) -> bool {
        let parts: Vec<OsString> = relative.iter().map(OsStr::to_owned).collect();
        !matches!(self.state().at(&*self.objects, &parts), Err(_) | Ok(Found::Missing))
    }

    fn walk<'v>(&self, below: &Path, visitors: &(dyn Fn() -> Visitor<'v> + Sync)) {
        let files = self.files(below);
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let mut visit = visitors();
            while let Some((path, content)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let stamp = || {
                    let identity = content.id().as_bytes().first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
                    Some(FileStamp { time_ns: 0, bytes: size_of(&*self.objects, content), identity })
                };
                if is_over.load(Ordering::Relaxed) || !visit(&Walked::new(path, &stamp)) {
                    return is_over.store(true, Ordering::Relaxed);
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(files.len());
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    }

    fn opener(&self) -> Opener<'_> {
        Box::new(|path| {
            let (mode, content) = self.walked(path)?;
            if !mode.is_file() {
                return Err(PathError::NotRegular);
            }
            let bytes = bytes_of(&*self.objects, &content, u64::MAX)?;
            let length = bytes.len() as u64;
            Ok::<Opened, _>((Box::new(Cursor::new(bytes)), length))
        })
    }

    fn open_files(&self) -> Option<Vec<PathBuf>> {
        (!self.is_read_only).then(|| self.open().iter().cloned().collect())
    }

    fn set_open_files(&self, opened: &[PathBuf], closed: &[PathBuf]) -> Result<(), PathError> {
        let mut open = self.open();
        let before = open.clone();
        open.retain(|path| !closed.contains(path));
        open.extend(opened.iter().cloned());
        if open.len() > OPEN_MAX {
            *open = before;
            return Err(PathError::Reserved("too many files are open"));
        }
        drop(open);
        if self.tell() {
            return Ok(());
        }
        *self.open() = before;
        Err(PathError::Reserved("the list can't be kept in the state directory"))
    }

    fn change(&self, _: &Journals, changes: &[Change<'_>]) -> Result<(), CommitError> {
        self.edit(changes)
    }
}
