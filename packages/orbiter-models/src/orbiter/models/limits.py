"""ModelLimits: how much may be asked of a model at a time, by everyone in the process."""

import asyncio
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from orbiter.models._internal.clock import Clock
from orbiter.models._internal.window import Entry, Window
from orbiter.types import OrbiterError


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call that waits for its turn, in whatever event loop it lives."""

    loop: asyncio.AbstractEventLoop
    turn: asyncio.Event = field(default_factory=asyncio.Event)


class ModelLimits:
    """Limits that all calls share which are given the same object, in any event loop and thread.

    Calls are let through in the order they came. One that is cancelled leaves the queue; one that
    is under way has its place until its answer, or its stream, is over.
    """

    def __init__(
        self,
        *,
        concurrent: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set the limits; None is no limit.

        Args:
            concurrent: Calls under way at the same time.
            requests_per_minute: Calls, tries included, in any sixty seconds.
            tokens_per_minute: Tokens in any sixty seconds. What a call will take is estimated
                before it (four characters a token, and its `max_tokens`) and put right after it.
                A call that is larger than the limit goes alone.
            clock: Time, for tests.

        Raises:
            OrbiterError: A limit is less than one.
        """
        given = {
            "concurrent": concurrent,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }
        for name, value in given.items():
            if value is not None and (type(value) is not int or value < 1):
                raise OrbiterError(
                    f"ModelLimits({name}={value!r}): give an integer from 1, or None"
                )
        self.clock = clock or Clock()
        self._concurrent = concurrent
        self._requests = Window(requests_per_minute)
        self._tokens = Window(tokens_per_minute)
        self._running = 0
        self._held_until = float("-inf")
        self._queue: deque[_Waiter] = deque()
        # calls come from several threads; nothing in it waits, and a call that is forgotten may
        # end (`__del__`) in the middle of it
        self._lock = threading.RLock()

    def call(self, tokens: int = 0) -> "LimitedCall":
        """Return a call to be made: `async with limits.call(estimate) as call: ...`."""
        return LimitedCall(self, tokens)

    def hold(self, seconds: float) -> None:
        """Let nobody through for a while, because the provider asks for it."""
        with self._lock:
            self._held_until = max(self._held_until, self.clock.monotonic() + seconds)

    async def _enter(self, tokens: int) -> Entry:
        me = _Waiter(asyncio.get_running_loop())
        with self._lock:
            self._queue.append(me)
        try:
            while True:
                me.turn.clear()
                with self._lock:
                    wait = self._wait(me, tokens)
                    if wait == 0.0:
                        self._queue.popleft()
                        return self._take(tokens)
                timer = None if wait is None else self.clock.later(wait, me.turn.set)
                try:
                    await me.turn.wait()
                finally:
                    if timer is not None:
                        timer.cancel()
        except BaseException:
            with self._lock:
                if me in self._queue:
                    self._queue.remove(me)
            raise
        finally:
            # whoever is first now may look
            self._wake()

    def _wait(self, me: _Waiter, tokens: int) -> float | None:
        """Return how long `me` has to wait; None until somebody else has gone."""
        if self._first() is not me:
            return None
        if self._concurrent is not None and self._running >= self._concurrent:
            return None
        now = self.clock.monotonic()
        held = self._held_until - now
        return max(0.0, held, self._requests.wait(now, 1), self._tokens.wait(now, tokens))

    def _take(self, tokens: int) -> Entry:
        now = self.clock.monotonic()
        self._running += 1
        self._requests.take(now, 1)
        return self._tokens.take(now, tokens)

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
        self._wake()

    def _correct(self, entry: Entry, tokens: int) -> None:
        with self._lock:
            self._tokens.correct(entry, tokens)

    def _first(self) -> _Waiter | None:
        # a loop that was closed without cancelling its tasks leaves them in the queue
        while self._queue and self._queue[0].loop.is_closed():
            self._queue.popleft()
        return self._queue[0] if self._queue else None

    def _wake(self) -> None:
        with self._lock:
            while (first := self._first()) is not None:
                try:
                    first.loop.call_soon_threadsafe(first.turn.set)
                except RuntimeError:
                    # closed since it was looked at
                    continue
                return


class LimitedCall:
    """One call under limits: entered when it is its turn, left when its answer is there."""

    def __init__(self, limits: ModelLimits, tokens: int) -> None:
        self._limits = limits
        self._tokens = tokens
        self._entry: Entry | None = None

    async def __aenter__(self) -> "LimitedCall":
        self._entry = await self._limits._enter(self._tokens)
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._end()

    def __del__(self) -> None:
        # its event loop was dropped with the call in it
        self._end()

    def took(self, tokens: int) -> None:
        """Put the estimate right: what the call has really taken."""
        if self._entry is not None:
            self._limits._correct(self._entry, tokens)

    def _end(self) -> None:
        if self._entry is not None:
            self._entry = None
            self._limits._leave()
