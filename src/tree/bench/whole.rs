//! A directory with all files of a bench, for sandboxes that can't show layers. Commands write in it. Their changes are found by
//! a table of the earlier state, and before the next command everything that the bench hasn't adopted is reverted: nothing
//! depends on the directory, and it can be made again at any time.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::by_several;
use crate::files::{Layers, PathError, Root, Stamp, SurveyEnd, SurveyLimits, Table, Unseen, holes};

/// Entries that such a directory may have.
const ENTRIES_MAX: usize = 2_000_000;
/// Maximum time of a survey of it.
const LOOK_MAX: Duration = Duration::from_mins(10);
/// Longest target of a link, as in Linux (`PATH_MAX`).
const TARGET_BYTES_MAX: u64 = 4096;
/// Name of git's directory.
const GIT: &str = ".git";

/// A directory with all files of a bench.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The directory as it was when it was last brought to the bench.
    table: Option<Arc<Table>>,
    /// The layer with git's files at that time.
    git: Option<Table>,
    /// `true` if the written table is an older one, or there is none.
    is_unwritten: bool,
}

fn limits() -> SurveyLimits {
    SurveyLimits { entries_max: ENTRIES_MAX, deadline: Instant::now() + LOOK_MAX }
}

fn unseen(why: Unseen) -> io::Error {
    io::Error::other(match why {
        Unseen::Entries => format!("there are more than {ENTRIES_MAX} files"),
        Unseen::Time => "looking at all files took too long".to_owned(),
        Unseen::Closed(path) => format!("{} can't be read", path.display()),
    })
}

fn of_path(error: PathError) -> io::Error {
    io::Error::other(error)
}

fn open(directory: &Path) -> io::Result<Root> {
    Root::open(directory, None).map_err(of_path)
}

impl Whole {
    /// The one of the bench at `bench`; nothing is written yet.
    pub(super) fn beside(bench: &Path) -> Self {
        Self { dir: bench.with_extension("whole"), state: Mutex::default() }
    }

    /// The file with the table, for another process. It is there only while the bench is as it was when that was made.
    fn file(&self) -> PathBuf {
        self.dir.with_extension("stamps")
    }

