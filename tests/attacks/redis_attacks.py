"""At Redis, with the URLs that the Secrets of namespace B give: one line of redis-cli an attack.

`$input` and its like are the keys of A, `$own_input` those of B: see `attacks.field.names_of`. The
control runs the same line on a copy of A's keys, in the name of a user without rules.
"""

import shlex
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from string import Template
from typing import Any

from attacks.field import B, Field, said_by, settings_of
from attacks.table import Attack, Guard, Party, Refused
from orbiter_contracts.queues import Keys

DENIED = r"(?i)no permissions to (run|access)|can't (access|run)"
_MUCH = 70 * 1024 * 1024
_PIECE = 1024 * 1024
_TAKEN_SECONDS = 5.0
"""Within which somebody who has too much loses the rights to add."""
ADD = "* data {}"
LOOP = '"local n = 0 for i = 1, 1000 do n = n + i end return n" 0'

# Work that is A's, by the name of the user who tries.
_CONVERSATION = (
    ("reads what A's session was asked", "XRANGE $po_input - +"),
    ("reads what A's session answered", "XRANGE $po_output - +"),
    ("listens for A's answers", "XREAD BLOCK 10 STREAMS $po_output 0"),
    ("reads A's memory", "GET $po_snapshot"),
    ("reads where A's session stands", "HGETALL $po_state"),
    ("reads A's latest turns", "LRANGE $po_turns 0 -1"),
    ("reads the record of A's user", "GET $user_record"),
    ("reads what A could not read", "XRANGE $po_dead - +"),
    ("reads what A's session does", "XRANGE $po_transcript - +"),
    ("puts words into the mouth of A's session", f"XADD $po_transcript {ADD}"),
    ("asks A's session something", f"XADD $po_input {ADD}"),
    ("answers in the name of A's session", f"XADD $po_output {ADD}"),
    ("plants a memory in A's session", "SET $po_snapshot planted"),
    ("says that A's session is busy", "HSET $po_state state busy"),
    ("puts a turn into A's history", "RPUSH $po_turns {}"),
    ("holds A's session", "HSET $po_hold reason stopped"),
    ("takes the lease of A's session", "HSET $po_lease token mine"),
    ("exchanges the record of A's user", "SET $user_record {}"),
    ("lets the record of A's user expire", "EXPIRE $user_record 1"),
    ("claims A's message", "XCLAIM $po_input po-worker thief 0 0-1 JUSTID"),
    ("deletes A's message", "XDEL $po_input 0-1"),
    ("deletes A's conversation", "UNLINK $po_input $po_output $po_snapshot"),
    ("fills A's dead letters", f"XADD $po_dead {ADD}"),
    (
        "reads A's memory by a script",
        "EVAL \"return redis.call('GET', KEYS[1])\" 1 $po_snapshot",
    ),
)
_SERVER = (
    ("lists all keys", "KEYS *"),
    ("goes through all keys", "SCAN 0"),
    ("picks some key", "RANDOMKEY"),
    ("counts the keys", "DBSIZE"),
    ("is told of everybody's keys", "CLIENT TRACKING ON BCAST"),
    ("watches what everybody does", "MONITOR"),
    ("reads the configuration", "CONFIG GET *"),
    ("changes the configuration", "CONFIG SET maxmemory-policy allkeys-lru"),
    ("lists users and their rules", "ACL LIST"),
    ("reads another user's rules", "ACL GETUSER default"),
    ("gives itself all rights", "ACL SETUSER thief on nopass ~* +@all"),
    ("deletes the operator's user", "ACL DELUSER operator"),
    ("lists who is connected", "CLIENT LIST"),
    ("cuts the operator off", "CLIENT KILL USER operator"),
    ("stops everybody for a while", "CLIENT PAUSE 1"),
    ("empties the database", "FLUSHALL"),
    ("empties another database", "SWAPDB 0 1"),
    ("goes into another database", "SELECT 1"),
    ("loads functions", 'FUNCTION LOAD REPLACE "#!lua name=mine\nredis.register_function(\'f\', '
     'function() return 1 end)"'),
    ("deletes all functions", "FUNCTION FLUSH"),
    ("forgets all scripts", "SCRIPT FLUSH"),
    ("makes Redis somebody's replica", "REPLICAOF NO ONE"),
    ("copies keys to a server of its own", "MIGRATE 127.0.0.1 1 nothing 0 10"),
    ("lists modules", "MODULE LIST"),
    ("reads what was slow", "SLOWLOG GET"),
    ("reads about the server", "INFO"),
    ("writes the database to the disk", "BGREWRITEAOF"),
    ("speaks on a channel", "PUBLISH news x"),
    ("listens to all channels", "PSUBSCRIBE *"),
    ("waits on a list of A", "BLPOP $po_turns 0.01"),
    ("renames A's input", "RENAME $po_input $own_po_input"),
    ("copies A's memory to its own", "COPY $po_snapshot $own_po_snapshot REPLACE"),
    ("sorts A's turns into a key of its own", "SORT $po_turns ALPHA STORE $own_po_turns"),
    ("uses up the ids of A's output", "XSETID $po_output 9999999999999-0"),
    ("empties A's answers", "XTRIM $po_output MAXLEN 0"),
    ("removes the group of A's session", "XGROUP DESTROY $po_input po-worker"),
)  # fmt: skip
_QUEUE_CLOSED = (
    ("puts work on A's queue", f"XADD $input {ADD}"),
    (
        "puts work on A's queue by a script",
        "EVAL \"return redis.call('XADD', KEYS[1], '*', 'data', '{}')\" 1 $input",
    ),
    ("deletes what is known of A's attempt", "DEL $record"),
    ("deletes A's queue", "UNLINK $input"),
    ("removes the group of A's queue", "XGROUP DESTROY $input developer-workers"),
    ("empties A's queue", "XTRIM $input MAXLEN 0"),
    ("reads which sessions there are", "HGETALL $registry"),
)
_QUEUE_OPEN = (
    ("reads A's prompts", "XRANGE $input - +"),
    ("reads what is known of A's attempt", "HGET $record entry"),
    ("writes into what is known of A's attempt", "HSET $record attacker here"),
    ("claims A's work", "XCLAIM $input developer-workers thief 0 0-1 JUSTID"),
    ("reads A's queue in the group", "XREADGROUP GROUP developer-workers thief STREAMS $input 0"),
    ("deletes A's work", "XDEL $input 0-1"),
    ("acknowledges A's work", "XACK $input developer-workers 0-1"),
    ("adds to A's outputs", f"XADD $output {ADD}"),
    ("reads A's outputs", "XRANGE $output - + COUNT 1"),
    ("trims A's outputs", f"XADD $output MAXLEN 1000000 {ADD}"),
    ("takes the lease of A's worker", "HSET $lease attacker here"),
    ("reads the session of A's agent", "GET $task_snapshot"),
    ("lists what is kept of A's work", "HKEYS $checkpoint"),
    ("reads what is kept of A's work", "HGET $checkpoint 1:session"),
    ("plants work in A's checkpoint", "HSET $checkpoint 1:session planted"),
    ("fills A's checkpoint", f"HSET $checkpoint 9:workspace {'x' * 10_000}"),
    ("forges the generation of A's checkpoint", 'HSET $record checkpoint {"generation":9}'),
    ("lets A's checkpoint expire", "EXPIRE $checkpoint 0"),
    ("reads what A's agent does", "XRANGE $transcript - +"),
    ("puts words into the mouth of A's agent", f"XADD $transcript {ADD}"),
    ("lets A's transcript expire", "EXPIRE $transcript 0"),
)
_PRODUCER = (
    ("reads A's prompts", "XRANGE $input - +"),
    ("puts work on A's queue", f"XADD $input {ADD}"),
    ("reads A's outputs", "XRANGE $output - + COUNT 1"),
    ("forges an output of A", f"XADD $output {ADD}"),
    ("claims work of its own namespace", "XREADGROUP GROUP g thief STREAMS $own_producer_input >"),
    ("reads what is known of A's attempt", "HGETALL $record"),
    ("reads the record of A's user", "GET $user_record"),
    ("asks A's session something", f"XADD $po_input {ADD}"),
    ("reads what A's session answered", "XRANGE $po_output - +"),
    ("forges a hint of a worker", f"XADD $lifecycle {ADD}"),
    ("reads what A's agent does", "XRANGE $transcript - +"),
    ("reads what an agent of its own namespace does", "XRANGE $own_po_transcript - +"),
    ("runs a script", f"EVAL {LOOP}"),
    ("lists functions", "FUNCTION LIST"),
    ("lists all keys", "KEYS *"),
    ("gives itself all rights", "ACL SETUSER thief on nopass ~* +@all"),
    ("reads the configuration", "CONFIG GET *"),
    ("empties the database", "FLUSHALL"),
)


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


