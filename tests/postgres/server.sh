#!/usr/bin/env bash
# A PostgreSQL server for tests, on a Unix socket in a directory of its own, without a password.
#   server.sh start DIRECTORY [synced]   prints the address; it syncs its files only if that is asked for
#   server.sh stop DIRECTORY             ends it and removes the directory
set -euo pipefail
directory=${2:?a directory}
programs=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[[ -n $programs ]] || { echo "PostgreSQL (Debian package postgresql) is not installed" >&2; exit 1; }
# The server refuses to run as root.
as=()
((EUID)) || as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
case ${1:-} in
start)
    unsynced=-F
    [[ ${3:-} != synced ]] || unsynced=
    mkdir -m 700 "$directory"
    ((EUID)) || chown postgres "$directory"
    cd /
    "${as[@]}" "$programs/initdb" -D "$directory/data" -N -A trust -U postgres -E UTF8 --locale C.UTF-8 >&2
    "${as[@]}" "$programs/pg_ctl" -D "$directory/data" -w -t 60 -l "$directory/log" \
        -o "-c listen_addresses= -c unix_socket_directories=$directory -c max_connections=400 $unsynced" start >&2
    echo "postgres://postgres@${directory//\//%2F}/postgres"
    ;;
stop)
    cd /
    "${as[@]}" "$programs/pg_ctl" -D "$directory/data" -m immediate stop >&2 || true
    rm -rf "$directory"
    ;;
*)
    echo "usage: server.sh start DIRECTORY [synced] | stop DIRECTORY" >&2
    exit 2
    ;;
esac
