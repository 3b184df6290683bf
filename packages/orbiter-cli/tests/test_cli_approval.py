"""Tools that wait for a person, at the terminal and through a pipe."""

import json
import sys

import pytest
from support.markdown_blocks import staged
from typer.testing import CliRunner

from orbiter.cli.agent.loading import load_agent
from orbiter.cli.commands import chat
from orbiter.cli.main import app
from orbiter.cli.ui.outcome import UsageError
from orbiter.models import ScriptedModel, call

AGENTS = '''
import asyncio
import signal

from orbiter import Agent, tool
from orbiter.approval import ask_user

did = []

@tool(approval=True)
def refund(order: int) -> str:
    """Give money back."""
    did.append(order)
    return "refunded"

@tool
def look(order: int) -> str:
    """Look."""
    return "a lamp"

@tool(approval=True)
async def slow(order: int) -> str:
    """Give money back, until somebody presses Ctrl-C."""
    did.append(order)
    signal.raise_signal(signal.SIGINT)
    await asyncio.Event().wait()
    return "refunded"

@tool
async def stubborn() -> None:
    """Stop only when somebody presses Ctrl-C again."""
    signal.raise_signal(signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        signal.raise_signal(signal.SIGINT)

clerk = Agent(name="clerk", tools=[refund, ask_user])
mule = Agent(name="mule", tools=[stubborn])
slowly = Agent(name="slowly", tools=[slow])
'''
ASKED = (
    'May it call refund {"order":7} ? Answer `approve`, `deny REASON`, or `approve {ARGUMENTS}`.\n'
)


@pytest.fixture
def orbiter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_of_test.py").write_text(AGENTS)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with staged("openai", "anthropic") as stage:

        def invoke(*words, replies=(), input=None):
            stage.script = ScriptedModel(*replies)
            told = [str(word).replace("@", "shop_of_test:") for word in words]
            return CliRunner().invoke(app, told, input=input)

        invoke.stage = stage
        yield invoke
    sys.modules.pop("shop_of_test", None)


def did():
    return sys.modules["shop_of_test"].did


def test_a_chat_asks_and_goes_on_with_the_next_line(orbiter):
    done = orbiter(
        "chat", "@clerk", replies=[call("refund", order=7), "Done."], input="Refund\napprove\n"
    )
    assert (done.exit_code, done.stdout) == (0, "Done.\n")
    assert ASKED in done.stderr
    assert did() == [7]


def test_a_denial_and_a_wrong_word_are_told(orbiter):
    replies = [call("refund", order=7), "Then not."]
    done = orbiter("chat", "@clerk", replies=replies, input="Refund\nperhaps\nno, too late\n")
    assert done.stdout == "Then not.\n"
    assert done.stderr.count(ASKED) == 2
    assert "'perhaps' is no answer" in done.stderr
    assert did() == []
    assert "a person denied it: too late" in orbiter.stage.script.requests[-1].messages[-1].error


def test_a_question_of_the_model_is_answered_by_the_next_line(orbiter):
    replies = [call("ask_user", question="Which lamp?"), "The red one."]
    done = orbiter("chat", "@clerk", replies=replies, input="Order\nred\n")
    assert (done.stdout, "Which lamp?\n" in done.stderr) == ("The red one.\n", True)


def test_a_chat_that_ends_before_the_answer_is_asked_again_in_its_session(orbiter):
    first = orbiter(
        "chat", "--session", "s.json", "@clerk", replies=[call("refund", order=7)], input="Refund\n"
    )
    assert first.exit_code == 4
    assert did() == []
    second = orbiter(
        "chat", "--session", "s.json", "@clerk", replies=["Done."], input='approve {"order": 8}\n'
    )
    assert (second.exit_code, second.stdout, did()) == (0, "Done.\n", [8])
    assert second.stderr.startswith(ASKED)


def test_a_new_conversation_forgets_what_waits(orbiter):
    replies = [call("refund", order=7), "Hello."]
    done = orbiter("chat", "@clerk", replies=replies, input="Refund\n/new\nHi\n")
    assert (done.stdout, did()) == ("Hello.\n", [])


def test_programs_read_what_waits_and_answer_it(orbiter):
    replies = [call("refund", order=7), "Done."]
    done = orbiter("chat", "--json", "@clerk", replies=replies, input="Refund\napprove\n")
    first, last = map(json.loads, done.stdout.splitlines())
    assert first["stop_reason"] == "input_required"
    assert first["requests"][0]["calls"][0]["arguments"] == {"order": 7}
    assert last["output"] == "Done."


def test_a_single_question_says_what_waits(orbiter):
    done = orbiter("run", "@clerk", "Refund", replies=[call("refund", order=7)])
    assert done.exit_code == 4
    assert f"waits for a person: {ASKED}" in done.stderr


def test_an_agent_file_names_the_tools_that_wait(orbiter, tmp_path):
    file = tmp_path / "clerk.yaml"
    file.write_text("name: clerk\ntools: [shop_of_test:look, read_file]\napproval: [look]\n")
    tools = load_agent(str(file)).target.tools
    assert {t.name: t.approval for t in tools} == {"look": True, "read_file": False}
    assert sys.modules["shop_of_test"].look.approval is False
    file.write_text("name: clerk\ntools: [read_file]\napproval: [rm]\n")
    with pytest.raises(
        UsageError, match=r"clerk\.yaml: approval: there is no tool 'rm'; the tools"
    ):
        load_agent(str(file))


@pytest.fixture
def at_a_terminal(monkeypatch):
    class Person(chat._Talk):
        def __init__(self, *given):
            super().__init__(*given)
            self._person = True

    monkeypatch.setattr(chat, "_Talk", Person)


@pytest.mark.usefixtures("at_a_terminal")
def test_ctrl_c_twice_leaves_and_nothing_goes_on_beside_a_turn_that_has_not_ended(orbiter):
    replies = [call("stubborn"), "Too late."]
    done = orbiter("chat", "@mule", replies=replies, input="Go\nHello\n")
    assert (done.exit_code, done.stdout) == (130, "> ")
    assert "(stopped)" not in done.stderr
    assert len(orbiter.stage.script.requests) == 1


@pytest.mark.usefixtures("at_a_terminal")
def test_what_was_approved_and_then_stopped_is_asked_about_again(orbiter):
    replies = [call("slow", order=7), "Done."]
    done = orbiter("chat", "@slowly", replies=replies, input="Refund\napprove\nhello\nno\n")
    assert did() == [7], "it ran twice"
    assert done.stderr.count("what was approved may have run already; answer again\n") == 1
    assert "'hello' is no answer" in done.stderr
    assert "Done." in done.stdout


def test_a_run_that_failed_behind_what_was_approved_says_so(orbiter):
    done = orbiter("chat", "@clerk", replies=[call("refund", order=7)], input="Refund\napprove\n")
    assert did() == [7]
    assert done.stderr.count(ASKED) == 2
    assert "what was approved may have run already; answer again\n" in done.stderr
