"""Endpoints of agents, sessions and runs."""

from starlette.requests import Request
from starlette.responses import Response

from orbiter import Agent, Swarm
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.images import said
from orbiter.server._internal.services import Services
from orbiter.server._internal.sse import last_event_id
from orbiter.server._internal.viewer import viewer_of
from orbiter.server.models import (
    AgentInfo,
    AgentList,
    EventsQuery,
    NewAgentRun,
    NewRun,
    NewSession,
    PageQuery,
    RunInfo,
    SessionDetail,
    SessionInfo,
    SessionList,
)

BUSY = (409, 429, 503)
# what a client has sent stays an image wherever it is opened
IMAGE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=31536000, immutable",
}


def agent_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""
    sessions, runs, journal = services.sessions, services.runs, services.journal

    async def list_agents(request: Request) -> AgentList:
        return AgentList(agents=[describe(name, a) for name, a in services.agents.items()])

    async def run_agent(request: Request, name: str, body: NewAgentRun) -> RunInfo:
        message = said(body.input, body.images)
        runs.agent(name)
        runs.check_room()
        user = viewer_of(request).user
        if body.session_id is None:
            created = await sessions.create(name, user)
            return await runs.start(created.id, message, user, body.request_id)
        session = await sessions.get(body.session_id, user)
        if session.agent != name:
            raise RequestError(
                409, f"session {session.id} is with agent '{session.agent}', not with '{name}'"
            )
        return await runs.start(session.id, message, user, body.request_id)

    async def create_session(request: Request, body: NewSession) -> SessionInfo:
        runs.agent(body.agent)
        return await sessions.create(body.agent, viewer_of(request).user)

    async def list_sessions(request: Request, query: PageQuery) -> SessionList:
        return await sessions.page(query.limit, query.after, viewer_of(request).user)

    async def get_session(request: Request, session_id: str) -> SessionDetail:
        return await sessions.get(session_id, viewer_of(request).user)

    async def delete_session(request: Request, session_id: str) -> None:
        user = viewer_of(request).user
        session = await sessions.get(session_id, user)
        if session.active_run is not None:
            await runs.cancel(session.active_run, user)
        await sessions.delete(session_id)

    async def create_run(request: Request, session_id: str, body: NewRun) -> RunInfo:
        message = said(body.input, body.images)
        user = viewer_of(request).user
        return await runs.start(session_id, message, user, body.request_id)

    async def get_run(request: Request, run_id: str) -> RunInfo:
        return await sessions.run(run_id, viewer_of(request).user)

    async def run_image(request: Request, run_id: str, number: str) -> Response:
        image = await sessions.image(run_id, number, viewer_of(request).user)
        return Response(image.data, headers=IMAGE_HEADERS, media_type=image.media_type)

    async def run_file(request: Request, run_id: str, number: str) -> Response:
        file = await sessions.file(run_id, number, viewer_of(request).user)
        headers = {**IMAGE_HEADERS, "Content-Disposition": "attachment"}
        return Response(file.data, headers=headers, media_type=file.media_type)

    async def cancel_run(request: Request, run_id: str) -> RunInfo:
        return await runs.cancel(run_id, viewer_of(request).user)

    async def run_events(request: Request, run_id: str, query: EventsQuery) -> Response:
        viewer = viewer_of(request)
        await sessions.run(run_id, viewer.user)
        after = last_event_id(request.headers, query.after)
        idle = services.config.heartbeat_seconds
        return services.streams.events(journal.read(run_id, after, idle=idle), viewer)

    return [
        Endpoint("GET", "/v1/agents", "List the agents", list_agents, AgentList),
        Endpoint(
            "POST", "/v1/agents/{name}/runs", "Ask an agent", run_agent, RunInfo,
            body=NewAgentRun, status=202, errors=(404, *BUSY),
        ),
        Endpoint(
            "GET", "/v1/sessions", "List sessions, the latest first", list_sessions, SessionList,
            query=PageQuery,
        ),
        Endpoint(
            "POST", "/v1/sessions", "Begin a conversation", create_session, SessionInfo,
            body=NewSession, status=201, errors=(404,),
        ),
        Endpoint(
            "GET", "/v1/sessions/{session_id}", "Show a conversation", get_session, SessionDetail,
            errors=(404,),
        ),
        Endpoint(
            "DELETE", "/v1/sessions/{session_id}", "Forget a conversation", delete_session,
            status=204, errors=(404, 409),
        ),
        Endpoint(
            "POST", "/v1/sessions/{session_id}/runs", "Say something in a conversation",
            create_run, RunInfo, body=NewRun, status=202, errors=(404, *BUSY),
        ),
        Endpoint("GET", "/v1/runs/{run_id}", "Show a run", get_run, RunInfo, errors=(404,)),
        Endpoint(
            "GET", "/v1/runs/{run_id}/images/{number}", "Show an image of what the user said",
            run_image, media="image/*", errors=(404,),
        ),
        Endpoint(
            "GET", "/v1/runs/{run_id}/files/{number}", "Get a file of what was said in a run",
            run_file, media="*/*", errors=(404,),
        ),
        Endpoint(
            "POST", "/v1/runs/{run_id}/cancel", "Cancel a run", cancel_run, RunInfo, errors=(404,)
        ),
        Endpoint(
            "GET", "/v1/runs/{run_id}/events", "Follow a run, from the event after Last-Event-ID",
            run_events, query=EventsQuery, media="text/event-stream", errors=(404, 503),
        ),
    ]  # fmt: skip


def describe(name: str, target: Agent | Swarm) -> AgentInfo:
    """Return what clients may know of an agent or a swarm."""
    if isinstance(target, Swarm):
        return AgentInfo(
            name=name, kind="swarm",
            description=target.description or str(target.flow or target.mode),
            handoffs=[agent.name for agent in target.agents],
        )  # fmt: skip
    # the instructions are not for those who talk to the agent
    return AgentInfo(
        name=name, model=target.model, description=target.description,
        tools=[tool.name for tool in target.tools],
        handoffs=[agent.name for agent in target.handoffs],
    )  # fmt: skip
