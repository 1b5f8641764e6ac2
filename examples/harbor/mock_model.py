"""A server whose model makes no mistake: it knows the commands of the agent suite's tasks. mock_model.py PORT

Prints its port, which it chooses itself for 0."""
import json
import pathlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SUITE = pathlib.Path(__file__).resolve().parents[2] / "benches/agent_suite/tasks.json"
COMMANDS = {task["prompt"]: task["commands"] for task in json.loads(SUITE.read_text()) if task.get("commands")}


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


def answer(messages):
    """The next message: a plan, the next command of the task, or its end."""
    asked = text_of([it for it in messages if it["role"] == "user"][-1]["content"])
    prompt, commands = next(((prompt, commands) for prompt, commands in COMMANDS.items() if prompt in asked), ("", []))
    if "Plan the work" in asked:
        return {"role": "assistant", "content": "TASK: " + (prompt or "do it")}
    done = sum(it["role"] == "tool" for it in messages)
    if done < len(commands):
        function = {"name": "shell", "arguments": json.dumps({"command": commands[done]})}
        return {"role": "assistant", "tool_calls": [{"id": "call_%d" % done, "index": 0, "type": "function", "function": function}]}
    return {"role": "assistant", "content": "It is done."}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, data, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.send(json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        delta = answer(body["messages"])
        end = "tool_calls" if delta.get("tool_calls") else "stop"
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                  {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
                  {**base, "choices": [], "usage": usage}]
        text = "".join("data: %s\n\n" % json.dumps(chunk) for chunk in chunks) + "data: [DONE]\n\n"
        self.send(text.encode(), "text/event-stream")


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
