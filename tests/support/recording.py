"""What a terminal shows, recorded: a pseudo-terminal, its bytes with their times, and an SVG.

The SVG plays once and stays at its end; where a viewer wants no motion it is the end at once. What
is understood of terminals is what our commands use: colours, lines, and one line at the bottom that
is written anew (rich's status). Pauses are shortened, so a minute of waiting is no minute to watch.
"""

import fcntl
import html
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

COLUMNS: Final = 92
_ROWS: Final = 60
_LONGEST_PAUSE: Final = 1.2
_TYPED: Final = 0.035
"""Seconds that somebody needs for one character."""
_LINE: Final = 18
_CHARACTER: Final = 8.0
_MARGIN: Final = 16
_CONTROL: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_UP: Final = "\x1b[1A"
_CLASSES: Final = {
    **{1: "b", 2: "d", 31: "r", 32: "g", 33: "y", 34: "u", 35: "m", 36: "c"},
    **{90: "d", 91: "r", 92: "g", 93: "y", 94: "u", 95: "m", 96: "c"},
}
_STYLE: Final = """
svg{background:#14161b}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d7dae0;white-space:pre}
.b{font-weight:bold}.d{fill:#8b919c}.r{fill:#ff7b72}.g{fill:#6cc874}.y{fill:#e5c07b}
.u{fill:#79b8ff}.m{fill:#d2a8ff}.c{fill:#56c7d6}
@media (prefers-reduced-motion:no-preference){
.l{animation:at 0s step-end both}@keyframes at{from{visibility:hidden}to{visibility:visible}}
.s{visibility:hidden;animation:on 1s step-end}@keyframes on{from,to{visibility:visible}}
}
@media (prefers-reduced-motion:reduce){.s{display:none}}
"""

Piece = tuple[str, str]
"""A text and the classes it has."""


@dataclass(frozen=True)
class Line:
    """A line of the terminal, and when it came: seconds from the beginning."""

    at: float
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """It without its colours."""
        return "".join(text for text, _ in self.pieces).rstrip()


@dataclass(frozen=True)
class Standing:
    """What the line at the bottom says below so many lines, and when."""

    at: float
    below: int
    pieces: tuple[Piece, ...]


@dataclass
class Recording:
    """Commands that somebody types, and what comes of them."""

    lines: list[Line] = field(default_factory=list)
    standing: list[Standing] = field(default_factory=list)
    now: float = 0.0

    @property
    def text(self) -> str:
        """All lines without colours."""
        return "".join(f"{line.text}\n" for line in self.lines)

    def run(
        self, shown: str, command: Sequence[str], environ: Mapping[str, str], *, seconds: float
    ) -> int:
        """Have somebody type a command at the prompt, and record what it prints.

        Args:
            shown: As it is typed.
            command: What is run.
            environ: Its environment.
            seconds: How long it may take.

        Returns:
            Its exit code.
        """
        for characters in range(0, len(shown) + 1, 3):
            prompt = (("$ ", "d"), (shown[:characters], ""), ("▏", "d"))
            self.standing.append(Standing(self.now, len(self.lines), prompt))
            self.now += 3 * _TYPED
        self.lines.append(Line(self.now, (("$ ", "d"), (shown, "b"))))
        code = self._follow(command, environ, seconds)
        self.now += _LONGEST_PAUSE
        self.lines.append(Line(self.now, ()))
        return code

    def _follow(self, command: Sequence[str], environ: Mapping[str, str], seconds: float) -> int:
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, COLUMNS, 0, 0))
        wanted = {**environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=wanted
        ) as child:
            os.close(terminal)
            try:
                self._read(controller, time.monotonic() + seconds)
            finally:
                os.close(controller)
                child.kill()
        return child.returncode

    def _read(self, controller: int, deadline: float) -> None:
        rest, before = b"", time.monotonic()
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([controller], [], [], left)[0]:
                break
            try:
                read = os.read(controller, 65536)
            except OSError:  # the other end is closed
                if rest:
                    self._take(rest.decode("utf-8", "replace"))
                return
            self.now += min(time.monotonic() - before, _LONGEST_PAUSE)
            before = time.monotonic()
            *whole, rest = (rest + read).split(b"\n")
            for line in whole:
                self._take(line.decode("utf-8", "replace"))
            if pieces := _pieces(_last_written(rest.decode("utf-8", "replace"))):
                self.standing.append(Standing(self.now, len(self.lines), pieces))
        raise AssertionError(f"it did not end in time:\n{self.text}")

    def _take(self, line: str) -> None:
        if _UP in line and self.lines:
            self.lines.pop()  # the line that is written anew goes, when something else is said
        pieces = _pieces(_last_written(line))
        if pieces or not _CONTROL.search(line):
            self.lines.append(Line(self.now, pieces))

    def svg(self, title: str) -> str:
        """It as a picture that moves.

        Args:
            title: What it shows, for who cannot see it.
        """
        height = (len(self.lines) + 1) * _LINE + 2 * _MARGIN
        width = round(COLUMNS * _CHARACTER + 2 * _MARGIN)
        ends = [*self.standing[1:], None]
        whole = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{html.escape(title)}">',
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#14161b"/>',
        ]
        for place, line in enumerate(self.lines):
            if line.pieces:
                delay = f"animation-delay:{line.at:.2f}s"
                whole.append(_text(place, line.pieces, "l", delay))
        for shown, after in zip(self.standing, ends, strict=True):
            until = after.at if after else shown.at + 1
            later = [line.at for line in self.lines[shown.below : shown.below + 1]]
            lasts = min([until, *later]) - shown.at
            if lasts > 0.01:
                timing = f"animation-delay:{shown.at:.2f}s;animation-duration:{lasts:.2f}s"
                whole.append(_text(shown.below, shown.pieces, "s", timing))
        return "\n".join([*whole, "</svg>\n"])


