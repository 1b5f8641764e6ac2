"""Writes tasks of the agent suite as Harbor tasks, with an oracle's solution: make_tasks.py OUT [NAME]…"""
import json
import pathlib
import sys

SUITE = pathlib.Path(__file__).resolve().parents[2] / "benches/agent_suite/tasks.json"
CONFIG = """version = "1.0"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 60.0

[environment]
build_timeout_sec = 60.0
"""
TEST = "#!/bin/bash\ncd /app && if { %s; } > /dev/null 2>&1; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"

out, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
for task in json.loads(SUITE.read_text()):
    if not task.get("verify") or wanted and task["name"] not in wanted:
        continue
    folder = out / task["name"]
    for name in ("environment/files", "tests", "solution"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "instruction.md").write_text(task["prompt"] + "\n")
    (folder / "task.toml").write_text(CONFIG)
    (folder / "environment/Dockerfile").write_text("FROM debian:13\nWORKDIR /app\nCOPY files /app\n")
    for name, text in task.get("files", {}).items():
        path = folder / "environment/files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "tests/test.sh").write_text(TEST % task["verify"])
    (folder / "solution/solve.sh").write_text("#!/bin/bash\n# Two edits within a second look alike to Python's cache.\nexport PYTHONDONTWRITEBYTECODE=1\ncd /app\n" + "\n".join(task["commands"]) + "\n")
