//! Access that the jail refused to a command: the network, sockets and paths to change, as the kernel saw the attempts, no matter
//! how the command ended; and paths to read, which programs name when they fail. A path counts only if it exists outside and the
//! jail hides it or makes it read-only. The network is recognised by printed messages only if the attempts couldn't be observed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::base::text::in_sentence;
use crate::files::normal;
use crate::proto::action::Need;
use crate::sandbox::{Missed, Outside};

/// Messages of programs without a network, in small letters.
const NETWORK_SIGNS: &[&str] = &[
    "could not resolve",
    "couldn't resolve",
    "temporary failure in name resolution",
    "name or service not known",
    "failed to lookup address",
    "network is unreachable",
    "eai_again",
    "enetunreach",
    "getaddrinfo",
    "no address associated with hostname",
    "dial tcp: lookup",
    "failure resolving",
    "unable to resolve host",
    "nodename nor servname provided",
    "network unreachable",
    "failed to establish a new connection",
];
/// Messages of programs that may not write, in lower case.
const READ_ONLY_SIGNS: &[&str] =
    &["read-only file system", "permission denied", "operation not permitted", "erofs", "eacces", "eperm"];
/// Characters of a line that are reported.
const LINE_CHARS_MAX: usize = 200;
/// Number of lines that are searched for paths, from the end: most programs say at the end why they failed.
const LINES_MAX: usize = 100;
/// Limit on paths that are checked for one command.
const PATHS_MAX: usize = 50;

/// Services that libraries try on their own: names of users and hosts, the log.
const TRIED_BY_LIBRARIES: &[&str] = &[
    "/dev/log",
    "/run/avahi-daemon",
    "/run/dbus/system_bus_socket",
    "/run/nscd",
    "/run/systemd",
    "/var/lib/sss",
    "/var/run/avahi-daemon",
    "/var/run/dbus/system_bus_socket",
    "/var/run/nscd",
    "/var/run/systemd",
];

/// Access that a command wanted and the jail doesn't grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The attempt, or the line in which the program reported it; text from outside.
    pub line: String,
    /// The program printed that line; else the kernel saw the attempt.
    pub is_printed: bool,
    /// The permission that it would need; `None` if it can't be granted.
    pub need: Option<Need>,
    /// True if the way in which the command ended doesn't show it.
    pub is_hidden: bool,
}

/// Returns the attempts that the kernel saw, the network first: a host by its name if one was looked up. A port of its own
/// loopback at which nothing listened counts only for a command that failed and `names_loopback`: tests try such ports
/// on purpose. `has_jail` says whether it may make new paths of the home in a private one.
pub(in crate::tools) fn tried(
    missed: &[Missed],
    outside: &dyn Fn(&Path) -> Option<Outside>,
    (is_failed, names_loopback): (bool, bool),
    has_jail: bool,
) -> Option<Refusal> {
    let names: Vec<&str> =
        missed.iter().filter_map(|it| if let Missed::Name(name) = it { Some(&**name) } else { None }).collect();
    let addresses = missed.iter().filter_map(|it| if let Missed::Address(address) = it { Some(address) } else { None });
    let (own, others): (Vec<&SocketAddr>, Vec<_>) = addresses.partition(|address| is_own(address));
    let network = match (&names[..], others.first()) {
        ([], None) => None,
        ([], Some(address)) => Some((format!("it tried to reach {address}"), address.to_string())),
        ([first, more @ ..], _) => {
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            Some((format!("it looked for the host {first}{more}"), (*first).to_owned()))
        }
    };
    let own = own.first().filter(|_| is_failed && names_loopback);
    let own = own.map(|own| (format!("no program listens at {own} in the sandbox"), own.to_string()));
    let network = network.or(own).map(|(line, host)| (line, Need::Network { host }));
    let socket = || {
        let found =
            missed.iter().find_map(|it| if let Missed::Socket(path) = it { service(path, outside) } else { None });
        found.map(|path| (format!("it tried to connect to {}", in_sentence(&path)), Need::Socket { path }))
    };
    let write = || {
        let found = missed
            .iter()
            .find_map(|it| if let Missed::Write(path) = it { to_write(path, outside, has_jail) } else { None });
        found.map(|path| (format!("it tried to write {}", in_sentence(&path)), Need::Write { path }))
    };
    let removal = || {
        let found = missed
            .iter()
            .find_map(|it| if let Missed::Remove(path) = it { to_write(path, outside, false) } else { None });
        let found = found.filter(|path| Path::new(path).symlink_metadata().is_ok());
        found.map(|path| {
            let path = in_sentence(&path);
            format!("it tried to delete or move {path}, which is never done outside the workspace")
        })
    };
    let (line, need) = match network.or_else(socket).or_else(write) {
        Some((line, need)) => (line, Some(need)),
        None => (removal()?, None),
    };
    let line = line.chars().take(LINE_CHARS_MAX).collect();
    Some(Refusal { line, is_printed: false, need, is_hidden: !is_failed })
}

