//! Directories that lie over each other, read without a mount as overlayfs would show them: a name in one hides the same name
//! in those below, unless both are directories. It changes nothing.
//!
//! The format is the kernel's (Documentation/filesystems/overlayfs.rst), with `userxattr`: a character device marks a deleted
//! name, and an attribute of a directory says that it hides the layers below it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::{PathError, Root, Seen, Stamp, SurveyEnd, SurveyLimits, of_io};

/// Marks a directory that hides what the layers below have at its place.
pub const OPAQUE: &str = "user.overlay.opaque";

/// Returns whether a directory is marked so that it hides the layers below it.
#[must_use]
pub fn is_opaque(directory: &Path) -> bool {
    let mut value = [0_u8; 2];
    let read = rustix::fs::lgetxattr(directory, OPAQUE, &mut value[..]);
    matches!(read, Ok(1)) && value[0] == b'y'
}

/// Returns whether a file of the upper directory was copied from a lower one, possibly under another name, and not newly made.
#[must_use]
pub fn is_copied_up(file: &Path) -> bool {
    /// The kernel's mark, empty if the mount has no privilege.
    const ORIGIN: &str = "user.overlay.origin";
    rustix::fs::lgetxattr(file, ORIGIN, &mut [0_u8; 0][..]).is_ok()
}

/// Some directories as one, the topmost first.
#[derive(Debug)]
pub struct Layers {
    roots: Vec<Root>,
}

/// The entry that shows at a path.
enum Shows {
    Nothing,
    /// A file or a link of one layer.
    Leaf(usize, Stamp),
    /// A directory, with the layers whose entries it shows.
    Directory(Vec<usize>, Stamp),
}

fn is_whiteout(stamp: &Stamp) -> bool {
    stamp.mode & libc::S_IFMT == libc::S_IFCHR
}

impl Layers {
    /// Opens them.
    ///
    /// # Errors
    /// One doesn't exist, or isn't a directory; its path is named.
    pub fn open<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, (PathBuf, PathError)> {
        let one = |path: &Path| Root::open(path, None).map_err(|error| (path.to_owned(), error));
        Ok(Self { roots: paths.into_iter().map(one).collect::<Result<_, _>>()? })
    }

    fn find(&self, path: &Path) -> Result<Shows, PathError> {
        if let [root] = &self.roots[..] {
            return Ok(match root.stamp(path)? {
                None => Shows::Nothing,
                Some(stamp) if stamp.is_directory() => Shows::Directory(vec![0], stamp),
                Some(stamp) => Shows::Leaf(0, stamp),
            });
        }
        let all: Vec<usize> = (0..self.roots.len()).collect();
        let top = self.roots.first().map_or(Ok(None), |root| root.stamp(Path::new("")))?;
        let Some(top) = top else { return Ok(Shows::Nothing) };
        let (mut at, mut shows) = (PathBuf::new(), Shows::Directory(all, top));
        for part in path.iter() {
            let Shows::Directory(layers, _) = shows else { return Ok(Shows::Nothing) };
            at.push(part);
            shows = self.step(&layers, &at)?;
        }
        Ok(shows)
    }

    /// The entry that shows at `path`, if its directory shows those of `layers`.
    fn step(&self, layers: &[usize], path: &Path) -> Result<Shows, PathError> {
        let (mut merged, mut top) = (Vec::new(), None);
        for &number in layers {
            let root = &self.roots[number];
            match root.stamp(path)? {
                None => {}
                Some(stamp) if stamp.is_directory() => {
                    merged.push(number);
                    top.get_or_insert(stamp);
                    if is_opaque(&root.path().join(path)) {
                        break;
                    }
                }
                Some(stamp) if merged.is_empty() && !is_whiteout(&stamp) => return Ok(Shows::Leaf(number, stamp)),
                Some(_) => break,
            }
        }
        Ok(top.map_or(Shows::Nothing, |top| Shows::Directory(merged, top)))
    }

