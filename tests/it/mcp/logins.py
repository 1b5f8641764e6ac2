"""A server of tools that wants a login, and the giver of its tokens, whose address may be given. Answers plain HTTP, for a front
that encrypts; prints its port."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

SERVER, GIVER = "https://tools.example", (sys.argv[1:] or ["https://login.example"])[0]
DOCUMENTS = {
    "/.well-known/oauth-protected-resource": {"resource": f"{SERVER}/mcp", "authorization_servers": [GIVER]},
    "/.well-known/oauth-authorization-server": {
        "issuer": GIVER, "authorization_endpoint": f"{GIVER}/authorize", "token_endpoint": f"{GIVER}/token",
        "registration_endpoint": f"{GIVER}/register", "code_challenge_methods_supported": ["S256"],
        "response_types_supported": ["code"]},
}
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "1"}},
    "tools/list": {"tools": [{"name": "far", "inputSchema": {"type": "object"}}]},
    "ping": {},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=None, headers=()):
        body = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for name, value in [*headers, ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        found = DOCUMENTS.get(self.path)
        self.reply(200 if found else 404, found)

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/register":
            return self.reply(201, {"client_id": "client-1", **json.loads(text)})
        if self.path == "/token":
            is_right = parse_qs(text)["code"] == ["code-1"]
            return self.reply(200 if is_right else 400, {"access_token": "token-1", "token_type": "Bearer"} if is_right else {})
        if self.headers.get("Authorization") != "Bearer token-1":
            place = f'Bearer resource_metadata="{SERVER}/.well-known/oauth-protected-resource"'
            return self.reply(401, None, [("WWW-Authenticate", place)])
        message = json.loads(text)
        if "id" not in message:
            return self.reply(202)
        if message["method"] not in RESULTS:
            return self.reply(400)
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
