"""A server of the Model Context Protocol over pipes, with faults on demand.

    server.py [WORD=VALUE ...]

    era=both|initialize|discover|odd|silent|ends    how it takes server/discover (default: initialize, with an error)
    tools=FILE      a JSON file of tool definitions, read at each list; otherwise three of its own
    notice=FILE     announces a changed list as soon as this file appears
    log=TEXT        printed to standard error at the start
    noise=TEXT      printed to standard output before the first answer
    delay=SECONDS   before the first answer
    waits=FILE      answers nothing before this file is there
    says=FILE       its instructions
    ends=FILE       ends at its start if this file is there, with the time on standard error; the file may list exit statuses, of
                    which each start takes one and leaves the last
    deaf=STATUS     closes its input as soon as it was greeted, answers, and ends with this status
    touch=FILE      a line is added to it for each call of a tool, with its name
"""
import base64
import json
import os
import queue
import signal
import sys
import threading
import time

options = dict(word.split("=", 1) for word in sys.argv[1:])
era = options.get("era", "initialize")
lock = threading.Lock()
listening = None
capabilities = {}
replies = queue.Queue()
listed = threading.Event()
calls = 0
TOOLS = [
    {"name": "echo", "description": "Gives its text back.", "inputSchema": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
     "annotations": {"readOnlyHint": True}},
    {"name": "act", "description": "Does one of several things.", "inputSchema": {
        "type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}},
    {"name": "write", "description": "Writes a file.", "inputSchema": {
        "type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        "required": ["path", "text"]}, "annotations": {"destructiveHint": True}},
]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\nnot a real picture").decode()


def send(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def raw(data):
    with lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def tools():
    listed.set()
    if "tools" in options:
        with open(options["tools"], encoding="utf-8") as file:
            return json.load(file)
    return TOOLS


def says():
    if "says" in options:
        with open(options["says"], encoding="utf-8") as file:
            return file.read()
    return "Use echo to echo."


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def act(what, message):
    if what == "image":
        return {"content": [{"type": "text", "text": "a picture"},
                            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                            {"type": "resource_link", "uri": "note:one", "name": "one"}],
                "structuredContent": {"pictures": 1}}
    if what == "fail":
        return text("it went wrong", isError=True)
    if what == "count":
        return text(f"{calls} calls")
    if what == "long":
        return text("x" * (3 << 20))
    if what == "huge":
        return text("x" * (5 << 20))
    if what == "nested":
        raw(b'{"jsonrpc": "2.0", "id": %d, "result": %s}\n' % (message["id"], b"[" * 200 + b"]" * 200))
        return None
    if what == "env":
        return text("\n".join(f"{name}={value}" for name, value in sorted(os.environ.items())))
    if what == "escape":
        return text("plain \x1b[31mred\x1b[0m \u202etext\U000e0041")
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(600)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "foreign":
        send({"jsonrpc": "2.0", "id": 987654, "result": text("not asked for")})
        return text("the right one")
    if what == "twice":
        send({"jsonrpc": "2.0", "id": message["id"], "result": text("first")})
        return text("second")
    if what == "odd bytes":
        raw(b"\xff\xfe\x00 no text\n{\"jsonrpc\": \"2.0\"\n\n[]\n")
        return text("the right one")
    if what == "in halves":
        whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": text("put together")}).encode()
        raw(whole[:20])
        time.sleep(0.3)
        raw(whole[20:] + b"\n")
        return None
    if what == "fail with escapes":
        return text("\x1b[31mwrong\x1b]0;owned\x07 \u202etext\U000e0041", isError=True)
    if what == "stubborn":
        # A grandchild in a session of its own, which ignores what a polite parent sends.
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            time.sleep(600)
            os._exit(0)
        time.sleep(600)
    if what.startswith("swap "):
        with open(what[5:], encoding="utf-8") as file, open(options["tools"], "w", encoding="utf-8") as out:
            out.write(file.read())
        listed.clear()
        notify("tools/list_changed", {})
        listed.wait(30)
        # The client has the new list as soon as it has read this message's predecessor.
        return text("swapped")
    if what == "elicit":
        if "elicitation" not in capabilities:
            return text("no elicitation")
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        send({"jsonrpc": "2.0", "id": "form", "method": "elicitation/create",
              "params": {"message": "Which one?", "requestedSchema": schema}})
        reply = replies.get(timeout=60)["result"]
        return text(f"{reply['action']}: {json.dumps(reply.get('content'))}")
    if what == "progress":
        token = message["params"]["_meta"]["progressToken"]
        for step in range(4):
            time.sleep(0.7)
            send({"jsonrpc": "2.0", "method": "notifications/progress",
                  "params": {"progressToken": token, "progress": step}})
        return text("done")
    if what == "halfway":
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1, "total": 2,
            "message": "half\x1b[2Jway\u202e there"}})
        return text("there")
    if what == "flood":
        token, words = message["params"]["_meta"]["progressToken"], "x" * 1000
        parts = [{"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": words}},
                 {"method": "notifications/message", "params": {"level": "info", "data": words}},
                 {"method": "notifications/tools/list_changed"}, {"method": f"notifications/{words}"},
                 {"id": 987654, "result": text(words)}, {"id": 987655, "method": "roots/list"}]
        raw("".join(json.dumps({"jsonrpc": "2.0", **part}) + "\n" for part in parts).encode() * 2000)
        sys.stderr.write((words + "\n") * 2000)
        return text("after the flood")
    if what == "orphan":
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        return text("left one behind")
    if what.startswith("read "):
        with open(what[5:], encoding="utf-8") as file:
            return text(file.read())
    if what.startswith("connect "):
        import socket
        socket.create_connection(("127.0.0.1", int(what[8:])), timeout=2).close()
        return text("connected")
    return text(f"unknown: {what}")


def call(message):
    global calls
    calls += 1
    name, arguments = message["params"]["name"], message["params"].get("arguments", {})
    if "touch" in options:
        with open(options["touch"], "a", encoding="utf-8") as file:
            file.write(name + "\n")
    try:
        if name == "act":
            return act(arguments["what"], message)
        if name == "write":
            with open(arguments["path"], "w", encoding="utf-8") as file:
                file.write(arguments["text"])
            return text("written")
        return text(arguments.get("text", "nothing"))
    except OSError as error:
        return text(str(error), isError=True)


def answer(message):
    method = message.get("method")
    if method == "initialize":
        capabilities.update(message["params"].get("capabilities", {}))
        return {"protocolVersion": "2025-11-25", "serverInfo": {"name": "fixture", "version": "1"},
                "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
                "instructions": says()}
    if method == "server/discover":
        if era == "odd":
            return {}
        if era == "silent":
            return None
        if era == "ends":
            os._exit(1)
        if era in ("both", "discover"):
            return {"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
                    "instructions": "Modern.", "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fixture", "version": "2"}}}
    if method == "tools/list":
        return {"tools": tools(), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "resources/list":
        return {"resources": [{"uri": "note:one", "name": "one", "mimeType": "text/plain"}]}
    if method == "resources/read":
        return {"contents": [{"uri": message["params"]["uri"], "text": "the note\n"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "description": "Greets.", "arguments": [{"name": "who", "required": True}]}]}
    if method == "prompts/get":
        who = message["params"]["arguments"]["who"]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Say hello to {who}."}}]}
    if method == "subscriptions/listen":
        global listening
        listening = message["id"]
        notify("subscriptions/acknowledged", {"notifications": message["params"]["notifications"]})
        return None
    if method == "tools/call":
        return call(message)
    if method == "ping":
        return {}
    send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
    return None


def handle(message):
    result = answer(message)
    if result is not None:
        if era in ("both", "discover"):
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def notify(what, params):
    """Says that something has changed; in the newest version only to a client that has asked for that."""
    if era in ("both", "discover"):
        params["_meta"] = {"io.modelcontextprotocol/subscriptionId": listening}
    send({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params})


def watch(path):
    while not os.path.exists(path) or (era in ("both", "discover") and listening is None):
        time.sleep(0.02)
    notify("tools/list_changed", {})


def main():
    if "log" in options:
        print(options["log"], file=sys.stderr, flush=True)
    if os.path.exists(options.get("ends", "")):
        print(f"it is {time.time()}", file=sys.stderr, flush=True)
        with open(options["ends"], encoding="utf-8") as file:
            statuses = file.read().split() or ["4"]
        if len(statuses) > 1:
            with open(options["ends"], "w", encoding="utf-8") as file:
                file.write(" ".join(statuses[1:]))
        os._exit(int(statuses[0]))
    if "noise" in options:
        print(options["noise"], flush=True)
    time.sleep(float(options.get("delay", "0")))
    while "waits" in options and not os.path.exists(options["waits"]):
        time.sleep(0.02)
    if "notice" in options:
        threading.Thread(target=watch, args=(options["notice"],), daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if era == "discover" and message.get("method") == "initialize":
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no handshake"}})
        elif "deaf" in options:
            # In this thread, since one that still reads would keep the input open.
            os.close(0)
            send({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)})
            os._exit(int(options["deaf"]))
        elif "id" in message and "method" in message:
            threading.Thread(target=handle, args=(message,), daemon=True).start()
        elif "result" in message:
            replies.put(message)


main()
