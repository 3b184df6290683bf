"""The Redis users of a namespace, and those of triggers: which keys each may touch, and how.

The rules take the namespace's `Keys`. A namespace in braces is literal in a pattern of Redis:
braces mean nothing in its globs. Keys without a prefix are shared by namespaces: there what belongs
to a session is told apart by its worker id, which begins with the namespace and a dot, and tasks
are not told apart at all. What comes from outside into a pattern is escaped. The rules are
arguments of `ACL SETUSER`, each whole in itself: a user that has them has nothing else, whatever it
had before.
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
_LONGEST_NUMBER: Final = 20
"""Characters of a user id: 64 bits with a sign."""
# What a client says to begin with. TRACKING could be told of every key that anybody changes.
_CONNECTION: Final = (
    *("+@connection", "-@dangerous", "-select"),
    *("-client|tracking", "-client|trackinginfo", "-client|caching"),
)
_CONSUME: Final = (
    *("+xreadgroup", "+xack", "+xdel", "+xclaim", "+xpending", "+xrange", "+xinfo|consumers"),
    "+xgroup|delconsumer",
)
_FUNCTIONS: Final = ("+fcall",)
_LEASE: Final = ("+type", "+ttl", "+expire", "+hget", "+hset")
_RECORD: Final = ("+get", "+set", "+hget", "+hmget", "+hset", "+expire")
_APPEND: Final = ("+fcall", "+xadd", "+xrange", "+xrevrange")
"""The function that appends to a transcript runs with its caller's rights, and looks at both of its
ends. Whoever may XADD may trim with it, too; nothing else here deletes."""
_READ: Final = ("+xread", "+xrange", "+xrevrange", "+xlen")
_ADD: Final = ("+xadd", "+set", "+hset", "+hsetnx", "+hincrbyfloat", "+rpush")
"""All rights above by which a value grows."""
MANAGES_USERS: Final = (
    *("+acl|setuser", "+acl|deluser", "+acl|users", "+client|kill", "+client|list"),
    *("+function|load", "+info"),
)
"""What an operator's user may have beside its work, to make these users and load the functions."""
COUNTS_BYTES: Final = ("+scan", "+memory|usage", "+type", "+hlen")
"""The same, to count what each namespace has."""
BOUNDS_TRANSCRIPTS: Final = ("+scan", "+memory|usage", "+ttl", "+info", "+xtrim", "+expire")
"""The same, to keep transcripts within a part of Redis, and to let them lapse."""


_EVENTS_OF_ALL: Final = Keys().trigger_events.replace("events", "*")
_ANY_NAMESPACE: Final = "{*}:"


def triggers_rules() -> Rules:
    """What the controller of triggers may: read events of all namespaces, and remember tasks."""
    return (
        *_NOTHING,
        f"~{_ANY_NAMESPACE}{_EVENTS_OF_ALL}",
        *(*_CONNECTION, "+@transaction", "+client|unblock"),
        *("+xreadgroup", "+xack", "+xdel", "+xrange", "+xadd", "+xgroup|create"),
        *("+mget", "+set", "+eval", "+evalsha", "+script|load"),
    )


def receiver_rules() -> Rules:
    """What the receiver of webhooks may: add events, and see how many there are."""
    return (
        *_NOTHING,
        f"~{_ANY_NAMESPACE}{Keys().trigger_events}",
        *(*_CONNECTION, "+@transaction"),
        *("+xadd", "+xlen", "+memory|usage", "+expire"),
    )


def courier_rules() -> Rules:
    """What the courier may: add events, ask which have made a task, and keep what it has done."""
    keys = Keys()
    written = (keys.trigger_events, keys.trigger_poll("*"), keys.trigger_comments("*"))
    return (
        *_NOTHING,
        *(f"~{_ANY_NAMESPACE}{name}" for name in written),
        f"%R~{_ANY_NAMESPACE}{keys.trigger_memory('*', '*')}",
        *(*_CONNECTION, "+@transaction"),
        *("+xadd", "+xlen", "+memory|usage", "+expire"),
        *("+mget", "+hget", "+hgetall", "+hset", "+hdel"),
        _notifications(),
    )


