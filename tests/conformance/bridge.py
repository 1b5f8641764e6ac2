#!/usr/bin/env python3
"""Streamable HTTP in front of `reedclaw mcp serve`, for the published conformance suite, which tests servers over HTTP alone. It
passes messages on as they are. Prints its address. REEDCLAW_TEST_PROGRAM names the program; the home is a temporary one."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER_SECONDS = 60


class Served:
    """The program, and the requests that wait for its answers."""

    def __init__(self, home):
        environment = {"HOME": home, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            [os.environ["REEDCLAW_TEST_PROGRAM"], "mcp", "serve"], env=environment, cwd=home,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.waiting, self.lock = {}, threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            waiting = self.waiting.pop(json.dumps(message.get("id")), None)
            if waiting and "method" not in message:
                waiting.put(message)

    def send(self, message):
        with self.lock:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def ask(self, message):
        answer = queue.Queue(1)
        self.waiting[json.dumps(message["id"])] = answer
        self.send(message)
        return answer.get(timeout=ANSWER_SECONDS)


class Handler(BaseHTTPRequestHandler):
    def reply(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        try:
            message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            message = None
        if not isinstance(message, dict):
            return self.reply(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no message"}}')
        if "id" not in message or "method" not in message:
            served.send(message)
            return self.reply(202)
        answer = served.ask(message)
        # The status that the transport has for these errors.
        status = {-32020: 400, -32021: 400, -32022: 400, -32601: 404}.get(answer.get("error", {}).get("code"), 200)
        return self.reply(status, json.dumps(answer).encode())

    def do_GET(self):
        self.reply(405)

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


with tempfile.TemporaryDirectory() as home:
    served = Served(home)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    try:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()
    finally:
        served.process.stdin.close()
        served.process.wait(timeout=10)
