"""One turn of `orbiter exec`: what it remembers, asks, costs and prints."""

import json

import pytest
from pydantic import BaseModel

from orbiter import Agent, tool
from orbiter.cli.agent.session import load_session
from orbiter.cli.agent.turn import Turn
from orbiter.cli.agent.workspace_tools import ask_user, run_command
from orbiter.cli.ui.outcome import UsageError
from orbiter.models import ModelResponse, ScriptedModel, call
from orbiter.types import Usage


def turn(home, prompt="hi", session="s", **options):
    given = {"must_exist": False, "max_cost_usd": None, "stream": False} | options
    return Turn(prompt=prompt, session_id=session, home=home, **given)


def agent(*replies, tools=(), **options):
    made = Agent(name="a", model="anthropic:claude-sonnet-4-5", tools=tools, **options)
    made.provider = ScriptedModel(*replies)
    return made


async def test_the_answer_is_one_object(tmp_path):
    said = await turn(tmp_path).run(agent("hello"))
    assert (said["type"], said["is_error"], said["result"]) == ("result", False, "hello")
    assert (said["session_id"], said["num_turns"]) == ("s", 1)
    assert set(said["usage"]) == {"input_tokens", "output_tokens", "cache_read_input_tokens"}


async def test_the_next_turn_remembers_the_one_before(tmp_path):
    await turn(tmp_path, "I am Ada").run(agent("hello"))
    second = agent("you are Ada")
    await turn(tmp_path, "who am I?", must_exist=True).run(second)
    seen = [message.content for message in second.provider.requests[0].messages]
    assert seen[-3:] == ["I am Ada", "hello", "who am I?"]


async def test_a_session_that_has_to_be_there_and_is_not_is_said(tmp_path):
    with pytest.raises(UsageError, match="No conversation found with session ID s"):
        await turn(tmp_path, must_exist=True).run(agent("hello"))


async def test_a_question_ends_the_turn_and_the_next_prompt_answers_it(tmp_path):
    asking = agent(call("ask_user", question="Which branch?"), "never said", tools=[ask_user])
    said = await turn(tmp_path).run(asking)
    verdict = {"status": "input_required", "question": "Which branch?"}
    assert said["result"] == f"<result>{json.dumps(verdict)}</result>"
    assert said["is_error"] is False
    assert len(asking.provider.requests) == 1
    going_on = agent("done on main", tools=[ask_user])
    said = await turn(tmp_path, "main").run(going_on)
    assert said["result"] == "done on main"
    last = going_on.provider.requests[0].messages[-1]
    assert (last.role, last.content) == ("tool", "main")


async def test_a_stream_ends_with_the_question_and_tells_no_error(tmp_path, capsys):
    asking = agent(call("ask_user", question="Which branch?"), "never said", tools=[ask_user])
    await turn(tmp_path, stream=True).run(asking)
    told = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["step", "spent", "usage", "tool_call", "tool_result"]


async def test_a_typed_answer_is_a_verdict_with_its_data(tmp_path):
    class Sum(BaseModel):
        value: int

    said = await turn(tmp_path).run(agent('{"value": 3}', output_type=Sum))
    verdict = json.loads(said["result"].removeprefix("<result>").removesuffix("</result>"))
    assert (verdict["status"], verdict["data"]) == ("success", {"value": 3})


async def test_an_answer_of_any_type_is_a_verdict_with_its_data(tmp_path):
    said = await turn(tmp_path).run(agent("[1, 2]", output_type=set[int]))
    verdict = json.loads(said["result"].removeprefix("<result>").removesuffix("</result>"))
    assert (verdict["summary"], verdict["data"]) == ("[1, 2]", [1, 2])


async def test_a_limit_of_steps_is_an_error_and_what_was_said_is_kept(tmp_path):
    looping = agent(
        *(call("run_command", command="true") for _ in range(3)), tools=[run_command], max_steps=2
    )
    said = await turn(tmp_path).run(looping)
    assert said["is_error"] is True
    assert said["result"] == "the agent was stopped by its max_steps after 2 turns"
    assert load_session(tmp_path, "s").messages


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("length", "raise max_tokens; it said last: Once upon"),
        ("refusal", "the model refused to answer; it said last: Once upon"),
        ("content_filter", "the provider's content filter stopped"),
        ("incomplete", "broke off before its end"),
    ],
)
async def test_an_answer_that_is_not_whole_is_an_error(tmp_path, reason, told):
    said = await turn(tmp_path).run(agent(ModelResponse(content="Once upon", finish_reason=reason)))
    assert said["is_error"] is True
    assert told in said["result"]
    assert load_session(tmp_path, "s").messages[-1].content == "Once upon"


async def test_a_limit_of_cost_is_kept_between_two_calls(tmp_path):
    dear = ModelResponse(
        tool_calls=[call("run_command", command="true")],
        usage=Usage(input_tokens=1_000_000, output_tokens=10, total_tokens=1_000_010),
    )
    spending = agent(dear, "never said", tools=[run_command])
    said = await turn(tmp_path, max_cost_usd=1.0).run(spending)
    assert said["is_error"] is True
    assert said["result"].startswith("the limit of 1 USD is reached")
    assert said["cost_usd"] > 1
    assert len(spending.provider.requests) == 1


async def test_agents_it_hands_off_to_count_too(tmp_path):
    other = Agent(name="other", model="anthropic:claude-sonnet-4-5")
    first = agent(call("transfer_to_other"), "done by the other", handoffs=[other])
    other.provider = first.provider
    said = await turn(tmp_path).run(first)
    assert (said["result"], said["num_turns"]) == ("done by the other", 2)


