"""What Redis has of a task: the files of its attempts, and what its agent said and did.

Whatever it answers is bounded by the connection, and read by the total functions of contracts.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from orbiter.client.contract import Ask, RedisApi
from orbiter.client.errors import ClientError
from orbiter.client.models import KeptFile, KeptFiles
from orbiter.client.objects import Object, attempts_of, count_of, part_of

if TYPE_CHECKING:
    from orbiter_contracts.artifacts import Artifacts
    from orbiter_contracts.queues import Keys
    from orbiter_contracts.transcript import AnyEvent

MOST_BYTES: Final = 1024 * 1024
"""All that Redis keeps of an attempt's files."""
MOST_EVENTS: Final = 20_000
_AT_ONCE: Final = 4
"""Entries of a transcript in one reply."""
_SHARED: Final = "orbiter-redis"
OUTPUTS: Final = (("orbiter-producer", "producer-url"), (_SHARED, "developer-url"))
"""Who may read what came of tasks: producers; where there are no users, the workers' own."""
TRANSCRIPTS: Final = (("orbiter-transcript", "transcript-url"), (_SHARED, "developer-url"))


async def kept_files(redis: RedisApi, task: Object, attempt: int | None) -> KeptFiles:
    """Return the index of an attempt's files; see `TaskClient.artifacts`."""
    number = _kept_attempt(task, attempt)
    async with redis.open(_space(task), OUTPUTS) as ask:
        index = await _index(ask, task, number)
    files = [
        KeptFile(name=each.name, size_bytes=each.size_bytes, sha256=each.sha256, place=each.place)
        for each in index.files
    ]
    return KeptFiles(attempt=number, files=files, store=index.store.shown if index.store else "")


async def read_kept(
    redis: RedisApi, task: Object, file: str, attempt: int | None, most: int
) -> bytes:
    """Return a file's bytes; see `TaskClient.artifact`."""
    number = _kept_attempt(task, attempt)
    async with redis.open(_space(task), OUTPUTS) as ask:
        index = await _index(ask, task, number)
        found = next((each for each in index.files if each.name == file), None)
        if found is None:
            raise ClientError(
                "not_found",
                f"attempt {number} of task {_name(task)} has kept no file {file[:200]!r}",
            )
        if found.place == "store":
            raise ClientError(
                "no_artifacts", f"{file[:200]!r} is in the object store: {_fetched(task)}"
            )
        if found.size_bytes > min(most, MOST_BYTES):
            raise ClientError(
                "too_large",
                f"{file[:200]!r} has more than {most} bytes ({found.size_bytes}): {_fetched(task)}",
            )
        data = await ask("HGET", _keys(task).task_artifacts(_uid(task), number), found.key)
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != found.sha256:
        raise ClientError("no_artifacts", f"{file[:200]!r}: its bytes are not those that were kept")
    return data


async def read_transcript(
    redis: RedisApi, task: Object, attempt: int | None
) -> "Sequence[AnyEvent]":
    """Return the events of an attempt; see `TaskClient.transcript`."""
    from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

    number = attempt or attempts_of(task)
    if not number:
        raise ClientError("no_transcripts", f"task {_name(task)}: no attempt has begun")
    key, reader = _keys(task).task_transcript(_uid(task), number), TranscriptReader()
    events: list[AnyEvent] = []
    position = "-"
    async with redis.open(_space(task), TRANSCRIPTS) as ask:
        for _ in range(MOST_EVENTS // _AT_ONCE):
            entries = await ask("XRANGE", key, position, "+", "COUNT", _AT_ONCE) or []
            for entry, fields in entries:
                position = f"({entry.decode()}"
                events += reader.take(read_entry(_pairs(fields)))
            if len(entries) < _AT_ONCE or len(events) >= MOST_EVENTS:
                break
    return events


async def _index(ask: Ask, task: Object, attempt: int) -> "Artifacts":
    from orbiter_contracts.artifact_scripts import read_index
    from orbiter_contracts.artifacts import INDEX

    index = read_index(await ask("HGET", _keys(task).task_artifacts(_uid(task), attempt), INDEX))
    if index is None:
        raise ClientError(
            "not_found", f"nothing is kept of attempt {attempt} of task {_name(task)} in Redis, or "
            "no longer: it forgets after artifacts.retentionDays of the chart",
        )  # fmt: skip
    return index


def _kept_attempt(task: Object, attempt: int | None) -> int:
    kept = part_of(part_of(task, "status"), "artifacts")
    if attempt is None and not kept:
        if not part_of(task, "spec").get("artifacts"):
            why = "its spec.artifacts names none"
        else:
            phase = part_of(task, "status").get("phase") or "Pending"
            why = f"it is {phase}, and they are kept when an attempt ends"
        raise ClientError("not_found", f"task {_name(task)} has no artifacts: {why}")
    return attempt or count_of(kept.get("attempt")) or 1


def _keys(task: Object) -> "Keys":
    """Return the keys of the task's namespace, as the names of its streams have them."""
    from orbiter_contracts.queues import BARE
    from orbiter_contracts.stream_names import keys_with

    keys = keys_with(str(part_of(task, "status").get("inputStream") or BARE.developer_input))
    if keys.namespace not in ("", _space(task)):
        raise ClientError("not_found", f"task {_name(task)} names the streams of another namespace")
    return keys


def _pairs(fields: Any) -> dict[Any, Any]:
    """Return an entry's fields, which protocol 2 has as names and values in turn."""
    if isinstance(fields, dict):
        return fields
    flat = fields if isinstance(fields, list) else []
    return dict(zip(flat[::2], flat[1::2], strict=False))


def _fetched(task: Object) -> str:
    return f"`kubectl orbiter artifacts {_name(task)} --fetch DIRECTORY` fetches it"


def _uid(task: Object) -> str:
    return str(task["metadata"]["uid"])


def _name(task: Object) -> str:
    return str(task["metadata"]["name"])


def _space(task: Object) -> str:
    return str(task["metadata"]["namespace"])
