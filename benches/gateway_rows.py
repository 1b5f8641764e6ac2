#!/usr/bin/env python3
"""More of the team gateway: long canvases, a thousand streams that all grow, a model's words on their way to a browser, a shared
shell, and a canvas in Chromium. The figures of `gateway.py` are beside these. Needs Python 3.9; Chromium is used if it is installed.

    benches/gateway_rows.py [--program target/release/reedclaw] [--seconds 5] [--name NAME] [--only canvas,flow,…]
"""
import asyncio
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from gateway import CLOCK, Client, Gateway, event, main, spread
from shells import REED_PROMPT, Terminal, tree


def bench_canvas(gateway, options):
    """A canvas of 10,000 revisions, replayed, and one of 20,000 atoms."""
    client = Client(gateway, gateway.token("painter"))

    def command(canvas, rev, ops):
        status, text = client.ask("POST", f"/canvas/{canvas}/commands", {"base_rev": rev, "ops": ops, "idempotency_key": f"{canvas}-{rev}"})
        assert status == 200, text

    note = lambda number: {"op": "create", "atom": {"id": f"a{number}", "type": "note", "order": f"{number:06}", "props": {"text": "a note", "x": number}}}
    began = CLOCK()
    for rev in range(10_000):
        command("long", rev, [note(rev) if rev < 500 else {"op": "set", "id": f"a{rev % 500}", "path": "/x", "value": rev}])
    made = CLOCK() - began
    for rev in range(100):
        command("wide", rev, [note(rev * 200 + number) for number in range(200)])
    result = {"revisions made a second": 10_000 / made}
    for name, path in [("replay of 10,000 revisions", "/canvas/long/replay"), ("snapshot of 20,000 atoms", "/canvas/wide/snapshot")]:
        times = []
        for _ in range(5):
            began = CLOCK()
            status, text = client.ask("GET", path)
            times.append(1000 * (CLOCK() - began))
            assert status == 200, text
        result[name] = {"ms": times, "median": statistics.median(times), "bytes": len(text)}
    assert text.count(b'"type":"note"') == 20_000
    lines = client.ask("GET", "/canvas/long/replay")[1].splitlines()
    result["replay of 10,000 revisions"]["lines"] = len(lines)
    began = CLOCK()
    gateway.run("verify")
    result["verify, which folds both, s"] = CLOCK() - began
    # A gateway that begins without a stored snapshot folds a canvas from its first operation on.
    folds = {name: [] for name in ["10,000 commands of one operation", "100 commands of 200 operations"]}
    for _ in range(5):
        gateway.end()
        database = sqlite3.connect(Path(gateway.place.name, ".local/state/reedclaw/gateway.db"))
        database.execute("DELETE FROM canvas_snapshot")
        database.commit()
        database.close()
        gateway.start()
        client = Client(gateway, client.token)
        client.ask("GET", "/status")
        for name, canvas, ops in [*zip(folds, ["long", "wide"], [10_000, 20_000])]:
            times = []
            for _ in range(2):
                began = CLOCK()
                assert client.ask("GET", f"/canvas/{canvas}/snapshot")[0] == 200
                times.append(CLOCK() - began)
            # The second one has the state at hand, and all the rest of the way.
            folds[name].append(ops / (times[0] - times[1]))
    result["read from the log and folded, operations/s"] = {name: {"each": each, "median": statistics.median(each)} for name, each in folds.items()}
    return result


