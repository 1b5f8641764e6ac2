"""What a program tries against its sandbox, one function for each case: exit status 0 if it got through."""

import array
import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
import termios
import time

LIBC = ctypes.CDLL(None, use_errno=True)
ENV = os.environ
OUT = ENV.get("OUT", "")
HOME = ENV.get("HOME", "")
CALLS = {
    "x86_64": {"openat2": 437, "setns": 308, "mount": 165, "pivot_root": 155, "umount2": 166, "ptrace": 101,
               "io_uring_setup": 425, "bpf": 321, "add_key": 248, "keyctl": 250, "perf_event_open": 298, "mknod": 133,
               "open_tree": 428, "process_vm_readv": 310, "unshare": 272, "clone": 56, "semget": 64, "shmget": 29,
               "shmat": 30, "mq_open": 240, "open_by_handle_at": 304, "pidfd_getfd": 438, "clone3": 435, "setxattrat": 463, "file_setattr": 469,
               "ioprio_set": 251},
    "aarch64": {"openat2": 437, "setns": 268, "mount": 40, "pivot_root": 41, "umount2": 39, "ptrace": 117,
                "io_uring_setup": 425, "bpf": 280, "add_key": 217, "keyctl": 219, "perf_event_open": 241, "open_tree": 428,
                "process_vm_readv": 270, "unshare": 97, "clone": 220, "semget": 190, "shmget": 194, "shmat": 196,
                "mq_open": 180, "open_by_handle_at": 265, "pidfd_getfd": 438, "clone3": 435,
                "setxattrat": 463, "file_setattr": 469, "ioprio_set": 30},
}[os.uname().machine]
CLONE_NEWUSER = 0x10000000
CLONE_NEWNS = 0x20000


def call(name, *arguments):
    """A system call; raises what it fails with."""
    ctypes.set_errno(0)
    result = LIBC.syscall(CALLS[name], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def held(attempt, expected=(errno.EPERM,)):
    """The attempt must be refused as expected: any other error may only say that this kernel lacks it."""
    try:
        attempt()
    except OSError as error:
        print(error)
        sys.exit(1 if error.errno in expected else 0)
    sys.exit(0)


# Metadata outside.


def chmod_outside(): os.chmod(f"{OUT}/canary.txt", 0o600)
def chmod_by_descriptor(): os.fchmod(os.open(f"{OUT}/canary.txt", os.O_RDONLY), 0o600)
def chown_outside(): os.chown(f"{OUT}/canary.txt", os.getuid(), os.getgid())
def utime_outside(): os.utime(f"{OUT}/canary.txt", (1, 1))
def utime_by_descriptor(): os.utime(os.open(f"{OUT}/canary.txt", os.O_RDONLY), (1, 1))
def setxattr_outside(): os.setxattr(f"{OUT}/canary.txt", "user.reached", b"1")
def setxattrat_outside():
    value = ctypes.create_string_buffer(b"1", 1)
    arguments = struct.pack("=QII", ctypes.addressof(value), 1, 0)
    held(lambda: call("setxattrat", -100, f"{OUT}/canary.txt".encode(), 0, b"user.reached", arguments, len(arguments)),
         (errno.ENOSYS,))
def file_setattr_outside():
    # struct file_attr: flags, extent size, extents, project, copy-on-write size; 0x40 is "no dump".
    held(lambda: call("file_setattr", -100, f"{OUT}/canary.txt".encode(), struct.pack("=QIIII", 0x40, 0, 0, 0, 0), 24, 0),
         (errno.ENOSYS,))
def request_outside(path, number, argument):
    descriptor = os.open(path, os.O_RDONLY)
    held(lambda: fcntl.ioctl(descriptor, number, argument))
# FS_IOC_SETFLAGS "no dump", FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY (version 1, SHA-256, blocks of 4096 bytes), BTRFS_IOC_SUBVOL_CREATE.
def flags_by_ioctl(): request_outside(f"{OUT}/canary.txt", 0x40086602, struct.pack("=Q", 0x40))
def attributes_by_ioctl(): request_outside(f"{OUT}/canary.txt", 0x401c5820, struct.pack("=IIIII8x", 0x80, 0, 0, 0, 0))
def verity_by_ioctl(): request_outside(f"{OUT}/canary.txt", 0x40806685, struct.pack("=III116x", 1, 1, 4096))
def subvolume_by_ioctl(): request_outside(OUT, 0x5000940e, bytearray(struct.pack("=q4088s", 0, b"made")))
def chmod_ssh_key(): os.chmod(f"{HOME}/.ssh/id_rsa", 0o666)
def chmod_by_link():
    if not os.path.lexists("way"):
        os.symlink(f"{OUT}/canary.txt", "way")
    os.chmod("way", 0o600)
def rename_outside(): os.rename(f"{OUT}/canary.txt", f"{OUT}/moved.txt")
def exchange_with_outside():
    # RENAME_EXCHANGE
    if LIBC.renameat2(-100, b"own.txt", -100, f"{OUT}/canary.txt".encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")


# Bits that make a file run as its owner or group, and devices.


def setuid_by_openat_mode():
    os.close(os.open("t", os.O_CREAT | os.O_WRONLY, 0o4755))
    sys.exit(0 if os.stat("t").st_mode & 0o4000 else 1)


def setuid_by_openat2():
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    held(lambda: call("openat2", -100, b"t", how, 24), (errno.ENOSYS,))


def mknod_device(): held(lambda: os.mknod("d", 0o20666, os.makedev(1, 3)))
def mknod_whiteout(): held(lambda: os.mknod("d", 0o20000, 0))
def fake_opaque_xattr(): os.setxattr("sub", "user.overlay.opaque", b"y")
def fake_whiteout_xattr(): os.setxattr("own.txt", "user.overlay.whiteout", b"y")
def fake_redirect_xattr(): os.setxattr("sub", "user.overlay.redirect", b"/outside")


# Networks and sockets.


def connects(family, kind, address):
    with socket.socket(family, kind) as other:
        other.settimeout(1)
        try:
            other.connect(address)
            other.send(b"out")
        except TimeoutError:
            # It went out, wherever it got.
            pass


def tcp4_out(): connects(socket.AF_INET, socket.SOCK_STREAM, (ENV["HOSTADDR"], int(ENV["PORT"])))
def tcp6_out(): connects(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80))
def udp_dns(): connects(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))
def udp_message_header():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendmsg([b"out"], [], 0, ("192.0.2.1", 53))
def tcp_fast_open():
    # Connects as it sends, without a call of `connect`.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.settimeout(1)
        other.sendto(b"out", 0x20000000, ("127.0.0.1", int(ENV["PORT"])))
