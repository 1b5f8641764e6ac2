#!/usr/bin/env python3
"""Sessions on git beside a worktree: how long their commands take in a large repository.

Makes a repository of many files with git fast-import below a temporary directory, one of the real files below --source, or a
clone of --clone with its history, runs each command several times as a whole program, and prints medians in milliseconds as
JSON, without the time that `reedclaw --version` takes. Some looks are taken while another process runs a turn. In the made
repository a command makes 200,000 files that git doesn't ignore, two with names of secrets and one of 2 GB: printed are its time,
the time from its end to the end of the program, the time of the same command in plain sh, and the bytes by which the objects of
the repository grow. The peer is `git worktree add`, by which other tools give each session its files. At the end `git fsck` must
find nothing. Needs Python 3.9, git and the overlay sandbox.
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


def place_of(number):
    """The path of a file, 100 of them a directory."""
    return f"d{number // 10000}/e{number // 100 % 100}/f{number}.txt"


def make_repository(top, files):
    """A repository with one commit of small files, 100 a directory; nothing is checked out."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True)
    out = ["commit refs/heads/main\ncommitter x <x@y> 1700000000 +0000\ndata 1\nx\n"]
    for number in range(files):
        text = f"file {number}\n" * 20
        out.append(f"M 100644 inline {place_of(number)}\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=top, input="".join(out).encode(), check=True)
    for name, value in (("user.name", "x"), ("user.email", "x@y")):
        subprocess.run(["git", "config", name, value], cwd=top, check=True)


def make_real_repository(top, source):
    """A repository with one commit of the files below a directory; nothing is checked out."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True)
    for name, value in (("user.name", "x"), ("user.email", "x@y"), ("core.autocrlf", "false")):
        subprocess.run(["git", "config", name, value], cwd=top, check=True)
    env = {**os.environ, "GIT_DIR": str(top / ".git"), "GIT_WORK_TREE": str(source)}
    subprocess.run(["git", "add", "-A", "-f", "."], cwd=source, env=env, check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["git", "commit", "-q", "-m", "x"], cwd=source, env=env, check=True)
    listed = subprocess.run(["git", "ls-files"], cwd=source, env=env, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


def clone_repository(top, source):
    """A clone of a repository with its history; nothing is checked out."""
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", "--no-checkout", str(source), str(top)], check=True)
    subprocess.run(["git", "read-tree", "HEAD"], cwd=top, check=True)
    for name, value in (("user.name", "x"), ("user.email", "x@y")):
        subprocess.run(["git", "config", name, value], cwd=top, check=True)
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=top, check=True, capture_output=True, text=True)
    files = (line.split("\t", 1) for line in listed.stdout.splitlines())
    return [name for about, name in files if about.startswith("100")]


# Many files, two with names of secrets, and one of 2 GB; then the time.
FLOOD = "mkdir flood && (cd flood && seq {} | split -a 4 -l 1) && echo k >.env && echo k >id_rsa && truncate -s 2G big.bin \
&& date +%s.%N"


def bytes_below(directory):
    """The bytes of all files below a directory."""
    return sum(it.stat().st_size for it in directory.rglob("*") if it.is_file())


def answers(path):
    """A model that writes a file, and one that keeps a turn running."""

    def call(name, arguments):
        return [{"tool_call": {"name": name, "arguments": arguments}}]

    write = call("file_write", {"path": path, "content": "one\n"})
    wait = call("shell", {"command": "sleep 600"})
    turns = [("write", write), ("wait", wait)]
    return "\n".join(json.dumps({"when": when, "rounds": [it, [{"text": "done"}]]}) for when, it in turns)


def flood(run, session, top, plain, files):
    """What a command with a flood of files costs beside itself, and the bytes of objects that it leaves."""
    ident = run([*session, "start", "flood"])[1]
    run([*session, "run", ident, "--yes", "true"])
    before = bytes_below(top / ".git" / "objects")
    took, said = run([*session, "run", ident, "--yes", FLOOD.format(files)])
    after = (time.time() - float(said.splitlines()[-1])) * 1000
    grown = bytes_below(top / ".git" / "objects") - before
    plain.mkdir()
    alone = run(["sh", "-c", f"cd '{plain}' && {FLOOD.format(files)}"])[0]
    return {
        "a flood of files by a command": took,
        "from its end to the end of the program": after,
        "the flood in plain sh": alone,
        "bytes of objects after the flood": grown,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reedclaw", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--source", type=Path, help="a directory whose files the repository has")
    parser.add_argument("--clone", type=Path, help="a repository that is cloned")
    parser.add_argument("--flood", type=int, default=200_000, help="files that one command makes")
    parser.add_argument("--best", action="store_true", help="the best of the rounds, for a busy machine; else the median")
    asked = parser.parse_args()
    program = str(asked.reedclaw.resolve())
    with tempfile.TemporaryDirectory() as place:
        home, top = Path(place) / "home", Path(place) / "home" / "repository"
        home.mkdir()
        path = place_of(asked.files // 2)
        if asked.source:
            listed = make_real_repository(top, asked.source.resolve())
            asked.files, path = len(listed), listed[len(listed) // 2]
        elif asked.clone:
            listed = clone_repository(top, asked.clone.resolve())
            asked.files, path = len(listed), listed[len(listed) // 2]
        else:
            make_repository(top, asked.files)
        config = home / ".config" / "reedclaw"
        config.mkdir(parents=True)
        (home / "answers.jsonl").write_text(answers(path))
        (config / "config.lua").write_text(
            "return { memory = {auto = false}, context = {project = false}, "
            f"models = {{ m = {{ kind = 'mock', script = '{home}/answers.jsonl' }} }} }}"
        )
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
            return min(times) if asked.best else statistics.median(times)

        empty = median([program, "--version"])
        session = [program, "session"]
        ident = run([*session, "start", "measured"])[1]
        found = {
            "start": median([*session, "start"]),
            "fork": median([*session, "fork", ident]),
            "list": median([*session, "list"]),
            "log": median([*session, "log", ident]),
            "cat": median([*session, "cat", ident, path]),
            "diff": median([*session, "diff", ident]),
        }
        for number in range(3):
            found[f"turn {number + 1}"] = run([*session, "ask", ident, "-m", "write"])[0]
        found["first command"] = run([*session, "run", ident, "--yes", "true"])[0]
        found["command"] = median([*session, "run", ident, "--yes", "true"])
        found["command with git status"] = median([*session, "run", ident, "--yes", "git status --short"])
        turn = subprocess.Popen([*session, "ask", ident, "-m", "wait"], cwd=top, env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while '"state":"running"' not in run([*session, "list", "--json"])[1]:
            time.sleep(0.1)
        found["log while a turn runs"] = median([*session, "log", ident])
        found["show while a turn runs"] = median([*session, "show", ident])
        found["diff while a turn runs"] = median([*session, "diff", ident])
        turn.terminate()
        turn.wait()
        if not asked.source and not asked.clone:
            found.update(flood(run, session, top, Path(place) / "plain", asked.flood))
        subprocess.run(["git", "branch", "target"], cwd=top, check=True)
        found["merge"] = run([*session, "merge", ident, "--yes", "--into", "target"])[0]
        whole = {"from its end to the end of the program", "the flood in plain sh", "bytes of objects after the flood"}
        found = {name: round(took if name in whole else took - empty, 1) for name, took in found.items()}
        subprocess.run(["git", "fsck", "--no-dangling", "--no-progress"], cwd=top, check=True, stdout=subprocess.DEVNULL)
        tree = Path(place) / "worktree"

        def remove():
            shutil.rmtree(tree, ignore_errors=True)
            subprocess.run(["git", "worktree", "prune"], cwd=top, check=True)

        asked.rounds = min(asked.rounds, 3)
        found["peer: git worktree add"] = round(median(["git", "worktree", "add", "-q", "--detach", str(tree)], remove), 1)
        about = {"files": asked.files, "of the rounds": "best" if asked.best else "median", "program start": round(empty, 1)}
        print(json.dumps({**about, "ms": found}, indent=2))


if __name__ == "__main__":
    main()
