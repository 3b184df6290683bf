import json

import pytest

from orbiter.eval import (
    Case,
    CaseResult,
    CostLimit,
    ExactMatch,
    JsonMatch,
    JsonSchema,
    LatencyLimit,
    RegexMatch,
    ScorerError,
    Similarity,
    ToolUse,
    make_scorer,
    scorer_registry,
)
from orbiter.registry import RegistryError
from orbiter.types import AssistantMessage, ToolCall


async def value(scorer, output="", expected=None, tools=None, **facts):
    case = Case(id="c", input="?", expected=expected, tools=tools)
    result = CaseResult(case_id="c", input="?", output=output, **facts)
    return (await scorer.score(case, result)).value


@pytest.mark.parametrize(
    ("scorer", "output", "expected", "score"),
    [
        (ExactMatch(), "Tokyo", "Tokyo", 1),
        (ExactMatch(), " New  York\n", "New York", 1),
        (ExactMatch(), "tokyo", "Tokyo", 0),
        (ExactMatch(ignore_case=True), "STRASSE", "straße", 1),
        (ExactMatch(ignore_spaces=False), "Tokyo ", "Tokyo", 0),
        (ExactMatch(), "4", 4, 1),
        (ExactMatch(), "Tokyo", None, None),
        (RegexMatch(r"\d{4}"), "in 1999", None, 1),
        (RegexMatch(r"\d{4}", full=True), "in 1999", None, 0),
        (RegexMatch(), "in 1999", "^in", 1),
        (RegexMatch(), "in 1999", 7, None),
        (Similarity(), "the big cat", "the cat", pytest.approx(0.8)),
        (Similarity(), "", "", 1),
        (Similarity(), "?!", "cat", 0),
        (Similarity("ratio"), "abcd", "abxd", pytest.approx(0.75)),
        (Similarity(at_least=0.7), "the big cat", "the cat", 1),
        (Similarity(at_least=0.9), "the big cat", "the cat", 0),
        (Similarity(lambda a, b: 7.5), "x", "y", 1),
        (JsonMatch(), '{"a": 1, "b": [1, 2]}', {"b": [1, 2], "a": 1.0}, 1),
        (JsonMatch(), "```json\n[1]\n```", "[1]", 1),
        (JsonMatch(), {"a": 1, "b": 2}, {"a": 1, "c": 2}, pytest.approx(1 / 3)),
        (JsonMatch(), {"a": True}, {"a": 1}, 0),
        (JsonMatch(), {"a": []}, {"a": {}}, 0),
        (JsonMatch(), "no JSON", {"a": 1}, 0),
        (JsonSchema({"type": "object", "required": ["a"]}), '{"a": 1}', None, 1),
        (JsonSchema({"type": "object", "required": ["a"]}), "{}", None, 0),
        (JsonSchema({"type": "object"}), "{", None, 0),
    ],
)
async def test_scorers_of_what_was_said(scorer, output, expected, score):
    assert await value(scorer, output, expected) == score


async def test_a_measure_may_be_async():
    async def half(wanted, got):
        return 0.5

    assert await value(Similarity(half), "x", "y") == 0.5


def said(*calls):
    return [
        AssistantMessage(
            tool_calls=[
                ToolCall(id=str(i), name=name, arguments=json.dumps(arguments))
                for i, (name, arguments) in enumerate(calls)
            ]
        )
    ]


@pytest.mark.parametrize(
    ("scorer", "tools", "calls", "score"),
    [
        (ToolUse(), ["a", "b"], [("b", {}), ("a", {})], 1),
        (ToolUse(), ["a", "b"], [("a", {}), ("c", {})], 0.5),
        (ToolUse(), ["a", "a"], [("a", {})], 0.5),
        (ToolUse(), [{"name": "a", "arguments": {"x": 1}}], [("a", {"x": 1, "y": 2})], 1),
        (ToolUse(), [{"name": "a", "arguments": {"x": 1}}], [("a", {"x": 2})], 0),
        (ToolUse(), ["a", {"name": "a", "arguments": {"x": 1}}], [("a", {"x": 1}), ("a", {})], 1),
        (ToolUse(ordered=True), ["a", "b"], [("b", {}), ("a", {})], 0.5),
        (ToolUse(ordered=True), ["a", "b"], [("a", {}), ("c", {}), ("b", {})], 1),
        (ToolUse(only=True), ["a"], [("a", {}), ("b", {})], 0.5),
        (ToolUse(only=True), [], [("a", {})], 0),
        (ToolUse(), [], [], 1),
        (ToolUse(), None, [("a", {})], None),
        (ToolUse(forbidden=("rm",)), ["a"], [("a", {}), ("rm", {})], 0),
        (ToolUse(forbidden=("rm",)), None, [("a", {})], 1),
    ],
)
async def test_tool_use_counts_the_expected_calls(scorer, tools, calls, score):
    found = await value(scorer, tools=tools, messages=said(*calls))
    if score == 0 and scorer.only and tools == []:
        assert found == 0
    else:
        assert found == score


async def test_arguments_that_are_no_json_fit_only_a_call_without_any():
    call = ToolCall(id="1", name="a", arguments="{oops")
    messages = [AssistantMessage(tool_calls=[call])]
    assert await value(ToolUse(), tools=["a"], messages=messages) == 1
    wanted = [{"name": "a", "arguments": {"x": 1}}]
    assert await value(ToolUse(), tools=wanted, messages=messages) == 0


async def test_limits_give_a_part_to_what_is_over_them():
    assert await value(CostLimit(0.02), cost_usd=0.02) == 1
    assert await value(CostLimit(0.02), cost_usd=0.04) == 0.5
    assert await value(CostLimit(0.02), cost_usd=None) is None
    assert await value(LatencyLimit(1), seconds=0.5) == 1
    assert await value(LatencyLimit(1), seconds=4) == 0.25


def test_scorers_are_made_of_texts(tmp_path):
    schema = tmp_path / "s.json"
    schema.write_text('{"type": "object"}')
    assert make_scorer("exact") == ExactMatch()
    assert make_scorer("similarity=0.8") == Similarity(at_least=0.8)
    assert make_scorer("latency=2.5") == LatencyLimit(2.5)
    assert make_scorer(f"schema={schema}") == JsonSchema({"type": "object"})
    assert make_scorer("judge=Is it short?").name == "judge"
    assert set(scorer_registry) >= {"exact", "regex", "json", "tools", "cost", "judge"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("latency", "seconds: latency=5"),
        ("latency=soon", "'latency=soon'"),
        ("schema", "name the schema's file"),
        ("schema=/nowhere", "No such file"),
        ("judge", "what makes an answer good"),
    ],
)
def test_a_text_that_makes_no_scorer_is_told(text, told):
    with pytest.raises(ScorerError, match=told):
        make_scorer(text)


def test_an_unknown_scorer_is_told_with_those_there_are():
    with pytest.raises(RegistryError, match=r"unknown scorer 'exakt'; known: .*exact"):
        make_scorer("exakt")


async def test_a_schema_or_pattern_that_is_none_is_told(tmp_path):
    with pytest.raises(ScorerError, match="no JSON schema"):
        await value(JsonSchema({"type": "objekt"}), "{}")
    with pytest.raises(ScorerError, match="no regular expression"):
        await value(RegexMatch("("), "x")
