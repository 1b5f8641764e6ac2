#!/usr/bin/env python3
"""Power cuts under sessions on git, with real file systems on a block device.

A home with a repository lies in a file system that is mounted from a file. Turns of a session with a scripted model, forks, rewinds
and their undoing follow each other without a pause, each as a whole program. At moments of chance the file is cloned at once,
as it is: the clone has what the file system had sent to its device by then, and nothing of what it still held in memory. Each clone
is mounted at the same place, as after a power cut, and everything that a program had reported before it was made must be there: the
files of each turn, the fork, the place of the branch. `reedclaw session doctor` and `git fsck` must find nothing, and the next turn must be
committed. Prints JSON; ends with 1 if anything was lost. Needs root, loop devices, Python 3.9, git, and mkfs for XFS and what is tried.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CONFIG = """return { memory = {auto = false}, context = {project = false},
  models = { m = { kind = "mock", script = "%s" } } }"""
TURNS = 800


def run(*words, **more):
    """Runs a program, which must succeed, and returns its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def make(image, kind, size):
    with open(image, "wb") as file:
        file.truncate(size)
    flags = {"ext4": ["-q", "-F"], "xfs": ["-q", "-f"]}[kind]
    run(f"mkfs.{kind}", *flags, image)


def mount(image, at, kind, fresh=True):
    options = "loop" if kind != "xfs" or fresh else "loop,nouuid"
    run("mount", "-o", options, image, at)


def env_of(home):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}


def answer(number):
    call = {"name": "file_write", "arguments": {"path": path_of(number), "content": content_of(number)}}
    return {"when": f"change {number} please", "rounds": [[{"tool_call": call}], [{"text": "done"}]]}


def path_of(number):
    return f"d{number % 7}/f{number}.txt"


def content_of(number):
    return f"content of {number}\n" * (1 + number * 37 % 400)


def prepare(home):
    """A home with a config, the model's answers and a repository."""
    (home / ".config/reedclaw").mkdir(parents=True)
    script = home / "answers.jsonl"
    script.write_text("\n".join(json.dumps(answer(number)) for number in range(TURNS)))
    (home / ".config/reedclaw/config.lua").write_text(CONFIG % script)
    project = home / "project"
    project.mkdir()
    (project / "a.txt").write_text("old\n")
    env = env_of(home)
    run("git", "init", "-q", "-b", "main", cwd=project, env=env)
    for name, value in (("user.name", "x"), ("user.email", "x@y")):
        run("git", "config", name, value, cwd=project, env=env)
    run("git", "add", "-A", cwd=project, env=env)
    run("git", "commit", "-q", "-m", "first", cwd=project, env=env)
    run("sync")
    return project


class Work(threading.Thread):
    """The operations, one after the other. `done` has a line for each that was reported."""

    def __init__(self, exe, home, seed):
        super().__init__()
        self.exe, self.home, self.random = exe, home, random.Random(seed)
        self.done, self.error, self.is_over = [], None, False
        self.may_go_on = threading.Event()

    def reedclaw(self, *words):
        self.may_go_on.wait()
        return run(self.exe, *words, cwd=self.home / "project", env=env_of(self.home), stdin=subprocess.DEVNULL)

    def run(self):
        try:
            self.work()
        except Exception as error:
            self.error = error

    def work(self):
        session, turn = self.reedclaw("session", "start").strip(), 0
        self.done.append(("start", session))
        for number in range(TURNS - 1):
            if self.is_over:
                return
            if turn == 12:
                session, turn = self.reedclaw("session", "start").strip(), 0
                self.done.append(("start", session))
            self.reedclaw("agent", "--session", session, "-m", f"change {number} please")
            turn += 1
            self.done.append(("turn", session, turn, number))
            chance = self.random.random()
            if chance < 0.15:
                fork = self.reedclaw("session", "fork", session, str(turn)).strip()
                self.done.append(("start", fork))
                self.done.append(("turn", fork, turn, number))
            elif chance < 0.3 and turn > 2:
                # On the disk it may be done before it is reported.
                self.done.append(("between", session, turn - 1))
                self.reedclaw("session", "rewind", session, str(turn - 1))
                self.done.append(("at", session, turn - 1))
                self.done.append(("between", session, turn - 1))
                self.reedclaw("session", "undo", session)
                self.done.append(("at", session, turn))


