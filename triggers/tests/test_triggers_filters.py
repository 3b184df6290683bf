"""Filters and keys as a table: which event makes a task, which does not and why."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.webhooks import REPOSITORY, SHA

from orbiter_contracts.trigger_events import TriggerEvent
from orbiter_triggers.events.filters import event_key, has_command, verdict
from orbiter_triggers.models import TriggerSpec


def event(kind: str = "issues.labeled", **more: Any) -> TriggerEvent:
    known: dict[str, Any] = {
        "trigger": "fixes", "uid": "u-1", "scheme": "github", "kind": kind, "identity": "i-1",
        "repository": REPOSITORY, "author": "mona", "writer": True, "number": "12",
    }  # fmt: skip
    return TriggerEvent(**known | more)


def spec(key: str | None = None, **filters: Any) -> TriggerSpec:
    return TriggerSpec.model_validate(
        {"source": {"github": {"repository": REPOSITORY}}, "filters": filters, "key": key}
    )


COMMENT = {"comment": "please\n  /agent fix it", "comment_id": "5"}
FIRES = [
    (event(), spec(), "number:12"),
    (event("issues.opened"), spec(events=["issues"]), "number:12"),
    (event("issue_comment.created", **COMMENT), spec(comment="/agent"), "comment:issue_comment:5"),
    (event("issue_comment.edited", **COMMENT), spec(events=["issue_comment.edited"]),
     "comment:issue_comment:5"),
    (event("push", commit=SHA, branch="main"), spec(branches=["main"]), f"commit:{SHA}"),
    (event("push", commit=SHA, branch="release/2"), spec(branches=["rel*"]), f"commit:{SHA}"),
    (event("push", commit=SHA, paths=("a", "src/b.py")), spec(paths=["*.py"]), f"commit:{SHA}"),
    (event("push", commit=SHA, paths=("a",), paths_cut=True), spec(paths=["z"]), f"commit:{SHA}"),
    (event("pull_request.synchronize", commit=SHA), spec(), f"commit:{SHA}"),
    (event("pull_request.synchronize", commit=SHA), spec("number"), "number:12"),
    (event(labels=("agent", "bug")), spec(labels=["agent"]), "number:12"),
    (event(writer=False), spec(authors="Anyone"), "number:12"),
    (event(repository=REPOSITORY.upper()), spec(), "number:12"),
    (event(), spec("delivery"), "delivery:i-1"),
]  # fmt: skip


@pytest.mark.parametrize(("came", "wanted", "key"), FIRES, ids=range(len(FIRES)))
def test_an_event_that_passes_has_the_key_of_its_task(
    came: TriggerEvent, wanted: TriggerSpec, key: str
) -> None:
    assert verdict(came, wanted) == (key, "")


PASSES_BY = [
    (event(program=True, author="x[bot]"), spec(authors="Anyone"), "a program did it (x[bot])"),
    (event(writer=False), spec(), "nothing says that mona may write"),
    (event(writer=None), spec(), "nothing says that mona may write"),
    (event(repository="octo-org/other"), spec(), "its repository is octo-org/other"),
    (event(scheme="hmac"), spec(), "it came as hmac"),
    (event("issues.closed"), spec(), "only where filters.events names it"),
    (event("issues.closed"), spec(events=["issues.opened"]), "does not name issues.closed"),
    (event("issue_comment.created", **COMMENT), spec(), "only where filters.comment or"),
    (event("issue_comment.created", comment="/agents", comment_id="5"), spec(comment="/agent"),
     "no line of a comment begins with /agent"),
    (event(), spec(comment="/agent"), "no line of a comment"),
    (event(labels=("bug",)), spec(labels=["agent"]), "none of the labels agent"),
    (event("push", commit=SHA, branch="dev"), spec(branches=["main"]), "its branch is dev"),
    (event("push", commit=SHA, branch="main2"), spec(branches=["main"]), "its branch is main2"),
    (event("push", commit=SHA, paths=("a",)), spec(paths=["b"]), "none of the files"),
    (event("push", commit="0" * 40), spec(), "the branch was deleted"),
    (event(number=""), spec("number"), "has no number"),
]  # fmt: skip


@pytest.mark.parametrize(("came", "wanted", "why"), PASSES_BY, ids=range(len(PASSES_BY)))
def test_an_event_that_does_not_pass_is_told_why(
    came: TriggerEvent, wanted: TriggerSpec, why: str
) -> None:
    found = verdict(came, wanted)
    assert found.key == ""
    assert why in found.why


def test_ids_of_comments_and_of_reviews_are_counted_apart() -> None:
    one, other = (event(kind, comment_id="5") for kind in ("issue_comment.x", "commit_comment.x"))
    assert event_key(one, "comment") != event_key(other, "comment")


def test_what_another_program_sends_is_named_by_its_delivery() -> None:
    wanted = TriggerSpec.model_validate({"source": {"webhook": {"scheme": "hmac"}}})
    came = event("built", scheme="hmac", writer=None)
    assert verdict(came, wanted) == ("delivery:i-1", "")
    assert "does not name" in verdict(came, wanted.model_copy(
        update={"filters": spec(events=["other"]).filters})).why  # fmt: skip


@pytest.mark.parametrize(
    ("comment", "found"),
    [("/agent", True), ("hi\r\n/agent now", True), ("/agentx", False), ("do /agent", False)],
)
def test_a_command_begins_a_line(comment: str, found: bool) -> None:
    assert has_command(comment, "/agent") is found


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=20), max_size=3))
@example("\0", ["0"])
def test_a_pattern_of_any_characters_is_held_against_any_branch(
    branch: str, patterns: list[str]
) -> None:
    came = event("push", commit=SHA, branch=branch)
    plain = [one for one in patterns if "*" not in one]
    assert (verdict(came, spec(branches=plain)).key != "") is (not plain or branch in plain)
    refused = verdict(came, spec(branches=[f"{branch}."])).why
    assert verdict(came, spec(branches=patterns)).why in ("", refused)
