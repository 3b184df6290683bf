"""`kubectl orbiter artifacts`: what was kept of a task's workspace, and its files."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import ValidationError

from orbiter.cli.kubectl import artifact_files
from orbiter.cli.kubectl.artifact_store import Store
from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.redis_forward import SHARED_SECRET, RedisForward
from orbiter.cli.kubectl.references import Found, resolve
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import one_line
from orbiter.client.objects import FINAL
from orbiter_contracts.artifact_scripts import read_index
from orbiter_contracts.artifacts import INDEX, MAX_INDEX_BYTES, Artifact, Artifacts
from orbiter_contracts.object_store import SECRET, StoreAddress
from orbiter_contracts.queues import BARE, Keys
from orbiter_contracts.stream_names import keys_with

_SECRETS: Final = (("orbiter-producer", "producer-url"), (SHARED_SECRET, "developer-url"))
"""Whose user may read what came of tasks: that of producers; else, that of everything."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for.

    Attributes:
        attempt: Of which attempt; None for the latest that kept something.
        fetch: The directory to write the files to; None to list them.
        redis_url: Redis, instead of the cluster's.
        endpoint: The store as it is reached from here.
        store_secret: The Secret with the store's credentials.
    """

    attempt: int | None
    fetch: str | None
    redis_url: str | None
    endpoint: str | None
    store_secret: str | None


def run_artifacts(kubectl: Kubectl, name: str, wanted: Wanted, *, as_json: bool) -> int:
    """List what was kept, or write it to a directory."""
    found = resolve(kubectl, name, ("AgentTask",))
    with ExitStack() as opened:
        place = _Place(kubectl, found, wanted, opened)
        index = place.index()
        if wanted.fetch is None:
            typer.echo(_as_json(place, index)) if as_json else say(_table(place, index))
            return ExitCode.OK
        return _fetch(place, index, Path(wanted.fetch))


class _Place:
    """Where the artifacts of one attempt are."""

    def __init__(self, kubectl: Kubectl, found: Found, wanted: Wanted, opened: ExitStack) -> None:
        status = found.object.get("status", {})
        kept = status.get("artifacts") or {}
        if wanted.attempt is None and not kept:
            raise _nothing(found)
        self.name = found.name
        self.attempt = wanted.attempt or int(kept.get("attempt", 1))
        self._kubectl, self._wanted, self._opened = kubectl, wanted, opened
        self._uid = str(found.object["metadata"]["uid"])
        self._namespace = str(found.object["metadata"]["namespace"])
        self._address = _address(kept.get("store"))
        self._key = keys_of(status).task_artifacts(self._uid, self.attempt)
        self._redis: RedisForward | None = None
        self._store: Store | None = None

    def index(self) -> Artifacts:
        """What there is: as Redis says, and when that has forgotten it, the store.

        Raises:
            CommandError: Nobody knows.
        """
        index = read_index(self._field(INDEX))
        if index is None and self._address is not None:
            index = read_index(_some(self._object(f"{INDEX}.json"), MAX_INDEX_BYTES))
        if index is None:
            raise CommandError(
                f"nothing is kept of attempt {self.attempt} of task {self.name}, or no longer: "
                "Redis forgets after artifacts.retentionDays of the chart",
                ExitCode.NOT_FOUND,
            )
        self._address = index.store or self._address
        return index

    def read(self, file: Artifact) -> Iterator[bytes]:
        """The bytes of a file."""
        if file.place == "store":
            yield from self._object(file.key)
        elif data := self._field(file.key):
            yield data

    def _field(self, name: str) -> bytes | None:
        from redis.exceptions import RedisError

        if self._redis is None:
            forward = RedisForward(self._kubectl, self._wanted.redis_url, outputs_access)
            self._redis = self._opened.enter_context(forward)
        try:
            value: bytes | None = self._redis.redis.execute_command(  # type: ignore[no-untyped-call]
                "HGET", self._key, name, NEVER_DECODE=True
            )
        except RedisError as error:
            raise CommandError(f"Redis does not say: {error}", ExitCode.UNREACHABLE) from None
        return value

    def _object(self, key: str) -> Iterator[bytes]:
        if self._address is None:
            raise CommandError(f"task {self.name} does not say which store has {key}")
        if self._store is None:
            secret, endpoint = self._wanted.store_secret or SECRET, self._wanted.endpoint
            store = Store(self._kubectl, self._address, secret, endpoint)
            self._store = self._opened.enter_context(store)
        head = self._address.attempt(self._namespace, self._uid, self.attempt)
        return self._store.read(f"{head}/{key}")


def _fetch(place: _Place, index: Artifacts, directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{directory}: {error.strerror}", ExitCode.USAGE) from None
    failed = 0
    for file in index.files:
        try:
            artifact_files.write(directory, file, place.read(file))
        except (artifact_files.NotWrittenError, CommandError) as error:
            failed += 1
            say(f"{one_line(file.name)} was not fetched: {error}", err=True)
        else:
            say(str(directory / file.name))
    if failed:
        say(f"{failed} of {len(index.files)} files were not fetched", err=True)
    return ExitCode.FAILED if failed else ExitCode.OK


def _table(place: _Place, index: Artifacts) -> str:
    if not index.files:
        return f"attempt {place.attempt} of task {place.name} has kept no files"
    wide = max(len(_size(file.size_bytes)) for file in index.files)
    lines = [
        f"{_size(file.size_bytes):>{wide}}  {file.place:<5}  {file.name}" for file in index.files
    ]
    total = _size(sum(file.size_bytes for file in index.files))
    where = f", {index.store.shown}" if index.store else ""
    head = f"attempt {place.attempt} of task {place.name}: {len(index.files)} files, {total}{where}"
    return "\n".join((head, *lines))


def _as_json(place: _Place, index: Artifacts) -> str:
    told: dict[str, Any] = {"task": place.name, "attempt": place.attempt}
    return json.dumps(told | index.model_dump(mode="json", exclude_none=True))


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _some(chunks: Iterator[bytes], most: int) -> bytes:
    data = b""
    for chunk in chunks:
        data += chunk
        if len(data) > most:
            break
    return data


def _address(told: Any) -> StoreAddress | None:
    try:
        return StoreAddress.model_validate(told) if told else None
    except ValidationError:
        return None


def keys_of(status: dict[str, Any]) -> Keys:
    """The keys of the task's namespace, as the names of its streams have them."""
    return keys_with(str(status.get("inputStream") or BARE.developer_input))


