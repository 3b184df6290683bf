"""Whether a podTemplate says only what it may, and the sentence when it says more.

The API server asks the same of a ValidatingAdmissionPolicy of the chart's, so that most templates
that come here are good; those from before it, or where it is not installed, are refused here.
`rules` adds what no template may have, whatever the chart allows. Pure, and total: a template is
followed only as far as the table of `allowed_fields` goes.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_operator.kube.names import WORKER
from orbiter_operator.pods.allowed_fields import (
    ANYTHING,
    ITEMS,
    MAX_ITEMS,
    NEVER,
    NONE_OF,
    ONE_OF,
    OUR_SECRETS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    TOLERATIONS,
    WHY,
    WORKERS,
    Node,
    allowed,
)
from orbiter_operator.pods.template import Object, WorkerDefaults

_ALLOW = "workers.podTemplate.allow"
_ROOT = "spec.podTemplate"
_SHOWN = 200
_SHORTEST = 4

_Values = dict[str, tuple[Any, ...]]


class _Problem(NamedTuple):
    """A field that may not be, and why, beginning with a space."""

    path: str
    why: str


def template_error(overlay: Object, defaults: WorkerDefaults) -> str | None:
    """Why a podTemplate says more than it may: the field and what to do; None when it does not.

    Args:
        overlay: The spec's podTemplate.
        defaults: What the installation says, more fields and values among it.
    """
    values: _Values = {
        PRIORITY_CLASSES: defaults.priority_classes,
        RUNTIME_CLASSES: defaults.runtime_classes,
        TOLERATIONS: defaults.tolerations,
        OUR_SECRETS: (defaults.redis_secret, *defaults.protected_secrets),
        SERVICE_ACCOUNTS: (defaults.service_account, *defaults.allowed_service_accounts),
    }
    table = allowed(defaults.template_fields)
    found = next(_problems(table, overlay, "", "", values), None)
    return f"{_ROOT}.{one_line(found.path, _SHOWN)}{found.why}" if found else None


def _problems(node: Node, value: Any, path: str, level: str, values: _Values) -> Iterator[_Problem]:
    if node is ANYTHING:
        return
    if NEVER in node:
        yield _Problem(path, f": {node[NEVER]}; leave it out")
    elif ONE_OF in node:
        if value not in values.get(node[ONE_OF], ()):
            yield _Problem(path, _foreign(value, node[ONE_OF]))
    elif NONE_OF in node:
        yield from _reserved(node, value, path, values)
    elif ITEMS in node or WORKERS in node:
        yield from _in_list(node, value, path, level, values)
    else:
        yield from _in_object(node, value, path, level, values)


def _reserved(node: Node, value: Any, path: str, values: _Values) -> Iterator[_Problem]:
    """Names that are Orbiter's own, in a text or among the keys of a map."""
    names = value.items() if isinstance(value, dict) else ((value, value),)
    patterns = node[NONE_OF]
    own = values[OUR_SECRETS] if patterns == OUR_SECRETS else patterns
    for name, shown in ((name, shown) for name, shown in names if is_one_of(name, own)):
        where = f"{path}[{name}]" if isinstance(value, dict) else path
        yield _Problem(where, f" is {one_line(repr(shown), _SHOWN)}, {node[WHY]}")


def _in_object(
    node: Node, value: Any, path: str, level: str, values: _Values
) -> Iterator[_Problem]:
    if not isinstance(value, dict):
        if value is not None:
            yield _Problem(path, " is not an object; write fields")
        return
    for key in (key for key in value if key not in node):
        yield _Problem(_join(path, key), _unknown(str(key), level, node))
    for key in sorted(node.keys() & value.keys()):
        yield from _problems(node[key], value[key], _join(path, key), _join(level, key), values)


def _in_list(node: Node, value: Any, path: str, level: str, values: _Values) -> Iterator[_Problem]:
    if not isinstance(value, list):
        if value is not None:
            yield _Problem(path, " is not a list; write items")
        return
    if len(value) > MAX_ITEMS:
        yield _Problem(path, f" has more than {MAX_ITEMS} items; write fewer")
        return
    items = node.get(ITEMS)
    named = WORKERS in node or (isinstance(items, dict) and "name" in items)
    for item in value:
        name = item.get("name") if isinstance(item, dict) else None
        place = WORKERS if name == WORKER and WORKERS in node else ITEMS
        where = f"{path}[{name if named and isinstance(name, str) else ''}]"
        if place in node:
            yield from _problems(node[place], item, where, f"{level}{place}", values)
        else:
            yield _Problem(where, _not_allowed("", level))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)


def is_one_of(name: object, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these; a pattern that ends with * is a beginning."""
    return isinstance(name, str) and any(
        name.startswith(own[:-1]) if own.endswith("*") else name == own for own in patterns
    )


def _foreign(value: Any, where: str) -> str:
    plain = isinstance(value, str | None)
    is_what = f" is {one_line(repr(value), _SHOWN)}," if plain else " is"
    return (
        f"{is_what} not one of the chart's {where}; leave it out, or have the administrator "
        "add it there"
    )


def _unknown(key: str, level: str, known: Iterable[str]) -> str:
    near = nearest(key, known)
    return _not_allowed(f"; did you mean {near}?" if near else "", _join(level, key))


def _not_allowed(hint: str, path: str) -> str:
    said = f" is not for a podTemplate to say{hint}{' Else' if hint else ';'} leave it out"
    if not path.startswith("spec."):
        return said  # the resource definition has no other
    return f"{said}, or have the administrator add {one_line(path, _SHOWN)} to the chart's {_ALLOW}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name from which this one is a slip of the pen, in whatever case.

    A slip is a letter more, less or other, or two exchanged. The chart's policy has it in CEL.
    """
    typed = name.lower()
    for other in sorted(known) if len(typed) >= _SHORTEST else ():
        meant = other.lower()
        if abs(len(meant) - len(typed)) <= 1 and any(
            meant.startswith(typed[:place]) and meant.endswith(typed[place + 2 :])
            for place in range(len(typed))
        ):
            return other
    return None
