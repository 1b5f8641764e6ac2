//! Names that some file systems can't distinguish: new paths of a tree whose names exist there in another case or Unicode form.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::base::names::folded;
use crate::git::{GitError, Mode, Objects, Oid};

/// The entries of a directory: their names, each with the common form and the tree that it names.
type Names = Vec<(Vec<u8>, Option<String>, Option<Oid>)>;

/// Finds, for new paths of a tree, each entry whose name is another form of one of them, or of a directory above it. Returns the
/// path and the other entry, each pair once.
pub(super) fn twins<'p>(
    objects: &dyn Objects,
    top: Oid,
    new: impl Iterator<Item = &'p Path>,
) -> Result<Vec<(PathBuf, PathBuf)>, GitError> {
    let (mut read, mut found) = (HashMap::<Oid, Names>::new(), Vec::new());
    for path in new {
        let (mut tree, mut at) = (top, PathBuf::new());
        for part in path.iter().map(OsStr::as_bytes) {
            if let Entry::Vacant(place) = read.entry(tree) {
                let names = objects.entries(tree)?.into_iter().map(|it| {
                    let form = folded(&it.name);
                    (it.name, form, (it.mode == Mode::Directory).then_some(it.id))
                });
                place.insert(names.collect());
            }
            let (names, form) = (&read[&tree], folded(part));
            let is_twin = |it: &&(Vec<u8>, Option<String>, Option<Oid>)| it.1 == form && it.0 != part;
            if let Some((name, ..)) = names.iter().find(is_twin).filter(|_| form.is_some()) {
                let pair = (at.join(OsStr::from_bytes(part)), at.join(OsStr::from_bytes(name)));
                let is_known = |it: &(PathBuf, PathBuf)| *it == pair || (&it.1, &it.0) == (&pair.0, &pair.1);
                if !found.iter().any(is_known) {
                    found.push(pair);
                }
            }
            at.push(OsStr::from_bytes(part));
            match names.iter().find(|it| it.0 == part) {
                Some((_, _, Some(below))) => tree = *below,
                _ => break,
            }
        }
    }
    Ok(found)
}
