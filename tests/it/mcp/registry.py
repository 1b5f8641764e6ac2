"""A registry of npm with one package, which is a server of the Model Context Protocol.

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


def packed():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("package.json", json.dumps(PACKAGE)), ("server.js", SERVER)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    tarball = packed()

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
        return self.send_error(404)

    def give(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
with open(sys.argv[1] + ".new", "w", encoding="utf-8") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
