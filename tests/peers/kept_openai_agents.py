"""How openai-agents does the parts of `kept_probes`: a run's state, and a session in a file."""

from pathlib import Path
from typing import Any

from adapter_openai_agents import script
from agents import Agent, Runner, RunState, SQLiteSession, function_tool
from agents.mcp import MCPServerStdio
from kept_probes import BOOK, RESERVE, book, pay, server_command
from probes import Answer, Reply

STATE = Path("state")


class Peer:
    """See `kept_probes.Kept`."""

    def _clerk(self, model: Any) -> Agent[Any]:
        return Agent(name="clerk", model=model, tools=[function_tool(book, needs_approval=True)])

    async def ask(self) -> None:
        result = await Runner.run(self._clerk(script(BOOK)), "Go")
        STATE.write_text(result.to_state().to_string())

    async def approve(self) -> Answer:
        model = script("Booked.")
        clerk = self._clerk(model)
        state = await RunState.from_string(clerk, STATE.read_text())
        for request in state.get_interruptions():
            state.approve(request)
        result = await Runner.run(clerk, state)
        return Answer(result.final_output, str(model.calls[-1].input))

    async def work(self, *replies: Reply) -> Answer:
        # a run's state is made of its result, which a run that was killed has not: its session is
        # what it leaves behind
        model = script(*replies)
        clerk = Agent(name="clerk", model=model, tools=[function_tool(book), function_tool(pay)])
        session = SQLiteSession("trip", "session.db")
        begun = bool(await session.get_items())
        result = await Runner.run(clerk, [] if begun else "Go", session=session)
        return Answer(result.final_output, str(model.calls[-1].input))

    async def meet_question(self) -> str | None:
        command, *words = server_command()
        async with MCPServerStdio({"command": command, "args": words}) as server:
            model = script(RESERVE, "Sorry.")
            agent = Agent(name="host", model=model, mcp_servers=[server])
            result = await Runner.run(agent, "Go")
        return str(result.interruptions) if result.interruptions else None

    async def answer_question(self) -> Answer:
        raise NotImplementedError("no question has ended a run")


PEER = Peer()
