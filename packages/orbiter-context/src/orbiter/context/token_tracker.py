"""Which agent used how many tokens in which step, as the providers counted them.

Numbers are appended to flat arrays: recording costs the same at step 1,000,000 as at step 1, and a
checkpoint shares the arrays instead of copying them.
"""

from array import array
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from pydantic import BaseModel


class TrajectoryStep(BaseModel):
    """One model call; `step` counts from 1 for each agent."""

    model_config = {"frozen": True}

    step: int
    prompt_tokens: int
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.output_tokens


class Trajectory(BaseModel):
    """All model calls of one agent, in order."""

    model_config = {"frozen": True}

    agent_name: str
    steps: list[TrajectoryStep] = []

    @property
    def total_tokens(self) -> int:
        """Tokens of all steps."""
        return sum(step.total_tokens for step in self.steps)


class StepLog:
    """The numbers of one agent's steps: prompt and output tokens in turn. Only ever grows."""

    __slots__ = ("_length", "_numbers")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._numbers = array("q", numbers)
        self._length: int | None = None

    def append(self, prompt_tokens: int, output_tokens: int) -> None:
        """Add a step."""
        self._numbers.append(prompt_tokens)
        self._numbers.append(output_tokens)

    def frozen(self) -> "StepLog":
        """Return the log as it is now; steps added later do not show in it."""
        copy = StepLog.__new__(StepLog)
        copy._numbers, copy._length = self._numbers, len(self._numbers)
        return copy

    def numbers(self, start: int = 0) -> list[int]:
        """Return prompt and output tokens in turn, without the first `start` steps."""
        return self._numbers[2 * start : self._length].tolist()

    def __len__(self) -> int:
        return (len(self._numbers) if self._length is None else self._length) // 2


class TokenTracker:
    """Counts tokens per agent and step."""

    def __init__(self, logs: Mapping[str, StepLog] | None = None) -> None:
        """Start from nothing or from the logs of a checkpoint."""
        self._logs: dict[str, StepLog] = {}
        self._prompt_tokens = 0
        self._output_tokens = 0
        self._merged: WeakKeyDictionary[TokenTracker, dict[str, int]] = WeakKeyDictionary()
        for agent_name, log in (logs or {}).items():
            self._extend(agent_name, log.numbers())

    def record(self, agent_name: str, prompt_tokens: int, output_tokens: int) -> None:
        """Note one model call."""
        log = self._logs.get(agent_name)
        if log is None:
            log = self._logs[agent_name] = StepLog()
        log.append(prompt_tokens, output_tokens)
        self._prompt_tokens += prompt_tokens
        self._output_tokens += output_tokens

    def merge(self, child: "TokenTracker") -> None:
        """Add what a child has used since it was last merged, so that nothing counts twice."""
        seen = self._merged.setdefault(child, {})
        for agent_name, log in child._logs.items():
            self._extend(agent_name, log.numbers(seen.get(agent_name, 0)))
            seen[agent_name] = len(log)

    @property
    def usage(self) -> dict[str, int]:
        """The sums: prompt_tokens, completion_tokens, total_tokens."""
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._output_tokens,
            "total_tokens": self._prompt_tokens + self._output_tokens,
        }

    def trajectory(self, agent_name: str) -> Trajectory:
        """Return the steps of an agent; none when it has not called a model."""
        log = self._logs.get(agent_name)
        numbers = [] if log is None else log.numbers()
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return Trajectory(
            agent_name=agent_name,
            steps=[
                TrajectoryStep(step=step, prompt_tokens=prompt, output_tokens=output)
                for step, (prompt, output) in enumerate(pairs, start=1)
            ],
        )

    def logs(self) -> dict[str, StepLog]:
        """Return all logs as they are now, for a checkpoint."""
        return {agent_name: log.frozen() for agent_name, log in self._logs.items()}

    def _extend(self, agent_name: str, numbers: list[int]) -> None:
        for at in range(0, len(numbers), 2):
            self.record(agent_name, numbers[at], numbers[at + 1])
