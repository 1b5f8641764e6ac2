//! Landlock: what may be read, written and run, as an allow-list that the kernel enforces for this process and everything that it
//! starts. It counts only if it is fully enforced.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::fstat;

use crate::sandbox::helper::wire::{Spec, paths};
use crate::sandbox::masks::outermost;

/// The oldest Landlock that holds all that is promised: signals are of Linux 6.12.
const ABI_NEEDED: ABI = ABI::V6;
/// Closed as a whole: devices, sockets of services, other programs' files in temporary directories.
const CLOSED: [&str; 4] = ["/dev", "/run", "/tmp", "/var/tmp"];
/// Open all the same, for reading.
const OPEN_TO_READ: [&str; 5] = [
    "/dev/fd",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
];
/// Exceptions that are open for reading and writing. Not `/dev/pts`: it has the terminals of the person, with what is typed.
const OPEN_TO_WRITE: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Entries of a directory that are opened one by one, because something in it is closed. The rest stays closed.
const ENTRIES_MAX: usize = 10_000;

/// Restricts this process.
///
/// # Errors
/// Why it can't be done; nothing may be started then.
pub(in crate::sandbox) fn restrict(spec: &Spec) -> Result<(), String> {
    let failed = |problem: &dyn std::fmt::Display| {
        format!("Landlock doesn't hold all that is promised (Linux 6.12 does): {problem}")
    };
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI_NEEDED))
        .and_then(|rules| rules.scope(Scope::from_all(ABI_NEEDED)))
        .and_then(|rules| if spec.network { Ok(rules) } else { rules.handle_access(AccessNet::from_all(ABI_NEEDED)) })
        .and_then(Ruleset::create)
        .map_err(|problem| failed(&problem))?;
    let (read, write) = (AccessFs::from_read(ABI_NEEDED), writing());
    let mut closed: Vec<PathBuf> = paths(&spec.masked).collect();
    closed.extend(CLOSED.map(PathBuf::from));
    let mut opened = Vec::new();
    let masked: Vec<PathBuf> = paths(&spec.masked).collect();
    // A home that is closed as a whole may contain an open path, and that again a closed one.
    let closed_below =
        |path: &Path| outermost(masked.iter().filter(|it| it.starts_with(path) && *it != path).cloned().collect());
    open(Path::new("/"), &outermost(closed), &mut opened);
    opened.extend(OPEN_TO_READ.iter().filter_map(|path| Path::new(path).canonicalize().ok()));
    for path in paths(&spec.readable) {
        // The contents of a closed directory are opened with it; closed paths in it stay closed.
        open(&path, &closed_below(&path), &mut opened);
    }
    for path in &opened {
        rules = allow(rules, path, read).map_err(|problem| failed(&problem))?;
    }
    let writes = OPEN_TO_WRITE.map(PathBuf::from).into_iter().chain(paths(&spec.writable));
    for path in writes.chain(spec.tmp.iter().filter_map(|path| path.path().canonicalize().ok())) {
        let below = closed_below(&path);
        let mut opened = Vec::new();
        open(&path, &below, &mut opened);
        for path in opened {
            rules = allow(rules, &path, read | write).map_err(|problem| failed(&problem))?;
        }
        // A directory that holds something closed takes nothing new. It can be listed if that shows only names of files.
        if below.iter().all(|it| it.is_file()) {
            for way in ways(&path, &below) {
                rules = allow(rules, way, AccessFs::ReadDir.into()).map_err(|problem| failed(&problem))?;
            }
        }
    }
    let status = rules.restrict_self().map_err(|problem| failed(&problem))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced if status.no_new_privs => Ok(()),
        other => Err(failed(&format!("{other:?}"))),
    }
}

/// Adds a second wall for a program in a jail: it can write only what the jail lets it write, and reaches no abstract socket and
/// no process outside. The kernel enforces as much of it as it supports; returns whether that is everything.
pub(in crate::sandbox) fn hold_in_jail(writable: impl Iterator<Item = PathBuf>) -> bool {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_write(ABI_NEEDED))
        .and_then(|rules| rules.scope(Scope::from_all(ABI_NEEDED)))
        .and_then(Ruleset::create)
        .and_then(|rules| {
            let mut paths = writable.chain(["/dev", "/tmp", "/var/tmp"].map(PathBuf::from));
            paths.try_fold(rules, |rules, path| allow(rules, &path, AccessFs::from_write(ABI_NEEDED)))
        });
    // The jail holds without it.
    let status = rules.and_then(RulesetCreated::restrict_self);
    status.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
}

/// The rights of writing: all but making devices, which would be a way to the disk itself.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI_NEEDED) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Collects what can be opened below a directory so that nothing closed is: the directory as a whole, or those of its entries
/// that neither are closed nor contain something closed.
fn open(path: &Path, closed: &[PathBuf], opened: &mut Vec<PathBuf>) {
    if closed.iter().any(|closed| closed == path) {
        return;
    }
    if !closed.iter().any(|closed| closed.starts_with(path)) {
        opened.push(path.to_owned());
        return;
    }
    // A link is reached through its target.
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().take(ENTRIES_MAX) {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink() && !kind.is_socket()) {
            open(&entry.path(), closed, opened);
        }
    }
}

/// The directories from `top` down that hold one of these.
fn ways<'a>(top: &'a Path, closed: &'a [PathBuf]) -> BTreeSet<&'a Path> {
    closed.iter().flat_map(|path| path.ancestors().skip(1).take_while(|above| above.starts_with(top))).collect()
}

/// Adds a rule for an existing path; a missing one can't be opened. No link is followed: a concurrent job may put one in place of
/// a directory at any time.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let Ok(opened) = openat2(AT_FDCWD, path, how) else { return Ok(rules) };
    let is_directory = fstat(&opened).is_ok_and(|data| data.st_mode & libc::S_IFMT == libc::S_IFDIR);
    let access = if is_directory { access } else { access & AccessFs::from_file(ABI_NEEDED) };
    rules.add_rule(PathBeneath::new(opened, access))
}
