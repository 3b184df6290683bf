"""What one turn cost, from CLIs that tell and from CLIs that only add up. Pure; for turn.py."""

from orbiter_contracts import Usage, clamped_count
from worker_wrapper.agents.base import AgentResult, Session


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
    cost = None if now.cost_usd is None else now.cost_usd - (before.cost_usd or 0.0)
    # Totals that went down began anew with this turn.
    shrunk = min(*tokens.values(), cost or 0) < 0
    return now if shrunk else Usage(**tokens, cost_usd=cost)
