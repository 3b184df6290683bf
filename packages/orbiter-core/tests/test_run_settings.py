"""Settings of agent, run and call: who wins, what is sent, who is asked."""

import copy
import pickle

import pytest
from pydantic import ValidationError

from orbiter import Agent, Swarm, run, tool
from orbiter.config import DEFAULT_TEMPERATURE, AgentConfig, ModelSettings
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelProvider,
    ModelResponse,
    ScriptedModel,
    call,
)
from orbiter.runner import OutputValidationError
from orbiter.types import OrbiterError, Usage, UserMessage


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class FourArguments(ModelProvider):
    """A provider of an application, written before there were settings."""

    def __init__(self) -> None:
        self.asked: list[tuple] = []

    async def complete(self, messages, *, tools=None, temperature=None, max_tokens=None):
        self.asked.append((temperature, max_tokens))
        return ModelResponse(content="hello")


async def sent(agent: Agent, **options) -> list:
    model = ScriptedModel("hello")
    await run(agent, "hi", provider=model, **options)
    return model.requests


async def test_nobody_is_sent_the_temperature_that_nobody_gave():
    agent = Agent(name="a")
    [request] = await sent(agent)
    assert (agent.temperature, request.temperature) == (1.0, None)
    assert request.settings is None
    assert "temperature" not in agent.config.model_fields_set


@pytest.mark.parametrize(
    "options", [{"temperature": 1.0}, {"settings": ModelSettings(temperature=1.0)}]
)
async def test_a_temperature_of_one_counts_when_somebody_gave_it(options):
    [request] = await sent(Agent(name="a", **options))
    assert request.temperature == 1.0


@pytest.mark.parametrize("carried", [lambda a: pickle.loads(pickle.dumps(a)), copy.deepcopy])
@pytest.mark.parametrize("given", [None, 1.0, 0.5])
async def test_an_agent_that_is_carried_elsewhere_sends_what_it_was_given(carried, given):
    agent = Agent(name="a") if given is None else Agent(name="a", temperature=given)
    [request] = await sent(carried(agent))
    assert request.temperature == given


@pytest.mark.parametrize(
    "settings",
    [
        ModelSettings(),
        ModelSettings(temperature=1.0),
        ModelSettings(top_p=0.5, stop="end", extra_body={"a": 1}),
        ModelSettings(max_tokens=None),
    ],
)
def test_settings_read_back_from_json_say_what_was_given_and_no_more(settings):
    back = ModelSettings.model_validate_json(settings.model_dump_json())
    assert back == settings
    assert back.model_fields_set == settings.model_fields_set
    assert ModelSettings(**settings.model_dump()).model_fields_set == settings.model_fields_set


class Asks:
    """A context that asks the model something of its own in each run."""

    def __init__(self, **options) -> None:
        self.options = options
        self.model = ""

    async def start_run(self, *, agent_name, input, history, provider):
        self.model = provider.model
        reply = await provider.complete([UserMessage(content="sum it up")], **self.options)
        assert reply.content == "a summary"
        return history

    async def process(self, event, payload):
        pass

    def record_step(self, agent_name, usage):
        pass

    async def finish_run(self, *, agent_name, messages, output):
        pass


@pytest.mark.parametrize("own", [{}, {"max_tokens": 9}])
async def test_what_a_context_asks_counts_and_reaches_the_model_as_the_run_does(own):
    usages = [Usage(input_tokens=n, output_tokens=1, total_tokens=n + 1) for n in (40, 2)]
    model = ScriptedModel(
        ModelResponse(content="a summary", usage=usages[0]),
        ModelResponse(content="hello", usage=usages[1]),
    )
    way = {"timeout": 3.0, "extra_headers": {"x-team": "a"}, "http_client": "a client"}
    settings = ModelSettings(top_p=0.5, stop="end", extra_body={"a": 1}, **way)
    context = Asks(**own)
    agent = Agent(name="a", context=context, settings=settings)
    result = await run(agent, "hi", provider=model)
    asked, answered = model.requests
    assert asked.settings.given == way
    assert asked.max_tokens == own.get("max_tokens")
    assert answered.settings == settings
    assert result.usage == usages[0] + usages[1]
    assert context.model == model.model


async def test_what_a_context_asks_of_a_model_of_ones_own_has_no_settings():
    class Own:
        model = "own"

        async def complete(self, messages, *, tools=None, temperature=None, max_tokens=None):
            return ModelResponse(content="a summary")

    result = await run(Agent(name="a", context=Asks()), "hi", provider=Own())
    assert result.output == "a summary"


