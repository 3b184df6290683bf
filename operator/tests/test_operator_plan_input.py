"""While an agent's question waits for its answer, and what follows the answer."""

from support.observed import NOW, decide, ended, job, observed, output, pod, record, running, spec

from orbiter_contracts import AgentVerdict, InputCall, InputRequest
from orbiter_contracts.input_requests import digest
from orbiter_operator.tasks.models import Answer
from orbiter_operator.tasks.observed import message_id
from orbiter_operator.tasks.plan.actions import DeleteJob, StartAttempt
from orbiter_operator.tasks.plan.status import without_result

DAY = 24 * 3600
QUESTION = AgentVerdict(status="input_required", question="which branch?", summary="looked around")


def question(attempt=1):
    """What a worker publishes whose agent asks something."""
    return output("input_required", verdict=QUESTION, request_id=message_id(observed(), attempt))


def asking(**changes):
    """The task whose first attempt has asked something, and whose pod is gone."""
    return ended(running(**record(question())), jobs=(), pods=(), **changes)


def answered(state, *texts, **changes):
    """The task with an answer to the question of each attempt so far."""
    given = tuple(
        Answer(id=message_id(observed(), number), text=text) for number, text in enumerate(texts, 1)
    )
    wish = state.spec.model_copy(update={"input": given, **changes})
    return state.model_copy(update={"spec": wish, "record": None})


def attempt(state, number, out=None):
    """The task while this attempt runs, or once it has published."""
    begun = state.model_copy(
        update={
            "jobs": (job(number),),
            "pods": (pod(number, phase="Running", running_since=NOW),),
            **record(out, attempt=number),
        }
    )
    return ended(begun)


def test_a_question_makes_the_task_wait_and_says_what_is_asked():
    status = asking().status
    assert (status.phase, status.reason, status.message) == (
        "InputRequired",
        "InputRequired",
        "which branch?",
    )
    assert status.input_request.id == message_id(observed(), 1)
    assert status.input_request.question == "which branch?"
    assert status.input_request.asked_at == NOW
    assert status.progress == "looked around"
    assert status.condition("Finished").status == "False"


def test_what_is_to_be_approved_is_in_the_status_as_data():
    call = InputCall(tool="refund", arguments={"order": 7}, digest=digest("refund", {"order": 7}))
    request = InputRequest(id="r", kind="approval", calls=(call,))
    verdict = QUESTION.model_copy(update={"request": request})
    asked = output("input_required", verdict=verdict, request_id=message_id(observed(), 1))
    status = ended(running(**record(asked)), jobs=(), pods=()).status
    shown = status.model_dump(by_alias=True, exclude_none=True)["inputRequest"]
    assert (shown["question"], shown["kind"]) == ("which branch?", "approval")
    seen = {"tool": "refund", "arguments": {"order": 7}, "digest": call.digest}
    assert list(shown["calls"]) == [seen]
    least = without_result(status, "too large").input_request
    assert (least.question, least.calls) == ("which branch?", None)


def test_nothing_runs_and_nothing_is_written_while_it_waits():
    decision = decide(asking(), after=60)
    assert (decision.actions, decision.status, decision.slot) == ((), None, "leave")
    assert decision.requeue_after == 3 * DAY - 60


def test_the_answer_begins_the_next_attempt_with_what_was_said():
    decision = decide(answered(asking(), "main"), after=5)
    (start,) = decision.actions
    assert (start.attempt, start.prompt) == (2, "main")
    assert decision.status is None, "the next line of kubectl get -w is Running"
    assert decision.slot == "take"


def test_an_agent_whose_session_is_lost_is_told_everything_anew():
    (start,) = decide(answered(asking(), "main")).actions
    assert start.anew.startswith("do it\n")
    assert start.anew.endswith("You asked: which branch?\nAnswer 1: main")


def test_an_answer_to_another_question_changes_nothing():
    state = asking(spec=spec(input=[{"id": "another", "text": "main"}]))
    assert decide(state).actions == ()


def test_the_question_leaves_the_status_when_the_next_attempt_runs():
    status = attempt(answered(asking(), "main"), 2).status
    assert (status.phase, status.attempts) == ("Running", 2)
    assert (status.input_request, status.result) == (None, None)


def test_several_rounds_are_told_their_own_answers():
    second = attempt(answered(asking(), "main"), 2, question(2))
    second = second.model_copy(update={"jobs": (), "pods": ()})
    assert second.status.phase == "InputRequired"
    assert decide(answered(second, "main")).actions == ()
    (start,) = decide(answered(second, "main", "squash")).actions
    assert (start.attempt, start.prompt) == (3, "squash")
    assert "Answer 1: main\nYou asked: which branch?\nAnswer 2: squash" in start.anew


