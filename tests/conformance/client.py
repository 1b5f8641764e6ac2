#!/usr/bin/env python3
"""One client scenario of the published conformance suite, done with the program itself as a person would: a config that names
the server, then `reedclaw mcp` at a terminal. The suite starts it with the server's address as the last argument.
REEDCLAW_TEST_PROGRAM names the program."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["REEDCLAW_TEST_PROGRAM"]
URL = sys.argv[-1]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
ERA = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") or os.environ.get("REEDCLAW_TEST_ERA", "")
DEADLINE = time.time() + 60
NEEDS_LOGIN = 4


def lua(text):
    return json.dumps(text).replace("\\u", "\\u")


def config():
    oauth = ['client_id_url = "https://conformance-test.local/client-metadata.json"']
    if CONTEXT.get("client_id"):
        oauth = [f"client_id = {lua(CONTEXT['client_id'])}"]
        # Both ways to say where the secret is.
        printed = 'client_secret_command = { "/bin/sh", "-c", "printenv CLIENT_SECRET" }'
        named = 'client_secret_env = "CLIENT_SECRET"'
        oauth += [printed if ERA == "2025-11-25" else named] if CONTEXT.get("client_secret") else []
    era = f'era = "{ERA}",' if ERA in ("2025-11-25", "2026-07-28") else ""
    return (
        f"return {{ mcp = {{ servers = {{ one = {{ url = {lua(URL)}, {era} "
        f"oauth = {{ {', '.join(oauth)} }} }} }} }} }}"
    )


def at_terminal(home, words, answers=()):
    """Runs the program at a terminal; each question in `answers` gets its answer whenever it comes."""
    work = os.path.join(home, "work")
    environment = {
        "HOME": home, "PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8",
        "BROWSER": os.path.join(home, "browser"), "CLIENT_SECRET": CONTEXT.get("client_secret", ""),
    }
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(work)
        os.execve(PROGRAM, [PROGRAM, *words], environment)
    shown, seen = b"", 0
    while time.time() < DEADLINE:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        for question, answer in answers:
            found = re.search(question, shown[seen:])
            if found:
                seen += found.end()
                os.write(terminal, answer)
    else:
        os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    text = shown.decode("utf-8", "replace").replace("\r\n", "\n")
    code = os.waitstatus_to_exitcode(status)
    print(f"$ reedclaw {' '.join(words)}\n{text}[exit status {code}]", file=sys.stderr)
    return code, text


YES = [(rb"your answer: ", b"1\r")]


def with_login(home, words, answers=YES):
    """The same, and once more after each login that the server asks for, as long as the program agrees to it."""
    while True:
        code, text = at_terminal(home, words, answers)
        if code != NEEDS_LOGIN:
            return code, text
        code, _ = at_terminal(home, ["mcp", "login", "one"], YES)
        if code != 0:
            return NEEDS_LOGIN, text


def example(schema):
    """Arguments that a schema takes."""
    if not isinstance(schema, dict):
        return "x"
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {name: example(rule) for name, rule in schema.get("properties", {}).items()}
    return {"number": 5, "integer": 5, "boolean": True, "array": []}.get(kind, "x")


def wished(found):
    """A call of each tool. One scenario only wants the schema of its rich tool back from the other one, as it was shown."""
    rich = found.get("json_schema_2020_12_tool")
    if rich:
        return [{"name": "json_schema_echo", "arguments": {"schema": rich}}]
    return [{"name": name, "arguments": example(rule)} for name, rule in found.items()]


def tools(home):
    """The names of the server's tools with their schemas."""
    code, text = with_login(home, ["mcp", "show", "one"])
    found = {}
    # Arguments that are longer than a line go on in the next ones.
    for tool in re.split(r"^tool          ", text, flags=re.MULTILINE)[1:]:
        name, arguments = re.match(r"(.+) \([^()]*\)$", tool, re.MULTILINE), re.search(r"^  arguments   ", tool, re.MULTILINE)
        if name and arguments:
            found[name.group(1)], _ = json.JSONDecoder().raw_decode(tool, arguments.end())
    return code, found


def main():
    with tempfile.TemporaryDirectory() as home:
        os.makedirs(os.path.join(home, ".config/reedclaw"))
        os.makedirs(os.path.join(home, "work"))
        with open(os.path.join(home, ".config/reedclaw/config.lua"), "w") as file:
            file.write(config())
        with open(os.path.join(home, "browser"), "w") as file:
            file.write('#!/bin/sh\nexec curl -sSL -o /dev/null "$1"\n')
        os.chmod(os.path.join(home, "browser"), 0o755)
        code, _ = with_login(home, ["mcp", "test", "one"])
        if code in (1, NEEDS_LOGIN):
            return code
        _, found = tools(home)
        if found:
            at_terminal(home, ["mcp", "allow", "one"], [(rb"\[y/N\] ", b"y\r")])
        calls = CONTEXT.get("toolCalls") or wished(found)
        worst = 0
        for call in calls:
            arguments = json.dumps(call.get("arguments") or {})
            code, _ = with_login(home, ["mcp", "call", f"one.{call['name']}", arguments])
            worst = max(worst, code)
        return worst


sys.exit(main())
