//! Sees what a program without a network tries to reach. The kernel holds each `connect`, and each datagram with an address,
//! until this thread has read where it goes, and lets it go on: nothing is decided by that, since a program can change the
//! memory in which the address lies. Names are asked for at a server of our own, which knows none.
//!
//! Process 1 of the jail has all this; it makes none of the held calls itself.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Seek, SeekFrom};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg, sendmsg};

use super::super::enter::{Calls, FilterStep, HeldCall};
use super::super::missed::{Book, asked_name, failed_answer, unreachable};

/// What `/etc/resolv.conf` says in a jail: the server of the watch.
pub(super) const RESOLVER: &str = "nameserver 127.0.0.1\n";
const NAME_SERVER: (&str, u16) = ("127.0.0.1", 53);
/// The largest request for a name without extensions is 512 bytes; with them, this.
const REQUEST_BYTES_MAX: usize = 4096;
/// `struct sockaddr_storage`.
const ADDRESS_BYTES_MAX: u64 = 128;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K` of linux/filter.h.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// The halves of the fifth argument in `struct seccomp_data`: the address of a `sendto`.
const FIFTH: [u32; 2] = [48, 52];

/// Holds `connect`, and `sendto` with an address. Numbers of other architectures are refused by the other programs.
fn program() -> Option<[FilterStep; 9]> {
    let [connect, sendto] = [libc::SYS_connect, libc::SYS_sendto].map(|call| u32::try_from(call).ok());
    Some([
        (LOAD, 0, 0, 0),
        (IF_EQUAL, 6, 0, connect?),
        (IF_EQUAL, 0, 4, sendto?),
        (LOAD, 0, 0, FIFTH[0]),
        (IF_EQUAL, 0, 3, 0),
        (LOAD, 0, 0, FIFTH[1]),
        (IF_EQUAL, 0, 1, 0),
        (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        (RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
    ])
}

/// The watch, before it begins.
pub(super) struct Watch {
    held: OwnedFd,
    names: Option<UdpSocket>,
    book: Book,
    calls: Calls,
    has_network: bool,
}

/// Takes the port for names, as long as this process has the right to.
pub(super) fn name_server() -> Option<UdpSocket> {
    UdpSocket::bind(NAME_SERVER).ok()
}

impl Watch {
    /// Has the kernel hold the calls of this process and all that it starts from now on; nothing if it can't.
    pub(super) fn new(book: Book, names: Option<UdpSocket>, calls: Calls, has_network: bool) -> Option<Self> {
        let held = (calls.hold_calls)(&program()?).ok()?;
        Some(Self { held, names, book, calls, has_network })
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
                if let Some(address) = address_of(&call) {
                    self.note(&address);
                }
                // Who has ended meanwhile needs no answer.
                let _ = (self.calls.let_call)(self.held.as_fd(), call.id);
            }
            if is_named {
                self.name();
            }
        }
    }

    fn note(&mut self, address: &[u8]) {
        let is_there = |path: &Path| path.metadata().is_ok_and(|data| data.file_type().is_socket());
        if let Some(thing) = unreachable(address, is_there)
            && !(self.has_network && matches!(thing, super::super::Missed::Address(_)))
        {
            self.book.add(thing);
        }
    }

    /// Answers one request for a name. By `sendmsg`, which isn't held: this thread would wait for itself.
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
                self.book.add(super::super::Missed::Name(name));
            }
        }
        if let Some(answer) = failed_answer(request) {
            let _ = sendmsg(names.as_raw_fd(), &[io::IoSlice::new(&answer)], &[], MsgFlags::MSG_DONTWAIT, Some(&from));
        }
    }
}

/// The address that a held call gives the kernel, as it lies in the memory of its thread now.
fn address_of(call: &HeldCall) -> Option<Vec<u8>> {
    let (at, length) = match call.call {
        libc::SYS_connect => (call.arguments[1], call.arguments[2]),
        _ => (call.arguments[4], call.arguments[5]),
    };
    let mut memory = File::open(format!("/proc/{}/mem", call.thread)).ok()?;
    memory.seek(SeekFrom::Start(at)).ok()?;
    let mut address = Vec::new();
    memory.take(length.min(ADDRESS_BYTES_MAX)).read_to_end(&mut address).ok()?;
    Some(address)
}
