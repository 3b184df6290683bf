"""Every Redis key and consumer group that two of Orbiter's programs must agree on.

One home for the names: no other module spells one, so a producer and a consumer cannot drift apart.
`stream_names` reads them back, `redis_users` says which of them each kind of user may touch.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

DEVELOPER_GROUP: Final = "developer-workers"
"""Group on the developer input: every developer wrapper and the operator's intake."""
PO_GROUP: Final = "po-worker"
"""Group on a PO session's input stream, created at id 0 so that nothing sent early is missed."""
OPERATOR_GROUP: Final = "orbiter-operator"
"""Group on the developer output and on the lifecycle stream."""

TRIGGERS_GROUP: Final = "orbiter-triggers"
"""Group on the stream of events of triggers: the triggers' controller."""

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

NAMESPACE_PATTERN: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""A namespace of Kubernetes: a DNS label, so nothing that means something in a key or a glob."""
PREFIX_PATTERN: Final = rf"(?:\{{{NAMESPACE_PATTERN}\}}:)?"
"""What `Keys.prefix` may be: nothing, or a namespace in braces and a colon."""
PREFIX: Final = re.compile(PREFIX_PATTERN)
_DEAD: Final = ":dead"
CHECKPOINT_SUFFIX: Final = ":checkpoint"
"""How the key of an attempt's checkpoints ends, behind that of its record."""
ARTIFACTS_SUFFIX: Final = ":artifacts"
"""The same of its artifacts."""
TRANSCRIPT_SUFFIX: Final = ":transcript"
"""How the key of a transcript ends, of an attempt as of a session."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one namespace, or with no prefix those of an installation without tenants.

    The braces are Redis' hash tag: all keys of a namespace are in one slot. Whatever is in an id,
    a key begins with its prefix, and no prefix begins another one.

    Attributes:
        prefix: `{<namespace>}:`, or "" for the names as they are without.

    Raises:
        ValueError: The prefix is neither.
    """

    prefix: str = ""

    def __post_init__(self) -> None:
        if not PREFIX.fullmatch(self.prefix):
            raise ValueError(
                f"{self.prefix[:80]!r} is no prefix of keys: give {{NAMESPACE}}: or nothing"
            )

    @classmethod
    def of_namespace(cls, namespace: str) -> Self:
        """The keys of a namespace.

        Raises:
            ValueError: There cannot be a namespace of that name.
        """
        if not namespace:
            raise ValueError("a namespace's name is empty: give one, or use Keys() for none")
        return cls(f"{{{namespace}}}:")

    @property
    def namespace(self) -> str:
        """The namespace; "" without a prefix."""
        return self.prefix[1:-2]

    @property
    def beginnings(self) -> tuple[str, ...]:
        """How these keys begin, each of them with one of these."""
        return f"{self.prefix}worker:", f"{self.prefix}agenttask:", self.session_records()

    @property
    def developer_input(self) -> str:
        """Stream of the developers' tasks."""
        return f"{self.prefix}worker:developer:input"

    @property
    def developer_output(self) -> str:
        """Stream of what came of them."""
        return f"{self.prefix}worker:developer:output"

    @property
    def lifecycle(self) -> str:
        """Stream of what workers say of themselves."""
        return f"{self.prefix}worker:lifecycle"

    @property
    def adopted(self) -> str:
        """Key of the hash of the developers' entries from outside that have become AgentTasks.

        By the entry's id: which task, as namespace/name, and since when, in seconds.
        """
        return f"{self.prefix}worker:adopted"

    def po_input(self, worker_id: str) -> str:
        """Input stream of one PO worker."""
        return self._po(worker_id, "input")

    def po_output(self, worker_id: str) -> str:
        """Output stream of one PO worker."""
        return self._po(worker_id, "output")

    def po_snapshot(self, worker_id: str) -> str:
        """Key of a PO worker's snapshot: its agent's session directory, compressed."""
        return self._po(worker_id, "snapshot")

    def po_turns(self, worker_id: str) -> str:
        """Key of the bounded list of a PO worker's latest turns, the newest last: `POTurn`s."""
        return self._po(worker_id, "turns")

    def po_state(self, worker_id: str) -> str:
        """Key of the hash in which a PO worker says where it stands; its fields are `POState`'s.

        Written in one step with each output and each of the worker's lifecycle events, so that
        whoever missed those reads here what is true now.
        """
        return self._po(worker_id, "state")

    def po_hold(self, worker_id: str) -> str:
        """Key that is there while a PO worker shall take no new message, after the one it is on.

        A hash with the field `reason`, kept by the operator. What a worker held before, it still
        ends.
        """
        return self._po(worker_id, "hold")

    def po_lease(self, worker_id: str) -> str:
        """Key of the lease of a PO worker's name: a hash, there while its process lives."""
        return self._po(worker_id, "lease")

    def po_transcript(self, worker_id: str) -> str:
        """Stream of what a PO worker's agent says and does: the end of it (`transcript`)."""
        return self._po(worker_id, "transcript")

    def po_keys(self, worker_id: str) -> tuple[str, ...]:
        """Every key of one PO worker: what goes when its POSession is deleted."""
        streams = (self.po_input(worker_id), self.po_output(worker_id))
        letters = tuple(dead_letter(stream) for stream in streams)
        kinds = ("snapshot", "turns", "state", "hold", "lease", "transcript")
        return (*streams, *letters, *(self._po(worker_id, kind) for kind in kinds))

    def developer_lease(self, worker_id: str, entry: str | None = None) -> str:
        """The same for a developer worker; one bound to an entry has it for that entry alone.

        A task that is made anew under its old name has workers of the old names, and the last one
        of the old task may still be on its way out.
        """
        bound = f":{entry}" if entry else ""
        return f"{self.prefix}worker:developer:{worker_id}{bound}:lease"

    def session_records(self, namespace: str = "") -> str:
        """How the keys of session records begin.

        Args:
            namespace: Where namespaces share the keys: whose own users' records are meant.
        """
        return f"{self.prefix}session:user:{namespace and f'{namespace}:'}"

    def session_record(self, user_id: int | str) -> str:
        """Key of a user's session record."""
        return f"{self.session_records()}{user_id}"

    def session_registry(self, namespace: str, lease: str) -> str:
        """Key of the hash of the sessions whose keys an operator has made.

        Args:
            namespace: The operator's own namespace.
            lease: The name of the Lease that its replicas share.
        """
        return f"{self.prefix}worker:posessions:{namespace}/{lease}"

    def namespace_registry(self, namespace: str, lease: str) -> str:
        """Key of the hash of the namespaces whose Redis users an operator has made.

        Args:
            namespace: The operator's own namespace.
            lease: The name of the Lease that its replicas share.
        """
        return f"{self.prefix}worker:namespaces:{namespace}/{lease}"

    def attempt_record(self, uid: str, attempt: int | str) -> str:
        """Key of the hash that says where one attempt of an AgentTask stands.

        Field `entry`: id of its entry on the developer input, written with the entry. Field
        `output`: id of its entry on the developer output, written with the output. So "was it
        published?" has an answer that does not depend on who has read the output stream how far.
        Field `checkpoint`: what is kept of it while it goes on (`checkpoints.Checkpoint`).
        """
        return f"{self.prefix}agenttask:{uid}:{attempt}"

    def attempt_checkpoint(self, uid: str, attempt: int | str) -> str:
        """Key of the hash with the parts of an attempt's latest two checkpoints."""
        return checkpoint_of(self.attempt_record(uid, attempt))

    def task_artifacts(self, uid: str, attempt: int | str) -> str:
        """Key of the hash with the index of an attempt's artifacts, and with small ones."""
        return artifacts_of(self.attempt_record(uid, attempt))

    def task_transcript(self, uid: str, attempt: int | str) -> str:
        """Stream of what the agent of an attempt says and does: the end of it (`transcript`)."""
        return transcript_of(self.attempt_record(uid, attempt))

    def task_snapshot(self, uid: str) -> str:
        """Key of what the agent's session of an AgentTask needs to go on in another Job.

        A worker whose agent has asked something stores it, the next attempt's worker restores it.
        """
        return f"{self.prefix}agenttask:{uid}:snapshot"

    @property
    def trigger_events(self) -> str:
        """Stream of the events that the receiver of webhooks has let in, of all triggers."""
        return f"{self.prefix}agenttrigger:events"

    def trigger_memory(self, uid: str, digest: str) -> str:
        """Key that is there while it is remembered that an event has made its task.

        Args:
            uid: The trigger's uid.
            digest: Of the event's key, as the task's name has it.
        """
        return f"{self.prefix}agenttrigger:{uid}:made:{digest}"

    def notified(self, uid: str) -> str:
        """Key of the hash of what an object's receivers have been told, or are still to be."""
        return f"{self.prefix}notify:object:{uid}"

    @property
    def notifications(self) -> str:
        """What `dead_letter` is asked for of notifications; there is no stream of this name."""
        return f"{self.prefix}notify:events"

    def notifications_waiting(self, namespace: str, lease: str) -> str:
        """Key of the set of the objects of which a courier still has to tell; without a prefix."""
        return f"{self.prefix}notify:waiting:{namespace}/{lease}"

    def trigger_poll(self, uid: str) -> str:
        """Key of the hash with how far the courier has read what a trigger hears of."""
        return f"{self.prefix}agenttrigger:{uid}:poll"

    def trigger_comments(self, uid: str) -> str:
        """Key of the hash with what the courier has written about each task of a trigger."""
        return f"{self.prefix}agenttrigger:{uid}:comments"

    def _po(self, worker_id: str, kind: str) -> str:
        return f"{self.prefix}worker:po:{worker_id}:{kind}"


def dead_letter(stream: str) -> str:
    """Stream that takes the entries of `stream` nobody could parse, each with its reason."""
    return f"{stream}{_DEAD}"


def checkpoint_of(record: str) -> str:
    """Key of the parts of the checkpoints of the attempt that has this record.

    Fields are `GENERATION:PART` (`checkpoint_scripts.part`).
    """
    return f"{record}{CHECKPOINT_SUFFIX}"


def artifacts_of(record: str) -> str:
    """Key of the artifacts of the attempt that has this record (`artifacts.Artifacts`)."""
    return f"{record}{ARTIFACTS_SUFFIX}"


def transcript_of(record: str) -> str:
    """Key of the transcript of the attempt that has this record."""
    return f"{record}{TRANSCRIPT_SUFFIX}"


ATTEMPT_RECORD_PATTERN: Final = (
    PREFIX_PATTERN + re.escape(Keys().attempt_record("", "")).removesuffix(":") + r"[^:\s]+:\d+"
)
"""What the key of an attempt's record looks like."""

BARE: Final = Keys()
"""The keys without a prefix: of a standalone worker, and of who knows no namespaces."""

KeysOf = Callable[[str], Keys]
"""Which keys a namespace has in an installation."""