def _notifications() -> str:
    """To note and settle them: commands that reach no other key."""
    told = Keys().notifications.replace("events", _ANY)
    commands = "+hsetnx +hset +hgetall +expire +xadd +xlen +memory|usage +sadd +srem +smembers"
    return _selector((commands,), (f"{_ANY_NAMESPACE}{told}", told))


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


def transcript_user(namespace: str) -> str:
    """Name of the user of who reads a namespace's transcripts, and nothing else."""
    return f"t:{namespace}"


def namespace_of(user: str) -> str:
    """The namespace of a user whose name is one of those above."""
    return user.split(":")[1]


def is_client(user: str) -> bool:
    """Whether a user is that of front ends or producers: who only adds work, and does none."""
    return user.startswith((chat_user(""), producer_user("")))


def operator_patterns() -> tuple[str, ...]:
    """Patterns of the keys that an operator uses: those of all namespaces, and those of none."""
    beginnings = BARE.beginnings
    return tuple(f"{prefix}{kind}{_ANY}" for prefix in (f"{{{_ANY}}}:", "") for kind in beginnings)


def worker_patterns(keys: Keys) -> tuple[str, ...]:
    """Patterns of the keys of a namespace's developer workers."""
    streams = (keys.developer_input, keys.developer_output, dead_letter(keys.developer_input))
    tasks = (*_attempt_keys(keys), keys.task_snapshot(_ANY))
    return (*streams, keys.developer_lease(_ANY), *tasks, keys.lifecycle)


def _attempt_keys(keys: Keys) -> tuple[str, ...]:
    """What is known and kept of attempts; not their transcripts, which are appended to alone."""
    record = keys.attempt_record(_ANY, f"{_ANY}[0-9]")
    return record, keys.attempt_checkpoint(_ANY, _ANY), keys.task_artifacts(_ANY, _ANY)


def session_patterns(keys: Keys, worker_id: str, record: str) -> tuple[str, ...]:
    """Patterns of the keys of one PO worker: exactly its own, and its user's record.

    Raises:
        ValueError: An id has a white space, a quote or a NUL, which no pattern can have.
    """
    return (*keys.po_keys(literal(worker_id)), literal(record), keys.lifecycle)


def worker_rules(keys: Keys) -> Rules:
    """What a namespace's developer workers may: take, answer and checkpoint."""
    attempts, leases = _attempt_keys(keys), keys.developer_lease(_ANY)
    answers = (keys.developer_output, dead_letter(keys.developer_input), keys.lifecycle)
    return (
        *_NOTHING,
        *_keys(worker_patterns(keys)),
        *(*_CONNECTION, *_CONSUME, *_FUNCTIONS, "+exists"),
        _selector(_LEASE, (*attempts, leases)),
        _selector(("+hexists",), attempts[:1]),
        _selector(("+hkeys", "+hdel"), (keys.attempt_checkpoint(_ANY, _ANY),)),
        _selector(("+get", "+set"), (keys.task_snapshot(_ANY),)),
        _selector(("+xadd",), answers),
        _selector(_APPEND, (keys.task_transcript(_ANY, _ANY),)),
    )


