"""Where a transcript is in Redis, and its events in their order: no event twice, gaps said."""

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from orbiter.cli.kubectl.artifacts import keys_of, secret_access
from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.redis_forward import SHARED_SECRET, RedisForward
from orbiter.cli.kubectl.references import Found
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter_contracts.stream_names import read_stream_name
from orbiter_contracts.transcript import AnyEvent
from orbiter_contracts.transcript_reading import TranscriptReader, read_entry

SECRET: Final = "orbiter-transcript"  # noqa: S105 - the name of one
"""The readers' own Secret, which the operator puts into each namespace that has workers."""
OF_TASKS: Final = ((SECRET, "transcript-url"), (SHARED_SECRET, "developer-url"))
_OF_SESSIONS: Final = ((SECRET, "transcript-url"), (SHARED_SECRET, "po-url"))
"""Who may read transcripts: their readers; where the operator makes no users, the workers' own."""
_AT_ONCE: Final = 50


class TranscriptSource:
    """The transcript of one attempt of a task, or of a session.

    Args:
        kubectl: The cluster.
        found: The task or the session.
        attempt: Which attempt; None for the latest. A session has none.
        redis_url: Redis, instead of the cluster's.

    Attributes:
        attempt: Which attempt it is; 0 of a session.

    Raises:
        CommandError: The task has not begun.
    """

    def __init__(
        self,
        kubectl: Kubectl,
        found: Found,
        *,
        attempt: int | None = None,
        redis_url: str | None = None,
    ) -> None:
        status = found.object.get("status") or {}
        task = found.kind == "AgentTask"
        self._secrets = OF_TASKS if task else _OF_SESSIONS
        self.attempt = _attempt(found, status, attempt) if task else 0
        self.key = _task_key(found.object, status, self.attempt) if task else _session_key(found)
        self._opened = ExitStack()
        self._forward = RedisForward(kubectl, redis_url, self._access)
        self._entered = False
        self._reader = TranscriptReader()
        self._position = "-"

    def __enter__(self) -> Self:
        """Nothing is opened before something is read."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._opened.close()

    def new_events(self) -> Iterator[AnyEvent]:
        """The events that are there and have not been given yet; call it again for later ones.

        Raises:
            CommandError: Redis does not answer, or does not let us.
        """
        while True:
            entries = self._ask("XRANGE", self.key, self._position, "+", "COUNT", _AT_ONCE) or []
            for entry, fields in entries:
                self._position = f"({entry.decode()}"
                yield from self._reader.take(read_entry(fields or {}))
            if len(entries) < _AT_ONCE:
                return

    @property
    def exists(self) -> bool:
        """Whether there is a transcript, of which nothing may be left."""
        return bool(self._ask("EXISTS", self.key))

    def _ask(self, *command: str | int) -> Any:
        from redis.exceptions import RedisError

        if not self._entered:
            self._opened.enter_context(self._forward)
            self._entered = True
        try:
            # Whatever is in it, it is bytes until it is read.
            return self._forward.redis.execute_command(*command, NEVER_DECODE=True)  # type: ignore[no-untyped-call]
        except RedisError as error:
            raise CommandError(f"Redis does not say: {error}", ExitCode.UNREACHABLE) from None

    def _access(self, kubectl: Kubectl) -> tuple[str, str | None]:
        return secret_access(kubectl, self._secrets)


def _attempt(found: Found, status: dict[str, Any], wanted: int | None) -> int:
    begun = int(status.get("attempts") or 0)
    if wanted is None and not begun:
        phase = status.get("phase", "Pending")
        raise CommandError(
            f"task {found.name} has no transcript: it is {phase}, and no attempt has begun",
            ExitCode.NOT_FOUND,
        )
    return wanted or begun


def _task_key(task: Object, status: dict[str, Any], attempt: int) -> str:
    return keys_of(status).task_transcript(str(task["metadata"]["uid"]), attempt)


def _session_key(found: Found) -> str:
    stream = (found.object.get("status") or {}).get("inputStream")
    name = read_stream_name(stream) if isinstance(stream, str) else None
    if name is None or not name.worker_id:
        raise CommandError(
            f"session {found.name} has no transcript: the operator has not made its streams yet",
            ExitCode.NOT_FOUND,
        )
    return name.keys.po_transcript(name.worker_id)
