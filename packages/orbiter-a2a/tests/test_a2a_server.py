"""A2AServer, spoken to by the a2a-sdk's own client."""

import asyncio

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, get_message_text, new_text_message
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from support.eventually import eventually

from orbiter import Agent, tool
from orbiter.a2a import A2AServer
from orbiter.models import ModelProvider, ModelResponse, ScriptedModel, StreamChunk, call
from orbiter.tasks import ask_user

# behind real sockets
pytestmark = pytest.mark.integration

BINDINGS = ["JSONRPC", "HTTP+JSON"]


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"Sunny in {city}"


class Slow(ModelProvider):
    """Says one word and then nothing, until it is let go."""

    def __init__(self):
        self.go = asyncio.Event()
        self.stopped = False

    async def complete(self, messages, **options):
        raise NotImplementedError

    async def stream(self, messages, **options):
        yield StreamChunk(delta="One ")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        yield StreamChunk(delta="two.")


@pytest.fixture
async def connect(serve):
    opened = []

    async def begin(model, agent=None, *, binding="JSONRPC", streaming=True, key=None, **options):
        agent = agent or Agent(name="forecaster", tools=[get_weather])
        url = await serve(lambda url: A2AServer(agent, url=url, model=model, **options).app)
        http = httpx.AsyncClient(timeout=20)
        opened.append(http)
        card = await A2ACardResolver(http, url).get_agent_card()
        if key is not None:
            http.headers["Authorization"] = f"Bearer {key}"
        config = ClientConfig(
            streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding]
        )
        client = ClientFactory(config).create(card)
        client.test_card = card
        return client

    yield begin
    for http in opened:
        await http.aclose()


def message(text, task=None, **configuration):
    request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
    if task is not None:
        request.message.task_id, request.message.context_id = task.id, task.context_id
    for name, value in configuration.items():
        setattr(request.configuration, name, value)
    return request


async def ask(client, *args, **options):
    """Send a message and return the task as it is afterwards."""
    key = None
    async for event in client.send_message(message(*args, **options)):
        kind = event.WhichOneof("payload")
        key = event.task.id if kind == "task" else getattr(event, kind).task_id
    return await client.get_task(GetTaskRequest(id=key))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_answered_piece_by_piece(connect, binding):
    model = ScriptedModel(call("get_weather", city="Oslo"), "It is sunny.")
    client = await connect(model, binding=binding)
    events = [e async for e in client.send_message(message("How is the weather in Oslo?"))]
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds[0] == "task"
    pieces = [e.artifact_update for e in events if e.HasField("artifact_update")]
    assert [get_artifact_text(p.artifact) for p in pieces] == ["It ", "is ", "sunny."]
    assert [piece.append for piece in pieces] == [False, True, True]
    tools = [dict(e.status_update.metadata) for e in events if e.HasField("status_update")]
    assert {"tool": "get_weather"} in tools
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    task = await client.get_task(GetTaskRequest(id=events[0].task.id))
    assert [part.text for part in task.artifacts[0].parts] == ["It ", "is ", "sunny."]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_that_does_not_stream_gets_the_finished_task(connect, binding):
    client = await connect(ScriptedModel("Hello."), binding=binding, streaming=False)
    (event,) = [e async for e in client.send_message(message("Hi"))]
    assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
    assert get_artifact_text(event.task.artifacts[0]) == "Hello."


async def test_the_card_says_what_others_need_and_nothing_else(connect):
    agent = Agent(name="forecaster", instructions="The password is xyzzy.")
    client = await connect(ScriptedModel(), agent, description="Knows the weather.", token="t")
    card = client.test_card
    assert (card.name, card.description) == ("forecaster", "Knows the weather.")
    assert card.capabilities.streaming
    assert card.capabilities.push_notifications
    assert [i.protocol_binding for i in card.supported_interfaces] == BINDINGS
    assert card.security_schemes["token"].http_auth_security_scheme.scheme == "bearer"
    assert "xyzzy" not in str(card)


async def test_what_was_said_before_the_answer_is_no_part_of_it(connect):
    thinking = ModelResponse(
        content="Let me see.", tool_calls=[call("get_weather", city="Oslo")],
        finish_reason="tool_calls",
    )  # fmt: skip
    client = await connect(ScriptedModel(thinking, "Sunny."))
    task = await ask(client, "And Oslo?")
    assert [get_artifact_text(artifact) for artifact in task.artifacts] == ["Sunny."]


@pytest.mark.parametrize("reason", ["length", "content_filter", "refusal", "incomplete"])
async def test_an_answer_that_is_not_whole_fails_the_task_and_says_why(connect, reason):
    cut = ModelResponse(content="Once upon", finish_reason=reason)
    client = await connect(ScriptedModel(cut))
    task = await ask(client, "Tell me a story")
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert reason in get_message_text(task.status.message)
    assert "Once upon" in get_message_text(task.status.message)


async def test_an_agent_asks_and_goes_on_with_the_answer(connect):
    waiter = Agent(name="waiter", tools=[ask_user])
    model = ScriptedModel(call("ask_user", question="For how many?"), "A table for four.")
    client = await connect(model, waiter)
    asked = await ask(client, "Book a table")
    assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert get_message_text(asked.status.message) == "For how many?"
    done = await ask(client, "Four.", asked)
    assert done.id == asked.id
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    assert get_artifact_text(done.artifacts[0], delimiter="") == "A table for four."


