#!/bin/bash
# Drives `reedclaw service` with a real systemd user manager. Runs as root in a mount namespace of its own, so that /run is empty
# but for what is made here. PROGRAM is the executable, HOME a home with a trusted procedure `files` in work/.
set -u
cd "$HOME/work" || exit 2
mkdir -p "$HOME/bin" && ln "$PROGRAM" "$HOME/bin/reedclaw" || exit 2
built=$PROGRAM PROGRAM="$HOME/bin/reedclaw"
fail() { echo "FAILED: $*"; cat "$HOME/manager.log" "$HOME/said" 2>/dev/null; exit 1; }
# until_true SECONDS COMMAND...: tries it until it succeeds.
until_true() {
    local end=$((SECONDS + $1)); shift
    until "$@" >/dev/null 2>&1; do ((SECONDS < end)) || return 1; done
}
state() { "$PROGRAM" service status --json 2>/dev/null | python3 -c "import json,sys; print(json.load(sys.stdin)$1)"; }
is_running() { "$PROGRAM" service status >/dev/null 2>&1; }
other_pid() { is_running && [[ $(state '["pid"]') != "$1" ]]; }
unit="$HOME/.config/systemd/user/reedclaw.service"

mount -t tmpfs none /run || exit 2
mkdir -p /run/systemd/system "/run/user/$UID"
chmod 700 "/run/user/$UID"

# Without a manager the text is taken back.
"$PROGRAM" --path . service install >"$HOME/said" 2>&1 && fail "it was installed without a manager"
[[ ! -e $unit ]] || fail "the unit was left behind"
grep -q 'service run works in the foreground' "$HOME/said" || fail "no way out was named"
echo "taken back"

# A control group of its own, where these are shared with other tests.
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    [[ -w $tree/cgroup.procs ]] && mkdir "$tree/reedclaw-test-$$" 2>/dev/null && echo $$ >"$tree/reedclaw-test-$$/cgroup.procs" 2>/dev/null
done
XDG_RUNTIME_DIR="/run/user/$UID" /lib/systemd/systemd --user --log-target=console >"$HOME/manager.log" 2>&1 &
manager=$!
trap 'kill "$manager" 2>/dev/null; wait "$manager" 2>/dev/null' EXIT
until_true 30 test -S "/run/user/$UID/systemd/private" || fail "the manager doesn't start"

# XDG_RUNTIME_DIR isn't set here: it is derived from the user's number.
"$PROGRAM" --path . service install >"$HOME/said" 2>&1 || fail "install"
until_true 30 is_running || fail "it isn't running"
echo "started"

pid=$(state '["pid"]')
kill -9 "$pid"
until_true 30 other_pid "$pid" || fail "it wasn't started again after a kill"
# It says that it is ready once it has seen which files are there.
is_ready() { XDG_RUNTIME_DIR="/run/user/$UID" systemctl --user is-active -q reedclaw.service; }
until_true 30 is_ready || fail "it isn't ready after a kill"
echo "restarted"

# An upgrade replaces the program below a running service. Its runs go on: one in the unit, where the sandbox holds within the
# unit's limits.
cp "$built" "$HOME/bin/new" && mv "$HOME/bin/new" "$PROGRAM" || fail "no upgrade"
mkdir -p inbox
echo 1 >inbox/quick
until_true 60 grep -q quick log || fail "no run"
# What the step has written is there before the run's end.
is_done() { "$PROGRAM" sop status 1 | grep -q 'files: done'; }
until_true 60 is_done || fail "the run isn't done: $("$PROGRAM" sop status 1)"
echo "ran"

mkdir -p "$unit.d"
printf '[Service]\nWatchdogSec=2\nTimeoutAbortSec=2\n' >"$unit.d/quick.conf"
export XDG_RUNTIME_DIR="/run/user/$UID"
systemctl --user daemon-reload || fail "daemon-reload"
"$PROGRAM" service restart >"$HOME/said" 2>&1 || fail "restart"
until_true 30 other_pid "$pid" || fail "it isn't running after a restart"
pid=$(state '["pid"]')
kill -STOP "$pid"
until_true 60 other_pid "$pid" || fail "the watchdog didn't end a service that hangs"
echo "watched"
rm -r "$unit.d"
systemctl --user daemon-reload
# The next one isn't watched so closely: on a busy machine it would be ended again.
"$PROGRAM" service restart >"$HOME/said" 2>&1 || fail "restart after the watchdog"
until_true 30 is_ready || fail "it isn't ready after the watchdog"

# A step that takes long is cut when the service is to end, and its run can go on.
echo 1 >inbox/slow
is_begun() { "$PROGRAM" sop status 2 | grep -q 'note (shell): begun'; }
until_true 60 is_begun || fail "the long step doesn't begin"
before=$SECONDS
"$PROGRAM" service stop >"$HOME/said" 2>&1 || fail "stop"
((SECONDS - before <= 20)) || fail "stop took $((SECONDS - before)) s"
is_running && fail "it still runs"
systemctl --user is-failed -q reedclaw.service && fail "the end counts as a failure"
echo "stopped"

"$PROGRAM" service start >"$HOME/said" 2>&1 || fail "start"
until_true 30 "$PROGRAM" service status --json || true
"$PROGRAM" service uninstall >"$HOME/said" 2>&1 || fail "uninstall"
[[ -z $(find "$HOME/.config/systemd" -name '*reedclaw*' 2>/dev/null) ]] || fail "something is left: $(find "$HOME/.config/systemd")"
[[ -z $(systemctl --user list-units --all --no-legend 'reedclaw*') ]] || fail "a unit is left"
echo "gone"
