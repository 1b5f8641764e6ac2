"""ReedClaw as an agent for Harbor, the runner of Terminal-Bench 2, and an environment that needs no containers.

    harbor run -p TASKS -a reedclaw_harbor:ReedClaw -e reedclaw_harbor:Overlay -m local/m \\
        --ak endpoint=http://127.0.0.1:8080 --ak binary=target/release/reedclaw -o JOBS

`ReedClaw` copies the executable into the task's environment, writes a config for the model, and works on the instruction with
`reedclaw agent --auto`. Afterwards the run is exported as a trajectory (ATIF), from which Harbor reads tokens and cost.

`Overlay` is for tasks of your own on a machine without containers: a private, writable view of this machine's files. Of a
Dockerfile WORKDIR, ENV, COPY and RUN count; FROM doesn't. It is no sandbox, it needs root, and it has this machine's network.
"""
import asyncio
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from harbor.agents.installed.base import (
    AgentAuthenticationError,
    BaseInstalledAgent,
    NonZeroAgentExitCodeError,
    with_prompt_template,
)
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

PROGRAM = "/usr/local/bin/reedclaw"
LOGS = "/logs/agent"
# What the exit statuses of a run mean to a benchmark: these are ends, whatever the tests say then. All others are errors.
ENDS = {
    0: "verified",
    5: "a budget is used up",
    6: "claimed; no check shows it",
    7: "halted",
    8: "stuck",
    10: "done, with failed steps",
}
CONFIG = """return {
  models = { m = { endpoint = %s, model = %s, first_byte_timeout_ms = 900000, idle_timeout_ms = 600000%s } },
  -- The environment of a task is there to be changed, and nobody is asked in it.
  security = { autonomy = "full", workspace_only = false },
  memory = { auto = false },
%s}
"""


def lua(text):
    return json.dumps(text)


class ReedClaw(BaseInstalledAgent):
    """Options: `endpoint`, `binary`, `key_env` (a variable of this process), `check` (a command that decides, if you know
    one), `budget` (words such as `--budget-usd 2 --budget-minutes 30`), `more` (lines of the config)."""

    SUPPORTS_ATIF = True

    def __init__(self, *args, endpoint="http://127.0.0.1:8080", binary=PROGRAM, key_env="", check="", budget="", more="",
                 **kwargs):
        self.endpoint, self.binary, self.key_env = endpoint, binary, key_env
        self.check, self.budget, self.more = check, budget, more
        super().__init__(*args, **kwargs)

    @staticmethod
    def name():
        return "reedclaw"

    def get_version_command(self):
        return PROGRAM + " --version"

    def parse_version(self, stdout):
        return stdout.strip().split()[-1]

    async def install(self, environment):
        await environment.upload_file(self.binary, PROGRAM)
        model = (self.model_name or "local/m").split("/", 1)[-1]
        key = ", key_env = %s" % lua(self.key_env) if self.key_env else ""
        config = CONFIG % (lua(self.endpoint), lua(model), key, self.more)
        await self.exec_as_root(environment, command="chmod 755 " + PROGRAM)
        await self.exec_as_agent(environment, command='mkdir -p "${HOME:-/root}/.config/reedclaw" && printf %%s %s > '
                                                      '"${HOME:-/root}/.config/reedclaw/config.lua"' % shlex.quote(config))

    @with_prompt_template
    async def run(self, instruction, environment, context):
        words = [PROGRAM, "agent", "-m", instruction, "--auto", "--json", "--on-halt", "deny"]
        words += ["--check", self.check] if self.check else []
        command = " ".join(shlex.quote(word) for word in words + shlex.split(self.budget)) + ' --path "$PWD"'
        env = {self.key_env: os.environ[self.key_env]} if self.key_env in os.environ else {}
        script = (
            'export HOME="${HOME:-/root}"; %s < /dev/null > %s/reedclaw.jsonl 2> %s/reedclaw.err; echo $? > %s/status; '
            "%s norris export --atif %s/trajectory.json 2>> %s/reedclaw.err || true"
        ) % (command, LOGS, LOGS, LOGS, PROGRAM, LOGS, LOGS)
        await self.exec_as_agent(environment, command=script, env=env)
        read = await self.exec_as_agent(environment, command="cat %s/status; tail -n 5 %s/reedclaw.err" % (LOGS, LOGS))
        status, _, said = (read.stdout or "").partition("\n")
        if status.strip() == "4":
            raise AgentAuthenticationError(said)
        if int(status) not in ENDS:
            raise NonZeroAgentExitCodeError("reedclaw ended with status %s: %s" % (status, said))

    def populate_context_post_run(self, context):
        trajectory, lines = self.logs_dir / "trajectory.json", self.logs_dir / "reedclaw.jsonl"
        if trajectory.exists():
            metrics = json.loads(trajectory.read_text())["final_metrics"]
            context.n_input_tokens = metrics["total_prompt_tokens"]
            context.n_cache_tokens = metrics["total_cached_tokens"]
            context.n_output_tokens = metrics["total_completion_tokens"]
            context.cost_usd = metrics["total_cost_usd"]
        events = lines.read_text().splitlines() if lines.exists() else []
        last = json.loads(events[-1]) if events else {}
        if last.get("event") == "run":
            meaning = ENDS.get(last["exit"], "failed")
            context.metadata = {"end": last["end"], "exit": last["exit"], "meaning": meaning, "why": last["why"]}