    /// Looks at the entry that shows at a path; `None` if there is none.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn stamp(&self, path: &Path) -> Result<Option<Stamp>, PathError> {
        Ok(match self.find(path)? {
            Shows::Nothing => None,
            Shows::Leaf(_, stamp) | Shows::Directory(_, stamp) => Some(stamp),
        })
    }

    /// Returns the layer with the entry that shows at a path.
    fn holder(&self, path: &Path) -> Option<usize> {
        match self.find(path).ok()? {
            Shows::Nothing => None,
            Shows::Leaf(number, _) => Some(number),
            Shows::Directory(numbers, _) => numbers.first().copied(),
        }
    }

    /// Returns the path on the disk of the file or link that shows at a path.
    #[must_use]
    pub fn place(&self, path: &Path) -> Option<PathBuf> {
        self.holder(path).map(|number| self.roots[number].path().join(path))
    }

    /// Opens the regular file that shows at a path, for reading, wherever its other names lie.
    ///
    /// # Errors
    /// Any [`PathError`].
    pub fn open_found(&self, path: &Path) -> Result<File, PathError> {
        let root = &self.roots[self.holder(path).ok_or(PathError::Missing)?];
        let file = File::from(root.open_walked(path, OFlag::O_RDONLY)?);
        let is_file = file.metadata().map_err(|error| of_io(&error))?.is_file();
        is_file.then_some(file).ok_or(PathError::NotRegular)
    }

    /// Returns the number of names on the disk of the entry that shows at a path; 0 if there is none.
    #[must_use]
    pub fn names(&self, path: &Path) -> u64 {
        let data = self.place(path).map(|place| place.symlink_metadata());
        data.and_then(Result::ok).map_or(0, |data| data.nlink())
    }

    /// Reads what shows at a path: a file, or the target of a link.
    ///
    /// # Errors
    /// As of [`Root::held`].
    pub fn held(&self, path: &Path, bytes_max: u64) -> Result<(Stamp, Vec<u8>), PathError> {
        self.roots[self.holder(path).ok_or(PathError::Missing)?].held(path, bytes_max)
    }

    /// Examines everything that shows below a directory; `visit` gets each path, from several threads if only one layer has it.
    ///
    /// # Errors
    /// The directory can't be opened.
    pub fn survey(
        &self,
        path: &Path,
        limits: SurveyLimits,
        visit: &(dyn Fn(&Path, Stamp) + Sync),
    ) -> Result<SurveyEnd, PathError> {
        match self.find(path)? {
            Shows::Directory(layers, _) => self.survey_of(&layers, path, limits, visit),
            _ => Err(PathError::NotDirectory),
        }
    }

    fn survey_of(
        &self,
        layers: &[usize],
        path: &Path,
        limits: SurveyLimits,
        visit: &(dyn Fn(&Path, Stamp) + Sync),
    ) -> Result<SurveyEnd, PathError> {
        let (&[first, ..], &[.., last]) = (layers, layers) else { return Ok(SurveyEnd::Whole) };
        if first == last {
            let root = Root::open(&self.roots[first].path().join(path), None)?;
            return Ok(root.survey(limits, &|looked| {
                let below = looked.entries.iter().filter(|it| it.stamp.is_directory());
                let below = below.map(|it| it.name.clone()).collect();
                for Seen { name, stamp } in looked.entries.iter().filter(|it| !is_whiteout(&it.stamp)) {
                    visit(&path.join(looked.path).join(OsStr::from_bytes(name)), *stamp);
                }
                below
            }));
        }
        let mut names: BTreeMap<Box<[u8]>, Shows> = BTreeMap::new();
        for &number in layers {
            let root = Root::open(&self.roots[number].path().join(path), None)?;
            let seen = parking_lot::Mutex::new(Vec::new());
            let end = root.survey(limits, &|looked| {
                *seen.lock() = looked.entries;
                Vec::new()
            });
            if end != SurveyEnd::Whole {
                return Ok(end);
            }
            for Seen { name, .. } in seen.into_inner() {
                let path = path.join(OsStr::from_bytes(&name));
                if let Entry::Vacant(new) = names.entry(name) {
                    new.insert(self.step(layers, &path)?);
                }
            }
        }
        let mut left = limits;
        for (name, shows) in names {
            let path = path.join(OsStr::from_bytes(&name));
            left.entries_max = match left.entries_max.checked_sub(1) {
                Some(left) => left,
                None => return Ok(SurveyEnd::Entries),
            };
            match shows {
                Shows::Nothing => {}
                Shows::Leaf(_, stamp) => visit(&path, stamp),
                Shows::Directory(layers, stamp) => {
                    visit(&path, stamp);
                    match self.survey_of(&layers, &path, left, visit)? {
                        SurveyEnd::Whole => {}
                        end => return Ok(end),
                    }
                }
            }
        }
        Ok(SurveyEnd::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::fs;

    use nix::sys::stat::{Mode, SFlag, mknod};

    fn write(top: &Path, path: &str, text: &str) {
        fs::create_dir_all(top.join(path).parent().expect("a parent")).expect("a directory");
        fs::write(top.join(path), text).expect("a file");
    }

    #[test]
    fn layers_show_what_a_mount_of_them_would() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let (top, below) = (place.path().join("top"), place.path().join("below"));
        for (path, text) in [("a/1", "1"), ("a/2", "2"), ("b/x", "x"), ("c", "c"), ("d/e/f", "f"), ("g/h", "h")] {
            write(&below, path, text);
        }
        write(&top, "a/3", "3");
        write(&top, "b/new", "new");
        rustix::fs::lsetxattr(top.join("b"), OPAQUE, b"y", rustix::fs::XattrFlags::empty()).expect("an attribute");
        write(&top, "c/now-a-directory", "");
        write(&top, "g", "now a file");
        for gone in ["a/1", "d"] {
            mknod(&top.join(gone), SFlag::S_IFCHR, Mode::empty(), 0).expect("a whiteout");
        }
        let layers = Layers::open([&*top, &*below]).expect("both are there");
        let seen = Mutex::new(Vec::new());
        let limits =
            SurveyLimits { entries_max: 100, deadline: std::time::Instant::now() + std::time::Duration::from_secs(60) };
        let add = |path: &Path, stamp: Stamp| {
            let sign = if stamp.is_directory() { "/" } else { "" };
            seen.lock().push(format!("{}{sign}", path.display()));
        };
        assert_eq!(layers.survey(Path::new(""), limits, &add).expect("a directory"), SurveyEnd::Whole);
        let mut seen = seen.into_inner();
        seen.sort();
        assert_eq!(seen, ["a/", "a/2", "a/3", "b/", "b/new", "c/", "c/now-a-directory", "g"]);
        for hidden in ["a/1", "b/x", "d", "d/e/f", "g/h", "a/2/x", "nothing"] {
            assert_eq!(layers.stamp(Path::new(hidden)).expect("looked at"), None, "{hidden}");
        }
        let held = |path: &str| layers.held(Path::new(path), 100).expect("a file").1;
        assert_eq!((held("a/2"), held("a/3"), held("g")), (b"2".to_vec(), b"3".to_vec(), b"now a file".to_vec()));
        assert_eq!(layers.open_found(Path::new("a/2")).expect("a file").metadata().expect("its size").len(), 1);
    }
}
