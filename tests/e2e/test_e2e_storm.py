"""Whatever strangers hand in while others work: it ends nobody's process and nobody's work."""

import contextlib
import itertools
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from support.cluster import CommandError, Object
from support.hostile import KINDS, Hostile, doubles_of_session, overlay, thieves_of_entry
from support.installation import clear
from support.malformed import SESSION, STREAMS, Malformed, malformed
from support.session_world import SessionWorld, worker_id
from support.storm import (
    OPERATOR,
    DeadLetters,
    counted,
    create,
    dead_letters,
    last_words,
    restarted,
    restarts,
    stolen,
    unanswered,
)
from support.world import NAMESPACE, STRANGERS, SYSTEM, World, task

from orbiter_contracts import DeveloperWorkerInput, encode
from orbiter_contracts.queues import BARE, OPERATOR_GROUP

RUN = uuid.uuid4().hex[:4]
TASKS = [f"storm-{n:02d}" for n in range(30)]
SESSIONS = [f"talks-{RUN}-{n}" for n in range(5)]
ODD_SESSIONS = [f"odd-{RUN}-{n}" for n in range(7)]
ENTRIES = malformed(200)
WAVES = 5
FIRST_USER = 2 * 10**12
SECRET = "the launch is on Friday"
PATIENCE_SECONDS = 180.0
_LOOK_SECONDS = 5


@pytest.fixture
def storm(world: World) -> Iterator["Storm"]:
    """A quiet cluster before and after, also when the operator did not survive."""
    clear(world, STRANGERS)
    before = restarts(world)
    streams = [stream for stream in STREAMS if stream != SESSION]
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(world.redis(text=False))
        streams += [BARE.po_input(worker_id(name)) for name in SESSIONS]
        letters = stack.enter_context(dead_letters(raw, streams))
        yield Storm(world, raw, letters, before)
    if restarts(world) != before:
        # Their pauses between restarts would be the next test's.
        world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, "--wait=true")
        world.kubectl("-n", SYSTEM, "rollout", "status", "deployment/orbiter-operator")
    for namespace in (NAMESPACE, STRANGERS):
        clear(world, namespace)


class Storm:
    """One storm: what was handed in, and what became of it."""

    def __init__(
        self, world: World, redis: "Redis", letters: DeadLetters, before: dict[str, int]
    ) -> None:
        self.world = world
        self.redis = redis
        self.letters = letters
        self.before = before
        self.counted = counted(world)
        self.talks = SessionWorld(world, redis)
        self.sent: dict[str, list[str]] = {name: [] for name in SESSIONS}
        self.refusals: dict[str, str] = {}
        self._workers = itertools.cycle(map(worker_id, SESSIONS))

    def adopted_entry(self) -> str:
        """An entry from outside, whose prompt is its namespace's alone."""
        prompt = f'[[result: {{"summary": "{SECRET}"}}]]'
        message = encode(DeveloperWorkerInput(task_id=f"secret-{RUN}", prompt=prompt, timeout=60))
        fields: Any = message
        entry: Any = self.redis.xadd(BARE.developer_input, fields)
        return str(entry.decode())

    def spoil_keys(self) -> None:
        """Make keys of sessions that are yet to come of a type that they must not have."""
        for name, key in zip(
            ODD_SESSIONS, (key for key in BARE.po_keys(worker_id(ODD_SESSIONS[0]))), strict=False
        ):
            odd = key.replace(ODD_SESSIONS[0], name)
            if odd.endswith((":state", ":hold")):
                self.redis.xadd(odd, {"not": "a hash"})
            else:
                self.redis.hset(odd, "not", "what it should be")

    def wave(self, entries: list[Malformed], hostile: tuple[Hostile, ...]) -> None:
        """Malformed entries, hostile manifests, and a good message for every session."""
        for entry in entries:
            self.letters.send(entry, next(self._workers))
        for name in SESSIONS:
            self.sent[name].append(self.talks.send(name, "hello"))
        self.refusals |= create(self.world, STRANGERS, hostile)

    def until(self, what: str, condition: Any) -> None:
        """Wait for it, but not for an operator that has died."""
        looked = 0.0

        def done() -> bool:
            nonlocal looked
            if time.monotonic() - looked > _LOOK_SECONDS:
                looked = time.monotonic()
                assert restarts(self.world) == self.before, last_words(self.world)
            return bool(condition())

        self.world.until(what, done, seconds=PATIENCE_SECONDS)

    def tasks_completed(self) -> bool:
        """Whether all the good tasks are, or are within a few seconds."""
        wait = ("wait", "--for=jsonpath={.status.phase}=Completed", f"--timeout={_LOOK_SECONDS}s")
        try:
            self.world.kubectl("-n", NAMESPACE, *wait, "agenttasks", *TASKS)
        except CommandError:
            return False
        return True

    def all_answered(self) -> bool:
        """Whether every good message of every session has its answer."""
        return all(set(self.sent[name]) <= set(self.answers(name)) for name in SESSIONS)

    def answers(self, name: str) -> list[str]:
        """The requests of a session that were answered, in their order."""
        return [output.request_id for output in self.talks.outputs(name) if output.is_final]

    def dead(self, stream: str) -> list[dict[bytes, bytes]]:
        """The dead letters of a stream, or of all the sessions'."""
        if stream != SESSION:
            return self.letters.found(stream)
        found = [self.letters.found(BARE.po_input(worker_id(name))) for name in SESSIONS]
        return [letter for letters in found for letter in letters]

    def unread(self) -> list[str]:
        """The streams on which the operator still holds something."""
        waiting: list[Any] = [(s, self.redis.xpending(s, OPERATOR_GROUP)) for s in STREAMS[1:3]]
        return [stream for stream, pending in waiting if pending["pending"]]


