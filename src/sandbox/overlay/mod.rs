//! The overlay tier: a program in namespaces of its own, with a copy-on-write view of its workspace.
//!
//! This is the part of the helper. It must not know what becomes of what the program changed: that lies in the upper
//! directory when the helper has ended.
//!
//! The order matters. User and mount namespaces come first, then every source is opened by a descriptor in the new mount
//! namespace. The new root is put together on a private tmpfs, each place opened beneath it without following links, since
//! earlier commands have written to the private home and `/tmp`. Process 1 of the jail mounts `/proc`, moves into the new
//! root and starts the program; when the program ends, process 1 ends and the kernel kills what is left.

mod root;
mod watch;
mod writes;

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, Pid};

use super::missed::Book;
use crate::sandbox::helper::enter::Calls;
use crate::sandbox::helper::filter;
use crate::sandbox::helper::filter::Network;
use crate::sandbox::helper::landlock;
use crate::sandbox::helper::wire::{Spec, ViewWire};
use root::NewRoot;
use watch::Watch;

/// Time for processes that the program left running to end on their own.
const GRACE: Duration = Duration::from_millis(200);
/// Poll interval for their end.
const LOOK: Duration = Duration::from_millis(5);

/// Builds the jail and runs the program in it; ends with the program's status.
///
/// # Errors
/// Why the jail can't be built; the program wasn't started.
pub(super) fn run(
    spec: &Spec,
    program: &OsStr,
    arguments: &[OsString],
    calls: Calls,
    exec: impl FnOnce(&OsStr, &[OsString]) -> String,
) -> Result<Infallible, String> {
    // The kernel lists those of the network namespace that one is in.
    let sockets = root::sockets(spec);
    namespaces(spec, calls)?;
    // Watching refusals only serves the question afterwards; the jail is safe without it.
    let book = refusals(spec).and_then(|path| Book::begin(&path).ok());
    let names = book.as_ref().filter(|_| !spec.network).and_then(|_| watch::name_server());
    let new = NewRoot::build(spec, &sockets, names.is_some(), calls)?;
    match fork(calls)? {
        Some(init) => {
            // Signals that are meant for the program reach it directly: it is in the same session.
            ignore_all();
            std::process::exit(status_of(init));
        }
        None => {
            prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
            new.enter(spec)?;
            prctl::set_no_new_privs().map_err(|error| format!("prctl: {error}"))?;
            (calls.drop_capabilities)().map_err(|error| format!("capset: {error}"))?;
            // The program mustn't get at this process by /proc/1.
            prctl::set_dumpable(false).map_err(|error| format!("prctl: {error}"))?;
            let watch = book.and_then(|book| Watch::new(book, names, calls, spec));
            below(watch, calls, || {
                let is_scoped = landlock::hold_in_jail(root::writable(spec).into_iter());
                let network = match spec.network {
                    true if is_scoped => Network::MachineAndUnix,
                    has_network => Network::of(has_network),
                };
                for filter in filter::make(spec.tier, network, false)? {
                    seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))?;
                }
                Err(exec(program, arguments))
            })
        }
    }
}

/// Starts a first look of another tier below a process that takes note of what it is refused. `begin` holds the program and
/// becomes it.
///
/// # Errors
/// The program wasn't started.
pub(super) fn watched(
    spec: &Spec,
    calls: Calls,
    begin: impl FnOnce() -> Result<Infallible, String>,
) -> Result<Infallible, String> {
    // The program is confined without it.
    let book = spec.refused.as_ref().and_then(|path| Book::begin(&path.path()).ok());
    prctl::set_no_new_privs().map_err(|error| format!("prctl: {error}"))?;
    prctl::set_dumpable(false).map_err(|error| format!("prctl: {error}"))?;
    let watch = book.and_then(|book| Watch::new(book, None, calls, spec));
    below(watch, calls, || {
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
        begin()
    })
}

/// Forks: the child begins, and this process answers its held calls and ends with its status.
fn below(
    watch: Option<Watch>,
    calls: Calls,
    begin: impl FnOnce() -> Result<Infallible, String>,
) -> Result<Infallible, String> {
    match fork(calls)? {
        Some(main) => {
            ignore_all();
            // The jail's own descriptors mustn't hold a pipe open at which another process waits.
            close_but(watch.as_ref().map(Watch::descriptors).unwrap_or_default(), calls);
            if let Some(Err(error)) = watch.map(Watch::begin) {
                // Held calls would wait forever.
                return Err(format!("a thread: {error}"));
            }
            std::process::exit(reap(main));
        }
        None => {
            drop(watch);
            begin()
        }
    }
}

