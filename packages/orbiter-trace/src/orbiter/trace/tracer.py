"""The observer that makes spans of runs: for all of them, or in the hooks of one agent.

OpenTelemetry is imported when the first tracer is made, not before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from orbiter.observer import ObservedAgent, ObservedSwarm, Observer, Scope
from orbiter.tool import Tool
from orbiter.trace._internal.active import EVERYWHERE, OWN
from orbiter.trace.config import TraceConfig
from orbiter.types import Message, RunContext, ToolCall


class RunTracer(Observer):
    """Traces what it observes; `Agent(hooks=[RunTracer(TraceConfig(...))])` traces one agent.

    For all runs there are `configure` and `tracing`, which make one.
    """

    def __init__(self, config: TraceConfig | None = None) -> None:
        """Open the exporters.

        Args:
            config: How to trace.

        Raises:
            OrbiterError: An exporter's package is not installed.
        """
        from orbiter.trace._internal import backend, pieces

        self.config = config or TraceConfig()
        self._pieces = pieces
        self._content = self.config.capture_content
        self._open: Callable[[Any, Any], Scope]
        self._pipeline, self._open = backend.open_backend(self.config)

    @property
    def dropped(self) -> int:
        """Spans lost because more than `max_queue` of them waited for their export."""
        return self._pipeline.dropped if self._pipeline else 0

    def run(self, target: ObservedAgent | ObservedSwarm, input: str) -> Scope:
        """Open the span of a run."""
        return self._open(self._pieces.RUN, (target, input if self._content else ""))

    def agent(self, agent: ObservedAgent, run: RunContext) -> Scope:
        """Open the span of an agent."""
        scope = self._open(self._pieces.AGENT, agent)
        return scope if self in EVERYWHERE else _Own(self, scope)

    def step(self, agent: ObservedAgent, number: int) -> Scope:
        """Open the span of a step."""
        return self._open(self._pieces.STEP, (agent, number))

    def model_call(
        self, agent: ObservedAgent, messages: Sequence[Message], provider: Any, *, streamed: bool
    ) -> Scope:
        """Open the span of a model call."""
        shown = messages if self._content else ()
        return self._open(self._pieces.MODEL_CALL, (agent, shown, streamed))

    def tool_call(self, agent: ObservedAgent, call: ToolCall, tool: Tool | None) -> Scope:
        """Open the span of a tool call."""
        return self._open(self._pieces.TOOL_CALL, (agent, call, tool))

    def handoff(self, agent: ObservedAgent, target: ObservedAgent, call: ToolCall) -> None:
        """Make the span of a handoff; it takes no time."""
        with self._open(self._pieces.HANDOFF, (agent, target, call)):
            pass

    def span(self, name: str, attributes: Mapping[str, Any] | None = None) -> Any:
        """Return the scope of a span of the user's own; `trace_span` is the way to ask for it."""
        return self._open(self._pieces.CUSTOM, (name, attributes or {}))

    def flush(self) -> None:
        """Export what has ended so far; spans of an application's provider are its own matter."""
        if self._pipeline is not None:
            self._pipeline.flush()

    def shutdown(self) -> None:
        """Export what is left and close the exporters."""
        if self._pipeline is not None:
            self._pipeline.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.shutdown()


class _Own(Scope):
    """An agent's span with a tracer of the agent's own: spans opened inside belong to it."""

    def __init__(self, tracer: RunTracer, scope: Scope) -> None:
        self._tracer = tracer
        self._scope = scope

    def __enter__(self) -> Self:
        self._token = OWN.set(self._tracer)
        self._scope.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._scope.__exit__(kind, error, trace)
        OWN.reset(self._token)

    def done(self, outcome: Any, cause: BaseException | None = None) -> None:
        self._scope.done(outcome, cause)
