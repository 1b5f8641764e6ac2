//! The file system that a jailed program sees, put together before it starts.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};
use std::slice;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::super::masks::{CLOSED_OF_PROC, KEPT_OF_RUN, outermost};
use super::super::sockets as services;
use crate::sandbox::helper::enter::Calls;
use crate::sandbox::helper::wire::{JailWire, PathWire, ShownWire, Spec, ViewWire, paths};

/// Directories on which the new root may be put together: a tmpfs is mounted over one, in this namespace only.
const STAGES: [&str; 3] = ["/tmp", "/mnt", "/run"];
/// Devices that a program finds.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links in `/dev`.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// `MOUNT_ATTR_RDONLY`, `_NOSUID`, `_NODEV` of linux/mount.h.
const READ_ONLY: u64 = 1;
const NO_SUID: u64 = 2;
const NO_DEV: u64 = 4;

/// Longest time in which a name that another program removes or replaces is gone or is something else.
const SETTLING: Duration = Duration::from_secs(1);

/// The new root, complete but for `/proc`.
pub(super) struct NewRoot {
    dir: OwnedFd,
    path: PathBuf,
    /// An empty file without permissions: it covers files that are masked.
    blank_file: OwnedFd,
    calls: Calls,
}

/// A mount's source, opened before anything is covered.
struct Source {
    fd: OwnedFd,
    path: PathBuf,
    is_directory: bool,
}

impl Source {
    /// Opens what is at `path`; nothing if there is nothing, or something that isn't mounted over (a link, a socket).
    fn open(path: &Path) -> Option<Self> {
        let fd = opened(path)?;
        let kind = File::from(fd.try_clone().ok()?).metadata().ok()?.file_type();
        if kind.is_symlink() || kind.is_socket() {
            return None;
        }
        Some(Self { fd, path: path.to_owned(), is_directory: kind.is_dir() })
    }

    /// Opens the workspace, or the directories that are shown in its place, the topmost first.
    fn shown(jail: &JailWire) -> Result<Vec<Self>, String> {
        let path = jail.workspace.path();
        if jail.shown_instead.is_empty() {
            return Ok(vec![Self::open(&path).ok_or("the workspace can't be opened")?]);
        }
        let one = |it: Self| Self { path: path.clone(), ..it };
        Ok(needed(&jail.shown_instead)?.into_iter().map(one).collect())
    }

