"""A call that waits for a person: the run pauses, its siblings have run, and it goes on."""

import json
from typing import Any

import pytest
from support.shop import Shop, clerk, paused, results

from orbiter import Agent, Tool, run, tool
from orbiter.approval import InputAnswer, ask_user, digest, requests_of
from orbiter.config import TaskConfig
from orbiter.errors import UnfinishedRunError
from orbiter.hooks import Hook, HookEvent, HookPoint
from orbiter.models import ScriptedModel, call
from orbiter.tool import ToolDefinitionError
from orbiter.types import OrbiterError, ToolCall, ToolResult, UserMessage


async def test_a_call_waits_while_its_two_siblings_run_once_and_the_run_goes_on():
    shop = Shop()
    model, first = await paused(
        shop, call("look", order=1), call("refund", order=7), call("look", order=2)
    )
    assert first.stop_reason == "input_required"
    assert shop.did == ["look 1", "look 2"]
    (request,) = first.requests
    assert (request.kind, request.expires) == ("approval", None)
    assert [(c.tool, c.arguments) for c in request.calls] == [("refund", {"order": 7})]
    assert request.calls[0].digest == digest("refund", {"order": 7})

    last = await run(
        clerk(shop), "", provider=model, resume=first.paused, answers=[request.approve(by="ada")]
    )
    assert (last.output, last.stop_reason) == ("it is done", "completed")
    assert shop.did == ["look 1", "look 2", "refund 7 5"]
    assert (last.requests, last.paused) == ((), None)
    assert results(last) == {
        "call_1": "order 1: a lamp", "call_2": "refunded", "call_3": "order 2: a lamp"
    }  # fmt: skip
    assert [m.role for m in last.messages] == [
        "user", "assistant", "tool", "tool", "tool", "assistant"
    ]  # fmt: skip
    assert (last.steps, last.usage.total_tokens) == (2, 30)


async def test_the_messages_of_a_paused_run_are_closed():
    _, first = await paused(Shop())
    assert results(first) == {"call_1": "not called yet: a person has to answer first"}
    model = ScriptedModel("hello")
    again = await run(Agent(name="other"), "hi", messages=first.messages, provider=model)
    assert again.output == "hello"


async def test_what_is_denied_is_told_to_the_model_with_its_reason():
    shop = Shop()
    model, first = await paused(shop)
    answer = first.requests[0].deny("it is too expensive", by="ada")
    last = await run(clerk(shop), "", provider=model, resume=first.paused, answers=[answer])
    said = "Tool 'refund' was not called: a person denied it: it is too expensive"
    assert results(last) == {"call_1": said}
    assert model.requests[-1].messages[-1] == ToolResult(
        tool_call_id="call_1", tool_name="refund", error=said
    )
    assert shop.did == []


async def test_edited_arguments_are_used_and_the_model_is_told():
    shop = Shop()
    seen: list[str] = []

    def note(event: HookEvent) -> None:
        assert event.tool_call is not None
        seen.append(event.tool_call.arguments)

    model, first = await paused(shop)
    answer = first.requests[0].approve(arguments={"order": 7, "amount": 2})
    last = await run(
        clerk(shop, hooks=[Hook(HookPoint.PRE_TOOL_CALL, note)]),
        "",
        provider=model,
        resume=first.paused,
        answers=[answer],
    )
    assert shop.did == ["refund 7 2"]
    assert seen == ['{"amount":2,"order":7}']
    said = '(A person changed the arguments to {"amount":2,"order":7}.)\nrefunded'
    assert results(last) == {"call_1": said}


async def test_edited_arguments_that_do_not_fit_are_refused_before_anything_runs():
    shop = Shop()
    model, first = await paused(shop, call("refund", order=7), call("refund", order=8))
    one, two = first.requests
    wrong = [one.approve(), two.approve(arguments={"order": "many"})]
    with pytest.raises(OrbiterError, match="what it does not take: order: "):
        await run(clerk(shop), "", provider=model, resume=first.paused, answers=wrong)
    assert shop.did == []
    right = [one.approve(), two.approve(arguments={"order": 9})]
    await run(clerk(shop), "", provider=model, resume=first.paused, answers=right)
    assert sorted(shop.did) == ["refund 7 5", "refund 9 5"]


async def test_a_question_of_the_model_is_answered_by_a_person():
    agent = Agent(name="clerk", tools=[ask_user])
    model = ScriptedModel(call("ask_user", question="Which lamp?"), "the red one, then")
    first = await run(agent, "order it", provider=model)
    (request,) = first.requests
    assert (request.kind, request.text) == ("question", "Which lamp?")
    answers = [request.answer("the red one")]
    last = await run(agent, "", provider=model, resume=first.paused, answers=answers)
    assert results(last) == {"call_1": "the red one"}
    assert last.output == "the red one, then"


async def test_a_function_of_the_arguments_says_which_calls_wait():
    spent: list[float] = []

    async def large(arguments: Any) -> bool:
        return bool(arguments["amount"] > 10)

    @tool(approval=large)
    def pay(amount: float) -> str:
        """Pay."""
        spent.append(amount)
        return "paid"

    model = ScriptedModel([call("pay", amount=5), call("pay", amount=50)], "done")
    first = await run(Agent(name="clerk", tools=[pay]), "pay", provider=model)
    assert spent == [5.0]
    assert [r.calls[0].arguments for r in first.requests] == [{"amount": 50}]


