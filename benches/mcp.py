#!/usr/bin/env python3
"""The cost of servers of tools (MCP) for those who configure many: the first prompt with 20 servers, of which one is missing, one
is silent and one is slow, beside the first prompt without any; the size of the request with 150 allowed tools of 7 servers,
beside the request without any; and the time of one call through a local server, over a pipe and over HTTP, beside the time that
the server itself needs. The time of a call is the time between a model's request for it and the next request to the model, so it
has everything: decoding, policy, receipts on disk and the model's next request. The same time with the built-in tool `time` shows
the part of that which isn't the server's. Also the time that the emergency stop takes during a call, and what 1,000 definitions
cost. The instructions of a session are counted if valgrind is there. Needs Python 3.9.

With `--peers DIRECTORY`, where npm has installed `@openai/codex` and `opencode-ai`, their requests with the same 150 tools are
measured too, and the time until each program's request if the 20 servers are configured.

With `--prompt` only the first prompt is measured; a quiet machine and 400 runs tell a fifth of a millisecond from noise. With
`--hanging` only the questions, the end and an editor's session beside servers that hang.

    benches/mcp.py [--program target/release/reedclaw] [--runs 40] [--peers DIRECTORY] [--prompt | --hanging] [--name NAME]
"""
import argparse
import http.client
import http.server
import json
import os
import pty
import random
import re
import select
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import hanging

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


def home(parts, where=None):
    place = tempfile.TemporaryDirectory(dir=where)
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


# One is missing, one is slow, and the others are silent.
BAD_SERVERS = {"gone": ["/nonexistent"], "slow": ["/bin/sh", "-c", "sleep 20"]}
BAD_SERVERS |= {f"s{number}": ["/usr/bin/python3", "-c", "import time; time.sleep(600)"] for number in range(18)}
# Seven servers with 150 tools.
GOOD_SERVERS = {f"s{number}": ["/usr/bin/python3", "-c", SERVER, str(count), f"s{number}"]
                for number, count in enumerate([22, 22, 22, 21, 21, 21, 21])}


def lua(servers):
    rows = (f"{name} = {{ command = {{ {', '.join(f'[==[{word}]==]' for word in argv)} }} }}" for name, argv in servers.items())
    return "mcp = { servers = { " + ", ".join(rows) + " } }"


def first_prompt(program, runs):
    """The times of first prompts without servers, with 20, and in a second home without any, in milliseconds. The second home shows
    what the machine alone adds. The order of each round is random, so that none of the three profits from its place."""
    with home([]) as without, home([lua(BAD_SERVERS)]) as many, home([]) as second:
        places = {"without": without, "with 20 servers": many, "a second home": second}
        times = {name: [] for name in places}
        for run in range(runs + 3):
            for name in random.sample(list(places), len(places)):
                took = at_terminal(program, places[name], [], "❯".encode())
                if run >= 3:
                    times[name].append(took * 1000)
    return times


def difference(times, name, base):
    """The median of the differences within each round, and the interval that has it in 95 of 100 cases: the binomial bounds
    of a median, which suppose nothing about the times' distribution."""
    values = sorted(more - less for more, less in zip(times[name], times[base]))
    half = 0.98 * len(values) ** 0.5
    low, high = max(0, int(len(values) / 2 - half)), min(len(values) - 1, int(len(values) / 2 + half))
    return f"{statistics.median(values):+.2f} ms (95 %: {values[low]:+.2f} to {values[high]:+.2f}; {len(values)} rounds)"


def first_prompt_lines(program, runs):
    times = first_prompt(program, runs)
    for name, values in times.items():
        yield (f"first prompt {name:<16} median {statistics.median(values):7.2f} ms  "
               f"fastest tenth {statistics.quantiles(values, n=10)[0]:7.2f} ms")
    yield f"20 servers cost {difference(times, 'with 20 servers', 'without')}"
    yield f"a second home without servers costs {difference(times, 'a second home', 'without')}"
    with home([]) as without, home([lua(BAD_SERVERS)]) as many:
        counts = [session_instructions(program, place) for place in (without, many)]
    if None in counts:
        yield "instructions weren't counted: valgrind is missing"
    else:
        yield f"20 servers cost {(counts[1] - counts[0]) / 1e6:+.2f} million instructions from the start of a session to its end"


