"""Chat completions, asked for by OpenAI's own client."""

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from orbiter import Agent, Swarm
from orbiter.models import ModelResponse, ScriptedModel, call
from orbiter.parts import ImagePart, TextPart
from orbiter.types import SystemMessage, UserMessage

from .conftest import get_weather

# behind a real socket, each with a server of its own
pytestmark = pytest.mark.integration

LOOK_UP = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look up a number in the user's address book.",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
ASK = [{"role": "user", "content": "How is the weather in Oslo?"}]


@pytest.fixture
async def connect(start):
    clients = []

    async def begin(*args, **config):
        server = await start(*args, **config)
        key = config.get("token", "unused")
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
        clients.append(client)
        return client

    yield begin
    for client in clients:
        await client.close()


async def test_an_agent_answers_like_a_model(connect):
    client = await connect(None, ScriptedModel(call("get_weather", city="Oslo"), "Sunny."))
    answer = await client.chat.completions.create(model="helper", messages=ASK)
    assert answer.choices[0].message.content == "Sunny."
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.model, answer.usage.total_tokens) == ("helper", 30)


async def test_the_answer_is_streamed(connect):
    client = await connect(None, ScriptedModel(call("get_weather", city="Oslo"), "It is sunny."))
    stream = await client.chat.completions.create(
        model="helper", messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    texts = [c.choices[0].delta.content for c in chunks if c.choices]
    assert [text for text in texts if text] == ["It ", "is ", "sunny."]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens == 30


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("length", "length"),
        ("incomplete", "length"),
        ("content_filter", "content_filter"),
        ("refusal", "content_filter"),
    ],
)
async def test_an_answer_that_is_not_whole_says_so_in_openais_words(connect, reason, word):
    cut = ModelResponse(content="Once upon", finish_reason=reason)
    client = await connect(None, ScriptedModel(cut, repeat=True))
    answer = await client.chat.completions.create(model="helper", messages=ASK)
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Once upon", word)
    stream = await client.chat.completions.create(model="helper", messages=ASK, stream=True)
    told = [c.choices[0].finish_reason async for c in stream]
    assert told[-1] == word


async def test_agents_are_listed_as_models(connect):
    client = await connect()
    assert [model.id async for model in client.models.list()] == ["helper"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_clients_own_tool_is_called_by_the_client(connect, streamed):
    model = ScriptedModel(
        call("get_weather", city="Oslo"),
        [call("look_up", name="Ada"), call("get_weather", city="Rome")],
        "Call 42, it is sunny.",
    )
    client = await connect(None, model)
    if streamed:
        async with client.chat.completions.stream(
            model="helper", messages=ASK, tools=[LOOK_UP]
        ) as stream:
            first = await stream.get_final_completion()
    else:
        first = await client.chat.completions.create(model="helper", messages=ASK, tools=[LOOK_UP])
    assert first.choices[0].finish_reason == "tool_calls"
    said = first.choices[0].message
    assert [(c.function.name, c.function.arguments) for c in said.tool_calls] == [
        ("look_up", '{"name": "Ada"}')
    ]
    result = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "42"}
    history = [*ASK, said.model_dump(exclude_none=True), result]
    second = await client.chat.completions.create(model="helper", messages=history, tools=[LOOK_UP])
    assert second.choices[0].message.content == "Call 42, it is sunny."
    # the model sees what the server's own tools said, although the client never did
    seen = model.requests[2].messages
    assert [m.role for m in seen] == ["user", "assistant", "tool", "assistant", "tool", "tool"]
    assert [m.content for m in seen if m.role == "tool"] == ["Sunny in Oslo", "42", "Sunny in Rome"]


async def test_tools_that_may_not_be_chosen_are_not_offered(connect):
    model = ScriptedModel("No.")
    client = await connect(None, model)
    await client.chat.completions.create(
        model="helper", messages=ASK, tools=[LOOK_UP], tool_choice="none"
    )
    assert [t["function"]["name"] for t in model.requests[0].tools] == ["get_weather"]


