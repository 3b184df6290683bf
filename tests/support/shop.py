"""A shop whose clerk may refund only what a person has approved."""

from typing import Any

from orbiter import Agent, run, tool
from orbiter.models import ScriptedModel, call
from orbiter.types import RunResult, ToolResult


class Shop:
    def __init__(self) -> None:
        self.did: list[str] = []

    @tool(approval=True)
    async def refund(self, order: int, amount: float = 5.0) -> str:
        """Give money back."""
        self.did.append(f"refund {order} {amount:g}")
        return "refunded"

    @tool
    async def look(self, order: int) -> str:
        """Look at an order."""
        self.did.append(f"look {order}")
        return f"order {order}: a lamp"


def clerk(shop: Shop, **options: Any) -> Agent:
    return Agent(name="clerk", tools=[shop.refund, shop.look], **options)


def results(result: RunResult[Any]) -> dict[str, str]:
    found = [m for m in result.messages if isinstance(m, ToolResult)]
    return {m.tool_call_id: m.error or m.content for m in found}


async def paused(shop: Shop, *calls: Any, **options: Any) -> tuple[ScriptedModel, RunResult[Any]]:
    model = ScriptedModel(list(calls) or [call("refund", order=7)], "it is done")
    return model, await run(clerk(shop, **options), "the lamp is broken", provider=model)