async def test_a_session_of_any_name_has_a_file_of_its_own(tmp_path):
    for name in ("../../etc/passwd", "a b", "x" * 300):
        await turn(tmp_path, session=name).run(agent("hello"))
    files = sorted((tmp_path / ".orbiter/sessions").iterdir())
    assert len(files) == 3
    assert all(file.suffix == ".json" for file in files)


async def test_a_broken_session_is_told_with_its_file(tmp_path):
    await turn(tmp_path).run(agent("hello"))
    file = tmp_path / ".orbiter/sessions/s.json"
    file.write_text("{")
    with pytest.raises(UsageError, match=r"s\.json cannot be read"):
        await turn(tmp_path).run(agent("hello"))


async def test_an_agent_that_is_asked_by_a_tool_costs_and_leaves_the_session_alone(tmp_path):
    kept = []

    def answer(messages):
        kept.append([message.content for message in load_session(tmp_path, "s").messages])
        return "42"

    expert = agent(answer)
    asking = agent(
        call("expert", input="How many?"), "It is 42.", tools=[expert.as_tool(name="expert")]
    )
    said = await turn(tmp_path).run(asking)
    assert kept == [["hi"]]
    assert (said["result"], said["num_turns"]) == ("It is 42.", 3)
    assert said["usage"]["output_tokens"] == 15


async def test_what_an_agent_costs_that_is_asked_by_a_tool_counts_for_the_limit(tmp_path):
    dear = ModelResponse(content="42", usage=Usage(input_tokens=10**7, total_tokens=10**7))
    expert = agent(dear)
    asking = agent(
        call("expert", input="How many?"), "never said", tools=[expert.as_tool(name="expert")]
    )
    said = await turn(tmp_path, max_cost_usd=1.0).run(asking)
    assert "the limit of 1 USD is reached" in said["result"]
    assert len(asking.provider.requests) == 1


class Shop:
    def __init__(self):
        self.did = []

    @tool(approval=True)
    def refund(self, order: int) -> str:
        """Give money back."""
        self.did.append(order)
        return "refunded"


ASKED = (
    'May it call refund {"order":7} ? Answer `approve`, `deny REASON`, or `approve {ARGUMENTS}`.'
)


def question_of(said):
    assert said["is_error"] is False
    verdict = json.loads(said["result"].removeprefix("<result>").removesuffix("</result>"))
    assert verdict["status"] == "input_required"
    return verdict["question"]


async def test_a_tool_that_waits_ends_the_turn_and_the_next_prompt_decides(tmp_path):
    shop = Shop()
    said = await turn(tmp_path).run(agent(call("refund", order=7), tools=[shop.refund]))
    assert question_of(said) == ASKED
    verdict = json.loads(said["result"].removeprefix("<result>").removesuffix("</result>"))
    (seen,) = verdict["request"]["calls"]
    assert (seen["tool"], seen["arguments"]) == ("refund", {"order": 7})
    stale = json.dumps({"decision": "approve", "digest": "0" * 64})
    asked = question_of(await turn(tmp_path, stale).run(agent(tools=[shop.refund])))
    assert "the answer is to another call" in asked
    assert shop.did == []
    said = await turn(tmp_path, 'approve {"order": 8}').run(agent("done", tools=[shop.refund]))
    assert (said["result"], shop.did) == ("done", [8])


async def test_several_calls_are_asked_one_after_the_other_and_run_once(tmp_path):
    shop = Shop()
    asking = agent([call("refund", order=7), call("refund", order=9)], tools=[shop.refund])
    await turn(tmp_path).run(asking)
    said = await turn(tmp_path, "approve").run(agent(tools=[shop.refund]))
    assert question_of(said) == ASKED.replace("7", "9")
    assert said["num_turns"] == 1, "a worker takes a turn without any for a failure"
    said = await turn(tmp_path, "deny it is too late").run(agent("sorry", tools=[shop.refund]))
    assert (said["result"], shop.did) == ("sorry", [7])
    said = await turn(tmp_path, "and now?").run(agent("nothing", tools=[shop.refund]))
    assert (said["result"], shop.did) == ("nothing", [7])


@pytest.mark.parametrize("answer", ["perhaps", 'approve {"order": "many"}'])
async def test_what_is_no_answer_is_asked_again(tmp_path, answer):
    shop = Shop()
    await turn(tmp_path).run(agent(call("refund", order=7), tools=[shop.refund]))
    asked = question_of(await turn(tmp_path, answer).run(agent(tools=[shop.refund])))
    assert asked.endswith(f"\n{ASKED}")
    assert "no answer" in asked or "does not take" in asked
    said = await turn(tmp_path, "approve").run(agent("done", tools=[shop.refund]))
    assert (said["result"], shop.did) == ("done", [7])


async def test_a_crash_behind_an_approval_does_not_approve_twice(tmp_path):
    class PowerCutError(BaseException):
        pass

    did = []

    @tool(approval=True)
    def refund(order: int) -> str:
        """Give money back."""
        did.append(order)
        raise PowerCutError

    await turn(tmp_path).run(agent(call("refund", order=7), tools=[refund]))
    with pytest.raises(BaseException):  # noqa: B017, PT011
        await turn(tmp_path, "approve").run(agent(tools=[refund]))
    said = await turn(tmp_path, "approve").run(agent("what?", tools=[refund]))
    assert (said["result"], did) == ("what?", [7])
