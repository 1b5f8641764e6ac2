"""A registry of npm, and an index of PyPI, with one package each, which is a server of the Model Context Protocol.

    registry.py FILE

It listens on a free port of this machine, writes the port to FILE, and prints the path of each request.
"""
import base64
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import zipfile

NAME, VERSION = "reedclaw-test-server", "1.0.0"
PACKAGE = {"name": NAME, "version": VERSION, "bin": {NAME: "server.js"}}
SERVER = """#!/usr/bin/env node
const lines = require("readline").createInterface({ input: process.stdin });
const schema = { type: "object", properties: { text: { type: "string" } } };
const results = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "packed", version: "1" } },
  "tools/list": { tools: [{ name: "echo", description: "Gives its text back.", inputSchema: schema }] },
  ping: {},
};
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const reply = { jsonrpc: "2.0", id };
  if (method === "tools/call") reply.result = { content: [{ type: "text", text: params.arguments.text }] };
  else if (results[method]) reply.result = results[method];
  else reply.error = { code: -32601, message: "no such method" };
  console.log(JSON.stringify(reply));
});
"""

WHEEL = f"{NAME.replace('-', '_')}-{VERSION}-py3-none-any.whl"
MODULE = """import json, sys
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "packed", "version": "1"}},
    "tools/list": {"tools": [{"name": "echo", "description": "Gives its text back.",
                              "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]},
    "ping": {},
}

def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in RESULTS:
            reply["result"] = RESULTS[message["method"]]
        else:
            reply["error"] = {"code": -32601, "message": "no such method"}
        print(json.dumps(reply), flush=True)
"""


def wheel():
    module, info = NAME.replace("-", "_"), f"{NAME.replace('-', '_')}-{VERSION}.dist-info"
    files = {
        f"{module}.py": MODULE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{NAME} = {module}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def packed():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps(PACKAGE)), ("server.js", SERVER)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    tarball, wheel = packed(), wheel()

    def do_GET(self):
        print(self.path, flush=True)
        if self.path == f"/{NAME}":
            address = f"http://127.0.0.1:{self.server.server_port}/{NAME}.tgz"
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(self.tarball).digest()).decode()
            version = {**PACKAGE, "dist": {"tarball": address, "integrity": integrity}}
            body = {"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}
            return self.give("application/json", json.dumps(body).encode())
        if self.path == f"/{NAME}.tgz":
            return self.give("application/octet-stream", self.tarball)
        if self.path == f"/simple/{NAME}/":
            digest = hashlib.sha256(self.wheel).hexdigest()
            page = f'<!DOCTYPE html><a href="/files/{WHEEL}#sha256={digest}">{WHEEL}</a>'
            return self.give("text/html", page.encode())
        if self.path == f"/files/{WHEEL}":
            return self.give("application/octet-stream", self.wheel)
        return self.send_error(404)

    def do_HEAD(self):
        self.do_GET()

    def give(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        # What was read is out of date at once.
        self.send_header("Cache-Control", "max-age=0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
with open(sys.argv[1] + ".new", "w", encoding="utf-8") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
