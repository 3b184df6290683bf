"""Whether the agent that runs in this context can be put aside to wait for an answer."""

from contextvars import ContextVar

can_ask: ContextVar[bool] = ContextVar("orbiter_tasks_can_ask", default=False)
