"""Tasks and sessions that work while faults happen, and what became of them."""

import itertools
import re
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from redis import Redis
from redis.exceptions import RedisError
from support import history
from support.cluster import Object
from support.faults import NO_ANSWER, Faults
from support.nodes import Nodes
from support.session_world import SessionWorld, front_end, worker_id
from support.soak_judge import STEPS, Final, messages_lost, tasks_lost
from support.world import ENDED, NAMESPACE, World, task, worker_container

from orbiter_contracts import POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.queues import BARE

TURNS = STEPS + 2
"""Requests of one task that nothing disturbs: each step, the look at the file, and the end."""
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
GRACE_SECONDS = 12
PATIENCE_SECONDS = 600.0
_PERSISTENT = "[[persist]]"
RUN = re.compile(r"Run [0-9a-f]{8}\.")
"""What tells a task's requests to the model from others."""


@dataclass(frozen=True)
class Plan:
    """How a soak runs.

    Attributes:
        seed: What all faults follow from.
        seconds: How long there are faults, at least.
        tasks: How many tasks work, at least.
        at_once: How many of them at the same time.
        sessions: How many sessions are talked to.
        every: Seconds between faults.
        node_loss: Whether the second node is lost, too.
    """

    seed: int
    seconds: float
    tasks: int
    at_once: int
    sessions: int
    every: float = 3.0
    node_loss: bool = False