    /// Opens the directories that are shown in the workspace; each gets its place there as its path.
    fn placed(jail: &JailWire) -> Result<Vec<Self>, String> {
        let one = |[source, place]: &[PathWire; 2]| {
            let found = needed(slice::from_ref(source))?;
            Ok(found.into_iter().map(|it| Self { path: place.path(), ..it }).collect::<Vec<_>>())
        };
        let all: Result<Vec<Vec<Self>>, String> = jail.shown_at.iter().map(one).collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

impl Source {
    /// Opens the socket at `path`, for a program that was granted it by name.
    fn service(path: &Path) -> Option<Self> {
        let fd = opened(path)?;
        let kind = File::from(fd.try_clone().ok()?).metadata().ok()?.file_type();
        kind.is_socket().then(|| Self { fd, path: path.to_owned(), is_directory: false })
    }
}

/// One of our directories that replaces `/tmp` or a home, opened before anything is covered.
struct Private {
    upper: Source,
    /// The one that shows through, and the one that overlayfs works in.
    below: Vec<Source>,
}

impl Private {
    fn open(shown: &ShownWire) -> Result<Self, String> {
        let upper = Source::open(&shown.upper.path()).ok_or("a private directory can't be opened")?;
        Ok(Self { upper, below: needed(shown.below.as_ref().map_or(&[], |below| &below[..]))? })
    }

    /// Puts it together at `path`, if it is more than one directory.
    fn on(self, path: &Path) -> Result<OwnedFd, String> {
        let [lower, work] = &self.below[..] else { return Ok(self.upper.fd) };
        let failed = |error: io::Error| format!("a private directory: {error}");
        std::fs::create_dir(path).map_err(failed)?;
        let [lower, upper, work] = [lower, &self.upper, work].map(|it| through(&it.fd).display().to_string());
        // Without an index, programs may use the same upper directory at the same time.
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile,index=off");
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let mounted = mount(Some("overlay"), path, Some("overlay"), flags, Some(options.as_str()));
        mounted.map_err(|error| failed(error.into()))?;
        opened(path).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }
}

fn opened(path: &Path) -> Option<OwnedFd> {
    openat2(AT_FDCWD, path, OpenHow::new().flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)).ok()
}

fn is_directory(place: &OwnedFd) -> bool {
    nix::sys::stat::fstat(place).is_ok_and(|data| data.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// Returns a path to the file that a descriptor has open.
fn through(fd: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

fn needed(list: &[PathWire]) -> Result<Vec<Source>, String> {
    let open = |path: PathBuf| Source::open(&path).ok_or_else(|| format!("{} can't be opened", path.display()));
    paths(list).map(open).collect()
}

fn wanted(paths: impl Iterator<Item = PathBuf>) -> Vec<Source> {
    paths.filter_map(|path| Source::open(&path)).collect()
}

/// The directories that a jail has for itself, with the homes.
const OWN: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// Sockets of services that the jail would show. Through a copy of the workspace none is reached.
pub(super) fn sockets(spec: &Spec) -> Vec<PathBuf> {
    let Some(jail) = &spec.jail else { return Vec::new() };
    let hidden: Vec<PathBuf> = OWN.map(PathBuf::from).into_iter().chain(paths(&jail.homes)).collect();
    let mut shown: Vec<PathBuf> =
        [&spec.readable, &spec.writable, &jail.kept_of_home].into_iter().flat_map(|list| paths(list)).collect();
    let workspace = jail.workspace.path();
    let is_copy = matches!(jail.view, ViewWire::Copy { .. });
    if !is_copy {
        shown.push(workspace.clone());
    }
    services::seen((!is_copy).then_some(&*workspace), |path| {
        // What was granted by name.
        if paths(&spec.readable).any(|granted| granted == path) {
            return false;
        }
        let is_shown = shown.iter().any(|it| path.starts_with(it));
        let is_hidden = hidden.iter().any(|it| path.starts_with(it)) || is_copy && path.starts_with(&workspace);
        is_shown || !is_hidden
    })
}

/// Returns the paths that a program in the jail may write, besides its devices and `/tmp`.
pub(super) fn writable(spec: &Spec) -> Vec<PathBuf> {
    let Some(jail) = &spec.jail else { return Vec::new() };
    let workspace = (!matches!(jail.view, ViewWire::Look)).then(|| jail.workspace.path());
    paths(&spec.writable).chain(paths(&jail.homes)).chain(workspace).collect()
}

impl NewRoot {
    /// Puts it together on a tmpfs; `sockets` are covered.
    pub(super) fn build(spec: &Spec, sockets: &[PathBuf], has_names: bool, calls: Calls) -> Result<Self, String> {
        let jail = spec.jail.as_ref().ok_or("the description of the jail is missing")?;
        let shown = Source::shown(jail)?;
        let workspace = &shown[0];
        let shown_at = Source::placed(jail)?;
        let (tmp, home) = (Private::open(&jail.tmp)?, Private::open(&jail.home)?);
        let layers = match &jail.view {
            ViewWire::Copy { upper, work, .. } => needed(&[upper.clone(), work.clone()])?,
            ViewWire::Look | ViewWire::Work => Vec::new(),
        };
        let kept_of_home = wanted(paths(&jail.kept_of_home));
        let kept_of_run = wanted(KEPT_OF_RUN.map(PathBuf::from).into_iter());
        let readable = wanted(paths(&spec.readable));
        // A socket is never shown but by name.
        let services: Vec<Source> = paths(&spec.readable).filter_map(|path| Source::service(&path)).collect();
        let writable = needed(&spec.writable)?;
        let resolver = has_names.then(|| Path::new("/etc/resolv.conf").canonicalize().ok()).flatten();
        let stage = stage()?;
        let (tmp, home) = (tmp.on(&stage.join("tmp"))?, home.on(&stage.join("home"))?);
        let new = Self::on(&stage, calls)?;
        new.devices()?;
        new.private(&tmp, &home, spec)?;
        new.clear_way(&workspace.path)?;
        for shown in &kept_of_run {
            new.bind(shown, &shown.path, READ_ONLY | NO_SUID)?;
        }
        for shown in &kept_of_home {
            // An earlier command may have put something else at its place in the private home: then that is what shows.
            let _ = new.bind(shown, &shown.path, READ_ONLY | NO_SUID);
        }
        let is_inside = |path: &&PathBuf| path.starts_with(&workspace.path);
        let masked = outermost(paths(&spec.masked).chain(sockets.iter().cloned()).collect());
        let emptied = new.mask(masked.iter().filter(|path| !is_inside(path)))?;
        for shown in readable.iter().chain(&services) {
            // An earlier start may have left the place for it in the private home or `/tmp`, and a program something else.
            if !new.shows_itself(shown)
                && let Err(why) = new.bind(shown, &shown.path, READ_ONLY | NO_SUID)
                && !new.shows(&shown.path)
            {
                return Err(why);
            }
        }
        if let Some(resolver) = resolver {
            new.resolver(&stage, &resolver)?;
        }
        new.lock_all(&emptied)?;
        for open in &writable {
            new.bind(open, &open.path, NO_SUID | NO_DEV)?;
        }
        new.workspace(&shown, &layers, &jail.view)?;
        for source in &shown_at {
            new.bind(source, &source.path, READ_ONLY | NO_SUID | NO_DEV)?;
        }
        if matches!(jail.view, ViewWire::Work) {
            let locked = paths(&spec.read_only).filter(|path| new.shows(path)).collect();
            let hidden: Vec<&PathBuf> = masked.iter().filter(is_inside).collect();
            new.lock(&outermost(locked), &hidden, &workspace.path)?;
        }
        let emptied = new.mask(masked.iter().filter(is_inside))?;
        new.lock_all(&emptied)?;
        Ok(new)
    }

    /// A read-only view of everything, below a directory of the staging tmpfs.
    fn on(stage: &Path, calls: Calls) -> Result<Self, String> {
        let path = stage.join("new");
        let blank = stage.join("blank");
        let made = std::fs::create_dir(&path)
            .and_then(|()| std::fs::write(&blank, ""))
            .and_then(|()| std::fs::set_permissions(&blank, std::os::unix::fs::PermissionsExt::from_mode(0o0)));
        made.map_err(|error| format!("the staging directory: {error}"))?;
        let blank_file = opened(&blank).ok_or("the staging directory can't be opened")?;
        let failed = |error: Errno| format!("a view of the file system: {error}");
        mount(Some("/"), &path, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>).map_err(failed)?;
        attributes(calls, &path, READ_ONLY | NO_SUID, true)?;
        let dir = opened(&path).ok_or("the new root can't be opened")?;
        Ok(Self { dir, path, blank_file, calls })
    }

    /// The place at an absolute path of the new root, which is made if it is missing. No link is followed on the way.
    fn place(&self, path: &Path, is_directory: bool) -> Result<OwnedFd, String> {
        let failed = |error: Errno| format!("{} in the jail: {error}", path.display());
        let how = |flags: OFlag| {
            let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
            OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve)
        };
        let parts: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let mut at = self.dir.try_clone().map_err(|error| error.to_string())?;
        for (number, part) in parts.iter().enumerate() {
            let name = part.as_os_str();
            let is_last = number + 1 == parts.len();
            let open = |at: &OwnedFd| openat2(at, name, how(OFlag::O_PATH | OFlag::O_NOFOLLOW));
            at = match open(&at) {
                Ok(found) => found,
                Err(Errno::ENOENT) if is_last && !is_directory => {
                    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
                    openat2(&at, name, how(flags).mode(Mode::from_bits_truncate(0o600))).map_err(failed)?
                }
                Err(Errno::ENOENT) => {
                    mkdirat(&at, name, Mode::from_bits_truncate(0o755)).map_err(failed)?;
                    open(&at).map_err(failed)?
                }
                Err(error) => return Err(failed(error)),
            };
        }
        Ok(at)
    }

    /// Removes anything but a directory from a path that needs one: an earlier command may have put a link into the private home
    /// or `/tmp`. Everything else is read-only, or not mounted yet.
    fn clear_way(&self, path: &Path) -> Result<(), String> {
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC);
        let how = how.resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        let mut at = self.dir.try_clone().map_err(|error| error.to_string())?;
        for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
            let Ok(found) = openat2(&at, part.as_os_str(), how) else { return Ok(()) };
            if !is_directory(&found) {
                return unlinkat(&at, part.as_os_str(), UnlinkatFlags::NoRemoveDir)
                    .map_err(|error| format!("{} in the jail: {error}", path.display()));
            }
            at = found;
        }
        Ok(())
    }

    /// Opens the present entry at an absolute path.
    fn existing(&self, path: &Path) -> Option<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
        openat2(&self.dir, path.strip_prefix("/").ok()?, how).ok()
    }

