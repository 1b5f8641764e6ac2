//! Watches what a program tries to reach and to change. The kernel holds each `connect`, each datagram with an address, each call
//! that opens a file for writing, and each that makes, names, moves, removes or alters one by its path, until this thread has
//! read its arguments and lets it continue: nothing is decided by that, since a program can change the memory that has an address
//! or a path. Names are looked up at a server of our own, which knows none.
//!
//! Process 1 of the jail runs all this; it makes none of the held calls itself.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg, sendmsg};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::super::missed::{Book, Missed, asked_name, failed_answer, listens_at, unreachable};
use super::writes::{CHANGES, Closed};
use crate::proto::HeldCall;
use crate::sandbox::helper::enter::{Calls, FilterStep};
use crate::sandbox::helper::wire::Spec;

/// The content of `/etc/resolv.conf` in a jail: the server of the watch.
pub(super) const RESOLVER: &str = "nameserver 127.0.0.1\n";
const NAME_SERVER: (&str, u16) = ("127.0.0.1", 53);
/// The largest request for a name without extensions is 512 bytes; with them, this.
const REQUEST_BYTES_MAX: usize = 4096;
/// `struct sockaddr_storage`.
const ADDRESS_BYTES_MAX: u64 = 128;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_JMP | BPF_JSET | BPF_K`, `BPF_RET | BPF_K` of linux/filter.h.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;
/// The halves of the arguments in `struct seccomp_data`.
const fn argument(number: u32) -> [u32; 2] {
    [16 + 8 * number, 20 + 8 * number]
}
/// Flags with which `open` writes.
const WRITING: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// The flags of this thread's own answers, which nothing else uses: they aren't held, since it would wait for itself.
const OWN_FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL).union(MsgFlags::MSG_EOR);

/// Condition under which a call is held.
enum When {
    Always,
    /// An argument has one of these bits.
    Any(u32, u32),
    /// This argument is an address.
    Given(u32),
    /// An argument is anything but this.
    Not(u32, u32),
}

/// The calls that are held, the most frequent first.
fn held_calls() -> Vec<(i64, When)> {
    let writing = WRITING.cast_unsigned();
    let mut held = vec![
        (libc::SYS_openat, When::Any(2, writing)),
        (libc::SYS_open, When::Any(1, writing)),
        (libc::SYS_sendmsg, When::Not(2, OWN_FLAGS.bits().cast_unsigned())),
        // Without an address it is sent to the socket's peer.
        (libc::SYS_sendto, When::Given(4)),
        (libc::SYS_sendmmsg, When::Always),
        (libc::SYS_connect, When::Always),
    ];
    for (call, ..) in CHANGES {
        if !held.iter().any(|(own, _)| own == call) {
            held.push((*call, When::Always));
        }
    }
    held
}

/// Holds these calls and lets all others go. Numbers of other architectures are refused by the other programs.
fn program() -> Option<Vec<FilterStep>> {
    let (hold, go) = ((RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF), (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let mut steps = vec![(LOAD, 0, 0, 0)];
    for (call, when) in held_calls() {
        let of_call = match when {
            When::Always => vec![hold],
            When::Any(at, bits) => vec![(LOAD, 0, 0, argument(at)[0]), (IF_ANY, 0, 1, bits), hold, go],
            When::Given(at) => {
                let [low, high] = argument(at);
                vec![(LOAD, 0, 0, low), (IF_EQUAL, 0, 2, 0), (LOAD, 0, 0, high), (IF_EQUAL, 1, 0, 0), hold, go]
            }
            When::Not(at, value) => vec![(LOAD, 0, 0, argument(at)[0]), (IF_EQUAL, 1, 0, value), hold, go],
        };
        steps.push((IF_EQUAL, 0, u8::try_from(of_call.len()).ok()?, u32::try_from(call).ok()?));
        steps.extend(of_call);
    }
    steps.push(go);
    Some(steps)
}

/// The watch, before it begins.
pub(super) struct Watch {
    held: OwnedFd,
    names: Option<UdpSocket>,
    book: Book,
    calls: Calls,
    closed: Closed,
    has_network: bool,
}

/// Takes the port for names, as long as this process has the right to.
pub(super) fn name_server() -> Option<UdpSocket> {
    UdpSocket::bind(NAME_SERVER).ok()
}

impl Watch {
    /// Lets the kernel hold the calls of this process and its descendants from now on; `None` if it can't.
    pub(super) fn new(book: Book, names: Option<UdpSocket>, calls: Calls, spec: &Spec) -> Option<Self> {
        let held = (calls.hold_calls)(&program()?).ok()?;
        Some(Self { held, names, book, calls, closed: Closed::of(spec), has_network: spec.network })
    }

    /// The descriptors that it needs.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let names = self.names.as_ref().map(AsRawFd::as_raw_fd);
        names.into_iter().chain([self.held.as_raw_fd(), self.book.file().as_raw_fd()]).collect()
    }

    /// Begins, on a thread of its own that lasts as long as this process.
    pub(super) fn begin(self) -> io::Result<()> {
        std::thread::Builder::new().name("watch".into()).spawn(move || self.look()).map(drop)
    }

    fn look(mut self) {
        loop {
            let mut waits = vec![PollFd::new(self.held.as_fd(), PollFlags::POLLIN)];
            waits.extend(self.names.as_ref().map(|names| PollFd::new(names.as_fd(), PollFlags::POLLIN)));
            if poll(&mut waits, PollTimeout::NONE).is_err() {
                continue;
            }
            let is_ready = |at: usize| waits.get(at).and_then(PollFd::any) == Some(true);
            let (is_held, is_named) = (is_ready(0), is_ready(1));
            if is_held && let Ok(call) = (self.calls.next_call)(self.held.as_fd()) {
                self.note(&call);
                // A process that has ended meanwhile needs no answer.
                let _ = (self.calls.let_call)(self.held.as_fd(), call.id);
            }
            if is_named {
                self.name();
            }
        }
    }

    fn note(&mut self, call: &HeldCall) {
        let is_there = |path: &Path| path.metadata().is_ok_and(|data| data.file_type().is_socket());
        let things = match address_of(call) {
            Some(address) => unreachable(&address, is_there, listens).into_iter().collect(),
            None => self.closed.changes_of(call),
        };
        let is_missed = |thing: &Missed| !(self.has_network && matches!(thing, Missed::Address(_)));
        things.into_iter().filter(is_missed).for_each(|thing| self.book.add(thing));
    }

    /// Answers one request for a name.
    fn name(&mut self) {
        let Some(names) = &self.names else { return };
        let mut request = [0; REQUEST_BYTES_MAX];
        let mut parts = [IoSliceMut::new(&mut request)];
        let got = recvmsg::<SockaddrStorage>(names.as_raw_fd(), &mut parts, None, MsgFlags::MSG_DONTWAIT);
        let Ok((length, Some(from))) = got.map(|got| (got.bytes, got.address)) else { return };
        let request = &request[..length];
        if let Some(name) = asked_name(request) {
            let is_own = nix::unistd::gethostname().is_ok_and(|own| own.to_string_lossy().eq_ignore_ascii_case(&name));
            if !is_own {
                self.book.add(Missed::Name(name));
            }
        }
        if let Some(answer) = failed_answer(request) {
            let _ = sendmsg(names.as_raw_fd(), &[io::IoSlice::new(&answer)], &[], OWN_FLAGS, Some(&from));
        }
    }
}

/// Returns whether a program in this network listens at a port; yes if the kernel doesn't say.
fn listens(port: u16) -> bool {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(std::fs::read_to_string);
    tables.iter().all(Result::is_err) || tables.iter().flatten().any(|table| listens_at(table, port))
}

/// The address that a held call gives the kernel, as it lies in the memory of its thread now.
fn address_of(call: &HeldCall) -> Option<Vec<u8>> {
    let [_, second, third, _, fifth, sixth] = call.arguments;
    let (at, length) = match call.call {
        libc::SYS_connect => (second, third),
        libc::SYS_sendto => (fifth, sixth),
        // `struct msghdr` begins with the address and its length; of several messages the first counts.
        libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            let head = memory(call.thread, second, 12)?;
            let length = u32::from_ne_bytes(head.get(8..12)?.try_into().ok()?);
            (u64::from_ne_bytes(head.get(..8)?.try_into().ok()?), u64::from(length))
        }
        _ => return None,
    };
    memory(call.thread, at, usize::try_from(length.min(ADDRESS_BYTES_MAX)).ok()?)
}

/// Reads the memory of a thread: as much as there is, up to this number of bytes.
pub(super) fn memory(thread: u32, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let from = [RemoteIoVec { base: usize::try_from(at).ok()?, len: length }];
    let thread = Pid::from_raw(i32::try_from(thread).ok()?);
    let read = process_vm_readv(thread, &mut [IoSliceMut::new(&mut bytes)], &from).ok()?;
    bytes.truncate(read);
    Some(bytes)
}
