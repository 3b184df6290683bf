"""What a labelled namespace has from the operator: read from the chart's files, and kept so.

Who has Kubernetes' `edit` in a namespace may change or delete its NetworkPolicies, ServiceAccounts
and Secrets. The first two are watched, by the labels of what this operator has applied. Secrets are
not: nothing but four names of them is the operator's to touch (see `reconcile`, which applies all
of it again now and then).
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from orbiter_operator.kube.resources import NETWORK_POLICIES, SERVICE_ACCOUNTS, Resource

Object = dict[str, Any]
# In this order: there is no worker before its policies, which go when the last one has gone.
KINDS: Final = {"NetworkPolicy": NETWORK_POLICIES, "ServiceAccount": SERVICE_ACCOUNTS}


class LabelledNamespaces:
    """The namespaces that have the label now, as an informer tells it.

    Args:
        enqueue: Called with the name of each that comes or goes.
    """

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._seen: dict[str, tuple[str, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._seen))

    def __len__(self) -> int:
        return len(self._seen)

    def put(self, obj: Object) -> None:
        """A namespace has the label; one that is being deleted is as if it had lost it."""
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            self.remove(obj)
            return
        known = self._seen.get(meta["name"])
        self._seen[meta["name"]] = (meta["uid"], int(meta["resourceVersion"]))
        if known is None or known[0] != meta["uid"]:
            self._enqueue(meta["name"])

    def remove(self, obj: Object) -> None:
        """It has it no more, or is gone."""
        name = obj["metadata"]["name"]
        if self._seen.pop(name, None):
            self._enqueue(name)

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Those held here that a list taken at `version` does not have."""
        return [
            {"metadata": {"name": name, "uid": uid}}
            for name, (uid, seen) in self._seen.items()
            if uid not in listed and seen <= version
        ]


class AppliedObjects:
    """The objects of one kind that this operator has applied, by what their last write left.

    Args:
        altered: Called with the namespace of each that somebody may have written or deleted: its
            own writes the operator may hear of before it has their answer.
    """

    def __init__(self, altered: Callable[[str], None]) -> None:
        self._altered = altered
        self._seen: dict[tuple[str, str], tuple[str, int]] = {}

    def note(self, obj: Object) -> bool:
        """The operator has applied it; returns whether that has restored what was there before."""
        key, version = _key(obj), _version(obj)
        known = self._seen.get(key)
        if known is not None and known[1] >= version[1]:
            return False
        self._seen[key] = version
        return known is not None

    def forget(self, namespace: str) -> None:
        """The operator has deleted those of a namespace."""
        self._seen = {key: one for key, one in self._seen.items() if key[0] != namespace}

    def put(self, obj: Object) -> None:
        """It is so now. One that is seen for the first time was looked at as a whole before."""
        known = self._seen.get(_key(obj))
        if known is None or known[1] < _version(obj)[1]:
            self._seen[_key(obj)] = _version(obj)
            if known is not None:
                self._altered(_key(obj)[0])

    def remove(self, obj: Object) -> None:
        """It is gone, or has lost the labels."""
        known = self._seen.get(_key(obj))
        if known is not None and known[1] <= _version(obj)[1]:
            self._seen[_key(obj)] = ("", _version(obj)[1])
            self._altered(_key(obj)[0])

    def missing_from(self, listed: set[str], version: int) -> list[Object]:
        """Those held here that a list taken at `version` does not have."""
        return [
            {"metadata": {"namespace": space, "name": name, "uid": uid, "resourceVersion": version}}
            for (space, name), (uid, seen) in self._seen.items()
            if uid and uid not in listed and seen <= version
        ]


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _version(obj: Object) -> tuple[str, int]:
    return obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"])


class NamespaceFiles:
    """The chart's objects of a namespace, as they are in the files now.

    Args:
        directory: Where the files are.
        labels: Further labels of each object.
    """

    def __init__(self, directory: Path, labels: dict[str, str]) -> None:
        self._directory = directory
        self._labels = labels

    def objects(self, namespace: str) -> list[tuple[Resource, Object]]:
        """The objects of one namespace, policies first.

        Raises:
            OSError: There is no such file.
            ValueError: It is none of the chart's.
        """
        path = self._directory / f"namespace-{namespace}.json"
        if not path.exists():
            path = self._directory / "namespace.json"
        found = json.loads(path.read_bytes())
        kinds = [obj["kind"] for obj in found]
        if not set(kinds) <= set(KINDS):
            unknown = ", ".join(sorted(set(kinds) - set(KINDS)))
            raise ValueError(f"{path} has {unknown}; only {' and '.join(KINDS)} are for it")
        order = list(KINDS)
        return [
            (KINDS[obj["kind"]], self._placed(obj, namespace))
            for obj in sorted(found, key=lambda obj: order.index(obj["kind"]))
        ]

    def redis_policy(self, namespaces: list[str]) -> Object | None:
        """The policy that lets workers of former tenants into the bundled Redis, beside its own.

        Args:
            namespaces: Their names. The file leaves them open, and its owner's uid.

        Returns:
            None where the chart has no such policy.
        """
        path = self._directory / "redis-policy.json"
        if not path.exists():
            return None
        policy: Object = json.loads(path.read_bytes())
        peer = policy["spec"]["ingress"][0]["from"][0]
        peer["namespaceSelector"]["matchExpressions"][0]["values"] = namespaces
        return policy

    def _placed(self, obj: Object, namespace: str) -> Object:
        meta = obj["metadata"]
        labels = (meta.get("labels") or {}) | self._labels
        return obj | {"metadata": meta | {"namespace": namespace, "labels": labels}}
