"""Guardrails on what an agent is asked, answers and does."""

import pytest

from orbiter import Agent, run, tool
from orbiter.errors import ModelRetry
from orbiter.guardrails import Guardrail, GuardrailError
from orbiter.hooks import Hook, HookPoint
from orbiter.models import ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.types import OrbiterError

RAN: list[str] = []


@tool
async def send(to: str) -> str:
    """Send a letter."""
    RAN.append(to)
    return f"the letter to {to} has the number 4711"


@pytest.fixture(autouse=True)
def _nothing_sent():
    RAN.clear()


class NoSecrets(Guardrail):
    async def check_input(self, context, input):
        if "secret" in input:
            raise GuardrailError("the question has a secret")

    async def check_output(self, context, output):
        if "secret" in str(output):
            raise GuardrailError("the answer has a secret")


class FriendsOnly(Guardrail):
    async def check_tool_call(self, context, call):
        if "foe" in call.arguments:
            raise ModelRetry("Only friends get letters.")
        if "king" in call.arguments:
            raise GuardrailError("nobody writes to the king")


class NoNumbers(Guardrail):
    async def check_tool_result(self, context, call, result):
        if "4711" in result.content:
            raise ModelRetry("The result has a number that is none of your business.")


def agent(*guardrails, **options) -> Agent:
    return Agent(name="clerk", tools=[send], guardrails=guardrails, **options)


async def test_what_is_well_passes():
    model = ScriptedModel(call("send", to="friend"), "Sent.")
    result = await run(agent(NoSecrets(), FriendsOnly()), "Write", provider=model)
    assert (result.output, RAN) == ("Sent.", ["friend"])


async def test_an_input_that_may_not_be_asked_reaches_no_model():
    model = ScriptedModel("hi")
    with pytest.raises(GuardrailError) as stopped:
        await run(agent(NoSecrets()), "the secret is 7", provider=model)
    assert str(stopped.value) == (
        "Agent 'clerk' was stopped by NoSecrets: the question has a secret"
    )
    assert (stopped.value.reason, stopped.value.steps) == ("the question has a secret", 0)
    assert model.requests == []


@pytest.mark.parametrize(
    ("kind", "reply"), [(None, "the secret is 7"), (list[str], '{"result": ["the secret is 7"]}')]
)
async def test_an_output_that_may_not_be_given_is_not_given(kind, reply):
    finished = []
    hook = Hook(HookPoint.FINISHED, finished.append)
    guarded = Agent(name="clerk", guardrails=[NoSecrets()], hooks=[hook], output_type=kind)
    with pytest.raises(GuardrailError, match="the answer has a secret") as stopped:
        await run(guarded, "Tell", provider=ScriptedModel(reply))
    assert finished == []
    assert (stopped.value.steps, stopped.value.usage.total_tokens) == (1, 15)


async def test_what_was_said_last_by_a_run_that_was_stopped_is_looked_at_too():
    model = ScriptedModel(lambda messages: call("send", to="friend"), repeat=True)

    class Telling(Guardrail):
        async def check_output(self, context, output):
            seen.append(output)

    seen = []
    await run(agent(Telling(), max_steps=1), "Write", provider=model)
    assert seen == [""]


async def test_the_model_is_told_why_a_call_is_not_made():
    model = ScriptedModel(call("send", to="foe"), call("send", to="friend"), "Sent.")
    result = await run(agent(FriendsOnly()), "Write", provider=model)
    assert [m.error for m in result.messages if m.role == "tool"] == [
        "Tool 'send' was not called: Only friends get letters.",
        None,
    ]
    assert RAN == ["friend"]


async def test_a_call_may_end_the_run_whose_messages_stay_valid():
    calls = [call("send", to="friend"), call("send", to="king")]
    with pytest.raises(GuardrailError, match="nobody writes to the king") as stopped:
        await run(agent(FriendsOnly()), "Write", provider=ScriptedModel(calls))
    answered = {m.tool_call_id for m in stopped.value.messages if m.role == "tool"}
    assert answered == {"call_1", "call_2"}


async def test_a_result_is_kept_from_the_model():
    model = ScriptedModel(call("send", to="friend"), "Sent.")
    result = await run(agent(NoNumbers()), "Write", provider=model)
    assert "4711" not in str(model.requests[1].messages)
    [told] = [m.error for m in result.messages if m.role == "tool"]
    assert told == "The result has a number that is none of your business."


async def test_whoever_takes_over_has_guardrails_of_its_own():
    second = Agent(name="second", guardrails=[NoSecrets()])
    first = Agent(name="first", handoffs=[second])
    model = ScriptedModel(call("transfer_to_second"), "hi")
    with pytest.raises(GuardrailError, match="Agent 'second' was stopped by NoSecrets"):
        await run(first, "the secret is 7", provider=model)


async def test_an_agent_that_only_hands_off_has_no_output_to_look_at():
    seen = []

    class Telling(Guardrail):
        async def check_output(self, context, output):
            seen.append(context.agent_name)

    second = Agent(name="second", guardrails=[Telling()])
    first = Agent(name="first", handoffs=[second], guardrails=[Telling()])
    await run(first, "go", provider=ScriptedModel(call("transfer_to_second"), "hi"))
    assert seen == ["second"]


async def test_an_agent_that_is_asked_by_a_tool_and_stopped_is_an_error_of_that_tool():
    expert = Agent(name="expert", guardrails=[NoSecrets()])
    lead = Agent(name="lead", tools=[expert.as_tool()])
    model = ScriptedModel(call("expert", input="the secret?"), "Sorry.")
    result = await run(lead, "go", provider=model)
    [told] = [m.error for m in result.messages if m.role == "tool"]
    assert "was stopped by NoSecrets: the question has a secret" in told
    assert result.output == "Sorry."


def test_what_is_no_guardrail_is_refused():
    with pytest.raises(OrbiterError, match="guardrails= got the class NoSecrets"):
        Agent(name="a", guardrails=[NoSecrets])
