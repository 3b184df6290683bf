import asyncio

import pytest
from pydantic import BaseModel

from orbiter import Agent, run, tool
from orbiter.config import TaskConfig
from orbiter.hooks import Hook, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelResponse,
    ScriptedModel,
    call,
)
from orbiter.types import (
    AssistantMessage,
    OrbiterError,
    RunResult,
    SystemMessage,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def calc() -> Agent:
    return Agent(name="calc", instructions="You add.", tools=[add])


async def test_a_run_calls_the_tool_and_returns_the_answer(calc):
    result = await run(calc, "What is 2 + 3?", provider=ScriptedModel(call("add", a=2, b=3), "5"))
    asked = ToolCall(id="call_1", name="add", arguments='{"a": 2, "b": 3}')
    assert result == RunResult(
        output="5",
        messages=[
            UserMessage(content="What is 2 + 3?"),
            AssistantMessage(tool_calls=[asked]),
            ToolResult(tool_call_id="call_1", tool_name="add", content="5"),
            AssistantMessage(content="5"),
        ],
        usage=Usage(input_tokens=20, output_tokens=10, total_tokens=30),
        steps=2,
        last_agent="calc",
        stop_reason="completed",
    )


async def test_provider_has_an_underscored_name_too(calc):
    result = await run(calc, "hi", _provider=ScriptedModel("hello"))
    assert result.output == "hello"


async def test_a_provider_is_anything_with_complete(calc):
    class Bare:
        async def complete(self, messages, *, tools=None, temperature=None, max_tokens=None):
            return ModelResponse(content="hello")

    assert (await run(calc, "hi", provider=Bare())).output == "hello"


async def test_a_result_goes_on_in_the_next_run_with_one_system_prompt(calc):
    model = ScriptedModel("sunny", "rain")
    first = await run(calc, "weather?", provider=model)
    second = await run(calc, "and tomorrow?", provider=model, messages=first.messages)
    assert model.requests[1].messages == [
        SystemMessage(content="You add."),
        UserMessage(content="weather?"),
        AssistantMessage(content="sunny"),
        UserMessage(content="and tomorrow?"),
    ]
    assert [m.content for m in second.messages] == ["weather?", "sunny", "and tomorrow?", "rain"]
    assert len(first.messages) == 2


async def test_the_given_messages_are_left_alone(calc):
    before = [UserMessage(content="hi"), AssistantMessage(content="hello")]
    await run(calc, "go", provider=ScriptedModel("x"), messages=before)
    assert len(before) == 2


async def test_system_messages_of_the_caller_stay_and_are_not_doubled(calc):
    model = ScriptedModel("x", "y")
    mine = [SystemMessage(content="You add."), UserMessage(content="hi")]
    await run(calc, "go", provider=model, messages=mine)
    roles = [message.role for message in model.requests[0].messages]
    assert roles == ["system", "user", "user"]


async def test_an_empty_input_goes_on_with_the_messages_there_are(calc):
    model = ScriptedModel(call("add", a=1, b=2), "3")
    calc.max_steps = 1
    first = await run(calc, "1 + 2", provider=model)
    second = await run(calc, "", provider=model, messages=first.messages)
    assert second.output == "3"
    assert [m.role for m in second.messages] == ["user", "assistant", "tool", "assistant"]


async def test_max_steps_ends_the_run_with_a_flag_and_answered_calls(calc):
    calc.max_steps = 2
    model = ScriptedModel(call("add", a=1, b=1), repeat=True)
    result = await run(calc, "Keep adding", provider=model)
    assert (result.steps, result.stop_reason, result.max_steps_reached) == (2, "max_steps", True)
    assert [m.role for m in result.messages] == ["user"] + ["assistant", "tool"] * 2


async def test_a_run_that_was_stopped_gives_the_last_thing_said(calc):
    calc.max_steps = 1
    reply = ModelResponse(content="Let me see.", tool_calls=[call("add", a=1, b=1)])
    result = await run(calc, "go", provider=ScriptedModel(reply))
    assert result.output == "Let me see."


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (TaskConfig(total_tokens=30), 2),
        (TaskConfig(total_tokens=31), 3),
        (TaskConfig(input_tokens=10), 1),
        (TaskConfig(output_tokens=11), 3),
        (TaskConfig(model_calls=4), 4),
    ],
)
async def test_a_usage_limit_forbids_the_next_model_call(calc, limit, steps):
    model = ScriptedModel(call("add", a=1, b=1), repeat=True)
    result = await run(calc, "go", provider=model, config=limit)
    assert (result.steps, result.stop_reason) == (steps, "usage_limit")
    assert result.messages[-1].role == "tool"


