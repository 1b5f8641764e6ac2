//! Private directories of the overlay tier: the replacements of the home and `/tmp` for the duration of a session, and the layers
//! that store what a program changes on its copy.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::made::{self, MadeInHome};
use super::missed::{self, Missed};
use super::tmp::Tmp;

/// Names of the directories in a session's.
const AREAS: &str = "areas";
const OWN_AREAS: &str = "servers";
const WORK: &str = "work";
const LAYERS: &str = "layers";
/// Name of the note in the directory of a copy.
const NOTE: &str = "note";
/// Names of the directories in an area.
const HOME: &str = "home";
/// The home of [`Area::Agreed`] in a session's directory.
const AGREED_HOME: &str = "areas/agreed/home";
const TMP: &str = "tmp";
/// Bytes that one copy may take on the disk, and the share of the free space that it may take: the rest is the person's.
const COPY_BYTES_MAX: u64 = 16 << 30;
const FREE_SHARE: u64 = 2;
/// Bytes that a file system must have lost since the last count before the files of a copy are counted again.
const COUNTED_AGAIN: u64 = 256 << 20;

/// The private home and `/tmp` of a program in a jail. Each area lasts as long as the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Area {
    /// The one of most programs. It shows the files of [`Area::Agreed`] as well, such as downloaded packages, but changes
    /// to them stay in this one.
    #[default]
    Session,
    /// The one of programs that a person agreed to and that get more than a copy of the workspace. A file of settings, or a
    /// program on `PATH`, that another command left there must not lead them.
    Agreed,
    /// The one of the project's checks, which also shows the files of [`Area::Agreed`]: no other command changes their result.
    Checks,
    /// A new one for this program alone: for a server.
    Own,
}

/// The directories that make up an area.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AreaDirectories {
    pub(super) home: Shown,
    pub(super) tmp: Shown,
}

/// One directory of an area.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// The directory that takes changes.
    pub(super) upper: PathBuf,
    /// A directory whose files show through, and an empty one that overlayfs works in.
    pub(super) below: Option<[PathBuf; 2]>,
}

/// Directories of one session, removed with it.
#[derive(Debug)]
pub(super) struct Scratch {
    held: Tmp,
    layers: AtomicU64,
    /// Numbers of directories of which each program gets a new one.
    made: AtomicU64,
}

impl Scratch {
    /// Makes them below `place` (0700), and removes what killed sessions have left there.
    pub(super) fn make(place: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(place)?;
        let held = Tmp::make(place)?;
        for name in [AREAS, OWN_AREAS, WORK, LAYERS] {
            fs::create_dir(held.path().join(name))?;
        }
        Ok(Self { held, layers: AtomicU64::new(0), made: AtomicU64::new(0) })
    }

    pub(super) fn is_there(&self) -> bool {
        self.held.path().join(LAYERS).is_dir()
    }

    /// The directories of a program's area; `layer` is that of its copy.
    pub(super) fn area(&self, which: Area, layer: Option<&Layer>) -> io::Result<AreaDirectories> {
        let areas = self.held.path().join(AREAS);
        let agreed = areas.join("agreed");
        let at = match which {
            Area::Session => areas.join("session"),
            Area::Agreed => agreed.clone(),
            Area::Checks => areas.join("checks"),
            Area::Own => self.numbered(OWN_AREAS)?,
        };
        make_area(&at)?;
        let shows_agreed = matches!(which, Area::Session | Area::Checks) && agreed.join(TMP).is_dir();
        let shown = |name: &str| {
            // Several programs may use an area at the same time, but not the same work directory of overlayfs.
            let work = match layer {
                _ if !shows_agreed => None,
                Some(layer) => Some(layer.dir.join(name)),
                None => Some(self.numbered(WORK)?),
            };
            Ok(Shown { upper: at.join(name), below: work.map(|work| [agreed.join(name), work]) })
        };
        shown(HOME).and_then(|home| Ok(AreaDirectories { home, tmp: shown(TMP)? }))
    }

    /// Makes the directories around a path of a home, as far as the true home has them, and removes what an earlier program left
    /// at the path.
    pub(super) fn make_room(&self, path: &Path, homes: &[PathBuf]) -> io::Result<()> {
        let Some(below) = below_home(path, homes) else { return Ok(()) };
        let there = path.ancestors().skip(1).find(|above| above.is_dir());
        let around = there.and_then(|there| below_home(there, homes)).unwrap_or_default();
        let home = Path::new(AGREED_HOME);
        made::make_room(self.held.path(), &home.join(around), &home.join(below))
    }