/// Returns whether an address is the loopback of the program that connects to it.
fn is_own(address: &SocketAddr) -> bool {
    address.ip().is_loopback() || address.ip().is_unspecified()
}

/// Returns the change of the workspace that a first look was refused: as the kernel saw it or, without observation, according to
/// the printed messages.
pub(in crate::tools) fn looked(
    missed: Option<&[Missed]>,
    errors: &str,
    output: &str,
    (workspace, cwd): (&Path, &Path),
    is_failed: bool,
) -> Option<Refusal> {
    let mut is_outside = false;
    let own = |path: &Path| Some(in_sentence(&path.strip_prefix(workspace).ok()?.to_string_lossy()));
    let line = match missed {
        Some(missed) => missed.iter().find_map(|it| match it {
            Missed::Write(path) => Some(format!("it tried to write {}", own(path)?)),
            Missed::Remove(path) => Some(format!("it tried to delete or move {}", own(path)?)),
            Missed::Name(_) | Missed::Address(_) | Missed::Socket(_) => None,
        }),
        None => {
            let lines = || errors.lines().chain(output.lines()).filter(|line| is_unwritable(line)).map(str::trim);
            let is_own = |line: &&str| !names_outside(line, workspace, cwd);
            let own = lines().find(is_own);
            is_outside = own.is_none();
            own.or_else(|| lines().next()).map(str::to_owned)
        }
    }?;
    // That it may change the workspace wouldn't help with a path elsewhere.
    let need = match is_outside {
        true => None,
        false => Some(Need::Write { path: workspace.to_str()?.to_owned() }),
    };
    let line = line.chars().take(LINE_CHARS_MAX).collect();
    Some(Refusal { line, is_printed: missed.is_none(), need, is_hidden: !is_failed })
}

/// Returns whether a line names paths outside of the workspace and none in it, apart from the program at its beginning.
fn names_outside(line: &str, workspace: &Path, cwd: &Path) -> bool {
    let message = line.split_once(": ").filter(|(first, _)| !first.contains(' ')).map_or(line, |(_, message)| message);
    let is_sign = READ_ONLY_SIGNS.iter().any(|sign| message.to_lowercase().starts_with(sign));
    let named = match paths(message, cwd) {
        // It begins with the path itself.
        named if named.is_empty() && is_sign => paths(line, cwd),
        named => named,
    };
    !named.is_empty() && named.iter().all(|path| !path.starts_with(workspace))
}

/// Returns the real path of an outside service's socket, if a command may be offered it.
fn service(path: &Path, outside: &dyn Fn(&Path) -> Option<Outside>) -> Option<String> {
    use std::os::unix::fs::FileTypeExt;
    let found = path.canonicalize().ok()?;
    let is_tried_anyway = |path: &Path| TRIED_BY_LIBRARIES.iter().any(|it| path.starts_with(it));
    if is_tried_anyway(path) || is_tried_anyway(&found) || outside(path).is_none() || outside(&found).is_none() {
        return None;
    }
    found.metadata().is_ok_and(|data| data.file_type().is_socket()).then(|| found.to_str().map(str::to_owned))?
}

/// A path outside that a command may be offered to write: the user can, and it is there or its directory is, or it is a new one
/// of the home that a jail lets it make.
fn to_write(path: &Path, outside: &dyn Fn(&Path) -> Option<Outside>, has_jail: bool) -> Option<String> {
    use nix::unistd::{AccessFlags, access};
    let is_hidden = outside(path)? == Outside::Hidden;
    let mut place = if path.symlink_metadata().is_ok() { path } else { path.parent()? };
    if has_jail && is_hidden && place != path {
        place = path.ancestors().find(|above| above.is_dir())?;
    } else {
        // A whole home isn't opened, so a new file right in it can't be.
        outside(place)?;
    }
    access(place, AccessFlags::W_OK).ok()?;
    path.to_str().map(str::to_owned)
}

