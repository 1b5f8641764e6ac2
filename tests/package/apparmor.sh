#!/usr/bin/env bash
# Tries the AppArmor profile on a machine that bars user namespaces: boots Debian's own kernel, which can do that, in an emulator,
# and runs reedclaw there as an ordinary user, without the profile and with it. Needs root, 2 GB of disk and some minutes.
# Nothing outside of the directory changes; that keeps the system it has made, for the next time.
#
#   apt-get install --no-install-recommends qemu-system-x86 mmdebstrap e2fsprogs
#   tests/package/apparmor.sh EXECUTABLE [DIRECTORY]
set -euo pipefail

program=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(realpath -m "${2:-${TMPDIR:-/tmp}/reedclaw-apparmor}")
# The first release of Debian whose kernel decides about user namespaces by profile (Linux 6.7) and whose AppArmor can say so (4.0).
release=trixie
for tool in qemu-system-x86_64 mmdebstrap mkfs.ext4; do
    type -P "$tool" >/dev/null || { printf 'missing: %s\n' "$tool" >&2; exit 2; }
done
mkdir -p "$top"
cd "$top"

# A small system with that kernel.
if [[ ! -e made-$release ]]; then
    rm -rf root
    mmdebstrap --variant=minbase \
        --include=linux-image-cloud-amd64,initramfs-tools,apparmor,bubblewrap,git,python3-minimal,util-linux $release root.tar
    mkdir root
    tar -C root -xf root.tar
    rm root.tar
    cp root/boot/vmlinuz-* vmlinuz
    cp root/boot/initrd.img-* initrd
    touch "made-$release"
fi

# What the package would install, and what is done when the machine has started.
install -m 755 "$program" root/usr/bin/reedclaw
strip root/usr/bin/reedclaw
install -m 644 "$here/../../packaging/apparmor/reedclaw" root/etc/apparmor.d/reedclaw
install -m 755 "$here/../../packaging/deb/postinst" root/root/postinst
install -m 755 "$here/apparmor-guest.sh" root/sbin/try
rm -f disk
truncate -s 1600M disk
mkfs.ext4 -q -F -d root disk

# No KVM: it doesn't work on every machine that has it, and the emulator needs half a minute to boot.
timeout 900 qemu-system-x86_64 -accel tcg -m 1024 -smp 2 -nographic -no-reboot -net none -kernel vmlinuz -initrd initrd \
    -append "root=/dev/vda rw console=ttyS0 init=/sbin/try quiet loglevel=1 apparmor=1 security=apparmor panic=-1" \
    -drive file=disk,if=virtio,format=raw </dev/null | tr -d '\r' | sed -n '/^== Linux/,$p' | tee log
grep -q '^ALL SHOWN$' log || { echo "FAILED" >&2; exit 1; }
