#!/usr/bin/env bash
# Tries a self-contained executable of reedclaw in a root directory that has nothing else: first alone, then beside bash with
# the libraries of bash. Everything lies in memory, in a mount namespace: nothing outside changes. Needs root.
#
#   tests/package/bare.sh EXECUTABLE
set -euo pipefail

program=$(realpath "$1")
root=${2-}
if [[ -z $root ]]; then
    root=$(mktemp -d)
    trap 'rmdir "$root"' EXIT
    unshare --mount --propagation private "$0" "$program" "$root"
    exit
fi

inside() { env -i PATH=/bin HOME=/home TERM=xterm LANG=C.UTF-8 /usr/sbin/chroot "$root" "$@"; }
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir -p "$root"/{bin,home,proc,dev,tmp,etc}
cp "$program" "$root/bin/reedclaw"

echo "-- the executable alone"
inside /bin/reedclaw --version
inside /bin/reedclaw config validate || fail "the config can't be read"
[[ $(inside /bin/reedclaw policy explain "rm -rf /" || true) == *blocked* ]] || fail "the policy doesn't judge"

echo "-- beside bash"
while read -r library; do
    install -D "$library" "$root/$library"
done < <(ldd "$(type -P bash)" | grep -o '/[^ ]*')
cp -L "$(type -P bash)" "$root/bin/bash"
[[ $(inside /bin/reedclaw -c 'echo $((6 * 7)) $0') == "42 bash" ]] || fail "reedclaw -c doesn't run a line"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
typed=$(script --quiet --return --command \
    "env -i PATH=/bin HOME=/home TERM=xterm LANG=C.UTF-8 /usr/sbin/chroot $root /bin/reedclaw" /dev/null \
    <<<$'echo in$((40 + 2))side\nexit 7') && status=0 || status=$?
[[ $typed == *in42side* ]] || fail "a session doesn't run a line: $typed"
((status == 7)) || fail "a session that ends with 7 gives $status"
