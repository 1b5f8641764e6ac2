#!/usr/bin/env python3
"""Runs towards goals: what ReedClaw itself takes beside the model.

Runs the executable with a scripted model that answers at once, in a fresh HOME and workspace, and prints medians as JSON:
milliseconds and processor milliseconds a task (with one call of a tool, and without), the peak memory of a long run beside a short one, the
time to take up a run of 10,000 events, the time from `norris pause` to the end of the run's process, and the round trip of an `echo` in two
sessions in turn, one of which has a run in the background whose model writes 20 words a second. Needs Python 3.9.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import shells

ROUNDS = 5


class Home:
    """A HOME with a model that plays a script, and a workspace."""

    def __init__(self, top, program, answers):
        self.top, self.program = Path(top), program
        self.work = self.top / "work"
        (self.work / ".git").mkdir(parents=True)
        (self.top / ".config/reedclaw").mkdir(parents=True)
        script = self.top / "script.jsonl"
        script.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
        (self.top / ".config/reedclaw/config.lua").write_text(
            'return { models = { m = { kind = "mock", script = "%s" } }, memory = { auto = false },\n'
            "  context = { project = false } }\n" % script)
        self.env = {"HOME": str(self.top), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}

    def begin(self, *words, **more):
        options = dict(cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True)
        return subprocess.Popen([self.program, "norris", *words], **{**options, **more})

    def run(self, *words):
        """Gives (status, wall seconds, processor seconds, peak KiB)."""
        began = time.perf_counter()
        child = self.begin(*words, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return child.returncode, time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    def plan(self, tasks):
        path = self.top / "plan.txt"
        path.write_text("".join("task number %d\n" % number for number in range(tasks)))
        return str(path)

    def store(self):
        return sqlite3.connect(next((self.top / ".local/share/reedclaw").glob("*.db")))


def shell(command):
    return {"when": "TASK", "rounds": [[{"tool_call": {"name": "shell", "arguments": {"command": command}}}], [{"text": "done"}]]}


def tasks(program, answers, count):
    """Medians of a run of so many tasks, less one of a single task."""
    figures = []
    for _ in range(ROUNDS):
        taken = []
        for number in (1, count):
            with tempfile.TemporaryDirectory() as top:
                home = Home(top, program, answers)
                words = ["go", "--plan", home.plan(number), "--budget-steps", "1000", "--budget-calls", "1000"]
                status, wall, cpu, peak = home.run(*words)
                assert status == 6, status
                taken.append((wall, cpu, peak))
        (short, long) = taken
        figures.append([(long[at] - short[at]) / (count - 1) * 1000 for at in (0, 1)] + [long[2] - short[2]])
    wall, cpu, peak = (statistics.median(column) for column in zip(*figures))
    return {"wall_ms_a_task": round(wall, 2), "cpu_ms_a_task": round(cpu, 2), "more_memory_kib": round(peak)}


def long_run(program, events):
    """Takes up a run of many events that has nothing left to do, less the time of one with few."""
    figures = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as top:
            home = Home(top, program, [{"steps": [{"text": "done"}]}])
            status, *_ = home.run("go", "--plan", home.plan(1))
            assert status == 6, status
            few = home.run("show", "1")[1]
            with home.store() as store:
                last = store.execute("SELECT max(seq) FROM run_event WHERE run = 1").fetchone()[0]
                store.execute("UPDATE run_event SET seq = seq + ? WHERE run = 1 AND seq = ?", (events, last))
                rows = [json.dumps({"event": "calling", "intent": "Reading `file-%d`" % number}) if number % 2 == 0
                        else json.dumps({"event": "called", "success": True}) for number in range(events)]
                store.executemany("INSERT INTO run_event (run, seq, time, body) VALUES (1, ?, 1, ?)",
                                  [(last + number, body) for number, body in enumerate(rows)])
            store.close()
            figures.append((home.run("show", "1")[1] - few) * 1000)
    return round(statistics.median(figures), 1)


def pause(program):
    """From the start of `norris pause` to the end of the run's process, in the middle of an answer."""
    figures = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as top:
            home = Home(top, program, [{"steps": [{"delay_ms": 600000}, {"text": "done"}]}])
            run = home.begin("go", "--plan", home.plan(1))
            for line in run.stderr:
                if "1/1" in line:
                    break
            asked = home.run("pause", "1")
            began = time.perf_counter()
            assert asked[0] == 0
            run.wait()
            figures.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(figures), 1)


