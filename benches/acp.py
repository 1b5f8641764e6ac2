#!/usr/bin/env python3
"""The speed of `reedclaw acp`, as an editor sees it: from the start to the reply to `initialize`, a new session with five servers
of tools that never answer, a piece of an answer on its way from the model to the editor, the question about a command from the
model's wish to the editor (it has run in its sandbox by then), and from the editor's answer to the model's next request. Needs
Python 3.9.

    benches/acp.py [--program target/release/reedclaw] [--runs 20] [--name acp]
"""
import argparse
import http.server
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIECES = 50


class Model(http.server.BaseHTTPRequestHandler):
    """Streams pieces 20 ms apart, and notes when each was sent; asked for a file, it wants a command run first."""
    sent, wished, answered, rounds = {}, 0.0, 0.0, []

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = request["messages"][-1]
        if Model.answered:
            Model.rounds.append((time.perf_counter() - Model.answered) * 1000)
            Model.answered = 0.0
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if last["role"] == "user" and "a new file" in json.dumps(last["content"]):
            call = {"index": 0, "id": "call-1", "type": "function",
                    "function": {"name": "shell", "arguments": '{"command": "touch made"}'}}
            self.piece({"tool_calls": [call]}, "tool_calls")
            Model.wished = time.perf_counter()
        else:
            for number in range(PIECES if last["role"] == "user" else 1):
                time.sleep(0.02)
                Model.sent[f"piece{number}."] = time.perf_counter()
                self.piece({"content": f"piece{number}. "}, None)
            self.piece({}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def piece(self, delta, end):
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


class Editor:
    """A client of the protocol over the pipes of one process."""

    def __init__(self, program, place):
        environment = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.began, self.last = time.perf_counter(), 0
        self.child = subprocess.Popen([program, "acp"], env=environment, cwd=place, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(self, message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.child.stdin.flush()

    def ask(self, method, parameters, seen=lambda message, at: None):
        """Sends a request; returns its result. Other messages go to `seen` with the time of their arrival."""
        self.last += 1
        self.send({"id": self.last, "method": method, "params": parameters})
        while True:
            line = self.child.stdout.readline()
            at = time.perf_counter()
            if not line:
                raise SystemExit("the program has ended")
            message = json.loads(line)
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]
            seen(message, at)

    def end(self):
        self.child.stdin.close()
        self.child.wait(10)


def measured(program, runs):
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    times = {"start to the reply to `initialize`": [], "new session, five servers that never answer": [],
             "a piece from the model to the editor": [], "a question from the model's wish to the editor": [],
             "from the editor's answer to the model": Model.rounds}
    started, opened, pieces, questions, _ = times.values()
    silent = ["/usr/bin/python3", "-c", "import time; time.sleep(600)"]
    rows = ", ".join(f"s{number} = {{ command = {{ {', '.join(map(json.dumps, silent))} }} }}" for number in range(5))
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as place:
            config, work = Path(place, ".config/reedclaw/config.lua"), Path(place, "work")
            config.parent.mkdir(parents=True)
            work.mkdir()
            config.write_text(f'return {{ models = {{ m = {{ endpoint = "http://127.0.0.1:{model.server_port}/v1", model = "x" }} }}, '
                              f'memory = {{ auto = false }}, mcp = {{ wait_ms = 0, servers = {{ {rows} }} }} }}')
            editor = Editor(program, place)
            editor.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            started.append((time.perf_counter() - editor.began) * 1000)
            began = time.perf_counter()
            session = editor.ask("session/new", {"cwd": str(work), "mcpServers": []})["sessionId"]
            opened.append((time.perf_counter() - began) * 1000)

            def seen(message, at):
                update = message.get("params", {}).get("update", {})
                if update.get("sessionUpdate") == "agent_message_chunk":
                    for word in update["content"].get("text", "").split():
                        if word in Model.sent:
                            pieces.append((at - Model.sent.pop(word)) * 1000)
                if message.get("method") == "session/request_permission":
                    questions.append((at - Model.wished) * 1000)
                    Model.answered = time.perf_counter()
                    choice = next(it for it in message["params"]["options"] if it["kind"] == "reject_once")
                    editor.send({"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": choice["optionId"]}}})

            for text in ("please talk", "make a new file"):
                Model.sent.clear()
                editor.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]}, seen)
            editor.end()
    model.shutdown()
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "target/release/reedclaw"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--name", default="acp")
    options = parser.parse_args()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    lines = [f"date: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}", f"command: benches/acp.py --runs {options.runs}",
             f"load1: {os.getloadavg()[0]:.1f}", f"cpu: {cpu}", f"cores: {os.cpu_count()}", ""]
    for name, values in measured(options.program, options.runs).items():
        lines.append(f"{name:<48} median {statistics.median(values):7.2f} ms  at most {max(values):7.2f} ms  n {len(values)}")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime())
    (ROOT / f"benches/runs/{stamp}-{re.sub(r'[^a-z0-9-]', '-', options.name)}.txt").write_text(text)


main()
