import json
import sys

import pytest
from support.markdown_blocks import staged
from typer.testing import CliRunner

from orbiter.cli.main import app
from orbiter.models import ModelError, ModelResponse, ScriptedModel, call

AGENTS = '''
from pydantic import BaseModel
from orbiter import Agent, Swarm, tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool
def fail() -> str:
    """Fail always."""
    raise ValueError("no luck")

class City(BaseModel):
    name: str

calc = Agent(name="calc", tools=[add, fail])
short = Agent(name="short", tools=[add], max_steps=1)
geo = Agent(name="geo", output_type=City)
pair = Swarm(agents=[Agent(name="one"), Agent(name="two", tools=[add])])
'''


@pytest.fixture
def orbiter(tmp_path, monkeypatch):
    """Call the program in a directory with agents, with a model that says what it is told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "agents_of_test.py").write_text(AGENTS)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with staged("openai", "anthropic") as stage:

        def invoke(*words, replies=(), input=None):
            stage.script = ScriptedModel(*replies)
            told = [str(word).replace("@", "agents_of_test:") for word in words]
            return CliRunner().invoke(app, told, input=input)

        invoke.stage = stage
        yield invoke
    sys.modules.pop("agents_of_test", None)


def test_the_answer_is_on_standard_output_and_nothing_else(orbiter):
    done = orbiter("run", "@calc", "2+3?", replies=[call("add", a=2, b=3), "It is 5."])
    assert (done.exit_code, done.stdout) == (0, "It is 5.\n")
    assert done.stderr == 'add({"a": 2, "b": 3})\n'


def test_quiet_says_the_answer_only(orbiter):
    done = orbiter("run", "-q", "@calc", "?", replies=[call("add", a=2, b=3), "5"])
    assert (done.stdout, done.stderr) == ("5\n", "")


def test_a_failed_tool_is_told_beside_the_answer(orbiter):
    done = orbiter("run", "@calc", "?", replies=[call("fail"), "Sorry."])
    assert done.stdout == "Sorry.\n"
    assert "fail failed: Tool 'fail' failed: no luck" in done.stderr


def test_the_input_can_be_piped_in(orbiter):
    done = orbiter("run", "@calc", replies=["Hello."], input="Hi there\n")
    assert done.stdout == "Hello.\n"
    assert orbiter.stage.script.requests[0].messages[-1].content == "Hi there"


def test_json_is_the_whole_result(orbiter):
    done = orbiter("run", "--json", "@calc", "?", replies=[call("add", a=2, b=3), "5"])
    result = json.loads(done.stdout)
    assert (result["output"], result["steps"], result["stop_reason"]) == ("5", 2, "completed")
    assert result["usage"]["total_tokens"] == 30
    assert [m["role"] for m in result["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_json_of_structured_output_is_its_object(orbiter):
    done = orbiter("run", "--json", "@geo", "?", replies=['{"name": "Oslo"}'])
    assert json.loads(done.stdout)["output"] == {"name": "Oslo"}


def test_events_are_lines_of_json(orbiter):
    done = orbiter("run", "--events", "@calc", "?", replies=[call("add", a=2, b=3), "Five it is"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["step", "usage"] or kinds[0] == "step"
    assert {"text", "tool_call", "tool_result", "usage", "step"} <= set(kinds)
    assert kinds[-1] == "result"
    assert "".join(e["text"] for e in events if e["type"] == "text") == "Five it is"


def test_a_run_that_meets_a_limit_has_a_code_of_its_own(orbiter):
    done = orbiter("run", "@short", "?", replies=[call("add", a=2, b=3)])
    assert done.exit_code == 3
    assert "stopped: max_steps after 1 model call\n" in done.stderr
    assert orbiter("run", "--max-tokens", 15, "@calc", "?",
                   replies=[call("add", a=1, b=1)]).exit_code == 3  # fmt: skip


def test_an_answer_that_is_not_whole_is_shown_told_and_has_that_code_too(orbiter):
    cut = ModelResponse(content="Once upon", finish_reason="length")
    done = orbiter("run", "@calc", "?", replies=[cut])
    assert (done.exit_code, done.stdout) == (3, "Once upon\n")
    assert "stopped: length after 1 model call (the answer was cut off" in done.stderr
    assert "raise max_tokens" in done.stderr
    told = orbiter("run", "--json", "@calc", "?", replies=[cut])
    assert json.loads(told.stdout)["stop_reason"] == "length"


def test_another_model_can_answer(orbiter):
    done = orbiter("run", "-m", "anthropic:claude", "@calc", "?", replies=["Hi."])
    assert done.stdout == "Hi.\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run", "none.yaml", "x"], 2, "none.yaml"),
        (["run", "@nobody", "x"], 2, "nobody"),
        (["run", "@calc", ""], 2, "the input is missing"),
        (["run", "-m", "gtp:x", "@calc", "x"], 2, "unknown model provider 'gtp'"),
        (["run", "--trace", "x.txt", "@calc", "x"], 2, "ends in .jsonl"),
        (["run", "@calc", "x"], 1, "[m] overloaded"),
        (["run"], 2, "AGENT"),
        (["rum"], 2, "rum"),
    ],
)
def test_an_error_is_one_line_that_names_the_thing(orbiter, words, code, told):
    done = orbiter(*words, replies=[ModelError("overloaded\nvery", model="m")])
    assert done.exit_code == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    if done.stderr.startswith("error"):
        assert done.stderr.count("\n") == 1


def test_no_input_is_told(orbiter):
    done = orbiter("run", "@calc", input="  \n")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: the input is missing: standard input is empty\n",
    )


def test_a_run_is_traced_and_shown_as_a_tree(orbiter, tmp_path):
    for _ in range(2):
        orbiter("run", "@calc", "?", "--trace", "t.jsonl", replies=[call("add", a=1, b=2), "3"])
    done = orbiter("trace", "t.jsonl")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines].count("trace") == 2
    assert any(line.startswith("        execute_tool add") for line in lines)
    assert any("chat gpt-4o" in line and "10 + 5 tokens" in line for line in lines)
    last = json.loads(orbiter("trace", "t.jsonl", "-n", 1, "--json").stdout)
    assert len(last) == 1
    [root] = last[0]["spans"]
    assert root["children"][0]["name"] == "invoke_agent calc"
    one = orbiter("trace", "t.jsonl", "--id", last[0]["trace_id"][:8]).stdout
    assert one.count("trace ") == 1


def test_a_file_without_traces_is_told(orbiter, tmp_path):
    (tmp_path / "x.jsonl").write_text("hello\n")
    assert "x.jsonl, line 1 is no span" in orbiter("trace", "x.jsonl").stderr
    missing = orbiter("trace", "none.jsonl")
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)
    (tmp_path / "y.jsonl").write_text("")
    assert "has no trace abc" in orbiter("trace", "y.jsonl", "--id", "abc").stderr


def test_each_line_of_a_pipe_is_a_message_of_one_conversation(orbiter):
    done = orbiter(
        "chat", "@calc", replies=["Hello.", "Fine."], input="Hi\n\nAnd you?\n/quit\nno\n"
    )
    assert (done.exit_code, done.stdout) == (0, "Hello.\nFine.\n")
    assert len(orbiter.stage.script.requests[1].messages) == 3


def test_a_chat_for_programs_answers_in_json(orbiter):
    done = orbiter("chat", "--json", "@calc", replies=["Hello.", "Fine."], input="Hi\nYou?\n")
    assert [json.loads(line)["output"] for line in done.stdout.splitlines()] == ["Hello.", "Fine."]


def test_a_new_conversation_forgets_the_old_one(orbiter):
    orbiter("chat", "@calc", replies=["Hello.", "Fine."], input="Hi\n/new\nAnd you?\n")
    assert len(orbiter.stage.script.requests[1].messages) == 1


def test_a_session_goes_on_where_it_was(orbiter, tmp_path):
    orbiter("chat", "--session", "s.json", "@calc", replies=["Hello."], input="Hi\n")
    orbiter("chat", "--session", "s.json", "@calc", replies=["Ada."], input="Who am I?\n")
    assert len(orbiter.stage.script.requests[0].messages) == 3
    (tmp_path / "s.json").write_text("{")
    done = orbiter("chat", "--session", "s.json", "@calc", input="Hi\n")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


def test_a_turn_that_fails_leaves_the_conversation_as_it_was(orbiter):
    replies = ["Hello.", ModelError("down", model="m"), "Fine."]
    done = orbiter("chat", "@calc", replies=replies, input="Hi\nYou?\nAgain?\n")
    assert done.stdout == "Hello.\nFine.\n"
    assert "error: [m] down" in done.stderr
    told = [m.content for m in orbiter.stage.script.requests[2].messages]
    assert told == ["Hi", "Hello.", "Again?"]


def test_tools_are_listed_and_called_by_hand(orbiter):
    assert orbiter("tools", "@calc").stdout == (
        "add(a, b)  Add two numbers.\nfail()  Fail always.\n"
    )
    told = json.loads(orbiter("tools", "--json", "@pair").stdout)
    assert [(t["agent"], t["name"]) for t in told] == [("two", "add")]
    done = orbiter("tools", "@calc", "--call", "add", "--args", '{"a": 2, "b": 3}')
    assert (done.exit_code, done.stdout) == (0, "5\n")
    done = orbiter("tools", "@calc", "--json", "--call", "add", "--args", '{"a": 2, "b": 3}')
    assert json.loads(done.stdout) == {"output": "5"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--call", "sub"], 2, "there is no tool 'sub'; tools: add, fail"),
        (["--call", "add"], 2, "--args: a: is required; b: is required"),
        (["--call", "fail"], 1, "Tool 'fail' failed: no luck"),
    ],
)
def test_a_call_by_hand_that_cannot_be_is_told(orbiter, words, code, told):
    done = orbiter("tools", "@calc", *words)
    assert done.exit_code == code
    assert told in done.stderr


def test_the_version_is_told(orbiter):
    assert orbiter("--version").stdout == "orbiter 0.1.0\n"