def test_rounds_are_no_failures():
    state = attempt(answered(asking(), "main"), 2, output("failed"))
    assert (state.status.phase, state.status.reason) == ("Failed", "AgentError")
    retrying = answered(asking(spec=spec(retry={"limit": 1})), "main")
    state = attempt(retrying, 2, output("failed"))
    assert (state.status.phase, state.status.reason) == ("Pending", "Retrying")
    assert "attempt 2 of 3" in state.status.message
    state = state.model_copy(update={"jobs": (), "pods": ()})
    assert decide(state, after=9).actions == (), "the first failure is followed by one backoff"
    (start,) = decide(state, after=10).actions
    assert (start.attempt, start.prompt) == (3, "main"), "it goes on from the question again"
    last = attempt(state, 3, output("failed"))
    assert last.status.phase == "Failed"


def test_nobody_answers_in_time():
    decision = decide(asking(), after=3 * DAY)
    assert (decision.status.phase, decision.status.reason) == ("Failed", "InputTimeout")
    assert decision.status.message == "nobody answered within 72h00m: which branch?"
    assert decision.status.duration == "72h00m"
    assert decision.events[0].reason == "Failed"


def test_the_time_to_answer_can_be_changed_while_it_waits():
    hasty = asking(spec=spec(inputTimeoutSeconds=60))
    assert decide(hasty, after=59).requeue_after == 1
    assert decide(hasty, after=60).status.reason == "InputTimeout"


def test_an_answer_counts_however_late_the_operator_sees_it():
    state = answered(asking(spec=spec(inputTimeoutSeconds=60)), "main")
    assert isinstance(decide(state, after=DAY).actions[0], StartAttempt)


def test_a_task_that_waits_for_an_answer_can_be_cancelled():
    for texts in ((), ("main",)):
        state = answered(asking(), *texts, desired_state="Cancelled")
        decision = decide(state)
        assert decision.status.phase == "Cancelled"
        assert decision.status.message == "cancelled by spec.desiredState"
        assert decision.events[0].reason == "Cancelled"
        assert decision.actions == ()


def test_an_event_names_who_has_answered():
    item = {"id": message_id(observed(), 1), "text": "main", "by": "alice@example.com"}
    decision = decide(asking(spec=spec(input=[item])))
    (event,) = decision.events
    assert (event.kind, event.reason) == ("Normal", "Answered")
    assert event.message == "answered by alice@example.com; attempt 2 goes on with it"
    assert decide(answered(asking(), "main")).events == (), "nobody said who"


def test_the_event_of_a_cancelled_task_names_who_did_it():
    given = spec(desiredState="Cancelled", cancelledBy="alice")
    worked = output("cancelled", reason="Cancelled", error="the worker was told to stop")
    states = [
        (asking(spec=given), "cancelled by alice"),
        (observed(spec=given), "cancelled by alice before it ran"),
        (running(spec=given, **record(worked)), "cancelled by alice"),
    ]
    for state, words in states:
        decision = decide(state)
        assert (decision.status.phase, decision.status.message) == ("Cancelled", words)
        assert words in decision.events[-1].message
    (publish, *_) = decide(running(spec=given)).actions
    assert publish.output.error == "cancelled by alice"


def test_a_name_that_nobody_has_checked_is_one_line_without_control_characters():
    name = "\x1b[2Jmallory\nroot " + "x" * 500
    given = spec(desiredState="Cancelled", cancelledBy=name)
    message = decide(asking(spec=given)).status.message
    assert message.startswith("cancelled by [2Jmalloryroot xxx")
    assert len(message) < 150


def test_the_answer_waits_until_the_pod_that_asked_has_gone():
    alive = asking().model_copy(update={"jobs": (job(),), "pods": (pod(phase="Running"),)})
    state = answered(alive, "main")
    assert decide(state).actions == ()
    assert decide(state).slot == "take"
    assert decide(state, after=121).actions == (DeleteJob(name="fix-1"),)


def test_a_worker_that_does_not_leave_is_stopped_although_nobody_answers():
    alive = asking().model_copy(update={"jobs": (job(),), "pods": (pod(phase="Running"),)})
    assert decide(alive, after=1).requeue_after == 119
    assert decide(alive, after=121).actions == (DeleteJob(name="fix-1"),)


def test_an_answered_task_stands_in_line_like_any_other():
    state = answered(asking(), "main").model_copy(
        update={"slots": observed().slots.model_copy(update={"free": False, "limit": 1})}
    )
    waiting = ended(state)
    assert (waiting.status.phase, waiting.status.reason) == ("Pending", "ConcurrencyLimit")
    free = waiting.model_copy(update={"slots": observed().slots})
    (start,) = decide(free).actions
    assert (start.attempt, start.prompt) == (2, "main")


def test_an_answer_needs_no_prompt_any_more():
    state = answered(asking(), "main").model_copy(update={"prompt": None, "prompt_error": "gone"})
    assert isinstance(decide(state).actions[0], StartAttempt)


def test_a_question_that_comes_too_late_is_not_asked():
    wish = spec(desiredState="Cancelled")
    state = ended(running(**record(question()), spec=wish))
    assert (state.status.phase, state.status.reason) == ("Cancelled", "Cancelled")
