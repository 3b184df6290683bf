"""Follows in Redis what the agent of a task says and does, while `watch` follows the task.

In a thread of its own: whatever becomes of it, the task is followed. Nothing is lost or told twice
over a connection that breaks: each event has a sequence, and the stream keeps them.
"""

import signal
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from orbiter.cli.kubectl.artifacts import keys_of, secret_access
from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.kubectl.screen import Screen
from orbiter.cli.kubectl.transcript_source import OF_TASKS
from orbiter.cli.kubectl.transcript_text import Line, Renderer
from orbiter.cli.ui.outcome import CommandError
from orbiter.cli.ui.text import moment, money, one_line, seconds
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

_PAUSES: Final = (0.2, 1.0)
_TICK_MS: Final = 400
_AT_ONCE: Final = 50
_SILENT_SECONDS: Final = 20.0
_REST_SECONDS: Final = 3.0
"""How long the end of a transcript is waited for when its task has ended."""
_LEAVE_SECONDS: Final = 5.0


class Feed:
    """What the agent does, as it appears.

    Args:
        kubectl: The cluster, in the task's namespace.
        screen: Where it appears.
        redis_url: Redis, instead of the cluster's.
    """

    def __init__(self, kubectl: Kubectl, screen: Screen, redis_url: str | None) -> None:
        self._kubectl, self._screen, self._url = kubectl, screen, redis_url
        self._task: Object = {}
        self._attempts: list[int] = []
        self._ending: float | None = None
        self._sees = True
        self._leave = threading.Event()
        self._thread: threading.Thread | None = None

    def seen(self, task: Object) -> None:
        """The task stands so now; with its first attempt the reading begins."""
        self._task = task
        attempt = int(task.get("status", {}).get("attempts") or 0)
        if attempt and attempt not in self._attempts:
            self._attempts.append(attempt)
        if self._thread is None and self._attempts:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Show the rest of what there is, and end."""
        if self._thread is not None:
            self._ending = time.monotonic() + _REST_SECONDS
            self._thread.join(_REST_SECONDS + _LEAVE_SECONDS)

    def close(self) -> None:
        """End now, and everything that was started for it."""
        self._leave.set()
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        try:
            with ExitStack() as opened:
                self._follow(self._connected(opened))
        except BrokenPipeError:
            # whoever reads us has enough: the thread that follows the task would not notice
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        except CommandError as error:
            self._blind(str(error))
        except Exception as error:
            # What an agent has made somebody write must not end what follows the task.
            self._blind(f"{type(error).__name__}: {error}")

    def _connected(self, opened: ExitStack) -> RedisForward:
        """A way to Redis, which may be just about to come back."""
        access = partial(secret_access, secrets=OF_TASKS)
        for pause in _PAUSES:
            try:
                return opened.enter_context(RedisForward(self._kubectl, self._url, access))
            except CommandError:
                self._leave.wait(pause)
        return opened.enter_context(RedisForward(self._kubectl, self._url, access))

    @property
    def sees(self) -> bool:
        """Whether what the agent does is shown, as far as anybody knows."""
        return self._sees

    def _blind(self, why: str) -> None:
        self._sees = False
        if not self._leave.is_set():
            words = one_line(why, 300)
            self._screen.note(f"what the agent does is not shown: {words}")

    def _follow(self, forward: RedisForward) -> None:
        read = 0
        # It grows while we read: the last one is read until the task has ended.
        while not self._leave.is_set() and read < len(self._attempts):
            number = self._attempts[read]
            if read:
                self._screen.lines([Line(f"attempt {number}", "own")])
            read += 1
            self._read(_Attempt(forward, self._task, number))

    def _read(self, attempt: "_Attempt") -> None:
        """Show an attempt until it ends, or another one has begun."""
        silent_until = time.monotonic() + _SILENT_SECONDS
        while not self._leave.is_set():
            lines, more = attempt.next_lines()
            self._screen.lines(lines)
            over = self._attempts[-1] != attempt.number
            if not more and (over or self._over(attempt)):
                self._screen.lines(attempt.renderer.flush())
                return
            if not attempt.began and time.monotonic() > silent_until:
                silent_until = float("inf")
                self._screen.note(
                    "nothing is written of what the agent does; workers of before write nothing"
                )
            if self._ending is None:
                self._screen.stands(attempt.stands(self._task))

    def _over(self, attempt: "_Attempt") -> bool:
        if self._ending is None:
            return False
        return attempt.renderer.ended or not attempt.began or time.monotonic() > self._ending


class _Attempt:
    """The transcript of one attempt, as far as it was read."""

    def __init__(self, forward: RedisForward, task: Object, number: int) -> None:
        self._forward = forward
        keys = keys_of(task.get("status", {}))
        self._key = keys.task_transcript(str(task["metadata"]["uid"]), number)
        self._after = "0-0"
        self._reader = TranscriptReader()
        self.renderer = Renderer()
        self.number = number
        self.began = False

    def next_lines(self) -> tuple[list[Line], bool]:
        """The next lines, and whether there may be more at once; waits a moment for the first.

        Raises:
            CommandError: Redis does not let us, or has gone for good.
        """
        redis: Any = self._forward.redis
        words = ("COUNT", _AT_ONCE, "BLOCK", _TICK_MS, "STREAMS", self._key, self._after)
        try:
            # as bytes: one entry that is no UTF-8 would make the whole answer unreadable
            reply = redis.execute_command("XREAD", *words, NEVER_DECODE=True)
        except (RedisConnectionError, RedisTimeoutError):
            self._forward.reopen_patiently()
            return [], True
        except RedisError as error:
            raise CommandError(f"Redis, XREAD {self._key}: {error}") from None
        entries = reply[0][1] if reply else ()
        lines: list[Line] = []
        for identity, fields in entries:
            self._after, self.began = identity.decode(), True
            for event in self._reader.take(read_entry(fields or {})):
                lines += self.renderer.add(event)
        return lines, bool(entries)

    def stands(self, task: Object) -> str:
        """How things stand, in one line: phase, time, cost and tokens."""
        status = task.get("status", {})
        began = moment(status.get("startTime"))
        parts = [str(status.get("phase", "Pending"))]
        if began is not None:
            parts.append(seconds(max((datetime.now(UTC) - began).total_seconds(), 0.0)))
        before = (status.get("usage") or {}).get("costUSD")
        known = [cost for cost in (before, self.renderer.cost) if cost is not None]
        if known:
            parts.append(f"{money(sum(known))} USD")
        if any(self.renderer.tokens):
            read, written = self.renderer.tokens
            parts.append(f"{read:,} + {written:,} tokens")
        return " · ".join(parts)
