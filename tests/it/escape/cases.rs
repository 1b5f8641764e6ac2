//! The cases of the escape suite: what each attempts, and the result that is expected in each column. A flat table.

/// One attempt of a program.
pub struct Case {
    pub name: &'static str,
    /// Bash that the user runs in the workspace before the case, outside of the sandbox.
    pub setup: &'static str,
    /// Bash that runs in the sandbox: it succeeds if the attempt got through, as far as the sandbox can tell.
    pub script: &'static str,
    /// A letter for each column, in their order: copy, work (overlay), look, work (bubblewrap), look, work (Landlock).
    ///
    /// | letter | means |
    /// |---|---|
    /// | e | it fails |
    /// | d | it changes the copy, and is dropped with it |
    /// | D | the same, and the change is one of a protected file |
    /// | p | it succeeds, and changes nothing but what is private |
    /// | w | it changes the workspace, as was asked before |
    /// | b | it is more than is collected: nothing is kept |
    /// | r | the sandbox refuses to start it |
    /// | x | it gets through: known, and told to the user |
    /// | - | it doesn't apply |
    pub expected: &'static str,
}

const fn case(name: &'static str, setup: &'static str, script: &'static str, expected: &'static str) -> Case {
    Case { name, setup, script, expected }
}

const fn probe(name: &'static str, script: &'static str, expected: &'static str) -> Case {
    Case { name, setup: "", script, expected }
}

/// Fails in every column.
const NEVER: &str = "e e e e e e";
/// Landlock has no right for it, so it gets through if the workspace is open for writing; `doctor` reports that.
const UNHELD: &str = "e e e e e x";
/// Code of the repository runs: on the copy, or in a workspace that is open for it; never in a look.
const CODE: &str = "d w e w e w";
/// A forbidden path of the workspace: Landlock opens the paths beside it.
const HIDDEN: &str = NEVER;
/// A file that other programs run is written.
const PLANT: &str = "D e e e e w";
/// The same for a file that doesn't exist yet, so that it can't be locked.
const PLANT_NEW: &str = "D w e w e w";