def waiter_of(did):
    """An agent with a tool that a person has to approve."""

    @tool(approval=True)
    def book(seats: int) -> str:
        """Book a table."""
        did.append(seats)
        return "booked"

    return Agent(name="waiter", tools=[book])


async def test_a_tool_that_waits_is_asked_about_and_approved(connect):
    did = []
    waiter = waiter_of(did)
    client = await connect(ScriptedModel(call("book", seats=4), "A table for four."), waiter)
    asked = await ask(client, "Book a table")
    assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert 'May it call book {"seats":4} ?' in get_message_text(asked.status.message)
    done = await ask(client, "approve", asked)
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    assert did == [4]


async def test_a_second_approval_of_a_task_names_its_request(connect):
    did = []
    waiter = waiter_of(did)
    model = ScriptedModel(call("book", seats=4), call("book", seats=400), "Two tables.")
    client = await connect(model, waiter)
    asked = await ask(client, "Book a table")
    await ask(client, "approve", asked)
    assert did == [4]
    refused = await ask(client, "approve", asked)
    assert refused.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    why, *_, form = get_message_text(refused.status.message).split("\n")
    assert "names no request" in why
    assert did == [4]
    done = await ask(client, form[form.index("{") :], asked)
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    assert did == [4, 400]


async def test_a_context_is_one_conversation(connect):
    model = ScriptedModel("Sunny.", "Rain.")
    client = await connect(model)
    first = await ask(client, "And today?")
    request = message("And tomorrow?")
    request.message.context_id = first.context_id
    async for _ in client.send_message(request):
        pass
    said = [m.content for m in model.requests[1].messages]
    assert said == ["And today?", "Sunny.", "And tomorrow?"]


async def test_a_task_is_cancelled_and_the_agent_stops(connect):
    model = Slow()
    client = await connect(model)
    stream = client.send_message(message("Count"))
    task = (await anext(stream)).task
    async for event in stream:
        if event.HasField("artifact_update"):
            break
    cancelled = await client.cancel_task(CancelTaskRequest(id=task.id))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
    await eventually(lambda: model.stopped)
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task.id))
    await stream.aclose()


async def test_a_lost_client_comes_back_to_its_task(connect):
    model = Slow()
    client = await connect(model)
    stream = client.send_message(message("Count"))
    task = (await anext(stream)).task
    await stream.aclose()
    back = client.subscribe(SubscribeToTaskRequest(id=task.id))
    assert (await anext(back)).task.status.state == TaskState.TASK_STATE_WORKING
    model.go.set()
    last = [event async for event in back][-1]
    assert last.status_update.status.state == TaskState.TASK_STATE_COMPLETED
    done = await client.get_task(GetTaskRequest(id=task.id))
    assert get_artifact_text(done.artifacts[0], delimiter="") == "One two."


async def test_an_agent_that_fails_says_why(connect):
    client = await connect(ScriptedModel())
    task = await ask(client, "Hi")
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert "the script has 0 replies" in get_message_text(task.status.message)


async def test_changes_are_pushed_to_who_asked_for_it(connect, serve):
    told = []

    async def receive(request):
        told.append((request.headers.get("x-a2a-notification-token"), await request.json()))
        return Response()

    receiver = await serve(lambda _: Starlette(routes=[Route("/", receive, methods=["POST"])]))
    client = await connect(ScriptedModel("One two three."), streaming=False, push="any")
    request = message("Count", return_immediately=True)
    config = TaskPushNotificationConfig(url=f"{receiver}/", token="mine")
    request.configuration.task_push_notification_config.CopyFrom(config)
    async for _ in client.send_message(request):
        pass

    def states():
        return [t["statusUpdate"]["status"]["state"] for _, t in told if "statusUpdate" in t]

    await eventually(lambda: "TASK_STATE_COMPLETED" in states())
    assert {token for token, _ in told} == {"mine"}


async def test_notifications_do_not_go_into_private_networks(connect):
    client = await connect(ScriptedModel("Hi."))
    request = message("Hi")
    config = TaskPushNotificationConfig(url="http://169.254.169.254/latest/meta-data")
    request.configuration.task_push_notification_config.CopyFrom(config)
    with pytest.raises(A2AError, match="push notification URL"):
        async for _ in client.send_message(request):
            pass


async def test_what_it_cannot_read_or_does_not_know_is_refused(connect):
    client = await connect(ScriptedModel())
    with pytest.raises(TaskNotFoundError):
        await client.get_task(GetTaskRequest(id="none"))
    request = message("Look")
    request.message.parts.append(Part(url="https://example.org/cat.png"))
    with pytest.raises(A2AError, match="text only"):
        async for _ in client.send_message(request):
            pass


async def test_the_token_is_asked_for(connect, serve):
    client = await connect(ScriptedModel("Hi."), token="secret")
    with pytest.raises(Exception, match="401"):
        await ask(client, "Hi")
    client = await connect(ScriptedModel("Hi."), token="secret", key="secret")
    assert (await ask(client, "Hi")).status.state == TaskState.TASK_STATE_COMPLETED


async def test_the_card_tells_the_agent_s_own_description(connect):
    agent = Agent(name="forecaster", description="Knows the weather.")
    client = await connect(ScriptedModel(), agent)
    assert client.test_card.description == "Knows the weather."