    /// Removes the written table, since the bench is about to change: from now on only this process knows the earlier state.
    pub(super) fn forget(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.is_unwritten = true;
        state.table = state.table.take().or_else(|| self.written());
        match fs::remove_file(self.file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the written table.
    fn written(&self) -> Option<Arc<Table>> {
        fs::read(self.file()).ok().and_then(|bytes| Table::read(&bytes)).map(Arc::new)
    }

    /// The directory as it was before the newest command, for another process, if no file has that.
    pub(super) fn unwritten(&self) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.table.as_ref().filter(|_| state.is_unwritten).map(|table| table.bytes())
    }

    /// Restores the state of the directory before an interrupted command: from `table`, or from the file.
    pub(super) fn resume(&self, table: Option<Table>) -> Option<()> {
        let table = table.map(Arc::new).or_else(|| self.written()).filter(|_| self.dir.is_dir())?;
        *self.state.lock() = State { table: Some(table), git: None, is_unwritten: true };
        Some(())
    }

    /// Forgets everything, since the bench begins again.
    pub(super) fn begin_anew(&self) -> io::Result<()> {
        self.forget()?;
        *self.state.lock() = State { is_unwritten: true, ..State::default() };
        Ok(())
    }

    /// The directory as it was when it was last brought to the bench.
    pub(super) fn table(&self) -> Option<Arc<Table>> {
        self.state.lock().table.clone()
    }

    /// Brings it to the layers of the bench, without git's files. `changed` are paths at which the bench has changed. Returns
    /// whether it was made again.
    pub(super) fn bring(&self, layers: &[&Path], changed: &[PathBuf]) -> io::Result<bool> {
        let layers = Layers::open(layers.iter().copied())
            .map_err(|(path, error)| io::Error::other(format!("{}: {error}", path.display())))?;
        let mut state = self.state.lock();
        let known = state.table.take().or_else(|| self.written()).filter(|_| self.dir.is_dir());
        let Some(known) = known else {
            *state = State { table: Some(Arc::new(self.make(&layers)?)), git: None, is_unwritten: true };
            return Ok(true);
        };
        // No table has the directory's own mode.
        fs::set_permissions(&self.dir, Permissions::from_mode(0o700))?;
        let root = open(&self.dir)?;
        let mut now = Table::of_ours(&root, limits()).map_err(unseen)?;
        let mut paths = known.differing(&now);
        paths.extend(changed.iter().cloned());
        let is_git = |path: &Path| path.starts_with(GIT);
        if paths.iter().any(|path| is_git(path)) {
            state.git = None;
        }
        let files = paths.iter().filter(|path| !is_git(path));
        let mut is_other = false;
        for path in files {
            is_other |= self.put(&layers, path)?;
        }
        if is_other {
            now.look_again(&root, &paths).map_err(unseen)?;
        }
        state.is_unwritten |= is_other || *known != now;
        state.table = Some(Arc::new(now));
        Ok(false)
    }

    /// Puts git's files there as their own layer has them, and writes the table for another process if the bench can be used as
    /// it is.
    pub(super) fn bring_git(&self, layer: Option<&Path>, is_settled: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        let wanted = match layer {
            Some(layer) => Table::of_ours(&open(layer)?, limits()).map_err(unseen)?,
            None => Table::default(),
        };
        if state.git.as_ref() != Some(&wanted) {
            remove(&self.dir.join(GIT))?;
            if let Some(layer) = layer {
                let layers = Layers::open([layer]).map_err(|(_, error)| of_path(error))?;
                copy(&layers, &self.dir)?;
            }
            let root = open(&self.dir)?;
            let mut table = state.table.take().map(Arc::unwrap_or_clone).unwrap_or_default();
            table.directories.retain(|path, _| !path.starts_with(GIT));
            let mut below: BTreeSet<PathBuf> = wanted.directories.keys().cloned().collect();
            below.insert(GIT.into());
            table.look_again(&root, &below).map_err(unseen)?;
            *state = State { table: Some(Arc::new(table)), git: Some(wanted), is_unwritten: true };
        }
        if let Some(table) = state.table.as_ref().filter(|_| is_settled && state.is_unwritten) {
            fs::write(self.file(), table.bytes())?;
            state.is_unwritten = false;
        }
        Ok(())
    }

    /// Makes the directory.
    fn make(&self, layers: &Layers) -> io::Result<Table> {
        // An incomplete one never passes for a complete one.
        let new = self.dir.with_extension("whole-new");
        remove(&new)?;
        DirBuilder::new().mode(0o700).create(&new)?;
        copy(layers, &new)?;
        remove(&self.dir)?;
        fs::rename(&new, &self.dir)?;
        Table::of_ours(&open(&self.dir)?, limits()).map_err(unseen)
    }

    /// Restores a path to what the layers show; returns whether it was different.
    fn put(&self, layers: &Layers, path: &Path) -> io::Result<bool> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()).collect();
        above.reverse();
        let mut is_other = false;
        for directory in above {
            match layers.stamp(directory).map_err(of_path)? {
                Some(stamp) if stamp.is_directory() => is_other |= self.make_directory(directory, &stamp)?,
                // A file there has been put back already, since its path comes first.
                _ => return Ok(remove_directory(&self.dir.join(directory))? | is_other),
            }
        }
        let target = self.dir.join(path);
        match layers.stamp(path).map_err(of_path)? {
            None => Ok(remove(&target)? | is_other),
            Some(stamp) if stamp.is_directory() => Ok(self.make_directory(path, &stamp)? | is_other),
            Some(stamp) if is_as(layers, path, &stamp, &target) => Ok(is_other),
            Some(stamp) => {
                remove(&target)?;
                copy_leaf(layers, path, &stamp, &target)?;
                Ok(true)
            }
        }
    }

    /// Makes a directory, unless there is one with these permissions; returns whether there was none.
    fn make_directory(&self, path: &Path, stamp: &Stamp) -> io::Result<bool> {
        let target = self.dir.join(path);
        let wanted = Permissions::from_mode(stamp.permissions() & 0o777);
        match target.symlink_metadata() {
            Ok(data) if data.is_dir() && data.permissions().mode() & 0o7777 == wanted.mode() => return Ok(false),
            Ok(data) if data.is_dir() => {}
            _ => {
                remove(&target)?;
                fs::create_dir(&target)?;
            }
        }
        fs::set_permissions(&target, wanted)?;
        Ok(true)
    }
}

/// Removes a path, even if a program removed the rights to do so; returns whether something was there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(data) if !data.is_dir() => fs::remove_file(path)?,
        Ok(_) => {
            if fs::remove_dir_all(path).is_err() {
                fs::set_permissions(path, Permissions::from_mode(0o700))?;
                // Looking at it opens its directories.
                let _ = Table::of_ours(&open(path)?, limits());
                fs::remove_dir_all(path)?;
            }
        }
    }
    Ok(true)
}

/// The same for a directory alone.
fn remove_directory(path: &Path) -> io::Result<bool> {
    if path.symlink_metadata().is_ok_and(|data| data.is_dir()) { remove(path) } else { Ok(false) }
}

