"""One replica acts, the others wait: a Lease says which.

The active replica renews the Lease; `check` refuses every write once it has not managed to for the
Lease's duration, so a replica that was frozen stops before it acts. When another one has taken
over, the process ends. A replica that stops cleanly gives the Lease back, and the next one takes
it at once.

By its source, not measured: `kubernetes.aio.leaderelection` makes two requests for each renewal,
gives no Lease back, and has nothing that refuses a write.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.resources import LEASES

log = structlog.get_logger(__name__)
Object = dict[str, Any]
_SHORT_SECONDS = 5.0


class NotLeadingError(Exception):
    """This replica is not the active one, or cannot be sure that it is."""


class LeaseLostError(Exception):
    """Another replica has become the active one; this process has to end."""


class Leader:
    """This replica's part in the election.

    Args:
        kube: The API client.
        namespace: Namespace of the Lease.
        name: Name of the Lease.
        identity: Name of this replica. A container that restarts keeps its pod's name and goes on
            where it was.
        duration: Seconds for which a renewal is good.
        renew: Seconds between renewals, and between the tries of a waiting replica.
        clock: Monotonic seconds; it has to go on while the process is frozen.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration: float,
        renew: float,
        clock: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._renew = renew
        self._clock = clock
        self._good_until = float("-inf")
        self._held: Object | None = None
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0

    @property
    def leading(self) -> bool:
        """Whether this replica may act right now."""
        return self._clock() < self._good_until

    def check(self) -> None:
        """Refuse to act unless this replica leads.

        Raises:
            NotLeadingError: It does not, or its last renewal is too old.
        """
        if not self.leading:
            raise NotLeadingError(f"{self._identity} does not hold Lease {self._name}")

    async def acquire(self) -> None:
        """Wait until this replica is the active one."""
        said = False
        while True:
            try:
                holder = await self._try_once()
            except (ApiError, *TRANSPORT_ERRORS) as error:
                log.warning("cannot reach the lease", lease=self._name, error=str(error))
            else:
                if holder is None:
                    log.info("this replica is active now", identity=self._identity)
                    return
                if not said:
                    log.info("standing by", active=holder)
                    said = True
            await asyncio.sleep(self._renew)

    async def keep(self) -> None:
        """Renew for ever.

        Raises:
            LeaseLostError: Another replica is the active one now.
        """
        while True:
            await asyncio.sleep(self._renew)
            try:
                async with asyncio.timeout(_SHORT_SECONDS):
                    holder = await self._try_once()
            except (ApiError, *TRANSPORT_ERRORS) as error:
                log.warning("cannot renew the lease", lease=self._name, error=str(error))
            else:
                if holder is not None:
                    self._good_until = float("-inf")
                    raise LeaseLostError(f"Lease {self._name} is held by {holder} now")

    async def release(self) -> None:
        """Give the Lease back, so that another replica need not wait for it to run out."""
        self._good_until = float("-inf")
        try:
            lease, spec = await self._read()
            if spec.get("holderIdentity") == self._identity:
                spec["holderIdentity"] = ""
                await self._kube.replace(LEASES, self._namespace, self._name, lease)
        except (ApiError, *TRANSPORT_ERRORS) as error:
            log.info("the lease was not given back", error=str(error))

    async def _try_once(self) -> str | None:
        """Take or renew the Lease if possible. Returns None, or who holds it instead."""
        asked_at = self._clock()
        held, self._held = self._held, None
        # Nobody else has reason to have changed it since we did: one request instead of two.
        if held is not None and await self._put(held, asked_at):
            return None
        try:
            lease, spec = await self._read()
        except ApiError as error:
            if error.status != 404:
                raise
            return await self._create(asked_at)
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self._identity and not self._expired(holder, spec):
            return str(holder)
        if holder != self._identity:
            spec["acquireTime"] = _micro_time()
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec["holderIdentity"] = self._identity
        spec["leaseDurationSeconds"] = round(self._duration)
        return None if await self._put(lease, asked_at) else "a replica that was faster"

    async def _read(self) -> tuple[Object, Object]:
        """The Lease, and its spec in it: one that was made by hand may have none."""
        lease = await self._kube.get(LEASES, self._namespace, self._name)
        lease["spec"] = lease.get("spec") or {}
        return lease, lease["spec"]

    async def _put(self, lease: Object, asked_at: float) -> bool:
        """Renew the Lease as it was when it was read; False when it is not that any more."""
        lease["spec"]["renewTime"] = _micro_time()
        try:
            self._held = await self._kube.replace(LEASES, self._namespace, self._name, lease)
        except ApiError as error:
            if error.status in (404, 409):
                return False
            raise
        self._good_until = asked_at + self._duration
        return True

    async def _create(self, asked_at: float) -> str | None:
        now = _micro_time()
        body: Object = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": round(self._duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
        try:
            await self._kube.create(LEASES, self._namespace, body)
        except ApiError as error:
            if error.status == 409:
                return "a replica that was faster"
            raise
        self._good_until = asked_at + self._duration
        return None

    def _expired(self, holder: str, spec: Object) -> bool:
        """Whether the holder has not renewed for the duration, by our own clock alone."""
        state = (holder, str(spec.get("renewTime")))
        if state != self._seen:
            self._seen, self._seen_at = state, self._clock()
            return False
        return self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or 0)


def _micro_time() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
