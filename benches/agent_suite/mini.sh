#!/bin/sh
# mini.sh URL HOME PROMPT: mini-swe-agent (`$MINI`) without questions, at most 12 steps. Status 0 if it says that it is done.
set -eu
export MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors MSWEA_SILENT_STARTUP=1 OPENAI_API_KEY=x LITELLM_LOCAL_MODEL_COST_MAP=True
"$MINI" -t "$3" -y --exit-immediately -c mini.yaml -c model.model_name=openai/m -c model.model_kwargs.api_base="$1" \
    -c model.model_kwargs.api_key=x -c model.cost_tracking=ignore_errors -c agent.step_limit=12 -o "$2/run.json"
grep -q '"exit_status": *"Submitted"' "$2/run.json"