def _nothing(found: Found) -> CommandError:
    """Why a status tells of none: nothing was asked for, it is too early, or no worker told."""
    status = found.object.get("status", {})
    phase = status.get("phase", "Pending")
    if not found.object["spec"].get("artifacts"):
        why = "its spec.artifacts names none"
    elif phase not in FINAL:
        why = f"it is {phase}, and a worker keeps them when its attempt ends"
    else:
        reason = f" ({status['reason']})" if status.get("reason") else ""
        why = f"it is {phase}{reason}, and no worker was there at its end to keep them"
        if status.get("checkpoint") and phase != "Completed":
            why += (
                "; its checkpoint has what it had written: "
                f"kubectl orbiter retry {found.name} --resume goes on from there"
            )
    return CommandError(f"task {found.name} has no artifacts: {why}", ExitCode.NOT_FOUND)


def outputs_access(kubectl: Kubectl) -> tuple[str, str | None]:
    """The URL of a user who may read what came of tasks, and the certificate of its CA if any.

    Raises:
        CommandError: There is none, or no right to read it.
    """
    return secret_access(kubectl, _SECRETS)


def secret_access(kubectl: Kubectl, secrets: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    """The URL in the first of these Secrets that is there, and the certificate of its CA if any.

    Args:
        kubectl: The cluster.
        secrets: Their names, each with the key of the URL.

    Raises:
        CommandError: There is none, or no right to read it.
    """
    for secret, key in secrets:
        jsonpath = f"jsonpath={{.data.{key}}}{{'|'}}{{.data.ca\\.crt}}"
        words = ("get", "secret", secret, "--ignore-not-found", "-o", jsonpath)
        url, _, ca = kubectl.run(*words).strip().partition("|")
        if url:
            texts = [base64.b64decode(text).decode().strip() for text in (url, ca)]
            return texts[0], texts[1] or None
    names = " or ".join(secret for secret, _ in secrets)
    raise CommandError(
        f"there is no Secret {names} in namespace {kubectl.namespace()}: give a URL with "
        "--redis-url or ORBITER_REDIS_URL",
        ExitCode.UNREACHABLE,
    )
