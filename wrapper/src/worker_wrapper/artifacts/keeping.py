"""Keeps the artifacts of an attempt, after its agent has ended and before its outcome is told.

With a store all of them go there. Small ones that it does not take, or where there is none, go into
Redis. Nothing here changes what came of the attempt: what could not be kept is said in the report,
and there is a time after which no more is tried.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from redis.exceptions import ResponseError

from orbiter_contracts import ArtifactsReport
from orbiter_contracts.artifacts import (
    INDEX,
    MAX_ARTIFACT_BYTES,
    MAX_ARTIFACTS_BYTES,
    MAX_REDIS_BYTES,
    SHOWN_NAMES,
    Artifact,
    Artifacts,
)
from orbiter_contracts.bounds import one_line
from worker_wrapper.artifacts.selecting import Selection, select
from worker_wrapper.artifacts.store import ObjectStore, StoreError
from worker_wrapper.logging import Log
from worker_wrapper.process import below
from worker_wrapper.queue.artifacts import ArtifactRecord
from worker_wrapper.queue.connection import RedisUnavailableError

KEEP_SECONDS: Final = 300.0
"""How long all of it may take."""
HURRY_SECONDS: Final = 3.0
"""How long once we are asked to leave: the outcome has to be told in what is left."""
INDEX_SECONDS: Final = 10.0
_CHUNK: Final = 1024 * 1024
_SHOWN_CHARACTERS: Final = 100
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class _TooLargeError(OSError):
    """A file is larger than is taken."""


@dataclass(slots=True)
class _Kept:
    """What was kept so far, and what was not."""

    files: list[Artifact] = field(default_factory=list)
    small: dict[str, bytes] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def problem(self, reason: str, sentence: str) -> None:
        self.problems.append((reason, sentence))

    @property
    def size(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def small_size(self) -> int:
        return sum(map(len, self.small.values()))


class Keeper:
    """Keeps the artifacts of one attempt.

    Args:
        root: The workspace.
        record: Where in Redis; None for a task that has no record there.
        store: The store and how names begin there, if there is one.
        hurry: Set when we are asked to leave.
        clock: Tells the time.
        log: Told what was kept.
        seconds: How long it may take.
    """

    def __init__(
        self,
        root: Path,
        record: ArtifactRecord | None,
        store: tuple[ObjectStore, str] | None,
        *,
        hurry: asyncio.Event,
        clock: Callable[[], datetime],
        log: Log,
        seconds: float = KEEP_SECONDS,
    ) -> None:
        self._root = root
        self._record = record
        self._store = store
        self._address = store[0].address if store else None
        self._hurry = hurry
        self._clock = clock
        self._log = log
        self._until = time.monotonic() + seconds
        self._kept = _Kept()

    async def keep(self, patterns: Sequence[str]) -> ArtifactsReport:
        """Keep what the patterns mean; total: whatever goes wrong is in the report."""
        try:
            await self._keep(patterns)
        except Exception as error:
            # A mistake of ours, or of a library: it must not cost the task its outcome.
            self._log.exception("artifacts_failed")
            self._kept.problem("Failed", f"artifacts were not kept: {type(error).__name__}")
            self._kept.files = []
        report = self._report()
        self._log.info(
            "artifacts", kept=report.count, bytes=report.size_bytes, reason=report.reason
        )
        return report

    async def _keep(self, patterns: Sequence[str]) -> None:
        if self._record is None:
            text = "only tasks that the operator has begun have a place for artifacts"
            self._kept.problem("NoRecord", text)
            return
        if not await self._in_time(self._gather(patterns)):
            self._kept.problem("TimedOut", "it took too long: what was kept until then is there")
        if self._kept.files:
            await self._write_index(self._record)

    async def _gather(self, patterns: Sequence[str]) -> None:
        found = await asyncio.to_thread(select, self._root, patterns, until=self._until)
        self._say(found)
        for name in found.names:
            try:
                await self._file(name)
            except _TooLargeError as error:
                self._kept.problem("TooLarge", f"{name!a} {error}")
            except OSError as error:
                why = error.strerror or str(error)
                self._kept.problem("Unreadable", f"{name!a} cannot be read: {why}")

    def _say(self, found: Selection) -> None:
        for sentence in found.left_out:
            self._kept.problem("LeftOut", sentence)
        if found.unmatched:
            named = ", ".join(ascii(one) for one in found.unmatched)
            self._kept.problem("NothingFound", f"nothing matches {named}")

    async def _file(self, name: str) -> None:
        """Keep one file, in the store or in Redis.

        Raises:
            OSError: It cannot be read, or is too large.
        """
        with await asyncio.to_thread(below.opened, self._root, tuple(name.split("/"))) as file:
            data = await asyncio.to_thread(file.read, MAX_REDIS_BYTES + 1)
            small = len(data) <= MAX_REDIS_BYTES
            if self._store is not None:
                try:
                    await self._put(*self._store, name, data, None if small else file)
                except StoreError as error:
                    # Not asked again: each file would wait as long for the same answer.
                    self._store = None
                    self._kept.problem(error.reason, str(error))
                else:
                    return
            self._hold(name, data)

    async def _put(
        self, store: ObjectStore, head: str, name: str, data: bytes, rest: IO[bytes] | None
    ) -> None:
        key = self._key(name)
        left = min(MAX_ARTIFACT_BYTES, MAX_ARTIFACTS_BYTES - self._kept.size)
        if rest is None:
            if len(data) > left:
                raise _TooLargeError(f"and those before it have more than {MAX_ARTIFACTS_BYTES} B")
            await store.put(f"{head}/{key}", data)
            self._add(name, key, len(data), sha256(data).hexdigest(), in_store=True)
            return
        body = _Body(data, rest, left)
        if body.size > left:
            raise _TooLargeError(f"is larger than the {left} bytes that are kept")
        await store.put(f"{head}/{key}", iter(body))
        self._add(name, key, body.read, body.sum.hexdigest(), in_store=True)

    def _hold(self, name: str, data: bytes) -> None:
        if self._kept.small_size + len(data) > MAX_REDIS_BYTES:
            why = f"does not fit into the {MAX_REDIS_BYTES} bytes that are kept without a store"
            raise _TooLargeError(why)
        key = self._key(name)
        self._kept.small[key] = data
        self._add(name, key, len(data), sha256(data).hexdigest(), in_store=False)

    def _add(self, name: str, key: str, size: int, digest: str, *, in_store: bool) -> None:
        place = "store" if in_store else "redis"
        self._kept.files.append(
            Artifact.model_validate(
                {"name": name, "key": key, "size_bytes": size, "sha256": digest, "place": place}
            )
        )

    def _key(self, name: str) -> str:
        base = _UNSAFE.sub("_", name.rpartition("/")[2])[:_SHOWN_CHARACTERS]
        return f"{len(self._kept.files):04d}-{base}"

    async def _write_index(self, record: ArtifactRecord) -> None:
        """Say in Redis, and in the store for when Redis has forgotten it, what there is."""
        stored = [file for file in self._kept.files if file.place == "store"]
        address = self._address if stored else None
        index = Artifacts(time=self._clock(), files=self._kept.files, store=address)
        text = index.model_dump_json().encode()
        if self._store is not None and stored:
            store, head = self._store
            self._until = time.monotonic() + INDEX_SECONDS
            try:
                if not await self._in_time(store.put(f"{head}/{INDEX}.json", text)):
                    self._kept.problem("TimedOut", "the store has no index of them")
            except StoreError as error:
                self._kept.problem(error.reason, f"the store has no index of them: {error}")
        try:
            result = await record.keep({INDEX: text, **self._kept.small})
        except (RedisUnavailableError, ResponseError) as error:
            self._log.warning("artifacts_not_written", error=str(error))
            self._kept.problem("RedisRefused", "Redis has not taken them: its quota may be used up")
            self._kept.files = stored
            return
        if result != "kept":
            self._kept.files = []
            self._kept.problem("Superseded", "the attempt was answered by another worker")

    async def _in_time(self, work: Awaitable[None]) -> bool:
        """Wait for it, but no longer than there is time; whether it was done."""
        doing = asyncio.ensure_future(work)
        asked = asyncio.create_task(self._hurry.wait())
        try:
            left = max(self._until - time.monotonic(), 0.0)
            await asyncio.wait({doing, asked}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done() and asked.done():
                await asyncio.wait({doing}, timeout=min(HURRY_SECONDS, left))
            if not doing.done():
                return False
            await doing
            return True
        finally:
            for task in (doing, asked):
                task.cancel()
            await asyncio.gather(doing, asked, return_exceptions=True)

    def _report(self) -> ArtifactsReport:
        kept = self._kept
        names = [one_line(file.name, _SHOWN_CHARACTERS) for file in kept.files[:SHOWN_NAMES]]
        in_store = any(file.place == "store" for file in kept.files)
        reason = kept.problems[0][0] if kept.problems else "Kept"
        return ArtifactsReport(
            reason=reason,
            message="; ".join(dict.fromkeys(sentence for _, sentence in kept.problems[:5])),
            count=len(kept.files),
            size_bytes=kept.size,
            names=names,
            store=self._address if in_store else None,
        )


class _Body:
    """A file as it is sent: its parts, and what they come to; never more than was allowed."""

    def __init__(self, begun: bytes, rest: IO[bytes], limit: int) -> None:
        self._begun = begun
        self._rest = rest
        self._limit = limit
        self.size = _size(rest)
        self.read = 0
        self.sum = sha256()

    def __iter__(self) -> Iterator[bytes]:
        chunk = self._begun
        while chunk:
            self.read += len(chunk)
            if self.read > self._limit:
                raise _TooLargeError(f"has grown beyond {self._limit} bytes")
            self.sum.update(chunk)
            yield chunk
            chunk = self._rest.read(_CHUNK)


def _size(file: IO[bytes]) -> int:
    at = file.tell()
    size = file.seek(0, 2)
    file.seek(at)
    return size
