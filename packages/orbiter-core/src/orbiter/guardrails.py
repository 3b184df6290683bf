"""Guardrails: what an agent is asked, answers and does, looked at before it counts.

A hook is told that a point was passed. A guardrail says whether it may be: it ends the run, or
tells the model what to do instead of a call.
"""

from typing import Any

from orbiter.types import OrbiterError, RunContext, ToolCall, ToolResult

__all__ = ["Guardrail", "GuardrailError"]


class GuardrailError(OrbiterError):
    """Raised by a guardrail: the run ends with it.

    Attributes:
        reason: What the guardrail has said.
        agent_name: Whose guardrail it is.
        guardrail: The guardrail's class.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.agent_name = self.guardrail = ""
        super().__init__(reason)

    def __str__(self) -> str:
        if not self.guardrail:
            return self.reason
        return f"Agent '{self.agent_name}' was stopped by {self.guardrail}: {self.reason}"


class Guardrail:
    """Looks at pieces of an agent's run; write the methods you need.

    Each returns None when all is well, or raises a GuardrailError, which ends the run. Those of
    tools may raise ModelRetry instead: the model is told why, in the result's place. What else they
    raise ends the run too.
    """

    async def check_input(self, context: RunContext, input: str) -> None:
        """Look at what the agent is asked, before anything is sent.

        Args:
            context: The run; its conversation is empty yet.
            input: The text; empty in a run that goes on with a conversation.
        """

    async def check_output(self, context: RunContext, output: Any) -> None:
        """Look at the agent's output, before anybody is given it.

        Args:
            context: The run.
            output: The text, or the value of the `output_type`; of a run that was stopped, what was
                said last.
        """

    async def check_tool_call(self, context: RunContext, call: ToolCall) -> None:
        """Look at a call that the model wants made; the arguments are not checked yet."""

    async def check_tool_result(
        self, context: RunContext, call: ToolCall, result: ToolResult
    ) -> None:
        """Look at what a call has brought, before the model sees it."""
