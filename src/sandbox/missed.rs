//! Refused attempts of a jailed program to reach or write something: names of hosts, addresses, sockets, paths. The
//! jail writes it into a file beside the layers, one thing a line; here is its form.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The first line, once the jail watches.
const HEAD: &str = "looks";
/// Limits on the recorded attempts of one program, and on the paths to write among them.
const THINGS_MAX: usize = 64;
const WRITES_MAX: usize = 32;
/// Bytes of the file that are read.
const BYTES_MAX: usize = 64 * 1024;

/// One thing that a program was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Asked for the address of a host.
    Name(String),
    /// Connected, or sent something, to an address that isn't its own loopback, or to a port there at which nothing listens.
    Address(SocketAddr),
    /// Connected to a Unix socket that isn't there in the jail.
    Socket(PathBuf),
    /// Opened a file for writing, or made or changed something, at a path that is closed.
    Write(PathBuf),
    /// Removed something, or moved it away, from a path that is closed.
    Remove(PathBuf),
}

/// Records refusals, each once.
pub(super) struct Book {
    file: fs::File,
    things: Vec<Missed>,
}

impl Book {
    /// Begins the file at `path`.
    pub(super) fn begin(path: &Path) -> std::io::Result<Self> {
        let mut file = fs::OpenOptions::new().create_new(true).append(true).open(path)?;
        writeln!(file, "{HEAD}")?;
        Ok(Self { file, things: Vec::new() })
    }

    /// The file, which stays open.
    pub(super) fn file(&self) -> &fs::File {
        &self.file
    }

    /// Writes one thing down, if it is new and there is room.
    pub(super) fn add(&mut self, thing: Missed) {
        let is_write = |thing: &Missed| matches!(thing, Missed::Write(_) | Missed::Remove(_));
        if self.things.len() >= THINGS_MAX
            || self.things.contains(&thing)
            || is_write(&thing) && self.things.iter().filter(|it| is_write(it)).count() >= WRITES_MAX
        {
            return;
        }
        let line = match &thing {
            Missed::Name(name) => format!("name {name}\n").into_bytes(),
            Missed::Address(address) => format!("address {address}\n").into_bytes(),
            Missed::Socket(path) => [b"socket ", path.as_os_str().as_bytes(), b"\n"].concat(),
            Missed::Write(path) => [b"write ", path.as_os_str().as_bytes(), b"\n"].concat(),
            Missed::Remove(path) => [b"remove ", path.as_os_str().as_bytes(), b"\n"].concat(),
        };
        // A refusal that can't be recorded isn't offered.
        let _ = self.file.write_all(&line);
        self.things.push(thing);
    }
}

/// The things in such a file; nothing if no jail has begun it.
pub(super) fn read(path: &Path) -> Option<Vec<Missed>> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES_MAX)]);
    let mut lines = text.lines();
    (lines.next() == Some(HEAD)).then_some(())?;
    let thing = |line: &str| {
        let (word, rest) = line.split_once(' ')?;
        Some(match word {
            "name" => Missed::Name(rest.to_owned()),
            "address" => Missed::Address(rest.parse().ok()?),
            "socket" => Missed::Socket(rest.into()),
            "write" => Missed::Write(rest.into()),
            "remove" => Missed::Remove(rest.into()),
            _ => return None,
        })
    };
    Some(lines.filter_map(thing).collect())
}

/// Reads from a socket address of the kernel's form what a program without a network can't reach; `is_there` says
/// whether a path is a socket that it can, `listens` whether a program does at a port of its loopback.
pub(super) fn unreachable(
    address: &[u8],
    is_there: impl Fn(&Path) -> bool,
    listens: impl Fn(u16) -> bool,
) -> Option<Missed> {
    let family = i32::from(u16::from_ne_bytes(address.get(..2)?.try_into().ok()?));
    match family {
        libc::AF_INET | libc::AF_INET6 => {
            let port = u16::from_be_bytes(address.get(2..4)?.try_into().ok()?);
            let ip = if family == libc::AF_INET {
                IpAddr::from(<[u8; 4]>::try_from(address.get(4..8)?).ok()?)
            } else {
                IpAddr::from(<[u8; 16]>::try_from(address.get(8..24)?).ok()?).to_canonical()
            };
            let is_own = ip.is_loopback() || ip.is_unspecified();
            (!is_own || !listens(port)).then(|| Missed::Address(SocketAddr::new(ip, port)))
        }
        libc::AF_UNIX => {
            let name = address.get(2..)?.split(|byte| *byte == 0).next()?;
            let path = Path::new(std::str::from_utf8(name).ok()?);
            let is_plain = path.is_absolute() && !name.iter().any(u8::is_ascii_control);
            (is_plain && !is_there(path)).then(|| Missed::Socket(path.to_owned()))
        }
        _ => None,
    }
}

/// Returns whether a table of sockets, as the kernel prints it in `/proc/net/tcp`, has one that listens at a port.
pub(super) fn listens_at(table: &str, port: u16) -> bool {
    /// `TCP_LISTEN` of linux/net/tcp_states.h.
    const LISTENING: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (local, state) = (columns.next(), columns.nth(1));
        let own = local.and_then(|it| it.rsplit_once(':')).and_then(|(_, it)| u16::from_str_radix(it, 16).ok());
        own == Some(port) && state == Some(LISTENING)
    })
}