def _lines(party: Party, user: str, lines: tuple[tuple[str, str], ...]) -> list[Attack]:
    return [line(name, party, user, command) for name, command in lines]


DEVELOPER, SESSION = "a developer worker", "a session"
CHAT, PRODUCER = "a chat front end", "a producer"


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


ATTACKS: list[Attack] = [
    *_lines(Party.TENANT, DEVELOPER, _CONVERSATION),
    *_lines(Party.TENANT, DEVELOPER, _SERVER),
    *_lines(Party.TENANT, DEVELOPER, _QUEUE_CLOSED),
    *_lines(Party.TENANT, DEVELOPER, _QUEUE_OPEN),
    line("runs a script", Party.TENANT, DEVELOPER, f"EVAL {LOOP}"),
    *_lines(Party.TENANT, SESSION, _CONVERSATION),
    *_lines(Party.TENANT, SESSION, _QUEUE_CLOSED),
    *_lines(Party.TENANT, SESSION, _QUEUE_OPEN),
    *_lines(Party.TENANT, SESSION, _SERVER),
    line("runs a script", Party.TENANT, SESSION, f"EVAL {LOOP}"),
    line("trims A's hints", Party.TENANT, SESSION, f"XADD $lifecycle MAXLEN 1000000 {ADD}"),
    *_lines(Party.FRONT_END, CHAT, _CONVERSATION),
    *_lines(Party.FRONT_END, CHAT, _QUEUE_CLOSED),
    *_lines(Party.FRONT_END, CHAT, _QUEUE_OPEN),
    *_lines(Party.FRONT_END, CHAT, _SERVER),
    line("runs a script", Party.FRONT_END, CHAT, f"EVAL {LOOP}"),
    line("answers in its own session's name", Party.FRONT_END, CHAT, f"XADD $own_po_output {ADD}"),
    line("reads its own session's memory", Party.FRONT_END, CHAT, "GET $own_po_snapshot"),
    line("reads what its own session does", Party.FRONT_END, CHAT, "XRANGE $own_po_transcript - +"),
    line("forges its own session's work", Party.FRONT_END, CHAT, f"XADD $own_po_transcript {ADD}"),
    *(
        line(f"{does} its own transcript", Party.TENANT, SESSION, command)
        for does, command in (
            ("empties", "XTRIM $own_po_transcript MAXLEN 0"),
            ("deletes", "UNLINK $own_po_transcript"),
            ("ends", "EXPIRE $own_po_transcript 0"),
            ("takes a word out of", "XDEL $own_po_transcript 0-1"),
        )
    ),
    *_lines(Party.PRODUCER, PRODUCER, _PRODUCER),
    _announcement(Party.TENANT, DEVELOPER),
    _announcement(Party.TENANT, SESSION),
    _announcement(Party.FRONT_END, CHAT),
    _announcement(Party.PRODUCER, PRODUCER),
    # An entry that is bound to a task which is not there is left alone for some minutes.
    _filling(Party.PRODUCER, PRODUCER, f"XADD $input * agenttask {B}/nobodys attempt 1 data", 1),
    _filling(Party.FRONT_END, CHAT, "XADD $session * data", 1),
    _filling(Party.TENANT, SESSION, "RPUSH $own_po_turns", 2),
]
