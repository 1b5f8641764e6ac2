#!/usr/bin/env python3
"""Commands of sessions on git by the sandbox that holds them: how long one takes until its files are ready.

Makes repositories of small files below a temporary directory and, with each sandbox, runs `reedclaw session run ID --yes true` as a
whole program: the first command in the repository, the first of another session, a later one, and one after a turn has changed
ten files. Prints milliseconds as JSON, without the time that `reedclaw --version` takes; of later commands the median, or the best
with --best. Needs Python 3.9, git and bubblewrap.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from sessions import make_repository, place_of

# Files that a turn changes.
CHANGED = 10


def answers(files):
    """A model that writes ten files, all with the time of now in them."""
    def call(number):
        path = place_of(number * (files // CHANGED))
        return [{"tool_call": {"name": "file_write", "arguments": {"path": path, "content": "CONTENT\n"}}}]

    rounds = [call(number) for number in range(CHANGED)]
    return json.dumps({"when": "write", "rounds": [*rounds, [{"text": "done"}]]})


def measure(program, tier, files, rounds, best):
    with tempfile.TemporaryDirectory(dir=Path.home()) as place:
        home, top = Path(place), Path(place) / "repository"
        make_repository(top, files)
        config = home / ".config" / "reedclaw"
        config.mkdir(parents=True)
        (config / "config.lua").write_text(
            f"return {{ memory = {{auto = false}}, context = {{project = false}}, security = {{tier = '{tier}'}}, "
            f"models = {{ m = {{ kind = 'mock', script = '{home}/answers.jsonl' }} }} }}"
        )
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}

        def run(*words):
            begun = time.monotonic()
            done = subprocess.run([program, *words], cwd=top, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            took = (time.monotonic() - begun) * 1000
            if done.returncode:
                raise SystemExit(f"{words}: {done.stderr}")
            return took, done.stdout.strip()

        middle = min if best else statistics.median
        empty = middle([run("--version")[0] for _ in range(rounds)])
        one, other = (run("session", "start", name)[1] for name in ("one", "other"))

        def command(ident):
            return run("session", "run", ident, "--yes", "true")[0]

        def after_changes(number):
            text = answers(files).replace("CONTENT", f"round {number}")
            (home / "answers.jsonl").write_text(text)
            run("session", "ask", one, "-m", "write")
            return command(one)

        found = {
            "first command in the repository": command(one),
            "first command of another session": command(other),
            "command": middle([command(one) for _ in range(rounds)]),
            "command after ten changed files": middle([after_changes(number) for number in range(rounds)]),
        }
        return {name: round(took - empty, 1) for name, took in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reedclaw", type=Path)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--tiers", nargs="+", default=["overlay", "bubblewrap", "landlock"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--best", action="store_true", help="the best of the rounds, for a busy machine; else the median")
    asked = parser.parse_args()
    program = str(asked.reedclaw.resolve())
    about = {"of the rounds": "best" if asked.best else "median", "rounds": asked.rounds}
    for files in asked.files:
        of = {tier: measure(program, tier, files, asked.rounds, asked.best) for tier in asked.tiers}
        print(json.dumps({"files": files, **about, "ms": of}, indent=2))


if __name__ == "__main__":
    main()