async def test_a_temperature_that_is_passed_on_unset_stays_unset():
    first = Agent(name="a")
    [request] = await sent(Agent(name="b", temperature=first.temperature))
    assert request.temperature is None
    assert AgentConfig(name="a").temperature is DEFAULT_TEMPERATURE


async def test_an_agents_settings_are_its_temperature_and_tokens_too():
    agent = Agent(name="a", settings=ModelSettings(temperature=0.3, max_tokens=7))
    assert (agent.temperature, agent.max_tokens) == (0.3, 7)
    agent.temperature = 0.9
    [request] = await sent(agent)
    assert (request.temperature, request.max_tokens, request.settings) == (0.9, 7, None)


@pytest.mark.parametrize(("field", "value"), [("temperature", 0.5), ("max_tokens", 5)])
def test_one_value_in_two_places_of_an_agent_is_refused(field, value):
    with pytest.raises(OrbiterError, match=rf"Agent 'a': settings= has {field}.*give it once"):
        Agent(name="a", settings=ModelSettings(**{field: value}), **{field: value})


async def test_the_runs_settings_go_before_the_agents():
    agent = Agent(
        name="a",
        temperature=0.2,
        settings=ModelSettings(top_p=0.5, seed=1, extra_headers={"a": "1", "b": "1"}),
    )
    given = ModelSettings(temperature=0.9, seed=2, max_tokens=9, extra_headers={"b": "2"})
    [request] = await sent(agent, settings=given)
    assert (request.temperature, request.max_tokens) == (0.9, 9)
    assert request.settings.given == {
        "top_p": 0.5, "seed": 2, "extra_headers": {"a": "1", "b": "2"}
    }  # fmt: skip


async def test_none_takes_back_what_the_agent_gave():
    agent = Agent(name="a", max_tokens=5, settings=ModelSettings(top_p=0.5))
    [request] = await sent(agent, settings=ModelSettings(top_p=None, max_tokens=None))
    assert (request.max_tokens, request.settings) == (None, None)


async def test_a_context_has_settings_of_one_call():
    class Cold:
        calls = 0

        async def start_run(self, *, history, **given):
            return history

        async def process(self, event, payload):
            if event == "pre_llm_call":
                self.calls += 1
                if self.calls == 1:
                    payload["settings"] = ModelSettings(temperature=0.0, seed=7)

        def record_step(self, agent_name, usage): ...

        async def finish_run(self, **given): ...

    agent = Agent(name="a", tools=[add], context=Cold(), settings=ModelSettings(seed=1))
    model = ScriptedModel(call("add", a=1, b=2), "3")
    await run(agent, "1 + 2", provider=model)
    assert [(r.temperature, r.settings.seed) for r in model.requests] == [(0.0, 7), (None, 1)]


async def test_all_three_ways_to_run_take_settings():
    settings = ModelSettings(top_p=0.5)
    model = ScriptedModel("hello")
    async for _ in run.stream(Agent(name="a"), "hi", provider=model, settings=settings):
        pass
    assert model.requests[0].settings.top_p == 0.5


def test_run_sync_takes_settings():
    model = ScriptedModel("hello")
    run.sync(Agent(name="a"), "hi", provider=model, settings=ModelSettings(top_p=0.5))
    assert model.requests[0].settings.top_p == 0.5


async def test_every_agent_of_a_swarm_has_the_runs_settings():
    swarm = Swarm(agents=[Agent(name="a"), Agent(name="b", settings=ModelSettings(seed=3))])
    model = ScriptedModel("x", "y")
    await run(swarm, "hi", provider=model, settings=ModelSettings(top_p=0.5))
    assert [r.settings.given for r in model.requests] == [
        {"top_p": 0.5},
        {"top_p": 0.5, "seed": 3},
    ]


@pytest.mark.parametrize("choice", ["required", "add"])
@pytest.mark.parametrize("place", ["agent", "run"])
async def test_a_forced_call_is_forced_once(choice, place):
    settings = ModelSettings(tool_choice=choice, seed=1)
    agent = Agent(name="a", tools=[add], settings=settings if place == "agent" else None)
    model = ScriptedModel(call("add", a=1, b=2), call("add", a=3, b=3), "6", repeat=True)
    given = {"settings": settings} if place == "run" else {}
    await run(agent, "1 + 2", provider=model, **given)
    assert [r.settings.tool_choice for r in model.requests] == [choice, None, None]
    assert [r.settings.seed for r in model.requests] == [1, 1, 1]
    await run(agent, "1 + 2", provider=model, **given)
    assert model.requests[3].settings.tool_choice == choice


