"""How google-adk does the parts of `kept_probes`: sessions in a file, and resumable apps."""

from typing import Any

from adapter_google_adk import Script, script
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import FunctionTool
from google.genai import types
from kept_probes import BOOK, RESERVE, book, pay, server_command
from probes import Answer, Reply

WHO = {"user_id": "u", "session_id": "s"}
CONFIRMATION = "adk_request_confirmation"


def _text(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


class Peer:
    """See `kept_probes.Kept`."""

    def __init__(self) -> None:
        self.service = SqliteSessionService("sessions.db")

    def _runner(self, model: Script, tools: Any) -> Runner:
        agent = LlmAgent(name="clerk", model=model, tools=tools)
        resumable = ResumabilityConfig(is_resumable=True)
        app = App(name="probe", root_agent=agent, resumability_config=resumable)
        return Runner(app=app, session_service=self.service)

    async def _run(self, runner: Runner, **how: Any) -> str:
        text = ""
        async for event in runner.run_async(**WHO, **how):
            for part in (event.content.parts or []) if event.content else []:
                text = part.text or text
        return text

    async def _session(self) -> Any:
        return await self.service.get_session(app_name="probe", **WHO)

    async def ask(self) -> None:
        await self.service.create_session(app_name="probe", **WHO)
        tools = [FunctionTool(book, require_confirmation=True)]
        await self._run(self._runner(script(BOOK), tools), new_message=_text("Go"))

    async def approve(self) -> Answer:
        session, model = await self._session(), script("Booked.")
        (request,) = [
            call
            for event in session.events
            for call in event.get_function_calls()
            if call.name == CONFIRMATION
        ]
        yes = types.FunctionResponse(id=request.id, name=CONFIRMATION, response={"confirmed": True})
        message = types.Content(role="user", parts=[types.Part(function_response=yes)])
        tools = [FunctionTool(book, require_confirmation=True)]
        text = await self._run(
            self._runner(model, tools),
            new_message=message,
            invocation_id=session.events[-1].invocation_id,
        )
        return Answer(text, model.told)

    async def work(self, *replies: Reply) -> Answer:
        model, session = script(*replies), await self._session()
        runner = self._runner(model, [book, pay])
        if session is None:
            await self.service.create_session(app_name="probe", **WHO)
            return Answer(await self._run(runner, new_message=_text("Go")), model.told)
        last = session.events[-1].invocation_id
        return Answer(await self._run(runner, invocation_id=last), model.told)

    async def meet_question(self) -> str | None:
        from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
        from mcp import StdioServerParameters
        from mcp.types import ElicitResult

        asked = []

        async def answer(context: Any, params: Any) -> ElicitResult:
            asked.append(params.message)
            return ElicitResult(action="cancel")

        command, *words = server_command()
        tools = McpToolset(
            connection_params=StdioConnectionParams(
                server_params=StdioServerParameters(command=command, args=words), timeout=30
            ),
            elicitation_callback=answer,
        )
        await self.service.create_session(app_name="probe", **WHO)
        runner = self._runner(script(RESERVE, "Sorry."), [tools])
        await self._run(runner, new_message=_text("Go"))
        await tools.close()
        events = (await self._session()).events
        # what waits for an answer is a call that runs long
        return str(asked) if events[-1].long_running_tool_ids else None

    async def answer_question(self) -> Answer:
        raise NotImplementedError("no question has ended a run")


PEER = Peer()
