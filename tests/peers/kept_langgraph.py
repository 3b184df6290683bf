"""How langgraph does the parts of `kept_probes`: a checkpointer in a file, and interrupts."""

from typing import Any

from adapter_langgraph import GO, Script, script
from kept_probes import BOOK, RESERVE, book, pay, server_command
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from probes import Answer, Reply

THREAD: Any = {"configurable": {"thread_id": "trip"}}


class Peer:
    """See `kept_probes.Kept`."""

    async def _run(
        self, model: Script, tools: Any, given: Any, middleware: Any = ()
    ) -> dict[str, Any]:
        async with AsyncSqliteSaver.from_conn_string("runs.db") as saver:
            agent: Any = create_agent(model, tools, checkpointer=saver, middleware=middleware)
            state: dict[str, Any] = await agent.ainvoke(given, THREAD, durability="sync")
        return state

    async def ask(self) -> None:
        asks: Any = HumanInTheLoopMiddleware(interrupt_on={"book": True})
        await self._run(script(BOOK), [book], GO, [asks])

    async def approve(self) -> Answer:
        asks: Any = HumanInTheLoopMiddleware(interrupt_on={"book": True})
        model, yes = script("Booked."), Command(resume={"decisions": [{"type": "approve"}]})
        state = await self._run(model, [book], yes, [asks])
        return Answer(state["messages"][-1].content, model.told)

    async def work(self, *replies: Reply) -> Answer:
        model = script(*replies)
        # nothing but the thread says that it goes on
        given = GO if len(replies) > 1 else None
        state = await self._run(model, [book, pay], given)
        return Answer(state["messages"][-1].content, model.told)

    async def meet_question(self) -> str | None:
        from mcp.shared.exceptions import McpError

        try:
            state = await self._reserve(script(RESERVE, "Sorry."), GO)
        except McpError:
            # the interrupt ended the call and not the run
            return None
        waits = state.get("__interrupt__")
        return str(waits) if waits else None

    async def answer_question(self) -> Answer:
        model = script("Reserved.")
        state = await self._reserve(model, Command(resume={"day": "Friday"}))
        return Answer(state["messages"][-1].content, model.told)

    async def _reserve(self, model: Script, given: Any) -> dict[str, Any]:
        from langchain_mcp_adapters.callbacks import Callbacks
        from langchain_mcp_adapters.client import MultiServerMCPClient
        from mcp.types import ElicitResult

        async def answer(context: Any, params: Any, more: Any) -> ElicitResult:
            return ElicitResult(action="accept", content=interrupt(params.message))

        command, *words = server_command()
        connection: Any = {"transport": "stdio", "command": command, "args": words}
        client = MultiServerMCPClient(
            {"inn": connection}, callbacks=Callbacks(on_elicitation=answer)
        )
        return await self._run(model, await client.get_tools(), given)


PEER = Peer()
