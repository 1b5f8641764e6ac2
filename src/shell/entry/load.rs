//! Loads the C library's loader as the kernel does for a program that names one.

use std::mem::offset_of;

use libc::{Elf64_Ehdr as Head, Elf64_Phdr as Header};

use super::address;
use crate::shell::sys::bare::{AT_CWD, byte, call, half, is_error, put, set_word, word};

/// The loader that the linker would have named in the program, with a trailing NUL.
const LOADER: &[u8] = concat!(env!("REEDCLAW_LOADER"), "\0").as_bytes();
/// The first bytes of a program's file.
const MAGIC: u32 = u32::from_ne_bytes(*b"\x7fELF");
const PAGE: usize = 4096;
const HEADER_BYTES: usize = size_of::<Header>();

/// Maps the loader, writes to the auxiliary vector what the kernel would have written, and returns the loader's entry; 0 if that
/// fails. `start` is the address at which the loader continues, `dynamic` that of the program's dynamic section.
pub(super) fn load(auxiliary: usize, room: usize, start: usize, dynamic: usize) -> usize {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let file = call(libc::SYS_openat, [AT_CWD, address(LOADER), flags, 0, 0, 0]);
    if is_error(file) {
        return 0;
    }
    let read = call(libc::SYS_pread64, [file, room, PAGE, 0, 0, 0]);
    let base = if read == PAGE { map_segments(file, room) } else { 0 };
    call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
    if base == 0 || !name_loader(auxiliary, dynamic) {
        return 0;
    }
    set_value(auxiliary, libc::AT_BASE, base);
    set_value(auxiliary, libc::AT_ENTRY, start);
    base + word(room + offset_of!(Head, e_entry))
}

/// Maps the segments of the file whose first page is at `head`, and returns their base; 0 if that fails.
fn map_segments(file: usize, head: usize) -> usize {
    let first = head + word(head + offset_of!(Head, e_phoff));
    let count = half(head + offset_of!(Head, e_phnum)) as usize & 0xffff;
    let end = first + count * HEADER_BYTES;
    if half(head) != MAGIC || end > head + PAGE {
        return 0;
    }
    let (mut span, mut at) = (0, first);
    while at < end {
        if half(at) == libc::PT_LOAD {
            if span == 0 && word(at + offset_of!(Header, p_vaddr)) != 0 {
                // It needs a fixed address.
                return 0;
            }
            // The segments are in the order of their addresses.
            span = word(at + offset_of!(Header, p_vaddr)) + word(at + offset_of!(Header, p_memsz));
        }
        at += HEADER_BYTES;
    }
    let base = call(libc::SYS_mmap, [0, span, libc::PROT_NONE as usize, NOTHING, usize::MAX, 0]);
    if is_error(base) {
        return 0;
    }
    at = first;
    while at < end {
        if half(at) == libc::PT_LOAD && !map_segment(file, at, base) {
            return 0;
        }
        at += HEADER_BYTES;
    }
    base
}

/// A mapping without a file.
const NOTHING: usize = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
/// A mapping that replaces another.
const FIXED: usize = (libc::MAP_PRIVATE | libc::MAP_FIXED) as usize;

fn map_segment(file: usize, header: usize, base: usize) -> bool {
    let from = base + word(header + offset_of!(Header, p_vaddr));
    let in_file = from + word(header + offset_of!(Header, p_filesz));
    let in_memory = from + word(header + offset_of!(Header, p_memsz));
    // PF_R, PF_W and PF_X are the bits of PROT_EXEC, PROT_WRITE and PROT_READ, in reverse order.
    let flags = half(header + offset_of!(Header, p_flags)) as usize;
    let access = flags >> 2 & 1 | flags & 2 | (flags & 1) << 2;
    let page = from & !(PAGE - 1);
    let offset = word(header + offset_of!(Header, p_offset)) - (from - page);
    if is_error(call(libc::SYS_mmap, [page, in_file - page, access, FIXED, file, offset])) {
        return false;
    }
    if in_memory == in_file {
        return true;
    }
    let mut at = in_file;
    while at & (PAGE - 1) != 0 {
        at = put(at, 0);
    }
    at >= in_memory || !is_error(call(libc::SYS_mmap, [at, in_memory - at, access, FIXED | NOTHING, usize::MAX, 0]))
}

