"""How tools and validators ask for another try, and what ends where there is none."""

from collections.abc import Sequence

from orbiter.types import Message, OrbiterError, StopReason, Usage


class ModelRetry(OrbiterError):  # noqa: N818 - an instruction, not a failure
    """Raised by a tool or an output validator: the model is told why, and tries again.

    A run takes `Agent(retries=...)` of them from its answers, and as many from each tool.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class RetryLimitError(OrbiterError):
    """A tool has raised ModelRetry more often than the agent's `retries` allow.

    Attributes:
        agent_name: Whose tool it is.
        tool_name: The tool.
    """

    def __init__(self, agent_name: str, tool_name: str, retries: int, cause: ModelRetry) -> None:
        self.agent_name = agent_name
        self.tool_name = tool_name
        super().__init__(
            f"Agent '{agent_name}' called '{tool_name}' {retries + 1} times without success: "
            f"{cause}. Raise its retries ({retries}), or say in the tool's description what it "
            "takes."
        )


class InputAnswerError(OrbiterError):
    """An answer does not fit what waits: nothing has run, and another one may be given."""


class UnfinishedRunError(OrbiterError):
    """Somebody read the `output` of a run that was stopped before it had one of its type.

    Attributes:
        agent_name: Who was stopped.
        stop_reason: By what.
    """

    def __init__(
        self,
        agent_name: str,
        stop_reason: StopReason,
        *,
        messages: Sequence[Message],
        usage: Usage,
        steps: int,
    ) -> None:
        self.agent_name = agent_name
        self.stop_reason = stop_reason
        self.messages, self.usage, self.steps = messages, usage, steps
        step = "run(..., messages=result.messages) goes on"
        if stop_reason == "input_required":
            step = "run(..., resume=result.paused, answers=[...]) goes on"
        super().__init__(
            f"Agent '{agent_name}' has no output: its run was stopped ({stop_reason}) after "
            f"{steps} steps. Look at `stop_reason` first; `output_or_text` is what was said last, "
            f"and {step}."
        )


class JournalError(OrbiterError):
    """What is kept of a run cannot be written, cannot be read, or is of another run."""


class RunBusyError(JournalError):
    """Somebody else is at the run of that `run_id`.

    Attributes:
        run_id: The run.
    """

    def __init__(self, run_id: str, owner: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"run '{run_id}' goes on in {owner}: wait for its end or stop it, or give this run "
            "another run_id"
        )


class SessionError(OrbiterError):
    """What is kept of a conversation cannot be written or read."""