@pytest.mark.timeout(480)
def test_nobody_is_stopped_by_what_strangers_hand_in(storm: Storm, world: World) -> None:
    assert (len(ENTRIES), len(KINDS) >= 40) == (200, True)
    began = time.monotonic()
    secret = storm.adopted_entry()
    doubles = doubles_of_session(worker_id(SESSIONS[0]), FIRST_USER + 1)
    storm.refusals |= create(world, STRANGERS, (*doubles, *thieves_of_entry(secret)))
    storm.spoil_keys()
    world.apply(*(small_task(name) for name in TASKS))
    for number, name in enumerate((*SESSIONS, *ODD_SESSIONS)):
        storm.talks.apply(name, echo=True, idle=600, userId=FIRST_USER + number)
    for number in range(WAVES):
        storm.wave(ENTRIES[number::WAVES], KINDS[number::WAVES])

    storm.until("all tasks are Completed", storm.tasks_completed)
    storm.until("all messages are answered", storm.all_answered)
    for stream in (BARE.developer_input, BARE.lifecycle, SESSION):
        unreadable = sum(e.unreadable for e in ENTRIES if e.stream == stream)
        storm.until(
            f"{unreadable} dead letters of {stream}",
            lambda s=stream, n=unreadable: len(storm.dead(s)) >= n,
        )
        assert all(letter.get(b"reason") for letter in storm.dead(stream))
    storm.until("everything is read", lambda: not storm.unread())
    storm.until("all strangers were told", lambda: not unanswered(world))
    print(f"the storm took {time.monotonic() - began:.0f} s")

    since = counted(world) - storm.counted
    for stream in (BARE.developer_input, BARE.lifecycle):
        assert since[stream] >= len(storm.dead(stream))
    for name in SESSIONS:
        good = [request for request in storm.answers(name) if request in storm.sent[name]]
        assert good == storm.sent[name]
    assert {name: storm.world.status(name)["attempts"] for name in TASKS} == dict.fromkeys(TASKS, 1)
    assert [restarted(pod) for name in SESSIONS for pod in storm.talks.pods(name)] == [0] * 5
    assert restarts(world) == storm.before
    assert_answered_as_the_table_says(storm.refusals)
    assert not stolen(world)
    assert not [name for name, status in world.tasks(STRANGERS).items() if SECRET in str(status)]


def small_task(name: str) -> Object:
    """A task whose agent answers at once, and of which a small machine has room for many."""
    return task(name, "echo", **overlay())


def assert_answered_as_the_table_says(refusals: dict[str, str]) -> None:
    """The API server says what is wrong with what it refuses, and refuses nothing else."""
    for kind in KINDS:
        said = refusals.get(kind.name, "")
        if kind.refused:
            assert kind.refused in said, f"{kind.name}: {said!r}"
        if kind.accepted:
            assert not said, kind.name
