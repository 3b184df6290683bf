"""The judge of the storms sees what it is there to see, and their script is what they say it is."""

from collections import Counter
from typing import Any

import pytest
from support.trigger_storm import COMMENTS, LABELS, Wanted, judge, script, summary

from orbiter_triggers.naming import event_name

Object = dict[str, Any]
UIDS = {COMMENTS: ("on-comment-x", "uid-1"), LABELS: ("on-label-x", "uid-2")}
WANTED = [
    Wanted(COMMENTS, "comment:issue_comment:7", 3, 1, 1),
    Wanted(LABELS, "number:4", 4, 0, 0),
]


def task(wanted: Wanted, **status: Any) -> Object:
    name = event_name(*UIDS[wanted.trigger], wanted.key)
    done = {"phase": "Completed", "attempts": 1} | status
    return {"metadata": {"name": name, "uid": f"of {name}"}, "status": done}


def comment(of: Object, number: int, says: str = "is done") -> Object:
    mark = f"<!-- orbiter:task {of['metadata']['uid']} -->"
    return {"number": number, "body": f"{mark}\n\n**It {says}**"}


TASKS = [task(one) for one in WANTED]
SAID = [comment(each, one.number) for each, one in zip(TASKS, WANTED, strict=True)]
FOREIGN = {"metadata": {"name": "on-label-x-0", "uid": "u"}, "status": {"phase": "Completed"}}


def test_what_is_as_it_has_to_be_is_no_problem() -> None:
    assert judge(WANTED, UIDS, TASKS, SAID) == []


@pytest.mark.parametrize(
    ("tasks", "comments", "said"),
    [
        (TASKS[:1], SAID[:1], "is not there"),
        ([*TASKS, FOREIGN], SAID, "should not be there"),
        ([*TASKS, TASKS[0]], SAID, "is there 2 times"),
        ([TASKS[0], task(WANTED[1], phase="Failed")], SAID, "Failed"),
        ([TASKS[0], task(WANTED[1], attempts=2)], SAID, "attempts 2"),
        (TASKS, SAID[:1], "has 0 comments"),
        (TASKS, [*SAID, SAID[0]], "has 2 comments"),
        (TASKS, [SAID[0], comment(TASKS[1], 3)], "has its comment in #3"),
        (TASKS, [SAID[0], comment(TASKS[1], 4, "works")], "a comment of before"),
        (TASKS, [*SAID, comment(FOREIGN, 4)], "a comment of no task"),
    ],
)
def test_what_is_not_is_named(tasks: list[Object], comments: list[Object], said: str) -> None:
    assert said in "\n".join(judge(WANTED, UIDS, tasks, comments))


def test_a_tenth_is_never_told_and_three_tenths_twice() -> None:
    steps = script(7, 1000)
    wanted = [step for step in steps if step.trigger]
    assert Counter(step.deliveries for step in wanted) == {0: 100, 1: 600, 2: 300}
    assert len(steps) > len(wanted) + 200
    assert {step.kind for step in wanted} == {"comment", "label", "pull"}
    assert steps == script(7, 1000)
    assert steps != script(8, 1000)


def test_what_no_webhook_has_told_was_found_by_the_poll() -> None:
    lost = Wanted(LABELS, "number:5", 5, 2, 0)
    found = summary(7, [*WANTED, lost], {}, {"courier": 2}, 3, 3, 9.7)
    assert (found["found_by_poll"], found["never_delivered"], found["lost_on_the_way"]) == (2, 1, 1)
    assert (found["events"], found["duplicates"], found["seconds"]) == (3, 1, 10)
