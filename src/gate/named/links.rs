//! Links with protected names: changing the target of such a link changes what other programs run. Links are searched at their
//! usual places, and in git's index. They are never changed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::git_index::Entries;
use crate::files::{PATH_BYTES_MAX, end_of, read_plain};
use crate::proto::known_paths::protected_link;

/// Components of the deepest directory that is searched: every protected name has at most one more.
const DEPTH_MAX: usize = 2;
/// Limit on the entries of one directory that are examined.
const ENTRIES_MAX: usize = 10_000;
/// Longest index that is read, in bytes: that of some million files.
const INDEX_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Mode of a link.
const LINK_MODE: u32 = 0o120_000;

/// A link with a protected name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its path below the top.
    pub(super) name: PathBuf,
    /// The path that it leads to.
    pub(super) target: PathBuf,
}

/// The links with protected names in git's indices, as far as they were queried: a large index takes some milliseconds.
#[derive(Debug, Default)]
pub struct Tracked(Mutex<Known>);

/// Paths of links by index, each with the state in which the index was read.
type Known = HashMap<PathBuf, (Version, Arc<[PathBuf]>)>;

/// The state of a file, by which a change is seen.
type Version = [i64; 6];

fn version(data: &Metadata) -> Version {
    let [inode, length] = [data.ino(), data.len()].map(u64::cast_signed);
    [inode, length, data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec()]
}

impl Tracked {
    /// Returns the paths of the links in an index whose names of contents have this number of bytes.
    fn links(&self, index: &Path, id_bytes: usize) -> Arc<[PathBuf]> {
        let Some(data) = fs::metadata(index).ok().filter(Metadata::is_file) else {
            return Arc::default();
        };
        let version = version(&data);
        let mut known = self.0.lock();
        match known.get(index) {
            Some((then, links)) if *then == version => links.clone(),
            _ => known.entry(index.to_owned()).insert_entry((version, read(index, id_bytes).into())).get().1.clone(),
        }
    }
}

/// Reads the paths of the links with protected names in an index.
fn read(index: &Path, id_bytes: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok((_, bytes)) = read_plain(index, INDEX_BYTES_MAX) else { return found };
    // Git can't read the entries after a damaged one either. The index isn't mapped into memory: a job may shorten it meanwhile.
    let Some(mut entries) = Entries::of(&bytes, id_bytes) else { return found };
    while let Some(entry) = entries.next_entry() {
        let is_link = entry.mode == LINK_MODE && entry.path.len() <= PATH_BYTES_MAX;
        if is_link && protected_link(entry.path).is_some() {
            found.push(OsStr::from_bytes(entry.path).into());
        }
    }
    found
}

/// Finds the links of a repository or workspace, and those below its top that lead to something below it. `index` is that of the
/// repository, with the length of its names for contents.
pub(super) fn links(top: &Path, index: Option<(&Path, usize)>, tracked: &Tracked) -> Vec<Link> {
    let Ok(real) = fs::canonicalize(top) else { return Vec::new() };
    let mut names = Vec::new();
    near(&real, &real, Path::new(""), &mut names);
    if let Some((index, id_bytes)) = index {
        names.extend(tracked.links(index, id_bytes).iter().cloned());
    }
    names.sort_unstable();
    names.dedup();
    let link = |name: PathBuf| {
        let target = end_of(real.clone(), &name)?;
        let below = target.strip_prefix(&real).ok().filter(|below| *below != name)?;
        // In the spelling of the caller.
        Some(Link { target: top.join(below), name })
    };
    names.into_iter().filter_map(link).collect()
}

