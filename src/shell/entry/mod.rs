//! The program's first instructions, on x86-64 with glibc: for `-c` it becomes bash before anything is loaded or relocated;
//! otherwise it loads the C library's loader, as the kernel would have, and the loader continues as usual.
//!
//! At this point nothing is relocated and there is no library, not even `memcpy`. So memory is accessed by the instructions of
//! `sys::bare`, no constant holds a pointer, and no function of another crate is called: without optimisation even the smallest
//! is called through a table that isn't relocated yet. Addresses are plain numbers. Anything uncertain is left to `main`, which
//! makes the same decision with the whole program.

mod load;

use std::mem::offset_of;

use super::sys::bare::{AT_CWD, ROOM_BYTES, byte, call, half, is_error, put, reedclaw_entry, set_word, word};

/// The entry's address, relocated by the loader: it is the real one only if the loader has run.
static RELOCATED: extern "C" fn() = reedclaw_entry;

const BASH: &[u8] = b"bash\0";
const LOGIN_BASH: &[u8] = b"-bash\0";
/// The last resort for a login.
const SH: &[u8] = b"/bin/sh\0";
const SELF: &[u8] = b"/proc/self/exe\0";

/// Becomes bash if that is certainly what the user wants; otherwise returns the address at which to continue. `stack` is the
/// kernel's data there, `room` an area of some bytes below it; the rest are addresses of the program.
pub(super) extern "C" fn begin(stack: usize, room: usize, entry: usize, start: usize, dynamic: usize) -> usize {
    if word(&raw const RELOCATED as usize) == entry {
        // A person has started a loader, with this program as its argument.
        return start;
    }
    let count = word(stack);
    let arguments = stack + 8;
    let environment = arguments + 8 * (count + 1);
    let mut auxiliary = environment;
    while word(auxiliary) != 0 {
        auxiliary += 8;
    }
    auxiliary += 8;
    if count >= 2 && is_text(word(arguments + 8), b"-c") && load::value(auxiliary, libc::AT_SECURE) == 0 {
        become_bash(arguments, environment, room);
    }
    if !names_libraries(dynamic) {
        // The program needs no library, and relocates itself.
        return start;
    }
    match load::load(auxiliary, room, start, dynamic) {
        0 => {
            call(libc::SYS_execve, [address(SH), arguments, environment, 0, 0, 0]);
            call(libc::SYS_exit_group, [127, 0, 0, 0, 0, 0])
        }
        loader => loader,
    }
}

/// Returns whether the program's dynamic section, as elf(5) describes it, names a library.
fn names_libraries(dynamic: usize) -> bool {
    /// `DT_NEEDED` of elf.h.
    const NEEDED: usize = 1;
    let mut at = dynamic;
    while word(at) != 0 {
        if word(at) == NEEDED {
            return true;
        }
        at += 16;
    }
    false
}

/// Becomes the first bash on `PATH`. Returns if there is none, or if the user's config may name another shell.
fn become_bash(arguments: usize, environment: usize, room: usize) {
    let (own, found, path) = (room, room + 256, room + 512);
    if config_may_name_shell(environment, room) || is_error(stat(address(SELF), own)) {
        return;
    }
    let mut from = variable(environment, b"PATH=");
    while from != 0 {
        let (mut to, mut end) = (from, path);
        while !matches!(byte(to), 0 | b':') {
            if to - from > ROOM_BYTES / 2 {
                return;
            }
            end = put(end, byte(to));
            to += 1;
        }
        put_text(end, b"/bash\0");
        if byte(from) == b'/' && is_other_program(path, own, found) {
            let name = word(arguments);
            set_word(arguments, address(if byte(name) == b'-' { LOGIN_BASH } else { BASH }));
            call(libc::SYS_execve, [path, arguments, environment, 0, 0, 0]);
            set_word(arguments, name);
            return;
        }
        from = if byte(to) == 0 { 0 } else { to + 1 };
    }
}

/// Returns whether a path leads to a program other than this one, whose file data are at `own`. The path's file data are written
/// to `found`.
fn is_other_program(path: usize, own: usize, found: usize) -> bool {
    const MODE: usize = offset_of!(libc::stat, st_mode);
    const DEVICE: usize = offset_of!(libc::stat, st_dev);
    const INODE: usize = offset_of!(libc::stat, st_ino);
    !is_error(stat(path, found))
        && half(found + MODE) & libc::S_IFMT == libc::S_IFREG
        && half(found + MODE) & 0o111 != 0
        && (word(found + DEVICE) != word(own + DEVICE) || word(found + INODE) != word(own + INODE))
}

fn stat(path: usize, to: usize) -> usize {
    call(libc::SYS_newfstatat, [AT_CWD, path, to, 0, 0, 0])
}

/// Returns whether the user's config contains the word `program`, or can't be read here.
fn config_may_name_shell(environment: usize, room: usize) -> bool {
    let named = variable(environment, b"REEDCLAW_CONFIG=");
    if named != 0 && byte(named) != 0 {
        return true;
    }
    let base = variable(environment, b"XDG_CONFIG_HOME=");
    let is_base = base != 0 && byte(base) == b'/';
    let mut from = if is_base { base } else { variable(environment, b"HOME=") };
    if from == 0 || byte(from) != b'/' {
        return false;
    }
    let mut end = room;
    while byte(from) != 0 {
        if end - room > ROOM_BYTES / 2 {
            return true;
        }
        end = put(end, byte(from));
        from += 1;
    }
    if !is_base {
        end = put_text(end, b"/.config");
    }
    put_text(end, b"/reedclaw/config.lua\0");
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) as usize;
    let file = call(libc::SYS_openat, [AT_CWD, room, flags, 0, 0, 0]);
    if is_error(file) {
        return !matches!(file.wrapping_neg() as i32, libc::ENOENT | libc::ENOTDIR);
    }
    let may = has_word(file, room, b"program");
    call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
    may
}

/// Returns whether a file contains a word, whose first letter occurs only once in the word, or can't be read.
fn has_word(file: usize, room: usize, wanted: &[u8]) -> bool {
    let mut matched = 0;
    loop {
        let count = call(libc::SYS_read, [file, room, ROOM_BYTES, 0, 0, 0]);
        if is_error(count) {
            return true;
        }
        if count == 0 {
            return false;
        }
        let mut at = room;
        while at < room + count {
            let next = byte(at);
            if next != wanted[matched] {
                matched = 0;
            }
            if next == wanted[matched] {
                matched += 1;
            }
            if matched == wanted.len() {
                return true;
            }
            at += 1;
        }
    }
}

/// The start of the value of a variable, found by `NAME=`; 0 if there is no such variable.
fn variable(environment: usize, name: &[u8]) -> usize {
    let mut at = environment;
    while word(at) != 0 {
        if begins(word(at), name) {
            return word(at) + name.len();
        }
        at += 8;
    }
    0
}

/// The address of a text.
fn address(text: &[u8]) -> usize {
    text as *const [u8] as *const u8 as usize
}

fn begins(at: usize, text: &[u8]) -> bool {
    let mut length = 0;
    while length < text.len() && byte(at + length) == text[length] {
        length += 1;
    }
    length == text.len()
}

fn is_text(at: usize, text: &[u8]) -> bool {
    begins(at, text) && byte(at + text.len()) == 0
}

/// Writes a text and returns its end.
fn put_text(mut to: usize, text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        to = put(to, text[at]);
        at += 1;
    }
    to
}