def mptcp():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as other:
        other.connect(("127.0.0.1", int(ENV["PORT"])))
def raw(): socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
def ping_socket(): connects(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 0))
def vsock(): held(lambda: socket.socket(40, socket.SOCK_STREAM))
def af_alg(): held(lambda: socket.socket(38, socket.SOCK_SEQPACKET))
def packet(): held(lambda: socket.socket(17, socket.SOCK_RAW))
def host_loopback_port(): connects(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(ENV["PORT"])))
def abstract_socket(): connects(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + ENV["ABSTRACT"])
def docker_socket(): connects(socket.AF_UNIX, socket.SOCK_STREAM, ENV["SOCKET_TMP"])
def session_bus(): connects(socket.AF_UNIX, socket.SOCK_STREAM, f"{OUT}/bus")
def socket_of_workspace(): connects(socket.AF_UNIX, socket.SOCK_STREAM, "service.sock")


def netlink_audit(): held(lambda: socket.socket(16, socket.SOCK_RAW, 9))


def netlink_write():
    # RTM_NEWLINK on interface 1: bring it down.
    message = struct.pack("IHHII", 32, 16, 5, 1, 0) + struct.pack("BBHiII", 0, 0, 0, 1, 0, 1)
    with socket.socket(16, socket.SOCK_RAW, 0) as route:
        route.send(message)
        answer = route.recv(4096)
    code = struct.unpack_from("i", answer, 16)[0]
    if code != 0:
        raise OSError(-code, "netlink")


# Memory that processes share.


def shmat_user_segment():
    segment = call("shmget", int(ENV["SHMKEY"]), 0, 0o600)
    LIBC.shmat.restype = ctypes.c_void_p
    at = LIBC.shmat(segment, None, 0)
    if at == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "shmat")
    ctypes.memmove(at, b"bad", 3)


def semaphores(): call("semget", int(ENV["SHMKEY"]), 1, 0o600)
def ipc_by_id():
    segment, semaphores, queue = (int(number) for number in open(f"{os.path.dirname(ENV['PROBE'])}/ids").read().split())
    status = ctypes.create_string_buffer(1024)
    # IPC_STAT, GETVAL, IPC_STAT: whoever gets so far can delete them.
    reached = [LIBC.shmctl(segment, 2, status), LIBC.semctl(semaphores, 0, 12), LIBC.msgctl(queue, 2, status)]
    sys.exit(0 if max(reached) >= 0 else 1)
def posix_mq(): call("mq_open", ENV["MQ"][1:].encode(), os.O_RDWR, 0, None)
def posix_mq_new(): held(lambda: call("mq_open", ENV["MQ"][1:].encode() + b"n", os.O_RDWR | os.O_CREAT, 0o600, None))
def dev_shm_file(): open(f"/dev/shm/{ENV['DEVSHM']}").read()