def session_rules(keys: Keys, worker_id: str, record: str) -> Rules:
    """What one PO worker may: take, answer and snapshot.

    Args:
        keys: The keys of the session's namespace.
        worker_id: The session's worker id.
        record: Key of its user's session record.

    Raises:
        ValueError: See `session_patterns`.
    """
    worker, own_record = literal(worker_id), literal(record)
    state, turns, lease = keys.po_state(worker), keys.po_turns(worker), keys.po_lease(worker)
    snapshot, input_stream = keys.po_snapshot(worker), keys.po_input(worker)
    answers = (keys.po_output(worker), dead_letter(input_stream), keys.lifecycle)
    hashes = ("+hget", "+hgetall", "+hset", "+hsetnx", "+hdel", "+hincrbyfloat")
    return (
        *_NOTHING,
        *_keys(session_patterns(keys, worker_id, record)),
        *(*_CONNECTION, *_FUNCTIONS, "+exists"),
        _selector(_CONSUME, (input_stream,)),
        _selector(_LEASE, (lease,)),
        _selector(hashes, (state,)),
        _selector(("+rpush", "+ltrim", "+lrange"), (turns,)),
        _selector(("+get", "+set"), (snapshot,)),
        _selector(_RECORD, (own_record,)),
        _selector(("+xadd",), answers),
        _selector(_APPEND, (keys.po_transcript(worker),)),
    )


def chat_rules(keys: Keys, namespace: str, records: str) -> Rules:
    """What a namespace's chat front ends may: send, read answers and state, keep records.

    They may also see that nothing waits, within a transaction (`session_questions`).

    Args:
        keys: The namespace's keys.
        namespace: Its name.
        records: How the keys of its users' session records begin.
    """
    own = _ANY if keys.prefix else f"{namespace}.{_ANY}"
    told = (keys.po_output(own), keys.po_state(own))
    return (
        *(*_NOTHING, *_CONNECTION, "+@transaction"),
        _selector(("+xadd", "+xlen", "+watch"), (keys.po_input(own),)),
        _selector((*_READ, "+watch", "+hgetall", "+hget", "+hmget"), told, reads=True),
        _selector((*_RECORD, "+exists", "+hgetall"), _records(records)),
    )


def producer_rules(keys: Keys) -> Rules:
    """What who hands in a namespace's tasks may: XADD them, and read what came of them.

    Their artifacts too.
    """
    return (
        *(*_NOTHING, *_CONNECTION, "+@transaction"),
        _selector(("+xadd",), (keys.developer_input,)),
        _selector(_READ, (keys.developer_output,), reads=True),
        _selector(("+hget", "+hkeys"), (keys.task_artifacts(_ANY, _ANY),), reads=True),
    )


def transcript_rules(keys: Keys, namespace: str) -> Rules:
    """What who reads a namespace's transcripts may: that, and nothing else."""
    sessions = keys.po_transcript(_ANY if keys.prefix else f"{namespace}.{_ANY}")
    transcripts = (keys.task_transcript(_ANY, _ANY), sessions)
    return (
        *(*_NOTHING, *_CONNECTION, "+@transaction"),
        _selector((*_READ, "+exists"), transcripts, reads=True),
    )


def without_adding(rules: Rules) -> Rules:
    """The same rights but for those to add: who reads, acknowledges and deletes goes on.

    Every function of a worker's begins with what it adds, so one that is refused has done nothing.
    """
    return tuple(_rule_without_adding(rule) for rule in rules if rule not in _ADD)


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


def _selector(commands: Rules, patterns: Iterable[str], *, reads: bool = False) -> str:
    """A selector: these commands with these keys, beside all else."""
    return f"({' '.join(('-@all', *commands, *_keys(patterns, reads=reads)))})"


def _rule_without_adding(rule: str) -> str:
    if not rule.startswith("("):
        return rule
    # No word of a selector has a space: `literal` sees to it.
    return f"({' '.join(word for word in rule[1:-1].split(' ') if word not in _ADD)})"


def _records(records: str) -> tuple[str, ...]:
    """Patterns of the session records that begin so, and of no other namespace's.

    Behind `session:user:` stand users of one namespace as numbers, and the names of all others.
    """
    if records != BARE.session_records():
        return (f"{records}{_ANY}",)
    return tuple(f"{records}[0-9-]{'[0-9]' * more}" for more in range(_LONGEST_NUMBER))
