"""`kubectl orbiter usage`: tokens and money."""

import json
from typing import Any

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.references import Found, resolve
from orbiter.cli.ui.outcome import ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import facts_table, money

_TOKENS = {
    "inputTokens": "input tokens",
    "outputTokens": "output tokens",
    "cacheReadTokens": "cache read",
    "cacheWriteTokens": "cache written",
}


def run_usage(kubectl: Kubectl, name: str, *, as_json: bool) -> int:
    """Print what a task or a session has cost so far, as its status says."""
    found = resolve(kubectl, name)
    if as_json:
        typer.echo(json.dumps({"kind": found.kind, "name": found.name, **_spent(found)}))
    else:
        say(_table(found))
    return ExitCode.OK


def _spent(found: Found) -> dict[str, Any]:
    status = found.object.get("status", {})
    fields = ("turns", "sessionId", "lastActivityTime", "attempts", "durationMs")
    told = {name: status[name] for name in fields if name in status}
    return {"usage": status.get("usage", {}), **told}


def _table(found: Found) -> str:
    status = found.object.get("status", {})
    usage = status.get("usage", {})
    cost = usage.get("costUSD")
    facts: dict[str, Any] = {
        "session" if found.kind == "POSession" else "task": found.name,
        "messages answered": status.get("turns") if found.kind == "POSession" else None,
        "attempts": status.get("attempts"),
        "duration": status.get("duration"),
        "model calls": usage.get("turns") or None,
    }
    facts |= {label: _count(usage.get(field)) for field, label in _TOKENS.items()}
    facts["cost"] = None if cost is None else f"{money(cost)} USD"
    if not usage:
        facts["spent"] = "nothing yet"
    return facts_table(facts)


def _count(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"
