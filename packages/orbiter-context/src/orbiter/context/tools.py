"""Tools by which an agent works on its own context: plan, knowledge, files, skills.

Give them to an agent that has a context; each finds it in the run it is called from.
"""

from collections.abc import Mapping
from typing import Literal

from orbiter.context._internal.knowledge import KnowledgeStore
from orbiter.context._internal.lines import lines_of, matching_lines
from orbiter.context.context import Context
from orbiter.context.errors import ArtifactNotFoundError, ContextError
from orbiter.context.neuron import todo_list
from orbiter.tool import tool
from orbiter.types import RunContext

PAGE_LINES = 100
MAX_LINE_CHARS = 1_000
MAX_MATCHES = 100


@tool
async def planning_tool(
    run: RunContext, action: Literal["add_todo", "get_todo", "complete_todo"], item: str = ""
) -> str:
    """Keep a plan of what is to be done: a todo list that stays in view.

    Args:
        run: The run the tool is called from.
        action: add_todo adds the item, get_todo shows the list, complete_todo ticks the item off.
        item: The text of a todo; for complete_todo its text or number.
    """
    ctx = _context(run, "planning_tool")
    todos = [dict(todo) for todo in ctx.state.get("todos", [])]
    if action == "add_todo":
        if not item:
            raise ContextError("add_todo needs the item to add")
        todos.append({"item": item, "done": False})
    elif action == "complete_todo":
        _find(todos, item)["done"] = True
    if action != "get_todo":
        ctx.state.set("todos", todos)
    return todo_list(todos) or "The list is empty."


@tool
async def knowledge_tool(
    run: RunContext,
    action: Literal["get_knowledge", "grep_knowledge", "search_knowledge", "list_knowledge"],
    name: str = "",
    pattern: str = "",
    start: int = 0,
) -> str:
    """Read what is kept outside the conversation: documents, stored tool results, earlier rounds.

    Args:
        run: The run the tool is called from.
        action: get_knowledge returns a document, from line `start` on; grep_knowledge returns only
            its lines that match `pattern`; search_knowledge finds passages about `pattern` in all
            documents; list_knowledge returns the names there are.
        name: The document, for example report.pdf or artifact-0a1b2c.
        pattern: What to look for; in grep_knowledge `|` separates alternatives.
        start: First line to return, from 0.
    """
    ctx = _context(run, "knowledge_tool")
    if action == "list_knowledge":
        return "\n".join(await _names(ctx)) or "There is nothing yet."
    if action == "search_knowledge":
        return await _search(ctx, pattern)
    text = await _document(ctx, name)
    if action == "get_knowledge":
        return _page(ctx, text, max(0, start))
    matches = matching_lines(text, pattern)
    shown = [line[:MAX_LINE_CHARS] for line in matches[:MAX_MATCHES]]
    if len(matches) > MAX_MATCHES:
        shown.append(f"[{len(matches) - MAX_MATCHES} more lines match]")
    return "\n".join(shown) or f"No line of '{name}' matches '{pattern}'."


@tool
async def file_tool(
    run: RunContext,
    action: Literal["write_file", "read_file", "list_files"],
    name: str = "",
    content: str = "",
) -> str:
    """Write and read files of the workspace.

    Args:
        run: The run the tool is called from.
        action: write_file writes content, read_file returns it, list_files returns the names.
        name: The file, for example notes/plan.md.
        content: What to write.
    """
    ctx = _context(run, "file_tool")
    if action == "write_file":
        await ctx.workspace.write(name, content)
        return f"Wrote {len(content)} characters to {name}."
    if action == "read_file":
        return _page(ctx, await ctx.workspace.read(name), 0)
    return "\n".join(await ctx.workspace.list()) or "The workspace is empty."


@tool
async def skill_tool(
    run: RunContext, action: Literal["list_skills", "get_skill"], name: str = ""
) -> str:
    """Look up what you can do.

    Args:
        run: The run the tool is called from.
        action: list_skills returns the names, get_skill the description of one.
        name: The skill.
    """
    skills = _context(run, "skill_tool").state.get("skills", {})
    if not isinstance(skills, Mapping):
        skills = dict.fromkeys(skills, "")
    if action == "list_skills":
        return "\n".join(skills) or "There are no skills."
    if name not in skills:
        raise ArtifactNotFoundError("skill", name, skills)
    return str(skills[name])


def _context(run: RunContext, tool_name: str) -> Context:
    if not isinstance(run.context, Context):
        raise ContextError(
            f"{tool_name} works on a context; give agent '{run.agent_name}' one: Agent(context=...)"
        )
    return run.context


def _find(todos: list[dict[str, object]], item: str) -> dict[str, object]:
    if item.isdecimal() and 0 < int(item) <= len(todos):
        return todos[int(item) - 1]
    for todo in todos:
        if todo["item"] == item:
            return todo
    raise ContextError(f"there is no todo '{item}'; the list is:\n{todo_list(todos)}")


def _stores(ctx: Context) -> list[KnowledgeStore]:
    return [ctx.knowledge] if ctx.archive is ctx.knowledge else [ctx.knowledge, ctx.archive]


async def _names(ctx: Context) -> list[str]:
    names = set(await ctx.workspace.list())
    for store in _stores(ctx):
        names.update(await store.list())
    return sorted(names)


async def _document(ctx: Context, name: str) -> str:
    readers = [*(store.get for store in _stores(ctx)), ctx.workspace.read]
    for read in readers:
        try:
            return await read(name)
        except ArtifactNotFoundError:
            continue
    raise ArtifactNotFoundError("document", name, await _names(ctx))


async def _search(ctx: Context, query: str) -> str:
    found = [chunk for store in _stores(ctx) for chunk in await store.search(query)]
    return (
        "\n\n".join(f"[{chunk.source}, line {chunk.start}]\n{chunk.content}" for chunk in found)
        or f"Nothing about '{query}' is known."
    )


def _page(ctx: Context, text: str, start: int) -> str:
    """Return as much of a text as the model can take at once, and say where the rest is.

    A page is never larger than what would be moved to the workspace again.
    """
    limit = ctx.config.offload_threshold
    if start == 0 and (ctx.config.mode == "pilot" or ctx.token_counter(text) <= limit):
        return text
    total = len(text.splitlines())
    page = ""
    end = start
    while end < min(total, start + PAGE_LINES):
        longer = page + lines_of(text, end, end + 1)[:MAX_LINE_CHARS] + "\n"
        if ctx.token_counter(longer) > limit // 2 and page:
            break
        page, end = longer, end + 1
    more = f"; go on with start={end}" if end < total else ""
    return f"{page}[lines {start} to {end} of {total}{more}]"
