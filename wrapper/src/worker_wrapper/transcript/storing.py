"""Stores the transcript's parts, beside whatever the worker does: no outcome waits for it long.

What cannot be stored is a warning, and the end of it is in Redis all the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from orbiter_contracts.stored_transcripts import TranscriptReport, part_name
from orbiter_contracts.transcript import AnyEvent
from worker_wrapper.artifacts.store import ObjectStore, StoreError
from worker_wrapper.logging import Log
from worker_wrapper.transcript.parts import Part, Parts

STORE_SECONDS: Final = 30.0
"""How long it is tried to store a part."""
LEAVING_SECONDS: Final = 2.0
"""How long once we are asked to leave."""
REPORT_SECONDS: Final = 1.0
"""How long an outcome waits to say what became of it."""
_WHOLE_BYTES: Final = 4 * 1024 * 1024
"""A part so small is stored with one request."""


class TranscriptStore:
    """Of one attempt, or of a session.

    Args:
        parts: What there is to store.
        store: Where to.
        head: How the names of the objects begin.
        log: Told what was stored.
    """

    def __init__(self, parts: Parts, store: ObjectStore, head: str, log: Log) -> None:
        self._parts = parts
        self._store = store
        self._head = head
        self._log = log
        self._storing: asyncio.Task[None] | None = None
        self._events = self._bytes = 0
        self._problem: tuple[str, str] | None = None

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Add events that Redis has."""
        self._parts.add(events)

    def begin(self) -> None:
        """Store what there is; while an earlier part is being stored, it goes with the next one."""
        if self._storing is not None and not self._storing.done():
            return
        try:
            part = self._parts.take()
        except OSError as error:
            self._fail("Unreadable", f"it could not be written down: {error.strerror or error}")
            return
        if part is not None:
            self._storing = asyncio.create_task(self._put(part))

    async def report(self, seconds: float = REPORT_SECONDS) -> TranscriptReport | None:
        """What became of it, within so many seconds; None when there was nothing."""
        late = await self._wait(seconds)
        if self._storing is None and self._problem is None:
            return None
        reason, why = self._problem or ("Stored", "")
        if late and not self._problem:
            reason, why = "Late", f"the store had not taken it {seconds:g} s after its end"
        return TranscriptReport(
            reason=reason,
            message=why,
            events=self._events,
            size_bytes=self._bytes,
            store=self._store.address,
        )

    def problem(self) -> str | None:
        """What could not be stored since this was asked last, in words."""
        found, self._problem = self._problem, None
        return found[1] if found else None

    async def close(self, *, leaving: bool) -> None:
        """Store what is left, but not for long, the less when we were asked to leave."""
        seconds = LEAVING_SECONDS if leaving else STORE_SECONDS
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        late = await self._wait(seconds)
        if not late:
            self.begin()
            late = await self._wait(max(until - clock(), 0.0))
        if late and self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)
            self._log.warning("transcript_not_stored", reason="Late", seconds=seconds)

    async def _wait(self, seconds: float) -> bool:
        """Wait so long for what is being stored; whether it is not done."""
        if self._storing is None:
            return False
        _, late = await asyncio.wait({self._storing}, timeout=seconds)
        return bool(late)

    async def _put(self, part: Part) -> None:
        name = f"{self._head}/{part_name(part.first)}"
        try:
            async with asyncio.timeout(STORE_SECONDS):
                data = b"".join(part.chunks()) if part.size <= _WHOLE_BYTES else part.chunks()
                await self._store.put(name, data)
        except StoreError as error:
            self._fail(error.reason, str(error))
        except TimeoutError:
            self._fail("TimedOut", f"the store has not taken it within {STORE_SECONDS:g} s")
        except OSError as error:
            self._fail("Unreadable", f"it could not be read: {error.strerror or error}")
        except Exception as error:
            # A mistake of ours, or of a library: it must not cost an outcome.
            self._log.exception("transcript_store_failed")
            self._fail("Failed", f"it was not stored: {type(error).__name__}")
        else:
            self._events += part.events
            self._bytes += part.size
            self._log.info("transcript_stored", events=part.events, bytes=part.size)
        finally:
            part.file.close()

    def _fail(self, reason: str, why: str) -> None:
        self._problem = reason, why
        self._log.warning("transcript_not_stored", reason=reason, why=why)
