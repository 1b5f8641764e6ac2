//! The system calls for which no safe wrapper exists. The only file of the program with `unsafe`.
//!
//! Nothing here decides anything: each function is one call, or what must happen between fork and exec.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::proto::HeldCall;

/// Runs a function before `main`, and before the runtimes of C++ and Rust are set up. Only the C library and the arguments are
/// available: enough for files, the environment and `exec`. A panic in it is caught.
#[macro_export]
macro_rules! before_runtimes {
    ($function:path) => {
        const _: () = {
            extern "C" fn run() {
                let _ = std::panic::catch_unwind(|| $function());
            }
            // SAFETY: the loader calls each entry of this section once, on the only thread, with a signature that `run` may
            // ignore. Rust's own entry for the arguments has the priority 99, so they are there.
            #[used]
            #[unsafe(link_section = ".init_array.00100")]
            static BEFORE_RUNTIMES: extern "C" fn() = run;
        };
    };
}

pub use before_runtimes;

/// A terminal window's size, in characters and, if the terminal reports it, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSize {
    /// Height in characters.
    pub rows: u16,
    /// Width in characters.
    pub columns: u16,
    /// Width in pixels, 0 if unknown.
    pub width_pixels: u16,
    /// Height in pixels, 0 if unknown.
    pub height_pixels: u16,
}

impl WindowSize {
    /// The size for a shell: a readline that scrolls its line sideways divides by the width minus two.
    #[must_use]
    pub fn bearable(self) -> Self {
        Self { columns: if self.columns == 2 { 3 } else { self.columns }, ..self }
    }
}

