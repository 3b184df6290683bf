"""`kubectl orbiter top`: what works now, for how long already, and what it has cost."""

import sys
import time
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.questions import BOTH
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import aligned, moment, money, one_line, plain, seconds

_AWAKE: Final = ("Waking", "Ready", "Busy")
_DOES: Final = 50
_HEADER: Final = ("NAMESPACE", "NAME", "AGENT", "PHASE", "ELAPSED", "COST", "TOKENS", "DOES")


class Line(NamedTuple):
    """One task or session that works; `elapsed` is in seconds."""

    namespace: str
    name: str
    agent: str
    phase: str
    elapsed: float
    cost: float | None
    tokens: int
    does: str


def run_top(kubectl: Kubectl, *, everywhere: bool, once: bool, interval: str) -> int:
    """Print the table; at a terminal again and again, until Ctrl-C."""
    pause = parse_seconds(interval) or 2

    def read() -> str:
        found = kubectl.list_all(BOTH, everywhere=everywhere)
        return render(working(found, datetime.now(UTC)))

    if once or not sys.stdout.isatty():
        say(read())
        return ExitCode.OK
    from rich.live import Live
    from rich.text import Text

    shown = read()
    with Live(Text(plain(shown), no_wrap=True), screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(pause)
                try:
                    shown, problem = read(), ""
                except CommandError as error:  # an API server restarts meanwhile
                    problem = f"\n\nas it was; now: {one_line(str(error), 200)}"
                live.update(Text(plain(shown + problem), no_wrap=True), refresh=True)
        except KeyboardInterrupt:
            return ExitCode.OK


def working(found: list[Object], now: datetime) -> list[Line]:
    """The tasks that run and the sessions that are awake, the longest first."""
    lines = []
    for each in found:
        status = each.get("status", {})
        if each["kind"] == "AgentTask" and status.get("phase") == "Running":
            lines.append(_task(each, now))
        elif each["kind"] == "POSession" and status.get("phase") in _AWAKE:
            lines.append(_session(each, now))
    return sorted(lines, key=lambda line: (-line.elapsed, line.namespace, line.name))


def render(lines: list[Line]) -> str:
    """The table, and what it comes to."""
    costs = [line.cost for line in lines if line.cost is not None]
    total = f"{money(sum(costs))} USD, {sum(line.tokens for line in lines):,} tokens"
    tasks = sum(line.name.startswith("at/") for line in lines)
    head = f"at work: {tasks} tasks, {len(lines) - tasks} sessions; {total}"
    rows = [
        (
            *(line.namespace, line.name, line.agent, line.phase, seconds(line.elapsed)),
            *("-" if line.cost is None else money(line.cost), f"{line.tokens:,}", line.does),
        )
        for line in lines
    ]
    return f"{head}\n\n{aligned([_HEADER, *rows])}" if rows else head


def _task(task: Object, now: datetime) -> Line:
    status = task["status"]
    usage, kept = status.get("usage") or {}, status.get("checkpoint") or {}
    # what earlier attempts have cost and read, and this one by its last checkpoint
    known = [
        part["costUSD"] for part in (usage, kept) if isinstance(part.get("costUSD"), int | float)
    ]
    does = status.get("progress") or status.get("message") or ""
    since = status.get("startTime")
    line = _line(task, "at", since, now, sum(known) if known else None, does)
    return line._replace(tokens=line.tokens + _tokens(kept))


def _session(session: Object, now: datetime) -> Line:
    status = session["status"]
    cost = (status.get("usage") or {}).get("costUSD")
    waits = status.get("pendingMessages") or 0
    does = f"{waits} messages wait or are being answered" if waits else ""
    since = next(
        (
            each.get("lastTransitionTime")
            for each in status.get("conditions", [])
            if each["type"] == "Awake" and each["status"] == "True"
        ),
        None,
    )
    return _line(session, "pos", since, now, cost, does)


def _line(
    found: Object, short: str, since: Any, now: datetime, cost: float | None, does: str
) -> Line:
    status, began = found["status"], moment(since)
    usage = status.get("usage") or {}
    metadata = found["metadata"]
    return Line(
        namespace=metadata["namespace"],
        name=f"{short}/{metadata['name']}",
        agent=one_line(str(_agent(found)), 12),
        phase=str(status.get("phase")),
        elapsed=max((now - began).total_seconds(), 0.0) if began else 0.0,
        cost=cost,
        tokens=_tokens(usage),
        does=one_line(does, _DOES),
    )


def _tokens(part: Object) -> int:
    return int(part.get("inputTokens") or 0) + int(part.get("outputTokens") or 0)


def _agent(found: Object) -> Any:
    """Which agent works: a task's status knows it, with its profile."""
    said = (found["status"].get("agent") or {}).get("type")
    return said or found["spec"].get("agent", {}).get("type", "claude")
