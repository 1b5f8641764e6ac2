"""Servers of tools that hang, for `mcp.py --hanging`: 20 are configured, of which one is missing, one answers after 20 s and 18 never
do. Measured are the question that meets them first and the next one in the same session, the end of the session while they are still
being started, and an editor's session with five more that never answer. Each figure stands beside the one without servers."""
import http.server
import json
import os
import pty
import select
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

SILENT = ["/usr/bin/python3", "-c", "import time; time.sleep(600)"]
PROMPT = "❯".encode()


class Model(http.server.BaseHTTPRequestHandler):
    """Notes when each request came, and answers with a word."""
    came = []

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Model.came.append(time.perf_counter())
        piece = {"choices": [{"index": 0, "delta": {"content": "answered"}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


class Terminal:
    """A session at a terminal."""

    def __init__(self, program, place):
        environment = {"HOME": place, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.shown = b""
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(os.path.join(place, "work"))
            os.execve(program, [program], environment)

    def until(self, is_there, seconds=120):
        """Reads until the condition holds, or the session has ended; returns what was shown."""
        deadline = time.perf_counter() + seconds
        while not is_there(self.shown):
            if time.perf_counter() > deadline:
                raise SystemExit(f"it never came: {self.shown[-2000:]!r}")
            ready, _, _ = select.select([self.terminal], [], [], 0.5)
            if not ready:
                continue
            try:
                piece = os.read(self.terminal, 65536)
            except OSError:
                break
            if not piece:
                break
            # Where the cursor is.
            if b"\x1b[6n" in piece:
                os.write(self.terminal, b"\x1b[1;1R")
            self.shown += piece
        shown, self.shown = self.shown, b""
        return shown

    def ask(self, text):
        """Asks; returns the time until the model heard it, in milliseconds, and what was shown until the next prompt."""
        Model.came.clear()
        began = time.perf_counter()
        os.write(self.terminal, text + b"\r")
        shown = self.until(lambda shown: b"answered" in shown and PROMPT in shown.split(b"answered")[-1])
        return (Model.came[0] - began) * 1000, shown

    def end(self):
        """Leaves; returns the time until the process has ended, in milliseconds."""
        began = time.perf_counter()
        os.write(self.terminal, b"exit\r")
        self.until(lambda shown: False)
        os.waitpid(self.child, 0)
        os.close(self.terminal)
        return (time.perf_counter() - began) * 1000


class Editor:
    """A client of the Agent Client Protocol, whose person says no to everything."""

    def __init__(self, program, place):
        environment = {"HOME": place, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.last = 0
        self.child = subprocess.Popen([program, "acp"], env=environment, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)

    def send(self, message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.child.stdin.flush()

    def ask(self, method, parameters):
        """Sends a request; returns its result, and the time until it came, in milliseconds."""
        self.last += 1
        began = time.perf_counter()
        self.send({"id": self.last, "method": method, "params": parameters})
        while True:
            line = self.child.stdout.readline()
            if not line:
                raise SystemExit("the program has ended")
            message = json.loads(line)
            if message.get("method") == "session/request_permission":
                no = next(it for it in message["params"]["options"] if it["kind"] == "reject_once")
                outcome = {"outcome": "selected", "optionId": no["optionId"]}
                self.send({"id": message["id"], "result": {"outcome": outcome}})
            elif message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"], (time.perf_counter() - began) * 1000

    def end(self):
        """Closes the connection; returns the time until the process has ended, in milliseconds."""
        began = time.perf_counter()
        self.child.stdin.close()
        self.child.wait(60)
        return (time.perf_counter() - began) * 1000


def home(port, servers):
    """A home whose model is at a port of this machine, with servers as Lua."""
    place = tempfile.TemporaryDirectory()
    config = Path(place.name, ".config/reedclaw/config.lua")
    config.parent.mkdir(parents=True)
    Path(place.name, "work/.git").mkdir(parents=True)
    config.write_text(f'return {{ models = {{ m = {{ endpoint = "http://127.0.0.1:{port}/v1", model = "x" }} }}, memory = {{ auto = false }}, '
                      f'context = {{ project = false }}, {servers} }}')
    return place


def at_terminal(program, port, servers, times):
    """One session with two questions; returns the lines about servers."""
    with home(port, servers) as place:
        session = Terminal(program, place)
        session.until(lambda shown: PROMPT in shown)
        first, shown = session.ask(b"?please answer")
        second, _ = session.ask(b"?please answer again")
        for name, took in (("first question", first), ("second question", second), ("end of the session", session.end())):
            times.setdefault(name, []).append(took)
    return shown.count(b"[mcp]")


def at_editor(program, port, servers, brought, times):
    """One session of an editor with one prompt."""
    with home(port, servers) as place:
        editor, began = Editor(program, place), time.perf_counter()
        editor.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        times.setdefault("editor: start to the reply to `initialize`", []).append((time.perf_counter() - began) * 1000)
        opened, took = editor.ask("session/new", {"cwd": os.path.join(place, "work"), "mcpServers": brought})
        times.setdefault("editor: new session", []).append(took)
        Model.came.clear()
        began = time.perf_counter()
        editor.ask("session/prompt", {"sessionId": opened["sessionId"], "prompt": [{"type": "text", "text": "please answer"}]})
        times.setdefault("editor: first prompt to the model's request", []).append((Model.came[0] - began) * 1000)
        times.setdefault("editor: end of the process", []).append(editor.end())


def lines(program, runs, lua, bad):
    """The figures, a line each; `lua` writes servers as a config has them, `bad` are those that hang."""
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    port, found = model.server_port, {}
    brought = [{"name": f"e{number}", "command": SILENT[0], "args": SILENT[1:], "env": []} for number in range(5)]
    reported = []
    for _ in range(runs):
        for name, servers, own in (("without servers", lua({}), []), ("with those that hang", lua(bad), brought)):
            times = found.setdefault(name, {})
            count = at_terminal(program, port, servers, times)
            at_editor(program, port, servers, own, times)
            if own:
                reported.append(count)
    model.shutdown()
    for what in found["without servers"]:
        for name, times in found.items():
            yield f"{what:<44} {name:<21} median {statistics.median(times[what]):8.1f} ms  at most {max(times[what]):8.1f} ms"
    yield f"lines about servers at the first question: {min(reported)} to {max(reported)}, with the limit `mcp.wait_ms` of 1500 ms"