/// Reads the window size of a terminal.
///
/// # Errors
/// The descriptor is no terminal.
pub fn window_size(terminal: BorrowedFd) -> io::Result<WindowSize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize` to the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(WindowSize {
        rows: size.ws_row,
        columns: size.ws_col,
        width_pixels: size.ws_xpixel,
        height_pixels: size.ws_ypixel,
    })
}

/// Sets the window size of a terminal; the kernel notifies its foreground processes.
///
/// # Errors
/// The descriptor is no terminal.
pub fn set_window_size(terminal: BorrowedFd, size: WindowSize) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: size.width_pixels,
        ws_ypixel: size.height_pixels,
    };
    // SAFETY: TIOCSWINSZ reads one `winsize` from the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The signals that a process ignores, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored(u64);

impl Ignored {
    /// The signals that this process ignores now, except SIGPIPE, which Rust's start-up code sets.
    #[must_use]
    pub fn now() -> Self {
        let ignored = (1..=64).filter(|signal| *signal != libc::SIGPIPE).filter(|signal| {
            // The kernel's own call, because the C library's reveals nothing about the two signals that it reserves. The handler
            // comes first.
            let mut action = [0_usize; 8];
            let none = std::ptr::null::<usize>();
            // SAFETY: without a new action the kernel only writes the present one to the pointer: four words, with a mask of
            // eight bytes.
            let result = unsafe { libc::syscall(libc::SYS_rt_sigaction, *signal, none, action.as_mut_ptr(), 8_usize) };
            result == 0 && action[0] == libc::SIG_IGN
        });
        Self(ignored.fold(0, |mask, signal| mask | 1 << (signal - 1)))
    }

    /// Returns whether the set contains a signal.
    #[must_use]
    pub fn has(self, signal: nix::sys::signal::Signal) -> bool {
        self.0 & 1 << (signal as i32 - 1) != 0
    }
}

/// All signals except those that stay ignored, including the two that the C library reserves: a program that it starts would
/// inherit them as ignored.
#[must_use]
pub fn all_signals_but(ignored: Ignored) -> nix::sys::signal::SigSet {
    // SAFETY: all zeros is the empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is one bit for each signal, in order, and longer than 64 bits.
    unsafe { (&raw mut set).cast::<u64>().write(!ignored.0) };
    // SAFETY: the C library reads the set as it is.
    unsafe { nix::sys::signal::SigSet::from_sigset_t_unchecked(set) }
}

/// Makes the command start as the leader of a new session with `terminal` as its controlling terminal, whatever its standard
/// streams are, and with the default action for every signal.
pub fn lead_session_at(command: &mut Command, terminal: OwnedFd) {
    let prepare = move || {
        // SAFETY: setsid, ioctl and signal are async-signal-safe; nothing is allocated.
        unsafe {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            for signal in 1..=64 {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls only.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the command start without a controlling terminal, as the leader of a new session.
pub fn leave_terminal(command: &mut Command) {
    // SAFETY: setsid is async-signal-safe; nothing is allocated.
    let prepare = || if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: the closure makes async-signal-safe calls only.
    unsafe { command.pre_exec(prepare) };
}

/// The command line of this process, as `/proc/PID/cmdline` shows it.
#[derive(Debug)]
pub struct CommandLine {
    start: *mut u8,
    /// The original value.
    own: Vec<u8>,
}

/// Number of bytes of the environment, after the arguments, that a long name may overwrite temporarily.
const COMMAND_LINE_MORE_BYTES: usize = 32;

impl CommandLine {
    /// Finds the command line; `None` if the system doesn't report its address.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "/proc/self/stat")]
    pub fn own() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // Fields 48 to 51 of proc_pid_stat(5): the bounds of the arguments and of the environment after them.
        let fields: Vec<usize> = stat
            .rsplit_once(") ")?
            .1
            .split(' ')
            .skip(45)
            .take(4)
            .map_while(|field| field.trim().parse().ok())
            .collect();
        let [start, end, environment, environment_end] = fields[..] else { return None };
        if start == 0 || end <= start || environment != end || environment_end < end {
            return None;
        }
        let length = (end + COMMAND_LINE_MORE_BYTES).min(environment_end) - start;
        let start = start as *mut u8;
        // SAFETY: the kernel says that `length` bytes from `start` on are this process's arguments and environment, which
        // are writable memory of its stack and live as long as it does.
        let own = unsafe { std::slice::from_raw_parts(start, length) }.to_vec();
        Some(Self { start, own })
    }

    /// Shows a program's name, marked as a displayed name; an empty name restores the process's own.
    pub fn show(&mut self, name: &[u8]) {
        let mut bytes = self.own.clone();
        if !name.is_empty() {
            let text = [name, b" (reedclaw)"].concat();
            bytes.fill(0);
            let length = text.len().min(bytes.len() - 1);
            bytes[..length].copy_from_slice(&text[..length]);
        }
        // SAFETY: as above; the process has one thread, which reads neither arguments nor environment until its own bytes
        // are back.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, bytes.len()) };
    }
}

/// The side of a fork.
pub enum Side {
    /// The process that forked, with the child's process id.
    Parent(nix::unistd::Pid),
    /// The new process.
    Child,
}

/// Forks. The process must have only one thread, so that the child may continue with the whole program.
///
/// # Errors
/// The system has no room for another process.
pub fn fork_single_threaded() -> io::Result<Side> {
    // SAFETY: the caller has started no thread, so the child inherits no lock that another thread held.
    match unsafe { nix::unistd::fork() } {
        Ok(nix::unistd::ForkResult::Parent { child }) => Ok(Side::Parent(child)),
        Ok(nix::unistd::ForkResult::Child) => Ok(Side::Child),
        Err(error) => Err(error.into()),
    }
}

/// Asks the kernel to send this process `signal` when its parent ends.
pub fn signal_when_parent_ends(signal: nix::sys::signal::Signal) {
    // SAFETY: PR_SET_PDEATHSIG takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) };
}

/// Sets a signal to be ignored by this process.
pub fn ignore(signal: nix::sys::signal::Signal) {
    // SAFETY: SIG_IGN installs no handler.
    let _ = unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigIgn) };
}

/// Sets a signal to its default action in this process.
pub fn default_action(signal: nix::sys::signal::Signal) {
    // SAFETY: SIG_DFL installs no handler.
    let _ = unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) };
}

/// Makes an anonymous file in memory, closed on exec.
///
/// # Errors
/// The system has no memory or descriptors left.
pub fn memory_file(name: &std::ffi::CStr) -> io::Result<File> {
    // SAFETY: the name is a valid C string; the returned descriptor is not owned by anything else.
    unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from(OwnedFd::from_raw_fd(fd)))
    }
}

/// Replaces descriptor `target` of this process (0, 1 or 2) by `source`.
///
/// # Errors
/// The descriptor can't be duplicated.
pub fn replace_standard(source: BorrowedFd, target: i32) -> io::Result<()> {
    // SAFETY: dup2 on valid descriptor numbers; `target` is a standard stream that has no owner as an `OwnedFd`.
    let result = unsafe { libc::dup2(source.as_raw_fd(), target) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Releases the mapped pages of the program's own file and its libraries that this process never changes; each is loaded again
/// when it is needed. For a process that mostly waits from now on.
pub fn release_program_pages() {
    // SAFETY: only `dl_iterate_phdr` calls this, with what the loader knows of one mapped object.
    unsafe extern "C" fn release(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        _: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader hands over a valid object with `dlpi_phnum` headers. Only segments without write access
        // are given to madvise: nothing of them is held in memory alone, so they are read again from the file.
        unsafe {
            // The program itself has an empty name here; the kernel's code for clocks, which is in no file, has a name without a
            // path.
            let name = std::ffi::CStr::from_ptr((*object).dlpi_name).to_bytes();
            if !name.is_empty() && !name.starts_with(b"/") {
                return 0;
            }
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096).max(1);
            let headers = std::slice::from_raw_parts((*object).dlpi_phdr, usize::from((*object).dlpi_phnum));
            for header in headers.iter().filter(|it| it.p_type == libc::PT_LOAD && it.p_flags & libc::PF_W == 0) {
                let from = (*object).dlpi_addr as usize + header.p_vaddr as usize;
                let start = from - from % page;
                let length = from + header.p_memsz as usize - start;
                let _ = libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
            }
        }
        0
    }
    // SAFETY: the callback matches the declared type and keeps no pointer.
    unsafe { libc::dl_iterate_phdr(Some(release), std::ptr::null_mut()) };
}

/// Returns freed memory to the system, if the C library can.
pub fn release_free_memory() {
    // SAFETY: malloc_trim takes the allocator's own locks and touches free memory alone.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Closes the descriptors of this process from `first` to `last`. For a process in which they no longer have an owner.
///
/// # Errors
/// The kernel is older than 5.9.
pub fn close_descriptors(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: close_range takes three integers; the caller owns none of the descriptors, so no owner is left with one.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Installs a seccomp program (code, jump if true, jump if false, operand) for this thread and everything that it starts, and
/// returns the descriptor from which held calls are read. The process has given up new privileges before.
///
/// # Errors
/// The kernel is older than 5.5, or another program of this process listens already.
pub fn seccomp_listener(program: &[(u16, u8, u8, u32)]) -> io::Result<OwnedFd> {
    let mut steps: Vec<libc::sock_filter> =
        program.iter().map(|(code, jt, jf, k)| libc::sock_filter { code: *code, jt: *jt, jf: *jf, k: *k }).collect();
    let length = u16::try_from(steps.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let filter = libc::sock_fprog { len: length, filter: steps.as_mut_ptr() };
    let install = |flags: libc::c_ulong| {
        // SAFETY: the kernel copies the program from the pointer, which is valid for the call.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) }
    };
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Since Linux 5.19 a signal can be prevented from repeating a call that was already read.
    let mut fd = install(listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        fd = install(listener);
    }
    let fd = libc::c_int::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and it has no other owner.
    let listener = unsafe { OwnedFd::from_raw_fd(fd) };
    /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` of linux/seccomp.h.
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // Since Linux 6.6 the reader wakes on the processor of the caller, which waits: that halves the time of a call.
    // SAFETY: the kernel reads the flags from the argument itself.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    Ok(listener)
}

