//! The user's repository: where it stands, to be told beside a step, for undo doesn't cover it; and what it has of the
//! workspace's contents anyway. It is read and never touched, and nothing that its config names is run.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stage};

use crate::files::{Root, Stamp};
use crate::steps::store::packs::{Held, Packs};

/// A file that was changed so short a time before the index was written isn't taken for the same by its stamp: some file
/// systems count in steps of 2 s, and the index may lie on another one.
const RACY_NS: i64 = 3_000_000_000;
/// Files of attributes that are read, and the longest.
const ATTRIBUTES_MAX: usize = 1_000;
const ATTRIBUTES_BYTES_MAX: u64 = 1024 * 1024;
/// A pointer of Git LFS is shorter than that, as its specification says.
const LFS_POINTER_BYTES: u64 = 1024;

/// Opens the repository whose work tree the workspace is.
fn open(workspace: &Path) -> Option<gix::Repository> {
    workspace.join(".git").symlink_metadata().ok()?;
    gix::open_opts(workspace, gix::open::Options::isolated()).ok()
}

/// The state of HEAD and the stash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::steps) struct Standing {
    branch: String,
    commit: String,
    stash: String,
}

impl Standing {
    /// Reads it; nothing where HEAD can't be read.
    fn of(repository: &gix::Repository) -> Option<Self> {
        let short = |id: gix::Id<'_>| id.detach().to_hex_with_len(9).to_string();
        let head = repository.head().ok()?;
        let branch = head.referent_name().map(|name| name.shorten().to_string()).unwrap_or_default();
        let commit = head.id().map(short).unwrap_or_default();
        let stash = repository.try_find_reference("refs/stash").ok().flatten();
        let stash = stash.and_then(|found| found.try_id().map(short)).unwrap_or_default();
        Some(Self { branch, commit, stash })
    }

    /// Describes what has moved; empty if nothing has.
    pub(in crate::steps) fn moved(before: Option<&Self>, after: Option<&Self>) -> Vec<String> {
        let (before, after) = match (before, after) {
            (None, None) => return Vec::new(),
            (None, Some(_)) => return vec!["git: a repository was made; undo leaves .git as it is".to_owned()],
            (Some(_), None) => {
                return vec!["git: .git has gone or can't be read; undo doesn't bring it back".to_owned()];
            }
            (Some(before), Some(after)) => (before, after),
        };
        let none = |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let mut moved = Vec::new();
        for (what, old, new) in [
            ("the branch", &before.branch, &after.branch),
            ("HEAD", &before.commit, &after.commit),
            ("the stash", &before.stash, &after.stash),
        ] {
            if old != new {
                moved.push(format!("git: {what} moved from {} to {}; undo leaves it there", none(old), none(new)));
            }
        }
        moved
    }
}

/// The workspace's contents in the user's repository. Only objects in its packs count: these are few, and can be
/// held while a command runs.
pub(in crate::steps) struct Theirs {
    /// Its position.
    pub(in crate::steps) standing: Standing,
    held: Held,
    /// The packs, open as long as somebody looks.
    packs: OnceLock<Packs>,
    longest: u64,
    index: PathBuf,
    attributes: PathBuf,
}

impl Theirs {
    /// Takes hold of it; nothing where there is no repository, or one that can't be read. Contents up to `longest` bytes count.
    pub(in crate::steps) fn of(workspace: &Path, longest: u64) -> Option<Self> {
        let repository = open(workspace)?;
        if repository.object_hash() != gix::hash::Kind::Sha1 {
            return None;
        }
        let held = Held::of(repository.objects.store_ref().path());
        let attributes = repository.common_dir().join("info/attributes");
        let standing = Standing::of(&repository).unwrap_or_default();
        Some(Self { standing, held, packs: OnceLock::new(), longest, index: repository.index_path(), attributes })
    }

    /// Returns the names that identify its packs at one time.
    pub(in crate::steps) fn names(&self) -> BTreeSet<PathBuf> {
        self.held.names()
    }

    /// Its packs.
    pub(in crate::steps) fn packs(&self) -> &Packs {
        self.packs.get_or_init(|| self.held.packs(self.longest))
    }

    /// Holds them without having them open.
    pub(in crate::steps) fn closed(self) -> Self {
        Self { packs: OnceLock::new(), ..self }
    }
}

/// Returns whether two files are git's index with the same entries, but for times and inodes of files: a look of git's
/// refreshes them.
#[must_use]
pub fn are_alike_indices(before: &Path, after: &Path) -> bool {
    let read = |path: &Path| {
        let options = gix::index::decode::Options::default();
        gix::index::File::at(path, gix::hash::Kind::Sha1, false, options).ok()
    };
    let (Some(before), Some(after)) = (read(before), read(after)) else { return false };
    have_same_entries(&before, &after)
}

