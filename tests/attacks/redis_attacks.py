"""At Redis, with the URLs that the Secrets of namespace B give: one line of redis-cli an attack.

Aimed at A, and once more at C: the rules of keys without a prefix are others than those of keys
with one. The control runs the same line on a copy of these keys, in the name of a user without
rules.
"""

import shlex
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from string import Template
from typing import Any

from attacks.field import Field, said_by
from attacks.names import B, settings_of
from attacks.redis_lines import (
    ADD,
    CONVERSATION,
    EVENTS,
    LOOP,
    PRODUCING,
    QUEUE_CLOSED,
    QUEUE_OPEN,
    READING,
    READING_OWN,
    SERVER,
    Lines,
    against_c,
)
from attacks.table import Attack, Guard, Party, Refused
from orbiter_contracts.queues import Keys

DENIED = r"(?i)no permissions to (run|access)|can't (access|run)"
_MUCH = 70 * 1024 * 1024
_PIECE = 1024 * 1024
_TAKEN_SECONDS = 5.0
"""Within which somebody who has too much loses the rights to add."""


def line(name: str, party: Party, user: str, command: str, *, refusal: str = DENIED) -> Attack:
    """An attack that is one line of redis-cli.

    Args:
        name: What the attacker wants.
        party: Who it is.
        user: In whose name: a key of `Field.urls`.
        command: The line, with names of keys.
        refusal: A pattern of Redis' answer.
    """
    words = tuple(Template(word) for word in shlex.split(command))

    def spelled(field: Field) -> tuple[str, ...]:
        return tuple(word.substitute(field.names) for word in words)

    return Attack(
        name=f"{name}, as {user}",
        party=party,
        guard=Guard.REDIS,
        action=lambda field: field.redis(user, *spelled(field)),
        control=lambda field: field.redis_copy(*spelled(field)),
        refusal=refusal,
    )


def _lines(party: Party, user: str, *tables: Lines) -> list[Attack]:
    """Each line aimed at A, or at nobody, and then those that aim at A aimed at C."""
    lines = [line for table in tables for line in (*table, *against_c(table))]
    return [line(name, party, user, command) for name, command in lines]


DEVELOPER, SESSION = "a developer worker", "a session"
CHAT, PRODUCER = "a chat front end", "a producer"
READER = "a reader of transcripts"


def _announcement(party: Party, user: str) -> Attack:
    return Attack(
        name=f"begins a request of 70 MB, as {user}",
        party=party,
        guard=Guard.LIMITS,
        action=lambda field: field.announce(user, _MUCH),
        control=lambda field: field.announce_copy(_MUCH),
        refusal="invalid bulk length",
    )


def _filling(party: Party, user: str, command: str, quotas: int) -> Attack:
    """An attack that adds until that many quotas of its namespace are there, and then goes on.

    Args:
        party: Who it is.
        user: In whose name.
        command: One step of it, behind which the bytes stand.
        quotas: How many.
    """
    words = tuple(Template(word) for word in shlex.split(command))
    keys = Keys.of_namespace(B)
    made = {"input": keys.developer_input, "session": keys.po_input("attacks-made")}

    def step(field: Field) -> tuple[str, ...]:
        return tuple(word.substitute(field.names | made) for word in words)

    def fill(client: Any, field: Field) -> Iterator[Any]:
        quota = int(settings_of(field.world)["ORBITER_REDIS_QUOTA_BYTES"])
        for _ in range(quota * quotas // _PIECE + 1):
            yield said_by(client, (*step(field), b"x" * _PIECE))
        deadline = time.monotonic() + _TAKEN_SECONDS
        while time.monotonic() < deadline:
            yield said_by(client, (*step(field), b"x"))

    def action(field: Field) -> None:
        added: list[Any] = []
        try:
            with field.client(user) as client:
                deque(map(added.append, fill(client, field)), maxlen=0)
        finally:
            _empty(field, user, step(field), added)

    def control(field: Field) -> None:
        with field.client_of_copy() as client:
            deque(fill(client, field), maxlen=0)
            client.flushall()

    return Attack(
        name=f"fills Redis' memory, as {user}",
        party=party,
        guard=Guard.QUOTA,
        action=action,
        control=control,
        refusal=DENIED,
    )


def _empty(field: Field, user: str, step: tuple[str, ...], added: list[Any]) -> None:
    """Take away what a user has put into a key, and wait until that user may add again.

    Of a stream only that: beside it stand the entries of tasks that run.
    """
    command, key = step[:2]
    with field.world.redis() as operator:
        if command == "XADD":
            operator.xdel(key, *added)
        else:
            operator.expire(key, 0)

    def may_add() -> bool:
        with suppress(Refused):
            field.redis(user, *step, b"{}")
            return True
        return False

    field.world.until(f"{user} may add again", may_add)


_WORKERS: Lines = (
    *CONVERSATION,
    *QUEUE_CLOSED,
    *QUEUE_OPEN,
    *EVENTS,
    *SERVER,
    ("runs a script", f"EVAL {LOOP}"),
)
_OWN_SESSION: Lines = (
    ("trims A's hints", f"XADD $lifecycle MAXLEN 1000000 {ADD}"),
    ("empties its own transcript", "XTRIM $own_po_transcript MAXLEN 0"),
    ("deletes its own transcript", "UNLINK $own_po_transcript"),
    ("ends its own transcript", "EXPIRE $own_po_transcript 0"),
    ("takes a word out of its own transcript", "XDEL $own_po_transcript 0-1"),
)
_OWN_CHAT: Lines = (
    ("answers in its own session's name", f"XADD $own_po_output {ADD}"),
    ("reads its own session's memory", "GET $own_po_snapshot"),
    ("reads what its own session does", "XRANGE $own_po_transcript - +"),
    ("forges its own session's work", f"XADD $own_po_transcript {ADD}"),
)

ATTACKS: list[Attack] = [
    *_lines(Party.TENANT, DEVELOPER, _WORKERS),
    *_lines(Party.TENANT, SESSION, _WORKERS, _OWN_SESSION),
    *_lines(Party.FRONT_END, CHAT, _WORKERS, _OWN_CHAT),
    *_lines(Party.PRODUCER, PRODUCER, PRODUCING),
    *_lines(Party.TENANT, READER, READING, READING_OWN),
    _announcement(Party.TENANT, DEVELOPER),
    _announcement(Party.TENANT, SESSION),
    _announcement(Party.FRONT_END, CHAT),
    _announcement(Party.PRODUCER, PRODUCER),
    _announcement(Party.TENANT, READER),
    # An entry that is bound to a task which is not there is left alone for some minutes.
    _filling(Party.PRODUCER, PRODUCER, f"XADD $input * agenttask {B}/nobodys attempt 1 data", 1),
    _filling(Party.FRONT_END, CHAT, "XADD $session * data", 1),
    _filling(Party.TENANT, SESSION, "RPUSH $own_po_turns", 2),
]
