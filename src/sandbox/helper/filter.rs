//! System calls that nothing of ours needs and an escape would: refused by seccomp, for this process and all it starts.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use crate::sandbox::Tier;

/// Refused whatever their arguments: looking into other processes, mounts and namespaces, the kernel's own doors, keys,
/// the clock. `io_uring` makes calls that no filter sees.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
/// Calls that change attributes, or mount, and that came with Linux 6.13 to 6.17: `setxattrat`, `removexattrat`,
/// `open_tree_attr`, `file_setattr`. Their numbers are the same on all architectures, and the C library's bindings have no
/// names for them yet.
const NEWEST: [i64; 4] = [463, 466, 467, 469];
/// Namespaces that a `clone` could make: user, mount, process, network, IPC, UTS, cgroup.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// The bit of the numbers of x32, a second way to make each call.
const X32_BIT: u32 = 0x4000_0000;

/// Calls that change modes, owners, times and attributes of any file of the user's: Landlock has no right for them, so a
/// program that only looks doesn't get them.
const METADATA: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_futimesat,
    libc::SYS_lchown,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    libc::SYS_utime,
    libc::SYS_utimensat,
    libc::SYS_utimes,
];
/// Shared memory, semaphores and queues of the user, if there is no separate namespace for them. A guessed number is enough to
/// delete one.
const SHARED: &[i64] = &[
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];
/// Calls that take permission bits, and at which place: what they make may not run as its owner or group.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_chmod, 1),
    (libc::SYS_creat, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
];

/// The requests to a terminal that programs use. The others push keys into its input, change the console, the serial port or the
/// line discipline (for which the kernel loads a module), hang it up, or lock its settings.
const OF_TERMINALS: [u64; 54] = [
    libc::TCGETS,
    libc::TCSETS,
    libc::TCSETSW,
    libc::TCSETSF,
    libc::TCGETA,
    libc::TCSETA,
    libc::TCSETAW,
    libc::TCSETAF,
    libc::TCGETS2,
    libc::TCSETS2,
    libc::TCSETSW2,
    libc::TCSETSF2,
    libc::TCSBRK,
    libc::TCSBRKP,
    libc::TCXONC,
    libc::TCFLSH,
    libc::TIOCEXCL,
    libc::TIOCNXCL,
    libc::TIOCSCTTY,
    libc::TIOCNOTTY,
    libc::TIOCGPGRP,
    libc::TIOCSPGRP,
    libc::TIOCGSID,
    libc::TIOCOUTQ,
    libc::TIOCGWINSZ,
    libc::TIOCSWINSZ,
    libc::TIOCMGET,
    libc::TIOCMBIS,
    libc::TIOCMBIC,
    libc::TIOCMSET,
    libc::TIOCGSOFTCAR,
    libc::TIOCSSOFTCAR,
    libc::TIOCGSERIAL,
    libc::TIOCPKT,
    libc::TIOCGETD,
    libc::TIOCSBRK,
    libc::TIOCCBRK,
    libc::TIOCGRS485,
    libc::TIOCGPTN,
    libc::TIOCSPTLCK,
    libc::TIOCGPTPEER,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
    libc::FIOASYNC,
    0x8004_5432, // TIOCGDEV
    0x4004_5436, // TIOCSIG
    0x8004_5438, // TIOCGPKT
    0x8004_5439, // TIOCGPTLCK
    0x8004_5440, // TIOCGEXCL
    0x5456,      // TIOCGLCKTRMIOS
    0x545d,      // TIOCGICOUNT
    0x5460,      // FIOQSIZE
];
/// The requests to the keyboard and the screens of the console, without the last byte: nothing of ours needs one.
const OF_THE_CONSOLE: [u64; 2] = [0x4b00, 0x5600];
/// Requests of `ioctl` that write without a descriptor for writing: they change attributes of any file of the user's, close it to
/// writing for good, lock the user's encrypted directories, or make and delete directories of btrfs, which Landlock doesn't see.
/// Their numbers are the same on all architectures that filters can be made for, as are those of terminals.
const REQUESTS: [u64; 18] = [
    0x4008_6602, // FS_IOC_SETFLAGS
    0x4008_6604, // EXT4_IOC_SETVERSION
    0x4008_7602, // FS_IOC_SETVERSION
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x4004_7211, // FAT_IOCTL_SET_ATTRIBUTES
    0x4080_6685, // FS_IOC_ENABLE_VERITY
    0x800c_6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0xc050_6617, // FS_IOC_ADD_ENCRYPTION_KEY
    0xc040_6618, // FS_IOC_REMOVE_ENCRYPTION_KEY
    0xc040_6619, // FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0x5000_940e, // BTRFS_IOC_SUBVOL_CREATE
    0x5000_940f, // BTRFS_IOC_SNAP_DESTROY
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x5000_9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x4008_941a, // BTRFS_IOC_SUBVOL_SETFLAGS
    0xc0c8_9425, // BTRFS_IOC_SET_RECEIVED_SUBVOL
    0x5000_943f, // BTRFS_IOC_SNAP_DESTROY_V2
];