    /// Finds the file or directory that a program made at a path of a home in the private one of [`Area::Agreed`].
    pub(super) fn made_in_home(&self, path: &Path, homes: &[PathBuf]) -> Option<MadeInHome> {
        MadeInHome::find(self.held.path(), &Path::new(AGREED_HOME).join(below_home(path, homes)?), path)
    }

    /// Returns an unused name below a folder.
    fn unused(&self, folder: &Path) -> io::Result<PathBuf> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        loop {
            let number = self.layers.fetch_add(1, Ordering::Relaxed);
            let dir = folder.join(format!("{}-{number}", std::process::id()));
            if dir.symlink_metadata().is_err() {
                return Ok(dir);
            }
        }
    }

    fn numbered(&self, below: &str) -> io::Result<PathBuf> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.held.path().join(below).join(number.to_string());
        fs::create_dir(&path).map(|()| path)
    }

    /// Makes the directories for one copy of `workspace`, below `folder` if there is one, in which they survive a crash.
    /// Overlayfs never mounts the same directories twice, so each copy gets new ones.
    pub(super) fn layer(&self, workspace: &Path, folder: Option<&Path>) -> io::Result<Layer> {
        let dir = match folder {
            None => self.held.path().join(LAYERS).join(self.layers.fetch_add(1, Ordering::Relaxed).to_string()),
            Some(folder) => self.unused(folder)?,
        };
        fs::create_dir(&dir)?;
        let mut layer = Layer::at(dir, self.held.path().to_owned());
        // All but the first are for overlayfs: it works in one for each directory that it puts together.
        for name in ["upper", "work", HOME, TMP] {
            fs::create_dir(layer.dir.join(name))?;
        }
        // The top of the copy shows the mode of the upper directory.
        let mode = fs::metadata(workspace)?.permissions().mode();
        fs::set_permissions(&layer.upper, PermissionsExt::from_mode(mode & 0o777 | 0o700))?;
        let made = fs::metadata(&layer.upper)?;
        layer.since_ns = changed_ns(&made);
        Ok(layer)
    }
}

/// A path below one of the homes; `None` for any other path, and for a home.
fn below_home(path: &Path, homes: &[PathBuf]) -> Option<PathBuf> {
    let below = homes.iter().find_map(|home| path.strip_prefix(home).ok())?;
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && below.components().next().is_some()).then(|| below.to_owned())
}

/// The layers of one copy: a program's changes are in `upper`. Removed when dropped.
#[derive(Debug)]
pub struct Layer {
    dir: PathBuf,
    /// The session's directory, with the areas.
    session: PathBuf,
    pub(super) upper: PathBuf,
    pub(super) work: PathBuf,
    /// The directory in which the program writes, if that isn't the upper one.
    whole: Option<PathBuf>,
    /// The file in which the jail writes down refusals.
    pub(super) refused: PathBuf,
    /// Time when the copy was made, by the clock of the file system: later changes in the workspace were made by other programs.
    pub(super) since_ns: i64,
    /// Free space of the file system when the copy was made, and when its files were last counted.
    free: u64,
    free_at_count: AtomicU64,
}

impl Layer {
    fn at(dir: PathBuf, session: PathBuf) -> Self {
        let [upper, work, refused] = ["upper", "work", "refused"].map(|name| dir.join(name));
        let free = free_bytes(&dir);
        let free_at_count = AtomicU64::new(free);
        Self { dir, session, upper, work, whole: None, refused, since_ns: 0, free, free_at_count }
    }

    /// Stores a note about the copy in its directory, in which it survives a crash. The note is removed before the copy.
    ///
    /// # Errors
    /// It can't be written.
    pub fn note(&self, text: &[u8]) -> io::Result<()> {
        let draft = self.dir.join("note.new");
        fs::write(&draft, text)?;
        fs::rename(draft, self.dir.join(NOTE))
    }

