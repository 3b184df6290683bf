"""Neurons: the parts a system prompt is composed of, and what a mode says unasked.

Each one reads the context and gives a section of text, or nothing. PromptBuilder puts them in
the order of their priorities. A class of one's own joins by `@neuron_registry.register(name)`.
"""

import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from orbiter.additions import as_data
from orbiter.context.context import Context
from orbiter.context.workspace import ARTIFACT
from orbiter.registry import Registry
from orbiter.types import AssistantMessage, UserMessage

DEFAULT_PRIORITY = 50
# Of a request: the conversation has all of it.
MOST_CHARS = 2_000


class Neuron(ABC):
    """A part of a system prompt.

    Attributes:
        priority: Its place: the smaller, the earlier.
    """

    priority: int = DEFAULT_PRIORITY

    @abstractmethod
    async def format(self, ctx: Context) -> str:
        """Return the section, or "" when there is nothing to say."""


neuron_registry: Registry[type[Neuron]] = Registry("neuron")


@neuron_registry.register("task")
class TaskNeuron(Neuron):
    """What is being done: task id, the user's request, this agent's input, output, subtasks.

    Reads the state keys `origin_user_input`, `task_input`, `task_output` and `subtasks` (a list of
    texts) where they are set, and what the run itself says where not.
    """

    priority = 1

    def __init__(self, current: bool = True) -> None:
        """Choose what is shown.

        Args:
            current: Also show the input and output of the running turn. Without them the text
                stays the same over a conversation, so that providers can cache the prompt.
        """
        self._current = current

    async def format(self, ctx: Context) -> str:
        """Return the task's section."""
        lines = ["## Task", f"Task ID: {ctx.task_id}"]
        origin = ctx.state.get("origin_user_input") or ctx.origin_user_input
        if origin:
            lines.append(f"Original request: {str(origin)[:MOST_CHARS]}")
        if self._current:
            task_input = ctx.state.get("task_input") or ctx.task_input
            if task_input and task_input != origin:
                lines.append(f"Current input: {str(task_input)[:MOST_CHARS]}")
            task_output = ctx.state.get("task_output") or ctx.task_output
            if task_output:
                lines.append(f"Output so far: {task_output}")
        subtasks = ctx.state.get("subtasks")
        if subtasks:
            lines += ["Subtasks:", *(f"- {subtask}" for subtask in subtasks)]
        return "\n".join(lines)


@neuron_registry.register("todo")
class TodoNeuron(Neuron):
    """The plan the agent keeps with `planning_tool` (state key `todos`)."""

    priority = 2

    async def format(self, ctx: Context) -> str:
        """Return the checklist."""
        todos = ctx.state.get("todos")
        return "## Todo\n" + todo_list(todos) if todos else ""


@neuron_registry.register("history")
class HistoryNeuron(Neuron):
    """The last rounds of the conversation as text, for prompts that carry no messages.

    Reads the state key `history` (messages, or mappings with role and content) where it is set.
    """

    priority = 10

    def __init__(self, rounds: int | None = None) -> None:
        """Choose how many rounds are shown; the context's `history_rounds` when absent."""
        self._rounds = rounds

    async def format(self, ctx: Context) -> str:
        """Return the conversation."""
        lines = [line for item in ctx.state.get("history") or ctx.history for line in _spoken(item)]
        starts = [at for at, (role, _) in enumerate(lines) if role == "user"]
        rounds = self._rounds or ctx.config.history_rounds
        shown = lines[starts[-rounds] :] if len(starts) > rounds else lines
        return _section("Conversation", [f"{role}: {text}" for role, text in shown])


@neuron_registry.register("knowledge")
class KnowledgeNeuron(Neuron):
    """The passages of the context's knowledge that matter for a query."""

    priority = 20

    def __init__(self, query: str | None = None, top_k: int = 5) -> None:
        """Choose what is looked for; the running turn's input when there is no query."""
        self._query = query
        self._top_k = top_k

    async def format(self, ctx: Context) -> str:
        """Return what was found."""
        query = self._query or ctx.state.get("task_input") or ctx.task_input
        if not query:
            return ""
        key = f"knowledge {ctx.knowledge.revision} {self._top_k} {query}"
        return await ctx.run.once(key, lambda: self._search(ctx, query))

    async def _search(self, ctx: Context, query: str) -> str:
        found = await ctx.knowledge.search(query, top_k=self._top_k)
        # what the conversation has in these words is not sent twice
        new = [chunk for chunk in found if not ctx.run.shown.says(chunk.content)]
        texts = [f"[{chunk.source}] {chunk.content}" for chunk in new]
        return _section("Knowledge", [as_data("\n".join(texts))] if texts else [])


