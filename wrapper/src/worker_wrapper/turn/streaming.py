"""Sends an agent's words while it says them: pieces of an answer, in order, a few a second.

po_turn.py runs `Streamer` beside a turn. What comes in is bounded, what waits is merged, so a Redis
that is slow or away costs delay and never memory. `PartialText` says what of a text may be shown
before the agent has finished: no verdict, no secret, not half. It holds back what may yet turn out
to be the beginning of a `<result>` block, of a secret, or the blank lines before a block.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from redis.exceptions import ResponseError

from worker_wrapper.agents.base import Piece
from worker_wrapper.queue.connection import RedisUnavailableError
from worker_wrapper.redact import Redactor

SECONDS_BETWEEN: Final = 0.125
"""Eight pieces a second, so that with the last one and the answer it is ten at most."""
PIECE_CHARACTERS: Final = 64 * 1024
"""The most that one piece has: with six bytes each, as JSON writes some, a piece is no larger than
an output may be."""
STREAMED_CHARACTERS: Final = 256 * 1024
"""How much of an answer is streamed; the rest comes with the whole answer."""
_BLANKS: Final = 4096
"""So many at the end of a text wait for what follows; more are shown, whatever that is."""
_OPEN: Final = "<result>"
_CLOSE: Final = "</result>"
_SEPARATOR: Final = "\n\n"

Send = Callable[[str, int, int], Awaitable[None]]
"""Publishes one piece: its text, its part, its sequence number. It may raise what Redis raises."""


class PartialText:
    """One text of the agent, in deltas; `<result>…</result>` is taken out of it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._inside = False

    def feed(self, delta: str) -> str:
        """Take more of the text; return what of it can be shown now."""
        text, shown = self._held + delta, []
        while True:
            tag = _CLOSE if self._inside else _OPEN
            before, found, after = text.partition(tag)
            if not found:
                break
            if not self._inside:
                shown.append(before.rstrip())
            self._inside = not self._inside
            text = after
        if self._inside:
            # Nothing of it is shown; only the end may matter, as the beginning of the closing tag.
            self._held = text[-(len(_CLOSE) - 1) :]
            return self._scrubbed("".join(shown))
        text = "".join(shown) + text
        keep = max(_beginning_of(_OPEN, text), self._redactor.begun(text))
        ready = text[: len(text) - keep]
        if len(ready) - len(stripped := ready.rstrip()) <= _BLANKS:
            ready = stripped
        self._held = text[len(ready) :]
        return self._scrubbed(ready)

    def finish(self) -> str:
        """The text is complete; return what was held back and is no verdict."""
        held, self._held = self._held, ""
        return "" if self._inside else self._scrubbed(held.rstrip())

    def _scrubbed(self, text: str) -> str:
        scrubbed: str = self._redactor.scrub(text)
        return scrubbed


class Streamer:
    """Takes pieces as the agent says them and sends them on, merged."""

    def __init__(self, send: Send, redactor: Redactor) -> None:
        self._sent = 0
        self._send = send
        self._redactor = redactor
        self._text = PartialText(redactor)
        self._waiting: list[tuple[int, str]] = []
        self._part = 0
        self._opened = False
        self._said = False
        self._left = STREAMED_CHARACTERS
        self._pending = asyncio.Event()
        self._stuck: tuple[str, int, int] | None = None
        self._sending = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to send."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Send no more."""
        # Not in the midst of a command: the connection would have to be made anew.
        async with self._sending:
            if self._task:
                self._task.cancel()

    @property
    def next_sequence(self) -> int:
        """The number of the next output of this request: pieces that may have arrived count."""
        return self._sent + (self._stuck is not None)

    def take(self, piece: Piece) -> None:
        """Hear the agent; called by whoever reads its output."""
        if piece.opens:
            self._add(self._text.finish())
            self._text = PartialText(self._redactor)
            self._opened = True
        self._add(self._text.feed(piece.text))

    async def finish(self) -> None:
        """Send what is left: the agent has said everything."""
        self._add(self._text.finish())
        async with self._sending:
            while await self._send_next():
                pass

    async def _run(self) -> None:
        while True:
            await self._pending.wait()
            async with self._sending:
                await self._send_next()
            await asyncio.sleep(SECONDS_BETWEEN)

    def _add(self, text: str) -> None:
        text = text[: self._left]
        if not text:
            return
        self._left -= len(text)
        if self._opened and self._said:
            self._part += 1
            text = _SEPARATOR + text
        self._opened, self._said = False, True
        if self._waiting and self._waiting[-1][0] == self._part:
            text = self._waiting.pop()[1] + text
        self._waiting.append((self._part, text))
        self._pending.set()

    async def _send_next(self) -> bool:
        """Send one message; the same once more if it is not known whether it arrived."""
        if self._stuck is None:
            if not self._waiting:
                self._pending.clear()
                return False
            *earlier, last = self._waiting
            # Only the last part is going to be the answer: those before it travel together.
            text = "".join(said for _, said in earlier or [last])
            part = earlier[-1][0] if earlier else last[0]
            self._waiting = [last] if earlier else []
            if rest := text[PIECE_CHARACTERS:]:
                self._waiting.insert(0, (part, rest))
            self._stuck = (text[:PIECE_CHARACTERS], part, self._sent)
        try:
            await self._send(*self._stuck)
        except (RedisUnavailableError, ResponseError):
            return False
        self._stuck = None
        self._sent += 1
        if not self._waiting:
            self._pending.clear()
        return True


def _beginning_of(word: str, text: str) -> int:
    """How many characters at the end of a text may be the beginning of a word."""
    for length in range(min(len(word) - 1, len(text)), 0, -1):
        if text.endswith(word[:length]):
            return length
    return 0
