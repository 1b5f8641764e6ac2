"""A server of tools over standard input and output, whose one tool answers at once."""

import json, sys
ANSWERS = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "e", "version": "1"}},
           "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
           "tools/call": {"content": [{"type": "text", "text": "done"}]}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = ANSWERS.get(message["method"])
        part = {"result": answer} if answer else {"error": {"code": -32601, "message": "none"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **part}) + "\n")
        sys.stdout.flush()
