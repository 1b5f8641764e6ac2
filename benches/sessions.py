#!/usr/bin/env python3
"""Sessions on git beside a worktree: how long their commands take in a large repository.

Makes a repository of many files with git fast-import below a temporary directory, runs each command several times as a
whole program, and prints medians in milliseconds as JSON, without the time that `reedclaw --version` takes. The peer is
`git worktree add`, by which other tools give each session its files. Needs Python 3.9 and git.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def make_repository(top, files):
    """A repository with one commit of small files, 100 a directory; nothing is checked out."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True)
    out = ["commit refs/heads/main\ncommitter x <x@y> 1700000000 +0000\ndata 1\nx\n"]
    for number in range(files):
        text = f"file {number}\n" * 20
        place = f"d{number // 10000}/e{number // 100 % 100}/f{number}.txt"
        out.append(f"M 100644 inline {place}\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=top, input="".join(out).encode(), check=True)
    for name, value in (("user.name", "x"), ("user.email", "x@y")):
        subprocess.run(["git", "config", name, value], cwd=top, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reedclaw", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    program = str(asked.reedclaw.resolve())
    with tempfile.TemporaryDirectory() as place:
        home, top = Path(place) / "home", Path(place) / "home" / "repository"
        home.mkdir()
        make_repository(top, asked.files)
        config = home / ".config" / "reedclaw"
        config.mkdir(parents=True)
        (config / "config.lua").write_text("return { memory = {auto = false} }")
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}

        def run(words):
            begun = time.monotonic()
            done = subprocess.run(words, cwd=top, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            took = (time.monotonic() - begun) * 1000
            if done.returncode:
                raise SystemExit(f"{words}: {done.stderr}")
            return took, done.stdout.strip()

        def median(words, before=None):
            times = []
            for _ in range(asked.rounds):
                if before:
                    before()
                times.append(run(words)[0])
            return statistics.median(times)

        empty = median([program, "--version"])
        session = [program, "session"]
        ident = run([*session, "start", "measured"])[1]
        found = {
            "start": median([*session, "start"]),
            "fork": median([*session, "fork", ident]),
            "list": median([*session, "list"]),
            "log": median([*session, "log", ident]),
            "cat": median([*session, "cat", ident, "d0/e50/f5050.txt"]),
            "diff": median([*session, "diff", ident]),
        }
        found = {name: round(took - empty, 1) for name, took in found.items()}
        tree = Path(place) / "worktree"

        def remove():
            shutil.rmtree(tree, ignore_errors=True)
            subprocess.run(["git", "worktree", "prune"], cwd=top, check=True)

        asked.rounds = min(asked.rounds, 3)
        found["peer: git worktree add"] = round(median(["git", "worktree", "add", "-q", "--detach", str(tree)], remove), 1)
        print(json.dumps({"files": asked.files, "program start": round(empty, 1), "ms": found}, indent=2))


if __name__ == "__main__":
    main()
