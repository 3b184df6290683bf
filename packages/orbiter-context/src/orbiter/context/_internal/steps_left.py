"""What stands for the steps of a run that have become too many for their budget.

The agent's own model writes it, as it does for rounds that leave the window, and goes on from what
it wrote of those. All that was said is filed, so that it can be looked up.
"""

from collections.abc import Iterable
from typing import Protocol

from orbiter.context._internal.conversation import Ledger
from orbiter.context._internal.knowledge import KnowledgeStore
from orbiter.context._internal.run_record import RunRecord
from orbiter.memory.extraction import transcript
from orbiter.types import AssistantMessage, Message, ToolResult, Usage, UserMessage

TOLD_CHARS = 300


class Leaving(Protocol):
    """What of a context is needed here; the context itself stands above this module."""

    ledgers: dict[str, Ledger]
    archive: KnowledgeStore

    def record_step(self, agent_name: str, usage: Usage) -> None:
        """Note the tokens of one model call."""
        ...


async def stand_in(ctx: Leaving, run: RunRecord, left: list[Message]) -> str:
    """Return what stands for messages that leave, and for all that left before.

    Args:
        ctx: Where they are filed, and where rounds that left are known.
        run: The run they are of.
        left: The messages.
    """
    ledger = run.shown.ledger
    if ledger is None:
        rounds = ctx.ledgers.get(run.agent_name) if run.shown.block else None
        ledger = run.shown.ledger = rounds.copy() if rounds is not None else Ledger()
    told = list(told_of(left))
    ledger.take(told)
    if filed := transcript(told):
        await ctx.archive.append(f"steps/{run.agent_name}", f"{filed}\n")
    for usage in await ledger.summarize(run.provider):
        ctx.record_step(f"{run.agent_name}/summary", usage)
    return ledger.text()


def told_of(messages: Iterable[Message]) -> Iterable[Message]:
    """Yield what was said, called and found in words, which is all that a summary reads."""
    for message in messages:
        if isinstance(message, UserMessage):
            yield UserMessage(content=message.content)
        elif isinstance(message, AssistantMessage):
            calls = [f"Called {c.name} {c.arguments[:TOLD_CHARS]}" for c in message.tool_calls]
            if text := "\n".join([*([message.content] if message.content else []), *calls]):
                yield AssistantMessage(content=text)
        elif isinstance(message, ToolResult):
            found = message.content if message.error is None else f"failed: {message.error}"
            yield AssistantMessage(content=f"{message.tool_name}: {found[:TOLD_CHARS]}")
