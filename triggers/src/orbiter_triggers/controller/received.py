"""What a trigger's reconciler has to do with events: what waits, and what becomes of that."""

from collections.abc import Iterable
from typing import Any

from orbiter_contracts.webhook_signatures import Hook
from orbiter_operator.kube.models import read_model
from orbiter_operator.kube.names import Key
from orbiter_triggers.controller.cache import TriggerCache
from orbiter_triggers.controller.events import Events
from orbiter_triggers.controller.hooks import Hooks
from orbiter_triggers.controller.observed import Arrival, Plan
from orbiter_triggers.events.filters import verdict
from orbiter_triggers.models import TriggerSpec
from orbiter_triggers.naming import digest_in, event_digest


class Received:
    """The events of all triggers, and the hooks that they come in by.

    Args:
        cache: The triggers and their tasks.
        events: Their events.
        hooks: Where the addresses are published.
    """

    def __init__(self, cache: TriggerCache, events: Events, hooks: Hooks) -> None:
        self._cache = cache
        self._events = events
        self._hooks = hooks

    async def observe(self, key: Key, uid: str, spec: TriggerSpec) -> dict[str, Any]:
        """What waits for a trigger, as fields of `Observed`; its address is published before.

        Raises:
            ApiError: The API server refused.
            RedisError: Redis did not answer.
        """
        await self._hooks.publish(key.namespace)
        scheme = spec.source.scheme
        if scheme is None:
            await self._events.dismiss(key, uid)
            return {"received": True}
        self._events.serve(key.namespace)
        waiting = await self._events.waiting(key.namespace, uid)
        verdicts = [verdict(event, spec) for _, event, _ in waiting]
        digests = [event_digest(uid, one.key) for one in verdicts]
        remembered = await self._events.remembered(key.namespace, uid, digests)
        arrivals = tuple(
            Arrival(
                entry=entry,
                event=event,
                key=found.key,
                why=found.why,
                remembered=known if found.key else "",
                parked=parked,
            )
            for (entry, event, parked), found, known in zip(
                waiting, verdicts, remembered, strict=True
            )
        )
        return {
            "received": True,
            "webhook_path": Hook(key.namespace, key.name, scheme, uid).path,
            "arrivals": arrivals,
            "waiting": self._events.pending.waiting(uid),
        }

    async def carry_out(self, key: Key, uid: str, plan: Plan) -> bool:
        """Settle and park what was decided about. Returns whether there is more to look at now.

        Raises:
            RedisError: Redis did not answer.
        """
        await self._events.settle(key, uid, plan.settled)
        pending = self._events.pending
        for entry in plan.parked:
            pending.park(uid, entry)
        decided = bool(plan.settled or plan.parked)
        return decided and (pending.has_fresh(uid) or bool(pending.waiting(uid)))

    async def forget(self, key: Key, uid: str) -> None:
        """A trigger was deleted.

        Raises:
            ApiError: The API server refused.
            RedisError: Redis did not answer.
        """
        await self._events.dismiss(key, uid)
        await self._hooks.publish(key.namespace)

    async def remember(self) -> None:
        """What made the tasks that are there is remembered for as long again.

        Raises:
            RedisError: Redis did not answer.
        """
        for key in self._cache:
            obj = self._cache.get(key)
            if obj is None or scheme_of(obj) is None:
                continue
            uid = obj["metadata"]["uid"]
            made = [
                (digest, f"{task.event} {task.name}")
                for task in self._cache.tasks_of(key, uid)
                if task.event and (digest := digest_in(task.name))
            ]
            await self._events.remember(key.namespace, uid, made)


def scheme_of(obj: dict[str, Any]) -> str | None:
    """How the events of an AgentTrigger come in; None for one that has none."""
    spec, error = read_model(TriggerSpec, obj.get("spec"))
    return spec.source.scheme if error is None else None


def hooks_in(cache: TriggerCache, namespace: str) -> Iterable[Hook]:
    """The hooks of a namespace, of triggers that can be read."""
    for key in cache:
        obj = cache.get(key)
        if key.namespace != namespace or obj is None:
            continue
        spec, error = read_model(TriggerSpec, obj.get("spec"))
        if error is None and spec.source.scheme is not None:
            yield Hook(key.namespace, key.name, spec.source.scheme, obj["metadata"]["uid"])


def uid_with_events(cache: TriggerCache, key: Key) -> str | None:
    """The uid of a trigger whose events are read; None when there is none."""
    obj = cache.get(key)
    if obj is None or obj["metadata"].get("deletionTimestamp") or scheme_of(obj) is None:
        return None
    return str(obj["metadata"]["uid"])
