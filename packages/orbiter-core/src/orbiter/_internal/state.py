"""What one run has done so far. It is shared by all agents of the run and by nobody else."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from orbiter._internal.resumed import Resumed
from orbiter.config import ModelSettings, Spent, TaskConfig
from orbiter.observer import observer_of_all_runs
from orbiter.protocols import Provider
from orbiter.types import Message, OrbiterError, RunResult, StopReason, StreamEvent, Usage

if TYPE_CHECKING:
    from orbiter._internal.run_journal import PartJournal, RunJournal

Emit = Callable[[StreamEvent], Awaitable[None]]
Nested = Callable[[Any, Any, "RunState"], Awaitable[RunResult]]
_NO_RESULT: RunResult = RunResult.model_construct()


class RunState:
    """The counters, limits and conversation of one run.

    Attributes:
        provider_for: Finds the provider of a model string.
        deps: What the user gave to `run(deps=...)`.
        emit: Where stream events go; None when nobody listens.
        steps: Model calls of all agents.
        made: Model calls that the interrupted run before this one made, by agent.
        deadline: Event loop time at which the run ends, or None.
        last_agent: Name of the agent that ran last.
        typed: Whether that one has an output type.
        observer: What encloses the pieces of the run, if anything does.
        settings: How the models are to answer, if the run says so.
        nested: Runs an agent or a swarm inside of this run.
        depth: In how many runs this one is nested.
        journal: Where the run is kept, if it is.
        go_on: How to go on after a failure, where that is not by its messages.
        resumed: The earlier run that goes on in this one, if one does.
        began: Where in the history what the run adds begins, if it is resumed; else its end.
        input_timeout: Seconds a person has for an answer, if that is bounded.
        waits: Requests and JSON of the run when it waits for a person.
    """

    __slots__ = (
        "_cached", "_input", "_limits", "_logs", "_output", "_reasoned", "_total", "_written",
        "began", "deadline", "deps", "depth", "emit", "go_on", "history", "input_timeout",
        "journal", "last_agent", "made", "nested", "observer", "provider_for", "resumed",
        "settings", "steps", "typed", "waits",
    )  # fmt: skip

    def __init__(
        self,
        *,
        provider_for: Callable[[str], Provider],
        history: list[Message],
        config: TaskConfig | None = None,
        deps: Any = None,
        emit: Emit | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        nested: Nested | None = None,
        resumed: Resumed | None = None,
    ) -> None:
        self.nested = nested
        self.depth = 0
        self.provider_for = provider_for
        self.deps = deps
        self.emit = emit
        self.settings = settings
        self.observer = observer_of_all_runs()
        self.steps = 0
        self.made: dict[str, int] = {}
        self.last_agent = ""
        self.typed = False
        self.resumed = resumed
        self.waits: dict[str, Any] = {}
        self.history = history
        self.began = len(history) if resumed is None else resumed.paused.began
        self.journal: RunJournal | PartJournal | None = None
        self.go_on = ""
        self._logs: list[list[Message]] = []
        self._limits = config
        self._input = self._output = self._total = self._cached = 0
        self._written = self._reasoned = 0
        if spent is not None:
            self.made = dict(spent.steps)
            self.steps = sum(self.made.values())
            self.count(spent.usage)
        self.input_timeout = config.input_timeout if config else None
        timeout = config.timeout if config else None
        self.deadline = asyncio.get_running_loop().time() + timeout if timeout else None

    def run_nested(self, target: Any, input: Any) -> Awaitable[RunResult]:
        """Run an agent or a swarm inside of this run; what it takes counts here."""
        if self.nested is None:
            raise OrbiterError("nothing can be run inside of this run")
        return self.nested(target, input, self)

    def open_log(self) -> list[Message]:
        """Start the part of the conversation that one agent of the run will write."""
        log: list[Message] = []
        self._logs.append(log)
        return log

    def count(self, usage: Usage) -> None:
        """Note a finished model call."""
        self._input += usage.input_tokens
        self._output += usage.output_tokens
        self._total += usage.total_tokens
        self._cached += usage.cached_tokens
        self._written += usage.cache_write_tokens
        self._reasoned += usage.reasoning_tokens

    def limit_met(self) -> StopReason | None:
        """Say which limit of the whole run forbids the next model call, if any."""
        limits = self._limits
        if limits is None:
            return None
        used = (
            (limits.model_calls, self.steps),
            (limits.input_tokens, self._input),
            (limits.output_tokens, self._output),
            (limits.total_tokens, self._total),
        )
        met = any(limit is not None and value >= limit for limit, value in used)
        return "usage_limit" if met else None

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls."""
        return Usage(
            input_tokens=self._input,
            output_tokens=self._output,
            total_tokens=self._total,
            cached_tokens=self._cached,
            # most providers tell neither, and a field that is not given costs nothing
            **({"cache_write_tokens": self._written} if self._written else {}),
            **({"reasoning_tokens": self._reasoned} if self._reasoned else {}),
        )

    def result(self, output: Any, stop_reason: StopReason) -> RunResult:
        """Build the result; the conversation in it is valid however the run ended."""
        fields: dict[str, Any] = {
            "output": output,
            "messages": [*self.history, *chain.from_iterable(self._logs)],
            "usage": self.usage,
            "steps": self.steps,
            "last_agent": self.last_agent,
            "stop_reason": stop_reason,
        }
        if stop_reason == "input_required":
            fields |= self.waits
        if self.typed and stop_reason != "completed":
            # rare, so that nobody else pays for its class
            from orbiter._internal.unfinished import UnfinishedResult

            return UnfinishedResult.model_construct(**fields)
        # half of what model_construct takes
        return _NO_RESULT.model_copy(update=fields)