/// Copies all that layers show into an empty directory.
fn copy(layers: &Layers, to: &Path) -> io::Result<()> {
    let all = Mutex::new(Vec::new());
    let end = layers.survey(Path::new(""), limits(), &|path, stamp| all.lock().push((path.to_owned(), stamp)));
    match end.map_err(of_path)? {
        SurveyEnd::Whole => {}
        SurveyEnd::Entries => return Err(unseen(Unseen::Entries)),
        SurveyEnd::Time => return Err(unseen(Unseen::Time)),
    }
    let mut all = all.into_inner();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (directories, leaves): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, stamp)| stamp.is_directory());
    for (path, stamp) in &directories {
        let target = to.join(path);
        fs::create_dir(&target)?;
        fs::set_permissions(&target, Permissions::from_mode(stamp.permissions() & 0o777 | 0o700))?;
    }
    by_several(&leaves, &|(path, stamp)| copy_leaf(layers, path, stamp, &to.join(path)))
}

/// Copies a file or a link to a place at which nothing is.
fn copy_leaf(layers: &Layers, path: &Path, stamp: &Stamp, target: &Path) -> io::Result<()> {
    if stamp.is_link() {
        let (_, place) = layers.held(path, TARGET_BYTES_MAX).map_err(of_path)?;
        return symlink(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&place), target);
    }
    let bits = stamp.permissions() & 0o777;
    let source = open_ours(&layers.place(path).ok_or(io::ErrorKind::NotFound)?)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(bits | 0o200).open(target)?;
    holes::copy(&source, &file)?;
    if file.metadata()?.permissions().mode() & 0o7777 != bits {
        file.set_permissions(Permissions::from_mode(bits))?;
    }
    Ok(())
}

/// Opens a file of ours that a program may have made unreadable.
pub(in crate::tree) fn open_ours(path: &Path) -> io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let was = path.symlink_metadata()?.permissions();
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
            let opened = File::open(path);
            fs::set_permissions(path, was)?;
            opened
        }
        opened => opened,
    }
}

