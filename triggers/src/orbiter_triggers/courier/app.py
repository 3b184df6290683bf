"""The active courier: what it sees of the cluster, and its loops side by side."""

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.leader_election import Leader, LeaseLostError
from orbiter_operator.kube.resources import AGENT_TASKS, AGENT_TRIGGERS
from orbiter_operator.runtime.health import Health
from orbiter_operator.runtime.supervisor import Part, Supervisor
from orbiter_triggers.courier.cache import CourierCache
from orbiter_triggers.naming import TRIGGER

log = structlog.get_logger(__name__)
_RETRY_SECONDS = 1.0


class Courier:
    """Everything the active replica runs.

    Args:
        namespaces: Which namespaces; empty for all.
        resync_seconds: Seconds between two full comparisons with the cluster.
        kube: The API client.
        leader: This replica's hold on the Lease.
        health: Where the parts say how they are.
        cache: What the informers fill.
        loops: What runs when everything is listed, by name; each for ever.
    """

    def __init__(
        self,
        *,
        namespaces: Sequence[str],
        resync_seconds: float,
        kube: Kube,
        leader: Leader,
        health: Health,
        cache: CourierCache,
        loops: Mapping[str, Part],
    ) -> None:
        self._leader = leader
        self._resync_seconds = resync_seconds
        self._loops = loops
        self._informers = (
            Informer(kube, AGENT_TRIGGERS, cache.triggers, namespaces=namespaces),
            Informer(kube, AGENT_TASKS, cache.tasks, namespaces=namespaces, selector=TRIGGER),
        )
        self._listed = False
        self._supervisor = Supervisor(fatal=(LeaseLostError,))
        health.ready_if("lists", lambda: None if self._listed else "not everything is listed yet")
        health.ready_if("parts", self._supervisor.problem)

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            LeaseLostError: Another replica is the active one now.
        """
        await self._supervisor.run({"lease": self._leader.keep, "work": self._work})

    async def _work(self) -> None:
        await self._list_everything()
        watches: dict[str, Part] = {one.plural: one.follow for one in self._informers}
        await self._supervisor.run({**watches, "resync": self._resync, **self._loops})

    async def _list_everything(self) -> None:
        """Have all triggers, then all tasks, through every failure of the API server."""
        while not self._listed:
            try:
                for informer in self._informers:
                    await informer.compare()
            except (ApiError, *TRANSPORT_ERRORS, ValueError) as error:
                log.warning("cannot list", error=repr(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._listed = True

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_seconds)
            for informer in self._informers:
                await informer.compare()