/// Moves into new namespaces. An ordinary user gets a user namespace that maps no other user; root needs none, and one that maps
/// only root could not write files of others.
fn namespaces(spec: &Spec, calls: Calls) -> Result<(), String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: Errno| format!("{what}: {error}")
    };
    let (uid, gid) = (unistd::geteuid(), unistd::getegid());
    let is_free = uid.is_root() && unshare(CloneFlags::CLONE_NEWNS).is_ok();
    let job = spec.network_of.filter(|_| !spec.network).and_then(JobNamespaces::of);
    // A job's network belongs to its user namespace, which maps the same user.
    let is_joined = !is_free && job.as_ref().is_some_and(|job| setns(&job.user, CloneFlags::CLONE_NEWUSER).is_ok());
    if is_joined {
        unshare(CloneFlags::CLONE_NEWNS).map_err(failed("namespaces (unshare)"))?;
    } else if !is_free {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
            .map_err(failed("user namespaces are barred (unshare)"))?;
        let write = |name: &str, text: String| {
            fs::write(name, text).map_err(|error| format!("user namespaces are barred ({name}): {error}"))
        };
        write("/proc/self/setgroups", "deny".into())?;
        write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let has_network = spec.network || job.is_some_and(|job| setns(&job.network, CloneFlags::CLONE_NEWNET).is_ok());
    let mut flags = CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWPID;
    if !has_network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags).map_err(failed("namespaces (unshare)"))?;
    if !has_network {
        (calls.bring_loopback_up)().map_err(|error| format!("loopback: {error}"))?;
    }
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
        .map_err(failed("mount propagation"))
}

/// The namespaces of a job's jail whose servers are to be reached.
struct JobNamespaces {
    user: File,
    network: File,
}

impl JobNamespaces {
    /// Nothing if the job has ended, or has the network of the machine: that is for those to whom it was granted.
    fn of(process: u32) -> Option<Self> {
        let open = |name: &str| File::open(format!("/proc/{process}/ns/{name}")).ok();
        let (user, network) = (open("user")?, open("net")?);
        let (theirs, own) = (network.metadata().ok()?, fs::metadata("/proc/self/ns/net").ok()?);
        (theirs.ino() != own.ino()).then_some(Self { user, network })
    }
}

/// Returns the path of the file that records refusals.
fn refusals(spec: &Spec) -> Option<PathBuf> {
    match &spec.jail.as_ref()?.view {
        ViewWire::Copy { refused, .. } => Some(refused.path()),
        ViewWire::Look | ViewWire::Work => None,
    }
}

/// Closes all descriptors of this process but a few.
fn close_but(descriptors: Vec<RawFd>, calls: Calls) {
    let mut open: Vec<u32> = descriptors.into_iter().filter_map(|it| u32::try_from(it).ok()).collect();
    open.sort_unstable();
    let mut first = 0;
    for descriptor in open {
        if first < descriptor {
            let _ = (calls.close)(first, descriptor - 1);
        }
        first = descriptor + 1;
    }
    let _ = (calls.close)(first, u32::MAX);
}

fn fork(calls: Calls) -> Result<Option<Pid>, String> {
    (calls.fork)().map_err(|error| format!("fork: {error}"))
}

/// Ignores signals that a person or a caller sends to the whole group: the program decides, and this process ends with it.
fn ignore_all() {
    let ignored = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP, Signal::SIGTSTP];
    let set: nix::sys::signal::SigSet = ignored.into_iter().collect();
    // A blocked signal isn't inherited by the program: it was started before.
    let _ = set.thread_block();
}

/// Waits for process 1 of the jail.
fn status_of(init: Pid) -> i32 {
    loop {
        match waitpid(init, None) {
            Ok(WaitStatus::Exited(_, status)) => return status,
            Ok(WaitStatus::Signaled(_, signal, _)) => return 128 + signal as i32,
            Err(Errno::EINTR) | Ok(_) => {}
            Err(_) => return i32::from(super::HELPER_FAILED),
        }
    }
}

/// Waits for the program and collects other processes that end meanwhile. Those that remain have a moment to end.
fn reap(main: Pid) -> i32 {
    let status = loop {
        match waitpid(None::<Pid>, None) {
            Ok(WaitStatus::Exited(pid, status)) if pid == main => break status,
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => break 128 + signal as i32,
            Err(Errno::ECHILD) => break i32::from(super::HELPER_FAILED),
            _ => {}
        }
    };
    let since = Instant::now();
    while since.elapsed() < GRACE {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => break,
            Ok(WaitStatus::StillAlive) => std::thread::park_timeout(LOOK),
            _ => {}
        }
    }
    status & 0xff
}

/// Moves the process into a new root that is a mount point, and lets go of the old one.
fn pivot(new: &Path) -> Result<(), String> {
    let failed = |what: &'static str| move |error: Errno| format!("{what}: {error}");
    unistd::chdir(new).map_err(failed("the new root"))?;
    unistd::pivot_root(".", ".").map_err(failed("pivot_root"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("the old root"))?;
    unistd::chdir("/").map_err(failed("the new root"))
}
