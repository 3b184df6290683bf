"""Lay a user's partial pod template over ours, the way `kubectl patch` merges strategically.

Objects are merged key by key, lists of named things item by item, everything else is replaced, null
removes. Pure; used by `template`. The merge keys are those the Kubernetes API marks with
`patchMergeKey` in PodSpec.
"""

from collections.abc import Iterator
from typing import Any

from orbiter_operator.kube.names import WORKER

NODE_AWAY_SECONDS = 30
"""How long a pod stays on a node that does not answer before it is deleted there."""
_REDIS_CA = "redis-ca"
_REDIS_CA_DIR = "/etc/orbiter/redis"
"""Where the URLs of the chart look for `ca.crt`."""
_SECRET_MODE = 0o440
DEEPEST = 64
"""Levels of an overlay; the API has none that needs so many."""
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}
"""By which field the items of a list are told apart, by the list's name."""


def merge(base: Any, over: Any, key: str = "", *, nulls: bool = False) -> Any:
    """The base with the overlay applied; neither is changed.

    Args:
        base: What we built.
        over: What the user wrote; only what is there counts.
        key: Name of the field both stand in, which decides how lists are merged.
        nulls: Whether a null stays, because the result will be laid over something itself.

    Returns:
        The merged value.
    """
    if isinstance(base, dict) and isinstance(over, dict):
        return _merge_objects(base, over, nulls=nulls)
    merge_key = MERGE_KEYS.get(key)
    if merge_key and isinstance(base, list) and isinstance(over, list):
        return _merge_lists(base, over, key, nulls=nulls)
    return over


def _merge_objects(base: dict[str, Any], over: dict[str, Any], *, nulls: bool) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        if value is None and not nulls:
            merged.pop(key, None)
        else:
            known = key in merged and value is not None
            merged[key] = merge(merged[key], value, key, nulls=nulls) if known else value
    return merged


def _merge_lists(base: list[Any], over: list[Any], key: str, *, nulls: bool) -> list[Any]:
    merge_key = MERGE_KEYS[key]
    merged = list(base)
    # Below a field that may have anything a list of this name may have anything, too.
    places = {_name_of(item, merge_key): place for place, item in enumerate(merged)}
    for item in over:
        name = _name_of(item, merge_key)
        place = None if name is None else places.get(name)
        if place is None:
            merged.append(item)
        elif key == "env" and ("value" in item or "valueFrom" in item):
            merged[place] = item  # a variable has one source: the new one replaces the old
        else:
            merged[place] = merge(merged[place], item, nulls=nulls)
    return merged


def _name_of(item: Any, merge_key: str) -> str | None:
    name = item.get(merge_key) if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


def with_defaults(given: Any, default: dict[str, Any]) -> Any:
    """Resources with every default that is missing: a null means none of them."""
    if given is not None and not isinstance(given, dict):
        return given  # for the API server to refuse
    given = given or {}
    whole = {
        kind: {**values, **(given.get(kind) or {})} if _is_object(given.get(kind)) else given[kind]
        for kind, values in default.items()
    }
    return {**given, **whole}


def _is_object(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def with_installations(
    base: dict[str, Any], template: dict[str, Any] | None, fixed: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The installation's template over ours, and that of the cluster's profile over both.

    A variable of the agent's own counts more than the installation's, and less than the profile's.
    """
    installed = _with_installations(base, template) if template else base
    return _merge_objects(installed, fixed or {}, nulls=False)


def _with_installations(base: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = merge(base, template)
    own = base["spec"]["containers"][0]["env"]
    merged["spec"]["containers"] = [
        {**container, "env": merge(container.get("env") or [], own, "env")}
        if container["name"] == WORKER
        else container
        for container in merged["spec"]["containers"]
    ]
    return merged


def with_tolerations(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the user, and that a node which does not answer is given up after half a minute."""
    keys = {item.get("key") for item in own}
    away = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": NODE_AWAY_SECONDS,
        }
        for state in ("not-ready", "unreachable")
    ]
    return [*own, *(item for item in away if item["key"] not in keys)]


def mount_redis_ca(spec: dict[str, Any], secret_name: str, key: str) -> None:
    """The certificate of Redis' CA and nothing else of its Secret, in nobody else's place."""
    items = [{"key": key, "path": "ca.crt"}]
    secret = {"secretName": secret_name, "items": items, "defaultMode": _SECRET_MODE}
    others = [volume for volume in spec["volumes"] if volume["name"] != _REDIS_CA]
    spec["volumes"] = [*others, {"name": _REDIS_CA, "secret": secret}]
    mount = {"name": _REDIS_CA, "mountPath": _REDIS_CA_DIR, "readOnly": True}
    for container in spec["containers"]:
        if container["name"] == WORKER:
            given = container.get("volumeMounts") or ()
            mounts = [item for item in given if item["mountPath"] != _REDIS_CA_DIR]
            container["volumeMounts"] = [*mounts, mount]


def every_field(root: dict[str, Any], path: str) -> Iterator[tuple[str, str, Any, int, bool]]:
    """Every field of a tree: path, name, value, depth, and whether it is inside of a secret's.

    Without recursion: how deep the tree is was somebody else's choice.
    """
    left: list[tuple[str, Any, int, bool]] = [(path, root, 0, False)]
    while left:
        here, node, depth, secret = left.pop()
        if isinstance(node, dict):
            for key, value in node.items():
                inner = secret or "secret" in str(key).lower()
                yield f"{here}.{key}", str(key), value, depth, secret
                if isinstance(value, dict | list) and depth <= DEEPEST:
                    left.append((f"{here}.{key}", value, depth + 1, inner))
        else:
            for index, item in enumerate(node):
                label = item.get("name", index) if isinstance(item, dict) else index
                if isinstance(item, dict | list) and depth <= DEEPEST:
                    left.append((f"{here}[{label}]", item, depth + 1, secret))
