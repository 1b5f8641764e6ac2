#!/bin/sh
# A real llama.cpp server with a tiny model of random weights, for the tests of the broker.
#
#   server.sh setup             finds or installs llama-server and makes the model
#   server.sh start             starts it on a free port of this machine; prints its process id and its address
#
# Where no llama-server is on the PATH, Debian's package is installed: from this machine's own sources where they have it,
# else (root only) from Debian's unstable release into a folder of its own, which nothing else sees. What was made stays in
# LLAMA_DIR (target/llama) and is used again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${LLAMA_DIR:-$here/../../target/llama}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
root=$dir/unstable
model=$dir/model.gguf

# The archive that this machine's own package sources name first.
archive() {
    sed -n 's/^URIs: *//p; s/^deb *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1
}

# apt-get without questions.
apt() { DEBIAN_FRONTEND=noninteractive "$@" -q -y --no-install-recommends -o DPkg::Lock::Timeout=120; }

install_server() {
    [ "$(id -u)" = 0 ] || { echo "llama-server is not installed, and only root can install it" >&2; return 1; }
    package=llama.cpp-tools
    if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        apt apt-get install "$package"
        return
    fi
    command -v debootstrap >/dev/null || apt apt-get install debootstrap
    [ -x "$root/usr/bin/apt-get" ] || debootstrap --variant=minbase --include=ca-certificates unstable "$root" "$(archive)"
    apt chroot "$root" apt-get install "$package"
    rm -rf "$root/var/cache/apt/archives" "$root/usr/share/doc" "$root/usr/share/locale"
}

is_here() { command -v llama-server >/dev/null || [ -x "$root/usr/bin/llama-server" ]; }

case ${1:-} in
setup)
    is_here || install_server >"$dir/setup.log" 2>&1 || { tail -n 3 "$dir/setup.log" >&2; exit 1; }
    is_here || { echo "the package brings no llama-server: $dir/setup.log" >&2; exit 1; }
    python3 "$here/make_model.py" "$model"
    ;;
start)
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    set -- -m "$model" --alias tiny --host 127.0.0.1 --port "$port" -c 8192 --parallel 2 -t 2 --jinja --props
    if command -v llama-server >/dev/null; then
        llama-server "$@" >"$dir/server.log" 2>&1 &
    else
        cp "$model" "$root/model.gguf"
        shift 2
        # exec, so that the id is the server's own.
        chroot "$root" /usr/bin/llama-server -m /model.gguf "$@" >"$dir/server.log" 2>&1 &
    fi
    pid=$!
    tries=0
    until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then
            kill "$pid" 2>/dev/null || true
            tail -n 5 "$dir/server.log" >&2
            exit 1
        fi
        sleep 0.2
    done
    echo "$pid http://127.0.0.1:$port"
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
