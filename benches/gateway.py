#!/usr/bin/env python3
"""The team gateway on one machine with SQLite, beside what the machine does without it: appends beside the same transactions by
sqlite3 alone, actions, canvas commands, reads, streams, a tenant beside a noisy one, and the first minute. `postgres` starts a
server of its own: appends beside the same transactions by pgbench. `nodes` starts one, too: runs of the agent with a model that lets
them wait, at one gateway and at two. Needs Python 3.9; wrk is used if it is installed.

    benches/gateway.py [--program target/release/reedclaw] [--seconds 5] [--streams 900] [--events 1000000] [--name NAME] [--only append,canvas,…]
"""
import argparse
import asyncio
import contextlib
import http.client
import json
import os
import platform
import shutil
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCK = time.perf_counter


# Limits that don't hold up a measurement.
WIDE = "{connections = 16384, tenant_requests = 100000, user_requests = 100000, tenant_streams = 16384, user_streams = 16384}"


class Gateway:
    """A gateway in a home of its own."""

    def __init__(self, program, limits=WIDE, database=None, more="", own=""):
        self.program, self.place = program, tempfile.TemporaryDirectory()
        config = Path(self.place.name, ".config/reedclaw")
        config.mkdir(parents=True)
        Path(self.place.name, "ws").mkdir()
        Path(config, "config.lua").write_text(
            f'return {{workspace_dir = "{self.place.name}/ws", gateway = {{limits = {limits}, {own}}}, {more}}}\n')
        self.environment = {"HOME": self.place.name, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        if database:
            self.environment["REEDCLAW_GATEWAY_DATABASE"] = database

    def run(self, *words):
        done = subprocess.run([self.program, "gateway", *words], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def token(self, user, role="member"):
        return self.run("token", "create", "--user", user, "--role", role)

    def start(self):
        """Starts it; returns the seconds to the first answer of /health."""
        began = CLOCK()
        self.process = subprocess.Popen([self.program, "gateway", "--listen", "127.0.0.1:0", "--json"], env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.host = json.loads(self.process.stdout.readline())["url"].removeprefix("http://")
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        return CLOCK() - began

    def cpu_s(self):
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kib(self):
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class Client:
    """A connection that stays open. A request is one write and an answer is little more than a read, so that the times are the gateway's."""

    def __init__(self, gateway, token):
        self.address, self.token = gateway.host.rsplit(":", 1), token
        self.head = f"Host: {gateway.host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
        self.connect()

    def connect(self):
        self.socket = socket.create_connection((self.address[0], int(self.address[1])), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, method, path, body=None):
        """The bytes of a request."""
        body = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return f"{method} {path} HTTP/1.1\r\n{self.head}{len(body)}\r\n\r\n".encode() + body

    def exchange(self, request):
        """Status and body of the answer to a request; a connection that was idle for too long is made anew."""
        while True:
            self.socket.sendall(request)
            answer = self.socket.recv(65536)
            if answer:
                break
            self.socket.close()
            self.connect()
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(65536)
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        while len(body) < length:
            body += self.socket.recv(1 << 20)
        return int(head[9:12]), body

    def ask(self, method, path, body=None):
        """Returns status and body; waits if the limit of requests is reached, and doesn't count that."""
        request = self.request(method, path, body)
        while True:
            status, text = self.exchange(request)
            if status != 429:
                return status, text
            time.sleep(0.05)


def spread(times):
    times = sorted(times)
    return {"p50_ms": 1000 * statistics.median(times), "p99_ms": 1000 * times[int(len(times) * 0.99)], "count": len(times)}


def timed(act, seconds, most=10_000, each_second=50):
    """Times of an act that is repeated so often in a second."""
    times, until = [], CLOCK() + seconds
    while CLOCK() < until and len(times) < most:
        began = CLOCK()
        act(len(times))
        times.append(CLOCK() - began)
        if (left := 1 / each_second - (CLOCK() - began)) > 0:
            time.sleep(left)
    return times


def event(number):
    return {"event_type": "x.step", "source": "agent", "run_id": "run-1", "body": {"number": number, "text": "x" * 100}}


COLUMNS = ("tenant, position, event_id, stream, stream_version, event_type, source, project, actor, recorded_at, body, previous_hash, hash, "
           "run_id, step_id, trace_id, request_id, surface_id, app_id, causation_id, correlation_id, occurred_at")


class Alone:
    """A database with the gateway's own tables, into which the rows that the gateway wrote are written again."""

    def __init__(self, gateway):
        state = Path(gateway.place.name, ".local/state/reedclaw/gateway.db")
        self.source = sqlite3.connect(state)
        self.database = sqlite3.connect(Path(gateway.place.name, "alone.db"), isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        sql = "SELECT sql FROM sqlite_master WHERE tbl_name IN ('event', 'stream', 'head') AND type <> 'trigger' AND sql IS NOT NULL ORDER BY type DESC"
        [self.database.execute(text) for (text,) in self.source.execute(sql)]
        self.last = 0

    def rows(self, count):
        found = self.source.execute(f"SELECT {COLUMNS} FROM event WHERE tenant = 'local' AND position > ? ORDER BY position LIMIT ?",
                                    [self.last, count]).fetchall()
        self.last = found[-1][1] if found else self.last
        return found

    def commit(self, rows):
        self.database.execute("BEGIN IMMEDIATE")
        self.database.executemany(f"INSERT INTO event ({COLUMNS}) VALUES ({', '.join('?' * 22)})", rows)
        last = rows[-1]
        self.database.execute("INSERT INTO stream VALUES (?1, ?2, ?3) ON CONFLICT (tenant, stream) DO UPDATE SET version = ?3",
                              [last[0], last[3], last[4]])
        self.database.execute("INSERT INTO head VALUES (?1, ?2, ?3) ON CONFLICT (tenant) DO UPDATE SET position = ?2, hash = ?3",
                              [last[0], last[1], last[12]])
        self.database.execute("COMMIT")


LOAD = """wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer {token}"
wrk.headers["X-Tenant-Id"] = "{tenant}"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[{body}]==]
"""


def load(gateways, token, path, body, clients, seconds, tenant="local"):
    """Requests of that many clients for some seconds, at all gateways at once; the requests that were answered, and the seconds."""
    script = Path(gateways[0].place.name, "load.lua")
    script.write_text(LOAD.format(token=token, tenant=tenant, body=json.dumps(body)))
    each = clients // len(gateways)
    commands = [["wrk", "-t1", f"-c{each}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script), f"http://{gateway.host}{path}"]
                for gateway in gateways]
    began = CLOCK()
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    told = [process.communicate()[0] for process in running]
    took = CLOCK() - began
    assert not any("Non-2xx" in text or "Socket errors" in text for text in told), told
    return sum(int(line.split()[0]) for text in told for line in text.splitlines() if "requests in" in line), took


def bench_one(client, options):
    """Times of an append of one event by one client: fifty a second, and one after the other; beside them those of the least request."""
    append, health = client.request("POST", "/events/append", event(1)), client.request("GET", "/health")
    each = lambda request, rate: spread(timed(lambda _: client.exchange(request), options.seconds, 1_000_000, rate))
    result = {"one event, 50 a second": each(append, 50), "/health, 50 a second": each(health, 50),
              "one event after the other": each(append, 1e9), "/health, one after the other": each(health, 1e9)}
    assert client.exchange(append)[0] == 201
    return result


def bench_append(gateway, options):
    """Appends, and in turn the same rows by the database alone: in transactions of as many, by its own fastest way."""
    token, result = gateway.token("appender"), {}
    client = Client(gateway, token)
    result.update(bench_one(client, options))
    if not shutil.which("wrk"):
        return {**result, "wrk": "not installed"}
    alone = Alone(gateway)
    while rows := alone.rows(1):
        alone.commit(rows)
    for clients, size in [(1, 1), (2, 1), (4, 1), (16, 1), (4, 200)]:
        total = {"events": 0, "wall": 0.0, "cpu": 0.0, "alone events": 0, "alone wall": 0.0, "alone cpu": 0.0}
        for _ in range(max(2, int(options.seconds))):
            cpu = gateway.cpu_s()
            body = {"events": [event(number) for number in range(size)]}
            requests, took = load([gateway], token, "/events/append", body, clients, 1)
            total["events"] += requests * size
            total["wall"] += took
            total["cpu"] += gateway.cpu_s() - cpu
            while rows := alone.rows(size):
                began, cpu = CLOCK(), time.process_time()
                alone.commit(rows)
                total["alone wall"] += CLOCK() - began
                total["alone cpu"] += time.process_time() - cpu
                total["alone events"] += len(rows)
        gateway_s, alone_s = total["events"] / total["wall"], total["alone events"] / total["alone wall"]
        result[f"{clients} clients, {size} a request"] = {
            "events a second": gateway_s, "by the database alone": alone_s, "ratio": gateway_s / alone_s,
            "cpu, us an event": 1e6 * total["cpu"] / total["events"],
            "cpu of the database alone": 1e6 * total["alone cpu"] / total["alone events"]}
    return result


def bench_pair(gateway, options):
    """Appends of one client, actions and the least requests, at this program and at another one (`--other`) by turns: what else the
    machine does is in both, and least in the shortest times. The other one may have more settings (`--own`)."""
    if not options.other:
        return {"--other": "not named"}
    other = Gateway(options.other, own=options.own)
    other.start()
    both = []
    action = {"action_name": "time", "subject_type": "run", "subject_id": "run-1", "args": {}}
    for name, one in [("program", gateway), ("other", other)]:
        client = Client(one, one.token("appender"))
        asked = {"append": ("POST", "/events/append", event(1)), "action": ("POST", "/actions/execute", action), "/health": ("GET", "/health")}
        both.append((name, client, [(client.request(*request), []) for request in asked.values()]))
    until, turn = CLOCK() + options.seconds, 0
    while CLOCK() < until:
        for _, client, requests in both if turn % 2 else reversed(both):
            for request, times in requests:
                [client.exchange(request) for _ in range(3)]
                times.extend(timed(lambda _: client.exchange(request), 60, 20, 1e9))
        turn += 1
    other.end()
    shortest = lambda times: {f"p{part}, us": round(1e6 * sorted(times)[len(times) * part // 100]) for part in (5, 10, 25, 50)}
    return {name: {**{kind: shortest(times) for kind, (_, times) in zip(asked, requests)}, "count": len(requests[0][1])}
            for name, _, requests in both}


def bench_action(gateway, options):
    client = Client(gateway, gateway.token("actor"))
    body = {"action_name": "time", "subject_type": "run", "subject_id": "run-1", "args": {}}
    return {"time, with gates": spread(timed(lambda _: client.ask("POST", "/actions/execute", body), options.seconds))}


def bench_read(gateway, options):
    client = Client(gateway, gateway.token("reader", "viewer"))
    paths = ["/status", "/events/list?limit=100", "/runs", "/questions?state=all", "/memory?scope=project&prefix="]
    return {"GET": spread(timed(lambda number: client.ask("GET", paths[number % len(paths)]), options.seconds))}


def bench_canvas(gateway, options):
    client = Client(gateway, gateway.token("painter"))
    atom = lambda number: {"op": "create", "atom": {"id": f"a{number}", "type": "note", "order": f"{number:06}",
                                                    "props": {"text": "a note", "x": number, "y": 1}}}
    for rev in range(25):
        ops = [atom(rev * 200 + number) for number in range(200)]
        command = {"base_rev": rev, "ops": ops, "idempotency_key": f"make-{rev}"}
        status, text = client.ask("POST", "/canvas/board/commands", command)
        assert status == 200, text
    rev = 25

    def change(number):
        nonlocal rev
        ops = [{"op": "set", "id": f"a{number}", "path": "/x", "value": number}]
        status, text = client.ask("POST", "/canvas/board/commands", {"base_rev": rev, "ops": ops, "idempotency_key": f"set-{number}"})
        assert status == 200, text
        rev += 1

    result = {"a command on 5,000 atoms, 200 a second": spread(timed(change, options.seconds, each_second=200))}
    began = CLOCK()
    client.ask("GET", "/canvas/board/snapshot")
    result["snapshot of 5,000 atoms, ms"] = 1000 * (CLOCK() - began)
    return result


def bench_streams(gateway, options):
    """Streams of one log: the time from an append to each client's frame, and the gateway's memory."""
    before = gateway.memory_kib()
    sockets = []
    host, port = gateway.host.split(":")
    for number in range(options.streams):
        if number % 16 == 0:
            token = gateway.token(f"viewer-{number // 16}", "viewer")
        connection = socket.create_connection((host, int(port)))
        connection.sendall(f"GET /sse/timeline/board HTTP/1.1\r\nHost: {gateway.host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        sockets.append(connection)
    for connection in sockets:
        seen = b""
        while b"caught_up" not in seen:
            seen += connection.recv(4096)
    memory = gateway.memory_kib()
    client, delays = Client(gateway, gateway.token("speaker")), []
    import selectors
    for number in range(20):
        selector = selectors.DefaultSelector()
        [selector.register(connection, selectors.EVENT_READ) for connection in sockets]
        began = CLOCK()
        client.ask("POST", "/events/append", {**event(number), "stream": "board"})
        left = set(sockets)
        while left:
            for key, _ in selector.select(30):
                if b"x.step" in key.fileobj.recv(65536) and key.fileobj in left:
                    delays.append(CLOCK() - began)
                    left.discard(key.fileobj)
        selector.close()
    [connection.close() for connection in sockets]
    return {"streams": options.streams, "memory before, KiB": before, "memory with streams, KiB": memory,
            "append to frame": spread(delays)}


def bench_fair(gateway, options):
    """A tenant with twenty requests a second, alone and beside one that sends ten times its limit and more; with the usual limits."""
    if not shutil.which("wrk"):
        return {"wrk": "not installed"}
    gateway = Gateway(options.program, "{}")
    gateway.start()
    gateway.run("tenant", "add", "noisy")
    script = Path(gateway.place.name, "load.lua")
    noisy = gateway.run("token", "create", "--user", "noisy", "--role", "member", "--tenant", "noisy")
    script.write_text(LOAD.format(token=noisy, tenant="noisy", body=json.dumps(event(1))))
    client = Client(gateway, gateway.token("quiet"))
    quiet = lambda: spread(timed(lambda number: client.ask("POST", "/events/append", event(number)), options.seconds, each_second=20))
    result = {"alone": quiet()}
    command = ["wrk", "-t1", "-c32", f"-d{int(options.seconds) + 2}s", "-s", str(script), f"http://{gateway.host}/events/append"]
    noise = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    result["beside it"] = quiet()
    told = [line.strip() for line in noise.communicate()[0].splitlines()]
    result["the other's requests"] = [line for line in told if "Requests/sec" in line or "Non-2xx" in line]
    gateway.end()
    return result


def bench_verify(gateway, options):
    """Checks a log of so many events; those that it lacks are appended before, 200 with each request."""
    client = Client(gateway, gateway.token("verifier"))
    lacks = lambda: options.events - json.loads(client.ask("GET", "/status")[1])["positions"]
    while (missing := lacks()) > 0:
        for _ in range(-(-missing // 200)):
            status, text = client.ask("POST", "/events/append", {"events": [event(number) for number in range(200)]})
            assert status == 201, text
    began = CLOCK()
    told = gateway.run("verify")
    return {"verify": told.splitlines()[0], "seconds": CLOCK() - began}


def bench_http(gateway, options):
    if not shutil.which("wrk"):
        return {"wrk": "not installed"}
    result = {}
    for path in ["/health", "/ui/js/main.js", "/ui/vendor/xterm.js"]:
        done = subprocess.run(["wrk", "-t2", "-c64", f"-d{max(1, int(options.seconds))}s", f"http://{gateway.host}{path}"],
                              capture_output=True, text=True, check=True).stdout
        result[path] = [line.strip() for line in done.splitlines() if "sec:" in line]
    return result


# The transaction of an append of some events, as a server does it with the same tables: one tenant has one head.
TRANSACTION = """WITH head AS (UPDATE head SET position = position + {size}, hash = repeat('0', 64) WHERE tenant = 'alone' RETURNING position),
stream AS (UPDATE stream SET version = version + {size} WHERE tenant = 'alone' AND stream = 'run/run-1' RETURNING version)
INSERT INTO event (tenant, position, event_id, stream, stream_version, event_type, source, project, run_id, trace_id, request_id, actor,
recorded_at, body, previous_hash, hash)
SELECT 'alone', head.position - n, gen_random_uuid()::text, 'run/run-1', stream.version - n, 'x.step', 'agent', 'default', 'run-1', gen_random_uuid()::text,
gen_random_uuid()::text, 'alone', '2026-01-01T00:00:00.000Z', '{body}', repeat('0', 64), repeat('0', 64) FROM head, stream, generate_series(0, {most}) n;
"""


@contextlib.contextmanager
def postgres():
    """A server of its own: its address, and a directory that lasts as long."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o711)
        manage = lambda *words: subprocess.run([ROOT / "tests/postgres/server.sh", *words], check=True, text=True, stdout=subprocess.PIPE,
                                               stderr=subprocess.DEVNULL).stdout.strip()
        address = manage("start", f"{place}/server", "synced")
        try:
            yield address, place
        finally:
            manage("stop", f"{place}/server")


def bench_postgres(gateway, options):
    """Appends to PostgreSQL beside pgbench with the same transactions."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
    if not programs or not shutil.which("wrk"):
        return {"pgbench, wrk": "not installed"}
    with postgres() as (address, place):
        return beside_pgbench(options, address, place, programs[-1])


def beside_pgbench(options, address, place, pgbench):
    query = lambda text: subprocess.run([pgbench.with_name("psql"), "-qtA", address, "-c", text], check=True, text=True,
                                        stdout=subprocess.PIPE).stdout.strip()
    one = Gateway(options.program, database=address)
    try:
        result = {"start to /health, ms": 1000 * one.start()}
        token = one.token("appender")
        client = Client(one, token)
        result.update(bench_one(client, options))
        query("INSERT INTO head VALUES ('alone', 0, ''); INSERT INTO stream VALUES ('alone', 'run/run-1', 0)")
        for clients, size in [(1, 1), (2, 1), (4, 1), (16, 1), (4, 200)]:
            script = Path(place, f"append-{size}.sql")
            script.write_text(TRANSACTION.format(size=size, most=size - 1, body=json.dumps(event(1)["body"])))
            ours, alone = [], []
            for _ in range(max(2, int(options.seconds))):
                requests, took = load([one], token, "/events/append", {"events": [event(n) for n in range(size)]}, clients, 1)
                ours.append(requests * size / took)
                before = int(query("SELECT position FROM head WHERE tenant = 'alone'"))
                subprocess.run([pgbench, "-n", "-M", "prepared", f"-c{clients}", "-j1", "-T1", "-f", str(script), address], check=True,
                               capture_output=True)
                alone.append(int(query("SELECT position FROM head WHERE tenant = 'alone'")) - before)
            ours, alone = statistics.median(ours), statistics.median(alone)
            result[f"{clients} clients, {size} a request"] = {"events a second": ours, "by pgbench": alone, "ratio": ours / alone}
        return result
    finally:
        one.end()


class SlowModel:
    """A server of a model whose answers take so long, whoever else asks."""

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, 0
        self.loop = asyncio.new_event_loop()
        self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.address = "http://127.0.0.1:%d/v1" % self.server.sockets[0].getsockname()[1]
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(length[0]) if length else 0)
                if head.startswith(b"GET"):
                    # A look at what the server can do.
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                self.asked += 1
                await asyncio.sleep(self.seconds)
                parts = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Yes."}, "finish_reason": None}]},
                         {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}]
                body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def bench_nodes(gateway, options):
    """Runs of the agent whose model lets them wait, at one gateway with its usual limit of runs at once, and at two of one database."""
    if not shutil.which("wrk"):
        return {"wrk": "not installed"}
    result = {}
    with postgres() as (address, _):
        for seconds in [0.2, 1.0]:
            model = SlowModel(seconds)
            more = f'models = {{slow = {{endpoint = "{model.address}"}}}}, memory = {{auto = false}}, context = {{project = false}}'
            both = [Gateway(options.program, database=address, more=more) for _ in range(2)]
            [each.start() for each in both]
            token = both[0].token("asker")
            rates = {"one gateway": [], "two gateways": []}
            cpu, began = sum(each.cpu_s() for each in both), CLOCK()
            # By turns, so that both have their share of what else the machine does.
            for _ in range(3):
                for name, gateways in [("one gateway", both[:1]), ("two gateways", both)]:
                    answered, took = load(gateways, token, "/chat", {"message": "Ready?"}, 12 * len(gateways), int(options.seconds + 5 * seconds))
                    rates[name].append(answered / took)
            one, two = (statistics.median(rates[name]) for name in rates)
            result[f"a model of {seconds} s"] = {
                "runs a second": rates, "ratio of the medians": two / one, "asked": model.asked,
                "processors that the gateways use": (sum(each.cpu_s() for each in both) - cpu) / (CLOCK() - began)}
            [each.end() for each in both]
    return result


MANY = """local callers, at = {{}}, 0
for line in io.lines("{file}") do
  local tenant, token = line:match("(%S+) (%S+)")
  callers[#callers + 1] = {{["X-Tenant-Id"] = tenant, ["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json"}}
end
local body = [==[{body}]==]
request = function()
  at = at % #callers + 1
  return wrk.format("POST", "/events/append", callers[at], body)
end
"""


def bench_tenants(gateway, options):
    """Appends of 16 clients to the log of one tenant, and by turns to those of a thousand."""
    if not shutil.which("wrk"):
        return {"wrk": "not installed"}
    names = [f"tenant-{number}" for number in range(1000)]
    [gateway.run("tenant", "add", name, "--mode", "lab") for name in names]
    [gateway.run("member", "add", name, "writer") for name in names]
    callers = [f'{name} {gateway.run("token", "create", "--user", "writer", "--tenant", name)}' for name in names]
    counts = {"one": 0, "a thousand": 0}
    took = dict.fromkeys(counts, 0.0)
    for _ in range(max(2, int(options.seconds))):
        for name, chosen in [("one", callers[:1]), ("a thousand", callers)]:
            file, script = (Path(gateway.place.name, it) for it in ("callers", "many.lua"))
            file.write_text("\n".join(chosen))
            script.write_text(MANY.format(file=file, body=json.dumps(event(1))))
            began = CLOCK()
            said = subprocess.run(["wrk", "-t1", "-c16", "-d1s", "--timeout", "30s", "-s", str(script), f"http://{gateway.host}"],
                                  capture_output=True, text=True, check=True).stdout
            took[name] += CLOCK() - began
            assert "Non-2xx" not in said and "Socket errors" not in said, said
            counts[name] += sum(int(line.split()[0]) for line in said.splitlines() if "requests in" in line)
    return {f"{name}, events a second": counts[name] / took[name] for name in counts}


def delivered(writer, reader, token, seconds):
    """Times from the request of an append until a stream, at the same gateway or another one, has its frame."""
    client = Client(writer, token)
    host, port = reader.host.rsplit(":", 1)
    stream = socket.create_connection((host, int(port)), timeout=60)
    stream.sendall(f"GET /sse/tenant?topics=timeline HTTP/1.1\r\nHost: {reader.host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    taken = b""
    while b"caught_up" not in taken:
        taken += stream.recv(1 << 16)

    def act(number):
        assert client.ask("POST", "/events/append", {**event(number), "event_id": f"{reader.host}-{number}"})[0] == 201
        taken = b""
        while f"{reader.host}-{number}".encode() not in taken:
            taken += stream.recv(1 << 16)

    return spread(timed(act, seconds, each_second=20))


def bench_across(gateway, options):
    """An append until a stream at the same gateway and at another one of the same PostgreSQL has its frame."""
    with postgres() as (address, _):
        both = [Gateway(options.program, database=address) for _ in range(2)]
        [each.start() for each in both]
        token = both[0].token("reader")
        result = {name: delivered(both[0], reader, token, options.seconds) for name, reader in [("the same gateway", both[0]), ("another one", both[1])]}
        [each.end() for each in both]
    return result


BENCHES = {"append": bench_append, "across": bench_across, "tenants": bench_tenants, "action": bench_action, "read": bench_read, "canvas": bench_canvas, "streams": bench_streams, "pair": bench_pair,
           "http": bench_http, "fair": bench_fair, "verify": bench_verify, "postgres": bench_postgres, "nodes": bench_nodes}


def main(benches, about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/reedclaw"))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the log that verify checks")
    parser.add_argument("--other", help="another program, for pair")
    parser.add_argument("--own", default="", help="more settings of the gateway of that program, such as 'traces = true'")
    parser.add_argument("--only", default=",".join(benches))
    parser.add_argument("--name")
    options = parser.parse_args()
    options.program = str(Path(options.program).resolve())
    unknown = [name for name in options.only.split(",") if name not in benches]
    if unknown:
        parser.error(f"--only knows {', '.join(benches)}, and not {', '.join(unknown)}")
    gateway = Gateway(options.program)
    starts = []
    for _ in range(5):
        starts.append(gateway.start())
        gateway.end()
    gateway.start()
    result = {"machine": {"processors": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()},
              "program": Path(options.program).name, "start to /health, ms": 1000 * statistics.median(starts),
              "memory idle, KiB": gateway.memory_kib()}
    for name in options.only.split(","):
        result[name] = benches[name](gateway, options)
        print(name, json.dumps(result[name], indent=1), flush=True)
    gateway.end()
    print(json.dumps({key: result[key] for key in ["machine", "start to /health, ms", "memory idle, KiB"]}, indent=1))
    if options.name:
        path = ROOT / "benches/runs" / f"{time.strftime('%Y%m%d-%H%M')}-{options.name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(BENCHES, __doc__)
