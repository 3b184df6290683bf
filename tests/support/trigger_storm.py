"""A storm of events for three triggers of one repository: what happens, and what must come of it.

`script` says what people, strangers and bots do at GitHub, from a seed; `judge` holds what came of
it against that. Both are pure, so that the storm without a cluster and the one on it are one.

A tenth of what is to make a task is told by no webhook. All of it is of kinds that the courier's
poll finds: comments on issues and pull requests, labels of issues, pull requests that were opened.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from support.webhooks import REPOSITORY

from orbiter_triggers.naming import event_name

Object = dict[str, Any]
Kind = Literal["thread", "comment", "label", "pull"]
TWICE: Final = 0.3
NEVER: Final = 0.1
NOISE: Final = 0.3
"""For so many of them something happens beside it that is to make no task."""
COMMENTS, LABELS, PULLS = "on-comment", "on-label", "on-pull"
"""The triggers."""
EVENTS_OF: Final = {COMMENTS: "issue_comment", LABELS: "issues", PULLS: "pull_request"}
"""Which events each one's webhook is told."""
_THREADS: Final = 5
_SEEDS: Final = 10**6
_WRITERS: Final = ("mona", "root")
_ROBOT, _STRANGER = "helper[bot]", "visitor"


class Step(NamedTuple):
    """Something that happens at GitHub.

    Attributes:
        kind: An issue is opened without a label; a comment is written; an issue is opened and then
            given a label; a pull request is opened.
        number: Of the issue or the pull request.
        author: Who does it.
        text: The comment, or the label.
        opener: Who has opened the issue that is given a label.
        deliveries: How often it is told.
        trigger: Whose task it is to make; "" for none.
    """

    kind: Kind
    number: int
    author: str
    text: str = ""
    opener: str = "mona"
    deliveries: int = 1
    trigger: str = ""


def chosen_seed() -> int:
    """SEED of the environment, or any; it is printed, so that a storm can be had again."""
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(_SEEDS))
    print(f"SEED={seed}", flush=True)
    return seed


def manifests(task_spec: Mapping[str, Any], name: str = "{}", **spec: Any) -> list[Object]:
    """The three triggers.

    Args:
        task_spec: The spec of their tasks.
        name: What their names become, where {} stands for the name.
        **spec: More of their specs.
    """
    filters: dict[str, Object] = {
        COMMENTS: {"comment": "/agent"},
        LABELS: {"labels": ["agent"]},
        PULLS: {"events": ["pull_request.opened"]},
    }
    return [
        {
            "apiVersion": "orbiter.dev/v1alpha1",
            "kind": "AgentTrigger",
            "metadata": {"name": name.format(trigger)},
            "spec": {
                "source": {"github": {"repository": REPOSITORY}},
                "filters": filters[trigger],
                "maxPerHour": 1000,
                "whenFull": "Queue",
                "historyLimits": {"successful": 1000, "failed": 1000},
                "taskTemplate": {"spec": dict(task_spec)},
                **spec,
            },
        }
        for trigger in EVENTS_OF
    ]


def script(seed: int, events: int) -> list[Step]:
    """What happens.

    Args:
        seed: What all of it follows from.
        events: How many steps are to make a task.
    """
    chance = random.Random(seed)
    numbers = iter(range(1, 10 * events + 100))
    threads = [next(numbers) for _ in range(_THREADS)]
    steps = [Step("thread", number, "mona") for number in threads]
    never, twice = round(NEVER * events), round(TWICE * events)
    told = [*[0] * never, *[2] * twice, *[1] * (events - never - twice)]
    chance.shuffle(told)
    for count in told:
        steps.append(_wanted(chance, threads, numbers.__next__, count))
        if chance.random() < NOISE:
            steps.append(_noise(chance, threads, numbers.__next__))
    return steps


def _wanted(chance: random.Random, threads: list[int], new: Any, count: int) -> Step:
    kind = chance.choices(("comment", "label", "pull"), (5, 3, 2))[0]
    author = chance.choice(_WRITERS)
    if kind == "comment":
        number, text = chance.choice(threads), f"/agent look at this\n\nNote {chance.random()}."
        return Step("comment", number, author, text, deliveries=count, trigger=COMMENTS)
    number = new()
    threads.append(number)
    if kind == "label":
        opener = chance.choice((*_WRITERS, _STRANGER))
        return Step("label", number, author, "agent", opener, count, LABELS)
    return Step("pull", number, author, deliveries=count, trigger=PULLS)


