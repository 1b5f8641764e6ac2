#!/usr/bin/env bash
# Installs a Debian package of reedclaw as apt would, tries what it brings, and removes it, all in a copy of this system that
# lies in memory (an overlay in a mount namespace): nothing outside changes. Needs root.
#
#   tests/package/install.sh PACKAGE.deb
set -euo pipefail

package=$(realpath "$1")
root=${2-}
if [[ -z $root ]]; then
    root=$(mktemp -d)
    trap 'rmdir "$root"' EXIT
    unshare --mount --propagation private "$0" "$package" "$root"
    exit
fi

mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir "$root"/{upper,work,merged}
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/merged"
root=$root/merged
cp "$package" "$root/reedclaw.deb"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"

inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=xterm LANG=C.UTF-8 "$@"; }
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# The system may have one already.
inside dpkg --purge reedclaw >/dev/null 2>&1 || true
inside rm -f /etc/apparmor.d/disable/reedclaw
inside dpkg --install /reedclaw.deb

echo "-- installed files"
for file in /usr/bin/reedclaw /etc/apparmor.d/reedclaw /usr/share/man/man1/reedclaw.1.gz \
    /usr/share/bash-completion/completions/reedclaw /usr/share/zsh/vendor-completions/_reedclaw \
    /usr/share/fish/vendor_completions.d/reedclaw.fish /usr/share/doc/reedclaw/README.md; do
    inside test -s "$file" || fail "$file is missing"
done
inside grep -qx /usr/bin/reedclaw /etc/shells || fail "/etc/shells doesn't have it"

if inside test -e /etc/apparmor.d/abi/4.0; then
    echo "-- AppArmor's profile"
    inside apparmor_parser --skip-kernel-load --skip-cache /etc/apparmor.d/reedclaw || fail "AppArmor can't read the profile"
fi

echo "-- the shell"
[[ $(inside reedclaw -c 'echo $((6 * 7)) $0') == "42 bash" ]] || fail "reedclaw -c doesn't run a line"
inside reedclaw --version
typed=$(inside script --quiet --return --command reedclaw /dev/null <<<$'echo in$((40 + 2))side\nexit 7') && status=0 || status=$?
[[ $typed == *in42side* ]] || fail "a session doesn't run a line: $typed"
((status == 7)) || fail "a session that ends with 7 gives $status"

echo "-- an account that logs in with it"
inside useradd --create-home --shell /usr/bin/reedclaw reedclaw-test
[[ $(inside su - reedclaw-test -c 'echo $((6 * 7))') == 42 ]] || fail "su - doesn't run a line"
if inside dpkg --remove reedclaw >/dev/null 2>&1; then fail "removed although an account logs in with it"; fi
inside usermod --shell /bin/bash reedclaw-test

echo "-- removed"
inside dpkg --purge reedclaw
! inside grep -q reedclaw /etc/shells || fail "/etc/shells still has it"
for file in /usr/bin/reedclaw /etc/apparmor.d/reedclaw /etc/apparmor.d/disable/reedclaw; do
    ! inside test -e "$file" || fail "$file is left"
done
echo "ok"
