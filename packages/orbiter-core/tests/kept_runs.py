"""Runs that are kept and go on behind any of their entries: tools with effects, and models."""

from collections.abc import Callable
from dataclasses import dataclass, field

from orbiter import run, tool
from orbiter.journal import Replied, read_entry
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelProvider,
    ModelResponse,
    call,
)
from orbiter.run_store import MemoryRunStore
from orbiter.types import AssistantMessage, Usage

from .test_messages_stay_valid import check


@dataclass
class World:
    """Tools with effects, and a model that asks for what is not there yet."""

    done: list[str] = field(default_factory=list)
    requests: int = 0

    def tool(self, name: str) -> object:
        async def work() -> str:
            self.done.append(name)
            return f"{name} is done"

        return tool(name=name, description=f"Do {name}.")(work)


class Player(ModelProvider):
    """Answers by what it sees, so that it says the same to whoever goes on."""

    def __init__(self, world: World, *turns: object) -> None:
        self.world = world
        self.turns = turns

    async def complete(self, messages, **options):
        check(messages, system=True)
        self.world.requests += 1
        said = sum(isinstance(m, AssistantMessage) for m in messages)
        reply = self.turns[said]
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        if isinstance(reply, str):
            return ModelResponse(content=reply, usage=usage)
        calls = [call(c).model_copy(update={"id": f"{c}-{said}-{i}"}) for i, c in enumerate(reply)]
        return ModelResponse(tool_calls=calls, usage=usage)


def prefix(store: MemoryRunStore, count: int, run_id: str = "r") -> MemoryRunStore:
    """Return the store as it was behind so many entries: its process was killed there."""
    before = MemoryRunStore()
    before._runs[run_id] = store._runs[run_id][:count]
    return before


async def at_every_entry(build: Callable[[World], tuple], output: object) -> int:
    """Run once, then go on from each entry; return how many entries there are."""
    whole, store = World(), MemoryRunStore()
    target, model = build(whole)
    first = await run(target, "go", provider=model, journal=store, run_id="r")
    assert first.output == output
    entries = [read_entry(text) for text in store._runs["r"]]
    for count in range(len(entries) + 1):
        asked = [e.message for e in entries[:count] if isinstance(e, Replied)]
        begun = {c.id for m in asked for c in m.tool_calls}
        later, kept = World(), prefix(store, count)
        target, model = build(later)
        result = await run(target, "go", provider=model, journal=kept, run_id="r")
        assert result.output == output, f"behind {count} entries"
        assert result.last_agent == first.last_agent
        check(result.messages, system=False)
        # each complete reply is a request that is not made again
        assert later.requests == whole.requests - len(asked)
        # no tool that may have begun is run
        tools = len(whole.done) - len({i for i in begun if i.split("-")[0] in whole.done})
        assert len(later.done) == tools, f"behind {count} entries"
        again = await run(target, "go", provider=model, journal=kept, run_id="r")
        assert (again.output, again.messages) == (result.output, result.messages)
        assert (again.usage, again.steps) == (result.usage, result.steps)
        assert later.requests == whole.requests - len(asked)
    return len(entries)