    /// The copies in a folder that killed processes have left there, the oldest first, each with its note; those without one
    /// are removed. No process may work on one.
    #[must_use]
    pub fn left_in(folder: &Path) -> Vec<(Self, Vec<u8>)> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut left: Vec<(i64, Self, Vec<u8>)> = Vec::new();
        for dir in entries.map(|it| it.path()) {
            match (fs::read(dir.join(NOTE)), fs::symlink_metadata(&dir)) {
                (Ok(note), Ok(data)) => left.push((changed_ns(&data), Self::at(dir, PathBuf::new()), note)),
                _ => remove_all(&dir),
            }
        }
        left.sort_by_key(|(changed, ..)| *changed);
        left.into_iter().map(|(_, layer, note)| (layer, note)).collect()
    }

    /// The same for a program that writes in a directory with all files, if one is named.
    pub(super) fn in_whole(mut self, directory: Option<PathBuf>) -> Self {
        self.whole = directory;
        self
    }

    /// Returns whether what a program wrote here, into its home and into `/tmp` takes more disk space than a copy may:
    /// 16 GiB, or half of what was free. The files are counted only if the file system has lost as much.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        let most = COPY_BYTES_MAX.min(self.free / FREE_SHARE);
        let free = free_bytes(&self.upper);
        let last = self.free_at_count.load(Ordering::Relaxed);
        // Nothing is known, or the disk was full before: then writing fails by itself.
        if most == 0 || self.free.saturating_sub(free) < most || last.saturating_sub(free) < COUNTED_AGAIN.min(most) {
            return false;
        }
        self.free_at_count.store(free, Ordering::Relaxed);
        let all = vec![self.upper.clone(), self.session.join(AREAS)];
        let is_own = |data: &fs::Metadata| changed_ns(data) >= self.since_ns;
        let whole = self.whole.as_ref().map_or(0, |whole| held_bytes(vec![whole.clone()], most, &is_own));
        whole + held_bytes(all, most, &|_| true) >= most
    }

    /// Puts a file into the copy, in place of the workspace's file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn put(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let top = self.whole.as_ref().unwrap_or(&self.upper);
        let place = top.join(path);
        fs::create_dir_all(place.parent().unwrap_or(top))?;
        fs::write(&place, content)?;
        fs::set_permissions(&place, PermissionsExt::from_mode(mode & 0o777))
    }

    /// Empties the session's homes and `/tmp`, which else would take the disk space as long as the session lasts.
    pub fn empty_private(&self) {
        let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
        let areas = entries(self.session.join(AREAS)).map(|area| area.path());
        for entry in areas.flat_map(|area| [HOME, TMP].map(|name| area.join(name))).flat_map(entries) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => remove_all(&entry.path()),
                _ => drop(fs::remove_file(entry.path())),
            }
        }
    }

    /// Returns the kernel's refusals to the program that worked on this copy; `None` if the jail could not
    /// look.
    #[must_use]
    pub fn missed(&self) -> Option<Vec<Missed>> {
        missed::read(&self.refused)
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir);
        if !dir.as_os_str().is_empty() {
            let _ = fs::remove_file(dir.join(NOTE));
            // Thousands of files take a while: this happens in the background, and the session's end removes what is left.
            std::thread::spawn(move || remove_all(&dir));
        }
    }
}

/// Makes the directories of an area, if they aren't there.
fn make_area(at: &Path) -> io::Result<()> {
    for name in [HOME, TMP] {
        DirBuilder::new().recursive(true).create(at.join(name))?;
    }
    fs::set_permissions(at.join(TMP), PermissionsExt::from_mode(0o1777))
}

/// The free space of the file system of a path; 0 if it doesn't say.
fn free_bytes(path: &Path) -> u64 {
    nix::sys::statvfs::statvfs(path).map_or(0, |data| data.blocks_available().saturating_mul(data.fragment_size()))
}

/// Time of the last change of an entry.
fn changed_ns(data: &fs::Metadata) -> i64 {
    data.ctime().saturating_mul(1_000_000_000).saturating_add(data.ctime_nsec())
}

/// The disk space that the files below directories take, of those that count; adds up until it is `enough`.
fn held_bytes(mut waiting: Vec<PathBuf>, enough: u64, counts: &dyn Fn(&fs::Metadata) -> bool) -> u64 {
    let mut bytes = 0;
    while let Some(dir) = waiting.pop().filter(|_| bytes < enough) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            bytes += if counts(&data) { data.blocks() * 512 } else { 0 };
            if data.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    bytes
}

