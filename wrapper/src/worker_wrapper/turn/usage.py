"""What one turn cost, from CLIs that tell and from CLIs that only add up. Pure; for turn.py."""

from typing import Final

from orbiter_contracts import Usage, clamped_cost, clamped_count
from orbiter_contracts.bounds import COST_DIGITS
from worker_wrapper.agents.base import AgentResult, Session

_COUNTS: Final = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "turns"),
)


def charge(result: AgentResult, session: Session | None) -> Usage | None:
    """The cost of this turn alone.

    A CLI that goes on counting when a session is resumed is charged by the growth of its totals.
    Where the totals before are not known, the cost stays unknown rather than being charged twice.
    """
    if result.totals is None:
        used = result.usage
    elif session is None or not session.resumed:
        used = result.totals
    elif session.totals is not None:
        used = _growth(result.totals, session.totals)
    else:
        used = result.usage
    return used.model_copy(update={"turns": result.turns}) if used else None


def together(before: Usage | None, now: Usage | None) -> Usage | None:
    """What two parts of one turn have cost; None when neither has told."""
    if before is None or now is None:
        return before or now
    costs = [each.cost_usd for each in (before, now) if each.cost_usd is not None]
    return Usage(
        cost_usd=clamped_cost(sum(costs)) if costs else None,
        **{name: clamped_count(getattr(before, name) + getattr(now, name)) for name in _COUNTS},
    )


def priced(usage: Usage | None, known: Usage | None) -> Usage | None:
    """Tokens whose cost nobody has told, at the price that others of the same agent had.

    A CLI that was killed has not told, and the next one does not know of it.
    """
    if usage is None or usage.cost_usd is not None or known is None or not known.cost_usd:
        return usage
    weight = _weight(known)
    if not weight:
        return usage
    cost = clamped_cost(known.cost_usd * _weight(usage) / weight)
    return usage.model_copy(update={"cost_usd": cost})


def growth(now: Usage, before: Usage | None) -> Usage:
    """What came on top; all of it when the count began anew."""
    return now if before is None else _growth(now, before)


def context_size(result: AgentResult, used: Usage | None) -> int | None:
    """How large the conversation is, in tokens; estimated where the CLI does not say.

    A turn that asked the model several times sent the whole conversation as often.
    """
    if result.context_tokens is not None or used is None:
        return result.context_tokens
    sent = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
    each = (sent + used.output_tokens) / max(result.requests or result.turns, 1)
    return clamped_count(round(each)) or None


def _growth(now: Usage, before: Usage) -> Usage:
    tokens = {
        name: getattr(now, name) - getattr(before, name)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    }
    cost = (
        None
        if now.cost_usd is None
        else round(now.cost_usd - (before.cost_usd or 0.0), COST_DIGITS)
    )
    # Totals that went down began anew with this turn.
    shrunk = min(*tokens.values(), cost or 0) < 0
    return now if shrunk else Usage(**tokens, cost_usd=cost)


def _weight(usage: Usage) -> float:
    """Tokens in units of one that is sent, by the ratios that vendors' list prices have."""
    sent = usage.input_tokens + 1.25 * usage.cache_write_tokens + 0.1 * usage.cache_read_tokens
    return sent + 5 * usage.output_tokens
