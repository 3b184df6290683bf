"""How a typed answer is asked for, checked and asked for again, and what a run has without one."""

import copy
import pickle

import pytest
from pydantic import BaseModel

from orbiter import Agent, Swarm, run, tool
from orbiter.config import ModelSettings, TaskConfig
from orbiter.errors import ModelRetry, RetryLimitError, UnfinishedRunError
from orbiter.models import ModelResponse, ScriptedModel, call
from orbiter.runner import OutputValidationError
from orbiter.types import OrbiterError, RunContext, RunResult


class Report(BaseModel):
    title: str
    pages: int


GOOD = {"title": "Q", "pages": 3}
REPORT = Report(**GOOD)


class ByTool(ScriptedModel):
    """A model whose vendor knows tools, but no schemas for answers."""

    structured_output = True

    def takes_schema(self, schema):
        return False


@tool
async def look(what: str) -> str:
    """Look at something."""
    LOOKED.append(what)
    return "seen"


LOOKED: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_seen():
    LOOKED.clear()


@pytest.fixture
def writer() -> Agent:
    return Agent(name="writer", instructions="Write.", output_type=Report, tools=[look])


class NotBesideTools(ScriptedModel):
    """A model whose vendor holds answers to a schema, but in no call that has tools."""

    structured_output = True
    schema_beside_tools = False

    async def complete(self, messages, *, output_schema=None, **options):
        self.held_to = [*getattr(self, "held_to", ()), output_schema]
        return await super().complete(messages, **options)


class TestVendorsWithoutSchemasBesideTools:
    async def test_beside_tools_the_answer_is_a_tool_call(self, writer):
        model = NotBesideTools(call("look", what="x"), call("final_answer", **GOOD))
        assert (await run(writer, "go", provider=model)).output == REPORT
        assert model.held_to == [None, None]

    async def test_without_tools_it_is_held_to_the_schema(self):
        model = NotBesideTools('{"title": "Q", "pages": 3}')
        agent = Agent(name="a", output_type=Report)
        assert (await run(agent, "go", provider=model)).output == REPORT
        assert not model.requests[0].tools
        assert model.held_to == [agent.output_schema]

    async def test_who_holds_no_answer_to_a_schema_is_told_it_beside_tools_too(self, writer):
        model = NotBesideTools('{"title": "Q", "pages": 3}')
        model.structured_output = False
        assert (await run(writer, "go", provider=model)).output == REPORT
        assert '"pages"' in model.requests[0].messages[0].content


class TestAChoiceOfTools:
    @pytest.mark.parametrize(
        ("choice", "sent", "offered"),
        [
            ("required", "required", ["look"]),
            ("look", "look", ["look", "final_answer"]),
            ("none", None, ["final_answer"]),
        ],
    )
    async def test_it_is_one_of_the_agents_own_tools(self, writer, choice, sent, offered):
        model = ByTool(call("final_answer", **GOOD))
        settings = ModelSettings(tool_choice=choice)
        assert (await run(writer, "go", provider=model, settings=settings)).output == REPORT
        request = model.requests[0]
        assert request.settings.tool_choice == sent
        assert [tool["function"]["name"] for tool in request.tools] == offered