async def test_a_run_forces_no_call_of_the_agent_that_took_over():
    target = Agent(name="billing")
    triage = Agent(name="triage", handoffs=[target])
    model = ScriptedModel(call("transfer_to_billing"), "done")
    choice = ModelSettings(tool_choice="transfer_to_billing")
    await run(triage, "refund", provider=model, settings=choice)
    assert [r.settings and r.settings.tool_choice for r in model.requests] == [
        "transfer_to_billing", None
    ]  # fmt: skip


async def test_what_forces_no_call_holds_for_the_whole_run():
    agent = Agent(name="a", tools=[add], settings=ModelSettings(tool_choice="auto"))
    model = ScriptedModel(call("add", a=1, b=2), "3")
    await run(agent, "1 + 2", provider=model)
    assert [r.settings.tool_choice for r in model.requests] == ["auto", "auto"]


@pytest.mark.parametrize(
    ("tools", "choice", "told"),
    [([add], "ad", "its tools are: add"), ([], "required", "its tools are: none")],
)
async def test_a_tool_that_is_not_there_cannot_be_forced(tools, choice, told):
    agent = Agent(name="a", tools=tools)
    with pytest.raises(OrbiterError, match=f"Agent 'a': tool_choice is '{choice}', {told}"):
        await sent(agent, settings=ModelSettings(tool_choice=choice))


async def test_a_provider_of_four_arguments_works_for_ever():
    provider = FourArguments()
    agent = Agent(name="a", settings=ModelSettings(temperature=0.3))
    await run(agent, "hi", provider=provider, settings=ModelSettings(max_tokens=5))
    await run(Agent(name="b"), "hi", provider=provider)
    assert provider.asked == [(0.3, 5), (None, None)]


async def test_a_setting_it_does_not_take_is_named():
    with pytest.raises(OrbiterError) as caught:
        await run(
            Agent(name="a"), "hi", provider=FourArguments(), settings=ModelSettings(top_p=0.5)
        )
    assert str(caught.value) == (
        "Agent 'a': FourArguments does not take the setting 'top_p': leave it out, or say "
        "`settings = True` in the class and take `settings` in `complete` and `stream`"
    )


async def test_an_answer_that_is_cut_off_names_the_runs_limit():
    from pydantic import BaseModel

    class Report(BaseModel):
        title: str

    reply = ModelResponse(content="{", finish_reason="length")
    with pytest.raises(OutputValidationError, match="cut off at 9 output tokens"):
        await run(
            Agent(name="a", output_type=Report),
            "hi",
            provider=ScriptedModel(reply),
            settings=ModelSettings(max_tokens=9),
        )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"top_k": 3}, "top_k\n  Extra inputs are not permitted"),
        ({"temperature": 3}, "less than or equal to 2"),
        ({"stop": 3}, "stop"),
        ({"tool_choice": ""}, "tool_choice"),
        ({"reasoning_effort": "hard"}, "reasoning_effort"),
        ({"timeout": 0}, "timeout"),
        ({"thinking_budget": 2000, "reasoning_effort": "low"}, "not both"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, told):
    with pytest.raises(ValidationError, match=told):
        ModelSettings(**given)


def test_what_is_no_settings_is_refused_where_it_is_given():
    with pytest.raises(OrbiterError, match=r"Agent 'a': settings= got a dict with top_p: give"):
        Agent(name="a", settings={"top_p": 0.5})
    with pytest.raises(OrbiterError, match=r"run\(settings=...\) got a dict with top_p: give"):
        run.stream(Agent(name="a"), "hi", settings={"top_p": 0.5})


def test_a_later_way_to_think_takes_the_place_of_the_earlier():
    budget = ModelSettings(thinking_budget=2000)
    effort = ModelSettings(reasoning_effort="low")
    assert budget.merged(effort).given == {"reasoning_effort": "low"}
    assert effort.merged(budget).given == {"thinking_budget": 2000}


def test_one_stop_may_be_given_as_it_is():
    assert ModelSettings(stop="END").stop == ("END",)


def test_what_may_be_secret_is_not_shown():
    settings = ModelSettings(
        extra_headers={"x": "s3cret"}, extra_body={"y": "s3cret"}, http_client="s3cret"
    )
    assert "s3cret" not in repr(settings)
    with pytest.raises(ValidationError, match="frozen"):
        settings.seed = 1