async def test_a_function_that_fails_has_a_person_asked(caplog: pytest.LogCaptureFixture):
    @tool(approval=lambda arguments: arguments["price"] > 10)
    def pay(amount: float) -> str:
        """Pay."""
        raise AssertionError(amount)

    model = ScriptedModel(call("pay", amount=5))
    first = await run(Agent(name="clerk", tools=[pay]), "pay", provider=model)
    assert first.stop_reason == "input_required"
    assert "approval of tool 'pay' failed" in caplog.text


async def test_a_class_of_tools_may_judge_by_a_method():
    class Pay(Tool):
        """Pay."""

        def approval(self, arguments: Any) -> bool:
            return bool(arguments["amount"] > 10)

        async def execute(self, amount: float) -> str:
            return f"paid {amount:g}"

    agent = Agent(name="clerk", tools=[Pay()])
    result = await run(agent, "", provider=ScriptedModel(call("Pay", amount=5), "done"))
    assert results(result) == {"call_1": "paid 5"}
    waits = await run(agent, "", provider=ScriptedModel(call("Pay", amount=50)))
    assert waits.stop_reason == "input_required"


@pytest.mark.parametrize("arguments", ['{"order": NaN}', '{"order": 1', '["order"]', '{"o": 1}'])
async def test_arguments_that_nobody_could_be_shown_go_back_to_the_model(arguments: str):
    shop = Shop()
    model = ScriptedModel(ToolCall(id="c", name="refund", arguments=arguments), "sorry")
    result = await run(clerk(shop), "hi", provider=model)
    assert result.stop_reason == "completed"
    assert results(result)["c"].startswith("Tool 'refund' was not called, arguments: ")
    assert shop.did == []


async def test_what_is_shown_is_what_runs_when_a_name_stands_twice():
    shop = Shop()
    twice = '{"order": 1, "amount": 1, "amount": 99}'
    model = ScriptedModel(ToolCall(id="c", name="refund", arguments=twice), "done")
    first = await run(clerk(shop), "hi", provider=model)
    (request,) = first.requests
    shown = request.calls[0].arguments
    await run(clerk(shop), "", provider=model, resume=first.paused, answers=[request.approve()])
    assert shop.did == [f"refund {shown['order']} {shown['amount']}"]


async def test_without_an_answer_in_time_a_call_is_denied():
    shop = Shop()
    model = ScriptedModel(call("refund", order=7), "too bad")
    config = TaskConfig(input_timeout=1e-6)
    first = await run(clerk(shop), "hi", provider=model, config=config)
    expires = first.requests[0].expires
    assert expires is not None
    last = await run(clerk(shop), "", provider=model, resume=first.paused)
    assert results(last) == {
        "call_1": "Tool 'refund' was not called: nobody answered until "
        f"{expires:%Y-%m-%d %H:%M} UTC"
    }


@pytest.mark.parametrize("said", ["approve", "edit", "deny"])
async def test_an_answer_that_comes_too_late_is_none(said: str) -> None:
    shop = Shop()
    model = ScriptedModel(call("refund", order=7), "too bad")
    config = TaskConfig(input_timeout=1e-6)
    first = await run(clerk(shop), "hi", provider=model, config=config)
    (request,) = first.requests
    late = {
        "approve": request.approve(),
        "edit": request.approve(arguments={"order": 8}),
        "deny": request.deny("no"),
    }[said]
    last = await run(clerk(shop), "", provider=model, resume=first.paused, answers=[late])
    assert shop.did == []
    assert results(last)["call_1"].startswith("Tool 'refund' was not called: nobody answered until")


async def test_the_output_of_a_typed_run_that_waits_says_how_it_goes_on():
    _, first = await paused(Shop(), output_type=int)
    with pytest.raises(UnfinishedRunError, match=r"resume=result\.paused"):
        assert first.output


def test_a_tool_says_at_definition_that_its_approval_is_none():
    with pytest.raises(ToolDefinitionError, match="approval= got 'yes': give True"):

        @tool(approval="yes")  # type: ignore[call-overload, untyped-decorator]
        def pay() -> str:
            """Pay."""
            return ""


async def test_what_answers_nothing_is_refused():
    shop = Shop()
    model, first = await paused(shop)
    (request,) = first.requests
    other = json.loads(request.model_dump_json())["calls"][0]["digest"][::-1]

    async def resume(*answers: InputAnswer, **more: Any) -> None:
        await run(clerk(shop), "", provider=model, resume=first.paused, answers=answers, **more)

    refused = {
        "nothing waits for an answer to 'x'; what waits: ": [InputAnswer(id="x", decision="deny")],
        "two answers to": [request.approve(), request.deny()],
        "wants a decision": [request.answer("yes")],
        "its digest is not that of what waits": [
            InputAnswer(id=request.id, decision="approve", digest=other)
        ],
        r"no answer to '.*' \(refund\)": [],
    }
    for sentence, answers in refused.items():
        with pytest.raises(OrbiterError, match=sentence):
            await resume(*answers)
    with pytest.raises(OrbiterError, match="takes no messages"):
        await resume(request.deny(), messages=[UserMessage(content="hi")])
    with pytest.raises(OrbiterError, match=r"got True \(bool\): give an InputAnswer"):
        await resume(True)  # type: ignore[arg-type]
    with pytest.raises(OrbiterError, match=r"goes with run\(resume=result\.paused\)"):
        await run(clerk(shop), "hi", answers=[request.deny()])
    assert shop.did == []


async def test_the_question_of_another_pause_has_another_id():
    _, first = await paused(Shop())
    _, second = await paused(Shop())
    assert first.paused is not None
    assert second.paused is not None
    assert requests_of(first.paused)[0].id != requests_of(second.paused)[0].id
