"""What was approved for an attempt that ended otherwise is asked about once more."""

import json
import shutil

import pytest

from orbiter import Agent, tool
from orbiter.cli.agent.turn import Turn
from orbiter.models import ScriptedModel, call


class Shop:
    def __init__(self):
        self.did = []

    @tool(approval=True)
    def refund(self, order: int) -> str:
        """Give money back."""
        self.did.append(order)
        return "refunded"

    async def turn(self, home, prompt, attempt, *replies, again=False):
        agent = Agent(name="a", model="anthropic:claude-sonnet-4-5", tools=[self.refund])
        agent.provider = ScriptedModel(*replies)
        limits = {"must_exist": False, "max_cost_usd": None, "stream": False}
        made = Turn(
            prompt=prompt, session_id="s", home=home, attempt=attempt, again=again, **limits
        )
        return await made.run(agent)


def question_of(said):
    verdict = json.loads(said["result"].removeprefix("<result>").removesuffix("</result>"))
    assert verdict["status"] == "input_required"
    return verdict["question"]


@pytest.fixture
def homes(tmp_path):
    """A new container for each attempt, with the session as it was when the task asked last."""

    def home(attempt, session):
        new = tmp_path / str(attempt)
        shutil.copytree(session, new)
        return new

    (tmp_path / "1").mkdir()
    return home


async def test_an_attempt_behind_one_that_failed_asks_again_and_goes_on(homes, tmp_path):
    shop = Shop()
    first = tmp_path / "1"
    await shop.turn(first, "hi", 1, call("refund", order=7))
    failed = await shop.turn(homes(2, first), "approve", 2)
    assert failed["is_error"] is True
    assert shop.did == [7]
    third = homes(3, first)
    asked = question_of(await shop.turn(third, "approve", 3))
    assert asked.startswith("A worker ended while it went on: what was approved may have run")
    assert shop.did == [7], "one approval was used twice"
    said = await shop.turn(homes(4, third), "no, it has", 4, "then not")
    assert (said["result"], shop.did) == ("then not", [7])


async def test_the_attempt_behind_the_question_goes_on(homes, tmp_path):
    shop = Shop()
    await shop.turn(tmp_path / "1", "hi", 1, [call("refund", order=7), call("refund", order=9)])
    await shop.turn(homes(2, tmp_path / "1"), "approve", 2)
    said = await shop.turn(homes(3, tmp_path / "2"), "approve", 3, "done")
    assert (said["result"], shop.did) == ("done", [7, 9])


async def test_a_message_that_a_sessions_worker_crashed_at_is_no_second_approval(homes, tmp_path):
    shop = Shop()
    first = tmp_path / "1"
    await shop.turn(first, "hi", None, call("refund", order=7))
    # the worker ends behind the tool, and another one gets the message and the session before it
    await shop.turn(homes(2, first), "approve", None)
    third = homes(3, first)
    asked = question_of(await shop.turn(third, "approve", None, again=True))
    assert asked.startswith("A worker ended while it went on: what was approved may have run")
    assert shop.did == [7], "one approval was used twice"
    said = await shop.turn(third, "no, it has", None, "then not")
    assert (said["result"], shop.did) == ("then not", [7])


async def test_a_message_that_comes_again_and_answers_nothing_is_simply_said(tmp_path):
    said = await Shop().turn(tmp_path, "hi", None, "hello", again=True)
    assert said["result"] == "hello"


async def test_the_next_worker_of_an_attempt_that_was_cut_off_asks_again(homes, tmp_path):
    """Its pod went before anything behind the approval was kept: the tool may have run."""
    shop = Shop()
    first = tmp_path / "1"
    await shop.turn(first, "hi", 1, call("refund", order=7))
    await shop.turn(homes(2, first), "approve", 2)
    shutil.rmtree(tmp_path / "2")
    asked = question_of(await shop.turn(homes(2, first), "approve", 2, again=True))
    assert asked.startswith("A worker ended while it went on: what was approved may have run")
    assert shop.did == [7], "one approval was used twice"
    said = await shop.turn(homes(3, tmp_path / "2"), "approve", 3, "done")
    assert (said["result"], shop.did) == ("done", [7, 7])


async def test_one_that_asks_in_an_attempt_that_was_cut_off_takes_the_answer(homes, tmp_path):
    shop = Shop()
    await shop.turn(tmp_path / "1", "hi", 1, call("refund", order=7), again=True)
    said = await shop.turn(homes(2, tmp_path / "1"), "approve", 2, "done")
    assert (said["result"], shop.did) == ("done", [7])
