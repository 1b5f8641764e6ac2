#!/usr/bin/env python3
"""Records a session of the shell that steps type, as an asciicast and as an SVG with the screens at the marks.

  record.py --start COMMAND --steps FILE --name NAME    writes NAME.cast and NAME.svg beside this file

A step is a line of FILE:

  type TEXT       types it key by key             key NAME       presses a key (`C-r`, `M-c`, `Up`, `Esc`, `Tab`)
  enter TEXT      the same, then Enter            wait REGEX     waits until the screen shows it
  prompt          waits for a prompt (`>`)        still SECONDS  waits until nothing was written for so long
  shot CAPTION    keeps the screen for the SVG

Needs Python 3.9 and pyte.
"""
import argparse, html, json, os, pathlib, pty, re, select, signal, struct, fcntl, termios, time
import pyte

COLUMNS, ROWS = 96, 24
KEYS = {"Enter": "\r", "Esc": "\x1b", "Tab": "\t", "Up": "\x1b[A", "Down": "\x1b[B", "Left": "\x1b[D", "Right": "\x1b[C",
        "Backspace": "\x7f", "End": "\x1b[F", "Home": "\x1b[H"}
COLOURS = {"default": "#c5c8c6", "black": "#6b717d", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b", "yellow": "#e5c07b",
           "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#e6e6e6"}
GROUND = "#1d1f21"


def key(name):
    if name.startswith("C-"):
        return chr(ord(name[2:].upper()) & 31)
    return "\x1b" + name[2:] if name.startswith("M-") else KEYS[name]


class Screen(pyte.Screen):
    """Takes sequences with a private mark, which this library's screen doesn't know."""

    def report_device_status(self, *_, **__):
        pass

    def select_graphic_rendition(self, *codes, **marks):
        if not marks:
            super().select_graphic_rendition(*codes)

    def scroll_up(self, rows=1, **_):
        row, self.cursor.y = self.cursor.y, (self.margins or (0, ROWS - 1))[1]
        for _ in range(rows or 1):
            self.index()
        self.cursor.y = row


class Stream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "S": "scroll_up"}


class Session:
    def __init__(self, command):
        self.screen = Screen(COLUMNS, ROWS)
        self.stream = Stream(self.screen)
        self.events, self.shots, self.began = [], [], time.time()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
            os.execvp("/bin/sh", ["sh", "-c", command])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read(self, seconds):
        """Reads what comes within the time; says whether anything did."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            raise EOFError("the session has ended") from None
        self.events.append([round(time.time() - self.began, 3), "o", data.decode(errors="replace")])
        self.stream.feed(re.sub(rb"\x1bP.*?\x1b\\\\|\x1b\[[<>=][\d;]*u", b"", data, flags=re.S))
        self.answer(data)
        return True

    def answer(self, data):
        """Answers what a terminal is asked: where its cursor is, and what it is."""
        for _ in range(data.count(b"\x1b[6n")):
            os.write(self.fd, b"\x1b[%d;%dR" % (self.screen.cursor.y + 1, self.screen.cursor.x + 1))
        for _ in range(data.count(b"\x1b[c")):
            os.write(self.fd, b"\x1b[?62;22c")

    def still(self, seconds):
        while self.read(seconds):
            pass

    def type(self, text):
        for letter in text:
            os.write(self.fd, letter.encode())
            until = time.time() + 0.06
            while (left := until - time.time()) > 0:
                self.read(left)

    def wait(self, wanted, seconds=120):
        until = time.time() + seconds
        while not re.search(wanted, "\n".join(self.screen.display)):
            if time.time() > until:
                raise SystemExit("%s didn't come:\n%s" % (wanted, "\n".join(self.screen.display)))
            self.read(0.2)

    def prompt(self, seconds=120):
        """Waits until the cursor stands behind a prompt's sign and nothing more comes."""
        until = time.time() + seconds
        while True:
            row = self.screen.display[self.screen.cursor.y][:self.screen.cursor.x].rstrip()
            if not self.read(0.4) and row.endswith(">"):
                return
            if time.time() > until:
                raise SystemExit("no prompt came:\n" + "\n".join(self.screen.display))

    def step(self, line):
        act, _, text = line.partition(" ")
        if act == "type":
            self.type(text)
        elif act == "enter":
            self.type(text)
            self.still(0.2)
            os.write(self.fd, b"\r")
        elif act == "key":
            os.write(self.fd, key(text).encode())
        elif act == "wait":
            self.wait(text)
        elif act == "prompt":
            self.prompt()
        elif act == "still":
            self.still(float(text))
        elif act == "shot":
            self.still(0.4)
            self.shots.append((text, rows(self.screen)))
        else:
            raise SystemExit("no such step: " + line)