def bench_flow(gateway, options):
    """A thousand streams of a log that gets fifty events a second: each stream has all of them."""
    sockets = []
    host, port = gateway.host.split(":")
    for number in range(options.streams):
        if number % 16 == 0:
            token = gateway.token(f"flow-{number // 16}", "viewer")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(f"GET /sse/timeline/flow HTTP/1.1\r\nHost: {gateway.host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        sockets.append(connection)
    for connection in sockets:
        seen = b""
        while b"caught_up" not in seen:
            seen += connection.recv(4096)
        connection.setblocking(False)
    counts, rest, late = [0] * len(sockets), [b""] * len(sockets), []
    count = int(options.seconds * 50)
    sent, over = [], threading.Event()

    def append():
        client, began = Client(gateway, gateway.token("speaker")), CLOCK()
        for number in range(count):
            time.sleep(max(0, began + number / 50 - CLOCK()))
            sent.append(CLOCK())
            client.ask("POST", "/events/append", {**event(number), "stream": "flow"})
        over.set()

    cpu, began = gateway.cpu_s(), CLOCK()
    thread = threading.Thread(target=append)
    thread.start()
    ended = None
    while min(counts) < count and (ended is None or CLOCK() < ended + 30):
        # All streams are read one after the other: whoever waited for each of them would measure himself.
        for at, connection in enumerate(sockets):
            try:
                text = rest[at] + connection.recv(1 << 20)
            except BlockingIOError:
                continue
            counts[at] += text.count(b"event: x.step")
            rest[at] = text[-12:] if not text.endswith(b"event: x.step") else b""
        if over.is_set() and ended is None:
            ended = CLOCK()
        time.sleep(0.02)
    took = CLOCK() - began
    thread.join()
    [connection.close() for connection in sockets]
    return {"streams": len(sockets), "events": count, "frames": sum(counts), "lost": len(sockets) * count - sum(counts),
            "seconds after the last event": CLOCK() - sent[-1], "frames a second": sum(counts) / took,
            "processors of the gateway": (gateway.cpu_s() - cpu) / took}


class Speaker:
    """A server of a model that writes the time into each piece of its answer."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.address = "http://127.0.0.1:%d/v1" % server.sockets[0].getsockname()[1]
        self.server = server
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return writer.close()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        piece = lambda delta, end: f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': end}]})}\n\n".encode()
        for _ in range(100):
            await asyncio.sleep(0.02)
            writer.write(piece({"role": "assistant", "content": f" at={CLOCK():.6f};"}, None))
            await writer.drain()
        writer.write(piece({}, "stop") + b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()


def delays(read):
    """The delays of the pieces in a stream of bytes."""
    found, seen = [], b""
    while data := read():
        now = CLOCK()
        seen += data
        while b";" in seen:
            piece, seen = seen.split(b";", 1)
            if b"at=" in piece:
                found.append(now - float(piece.split(b"at=")[-1]))
    # The whole text comes once more at the end.
    return found[:100]


def bench_delta(gateway, options):
    """A model's pieces: until a client of the gateway has them, and until `reedclaw agent --json` has written them."""
    model = Speaker()
    more = f'models = {{slow = {{endpoint = "{model.address}"}}}}, memory = {{auto = false}}, context = {{project = false}}'
    gateway = Gateway(options.program, more=more)
    gateway.start()
    host, port = gateway.host.split(":")
    token, over_http, by_agent = gateway.token("asker"), [], []
    for _ in range(3):
        connection = socket.create_connection((host, int(port)))
        body = json.dumps({"message": "Go on.", "stream": True})
        connection.sendall((f"POST /chat HTTP/1.1\r\nHost: {gateway.host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
                            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        over_http += delays(lambda: connection.recv(65536))
        process = subprocess.Popen([options.program, "agent", "--json", "-m", "Go on."], env=gateway.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        by_agent += delays(lambda: process.stdout.read(65536))
        process.wait()
    gateway.end()
    return {"to a client of the gateway": spread(over_http), "to the output of reedclaw agent --json": spread(by_agent)}


def cpu_s(process):
    """Seconds of processor time of a process and its ended children so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def bench_share(gateway, options):
    """A shell by turns shared and unshared: `cat` of 200 MB, and keys. A viewer follows while it is shared."""
    gateway = Gateway(options.program)
    gateway.start()
    home = gateway.place.name
    big = Path(home, "big.txt")
    line = b"A line of some words, as a program prints many of them, 0123456789.\n"
    with open(big, "wb") as file:
        for _ in range(200):
            file.write(line * (1_000_000 // len(line)))
    viewer = gateway.token("viewer", "viewer")
    shell = Terminal({"argv": [options.program, "--norc"], "prompt": REED_PROMPT}, home, None)
    assert shell.wait_prompt()
    shell.quiet(0.5, 3)
    result = {name: {"cat": [], "cpu": [], "gateway": [], "key": []} for name in ["unshared", "shared"]}
    caught_up = []

    def until(text, wanted):
        shell.clear()
        began = CLOCK()
        shell.send(text + b"\r")
        tail = b""
        # Nothing else is done meanwhile: the terminal must not be what is waited for.
        while wanted not in tail:
            tail = (tail + os.read(shell.fd, 1 << 16))[-4096:]
        return CLOCK() - began

    for turn in range(max(2, int(options.seconds))):
        for name in result:
            share = None
            if name == "shared":
                until(b":share watch", b"recorded")
                shell.quiet(0.5, 3)
                items = json.loads(Client(gateway, viewer).ask("GET", "/shares")[1])["items"]
                share = [item["share_id"] for item in items if item.get("state", "live") == "live"][-1]
                watching = watch(gateway, viewer, share)
            shell.quiet(0.3, 3)
            cpu, ours = sum(map(cpu_s, tree(shell.pid))), gateway.cpu_s()
            result[name]["cat"].append(until(b"cat big.txt; echo EN''D", b"END"))
            result[name]["cpu"].append(sum(map(cpu_s, tree(shell.pid))) - cpu)
            result[name]["gateway"].append(gateway.cpu_s() - ours)
            if share:
                shell.send(b"echo en''d-%d\r" % turn)
                began = CLOCK()
                # The shell asks its terminal, so that must be read meanwhile.
                waiting = threading.Thread(target=lambda: caught_up.append(watching(b"end-%d" % turn, began)))
                waiting.start()
                while waiting.is_alive():
                    shell.read(0.005)
                shell.quiet(0.3, 3)
            for number in range(60):
                shell.clear()
                began = CLOCK()
                shell.send(b"q" if number % 2 == 0 else b"\x7f")
                shell.read(2)
                result[name]["key"].append(1000 * (shell.last - began))
                shell.quiet(0.02, 1)
            if share:
                until(b":share off", b"no longer")
                shell.quiet(0.3, 2)
    shell.end()
    gateway.end()
    median = lambda name, row: statistics.median(result[name][row])
    return {"cat of 200 MB, s": {name: result[name]["cat"] for name in result},
            "processor time of the shell and its commands, s": {name: result[name]["cpu"] for name in result},
            "processor time of the gateway, s": {name: result[name]["gateway"] for name in result},
            "throughput, shared beside unshared": median("unshared", "cat") / median("shared", "cat"),
            "key to the first byte, ms": {name: median(name, "key") for name in result},
            "key, shared less unshared, ms": median("shared", "key") - median("unshared", "key"),
            "a viewer has the next line after, s": caught_up}


def watch(gateway, token, share):
    """Follows a share on a thread; the result waits for words on the screen, by what a browser's terminal would draw."""
    import base64
    host, port = gateway.host.split(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(f"GET /sse/shares/{share} HTTP/1.1\r\nHost: {gateway.host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    drawn, at = bytearray(), threading.Condition()

    def read():
        rest = b""
        while data := connection.recv(1 << 20):
            *lines, rest = (rest + data).split(b"\n")
            for each in lines:
                if each.startswith(b"data:"):
                    for part in json.dumps(json.loads(each[5:])).split('"'):
                        if len(part) > 7:
                            try:
                                text = base64.b64decode(part, validate=True)
                            except ValueError:
                                text = part.encode()
                            with at:
                                drawn.extend(text)
                                del drawn[:-200_000]
                                at.notify_all()

    threading.Thread(target=read, daemon=True).start()

    def wait(words, began):
        with at:
            assert at.wait_for(lambda: words in drawn, 60), bytes(drawn[-500:])
        connection.shutdown(socket.SHUT_RDWR)
        return CLOCK() - began

    return wait


class Browser:
    """Chromium without a window, by its debugging pipe."""

    def __init__(self, place):
        to, from_ = os.pipe(), os.pipe()
        words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={place}", "about:blank"]
        command = f'exec "$@" 3<&{to[0]} 4>&{from_[1]} </dev/null >/dev/null 2>&1'
        self.process = subprocess.Popen(["bash", "-c", command, "bash", *words], pass_fds=[to[0], from_[1]])
        os.close(to[0])
        os.close(from_[1])
        self.to, self.from_, self.last, self.session = os.fdopen(to[1], "wb", 0), os.fdopen(from_[0], "rb"), 0, None
        self.rest = b""
        page = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        [self.call(f"{domain}.enable") for domain in ["Page", "Runtime"]]

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        self.to.write(json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                self.rest += os.read(self.from_.fileno(), 1 << 16)
            said, self.rest = self.rest.split(b"\0", 1)
            said = json.loads(said)
            if said.get("id") == self.last:
                return said.get("result", {})

    def eval(self, text):
        answer = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        return answer.get("result", {}).get("value")

    def until(self, text):
        end = CLOCK() + 30
        while not self.eval(f"(() => {{ try {{ return !!({text}); }} catch {{ return false; }} }})()"):
            assert CLOCK() < end, (text, self.eval("document.body?.innerText"))
            time.sleep(0.02)


def signed_in(gateway, options, browser):
    """Opens the console; returns the seconds until its first screen."""
    code = subprocess.run(["script", "-qec", f"{options.program} gateway pair --user drawer", "/dev/null"], env=gateway.environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    code = code.split("#pair=")[1].split()[0].strip("\x1b[m")[:14]
    began = CLOCK()
    browser.call("Page.navigate", url=f"http://{gateway.host}/ui/#pair={code}")
    browser.until("document.body.innerText.includes('Waiting for you')")
    return CLOCK() - began


def bench_timeline(gateway, options):
    """The console's timeline with 10,000 events: scrolled to the end until all are there, and then scrolled by 200 pixels a frame, without
    and with 50 new events a second."""
    if not shutil.which("chromium"):
        return {"chromium": "not installed"}
    client = Client(gateway, gateway.token("drawer"))
    events = lambda count: {"events": [event(number) for number in range(count)]}
    for _ in range(52):
        assert client.ask("POST", "/events/append", events(200))[0] == 201
    place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    browser = Browser(place.name)
    try:
        signed_in(gateway, options, browser)
        browser.eval("location.hash = '#/timeline'")
        count = "document.querySelectorAll('[data-entry]').length"
        browser.until(f"{count} >= 100")
        began = CLOCK()
        while browser.eval(count) < 10_000:
            assert CLOCK() - began < 300, browser.eval(count)
            browser.eval("scrollTo(0, document.body.scrollHeight)")
            time.sleep(0.02)
        result = {"until 10,000 rows are there, s": CLOCK() - began, "height, px": browser.eval("document.body.scrollHeight")}
        frames = """new Promise((done) => { let [last, step, times] = [0, 200, []]; scrollTo(0, 0); const next = (now) => {
            if (last) times.push(now - last); last = now; scrollBy(0, step);
            times.length < 600 ? requestAnimationFrame(next) : done(times); }; requestAnimationFrame(next); })"""
        for name, rate in [("alone", 0), ("with 50 events a second", 50)]:
            is_over = threading.Event()
            def append():
                while not is_over.wait(1 / rate):
                    client.ask("POST", "/events/append", events(1))
            writer = threading.Thread(target=append) if rate else None
            writer and writer.start()
            times = browser.eval(frames)
            is_over.set()
            writer and writer.join()
            result[name] = {**spread([each / 1000 for each in times]), "frames a second": 1000 * len(times) / sum(times),
                            "frames over 20 ms, of 600": sum(each > 20 for each in times)}
        return result
    finally:
        browser.process.kill()
        browser.process.wait()


def bench_page(gateway, options):
    """A command on a canvas until Chromium has drawn its atom; and the console's first load."""
    if not shutil.which("chromium"):
        return {"chromium": "not installed"}
    client = Client(gateway, gateway.token("drawer"))
    note = lambda number: {"op": "create", "atom": {"id": f"n{number}", "type": "note", "order": f"{number:06}", "props": {"text": f"n{number}", "x": number, "y": 1}}}
    command = lambda rev, op: client.ask("POST", "/canvas/page/commands", {"base_rev": rev, "ops": [op], "idempotency_key": f"page-{rev}"})
    command(0, note(0))
    place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    browser = Browser(place.name)
    try:
        loaded = signed_in(gateway, options, browser)
        browser.eval("location.hash = '#/canvas/page'")
        browser.until("document.querySelectorAll('.atom').length === 1")
        # The page notes by its own clock, which has the same origin as the wall clock here.
        browser.eval("""globalThis.drawn = {}; new MutationObserver(() => requestAnimationFrame(() => {
            for (const it of document.querySelectorAll('.atom')) globalThis.drawn[it.textContent.trim()] ??= performance.timeOrigin + performance.now();
        })).observe(document.body, {childList: true, subtree: true, characterData: true});
        globalThis.taken = {}; new BroadcastChannel('reedclaw-events').onmessage = ({data}) => {
            if (data.event === 'op_committed') globalThis.taken[data.data.body.rev] = performance.timeOrigin + performance.now(); };""")
        times, taken = [], []
        for rev in range(1, 1 + int(options.seconds * 20)):
            began = time.time()
            status, text = command(rev, note(rev))
            assert status == 200, text
            found = f"Object.entries(globalThis.drawn).find(([text]) => text.includes('n{rev}'))?.[1]"
            browser.until(found)
            times.append(browser.eval(found) / 1000 - began)
            taken.append(browser.eval(f"globalThis.taken[{rev + 1}]") / 1000 - began)
            time.sleep(0.02)
        return {"command to the stream's frame in the page": spread(taken), "command to a drawn frame": spread(times), "first load until the page shows its first screen, ms": 1000 * loaded}
    finally:
        browser.process.kill()
        browser.process.wait()


BENCHES = {"canvas": bench_canvas, "flow": bench_flow, "delta": bench_delta, "share": bench_share, "page": bench_page, "timeline": bench_timeline}

if __name__ == "__main__":
    main(BENCHES, __doc__)
