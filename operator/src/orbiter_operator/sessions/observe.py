"""Collect what is known about one POSession into `ObservedSession`, the input of `plan`.

The cluster's side is in memory. Redis is asked in every pass, by one script: whether a session may
sleep depends on what its streams hold at this very moment.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from orbiter_contracts.bounds import one_line
from orbiter_contracts.queues import BARE, Keys, KeysOf
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.kube.models import Profiled, Refusal, Workspace, read_model, read_status
from orbiter_operator.kube.names import Key
from orbiter_operator.pods.rules import image_error, pod_error, role_error, shape_error
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.merge import with_profile
from orbiter_operator.profiles.models import Profile
from orbiter_operator.profiles.store import Profiles
from orbiter_operator.sessions.cache import (
    SessionCache,
    record_of,
    session_key,
    worker_id_of,
)
from orbiter_operator.sessions.deployment import build_template, fingerprint
from orbiter_operator.sessions.migration import Migration, keys_in_use, stream_keys
from orbiter_operator.sessions.models import (
    DUPLICATE_WORKER,
    DeploymentState,
    ObservedSession,
    QueueState,
    Rival,
    SessionSpec,
    SessionStatus,
    why_held,
    worker_id_error,
)
from orbiter_operator.sessions.streams import SessionQueues
from orbiter_operator.sessions.users import SessionUsers
from orbiter_operator.streams.client import redis_unusable

Object = dict[str, Any]
_SHOWN = 60


class SessionObserver:
    """Observes one session at a time.

    Args:
        store: POSessions, Deployments and Pods.
        queues: The sessions' keys in Redis.
        migration: Moves them.
        users: The sessions' users of Redis.
        profiles: Which profile each session has.
        defaults: What is the same for all workers.
        keys: Which keys a namespace has.
        queue_address: Where Redis is, without a password.
        over_quota: Why nobody may add to the streams of a namespace, if so.
        not_served: Why no worker may run in a namespace, if so.
        budget: How a session stands to the budgets of its namespace.
    """

    def __init__(
        self,
        *,
        store: SessionCache,
        queues: SessionQueues,
        migration: Migration,
        users: SessionUsers,
        profiles: Profiles,
        defaults: WorkerDefaults,
        keys: KeysOf,
        queue_address: str,
        over_quota: Callable[[str], str | None] = lambda namespace: None,
        not_served: Callable[[str], str | None] = lambda namespace: None,
        budget: Callable[[ObservedSession], Budgeted | None] = lambda observed: None,
    ) -> None:
        self._store = store
        self._queues = queues
        self._migration = migration
        self._users = users
        self._profiles = profiles
        profiles.subscribe(store.wake)
        self._defaults = defaults
        self._keys = keys
        self._queue_address = queue_address
        self._over_quota = over_quota
        self._not_served = not_served
        self._budget = budget
        self._heard: dict[str, str] = {}
        self._templates: dict[Key, tuple[tuple[str, int, Keys, str], str]] = {}

    def hear(self, worker_id: str, event: str) -> None:
        """A worker has said this about itself."""
        self._heard[worker_id] = event

    def forget(self, key: Key, worker_id: str) -> None:
        """The session is gone."""
        self._heard.pop(worker_id, None)
        self._templates.pop(key, None)
        self._profiles.forget(key)

    async def observe(
        self, key: Key, obj: Object, *, refusal: Refusal | None = None
    ) -> ObservedSession:
        """Everything a decision about the session may depend on; its streams exist afterwards.

        Args:
            key: The session's key.
            obj: The session.
            refusal: The API server's refusal of its Deployment, if that has just happened.

        Raises:
            ApiError: The API server could not tell with which profile its worker was started.
        """
        meta = obj["metadata"]
        uid, worker_id = meta["uid"], worker_id_of(obj)
        deployment = next(iter(self._store.deployments.of(key, uid)), None)
        told, profile = await self._profile(key, obj, deployment)
        unread = told is not None and profile is None
        defaults = None if unread else self._defaults
        spec, error = read_session_spec(meta, obj.get("spec") or {}, defaults, profile)
        rival = self._store.rival(key) if self._store.get(key) else None
        # The keys of a worker id are the older session's, and so is the word whether it is held.
        ours = rival is None or rival.reason != DUPLICATE_WORKER
        not_served = self._not_served(key.namespace)
        hold = why_held(spec, error, rival, not_served, told) if ours else None
        keys = self.keys_in_use(key if ours or rival is None else _key_of(rival))
        queue, queue_error = await self._read_queue(obj, keys, hold, ours=ours)
        template = "" if error or unread else self._template(key, obj, spec, keys, told)
        deployment = next(iter(self._store.deployments.of(key, uid)), None)
        observed = ObservedSession(
            namespace=key.namespace,
            name=key.name,
            uid=uid,
            generation=meta.get("generation", 1),
            created=datetime.fromisoformat(meta["creationTimestamp"]),
            worker_id=worker_id,
            spec=spec,
            spec_error=error,
            status=read_status(SessionStatus, obj.get("status")),
            deleting="deletionTimestamp" in meta,
            template=template,
            deployment=deployment,
            pods=tuple(self._store.pods.of(key, uid)),
            queue=queue,
            queue_error=queue_error,
            heard=self._heard.get(worker_id, ""),
            rival=rival,
            refusal=refusal,
            keys=keys,
            leaving=ours and keys == BARE != self._keys(key.namespace),
            over_quota=self._over_quota(key.namespace),
            not_served=not_served,
            profile=told,
        )
        return observed.model_copy(update={"budget": self._budget(observed)})

    async def _profile(
        self, key: Key, obj: Object, deployment: DeploymentState | None
    ) -> tuple[Profiled | None, Profile | None]:
        """What its worker was started with while it is awake, else the profile as it is."""
        if deployment is None or not deployment.replicas:
            self._profiles.forget(key)
        else:
            uid = obj["metadata"]["uid"]
            await self._profiles.recall_awake(key, uid, deployment.profile)
        return self._profiles.of(key, obj)

    def keys_in_use(self, key: Key) -> Keys:
        """The keys under which a session is, or is to be moved to now that it sleeps."""
        own, obj = self._keys(key.namespace), self._store.get(key)
        if own == BARE or obj is None:
            return own
        uid = obj["metadata"]["uid"]
        deployments = self._store.deployments.of(key, uid)
        pods = self._store.pods.of(key, uid)
        return keys_in_use(own, obj, deployments[0] if deployments else None, pods)

    async def _read_queue(
        self, obj: Object, keys: Keys, hold: str | None, *, ours: bool
    ) -> tuple[QueueState | None, str | None]:
        record = record_of(obj, keys)
        try:
            if ours and keys.prefix and stream_keys(obj) != keys:
                await self._migration.move(record.worker_id, obj["spec"].get("userId"), keys)
            return await self._queues.observe(record, hold=hold), None
        except (RedisError, OSError) as error:
            return None, redis_unusable(self._queue_address, error)

    def _template(
        self, key: Key, obj: Object, spec: SessionSpec, keys: Keys, told: Profiled | None
    ) -> str:
        meta = obj["metadata"]
        known, revision = self._templates.get(key), told.revision if told else ""
        version = (meta["uid"], meta.get("generation", 1), keys, revision)
        if known is None or known[0] != version:
            template = build_template(
                *(key.namespace, key.name, meta["uid"], worker_id_of(obj)),
                *(spec, self._defaults, self._users.secret_key(key, meta["uid"])),
                keys,
                told.fixed_template if told else None,
            )
            known = (version, fingerprint(template))
            self._templates[key] = known
        return known[1]


def _key_of(rival: Rival) -> Key:
    return session_key(*rival.name.split("/", 1))


def read_session_spec(
    meta: Object, raw: Object, defaults: WorkerDefaults | None, profile: Profile | None = None
) -> tuple[SessionSpec, str | None]:
    """Read a POSession's spec with its profile, and why it cannot be read (then empty) or run.

    Args:
        meta: The session's metadata.
        raw: Its spec.
        defaults: What the installation says about every worker; None while nobody knows whether
            one can be made, because its profile is not there.
        profile: Its profile.
    """
    spec, why = read_model(SessionSpec, raw)
    why = why or (role_error(spec.agent, defaults.allowed_roles) if defaults else None)
    if profile is not None and not (why := why or profile.problem):
        why = _other_type(spec, profile) or shape_error(spec.pod_template or {})
        spec, why = (spec, why) if why else with_profile(spec, profile)
    if why is None and spec.worker_id is not None:
        why = worker_id_error(meta["namespace"], meta["name"], spec.worker_id)
    if defaults is None:
        return spec, why
    fixed = profile.fixed_template if profile else None
    why = why or image_error(spec.agent, defaults.images)
    why = why or pod_error(spec.agent, Workspace(), spec.pod_template or {}, defaults, fixed)
    return spec, why


def _other_type(spec: SessionSpec, profile: Profile) -> str | None:
    """Why a session cannot have a profile of another agent's: it cannot leave its own type out."""
    mine = spec.agent.type
    for each in (profile, profile.base):
        if each and not each.spec.lets("type") and each.spec.agent.type not in (None, mine):
            return (
                f"spec.agent.type is {one_line(mine, _SHOWN)!r}, and that of {each.title} "
                f"{each.spec.agent.type!r}: a session keeps its agent; name another profile, or "
                "create a session of that type, or have that one let it be said (allowOverrides)"
            )
    return None
