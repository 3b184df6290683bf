"""The Redis users of a namespace: which keys each may touch, and what it may do with them.

A namespace in braces is literal in a pattern of Redis: braces mean nothing in its globs. What comes
from outside into a pattern is escaped. The rules are arguments of `ACL SETUSER`, each whole in
itself: a user that has them has nothing else, whatever it had before.
"""

import re
from collections.abc import Iterable
from typing import Final

from orbiter_contracts.queues import BARE, Keys, dead_letter

Rules = tuple[str, ...]

_ANY: Final = "*"
_GLOB: Final = re.compile(r"[][*?\\^]")
# Redis splits a selector as a command line is split: at spaces, and quotes hold together.
_UNUSABLE: Final = re.compile(r"""[\s\x00"']""")
_NOTHING: Final = ("resetkeys", "resetchannels", "clearselectors", "-@all")
# What a client says to begin with. TRACKING could be told of every key that anybody changes.
_CONNECTION: Final = (
    *("+@connection", "-@dangerous", "-select"),
    *("-client|tracking", "-client|trackinginfo", "-client|caching"),
)
_CONSUME: Final = (
    *("+xreadgroup", "+xack", "+xdel", "+xclaim", "+xpending", "+xrange", "+xinfo|consumers"),
    *("+xgroup|create", "+xgroup|delconsumer"),
)
_FUNCTIONS: Final = ("+fcall",)
_LEASE: Final = ("+type", "+ttl", "+expire", "+hget", "+hset")
_RECORD: Final = ("+get", "+set", "+hget", "+hmget", "+hset", "+expire")
_READ: Final = ("+xread", "+xrange", "+xrevrange", "+xlen")


def worker_user(namespace: str) -> str:
    """Name of the user of a namespace's developer workers."""
    return f"w:{namespace}"


def session_user(namespace: str, session: str) -> str:
    """Name of the user of one PO worker."""
    return f"s:{namespace}:{session}"


def chat_user(namespace: str) -> str:
    """Name of the user of a namespace's chat front ends."""
    return f"c:{namespace}"


def producer_user(namespace: str) -> str:
    """Name of the user of who hands in a namespace's tasks by themselves."""
    return f"p:{namespace}"


def operator_patterns() -> tuple[str, ...]:
    """Patterns of the keys that an operator uses: those of all namespaces, and those of none."""
    beginnings = BARE.beginnings
    return tuple(f"{prefix}{kind}{_ANY}" for prefix in (f"{{{_ANY}}}:", "") for kind in beginnings)


def worker_patterns(namespace: str) -> tuple[str, ...]:
    """Patterns of the keys of a namespace's developer workers."""
    keys = Keys.of_namespace(namespace)
    streams = (keys.developer_input, keys.developer_output, dead_letter(keys.developer_input))
    tasks = (keys.attempt_record(_ANY, _ANY), keys.task_snapshot(_ANY))
    return (*streams, keys.developer_lease(_ANY), *tasks, keys.lifecycle)


def session_patterns(namespace: str, worker_id: str, user_id: int) -> tuple[str, ...]:
    """Patterns of the keys of one PO worker: exactly its own, and its user's record.

    Raises:
        ValueError: The id has a white space, a quote or a NUL, which no pattern can have.
    """
    keys, worker = Keys.of_namespace(namespace), literal(worker_id)
    return (*keys.po_keys(worker), keys.session_record(user_id), keys.lifecycle)


def chat_patterns(namespace: str) -> tuple[str, ...]:
    """Patterns of the keys of a namespace's chat front ends."""
    keys = Keys.of_namespace(namespace)
    streams = (keys.po_input(_ANY), keys.po_output(_ANY), keys.po_state(_ANY))
    return (*streams, keys.session_record(_ANY))


def producer_patterns(namespace: str) -> tuple[str, ...]:
    """Patterns of the keys of who hands in a namespace's tasks."""
    keys = Keys.of_namespace(namespace)
    return keys.developer_input, keys.developer_output