def check(exe, home, done, kind, image, at):
    """What is missing after a cut. Runs in a mount namespace of its own, with the clone at the place of the original."""
    mount(image, at, kind, fresh=False)
    project, env, problems = home / "project", env_of(home), []

    def tried(*words):
        ran = subprocess.run([str(word) for word in words], cwd=project, env=env, capture_output=True, text=True,
                             stdin=subprocess.DEVNULL)
        return ran.returncode, ran.stdout, ran.stderr

    listed = {json.loads(line)["session"] for line in tried(exe, "session", "list", "--json")[1].splitlines()}
    starts = [it[1] for it in done if it[0] == "start"]
    problems += [f"session {it} is missing" for it in starts if it not in listed]
    # While a rewind is under way, or not undone, later turns may be kept commits without a number.
    newest = {}
    for it in done:
        if it[0] != "start":
            newest[it[1]] = it
    for it in [it for it in done if it[0] == "turn"][-15:]:
        _, session, turn, number = it
        if newest[session][0] != "turn" and newest[session][2] < turn:
            continue
        code, out, err = tried(exe, "session", "cat", session, path_of(number), str(turn))
        if (code, out) != (0, content_of(number)):
            problems.append(f"{it}: {code} {err.strip()} {out[:60]!r}")
    # What was under way is finished when its session is opened.
    under_way = [it for it in listed if it[-8:] in tried(exe, "session", "doctor")[1]]
    for session in under_way or starts[-1:]:
        code, out, err = tried(exe, "agent", "--session", session, "-m", f"change {TURNS - 1} please")
        if code != 0:
            problems.append(f"next turn: {code} {out}{err}")
    for words in ((exe, "session", "doctor"), ("git", "fsck", "--strict", "--no-dangling")):
        code, out, err = tried(*words)
        if code != 0:
            problems.append(f"{words}: {code} {out}{err}")
    run("umount", at)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exe", type=lambda it: str(Path(it).resolve()))
    parser.add_argument("--file-system", choices=("ext4", "xfs"), default="ext4")
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check:
        wanted = json.loads(Path(options.check).read_text())
        found = check(options.exe, Path(wanted["home"]), wanted["done"], options.file_system, wanted["image"], wanted["at"])
        print(json.dumps(found))
        return
    chance, results, lost = random.Random(options.seed), [], []
    place = Path(tempfile.mkdtemp(prefix="power-cut-"))
    outer, inner = place / "outer", place / "inner"
    outer.mkdir(), inner.mkdir()
    work = None
    try:
        make(place / "outer.img", "xfs", 3 << 30)
        mount(place / "outer.img", outer, "xfs")
        make(outer / "disk.img", options.file_system, 512 << 20)
        mount(outer / "disk.img", inner, options.file_system)
        home = inner / "home"
        home.mkdir()
        prepare(home)
        work = Work(options.exe, home, options.seed)
        work.start()
        while len(results) < options.cuts and work.error is None and work.is_alive():
            work.may_go_on.set()
            time.sleep(chance.uniform(0.05, 1.0))
            done = list(work.done)
            clone = outer / "clone.img"
            run("cp", "--reflink=always", outer / "disk.img", clone)
            # What runs goes on to its end; the next one waits until the clone was looked at.
            work.may_go_on.clear()
            wanted = place / "wanted.json"
            wanted.write_text(json.dumps({"home": str(home), "done": done, "image": str(clone), "at": str(inner)}))
            # The original stays mounted elsewhere; only this program sees the clone in its place.
            found = json.loads(run("unshare", "-m", "--propagation", "private", sys.executable, __file__, options.exe,
                                   "--file-system", options.file_system, "--check", wanted))
            results.append(len(done))
            lost += [f"cut {len(results)}: {it}" for it in found]
            clone.unlink()
    finally:
        if work:
            work.is_over = True
            work.may_go_on.set()
            work.join()
        for at in (inner, outer):
            subprocess.run(["umount", str(at)], stderr=subprocess.DEVNULL)
        shutil.rmtree(place, ignore_errors=True)
    if work.error:
        lost.append(f"the work ended: {work.error}")
    print(json.dumps({"file system": options.file_system, "cuts": len(results), "operations": results[-1] if results else 0,
                      "lost": lost}, indent=1))
    sys.exit(bool(lost) or len(results) < options.cuts)


if __name__ == "__main__":
    main()
