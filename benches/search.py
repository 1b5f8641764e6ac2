#!/usr/bin/env python3
"""Searches beside ripgrep, fd and git: `search_text`, `find_files`, `hotfiles`, `symbols` and the card as whole programs.

Makes a tree of 100,000 files and a history of 5,000 commits below a temporary directory, runs each program and its peer
in turn, and writes medians, ratios and what the machine was to runs/. A tool of ReedClaw is timed as
`reedclaw tool run NAME`: its start, the policy, the receipts and the result as JSON are in the figure. Debian calls
fd `fdfind`. Needs Python 3.9, git, rg, fd and nothing else.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORDS = "alpha beta gamma delta return value index buffer result match error string vector option state".split()
ENDS = ["rs", "c", "h", "py", "js", "md", "txt", "go"]


def make_tree(top, files):
    """Files of 1 to 8 KB, 50 a directory, a tenth of them ignored; a rare word in one of a thousand."""
    rng = random.Random(1)
    top.mkdir()
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".gitignore").write_text("/ignored\n*.log\n")
    lines = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12))) for _ in range(2000)]
    for number in range(files):
        place = "ignored" if number % 10 == 0 else "src"
        folder = top / place / f"d{number // 2500:03}" / f"e{number // 50 % 50:02}"
        if number % 50 < 2:
            folder.mkdir(parents=True, exist_ok=True)
        # Prose, so that it is searched like text, and comments, so that a grammar can read it.
        mark = {"py": "# ", "md": "", "txt": ""}.get(ENDS[number % len(ENDS)], "// ")
        text = "\n".join(mark + line for line in rng.choices(lines, k=rng.randint(20, 150)))
        if number % 1000 == 7:
            text += "\nlet needle_in_haystack = 1;"
        if ENDS[number % len(ENDS)] == "rs":
            text += f"\nfn work_{number}() {{ work_{max(0, number - 800)}(); }}"
        (folder / f"f{number}.{ENDS[number % len(ENDS)]}").write_text(text + "\n")
    subprocess.run(["git", "add", "."], cwd=top, check=True)
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"], cwd=top, check=True)


def make_history(top, commits):
    """A linear history over 2,000 files, through git fast-import."""
    rng = random.Random(2)
    top.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", str(top)], check=True)
    out = []
    for commit in range(commits):
        out.append(f"commit refs/heads/main\ncommitter x <x@y> {1700000000 + commit * 3600} +0000\ndata 1\nx\n")
        for _ in range(rng.randint(1, 6)):
            file = int(rng.paretovariate(0.6)) % 2000
            text = "".join(f"line {rng.randint(0, 50)}\n" for _ in range(rng.randint(20, 200)))
            out.append(f"M 644 inline src/d{file % 40}/f{file}.rs\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "fast-import", "--quiet"], input="".join(out).encode(), cwd=top, check=True)
    subprocess.run(["git", "checkout", "-q", "-f", "main"], cwd=top, check=True)
    subprocess.run(["git", "gc", "-q"], cwd=top, check=True)


def run_once(words, cwd, env):
    before = time.perf_counter()
    done = subprocess.run(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    took = (time.perf_counter() - before) * 1000
    # 1 is what ripgrep says where there is nothing.
    if done.returncode != 0 and (words[0], done.returncode) != ("rg", 1):
        raise SystemExit(f"{words}: {done.returncode}\n{done.stderr.decode()[-2000:]}")
    return took, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(HERE.parent / "target/release/reedclaw"))
    parser.add_argument("--name", default="search")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--below", help="where the trees are made; kept and used again where it is given")
    args = parser.parse_args()
    base = Path(args.below or tempfile.mkdtemp(prefix="reedclaw-bench-"))
    base.mkdir(exist_ok=True)
    tree, history, home = base / "tree", base / "history", base / "home"
    home.mkdir(exist_ok=True)
    if not tree.exists():
        make_tree(tree, args.files)
    if not history.exists():
        make_history(history, args.commits)
    env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    fd = shutil.which("fdfind") or shutil.which("fd")

    def tool(name, workspace, **arguments):
        return [args.program, "tool", "run", name, "--workspace", str(workspace), "--json", json.dumps(arguments)]

    def without(name):
        """A first look: what was kept of it is gone."""
        return lambda: shutil.rmtree(home / ".local/state/reedclaw" / name, ignore_errors=True)

    card = [args.program, "card", "--path", str(tree)]
    pairs = [
        ("search_text, a rare word", tree, tool("search_text", tree, query="needle_in_haystack", limit=1000),
         ["rg", "-n", "--column", "--no-heading", "-F", "needle_in_haystack", "."]),
        ("search_text, an expression", tree, tool("search_text", tree, query=r"needle_\w+ = \d", regex=True, limit=1000),
         ["rg", "-n", "--column", "--no-heading", r"needle_\w+ = \d", "."]),
        ("search_text, nothing", tree, tool("search_text", tree, query="there_is_no_such_word"),
         ["rg", "-n", "--column", "--no-heading", "-F", "there_is_no_such_word", "."]),
        ("find_files, *.rs", tree, tool("find_files", tree, pattern="*.rs", limit=1000),
         [fd, "--type", "f", "--glob", "*.rs"]),
        ("find_files, one file", tree, tool("find_files", tree, pattern="f4711.*"),
         [fd, "--type", "f", "--glob", "f4711.*"]),
        ("hotfiles", history, tool("hotfiles", history),
         ["git", "log", "--name-only", f"-n{args.commits}", "--format=%ct"]),
        ("detect_languages", tree, tool("detect_languages", tree), None),
        ("symbols, cold", tree, tool("symbols", tree), None, without("symbols")),
        ("symbols, kept", tree, tool("symbols", tree, query="work_4711"), None),
        ("card, cold", tree, card, None, without("cards")),
        ("card, kept", tree, card, ["git", "status", "--porcelain=v2", "--branch"]),
        ("start alone (time)", tree, tool("time", tree), None),
    ]
    rows, figures = [], {}
    for name, cwd, ours, peer, *prepare in pairs:
        programs = [("reedclaw", ours)] + ([(peer[0].rsplit("/", 1)[-1], peer)] if peer else [])
        times = {program: [] for program, _ in programs}
        for turn in range(args.runs + 2):
            # In turn, and each first as often as second; the first two warm the cache.
            for program, words in programs if turn % 2 else programs[::-1]:
                [make_ready() for make_ready in prepare]
                took, out = run_once(words, cwd, env)
                if turn > 1:
                    times[program].append(took)
        medians = {program: statistics.median(values) for program, values in times.items()}
        best = {program: min(values) for program, values in times.items()}
        figures[name] = times
        line = f"{name:28}" + "".join(f"{p:>9} {medians[p]:8.1f} ms (best {best[p]:7.1f})" for p, _ in programs)
        if peer:
            other = programs[1][0]
            line += f"   ratio {medians['reedclaw'] / medians[other]:.2f} (best {best['reedclaw'] / best[other]:.2f})"
        rows.append(line)
        print(line, flush=True)
    version = lambda words: subprocess.run(words, capture_output=True, text=True).stdout.splitlines()[0]
    cpu = next((it.split(":")[1].strip() for it in open("/proc/cpuinfo") if it.startswith("model name")), "?")
    now = datetime.datetime.now(datetime.timezone.utc)
    head = [
        f"date: {now:%Y-%m-%d %H:%M} UTC",
        f"command: benches/search.py --files {args.files} --commits {args.commits} --runs {args.runs}",
        f"load1: {os.getloadavg()[0]:.1f}",
        f"cpu: {cpu}, cores: {os.cpu_count()}",
        f"kernel: {os.uname().sysname} {os.uname().release}",
        f"peers: {version(['rg', '--version'])}; {version([fd, '--version'])}; {version(['git', '--version'])}",
        f"medians of {args.runs} runs each, in turn, with a warm cache; whole programs, start included",
        "",
    ]
    target = HERE / "runs" / f"{now:%Y%m%d-%H%M}-{args.name}"
    target.with_suffix(".txt").write_text("\n".join(head + rows) + "\n")
    target.with_suffix(".json").write_text(json.dumps(figures) + "\n")
    if not args.below:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
