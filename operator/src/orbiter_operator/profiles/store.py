"""The AgentProfiles as last seen, and the one that each task has begun with.

A task reads its profile when its first attempt begins; that is kept as a ControllerRevision of the
task, which Kubernetes lets nobody change and deletes with it. So a later change of the profile, or
its end, changes no task that has begun. The revision's name follows from the task, so it is found
whatever the task's status says, and whenever the operator crashed.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.models import Profiled, Refusal, RefusedError, is_object_name
from orbiter_operator.kube.names import (
    MANAGED_BY,
    MANAGER,
    TASK,
    Key,
    owner_of,
    owner_reference,
    revision_name,
)
from orbiter_operator.kube.parsed_cache import ParsedCache
from orbiter_operator.kube.resources import REVISIONS
from orbiter_operator.profiles.models import DEFAULT, Judge, Profile

Object = dict[str, Any]
_KIND = "AgentTask"


def profile_cache(judge: Judge, changed: Callable[[str], None]) -> ParsedCache[Profile]:
    """The AgentProfiles as they are now.

    Args:
        judge: Says what is wrong with one.
        changed: Called with the namespace of each that is new, other, or gone.
    """
    return ParsedCache(lambda obj: Profile.read(obj["metadata"], obj.get("spec"), judge), changed)


class Profiles:
    """Which profile each task has.

    Args:
        kube: The API client.
        cache: The profiles as they are now.
        judge: Says what is wrong with one.
        allowed: Raises unless this replica is the active one.
    """

    def __init__(
        self,
        kube: Kube,
        cache: ParsedCache[Profile],
        judge: Judge,
        allowed: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._judge = judge
        self._allowed = allowed
        self._begun: dict[Key, tuple[str, Profile | None]] = {}
        self._kept = WeakValueDictionary[tuple[str, int], Profile]()

    async def recall(self, key: Key, obj: Object) -> None:
        """Know what a task that has begun did so with, if anything.

        Raises:
            ApiError: The API server could not answer.
        """
        uid, status = obj["metadata"]["uid"], obj.get("status") or {}
        if self._begun.get(key, ("", None))[0] == uid:
            return
        named = (obj.get("spec") or {}).get("profileRef") or status.get("profile")
        found: Object | None = None
        # Without either it has none, unless its status was not written yet.
        if named or not status.get("attempts"):
            try:
                found = await self._kube.get(REVISIONS, key.namespace, revision_name(key.name, uid))
            except ApiError as error:
                if error.status != 404:
                    raise
        self._begun[key] = uid, self._read(key, uid, found)

    def of(self, key: Key, obj: Object) -> tuple[Profiled | None, Profile | None]:
        """The profile of a task: that which it has begun with, or else the present one.

        Args:
            key: The task.
            obj: The task, whose spec anything may have been written to.

        Returns:
            What is told of it, and the profile itself unless there is none that can be used.
        """
        uid, reference = obj["metadata"]["uid"], (obj.get("spec") or {}).get("profileRef")
        name = reference.get("name") if isinstance(reference, dict) else None
        if reference is not None and not is_object_name(name):
            return None, None  # whoever reads the spec says so
        begun, kept = self._begun.get(key, ("", None))
        if begun == uid and (kept is not None or name is None):
            return (None if kept is None else self._told(key, uid, kept)), kept
        # Somebody may have deleted the revision: then it is the present one again.
        found = self._cache.get(key.namespace, name or DEFAULT)
        if found is None and name is None:
            return None, None
        if found is None:
            text = f"AgentProfile {name} does not exist here; create it, and the task goes on"
            return Profiled(name=name or "", reason="ProfileMissing", message=text), None
        if found.error is not None:
            text = f"AgentProfile {found.name} cannot be used: {found.error}"
            return Profiled(name=found.name, reason="ProfileInvalid", message=text), None
        return self._told(key, uid, found), found

    async def fix(self, key: Key, uid: str, used: Profiled | None) -> bool:
        """Keep the profile that a task is about to begin with, for all of its attempts.

        Returns:
            Whether it had begun with another one, before a crash; then that is its profile.

        Raises:
            RefusedError: The revision was refused, or there is another of its name.
            ApiError: The API server could not answer.
        """
        if self._begun.get(key, ("", None))[0] == uid:
            return False
        if used is None:
            self._begun[key] = uid, None
            return False
        self._allowed()
        name = used.revision
        try:
            stored = await self._kube.create(REVISIONS, key.namespace, _revision(key, uid, used))
        except ApiError as error:
            if error.passes:
                raise
            if error.status != 409:
                raise RefusedError(error.refusal()) from None
            stored = await self._kube.get(REVISIONS, key.namespace, name)
        kept = self._read(key, uid, stored)
        if kept is None:
            text = f"ControllerRevision {name} exists and is not this task's; delete it"
            refusal = Refusal(status=409, reason="ProfileConflict", message=text)
            raise RefusedError(refusal)
        self._begun[key] = uid, kept
        return (kept.uid, kept.raw) != (used.uid, used.raw)

    def forget(self, key: Key) -> None:
        """The task is gone or at its end."""
        self._begun.pop(key, None)

    def _told(self, key: Key, uid: str, profile: Profile) -> Profiled:
        return Profiled(
            name=profile.name,
            uid=profile.uid,
            generation=profile.generation,
            revision=revision_name(key.name, uid),
            raw=profile.raw,
        )

    def _read(self, key: Key, uid: str, found: Object | None) -> Profile | None:
        """The profile in a revision; None when it is not the task's, or says nothing."""
        if found is None or owner_of(found, _KIND) != (key.name, uid):
            return None
        try:
            data = found["data"]
            read = Profile.read(data["profile"], data["spec"], self._judge)
            # A task that has asked something keeps it for days: thousands of them keep one.
            known = self._kept.setdefault((read.uid, read.generation), read)
            return known if known == read else read
        except (KeyError, TypeError, ValueError):
            return None  # only who may write revisions could have made it so


def _revision(key: Key, uid: str, used: Profiled) -> Object:
    """The object that keeps a profile as it is."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": used.revision,
            "namespace": key.namespace,
            "labels": {MANAGED_BY: MANAGER, TASK: key.name},
            "ownerReferences": [owner_reference(_KIND, key.name, uid)],
        },
        "revision": used.generation,
        "data": {
            "profile": {"name": used.name, "uid": used.uid, "generation": used.generation},
            "spec": used.raw,
        },
    }
