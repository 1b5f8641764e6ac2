#!/usr/bin/env python3
"""What one question costs: `reedclaw agent -m`, beside curl and any other client, against a model server of our own.

  benches/agent.py [--program target/release/reedclaw] [--runs 20] [--tokens 5000] [--name NAME]
                   [--extra NAME='cmd {url} {prompt}'] [--peer-path DIR]…

The server answers with TOKENS tokens at once, each its own event, or one by one with a delay. Measured: processor time
and peak memory of an instant answer into a pipe and drawn on a pseudo-terminal (an answer in Markdown), the time from
spawn to the request's arrival, and from the server's first token to the first one seen on standard output. Programs take
turns. aichat and llm are measured where they are on the PATH or in a --peer-path; their configs are made here.
 Writes benches/runs/DATE-agent[-NAME].json and .txt. Needs Python 3.9, and curl for the comparison.
"""
import argparse, datetime, fcntl, json, os, platform, pty, re, select, shlex, shutil, socket, statistics, struct
import subprocess, sys, tempfile, termios, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST = re.compile(rb"\bw0\b")


def tokens(count, drawn):
    if not drawn:
        return ["w%d%s" % (i % 1000, "\n" if i % 16 == 15 else " ") for i in range(count)]
    out = []
    for i in range(count):
        head = {0: "## ", 64: "\n- **", 65: "", 128: "```sh\n", 192: "```\n\n> "}.get(i % 256, "")
        tail = "** " if i % 256 == 64 else "\n" if i % 16 == 15 else " "
        out.append("%sw%d%s" % (head, i % 1000, tail))
    return out


def event(text, reason=None):
    delta = {"content": text} if text else {}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


