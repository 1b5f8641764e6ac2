#!/usr/bin/env python3
"""Measures interactive shells side by side in pseudo-terminals and records the run.

    benches/shells.py [--quick] [--name NAME] [--cpus LIST] [--only ROW,...] [--programs NAME,...] [--before PATH]
        [PATH-OF-REEDCLAW]

Rows: start, start-slow-rc, roundtrip, key, lived-in, idle, c-true, cat. The programs take turns within each row, so that a busy
moment of the machine falls on all of them. The harness answers a terminal's questions (cursor position, device
attributes, colours, keyboard) at once, as a real terminal does. It writes DATE-NAME.json (all figures) and
DATE-NAME.txt (medians and ratios) to benches/runs. Only the standard library is used.
"""
import argparse
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, COLUMNS = 40, 120
WAIT_S = 30
CONTROLS = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b[()][0-9A-Za-z]"
    rb"|\x1b[=>78cDEHM]|[\x00\x07\x0e\x0f]", re.S)
QUESTIONS = [
    (re.compile(rb"\x1b\[6n"), lambda row: b"\x1b[%d;1R" % row),
    (re.compile(rb"\x1b\[5n"), lambda row: b"\x1b[0n"),
    (re.compile(rb"\x1b\[0?c"), lambda row: b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\[>0?c"), lambda row: b"\x1b[>1;10;0c"),
    (re.compile(rb"\x1b\[>0?q"), lambda row: b"\x1bP>|bench\x1b\\"),
    (re.compile(rb"\x1b\[\?u"), lambda row: b"\x1b[?0u"),
    (re.compile(rb"\x1b\]10;\?(?:\x07|\x1b\\)"), lambda row: b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(?:\x07|\x1b\\)"), lambda row: b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
]
ANY_PROMPT = re.compile(rb"[#$%>] ?$")
REED_PROMPT = re.compile("❯ $".encode())


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, program, home, cpus):
        environment = {
            "PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TERM": "xterm-256color",
            "USER": "bench", "SHELL": "/bin/bash", "NO_AT_BRIDGE": "1", "TMUX_TMPDIR": home,
        }
        self.prompt = program["prompt"]
        self.seen, self.asked = b"", 0
        self.bytes, self.row = 0, 1
        self.started = self.last = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(home)
                if cpus:
                    os.sched_setaffinity(0, cpus)
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
                os.execvpe(program["argv"][0], program["argv"], environment)
            finally:
                os._exit(127)

    def read(self, timeout):
        """Reads once and answers questions; True where bytes came, None at the end."""
        if not select.select([self.fd], [], [], max(0, timeout))[0]:
            return False
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return None
        if not data:
            return None
        self.last = time.perf_counter()
        self.bytes += len(data)
        self.seen += data
        self.answer()
        return True

    def answer(self):
        if b"\x1b" not in self.seen[self.asked:]:
            self.asked = len(self.seen)
            return
        found = []
        for pattern, reply in QUESTIONS:
            found += [(m.end(), reply) for m in pattern.finditer(self.seen, self.asked)]
        for end, reply in sorted(found, key=lambda one: one[0]):
            self.send(reply(self.row))
            self.asked = max(self.asked, end)
        cut = self.seen.rfind(b"\x1b", max(self.asked, len(self.seen) - 32))
        self.asked = cut if cut >= 0 else len(self.seen)

    def send(self, data):
        while data:
            data = data[os.write(self.fd, data):]

    def clear(self):
        self.seen, self.asked = b"", 0

    def text(self):
        return CONTROLS.sub(b"", self.seen)

    def wait_prompt(self, after_line_feed=False):
        """When the prompt was there; None where it never came."""
        deadline = time.perf_counter() + WAIT_S
        while time.perf_counter() < deadline:
            got = self.read(0.25)
            if got is None:
                return None
            if got:
                text = self.text()
                start = text.find(b"\n") + 1 if after_line_feed else 0
                if after_line_feed and start == 0:
                    continue
                # What lies behind a carriage return was drawn over.
                if self.prompt.search(text.rstrip(b"\r"), start):
                    return self.last
        return None

    def wait_for(self, wanted):
        deadline = time.perf_counter() + WAIT_S
        while time.perf_counter() < deadline:
            got = self.read(0.25)
            if got is None:
                return None
            if got and wanted in self.text():
                return self.last
        return None

    def quiet(self, silence, limit=5.0):
        """Reads until nothing has come for so long."""
        end = time.perf_counter() + limit
        while time.perf_counter() < end and self.read(silence):
            pass

    def end(self):
        for number, wait in ((signal.SIGHUP, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 2)):
            for process in reversed(tree(self.pid)):
                try:
                    os.kill(process, number)
                except ProcessLookupError:
                    pass
            end = time.time() + wait
            while time.time() < end:
                self.read(0.01)
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    os.close(self.fd)
                    return
        os.close(self.fd)


def tree(process):
    """A process and its descendants, parents first."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found, todo = [], [process]
    while todo:
        found.append(todo.pop(0))
        todo += children.get(found[-1], [])
    return found


def field(path, name):
    try:
        with open(path) as file:
            return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)
    except OSError:
        return 0


def switches(processes):
    """Voluntary context switches of all threads: how often each has gone to sleep, so how often it had woken."""
    total = 0
    for process in processes:
        try:
            threads = os.listdir(f"/proc/{process}/task")
        except OSError:
            continue
        total += sum(field(f"/proc/{process}/task/{t}/status", "voluntary_ctxt_switches:") for t in threads)
    return total


def command_name(process):
    try:
        with open(f"/proc/{process}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


class Bench:
    """One run: the programs, the homes they live in, and what was measured."""

    def __init__(self, options):
        self.options = options
        self.cpus = {int(cpu) for cpu in options.cpus.split(",")} if options.cpus else None
        self.root = tempfile.mkdtemp(prefix="bench-")
        self.results = {}
        tmux = os.path.join(self.root, "tmux.sock")
        known = {
            "bash": (["bash", "--norc", "--noprofile"], ANY_PROMPT),
            "zsh": (["zsh", "-f"], ANY_PROMPT),
            "fish": (["fish", "--no-config"], ANY_PROMPT),
            "script": (["script", "-q", "-c", "bash --norc --noprofile", "/dev/null"], ANY_PROMPT),
            "tmux": (["tmux", "-S", tmux, "-f", "/dev/null", "new-session", "bash --norc --noprofile"],
                     re.compile(rb"bash-[0-9.]+[#$] ")),
            "reedclaw": ([options.program, "--norc"], REED_PROMPT),
        }
        if options.before:
            known["before"] = ([os.path.abspath(options.before), "--norc"], REED_PROMPT)
        wanted = [*options.programs.split(","), "before"] if options.programs else list(known)
        self.programs = {
            name: {"argv": argv, "prompt": prompt} for name, (argv, prompt) in known.items()
            if name in wanted and shutil.which(argv[0])
        }
        self.tmux = tmux
        self.count = 0

    def home(self, rc=None):
        self.count += 1
        home = os.path.join(self.root, f"home{self.count}")
        os.mkdir(home)
        if rc:
            for name in (".bashrc", ".zshrc"):
                with open(os.path.join(home, name), "w") as file:
                    file.write(rc)
        return home

    def start(self, name, home, argv=None):
        program = dict(self.programs[name])
        if argv:
            program["argv"] = argv
        return Terminal(program, home, self.cpus)

    def stop(self, name, terminal):
        terminal.end()
        if name == "tmux":
            subprocess.run(["tmux", "-S", self.tmux, "kill-server"], capture_output=True)

    def take(self, row, name, value):
        self.results.setdefault(row, {}).setdefault(name, []).append(value)

    def note(self, row, name, why):
        self.results.setdefault("problems", []).append(f"{row} {name}: {why}")

    def turns(self, count, names):
        for _ in range(count):
            for name in names:
                if name in self.programs:
                    yield name

    # -- rows ---------------------------------------------------------------------------------------
    def row_start(self):
        """Spawn to first prompt, no start-up files; the home has been used once before, as anyone's has."""
        homes = {name: self.home() for name in self.programs}
        count = 6 if self.options.quick else 25
        for turn, name in enumerate(self.turns(count + 1, self.programs)):
            terminal = self.start(name, homes[name])
            at = terminal.wait_prompt()
            if at is None:
                self.note("start", name, repr(terminal.text()[-200:]))
            elif turn >= len(self.programs):
                self.take("start", name, (at - terminal.started) * 1e3)
            terminal.quiet(0.15, 1)
            self.stop(name, terminal)

    def row_start_slow_rc(self):
        """The same where the start-up files take 300 ms, and until a line that was typed at once has run."""
        argv = {"bash": ["bash"], "zsh": ["zsh"], "reedclaw": [self.options.program]}
        homes = {name: self.home("sleep 0.3\nPS1='$ '\n") for name in argv}
        for name in self.turns(3 if self.options.quick else 8, argv):
            terminal = self.start(name, homes[name], argv[name])
            at = terminal.wait_prompt()
            if at is None:
                self.note("start-slow-rc", name, repr(terminal.text()[-200:]))
            else:
                self.take("start-slow-rc", name, (at - terminal.started) * 1e3)
                terminal.send(b"echo RA''N\r")
                ran = terminal.wait_for(b"RAN")
                if ran is not None:
                    self.take("start-slow-rc, line has run", name, (ran - terminal.started) * 1e3)
            self.stop(name, terminal)

    def row_roundtrip(self):
        """`true` and Enter sent at once, until the next prompt."""
        open_now = {}
        for name in self.programs:
            open_now[name] = self.start(name, self.home())
            open_now[name].wait_prompt()
            open_now[name].quiet(0.5, 3)
        for turn, name in enumerate(self.turns(40 if self.options.quick else 200, self.programs)):
            terminal = open_now[name]
            terminal.clear()
            began = time.perf_counter()
            terminal.send(b"true\r")
            at = terminal.wait_prompt(after_line_feed=True)
            if at is None:
                self.note("roundtrip", name, repr(terminal.text()[-200:]))
                break
            if turn >= 5 * len(self.programs):
                self.take("roundtrip", name, (at - began) * 1e3)
            terminal.quiet(0.03, 1)
        for name, terminal in open_now.items():
            self.stop(name, terminal)

    def row_key(self):
        """A key pressed at the end of a line of 200 characters: until the first byte of its drawing, and the last."""
        names = [name for name in ("bash", "zsh", "fish", "reedclaw") if name in self.programs]
        open_now = {}
        for name in names:
            terminal = open_now[name] = self.start(name, self.home())
            terminal.wait_prompt()
            terminal.quiet(0.5, 3)
            terminal.send(b"echo " + b"abcd efgh " * 19 + b"xyzzy")
            terminal.quiet(0.3, 3)
        for turn, name in enumerate(self.turns(60 if self.options.quick else 300, names)):
            terminal = open_now[name]
            terminal.clear()
            began = time.perf_counter()
            terminal.send(b"q" if (turn // len(names)) % 2 == 0 else b"\x7f")
            if not terminal.read(2):
                self.note("key", name, "nothing was drawn")
                continue
            first = terminal.last
            terminal.quiet(0.02, 1)
            self.take("key, first byte", name, (first - began) * 1e3)
            self.take("key, last byte", name, (terminal.last - began) * 1e3)
        for name, terminal in open_now.items():
            self.stop(name, terminal)

    def lived_in(self, reedclaw):
        """A home of years: 100,000 lines of history, 2,000 aliases, and work in a repository of 50,000 files."""
        aliases = "".join(f"alias a{i}='echo {i} --option=value'\n" for i in range(2000))
        home = self.home(aliases + "HISTSIZE=200000 HISTFILESIZE=200000\nPS1='$ '\ncd ~/work\n")
        lines = "".join(f"#{1700000000 + i}\ngit log --grep 'word {i}' file{i % 977}\n" for i in range(100_000))
        with open(os.path.join(home, ".bash_history"), "w") as file:
            file.write(lines)
        for folder in range(500):
            path = os.path.join(home, "work", f"dir{folder % 25}", f"sub{folder}")
            os.makedirs(path)
            for number in range(100):
                with open(os.path.join(path, f"file{number}.txt"), "w") as file:
                    file.write(f"{folder} {number}\n")
        git = ["git", "-C", os.path.join(home, "work"), "-c", "user.email=a@b", "-c", "user.name=a"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            subprocess.run(git + words, check=True)
        if reedclaw:
            environment = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
            subprocess.run([self.options.program, "history", "import", "bash"], check=True,
                           env=environment, stdout=subprocess.DEVNULL)
        return home

    def row_lived_in(self):
        """Enter to next prompt, a key, Up and Ctrl-R in such a home; beside them ReedClaw in an empty one."""
        empty = self.home("PS1='$ '\nmkdir -p ~/work; cd ~/work\n")
        cases = {"bash": (["bash"], self.lived_in(False)), "lived in": ([self.options.program], self.lived_in(True)),
                 "empty": ([self.options.program], empty)}
        open_now = {}
        for name, (argv, home) in cases.items():
            self.programs.setdefault(name, {"argv": argv, "prompt": REED_PROMPT})
            terminal = open_now[name] = self.start(name, home, argv)
            terminal.prompt = ANY_PROMPT if name == "bash" else REED_PROMPT
            terminal.wait_prompt()
            terminal.quiet(2, 10)

        def drawn(name, row, keys):
            terminal = open_now[name]
            terminal.clear()
            began = time.perf_counter()
            terminal.send(keys)
            if not terminal.read(5):
                return self.note("lived-in", name, f"{row}: nothing was drawn")
            terminal.quiet(0.05, 2)
            self.take(f"lived-in, {row}", name, (terminal.last - began) * 1e3)

        for turn in range(10 if self.options.quick else 60):
            for name, terminal in open_now.items():
                terminal.clear()
                began = time.perf_counter()
                terminal.send(b"true\r")
                at = terminal.wait_prompt(after_line_feed=True)
                if at is None:
                    self.note("lived-in", name, repr(terminal.text()[-200:]))
                elif turn >= 3:
                    self.take("lived-in, roundtrip", name, (at - began) * 1e3)
                terminal.quiet(0.05, 1)
                drawn(name, "first key", b"g")
                drawn(name, "second key", b"i")
                drawn(name, "Up", b"\x1b[A")
                terminal.send(b"\x03")
                terminal.quiet(0.1, 2)
                drawn(name, "Ctrl-R", b"\x12")
                drawn(name, "letter in Ctrl-R", b"7")
                terminal.send(b"\x07")
                terminal.quiet(0.05, 2)
                terminal.send(b"\x03")
                terminal.quiet(0.1, 2)
        for name, terminal in open_now.items():
            self.stop(name, terminal)

    def row_idle(self):
        """Memory of the program without the shell below it, and how often its threads wake in five seconds."""
        for name in self.turns(1 if self.options.quick else 2, self.programs):
            terminal = self.start(name, self.home())
            terminal.wait_prompt()
            terminal.quiet(1.0, 3)
            below = name in ("reedclaw", "script", "tmux")
            own = [p for p in tree(terminal.pid) if not (below and command_name(p) == "bash")]
            if name == "tmux":
                # The server is nobody's child.
                found = subprocess.run(["tmux", "-S", self.tmux, "display-message", "-p", "#{pid}"],
                                       capture_output=True, text=True).stdout.split()
                own += [int(pid) for pid in found]
                terminal.quiet(0.5, 2)
            before = switches(own)
            terminal.quiet(5, 5)
            self.take("wake-ups in 5 s", name, switches(own) - before)
            self.take("processes", name, len(own))
            for what in ("Rss", "Pss"):
                total = sum(field(f"/proc/{p}/smaps_rollup", what + ":") for p in own)
                self.take(f"idle {what.upper()}", name, total / 1024)
            self.stop(name, terminal)

    def row_c_true(self):
        """`-c true` from spawn to end."""
        home = self.home()
        programs = {"bash": "bash", "zsh": "zsh", "fish": "fish", "reedclaw": self.options.program}
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        before = os.sched_getaffinity(0)
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)
        for turn, name in enumerate(self.turns(60 if self.options.quick else 400, programs)):
            began = time.perf_counter()
            child = os.posix_spawnp(programs[name], [programs[name], "-c", "true"], environment, file_actions=actions)
            os.waitpid(child, 0)
            if turn >= 5 * len(programs):
                self.take("c-true", name, (time.perf_counter() - began) * 1e3)
        os.sched_setaffinity(0, before)
        os.close(null)

    def row_cat(self):
        """`cat` of a large file typed into each, read as fast as it comes."""
        size = (20 if self.options.quick else 200) * 1000 * 1000
        plain = b"".join(b"%06d the quick brown fox jumps over the lazy dog and runs on\n" % i for i in range(2000))
        dense = b"".join(b"".join(b"\x1b[38;5;%dmw%02d\x1b[0m " % ((i * 7 + j) % 256, j) for j in range(9)) + b"\n"
                         for i in range(2000))
        for kind, block in (("plain", plain), ("colour", dense)):
            path = os.path.join(self.root, kind)
            with open(path, "wb") as file:
                for _ in range(size // len(block)):
                    file.write(block)
                written = file.tell()
            names = [name for name in ("bash", "script", "tmux", "reedclaw") if name in self.programs]
            for turn, name in enumerate(self.turns(2 if self.options.quick else 3, names)):
                terminal = self.start(name, self.home())
                terminal.wait_prompt()
                terminal.quiet(0.4, 3)
                # Typed in two halves, so that the line's own echo isn't taken for its output.
                mark = b"DONE%d" % turn
                terminal.send(b"cat %s; echo DO''%s\r" % (path.encode(), mark[2:]))
                began, tail = time.perf_counter(), b""
                while True:
                    if not select.select([terminal.fd], [], [], WAIT_S)[0]:
                        break
                    data = os.read(terminal.fd, 1 << 16)
                    tail = (tail + data)[-256:]
                    if b"\x1b[6n" in data:
                        terminal.send(b"\x1b[1;1R")
                    if mark in CONTROLS.sub(b"", tail):
                        self.take(f"cat, {kind}", name, written / 1e6 / (time.perf_counter() - began))
                        break
                else:
                    self.note("cat", name, "the end was never seen")
                self.stop(name, terminal)
            os.unlink(path)


UNITS = {"wake-ups in 5 s": "", "processes": "", "idle RSS": "MiB", "idle PSS": "MiB", "cat, plain": "MB/s",
         "cat, colour": "MB/s"}


def machine():
    def first(path, start):
        with open(path) as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(start)), "?")
    system = os.uname()
    return {"cpu": first("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "memory": first("/proc/meminfo", "MemTotal"), "kernel": f"{system.sysname} {system.release}"}


def versions(bench):
    found = {}
    for name, flag in (("bash", "--version"), ("zsh", "--version"), ("fish", "--version"), ("script", "--version"),
                       ("tmux", "-V")):
        if shutil.which(name):
            said = subprocess.run([name, flag], capture_output=True, text=True).stdout.splitlines()
            found[name] = said[0] if said else "?"
    said = subprocess.run([bench.options.program, "--version"], capture_output=True, text=True)
    found["reedclaw"] = f"{said.stdout.strip()}, {os.path.getsize(bench.options.program)} bytes"
    return found


def summary(values):
    ordered = sorted(values)
    at = lambda part: ordered[min(len(ordered) - 1, int(part * len(ordered)))]
    return {"n": len(ordered), "median": statistics.median(ordered), "p25": at(0.25), "p99": at(0.99),
            "min": ordered[0], "max": ordered[-1]}


def rounded(value):
    """A record without digits that nobody can have measured."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def write(bench, record):
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime())
    base = os.path.join(HERE, "runs", f"{stamp}-{bench.options.name}")
    os.makedirs(os.path.dirname(base), exist_ok=True)
    with open(base + ".json", "w") as file:
        json.dump(rounded(record), file)
        file.write("\n")
    lines = [f"{key}: {record[key]}" for key in ("date", "command", "load1 before", "load1 after")]
    lines += [f"{key}: {value}" for part in ("machine", "versions") for key, value in record[part].items()]
    for row, programs in record["summary"].items():
        lines += ["", f"{row}" + (f" ({UNITS.get(row, 'ms')})" if UNITS.get(row, "ms") else ""),
                  f"  {'':10}{'median':>10}{'p25':>10}{'min':>10}{'p99':>10}{'max':>10}{'n':>6}   of bash"]
        base_line = programs.get("bash", {}).get("median")
        for name, one in programs.items():
            ratio = f"{one['median'] / base_line:9.2f}" if base_line else ""
            lines.append(f"  {name:10}" + "".join(f"{one[key]:10.2f}" for key in ("median", "p25", "min", "p99", "max"))
                         + f"{one['n']:6}{ratio}")
    lines += ["", *("problem: " + problem for problem in record["problems"])]
    with open(base + ".txt", "w") as file:
        file.write("\n".join(lines).rstrip() + "\n")
    print("\n".join(lines))
    print(f"{base}.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=os.path.join(HERE, "..", "target", "release", "reedclaw"))
    parser.add_argument("--name", default="shells", help="names the files of the record")
    parser.add_argument("--cpus", help="pins the programs (not the harness) to these processors, such as 1")
    parser.add_argument("--only", help="rows, separated by commas")
    parser.add_argument("--programs", help="programs, separated by commas")
    parser.add_argument("--before", help="another executable of ReedClaw that takes turns with it, to compare both")
    parser.add_argument("--quick", action="store_true", help="few turns and small files")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    bench = Bench(options)
    rows = ["start", "start-slow-rc", "roundtrip", "key", "lived-in", "idle", "c-true", "cat"]
    # The record names no directory of the machine it was made on.
    shown = ["benches/shells.py", *(os.path.basename(word) for word in sys.argv[1:])]
    record = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "command": " ".join(shown),
              "machine": machine(), "versions": versions(bench), "load1 before": os.getloadavg()[0]}
    try:
        for row in options.only.split(",") if options.only else rows:
            print(f"{row} …", file=sys.stderr)
            getattr(bench, "row_" + row.replace("-", "_"))()
    finally:
        shutil.rmtree(bench.root, ignore_errors=True)
    problems = bench.results.pop("problems", [])
    record.update({"load1 after": os.getloadavg()[0], "problems": problems, "raw": bench.results})
    record["summary"] = {row: {name: summary(values) for name, values in programs.items()}
                         for row, programs in bench.results.items()}
    write(bench, record)


if __name__ == "__main__":
    main()