def _noise(chance: random.Random, threads: list[int], new: Any) -> Step:
    """What makes no task: by a program, by a stranger, or of another kind."""
    count, thread = chance.choice((0, 1, 1, 2)), chance.choice(threads)
    return chance.choice(
        (
            lambda: Step("comment", thread, _ROBOT, "/agent I can help", deliveries=count),
            lambda: Step("comment", thread, _STRANGER, "/agent obey me", deliveries=count),
            lambda: Step("comment", thread, "mona", "Thanks, /agent was quick", deliveries=count),
            lambda: Step("label", new(), "mona", "question", deliveries=count),
            # A form of the repository gives the label in the stranger's name.
            lambda: Step("label", new(), _STRANGER, "agent", _STRANGER, count),
            lambda: Step("pull", new(), "renovate[bot]", deliveries=count),
            lambda: Step("pull", new(), _STRANGER, deliveries=count),
        )
    )()


class Wanted(NamedTuple):
    """A task that there has to be, once.

    Attributes:
        trigger: Whose.
        key: What names it.
        number: In which thread its comment is.
        deliveries: How often a webhook was to tell of it.
        accepted: How often the receiver has taken that in.
    """

    trigger: str
    key: str
    number: int
    deliveries: int
    accepted: int


def judge(
    wanted: Sequence[Wanted],
    uids: Mapping[str, tuple[str, str]],
    tasks: Sequence[Object],
    comments: Sequence[Object],
) -> list[str]:
    """What is not as it has to be; empty when all is well.

    Args:
        wanted: The tasks that there have to be.
        uids: Name and uid of each trigger.
        tasks: The AgentTasks that there are.
        comments: Our comments: their `number` and `body`.
    """
    names = {event_name(*uids[one.trigger], one.key): one for one in wanted}
    found = [task["metadata"]["name"] for task in tasks]
    problems = [f"{name} is not there: {names[name]}" for name in sorted(names.keys() - found)]
    problems += [f"{name} should not be there" for name in sorted(set(found) - names.keys())]
    problems += [f"{name} is there {n} times" for name, n in Counter(found).items() if n > 1]
    said: dict[str, list[Object]] = {}
    for one in comments:
        said.setdefault(str(one["body"]).partition("\n")[0], []).append(one)
    for task in tasks:
        name, uid = task["metadata"]["name"], task["metadata"]["uid"]
        status = task.get("status") or {}
        if status.get("phase") != "Completed" or status.get("attempts", 1) != 1:
            problems.append(f"{name}: {status.get('phase')}, attempts {status.get('attempts')}")
        ours = said.pop(f"<!-- orbiter:task {uid} -->", [])
        if len(ours) != 1:
            problems.append(f"{name} has {len(ours)} comments")
        elif name in names and ours[0]["number"] != names[name].number:
            problems.append(f"{name} has its comment in #{ours[0]['number']}")
        elif "is done" not in ours[0]["body"]:
            problems.append(f"{name} has a comment of before: {ours[0]['body'][:200]!r}")
    return problems + [f"a comment of no task: {mark}" for mark in said]


def summary(
    seed: int,
    wanted: Sequence[Wanted],
    counts: Mapping[str, int],
    kills: Mapping[str, int],
    tasks: int,
    comments: int,
    seconds: float,
) -> Object:
    """What a storm was, as JSON.

    Args:
        seed: Of its script.
        wanted: The tasks that there had to be.
        counts: What the scripted GitHub has counted.
        kills: How often each part was killed.
        tasks: How many tasks there were at the end.
        comments: How many comments of ours.
        seconds: How long it took.
    """
    return {
        "seed": seed,
        "events": len(wanted),
        "duplicates": sum(one.deliveries > 1 for one in wanted),
        "never_delivered": sum(one.deliveries == 0 for one in wanted),
        "lost_on_the_way": sum(one.deliveries > 0 and not one.accepted for one in wanted),
        "found_by_poll": sum(not one.accepted for one in wanted),
        **dict(sorted(counts.items())),
        "kills": dict(sorted(kills.items())),
        "tasks": tasks,
        "comments": comments,
        "seconds": round(seconds),
    }


def show(found: Mapping[str, Any]) -> None:
    """Print a summary, for people and for programs."""
    print(table(found), json.dumps(found), sep="\n", flush=True)


def table(found: Mapping[str, Any]) -> str:
    """The same for people."""
    lines = dict(found) | {f"kills of the {part}": n for part, n in found["kills"].items()}
    del lines["kills"]
    return "\n".join(f"{name.replace('_', ' '):<28} {value:>8}" for name, value in lines.items())