    /// Names are asked for at the jail's own server.
    fn resolver(&self, stage: &Path, path: &Path) -> Result<(), String> {
        let own = stage.join("resolver");
        let made = std::fs::write(&own, super::watch::RESOLVER)
            .and_then(|()| std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o444)));
        made.map_err(|error| format!("the staging directory: {error}"))?;
        let Some(own) = opened(&own) else { return Ok(()) };
        let cover = |place: &OwnedFd| self.cover(&own, place, path, READ_ONLY | NO_SUID | NO_DEV);
        self.while_there(path, cover).map(drop)
    }

    fn shows(&self, path: &Path) -> bool {
        self.existing(path).is_some()
    }

    /// Returns whether that very file or directory is at its path already.
    fn shows_itself(&self, source: &Source) -> bool {
        let numbers = |fd: &OwnedFd| nix::sys::stat::fstat(fd).ok().map(|it| (it.st_dev, it.st_ino));
        self.existing(&source.path).and_then(|fd| numbers(&fd)).is_some_and(|own| Some(own) == numbers(&source.fd))
    }

    /// Mounts something over a path.
    fn cover(&self, source: &OwnedFd, place: &OwnedFd, path: &Path, more: u64) -> Result<(), String> {
        let failed = |error: Errno| format!("{} in the jail: {error}", path.display());
        mount(Some(&through(source)), &through(place), None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(failed)?;
        let top = self.existing(path).ok_or_else(|| format!("{} in the jail: it was moved away", path.display()))?;
        attributes(self.calls, &through(&top), more, false)
    }

    /// Works on the entry at a path as long as there is one: others may remove or replace it meanwhile, and then the new entry is
    /// next. `None` if nothing is there. While the kernel removes a name it ends the mounts on it first: for milliseconds the
    /// name leads to the file itself, which no longer accepts a mount.
    fn while_there<T>(&self, path: &Path, work: impl Fn(&OwnedFd) -> Result<T, String>) -> Result<Option<T>, String> {
        let deadline = Instant::now() + SETTLING;
        loop {
            let Some(place) = self.existing(path) else { return Ok(None) };
            match work(&place) {
                Err(_) if Instant::now() < deadline => drop(nix::poll::poll(&mut [], 1_u8)),
                done => return done.map(Some),
            }
        }
    }

    fn bind(&self, source: &Source, path: &Path, more: u64) -> Result<(), String> {
        let place = self.place(path, source.is_directory)?;
        self.cover(&source.fd, &place, path, more)
    }

    fn tmpfs(&self, path: &Path, data: &str) -> Result<(), String> {
        let place = self.place(path, true)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), &through(&place), Some("tmpfs"), flags, Some(data))
            .map_err(|error| format!("{} in the jail: {error}", path.display()))
    }

    /// `/dev` with what programs expect and nothing of the machine.
    fn devices(&self) -> Result<(), String> {
        let sources = DEVICES.map(|name| (name, Source::open(&Path::new("/dev").join(name))));
        let dev = Path::new("/dev");
        let place = self.place(dev, true)?;
        // Not NODEV: null itself would be of no use.
        mount(Some("tmpfs"), &through(&place), Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=0755,size=64k"))
            .map_err(|error| format!("/dev in the jail: {error}"))?;
        for (name, source) in sources {
            if let Some(source) = source {
                self.bind(&source, &dev.join(name), NO_SUID)?;
            }
        }
        self.tmpfs(&dev.join("shm"), "mode=1777")?;
        let pts = self.place(&dev.join("pts"), true)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount(Some("devpts"), &through(&pts), Some("devpts"), flags, Some("newinstance,ptmxmode=0666,mode=620"))
            .map_err(|error| format!("/dev/pts in the jail: {error}"))?;
        let top = self.place(dev, true)?;
        for (name, target) in DEVICE_LINKS {
            nix::unistd::symlinkat(target, &top, name).map_err(|error| format!("/dev/{name} in the jail: {error}"))?;
        }
        Ok(())
    }

    /// Private directories for temporary files and the home, which last for the session; `/run` is empty.
    fn private(&self, tmp: &OwnedFd, home: &OwnedFd, spec: &Spec) -> Result<(), String> {
        let is_there = |path: &Path| path.symlink_metadata().is_ok_and(|data| data.is_dir());
        for path in ["/tmp", "/var/tmp"].map(Path::new).into_iter().filter(|path| is_there(path)) {
            self.cover(tmp, &self.place(path, true)?, path, NO_SUID | NO_DEV)?;
        }
        if is_there(Path::new("/run")) {
            self.tmpfs(Path::new("/run"), "mode=0755,size=1m")?;
        }
        // The outer one first: one home may lie in the other.
        let mut homes: Vec<PathBuf> = spec.jail.iter().flat_map(|jail| paths(&jail.homes)).collect();
        homes.sort_by_key(|home| home.components().count());
        homes.dedup();
        for path in homes {
            self.clear_way(&path)?;
            self.cover(home, &self.place(&path, true)?, &path, NO_SUID | NO_DEV)?;
        }
        Ok(())
    }

    /// Covers paths, if they are there: a file with one without permissions, a directory with an empty one. Returns the
    /// directories, which can still be written.
    fn mask<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<&'a PathBuf>, String> {
        let mut emptied = Vec::new();
        for path in paths {
            let has_emptied = self.while_there(path, |place| {
                if is_directory(place) {
                    return self.tmpfs(path, "mode=0755,size=64k").map(|()| true);
                }
                self.cover(&self.blank_file, place, path, READ_ONLY | NO_SUID | NO_DEV).map(|()| false)
            });
            emptied.extend((has_emptied? == Some(true)).then_some(path));
        }
        Ok(emptied)
    }

    fn lock_all(&self, emptied: &[&PathBuf]) -> Result<(), String> {
        emptied.iter().try_for_each(|path| {
            // Paths opened below one of them are mounted on it: this is the directory's own mount.
            let top = self.place(path, true)?;
            attributes(self.calls, &through(&top), READ_ONLY, false)
        })
    }

    /// Mounts the workspace: `shown` are its directories, the topmost first.
    fn workspace(&self, shown: &[Source], layers: &[Source], view: &ViewWire) -> Result<(), String> {
        let path = &shown[0].path;
        let lowers: Vec<String> = shown.iter().map(|it| through(&it.fd).display().to_string()).collect();
        let lowers = lowers.join(":");
        let merge = |options: String, more: MsFlags| {
            let place = self.place(path, true)?;
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | more;
            mount(Some("overlay"), &through(&place), Some("overlay"), flags, Some(options.as_str()))
                .map_err(|error| format!("a copy-on-write view of {}: {error}", path.display()))
        };
        match (view, layers, shown) {
            (ViewWire::Look, _, [one]) => self.bind(one, path, READ_ONLY | NO_SUID | NO_DEV),
            (ViewWire::Look, ..) => merge(format!("lowerdir={lowers},userxattr"), MsFlags::MS_RDONLY),
            (ViewWire::Work, _, [one]) => self.bind(one, path, NO_SUID | NO_DEV),
            (ViewWire::Work, ..) => Err("a program can't write on files that others share".into()),
            (ViewWire::Copy { .. }, [upper, work], _) => {
                let (upper, work) = (through(&upper.fd), through(&work.fd));
                let (upper, work) = (upper.display(), work.display());
                merge(format!("lowerdir={lowers},upperdir={upper},workdir={work},userxattr,volatile"), MsFlags::empty())
            }
            (ViewWire::Copy { .. }, ..) => Err("the layers of the copy are missing".into()),
        }
    }

    /// Makes paths in the workspace read-only, and the directories above them and above hidden ones immovable: each once, the
    /// outer ones first, since a mount covers those below it.
    fn lock(&self, all: &[PathBuf], hidden: &[&PathBuf], workspace: &Path) -> Result<(), String> {
        let is_inside = |above: &&Path| above.starts_with(workspace) && *above != workspace;
        let immovable = all.iter().chain(hidden.iter().copied());
        let ways: BTreeSet<&Path> = immovable.flat_map(|path| path.ancestors().skip(1).take_while(is_inside)).collect();
        for above in ways {
            self.while_there(above, |place| self.cover(place, place, above, 0))?;
        }
        for path in all {
            self.while_there(path, |place| self.cover(place, place, path, READ_ONLY))?;
        }
        Ok(())
    }

    /// Process 1 of the jail moves in, and mounts the `/proc` of its own process namespace.
    pub(super) fn enter(&self, spec: &Spec) -> Result<(), String> {
        let place = self.place(Path::new("/proc"), true)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), &through(&place), Some("proc"), flags, None::<&str>)
            .map_err(|error| format!("/proc in the jail: {error}"))?;
        self.mask(CLOSED_OF_PROC.map(PathBuf::from).iter())?;
        let top = self.place(Path::new("/proc"), true)?;
        attributes(self.calls, &through(&top), READ_ONLY, false)?;
        super::pivot(&self.path)?;
        let cwd = spec.cwd.path();
        nix::unistd::chdir(&cwd).map_err(|error| format!("{}: {error}", cwd.display()))
    }
}

/// A tmpfs that only this namespace sees.
fn stage() -> Result<PathBuf, String> {
    let mut why = String::new();
    for path in STAGES.map(Path::new) {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        match mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("mode=0700,size=1m")) {
            Ok(()) => return Ok(path.to_owned()),
            Err(error) => why = format!("a staging directory on {}: {error}", path.display()),
        }
    }
    Err(why)
}

fn attributes(calls: Calls, path: &Path, attributes: u64, recursive: bool) -> Result<(), String> {
    if attributes == 0 {
        return Ok(());
    }
    let failed = |error: io::Error| format!("mount_setattr on {}: {error}", path.display());
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    (calls.add_mount_attributes)(&name, attributes, recursive).map_err(failed)
}
