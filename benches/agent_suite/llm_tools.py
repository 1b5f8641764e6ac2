"""Three tools for `llm --functions`: what any agent needs at least."""
import subprocess


def shell(command: str) -> str:
    """Run a shell command in the current directory and return its output."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr + ("" if done.returncode == 0 else "[exit %d]" % done.returncode)


def read_file(path: str) -> str:
    """Read a text file."""
    with open(path) as file:
        return file.read()


def write_file(path: str, content: str) -> str:
    """Write a text file, replacing it if it exists."""
    with open(path, "w") as file:
        file.write(content)
    return "written"