/// Returns the refusals of a command that failed, from its error output and its output. `outside` says how the
/// jail shows a path; `by_words` whether the network is to be recognised here, too.
pub(in crate::tools) fn refused(
    errors: &str,
    output: &str,
    cwd: &Path,
    by_words: bool,
    outside: &dyn Fn(&Path) -> Option<Outside>,
) -> Option<Refusal> {
    let refusal = |line: &str, need| {
        let line = line.trim().chars().take(LINE_CHARS_MAX).collect();
        Refusal { line, is_printed: true, need: Some(need), is_hidden: false }
    };
    let is_network = |line: &&str| {
        let line = line.to_lowercase();
        NETWORK_SIGNS.iter().any(|sign| line.contains(sign))
    };
    if let Some(line) = errors.lines().chain(output.lines()).find(is_network).filter(|_| by_words) {
        return Some(refusal(line, Need::Network { host: String::new() }));
    }
    let mut left = PATHS_MAX;
    for line in errors.lines().rev().take(LINES_MAX) {
        for path in paths(line, cwd) {
            left = left.checked_sub(1)?;
            // It may be shown, so that something else is the matter, or be missing outside, too.
            if outside(&path) == Some(Outside::Hidden)
                && path.symlink_metadata().is_ok()
                && let Some(path) = path.to_str()
            {
                return Some(refusal(line, Need::Read { path: path.to_owned() }));
            }
            // Files of a linked work tree: the kernel doesn't report these, since other programs have their caches in such
            // places.
            if path.iter().any(|part| part == ".git") && is_unwritable(line) && outside(&path).is_some() {
                let path = in_sentence(&path.to_string_lossy());
                let line = format!(
                    "it tried to write {path}, which git shares with other work trees and a command can only read; the \
                     user can run this in their own shell"
                );
                return Some(Refusal { line, is_printed: false, need: None, is_hidden: false });
            }
        }
    }
    None
}

fn is_unwritable(line: &str) -> bool {
    let line = line.to_lowercase();
    READ_ONLY_SIGNS.iter().any(|sign| line.contains(sign))
}

