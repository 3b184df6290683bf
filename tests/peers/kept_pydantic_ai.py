"""How pydantic-ai does the parts of `kept_probes`: deferred tools, and a workflow of DBOS."""

import json
from pathlib import Path
from typing import Any

from adapter_pydantic_ai import Script
from kept_probes import BOOK, RESERVE, book, pay, server_command
from probes import Answer, Reply
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import ModelMessagesTypeAdapter

KEPT, WAITING = Path("messages"), Path("waiting")


class Peer:
    """See `kept_probes.Kept`."""

    def _clerk(self, model: Script) -> Agent[None, Any]:
        tools = [Tool(book, requires_approval=True)]
        return Agent(model.model(), tools=tools, output_type=[str, DeferredToolRequests])

    async def ask(self) -> None:
        self._keep(await self._clerk(Script((BOOK,))).run("Go"))

    async def approve(self) -> Answer:
        model = Script(("Booked.",))
        said = ModelMessagesTypeAdapter.validate_json(KEPT.read_bytes())
        yes = DeferredToolResults(approvals=dict.fromkeys(json.loads(WAITING.read_text()), True))
        result = await self._clerk(model).run(message_history=said, deferred_tool_results=yes)
        return Answer(result.output, model.told)

    async def work(self, *replies: Reply) -> Answer:
        from dbos import DBOS, SetWorkflowID
        from pydantic_ai.durable_exec.dbos import DBOSAgent

        DBOS(config={"name": "probe", "system_database_url": "sqlite:///dbos.db"})
        model = Script(replies)
        # as its pages say: a tool that is to be kept is a step
        tools = [DBOS.step()(function) for function in (book, pay)]
        clerk = DBOSAgent(Agent(model.model(), name="clerk", tools=tools))
        DBOS.launch()
        with SetWorkflowID("trip"):
            result = await clerk.run("Go")
        return Answer(result.output, model.told)

    async def meet_question(self) -> str | None:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset

        async def deferred(message: str, *rest: Any) -> Any:
            # its word for "the run ends here, and the result comes later"
            raise CallDeferred(metadata={"question": message})

        command, *words = server_command()
        server = MCPToolset(
            StdioTransport(command, words), elicitation_handler=deferred, init_timeout=300
        )
        agent: Any = Agent(
            Script((RESERVE, "Sorry.")).model(),
            toolsets=[server],
            output_type=[str, DeferredToolRequests],
        )
        result = await agent.run("Go")
        if not isinstance(result.output, DeferredToolRequests):
            return None
        self._keep(result)
        return str(result.output.metadata)

    async def answer_question(self) -> Answer:
        raise NotImplementedError("no question has ended a run")

    def _keep(self, result: Any) -> None:
        KEPT.write_bytes(result.all_messages_json())
        requests = result.output
        WAITING.write_text(
            json.dumps([c.tool_call_id for c in (*requests.approvals, *requests.calls)])
        )


PEER = Peer()
