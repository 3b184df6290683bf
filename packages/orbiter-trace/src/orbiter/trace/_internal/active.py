"""Which tracer is at work here: an agent's own inside of that agent, else the one of all runs."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orbiter.trace.tracer import RunTracer

OWN: ContextVar["RunTracer | None"] = ContextVar("orbiter_own_tracer", default=None)
EVERYWHERE: list["RunTracer"] = []


def active_tracer() -> "RunTracer | None":
    """Return the tracer that spans opened here belong to; None while tracing is off."""
    return OWN.get() or (EVERYWHERE[0] if EVERYWHERE else None)
