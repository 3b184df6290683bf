"""What tests about sessions say: apply one, send it messages, wait for its phase or its answers."""

import time
from typing import Any

from redis.asyncio import Redis
from support.eventually import eventually
from support.fake_api import FakeApi, Object

from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import BARE, Keys

NAMESPACE = "team"


class Talks:
    """The sessions of one fake cluster; `under` are the keys they are expected at."""

    def __init__(self, api: FakeApi, redis: Redis, under: Keys = BARE) -> None:
        self.api = api
        self.redis = redis
        self.under = under
        self._users = 0
        self.sent_at: dict[str, float] = {}

    def apply(
        self,
        name: str,
        created: str | None = None,
        metadata: Object | None = None,
        **spec: Any,
    ) -> Object:
        """What `kubectl apply` does with a POSession: for a user of its own, quick to sleep."""
        self._users += 1
        meta: Object = (metadata or {}) | {"name": name, "namespace": NAMESPACE}
        if created:
            meta["creationTimestamp"] = created
        defaults = {
            "userId": self._users,
            "agent": {"type": "claude"},
            "idle": {"scaleToZeroAfterSeconds": 0},
        }
        return self.api.put("posessions", {"metadata": meta, "spec": defaults | spec})

    def change(self, name: str, **spec: Any) -> None:
        """What `kubectl patch` does."""
        self.api.patch("posessions", NAMESPACE, name, {"spec": spec})

    def delete(self, name: str) -> None:
        """What `kubectl delete` does."""
        self.api.remove("posessions", NAMESPACE, name)

    async def send(self, name: str, prompt: str = "hello") -> str:
        """Send a message; returns its request id."""
        message = POWorkerInput(user_id=1, prompt=prompt)
        self.sent_at[message.request_id] = time.perf_counter()
        await self.redis.xadd(self.under.po_input(worker_id(name)), encode(message))
        return message.request_id

    async def answers(self, name: str) -> list[POWorkerOutput]:
        """All answers so far."""
        entries = await self.redis.xrange(self.under.po_output(worker_id(name)))
        return [decode(POWorkerOutput, fields) for _, fields in entries]

    async def answered(self, name: str, count: int = 1, seconds: float = 90.0) -> list[str]:
        """Wait for that many answers; returns their texts."""

        async def enough() -> bool:
            return len(await self.answers(name)) >= count

        await eventually(enough, seconds=seconds)
        return [answer.text for answer in await self.answers(name)]

    async def keys(self, name: str) -> list[str]:
        """Which of the session's keys exist."""
        keys = self.under.po_keys(worker_id(name))
        return [key for key in keys if await self.redis.exists(key)]

    def status(self, name: str) -> Object:
        """The session's status; empty when there is none."""
        found: Object = (self.api.get("posessions", NAMESPACE, name) or {}).get("status") or {}
        return found

    def condition(self, name: str, kind: str) -> Object:
        """One condition; empty when there is none."""
        conditions = self.status(name).get("conditions") or ()
        return next((item for item in conditions if item["type"] == kind), {})

    async def until(self, name: str, phase: str, seconds: float = 90.0) -> Object:
        """Wait until the session is in this phase; returns its status."""
        try:
            await eventually(lambda: self.status(name).get("phase") == phase, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"{name} is not {phase}: {self.status(name)}") from None
        return self.status(name)

    async def until_in_turn(self, name: str) -> None:
        """Wait until the worker says that it is on a message.

        The phase Busy may come earlier: also while a worker that is ready has a message before it.
        """
        state = self.under.po_state(worker_id(name))

        async def busy() -> bool:
            return await self.redis.hget(state, "state") == "busy"

        await eventually(busy)

    async def until_reason(self, name: str, reason: str, kind: str = "Available") -> Object:
        """Wait until a condition has this reason; returns the condition."""
        try:
            await eventually(lambda: self.condition(name, kind).get("reason") == reason)
        except AssertionError:
            raise AssertionError(f"{name}: {self.status(name)}") from None
        return self.condition(name, kind)

    def phases(self, name: str) -> list[str]:
        """The phases the session has shown, as `kubectl get -w` would print them."""
        shown: list[str] = []
        for _, _, plural, obj in self.api.history:
            if plural == "posessions" and obj["metadata"]["name"] == name:
                phase = (obj.get("status") or {}).get("phase", "")
                if phase and shown[-1:] != [phase]:
                    shown.append(phase)
        return shown

    def replicas(self, name: str) -> int | None:
        """What the session's Deployment asks for; None when there is none."""
        found = self.api.get("deployments", NAMESPACE, name)
        return None if found is None else int(found["spec"]["replicas"])

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the session's Events, in the order they were posted."""
        found = self.api.objects["events"].values()
        return [
            (item["reason"], item["message"])
            for item in found
            if item["involvedObject"]["name"] == name
            and item["involvedObject"]["kind"] == "POSession"
        ]


def worker_id(name: str) -> str:
    """The worker id of a session that does not say its own."""
    return f"{NAMESPACE}.{name}"