pub const CASES: &[Case] = &[
    // Code of a hostile repository.
    case(
        "filter-name-not-utf8",
        r"git init -q .; echo '* filter=x' >.gitattributes; git config filter.x.clean 'touch ran $OUT/ran; cat'; touch $'a\xff'",
        "git add . ; test -e ran",
        PLANT_NEW,
    ),
    case(
        "embedded-bare-monitor",
        "git init -q --bare e/x; git -C e/x config core.bare false; git -C e/x config core.worktree .; \
         git -C e/x config core.fsmonitor 'touch ran $OUT/ran; false'",
        "git -C e/x status; test -e ran -o -e e/x/ran",
        CODE,
    ),
    case(
        "embedded-bare-config",
        "git init -q --bare e/x; git -C e/x config core.bare false; git -C e/x config core.worktree .; \
         git -C e/x config core.fsmonitor 'git config --file $PWD/config core.pager x; false'",
        "git -C e/x status; grep 'pager = ' e/x/config",
        PLANT_NEW,
    ),
    case(
        "xdg-git-config",
        "git init -q .; mkdir git; echo '[core] fsmonitor = \"touch ran $OUT/ran; false\"' >git/config",
        "XDG_CONFIG_HOME=. git status; test -e ran",
        CODE,
    ),
    case(
        "textconv-driver",
        "git init -q .; git add own.txt; echo more >>own.txt; echo '*.txt diff=x' >.gitattributes; \
         git config diff.x.textconv 'touch ran $OUT/ran; cat'",
        "git diff | cat; test -e ran",
        PLANT_NEW,
    ),
    case("sed-e-file", "echo '1e touch ran $OUT/ran' >s.sed", "sed -f s.sed own.txt; test -e ran", CODE),
    case("zdotdir-zsh", "echo 'touch ran $OUT/ran' >.zshenv", "ZDOTDIR=. zsh -c true; test -e ran", CODE),
    case(
        "strace-pipe",
        "",
        "strace -o '|touch ran $OUT/ran' true; for i in $(seq 40); do test -e ran && exit; sleep 0.1; done; false",
        CODE,
    ),
    case("gconv-path", LIBRARY, "GCONV_PATH=. iconv -f RC -t UTF-8 own.txt; test -e ran", CODE),
    case("ld-preload", LIBRARY, "LD_PRELOAD=./x.so /bin/true; test -e ran", CODE),
    case("makefile", "printf 'all:\\n\\ttouch ran $$OUT/ran\\n' >Makefile", "make; test -e ran", CODE),
    // Secrets, and other hidden paths.
    probe(
        "getline-ssh-key",
        r#"awk 'BEGIN { while ((getline l < (ENVIRON["HOME"] "/.ssh/id_rsa")) > 0) print l }' | grep ."#,
        NEVER,
    ),
    probe("diff-no-index-home", "git diff --no-index /dev/null ~/.ssh/id_rsa | grep SECRET", NEVER),
    probe("grep-r-from-home", "cd ~; grep -rs SECRET-KEY .", NEVER),
    probe("xargs-a-outside", "xargs -a ~/.netrc echo | grep SECRET", NEVER),
    probe("json-tool-outside", "python3 -m json.tool ~/.docker/config.json | grep SECRET", NEVER),
    probe("key-through-proc", "cat /proc/self/root$HOME/.ssh/id_rsa /proc/self/cwd/../.ssh/id_rsa | grep .", NEVER),
    probe("key-by-rename", "mv ~/.ssh stolen && cat stolen/id_rsa", NEVER),
    case("forbidden-by-grep-r", FORBIDDEN, "grep -rs FORBIDDEN-TEXT .", HIDDEN),
    case("forbidden-by-link", FORBIDDEN, "ln -s secret/forbidden.txt l; cat l $PWD/l | grep FORBIDDEN", HIDDEN),
    case("forbidden-by-hardlink", FORBIDDEN, "ln secret/forbidden.txt h; cat h | grep FORBIDDEN", HIDDEN),
    case("forbidden-by-rename", FORBIDDEN, "mv secret s; cat s/forbidden.txt | grep FORBIDDEN", HIDDEN),
    case("forbidden-by-tar", FORBIDDEN, "tar cf - . | grep -a FORBIDDEN-TEXT", HIDDEN),
    // A link with a locked name that leads to a hidden path.
    case("unmask-by-locked-name", "ln -s ../.netrc .envrc", "cat ~/.netrc .envrc | grep SECRET", NEVER),
    case(
        "unmask-forbidden",
        "echo FORBIDDEN-TEXT >secret; ln -s secret .envrc",
        "cat secret .envrc | grep TEXT",
        NEVER,
    ),
    case(
        "locked-name-into-mask",
        "mkdir secret; echo FORBIDDEN-TEXT >secret/forbidden.txt; ln -s secret/forbidden.txt .envrc",
        "test -L .envrc",
        "p p p p p p",
    ),
    // Git's objects contain the files that were committed.
    case("forbidden-by-git-show", COMMITTED, "git show HEAD:secret/forbidden.txt | grep -q FORBIDDEN", "p p p p p p"),
    // Files that other programs run.
    case("plant-git-config", REPOSITORY, "echo '[core] pager = x' >>.git/config", PLANT),
    case("plant-hook", REPOSITORY, "echo x >.git/hooks/pre-commit", PLANT),
    case("plant-attributes", REPOSITORY, "echo '* filter=x' >>.git/info/attributes", PLANT),
    probe("plant-cargo-config", "mkdir -p .cargo; echo x >.cargo/config.toml", PLANT_NEW),
    probe("plant-envrc", "echo x >.envrc", PLANT_NEW),
    probe("plant-agents", "echo x >AGENTS.md", PLANT_NEW),
    probe("plant-in-nested-git", "mkdir -p sub/.git/hooks; echo x >sub/.git/hooks/pre-commit", PLANT_NEW),
    case(
        "plant-submodule-config",
        REPOSITORY,
        "mkdir -p .git/modules/x; echo x >.git/modules/x/config",
        "D we e we e w",
    ),
    case(
        "plant-worktree-gitdir",
        REPOSITORY,
        "mkdir -p .git/worktrees/x; echo x >.git/worktrees/x/gitdir",
        "D we e we e w",
    ),
    case(
        "plant-by-rename-of-parent",
        REPOSITORY,
        "cp -r .git g; echo x >>g/config; mv .git old && mv g .git",
        "D ew e ew e w",
    ),
    case("plant-by-link", REPOSITORY, "echo x >target; ln -sf ../../target .git/hooks/pre-commit", PLANT),
    case("plant-executable-bit", "echo x >.envrc; chmod 600 .envrc", "chmod 755 .envrc", "D e e e e w"),
    // Each makes an ordinary command of the person run code or write outside.
    case(
        "plant-filter-of-git-config",
        "git init -q .; git config filter.x.clean 'sh tools/clean %f'; mkdir tools",
        "echo 'touch ran' >tools/clean",
        PLANT_NEW,
    ),
    probe(
        "plant-bare-repository",
        "git init -q --bare docs; git config --file docs/config core.fsmonitor 'touch ran'",
        PLANT_NEW,
    ),
    case(
        "plant-bare-config",
        "git init -q --bare docs",
        "git config --file docs/config core.fsmonitor 'touch ran'",
        PLANT_NEW,
    ),
    // A push to a bare repository in the workspace runs it.
    case("plant-hook-of-bare", "git init -q --bare docs", "echo x >docs/hooks/update", PLANT_NEW),
    probe("plant-loaded-by-envrc", "echo x >.envrc.local", PLANT_NEW),
    case("plant-alternates", REPOSITORY, "echo $OUT >.git/objects/info/alternates", CODE),
    probe("fifo", "mkfifo f", "d w e w e w"),
    // Git appends to it, and a shell would run the name of a branch as a command.
    case("plant-link-for-reflog", "git init -q .; mkdir -p .git/logs", "ln -s ~/.bashrc .git/logs/HEAD", PLANT_NEW),
    probe("plant-link-out", "ln -s ../.bashrc build.log", PLANT_NEW),
    probe("plant-link-to-protected", "ln -s .envrc build.log", PLANT_NEW),
    // Neither can be written directly; the home can, through the first.
    probe("plant-link-to-root", "ln -s / dist", PLANT_NEW),
    case("plant-link-to-key", "echo k >$OUT/key; chmod 400 $OUT/key", "ln -s $OUT/key key.pem", PLANT_NEW),
    probe("plant-link-above-protected", "mkdir k; echo x >k/config.toml; ln -s k .cargo", PLANT_NEW),
    case(
        "plant-through-link",
        "mkdir tools; echo x >tools/guide.md; ln -s tools/guide.md AGENTS.md",
        "echo evil >tools/guide.md",
        PLANT,
    ),
    // Metadata of files outside.
    probe("chmod-outside", "python3 -IS $PROBE chmod_outside", UNHELD),
    probe("chmod-by-descriptor", "python3 -IS $PROBE chmod_by_descriptor", UNHELD),
    probe("chmod-by-link", "python3 -IS $PROBE chmod_by_link", UNHELD),
    probe("chown-outside", "python3 -IS $PROBE chown_outside", UNHELD),
    probe("utime-outside", "python3 -IS $PROBE utime_outside", UNHELD),
    probe("utime-by-descriptor", "python3 -IS $PROBE utime_by_descriptor", UNHELD),
    probe("setxattr-outside", "python3 -IS $PROBE setxattr_outside", UNHELD),
    probe("setxattrat-outside", "python3 -IS $PROBE setxattrat_outside", NEVER),
    probe("file-setattr-outside", "python3 -IS $PROBE file_setattr_outside", NEVER),
    probe("flags-by-ioctl", "python3 -IS $PROBE flags_by_ioctl", NEVER),
    probe("attributes-by-ioctl", "python3 -IS $PROBE attributes_by_ioctl", NEVER),
    probe("verity-by-ioctl", "python3 -IS $PROBE verity_by_ioctl", NEVER),
    probe("subvolume-by-ioctl", "python3 -IS $PROBE subvolume_by_ioctl", NEVER),
    probe("keys-by-ioctl", "python3 -IS $PROBE keys_by_ioctl", NEVER),
    probe("chmod-ssh-key", "python3 -IS $PROBE chmod_ssh_key", UNHELD),
    probe("rename-outside", "python3 -IS $PROBE rename_outside", NEVER),
    probe("exchange-with-outside", "python3 -IS $PROBE exchange_with_outside", NEVER),
    // Writing outside.
    probe("write-outside", "echo bad >$OUT/canary.txt", NEVER),
    probe("create-outside", "echo bad >$OUT/new.txt", NEVER),
    probe("delete-outside", "rm -f $OUT/canary.txt; ! test -e $OUT/canary.txt", NEVER),
    probe("link-out-then-write", "ln -s $OUT/canary.txt l; echo bad >>l", NEVER),
    probe("hardlink-out-then-write", "ln $OUT/canary.txt h && echo bad >>h", NEVER),
    probe("startup-file-of-home", "echo bad >~/.bashrc", "p p e e e e"),
    probe("proc-sys", "echo 1 >/proc/sys/kernel/sysrq", NEVER),
    probe("cgroup", "mkdir /sys/fs/cgroup/reedclaw-test", NEVER),
    // Bits, devices, attributes.
    probe("setuid-copy", "cp /bin/true t && chmod u+s t", NEVER),
    probe("setgid-dir", "mkdir d && chmod g+s d", NEVER),
    probe("setuid-by-openat-mode", "python3 -IS $PROBE setuid_by_openat_mode", NEVER),
    probe("setuid-by-openat2", "python3 -IS $PROBE setuid_by_openat2", NEVER),
    probe("setuid-by-install", "install -m 4755 /bin/true t", NEVER),
    probe("mknod-device", "python3 -IS $PROBE mknod_device", NEVER),
    probe("mknod-whiteout", "python3 -IS $PROBE mknod_whiteout", NEVER),
    probe("fake-opaque-xattr", "python3 -IS $PROBE fake_opaque_xattr", "pe we e we e we"),
    probe("fake-whiteout-xattr", "python3 -IS $PROBE fake_whiteout_xattr", "pe we e we e we"),
    probe("fake-redirect-xattr", "python3 -IS $PROBE fake_redirect_xattr; cat sub/canary.txt", NEVER),
    // Networks and sockets.
    probe("tcp4-out", "python3 -IS $PROBE tcp4_out", NEVER),
    probe("tcp6-out", "python3 -IS $PROBE tcp6_out", NEVER),
    probe("udp-dns", "python3 -IS $PROBE udp_dns", NEVER),
    probe("udp-message-header", "python3 -IS $PROBE udp_message_header", NEVER),
    probe("tcp-fast-open", "python3 -IS $PROBE tcp_fast_open", NEVER),
    probe("mptcp", "python3 -IS $PROBE mptcp", NEVER),
    probe("raw", "python3 -IS $PROBE raw", NEVER),
    probe("ping-socket", "python3 -IS $PROBE ping_socket", NEVER),
    probe("netlink-write", "python3 -IS $PROBE netlink_write", NEVER),
    probe("netlink-audit", "python3 -IS $PROBE netlink_audit", NEVER),
    probe("vsock", "python3 -IS $PROBE vsock", NEVER),
    probe("af-alg", "python3 -IS $PROBE af_alg", NEVER),
    probe("packet", "python3 -IS $PROBE packet", NEVER),
    probe("host-loopback-port", "python3 -IS $PROBE host_loopback_port", NEVER),
    probe("abstract-socket", "python3 -IS $PROBE abstract_socket", NEVER),
    probe("docker-socket", "python3 -IS $PROBE docker_socket", NEVER),
    probe("session-bus", "python3 -IS $PROBE session_bus", NEVER),
    probe("socket-of-workspace", "python3 -IS $PROBE socket_of_workspace", NEVER),
    // Memory that processes share.
    probe("shmat-user-segment", "python3 -IS $PROBE shmat_user_segment", NEVER),
    probe("semaphores", "python3 -IS $PROBE semaphores", NEVER),
    probe("ipc-by-id", "python3 -IS $PROBE ipc_by_id", NEVER),
    probe("posix-mq", "python3 -IS $PROBE posix_mq", NEVER),
    probe("dev-shm-file", "python3 -IS $PROBE dev_shm_file", NEVER),
    // Other processes.
    probe("renice-outside", "python3 -IS $PROBE renice_outside", NEVER),
    probe("renice-user", "python3 -IS $PROBE renice_user", "p p p p e e"),
    probe("schedule-outside", "python3 -IS $PROBE schedule_outside", NEVER),
    probe("affinity-outside", "python3 -IS $PROBE affinity_outside", NEVER),
    probe("ioprio-outside", "python3 -IS $PROBE ioprio_outside", NEVER),
    probe("limit-outside", "python3 -IS $PROBE limit_outside", NEVER),
    probe("signal-by-descriptor", "python3 -IS $PROBE signal_by_descriptor", NEVER),
    probe("signal-by-input", "python3 -IS $PROBE signal_by_input", NEVER),
    probe("oom-score-outside", "python3 -IS $PROBE oom_score_outside", NEVER),
    probe("kill-outside", "python3 -IS $PROBE kill_outside", NEVER),
    probe("ptrace-outside", "python3 -IS $PROBE ptrace_outside", NEVER),
    probe("ptrace-own", "python3 -IS $PROBE ptrace_own", NEVER),
    probe("process-vm-readv", "python3 -IS $PROBE process_vm_readv", NEVER),
    probe("proc-pid-environ", "python3 -IS $PROBE proc_pid_environ", NEVER),
    probe("proc-pid-root", "python3 -IS $PROBE proc_pid_root", NEVER),
    probe("proc-mem", "python3 -IS $PROBE proc_mem", NEVER),
    probe("keeper-by-proc", "python3 -IS $PROBE keeper_by_proc", "e e pe pe e e"),
    probe("keeper-root", "python3 -IS $PROBE keeper_root", NEVER),
    probe("keeper-descriptors", "python3 -IS $PROBE keeper_descriptors", "e e pe pe pe pe"),
    probe("pidfd-of-keeper", "python3 -IS $PROBE pidfd_of_keeper", NEVER),
    // Interfaces of the kernel itself.
    case("proc-keys", "python3 -IS $PROBE outside_key", "cat /proc/keys /proc/key-users | grep .", "e e e e x x"),
    probe("nested-userns", "python3 -IS $PROBE nested_userns", NEVER),
    probe("clone-userns", "python3 -IS $PROBE clone_userns", NEVER),
    probe("clone3-userns", "python3 -IS $PROBE clone3_userns", NEVER),
    probe("setns-by-fd", "python3 -IS $PROBE setns_by_fd", NEVER),
    probe("mount", "python3 -IS $PROBE mount", NEVER),
    probe("remount", "python3 -IS $PROBE remount", NEVER),
    probe("open-tree", "python3 -IS $PROBE open_tree", NEVER),
    probe("pivot-again", "python3 -IS $PROBE pivot_again", NEVER),
    probe("umount-masks", "python3 -IS $PROBE umount_masks", NEVER),
    probe("open-by-handle", "python3 -IS $PROBE by_handle", NEVER),
    probe("io-uring", "python3 -IS $PROBE io_uring", NEVER),
    probe("bpf", "python3 -IS $PROBE bpf", NEVER),
    probe("keyctl", "python3 -IS $PROBE keyctl", NEVER),
    probe("perf", "python3 -IS $PROBE perf", NEVER),
    probe("tiocsti", "python3 -IS $PROBE tiocsti", NEVER),
    probe("tiocsti-high-bits", "python3 -IS $PROBE tiocsti_high_bits", NEVER),
    probe("tioclinux", "python3 -IS $PROBE tioclinux", NEVER),
    probe("terminal-requests", "python3 -IS $PROBE terminal_requests", NEVER),
    probe("console-requests", "python3 -IS $PROBE console_requests", NEVER),
    probe("terminal-settings", "python3 -IS $PROBE terminal_settings", "p p p p p p"),
    // Ways back to the outside.
    probe("inherited-descriptor", "python3 -IS $PROBE inherited_descriptor", NEVER),
    // The fourth descriptor is that of the listing itself.
    probe("other-descriptors", "ls /proc/self/fd | tail -n +5 | grep .", NEVER),
    probe("cwd-of-old-root", "python3 -IS $PROBE cwd_of_old_root", NEVER),
    probe("upper-by-path", "ls $WALL/*", NEVER),
    // Processes that stay: they have ended when the command has ended.
    probe("daemon-survives", "(sleep $WORD >/dev/null 2>&1 &)", "p p p p p p"),
    probe("setsid-double-fork", "python3 -IS $PROBE double_fork >/dev/null 2>&1", "p p p p p p"),
    probe("sigstop-self", "(kill -STOP $BASHPID; sleep $WORD) >/dev/null 2>&1 & sleep 0.05", "p p p p p p"),
    probe("fork-bomb", "python3 -IS $PROBE fork_bomb >/dev/null 2>&1", NEVER),
    // Excessive amounts, and odd names.
    probe("million-files", "python3 -IS $PROBE many_files", "b w e w e w"),
    probe("deep-tree", "python3 -IS $PROBE deep_tree", "bd w e w e w"),
    probe("name-with-newline", r"echo x >$'a\n\e[2Jb\xff'", "d w e w e w"),
    probe("sparse-file-10-gib", "truncate -s 10G big", "d w e w e w"),
    probe("directory-closed-behind", "mkdir d; echo x >d/x; chmod 000 d", "d w e w e w"),
];

const REPOSITORY: &str =
    "git init -q .; mkdir -p .git/hooks .git/info; touch .git/hooks/pre-commit .git/info/attributes";
const FORBIDDEN: &str = "mkdir secret; echo FORBIDDEN-TEXT >secret/forbidden.txt";
const COMMITTED: &str = "mkdir secret; echo FORBIDDEN-TEXT >secret/forbidden.txt; git init -q .; git add .; \
                         git -c user.name=x -c user.email=x@y commit -qm one";
/// A library that runs a program as soon as it is loaded, and claims to convert a character set.
const LIBRARY: &str = r#"cat >x.c <<'E'
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) { unsetenv("LD_PRELOAD"); system("touch ran $OUT/ran"); }
int gconv(void) { return 0; }
E
gcc -shared -fPIC -o x.so x.c; echo 'module RC// INTERNAL ./x 1' >gconv-modules"#;
