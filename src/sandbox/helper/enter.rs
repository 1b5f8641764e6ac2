//! The helper: a process of one thread that restricts itself and becomes the program. What fails here ends it before
//! anything has been started.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{self, Pid};

use crate::proto::HeldCall;
use crate::sandbox::helper::filter;
use crate::sandbox::helper::filter::Network;
use crate::sandbox::helper::landlock;
use crate::sandbox::helper::wire::{LimitsWire, Spec};
use crate::sandbox::{Tier, bubblewrap, overlay};

/// Runs the helper with the arguments after [`HELPER_WORD`](crate::sandbox::HELPER_WORD): the description of the sandbox, the
/// program, its arguments. It returns only on failure, with the reason.
pub fn enter(arguments: &[OsString], calls: Calls) -> String {
    match become_program(arguments, calls) {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

/// System calls that have no safe wrapper: they are of the one file that may make them.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Closes the descriptors from one number to another.
    pub close: fn(u32, u32) -> io::Result<()>,
    /// Drops every capability, also for the program that this process becomes.
    pub drop_capabilities: fn() -> io::Result<()>,
    /// Adds attributes to the mount at a path, and to those below it.
    pub add_mount_attributes: fn(&CStr, u64, bool) -> io::Result<()>,
    /// Brings up the loopback interface of this network namespace.
    pub bring_loopback_up: fn() -> io::Result<()>,
    /// Installs a seccomp program that may hold calls until they are answered; returns the descriptor at which they are read.
    pub hold_calls: fn(&[FilterStep]) -> io::Result<OwnedFd>,
    /// Waits for the next held call.
    pub next_call: fn(BorrowedFd<'_>) -> io::Result<HeldCall>,
    /// Lets a held call continue.
    pub let_call: fn(BorrowedFd<'_>, u64) -> io::Result<()>,
    /// Forks this process of one thread: the child's id in the parent, nothing in the child.
    pub fork: fn() -> io::Result<Option<Pid>>,
}

/// One step of a seccomp program: code, jump if true, jump if false, operand.
pub type FilterStep = (u16, u8, u8, u32);

/// The type of a value that is never returned.
enum Never {}

fn become_program(arguments: &[OsString], calls: Calls) -> Result<Never, String> {
    let [spec, program, arguments @ ..] = arguments else { return Err("no program is given".into()) };
    let spec: Spec =
        serde_json::from_slice(spec.as_encoded_bytes()).map_err(|error| format!("not understood: {error}"))?;
    (calls.close)(spec.descriptors, u32::MAX).map_err(|error| format!("close_range: {error}"))?;
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    if unistd::getppid().as_raw().cast_unsigned() != spec.parent {
        return Err("the process that started it has ended".into());
    }
    // A helper with a terminal has been made a leader already.
    if unistd::getsid(None) != Ok(unistd::getpid()) {
        unistd::setsid().map_err(|error| format!("setsid: {error}"))?;
    }
    // Open across exec; bubblewrap reads and closes them. Written before the limit on file sizes applies.
    let filters: Vec<OwnedFd> = match spec.tier {
        Tier::Bubblewrap => filter::make(spec.tier, Network::of(spec.network), false)?
            .iter()
            .map(|program| in_memory(&filter::bytes(program)))
            .collect::<Result<_, _>>()?,
        Tier::None | Tier::Landlock | Tier::Overlay => Vec::new(),
    };
    // In a user namespace of its own, or as root, only its own processes count.
    let counted = if spec.tier == Tier::Overlay { 0 } else { own_threads() };
    limit(&spec.limits, counted)?;
    match spec.tier {
        Tier::None => {
            prctl::set_no_new_privs().map_err(|error| format!("prctl: {error}"))?;
            exec(program, arguments)
        }
        Tier::Landlock => {
            let begin = || {
                landlock::restrict(&spec)?;
                // Bash finds what a command left running among its children, even if the direct parent has ended.
                prctl::set_child_subreaper(true).map_err(|error| format!("prctl: {error}"))?;
                // Root's capabilities would circumvent it: with the one for profiling the machine a process reads the memory of
                // any other.
                (calls.drop_capabilities)().map_err(|error| format!("capset: {error}"))?;
                for filter in filter::make(spec.tier, Network::of(spec.network), spec.writable.is_empty())? {
                    seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))?;
                }
                exec(program, arguments)
            };
            match spec.refused {
                None => begin(),
                Some(_) => match overlay::watched(&spec, calls, || begin().map(|never| match never {}))? {},
            }
        }
        Tier::Overlay => {
            let exec = |program: &OsStr, arguments: &[OsString]| match exec(program, arguments) {
                Ok(never) => match never {},
                Err(why) => why,
            };
            match overlay::run(&spec, program, arguments, calls, exec)? {}
        }
        Tier::Bubblewrap => {
            let bwrap = bubblewrap::find().ok_or("bwrap is gone")?;
            let descriptors: Vec<_> = filters.iter().map(AsRawFd::as_raw_fd).collect();
            let mut words = bubblewrap::arguments(&spec, &descriptors);
            words.push(program.clone());
            words.extend_from_slice(arguments);
            exec(bwrap.as_os_str(), &words)
        }
    }
}

fn exec(program: &OsStr, arguments: &[OsString]) -> Result<Never, String> {
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{}: {error}", Path::new(program).display()))
}

/// A file in memory that stays open over exec, at its beginning.
fn in_memory(bytes: &[u8]) -> Result<OwnedFd, String> {
    let failed = |error: std::io::Error| format!("memfd: {error}");
    let mut file = File::from(memfd_create(c"filter", MFdFlags::empty()).map_err(|error| failed(error.into()))?);
    file.write_all(bytes).map_err(failed)?;
    std::io::Seek::rewind(&mut file).map_err(failed)?;
    Ok(file.into())
}

/// Sets the limits, none of them above the present one.
fn limit(limits: &LimitsWire, counted: u64) -> Result<(), String> {
    let set = |what: Resource, wanted: u64| {
        let (soft, hard) = getrlimit(what).map_err(|error| format!("getrlimit: {error}"))?;
        let (soft, hard) = (wanted.min(soft), wanted.min(hard));
        setrlimit(what, soft, hard).map_err(|error| format!("setrlimit: {error}"))
    };
    set(Resource::RLIMIT_CORE, 0)?;
    set(Resource::RLIMIT_FSIZE, limits.file_bytes)?;
    set(Resource::RLIMIT_NPROC, counted.saturating_add(limits.processes))?;
    if let Some(seconds) = limits.cpu_seconds {
        set(Resource::RLIMIT_CPU, seconds)?;
    }
    if let Some(bytes) = limits.memory_bytes {
        set(Resource::RLIMIT_AS, bytes)?;
    }
    Ok(())
}

/// The threads that the user has now: the kernel counts them all against the limit.
fn own_threads() -> u64 {
    let own = unistd::getuid().as_raw().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let of_process = |status: String| {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let is_own = field("Uid:").and_then(|ids| ids.split_whitespace().next()).is_some_and(|uid| uid == own);
        let threads = field("Threads:").and_then(|count| count.trim().parse::<u64>().ok());
        if is_own { threads.unwrap_or(1) } else { 0 }
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        .filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok())
        .map(of_process)
        .sum()
}
