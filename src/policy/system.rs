//! Programs that act on the whole machine: power, disks, processes, services, accounts.

use super::exec::output;
use super::options::Options;
use super::place::Zone;
use super::run::{Run, Value};
use super::text::{self, has_open, listed};
use crate::proto::action::{Effect, Risk, WriteKind};

/// Programs that end the system, whatever else they are told.
const POWER: [&str; 15] = [
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "kexec",
    "pm-suspend",
    "pm-hibernate",
    "coldreboot",
    "rtcwake",
    "openrc-shutdown",
    "runit-init",
    "systemd-shutdown",
    "gnome-session-quit",
    "xfce4-session-logout",
    "cinnamon-session-quit",
];
/// Programs that make or wipe file systems and partitions on what they are pointed at.
const DISKS: [&str; 26] = [
    "blockdev",
    "mkfs",
    "mke2fs",
    "mkswap",
    "mkntfs",
    "mkdosfs",
    "mkudffs",
    "wipefs",
    "fdisk",
    "sfdisk",
    "cfdisk",
    "sgdisk",
    "gdisk",
    "parted",
    "blkdiscard",
    "badblocks",
    "hdparm",
    "nvme",
    "mdadm",
    "cryptsetup",
    "tune2fs",
    "resize2fs",
    "e2fsck",
    "sg_format",
    "partprobe",
    "xfs_repair",
];
/// Programs that remove volumes and pools.
const VOLUMES: [&str; 10] =
    ["lvremove", "vgremove", "pvremove", "zpool", "zfs", "btrfs", "lvm", "dmsetup", "losetup", "bcache"];
/// Programs that change accounts and what they may do.
const ACCOUNTS: [&str; 21] = [
    "vigr",
    "passwd",
    "chpasswd",
    "useradd",
    "userdel",
    "usermod",
    "adduser",
    "deluser",
    "groupadd",
    "groupdel",
    "groupmod",
    "gpasswd",
    "visudo",
    "vipw",
    "chsh",
    "chfn",
    "chage",
    "newusers",
    "pwconv",
    "pwunconv",
    "authconfig",
];
/// Programs that set up the system, and tell about it.
const CONFIGURERS: &str = "umount swapon swapoff modprobe insmod rmmod depmod iptables ip6tables nft ufw firewall-cmd ip ifconfig route tc iw nmcli rfkill timedatectl hostnamectl localectl hwclock setenforce apparmor_parser auditctl ldconfig update-grub grub-install grub-mkconfig efibootmgr dracut mkinitcpio update-initramfs update-alternatives debconf-set-selections dpkg-reconfigure setterm chvt loadkeys";
/// Units whose start ends the system.
const POWER_UNITS: [&str; 10] =
    ["reboot", "poweroff", "halt", "shutdown", "kexec", "emergency", "rescue", "suspend", "hibernate", "ctrl-alt-del"];

/// Parts of the names of methods that end the system or a session.
const BUS_ENDS: [&str; 15] = [
    "Reboot",
    "PowerOff",
    "Halt",
    "Suspend",
    "Hibernate",
    "HybridSleep",
    "Shutdown",
    "KExec",
    "RequestShutdown",
    "Poweroff",
    "KillSession",
    "KillUser",
    "TerminateSession",
    "TerminateUser",
    "TerminateSeat",
];

/// Whether the start of a unit ends the system or drops it to one user.
fn is_power_unit(word: &str) -> bool {
    let name = word.trim_end_matches(".target").trim_end_matches(".service").trim_start_matches("systemd-");
    POWER_UNITS.contains(&name) || matches!(word, "runlevel0.target" | "runlevel6.target" | "runlevel1.target")
}

/// Whether a program ends the system.
pub(super) fn is_power(name: &str) -> bool {
    POWER.contains(&name) || matches!(name, "init" | "telinit")
}

