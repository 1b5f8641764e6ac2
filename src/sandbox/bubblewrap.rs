//! The arguments of bubblewrap. Pure, except that it checks which paths exist.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::helper::wire::{PathWire, Spec, paths};
use super::masks::{CLOSED_OF_PROC, KEPT_OF_RUN, outermost};

/// Paths of bubblewrap: it isn't searched on `PATH`, which others may influence.
const PLACES: [&str; 4] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];
/// The directories that a sandbox has for itself, empty.
const OWN: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// Finds bubblewrap.
pub(super) fn find() -> Option<&'static Path> {
    PLACES.iter().map(Path::new).find(|path| path.is_file())
}

/// All words after `bwrap` and before the program. `filters` are descriptors with a seccomp program each.
pub(super) fn arguments(spec: &Spec, filters: &[RawFd]) -> Vec<OsString> {
    let mut words = Words(Vec::new());
    for flag in ["user", "pid", "ipc", "uts", "cgroup-try"] {
        words.add(&format!("--unshare-{flag}"), &[]);
    }
    if !spec.network {
        words.add("--unshare-net", &[]);
    }
    words.add("--die-with-parent", &[]);
    words.add("--cap-drop", &["ALL".as_ref()]);
    words.add("--ro-bind", &["/".as_ref(), "/".as_ref()]);
    words.add("--dev", &["/dev".as_ref()]);
    words.add("--proc", &["/proc".as_ref()]);
    words.mask(&CLOSED_OF_PROC.map(PathBuf::from), &|path| path.to_owned());
    for own in OWN {
        // On some systems one of them leads to another.
        if Path::new(own).symlink_metadata().is_ok_and(|data| data.is_dir()) {
            words.add("--tmpfs", &[own.as_ref()]);
        }
    }
    for path in KEPT_OF_RUN {
        words.add("--ro-bind-try", &[path.as_ref(), path.as_ref()]);
    }
    let writable: Vec<PathBuf> = paths(&spec.writable).collect();
    let readable: Vec<PathBuf> = paths(&spec.readable).collect();
    let bound = spec.bound.as_ref().map(|both| both.each_ref().map(PathWire::path));
    let source = |path: &Path| source_of(bound.as_ref(), path);
    let is_hidden = |path: &Path| {
        let is_open = readable.iter().chain(&writable).any(|open| path.starts_with(open));
        !is_open && OWN.iter().any(|own| path.starts_with(own))
    };
    let masked = paths(&spec.masked).filter(|path| !is_hidden(path));
    // Paths in an open directory are covered after that directory was opened.
    let is_inside = |path: &PathBuf| readable.iter().chain(&writable).any(|open| path.starts_with(open));
    let (inside, around): (Vec<PathBuf>, Vec<PathBuf>) = masked.partition(is_inside);
    let (inside, around) = (outermost(inside), outermost(around));
    let emptied = words.mask(&around, &source);
    readable.iter().for_each(|path| words.add("--ro-bind-try", &[path.as_ref(), path.as_ref()]));
    for path in &writable {
        words.add("--bind", &[source(path).as_ref(), path.as_ref()]);
    }
    // After their contents were mounted.
    emptied.iter().for_each(|path| words.add("--remount-ro", &[path.as_ref()]));
    for [source, place] in &spec.shown_at {
        words.add("--ro-bind", &[source.path().as_ref(), place.path().as_ref()]);
    }
    // A bind mount through a link of the workspace would reveal what was covered at its target.
    let is_own = |path: &PathBuf| {
        let lies_in = |all: &[PathBuf]| all.iter().any(|it| path.starts_with(it));
        lies_in(&writable) && !lies_in(&inside)
    };
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    // On a copy everything may be changed, since the changes are examined afterwards.
    let read_only = paths(&spec.read_only).filter(|_| bound.is_none());
    let protected: Vec<PathBuf> = read_only.filter(is_own).filter(is_there).collect();
    let is_shown = |path: &PathBuf| is_there(&source(path));
    let immovable: Vec<PathBuf> = protected.iter().chain(&inside).filter(|it| is_shown(it)).cloned().collect();
    ways(&immovable, &writable).iter().for_each(|path| words.add("--bind", &[source(path).as_ref(), path.as_ref()]));
    protected.iter().for_each(|path| words.add("--ro-bind", &[path.as_ref(), path.as_ref()]));
    // These come last, or the directories above would reveal what they cover.
    let emptied = words.mask(&inside, &source);
    emptied.iter().for_each(|path| words.add("--remount-ro", &[path.as_ref()]));
    words.add("--chdir", &[spec.cwd.path().as_ref()]);
    for filter in filters {
        words.add("--add-seccomp-fd", &[filter.to_string().as_ref()]);
    }
    words.add("--", &[]);
    words.0
}

/// Returns the path at which this process finds what the sandbox shows at `path`; `bound` is a directory with the place at which
/// it is bound.
fn source_of(bound: Option<&[PathBuf; 2]>, path: &Path) -> PathBuf {
    let below = bound.and_then(|[source, place]| Some((source, path.strip_prefix(place).ok()?)));
    below.map_or_else(|| path.to_owned(), |(source, below)| source.join(below))
}

/// Returns the directories between writable paths and the locked or hidden paths in them, the outer ones first. They become
/// mounts, too, or one could be moved away and replaced.
fn ways<'a>(paths: &'a [PathBuf], writable: &[PathBuf]) -> BTreeSet<&'a Path> {
    let is_inside = |above: &&Path| writable.iter().any(|open| above.starts_with(open) && above != open);
    paths.iter().flat_map(|path| path.ancestors().skip(1).take_while(is_inside)).collect()
}

struct Words(Vec<OsString>);

impl Words {
    fn add(&mut self, flag: &str, values: &[&OsStr]) {
        self.0.push(flag.into());
        self.0.extend(values.iter().map(|value| (*value).to_owned()));
    }

    /// Covers paths, at which `source` shows; returns the directories among them, which can still be written.
    fn mask<'a>(&mut self, paths: &'a [PathBuf], source: &dyn Fn(&Path) -> PathBuf) -> Vec<&'a PathBuf> {
        let mut emptied = Vec::new();
        for path in paths {
            // A missing path can't be created either, except in the workspace: there it would be the program's own.
            match source(path).symlink_metadata() {
                Ok(data) if data.is_dir() => {
                    self.add("--tmpfs", &[path.as_ref()]);
                    emptied.push(path);
                }
                Ok(_) => self.add("--ro-bind", &["/dev/null".as_ref(), path.as_ref()]),
                Err(_) => {}
            }
        }
        emptied
    }
}
