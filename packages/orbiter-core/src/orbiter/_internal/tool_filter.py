"""Which tools an agent has in a step."""

from orbiter._internal.turn import Turn
from orbiter.agent import ToolFilter


async def choose_tools(turn: Turn, takes: ToolFilter) -> None:
    """Leave the turn the tools that the agent's filter takes now; the next step chooses anew."""
    if turn.whole is None:
        turn.whole = turn.plan
    hidden: set[str] = set()
    for name, tool in turn.whole.tools.items():
        taken = takes(turn.run, tool)
        if not (taken if isinstance(taken, bool) else await taken):
            hidden.add(name)
    turn.plan = turn.whole.without(hidden) if hidden else turn.whole
