"""Tasks and sessions that work while faults happen, and what became of them."""

import itertools
import json
import re
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from statistics import mean, quantiles
from typing import Any

import httpx
from redis import Redis
from redis.exceptions import RedisError
from support.cluster import CommandError, Object
from support.faults import Faults
from support.installation import SERVERS
from support.nodes import Nodes
from support.session_world import SessionWorld, front_end, worker_id
from support.world import ENDED, NAMESPACE, World, task, worker_container

from orbiter_contracts import POWorkerInput, encode
from orbiter_contracts.queues import BARE

STEPS = 5
TURNS = STEPS + 2
"""Requests of one task that nothing disturbs: each step, the look at the file, and the end."""
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
GRACE_SECONDS = 12
PATIENCE_SECONDS = 600.0
_PERSISTENT = "[[persist]]"
_DISRUPTION = re.compile(r"attempt \d+, disruption (\d+): ")
_RESUMED = re.compile(r"(resumed|began again) after (\w+) \((\d+)\)")
_RUN = re.compile(r"Run [0-9a-f]{8}\.")


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
    restarts: set[str] = field(default_factory=set)
    sent: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unsure: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        names = [f"{self.prefix}-s{n}" for n in range(self.plan.sessions)]
        self._sessions = itertools.cycle(names)
        self.sessions = names
        self._users: dict[str, int] = {}
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
        talking = threading.Thread(target=self._talk_on)
        talking.start()
        try:
            for round_ in itertools.count(1):
                self._feed()
                faults.one()
                if time.monotonic() - began > plan.seconds and len(self.runs) >= plan.tasks:
                    break
                # The pace of the faults, not a wait for something.
                self._over.wait(max(0.0, began + round_ * plan.every - time.monotonic()))
        finally:
            self._over.set()
            faults.end()
            talking.join()
        return faults

    def settle(self) -> None:
        """Wait until every task has ended and every message has its answer."""

        def ended() -> bool:
            found = self.world.tasks()
            return all(found.get(name, {}).get("phase") in ENDED for name in self.runs)

        self.world.until("all tasks have ended", ended, PATIENCE_SECONDS)

        def answered() -> bool:
            answers = self._answers()
            return all(set(sent) <= set(answers[name]) for name, sent in self.sent.items())

        self.world.until("all messages are answered", answered, PATIENCE_SECONDS)

    def complaints(self) -> list[str]:
        """What must not have happened; empty when nothing was lost and nothing done twice."""
        found = []
        for name, status in self.world.tasks().items():
            if name not in self.runs:
                continue
            if status.get("phase") != "Completed":
                found.append(f"{name}: {status.get('phase')}: {status.get('message')}")
                continue
            done = str((status.get("result") or {}).get("summary"))
            missing = [str(n) for n in range(STEPS) if str(n) not in done.split(",")]
            if missing:
                found.append(f"{name} has forgotten steps {missing}: {done!r}")
            if status.get("attempts") != 1:
                found.append(f"{name} took {status.get('attempts')} attempts")
        for name, answers in self._answers().items():
            counts = Counter(answers)
            found += [f"{name} answered {r} {n} times" for r, n in counts.items() if n > 1]
            found += [f"{name} has not answered {r}" for r in self.sent[name] if r not in counts]
            order = [request for request in answers if request in self.sent[name]]
            if order != [request for request in self.sent[name] if request in counts]:
                found.append(f"{name} answered in another order")
        return found

    def figures(self, faults: Faults) -> Object:
        """What is printed, and written to bench/soak.json."""
        requests = self._requests()
        away = self._away()
        kinds = {"checkpoints": set(self.runs) - self.restarts, "none": self.restarts}
        return {
            "seed": self.plan.seed,
            "seconds": self.plan.seconds,
            "faults": dict(sorted(faults.counts.items())),
            "tasks": len(self.runs),
            "messages": sum(map(len, self.sent.values())),
            "turns": {kind: _turns(names, requests) for kind, names in kinds.items()},
            "away": {
                reason: _spread([seconds for _, seconds in found])
                | {"turns_again": self._turns_again({n for n, _ in found}, reason, away, requests)}
                for reason, found in sorted(away.items())
            },
        }

    def _feed(self) -> None:
        """Keep so many tasks at work; every third has no checkpoints."""
        with suppress(CommandError):
            found = self.world.tasks()
            open_ = [n for n in self.runs if found.get(n, {}).get("phase") not in ENDED]
            new = [self._task() for _ in range(self.plan.at_once - len(open_))]
            if new:
                self.world.apply(*new)

    def _task(self) -> Object:
        number = len(self.runs)
        name = f"{self.prefix}-t{number:03d}"
        steps = [f"[[bash: echo {n} >> steps.txt; sleep 2; true]]" for n in range(STEPS)]
        shown = "[[bash: tr '\\n' , < steps.txt]]"
        result = '[[result: {"status": "success", "summary": "{output}"}]]'
        template = worker_container(resources=SMALL)
        template["spec"]["terminationGracePeriodSeconds"] = GRACE_SECONDS
        wish: Object = {"checkpointSeconds": 3, "limit": 1000}
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
        (self.runs[name],) = _RUN.findall(made["spec"]["prompt"])
        return made

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
        except (RedisError, CommandError, AssertionError):
            self._close()
            return
        try:
            redis.xadd(BARE.po_input(worker_id(name)), fields)
            self.sent[name].append(message.request_id)
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

    def _answers(self) -> dict[str, list[str]]:
        with front_end(self.world) as redis:
            talks = SessionWorld(self.world, redis)
            return {
                name: [output.request_id for output in talks.outputs(name) if output.is_final]
                for name in self.sessions
            }

    def _requests(self) -> dict[str, int]:
        """How often the model was asked for each task."""
        with self.world.forward("service/model-server", 80, SERVERS) as port:
            asked = httpx.get(f"http://127.0.0.1:{port}/stats").raise_for_status().json()
        counts: Counter[str] = Counter()
        for prompt in asked["prompts"]:
            for run in _RUN.findall(prompt["prompt"])[-1:]:
                counts[run] += prompt["requests"]
        return {name: counts[run] for name, run in self.runs.items()}

    def _away(self) -> dict[str, list[tuple[str, float]]]:
        """Reason of each disruption -> task, and the seconds until it worked again."""
        gone: dict[tuple[str, str], tuple[str, float]] = {}
        back: dict[tuple[str, str], float] = {}
        for event in self.world.cluster.list_all("events", NAMESPACE):
            name = event["involvedObject"]["name"]
            if name not in self.runs:
                continue
            when = datetime.fromisoformat(event["firstTimestamp"]).timestamp()
            if cut := _DISRUPTION.search(event["message"]):
                gone[name, cut[1]] = event["reason"], when
            elif again := _RESUMED.search(event["message"]):
                back[name, again[3]] = when
        found: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for key, (reason, when) in gone.items():
            if key in back:
                found[reason].append((key[0], back[key] - when))
        return found

    def _turns_again(
        self,
        names: set[str],
        reason: str,
        away: dict[str, list[tuple[str, float]]],
        requests: dict[str, int],
    ) -> float | None:
        """Turns that a disruption of this kind cost a task with checkpoints, on average."""
        others = {name for why, found in away.items() if why != reason for name, _ in found}
        pure = names - others - self.restarts
        cuts = sum(name in pure for name, _ in away[reason])
        again = sum(max(0, requests[name] - TURNS) for name in pure)
        return round(again / cuts, 2) if cuts else None


def _turns(names: set[str], requests: dict[str, int]) -> Object:
    paid = sum(requests[name] for name in names)
    again = sum(max(0, requests[name] - TURNS) for name in names)
    return {"paid": paid, "again": again, "share": round(again / paid, 3) if paid else None}


def _spread(seconds: list[float]) -> Object:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return {"times": len(seconds), "p50": cuts[49], "p99": cuts[98], "mean": mean(seconds)}


def table(figures: Object) -> str:
    """The figures for people."""
    lines = [json.dumps(figures["faults"]), "reason times p50 p99 turns-again"]
    for reason, row in figures["away"].items():
        cells = (row["times"], f"{row['p50']:.0f}", f"{row['p99']:.0f}", row["turns_again"])
        lines.append(" ".join(map(str, (reason, *cells))))
    lines += [f"turns, {kind}: {row}" for kind, row in figures["turns"].items()]
    return "\n".join(lines)
