"""What Redis no longer has of a transcript, from the store, with the namespace's credentials."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from orbiter.cli.kubectl.artifact_store import Store
from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import Found
from orbiter_contracts import object_store
from orbiter_contracts.object_store import StoreAddress
from orbiter_contracts.stored_transcripts import MAX_PART_BYTES, MAX_PARTS, part_first, part_name
from orbiter_contracts.transcript import AnyEvent
from orbiter_contracts.transcript_parts import read_part
from orbiter_contracts.transcript_reading import TranscriptEntry, TranscriptReader

_MOST_LISTED: Final = 100_000
_NO_END: Final = float("inf")
Gap = tuple[float, float]
"""The first sequence that is missing, and the first behind it that is there."""


class Access(NamedTuple):
    """How the store is reached.

    Attributes:
        endpoint: Where it is from here, if that is somewhere else.
        secret: The Secret with its credentials; None for the usual one.
    """

    endpoint: str | None = None
    secret: str | None = None


def gaps(events: Sequence[AnyEvent]) -> list[Gap]:
    """What is missing of a transcript as a reader gives it; of one without events all of it."""
    if not events:
        return [(0, _NO_END)]
    return [
        (one.sequence, after.sequence)
        for one, after in pairwise(events)
        if one.type == "cut" and after.sequence == one.sequence + one.events
    ]


def filled(events: Sequence[AnyEvent], stored: Sequence[AnyEvent]) -> list[AnyEvent]:
    """The same with what the store has in the gaps; what is missing then is said by cuts."""
    missing = {first for first, _ in gaps(events)}
    known = {event.sequence: event for event in stored}
    for event in events:
        if event.sequence not in missing:
            known[event.sequence] = event
    return TranscriptReader().take(TranscriptEntry(tuple(known[at] for at in sorted(known))))


def whole(
    kubectl: Kubectl, found: Found, attempt: int, events: Sequence[AnyEvent], access: Access
) -> list[AnyEvent]:
    """A transcript with what the store has of it, where Redis has not all.

    Args:
        kubectl: The cluster.
        found: The task or the session.
        attempt: Which attempt of the task.
        events: What Redis has.
        access: How the store is reached.

    Raises:
        CommandError: The store does not give it.
    """
    wanted, address = gaps(events), _address(kubectl, found)
    if not wanted or address is None:
        return [*events]
    meta = found.object["metadata"]
    namespace, uid = str(meta["namespace"]), str(meta["uid"])
    head = address.transcript(namespace, "sessions", uid)
    if found.kind == "AgentTask":
        head = address.transcript(namespace, "tasks", uid, str(attempt))
    secret = access.secret or object_store.SECRET
    with Store(kubectl, address, secret, access.endpoint) as store:
        return filled(events, [*_stored(store, head, wanted)])


def _stored(store: Store, head: str, wanted: Sequence[Gap]) -> Iterator[AnyEvent]:
    """The events of the parts that may have something of the gaps, the latest `MAX_PARTS`."""
    listed = islice(store.names(f"{head}/"), _MOST_LISTED)
    parts = [(part_first(name.removeprefix(f"{head}/")), size) for name, size in listed]
    known = sorted((first, size) for first, size in parts if first is not None)
    latest = deque(pairwise([*known, (_NO_END, 0)]), maxlen=MAX_PARTS)
    left, chosen = MAX_PART_BYTES, list[int]()
    for (first, size), (after, _) in reversed(latest):
        if any(begin < after and first < end for begin, end in wanted):
            left -= size
            if left < 0:
                break
            chosen.append(int(first))
    for first in reversed(chosen):
        yield from read_part(store.read(f"{head}/{part_name(first)}"))


def _address(kubectl: Kubectl, found: Found) -> StoreAddress | None:
    """Where the store is: a task's status says it, of a session what its worker is told."""
    if found.kind == "AgentTask":
        status = found.object.get("status") or {}
        told = [(status.get(name) or {}).get("store") for name in ("transcript", "artifacts")]
        return next(filter(None, map(_read, told)), None)
    for deployment in kubectl.find(["deployments"], found.name):
        told_env = _environment(deployment)
        if object_store.TRANSCRIPT in told_env:
            names = {
                "endpoint": object_store.ENDPOINT,
                "bucket": object_store.BUCKET,
                "region": object_store.REGION,
                "prefix": object_store.PREFIX,
            }
            return _read({key: told_env[name] for key, name in names.items() if name in told_env})
    return None


def _environment(deployment: Object) -> dict[str, str]:
    pod: Any = deployment.get("spec", {}).get("template", {}).get("spec", {})
    return {
        item["name"]: item["value"]
        for container in pod.get("containers", ())
        if container.get("name") == "worker"
        for item in container.get("env", ())
        if "value" in item
    }


def _read(told: Any) -> StoreAddress | None:
    try:
        return StoreAddress.model_validate(told) if told else None
    except ValidationError:
        return None