@dataclass
class Soak:
    """One soak under way."""

    world: World
    nodes: Nodes
    plan: Plan
    prefix: str
    runs: dict[str, str] = field(default_factory=dict)
    made: dict[str, Object] = field(default_factory=dict)
    restarts: set[str] = field(default_factory=set)
    sent: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    unsure: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        names = [f"{self.prefix}-s{n}" for n in range(self.plan.sessions)]
        self._sessions = itertools.cycle(names)
        self.sessions = names
        self._users: dict[str, int] = {}
        self._seen: set[str] = set()
        self._vanished: set[str] = set()
        self._late: list[str] = []
        self._over = threading.Event()
        self._door: ExitStack | None = None
        self._redis: Redis | None = None

    def run(self) -> Faults:
        """Let everything work and break until the time is over; returns the faults."""
        plan = self.plan
        faults = Faults(
            self.world,
            self.nodes,
            plan.seed,
            node_loss=plan.node_loss,
            away=self._over.wait,
        )
        with front_end(self.world) as redis:
            template = worker_container(resources=SMALL)
            template["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
            talks = SessionWorld(self.world, redis)
            talks.apply(*self.sessions, idle=20, podTemplate=template)
            self._users = {name: talks.get(name)["spec"]["userId"] for name in self.sessions}
        began = time.monotonic()
        threads = ThreadPoolExecutor(1)
        talking = threads.submit(self._talk_on)
        try:
            for round_ in itertools.count(1):
                self._feed()
                faults.one()
                if time.monotonic() - began > plan.seconds:
                    break
                # The pace of the faults, not a wait for something.
                self._over.wait(max(0.0, began + round_ * plan.every - time.monotonic()))
        finally:
            self._over.set()
            faults.end()
            threads.shutdown(wait=True)
        talking.result()
        return faults

    def settle(self) -> None:
        """Wait until every task has ended and every message has its answer, or long enough."""

        def settled() -> bool:
            self._feed()
            found = self._tasks()
            if not all(found.get(name, {}).get("phase") in ENDED for name in self.runs):
                return False
            answers = self.answers()
            return all(set(sent) <= set(answers[name]) for name, sent in self.sent.items())

        try:
            self.world.until("all have ended and answered", settled, PATIENCE_SECONDS)
        except AssertionError:
            self._late = [f"not all had ended and answered within {PATIENCE_SECONDS:.0f} s"]

    def lost(self) -> list[str]:
        """What has not become of the work what should have; empty when nothing was lost."""
        found = [*self._late, *(f"{name} had vanished" for name in sorted(self._vanished))]
        found += tasks_lost(self.runs, self.world.tasks(), self.world.story)
        for name, finals in self._finals().items():
            found += messages_lost(name, list(self.sent[name]), finals)
        return found

    def twice(self) -> list[str]:
        """What was answered more than once."""
        with self.world.redis() as redis:
            outputs = {of: len(kept.outputs) for of, kept in history.read(redis).items()}
        counts = {
            f"{name} attempt {attempt}": outputs.get((f"{NAMESPACE}/{name}", attempt), 0)
            for name in self.runs
            for attempt in (1, 2)
        }
        for name, answers in self.answers().items():
            counts |= Counter(f"{name} {request}" for request in answers)
        return [f"{what} was answered {times} times" for what, times in counts.items() if times > 1]

    def _feed(self) -> None:
        """Keep so many tasks at work, when the faults are over only as many as there shall be."""
        with suppress(*NO_ANSWER):
            found = self._tasks()
            open_ = [n for n in self.runs if found.get(n, {}).get("phase") not in ENDED]
            room = self.plan.at_once - len(open_)
            if self._over.is_set():
                room = min(room, self.plan.tasks - len(self.runs))
            for _ in range(room):
                self._task()
            self._make(found)

    def _tasks(self) -> dict[str, Object]:
        """Every task that is there; one that was and is no more has vanished."""
        found = self.world.tasks()
        self._seen |= self.made.keys() & found.keys()
        self._vanished |= self._seen - found.keys()
        return found

    def _make(self, found: dict[str, Object]) -> None:
        """Create what is not there: also what the API server has not taken in an earlier round."""
        if missing := [self.made[name] for name in self.made if name not in {*found, *self._seen}]:
            self.world.apply(*missing)

    def _task(self) -> None:
        number = len(self.runs)
        name = f"{self.prefix}-t{number:03d}"
        steps = [f"[[bash: echo {n} >> steps.txt; sleep 2; true]]" for n in range(STEPS)]
        shown = "[[bash: tr '\\n' , < steps.txt]]"
        result = '[[result: {"status": "success", "summary": "{output}"}]]'
        template = worker_container(resources=SMALL)
        template["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
        wish: Object = {"checkpointSeconds": 3, "limit": 1000}  # and every third has no checkpoints
        if number % 3 == 2:
            wish["policy"] = "Restart"
            self.restarts.add(name)
        made = task(
            name,
            "\n".join([_PERSISTENT, *steps, shown, result]),
            disruption=wish,
            podTemplate=template,
            timeoutSeconds=900,
        )
        (self.runs[name],) = RUN.findall(made["spec"]["prompt"])
        self.made[name] = made

    def _talk_on(self) -> None:
        while not self._over.wait(self.plan.every):
            self._talk()
        self._close()

    def _talk(self) -> None:
        """Send the next session a message, as a front end does that may lose its connection."""
        name = next(self._sessions)
        words = "[[bash: echo hello; sleep 1; true]]\n[[say: done]]"
        message = POWorkerInput(user_id=self._users[name], prompt=words)
        fields: Any = encode(message)
        try:
            redis = self._connected()
        except (RedisError, AssertionError, *NO_ANSWER):
            self._close()
            return
        try:
            entry: Any = redis.xadd(BARE.po_input(worker_id(name)), fields)
            self.sent[name][message.request_id] = entry
        except RedisError:
            self.unsure.add(message.request_id)
            self._close()

    def _connected(self) -> Redis:
        if self._redis is None:
            self._door = ExitStack()
            self._redis = self._door.enter_context(front_end(self.world))
            self._redis.ping()
        return self._redis

    def _close(self) -> None:
        if self._door is not None:
            self._door.close()
        self._door = self._redis = None

    def answers(self) -> dict[str, list[str]]:
        """The request ids of what each session has answered."""
        return {name: [one.request for one in found] for name, found in self._finals().items()}

    def seconds_to_answer(self) -> list[float]:
        """How long each message waited for its final answer, by the clock of Redis."""
        return [
            (history.order(one.entry)[0] - history.order(self.sent[name][one.request])[0]) / 1000
            for name, found in self._finals().items()
            for one in found
            if one.request in self.sent[name]
        ]

    def _finals(self) -> dict[str, list[Final]]:
        """Every final answer of each session."""
        with front_end(self.world) as redis:
            found = {}
            for name in self.sessions:
                entries: Any = redis.xrange(BARE.po_output(worker_id(name)))
                read = [(entry, decode(POWorkerOutput, fields)) for entry, fields in entries]
                found[name] = [
                    Final(one.request_id, entry, one.status, one.reason)
                    for entry, one in read
                    if one.is_final
                ]
            return found