class TestAnswersByToolCall:
    async def test_the_answer_is_a_tool_with_the_schema(self, writer):
        model = ByTool(call("look", what="x"), call("final_answer", **GOOD))
        result = await run(writer, "go", provider=model)
        assert result.output == REPORT
        assert LOOKED == ["x"]
        request = model.requests[0]
        offered = [tool["function"]["name"] for tool in request.tools]
        assert offered == ["look", "final_answer"]
        assert request.tools[1]["function"]["parameters"] == Report.model_json_schema()
        assert request.messages[0].content.startswith("Write.\n\nGive your final answer by calling")
        assert "JSON" not in request.messages[0].content

    async def test_the_conversation_is_valid_and_goes_on(self, writer):
        result = await run(writer, "go", provider=ByTool(call("final_answer", **GOOD)))
        assert [m.role for m in result.messages] == ["user", "assistant", "tool"]
        again = await run(
            Agent(name="b"), "and now?", messages=result.messages, provider=ScriptedModel("Well.")
        )
        assert again.output == "Well."

    async def test_calls_beside_the_answer_are_not_made(self, writer):
        model = ByTool([call("look", what="x"), call("final_answer", **GOOD)])
        result = await run(writer, "go", provider=model)
        assert (result.output, LOOKED) == (REPORT, [])
        assert "the final answer came with it" in result.messages[2].error

    async def test_an_answer_that_does_not_fit_is_told_as_the_calls_error(self, writer):
        model = ByTool(
            [call("final_answer", title="Q"), call("look", what="x")], call("final_answer", **GOOD)
        )
        result = await run(writer, "go", provider=model)
        assert (result.output, LOOKED) == (REPORT, ["x"])
        assert result.messages[2].error == (
            "The answer was not accepted: pages: Field required\n"
            "Try again; 1 more try is left after that."
        )

    async def test_a_model_that_never_gets_it_right_fails_the_run(self, writer):
        model = ByTool([call("final_answer"), call("look", what="x")], repeat=True)
        with pytest.raises(OutputValidationError, match="no valid Report: title: Field req") as e:
            await run(writer, "go", provider=model)
        assert len(model.requests) == 3
        results = {m.tool_call_id for m in e.value.messages if m.role == "tool"}
        assert {c.id for m in e.value.messages[1::3] for c in m.tool_calls} == results

    async def test_an_answer_as_text_is_taken_too(self, writer):
        result = await run(writer, "go", provider=ByTool(REPORT.model_dump_json()))
        assert result.output == REPORT

    async def test_other_text_is_answered_with_how_to_answer(self, writer):
        model = ByTool("Here you are.", call("final_answer", **GOOD))
        assert (await run(writer, "go", provider=model)).output == REPORT
        assert "calling the tool `final_answer`" in model.requests[1].messages[-1].content

    async def test_a_stream_tells_the_answer_as_text_and_no_call(self, writer):
        model = ByTool(call("look", what="x"), call("final_answer", **GOOD))
        events = [event async for event in run.stream(writer, "go", provider=model)]
        assert [e.tool_name for e in events if e.type in ("tool_call", "tool_result")] == [
            "look"
        ] * 2
        assert [e.text for e in events if e.type == "text"] == ['{"title": "Q", "pages": 3}']
        assert events[-1].result.output == REPORT

    async def test_a_tool_of_that_name_stays_the_agents(self):
        @tool(name="final_answer")
        async def mine() -> str:
            """Do something else."""
            return "done"

        agent = Agent(name="a", output_type=int, tools=[mine])
        model = ByTool(call("final_answer"), call("final_answer_", result=4))
        result = await run(agent, "go", provider=model)
        assert (result.output, result.messages[2].content) == (4, "done")

    async def test_a_forced_call_may_be_the_answer(self, writer):
        model = ByTool(call("final_answer", **GOOD))
        settings = ModelSettings(tool_choice="required")
        assert (await run(writer, "go", provider=model, settings=settings)).output == REPORT


class TestOutputValidators:
    async def test_they_see_the_output_in_order_and_return_it(self):
        agent = Agent(name="a", output_type=int, output_validators=[lambda n: n + 1])

        @agent.output_validator
        async def double(context: RunContext[int], number: int) -> int:
            return number * context.deps

        result = await run(agent, "go", deps=10, provider=ScriptedModel("3"))
        assert result.output == 40

    async def test_they_check_text_too(self):
        agent = Agent(name="a", output_validators=[str.strip])
        assert (await run(agent, "go", provider=ScriptedModel(" hi "))).output == "hi"

    async def test_what_one_wants_is_told_to_the_model_with_its_tries(self):
        def short(text: str) -> str:
            if len(text) > 3:
                raise ModelRetry("At most three letters.")
            return text

        agent = Agent(name="a", output_validators=[short])
        model = ScriptedModel("hello", "hi")
        assert (await run(agent, "go", provider=model)).output == "hi"
        assert model.requests[1].messages[-1].content == (
            "Your answer was not accepted: At most three letters.\n"
            "Try again; 1 more try is left after that."
        )

    @pytest.mark.parametrize("retries", [0, 2, 4])
    async def test_a_run_asks_so_often_and_no_more(self, retries):
        def never(text: str) -> str:
            raise ModelRetry("No.")

        agent = Agent(name="a", output_validators=[never], retries=retries)
        model = ScriptedModel("x", repeat=True)
        with pytest.raises(OutputValidationError, match=r"gave no valid output: No\."):
            await run(agent, "go", provider=model)
        assert len(model.requests) == retries + 1

    async def test_another_exception_of_one_ends_the_run(self):
        def broken(text: str) -> str:
            raise ZeroDivisionError

        agent = Agent(name="a", output_validators=[broken])
        with pytest.raises(ZeroDivisionError):
            await run(agent, "go", provider=ScriptedModel("x"))

    @pytest.mark.parametrize(
        "given",
        [5, lambda: 1, lambda a, b, c: a, lambda *a: a],
        ids=["a number", "takes nothing", "takes three", "takes any"],
    )
    def test_what_cannot_check_an_output_is_refused(self, given):
        with pytest.raises(OrbiterError, match=r"^Agent 'a': output_validators= got .*: give"):
            Agent(name="a", output_validators=[given])


