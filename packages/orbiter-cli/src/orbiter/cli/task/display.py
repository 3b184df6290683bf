"""What a person sees of a task that runs here: its progress, its questions, its result."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from orbiter.cli.task.run import Ask, LocalStatus
from orbiter.cli.ui.text import money, plain

_COLUMNS = ("NAME", "PHASE", "AGENT", "MESSAGE", "DURATION", "COST", "ATTEMPTS", "REASON")


class Display:
    """Progress and questions go to standard error, the result to standard output.

    Args:
        name: The task.
        agent: Its agent's type.
        quiet: Show nothing but questions.
    """

    def __init__(self, name: str, agent: str, *, quiet: bool) -> None:
        self._name = name
        self._agent = agent
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._began = time.monotonic()
        self._asking = False

    def note(self, text: str) -> None:
        """Say something beside the result."""
        if not self._quiet:
            self._wipe()
            sys.stderr.write(f"{plain(text)}\n")

    def changed(self, status: LocalStatus) -> None:
        """Show a change; on a terminal the last line is kept up to date besides."""
        if self._live:
            self._show(status)
        else:
            self.note(f"{self._name}  {status.phase}  {self._elapsed()}  {status.message}")

    @asynccontextmanager
    async def watching(self, status: LocalStatus) -> AsyncIterator[None]:
        """Keep the elapsed time on the screen."""
        ticking = asyncio.create_task(self._tick(status)) if self._live else None
        try:
            yield
        finally:
            if ticking is not None:
                ticking.cancel()
                with suppress(asyncio.CancelledError):
                    await ticking
            self._wipe()

    def asker(self, answers: list[str]) -> Ask:
        """Answers questions: first with what was given, then by asking at the terminal."""

        async def ask(question: str) -> str | None:
            self.note(f"{self._name} asks: {question}")
            if answers:
                self.note(f"> {answers[0]}")
                return answers.pop(0)
            if not sys.stdin.isatty():
                self.note("nobody is here to answer; give --answer, or run it in a terminal")
                return None
            self._asking = True
            try:
                return await _read_line()
            finally:
                self._asking = False

        return ask

    def table(self, status: LocalStatus) -> None:
        """Print the result as `kubectl get agenttask -o wide` does."""
        self._wipe()
        sys.stderr.flush()
        cost = status.usage.cost_usd if status.usage else None
        row = (
            self._name,
            status.phase,
            self._agent,
            plain(status.message),
            "" if status.duration_ms is None else _readable(status.duration_ms / 1000),
            "" if cost is None else money(cost),
            str(status.attempts),
            status.reason,
        )
        widths = [max(len(a), len(b)) for a, b in zip(_COLUMNS, row, strict=True)]
        for cells in (_COLUMNS, row):
            line = "   ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True))
            sys.stdout.write(line.rstrip() + "\n")

    async def _tick(self, status: LocalStatus) -> None:
        while True:
            await asyncio.sleep(1)
            if not self._asking:
                self._show(status)

    def _show(self, status: LocalStatus) -> None:
        self._wipe()
        text = f"{self._name}  {status.phase}  {self._elapsed()}  {plain(status.message)}"
        sys.stderr.write(text[:100])
        sys.stderr.flush()

    def _wipe(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")

    def _elapsed(self) -> str:
        return _readable(time.monotonic() - self._began)


async def _read_line() -> str | None:
    """Read a line of the terminal. Not in a thread: that would outlive a Ctrl-C."""
    sys.stderr.write("> ")
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def typed() -> None:
        if not line.done():
            line.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, typed)
    try:
        return (await line).strip() or None
    finally:
        loop.remove_reader(sys.stdin)


def _readable(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
