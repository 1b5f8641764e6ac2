#!/usr/bin/env python3
"""Runs a developer's everyday lines twice, in plain bash and as a model's commands in the jail, and compares how they end.

Each line runs in a fresh copy of one small project (git, Python, C, Rust, Node). Lines that need more than the jail
(`need` in the table) are left out. A line differs if one of the two runs succeeds and the other doesn't. Times are those of whole processes, so they are shown only for comparison.

With `--many` it measures commands instead that change 5,000 files: the time of each command in plain bash and in the jail, in
turns, without what becomes of its changes.

    benches/wall.py [--tables FILE…] [--lines N] [--many] [--name NAME] REEDCLAW
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TIME = 60

FILES = {
    "README.md": "# Example\n\nTODO: words\n",
    "Makefile": "all: app\napp: main.c\n\tcc -o app main.c\ntest: app\n\t./app\nclean:\n\trm -f app\nbuild: all\ncheck: test\nlint:\n\t@true\n",
    "main.c": '#include <stdio.h>\nint main(void) { puts("fine"); return 0; }\n',
    "Cargo.toml": '[package]\nname = "example"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/main.rs": 'fn main() {\n    println!("fine");\n}\n#[test]\nfn holds() {\n    assert_eq!(1 + 1, 2);\n}\n',
    "src/lib.rs": "pub fn add(a: u32, b: u32) -> u32 {\n    a + b // TODO\n}\n",
    "src/parser.rs": "pub fn parse() {}\n",
    "package.json": '{"name": "example", "version": "1.0.0", "scripts": {"test": "node test.js", "build": "node -p 1"}}\n',
    "test.js": "require('assert').strictEqual(1 + 1, 2);\n",
    "index.js": "console.log('fine');\n",
    "app.py": "def add(a, b):\n    return a + b\n\n\nif __name__ == '__main__':\n    print(add(1, 2))\n",
    "tests/test_app.py": "import unittest\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(1 + 1, 2)\n",
    "requirements.txt": "",
    "data.csv": "a,b\n1,2\n3,4\n",
    "data.json": '{"a": [1, 2, {"b": 3}]}\n',
    "config.yaml": "a: 1\n",
    "notes.txt": "one\ntwo\nthree\n",
    "log.txt": "ERROR one\nINFO two\n",
    "build.log": "warning: x\nerror: y\n",
    ".gitignore": "target/\nnode_modules/\n",
    "docs/index.md": "# Docs\n",
}


def project(top):
    for name, text in FILES.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main", "."], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(git + words, cwd=top, check=True)
    subprocess.run(["git", "config", "user.name", "a"], cwd=top, check=True)
    subprocess.run(["git", "config", "user.email", "a@example.org"], cwd=top, check=True)
    (top / "notes.txt").write_text("one\ntwo\nthree\nfour\n")


def ended(words, cwd, env):
    began = time.monotonic()
    try:
        done = subprocess.run(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME)
        return done.returncode, done.stdout.decode(errors="replace"), time.monotonic() - began
    except subprocess.TimeoutExpired:
        return "time", "", TIME


def plain(line, work, env):
    return ended(["bash", "--norc", "--noprofile", "-c", line], work, env)


def jailed(program, line, work, env):
    call = json.dumps({"command": line})
    words = [program, "tool", "run", "shell", "--autonomy", "full", "--workspace", str(work), "--json", call]
    status, text, seconds = ended(words, work, env)
    try:
        result = json.loads(text)
    except ValueError:
        return f"no result ({status})", text[:200], seconds
    code = result.get("metadata", {}).get("exitCode")
    if code is None:
        code = (result.get("error") or {}).get("code", "?")
    return code, result.get("output", ""), seconds


FILES_CHANGED = 5_000
TURNS = 7
MANY = {
    "write": "python3 -c 'import os\nos.mkdir(\"n\")\nfor i in range(5000): open(f\"n/{i}\", \"w\").write(\"x\" * 4096)'",
    "rm -rf": "rm -rf d",
    "tar x": "mkdir x && tar xf files.tar -C x",
    "git checkout": "git checkout -q other",
    "chmod -R": "chmod -R go-r d",
    "mv each": "python3 -c 'import os\nos.mkdir(\"n\")\nfor r, _, fs in os.walk(\"d\"):\n for f in fs: os.rename(r + \"/\" + f, \"n/\" + f)'",
}


def many(program, top, env):
    """The times of commands that change thousands of files, in seconds: plain and jailed, in turns."""
    first = top / "first"
    for number in range(FILES_CHANGED):
        path = first / f"d/{number // 100}/f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" + "x" * 4000)
    subprocess.run(["tar", "cf", "files.tar", "d"], cwd=first, check=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    run = lambda *words: subprocess.run([*git, *words], cwd=first, check=True)
    run("init", "-q", "-b", "main", ".")
    run("add", "d")
    run("commit", "-qm", "one")
    run("checkout", "-qb", "other")
    for path in first.glob("d/*/*"):
        path.write_text("y" * 4000)
    run("commit", "-qam", "two")
    run("checkout", "-q", "main")
    rows = []
    for name, line in MANY.items():
        times = {"plain": [], "jailed": []}
        for _ in range(TURNS):
            for how, spent in times.items():
                work = top / "work"
                subprocess.run(["cp", "-a", first, work], check=True)
                if how == "plain":
                    status, _, seconds = plain(line, work, env)
                    spent.append(seconds)
                    assert status == 0, name
                else:
                    call = json.dumps({"command": line})
                    words = [program, "tool", "run", "shell", "--autonomy", "readonly", "--workspace", str(work), "--json", call]
                    result = json.loads(ended(words, work, env)[1])
                    assert result["metadata"]["exitCode"] == 0, result
                    spent.append(result["metadata"]["durationMs"] / 1000)
                shutil.rmtree(work)
        middle = {how: statistics.median(spent) for how, spent in times.items()}
        best = {how: min(spent) for how, spent in times.items()}
        rows.append(
            f"{name:14} plain {1000 * middle['plain']:6.0f} ms, jailed {1000 * middle['jailed']:6.0f} ms, "
            f"{middle['jailed'] / middle['plain']:5.2f} x (least {1000 * best['plain']:.0f}, {1000 * best['jailed']:.0f}, "
            f"{best['jailed'] / best['plain']:.2f} x)"
        )
        print(rows[-1], file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    tables = [HERE.parent / "tests/data/policy" / name for name in ("day.txt", "seen.txt")]
    parser.add_argument("--tables", nargs="+", default=tables, type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--name")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    rows = [row.split("\t", 1) for table in options.tables for row in table.read_text().splitlines() if "\t" in row]
    lines = [line.replace("␤", "\n") for kind, line in rows if kind in ("look", "work")][: options.lines]
    top = pathlib.Path(tempfile.mkdtemp(prefix="wall-", dir=os.path.expanduser("~")))
    # The compilers of this machine are in the home; ReedClaw's own files aren't.
    env = {name: os.environ[name] for name in ("HOME", "PATH", "USER") if name in os.environ}
    env |= {f"XDG_{kind}_HOME": str(top / kind) for kind in ("CONFIG", "DATA", "STATE")}
    env |= {"LANG": "C.UTF-8", "TERM": "dumb", "SHELL": "/bin/bash"}
    if options.many:
        try:
            report = [f"# wall.py --many: {FILES_CHANGED} files, {TURNS} turns; load {os.getloadavg()[0]:.1f}"]
            report += many(program, top, env)
        finally:
            shutil.rmtree(top, ignore_errors=True)
        return written(report, options.name or "wall-many")
    differ, spent = [], {"plain": 0.0, "jailed": 0.0}
    try:
        first = top / "first"
        first.mkdir()
        project(first)
        for number, line in enumerate(lines):
            ends = []
            for how in (plain, lambda *rest: jailed(program, *rest)):
                work = top / "work"
                shutil.copytree(first, work, symlinks=True)
                ends.append(how(line, work, env))
                subprocess.run(["chmod", "-R", "u+rwX", str(work)], stderr=subprocess.DEVNULL)
                shutil.rmtree(work)
            spent["plain"] += ends[0][2]
            spent["jailed"] += ends[1][2]
            if (ends[0][0] == 0) != (ends[1][0] == 0):
                differ.append((line, ends[0][0], ends[1][0], (ends[1][1] or "").strip()[-200:]))
                print(f"{number}: {line!r}: plain {ends[0][0]}, jailed {ends[1][0]}: {differ[-1][3]!r}", file=sys.stderr)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    report = [f"# wall.py: {len(lines)} everyday lines, plain and jailed; load {os.getloadavg()[0]:.1f}"]
    report.append(f"end otherwise: {len(differ)} of {len(lines)}, {100 * len(differ) / max(1, len(lines)):.1f} %")
    report.append("whole processes: " + ", ".join(f"{how} {seconds:.1f} s" for how, seconds in spent.items()))
    report += [f"  {line!r}: plain {a}, jailed {b}" for line, a, b, _ in differ]
    written(report, options.name or "wall-day")


def written(report, name):
    name = time.strftime("%Y%m%d-%H%M") + f"-{name}.txt"
    (HERE / "runs" / name).write_text("\n".join(report) + "\n")
    print("\n".join(report))


main()