/// Gives the loader a copy of the program's headers that also names the loader, as it expects.
fn name_loader(auxiliary: usize, dynamic: usize) -> bool {
    let (from, count) = (value(auxiliary, libc::AT_PHDR), value(auxiliary, libc::AT_PHNUM));
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let copy = call(libc::SYS_mmap, [0, PAGE, access, NOTHING, usize::MAX, 0]);
    if is_error(copy) || (count + 2) * HEADER_BYTES > PAGE {
        return false;
    }
    let (mut at, mut to, mut base, mut relocated) = (from, copy + 2 * HEADER_BYTES, 0, 0);
    while at < from + count * HEADER_BYTES {
        let kind = half(at);
        if kind == libc::PT_DYNAMIC {
            base = dynamic - word(at + offset_of!(Header, p_vaddr));
        }
        if kind == libc::PT_GNU_RELRO {
            relocated = at;
        }
        if kind != libc::PT_PHDR {
            let mut copied = 0;
            while copied < HEADER_BYTES {
                to = put(to, byte(at + copied));
                copied += 1;
            }
        }
        at += HEADER_BYTES;
    }
    if base == 0 {
        return false;
    }
    if relocated != 0 {
        copy_pages(base, relocated);
    }
    set_header(copy, libc::PT_PHDR, copy.wrapping_sub(base), to - copy);
    set_header(copy + HEADER_BYTES, libc::PT_INTERP, address(LOADER).wrapping_sub(base), LOADER.len());
    call(libc::SYS_mprotect, [copy, PAGE, libc::PROT_READ as usize, 0, 0, 0]);
    set_value(auxiliary, libc::AT_PHDR, copy);
    set_value(auxiliary, libc::AT_PHNUM, (to - copy) / HEADER_BYTES);
    true
}

/// Makes the pages of a segment the process's own at once. The loader is about to relocate them all, and would be
/// interrupted at each. A kernel that can't do it, before 5.14, leaves them as they are.
fn copy_pages(base: usize, header: usize) {
    /// `MADV_POPULATE_WRITE` of mman.h.
    const POPULATE_WRITE: usize = 23;
    let from = base + word(header + offset_of!(Header, p_vaddr));
    let page = from & !(PAGE - 1);
    // The last page may lie beyond the file's end: a page left out here is filled when it is written to.
    let end = (from + word(header + offset_of!(Header, p_filesz))) & !(PAGE - 1);
    call(libc::SYS_madvise, [page, end - page, POPULATE_WRITE, 0, 0, 0]);
}

fn set_header(at: usize, kind: u32, address: usize, length: usize) {
    // The kind and the flags share a word.
    set_word(at, kind as usize | (libc::PF_R as usize) << 32);
    set_word(at + offset_of!(Header, p_vaddr), address);
    set_word(at + offset_of!(Header, p_paddr), address);
    set_word(at + offset_of!(Header, p_filesz), length);
    set_word(at + offset_of!(Header, p_memsz), length);
}

/// The value of an entry of the auxiliary vector.
pub(super) fn value(auxiliary: usize, kind: u64) -> usize {
    word(place(auxiliary, kind))
}

fn set_value(auxiliary: usize, kind: u64, value: usize) {
    set_word(place(auxiliary, kind), value);
}

/// The address of an entry's value; if there is no such entry, that of the end entry, whose value means nothing.
fn place(auxiliary: usize, kind: u64) -> usize {
    let mut at = auxiliary;
    while word(at) != 0 && word(at) != kind as usize {
        at += 16;
    }
    at + 8
}