impl Run<'_, '_> {
    /// Runs a program that acts on the machine; `None` where it isn't one.
    pub(super) fn system_program(&mut self, name: &str, words: &[String]) -> Option<Value> {
        match name {
            _ if POWER.contains(&name) => self.power(name, words),
            "init" | "telinit" => {
                if words.iter().any(|word| matches!(word.as_str(), "0" | "1" | "6" | "s" | "S") || has_open(word)) {
                    self.block("power", "ends the system or drops it to single user");
                } else {
                    self.note(Risk::High, "system", "changes the run level");
                }
            }
            "systemctl" | "loginctl" | "service" | "rc-service" | "sv" | "initctl" => self.services(name, words),
            "dbus-send" | "gdbus" | "busctl" | "qdbus" => self.bus(words),
            _ if DISKS.contains(&name) || name.starts_with("mkfs.") || name.starts_with("fsck") => {
                self.disks(name, words)
            }
            _ if VOLUMES.contains(&name) => self.volumes(name, words),
            _ if ACCOUNTS.contains(&name) => {
                // Of `passwd` `-l` locks.
                let tells = if name == "passwd" { "-S --status" } else { "-S --status -l --list -c" };
                let only_tells = words.iter().any(|word| listed(tells, word));
                if only_tells && matches!(name, "passwd" | "chage" | "visudo" | "chsh") {
                    self.note(Risk::High, "system", "looks at accounts");
                } else {
                    self.block("accounts", format!("{name} changes the system's accounts"));
                }
            }
            "kill" => self.kill(words),
            "pkill" | "killall" | "skill" | "slay" | "xkill" => self.kill_by_name(name, words),
            "fuser" => {
                let options = Options::read(words, "Nn", "namespace signal");
                let is_vital = |path: &String| {
                    self.absolute(path).iter().any(|path| self.map.is_vital(&super::place::Place::of(path)))
                };
                if options.has("k", "kill") && options.operands.iter().any(is_vital) {
                    self.block("kill-all", "ends every process that uses a file system");
                } else {
                    self.note(Risk::High, "signal", "looks at processes, or sends them a signal");
                }
            }
            "killall5" => self.block("kill-all", "sends a signal to every process"),
            "sysctl" => {
                if words
                    .iter()
                    .any(|word| word.contains('=') || word == "-w" || word == "-p" || word.starts_with("--load"))
                {
                    self.block("system-path", "changes settings of the kernel");
                } else {
                    self.note(Risk::High, "read-outside", "reads settings of the kernel");
                }
            }
            "mount" => self.mount(words),
            "flashrom" | "dpkg-divert" | "dpkg-statoverride" => self.replaces(name, words),
            _ if listed(CONFIGURERS, name) => self.configure(name, words),

            "logrotate" | "updatedb" | "fstrim" | "fsfreeze" | "sync" | "renice" => {
                self.note(Risk::High, "system", format!("{name} acts on the whole system"));
            }
            _ => return None,
        }
        Some(output())
    }

    /// Programs that put something else in place of firmware, or of a package's files.
    fn replaces(&mut self, name: &str, words: &[String]) {
        if name == "flashrom" {
            let options = Options::read(words, "pcflirwvo", "programmer write read verify image layout chip");
            if options.has("wE", "write") || options.has("", "erase") {
                self.block("disk", "writes the machine's firmware");
            }
            return self.note(Risk::High, "device", "works on the machine's firmware");
        }
        if !words.iter().any(|word| listed("--list --truename --listpackage --help --version", word)) {
            self.block("system-path", format!("{name} moves files of the system, or changes their modes"));
        }
    }

    fn power(&mut self, name: &str, words: &[String]) {
        let is_harmless = match name {
            "shutdown" => words.iter().any(|word| matches!(word.as_str(), "-c" | "-k" | "--help" | "--show")),
            "reboot" | "halt" | "poweroff" => {
                words.iter().any(|word| matches!(word.as_str(), "-w" | "--wtmp-only" | "--help" | "--version"))
            }
            "kexec" => !words.iter().any(|word| matches!(word.as_str(), "-e" | "--exec" | "-f" | "--force")),
            "rtcwake" => words.iter().any(|word| matches!(word.as_str(), "no" | "show" | "disable" | "--list-modes")),
            _ => false,
        };
        if is_harmless {
            self.note(Risk::High, "system", format!("{name} only warns or cancels"));
        } else {
            self.block("power", format!("{name} ends the system"));
        }
    }