def _last_written(line: str) -> str:
    """What is left of a line that was written more than once, one over the other."""
    return re.split(r"\r|\x1b\[2K|\x1b\[[0-9]*A", line.rstrip("\r"))[-1]


def _pieces(line: str) -> tuple[Piece, ...]:
    """A line as texts with their classes."""
    found: list[Piece] = []
    classes: list[str] = []
    end = 0
    for control in [*_CONTROL.finditer(line), None]:
        begin = control.start() if control else len(line)
        if text := line[end:begin]:
            found.append((text, " ".join(dict.fromkeys(classes))))
        if control is None:
            break
        end = control.end()
        if control[2] == "m":
            for number in [int(part) for part in control[1].split(";") if part] or [0]:
                classes = [] if number == 0 else [*classes, *filter(None, [_CLASSES.get(number)])]
    return tuple(found) if "".join(text for text, _ in found).strip() else ()


def _text(place: int, pieces: tuple[Piece, ...], kind: str, style: str) -> str:
    y = _MARGIN + (place + 1) * _LINE - 4
    spans = "".join(
        f'<tspan class="{classes}">{html.escape(text)}</tspan>' if classes else html.escape(text)
        for text, classes in pieces
    )
    return f'<text class="{kind}" style="{style}" x="{_MARGIN}" y="{y}">{spans}</text>'


_CHANGES: Final = (
    (re.compile(r"^ *[0-9]+(\.[0-9]+)? (s|min)(  [A-Z])"), "TIME\\3"),
    (re.compile(r"(✓|✗) [0-9.]+ s"), "\\1 TIME"),
    (re.compile(r"(duration +).*"), "\\1TIME"),
    (re.compile(r"[0-9,]+ \+ [0-9,]+ tokens"), "TOKENS tokens"),
    (re.compile(r"[0-9.]+ USD"), "COST USD"),
    (re.compile(r"\b[0-9]+\.[0-9]+ ?s\b"), "TIME"),
)


def the_same_every_time(text: str) -> str:
    """A recording's text without what is different each time: times, tokens, cost."""
    lines = text.splitlines()
    for pattern, instead in _CHANGES:
        lines = [pattern.sub(instead, line) for line in lines]
    kept = [line for line in lines if not re.search(r"TIME  (Pending|Running)", line)]
    return "\n".join(before for before, _ in pairwise([*kept, ""]))
