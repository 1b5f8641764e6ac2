#!/usr/bin/env python3
"""The cost of servers of tools (MCP) for those who configure many: the first prompt with 20 servers, of which one is missing, one
is silent and one is slow, beside the first prompt without any; and the size of the request with 150 allowed tools of 7 servers,
beside the request without any. Needs Python 3.9.

    benches/mcp.py [--program target/release/reedclaw] [--runs 40] [--name NAME]
"""
import argparse
import http.server
import json
import os
import pty
import re
import select
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = '''
import json, sys
count, name = int(sys.argv[1]), sys.argv[2]
words = "Finds the records of a project that fit a query, and returns them as a list with their numbers, titles and owners. " * 4
schema = {"type": "object", "properties": {key: {"type": "string", "description": words[:120]} for key in ("query", "project", "owner")}}
tools = [{"name": f"{name}_tool_{number}", "description": f"Tool {number}. " + words, "inputSchema": schema} for number in range(count)]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": "1"}},
               "tools/list": {"tools": tools}, "ping": {}}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in results: answer["result"] = results[message["method"]]
    else: answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
'''


def home(parts):
    place = tempfile.TemporaryDirectory()
    config = Path(place.name, ".config/reedclaw")
    config.mkdir(parents=True)
    Path(place.name, "work/.git").mkdir(parents=True)
    Path(config, "config.lua").write_text("return { " + ", ".join(parts) + " }")
    return place


def at_terminal(program, place, words, until, answer=None):
    """Runs the program at a terminal until its output has `until`; returns the seconds that took."""
    environment = {"HOME": place, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    began = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(os.path.join(place, "work"))
        os.execve(program, [program, *words], environment)
    shown, took = b"", None
    while time.perf_counter() - began < 120:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if b"\x1b[6n" in piece:
            os.write(terminal, b"\x1b[1;1R")
        if took is None and until in shown:
            took = time.perf_counter() - began
            if answer is None:
                os.kill(child, 9)
            else:
                os.write(terminal, answer)
    os.close(terminal)
    os.waitpid(child, 0)
    if took is None:
        raise SystemExit(f"no {until!r}: {shown[-2000:]!r}")
    return took


def first_prompt(program, runs):
    silent = 'command = { "/usr/bin/python3", "-c", "import time; time.sleep(600)" }'
    slow = 'command = { "/bin/sh", "-c", "sleep 20" }'
    servers = ["gone = { command = { '/nonexistent' } }", f"slow = {{ {slow} }}"]
    servers += [f"s{number} = {{ {silent} }}" for number in range(18)]
    with home([]) as without, home(["mcp = { servers = { " + ", ".join(servers) + " } }"]) as many:
        times = {"without": [], "with 20 servers": []}
        for run in range(runs + 3):
            for name, place in (("without", without), ("with 20 servers", many)):
                took = at_terminal(program, place, [], "❯".encode())
                if run >= 3:
                    times[name].append(took * 1000)
    return times


class Model(http.server.BaseHTTPRequestHandler):
    requests = []

    def do_POST(self):
        self.requests.append(self.rfile.read(int(self.headers["Content-Length"])))
        piece = {"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def request_size(program):
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    models = f'models = {{ m = {{ endpoint = "http://127.0.0.1:{model.server_port}/v1", model = "x" }} }}'
    rest = "memory = { auto = false }, context = { project = false }"
    counts = [22, 22, 22, 21, 21, 21, 21]
    sizes = {}
    for name, chosen in (("without", []), ("with 150 tools", counts)):
        row = 's{0} = {{ command = {{ "/usr/bin/python3", "-c", [==[{2}]==], "{1}", "s{0}" }} }}'
        servers = ", ".join(row.format(number, count, SERVER) for number, count in enumerate(chosen))
        with home([models, rest, f"mcp = {{ servers = {{ {servers} }} }}"]) as place:
            for number in range(len(chosen)):
                at_terminal(program, place, ["mcp", "allow", f"s{number}"], b"[y/N] ", b"y\r")
            environment = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
            subprocess.run([program, "agent", "--path", ".", "-m", "please"], env=environment, check=True,
                           cwd=os.path.join(place, "work"), stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        request = json.loads(Model.requests[-1])
        tools = request.get("tools", [])
        sizes[name] = {"tools": len(tools), "bytes of tools": len(json.dumps(tools, separators=(",", ":")))}
        sizes[name]["search"] = any("tool_search" in json.dumps(tool) for tool in tools)
    return sizes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "target/release/reedclaw"))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--name", default="mcp")
    options = parser.parse_args()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    lines = [f"date: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}",
             f"command: benches/mcp.py --runs {options.runs}",
             f"load1: {os.getloadavg()[0]:.1f}", f"cpu: {cpu}", f"cores: {os.cpu_count()}", ""]
    sizes = request_size(options.program)
    for name, size in sizes.items():
        lines.append(f"request {name:<16} {size['tools']:>4} tools sent  {size['bytes of tools']:>7} bytes")
    more = sizes["with 150 tools"]["bytes of tools"] - sizes["without"]["bytes of tools"]
    lines.append(f"150 tools of 7 servers cost {more} bytes, about {more // 4} tokens")
    times = first_prompt(options.program, options.runs)
    for name, values in times.items():
        lines.append(f"first prompt {name:<16} median {statistics.median(values):7.2f} ms  "
                     f"fastest tenth {statistics.quantiles(values, n=10)[0]:7.2f} ms")
    pairs = [many - without for without, many in zip(times["without"], times["with 20 servers"])]
    lines.append(f"20 servers cost {statistics.median(pairs):+.2f} ms (median of {len(pairs)} pairs)")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime())
    (ROOT / f"benches/runs/{stamp}-{re.sub(r'[^a-z0-9-]', '-', options.name)}.txt").write_text(text)


main()