    fn services(&mut self, name: &str, words: &[String]) {
        let options = Options::read(
            words,
            if matches!(name, "systemctl" | "loginctl") { "HMtpPnos" } else { "" },
            "host machine type property lines output signal state root image job-mode kill-whom kill-value",
        );
        let plain: Vec<&str> = options.operands.iter().map(String::as_str).collect();
        let verb = plain.first().copied().unwrap_or_default();
        if name == "service" && verb.contains('/') {
            // The name of a service is a path below `/etc/init.d`.
            self.exec_program(words.to_vec());
        }
        let ends = listed(
            "reboot poweroff halt kexec soft-reboot suspend hibernate hybrid-sleep emergency rescue suspend-then-hibernate exit",
            verb,
        ) || matches!(verb, "isolate" | "start" | "restart" | "enable" | "set-default")
            && plain.iter().skip(1).any(|word| is_power_unit(word) || verb == "isolate" && has_open(word))
            || has_open(verb);
        let all = ["init.scope", "user.slice", "system.slice", "-.slice"];
        if matches!(verb, "kill" | "stop") && plain.iter().any(|word| all.contains(word)) {
            return self.block("kill-all", format!("{name} {verb} ends what the session needs"));
        }
        if ends && name != "service" {
            return self.block("power", format!("{name} {verb} ends the system"));
        }
        // A unit that is named by its path is put among those that start by themselves.
        let by_path = plain.iter().skip(1).any(|word| word.contains('/'));
        let is_given = verb == "edit" && words.iter().any(|word| word == "--stdin");
        if by_path && matches!(verb, "link" | "enable" | "reenable") || is_given {
            return self.block("persistence", format!("{name} {verb} adds a unit from a file"));
        }
        if matches!(verb, "kill-session" | "terminate-session" | "terminate-user" | "kill-user" | "terminate-seat") {
            return self.block("kill-all", format!("{name} {verb} ends sessions"));
        }
        if matches!(
            verb,
            "" | "status"
                | "list-units"
                | "list-unit-files"
                | "is-active"
                | "is-enabled"
                | "show"
                | "cat"
                | "list-timers"
                | "list-dependencies"
                | "is-failed"
                | "get-default"
                | "list-sessions"
                | "list-jobs"
                | "show-environment"
                | "list-sockets"
                | "is-system-running"
        ) {
            return self.note(Risk::Low, "looks", format!("{name} tells about services"));
        }
        self.note(Risk::High, "system", format!("{name} {verb} acts on services"));
    }

