"""Tools the client of a chat completion calls itself.

To the agent they are tools like its own. When the model has called one, the run ends before the
next model call, and the client is told of the call. What the model and the server's tools said on
the way there is kept under the call's id: the client does not know it and cannot send it back.
"""

import copy
import json
import sqlite3
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from orbiter import Agent, Tool
from orbiter.hooks import Hook, HookEvent, HookManager, HookPoint
from orbiter.server._internal.chat_models import ChatRequest, FunctionSpec
from orbiter.server._internal.database import Database
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.json_text import conversation, messages_json
from orbiter.types import AssistantMessage, Message, OrbiterError, ToolCall, ToolResult

KEPT_SECONDS = 24 * 3600


class ClientTool(Tool):
    """A tool that is executed elsewhere."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.name = spec.name
        self.description = spec.description or ""
        self.parameters = spec.parameters or {"type": "object", "properties": {}}

    def parse(self, arguments: str) -> dict[str, Any]:
        """Accept whatever the model wrote; the client judges it."""
        return {}

    async def execute(self) -> str:
        """Do nothing; see the module."""
        return ""


class CalledError(OrbiterError):
    """The model has called tools of the client."""


class Prepared:
    """An agent as one request wants it.

    Attributes:
        agent: A copy with the client's tools.
        calls: The calls of the client's tools, once the run has ended for them.
        said: What the run said up to them, with the results of the server's own tools.
    """

    def __init__(self, agent: Agent, request: ChatRequest) -> None:
        specs = [tool.function for tool in request.tools or () if request.tool_choice != "none"]
        taken = {tool.name for tool in agent.tools}
        for spec in specs:
            if spec.name in taken:
                raise RequestError(
                    400, f"the agent has a tool '{spec.name}' of its own: rename yours",
                    param="tools",
                )  # fmt: skip
            taken.add(spec.name)
        self._names = {spec.name for spec in specs}
        self._known = 0
        self.calls: list[ToolCall] = []
        self.said: list[Message] = []
        self.agent = copy.copy(agent)
        self.agent.tools = [*agent.tools, *map(ClientTool, specs)]
        if request.temperature is not None:
            self.agent.temperature = request.temperature
        limit = request.max_completion_tokens or request.max_tokens
        if limit is not None:
            self.agent.max_tokens = limit
        if self._names:
            ours = [Hook(HookPoint.START, self._begin), Hook(HookPoint.PRE_LLM_CALL, self._stop)]
            self.agent.hooks = _Both(agent.hooks, ours)

    def _begin(self, event: HookEvent) -> None:
        self._known = len(event.run.messages)

    def _stop(self, event: HookEvent) -> None:
        fresh = list(event.run.messages)[self._known :]
        asked = next((m for m in reversed(fresh) if not isinstance(m, ToolResult)), None)
        if not isinstance(asked, AssistantMessage):
            return
        # ids of our own: not every model's are unique, and these are keys
        ours = {call.id: f"call_{uuid4().hex}" for call in asked.tool_calls
                if call.name in self._names}  # fmt: skip
        if not ours:
            return
        calls = [call.model_copy(update={"id": ours.get(call.id, call.id)})
                 for call in asked.tool_calls]  # fmt: skip
        renamed = asked.model_copy(update={"tool_calls": calls})
        self.calls = [call for call in calls if call.name in self._names]
        self.said = [
            renamed if message is asked else message
            for message in fresh
            if not (isinstance(message, ToolResult) and message.tool_call_id in ours)
        ]
        raise CalledError("the client's turn")


class Unseen:
    """Keeps what clients do not see of a conversation, for a day."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(
        self, calls: Sequence[ToolCall], said: Sequence[Message], user: str = ""
    ) -> None:
        """Keep what was said up to the calls, for that user alone."""
        if len(said) == 1 and len(calls) == len(getattr(said[0], "tool_calls", ())):
            return  # nothing the client does not see
        text = messages_json(said)
        now = time.time()

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM unseen_messages WHERE created_at < ?", (now - KEPT_SECONDS,))
            db.execute("INSERT OR REPLACE INTO unseen_messages VALUES (?, ?, ?)",
                       (_key(calls[0].id, user), now, text))  # fmt: skip

        await self._database.do(work)

    async def restore(self, messages: Sequence[Message], user: str = "") -> list[Message]:
        """Put what was kept in the place of the client's shorter account of it."""
        ids = [_key(m.tool_calls[0].id, user) for m in messages if isinstance(m, AssistantMessage)
               and m.tool_calls]  # fmt: skip
        if not ids:
            return list(messages)
        rows = await self._database.do(
            lambda db: db.execute(
                "SELECT call_id, messages FROM unseen_messages "
                "WHERE call_id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids),),
            ).fetchall()
        )
        kept = {key: conversation.validate_json(text) for key, text in rows}
        whole: list[Message] = []
        for message in messages:
            calls = message.tool_calls if isinstance(message, AssistantMessage) else []
            whole += kept.get(_key(calls[0].id, user), [message]) if calls else [message]
        return whole


def _key(call_id: str, user: str) -> str:
    # an id of ours has no space in it
    return f"{call_id} {user}" if user else call_id


class _Both(HookManager):
    """The agent's own hooks, then ours."""

    def __init__(self, own: HookManager, ours: list[Hook]) -> None:
        super().__init__(ours)
        self._own = own
        self.observer = own.observer

    def __contains__(self, point: object) -> bool:
        return point in self._own or super().__contains__(point)

    async def run(self, event: HookEvent) -> None:
        """Run both."""
        await self._own.run(event)
        await super().run(event)
