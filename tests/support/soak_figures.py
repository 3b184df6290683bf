"""What a soak has measured: printed, and written to bench/soak.json."""

import json
import re
from collections import Counter, defaultdict
from datetime import datetime
from statistics import mean, quantiles

import httpx
from support.cluster import Object
from support.faults import Faults
from support.installation import SERVERS
from support.soak import RUN, TURNS, Soak
from support.world import NAMESPACE

_DISRUPTION = re.compile(r"attempt \d+, disruption (\d+): ")
_RESUMED = re.compile(r"(resumed|began again) after (\w+) \((\d+)\)")
Away = dict[str, list[tuple[str, float]]]
"""Reason of each disruption -> task, and the seconds until it worked again."""


def figures(soak: Soak, faults: Faults, seconds: float) -> Object:
    """Everything that was measured in so many seconds of faults."""
    requests, away = _requests(soak), _away(soak)
    kinds = {"checkpoints": set(soak.runs) - soak.restarts, "none": soak.restarts}
    return {
        "seed": soak.plan.seed,
        "seconds": round(seconds),
        "every_seconds": soak.plan.every,
        "faults": {"all": faults.counts.total()} | dict(sorted(faults.counts.items())),
        "tasks": len(soak.runs),
        "messages": sum(map(len, soak.sent.values())),
        "lost": len(soak.lost()),
        "answered_twice": len(soak.twice()),
        "turns": {kind: _turns(names, requests) for kind, names in kinds.items()},
        "answer": _spread(soak.seconds_to_answer()),
        "away": {
            reason: _spread([seconds for _, seconds in found])
            | {"turns_again": _turns_again(soak, reason, away, requests)}
            for reason, found in sorted(away.items())
        },
    }


def _requests(soak: Soak) -> dict[str, int]:
    """How often the model was asked for each task."""
    with soak.world.forward("service/model-server", 80, SERVERS) as port:
        asked = httpx.get(f"http://127.0.0.1:{port}/stats").raise_for_status().json()
    counts: Counter[str] = Counter()
    for prompt in asked["prompts"]:
        for run in RUN.findall(prompt["prompt"])[-1:]:
            counts[run] += prompt["requests"]
    return {name: counts[run] for name, run in soak.runs.items()}


def _away(soak: Soak) -> Away:
    gone: dict[tuple[str, str], tuple[str, float]] = {}
    back: dict[tuple[str, str], float] = {}
    for event in soak.world.cluster.list_all("events", NAMESPACE):
        name = event["involvedObject"]["name"]
        if name not in soak.runs:
            continue
        when = datetime.fromisoformat(event["firstTimestamp"]).timestamp()
        if cut := _DISRUPTION.search(event["message"]):
            gone[name, cut[1]] = event["reason"], when
        elif again := _RESUMED.search(event["message"]):
            back[name, again[3]] = when
    found: Away = defaultdict(list)
    for key, (reason, when) in gone.items():
        if key in back:
            found[reason].append((key[0], back[key] - when))
    return found


def _turns_again(soak: Soak, reason: str, away: Away, requests: dict[str, int]) -> float | None:
    """Turns that a disruption of this kind cost a task with checkpoints, on average."""
    others = {name for why, found in away.items() if why != reason for name, _ in found}
    pure = {name for name, _ in away[reason]} - others - soak.restarts
    cuts = sum(name in pure for name, _ in away[reason])
    again = sum(max(0, requests[name] - TURNS) for name in pure)
    return round(again / cuts, 2) if cuts else None


def _turns(names: set[str], requests: dict[str, int]) -> Object:
    paid = sum(requests[name] for name in names)
    again = sum(max(0, requests[name] - TURNS) for name in names)
    return {"paid": paid, "again": again, "share": round(again / paid, 3) if paid else None}


def _spread(seconds: list[float]) -> Object:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    if not cuts:
        return {"times": 0}
    found = {"p50": cuts[49], "p99": cuts[98], "mean": mean(seconds)}
    return {"times": len(seconds)} | {name: round(value, 1) for name, value in found.items()}


def table(found: Object) -> str:
    """The figures for people."""
    lines = [json.dumps(found["faults"]), "reason times p50 p99 turns-again"]
    for reason, row in found["away"].items():
        cells = (row["times"], row["p50"], row["p99"], row["turns_again"])
        lines.append(" ".join(map(str, (reason, *cells))))
    lines += [f"turns, {kind}: {row}" for kind, row in found["turns"].items()]
    lines.append(f"answers: {found['answer']}")
    lines.append(f"lost: {found['lost']}, answered twice: {found['answered_twice']}")
    return "\n".join(lines)
