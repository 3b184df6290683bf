"""What objects of an installation say of how it is: pure, and total for whatever they hold."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from orbiter.cli.kubectl.client import Object
from orbiter.cli.ui.text import moment, one_line

_COMPONENT = "app.kubernetes.io/component"
_ORDINARY = ("ContainerCreating", "PodInitializing")
_RESTARTS = 3
_FIELDS_SHOWN = 3
_UNTOLD = ("NotificationFailed", "NotificationDelayed")
_HELD_UP = ("QueueUnavailable", "RedisQuotaExceeded", "NamespaceNotServed")


def reached_by(program: Object) -> str:
    """Which part of the installation a Deployment or StatefulSet is."""
    return one_line(str((program["metadata"].get("labels") or {}).get(_COMPONENT, "?")), 20)


def not_ready(program: Object) -> str:
    """Why a Deployment or StatefulSet is not well; empty when it is."""
    wanted = (program.get("spec") or {}).get("replicas", 1)
    ready = (program.get("status") or {}).get("readyReplicas", 0)
    if wanted == 0:
        return f"{reached_by(program)} is scaled to 0"
    return "" if ready >= wanted else f"{reached_by(program)}: {ready} of {wanted} pods ready"


def trouble_of(pod: Object) -> str:
    """Why a pod does not get on; empty when it does, or has ended."""
    status, name = pod.get("status") or {}, one_line(pod["metadata"]["name"], 63)
    for condition in status.get("conditions") or ():
        if condition.get("reason") == "Unschedulable":
            return f"pod {name} fits on no node: {condition.get('message', '')}"
    kinds = ("initContainerStatuses", "containerStatuses")
    for container in (each for kind in kinds for each in status.get(kind) or ()):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting and waiting.get("reason") not in _ORDINARY:
            image = container.get("image", "")
            return f"pod {name} waits: {waiting.get('reason')}, image {image}"
        if container.get("restartCount", 0) >= _RESTARTS:
            return f"pod {name} was restarted {container['restartCount']} times"
    return ""


def not_told(events: list[Object]) -> str:
    """What the courier could not tell, as its Events say; empty when it could."""
    found = [each for each in events if each.get("reason") in _UNTOLD]
    if not found:
        return ""
    last = found[-1]
    name = one_line(str((last.get("involvedObject") or {}).get("name", "?")), 63)
    more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
    return f"{name}: {one_line(str(last.get('message', '')), 120)}{more}"


def held(lease: Object, now: datetime) -> tuple[str, float | None, float]:
    """Who holds a Lease, how many seconds ago they said so, and for how long that holds."""
    spec = lease.get("spec") or {}
    renewed = moment(spec.get("renewTime"))
    age = None if renewed is None else (now - renewed).total_seconds()
    holder = one_line(str(spec.get("holderIdentity") or ""), 80)
    duration = spec.get("leaseDurationSeconds")
    return holder, age, float(duration) if isinstance(duration, int) else 15.0


def differs(crd: Object) -> str:
    """Which fields the cluster's AgentTask lacks that this command knows, as a sentence."""
    from importlib.resources import files

    import yaml

    own = yaml.safe_load((files("orbiter.cli") / "data/agenttask.yaml").read_bytes())
    missing = sorted(set(_fields(own)) - set(_fields(crd)))
    if not missing:
        return ""
    shown = ", ".join(missing[:_FIELDS_SHOWN])
    more = f" and {len(missing) - _FIELDS_SHOWN} more" if len(missing) > _FIELDS_SHOWN else ""
    return f"the AgentTask of the cluster is an older one: it has no {shown}{more}"


def _fields(crd: Object) -> Iterator[str]:
    for version in (crd.get("spec") or {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for part in ("spec", "status"):
            yield from _below((schema.get("properties") or {}).get(part) or {}, part)


def _below(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in (schema.get("properties") or {}).items():
        yield f"{path}.{name}"
        yield from _below(field, f"{path}.{name}")


def held_up_by(each: Object) -> Object | None:
    """The condition that says so; of several, which some are shortened, the one with most words."""
    conditions: list[Object] = (each.get("status") or {}).get("conditions", [])
    found = (one for one in conditions if one.get("reason") in _HELD_UP)
    return max(found, key=lambda one: len(str(one.get("message", ""))), default=None)