/// Returns whether a file or a link is already what the layers show.
fn is_as(layers: &Layers, path: &Path, stamp: &Stamp, target: &Path) -> bool {
    let Ok(data) = target.symlink_metadata() else { return false };
    if stamp.is_link() {
        let place = layers.held(path, TARGET_BYTES_MAX).map(|(_, place)| place);
        let there = fs::read_link(target).map(|it| it.into_os_string().into_encoded_bytes());
        return place.ok().is_some_and(|place| there.is_ok_and(|there| there == place));
    }
    let is_alike =
        data.is_file() && data.len() == stamp.size && data.permissions().mode() & 0o7777 == stamp.permissions() & 0o777;
    let both = || Some((open_ours(&layers.place(path)?).ok()?, open_ours(target).ok()?));
    is_alike && both().is_some_and(|(one, other)| matches!(holes::are_equal(&one, &other, &|| true), Ok(Some(true))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::tree::bench::{Bench, Did, Shown};
    use crate::tree::{Draft, Memory};

    fn bench_at(dir: &Path, files: &[(&str, &str)]) -> (Bench, Arc<Draft>) {
        let draft =
            Arc::new(Draft::on(Arc::new(Memory::default()), crate::git::empty_tree(), Path::new("/project"), None));
        for (path, text) in files {
            draft.put(Path::new(path), Some((crate::git::Mode::File, text.as_bytes()))).expect("put");
        }
        let bench = Bench::new(dir.join("bench"), None, draft.clone());
        bench.show_as(Shown::Bound);
        (bench, draft)
    }

    /// Returns every file beneath a directory, with its permissions and content, or the target of a link.
    fn files(top: &Path) -> Vec<String> {
        let mut all = Vec::new();
        let mut waiting = vec![top.to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).expect("a directory").flatten() {
                let (path, data) = (entry.path(), entry.metadata().expect("it"));
                let name = path.strip_prefix(top).expect("below").display().to_string();
                if data.is_dir() {
                    waiting.push(path);
                    all.push(format!("{name}/"));
                } else if data.is_symlink() {
                    all.push(format!("{name} -> {}", fs::read_link(&path).expect("a link").display()));
                } else {
                    let text = String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned();
                    all.push(format!("{name} {:o} {text}", data.mode() & 0o777));
                }
            }
        }
        all.sort();
        all
    }

    #[test]
    fn what_a_command_left_there_is_put_back_and_what_the_bench_took_stays() {
        let dir = crate::git::in_memory();
        let (bench, draft) = bench_at(dir.path(), &[("a", "a"), ("d/e/f", "f"), ("d/g", "g"), ("h", "h"), ("i", "i")]);
        assert_eq!(bench.in_whole(), None);
        bench.ready().expect("ready");
        let (whole, _) = bench.in_whole().expect("a directory");
        assert_eq!(files(&whole), ["a 644 a", "d/", "d/e/", "d/e/f 644 f", "d/g 644 g", "h 644 h", "i 644 i"]);
        let at = |path: &str| whole.join(path);
        // Changes that aren't adopted are gone with the next command: in place, with the same length, in place of others.
        fs::write(at("a"), "b").expect("a file");
        fs::remove_dir_all(at("d")).expect("gone");
        fs::write(at("d"), "a file").expect("a file");
        fs::remove_file(at("h")).expect("gone");
        fs::create_dir_all(at("h/below/deep")).expect("a directory");
        fs::write(at("h/below/deep/x"), "x").expect("a file");
        fs::set_permissions(at("h/below"), Permissions::from_mode(0o000)).expect("closed");
        fs::set_permissions(at("i"), Permissions::from_mode(0o700)).expect("its permissions");
        symlink("/etc/passwd", at("link")).expect("a link");
        bench.ready().expect("ready");
        let before = ["a 644 a", "d/", "d/e/", "d/e/f 644 f", "d/g 644 g", "h 644 h", "i 644 i"];
        assert_eq!(files(&whole), before);
        // An adopted file is in both places, and these aren't names of one file.
        fs::write(at("a"), "taken").expect("a file");
        fs::write(at("new"), "left").expect("a file");
        let adopted = [(Path::new("a"), Did::File(at("a"), 0o644)), (Path::new("d/g"), Did::Gone)];
        bench.adopt(&adopted).expect("adopted");
        assert_eq!(fs::read_to_string(at("a")).expect("a file"), "taken");
        bench.ready().expect("ready");
        assert_eq!(files(&whole), ["a 644 taken", "d/", "d/e/", "d/e/f 644 f", "h 644 h", "i 644 i"]);
        let inode = |path: PathBuf| path.metadata().expect("it").ino();
        assert_ne!(inode(at("a")), inode(bench.dir().join("a")));
        // A file tool's change arrives there, too; an empty directory is removed with its last file.
        draft.put(Path::new("d/e/f"), None).expect("put");
        draft.put(Path::new("i"), Some((crate::git::Mode::Executable, b"run"))).expect("put");
        bench.ready().expect("ready");
        assert_eq!(files(&whole), ["a 644 taken", "h 644 h", "i 755 run"]);
    }

    #[test]
    fn another_process_takes_it_up_and_one_that_was_half_made_is_made_anew() {
        let dir = crate::git::in_memory();
        let (bench, draft) = bench_at(dir.path(), &[("a", "a"), ("d/e", "e")]);
        bench.ready().expect("ready");
        let (whole, table) = bench.in_whole().expect("a directory");
        // Only a bench in the state of a commit is recorded.
        let file = dir.path().join("bench.stamps");
        assert!(!file.exists());
        assert_eq!(Table::read(&table.bytes()).as_ref(), Some(&*table));
        assert_eq!(Table::read(&table.bytes()[1..]), None);
        let inode = |name: &str| whole.join(name).metadata().expect("it").ino();
        let before = inode("a");
        fs::write(&file, table.bytes()).expect("written");
        fs::write(whole.join("d/e"), "x").expect("changed by a command that was killed");
        let other = Whole::beside(bench.dir());
        assert!(!other.bring(&[bench.dir()], &[]).expect("brought"), "it was there");
        assert_eq!((files(&whole), inode("a")), (vec!["a 644 a".into(), "d/".into(), "d/e 644 e".into()], before));
        other.forget().expect("forgotten");
        assert!(!file.exists() && !other.bring(&[bench.dir()], &[]).expect("brought"), "this one knows it");
        fs::create_dir(dir.path().join("bench.whole-new")).expect("half of one");
        fs::write(dir.path().join("bench.whole-new/a"), "half").expect("half of one");
        assert!(Whole::beside(bench.dir()).bring(&[bench.dir()], &[]).expect("made"), "nobody knows it");
        assert!(inode("a") != before && !dir.path().join("bench.whole-new").exists());
        drop(draft);
    }

    #[test]
    fn lost_files_come_back_and_are_no_deletions() {
        let dir = crate::git::in_memory();
        let (bench, _) = bench_at(dir.path(), &[("a", "a"), ("d/e", "e")]);
        bench.ready().expect("ready");
        let (whole, _) = bench.in_whole().expect("a directory");
        fs::remove_file(whole.join("a")).expect("gone");
        fs::remove_dir_all(whole.join("d")).expect("gone");
        bench.ready().expect("ready");
        assert_eq!(files(&whole), ["a 644 a", "d/", "d/e 644 e"]);
        fs::remove_dir_all(&whole).expect("gone");
        bench.ready().expect("ready");
        assert_eq!(files(&whole), ["a 644 a", "d/", "d/e 644 e"]);
    }
}
