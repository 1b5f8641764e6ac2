#!/bin/sh
# aider.sh URL HOME PROMPT CHECK: aider (`$AIDER`) without questions, which tests with the command that decides and mends what fails.
# Its status is 0 however the test ended.
set -eu
export LITELLM_LOCAL_MODEL_COST_MAP=True
exec "$AIDER" --yes-always --no-git --no-check-update --no-show-release-notes --analytics-disable --no-show-model-warnings --no-stream \
    --no-pretty --no-suggest-shell-commands --model openai/m --openai-api-base "$1" --openai-api-key x \
    --auto-test --test-cmd "$4" --message "$3" </dev/null
