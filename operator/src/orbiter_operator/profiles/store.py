"""The profiles as last seen, a namespace's and the cluster's, and those each task has begun with.

A task reads its profile when its first attempt begins; that is kept as a ControllerRevision of the
task, which Kubernetes lets nobody change and deletes with it. So a later change of the profile, or
its end, changes no task that has begun. The revision's name follows from the task, so it is found
whatever the task's status says, and whenever the operator crashed.

A session reads its profile when it wakes, and has that one until it sleeps. It has a revision for
each; its Deployment names the one that its worker was started with.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.models import (
    Profiled,
    ProfileKind,
    ProfileRef,
    Refusal,
    RefusedError,
)
from orbiter_operator.kube.names import (
    Key,
    owner_of,
    revision_name,
)
from orbiter_operator.kube.parsed_cache import ParsedCache
from orbiter_operator.kube.resources import REVISIONS
from orbiter_operator.profiles.merge import clash
from orbiter_operator.profiles.models import CLUSTER, DEFAULT, NAMESPACED, Judge, Profile
from orbiter_operator.profiles.revisions import TASK_KIND, Revisions, Seal

Object = dict[str, Any]


def profile_cache(
    judge: Judge, changed: Callable[[str], None], kind: ProfileKind = NAMESPACED
) -> ParsedCache[Profile]:
    """The profiles of a kind as they are now.

    Args:
        judge: Says what is wrong with one.
        changed: Called with the namespace of each that is new, other, or gone.
        kind: Whose they are.
    """
    return ParsedCache(
        lambda obj: Profile.read(obj["metadata"], obj.get("spec"), judge, kind), changed
    )


class _Begun(NamedTuple):
    """What an object has begun with; `lost` when that is kept no more, or not as it was sealed."""

    uid: str = ""
    revision: str = ""
    profile: Profile | None = None
    lost: bool = False


class Profiles:
    """Which profile each task and session has.

    Args:
        kube: The API client.
        cache: The namespaces' profiles as they are now.
        cluster: The cluster's.
        judge: Says what is wrong with one.
        allowed: Raises unless this replica is the active one.
        seal: Seals what is kept.
        waking: What both caches call; `subscribe` lengthens it.
    """

    def __init__(
        self,
        kube: Kube,
        cache: ParsedCache[Profile],
        cluster: ParsedCache[Profile],
        judge: Judge,
        allowed: Callable[[], None],
        seal: Seal = lambda text: (),
        waking: list[Callable[[str], None]] | None = None,
    ) -> None:
        self._kube = kube
        self._cache, self._cluster = cache, cluster
        self._allowed = allowed
        self._revisions = Revisions(kube, judge, seal)
        self._begun: dict[Key, _Begun] = {}
        self._waking = [] if waking is None else waking

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Have this called with the namespace of each profile that is new, other, or gone.

        It is empty when that is the cluster's.
        """
        self._waking.append(wake)

    async def recall(self, key: Key, obj: Object) -> None:
        """Know what a task that has begun did so with, if anything.

        Raises:
            ApiError: The API server could not answer.
        """
        uid, status = obj["metadata"]["uid"], obj.get("status") or {}
        if self._begun.get(key, _Begun()).uid == uid:
            return
        named = (obj.get("spec") or {}).get("profileRef") or status.get("profile")
        # Without either it has none, unless its status was not written yet.
        name = revision_name(key.name, uid) if named or not status.get("attempts") else ""
        await self._recall(key, uid, name, had=bool(status.get("profile")))

    async def recall_awake(self, key: Key, uid: str, revision: str) -> None:
        """Know what the worker of a session was started with: this revision; empty for nothing.

        Raises:
            ApiError: The API server could not answer.
        """
        begun = self._begun.get(key, _Begun())
        if (begun.uid, begun.revision) != (uid, revision):
            await self._recall(key, uid, revision, had=bool(revision))

    async def _recall(self, key: Key, uid: str, name: str, *, had: bool) -> None:
        found = await self._revisions.get(key, name)
        kept = self._revisions.read(key, uid, found)
        lost = kept is None and (had or found is not None)
        self._begun[key] = _Begun(uid, name, kept, lost)

    def of(self, key: Key, obj: Object) -> tuple[Profiled | None, Profile | None]:
        """The profile of an object: that which it has begun with, or else the present one.

        Args:
            key: The task or the session.
            obj: It, whose spec anything may have been written to.

        Returns:
            What is told of it, and the profile itself unless there is none that can be used.
        """
        uid, said = obj["metadata"]["uid"], (obj.get("spec") or {}).get("profileRef")
        reference = None
        if said is not None:
            try:
                reference = ProfileRef.model_validate(said)
            except ValueError:
                return None, None  # whoever reads the spec says so
        begun = self._begun.get(key, _Begun())
        kept = begun.profile if begun.uid == uid else None
        if kept is not None and _is_named(kept, reference):
            return self._revisions.told(key, uid, kept), kept
        if begun.uid == uid and reference is None and not begun.lost:
            return None, None
        # Somebody may have deleted the revision: then it is the present one again.
        found = self._named(key.namespace, reference)
        if found is None:
            if reference is None:
                return None, None
            kind, name = reference.kind, reference.name
            where = "" if kind == CLUSTER else " here"
            what = "task" if key.kind == TASK_KIND else "session"
            text = f"{kind} {name} does not exist{where}; create it, and the {what} goes on"
            return Profiled(kind=kind, name=name, reason="ProfileMissing", message=text), None
        if why := _unusable(found):
            told = Profiled(kind=found.kind, name=found.name, reason="ProfileInvalid", message=why)
            return told, None
        return self._revisions.told(key, uid, found), found

    def _named(self, namespace: str, reference: ProfileRef | None) -> Profile | None:
        """The present profile of this reference, over the cluster's if it is the namespace's."""
        if reference is not None and reference.kind == CLUSTER:
            return self._cluster.get("", reference.name)
        base = self._cluster.get("", DEFAULT)
        found = self._cache.get(namespace, reference.name if reference else DEFAULT)
        if found is None:
            return None if reference else base
        return found.model_copy(update={"base": base}) if base else found

    async def fix(self, key: Key, uid: str, used: Profiled | None) -> bool:
        """Keep the profile that a task is about to begin with, for all of its attempts.

        Or that a session wakes with, until it sleeps.

        Returns:
            Whether it had begun with another one, before a crash; then that is its profile.

        Raises:
            RefusedError: The revision was refused, or there is another of its name.
            ApiError: The API server could not answer.
        """
        begun = self._begun.get(key, _Begun())
        same = key.kind == TASK_KIND or (used is not None and begun.revision == used.revision)
        if begun.uid == uid and same:
            return False
        if used is None:
            self._begun[key] = _Begun(uid)
            return False
        self._allowed()
        name = used.revision
        try:
            body = self._revisions.body(key, uid, used)
            stored = await self._kube.create(REVISIONS, key.namespace, body)
        except ApiError as error:
            if error.passes:
                raise
            if error.status != 409:
                raise RefusedError(error.refusal()) from None
            stored = await self._kube.get(REVISIONS, key.namespace, name)
        kept = self._revisions.read(key, uid, stored)
        if kept is None:
            text = f"ControllerRevision {name} exists and is not this {key.kind}'s; delete it"
            refusal = Refusal(status=409, reason="ProfileConflict", message=text)
            raise RefusedError(refusal)
        self._begun[key] = _Begun(uid, name, kept)
        return self._revisions.told(key, uid, kept) != used

    async def drop(self, key: Key, uid: str, name: str) -> None:
        """Delete a revision that a session is awake with no more; nobody else's.

        Raises:
            ApiError: The API server could not answer.
        """
        found = await self._revisions.get(key, name)
        if found is not None and owner_of(found, key.kind) == (key.name, uid):
            self._allowed()
            only = found["metadata"]["uid"]
            await self._kube.delete(REVISIONS, key.namespace, name, uid=only)

    def forget(self, key: Key) -> None:
        """The task is gone or at its end; the session is gone or asleep."""
        self._begun.pop(key, None)


def _is_named(profile: Profile, reference: ProfileRef | None) -> bool:
    """Whether it is what an object names: a session may name another while it is awake."""
    if reference is None:
        return profile.name == DEFAULT
    return (profile.kind, profile.name) == (reference.kind, reference.name)


def _unusable(profile: Profile) -> str | None:
    """Why no task can use a profile, itself or what it is laid over."""
    base = profile.base
    if base is not None and base.error is not None:
        return f"{base.title} cannot be used: {base.error}"
    why = profile.error or (clash(profile, base) if base is not None else None)
    return None if why is None else f"{profile.title} cannot be used: {why}"
