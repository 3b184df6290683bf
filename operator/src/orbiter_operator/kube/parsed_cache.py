"""Objects that reconciled ones go by, profiles and AgentBudgets: each as it was read, once."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import ne
from typing import Generic, NamedTuple, Protocol, TypeVar

from orbiter_operator.kube.cache import Object, Tombstones, version_of


class Parsed(Protocol):
    """What is read of an object: at least whose it is."""

    @property
    def uid(self) -> str: ...  # noqa: D102


P = TypeVar("P", bound=Parsed)


class _Seen(NamedTuple, Generic[P]):
    version: int
    parsed: P


class ParsedCache(Generic[P]):
    """All objects of one kind by namespace and name; what an informer fills.

    Those of the cluster have the namespace "".

    Args:
        read: Reads one, whoever has written it.
        changed: Called with the namespace of each that is new, other, or gone.
        matters: Whether the difference between two of a name does.
    """

    def __init__(
        self,
        read: Callable[[Object], P],
        changed: Callable[[str], None],
        *,
        matters: Callable[[P, P], bool] = ne,
    ) -> None:
        self._read = read
        self._changed = changed
        self._matters = matters
        self._seen: defaultdict[str, dict[str, _Seen[P]]] = defaultdict(dict)
        self._gone = Tombstones()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter([(space, name) for space, found in self._seen.items() for name in found])

    def of(self, namespace: str) -> list[P]:
        """All of a namespace, by their names."""
        found = self._seen.get(namespace, {})
        return [found[name].parsed for name in sorted(found)]

    def get(self, namespace: str, name: str) -> P | None:
        """The object as last seen, or None."""
        found = self._seen.get(namespace, {}).get(name)
        return None if found is None else found.parsed

    def put(self, obj: Object) -> None:
        """Remember an object as it is now."""
        meta = obj["metadata"]
        namespace, name, version = meta.get("namespace", ""), meta["name"], version_of(obj)
        old = self._seen.get(namespace, {}).get(name)
        if meta["uid"] in self._gone or (old is not None and old.version >= version):
            return
        parsed = self._read(obj)
        self._seen[namespace][name] = _Seen(version, parsed)
        if old is None or self._matters(old.parsed, parsed):
            self._changed(namespace)

    def remove(self, obj: Object) -> None:
        """Forget an object that was deleted."""
        meta = obj["metadata"]
        namespace, name, uid = meta.get("namespace", ""), meta["name"], meta["uid"]
        self._gone.add(uid)
        old = self.get(namespace, name)
        if old is None or old.uid != uid:
            return
        del self._seen[namespace][name]
        if not self._seen[namespace]:
            del self._seen[namespace]
        self._changed(namespace)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Objects held here that a list taken at `version` does not have."""
        return [
            {"metadata": {"namespace": namespace, "name": name, "uid": seen.parsed.uid}}
            for namespace, found in self._seen.items()
            for name, seen in found.items()
            if seen.parsed.uid not in listed and seen.version <= version
        ]
