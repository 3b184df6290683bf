"""Which tracer is at work here: an agent's own inside of that agent, else the one of all runs."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol


class Tracer(Protocol):
    """What spans are opened with: a RunTracer, which stands above this module."""

    def span(self, name: str, attributes: Mapping[str, Any] | None = None) -> Any:
        """Return the scope of a span of the user's own."""
        ...


OWN: ContextVar[Tracer | None] = ContextVar("orbiter_own_tracer", default=None)
EVERYWHERE: list[Tracer] = []


def active_tracer() -> Tracer | None:
    """Return the tracer that spans opened here belong to; None while tracing is off."""
    return OWN.get() or (EVERYWHERE[0] if EVERYWHERE else None)
