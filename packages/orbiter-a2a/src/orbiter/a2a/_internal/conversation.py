"""A remote agent as a model: whatever is said to it goes there, what it answers comes back."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from orbiter.a2a._internal.connection import Connection, request_for, task_of
from orbiter.a2a._internal.reply import Reply
from orbiter.a2a._internal.transcript import asked, fingerprint, last_words
from orbiter.a2a.remote import RemoteAgentError
from orbiter.additions import without_added
from orbiter.tasks import TaskState
from orbiter.types import AssistantMessage, Message, OrbiterError, ToolCall, Usage

MOST_QUESTIONS = 1000
CANCEL_SECONDS = 5.0
NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole reply, as the run loop takes it; what it cost is the remote agent's secret."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NOTHING


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a reply."""

    delta: str
    tool_call_deltas: tuple[Any, ...] = ()
    usage: Usage = NOTHING


class Conversation:
    """The provider of an A2AClient."""

    def __init__(self, connection: Connection, name: Callable[[], str]) -> None:
        self._connection = connection
        self._name = name
        # what a remote task has asked, by the conversation that ends with the question
        self._questions: OrderedDict[str, tuple[str, str]] = OrderedDict()

    async def complete(self, messages: list[Message], **options: Any) -> Answer:
        """Answer in one piece; see the Provider protocol."""
        return Answer("".join([piece async for piece in self._converse(messages)]))

    async def stream(self, messages: list[Message], **options: Any) -> AsyncGenerator[Piece, None]:
        """Answer piece by piece; see the Provider protocol."""
        async with aclosing(self._converse(messages)) as pieces:
            async for piece in pieces:
                yield Piece(piece)

    async def _converse(self, messages: list[Message]) -> AsyncGenerator[str, None]:
        """Go on with a conversation and yield the agent's words; leaving cancels its task."""
        # what this program has added is not for others
        messages = [without_added(message) for message in messages]
        at = max((i for i, m in enumerate(messages) if isinstance(m, AssistantMessage)), default=-1)
        open_task = self._questions.pop(fingerprint(messages[: at + 1]), None)
        if open_task is not None:
            request = request_for(last_words(messages), *open_task)
        else:
            request = request_for(asked(messages), None, None)
        reply = Reply()
        words = ""
        try:
            async with aclosing(self._connection.events(request, reply)) as pieces:
                async for piece in pieces:
                    words += piece
                    if piece:
                        yield piece
        except (asyncio.CancelledError, GeneratorExit):
            await self._abandon(reply)
            raise
        task = task_of(reply)
        if task.state is TaskState.INPUT_REQUIRED:
            yield task.text
            said = AssistantMessage(content=words + task.text)
            self._questions[fingerprint([*messages, said])] = (task.id, task.context_id)
            while len(self._questions) > MOST_QUESTIONS:
                self._questions.popitem(last=False)
        elif task.state is not TaskState.COMPLETED:
            raise RemoteAgentError(f"remote agent '{self._name()}' {task.state}: {task.text}")
        elif not words and task.text:
            yield task.text

    async def _abandon(self, reply: Reply) -> None:
        if reply.task_id and not reply.ended:
            try:
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self._connection.cancel(reply.task_id)
            except (OrbiterError, TimeoutError):
                pass  # it has ended meanwhile, or nobody is there to be told
