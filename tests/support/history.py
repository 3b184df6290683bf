"""What really happened, read from the streams: who worked on which attempt, and when it ended.

The crash tests judge by this and not by the operator's word.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from redis import Redis

from orbiter_contracts.queues import BARE, Keys

WORKING = "busy"
DONE = ("completed", "failed")


@dataclass
class Attempt:
    """One attempt of one task: the ids of its stream entries, in order.

    Attributes:
        begun: By what was announced: a worker that loses its connection before the answer says the
            same once more, and has begun once.
        ended: What it ended with.
        outputs: Its outputs.
    """

    begun: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


History = dict[tuple[str, int], Attempt]


def read(redis: "Redis", keys: Keys = BARE) -> History:
    """Collect every attempt's entries from the lifecycle and output streams under some keys."""
    history: History = defaultdict(Attempt)
    for entry, fields in redis.xrange(keys.lifecycle):
        if "agenttask" in fields:
            event = json.loads(fields["data"])["event"]
            attempt = history[fields["agenttask"], int(fields["attempt"])]
            if event == WORKING:
                attempt.begun.setdefault(fields["data"], entry)
            elif event in DONE:
                attempt.ended.append(entry)
    for entry, fields in redis.xrange(keys.developer_output):
        if "agenttask" in fields:
            history[fields["agenttask"], int(fields["attempt"])].outputs.append(entry)
    return history


def complaints(history: History, names: set[str], disruptions: int = 0) -> list[str]:
    """Return what must not have happened to these tasks (`namespace/name`); empty when all is well.

    Every attempt is begun by one worker at most, and by one more after each disruption, and has
    exactly one output; no attempt begins before the output of the one before it; none follows a
    successful one.
    """
    found = []
    attempts = Counter(name for name, _ in history)
    for (name, number), attempt in sorted(history.items()):
        if name not in names:
            continue
        if len(attempt.begun) > 1 + disruptions:
            found.append(f"{name} attempt {number} was begun {len(attempt.begun)} times")
        if len(attempt.outputs) != 1:
            found.append(f"{name} attempt {number} has {len(attempt.outputs)} outputs")
        before = history.get((name, number - 1))
        early = before and before.outputs and attempt.begun
        if (
            before
            and early
            and order(min(attempt.begun.values(), key=order)) < order(before.outputs[0])
        ):
            found.append(f"{name} attempt {number} began before attempt {number - 1} ended")
    found += [f"{name} left no trace" for name in sorted(names - set(attempts))]
    return found


def order(entry: str) -> tuple[int, int]:
    """A stream entry's place in time."""
    milliseconds, _, sequence = entry.partition("-")
    return int(milliseconds), int(sequence)