def session_instructions(program, place):
    """Instructions of all processes of a session that ends at its first prompt. None without valgrind."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        return None
    with tempfile.TemporaryDirectory() as counted:
        at_terminal(valgrind, place, ["-q", "--tool=callgrind", f"--callgrind-out-file={counted}/%p", program], "❯".encode(), b"exit\r")
        totals = (re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M) for file in Path(counted).iterdir())
        return sum(int(total.group(1)) for total in totals if total)


def definition_lines(program, runs):
    """The time of `reedclaw mcp test` at a server with 1,000 allowed tools, beside one with a single tool: both answer with texts
    that were made before, over HTTP, in this process."""
    servers = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    threading.Thread(target=servers.serve_forever, daemon=True).start()
    rows = (f'{name} = {{ url = "http://127.0.0.1:{servers.server_port}/{count}" }}' for name, count in (("one", 1), ("many", 1000)))
    times = {"one": [], "many": []}
    with home(["mcp = { servers = { " + ", ".join(rows) + " } }"], "/dev/shm") as place:
        environment, work = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, os.path.join(place, "work")
        for name in times:
            at_terminal(program, place, ["mcp", "allow", name], b"[y/N] ", b"y\r")
        for _ in range(max(10, runs // 2)):
            for name in random.sample(list(times), len(times)):
                began = time.perf_counter()
                subprocess.run([program, "mcp", "test", name], env=environment, cwd=work, check=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
                times[name].append((time.perf_counter() - began) * 1000)
    servers.shutdown()
    size = len(Lists.texts[1000])
    yield f"`mcp test` with 1,000 allowed definitions ({size} bytes) beside one: {difference(times, 'many', 'one')}"


class Model(http.server.BaseHTTPRequestHandler):
    requests = []

    def do_POST(self):
        self.requests.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"content": "done"}, "stop")

    def answer(self, delta, end):
        """Sends a whole answer as one event."""
        piece = {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        body = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def wish(self, number, tool, arguments):
        """Asks for a call of a tool."""
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call-{number}", "type": "function", "function": function}
        self.answer({"tool_calls": [call]}, "tool_calls")

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def definitions(count):
    """The JSON of a list of tools like those of `SERVER`."""
    words = "Finds the records of a project that fit a query, and returns them as a list with their numbers, titles and owners. " * 4
    fields = {key: {"type": "string", "description": words[:120]} for key in ("query", "project", "owner")}
    schema = {"type": "object", "properties": fields}
    return json.dumps([{"name": f"tool_{number}", "description": f"Tool {number}. " + words, "inputSchema": schema}
                       for number in range(count)])


class Lists(Model):
    """A server whose number of tools is its path."""
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    texts = {count: definitions(count).encode() for count in (1, 1000)}

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}},
                   "ping": {}}
        body = b""
        if message.get("method") == "tools/list":
            tools = self.texts[int(self.path[1:])]
            body = b'{"jsonrpc":"2.0","id":%s,"result":{"tools":%s}}' % (json.dumps(message["id"]).encode(), tools)
        elif "id" in message:
            result = results.get(message["method"])
            part = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"]} | part).encode()
        self.send_response(200 if body else 202)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def request_size(program):
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    models = f'models = {{ m = {{ endpoint = "http://127.0.0.1:{model.server_port}/v1", model = "x" }} }}'
    rest = "memory = { auto = false }, context = { project = false }"
    sizes = {}
    for name, chosen in (("without", {}), ("with 150 tools", GOOD_SERVERS)):
        with home([models, rest, lua(chosen)]) as place:
            for server in chosen:
                at_terminal(program, place, ["mcp", "allow", server], b"[y/N] ", b"y\r")
            environment = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
            subprocess.run([program, "agent", "--path", ".", "-m", "please"], env=environment, check=True,
                           cwd=os.path.join(place, "work"), stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        request = json.loads(Model.requests[-1])
        tools = request.get("tools", [])
        sizes[name] = {"tools": len(tools), "bytes of tools": len(json.dumps(tools, separators=(",", ":")))}
        sizes[name]["search"] = any("tool_search" in json.dumps(tool) for tool in tools)
    return sizes


ECHO = '''
import http.server, json, os, sys
TOOL = {"name": "echo", "description": "Gives its text back.", "annotations": {"readOnlyHint": True},
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}

def answer(message):
    results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}},
               "tools/list": {"tools": [TOOL]}, "ping": {}}
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        reply["result"] = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
    elif message["method"] in results: reply["result"] = results[message["method"]]
    else: reply["error"] = {"code": -32601, "message": "no such method"}
    return json.dumps(reply)

class Http(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = answer(message).encode() if "id" in message else b""
        self.send_response(200 if body else 202)
        if body: self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
    def do_GET(self): self.send_error(405)
    def log_message(self, *_): pass

if sys.argv[1:] == ["http"]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message: print(answer(message), flush=True)
'''


def direct(port, runs):
    """The time of a call that Python makes at the server itself, in milliseconds: over a pipe and over HTTP."""
    def message(number):
        call = {"name": "echo", "arguments": {"text": f"text {number}"}}
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}).encode()

    def timed(ask):
        times = []
        for number in range(runs + 20):
            began = time.perf_counter()
            ask(message(number))
            times.append((time.perf_counter() - began) * 1000)
        return times[20:]

    child = subprocess.Popen(["/usr/bin/python3", "-IS", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def over_pipe(text):
        child.stdin.write(text + b"\n")
        child.stdin.flush()
        child.stdout.readline()

    connection = http.client.HTTPConnection("127.0.0.1", port)

    def over_http(text):
        connection.request("POST", "/mcp", text, {"Content-Type": "application/json"})
        connection.getresponse().read()

    times = {"pipe": timed(over_pipe), "http": timed(over_http)}
    connection.close()
    child.stdin.close()
    child.wait()
    return times


class Caller(Model):
    """A model that asks for one call in each answer, of each tool in turn, and measures the time until the next request."""
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    times = {"time": [], "pipe__echo": [], "web__echo": []}
    rounds = asked = 0
    tool, sent = None, 0.0

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        now, state = time.perf_counter(), Caller
        request = json.loads(self.rfile.read(length))
        if state.tool:
            result = request["messages"][-1]["content"]
            if state.tool != "time" and f"text {state.asked}" not in result:
                raise SystemExit(f"{state.tool} failed: {result}")
            state.times[state.tool].append((now - state.sent) * 1000)
        if state.asked < state.rounds:
            state.asked += 1
            state.tool = list(state.times)[state.asked % 3]
            # No two calls are the same.
            zone = ZONES[state.asked // 3 % len(ZONES)]
            arguments = {"zone": zone} if state.tool == "time" else {"text": f"text {state.asked}"}
            self.wish(state.asked, state.tool, arguments)
        else:
            state.tool = None
            self.answer({"content": "done"}, "stop")
        state.sent = time.perf_counter()


ZONES = ["UTC"] + [f"Etc/GMT{sign}{hours}" for sign in "+-" for hours in range(1, 12)]


def call_times(program, runs, where):
    """The times of calls, in milliseconds: at the servers themselves, and as a model's calls with the home below `where`."""
    Caller.times = {"time": [], "pipe__echo": [], "web__echo": []}
    web = subprocess.Popen(["/usr/bin/python3", "-IS", "-c", ECHO, "http"], stdout=subprocess.PIPE)
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Caller)
    try:
        port = int(web.stdout.readline())
        threading.Thread(target=model.serve_forever, daemon=True).start()
        models = f'models = {{ m = {{ endpoint = "http://127.0.0.1:{model.server_port}/v1", model = "x" }} }}'
        rest = "memory = { auto = false }, context = { project = false }, limits = { tool_rounds_once = 1000 }"
        rows = f"""pipe = {{ command = {{ "/usr/bin/python3", "-IS", "-c", [==[{ECHO}]==] }}, tools = {{ echo = "run" }} }},
                   web = {{ url = "http://127.0.0.1:{port}/mcp", tools = {{ echo = "run" }} }}"""
        with home([models, rest, f"mcp = {{ servers = {{ {rows} }} }}"], where) as place:
            for name in ("pipe", "web"):
                at_terminal(program, place, ["mcp", "allow", name], b"[y/N] ", b"y\r")
            environment = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
            # A round is a request to the model, and the longest of a question are 1,000. What all of them have said is in each
            # request, so many short questions are nearer to real ones.
            for _ in range(max(1, runs // 8)):
                Caller.rounds, Caller.asked, Caller.tool = 30, 0, None
                said = subprocess.run([program, "agent", "--path", ".", "-m", "please"], env=environment, check=True,
                                      cwd=os.path.join(place, "work"), stdin=subprocess.DEVNULL, capture_output=True)
                if Caller.asked < Caller.rounds:
                    raise SystemExit(f"the calls ended early: {said.stdout[-2000:]!r}{said.stderr[-2000:]!r}")
        at_server = direct(port, runs * 10)
    finally:
        model.shutdown()
        web.kill()
        web.wait()
    # The first calls of a question start the servers.
    through = {name: [value for number, value in enumerate(values) if number % 10 > 1] for name, values in Caller.times.items()}
    return at_server, through


def call_lines(program, runs, name, where):
    yield f"calls with the home {name}:"
    at_server, through = call_times(program, runs, where)
    rows = [("the server itself, over a pipe", at_server["pipe"]), ("the server itself, over HTTP", at_server["http"]),
            ("a model's call of the built-in `time`", through["time"]),
            ("a model's call, over a pipe", through["pipe__echo"]), ("a model's call, over HTTP", through["web__echo"])]
    for name, values in rows:
        yield (f"{name:<38} median {statistics.median(values):6.3f} ms  99th of 100 {statistics.quantiles(values, n=100)[98]:6.3f} ms  "
               f"n {len(values)}")
    for name, place, call in (("a pipe", "pipe", "pipe__echo"), ("HTTP", "http", "web__echo")):
        own, whole, rest = (statistics.median(values) for values in (at_server[place], through[call], through["time"]))
        yield f"a call over {name} costs {whole - own:+.3f} ms more than the server itself, {whole - rest:+.3f} ms more than `time`"


def sync_lines(where):
    """The time that the disk alone takes for what a call brings to it: a receipt that is appended. Until 27 November 2026 a new head
    file followed."""
    def timed(act):
        times = []
        for _ in range(220):
            began = time.perf_counter()
            act()
            times.append((time.perf_counter() - began) * 1000)
        return statistics.median(times[20:]), statistics.quantiles(times[20:], n=10)[8]

    with tempfile.TemporaryDirectory(dir=where) as place:
        log = os.open(os.path.join(place, "log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)

        def receipt():
            os.write(log, b"x" * 541)
            os.fdatasync(log)

        def head():
            file = os.open(os.path.join(place, "head.tmp"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.write(file, b"x" * 218)
            os.fdatasync(file)
            os.close(file)
            os.rename(os.path.join(place, "head.tmp"), os.path.join(place, "head"))

        for name, act in (("a receipt appended", receipt), ("a head file written anew", head)):
            median, tenth = timed(act)
            yield f"the disk alone, {name}, with fdatasync: median {median:.3f} ms  90th of 100 {tenth:.3f} ms"
        os.close(log)


class Searcher(Model):
    """A model that asks for a search and for the time in turn, and measures the time until the next request."""
    times = {"time": [], "tool_search": []}
    rounds = asked = 0
    tool, sent = None, 0.0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        now, state = time.perf_counter(), Searcher
        if state.tool:
            state.times[state.tool].append((now - state.sent) * 1000)
        state.tool = list(state.times)[state.asked % 2] if state.asked < state.rounds else None
        if state.tool:
            state.asked += 1
            zone = ZONES[state.asked // 2 % len(ZONES)]
            arguments = {"zone": zone} if state.tool == "time" else {"query": f"records of project {state.asked}", "limit": 1}
            self.wish(state.asked, state.tool, arguments)
        else:
            self.answer({"content": "done"}, "stop")
        state.sent = time.perf_counter()


def search_lines(program, runs):
    """The time of a search in 2,000 allowed tools, and what these tools add to the time until a question's first request."""
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Searcher)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    models = f'models = {{ m = {{ endpoint = "http://127.0.0.1:{model.server_port}/v1", model = "x" }} }}'
    rest = "memory = { auto = false }, context = { project = false }, limits = { tool_rounds_once = 1000 }"
    servers = {name: ["/usr/bin/python3", "-c", SERVER, "1000", name] for name in ("one", "two")}
    firsts = {}
    for what, chosen in (("no tools", {}), ("2,000 tools", servers)):
        with home([models, rest, lua(chosen)]) as place:
            for server in chosen:
                at_terminal(program, place, ["mcp", "allow", server], b"[y/N] ", b"y\r")
            environment = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
            firsts[what] = []
            for _ in range(max(3, runs // 4)):
                Searcher.rounds, Searcher.asked, Searcher.tool = 10 if chosen else 0, 0, None
                began, Searcher.sent = time.perf_counter(), 0.0
                asking = subprocess.Popen([program, "agent", "--path", ".", "-m", "please"], env=environment,
                                          cwd=os.path.join(place, "work"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                while not Searcher.sent:
                    time.sleep(0.0005)
                firsts[what].append((Searcher.sent - began) * 1000)
                asking.wait()
    model.shutdown()
    for what, values in firsts.items():
        yield f"first request with {what:<12} median {statistics.median(values):7.2f} ms"
    medians = {name: statistics.median(values) for name, values in Searcher.times.items()}
    yield (f"a search in 2,000 tools: median {medians['tool_search']:.2f} ms with the rounds to the model, "
           f"{medians['tool_search'] - medians['time']:+.2f} ms more than `time`  n {len(Searcher.times['tool_search'])}")


def end_times(program, runs):
    """The times from `exit` in a session until it has ended, in milliseconds, with ten servers that run."""
    times = []
    for _ in range(runs):
        servers = {f"s{number}": ["/usr/bin/python3", "-IS", "-c", ECHO] for number in range(10)}
        with home([lua(servers)]) as place:
            environment = {"HOME": place, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
            child, terminal = pty.fork()
            if child == 0:
                os.chdir(os.path.join(place, "work"))
                os.execve(program, [program], environment)
            shown = b""

            def until(wanted, count=1):
                nonlocal shown
                while wanted is None or shown.count(wanted) < count:
                    try:
                        piece = os.read(terminal, 65536)
                    except OSError:
                        return
                    if b"\x1b[6n" in piece:
                        os.write(terminal, b"\x1b[1;1R")
                    shown += piece

            until("❯".encode())
            for number in range(10):
                shown = b""
                os.write(terminal, f":mcp connect s{number}\r".encode())
                until(b"running, started", number + 1)
                until("❯".encode())
            began = time.perf_counter()
            os.write(terminal, b"exit\r")
            until(None)
            os.waitpid(child, 0)
            times.append((time.perf_counter() - began) * 1000)
            os.close(terminal)
    return times


WAITING = ECHO.replace('reply["result"] = {"content"', 'open("called", "w").close(); import time; time.sleep(60); reply["result"] = {"content"')


class Once(Model):
    """A model that asks for one call."""
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wish(1, "pipe__echo", {"text": "a"})


def running(word):
    """The processes with a word among their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if word in place.joinpath("cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            pass
    return found


def stop_times(program, runs):
    """The times from the start of `reedclaw estop` until a call of 60 s has ended, in milliseconds: its server, and all of it."""
    servers, whole = [], []
    for run in range(runs):
        model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Once)
        threading.Thread(target=model.serve_forever, daemon=True).start()
        mark = f"bench-stop-{os.getpid()}-{run}"
        models = f'models = {{ m = {{ endpoint = "http://127.0.0.1:{model.server_port}/v1", model = "x" }} }}'
        row = f'pipe = {{ command = {{ "/usr/bin/python3", "-IS", "-c", [==[{WAITING}]==], "{mark}" }}, tools = {{ echo = "run" }} }}'
        with home([models, "memory = { auto = false }, context = { project = false }", f"mcp = {{ servers = {{ {row} }} }}"]) as place:
            at_terminal(program, place, ["mcp", "allow", "pipe"], b"[y/N] ", b"y\r")
            environment, work = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, Path(place, "work")
            asking = subprocess.Popen([program, "agent", "--path", ".", "-m", "please"], env=environment, cwd=work,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until = time.perf_counter() + 60
            while not Path(work, "called").exists():
                if time.perf_counter() > until:
                    raise SystemExit("the call wasn't made")
                time.sleep(0.01)
            began = time.perf_counter()
            subprocess.run([program, "estop"], env=environment, cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while running(mark.encode()):
                time.sleep(0.001)
            servers.append((time.perf_counter() - began) * 1000)
            asking.wait(60)
            whole.append((time.perf_counter() - began) * 1000)
        model.shutdown()
    return servers, whole


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers every request with an error; what a program sends first is all that is asked for."""
    requests = []

    def do_POST(self):
        now, body = time.perf_counter(), self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((now, json.loads(body)))
        self.send_error(400)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def order(program, peers, url, place, servers):
    """The command line of one question, with a model at `url` and the servers configured."""
    if program == "codex":
        text = ('model = "x"\nmodel_provider = "m"\n[model_providers.m]\nname = "m"\nwire_api = "responses"\nenv_key = "KEY"\n'
                f'base_url = "{url}"\nrequest_max_retries = 0\nstream_max_retries = 0\n')
        text += "".join(f"[mcp_servers.{name}]\ncommand = {json.dumps(argv[0])}\nargs = {json.dumps(argv[1:])}\n"
                        for name, argv in servers.items())
        Path(place, "config.toml").write_text(text)
        return [f"{peers}/node_modules/.bin/codex", "exec", "--skip-git-repo-check", "please"]
    if program == "opencode":
        model = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": url}, "models": {"x": {"name": "x"}}}
        servers = {name: {"type": "local", "command": argv} for name, argv in servers.items()}
        Path(place, "work/opencode.json").write_text(json.dumps({"provider": {"m": model}, "mcp": servers, "autoupdate": False}))
        return [f"{peers}/node_modules/.bin/opencode", "run", "--model", "m/x", "please"]
    config = Path(place, ".config/reedclaw/config.lua")
    config.parent.mkdir(parents=True)
    config.write_text(f'return {{ models = {{ m = {{ endpoint = "{url}", model = "x" }} }}, {lua(servers)} }}')
    return [program, "agent", "--path", ".", "-m", "please"]


def first_request(program, peers, servers):
    """The time until the first request with tools, in seconds, and the bytes of its tools. None after two minutes."""
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    Refusing.requests.clear()
    with tempfile.TemporaryDirectory() as place:
        Path(place, "work").mkdir()
        command = order(program, peers, f"http://127.0.0.1:{model.server_port}/v1", place, servers)
        environment = {"HOME": place, "CODEX_HOME": place, "KEY": "none", "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        began = time.perf_counter()
        child = subprocess.Popen(command, env=environment, cwd=Path(place, "work"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        found = None
        while found is None and time.perf_counter() - began < 120:
            # opencode asks for a title first, without tools.
            found = next(((at, body["tools"]) for at, body in Refusing.requests if body.get("tools")), None)
            time.sleep(0.001)
        os.killpg(child.pid, 9)
        child.wait()
    model.shutdown()
    return found and (found[0] - began, len(found[1]), len(json.dumps(found[1], separators=(",", ":"))))


def peer_lines(program, peers):
    yield "beside peers, each once before and then three times:"
    for name in (program, "codex", "opencode"):
        shown = "reedclaw" if name == program else name
        sizes = {}
        for what, servers in (("without servers", {}), ("with 150 tools", GOOD_SERVERS), ("with 20 bad servers", BAD_SERVERS)):
            runs = [first_request(name, peers, servers) for _ in range(4)][1:]
            if None in runs:
                yield f"{shown:<9} {what:<20} no request within two minutes"
                continue
            sizes[what] = runs[0][2]
            yield (f"{shown:<9} {what:<20} request after {statistics.median(run[0] for run in runs):6.2f} s  "
                   f"{runs[0][1]:>4} tools sent  {runs[0][2]:>7} bytes")
        # What nobody has allowed isn't offered, so the figure of this program is the one above.
        if name != program and len(sizes) > 1:
            more = sizes.get("with 150 tools", 0) - sizes["without servers"]
            yield f"{shown:<9} 150 tools of 7 servers cost {more} bytes, about {more // 4} tokens"


def other_lines(options):
    sizes = request_size(options.program)
    for name, size in sizes.items():
        yield f"request {name:<16} {size['tools']:>4} tools sent  {size['bytes of tools']:>7} bytes"
    more = sizes["with 150 tools"]["bytes of tools"] - sizes["without"]["bytes of tools"]
    yield f"150 tools of 7 servers cost {more} bytes, about {more // 4} tokens"
    if options.peers:
        yield from peer_lines(options.program, options.peers)
    # A receipt is brought to the disk before a call; in memory that costs nothing.
    yield from sync_lines(None)
    for name, where in (("on the disk", None), ("in memory", "/dev/shm")):
        yield from call_lines(options.program, options.runs, name, where)
    yield from search_lines(options.program, options.runs)
    values = end_times(options.program, max(2, options.runs // 8))
    yield f"the end of a session with 10 servers that run: {statistics.median(values):.0f} ms, at most {max(values):.0f} ms"
    for what, values in zip(("its server is gone", "the question is over"), stop_times(options.program, max(2, options.runs // 4))):
        yield f"the emergency stop during a call: {what} after {statistics.median(values):.0f} ms, at most {max(values):.0f} ms"
    yield from definition_lines(options.program, options.runs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "target/release/reedclaw"))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--peers")
    parser.add_argument("--prompt", action="store_true", help="measure the first prompt alone")
    parser.add_argument("--hanging", action="store_true", help="measure questions beside servers that hang alone")
    parser.add_argument("--name", default="mcp")
    options = parser.parse_args()
    # Each session starts in a directory of its own.
    options.program = os.path.abspath(options.program)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    lines = [f"date: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}",
             f"command: benches/mcp.py --runs {options.runs}{' --peers DIRECTORY' if options.peers else ''}{' --prompt' * options.prompt}"
             f"{' --hanging' * options.hanging}",
             f"program: {Path(options.program).parent.name} build",
             f"load1: {os.getloadavg()[0]:.1f}", f"cpu: {cpu}", f"cores: {os.cpu_count()}", ""]
    if options.hanging:
        lines.extend(hanging.lines(options.program, options.runs, lua, BAD_SERVERS))
    elif not options.prompt:
        lines.extend(other_lines(options))
    if not options.hanging:
        lines.extend(first_prompt_lines(options.program, options.runs))
    text = "\n".join(lines) + "\n"
    print(text, end="")
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime())
    (ROOT / f"benches/runs/{stamp}-{re.sub(r'[^a-z0-9-]', '-', options.name)}.txt").write_text(text)


main()