/// The networks of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) enum Network {
    /// None, or a loopback of its own.
    Own,
    /// The machine's networks.
    Machine,
    /// The same, with Unix sockets: something else blocks the abstract ones of others.
    MachineAndUnix,
}

impl Network {
    pub(in crate::sandbox) fn of(has_network: bool) -> Self {
        if has_network { Self::Machine } else { Self::Own }
    }
}

/// Makes the filters: calls that are refused, and calls that fail as if the kernel were older. `is_look` says that the program
/// may write nothing but its own temporary files.
///
/// # Errors
/// Filters can't be made for this machine's architecture.
pub(in crate::sandbox) fn make(tier: Tier, network: Network, is_look: bool) -> Result<Vec<BpfProgram>, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|problem| format!("seccomp: {problem}"))?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    let failed = |problem: seccompiler::BackendError| format!("seccomp: {problem}");
    rules.extend(sockets(tier, network).map_err(failed)?);
    let inner: Result<Vec<SeccompRule>, _> = NAMESPACES
        .iter()
        .map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            rule(&[(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)])
        })
        .collect();
    rules.insert(libc::SYS_clone, inner.map_err(failed)?);
    rules.insert(libc::SYS_ioctl, requests().map_err(failed)?);
    // Limits of another process: none of processor time kills it.
    let other = rule(&[(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)]).map_err(failed)?;
    rules.insert(libc::SYS_prlimit64, vec![other]);
    rules.extend(modes().map_err(failed)?);
    if tier == Tier::Landlock {
        // Its session is the means to find all of it at the end.
        rules.insert(libc::SYS_setsid, Vec::new());
        rules.extend(scheduling().map_err(failed)?);
        rules.extend(SHARED.iter().map(|number| (*number, Vec::new())));
        if is_look {
            rules.extend(METADATA.iter().map(|number| (*number, Vec::new())));
        }
    }
    // A filter can't read flags and modes that lie in memory. If the kernel seems to have no such calls, libraries use the
    // older ones.
    let newer = [libc::SYS_clone3, libc::SYS_openat2].into_iter().chain(NEWEST);
    let newer = newer.map(|number| (number, Vec::new())).collect();
    let refused = u32::try_from(libc::EPERM).unwrap_or_default();
    let unknown = u32::try_from(libc::ENOSYS).unwrap_or_default();
    let programs = [(rules, refused), (newer, unknown)].map(|(rules, error)| {
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), arch)?;
        BpfProgram::try_from(filter)
    });
    let mut programs: Vec<BpfProgram> = programs.into_iter().collect::<Result<_, _>>().map_err(failed)?;
    if arch == TargetArch::x86_64
        && let Some(first) = programs.first_mut()
    {
        first.splice(0..0, refuse_x32(refused));
    }
    Ok(programs)
}

/// Returns the requests of `ioctl` that are refused, regardless of the upper half of the number, which the kernel ignores.
fn requests() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    /// The byte that says what a request is for; terminals have `T`.
    const KIND: u64 = 0xff00;
    let is = |condition: SeccompCmpOp, value: u64| (1, SeccompCmpArgLen::Dword, condition, value);
    let other: Vec<_> = [is(SeccompCmpOp::MaskedEq(KIND), u64::from(b'T') << 8)]
        .into_iter()
        .chain(OF_TERMINALS.map(|request| is(SeccompCmpOp::Ne, request)))
        .collect();
    let console = OF_THE_CONSOLE.map(|kind| rule(&[is(SeccompCmpOp::MaskedEq(0xffff_ff00), kind)]));
    let files = REQUESTS.map(|request| rule(&[is(SeccompCmpOp::Eq, request)]));
    [rule(&other)].into_iter().chain(console).chain(files).collect()
}

