#!/usr/bin/env python3
"""Runs the agent suite: `reedclaw agent -m` head-less, against a scripted model or a real one.

  run.py perfect [--program P]              17 tasks by a scripted model that makes no mistake: what a harness allows
  run.py odd [--program P]                  32 odd answers of small models and odd servers: is the question answered?
  run.py auto [--program P]                 runs towards a goal (`agent -m … --auto --check …`), by three scripted models: one makes
                                            no mistake, one only says that it is done, one stops half-way
  run.py auto-model --url URL [--agent …]   the same by a real model: how many goals are verified, and how many falsely; other
                                            agents are told the command that decides; by exit status 0 they claim the goal
  run.py model --url URL [--tasks a,b] [--agent NAME='cmd {url} {work} {prompt}']…
                                            24 tasks by a real model behind an OpenAI-compatible server, beside other agents

With a real model, every request goes through a proxy that sets temperature 0 and seed 1, bounds the new tokens, and turns a
call that was written as text into a real one for every agent (--no-lift leaves that out). Each task gets a fresh folder. Appends to
benches/runs/DATE-agent-suite-MODE.jsonl and writes a .txt with the table. Python 3.9, nothing else.
"""
import argparse, datetime, json, os, pathlib, platform, re, shlex, shutil, signal, subprocess, sys, tempfile, threading, time
import urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).resolve().parent
TASKS = json.loads((HERE / "tasks.json").read_text())
ODD = json.loads((HERE / "odd_answers.json").read_text())
WORD = "MARIGOLD"
# Rows of ReedClaw itself: with a real model, and with the three scripted ones.
OWN = ("reedclaw", "perfect", "claims", "half")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["perfect", "odd", "auto", "auto-model", "model"])
    parser.add_argument("--program", default=str(HERE.parent.parent / "target/release/reedclaw"))
    parser.add_argument("--url", help="the model's server, without /v1")
    parser.add_argument("--agent", action="append", default=[], help="NAME='cmd {url} {work} {prompt}'")
    parser.add_argument("--tasks", default="")
    parser.add_argument("--cap", type=int, default=350, help="most new tokens of a request")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for a task")
    parser.add_argument("--minutes", type=int, default=10, help="most minutes of a run towards a goal")
    parser.add_argument("--peers-only", action="store_true", help="leave ReedClaw out")
    parser.add_argument("--most-minutes", type=float, default=0, help="begin no further task after so many minutes")
    parser.add_argument("--no-lift", action="store_true")
    parser.add_argument("--note", default="", help="words for the record")
    return parser.parse_args()