/// Waits for the next held call and reads it.
///
/// # Errors
/// Its thread has ended meanwhile, or no process is left that could make one.
pub fn seccomp_notice(listener: BorrowedFd) -> io::Result<HeldCall> {
    // SAFETY: all zeros is a valid `seccomp_notif`; the kernel wants it so.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif` to the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let call = i64::from(notice.data.nr);
    Ok(HeldCall { id: notice.id, thread: notice.pid, call, arguments: notice.data.args })
}

/// Lets a held call continue unchanged.
///
/// # Errors
/// Its thread has ended meanwhile.
pub fn seccomp_continue(listener: BorrowedFd, id: u64) -> io::Result<()> {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or_default();
    let answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one `seccomp_notif_resp` from the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives up every capability of this process and of the programs that it executes: root is then an ordinary user.
///
/// # Errors
/// The kernel refuses.
pub fn drop_capabilities() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h: two sets of 32 bits each.
    const VERSION_3: u32 = 0x2008_0522;
    #[repr(C)]
    struct Header {
        version: u32,
        process: libc::c_int,
    }
    for capability in 0..64 {
        // SAFETY: PR_CAPBSET_DROP takes one integer and touches no memory. It fails for numbers that the kernel doesn't
        // know, and for who has no capabilities to give up.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong) };
    }
    let header = Header { version: VERSION_3, process: 0 };
    let none = [[0_u32; 3]; 2];
    // SAFETY: capset reads one header and, for version 3, two times three integers, all valid for the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Adds attributes (`MOUNT_ATTR_*` of linux/mount.h) to the mount at `path`, and to all mounts below it if `recursive`.
///
/// # Errors
/// The kernel is older than 5.12, or refuses.
pub fn add_mount_attributes(path: &std::ffi::CStr, attributes: u64, recursive: bool) -> io::Result<()> {
    /// `struct mount_attr` of linux/mount.h.
    #[repr(C)]
    struct MountAttr {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let attr = MountAttr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: mount_setattr reads the path and one `mount_attr` of the passed size; both are valid for the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Brings up the loopback interface of this process's network namespace.
///
/// # Errors
/// The kernel refuses.
pub fn bring_loopback_up() -> io::Result<()> {
    // SAFETY: socket takes three integers; the descriptor has no other owner.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq` from the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The process before anything is loaded: its entry, memory by address and kernel calls. Only `entry` may use it.
#[cfg(own_entry)]
pub(super) mod bare {
    use std::arch::{asm, naked_asm};

    /// Size of the area below the first stack frame for paths and the head of a file.
    pub const ROOM_BYTES: usize = 16 * 1024;
    /// The current directory of the process, for paths.
    pub const AT_CWD: usize = libc::AT_FDCWD as usize;

    // SAFETY: the C library's start-up code and the linker define them; only their addresses are taken.
    unsafe extern "C" {
        fn _start();
        static _DYNAMIC: u8;
    }

    /// The program's entry, as `build.rs` names it to the linker: the kernel jumps here, or a loader that was started by hand.
    // SAFETY: nothing else has this name.
    #[unsafe(no_mangle)]
    // SAFETY: `begin` gets the stack as it was, with room below it, and continues with the stack and the register that a loader
    // has left a function in as they were.
    #[unsafe(naked)]
    pub extern "C" fn reedclaw_entry() {
        naked_asm!(
            "mov r12, rsp",
            "mov r13, rdx",
            "sub rsp, {room}",
            "and rsp, -16",
            "mov rdi, r12",
            "mov rsi, rsp",
            "lea rdx, [rip + reedclaw_entry]",
            "lea rcx, [rip + {start}]",
            "lea r8, [rip + {dynamic}]",
            "call {begin}",
            "mov rsp, r12",
            "mov rdx, r13",
            "jmp rax",
            room = const ROOM_BYTES,
            start = sym _start,
            dynamic = sym _DYNAMIC,
            begin = sym super::super::entry::begin,
        )
    }

    pub fn byte(at: usize) -> u8 {
        let value: u32;
        // SAFETY: all addresses lie in what the kernel has put on the stack, in the room below it, in the program or in mappings
        // that `entry` has made.
        unsafe { asm!("movzx {:e}, byte ptr [{}]", out(reg) value, in(reg) at, options(nostack, readonly)) };
        value as u8
    }

    pub fn half(at: usize) -> u32 {
        let value: u32;
        // SAFETY: as in `byte`.
        unsafe { asm!("mov {:e}, dword ptr [{}]", out(reg) value, in(reg) at, options(nostack, readonly)) };
        value
    }

    pub fn word(at: usize) -> usize {
        let value;
        // SAFETY: as in `byte`.
        unsafe { asm!("mov {}, qword ptr [{}]", out(reg) value, in(reg) at, options(nostack, readonly)) };
        value
    }

    /// Writes a byte and returns the address of the next one.
    pub fn put(to: usize, byte: u8) -> usize {
        // SAFETY: as in `byte`; only the kernel's vectors, the room and mappings are written to, which are the process's own.
        unsafe { asm!("mov byte ptr [{}], {}", in(reg) to, in(reg_byte) byte, options(nostack)) };
        to + 1
    }

    pub fn set_word(to: usize, word: usize) {
        // SAFETY: as in `put`.
        unsafe { asm!("mov qword ptr [{}], {}", in(reg) to, in(reg) word, options(nostack)) };
    }

    pub fn is_error(result: usize) -> bool {
        result > usize::MAX - 4096
    }

    pub fn call(number: libc::c_long, arguments: [usize; 6]) -> usize {
        let result;
        // SAFETY: pointers among the arguments lead to memory as described at `byte`; the kernel clobbers these registers.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number as usize => result,
                in("rdi") arguments[0],
                in("rsi") arguments[1],
                in("rdx") arguments[2],
                in("r10") arguments[3],
                in("r8") arguments[4],
                in("r9") arguments[5],
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        result
    }
}
