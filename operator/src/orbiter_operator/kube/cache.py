"""What the operator last saw of the cluster: objects that are reconciled, and their children.

Filled by the informers and by the answers to our own writes. An older resourceVersion never
replaces a newer one and nothing deleted comes back, so a late event cannot undo what a write has
returned. Children are reduced to their state and found by the object they belong to.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from operator import ne
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from orbiter_operator.kube.names import TASK, Key

Object = dict[str, Any]
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Cache(Protocol):
    """What an informer fills."""

    def put(self, obj: Object) -> None:
        """Remember an object as it is now."""

    def remove(self, obj: Object) -> None:
        """Forget an object that was deleted."""

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Objects held here that a list of uids taken at `version` does not have.

        What was created after the list was taken is not missing.
        """


class Tombstones:
    """The uids of the last objects that were deleted."""

    def __init__(self, longest: int = 10_000) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()
        self._longest = longest

    def add(self, uid: str) -> None:
        """Remember that this object is gone for good."""
        self._uids[uid] = None
        if len(self._uids) > self._longest:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


class ChildState(Protocol):
    """What all children have in common: the uid of the object they belong to."""

    @property
    def owner(self) -> str: ...  # noqa: D102


S = TypeVar("S", bound=ChildState)


class _Seen(NamedTuple, Generic[S]):
    version: int
    uid: str
    key: Key
    state: S


class Children(Generic[S]):
    """All objects of one kind that the operator made.

    Args:
        read: Reduces an object to its state; None when it is none of ours.
        enqueue: Called with the key of the object of whose child something matters.
        kind: Kind of the objects they belong to.
        label: Label of a child that names its object.
        matters: Whether a decision may hang on the difference between two states; None: it is new.
    """

    def __init__(
        self,
        read: Callable[[Object], S | None],
        enqueue: Callable[[Key], None],
        *,
        kind: str = "AgentTask",
        label: str = TASK,
        matters: Callable[[S, S | None], bool] = ne,
    ) -> None:
        self._read = read
        self._enqueue = enqueue
        self._kind = kind
        self._label = label
        self._matters = matters
        self._seen: dict[tuple[str, str], _Seen[S]] = {}
        self._names: dict[Key, set[str]] = defaultdict(set)
        self._gone = Tombstones()

    def __iter__(self) -> Iterator[S]:
        return iter([seen.state for seen in self._seen.values()])

    def of(self, key: Key, owner: str) -> list[S]:
        """The children of one object, in no order.

        Args:
            key: Name of the task.
            owner: Its uid; children of an earlier task of the same name are left out.
        """
        found = [self._seen[key.namespace, name].state for name in self._names.get(key, ())]
        return [state for state in found if state.owner == owner]

    def put(self, obj: Object, *, ours: bool = False) -> None:
        """Remember an object as it is now.

        Args:
            obj: The object.
            ours: It is the answer to a write of the very pass that goes on; nobody is enqueued.
        """
        meta = obj["metadata"]
        state = self._read(obj)
        name = str((meta.get("labels") or {}).get(self._label) or "")
        if state is None or not name or meta["uid"] in self._gone:
            return
        full_name = (meta["namespace"], meta["name"])
        old = self._seen.get(full_name)
        version = version_of(obj)
        if old is not None and old.version >= version:
            return
        key = Key(meta["namespace"], name, self._kind)
        self._seen[full_name] = _Seen(version, meta["uid"], key, state)
        self._names[key].add(meta["name"])
        if not ours and self._matters(state, None if old is None else old.state):
            self._enqueue(key)

    def remove(self, obj: Object) -> None:
        """Forget an object that was deleted."""
        meta = obj["metadata"]
        self._gone.add(meta["uid"])
        full_name = (meta["namespace"], meta["name"])
        old = self._seen.get(full_name)
        if old is None or old.uid != meta["uid"]:
            return
        del self._seen[full_name]
        names = self._names[old.key]
        names.discard(meta["name"])
        if not names:
            del self._names[old.key]
        self._enqueue(old.key)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Objects held here that a list taken at `version` does not have."""
        return [
            {"metadata": {"namespace": namespace, "name": name, "uid": seen.uid}}
            for (namespace, name), seen in self._seen.items()
            if seen.uid not in listed and seen.version <= version
        ]


class ObjectCache:
    """The objects of a kind that is reconciled, as last seen, and those that were deleted.

    What else follows from a change, a kind says in `_added` and `_dropped`.

    Args:
        kind: The kind.
        enqueue: Called with the key of every object for which something has changed.
    """

    def __init__(self, kind: str, enqueue: Callable[[Key], None]) -> None:
        self._kind = kind
        self._enqueue = enqueue
        self._objects: dict[Key, Object] = {}
        self._removed: dict[Key, list[Object]] = {}
        self._gone = Tombstones()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._objects))

    def get(self, key: Key) -> Object | None:
        """The object as last seen, or None."""
        return self._objects.get(key)

    def removed(self, key: Key) -> list[Object]:
        """The last states of objects of this name that were deleted and not yet tidied up."""
        return list(self._removed.get(key, ()))

    def tidied(self, key: Key, uid: str) -> None:
        """Nothing is left of this deleted object."""
        left = [obj for obj in self._removed.pop(key, ()) if obj["metadata"]["uid"] != uid]
        if left:
            self._removed[key] = left

    def touch(self, namespace: str) -> None:
        """Something has changed that all objects of a namespace depend on."""
        for key in self:
            if key.namespace == namespace:
                self._enqueue(key)

    def put(self, obj: Object) -> None:
        """Remember an object as it is now."""
        meta = obj["metadata"]
        key = self._key(obj)
        old = self._objects.get(key)
        if meta["uid"] in self._gone or (old and version_of(old) >= version_of(obj)):
            return
        if old is not None and old["metadata"]["uid"] != meta["uid"]:
            self._removed.setdefault(key, []).append(old)
            self._dropped(key, old)
        # A thousand finished objects should cost little memory.
        meta.pop("managedFields", None)
        (meta.get("annotations") or {}).pop(_LAST_APPLIED, None)
        self._objects[key] = obj
        self._added(key, old, obj)

    def remove(self, obj: Object) -> None:
        """Forget an object that was deleted."""
        key, uid = self._key(obj), obj["metadata"]["uid"]
        self._gone.add(uid)
        old = self._objects.get(key)
        if old is None or old["metadata"]["uid"] != uid:
            return
        del self._objects[key]
        self._removed.setdefault(key, []).append(old)
        self._enqueue(key)
        self._dropped(key, old)

    def orphan(self, obj: Object) -> None:
        """Take over an object that was deleted while no operator looked."""
        key = self._key(obj)
        if all(known["metadata"]["uid"] != obj["metadata"]["uid"] for known in self.removed(key)):
            self._removed.setdefault(key, []).append(obj)
        self._enqueue(key)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Objects held here that a list taken at `version` does not have."""
        return [
            obj
            for obj in self._objects.values()
            if obj["metadata"]["uid"] not in listed and version_of(obj) <= version
        ]

    def _added(self, key: Key, old: Object | None, obj: Object) -> None:
        """An object is new or has changed."""
        self._enqueue(key)

    def _dropped(self, key: Key, old: Object) -> None:
        """An object is not there any more."""

    def _key(self, obj: Object) -> Key:
        return Key(obj["metadata"]["namespace"], obj["metadata"]["name"], self._kind)


def version_of(obj: Object) -> int:
    """The resourceVersion as a number; Kubernetes promises since 1.35 that it is one."""
    return int(obj["metadata"].get("resourceVersion") or 0)