def worker_rules(namespace: str) -> Rules:
    """What a namespace's developer workers may: take, answer and checkpoint."""
    keys = Keys.of_namespace(namespace)
    record, leases = keys.attempt_record(_ANY, _ANY), keys.developer_lease(_ANY)
    answers = (keys.developer_output, dead_letter(keys.developer_input), keys.lifecycle)
    return (
        *_NOTHING,
        *_keys(worker_patterns(namespace)),
        *(*_CONNECTION, *_CONSUME, *_FUNCTIONS, "+exists"),
        _also(_LEASE, (record, leases)),
        _also(("+hexists",), (record,)),
        _also(("+get", "+set"), (keys.task_snapshot(_ANY),)),
        _also(("+xadd",), answers),
    )


def session_rules(namespace: str, worker_id: str, user_id: int) -> Rules:
    """What one PO worker may: take, answer and snapshot.

    Raises:
        ValueError: See `session_patterns`.
    """
    keys, worker = Keys.of_namespace(namespace), literal(worker_id)
    state, turns, lease = keys.po_state(worker), keys.po_turns(worker), keys.po_lease(worker)
    snapshot, input_stream = keys.po_snapshot(worker), keys.po_input(worker)
    answers = (keys.po_output(worker), dead_letter(input_stream), keys.lifecycle)
    hashes = ("+hget", "+hgetall", "+hset", "+hsetnx", "+hdel", "+hincrbyfloat")
    return (
        *_NOTHING,
        *_keys(session_patterns(namespace, worker_id, user_id)),
        *(*_CONNECTION, *_FUNCTIONS, "+exists"),
        _also(_CONSUME, (input_stream,)),
        _also(_LEASE, (lease,)),
        _also(hashes, (state,)),
        _also(("+rpush", "+ltrim", "+lrange"), (turns,)),
        _also(("+get", "+set"), (snapshot,)),
        _also(_RECORD, (keys.session_record(user_id),)),
        _also(("+xadd",), answers),
    )


def chat_rules(namespace: str) -> Rules:
    """What a namespace's chat front ends may: send, read answers and state, keep records."""
    keys = Keys.of_namespace(namespace)
    told = (keys.po_output(_ANY), keys.po_state(_ANY))
    return (
        *(*_NOTHING, *_CONNECTION, "+@transaction"),
        _also(("+xadd",), (keys.po_input(_ANY),)),
        _also((*_READ, "+hgetall", "+hget", "+hmget"), told, reads=True),
        _also((*_RECORD, "+exists", "+hgetall"), (keys.session_record(_ANY),)),
    )


def producer_rules(namespace: str) -> Rules:
    """What who hands in a namespace's tasks may: XADD them, and read what came of them."""
    keys = Keys.of_namespace(namespace)
    return (
        *(*_NOTHING, *_CONNECTION, "+@transaction"),
        _also(("+xadd",), (keys.developer_input,)),
        _also(_READ, (keys.developer_output,), reads=True),
    )


def literal(text: str) -> str:
    r"""A text as a pattern that means this text alone: `*` becomes `\*`.

    Raises:
        ValueError: It has a white space, a quote or a NUL: no selector of Redis can hold that.
    """
    if _UNUSABLE.search(text):
        raise ValueError(
            f"{text[:80]!r} has a white space, a quote or a NUL, which no Redis pattern can have"
        )
    return _GLOB.sub(r"\\\g<0>", text)


def _keys(patterns: Iterable[str], *, reads: bool = False) -> Rules:
    return tuple(f"{'%R~' if reads else '~'}{pattern}" for pattern in patterns)


def _also(commands: Rules, patterns: Iterable[str], *, reads: bool = False) -> str:
    """A selector: these commands with these keys, beside all else."""
    return f"({' '.join(('-@all', *commands, *_keys(patterns, reads=reads)))})"