async def test_a_timeout_ends_the_run_and_answers_the_running_call():
    @tool
    async def never() -> str:
        """Never come back."""
        await asyncio.Event().wait()
        return ""

    agent = Agent(name="a", tools=[add, never])
    model = ScriptedModel([call("add", a=1, b=2), call("never")])
    result = await run(agent, "go", provider=model, config=TaskConfig(timeout=0.05))
    assert result.stop_reason == "timeout"
    assert [(m.content, m.error) for m in result.messages[2:]] == [
        ("3", None),
        ("", "no result: the run ended before the tool did"),
    ]


async def test_a_timeout_of_the_tools_own_is_an_error_the_model_sees():
    @tool
    async def slow() -> str:
        """Time out."""
        raise TimeoutError("the server is slow")

    model = ScriptedModel(call("slow"), "sorry")
    agent = Agent(name="a", tools=[slow])
    result = await run(agent, "go", provider=model, config=TaskConfig(timeout=60))
    assert (result.output, result.stop_reason) == ("sorry", "completed")


async def test_a_cancelled_run_is_told_to_its_hooks_with_answered_calls():
    started = asyncio.Event()

    @tool
    async def never() -> str:
        """Never come back."""
        started.set()
        await asyncio.Event().wait()
        return ""

    seen = []
    hooks = [Hook(HookPoint.ERROR, seen.append)]
    agent = Agent(name="a", tools=[never], hooks=hooks)
    task = asyncio.create_task(run(agent, "go", provider=ScriptedModel(call("never"))))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [event] = seen
    assert isinstance(event.error, asyncio.CancelledError)
    assert [m.role for m in event.messages] == ["user", "assistant", "tool"]


async def test_calls_without_ids_get_some_that_no_other_step_has(calc):
    bare = ToolCall(id="", name="add", arguments='{"a": 1, "b": 1}')
    replies = [ModelResponse(tool_calls=[bare, bare]), ModelResponse(tool_calls=[bare]), "done"]
    result = await run(calc, "go", provider=ScriptedModel(*replies))
    ids = [c.id for m in result.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert len(set(ids)) == 3
    assert "" not in ids


async def test_many_agents_run_on_one_event_loop(calc):
    model = ScriptedModel(
        lambda messages: messages[-1].content if len(messages) == 4 else call("add", a=1, b=1),
        repeat=True,
    )
    results = await asyncio.gather(*(run(calc, str(n), provider=model) for n in range(200)))
    assert {result.output for result in results} == {"2"}
    assert [result.messages[0].content for result in results] == [str(n) for n in range(200)]


def test_run_sync_needs_no_event_loop(calc):
    result = run.sync(calc, "2 + 3", provider=ScriptedModel(call("add", a=2, b=3), "5"))
    assert result.output == "5"


class Report(BaseModel):
    title: str
    pages: int


class TestOutputType:
    @pytest.fixture
    def writer(self) -> Agent:
        return Agent(name="writer", instructions="Write.", output_type=Report)

    @pytest.mark.parametrize(
        "text",
        ['{"title": "Q", "pages": 3}', '```json\n{"title": "Q", "pages": 3}\n```\n'],
    )
    async def test_the_output_is_an_instance(self, writer, text):
        result = await run(writer, "go", provider=ScriptedModel(text))
        assert result.output == Report(title="Q", pages=3)
        assert result.messages[-1].content == text

    async def test_a_model_without_structured_output_finds_the_schema_in_its_prompt(self, writer):
        model = ScriptedModel('{"title": "Q", "pages": 3}')
        await run(writer, "go", provider=model)
        prompt = model.requests[0].messages[0].content
        assert prompt.startswith("Write.\n\nAnswer with JSON only")
        assert '"pages"' in prompt

    async def test_a_model_with_structured_output_gets_the_schema_itself(self, writer):
        class Structured(ScriptedModel):
            structured_output = True

            async def complete(self, messages, *, output_schema=None, **options):
                schemas.append(output_schema)
                return await super().complete(messages, **options)

        schemas: list[dict] = []
        model = Structured('{"title": "Q", "pages": 3}')
        await run(writer, "go", provider=model)
        assert schemas == [Report.model_json_schema()]
        assert model.requests[0].messages[0].content == "Write."

    async def test_an_answer_that_does_not_fit_is_sent_back_for_correction(self, writer):
        model = ScriptedModel('{"title": "Q"}', '{"title": "Q", "pages": 3}')
        result = await run(writer, "go", provider=model)
        assert result.output == Report(title="Q", pages=3)
        assert result.steps == 2
        assert model.requests[1].messages[-1].content == (
            "Your answer does not fit the required JSON schema: pages: Field required. "
            "Answer with JSON only."
        )

    async def test_a_model_that_never_gets_it_right_fails_the_run(self, writer):
        with pytest.raises(OrbiterError, match="Agent 'writer' gave no valid Report: not valid"):
            await run(writer, "go", provider=ScriptedModel("no", repeat=True))