# Other processes.


def renice_outside(): held(lambda: os.setpriority(os.PRIO_PROCESS, int(ENV["VICTIM"]), 19), (errno.EPERM, errno.ESRCH))
# A user without processes: whether the call is made at all is seen without making anybody's slower.
def renice_user(): held(lambda: os.setpriority(os.PRIO_USER, 64_999, 19))
def schedule_outside():
    held(lambda: os.sched_setscheduler(int(ENV["VICTIM"]), os.SCHED_IDLE, os.sched_param(0)), (errno.EPERM, errno.ESRCH))
def affinity_outside(): held(lambda: os.sched_setaffinity(int(ENV["VICTIM"]), {0}), (errno.EPERM, errno.ESRCH))
def ioprio_outside():
    # The idle class, for one process.
    held(lambda: call("ioprio_set", 1, int(ENV["VICTIM"]), 3 << 13), (errno.EPERM, errno.ESRCH))
def limit_outside():
    held(lambda: resource.prlimit(int(ENV["VICTIM"]), resource.RLIMIT_NOFILE, (0, 0)), (errno.EPERM, errno.ESRCH))
def signal_by_descriptor():
    held(lambda: signal.pidfd_send_signal(os.pidfd_open(int(ENV["VICTIM"])), 9), (errno.EPERM, errno.ESRCH, errno.ENOSYS))
def signal_by_input():
    # A file that is ready sends a signal to its owner: F_SETOWN, F_SETSIG (10), O_ASYNC.
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, int(ENV["VICTIM"]))
    fcntl.fcntl(reader, 10, 9)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")
    time.sleep(0.1)
    with open(f"/proc/{ENV['VICTIM']}/stat") as state:
        sys.exit(0 if state.read().rsplit(")", 1)[1].split()[0] in "ZX" else 1)
def oom_score_outside(): open(f"/proc/{ENV['VICTIM']}/oom_score_adj", "w").write("1000")
def kill_outside(): os.kill(int(ENV["VICTIM"]), 9)
def ptrace_outside(): held(lambda: call("ptrace", 16, int(ENV["VICTIM"]), 0, 0), (errno.EPERM, errno.ESRCH))
def ptrace_own():
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    held(lambda: call("ptrace", 16, child, 0, 0))
def process_vm_readv(): held(lambda: call("process_vm_readv", os.getpid(), None, 0, None, 0, 0))
def proc_pid_environ(): sys.exit(0 if open(f"/proc/{ENV['VICTIM']}/environ", "rb").read() else 1)
def proc_pid_root(): os.listdir(f"/proc/{ENV['VICTIM']}/root/")
def proc_mem(): open(f"/proc/{ENV['VICTIM']}/mem", "rb")
def keeper_by_proc(): open("/proc/1/mem", "r+b")
def keeper_root(): open(f"/proc/1/root{ENV['HOSTONLY']}")
def keeper_descriptors():
    for number in os.listdir("/proc/1/fd"):
        try:
            os.open("/proc/1/fd/" + number, os.O_RDONLY | os.O_NONBLOCK)
            sys.exit(0)
        except OSError:
            pass
    sys.exit(1)
def pidfd_of_keeper():
    def get():
        call("pidfd_getfd", os.pidfd_open(1), 0, 0)
    held(get)


# The kernel's own doors.


def nested_userns(): held(lambda: call("unshare", CLONE_NEWUSER))
def clone_userns():
    def clone():
        if call("clone", CLONE_NEWUSER | 17, 0, 0, 0, 0) == 0:
            os._exit(0)
    held(clone)
def clone3_userns(): held(lambda: call("clone3", struct.pack("Q", CLONE_NEWUSER) + bytes(80), 88), (errno.ENOSYS,))
def setns_by_fd():
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    held(lambda: call("setns", own, 0))
def mount(): held(lambda: call("mount", b"none", b".", b"tmpfs", 0, None))
def remount(): held(lambda: call("mount", None, b"/", None, 32 | 4096, None))
def open_tree(): held(lambda: call("open_tree", -100, b"/", 1))
def pivot_again(): held(lambda: call("pivot_root", b".", b"."))
def umount_masks(): held(lambda: call("umount2", os.path.realpath("secret").encode(), 2))
def by_handle(): held(lambda: call("open_by_handle_at", -100, bytes(16), 0))
def io_uring(): held(lambda: call("io_uring_setup", 1, ctypes.create_string_buffer(256)))
def bpf(): held(lambda: call("bpf", 0, ctypes.create_string_buffer(128), 128))
def keyctl(): held(lambda: call("keyctl", 0, -3, 0))
def perf(): held(lambda: call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0))


