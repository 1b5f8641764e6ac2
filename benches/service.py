#!/usr/bin/env python3
"""Procedures and the service, with the executable: checking 200 files, 1,000 steps with receipts, the time from a file to the first
step, an idle service's memory and wake-ups, going on with a run. Needs Python 3.9.

    benches/service.py [--program target/release/reedclaw] [--name NAME] [--idle 120] [--only validate,steps,…]
"""
import argparse
import json
import os
import platform
import pty
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCK = time.perf_counter


class Home:
    """A home with a workspace, and procedures that are trusted."""

    def __init__(self, program):
        self.program, self.place = program, tempfile.TemporaryDirectory()
        self.top = Path(self.place.name)
        self.work = self.top / "work"
        (self.work / ".git").mkdir(parents=True)
        self.environment = {"HOME": self.place.name, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}

    def run(self, *words, check=True):
        return subprocess.run([self.program, *words], env=self.environment, cwd=self.work, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=check)

    def write(self, name, text):
        place = self.work / "sops" / name
        place.mkdir(parents=True)
        (place / "SOP.toml").write_text(f'name = "{name}"\n{text}')

    def trust(self, name):
        """Says yes at a terminal."""
        keeper, terminal = pty.openpty()
        child = subprocess.Popen([self.program, "sop", "trust", name], env=self.environment, cwd=self.work, stdin=terminal,
                                 stdout=terminal, stderr=terminal, start_new_session=True)
        shown = b""
        while b"(yes/no)?" not in shown:
            shown += os.read(keeper, 65536)
        os.write(keeper, b"yes\n")
        assert child.wait() == 0, shown
        os.close(terminal)
        os.close(keeper)

    def store(self):
        return sqlite3.connect(self.top / ".local/share/reedclaw/reedclaw.db", timeout=10)

    def service(self):
        child = subprocess.Popen([self.program, "--path", ".", "service", "run"], env=self.environment, cwd=self.work,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = ""
        while "the service runs" not in line:
            line = child.stderr.readline()
            assert line, "it ended"
        return child


def timed(times, act):
    taken = []
    for _ in range(times):
        began = CLOCK()
        act()
        taken.append((CLOCK() - began) * 1000)
    return {"median_ms": round(statistics.median(taken), 2), "min_ms": round(min(taken), 2), "n": times}


def waits(count, rest=""):
    return rest + "".join(f'[[steps]]\nid = "s{number}"\nkind = "wait"\nseconds = 0\n' for number in range(count))


def validate(program):
    empty, full = Home(program), Home(program)
    for number in range(200):
        full.write(f"p{number}", waits(6))
    return {"200 files": timed(10, lambda: full.run("sop", "validate")), "none": timed(10, lambda: empty.run("sop", "validate"))}


def steps(program):
    home = Home(program)
    step = '[[steps]]\nid = "s{0}"\nkind = "tool"\ntool = "time"\n'
    home.write("many", "".join(step.format(number) for number in range(100)))
    home.trust("many")
    home.run("sop", "run", "many")
    began = CLOCK()
    for _ in range(10):
        home.run("sop", "run", "many")
    seconds = CLOCK() - began
    sql = "SELECT (max(time) - min(time)) FROM run_event GROUP BY run"
    inside = sum(row[0] for row in home.store().execute(sql).fetchall()[1:]) / 1000
    receipts = sum(1 for _ in open(home.top / ".local/state/reedclaw/receipts.jsonl"))
    return {"seconds": round(seconds, 2), "seconds_without_starts": round(inside, 2), "receipts": receipts}


def first_step(program):
    home = Home(program)
    trigger = '[[triggers]]\nkind = "file"\npaths = ["in/*"]\nsettle_ms = 0\n'
    home.write("files", waits(1, trigger))
    home.trust("files")
    (home.work / "in").mkdir()
    service, taken = home.service(), []
    for number in range(20):
        (home.work / "draft").write_text("x")
        written = time.time() * 1000
        (home.work / "draft").rename(home.work / f"in/{number}")
        while "done" not in service.stderr.readline():
            pass
        sql = "SELECT time FROM run_event WHERE run = ? AND body LIKE '%\"begun\"%' ORDER BY seq LIMIT 1"
        taken.append(home.store().execute(sql, (number + 1,)).fetchone()[0] - written)
        time.sleep(0.3)
    service.terminate()
    service.wait()
    return {"median_ms": round(statistics.median(taken), 1), "max_ms": round(max(taken), 1), "n": len(taken)}


def idle(program, seconds):
    home = Home(program)
    trigger = '[[triggers]]\nkind = "file"\npaths = ["in/*"]\n[[triggers]]\nkind = "cron"\nat = "0 7 * * *"\n'
    for number in range(10):
        home.write(f"p{number}", waits(6, trigger))
        home.trust(f"p{number}")
    service = home.service()
    tasks = Path(f"/proc/{service.pid}/task")

    def switches():
        found = [line for task in tasks.iterdir() for line in (task / "status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in found if line.startswith("voluntary_ctxt_switches"))

    time.sleep(5)
    before = switches()
    time.sleep(seconds)
    woken = switches() - before
    rollup = Path(f"/proc/{service.pid}/smaps_rollup").read_text().splitlines()
    pss = next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    service.terminate()
    service.wait()
    return {"pss_mib": round(pss / 1024, 1), "wakeups_a_minute": round(woken * 60 / seconds, 1), "procedures": 10}


def resume(program):
    home = Home(program)
    home.write("asks", '[[steps]]\nid = "a"\nkind = "approval"\nprompt = "Go on?"\n' + waits(1))
    home.trust("asks")
    numbers = iter(range(1, 100))
    for _ in range(20):
        home.run("sop", "run", "asks", check=False)
    start = timed(20, lambda: home.run("--version"))
    return {"sop approve": timed(20, lambda: home.run("sop", "approve", str(next(numbers)))), "the start alone": start}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/reedclaw"))
    parser.add_argument("--name", default="service")
    parser.add_argument("--idle", type=int, default=120)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    parts = {
        "validate": lambda: validate(chosen.program),
        "steps": lambda: steps(chosen.program),
        "first_step": lambda: first_step(chosen.program),
        "idle": lambda: idle(chosen.program, chosen.idle),
        "resume": lambda: resume(chosen.program),
    }
    found = {"machine": platform.platform(), "cpus": os.cpu_count(), "load": os.getloadavg(), "program": chosen.program}
    for name, part in parts.items():
        if not chosen.only or name in chosen.only.split(","):
            found[name] = part()
            print(name, json.dumps(found[name]), flush=True)
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime())
    place = ROOT / "benches/runs" / f"{stamp}-{chosen.name}.json"
    place.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
