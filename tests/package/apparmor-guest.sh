#!/bin/sh
# The first program of the machine that apparmor.sh boots: it shows what the profile changes, and switches the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
failed=0
trap 'sync; echo o >/proc/sysrq-trigger; sleep 60' EXIT

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t securityfs security /sys/kernel/security
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts
mount -t devpts pts /dev/pts
mount -t tmpfs run /run
mount -t tmpfs -o mode=1777 tmp /tmp
ip link set lo up 2>/dev/null
useradd --create-home --shell /bin/bash person

# Debian's kernel bars nobody by itself, as Ubuntu's does. A profile for what the person starts does the same by the same
# check of the kernel; everything else is allowed. It may be done in two ways: the namespace can't be made (Ubuntu 23.10), or
# it can be made but gives no rights in it (Ubuntu 24.04).
cat >/tmp/barred <<'P'
abi <abi/4.0>,
profile barred {
    / rwlk,
    /** rwlkm,
    /** pix,
    capability,
    network,
    mount,
    remount,
    umount,
    pivot_root,
    signal,
    ptrace,
    unix,
    mqueue,
    change_profile,
}
profile powerless {
    / rwlk,
    /** rwlkm,
    /** pix,
    userns,
    network,
    mount,
    remount,
    umount,
    pivot_root,
    signal,
    ptrace,
    unix,
    mqueue,
    change_profile,
}
P

# person PROFILE COMMAND…: as an ordinary user, started by a program that has this profile, as a shell would.
person() {
    profile=$1
    shift
    (cd /home/person/work && timeout 120 setpriv --reuid person --regid person --init-groups \
        env -i HOME=/home/person USER=person PATH=/usr/bin:/bin LANG=C.UTF-8 aa-exec -p "$profile" -- env "$@" 2>&1)
}

# shown TEXT PATTERN OUTPUT: whether the output is as it should be.
shown() {
    if printf '%s' "$3" | grep -q -- "$2"; then
        echo "ok: $1"
    else
        echo "NOT SO: $1; it was:"
        printf '%s\n' "$3"
        failed=1
    fi
}

# A command of a model in this autonomy, as its tool call would run it.
model() {
    person "$1" reedclaw tool run shell --autonomy "$2" --workspace /home/person/work --json "{\"command\": \"$3\"}"
}

# doctor PROFILE SANDBOX: what doctor says. Emulated on a busy machine a trial of a sandbox may take too long: then once more.
doctor() {
    for try in 1 2 3; do
        found_out=$(person "$1" reedclaw doctor | grep '^sandbox:')
        case $found_out in "sandbox: $2"*) break ;; esac
    done
    printf '%s\n' "$found_out"
}

work() {
    rm -rf /home/person/work
    mkdir /home/person/work
    echo old >/home/person/work/file
    chown -R person: /home/person/work
}

printf '\n%s\n' "== Linux $(uname -r), $(apparmor_parser --version | head -1), AppArmor on: $(cat /sys/module/apparmor/parameters/enabled)"
echo "user namespaces by profile: $(cat /sys/kernel/security/apparmor/features/namespaces/mask); a switch for all: $(
    cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null || echo 'none in this kernel')"
work
apparmor_parser --replace /tmp/barred || failed=1
shown "this AppArmor can read the profile" "^0$" "$(apparmor_parser --skip-kernel-load --skip-cache /etc/apparmor.d/reedclaw 2>&1; echo $?)"

for profile in barred powerless; do
    printf '\n%s\n' "== as a user who is $profile, without reedclaw's profile"
    apparmor_parser --remove /etc/apparmor.d/reedclaw 2>/dev/null
    work
    shown "the person's unshare fails" "denied\|not permitted" "$(person $profile unshare -Ur true)"
    found=$(doctor $profile landlock)
    echo "$found"
    shown "doctor says that namespaces are barred" "not overlay: .*user namespaces are barred" "$found"
    shown "Landlock stands in" "^sandbox: landlock" "$found"
    look=$(model $profile supervised "cat file")
    shown "a look runs and reads the workspace" '"exitCode":0.*old' "$look"

    printf '\n%s\n' "== as a user who is $profile, with it, loaded as the package does"
    sh /root/postinst configure >/tmp/postinst 2>&1
    cat /tmp/postinst
    shown "it is loaded" "^reedclaw (unconfined)" "$(cat /sys/kernel/security/apparmor/profiles)"
    found=$(doctor $profile overlay)
    echo "$found"
    shown "doctor says that the overlay works" "^sandbox: overlay" "$found"
    shown "a look runs on a copy" '"exitCode":0' "$(model $profile supervised "cat file")"
    changed=$(model $profile readonly "echo new >file; cat file")
    shown "readonly drops a change" "would have changed" "$changed"
    shown "the file stays" "^old$" "$(cat /home/person/work/file)"
    changed=$(model $profile full "echo new >file")
    shown "full makes it real" "^new$" "$(cat /home/person/work/file)"
    inside='import ctypes, os; print("refused" if ctypes.CDLL(None).unshare(0x10000000) else "made", os.listdir("/home/person"))'
    printf '%s' "$inside" >/home/person/work/inside.py
    seen=$(model $profile full "python3 inside.py")
    shown "a model's command makes no namespace of its own, and its home is empty but for the workspace" "refused \['work'\]" "$seen"
    shown "the person's own unshare is barred as before" "denied\|not permitted" "$(person $profile unshare -Ur true)"
    shown "a program that ReedClaw's own shell starts may make one, for it inherits the profile" "^made" \
        "$(person $profile reedclaw -c 'unshare -Ur echo made')"
done
printf '\n%s\n' "== refused by the kernel"
dmesg | grep 'apparmor="DENIED"' | sed 's/.*apparmor=/apparmor=/' | cut -c1-200 | sort | uniq -c | head -20
[ $failed = 0 ] && echo "ALL SHOWN"
