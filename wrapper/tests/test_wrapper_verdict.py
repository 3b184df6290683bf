"""What an agent says about its work, found in its text; and what a turn is judged to be."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orbiter_contracts import AgentVerdict
from orbiter_contracts.input_requests import digest
from worker_wrapper.agents.base import AgentResult
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer
from worker_wrapper.turn.classify import TEXT_CHARACTERS, Classification, classify
from worker_wrapper.turn.verdict import find_verdict

START = datetime(2026, 1, 1, tzinfo=UTC)
DONE = '<result>{"status":"success","summary":"did it"}</result>'


def test_the_block_is_read_across_lines() -> None:
    finding = find_verdict('Well.\n<result>\n{\n"summary": "did it"\n}\n</result>\nBye.')

    assert finding.verdict == AgentVerdict(status="success", summary="did it")
    assert finding.rest == "Well.\n\nBye."


@pytest.mark.parametrize("inside", [" " * 100_000, "w" * 100_000 + " " * 100_000, "\n \t" * 50_000])
@pytest.mark.parametrize("end", ["x", "```", "``` x", "```\n```"])
def test_a_fence_of_any_length_is_read_at_once(inside: str, end: str) -> None:
    """Who reads it is the event loop: meanwhile no claim is renewed and no signal heard."""
    finding = find_verdict(f"<result>```{inside}{end}</result>")

    assert finding.verdict is None
    assert finding.problem
    assert finding.problem.startswith("the agent's <result> block is not valid JSON")


def test_what_is_to_be_approved_is_kept_and_what_is_no_request_left_out() -> None:
    call = {"tool": "refund", "arguments": {"order": 7}, "digest": digest("refund", {"order": 7})}
    said = {"status": "input_required", "question": "May I?"}
    request = {"id": "r", "kind": "approval", "calls": [call]}
    finding = find_verdict(f"<result>{json.dumps({**said, 'request': request})}</result>")
    assert finding.verdict is not None
    assert finding.verdict.request is not None
    assert finding.verdict.request.calls[0].arguments == {"order": 7}
    call["arguments"] = {"order": 8}
    finding = find_verdict(f"<result>{json.dumps({**said, 'request': request})}</result>")
    assert finding.verdict == AgentVerdict(status="input_required", question="May I?")
    assert finding.warnings == ("the verdict's request was left out: it is no InputRequest",)


def test_the_last_block_wins() -> None:
    finding = find_verdict(f'{DONE} then <result>{{"status":"failure"}}</result>')

    assert finding.verdict is not None
    assert finding.verdict.status == "failure"


def test_an_unusable_last_block_is_not_replaced_by_an_earlier_one() -> None:
    finding = find_verdict(f"{DONE} <result>oops</result>")

    assert finding.verdict is None
    assert finding.problem == "the agent's <result> block is not valid JSON: oops"


@pytest.mark.parametrize(
    "text",
    [
        'I end with a <result> block: <result>{"summary":"x"}</result>',
        '<result>{"summary":"x"}</result> and no more <result> from me',
        '<result>```json\n{"summary":"x"}\n```</result>',
        '<result>null</result> <result> {"summary":"x", "data":null, "unknown":1} </result>',
    ],
)
def test_talk_about_blocks_does_not_hide_the_block(text: str) -> None:
    verdict = find_verdict(text).verdict

    assert verdict is not None
    assert verdict.summary == "x"


@pytest.mark.parametrize(
    "summary", ["parse <result> tags", "close </result> tags", "<result></result>"]
)
def test_a_verdict_may_mention_the_tags(summary: str) -> None:
    verdict = find_verdict(f'So. <result>{{"summary":"{summary}"}}</result>').verdict

    assert verdict is not None
    assert verdict.summary == summary


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("{'status': 'success'}", "not valid JSON: {'status': 'success'}"),
        ("", "not valid JSON"),
        ("[1, 2]", "not a JSON object: [1, 2]"),
        ('"success"', "not a JSON object"),
        ("[" * 100_000, "not valid JSON"),
        ('{"status": "done"}', "unusable 'status': Input should be 'success', 'failure'"),
        ('{"data": [1]}', "unusable 'data'"),
    ],
)
def test_what_is_wrong_with_a_block_is_said_never_raised(block: str, problem: str) -> None:
    finding = find_verdict(f"<result>{block}</result>")

    assert finding.verdict is None
    assert finding.present
    assert problem in (finding.problem or "")


@pytest.mark.parametrize("text", ["", "done", "<result>{}", "</result>", "</result><result>"])
def test_without_a_whole_block_there_is_none(text: str) -> None:
    finding = find_verdict(text)

    assert not finding.present
    assert finding.problem == "the agent's answer has no <result> block"


def test_half_a_surrogate_pair_is_made_harmless() -> None:
    verdict = find_verdict('<result>{"summary":"\\ud800", "data":{"\\udc00":["\\ud800"]}}</result>')

    assert verdict.verdict is not None
    assert verdict.verdict.model_dump_json()


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., Classification]:
    def make(
        text: str = DONE,
        *,
        developer: bool = True,
        result: AgentResult | None = None,
        **left: object,
    ) -> Classification:
        outcome: dict[str, object] = {
            **{"exit_code": 0, "signal": None, "stderr_tail": b""},
            "stdout": OutputBuffer(tmp_path),
            **{"timed_out": False, "interrupted": None, "oom_killed": False},
            **{"started_at": START, "finished_at": START + timedelta(seconds=9)},
        }
        result = result or AgentResult(text=text, turns=1)
        return classify("claude", Outcome(**outcome | left), result, developer=developer)  # type: ignore[arg-type]

    return make


Judged = Callable[..., Classification]


@pytest.mark.parametrize(
    ("block", "status"),
    [
        ('{"status":"success"}', "success"),
        ('{"summary":"no status"}', "success"),
        ('{"status":"failure"}', "failed"),
        ('{"status":"in_progress"}', "failed"),
        ('{"status":"input_required","question":"?"}', "input_required"),
    ],
)
@pytest.mark.parametrize("developer", [True, False])
def test_the_verdict_decides(judged: Judged, block: str, status: str, developer: bool) -> None:
    assert judged(f"So. <result>{block}</result>", developer=developer).status == status


def test_a_failed_verdict_is_the_agents_error_in_its_own_words(judged: Judged) -> None:
    found = judged('<result>{"status":"failure","summary":"no tests"}</result>')

    assert (found.reason, found.error) == ("AgentError", "no tests")


@pytest.mark.parametrize("text", ["I am done.", "I am done. <result>{oops}</result>"])
def test_a_developer_without_a_usable_block_failed_and_its_text_is_kept(
    judged: Judged, text: str
) -> None:
    found = judged(text)

    assert (found.status, found.reason) == ("failed", "NoVerdict")
    assert "<result> block" in (found.error or "")
    assert found.verdict is not None
    assert found.verdict.summary == text


def test_without_a_block_the_text_of_a_po_is_the_answer(judged: Judged) -> None:
    found = judged("It is noon.", developer=False)

    assert (found.status, found.text, found.warnings) == ("success", "It is noon.", [])


def test_an_unusable_block_of_a_po_is_only_a_warning(judged: Judged) -> None:
    found = judged("It is noon. <result>{oops}</result>", developer=False)

    assert found.status == "success"
    assert "not valid JSON" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('Noon. <result>{"text":"It is noon."}</result>', "It is noon."),
        ('Noon. <result>{"status":"success"}</result>', "Noon."),
        ('<result>{"status":"input_required","question":"Where?"}</result>', "Where?"),
        ('Far. <result>{"status":"input_required","question":"Where?"}</result>', "Far.\n\nWhere?"),
        ('So where? <result>{"status":"input_required","question":"where?"}</result>', "So where?"),
        (
            '<result>{"status":"input_required","text":"Far.","question":"Where?"}</result>',
            "Far.\n\nWhere?",
        ),
        ('Where? <result>{"status":"input_required"}</result>', "Where?"),
        ('<result>{"status":"failure","summary":"No clock."}</result>', "No clock."),
    ],
)
def test_the_answer_of_a_po_is_what_its_block_or_the_text_beside_it_says(
    judged: Judged, text: str, answer: str
) -> None:
    assert judged(text, developer=False).text == answer


def test_a_crash_is_an_error_with_its_one_line_of_stderr_beside_it(judged: Judged) -> None:
    found = judged(result=AgentResult(is_error=True), exit_code=3, stderr_tail=b"Segfault at 0\n")

    assert (found.status, found.reason) == ("error", "AgentError")
    assert found.error == "claude exited with code 3: Segfault at 0"


def test_a_crash_with_more_to_say_has_the_end_of_stderr_below_it(judged: Judged) -> None:
    found = judged(
        result=AgentResult(is_error=True), exit_code=3, stderr_tail=b"Segfault\n  at 0\n"
    )

    assert found.error == "claude exited with code 3\nSegfault\n  at 0"


def test_an_agent_that_ends_without_a_word_is_an_error_that_says_so(judged: Judged) -> None:
    found = judged(result=AgentResult(is_error=True))

    assert found.error == "claude ended without a result"


def test_a_success_that_exits_with_an_error_is_none(judged: Judged) -> None:
    assert judged(exit_code=1).status == "error"


def test_death_by_a_signal_is_named(judged: Judged) -> None:
    found = judged(exit_code=None, signal=11)

    assert "claude was killed by signal 11 (Segmentation fault)" in (found.error or "")


def test_what_the_cli_calls_an_error_is_one_although_it_exits_with_0(judged: Judged) -> None:
    found = judged(result=AgentResult(text=DONE, is_error=True, error="no key", turns=1))

    assert (found.status, found.error) == ("error", "no key")


def test_a_turn_in_which_the_model_was_never_asked_is_no_success(judged: Judged) -> None:
    found = judged(result=AgentResult(text="Total cost: 0", turns=0))

    assert found.status == "error"
    assert "did not ask the model: 'Total cost: 0'" in (found.error or "")


def test_a_timeout_is_one_even_if_the_agent_says_success_on_its_way_out(judged: Judged) -> None:
    found = judged(timed_out=True)

    assert (found.status, found.reason) == ("timeout", "AgentTimeout")
    assert found.error == "claude was ended after 9 s: its time was up"


@pytest.mark.parametrize(
    ("why", "status", "reason"),
    [("cancelled", "cancelled", "Cancelled"), ("terminated", "error", "Terminated")],
)
def test_an_early_end_is_told_apart_by_its_reason(
    judged: Judged, why: str, status: str, reason: str
) -> None:
    found = judged(interrupted=why)

    assert (found.status, found.reason) == (status, reason)


def test_an_agent_killed_for_lack_of_memory_is_told_so(judged: Judged) -> None:
    nothing = AgentResult(is_error=True)

    found = judged(result=nothing, exit_code=None, signal=9, oom_killed=True)

    assert (found.status, found.reason) == ("error", "OOMKilled")


def test_processes_that_survive_everything_are_a_warning(judged: Judged) -> None:
    assert judged(survivors=(42,)).warnings == ["processes that could not be ended: 42"]


def test_a_tool_killed_for_lack_of_memory_is_a_warning(judged: Judged) -> None:
    found = judged(oom_killed=True)

    assert found.status == "success"
    assert "lack of memory" in found.warnings[0]


@pytest.mark.parametrize("developer", [True, False])
@pytest.mark.parametrize("text", ["Sorry.", '<result>{"summary":"?"}</result>'])
def test_denied_tools_without_an_explicit_success_are_a_failure(
    judged: Judged, text: str, developer: bool
) -> None:
    result = AgentResult(text=text, turns=1, permission_denials=["Bash", "Write"])

    found = judged(result=result, developer=developer)

    assert (found.status, found.reason) == ("failed", "PermissionDenied")
    assert "claude was not allowed to use Bash, Write" in (found.error or "")
    assert found.warnings[:2] == ["permission denied: Bash", "permission denied: Write"]


def test_denied_tools_with_an_explicit_success_are_warnings(judged: Judged) -> None:
    found = judged(result=AgentResult(text=DONE, turns=1, permission_denials=["Bash"]))

    assert found.status == "success"
    assert found.warnings == ["permission denied: Bash"]


def test_of_a_very_long_text_the_end_is_published(judged: Judged) -> None:
    found = judged("x" * TEXT_CHARACTERS * 2 + DONE)

    assert found.status == "success"
    assert len(found.text) < TEXT_CHARACTERS + 100
    assert found.text.endswith(DONE)


def test_text_that_cannot_be_sent_is_made_sendable(judged: Judged) -> None:
    assert judged("half \ud800 a pair", developer=False).text == "half ? a pair"


@pytest.mark.parametrize("developer", [True, False])
def test_a_block_longer_than_the_published_text_is_read_all_the_same(
    judged: Judged, developer: bool
) -> None:
    long = "x" * TEXT_CHARACTERS * 2
    found = judged(f'<result>{{"summary":"{long}"}}</result>', developer=developer)

    assert found.status == "success"
    assert found.verdict is not None
    assert found.verdict.summary == long
    assert len(found.text) < TEXT_CHARACTERS + 100


def test_openings_without_an_end_do_not_hold_up_the_verdict(judged: Judged) -> None:
    opening = '<result>{"summary":"'

    found = judged(opening * 50_000 + DONE)

    assert found.verdict == AgentVerdict(status="success", summary="did it")
