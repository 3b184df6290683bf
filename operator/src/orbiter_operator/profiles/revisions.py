"""The ControllerRevisions that keep the profiles of tasks and sessions as they were.

They are sealed: what the cluster's profile may say, nobody who makes a revision in a namespace gets
by it. One that is not sealed as it should be counts as none.
"""

import json
from collections.abc import Callable
from hmac import compare_digest
from typing import Any
from weakref import WeakValueDictionary

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.models import Profiled, ProfileKind
from orbiter_operator.kube.names import (
    MANAGED_BY,
    MANAGER,
    SESSION,
    TASK,
    Key,
    owner_of,
    owner_reference,
    revision_name,
)
from orbiter_operator.kube.resources import REVISIONS
from orbiter_operator.profiles.models import CLUSTER, NAMESPACED, Judge, Profile

Object = dict[str, Any]
TASK_KIND = Key("", "").kind
Seal = Callable[[str], tuple[str, ...]]
"""What only the operator can make of a text, the newest first; nothing where it has no key."""


class Revisions:
    """Makes and reads them.

    Args:
        kube: The API client.
        judge: Says what is wrong with a profile.
        seal: Seals what is kept.
    """

    def __init__(self, kube: Kube, judge: Judge, seal: Seal) -> None:
        self._kube = kube
        self._judge = judge
        self._seal = seal
        self._kept = WeakValueDictionary[tuple[str, int], Profile]()

    async def get(self, key: Key, name: str) -> Object | None:
        """A revision by its name; None when there is none.

        Raises:
            ApiError: The API server could not answer.
        """
        if not name:
            return None
        try:
            return await self._kube.get(REVISIONS, key.namespace, name)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def told(self, key: Key, uid: str, profile: Profile) -> Profiled:
        """What is said of a profile, with the name of its revision."""
        which = uid
        if key.kind != TASK_KIND:
            both = [each for each in (profile, profile.base) if each is not None]
            which = f"{uid} {[(each.uid, each.generation) for each in both]}"
        revision = revision_name(key.name, which)
        base = None if profile.base is None else self.told(key, uid, profile.base)
        return Profiled(
            kind=profile.kind,
            name=profile.name,
            uid=profile.uid,
            generation=profile.generation,
            revision=revision,
            raw=profile.raw,
            base=base,
        )

    def read(self, key: Key, uid: str, found: Object | None) -> Profile | None:
        """The profile in a revision; None when it is not the object's, or says nothing."""
        if found is None or owner_of(found, key.kind) != (key.name, uid):
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

    def body(self, key: Key, uid: str, used: Profiled) -> Object:
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
        label = TASK if key.kind == TASK_KIND else SESSION
        data: Object = {"profiles": profiles}
        if sealed := self._seal(_text(uid, data)):
            data["seal"] = sealed[0]
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": used.revision,
                "namespace": key.namespace,
                "labels": {MANAGED_BY: MANAGER, label: key.name},
                "ownerReferences": [owner_reference(key.kind, key.name, uid)],
            },
            "revision": used.generation,
            "data": data,
        }


def _text(uid: str, data: Object) -> str:
    """What is sealed: whose profiles these are, and what they say."""
    return json.dumps(["profile", uid, data["profiles"]], sort_keys=True)
