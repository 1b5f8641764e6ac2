"""A server of the oldest transport with an address (HTTP with events, version 2024-11-05). Prints its port.

    sse.py [ENDPOINT]    ENDPOINT: the address for requests that it names (default: one of its own)
"""
import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "/messages"
sessions = []
TOOL = {"name": "echo", "description": "Gives its text back.", "inputSchema": {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}


def answer(message):
    method = message.get("method")
    if method == "initialize":
        return {"protocolVersion": "2024-11-05", "serverInfo": {"name": "oldest", "version": "1"}, "capabilities": {"tools": {}}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
    return {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        answers = queue.Queue()
        sessions.append(answers)
        self.wfile.write(f": hello\n\nevent: endpoint\ndata: {ENDPOINT}?session={len(sessions) - 1}\n\n".encode())
        while True:
            self.wfile.flush()
            self.wfile.write(f"event: message\ndata: {json.dumps(answers.get())}\n\n".encode())

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" in message:
            sessions[int(self.path.split("=")[1])].put({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)})
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