def request(*numbers):
    """Each is refused before the kernel asks what is open there."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in numbers:
        try:
            fcntl.ioctl(null, number, 0)
        except OSError as error:
            if error.errno == errno.EPERM:
                continue
        print(hex(number))
        sys.exit(0)
    sys.exit(1)


# Whoever takes away the key of encrypted directories locks them.
def keys_by_ioctl(): request(0xc0506617, 0xc0406618, 0xc0406619)
def tiocsti(): request(termios.TIOCSTI)
def tiocsti_high_bits(): held(lambda: LIBC.ioctl(0, ctypes.c_ulong(0x100000000 | termios.TIOCSTI), b"x") and err())
def tioclinux(): request(termios.TIOCLINUX)
# The line discipline, the console's output, hanging up, the serial port, locks, a network device; keyboards and screens.
def terminal_requests():
    request(termios.TIOCSETD, termios.TIOCCONS, 0x5437, termios.TIOCSSERIAL, 0x542f, 0x5457, 0x5453, 0xc0285443, 0x400454ca)
def console_requests(): request(0x4b3a, 0x4b47, 0x4b49, 0x4b4e, 0x4b72, 0x5602, 0x5606, 0x5608, 0x560b)
def terminal_settings():
    # What programs do with a terminal; where none can be had, the answer must be that there is none.
    try:
        master, terminal = os.openpty()
    except OSError:
        master = terminal = os.open("/dev/null", os.O_RDWR)
    for number in (0x5401, 0x802c542a, 0x540f, 0x5413, 0x5424, 0x541b, 0x80045440):
        try:
            fcntl.ioctl(terminal, number, bytearray(256))
        except OSError as error:
            if error.errno == errno.EPERM:
                sys.exit(1)
    if master == terminal:
        return
    import pty, tty
    tty.setraw(terminal)
    termios.tcdrain(terminal)
    termios.tcflush(terminal, termios.TCIOFLUSH)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 10, 20, 0, 0))
    child, own = pty.fork()
    if child == 0:
        os._exit(0 if os.get_terminal_size() and os.tcgetpgrp(0) == os.getpgrp() else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
def err(): raise OSError(ctypes.get_errno(), "ioctl")


# Processes that stay, and things that are too many.


def double_fork():
    if os.fork() == 0:
        try:
            os.setsid()
        except OSError:
            os.setpgid(0, 0)
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", ENV["WORD"]])
        os._exit(0)


def fork_bomb():
    """Counted, not let loose: each child waits to be ended."""
    made = 0
    while made < 3000:
        try:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        except OSError:
            sys.exit(1)
        made += 1


def deep_tree():
    for _ in range(300):
        os.mkdir("a-name-of-thirty-characters-xx")
        os.chdir("a-name-of-thirty-characters-xx")
    open("bottom", "w").close()


def many_files():
    os.mkdir("many")
    for number in range(3000):
        open(f"many/{number}", "w").close()


def inherited_descriptor(): os.read(int(ENV["FD"]), 10)


def cwd_of_old_root():
    for _ in range(60):
        os.chdir("..")
    open(ENV["HOSTONLY"].lstrip("/"))


# Run outside, before a case: what a program of the user's has.


def outside_ipc():
    segment = call("shmget", int(ENV["SHMKEY"]), 4096, 0o1600)
    semaphores = call("semget", int(ENV["SHMKEY"]), 1, 0o1600)
    queue = LIBC.msgget(int(ENV["SHMKEY"]), 0o1600)
    with open(f"{os.path.dirname(ENV['PROBE'])}/ids", "w") as ids:
        print(segment, semaphores, queue, file=ids)
    # One message of one byte: the queues of a user share a small limit, and those of a killed test stay.
    attributes = struct.pack("8l", 0, 1, 1, 0, 0, 0, 0, 0)
    call("mq_open", ENV["MQ"][1:].encode(), os.O_RDWR | os.O_CREAT, 0o600, attributes)
    print(segment)


def outside_ipc_gone():
    LIBC.shmctl(LIBC.shmget(int(ENV["SHMKEY"]), 0, 0), 0, None)
    LIBC.semctl(LIBC.semget(int(ENV["SHMKEY"]), 0, 0), 0, 0)
    LIBC.msgctl(LIBC.msgget(int(ENV["SHMKEY"]), 0), 0, None)
    os.close(os.open("/dev/null", os.O_RDONLY))
    ctypes.CDLL("librt.so.1").mq_unlink(ENV["MQ"].encode())


def outside_key():
    # In the keyring of the user, where the kernel lets a test have one; it goes after a minute.
    try:
        key = call("add_key", b"user", b"reedclaw-test", b"x", 1, -4)
        call("keyctl", 15, key, 60)
    except OSError as error:
        print(error)


if __name__ == "__main__":
    try:
        globals()[sys.argv[1]]()
    except OSError as error:
        print(error)
        sys.exit(1)