class TestToolsThatWantAnotherTry:
    @staticmethod
    def agent(**options) -> Agent:
        @tool
        async def find(name: str) -> str:
            """Find a person."""
            if name != "Ada Lovelace":
                raise ModelRetry(f"{name!r} is no full name")
            return "found"

        return Agent(name="a", tools=[find, look], **options)

    async def test_the_model_is_told_why_and_how_often_it_may(self):
        model = ScriptedModel(call("find", name="Ada"), call("find", name="Ada Lovelace"), "Yes.")
        result = await run(self.agent(), "go", provider=model)
        assert result.output == "Yes."
        assert result.messages[2].error == (
            "'Ada' is no full name\nTry again; 1 more try is left after that."
        )

    async def test_the_run_fails_when_it_was_told_often_enough(self):
        calls = [call("find", name="Ada"), call("look", what="x")]
        model = ScriptedModel(calls, repeat=True)
        with pytest.raises(RetryLimitError, match=r"called 'find' 2 times .*: 'Ada' is") as caught:
            await run(self.agent(retries=1), "go", provider=model)
        assert (caught.value.tool_name, len(model.requests)) == ("find", 2)
        # what ran beside it has its result
        assert [m.content for m in caught.value.messages if m.role == "tool"] == ["", "seen"] * 2

    def test_a_number_of_tries_below_none_is_refused(self):
        with pytest.raises(OrbiterError, match="retries"):
            Agent(name="a", retries=-1)


class TestRunsWithoutTheirOutput:
    @staticmethod
    async def stopped(agent: Agent, **options) -> RunResult:
        looking = ModelResponse(content="Let me look.", tool_calls=[call("look", what="x")])
        return await run(agent, "go", provider=ScriptedModel(looking, repeat=True), **options)

    @pytest.mark.parametrize(
        ("options", "reason"),
        [({}, "max_steps"), ({"config": TaskConfig(model_calls=1)}, "usage_limit")],
    )
    async def test_only_reading_the_output_of_a_typed_run_raises(self, options, reason):
        agent = Agent(name="writer", output_type=Report, tools=[look], max_steps=2)
        result = await self.stopped(agent, **options)
        assert isinstance(result, RunResult)
        assert result.stop_reason == reason
        assert result.output_or_text == "Let me look."
        with pytest.raises(UnfinishedRunError, match=rf"'writer' has no output.*\({reason}\)") as e:
            result.output  # noqa: B018
        assert (e.value.messages, e.value.steps) == (result.messages, result.steps)
        assert (e.value.agent_name, e.value.stop_reason) == ("writer", reason)

    async def test_an_untyped_one_keeps_the_text_so_far(self):
        result = await self.stopped(Agent(name="a", tools=[look], max_steps=1))
        assert result.output == result.output_or_text == "Let me look."

    async def test_an_unfinished_result_can_be_written_copied_and_shown(self):
        agent = Agent(name="a", output_type=Report, tools=[look], max_steps=1)
        result = await self.stopped(agent)
        assert result.model_dump()["output"] == "Let me look."
        assert RunResult.model_validate_json(result.model_dump_json()).stop_reason == "max_steps"
        assert "max_steps" in repr(result)
        for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert other == result
            with pytest.raises(UnfinishedRunError):
                other.output  # noqa: B018

    async def test_a_stream_ends_with_such_a_result(self):
        agent = Agent(name="a", output_type=Report, tools=[look], max_steps=1)
        stream = run.stream(
            agent, "go", provider=ScriptedModel(call("look", what="x"), repeat=True)
        )
        events = [event async for event in stream]
        assert events[-1].model_dump(mode="json")["result"]["stop_reason"] == "max_steps"
        for result in (events[-1].result, stream.result):
            with pytest.raises(UnfinishedRunError):
                result.output  # noqa: B018

    async def test_what_is_joined_of_several_agents_is_text(self):
        agents = [Agent(name=n, output_type=Report, tools=[look], max_steps=1) for n in "ab"]
        result = await self.stopped(Swarm(agents=agents, flow="(a | b)"))
        assert result.stop_reason == "max_steps"
        assert result.output.startswith("[a]\nLet me look.")
