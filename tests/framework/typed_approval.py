"""What a type checker knows of tools that wait for a person, by `reveal_type`. Read, not run."""

from collections.abc import Mapping
from typing import Any, reveal_type

from orbiter import Agent, Tool, run, tool
from orbiter.approval import AskUser, InputAnswer, ask_user, describe, read_answer, read_reply


@tool(approval=True)
def refund(order: int) -> str:
    """Give money back."""
    return f"order {order}"


@tool(approval=lambda arguments: bool(arguments["amount"] > 10))
async def pay(amount: float) -> str:
    """Pay."""
    return f"{amount}"


async def judge(arguments: Mapping[str, Any]) -> bool:
    return "x" in arguments


@tool(name="other", approval=judge)
def other() -> int:
    """Do something else."""
    return 1


class Delete(Tool):
    """Delete."""

    def approval(self, arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["path"])

    async def execute(self, path: str) -> str:
        return path


class Wipe(Tool):
    """Wipe."""

    approval = True

    async def execute(self) -> str:
        return ""


numbers = Agent(
    name="numbers",
    tools=[refund, pay, other, Delete(), Wipe(), ask_user, AskUser(name="ask_owner")],
    output_type=list[int],
)


async def main() -> list[int]:
    first = await run(numbers, "hi")
    reveal_type(first.requests)
    reveal_type(first.paused)
    if first.paused is None:
        return first.output
    answers = [request.approve(by="ada") for request in first.requests]
    reveal_type(answers)
    reveal_type(read_reply(first.requests[0], "no") or read_answer("{}"))
    reveal_type(describe(first.requests[0]))
    stream = run.stream(numbers, "", resume=first.paused, answers=answers)
    async for event in stream:
        if event.type == "input_request":
            reveal_type(event.request.calls[0].arguments)
    reveal_type(run.sync(numbers, "", resume=first.paused, answers=answers).output)
    reveal_type(refund(7))
    last = await run(numbers, "", resume=first.paused, answers=[InputAnswer(id="a", text="b")])
    await run(numbers, "", resume=first.paused, answers=[True])
    return last.output
