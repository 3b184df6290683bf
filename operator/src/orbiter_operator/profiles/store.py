"""The profiles as last seen, a namespace's and the cluster's, and those each task has begun with.

A task reads its profile when its first attempt begins; that is kept as a ControllerRevision of the
task, which Kubernetes lets nobody change and deletes with it. So a later change of the profile, or
its end, changes no task that has begun. The revision's name follows from the task, so it is found
whatever the task's status says, and whenever the operator crashed. It is sealed: what the cluster's
profile may say, nobody who makes a revision in a namespace gets by it.
"""

import json
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.models import (
    Profiled,
    ProfileKind,
    ProfileRef,
    Refusal,
    RefusedError,
)
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
from orbiter_operator.profiles.merge import clash
from orbiter_operator.profiles.models import CLUSTER, DEFAULT, NAMESPACED, Judge, Profile

Object = dict[str, Any]
Seal = Callable[[str], tuple[str, ...]]
"""What only the operator can make of a text, the newest first; nothing where it has no key."""
_KIND = "AgentTask"


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
    """What a task has begun with; `lost` when that is kept no more, or not as it was sealed."""

    uid: str = ""
    profile: Profile | None = None
    lost: bool = False


class Profiles:
    """Which profile each task has.

    Args:
        kube: The API client.
        cache: The namespaces' profiles as they are now.
        cluster: The cluster's.
        judge: Says what is wrong with one.
        allowed: Raises unless this replica is the active one.
        seal: Seals what is kept.
    """

    def __init__(
        self,
        kube: Kube,
        cache: ParsedCache[Profile],
        cluster: ParsedCache[Profile],
        judge: Judge,
        allowed: Callable[[], None],
        seal: Seal = lambda text: (),
    ) -> None:
        self._kube = kube
        self._cache, self._cluster = cache, cluster
        self._judge = judge
        self._allowed = allowed
        self._seal = seal
        self._begun: dict[Key, _Begun] = {}
        self._kept = WeakValueDictionary[tuple[str, int], Profile]()

    async def recall(self, key: Key, obj: Object) -> None:
        """Know what a task that has begun did so with, if anything.

        Raises:
            ApiError: The API server could not answer.
        """
        uid, status = obj["metadata"]["uid"], obj.get("status") or {}
        if self._begun.get(key, _Begun()).uid == uid:
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
        kept = self._read(key, uid, found)
        lost = kept is None and (found is not None or bool(status.get("profile")))
        self._begun[key] = _Begun(uid, kept, lost)

    def of(self, key: Key, obj: Object) -> tuple[Profiled | None, Profile | None]:
        """The profile of a task: that which it has begun with, or else the present one.

        Args:
            key: The task.
            obj: The task, whose spec anything may have been written to.

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
        if begun.uid == uid and (kept := begun.profile) is not None:
            return self._told(key, uid, kept), kept
        if begun.uid == uid and reference is None and not begun.lost:
            return None, None
        # Somebody may have deleted the revision: then it is the present one again.
        found = self._named(key.namespace, reference)
        if found is None:
            if reference is None:
                return None, None
            kind, name = reference.kind, reference.name
            where = "" if kind == CLUSTER else " here"
            text = f"{kind} {name} does not exist{where}; create it, and the task goes on"
            return Profiled(kind=kind, name=name, reason="ProfileMissing", message=text), None
        if why := _unusable(found):
            told = Profiled(kind=found.kind, name=found.name, reason="ProfileInvalid", message=why)
            return told, None
        return self._told(key, uid, found), found

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

        Returns:
            Whether it had begun with another one, before a crash; then that is its profile.

        Raises:
            RefusedError: The revision was refused, or there is another of its name.
            ApiError: The API server could not answer.
        """
        if self._begun.get(key, _Begun()).uid == uid:
            return False
        if used is None:
            self._begun[key] = _Begun(uid)
            return False
        self._allowed()
        name = used.revision
        try:
            body = self._revision(key, uid, used)
            stored = await self._kube.create(REVISIONS, key.namespace, body)
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
        self._begun[key] = _Begun(uid, kept)
        return self._told(key, uid, kept) != used

    def forget(self, key: Key) -> None:
        """The task is gone or at its end."""
        self._begun.pop(key, None)

    def _told(self, key: Key, uid: str, profile: Profile) -> Profiled:
        revision = revision_name(key.name, uid)
        base = None if profile.base is None else self._told(key, uid, profile.base)
        return Profiled(
            kind=profile.kind,
            name=profile.name,
            uid=profile.uid,
            generation=profile.generation,
            revision=revision,
            raw=profile.raw,
            base=base,
        )

    def _read(self, key: Key, uid: str, found: Object | None) -> Profile | None:
        """The profile in a revision; None when it is not the task's, or says nothing."""
        if found is None or owner_of(found, _KIND) != (key.name, uid):
            return None
        try:
            data = found["data"]
            sealed = self._seal(_text(uid, data))
            if sealed and not any(compare_digest(str(data["seal"]), each) for each in sealed):
                return None
            kept = [self._read_one(each) for each in data["profiles"]]
            return kept[0].model_copy(update={"base": kept[1]}) if kept[1:] else kept[0]
        except (LookupError, TypeError, ValueError):
            return None  # only who may write revisions could have made it so

    def _read_one(self, said: Any) -> Profile:
        kind: ProfileKind = CLUSTER if said["kind"] == CLUSTER else NAMESPACED
        read = Profile.read(said, said["spec"], self._judge, kind)
        # A task that has asked something keeps it for days: thousands of them keep one.
        known = self._kept.setdefault((read.uid, read.generation), read)
        return known if known == read else read

    def _revision(self, key: Key, uid: str, used: Profiled) -> Object:
        """The object that keeps a profile as it is."""
        both = [used] if used.base is None else [used, used.base]
        profiles = [
            {
                "kind": each.kind,
                "name": each.name,
                "uid": each.uid,
                "generation": each.generation,
                "spec": each.raw,
            }
            for each in both
        ]
        data: Object = {"profiles": profiles}
        if sealed := self._seal(_text(uid, data)):
            data["seal"] = sealed[0]
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
            "data": data,
        }


def _unusable(profile: Profile) -> str | None:
    """Why no task can use a profile, itself or what it is laid over."""
    base = profile.base
    if base is not None and base.error is not None:
        return f"{base.title} cannot be used: {base.error}"
    why = profile.error or (clash(profile, base) if base is not None else None)
    return None if why is None else f"{profile.title} cannot be used: {why}"


def _text(uid: str, data: Object) -> str:
    """What is sealed: whose profiles these are, and what they say."""
    return json.dumps(["profile", uid, data["profiles"]], sort_keys=True)