def session(home):
    """A session in a workspace."""
    argv = ["sh", "-c", 'cd work && exec "$0" --norc', home.program]
    terminal = shells.Terminal({"argv": argv, "prompt": shells.REED_PROMPT}, str(home.top), None)
    assert terminal.wait_prompt() is not None, terminal.text()
    terminal.quiet(0.5, 3)
    return terminal


def background(home):
    """A session with a run in the background."""
    terminal = session(home)
    for keys, text in ((b":norris take long\r", b"go [g]"), (b"g", b"1/1"), (b"b", b"continues in the background")):
        terminal.clear()
        terminal.send(keys)
        assert terminal.wait_for(text) is not None, terminal.text()[-500:]
    terminal.quiet(0.5, 3)
    return terminal


def prompts(program, count):
    """Round trips of an `echo`: without a run, in another such session, and with a run in the background; and the ratios of the
    medians to the first. The second ratio says how much of the third is noise."""
    words = [step for number in range(20_000) for step in ({"text": "word%d " % number}, {"delay_ms": 50})]
    answers = [{"when": "Plan the work", "steps": [{"text": "TASK: talk"}]}, {"when": "TASK 1", "steps": words}]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, tempfile.TemporaryDirectory() as busy:
        sessions = [make(Home(top, program, answers)) for make, top in ((session, one), (session, other), (background, busy))]
        figures = [[], [], []]
        for number in range(count):
            for turn in range(3):
                at = (number + turn) % 3
                terminal, mark = sessions[at], b"n%d\r\n" % number
                terminal.clear()
                began = time.perf_counter()
                terminal.send(b"echo n$((%d))\r" % number)
                ended = terminal.wait_for(mark)
                while ended and not shells.REED_PROMPT.search(terminal.text().partition(mark)[2].rstrip(b"\r")):
                    ended = terminal.last if terminal.read(shells.WAIT_S) else None
                assert ended is not None, terminal.text()[-500:]
                figures[at].append((ended - began) * 1000)
                terminal.quiet(0.03, 1)
        assert "⚡".encode() in sessions[2].text(), "the run is over"
        [terminal.end() for terminal in sessions]
    alone, again, beside = (statistics.median(column[5:]) for column in figures)
    return {"alone_ms": round(alone, 3), "alone_again_ms": round(again, 3), "beside_a_run_ms": round(beside, 3),
            "ratio_alone_again": round(again / alone, 3), "ratio_beside_a_run": round(beside / alone, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reedclaw", type=Path)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--prompts", type=int, default=300)
    parser.add_argument("--only-prompts", action="store_true")
    asked = parser.parse_args()
    program = str(asked.reedclaw.resolve())
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    if asked.only_prompts:
        return print(json.dumps({"version": version, "load": os.getloadavg(), "prompt": prompts(program, asked.prompts)}, indent=2))
    print(json.dumps({
        "version": version,
        "load": os.getloadavg(),
        "words_only": tasks(program, [{"steps": [{"text": "done"}]}], asked.tasks),
        "one_command": tasks(program, [shell("echo x >> log")], asked.tasks),
        "take_up_10000_events_ms": long_run(program, 10_000),
        "pause_ms_after_its_command": pause(program),
        "prompt": prompts(program, asked.prompts),
    }, indent=2))


if __name__ == "__main__":
    main()
