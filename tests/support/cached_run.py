"""An agent of ten steps whose requests all begin alike: what caching is measured by.

In a test of the models, and among the figures of `make bench-agents`.
"""

from collections.abc import Iterable, Sequence

from support.anthropic_bill import Bill, Cache
from support.model_wire import Answer, Received

from orbiter import Agent, tool
from orbiter.config import ModelSettings

STEPS = 10


@tool
async def look(at: str) -> str:
    """Look."""
    return f"{at}: " + "x" * 1600


def looking_agent(repeats: int = 4000, settings: ModelSettings | None = None) -> Agent:
    """An agent whose prefix is so many times two and a half tokens; 500 come with each step."""
    return Agent(name="a", instructions="Be brief. " * repeats, tools=[look], settings=settings)


def looking(steps: int = STEPS) -> list[Answer]:
    """What its model answers: a call in each step but the last one."""
    return [
        Answer(text=f"Step {n}. " + "y" * 100, calls=((f"c{n}", "look", {"at": f"{n}"}),))
        for n in range(steps - 1)
    ] + [Answer(text="Seen.")]


def bills(received: Iterable[Received]) -> list[Bill]:
    """What each request costs, behind those before it."""
    cache = Cache()
    return [cache.bill(request.body) for request in received]


def cost_ratio(found: Sequence[Bill]) -> float:
    """What all of it costs, as a share of what it would without a cache."""
    return sum(bill.cost for bill in found) / sum(bill.tokens for bill in found)
