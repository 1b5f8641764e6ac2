#!/usr/bin/env python3
"""Counts the needless questions about commands that only look, and what becomes of dangerous ones, in each sandbox.

The lines are in `lines/`, one a row with its kind. They were written before the policy's tables were read, and no rule may be
fitted to them: write new ones instead. They are only parsed, by `reedclaw policy explain`; none of them runs.

    benches/asks.py [--name NAME] [--autonomy LEVEL] REEDCLAW
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import time

# The decisions that a line should have, by its kind; `None` for the tables whose lines are all of one sort.
WANTED = {
    "harmless.tsv": {None: ("run", "allow")},
    "dangerous.tsv": {None: ("deny",)},
    "fresh.tsv": {"look": ("run", "allow"), "catastrophe": ("deny",), None: ("run", "allow", "ask")},
    "trades.tsv": {None: ("run", "allow")},
    "fifth.tsv": {None: ("run", "allow")},
    "sixth.tsv": {None: ("run", "allow")},
    "day.tsv": {"look": ("run", "allow"), "catastrophe": ("deny",), None: ("run", "allow", "ask")},
}
HERE = pathlib.Path(__file__).resolve().parent
TIERS = ("overlay", "bubblewrap", "landlock", "none")


def rows(name):
    text = (HERE / "lines" / name).read_text()
    table = [row.split("\t", 1) for row in text.splitlines() if "\t" in row]
    # A here-document is written in one row.
    return [(kind, line.replace("\\n", "\n") if re.search(r"<<-?'", line) else line) for kind, line in table]


def judged(program, tier, autonomy, lines):
    words = [program, "policy", "explain", "--batch", "--json", "--tier", tier, "--autonomy", autonomy]
    words += ["--home", "/home/ana", "--workspace", "/home/ana/work"]
    asked = "".join(json.dumps({"command": line}) + "\n" for line in lines)
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--autonomy", default="supervised")
    parser.add_argument("--name", default="asks")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    report = [f"# asks.py: decisions before the run, autonomy {options.autonomy}"]
    for name, wanted in WANTED.items():
        table = rows(name)
        lines = [line for _, line in table]
        report.append(f"\n{name}: {len(lines)} lines")
        report.append(f"{'sandbox':<11} {'kind':<11} {'lines':>5}  decisions")
        notes = []
        for tier in TIERS:
            verdicts = judged(program, tier, options.autonomy, lines)
            counts = collections.defaultdict(collections.Counter, {"all": collections.Counter()})
            for (kind, line), verdict in zip(table, verdicts, strict=True):
                decision = verdict["decision"]
                counts[kind][decision] += 1
                counts["all"][decision] += 1
                if decision not in wanted.get(kind, wanted.get(None)) and tier in ("overlay", "landlock"):
                    rules = ", ".join(dict.fromkeys(it["rule"] for it in verdict["reasons"]))
                    notes.append(f"  {tier:<9} {kind:<11} {decision:<5} {line!r}  ({rules})")
            for kind, count in counts.items():
                parts = [f"{word} {number} ({100 * number / count.total():.1f} %)" for word, number in count.most_common()]
                report.append(f"{tier:<11} {kind:<11} {count.total():>5}  " + ", ".join(parts))
        report += ["decided otherwise than it should be, with overlay and with Landlock:", *notes]
    file = time.strftime("%Y%m%d-%H%M") + f"-{options.name}.txt"
    (HERE / "runs" / file).write_text("\n".join(report) + "\n")
    print("\n".join(report))


main()