    fn bus(&mut self, words: &[String]) {
        let said = words.join(" ");
        let asks_first = said.contains("CanReboot") || said.contains("CanPowerOff");
        let ends = BUS_ENDS.iter().any(|word| said.contains(word)) && !asks_first;
        // Of KDE's and GNOME's session managers, and of ConsoleKit.
        let method =
            |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.rsplit('.').next().unwrap_or(word)));
        let ends_session = method(&["logout", "Logout", "closeSession"])
            || said.contains("ConsoleKit") && method(&["Stop", "Restart"])
            || said.contains("UPower") && method(&["Sleep"]);
        let starts = ["StartUnit", "RestartUnit", "StartTransientUnit", "EnqueueUnitJob", "SetDefaultTarget"];
        let unit = |word: &String| is_power_unit(word.rsplit(':').next().unwrap_or_default().trim_matches(['"', '\'']));
        let starts_end = starts.iter().any(|call| said.contains(call)) && words.iter().any(unit);
        if ends || ends_session || starts_end {
            self.block("power", "asks over D-Bus to end the system or the session");
        } else {
            self.note(Risk::High, "system", "speaks to services over D-Bus");
        }
    }

    fn disks(&mut self, name: &str, words: &[String]) {
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
        let only_looks = match name {
            "fdisk" | "parted" => has(&["-l", "--list", "print"]) && !has(&["rm", "mklabel", "mkpart"]),
            "sfdisk" | "sgdisk" | "gdisk" => {
                has(&["-l", "--list", "-p", "--print", "-d", "--dump"]) && !has(&["--delete", "-Z", "-o", "--zap-all"])
            }
            "wipefs" => {
                !words.iter().any(|word| {
                    word.starts_with("--a")
                        || word.starts_with("--o")
                        || word.starts_with('-') && !word.starts_with("--") && word.contains(['a', 'o'])
                }) || has(&["-n", "--no-act"])
            }
            "blockdev" => {
                words.iter().all(|word| word.starts_with("--get") || !word.starts_with('-') || word == "--report")
            }
            "badblocks" => !words.iter().any(|word| word.starts_with('-') && word.contains('w')),
            "hdparm" => !words.iter().any(|word| {
                word.starts_with("--security")
                    || word.starts_with("--write")
                    || word.starts_with("--yes")
                    || word.starts_with("--trim")
                    || word.starts_with("--make-bad")
            }),
            "nvme" => !has(&["format", "sanitize", "write-zeroes", "delete-ns", "write", "dsm"]),
            "mdadm" => has(&["--detail", "-D", "--examine", "-E", "--query", "-Q"]),
            "cryptsetup" => {
                has(&["status", "luksDump", "isLuks", "open", "close", "luksOpen", "luksClose", "benchmark"])
            }
            "e2fsck" | "tune2fs" | "xfs_repair" => has(&["-n", "-l"]),
            _ => name.starts_with("fsck") && has(&["-n", "-N"]),
        };
        let tells_version = matches!(words, [only] if text::listed("-V --version -h --help", only));
        if only_looks || tells_version {
            return self.note(Risk::High, "device", format!("{name} looks at disks"));
        }
        // What takes a value differs: `mkfs.vfat -C` makes the image, `parted -s` asks nothing.
        let valued = match name {
            "parted" => "a",
            "mkfs.vfat" | "mkfs.fat" | "mkfs.msdos" | "mkdosfs" => "bDfFgGhimMnrRsS",
            _ => "tLUbiINmOEGTJCers",
        };
        let options = Options::read(words, valued, "types label uuid");
        let mut operands: Vec<&String> =
            options.operands.iter().filter(|word| word.contains('/') || word.contains('.')).collect();
        // Of these the first operand is the device or image, however it is called.
        if name.starts_with("mk") && operands.is_empty() {
            operands.extend(options.operands.first());
        }
        let inside = |path: &&String| matches!(self.zone_of(path), Zone::Workspace | Zone::Temporary);
        if !operands.is_empty() && operands.iter().all(inside) {
            let paths: Vec<String> = operands.into_iter().cloned().collect();
            paths.iter().for_each(|path| self.writes(path, WriteKind::Write));
            return self.note(Risk::High, "disk-image", format!("{name} overwrites an image"));
        }
        if !operands.is_empty() && operands.iter().all(|path| path.chars().all(text::is_open)) {
            return self.block_unknown("disk", format!("{name} makes or wipes a file system that isn't known"));
        }
        self.block("disk", format!("{name} makes or wipes a file system or partition"));
    }

    fn volumes(&mut self, name: &str, words: &[String]) {
        let removes = name.ends_with("remove")
            || words.iter().any(|word| {
                listed(
                    "destroy labelclear lvremove vgremove pvremove delete rollback remove remove_all wipe_table",
                    word,
                )
            });
        if removes {
            self.block("disk", format!("{name} removes volumes or pools"));
        } else {
            self.note(Risk::High, "device", format!("{name} works on volumes"));
        }
    }

    fn kill(&mut self, words: &[String]) {
        let mut is_signal = true;
        let mut after_end = false;
        let mut skip = false;
        for word in words {
            if skip {
                skip = false;
                continue;
            }
            match word.as_str() {
                "-l" | "-L" | "--list" | "--table" => return,
                "-s" | "-n" | "--signal" | "-q" => {
                    skip = true;
                    is_signal = false;
                    continue;
                }
                "--" => {
                    after_end = true;
                    continue;
                }
                _ => {}
            }
            // The first `-X` is the signal.
            let may_be_signal = word.starts_with('-') && is_signal && !after_end;
            if may_be_signal {
                is_signal = false;
                continue;
            }
            self.effect(Effect::Signal { target: text::shown(word) });
            // In a container the first process is only the container's.
            if self.elsewhere > 1 {
                continue;
            }
            // A pattern in place of a number was made of the names in `/proc`.
            if word.contains(text::PROCESSES)
                || text::has_pattern(word)
                || word.trim_start_matches('-').trim_start_matches('0') == "1"
            {
                self.block("kill-all", "sends a signal to every process, or to the first");
            }
        }
        self.note(Risk::High, "signal", "sends a signal to processes");
    }

    fn kill_by_name(&mut self, name: &str, words: &[String]) {
        let options = Options::read(
            words,
            if name == "killall" { "suyoZn" } else { "ugUGPtsFcJ" },
            "signal user euid uid group pgroup parent session terminal pidfile ns",
        );
        let patterns: Vec<&String> = options.operands.iter().filter(|word| !word.starts_with('-')).collect();
        let is_everything = |pattern: &&&String| {
            pattern.is_empty()
                || pattern.chars().all(|c| {
                    matches!(c, '.' | '*' | '^' | '$' | '+' | '?')
                        || text::is_reserved(c) && c != text::NAME && !text::is_open(c)
                })
        };
        let by_user = options.has("uU", "user") || options.has("", "euid") || options.has("", "uid");
        let essential = patterns.iter().any(|pattern| {
            matches!(pattern.as_str(), "systemd" | "init" | "dbus-daemon" | "Xorg" | "gnome-shell" | "systemd-logind")
        });
        let inverse = name == "pkill" && options.has("v", "inverse");
        if inverse
            || patterns.iter().any(|pattern| is_everything(&pattern))
            || patterns.is_empty() && by_user
            || essential
        {
            self.block("kill-all", format!("{name} ends every process, or one that the session needs"));
        }
        for pattern in patterns {
            self.effect(Effect::Signal { target: text::shown(pattern) });
        }
        self.note(Risk::High, "signal", "sends a signal to processes");
    }

    fn mount(&mut self, words: &[String]) {
        let options = Options::read(words, "toLUO", "types options source target");
        if options.operands.is_empty() {
            return;
        }
        self.note(Risk::High, "system", "mounts a file system");
        if let [source, target] = options.operands.as_slice() {
            let zone = self.zone_of(target);
            if matches!(zone, Zone::System | Zone::Forbidden | Zone::Own | Zone::Startup | Zone::Credentials) {
                self.writes(target, WriteKind::Write);
            }
            if words.iter().any(|word| word.contains("bind")) {
                for path in self.absolute(target) {
                    let to = self.absolute(source).first().cloned().unwrap_or_default();
                    self.links.insert(path, to);
                }
            }
        }
    }

    fn configure(&mut self, name: &str, words: &[String]) {
        let first = words.first().map(String::as_str).unwrap_or_default();
        let tells = words.is_empty()
            || listed("ip nmcli ifconfig route timedatectl hostnamectl localectl iptables ufw", name)
                && (listed(
                    "a addr address link route r neigh show status -a -br -L -S -n list device dev -4 -6 -s",
                    first,
                ) && !words.iter().any(|word| listed("add del set flush delete -F -X down up", word)));
        if matches!(name, "grub-install" | "efibootmgr" | "update-grub" | "grub-mkconfig") && !words.is_empty() {
            return self.block("disk", format!("{name} changes how the machine starts"));
        }
        if name == "ip"
            && let Some(at) = words.iter().position(|word| word == "exec")
        {
            // `ip netns exec NAME COMMAND`
            self.exec_program(words.get(at + 2..).unwrap_or_default().to_vec());
        }
        if name == "ip" || name == "update-alternatives" {
            self.scan_secrets(words);
        }
        if name == "update-alternatives"
            && let Some(at) = words.iter().position(|word| word == "--install")
            && let Some(path) = words.get(at + 1).cloned()
        {
            self.writes(&path, WriteKind::Write);
        }
        if name == "umount"
            && words
                .iter()
                .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('a') || word == "--all")
        {
            return self.note(Risk::High, "system", "unmounts every file system");
        }
        self.note(
            if tells { Risk::Low } else { Risk::High },
            "system",
            format!("{name} tells about or sets up the system"),
        );
    }
}
