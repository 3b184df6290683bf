"""Endpoints about the cluster that the server runs in, or has a kubeconfig for."""

from starlette.requests import Request
from starlette.responses import Response

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.cluster_actions import actions_of
from orbiter.server._internal.cluster_api import Kind
from orbiter.server._internal.cluster_costs import costs_of
from orbiter.server._internal.cluster_detail import detail_of
from orbiter.server._internal.cluster_questions import questions_of, with_question
from orbiter.server._internal.cluster_task_routes import task_endpoints
from orbiter.server._internal.endpoint import Endpoint
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.services import Services, cluster_of
from orbiter.server._internal.session_answers import SessionAnswers
from orbiter.server._internal.session_questions import SessionQuestions
from orbiter.server._internal.sse import begun, last_event_id
from orbiter.server._internal.viewer import viewer_of
from orbiter.server.cluster_models import (
    ClusterDetail,
    ClusterPage,
    ClusterQuery,
    ClusterQuestions,
    Costs,
    CostsQuery,
    MessageReference,
    NewAnswer,
    QuestionsQuery,
    TranscriptQuery,
)

_TROUBLE = (404, 501, 502)
_REFUSED = (*_TROUBLE, 403, 409)


def cluster_endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints."""
    shown = services.cluster if services.transcripts else None
    asked = SessionQuestions(shown.readers) if shown else None
    answers = SessionAnswers(shown, asked, services.config.kubeconfig) if shown and asked else None

    async def tasks(request: Request, query: ClusterQuery) -> ClusterPage:
        return await cluster().page("agenttasks", viewer_of(request), query)

    async def sessions(request: Request, query: ClusterQuery) -> ClusterPage:
        return await cluster().page("posessions", viewer_of(request), query)

    async def task(request: Request, namespace: str, name: str) -> ClusterDetail:
        viewer = viewer_of(request)
        brief, item = await cluster().get("agenttasks", viewer, namespace, name)
        return detail_of(brief, item, await actions_of(item, viewer))

    async def session(request: Request, namespace: str, name: str) -> ClusterDetail:
        viewer = viewer_of(request)
        brief, item = await cluster().get("posessions", viewer, namespace, name)
        return await with_question(detail_of(brief, item, ()), item, asked, viewer)

    async def task_transcript(
        request: Request, namespace: str, name: str, query: TranscriptQuery
    ) -> Response:
        return await transcript("agenttasks", request, namespace, name, query)

    async def session_transcript(
        request: Request, namespace: str, name: str, query: TranscriptQuery
    ) -> Response:
        return await transcript("posessions", request, namespace, name, query)

    async def transcript(
        kind: Kind, request: Request, namespace: str, name: str, query: TranscriptQuery
    ) -> Response:
        viewer = viewer_of(request)
        if services.transcripts is None:
            raise no_transcripts()
        place, over = await cluster().transcript(kind, viewer, namespace, name, query.attempt)
        batches = services.transcripts.follow(
            place, last_event_id(request.headers, query.after),
            idle=services.config.heartbeat_seconds, over=over, by=viewer.user,
        )  # fmt: skip
        with services.streams.held(viewer):  # it is waited for, too
            batches = await begun(batches)
        return services.streams.events(batches, viewer)

    def cluster() -> Cluster:
        return cluster_of(services)

    def no_transcripts() -> RequestError:
        cluster()
        return RequestError(
            404, "the server shows no transcripts, nor what sessions ask: start it with "
            "--transcripts, or set the chart's server.transcripts", code="no_transcripts",
        )  # fmt: skip

    async def questions(request: Request, query: QuestionsQuery) -> ClusterQuestions:
        return await questions_of(cluster(), asked, viewer_of(request), query)

    async def answer_session(
        request: Request, namespace: str, name: str, body: NewAnswer
    ) -> MessageReference:
        if answers is None:
            raise no_transcripts()
        return await answers.answer(viewer_of(request), namespace, name, body)

    async def costs(request: Request, query: CostsQuery) -> Costs:
        return await costs_of(cluster(), viewer_of(request), query)

    task_path = "/v1/cluster/tasks/{namespace}/{name}"
    session_path = "/v1/cluster/sessions/{namespace}/{name}"
    return [
        Endpoint(
            "GET", "/v1/cluster/costs", "Sum up what agents cost", costs, Costs,
            query=CostsQuery, errors=_TROUBLE, needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/questions", "List what waits for a person, the longest first",
            questions, ClusterQuestions, query=QuestionsQuery, errors=_TROUBLE, needs=None,
        ),
        Endpoint(
            "POST", f"{session_path}/answer",
            "Answer the question of a POSession", answer_session, MessageReference,
            body=NewAnswer, status=202, errors=_REFUSED, needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/tasks", "List the cluster's AgentTasks", tasks, ClusterPage,
            query=ClusterQuery, errors=_TROUBLE, needs=None,
        ),
        Endpoint(
            "GET", "/v1/cluster/sessions", "List the cluster's POSessions", sessions, ClusterPage,
            query=ClusterQuery, errors=_TROUBLE, needs=None,
        ),
        Endpoint(
            "GET", task_path, "Show an AgentTask", task, ClusterDetail, errors=_TROUBLE, needs=None,
        ),
        Endpoint(
            "GET", f"{task_path}/transcript", "Follow what an AgentTask's agent says and does",
            task_transcript,
            query=TranscriptQuery, media="text/event-stream", errors=(*_TROUBLE, 503), needs=None,
        ),
        Endpoint(
            "GET", f"{session_path}/transcript",
            "Follow what a POSession's agent says and does", session_transcript,
            query=TranscriptQuery, media="text/event-stream", errors=(*_TROUBLE, 503), needs=None,
        ),
        Endpoint(
            "GET", session_path, "Show a POSession", session,
            ClusterDetail, errors=_TROUBLE, needs=None,
        ),
        *task_endpoints(services, cluster, task_path, _TROUBLE),
    ]  # fmt: skip