/// Collects the links in a directory, and in those of its directories that hold protected files. `name` is its path below the
/// top, which may lead through such a link.
fn near(top: &Path, directory: &Path, name: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.take(ENTRIES_MAX).flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = name.join(entry.file_name());
        if !(kind.is_symlink() || kind.is_dir()) || protected_link(name.as_os_str().as_bytes()).is_none() {
            continue;
        }
        let mut place = Some(entry.path());
        if kind.is_symlink() {
            place = end_of(top.to_owned(), &name).filter(|place| place.starts_with(top) && place.is_dir());
            found.push(name.clone());
        }
        if let Some(place) = place.filter(|_| name.components().count() <= DEPTH_MAX) {
            near(top, &place, &name, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_near_the_top_and_links_of_the_index_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(dir.path()).expect("a path");
        for directory in [".git/hooks", ".vscode", "ci/flows", "deep/er", "scripts", "tools/hooks", "k"] {
            fs::create_dir_all(top.join(directory)).expect("a directory");
        }
        for (name, target) in [
            ("AGENTS.md", "tools/guide.md"),
            (".husky", "tools/hooks"),
            (".cargo", "k"),
            (".git/hooks/pre-commit", "../../scripts/check"),
            // Through a link to a directory, too.
            (".github", "ci"),
            ("ci/workflows", "flows"),
            (".vscode/tasks.json", "../none"),
            ("deep/er/CLAUDE.md", "../../scripts/text.md"),
            // Not below the top, dangling, and names that aren't protected.
            (".envrc", "/etc/hostname"),
            (".npmrc", ".npmrc"),
            ("other", "scripts"),
        ] {
            symlink(target, top.join(name)).expect("a link");
        }
        let names = |links: &[Link]| {
            let row = |link: &Link| {
                let target = link.target.strip_prefix(&top).expect("below the top");
                format!("{} {}", link.name.display(), target.display())
            };
            links.iter().map(row).collect::<Vec<String>>()
        };
        let near = [
            ".cargo k",
            ".git/hooks/pre-commit scripts/check",
            ".github ci",
            ".github/workflows ci/flows",
            ".husky tools/hooks",
            ".vscode/tasks.json none",
            "AGENTS.md tools/guide.md",
        ];
        let tracked = Tracked::default();
        assert_eq!(names(&links(&top, None, &tracked)), near);
        let index = top.join(".git/index");
        for (version, id_bytes) in [(2, 20), (3, 32), (4, 20)] {
            // Another index at the same path is read again.
            fs::write(top.join("new"), index_of(version, id_bytes, ["deep/er/AGENTS.md", "deep/er/CLAUDE.md"]))
                .expect("an index");
            fs::rename(top.join("new"), &index).expect("renamed");
            let all = names(&links(&top, Some((&index, id_bytes)), &tracked));
            assert_eq!(all, [&near[..], &["deep/er/CLAUDE.md scripts/text.md"]].concat(), "version {version}");
        }
        for damaged in [&b"DIRC\0\0\0\x02\0\0\0\x09"[..], b"DIRC", b"", b"none"] {
            fs::write(&index, damaged).expect("an index");
            assert_eq!(names(&links(&top, Some((&index, 20)), &tracked)), near);
        }
    }

    /// An index with two links in it, whose paths are alike but for the last nine bytes.
    fn index_of(version: u8, id_bytes: usize, [first, second]: [&str; 2]) -> Vec<u8> {
        let mut index = [b"DIRC\0\0\0", &[version][..], b"\0\0\0\x02"].concat();
        let (is_packed, is_extended) = (version == 4, version == 3);
        for (path, dropped) in [(first, 0), (second, 9_u8)] {
            let begin = index.len();
            let mut stat = [0_u32; 10];
            stat[6] = LINK_MODE;
            index.extend(stat.iter().flat_map(|number| number.to_be_bytes()));
            index.extend(vec![1; id_bytes]);
            index.extend(if is_extended { &[0x40, 0, 0, 0][..] } else { &[0, 0] });
            if is_packed {
                index.push(dropped);
                let length = if dropped == 0 { 0 } else { path.len() - usize::from(dropped) };
                index.extend(&path.as_bytes()[length..]);
                index.push(0);
            } else {
                index.extend(path.as_bytes());
                index.resize(begin + ((index.len() - begin) / 8 + 1) * 8, 0);
            }
        }
        index.extend(vec![0; id_bytes]);
        index
    }
}