class Server:
    """Answers each request as the words in its question say; keeps when it came and when the first token went out."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.seen, self.bodies = [], {}
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.socket.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith(b"POST "):
            connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return connection.close()
        length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
        while len(body) < length:
            body += connection.recv(65536)
        asked = {"arrived": time.time()}
        self.seen.append(asked)
        words = re.search(rb"tokens=(\d+) delay=(\d+) drawn=(\d)", body)
        count, delay, drawn = (int(word) for word in words.groups())
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        if delay:
            for at, text in enumerate(tokens(count, drawn)):
                if at == 0:
                    asked["first"] = time.time()
                connection.sendall(event(text))
                time.sleep(delay / 1000)
            connection.sendall(event("", "stop") + b"data: [DONE]\n\n")
        else:
            key = (count, drawn)
            if key not in self.bodies:
                events = [event(text) for text in tokens(count, drawn)]
                self.bodies[key] = b"".join(events) + event("", "stop") + b"data: [DONE]\n\n"
            asked["first"] = time.time()
            connection.sendall(self.bodies[key])
        connection.close()


def run(command, env, on_terminal):
    """Gives (start, first token seen, end, processor ms, peak MiB, output)."""
    if on_terminal:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    else:
        ours, theirs = os.pipe()
    start = time.time()
    # A fork through a small program, so that the peak is the client's and not that of this Python.
    child = subprocess.Popen(["/usr/bin/env", "--"] + command, env=env, stdin=subprocess.DEVNULL, stdout=theirs,
                             stderr=subprocess.PIPE, close_fds=True)
    os.close(theirs)
    output, first, peak = b"", None, 0
    while True:
        if not select.select([ours], [], [], 60)[0]:
            child.kill()
            raise SystemExit("%s hangs" % command)
        try:
            more = os.read(ours, 1 << 16)
        except OSError:
            more = b""
        if not more:
            break
        output += more
        if first is None and FIRST.search(output):
            first = time.time()
        try:
            with open("/proc/%d/status" % child.pid) as status:
                found = re.search(r"VmHWM:\s+(\d+)", status.read())
                peak = max(peak, int(found[1]) if found else 0)
        except OSError:
            pass
    os.close(ours)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit("%s ended with %d: %s" % (command, child.returncode, errors[-300:]))
    return start, first, time.time(), (usage.ru_utime + usage.ru_stime) * 1e3, peak / 1024, output


def peers(folders, url, home):
    """The other clients that are here, each with a config that names our server: name to command, and their environment."""
    path = os.pathsep.join(folders + [os.environ["PATH"]])
    found, env = {}, {"PATH": path, "AICHAT_CONFIG_DIR": home + "/aichat", "LLM_USER_PATH": home + "/llm"}
    if shutil.which("aichat", path=path):
        os.makedirs(home + "/aichat")
        with open(home + "/aichat/config.yaml", "w") as config:
            config.write("model: mock:mock\nclients:\n- type: openai-compatible\n  name: mock\n  api_base: %s/v1\n"
                         "  api_key: none\n  models:\n  - name: mock\n" % url)
        found["aichat"] = "aichat {prompt}"
    if shutil.which("llm", path=path):
        os.makedirs(home + "/llm")
        with open(home + "/llm/extra-openai-models.yaml", "w") as config:
            config.write("- model_id: mock\n  model_name: mock\n  api_base: %s/v1\n" % url)
        found["llm"] = "llm -m mock --key none {prompt}"
    return found, env


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.path.join(HERE, "../target/release/reedclaw"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=5000)
    parser.add_argument("--extra", action="append", default=[])
    parser.add_argument("--peer-path", action="append", default=[])
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    server, home = Server(), tempfile.mkdtemp()
    os.makedirs(home + "/.config/reedclaw")
    with open(home + "/.config/reedclaw/config.lua", "w") as config:
        config.write('return {models = {mock = {endpoint = "%s"}}}\n' % server.url)
    env = {"PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    curl = "curl -sN %s/v1/chat/completions -H content-type:application/json -d {json}" % server.url
    clients = {"reedclaw": shlex.quote(os.path.abspath(options.program)) + " agent -m {prompt}"}
    if shutil.which("curl"):
        clients["curl"] = curl
    others, more = peers(options.peer_path, server.url, home)
    clients.update(others)
    env.update(more)
    clients.update(extra.partition("=")[::2] for extra in options.extra)

    def command(client, count, delay, drawn):
        prompt = "say tokens=%d delay=%d drawn=%d" % (count, delay, drawn)
        body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]})
        return [word.replace("{prompt}", prompt).replace("{json}", body).replace("{url}", server.url) for word in shlex.split(clients[client])]

    cases = {"pipe": (options.tokens, 0, 0, False), "terminal": (options.tokens, 0, 1, True), "slow": (40, 10, 0, False)}
    figures = {client: {} for client in clients}
    for round_ in range(options.runs + 1):
        for client in clients:
            for case, (count, delay, drawn, on_terminal) in cases.items():
                server.seen.clear()
                start, first, end, cpu, peak, output = run(command(client, count, delay, drawn), env, on_terminal)
                if b"w%d" % ((count - 1) % 1000) not in output:
                    raise SystemExit("%s %s: the last token is missing" % (client, case))
                if round_ == 0:
                    continue
                found = {"cpu_ms": cpu, "wall_ms": (end - start) * 1e3, "peak_MiB": peak}
                if case == "slow":
                    asked = server.seen[0]
                    found = {"spawn_to_request_ms": (asked["arrived"] - start) * 1e3,
                             "first_token_to_shown_ms": (first - asked["first"]) * 1e3}
                for name, value in found.items():
                    figures[client].setdefault("%s %s" % (case, name), []).append(round(value, 3))
    shutil.rmtree(home)
    report(options, figures)


def report(options, figures):
    when = datetime.datetime.now()
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    machine = {"date": when.isoformat(timespec="minutes"), "kernel": platform.release(), "cpus": os.cpu_count(),
               "cpu": model[1] if model else "?", "load1": os.getloadavg()[0], "runs": options.runs,
               "tokens": options.tokens, "command": " ".join(["benches/agent.py"] + sys.argv[1:])}
    lines = ["%s: %s" % item for item in machine.items()] + [""]
    names = list(figures)
    lines.append("%-32s" % "median (least … most)" + "".join("%28s" % name for name in names))
    for measure in figures[names[0]]:
        row = "%-32s" % measure
        for name in names:
            values = figures[name][measure]
            row += "%28s" % ("%.1f (%.1f … %.1f)" % (statistics.median(values), min(values), max(values)))
        lines.append(row)
    text = "\n".join(lines) + "\n"
    print(text)
    base = os.path.join(HERE, "runs", when.strftime("%Y%m%d-%H%M-agent") + ("-" + options.name if options.name else ""))
    with open(base + ".json", "w") as file:
        json.dump({"machine": machine, "figures": figures}, file, indent=1)
        file.write("\n")
    with open(base + ".txt", "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