@neuron_registry.register("workspace")
class WorkspaceNeuron(Neuron):
    """The names of the workspace's files."""

    priority = 30

    def __init__(self, artifacts: bool = True) -> None:
        """Choose what is shown.

        Args:
            artifacts: Also show what large texts were stored as. The conversation has those names;
                without them here the prompt stays the same, so that providers can cache it.
        """
        self._artifacts = artifacts

    async def format(self, ctx: Context) -> str:
        """Return the listing."""
        if ctx.workspace.is_empty:
            return ""
        names = await ctx.workspace.list()
        if not self._artifacts:
            names = [name for name in names if not name.startswith(ARTIFACT)]
        return _section("Workspace files", _items(names))


@neuron_registry.register("skills")
class SkillsNeuron(Neuron):
    """What the agent can do: state key `skills`, a list of names or a map name -> description."""

    priority = 40

    async def format(self, ctx: Context) -> str:
        """Return the skills."""
        return _section("Skills", _items(ctx.state.get("skills")))


@neuron_registry.register("facts")
class FactsNeuron(Neuron):
    """Long-term facts: state key `facts`, and what a memory recalls that is not the agent's own."""

    priority = 50

    async def format(self, ctx: Context) -> str:
        """Return the facts."""
        lines = _items(ctx.state.get("facts"))
        if ctx.memory is not None:
            recalled = await ctx.run.once("facts", lambda: _recalled(ctx))
            found = as_data(recalled)
            lines += [found] if recalled and found not in ctx.run.prompt else []
        return _section("Facts", lines)


@neuron_registry.register("entities")
class EntitiesNeuron(Neuron):
    """Names that came up (state key `entities`, a list or a map name -> description)."""

    priority = 60

    async def format(self, ctx: Context) -> str:
        """Return the entities."""
        return _section("Entities", _items(ctx.state.get("entities")))


@neuron_registry.register("system")
class SystemNeuron(Neuron):
    """What a model cannot know: date, time and platform."""

    priority = 100

    async def format(self, ctx: Context) -> str:
        """Return the variables, times in UTC."""
        now = datetime.fromtimestamp(ctx.clock(), UTC)
        return f"## System\nDate: {now:%Y-%m-%d}\nTime: {now:%H:%M} UTC\nPlatform: {PLATFORM}"


PLATFORM = platform.system()


def todo_list(todos: Iterable[Any]) -> str:
    """Return todos, texts or maps with `item` and `done`, as a numbered checklist."""
    lines = []
    for number, todo in enumerate(todos, start=1):
        item, done = (todo, False) if isinstance(todo, str) else (todo["item"], todo.get("done"))
        lines.append(f"{number}. [{'x' if done else ' '}] {item}")
    return "\n".join(lines)


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([f"## {title}", *lines]) if lines else ""


async def _recalled(ctx: Context) -> str:
    query = ctx.state.get("task_input") or ctx.task_input
    if ctx.memory is None or not query:
        return ""
    return await ctx.memory.recall(query, agent_name=ctx.run.agent_name) or ""


def _items(values: Iterable[Any] | Mapping[str, Any] | None) -> list[str]:
    if isinstance(values, Mapping):
        return [f"- {name}: {text}" if text else f"- {name}" for name, text in values.items()]
    return [f"- {value}" for value in values or ()]


def _spoken(item: Any) -> list[tuple[str, str]]:
    """Return role and text of a message that says something; tools say nothing here."""
    if isinstance(item, Mapping):
        return [(str(item.get("role", "user")), str(item.get("content", "")))]
    if isinstance(item, (UserMessage, AssistantMessage)) and item.content:
        return [(item.role, item.content)]
    return []