async def test_the_clients_conversation_and_wishes_reach_the_model(connect):
    model = ScriptedModel("Yes.")
    client = await connect({"helper": Agent(name="helper", instructions="Be kind.")}, model)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Are you there?"},
    ]
    await client.chat.completions.create(
        model="helper", messages=messages, temperature=0.5, max_completion_tokens=7
    )
    request = model.requests[0]
    assert (request.temperature, request.max_tokens) == (0.5, 7)
    assert request.messages[:3] == [
        SystemMessage(content="Be kind."),
        SystemMessage(content="Be brief."),
        UserMessage(content="Hi"),
    ]


async def test_a_structured_answer_is_json_and_a_swarm_gives_its_last_word(connect):
    class City(BaseModel):
        name: str

    agents = {
        "city": Agent(name="city", output_type=City),
        "pair": Swarm(agents=[Agent(name="a"), Agent(name="b")]),
    }
    client = await connect(agents, ScriptedModel('{"name": "Oslo"}', "draft", "final"))
    answer = await client.chat.completions.create(model="city", messages=ASK)
    assert answer.choices[0].message.content == '{"name": "Oslo"}'
    stream = await client.chat.completions.create(model="pair", messages=ASK, stream=True)
    assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "final"


async def test_mistakes_have_the_errors_its_users_know(connect):
    client = await connect(None, ScriptedModel(), token="secret")
    create = client.chat.completions.create
    with pytest.raises(openai.NotFoundError, match="no agent 'gpt'"):
        await create(model="gpt", messages=ASK)
    with pytest.raises(openai.UnprocessableEntityError, match="response_format"):
        await create(model="helper", messages=ASK, response_format={"type": "json_object"})
    clash = {"type": "function", "function": {"name": get_weather.name}}
    with pytest.raises(openai.BadRequestError, match="of its own"):
        await create(model="helper", messages=ASK, tools=[clash])
    lost = {"role": "tool", "tool_call_id": "x", "content": "y"}
    with pytest.raises(openai.BadRequestError, match="answers no call"):
        await create(model="helper", messages=[*ASK, lost])
    with pytest.raises(openai.InternalServerError, match="the script has 0 replies"):
        await create(model="helper", messages=ASK)
    with pytest.raises(openai.InternalServerError, match="the script has 0 replies"):
        await create(model="helper", messages=ASK, stream=True)
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="wrong").models.list()


async def test_a_stream_that_breaks_off_says_so(connect):
    model = ScriptedModel("one two", RuntimeError("the line is dead"))

    class Breaking(ScriptedModel):
        async def stream(self, messages, **options):
            yield (await anext(model.stream(messages)))
            raise RuntimeError("the line is dead")

    client = await connect(None, Breaking())
    stream = await client.chat.completions.create(model="helper", messages=ASK, stream=True)
    with pytest.raises(openai.APIError, match="the line is dead"):
        async for _ in stream:
            pass


def pictured(url):
    image = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    return [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]


async def test_an_agent_sees_the_image_of_a_request(connect):
    model = ScriptedModel("A dot.", "A dot, I said.")
    client = await connect(None, model)
    asked = pictured("data:image/png;base64,iVBORw==")
    await client.chat.completions.create(model="helper", messages=asked)
    later = [*asked, {"role": "assistant", "content": "A dot."}, *ASK]
    await client.chat.completions.create(model="helper", messages=later)
    message = UserMessage(
        content="What is this?",
        parts=(
            TextPart(text="What is this?"),
            ImagePart(data=b"\x89PNG", media_type="image/png"),
        ),
    )
    assert message in model.requests[0].messages
    assert message in model.requests[1].messages


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/cat.png",
        "http://127.0.0.1:1/",
        "file:///etc/passwd",
        "data:image/svg+xml;base64,iVBORw==",
        "data:image/png;base64,iVBORw=",
        "data:image/png,plain",
    ],
)
async def test_no_image_is_fetched(connect, url):
    model = ScriptedModel("x")
    client = await connect(None, model)
    with pytest.raises(openai.BadRequestError, match=r"give the image itself.*no URL is fetched"):
        await client.chat.completions.create(model="helper", messages=pictured(url))
    assert model.requests == []
