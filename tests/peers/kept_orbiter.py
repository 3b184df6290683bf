"""How Orbiter does the parts of `kept_probes`."""

import shlex
from pathlib import Path

from adapter_orbiter import script
from kept_probes import BOOK, RESERVE, book, pay, server_command
from probes import Answer, Reply

from orbiter import Agent, run, tool
from orbiter.approval import InputAnswer, requests_of
from orbiter.mcp import mcp_tools
from orbiter.run_store import SqliteRunStore

PAUSED = Path("paused")


class Peer:
    """See `kept_probes.Kept`."""

    @property
    def _clerk(self) -> Agent:
        return Agent(name="clerk", tools=[tool(approval=True)(book)])

    async def ask(self) -> None:
        result = await run(self._clerk, "Go", provider=script(BOOK))
        PAUSED.write_text(result.paused)

    async def approve(self) -> Answer:
        return await self._go_on(
            self._clerk, "Booked.", requests_of(PAUSED.read_text())[0].approve()
        )

    async def work(self, *replies: Reply) -> Answer:
        model = script(*replies)
        clerk = Agent(name="clerk", tools=[tool(book), tool(pay)])
        store = SqliteRunStore(Path("runs.db"))
        result = await run(clerk, "Go", provider=model, journal=store, run_id="trip")
        return Answer(result.output, str(model.requests[-1].messages))

    async def meet_question(self) -> str:
        async with mcp_tools(shlex.join(server_command()), connect_timeout=300) as tools:
            result = await run(Agent(name="host", tools=tools), "Go", provider=script(RESERVE))
        PAUSED.write_text(result.paused)
        return result.requests[0].text

    async def answer_question(self) -> Answer:
        answer = requests_of(PAUSED.read_text())[0].answer('{"day": "Friday"}')
        async with mcp_tools(shlex.join(server_command()), connect_timeout=300) as tools:
            return await self._go_on(Agent(name="host", tools=tools), "Reserved.", answer)

    async def _go_on(self, agent: Agent, says: str, answer: InputAnswer) -> Answer:
        model = script(says)
        result = await run(agent, "", provider=model, resume=PAUSED.read_text(), answers=[answer])
        return Answer(result.output, str(model.requests[-1].messages))


PEER = Peer()
