#!/bin/sh
# llm.sh URL HOME PROMPT SCHEMA: asks with `llm`, which gets the three tools of llm_tools.py, or a schema.
set -eu
url=$1 home=$2 prompt=$3 schema=$4
export LLM_USER_PATH="$home/llm"
mkdir -p "$LLM_USER_PATH"
printf -- '- model_id: m\n  model_name: m\n  api_base: %s\n  api_key_name: m\n  supports_tools: true\n  supports_schema: true\n' "$url" >"$LLM_USER_PATH/extra-openai-models.yaml"
printf '{"m": "x"}' >"$LLM_USER_PATH/keys.json"
if [ -n "$schema" ]; then
    exec "${LLM:-llm}" -m m --no-stream --schema "$schema" "$prompt"
fi
exec "${LLM:-llm}" -m m --no-stream --cl 25 --functions "$(dirname "$0")/llm_tools.py" "$prompt"
