"""Builds the list of messages a model sees, correct by construction.

A conversation is valid for every provider when each tool call of an assistant message has exactly
one result, and all results stand right behind that message.
"""

from collections.abc import Iterable

from orbiter.types import AssistantMessage, Message, SystemMessage, ToolResult

NO_RESULT = "no result: the run ended before the tool did"


def build_messages(
    instructions: str,
    history: list[Message],
    tool_results: list[ToolResult] | None = None,
) -> list[Message]:
    """Build the message list for an LLM call.

    Args:
        instructions: The system prompt; empty means none.
        history: Previous conversation messages, in order.
        tool_results: Results that are not in the history yet.

    Returns:
        The system message if there are instructions, the history, the results. A history that
        already begins with these instructions keeps its one system message.
    """
    if not instructions:
        return [*history, *(tool_results or ())]
    first = history[0] if history else None
    said = isinstance(first, SystemMessage) and first.content == instructions
    rest = history[1:] if said else history
    return [SystemMessage(content=instructions), *rest, *(tool_results or ())]


def close_calls(messages: list[Message], reason: str = NO_RESULT) -> list[Message]:
    """Make a conversation valid for every provider.

    Calls without a result get one that says `reason`; results that answer no call, or answer one
    for the second time, are left out.

    Args:
        messages: A conversation, perhaps cut off anywhere or restored from somewhere.
        reason: The error of the results that are added.

    Returns:
        The same list when nothing was wrong, else a corrected copy.
    """
    closed: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if isinstance(message, ToolResult):
            continue
        closed.append(message)
        if isinstance(message, AssistantMessage) and message.tool_calls:
            start = at
            while at < len(messages) and isinstance(messages[at], ToolResult):
                at += 1
            closed.extend(_results(message, messages[start:at], reason))
    return messages if closed == messages else closed


def _results(
    message: AssistantMessage, found: Iterable[Message], reason: str
) -> Iterable[ToolResult]:
    by_id: dict[str, ToolResult] = {}
    for result in found:
        if isinstance(result, ToolResult):
            by_id.setdefault(result.tool_call_id, result)
    for call in message.tool_calls:
        yield by_id.get(call.id) or ToolResult(
            tool_call_id=call.id, tool_name=call.name, error=reason
        )