/// Returns the name in a request to a name server; `None` for reverse lookups.
pub(super) fn asked_name(request: &[u8]) -> Option<String> {
    /// Bytes before the first question (RFC 1035, 4.1.1).
    const HEADER: usize = 12;
    let (mut labels, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*request.get(at)?);
        if length == 0 {
            break;
        }
        let label = std::str::from_utf8(request.get(at + 1..at + 1 + length)?).ok()?;
        let is_plain = length < 64 && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        labels.push(is_plain.then(|| label.to_ascii_lowercase())?);
        at += 1 + length;
    }
    let name = labels.join(".");
    (!name.is_empty() && !name.ends_with(".arpa")).then_some(name)
}

/// The answer to such a request that makes a program give up at once: the server failed (RFC 1035, 4.1.1).
pub(super) fn failed_answer(request: &[u8]) -> Option<Vec<u8>> {
    let mut answer = request.get(..12)?.to_vec();
    // An answer, with as much recursion as was asked for; code 2. Only the question is repeated.
    answer[2] = request[2] & 0x79 | 0x80;
    answer[3] = 0x82;
    answer[6..12].fill(0);
    let mut at = 12;
    while *request.get(at)? != 0 {
        at += 1 + usize::from(request[at]);
    }
    answer.extend_from_slice(request.get(12..at + 5)?);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_refusals_read_back_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("refused");
        assert_eq!(read(&path), None);
        let things = [
            Missed::Name("registry.example".into()),
            Missed::Address("192.0.2.1:443".parse().unwrap()),
            Missed::Address("[2001:db8::1]:22".parse().unwrap()),
            Missed::Socket("/run/a b.sock".into()),
            Missed::Write("/srv/a b.csv".into()),
            Missed::Remove("/srv/b.csv".into()),
        ];
        let mut book = Book::begin(&path).unwrap();
        assert_eq!(read(&path), Some(Vec::new()));
        things.iter().chain(&things).for_each(|thing| book.add(thing.clone()));
        assert_eq!(read(&path).unwrap(), things);
        (0..THINGS_MAX).for_each(|number| book.add(Missed::Name(number.to_string())));
        assert_eq!(read(&path).unwrap().len(), THINGS_MAX);
    }

    #[test]
    fn addresses_of_the_kernel_are_read() {
        let family = |family: i32| u16::try_from(family).unwrap().to_ne_bytes().to_vec();
        let v4 = |ip: [u8; 4]| [family(libc::AF_INET), vec![1, 187], ip.to_vec(), vec![0; 8]].concat();
        let v6 = |ip: &str| {
            let ip: std::net::Ipv6Addr = ip.parse().unwrap();
            [family(libc::AF_INET6), vec![0, 53, 0, 0, 0, 0], ip.octets().to_vec(), vec![0; 4]].concat()
        };
        let unix = |path: &[u8]| [family(libc::AF_UNIX), path.to_vec()].concat();
        let found = |address: &[u8]| unreachable(address, |path| path == Path::new("/tmp/own"), |port| port != 80);
        let address = |text: &str| Some(Missed::Address(text.parse().unwrap()));
        assert_eq!(found(&v4([192, 0, 2, 7])), address("192.0.2.7:443"));
        assert_eq!(found(&v6("2001:db8::2")), address("[2001:db8::2]:53"));
        assert_eq!(found(&v6("::ffff:192.0.2.7")), address("192.0.2.7:53"));
        for own in
            [v4([127, 0, 0, 1]), v4([0; 4]), v6("::1"), v6("::"), v6("::ffff:127.0.0.1"), Vec::new(), vec![2, 0, 1]]
        {
            assert_eq!(found(&own), None);
        }
        let unheard = [family(libc::AF_INET), vec![0, 80, 127, 0, 0, 1], vec![0; 8]].concat();
        assert_eq!(found(&unheard), address("127.0.0.1:80"));
        assert_eq!(found(&unix(b"/run/docker.sock\0rest")), Some(Missed::Socket("/run/docker.sock".into())));
        for own in [&b"/tmp/own\0"[..], b"\0abstract", b"relative", b"/a\nb", b""] {
            assert_eq!(found(&unix(own)), None);
        }
    }

    #[test]
    fn a_listener_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n   \
                     1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000\n   \
                     2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0\n";
        assert!(listens_at(table, 8080) && listens_at(table, 80));
        assert!(!listens_at(table, 8081), "this one is connected");
        assert!(!listens_at("", 8080) && !listens_at(table, 0));
    }

    #[test]
    fn a_request_for_a_name_is_read_and_answered() {
        let name = b"\x08registry\x07EXAMPLE\x00\x00\x01\x00\x01";
        let request = [&[7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], name, b"more"].concat();
        assert_eq!(asked_name(&request).as_deref(), Some("registry.example"));
        let answer = failed_answer(&request).unwrap();
        assert_eq!(answer[..12], [7, 9, 0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&answer[12..], name);
        let backwards = [&[0; 12][..], b"\x011\x07in-addr\x04arpa\x00\x00\x0c\x00\x01"].concat();
        assert_eq!(asked_name(&backwards), None);
        for length in 0..request.len() - 9 {
            assert_eq!(asked_name(&request[..length]).filter(|_| length < 20), None);
            let _ = failed_answer(&request[..length]);
        }
        assert_eq!(asked_name(&[&[0; 12][..], b"\x02\x1b]\x00"].concat()), None);
    }
}
