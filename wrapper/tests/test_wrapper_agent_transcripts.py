"""What each adapter hears for a transcript: lines as the real CLIs print them, and any other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import VALUES

from worker_wrapper.agents import known_agents, load_agent
from worker_wrapper.agents.base import Heard

COMMAND = {"command": "echo one"}


def block(**fields: Any) -> dict[str, Any]:
    return {
        "type": "stream_event",
        "event": {"type": "content_block_start", "content_block": fields},
    }


def delta(parent: str | None = None, **fields: Any) -> dict[str, Any]:
    inner = {"type": "content_block_delta", "delta": fields}
    return {"type": "stream_event", "event": inner, "parent_tool_use_id": parent}


def message(kind: str, *content: Any) -> dict[str, Any]:
    return {"type": kind, "message": {"role": kind, "content": list(content)}}


def item(when: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{when}", "item": {"id": "item_0", **fields}}


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "part": fields}


CLAUDE: list[tuple[dict[str, Any], list[Heard]]] = [
    (block(type="text", text=""), [Heard("text", opens=True)]),
    (delta(type="text_delta", text="it sa"), [Heard("text", "it sa")]),
    (delta("toolu_1", type="text_delta", text="I"), [Heard("text", "I", agent="toolu_1")]),
    (block(type="thinking", thinking=""), [Heard("thinking", opens=True)]),
    (delta(type="thinking_delta", thinking="hm"), [Heard("thinking", "hm")]),
    (block(type="tool_use", id="t", name="Bash", input={}), []),
    (delta(type="input_json_delta", partial_json='{"com'), []),
    (message("assistant", {"type": "text", "text": "it said"}), []),
    (
        message("assistant", {"type": "tool_use", "id": "t", "name": "Bash", "input": COMMAND}),
        [Heard("tool_call", tool="Bash", call="t", arguments=COMMAND)],
    ),
    (
        message("user", {"type": "tool_result", "tool_use_id": "t", "content": "one"}),
        [Heard("tool_result", "one", call="t")],
    ),
    (
        message(
            "user",
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "is_error": True,
                "content": [{"type": "text", "text": "Exit code 1"}, {"type": "image"}],
            },
        ),
        [Heard("tool_result", "Exit code 1\n[image]", call="t", failed=True)],
    ),
    (message("user", "Do it"), []),
    ({"type": "user", "message": {"content": "Do it"}}, []),
]
SHELL = {"type": "command_execution", "command": "echo one", "aggregated_output": ""}
CODEX = [
    (
        item("started", **SHELL, exit_code=None, status="in_progress"),
        [Heard("tool_call", tool="command_execution", call="item_0", arguments=COMMAND)],
    ),
    (
        item(
            "completed", **SHELL | {"aggregated_output": "one\n"}, exit_code=0, status="completed"
        ),
        [Heard("tool_result", "one\n", tool="command_execution", call="item_0", arguments=COMMAND)],
    ),
    (
        item("completed", **SHELL, exit_code=1, status="failed"),
        [
            Heard(
                "tool_result",
                "[exit code 1]",
                tool="command_execution",
                call="item_0",
                arguments=COMMAND,
                failed=True,
            )
        ],
    ),
    (
        item("completed", type="file_change", changes=[{"path": "a", "kind": "add"}]),
        [
            Heard(
                "tool_result",
                tool="file_change",
                call="item_0",
                arguments={"changes": [{"path": "a", "kind": "add"}]},
            )
        ],
    ),
    (
        item("started", type="mcp_tool_call", server="git", tool="log", arguments={"n": 1}),
        [Heard("tool_call", tool="git.log", call="item_0", arguments={"n": 1})],
    ),
    (item("completed", type="agent_message", text="done"), [Heard("text", "done", opens=True)]),
    (item("completed", type="reasoning", text="hm"), [Heard("thinking", "hm", opens=True)]),
    ({"type": "turn.failed", "error": {"message": "no"}}, [Heard("error", "no")]),
    ({"type": "turn.started"}, []),
]
GEMINI = [
    ({"type": "message", "role": "user", "content": "Do it"}, []),
    (
        {"type": "message", "role": "assistant", "content": "it said", "delta": True},
        [Heard("text", "it said")],
    ),
    (
        {"type": "tool_use", "tool_name": "sh", "tool_id": "1", "parameters": COMMAND},
        [Heard("tool_call", tool="sh", call="1", arguments=COMMAND)],
    ),
    (
        {"type": "tool_result", "tool_id": "1", "status": "success", "output": "one"},
        [Heard("tool_result", "one", call="1")],
    ),
    (
        {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"message": "no"}},
        [Heard("tool_result", "no", call="1", failed=True)],
    ),
]
RAN = {"status": "completed", "input": COMMAND, "output": "one", "time": {"start": 5, "end": 249}}
OPENCODE = [
    (part("text", text="done"), [Heard("text", "done", opens=True)]),
    (
        part("tool_use", tool="bash", callID="1", state=RAN),
        [Heard("tool_result", "one", tool="bash", call="1", arguments=COMMAND, seconds=0.244)],
    ),
    (
        part("tool_use", tool="bash", callID="1", state={"status": "error", "error": "denied"}),
        [Heard("tool_result", "denied", tool="bash", call="1", arguments={}, failed=True)],
    ),
    (part("step_start"), []),
]
FACTORY = [
    ({"type": "message", "role": "user", "text": "Do it"}, []),
    ({"type": "message", "role": "assistant", "text": "done"}, [Heard("text", "done", opens=True)]),
    (
        {"type": "tool_call", "id": "c", "toolName": "Execute", "parameters": COMMAND},
        [Heard("tool_call", tool="Execute", call="c", arguments=COMMAND)],
    ),
    (
        {"type": "tool_result", "id": "c", "isError": False, "value": "one"},
        [Heard("tool_result", "one", call="c")],
    ),
    (
        {"type": "tool_result", "id": "c", "isError": True, "error": {"message": "Error"}},
        [Heard("tool_result", "Error", call="c", failed=True)],
    ),
]
CALL = {"tool_name": "run_command", "tool_call_id": "c", "agent_name": "orbiter"}
ORBITER = [
    ({"type": "step", "step": 2}, [Heard("text", opens=True)]),
    ({"type": "text", "text": "it"}, [Heard("text", "it")]),
    ({"type": "thinking", "text": "hm"}, [Heard("thinking", "hm")]),
    (
        {"type": "tool_call", "arguments": '{"command": "ls"}'} | CALL,
        [Heard("tool_call", tool="run_command", call="c", arguments='{"command": "ls"}')],
    ),
    (
        {"type": "tool_result", "content": "one", "error": None} | CALL,
        [Heard("tool_result", "one", tool="run_command", call="c")],
    ),
    (
        {"type": "tool_result", "content": "", "error": "no such tool"} | CALL,
        [Heard("tool_result", "no such tool", tool="run_command", call="c", failed=True)],
    ),
    ({"type": "error", "error": "the model is away"}, [Heard("error", "the model is away")]),
    ({"type": "result", "result": {"output": "done"}}, []),
]
LINES = {
    "claude": CLAUDE,
    "codex": CODEX,
    "factory": FACTORY,
    "gemini": GEMINI,
    "opencode": OPENCODE,
    "orbiter": ORBITER,
}
ALL = [(name, *line) for name, lines in LINES.items() for line in lines]


def test_every_agent_is_here() -> None:
    assert {*LINES} == {*known_agents()}


@pytest.mark.parametrize(("agent", "event", "heard"), ALL, ids=str)
def test_a_line_is_heard(agent: str, event: dict[str, Any], heard: list[Heard]) -> None:
    assert load_agent(agent).heard(event) == tuple(heard)


NAMES = sorted({name for _, event, _ in ALL for name in event} - {"type"} | {"parent_tool_use_id"})
KINDS = st.sampled_from(sorted({str(event["type"]) for _, event, _ in ALL}))
INNER = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("type", "id", "text", "content", "name", "input", "state", "status", "error"), VALUES
    )
    | {
        "type": st.sampled_from(["tool_use", "tool_result", "text", "mcp_tool_call", "error"]),
        "delta": VALUES | st.fixed_dictionaries({"type": st.just("text_delta"), "text": VALUES}),
        "content_block": VALUES | st.fixed_dictionaries({"type": st.just("text")}),
    },
)
MESSAGE = st.fixed_dictionaries({"content": VALUES | st.lists(INNER | VALUES, max_size=3)})


@given(
    st.sampled_from(sorted(LINES)),
    st.fixed_dictionaries(
        {"type": KINDS | VALUES}, optional=dict.fromkeys(NAMES, VALUES | INNER | MESSAGE)
    ),
)
def test_whatever_a_line_has_it_is_heard_or_not(agent: str, event: dict[str, Any]) -> None:
    for heard in load_agent(agent).heard(event):
        assert isinstance(heard.text, str)
        assert isinstance(heard.tool + heard.call + heard.agent, str)
