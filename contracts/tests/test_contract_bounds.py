"""What a message may be at most, and what becomes of what an agent made beyond that."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from orbiter_contracts import (
    AgentVerdict,
    DeveloperWorkerInput,
    DeveloperWorkerOutput,
    InvalidMessageError,
    Usage,
    WorkerLifecycleEvent,
    clamped_cost,
    clamped_count,
    clamped_data,
    decode,
    encode,
    fitted,
)
from orbiter_contracts.artifacts import Artifacts
from orbiter_contracts.bounds import (
    MAX_COUNT,
    MAX_DATA_DEPTH,
    MAX_MESSAGE_BYTES,
    MAX_MESSAGE_VALUES,
    MAX_NAME_CHARACTERS,
    MAX_OUTPUT_BYTES,
    MAX_TIMEOUT_SECONDS,
    one_line,
    shortened,
)

TASK = '{"prompt":"x","task_id":"t"'


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def refused(fields: dict[Any, Any], kind: Any = DeveloperWorkerInput) -> str:
    with pytest.raises(InvalidMessageError) as caught:
        decode(kind, fields)
    return str(caught.value)


def test_data_that_is_not_utf8_is_refused_and_shown_byte_by_byte() -> None:
    assert refused({b"data": b"\xff\xfe"}) == (r"DeveloperWorkerInput.data: not UTF-8 in \xff\xfe")


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (
            DeveloperWorkerOutput,
            '{"request_id":"r","task_id":"t","verdict":{"request":{"calls":',
            "}}}",
        ),
        (DeveloperWorkerOutput, '{"request_id":"r","task_id":"t","artifacts":{"names":', "}}"),
        (DeveloperWorkerOutput, '{"request_id":"r","task_id":"t","steps":', "}"),
        (DeveloperWorkerOutput, '{"request_id":"r","task_id":"t","warnings":', "}"),
        (DeveloperWorkerInput, TASK + ',"artifacts":', "}"),
        (Artifacts, '{"time":"2026-01-01T00:00:00Z","files":', "}"),
    ],
)
def test_of_many_wrong_items_one_is_told(kind: Any, before: str, after: str) -> None:
    """Each is an error of its own: a million, of 4 MiB, were 5 GB and 80 seconds."""
    for item in ("{}", "1"):
        with pytest.raises(ValidationError) as caught:
            kind.model_validate_json(f"{before}[{','.join([item] * 5000)}]{after}")
        assert caught.value.error_count() <= 100


@pytest.mark.parametrize("kind", [DeveloperWorkerOutput, WorkerLifecycleEvent])
@pytest.mark.parametrize("item", ["[]", "{}", "1", '"a":1'])
def test_a_message_of_too_many_values_is_refused_before_they_are_made(kind: Any, item: str) -> None:
    opening, closing = "{}" if ":" in item else "[]"
    many = ",".join([item] * (MAX_MESSAGE_VALUES + 1))
    text = '{"worker_id":"w","request_id":"r","task_id":"t","event":"busy","x":'
    why = refused({"data": f"{text}{opening}{many}{closing}}}"}, kind)
    assert f"more than {MAX_MESSAGE_VALUES} values" in why


def test_brackets_and_commas_in_a_text_are_no_values() -> None:
    prompt = '[{"a": "\\\\"}, 1]' * 50_000
    said = DeveloperWorkerInput(prompt=prompt, task_id="t")
    assert decode(DeveloperWorkerInput, encode(said)).prompt == prompt


def test_data_of_a_client_that_escapes_wrong_bytes_is_refused_with_the_same_words() -> None:
    assert refused({"data": b"\xff\xfe".decode("utf-8", "surrogateescape")}) == (
        r"DeveloperWorkerInput.data: not UTF-8 in \xff\xfe"
    )


def test_an_utf8_file_never_looks_like_another_message() -> None:
    good = TASK + ',"project_id":"caf\u00e9"}'
    assert decode(DeveloperWorkerInput, {b"data": good.encode()}).project_id == "caf\u00e9"
    assert "not UTF-8" in refused({b"data": good.encode("latin-1")})


@pytest.mark.parametrize(
    "timeout", ["99999999999999999999999", "9" * 5000, "1e309", "604801", '"\u00b2"', "NaN", "-1"]
)
def test_a_timeout_beyond_a_week_is_refused(timeout: str) -> None:
    assert "\n" not in refused({"data": f'{TASK},"timeout":{timeout}}}'})


def test_the_longest_timeout_is_what_the_resource_definition_allows() -> None:
    crd = Path(__file__).parents[2] / "crds" / "agenttask.yaml"
    spec = yaml.safe_load(crd.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = spec["properties"]["spec"]["properties"]
    rules = properties["timeoutSeconds"]["x-kubernetes-validations"]
    assert rules[0]["rule"] == f"self >= 1 && self <= {MAX_TIMEOUT_SECONDS}"
    assert properties["taskId"]["maxLength"] == MAX_NAME_CHARACTERS
    assert properties["projectId"]["maxLength"] == MAX_NAME_CHARACTERS


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ('{"a":' * 2000, "recursion limit"),
        ('{"x":NaN}', "NaN"),
        ('{"x":1e309}', "infinite"),
        ('{"x":9223372036854775808}', "64 bits"),
        ('{"x":[' + "0," * 10_000 + "0]}", "10000 values"),
        ('{"x":"' + "y" * 300_000 + '"}', "262144 bytes"),
        ('{"x":"\\ud800"}', "surrogate|hex escape"),
        (json.dumps(nested(MAX_DATA_DEPTH + 2)), "64 deep"),
    ],
)
def test_details_beyond_their_bounds_are_refused(data: str, says: str) -> None:
    text = f'{{"worker_id":"w","event":"busy","details":{data}}}'
    with pytest.raises(InvalidMessageError, match=says):
        decode(WorkerLifecycleEvent, {"data": text})


def test_a_reason_is_one_printable_line_of_a_few_hundred_characters() -> None:
    for data in ("\x00\n\x1b[31m" * 1000, "{" + '"\u202e' * 900, "\udc80" * 5, '{"prompt":3}'):
        reason = refused({"data": data})
        assert reason.isprintable()
        assert len(reason) <= 601
        reason.encode()


def test_an_entry_larger_than_readers_take_is_neither_read_nor_written() -> None:
    assert f"at most {MAX_MESSAGE_BYTES}" in refused({b"data": b" " * (MAX_MESSAGE_BYTES + 1)})
    with pytest.raises(InvalidMessageError, match="a message has at most"):
        encode(DeveloperWorkerInput(task_id="t", prompt="\u20ac" * (MAX_MESSAGE_BYTES // 2)))


def test_ninety_thousand_wrong_warnings_are_one_error() -> None:
    text = '{"request_id":"r","task_id":"t","warnings":[' + "0," * 90_000 + "0]}"
    assert "warnings.0" in refused({"data": text}, DeveloperWorkerOutput)


def test_warnings_are_fifty_of_two_hundred_characters() -> None:
    output = DeveloperWorkerOutput(request_id="r", task_id="t", warnings=["w" * 900] * 70)
    assert len(output.warnings) == 50
    assert {len(warning) for warning in output.warnings[:49]} == {200}
    assert output.warnings[49] == "and 21 warnings more"


def test_a_moment_without_a_zone_is_in_utc() -> None:
    task = decode(DeveloperWorkerInput, {"data": TASK + ',"timestamp":"2026-01-10T12:00:00"}'})
    assert task.timestamp == datetime(2026, 1, 10, 12, tzinfo=UTC)


def test_a_moment_that_no_clock_shows_is_refused() -> None:
    for moment in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
        assert "is not between" in refused({"data": f'{TASK},"timestamp":"{moment}"}}'})


def test_half_a_character_in_what_a_program_says_becomes_a_question_mark() -> None:
    assert AgentVerdict(summary="so\ud800").summary == "so?"
    assert json.loads(encode(AgentVerdict(summary="so\ud800"))["data"])["summary"] == "so?"


def test_no_message_holds_a_number_that_json_does_not_have() -> None:
    for wrong in ({"cost_usd": math.nan}, {"cost_usd": math.inf}, {"turns": 10**400}):
        with pytest.raises(ValidationError):
            Usage.model_validate(wrong)


def test_counts_and_costs_of_a_program_are_clamped() -> None:
    counts = [3, -1, 10**400, math.inf, math.nan, "4", None, True, 2.9]
    assert [clamped_count(one) for one in counts] == [3, 0, MAX_COUNT, MAX_COUNT, 0, 0, 0, 0, 2]
    assert [clamped_count(one, default=1) for one in ("4", None, 0, -1)] == [1, 1, 0, 0]
    assert clamped_cost(0.1 + 0.2) == 0.3, "noise of a sum is nothing that anybody has paid"
    costs = [0.5, 0, -1, math.nan, math.inf, 10**400, "1", None]
    assert [clamped_cost(one) for one in costs] == [0.5, 0.0] + [None] * 6


def test_numbers_in_an_agents_data_become_what_json_can_say() -> None:
    data, problem = clamped_data({"n": math.nan, "i": 2**63, "ok": [1, "\ud800", None]})
    assert problem is None
    assert data == {"n": None, "i": "9223372036854775808", "ok": [1, "?", None]}
    assert AgentVerdict(data=data).data == data


def test_an_agents_data_beyond_its_bounds_is_left_out_with_a_word() -> None:
    assert clamped_data(nested(260)) == ({}, "is nested more than 64 deep")
    assert clamped_data({"zeros": [0] * 20_000}) == ({}, "has more than 10000 values")
    assert clamped_data(nested(MAX_DATA_DEPTH)) == (nested(MAX_DATA_DEPTH), None)


def test_an_output_is_fitted_by_its_longest_texts() -> None:
    output = DeveloperWorkerOutput(
        request_id="r",
        task_id="t",
        error="short",
        verdict=AgentVerdict(summary="\x01" * 262_144, text="\u20ac" * 262_144, data={"a": 1}),
    )
    small, cut = fitted(output)
    assert len(small.model_dump_json().encode()) <= MAX_OUTPUT_BYTES
    assert small.verdict is not None
    assert (small.error, small.verdict.data) == ("short", {"a": 1})
    assert " characters, cut] " in small.verdict.summary
    assert cut == ["verdict.summary (262144 characters)", "verdict.text (262144 characters)"]
    assert "[262144 characters, cut]" in small.verdict.summary
    assert fitted(small) == (small, [])


def test_a_shortened_text_keeps_its_beginning_and_its_end() -> None:
    text = shortened("begin" + "." * 1000 + "end", 100)
    assert (len(text), text[:5], text[-3:]) == (100, "begin", "end")
    assert (shortened("abc", 3), shortened("abcd", 3)) == ("abc", "ab\u2026")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("feature\x1b[31m/red\x00", "feature [31m/red"),
        ("a\x85b\x9bc\x7fd\u2028e", "a b c d e"),
        ("pay \u202eeciohc\u2066 now\U000e0041", "pay eciohc now"),
        ("  plain \t text \r\n", "plain text"),
        ("👩\u200d🚒 क्\u200dष 修理", "👩\u200d🚒 क्\u200dष 修理"),
        ("half \ud800", "half ?"),
    ],
)
def test_one_line_has_no_control_character_and_nothing_that_hides(text: str, line: str) -> None:
    assert one_line(text) == line
