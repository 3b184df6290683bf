"""A2AClient against the a2a-sdk's own server classes, with an executor written with the SDK."""

import asyncio

import pytest
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from starlette.applications import Starlette
from support.eventually import eventually

from orbiter import Agent, Swarm, run
from orbiter.a2a import A2AClient, A2AServer, RemoteAgentError
from orbiter.models import ScriptedModel, call
from orbiter.tasks import TaskState

# behind real sockets
pytestmark = pytest.mark.integration


class Sample(AgentExecutor):
    """Greets, counts, asks, fails or waits, as it is told."""

    def __init__(self):
        self.texts = []
        self.cancelled = []

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        self.texts.append(text)
        if text == "plain":
            await event_queue.enqueue_event(
                new_text_message("A plain hello.", role=Role.ROLE_AGENT)
            )
            return
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await updater.start_work()

        def said(words):
            return updater.new_agent_message([new_text_part(words)])

        if "book" in text and context.current_task is None:
            await updater.requires_input(said("For how many?"))
        elif "fail" in text:
            await updater.failed(said("I cannot do that."))
        elif "wait" in text:
            await updater.add_artifact([new_text_part("Waiting ")], artifact_id="a")
            await asyncio.Event().wait()
        else:
            for number, word in enumerate(("One ", "two ", "three.")):
                await updater.add_artifact(
                    [new_text_part(word)], artifact_id="a", append=number > 0
                )
            await updater.complete()

    async def cancel(self, context, event_queue):
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def sample_app(url, executor, binding, *, streaming=True):
    card = AgentCard(
        name="counter", description="Counts to three.", version="1",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        skills=[AgentSkill(id="count", name="count", description="Counts", tags=["count"])],
    )  # fmt: skip
    handler = DefaultRequestHandler(
        agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card
    )
    routes = (
        create_jsonrpc_routes(handler, "/") if binding == "JSONRPC" else create_rest_routes(handler)
    )
    return Starlette(routes=[*create_agent_card_routes(card), *routes])


@pytest.fixture
def sample():
    return Sample()


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
async def remote(request, serve, sample):
    url = await serve(lambda url: sample_app(url, sample, request.param))
    async with await A2AClient.connect(url) as client:
        yield client


async def test_a_remote_agent_is_asked_from_any_event_loop(serve):
    url = await serve(
        lambda url: (
            A2AServer(Agent(name="here"), url=url, model=ScriptedModel("Hello.", repeat=True)).app
        )
    )
    there = A2AClient(url)
    ask = asyncio.to_thread
    said = [(await ask(run.sync, there, "Hi")).output for _ in range(2)]
    said += [
        r.output for r in await asyncio.gather(*(ask(run.sync, there, "Hi") for _ in range(3)))
    ]
    said.append((await run(there, "Hi")).output)
    assert said == ["Hello."] * 6
    await there.aclose()


async def test_a_remote_agent_has_the_name_of_its_card_and_runs_like_any_other(remote):
    assert (remote.name, remote.description) == ("counter", "Counts to three.")
    result = await run(remote, "Count")
    assert (result.output, result.last_agent) == ("One two three.", "counter")


async def test_its_words_are_streamed(remote):
    texts = [event.text async for event in run.stream(remote, "Count") if event.type == "text"]
    assert texts == ["One ", "two ", "three."]


async def test_an_agent_hands_off_to_it_and_it_learns_what_was_said(remote, sample):
    triage = Agent(name="triage", handoffs=[remote])
    model = ScriptedModel(call("transfer_to_counter"))
    before = (await run(triage, "Hello", provider=ScriptedModel("Hi."))).messages
    result = await run(triage, "Count", messages=before, provider=model)
    assert (result.last_agent, result.output) == ("counter", "One two three.")
    assert sample.texts == ["The conversation so far:\n\nUser: Hello\n\nAgent: Hi.\n\nUser: Count"]
    assert "Counts to three." in model.requests[0].tools[0]["function"]["description"]


class Notes:
    """A memory that recalls one note."""

    async def recall(self, query, *, agent_name):
        return "The user likes tea."

    async def remember(self, messages, *, agent_name):
        pass


async def test_what_this_program_adds_for_its_models_is_not_told(remote, sample):
    remote.memory = Notes()
    asked = await run(remote, "Please book a table")
    await run(remote, "Four.", messages=asked.messages)
    assert sample.texts == ["Please book a table", "Four."]


async def test_it_works_in_a_swarm(remote):
    model = ScriptedModel("Count, please.", "All counted.")
    agents = [Agent(name="first"), remote, Agent(name="last")]
    result = await run(Swarm(agents=agents, flow="first >> counter >> last"), "Go", provider=model)
    assert result.output == "All counted."
    assert model.requests[1].messages[-1].content == "One two three."
    team = Swarm(agents=[Agent(name="lead"), remote], mode="team")
    leading = ScriptedModel(call("delegate_to_counter", task="Count"), "Done.")
    result = await run(team, "Go", provider=leading)
    assert leading.requests[1].messages[-1].content == "One two three."


async def test_its_question_is_an_answer_and_the_next_run_continues_its_task(remote, sample):
    asked = await run(remote, "Please book a table")
    assert asked.output == "For how many?"
    done = await run(remote, "Four.", messages=asked.messages)
    assert done.output == "One two three."
    assert sample.texts == ["Please book a table", "Four."]


async def test_a_plain_message_is_an_answer_too(remote):
    assert (await run(remote, "plain")).output == "A plain hello."


async def test_its_failure_is_an_error(remote):
    with pytest.raises(RemoteAgentError, match=r"'counter' failed: I cannot do that\."):
        await run(remote, "fail")


async def test_leaving_a_run_cancels_the_remote_task(remote, sample):
    async with run.stream(remote, "wait") as stream:
        async for event in stream:
            if event.type == "text":
                break
    await eventually(lambda: sample.cancelled)


async def test_its_tasks_can_be_spoken_to_directly(remote, sample):
    asked = await remote.send("book")
    assert (asked.state, asked.text) == (TaskState.INPUT_REQUIRED, "For how many?")
    done = await remote.send("Four", task_id=asked.id, context_id=asked.context_id)
    assert (done.id, done.state, done.text) == (asked.id, TaskState.COMPLETED, "One two three.")
    assert await remote.get(done.id) == done
    waiting = await remote.send("wait", wait=False)
    assert (await remote.cancel(waiting.id)).state is TaskState.CANCELLED
    with pytest.raises(RemoteAgentError, match="not found"):
        await remote.get("none")


async def test_an_agent_that_does_not_stream_is_asked_all_the_same(serve, sample):
    url = await serve(lambda url: sample_app(url, sample, "JSONRPC", streaming=False))
    async with A2AClient(url) as client:
        assert (await run(client, "Count")).output == "One two three."
        texts = [event.text async for event in run.stream(client, "Count") if event.type == "text"]
        assert texts == ["One two three."]


async def test_who_cannot_be_reached_is_named():
    async with A2AClient("http://127.0.0.1:9", name="gone") as client:
        with pytest.raises(RemoteAgentError, match=r"127\.0\.0\.1:9"):
            await run(client, "Hi")


async def test_both_ends_of_orbiter_understand_each_other(serve):
    agent = Agent(name="echo", model="openai:none")
    model = ScriptedModel("Let me think.", "Four.")
    url = await serve(lambda url: A2AServer(agent, url=url, model=model, token="secret").app)
    async with A2AClient(url, token="secret") as client:
        assert (await run(client, "Hi")).output == "Let me think."
        texts = [event.text async for event in run.stream(client, "x") if event.type == "text"]
        assert "".join(texts) == "Four."