/// Removes a directory with all below it, also if some of it may not be entered.
pub(super) fn remove_all(dir: &Path) {
    if fs::remove_dir_all(dir).is_ok() {
        return;
    }
    open_up(dir);
    // What can't be removed now is found by the next sweep.
    let _ = fs::remove_dir_all(dir);
}

/// Lets the owner into all directories below one.
fn open_up(dir: &Path) {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        let _ = fs::set_permissions(&dir, PermissionsExt::from_mode(0o700));
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        waiting.extend(entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The environment variable by which this test, started in its own mount namespace, learns the place of a small disk.
    const SMALL: &str = "REEDCLAW_TEST_COPY_SMALL";

    #[test]
    fn an_agreed_program_gets_an_area_that_other_programs_only_read() {
        let place = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::make(place.path()).expect("a scratch");
        let area = |which| scratch.area(which, None).expect("an area");
        let session = area(Area::Session);
        assert_eq!((&session.home.below, &session.tmp.below), (&None, &None), "there is nothing to show through");
        let agreed = area(Area::Agreed);
        assert_eq!((&agreed.home.below, &area(Area::Agreed)), (&None, &agreed), "its downloads are found");
        let (checks, again) = (area(Area::Checks), area(Area::Session));
        assert_eq!((&again.home.upper, &again.tmp.upper), (&session.home.upper, &session.tmp.upper));
        let below = |shown: &Shown| shown.below.clone().expect("the agreed one shows through");
        for (shown, lower) in [(&checks.home, &agreed.home), (&again.home, &agreed.home), (&again.tmp, &agreed.tmp)] {
            assert!(below(shown)[0] == lower.upper && shown.upper != lower.upper, "{shown:?}");
        }
        assert!(below(&checks.home)[1] != below(&again.home)[1] && checks.home.upper != again.home.upper);
        let own = area(Area::Own);
        assert!(own.tmp.below.is_none() && area(Area::Own).tmp.upper != own.tmp.upper && own.home != session.home);
    }

    #[test]
    fn a_copy_that_takes_half_of_the_free_space_is_overfull() {
        if let Some(top) = std::env::var_os(SMALL) {
            let top = PathBuf::from(top);
            let (scratch, workspace) = (Scratch::make(&top.join("state")).expect("a scratch"), top.join("ws"));
            fs::create_dir(&workspace).expect("a directory");
            let layer = scratch.layer(&workspace, None).expect("a layer");
            assert!(!layer.is_overfull(), "nothing was written");
            // Another program fills the disk: that isn't the copy's fault.
            fs::write(workspace.join("other"), vec![1; 1_300_000]).expect("a file");
            assert!(!layer.is_overfull(), "the copy is empty");
            fs::remove_file(workspace.join("other")).expect("it goes");
            fs::create_dir(layer.upper.join("deep")).expect("a directory");
            fs::write(layer.upper.join("deep/large"), vec![1; 1_300_000]).expect("a file");
            // Checked again only after as much space is lost once more; a new copy starts from the space that is free then.
            layer.free_at_count.store(layer.free, Ordering::Relaxed);
            assert!(layer.is_overfull(), "more than half of 2 MB");
            fs::remove_dir_all(layer.upper.join("deep")).expect("it goes");
            let area = scratch.area(Area::Session, None).expect("an area");
            for private in [area.tmp.upper, area.home.upper] {
                fs::create_dir(private.join("deep")).expect("a directory");
                fs::write(private.join("deep/large"), vec![1; 1_300_000]).expect("a file");
                layer.free_at_count.store(layer.free, Ordering::Relaxed);
                assert!(layer.is_overfull(), "{}", private.display());
                layer.empty_private();
                assert_eq!(fs::read_dir(&private).expect("it is there").count(), 0, "{}", private.display());
            }
            return;
        }
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().expect("a directory");
        let name = std::thread::current().name().expect("the test's name").to_owned();
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", "mount -t tmpfs -o size=2000k none \"$1\" && exec \"$0\" --exact \"$2\""]);
        command.arg(std::env::current_exe().expect("this test")).arg(place.path()).arg(name);
        let ended = command.env(SMALL, place.path()).output().expect("it runs");
        assert!(ended.status.success(), "{ended:?}");
    }
}