def rows(screen):
    """The rows of the screen as runs of (column, text, colour, ground, bold), without the empty rows at the end."""
    found = []
    for y in range(ROWS):
        runs = []
        for x in range(COLUMNS):
            cell = screen.buffer[y][x]
            front, back = (cell.bg, cell.fg) if cell.reverse else (cell.fg, cell.bg)
            look = (front, back, cell.bold, cell.reverse)
            if runs and runs[-1][2] == look:
                runs[-1][1] += cell.data
            else:
                runs.append([x, cell.data, look])
        found.append([run for run in runs if run[1].strip() or run[2][1] != "default" or run[2][3]])
    while found and not found[-1]:
        found.pop()
    return found


def colour(name, other):
    if name == "default":
        return other
    name = name[6:] if name.startswith("bright") else name
    return COLOURS.get(name) or ("#" + name if re.fullmatch("[0-9a-f]{6}", name) else other)


def svg(title, shots):
    wide, tall, lines, y = 8.4, 18, [], 30
    for caption, picture in shots:
        lines.append('<text x="16" y="%d" font-family="DejaVu Sans, sans-serif" font-size="13" fill="#8a919d">%s</text>' % (y, html.escape(caption)))
        y += 10
        height = tall * len(picture) + 12
        lines.append('<rect x="12" y="%d" width="%d" height="%d" rx="6" fill="%s"/>' % (y, COLUMNS * wide + 16, height, GROUND))
        y += tall
        for row in picture:
            for x, text, (front, back, bold, reverse) in row:
                left = 20 + x * wide
                if back != "default" or reverse:
                    ground = colour(back, COLOURS["default"] if reverse else GROUND)
                    lines.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (left, y - 14, len(text) * wide, tall, ground))
                if text.strip():
                    start = left + (len(text) - len(text.lstrip())) * wide
                    text = text.strip()
                    lines.append('<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>' % (
                        start, y, len(text) * wide, colour(front, GROUND if reverse else COLOURS["default"]),
                        ' font-weight="bold"' if bold else "", html.escape(text)))
            y += tall
        y += 28
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">' % (
        COLUMNS * wide + 40, y, COLUMNS * wide + 40, y, html.escape(title, quote=True))
    return "\n".join([head, '<rect width="100%" height="100%" rx="8" fill="#2b2e33"/>',
                      '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">', *lines, "</g>", "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("start", "steps", "name", "title"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    session = Session(options.start)
    try:
        for line in pathlib.Path(options.steps).read_text().splitlines():
            if line and not line.startswith("#"):
                session.step(line)
    except EOFError as error:
        print(error)
    finally:
        os.kill(session.pid, signal.SIGHUP)
        stem = pathlib.Path(__file__).resolve().parent / options.name
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": options.title, "env": {"TERM": "xterm-256color"}}
        stem.with_suffix(".cast").write_text("".join(json.dumps(it) + "\n" for it in [head, *session.events]))
        stem.with_suffix(".svg").write_text(svg(options.title, session.shots))


if __name__ == "__main__":
    main()
