import json

import pytest

from orbiter.train import (
    TrainingError,
    Trajectory,
    openai_sft,
    preference_pairs,
    trl_sft,
    write_preferences,
    write_sft,
)
from orbiter.types import AssistantMessage, SystemMessage, ToolCall, ToolResult, UserMessage

TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Find.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}


def calling(q="x", identity="c1"):
    return AssistantMessage(
        tool_calls=[ToolCall(id=identity, name="find", arguments=json.dumps({"q": q}))]
    )


def result(content="found", identity="c1", error=None):
    return ToolResult(tool_call_id=identity, tool_name="find", content=content, error=error)


def trajectory(*messages, score=1.0, tools=(TOOL,)):
    start = [SystemMessage(content="Be brief."), UserMessage(content="Where?")]
    return Trajectory(messages=[*start, *messages], tools=list(tools), scores={"exact": score})


def answer(text):
    return AssistantMessage(content=text)


WHOLE = trajectory(calling(), result(), answer("Here."))


def test_openai_takes_messages_with_tool_calls_and_their_tools():
    assert openai_sft(WHOLE) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "find", "arguments": '{"q": "x"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
            {"role": "assistant", "content": "Here."},
        ],
        "tools": [TOOL],
    }


def test_trl_takes_arguments_as_objects_and_tools_as_text():
    example = trl_sft(WHOLE)
    assert json.loads(example["tools"]) == [TOOL]
    assert example["messages"][2]["tool_calls"] == [
        {"type": "function", "function": {"name": "find", "arguments": {"q": "x"}}}
    ]
    assert example["messages"][3] == {"role": "tool", "name": "find", "content": "found"}


def test_only_the_last_answer_can_be_learned():
    weights = [m.get("weight") for m in openai_sft(WHOLE, train_on="last")["messages"]]
    assert weights == [None, None, 0, None, None]
    example = trl_sft(WHOLE, train_on="last")
    assert example["completion"] == [{"role": "assistant", "content": "Here."}]
    assert len(example["prompt"]) == 4


def test_failed_tools_are_told_as_the_model_saw_them():
    failed = trajectory(calling(), result(error="no network"), answer("Sorry."))
    assert openai_sft(failed)["messages"][3]["content"] == "Error: no network"
    assert trl_sft(failed)["messages"][3]["content"] == "Error: no network"


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (trajectory(calling()), "does not end with an answer"),
        (trajectory(calling(), answer("x")), "1 tool calls have no result"),
        (trajectory(result(), answer("x")), "a result of find answers no call"),
        (trajectory(calling(), result(), answer("x"), tools=()), "calls find.*not offered"),
    ],
)
@pytest.mark.parametrize("write", [openai_sft, trl_sft])
def test_what_a_trainer_would_refuse_is_told(broken, told, write):
    with pytest.raises(TrainingError, match=told):
        write(broken)


def test_the_best_and_the_worst_of_a_prompt_are_a_pair():
    middle = trajectory(answer("There."), score=0.5)
    bad = trajectory(answer("No idea."), score=0.0)
    other = Trajectory(messages=[UserMessage(content="Who?"), answer("Me.")], scores={"exact": 1.0})
    [pair] = preference_pairs([middle, WHOLE, bad, other], "exact")
    assert [m.role for m in pair.prompt] == ["system", "user"]
    assert pair.chosen == WHOLE.messages[2:]
    assert pair.rejected == [answer("No idea.")]
    assert pair.margin == 1.0
    assert preference_pairs([middle, bad], "exact", margin=0.5) == []
    assert preference_pairs([bad, bad], "exact") == []
    assert preference_pairs([WHOLE, bad], "judge") == []


def test_a_pair_shares_all_up_to_where_the_model_went_another_way():
    good = trajectory(calling(identity="a"), result(identity="a"), answer("Here."))
    bad = trajectory(calling(identity="b"), result(identity="b"), answer("Nowhere."), score=0)
    [pair] = preference_pairs([good, bad], "exact")
    assert len(pair.prompt) == 4
    assert (pair.chosen, pair.rejected) == ([answer("Here.")], [answer("Nowhere.")])


def test_where_a_tool_made_the_difference_openai_gets_no_pair(tmp_path):
    good = trajectory(calling(), result("found"), answer("Here."))
    bad = trajectory(calling(), result("lost"), answer("Nowhere."), score=0)
    pairs = preference_pairs([good, bad], "exact")
    assert len(pairs[0].prompt) == 2
    assert write_preferences(pairs, tmp_path / "t.jsonl", format="trl").examples == 1
    with pytest.raises(TrainingError, match=r"nothing to learn from \(1 skipped\)"):
        write_preferences(pairs, tmp_path / "o.jsonl", format="openai")


def test_openai_prefers_one_message_to_another(tmp_path):
    pairs = preference_pairs([WHOLE, trajectory(answer("Hm."), score=0)], "exact")
    data = write_preferences(pairs, tmp_path / "o.jsonl", format="openai")
    assert (data.kind, data.format, data.examples, data.skipped) == ("preference", "openai", 1, 0)
    [example] = [json.loads(line) for line in data.path.read_text().splitlines()]
    assert set(example) == {"input", "preferred_output", "non_preferred_output"}
    assert example["input"]["tools"] == [TOOL]
    assert [m["role"] for m in example["input"]["messages"]] == ["system", "user"]
    assert len(example["preferred_output"]) == 1
    assert example["preferred_output"][0]["tool_calls"][0]["function"]["name"] == "find"
    assert example["non_preferred_output"] == [{"role": "assistant", "content": "Hm."}]


def test_a_file_has_one_example_a_line(tmp_path):
    data = write_sft([WHOLE, WHOLE], tmp_path / "deep" / "sft.jsonl")
    assert data.examples == 2
    lines = data.path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [openai_sft(WHOLE)] * 2
    with pytest.raises(TrainingError, match="nothing to learn from"):
        write_sft([], tmp_path / "none.jsonl")