/// Bits that make a file run as its owner or group are refused, and so are device nodes.
fn modes() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let bits = |at: u8, mask: u32, value: u32| {
        let condition = SeccompCmpOp::MaskedEq(u64::from(mask));
        rule(&[(at, SeccompCmpArgLen::Dword, condition, u64::from(value))])
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (number, at) in MODES {
        let refused = rules.entry(*number).or_default();
        for bit in [libc::S_ISUID, libc::S_ISGID] {
            refused.push(bits(*at, bit, bit)?);
        }
        if [libc::SYS_mknod, libc::SYS_mknodat].contains(number) {
            for kind in [libc::S_IFCHR, libc::S_IFBLK] {
                refused.push(bits(*at, libc::S_IFMT, kind)?);
            }
        }
    }
    Ok(rules)
}

/// Priorities and processors of other processes are refused if all of the user's processes are visible: a process that was slowed
/// down can't be sped up again.
fn scheduling() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    /// `IOPRIO_WHO_USER` of linux/ioprio.h.
    const IOPRIO_WHO_USER: u64 = 3;
    let is = |at: u8, compare: SeccompCmpOp, value: u64| rule(&[(at, SeccompCmpArgLen::Dword, compare, value)]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for number in
        [libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler]
    {
        rules.insert(number, vec![is(0, SeccompCmpOp::Ne, 0)?]);
    }
    for (number, user) in [(libc::SYS_setpriority, u64::from(libc::PRIO_USER)), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)]
    {
        rules.insert(number, vec![is(0, SeccompCmpOp::Eq, user)?, is(1, SeccompCmpOp::Ne, 0)?]);
    }
    Ok(rules)
}

/// Adds the rules that refuse kinds of sockets.
fn sockets(tier: Tier, network: Network) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let not_one_of = |families: &[i32]| {
        let conditions: Vec<_> = families
            .iter()
            .map(|family| (0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
            .collect();
        rule(&conditions)
    };
    let mut rules = match (tier, network) {
        // Unix sockets reach outside services that would act for the user: neither the absence of a network nor rights on files
        // nor a read-only file system closes them. The overlay tier covers them; elsewhere they are refused, or, with a network,
        // which opens abstract ones, allowed only if Landlock closes these.
        (_, Network::Machine) | (Tier::Bubblewrap, Network::Own) => {
            vec![not_one_of(&[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?]
        }
        (_, Network::MachineAndUnix) | (Tier::Overlay, Network::Own) => {
            vec![not_one_of(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?]
        }
        (Tier::Landlock | Tier::None, Network::Own) => Vec::new(),
    };
    if !rules.is_empty() {
        // Of the kernel's own sockets, that of routes, by which programs find their addresses.
        let (netlink, route) =
            (u64::from(libc::AF_NETLINK.cast_unsigned()), u64::from(libc::NETLINK_ROUTE.cast_unsigned()));
        rules.push(rule(&[
            (0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, netlink),
            (2, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, route),
        ])?);
    }
    Ok(BTreeMap::from([(libc::SYS_socket, rules)]))
}

/// Returns a rule that applies if all conditions do: argument, length, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpArgLen, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(argument, length, compare, value)| {
            SeccompCondition::new(*argument, length.clone(), compare.clone(), *value)
        })
        .collect();
    SeccompRule::new(conditions?)
}

/// Instructions before a program that refuse the calls of x32: load the number; below the bit continue; refuse.
fn refuse_x32(error: u32) -> [sock_filter; 3] {
    /// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JGE | BPF_K`, `BPF_RET | BPF_K` of linux/filter.h.
    const CODES: [u16; 3] = [0x20, 0x35, 0x06];
    [
        sock_filter { code: CODES[0], jt: 0, jf: 0, k: 0 },
        sock_filter { code: CODES[1], jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: CODES[2], jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | error },
    ]
}

/// A program as bytes, as the kernel and bubblewrap read it.
pub(in crate::sandbox) fn bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend_from_slice(&step.code.to_ne_bytes());
        bytes.extend_from_slice(&[step.jt, step.jf]);
        bytes.extend_from_slice(&step.k.to_ne_bytes());
    }
    bytes
}
