#!/usr/bin/env bash
# The published conformance suite of the Model Context Protocol against the program (REEDCLAW_TEST_PROGRAM).
#   run.sh setup     installs the suite and a Node that runs it below target/conformance
#   run.sh client    runs every client scenario that the revisions 2025-11-25 and 2026-07-28 require, and keeps what they said
#   run.sh server    runs the server scenarios of what `reedclaw mcp serve` offers: tools, without the suite's own test tools
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=${CARGO_TARGET_DIR:-$here/../../target}/conformance
suite=@modelcontextprotocol/conformance@0.2.0-alpha.12

case ${1:-} in
setup)
    mkdir -p "$place"
    cd "$place"
    [[ -f package.json ]] || printf '{"private": true}\n' >package.json
    if ! [[ -x node_modules/.bin/conformance ]]; then
        npm install --no-audit --no-fund --loglevel=error "$suite"
    fi
    # The suite wants Node 22; the package of that name brings one where the system's is older.
    major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
    if ((major < 22)) && ! [[ -x node_modules/node/bin/node ]]; then
        npm install --no-audit --no-fund --loglevel=error node@22
        [[ -x node_modules/node/bin/node ]] || (cd node_modules/node && node installArchSpecificPackage.js)
    fi
    ;;
client)
    cd "$place"
    export PATH=$place/node_modules/node/bin:$PATH
    : "${REEDCLAW_TEST_PROGRAM:?names the program}"
    # The scenarios that each revision requires, so that a suite which runs fewer of them doesn't pass.
    for row in 2025-11-25=18 2026-07-28=32; do
        revision=${row%=*} wanted=${row#*=}
        printf '\nclient scenarios of %s\n' "$revision"
        status=0
        REEDCLAW_TEST_ERA=$revision node_modules/.bin/conformance client --command "python3 $here/client.py" \
            --requirements "$revision" --timeout 90000 -o "$place/client-$revision" >"$place/client-$revision.txt" 2>&1 || status=$?
        sed -n '/SUITE SUMMARY/,$p' "$place/client-$revision.txt"
        ((status == 0)) || exit "$status"
        passed=$(sed -n '/SUITE SUMMARY/,$p' "$place/client-$revision.txt" | grep -c '^✓ ' || true)
        printf '%s scenarios passed; the revision requires %s\n' "$passed" "$wanted"
        ((passed >= wanted)) || exit 1
    done
    ;;
server)
    # The others call tools of the suite's own, or are about resources, prompts, logging, and HTTP itself.
    cd "$place"
    export PATH=$place/node_modules/node/bin:$PATH
    : "${REEDCLAW_TEST_PROGRAM:?names the program}"
    for scenario in server-initialize@2025-11-25 ping@2025-11-25 tools-list@2025-11-25 tools-list@2026-07-28 \
        input-required-result-unsupported-methods@2026-07-28; do
        coproc bridge { exec python3 "$here/bridge.py"; }
        read -r url <&"${bridge[0]}"
        printf '%s: ' "$scenario"
        status=0
        node_modules/.bin/conformance server --url "$url" --scenario "${scenario%@*}" --spec-version "${scenario#*@}" \
            >"$place/server.txt" 2>&1 || status=$?
        grep -m1 '^Passed:' "$place/server.txt" || cat "$place/server.txt"
        ended=$bridge_PID
        exec {bridge[1]}>&-
        wait "$ended" || true
        ((status == 0)) || exit "$status"
    done
    ;;
*)
    sed -n '2,5p' "$0" >&2
    exit 2
    ;;
esac
