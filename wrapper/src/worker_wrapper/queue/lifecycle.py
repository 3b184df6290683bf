"""What a worker tells about itself: started, ready, busy, completed, failed, stopped.

`completed` and `failed` are published together with the output (claims.py), others on their own.
Nobody depends on them: losing one costs latency and never correctness.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from orbiter_contracts import (
    LifecycleEventName,
    OutputStatus,
    WorkerLifecycleEvent,
    encode,
)
from worker_wrapper.queue.connection import TRIES, RedisConnection

if TYPE_CHECKING:
    from worker_wrapper.queue.changes import RecordArguments

Details = Mapping[str, str]
"""What an event says beyond its name: request_id, session_id, task, status."""
_NOTHING: Details = MappingProxyType({})


def event_for(status: OutputStatus) -> LifecycleEventName:
    """The lifecycle event that goes with an output."""
    return "completed" if status in ("success", "input_required") else "failed"


class Lifecycle:
    """Publishes this worker's lifecycle; `routing` fields go with every event."""

    def __init__(
        self,
        redis: RedisConnection,
        worker_id: str,
        *,
        stream: str,
        clock: Callable[[], datetime],
        routing: Mapping[str, str],
        state_key: str | None = None,
    ) -> None:
        self._redis = redis
        self._worker_id = worker_id
        self._stream = stream
        self._clock = clock
        self._routing = dict(routing)
        self._state_key = state_key

    def event(self, name: LifecycleEventName, details: Details = _NOTHING) -> WorkerLifecycleEvent:
        """Make an event of now."""
        return WorkerLifecycleEvent(
            worker_id=self._worker_id, event=name, timestamp=self._clock(), details=dict(details)
        )

    async def publish(
        self, name: LifecycleEventName, details: Details = _NOTHING, *, tries: int = TRIES
    ) -> None:
        """Publish an event that stands for itself, and for a PO what it means for its state."""
        if self._state_key is not None:
            from worker_wrapper.queue.session_state import moved

            await self.publish_with_state(name, moved(name, self._clock()), details, tries=tries)
            return
        fields = encode(self.event(name, details), **self._routing)
        flat = [text for pair in fields.items() for text in pair]
        await self._redis.call("XADD", self._stream, "*", *flat, tries=tries)

    async def publish_with_state(
        self,
        name: LifecycleEventName,
        changes: Mapping[str, str],
        details: Details = _NOTHING,
        *,
        record: "tuple[str, RecordArguments] | None" = None,
        tries: int = TRIES,
    ) -> None:
        """Publish an event of a PO with changes of its state, in one step.

        Args:
            name: The event.
            changes: See changes.py; none that add.
            details: What the event says beyond its name.
            record: Key of a session record to write as well, and how.
            tries: After how many failures in a row to give up.
        """
        from orbiter_contracts.worker_scripts import TELL
        from worker_wrapper.queue.changes import flat

        key, rewritten = record or ("", (0, b"", "", ""))
        await self._redis.run(
            TELL,
            (self._stream, self._state_key or "", *((key,) if key else ())),
            *(self.event(name, details).model_dump_json(), *rewritten),
            *flat(changes),
            tries=tries,
        )
