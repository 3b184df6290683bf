"""One line per step: what is being done, how long it may take, how long it took."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Reporter:
    """Writes step lines; on a terminal the elapsed seconds tick while a step runs."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._notes: list[str] = []
        self._in_step = False

    def say(self, text: str) -> None:
        """Print a line now, or right after the running step's line."""
        if self._in_step:
            self._notes.append(text)
        else:
            print(text, file=self._out, flush=True)

    @contextmanager
    def step(self, text: str, may_take: str = "") -> Iterator[None]:
        """Report a step; `may_take` is shown before it starts (e.g. "about 6 min cold")."""
        head = f"{text} ({may_take}) ..." if may_take else f"{text} ..."
        done = threading.Event()
        started = time.monotonic()
        ticker = threading.Thread(target=self._tick, args=(head, started, done), daemon=True)
        self._out.write(head)
        self._out.flush()
        self._in_step = True
        if self._out.isatty():
            ticker.start()
        verdict = "failed after "
        try:
            yield
            verdict = ""
        finally:
            done.set()
            if ticker.ident is not None:
                ticker.join()
                self._out.write("\r" + head)
            self._in_step = False
            print(f" {verdict}{time.monotonic() - started:.1f} s", file=self._out, flush=True)
            for note in self._notes:
                self.say(note)
            self._notes.clear()

    def _tick(self, head: str, started: float, done: threading.Event) -> None:
        while not done.wait(1.0):
            self._out.write(f"\r{head} {time.monotonic() - started:.0f} s")
            self._out.flush()
