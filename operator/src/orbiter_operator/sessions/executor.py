"""Carry a session's plan out: thin and boring, one method per action.

Every write goes through `allowed` first: a replica that has lost its
Lease acts no more.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import structlog

from orbiter_contracts.queues import Keys
from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.models import RefusedError
from orbiter_operator.kube.names import Key, owner_of
from orbiter_operator.kube.patches import patch
from orbiter_operator.kube.resources import DEPLOYMENTS, PO_SESSIONS, SECRETS
from orbiter_operator.pods.reasons import CONFIG_PROBLEMS
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.store import Profiles
from orbiter_operator.sessions.cache import SessionCache
from orbiter_operator.sessions.deployment import build_deployment, build_template, records_of
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.sessions.models import ObservedSession, SessionStatus, deployment_of_session
from orbiter_operator.sessions.plan import Apply, Dismiss, SessionPlan, SetReplicas
from orbiter_operator.sessions.streams import Record, SessionQueues
from orbiter_operator.sessions.users import SessionUsers

log = structlog.get_logger(__name__)
Object = dict[str, Any]


class SessionExecutor:
    """Carries plans out.

    Args:
        kube: The API client.
        store: Told at once what our own writes returned.
        queues: The sessions' keys in Redis.
        users: The sessions' users of Redis.
        profiles: Which profile each session has.
        events: Posts Kubernetes Events.
        metrics: Where what happens is counted.
        defaults: What is the same for all workers.
        allowed: Raises unless this replica is the active one.
        clock: The time.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        store: SessionCache,
        queues: SessionQueues,
        users: SessionUsers,
        profiles: Profiles,
        events: EventPoster,
        metrics: SessionMetrics,
        defaults: WorkerDefaults,
        allowed: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._kube = kube
        self._store = store
        self._queues = queues
        self._users = users
        self._profiles = profiles
        self._events = events
        self._metrics = metrics
        self._defaults = defaults
        self._allowed = allowed
        self._clock = clock

    async def run(
        self, key: Key, obj: Object, observed: ObservedSession, plan: SessionPlan
    ) -> None:
        """Carry out the actions, then the Events, then the status.

        Raises:
            RefusedError: The Deployment was refused.
            ApiError: The API server refused something else; 409 when `obj` is out of date.
        """
        self._metrics.observed(key, observed)
        await self._let_in(key, observed, plan)
        for action in plan.actions:
            match action:
                case SetReplicas():
                    await self._scale(key, action.replicas)
                case Apply():
                    await self._apply(key, observed, action)
                case Dismiss():
                    await self._dismiss(key)
        for event in plan.events:
            self._allowed()
            await self._events.post(obj, event, self._clock())
        await self._write(key, obj, observed, plan.status)

    async def tidy(self, key: Key, record: Record, others: Sequence[Keys], *, shared: bool) -> None:
        """Let a deleted session's worker in no more, and delete its keys."""
        await self._users.remove(key)
        await self._queues.wipe(record, *others, shared=shared)

    async def _let_in(self, key: Key, observed: ObservedSession, plan: SessionPlan) -> None:
        """Give the worker its user, and the Secret that its pod waits for."""
        held = observed.spec_error or observed.unprofiled or observed.rival or observed.refusal
        gone = observed.not_served and not any(not pod.over for pod in observed.pods)
        if held or gone or not self._users.managed:
            return
        records = records_of(key.namespace, self._defaults, observed.keys)
        record = f"{records}{observed.spec.user_id}"
        if observed.queue is not None:
            previous = self._has_old_secret(key, observed)
            await self._users.ensure(
                key, observed.uid, observed.worker_id, record, keys=observed.keys, previous=previous
            )
        # What somebody has deleted, a pod that is made meanwhile waits for.
        missed = any(pod.waiting_reason in CONFIG_PROBLEMS for pod in observed.pods)
        changes = any(isinstance(action, Apply) and not action.create for action in plan.actions)
        if missed or changes:
            await self._make_secret(key, observed.uid)

    async def _make_secret(self, key: Key, uid: str) -> None:
        """Make the Secret that the worker's pod is made with, as a child of the Deployment."""
        deployments = self._store.deployments.of(key, uid)
        if not deployments:
            return
        self._allowed()
        secret = self._users.secret(key, uid, deployments[0].uid)
        try:
            await self._kube.create(SECRETS, key.namespace, secret)
        except ApiError as error:
            if error.status in (401, 429) or error.status >= 500:
                raise
            if error.status != 409:
                raise RefusedError(error.refusal()) from error

    def _has_old_secret(self, key: Key, observed: ObservedSession) -> bool:
        """Whether a pod has, or may yet be made with, a Secret that is no longer the session's."""
        secret, _ = self._users.secret_key(key, observed.uid)
        deployment = observed.deployment
        if deployment and deployment.replicas and deployment.template != observed.template:
            return True
        return any(pod.redis_secret not in ("", secret) and not pod.over for pod in observed.pods)

    async def _dismiss(self, key: Key) -> None:
        """Take the worker's user and, with the Deployment, its Secret away."""
        self._allowed()
        if self._users.managed:
            await self._users.remove(key)
        await self._kube.delete(DEPLOYMENTS, key.namespace, key.name)
        await self._forget_deployment(key)

    async def _scale(self, key: Key, replicas: int) -> None:
        self._allowed()
        body = {"spec": {"replicas": replicas}}
        try:
            written = await self._kube.patch(DEPLOYMENTS, key.namespace, key.name, body)
        except ApiError as error:
            if error.status == 404:
                await self._forget_deployment(key)
            raise
        self._store.deployments.put(written)
        self._metrics.scaled(key, replicas)
        log.debug("scaled", session=str(key), replicas=replicas)

    async def _apply(self, key: Key, observed: ObservedSession, action: Apply) -> None:
        self._allowed()
        used, revision, fixed = observed.profile, "", None
        if used is not None:
            await self._profiles.fix(key, observed.uid, used)
            revision, fixed = used.revision, used.fixed_template
        template = build_template(
            *(key.namespace, observed.name, observed.uid, observed.worker_id),
            *(observed.spec, self._defaults, self._users.secret_key(key, observed.uid)),
            *(observed.keys, fixed),
        )
        # Its Secret is its child, and comes before its pod.
        first = action.create and self._users.managed
        replicas = 0 if first else action.replicas
        names = key.namespace, key.name, observed.uid
        body = build_deployment(*names, template, replicas=replicas, profile=revision)
        try:
            if action.create:
                written = await self._kube.create(DEPLOYMENTS, key.namespace, body)
            else:
                written = await self._kube.replace(DEPLOYMENTS, key.namespace, key.name, body)
        except ApiError as error:
            await self._not_applied(key, observed, error)
            return
        self._store.deployments.put(written)
        before = observed.deployment.profile if observed.deployment else ""
        if before not in ("", revision):
            await self._profiles.drop(key, observed.uid, before)
        if first:
            await self._make_secret(key, observed.uid)
            if action.replicas:
                await self._scale(key, action.replicas)
        self._metrics.scaled(key, action.replicas)

    async def _not_applied(self, key: Key, observed: ObservedSession, error: ApiError) -> None:
        if error.passes:
            raise error
        if error.status == 404:
            await self._forget_deployment(key)
            raise error
        if error.status != 409:
            raise RefusedError(error.refusal())
        found = await self._kube.get(DEPLOYMENTS, key.namespace, key.name)
        owner, state = owner_of(found, "POSession"), deployment_of_session(found)
        if state is not None and state.owner == observed.uid:
            self._store.deployments.put(found)
            return
        if owner and owner[0] == observed.name and owner[1] != observed.uid:
            raise error  # of an earlier session of this name; Kubernetes is about to remove it
        raise RefusedError(error.refusal(holder="not this session's"))

    async def _forget_deployment(self, key: Key) -> None:
        """A Deployment that somebody has deleted is made anew by the next pass."""
        session = self._store.get(key)
        for state in self._store.deployments.of(
            key, (session or {"metadata": {"uid": ""}})["metadata"]["uid"]
        ):
            meta = {"namespace": key.namespace, "name": state.name, "uid": state.uid}
            self._store.deployments.remove({"metadata": meta})

    async def _write(
        self, key: Key, obj: Object, observed: ObservedSession, status: SessionStatus | None
    ) -> None:
        if status is None:
            return
        self._metrics.phase(key, status.phase)
        changes = {} if status == observed.status else patch(observed.status, status)
        if not changes:
            return
        self._allowed()
        body = {
            "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
            "status": changes,
        }
        written = await self._kube.patch_status(PO_SESSIONS, key.namespace, key.name, body)
        self._store.put(written)
        self._metrics.changed(key, observed, status)
        if status.phase != observed.status.phase:
            log.info(
                "phase changed",
                session=str(key),
                phase=status.phase,
                session_id=status.session_id,
                pending=status.pending_messages,
            )
