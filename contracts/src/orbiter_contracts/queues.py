"""Every Redis key and consumer group that two of Orbiter's programs must agree on.

One home for the names: a producer and a consumer that import them from here cannot drift apart.
"""

from typing import Final

DEVELOPER_INPUT: Final = "worker:developer:input"
DEVELOPER_OUTPUT: Final = "worker:developer:output"
LIFECYCLE: Final = "worker:lifecycle"

DEVELOPER_GROUP: Final = "developer-workers"
"""Group on DEVELOPER_INPUT: every developer wrapper and the operator's dispatcher."""
PO_GROUP: Final = "po-worker"
"""Group on a PO session's input stream, created at id 0 so that nothing sent early is missed."""
OPERATOR_GROUP: Final = "orbiter-operator"
"""Group on DEVELOPER_OUTPUT and LIFECYCLE."""

DATA_FIELD: Final = "data"
"""The one field of every stream entry: the message's JSON."""
TASK_FIELD: Final = "agenttask"
"""Routing field `<namespace>/<name>`: the entry belongs to that AgentTask's Job."""
ATTEMPT_FIELD: Final = "attempt"
"""Routing field: which attempt of the AgentTask, counted from 1."""
REASON_FIELD: Final = "reason"
"""Routing field of a dead letter: why the message could not be used."""

SESSION_TTL_SECONDS: Final = 24 * 60 * 60
"""How long a session record lives after its last use."""


def po_input(worker_id: str) -> str:
    """Input stream of one PO worker."""
    return f"worker:po:{worker_id}:input"


def po_output(worker_id: str) -> str:
    """Output stream of one PO worker."""
    return f"worker:po:{worker_id}:output"


def po_snapshot(worker_id: str) -> str:
    """Key of a PO worker's snapshot: its agent's session directory, compressed."""
    return f"worker:po:{worker_id}:snapshot"


def po_turns(worker_id: str) -> str:
    """Key of the bounded list of a PO worker's latest turns, the newest last: `POTurn` as JSON."""
    return f"worker:po:{worker_id}:turns"


def po_state(worker_id: str) -> str:
    """Key of the hash in which a PO worker says where it stands; its fields are `POState`'s.

    Written in one step with each output and each of the worker's lifecycle events, so that whoever
    missed those reads here what is true now.
    """
    return f"worker:po:{worker_id}:state"


def po_hold(worker_id: str) -> str:
    """Key that is there while a PO worker shall take no new message, after the one it is on.

    A hash with the field `reason`, kept by the operator. What a worker held before, it still ends.
    """
    return f"worker:po:{worker_id}:hold"


def po_lease(worker_id: str) -> str:
    """Key of the lease of a PO worker's name: a hash that is there while its process lives."""
    return f"worker:po:{worker_id}:lease"


def developer_lease(worker_id: str, entry: str | None = None) -> str:
    """The same for a developer worker; one that is bound to an entry has it for that entry alone.

    A task that is made anew under its old name has workers of the old names, and the last one of
    the old task may still be on its way out.
    """
    bound = f":{entry}" if entry else ""
    return f"worker:developer:{worker_id}{bound}:lease"


def po_keys(worker_id: str) -> tuple[str, ...]:
    """Every key of one PO worker: what goes when its POSession is deleted."""
    streams = (po_input(worker_id), po_output(worker_id))
    letters = tuple(dead_letter(stream) for stream in streams)
    kept = (po_snapshot(worker_id), po_turns(worker_id), po_state(worker_id), po_hold(worker_id))
    return (*streams, *letters, *kept, po_lease(worker_id))


def dead_letter(stream: str) -> str:
    """Stream that takes the entries of `stream` nobody could parse, each with its reason."""
    return f"{stream}:dead"


SESSION_RECORDS: Final = "session:user:"
"""How the keys of session records begin, unless a namespace has its own."""


def session_records(namespace: str) -> str:
    """How the keys of session records of one namespace's own users begin."""
    return f"{SESSION_RECORDS}{namespace}:"


def session_record(user_id: int | str, records: str = SESSION_RECORDS) -> str:
    """Key of a user's session record."""
    return f"{records}{user_id}"


def attempt_record(uid: str, attempt: int) -> str:
    """Key of the hash that says where one attempt of an AgentTask stands.

    Field `entry`: id of its entry on DEVELOPER_INPUT, written with the entry. Field `output`: id of
    its entry on DEVELOPER_OUTPUT, written with the output. So "was it published?" has an answer
    that does not depend on who has read the output stream how far.
    """
    return f"agenttask:{uid}:{attempt}"


def task_snapshot(uid: str) -> str:
    """Key of what the agent's session of an AgentTask needs to go on in another Job.

    A worker whose agent has asked something stores it, the next attempt's worker restores it.
    """
    return f"agenttask:{uid}:snapshot"