/// The paths that a line names, absolute and without `.` and `..`: in quotation marks, or between blanks.
fn paths(line: &str, cwd: &Path) -> Vec<PathBuf> {
    const QUOTES: [char; 7] = ['\'', '"', '`', '‘', '’', '“', '”'];
    let quoted = line.split(QUOTES);
    let words = line.split(|c: char| c.is_whitespace() || QUOTES.contains(&c) || "()[]{}<>,;=".contains(c));
    let mut found: Vec<PathBuf> = Vec::new();
    for word in quoted.chain(words) {
        let word = word.trim_end_matches([':', '.', ',', '!', '?']);
        if !(word.starts_with('/') || word.starts_with("../")) || word.len() < 2 {
            continue;
        }
        let path = normal(&cwd.join(word));
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of programs in a jail, and their needs: `R` with a path, `N` for the network.
    #[test]
    fn messages_of_refused_programs_become_needs() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("a path");
        for name in ["hidden/data", "hidden/repo", "shown/lib", "secret/key", "ws"] {
            std::fs::create_dir_all(top.join(name)).expect("a directory");
        }
        std::fs::write(top.join("hidden/data/a b.csv"), "1").expect("a file");
        let outside = |path: &Path| {
            let below = path.strip_prefix(&top).ok()?.to_str()?.to_owned();
            let is = |name: &str| below.starts_with(name);
            is("hidden").then_some(Outside::Hidden).or(is("shown").then_some(Outside::ReadOnly))
        };
        for (line, expected) in [
            ("curl: (6) Could not resolve host: example.org", "N"),
            ("npm error network request to https://r failed, reason: getaddrinfo EAI_AGAIN r", "N"),
            (
                "FileNotFoundError: [Errno 2] No such file or directory: 'T/hidden/data/a b.csv'",
                "R T/hidden/data/a b.csv",
            ),
            ("cp: cannot stat 'T/hidden/data/a b.csv': No such file or directory", "R T/hidden/data/a b.csv"),
            (
                "ls: Zugriff auf '../hidden/data' nicht möglich: Datei oder Verzeichnis nicht gefunden",
                "R T/hidden/data",
            ),
            ("bash: line 1: cd: T/hidden/repo: No such file or directory", "R T/hidden/repo"),
            ("fatal: repository 'T/hidden/repo' does not exist", "R T/hidden/repo"),
            // Attempts to write are seen by the kernel.
            ("cp: cannot create regular file 'T/hidden/data/new': No such file or directory", ""),
            ("touch: cannot touch 'T/shown/new': Read-only file system", ""),
            // It is shown, so that something else is the matter; it isn't there outside either; it is never offered.
            ("T/shown/lib: syntax error", ""),
            ("cat: T/hidden/none/x: No such file or directory", ""),
            ("cat: T/secret/key: No such file or directory", ""),
            ("cat: a.txt: No such file or directory", ""),
        ] {
            let here = |text: &str| text.replace("T/", &format!("{}/", top.display()));
            let found = refused(&here(line), "", &top.join("ws"), true, &outside);
            let words = found.map(|it| match it.need {
                Some(Need::Network { .. }) => "N".to_owned(),
                Some(Need::Read { path }) => format!("R {path}"),
                other => format!("{other:?}"),
            });
            assert_eq!(words.unwrap_or_default(), here(expected), "{line}");
        }
        assert_eq!(refused("Could not resolve host", "", &top, false, &outside), None);
    }

    /// A yes let it change the workspace, and it failed at the same place.
    #[test]
    fn a_first_look_that_was_refused_another_place_is_not_offered_the_workspace() {
        let here = (Path::new("/w/ws"), Path::new("/w/ws/sub"));
        for (line, is_offered) in [
            ("PermissionError: [Errno 30] Read-only file system: '/opt/zz'", false),
            ("bash: line 1: /opt/zz: Read-only file system", false),
            ("/opt/zz: Read-only file system", false),
            ("touch: cannot touch '../../other/x': Read-only file system", false),
            ("touch: cannot touch '../x': Read-only file system", true),
            ("/usr/bin/touch: cannot touch 'x': Read-only file system", true),
            ("bash: line 1: x: Read-only file system", true),
            ("OSError: Read-only file system: '/w/ws/x'", true),
            ("/opt/zz: Read-only file system\ntouch: cannot touch 'x': Permission denied", true),
        ] {
            let refusal = looked(None, line, "", here, true).expect("a refusal");
            assert_eq!(refusal.need.is_some(), is_offered, "{line}");
            assert!(refusal.line.contains(": "), "{line}");
        }
    }

    #[test]
    fn attempts_that_the_kernel_saw_become_needs() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().canonicalize().expect("a path");
        let (service, file) = (top.join("service.sock"), top.join("file"));
        let _listener = std::os::unix::net::UnixListener::bind(&service).expect("a socket");
        std::fs::write(&file, "").expect("a file");
        let outside = |path: &Path| (!path.ends_with("secret.sock")).then_some(Outside::Hidden);
        let socket = |path: &Path| Missed::Socket(path.to_owned());
        let name = |name: &str| Missed::Name(name.to_owned());
        let found = |missed: &[Missed]| tried(missed, &outside, (false, true), false).map(|it| (it.line, it.need));
        let network = |host: &str| Some(Need::Network { host: host.to_owned() });
        let address = Missed::Address("192.0.2.1:443".parse().expect("an address"));
        assert_eq!(found(&[]), None);
        assert_eq!(
            found(&[address.clone(), name("a.example"), name("b.example")]),
            Some(("it looked for the host a.example and 1 more".into(), network("a.example")))
        );
        assert_eq!(found(&[address]), Some(("it tried to reach 192.0.2.1:443".into(), network("192.0.2.1:443"))));
        let own = [Missed::Address("127.0.0.1:3000".parse().expect("an address"))];
        assert_eq!(found(&own), None, "the command ended well");
        assert_eq!(tried(&own, &outside, (true, false), false), None, "its words don't name this machine");
        let needed = tried(&own, &outside, (true, true), false).map(|it| (it.line, it.need));
        let line = "no program listens at 127.0.0.1:3000 in the sandbox".to_owned();
        assert_eq!(needed, Some((line, network("127.0.0.1:3000"))));
        let path = service.display().to_string();
        assert_eq!(
            found(&[socket(&file), socket(&service)]),
            Some((format!("it tried to connect to {path}"), Some(Need::Socket { path })))
        );
        let write = |path: &Path| Missed::Write(path.to_owned());
        for there in [file.clone(), top.join("new")] {
            let path = there.display().to_string();
            let needed = Some((format!("it tried to write {path}"), Some(Need::Write { path })));
            assert_eq!(
                found(&[write(Path::new("/nowhere/x")), write(&top.join("secret.sock")), write(&there)]),
                needed
            );
        }
        let deep = top.join("no/directory");
        assert_eq!(found(&[write(&deep)]), None);
        let made = tried(&[write(&deep)], &outside, (false, true), true).and_then(|it| it.need);
        assert_eq!(made, Some(Need::Write { path: deep.display().to_string() }));
        let remove = |path: PathBuf| found(&[Missed::Remove(path)]);
        let (line, need) = remove(file.clone()).expect("a refusal");
        assert!(need.is_none() && line.contains(&format!("delete or move {},", file.display())), "{line}");
        assert_eq!(remove(top.join("none")), None);
        std::fs::rename(&service, top.join("secret.sock")).expect("another name");
        for other in [top.join("secret.sock"), file, "/run/nscd/socket".into(), "/nowhere".into()] {
            assert_eq!(found(&[socket(&other)]), None);
        }
    }
}