class Server(BaseHTTPRequestHandler):
    """A server whose answers a function makes; `answer(body)` gives (status, message, finish, options)."""

    protocol_version = "HTTP/1.1"
    answer = None

    def log_message(self, *_):
        pass

    def send(self, code, data, kind="application/json", more=0):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data) + more))
        self.end_headers()
        self.wfile.write(data)
        if more:
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()

    def do_GET(self):
        models = {"object": "list", "data": [{"id": "m", "object": "model"}]}
        self.send(*((200, json.dumps(models).encode()) if "models" in self.path else (404, b"{}")))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if not self.path.endswith("/chat/completions"):
            return self.send(404, b'{"error": {"message": "not here"}}')
        code, message, finish, options = Server.answer(self.path, body)
        if code != 200:
            return self.send(code, json.dumps(message).encode())
        usage = options.get("usage") or {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        has_usage = options.get("usage") is not False
        if not body.get("stream"):
            whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m",
                     "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
            if has_usage:
                whole["usage"] = usage
            return self.send(200, json.dumps(whole).encode())
        deltas = [{"role": "assistant", "content": message.get("content")}]
        for at, call in enumerate(message.get("tool_calls") or []):
            call = {"index": at, **call} if options.get("index", True) else dict(call)
            if call.get("id") is None:
                call.pop("id", None)
            if options.get("pieces"):
                text = call["function"]["arguments"]
                deltas += [{"tool_calls": [{**call, "function": {**call["function"], "arguments": text[i:i + 4]}}]}
                           for i in range(0, len(text), 4)]
            else:
                deltas.append({"tool_calls": [call]})
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        if not options.get("cut"):
            chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            if has_usage:
                chunks.append({**base, "choices": [], "usage": usage})
        data = "".join("data: %s\n\n" % json.dumps(chunk) for chunk in chunks).encode()
        if options.get("cut"):
            return self.send(200, data, "text/event-stream", more=500)
        self.send(200, data + b"data: [DONE]\n\n", "text/event-stream")


class Quiet(ThreadingHTTPServer):
    """A client may end its connections as it likes."""

    def handle_error(self, *_):
        pass


def serve(answer):
    Server.answer = staticmethod(answer)
    server = Quiet(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:%d" % server.server_port


def call(command, number):
    function = {"name": "shell", "arguments": json.dumps({"command": command})}
    return {"role": "assistant", "content": None,
            "tool_calls": [{"id": "call_%d" % number, "type": "function", "function": function}]}


def said(text):
    return {"role": "assistant", "content": text}


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


def make(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def reedclaw(program, home, url, work, prompt, schema):
    shutil.rmtree(home, ignore_errors=True)
    make(home + "/.config/reedclaw", {"config.lua": """return {
  models = { m = { endpoint = "%s", first_byte_timeout_ms = 900000, idle_timeout_ms = 600000, context_tokens = 32768 } },
  security = { autonomy = "full" }, memory = { auto = false } }
""" % url})
    command = [program, "agent", "--path", work, "-m", prompt]
    return command + (["--output-schema", schema] if schema else [])


def run(command, work, home, stdin, seconds):
    """Gives (output, errors, status, wall seconds, processor seconds, peak MiB)."""
    env = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
    os.makedirs(home, exist_ok=True)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as source:
        source.write((stdin or "").encode())
        source.seek(0)
        began = time.time()
        child = subprocess.Popen(command, cwd=work, env=env, stdin=source if stdin else subprocess.DEVNULL, stdout=out,
                                 stderr=err, start_new_session=True)
        late = threading.Timer(seconds, lambda: os.killpg(child.pid, signal.SIGKILL))
        late.start()
        _, status, usage = os.wait4(child.pid, 0)
        late.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.time() - began
        read = lambda file: (file.seek(0), file.read().decode(errors="replace"))[1]
        return read(out), read(err), child.returncode, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def first_json(text):
    for found in re.finditer(r"[\[{]", text):
        try:
            return json.JSONDecoder().raw_decode(text[found.start():])[0]
        except ValueError:
            pass
    return None


def holds(check, work, output):
    """Whether what a task's check wants is so."""
    read = lambda name: pathlib.Path(work, name).read_text() if pathlib.Path(work, name).is_file() else None
    word = lambda it: re.search(r"(?<![\w.])%s(?![\w])" % re.escape(it), output, re.I)
    last = (output.strip().splitlines() or [""])[-1]
    def prints(command):
        done = subprocess.run(command.split(), cwd=work, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
        return " ".join(done.stdout.split())
    kinds = {
        "said": lambda words: all(word(it) for it in words),
        "contains": lambda words: all(it in output for it in words),
        "unsaid": lambda words: not any(it in output for it in words),
        "last_line_lacks": lambda words: not any(it in last for it in words),
        "files": lambda files: all(read(name) == text for name, text in files.items()),
        "trimmed": lambda files: all((read(name) or "").rstrip("\n") == text for name, text in files.items()),
        "holds": lambda files: all(text in (read(name) or "") for name, text in files.items()),
        "lacks": lambda files: all(text not in (read(name) or text) for name, text in files.items()),
        "absent": lambda names: not any(pathlib.Path(work, name).exists() for name in names),
        "executable": lambda names: all(os.access(os.path.join(work, name), os.X_OK) for name in names),
        "json_files": lambda files: all(json.loads(read(name) or "null") == value for name, value in files.items()),
        "json": lambda value: first_json(output) == value,
        "json_sorted": lambda value: {key: sorted(it) for key, it in (first_json(output) or {}).items()} == value,
        "prints": lambda commands: all(prints(command) == text for command, text in commands.items()),
    }
    try:
        return all(kinds[kind](wanted) for kind, wanted in check.items())
    except (OSError, ValueError, AttributeError, TypeError, subprocess.SubprocessError):
        return False


def perfect(options, folder):
    """A scripted model gives one command after the other, then repeats the last result as its answer."""
    current = {}

    def answer(_, body):
        commands = current["commands"]
        if not body.get("tools"):
            results = [it for it in body["messages"] if it["role"] == "tool"]
            return 200, said(text_of(results[-1]["content"]) if results else "ok"), "stop", {}
        at = current["at"] = current.get("at", -1) + 1
        if at < len(commands):
            return 200, call(commands[at], at), "tool_calls", {}
        results = [it for it in body["messages"] if it["role"] == "tool"]
        return 200, said(text_of(results[-1]["content"])), "stop", {}

    url = serve(answer)
    for task in [task for task in TASKS if task.get("commands")]:
        current.clear()
        current.update(commands=task["commands"])
        work, home = folder + "/work", folder + "/home"
        make(work, task.get("files", {}))
        command = reedclaw(options.program, home, url, work, task["prompt"], None)
        output, errors, status, wall, cpu, peak = run(command, work, home, None, options.timeout)
        is_ok = holds(task["check"], work, output) and status == 0
        yield dict(agent="reedclaw", task=task["name"], ok=is_ok, status=status, requests=current.get("at", -1) + 1,
                   wall=round(wall, 2), cpu=round(cpu, 2), rss=peak, out=output[-300:], err=errors[-500:])


def odd(options, folder):
    """The first answer is an odd one; after it the word that only the file holds must come back."""
    current = {}

    def answer(_, body):
        case = current["case"]
        current["asked"] = asked = current.get("asked", 0) + 1
        if WORD in json.dumps(body["messages"]):
            current["seen"] = True
            return 200, said("The code word is %s." % WORD), "stop", {}
        if asked == 1 or asked <= case.get("loop", 0):
            if "http" in case:
                return case["http"], {"error": {"code": case["http"], "message": "Failed to parse input"}}, None, {}
            calls = [{"id": it["id"], "type": "function", "function": {"name": it["name"], "arguments": it["arguments"]}}
                     for it in case["calls"]]
            message = {"role": "assistant", "content": case["content"], **({"tool_calls": calls} if calls else {})}
            return 200, message, case["finish"], case
        if asked > 12 or not body.get("tools"):
            current["withdrawn"] = not body.get("tools")
            return 200, said("I give up."), "stop", {}
        current["retried"] = True
        return 200, call("cat note.txt", asked), "tool_calls", {}

    url = serve(answer)
    for case in ODD:
        current.clear()
        current.update(case=case)
        work, home = folder + "/work", folder + "/home"
        make(work, {"note.txt": "The code word is %s.\n" % WORD})
        command = reedclaw(options.program, home, url, work, "What is the code word in note.txt?", None)
        output, errors, status, wall, cpu, peak = run(command, work, home, None, options.timeout)
        is_ok = bool(current.get("seen")) and WORD in output and status == 0
        # A model that only repeats itself has its tools taken away, and must answer in words: that is how this case ends well.
        is_ok = is_ok or "loop" in case and bool(current.get("withdrawn")) and "I give up." in output and status == 0
        how = ("retry" if current.get("retried") else "run") if is_ok else "lost"
        yield dict(agent="reedclaw", task=case["name"], ok=is_ok, how=how, status=status, requests=current.get("asked", 0),
                   wall=round(wall, 2), cpu=round(cpu, 2), rss=peak, out=output[-300:], err=errors[-500:])


def approved(program, home, work, status, output, errors):
    """Says yes to each call that halts a run, as a person would, and lets the run continue."""
    halts = 0
    while status == 7 and halts < 5:
        halts += 1
        run([program, "norris", "approve", "1"], work, home, None, 60)
        more, said, status, _, _, _ = run([program, "norris", "resume", "1", "--json"], work, home, None, 300)
        output, errors = output + more, errors + said
    return status, output, errors, halts


def autonomous(options, folder, url, name, task, begin):
    """Runs a task as a goal. `is_false` is a run that says verified although the hidden check doesn't hold."""
    work, home = folder + "/work", folder + "/home"
    make(work, task.get("files", {}))
    command = reedclaw(options.program, home, url, work, task["prompt"], None)
    # Hidden is the check of the suite; the run sees a command.
    command += ["--auto", "--json", "--check", task["verify"], "--budget-steps", "12"]
    command += ["--budget-minutes", str(options.minutes)]
    # Such a command names the very files that the task is about.
    command += ["--allow-check-edits"] if task.get("verify_names_work") else []
    begin()
    output, errors, status, wall, cpu, peak = run(command, work, home, None, options.timeout)
    status, output, errors, halts = approved(options.program, home, work, status, output, errors)
    is_done = holds(task["check"], work, output)
    return dict(agent=name, task=task["name"], status=status, halts=halts, is_done=is_done,
                is_false=status == 0 and not is_done, wall=round(wall, 2), cpu=round(cpu, 2), rss=peak, out=output[-300:],
                err=errors[-500:])


def goals():
    """The tasks that a command can decide; the hidden check leaves out what an answer must say, which no run shows."""
    kept = lambda check: {kind: wanted for kind, wanted in check.items() if kind not in ("said", "contains")}
    return [{**task, "check": kept(task["check"])} for task in TASKS if task.get("verify")]


def auto(options, folder):
    """Three scripted models: what must be verified is, and nothing else."""
    current = {}

    def answer(_, body):
        asked = text_of(next(it for it in reversed(body["messages"]) if it["role"] == "user")["content"])
        current["requests"] = current.get("requests", 0) + 1
        if "Plan the work" in asked:
            return 200, said("TASK: " + current["prompt"]), "stop", {}
        results = [it for it in body["messages"] if it["role"] == "tool"]
        commands = current["commands"]
        if body.get("tools") and len(results) < len(commands):
            return 200, call(commands[len(results)], current["requests"]), "tool_calls", {}
        return 200, said("All done, and I have checked it."), "stop", {}

    url = serve(answer)
    models = {"perfect": lambda commands: commands, "claims": lambda _: [],
              "half": lambda commands: commands[:len(commands) // 2]}
    for name, of in models.items():
        for task in goals():
            def begin():
                current.clear()
                current.update(prompt=task["prompt"], commands=of(task["commands"]))
            row = autonomous(options, folder, url, name, task, begin)
            row.update(requests=current.get("requests", 0))
            # A model that does all of it is verified; of the others only what holds may be.
            row["ok"] = row["status"] == 0 and row["is_done"] if name == "perfect" else not row["is_false"]
            yield row


def auto_model(options, folder):
    """A real model works towards the goals, by ReedClaw and by other agents."""
    record = {}
    url = proxy(options, record)
    def begin():
        record.clear()
        record.update(requests=0, out=0)
        record["in"] = 0
    chosen = [task for task in goals() if not options.tasks or task["name"] in options.tasks.split(",")]
    began = time.time()
    for task in chosen:
        # All agents have the same tasks.
        if options.most_minutes and time.time() - began > options.most_minutes * 60:
            return
        for name, template in agents_of(options).items():
            if template is None:
                row = autonomous(options, folder, url, name, task, begin)
            else:
                row = claimed(options, folder, url, name, template, task, begin)
            row.update(ok=row["status"] == 0 and row["is_done"], requests=record["requests"], tokens_in=record["in"],
                       tokens_out=record["out"], first=record.get("first", 0))
            yield row


def claimed(options, folder, url, name, template, task, begin):
    """Another agent works on the same goal. `is_false` is a status of 0 although the hidden check doesn't hold."""
    work, home = folder + "/work", folder + "/home-" + name
    make(work, task.get("files", {}))
    prompt = "%s\n\nIt is done when this command ends with status 0: %s" % (task["prompt"], task["verify"])
    command = command_of(template, url, work, home, prompt, None, check=task["verify"])
    begin()
    output, errors, status, wall, cpu, peak = run(command, work, home, None, options.timeout)
    is_done = holds(task["check"], work, output)
    return dict(agent=name, task=task["name"], status=status, halts=0, is_done=is_done, is_false=status == 0 and not is_done,
                wall=round(wall, 2), cpu=round(cpu, 2), rss=peak, out=output[-300:], err=errors[-300:])


def agents_of(options):
    """The agents by name, with the templates of their commands; ReedClaw has none."""
    own = {} if options.peers_only else {"reedclaw": None}
    return {**own, **dict(it.split("=", 1) for it in options.agent)}


def command_of(template, url, work, home, prompt, schema, check=""):
    given = dict(url=url + "/v1", work=work, prompt=prompt, schema=schema or "", home=home, check=check)
    return [word.format(**given) for word in shlex.split(template)]


def lifted(message, names):
    """Turns calls that were written as text into real ones, as a server with a parser for that form would do."""
    text = message.get("content") or ""
    calls, at = [], 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, length = json.JSONDecoder().raw_decode(text[at:])
        except ValueError:
            at += 1
            continue
        given = isinstance(found, dict) and found.get("arguments", found.get("parameters"))
        if isinstance(given, dict) and found.get("name") in names:
            function = {"name": found["name"], "arguments": json.dumps(given)}
            calls.append({"id": "call_%d_%d" % (len(text), len(calls)), "type": "function", "function": function})
        at += max(length, 1)
    return {"role": "assistant", "content": None, "tool_calls": calls} if calls else None


def proxy(options, record):
    """Passes requests on to a real model, all with the same sampling, and counts them in `record`."""

    def answer(_, body):
        asked = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
        asked.update(temperature=0, seed=1, max_tokens=min(options.cap, asked.get("max_tokens") or options.cap))
        asked.pop("max_completion_tokens", None)
        request = urllib.request.Request(options.url + "/v1/chat/completions", json.dumps(asked).encode(),
                                         {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=900) as reply:
                reply = json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}"), None, {}
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        record["requests"] += 1
        record["in"] += usage.get("prompt_tokens", 0)
        record["out"] += usage.get("completion_tokens", 0)
        record.setdefault("first", usage.get("prompt_tokens", 0))
        names = {tool["function"]["name"] for tool in body.get("tools") or []}
        message = choice["message"]
        if names and not message.get("tool_calls") and not options.no_lift and (better := lifted(message, names)):
            return 200, better, "tool_calls", {"usage": usage}
        return 200, message, choice["finish_reason"], {"usage": usage}

    return serve(answer)


def model(options, folder):
    """A real model; every agent gets the same sampling."""
    record = {}
    url = proxy(options, record)
    agents = agents_of(options)
    chosen = [task for task in TASKS if not task.get("scripted_only")]
    chosen = [task for task in chosen if not options.tasks or task["name"] in options.tasks.split(",")]
    for task in chosen:
        for name, template in agents.items():
            record.clear()
            record.update(requests=0, out=0)
            record["in"] = 0
            work, home = folder + "/work", folder + "/home-" + name
            make(work, task.get("files", {}))
            if task.get("git"):
                who = ["-c", "user.name=Ada Tester", "-c", "user.email=a@b.example"]
                for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
                    subprocess.run(["git", *words], cwd=work, check=True)
            schema = None
            if task.get("schema"):
                schema = folder + "/schema.json"
                pathlib.Path(schema).write_text(json.dumps(task["schema"]))
            if template is None:
                command = reedclaw(options.program, home, url, work, task["prompt"], schema)
            else:
                command = command_of(template, url, work, home, task["prompt"], schema)
            output, errors, status, wall, cpu, peak = run(command, work, home, task.get("stdin"), options.timeout)
            yield dict(agent=name, task=task["name"], ok=holds(task["check"], work, output), status=status,
                       requests=record["requests"], tokens_in=record["in"], tokens_out=record["out"],
                       first=record.get("first", 0), wall=round(wall, 1), cpu=round(cpu, 2), rss=peak, out=output[-300:],
                       err=errors[-300:])


def table(rows):
    lines = []
    for name in dict.fromkeys(row["agent"] for row in rows):
        own = [row for row in rows if row["agent"] == name]
        middle = lambda key: sorted(row.get(key, 0) for row in own)[len(own) // 2]
        mean = lambda key: sum(row.get(key, 0) for row in own) / len(own)
        line = "%-12s %d of %d, wall median %.1f s, CPU median %.2f s, peak %d MiB, %.1f requests" % (
            name, sum(row["ok"] for row in own), len(own), middle("wall"), middle("cpu"), middle("rss"), mean("requests"))
        if "tokens_in" in own[0]:
            line += ", tokens a task: %d in, %d out; first request %d" % (mean("tokens_in"), mean("tokens_out"), mean("first"))
        if "is_false" in own[0]:
            line += "; ended as done %d, of them falsely %d; halted for a person %d times" % (
                sum(row["status"] == 0 for row in own), sum(row["is_false"] for row in own), sum(row["halts"] for row in own))
        if "how" in own[0]:
            line += "; run %d, asked again %d, lost %d" % tuple(
                sum(row["how"] == how for row in own) for how in ("run", "retry", "lost"))
        lines.append(line)
    for task in dict.fromkeys(row["task"] for row in rows):
        cells = ["%s %s" % (row["agent"], row.get("how") or ("yes" if row["ok"] else "no")) for row in rows if row["task"] == task]
        lines.append("  %-34s %s" % (task, ", ".join(cells)))
    return "\n".join(lines)


def main():
    options = arguments()
    is_real = options.mode in ("model", "auto-model")
    if is_real and not options.url:
        raise SystemExit("run.py %s needs --url" % options.mode)
    folder = tempfile.mkdtemp(prefix="agent-suite-")
    rows = []
    try:
        for row in {"perfect": perfect, "odd": odd, "auto": auto, "auto-model": auto_model, "model": model}[options.mode](options, folder):
            rows.append(row)
            print("%-10s %-32s %-5s status %3d %6.1f s" % (
                row["agent"], row["task"], row.get("how") or ("yes" if row["ok"] else "NO"), row["status"], row["wall"]), flush=True)
            if not row["ok"] and not is_real:
                print(row["out"] + row["err"], file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    now = datetime.datetime.now()
    stem = HERE.parent / "runs" / ("%s-agent-suite-%s" % (now.strftime("%Y%m%d-%H%M"), options.mode))
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout.strip()
    head = "%s, %s, load %s, %s%s" % (now.strftime("%Y-%m-%d %H:%M"), version, " ".join("%.1f" % it for it in os.getloadavg()),
                                      platform.machine(), ", " + options.note if options.note else "")
    for row in rows:
        row.update({key: row[key].replace(folder, "FOLDER") for key in ("out", "err")})
    stem.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stem.with_suffix(".txt").write_text("%s\n\n%s\n" % (head, table(rows)))
    print("\n" + table(rows))
    if any(row.get("is_false") and row["agent"] in OWN for row in rows) or not is_real and not all(row["ok"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