def run(*words):
    subprocess.run(words, check=True)


def copy(source, target):
    """Copies a file, unless both are the same one: the logs of a trial are mounted."""
    if not (os.path.exists(target) and os.path.samefile(source, target)):
        shutil.copy(source, target)
    return target


class Overlay(BaseEnvironment):
    """A view of this machine's files in which a task may change everything."""

    @staticmethod
    def type():
        return "overlay"

    @property
    def capabilities(self):
        return EnvironmentCapabilities(mounted=True)

    def _validate_definition(self):
        pass

    def inside(self, path):
        return self.root + "/" + str(path).lstrip("/")

    async def start(self, force_build=False):
        self.base = tempfile.mkdtemp(prefix="overlay-", dir=os.environ.get("OVERLAY_DIR", "/var/tmp"))
        self.root, self.variables, self.cwd = self.base + "/root", {}, "/app"
        for name in ("upper", "work", "root"):
            os.mkdir(self.base + "/" + name)
        layers = "lowerdir=/,upperdir=%s/upper,workdir=%s/work" % (self.base, self.base)
        run("mount", "-t", "overlay", "overlay", "-o", layers, self.root)
        run("mount", "-t", "proc", "proc", self.inside("/proc"))
        run("mount", "--rbind", "/dev", self.inside("/dev"))
        run("mount", "--make-rslave", self.inside("/dev"))
        for place in ("/tmp", "/root"):
            run("mount", "-t", "tmpfs", "tmpfs", self.inside(place))
        for mount in self._mounts or []:
            if mount.get("type") == "bind":
                os.makedirs(self.inside(mount["target"]), exist_ok=True)
                os.makedirs(mount["source"], exist_ok=True)
                run("mount", "--bind", mount["source"], self.inside(mount["target"]))
        os.makedirs(self.inside("/app"), exist_ok=True)
        await self.build()

    async def build(self):
        """Follows the lines of the Dockerfile that can be followed without an image."""
        dockerfile = self.environment_dir / "Dockerfile"
        text = dockerfile.read_text().replace("\\\n", " ") if dockerfile.exists() else ""
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "WORKDIR":
                self.cwd = rest.strip()
                os.makedirs(self.inside(self.cwd), exist_ok=True)
            elif word == "ENV":
                name, _, value = rest.strip().partition("=")
                self.variables[name] = value.strip('"')
            elif word == "COPY":
                source, target = rest.split()[-2:]
                source, target = self.environment_dir / source, os.path.join(self.cwd, target)
                if source.is_dir():
                    await self.upload_dir(source, target)
                else:
                    is_folder = target.endswith("/") or os.path.isdir(self.inside(target))
                    await self.upload_file(source, os.path.join(target, source.name) if is_folder else target)
            elif word == "RUN":
                done = await self.exec(rest)
                if done.return_code:
                    raise RuntimeError("RUN %s: %s" % (rest, done.stderr))

    async def stop(self, delete=True):
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((it for it in mounts if it.startswith(self.root)), key=len, reverse=True):
            subprocess.run(["umount", "-l", mount])
        if delete:
            shutil.rmtree(self.base, ignore_errors=True)

    async def upload_file(self, source_path, target_path):
        os.makedirs(os.path.dirname(self.inside(target_path)), exist_ok=True)
        copy(source_path, self.inside(target_path))

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self.inside(target_dir), dirs_exist_ok=True, copy_function=copy)

    async def download_file(self, source_path, target_path):
        copy(self.inside(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        shutil.copytree(self.inside(source_dir), target_dir, dirs_exist_ok=True, copy_function=copy)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None, **_):
        plain = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb",
                 "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
        line = "cd %s && %s" % (shlex.quote(cwd or self.cwd), command)
        child = await asyncio.create_subprocess_exec(
            "unshare", "-pf", "--kill-child", "chroot", self.root, "bash", "-c", line,
            env={**plain, **self.variables, **(env or {})}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        try:
            out, err = await asyncio.wait_for(child.communicate(), timeout_sec)
        except (TimeoutError, asyncio.CancelledError):
            child.kill()
            await child.wait()
            raise
        text = lambda data: data.decode(errors="replace")
        return ExecResult(stdout=text(out), stderr=text(err), return_code=child.returncode)