/// The same for two contents.
pub(in crate::steps) fn are_alike_contents(before: &[u8], after: &[u8]) -> bool {
    let read = |bytes: &[u8]| {
        // The time is that of the file, and no part of its content.
        let time = State::new(gix::hash::Kind::Sha1).timestamp();
        let options = gix::index::decode::Options::default();
        State::from_bytes(bytes, time, gix::hash::Kind::Sha1, options).ok()
    };
    let (Some((before, _)), Some((after, _))) = (read(before), read(after)) else { return false };
    have_same_entries(&before, &after)
}

fn have_same_entries(before: &State, after: &State) -> bool {
    before.entries().len() == after.entries().len()
        && before.entries().iter().zip(after.entries()).all(|(one, two)| {
            (one.id, one.mode, one.flags) == (two.id, two.mode, two.flags) && one.path(before) == two.path(after)
        })
}

/// The names of contents in git's index: an entry whose stamp is that of the file has the name of its content, if
/// nothing was changed on the way between both.
pub(in crate::steps) struct Index {
    file: gix::index::File,
    written_ns: i64,
    /// Shorter files may be others than what git has of them.
    shortest: u64,
}

impl Index {
    /// Reads it; nothing where it can't be read, or where a filter or an encoding stands between files and contents.
    /// `attributes` are the files of attributes that there are.
    pub(in crate::steps) fn read(theirs: &Theirs, root: &Root, attributes: &[PathBuf]) -> Option<Self> {
        let options = gix::index::decode::Options::default();
        let file = gix::index::File::at(&theirs.index, gix::hash::Kind::Sha1, false, options).ok()?;
        let is_one = |path: &[u8]| path == b".gitattributes" || path.ends_with(b"/.gitattributes");
        let entries = file.entries().iter().filter(|entry| is_one(entry.path(&file)));
        // One that isn't there counts all the same, as the index has it.
        let absent = entries.filter(|entry| {
            let path = Path::new(std::ffi::OsStr::from_bytes(entry.path(&file)));
            !attributes.iter().any(|it| it == path)
        });
        let mut texts: Vec<Option<Vec<u8>>> = absent.map(|entry| theirs.packs().content(&entry.id)).collect();
        texts.extend(attributes.iter().map(|path| Some(root.held(path, ATTRIBUTES_BYTES_MAX).ok()?.1)));
        let common = match theirs.attributes.metadata() {
            Ok(data) if data.len() > ATTRIBUTES_BYTES_MAX => None,
            Ok(_) => std::fs::read(&theirs.attributes).ok(),
            Err(_) => Some(Vec::new()),
        };
        texts.push(common);
        if texts.len() > ATTRIBUTES_MAX {
            return None;
        }
        let mut shortest = 0;
        for text in texts {
            shortest = shortest.max(shortest_plain(&text?)?);
        }
        let time = file.timestamp();
        let written_ns = time.unix_seconds().checked_mul(1_000_000_000)?.checked_add(i64::from(time.nanoseconds()))?;
        Some(Self { file, written_ns, shortest })
    }

    /// The name of what a file holds, by its stamp. Whether that has the file's length is to be asked of the packs: where
    /// line ends or an `$Id$` were changed on the way it hasn't.
    pub(in crate::steps) fn says(&self, path: &Path, stamp: &Stamp) -> Option<ObjectId> {
        let entry = self.file.entry_by_path_and_stage(path.as_os_str().as_bytes().as_bstr(), Stage::Unconflicted)?;
        let unsure = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD | Flags::REMOVE;
        let is_plain = entry.mode == Mode::FILE || entry.mode == Mode::FILE_EXECUTABLE;
        let is_racy = stamp.modified_ns.max(stamp.changed_ns).saturating_add(RACY_NS) > self.written_ns;
        if !stamp.is_file() || !is_plain || entry.flags.intersects(unsure) || is_racy || stamp.size < self.shortest {
            return None;
        }
        // The index has the low 32 bits of each.
        let low = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or(0);
        let is_then = |time: gix::index::entry::stat::Time, ns: i64| {
            u64::try_from(ns.div_euclid(1_000_000_000)).is_ok_and(|seconds| low(seconds) == time.secs)
                && i64::from(time.nsecs) == ns.rem_euclid(1_000_000_000)
        };
        let stat = &entry.stat;
        let is_same = is_then(stat.mtime, stamp.modified_ns)
            && is_then(stat.ctime, stamp.changed_ns)
            && stat.ino == low(stamp.inode)
            && stat.size == low(stamp.size);
        is_same.then_some(entry.id)
    }
}

/// The shortest file that a file of attributes leaves as git has it; nothing where it names what may change any file.
pub(in crate::steps) fn shortest_plain(attributes: &[u8]) -> Option<u64> {
    let mut shortest = 0;
    for line in attributes.lines() {
        for word in line.fields().skip(1) {
            if word == b"filter=lfs" {
                shortest = LFS_POINTER_BYTES;
            } else if word.starts_with(b"filter") || word.starts_with(b"working-tree-encoding") {
                return None;
            }
        }
    }
    Some(shortest)
}
