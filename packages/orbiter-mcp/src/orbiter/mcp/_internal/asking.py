"""Which call a server's question belongs to, and what the server is answered.

A server asks while a call is under way. A handler answers at once; else the answer is one that a
person gave before the call was made again, or `cancel`, and the call ends with the question.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from orbiter.approval import PersonNeeded, person
from orbiter.mcp.elicitation import (
    Elicitation,
    ElicitationError,
    ElicitationHandler,
    read_elicitation,
)

if TYPE_CHECKING:
    from mcp_types import ElicitResult, ErrorData

logger = logging.getLogger("orbiter")
_INVALID = -32602
UNCLEAR = (
    "the server asked a person while several of its tools ran, and did not say which of them asks: "
    "call this one alone"
)


class Call:
    """A call that is under way.

    Attributes:
        tool: Its tool, as the server calls it.
        clock: When it has been silent for too long.
        question: What it asks a person who has not answered yet.
        unclear: Whether something was asked that may have been of another call.
    """

    def __init__(self, tool: str, timeout: float | None) -> None:
        self.tool = tool
        self.question: str | None = None
        self.unclear = False
        self.clock = asyncio.timeout(None)
        self.person = person()
        self._timeout = timeout

    def alive(self) -> None:
        """Begin the time of silence anew."""
        if self._timeout is not None:
            with suppress(RuntimeError):  # it came when the time was over
                self.clock.reschedule(asyncio.get_running_loop().time() + self._timeout)

    def held(self) -> None:
        """Stop the clock while a person thinks."""
        with suppress(RuntimeError):
            self.clock.reschedule(None)


_asking: ContextVar[Call | None] = ContextVar("orbiter_mcp_call", default=None)


class Questions:
    """Answers the questions of one server."""

    def __init__(self, server: str, handler: ElicitationHandler | None) -> None:
        self._server = server
        self._handler = handler
        self._calls: list[Call] = []

    @contextmanager
    def during(self, call: Call) -> Iterator[None]:
        """Have questions be those of this call, as far as can be told."""
        self._calls.append(call)
        token = _asking.set(call)
        try:
            yield
        finally:
            _asking.reset(token)
            self._calls.remove(call)

    async def answer(self, context: Any, params: Any) -> ElicitResult | ErrorData:
        """Answer the server; the SDK's `elicitation_callback`."""
        from mcp_types import ElicitResult, ErrorData

        own = _asking.get()
        # protocols before 2026-07-28 do not tell which call asks
        calls = [own] if own in self._calls else list(self._calls)
        call = calls[0] if len(calls) == 1 else None
        try:
            asked = read_elicitation(self._server, call.tool if call else "", params)
            if not calls:
                raise ElicitationError("nothing is asked of a person outside of a call")
        except ElicitationError as error:
            return ErrorData(code=_INVALID, message=str(error))
        if self._handler is not None:
            return await self._live(self._handler, asked, calls)
        if call is None:
            for one in calls:
                one.unclear = True
            return ElicitResult(action="cancel")
        try:
            content = _said(call, asked)
        except PersonNeeded as needed:
            call.question = call.question or needed.question
            return ElicitResult(action="cancel")
        return _result(content)

    async def _live(
        self, handler: ElicitationHandler, asked: Elicitation, calls: list[Any]
    ) -> ElicitResult:
        from mcp_types import ElicitResult

        for call in calls:
            call.held()
        try:
            reply: Any = handler(asked)
            if inspect.isawaitable(reply):
                reply = await reply
            if isinstance(reply, str):
                reply = asked.read(reply)
            return _result(None if reply is None else asked.checked(reply))
        except Exception as error:
            # the text may be a person's
            logger.warning("on_elicitation of MCP server %r: %s", self._server, error)
            return ElicitResult(action="cancel")
        finally:
            for call in calls:
                call.alive()


def _said(call: Call, asked: Elicitation) -> dict[str, Any] | None:
    """Return what a person has said; one whose answer did not fit is asked again.

    Raises:
        PersonNeeded: Nobody has been asked yet.
    """
    question, again, number = asked.question, "", 0
    while True:
        text = call.person.ask(question + again)
        if text is None:
            return None
        try:
            return asked.read(text)
        except ElicitationError as error:
            number += 1
            again = f"\n(Answer {number} does not fit: {error})"


def _result(content: dict[str, Any] | None) -> ElicitResult:
    from mcp_types import ElicitResult

    if content is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=content)
