"""An agent in a process of its own, there to be killed: `python kept_program.py DIR`.

Where a file `hold-PLACE` is it says so, by a file `at-PLACE`, and waits. Its tools mark in a file
that they began and that they are done.
"""

import sys
import threading
from pathlib import Path

from orbiter import Agent, run, tool
from orbiter.hooks import Hook, HookEvent, HookPoint
from orbiter.run_store import SqliteRunStore


def main(directory: Path) -> None:
    def hold(place: str) -> None:
        if (directory / f"hold-{place}").exists():
            (directory / f"at-{place}").touch()
            threading.Event().wait()

    def work(name: str) -> str:
        with (directory / "marks").open("a") as marks:
            marks.write(f"{name} began\n")
        hold(name)
        with (directory / "marks").open("a") as marks:
            marks.write(f"{name} done\n")
        return f"{name} is done"

    @tool
    def book() -> str:
        """Book."""
        return work("book")

    @tool
    def pay() -> str:
        """Pay."""
        return work("pay")

    def before_tool(event: HookEvent) -> None:
        assert event.tool_call is not None
        hold(f"before-{event.tool_call.name}")

    hooks = [
        Hook(HookPoint.PRE_LLM_CALL, lambda event: hold(f"model-{event.step}")),
        Hook(HookPoint.PRE_TOOL_CALL, before_tool),
        Hook(HookPoint.FINISHED, lambda event: hold("finished")),
    ]
    agent = Agent(name="clerk", tools=[book, pay], hooks=hooks)
    store = SqliteRunStore(directory / "runs.db")
    result = run.sync(agent, "Book and pay.", journal=store, run_id="trip-1")
    sys.stdout.write(f"{result.output} {result.steps} {result.usage.total_tokens}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
