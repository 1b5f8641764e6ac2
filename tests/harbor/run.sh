#!/usr/bin/env bash
# Harbor, the runner of Terminal-Bench 2, with the agent and the environment of examples/harbor.
#   run.sh setup     installs Harbor below target/harbor; it takes Python 3.12
#   run.sh run       the 12 tasks by the oracle and by ReedClaw (REEDCLAW_TEST_PROGRAM) with a model that makes no mistake: all must
#                    be solved. The environment is an overlay of this machine's files, so it takes root
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=${CARGO_TARGET_DIR:-$here/../../target}/harbor

case ${1:-} in
setup)
    [[ -x $place/bin/harbor ]] && exit
    for python in python3 python3.14 python3.13 python3.12; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            "$python" -m venv "$place"
            exec "$place/bin/pip" install --quiet --disable-pip-version-check harbor==0.26.0
        fi
    done
    echo "there is no Python 3.12" >&2
    exit 1
    ;;
run)
    : "${REEDCLAW_TEST_PROGRAM:?names the program}"
    cd "$here/../../examples/harbor"
    jobs=$(mktemp -d)
    coproc model { exec python3 mock_model.py 0; }
    ended=$model_PID
    trap 'kill "$ended" 2>/dev/null || true; rm -rf "$jobs"' EXIT
    read -r port <&"${model[0]}"
    python3 make_tasks.py "$jobs/tasks"
    export PYTHONPATH=$PWD
    for agent in oracle reedclaw_harbor:ReedClaw; do
        "$place/bin/harbor" run -p "$jobs/tasks" -a "$agent" -e reedclaw_harbor:Overlay -n 2 -m local/m -o "$jobs/${agent##*:}" \
            --ak endpoint="http://127.0.0.1:$port" --ak binary="$REEDCLAW_TEST_PROGRAM" >"$jobs/log" 2>&1 || { cat "$jobs/log"; exit 1; }
        python3 - "$jobs/${agent##*:}" <<'PY'
import json, pathlib, sys
rewards = {}
for path in pathlib.Path(sys.argv[1]).glob("*/*/result.json"):
    trial = json.loads(path.read_text())
    rewards[trial["task_name"]] = ((trial.get("verifier_result") or {}).get("rewards") or {}).get("reward")
solved = sum(reward == 1 for reward in rewards.values())
print(f"{pathlib.Path(sys.argv[1]).name}: {solved} of {len(rewards)} tasks solved")
sys.exit(not (solved == len(rewards) == 12) and f"{rewards}")
PY
    done
    ;;
*)
    sed -n 2,6p "$0"
    exit 2
    ;;
esac
