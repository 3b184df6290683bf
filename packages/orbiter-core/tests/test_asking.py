"""A tool that asks a person while it runs."""

import json

import pytest

from orbiter import Agent, Swarm, run, tool
from orbiter.approval import ask_person, requests_of
from orbiter.config import TaskConfig
from orbiter.models import ScriptedModel, call
from orbiter.run_store import MemoryRunStore
from orbiter.types import InputRequestEvent, OrbiterError


def _booking(began):
    @tool
    def book(table: int) -> str:
        """Book a table."""
        began.append(table)
        day = ask_person("Which day?")
        if day is None:
            return "nobody said which day"
        return f"table {table} on {day} for {ask_person('How many are you?')}"

    return book


@tool
def look() -> str:
    """Look around."""
    return "nice"


async def test_a_tool_that_asks_is_called_again_with_the_answers():
    began = []
    agent = Agent(name="host", tools=[_booking(began), look])
    model = ScriptedModel([call("book", table=4), call("look")], "Booked.")
    first = await run(agent, "A table", provider=model)
    assert first.stop_reason == "input_required"
    (request,) = first.requests
    assert (request.kind, request.text) == ("question", "Which day?")
    assert (request.calls[0].tool, request.calls[0].arguments) == ("book", {"table": 4})
    assert [m.error for m in first.messages[2:]] == [
        "not called yet: a person has to answer first", None
    ]  # fmt: skip

    second = await run(agent, "", provider=model, resume=first.paused,
                       answers=[request.answer("Friday")])  # fmt: skip
    assert [r.text for r in second.requests] == ["How many are you?"]
    assert second.requests[0].id != request.id

    (request,) = requests_of(second.paused)
    done = await run(agent, "", provider=model, resume=second.paused,
                     answers=[request.answer("six")])  # fmt: skip
    assert done.output == "Booked."
    assert [m.content for m in done.messages[2:4]] == ["table 4 on Friday for six", "nice"]
    assert began == [4, 4, 4]
    assert len(model.requests) == 2


async def test_who_does_not_answer_says_so_to_the_tool():
    agent = Agent(name="host", tools=[_booking([])])
    model = ScriptedModel(call("book", table=4), "Not booked.")
    first = await run(agent, "A table", provider=model)
    no = first.requests[0].deny("no idea")
    done = await run(agent, "", provider=model, resume=first.paused, answers=[no])
    assert done.messages[2].content == "nobody said which day"


async def test_who_is_too_late_says_so_to_the_tool():
    agent = Agent(name="host", tools=[_booking([])])
    model = ScriptedModel(call("book", table=4), "Not booked.")
    config = TaskConfig(input_timeout=1e-6)
    first = await run(agent, "A table", provider=model, config=config)
    done = await run(agent, "", provider=model, resume=first.paused, config=config)
    assert done.messages[2].content == "nobody said which day"


async def test_a_call_with_a_persons_arguments_may_ask():
    book = _booking(began := [])
    book.approval = True
    agent = Agent(name="host", tools=[book])
    model = ScriptedModel(call("book", table=4), "Booked.")
    first = await run(agent, "A table", provider=model)
    yes = first.requests[0].approve(arguments={"table": 5})
    second = await run(agent, "", provider=model, resume=first.paused, answers=[yes])
    (request,) = second.requests
    assert (request.kind, request.calls[0].arguments) == ("question", {"table": 5})
    third = await run(agent, "", provider=model, resume=second.paused,
                      answers=[request.answer("Friday")])  # fmt: skip
    (request,) = third.requests
    done = await run(agent, "", provider=model, resume=third.paused,
                     answers=[request.answer("six")])  # fmt: skip
    assert done.messages[2].content == (
        '(A person changed the arguments to {"table":5}.)\ntable 5 on Friday for six'
    )
    assert began == [5, 5, 5]


async def test_beside_one_that_waits_for_approval_both_are_asked_at_once():
    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent(name="host", tools=[_booking([]), pay])
    model = ScriptedModel([call("book", table=4), call("pay")], "Done.")
    first = await run(agent, "A table", provider=model)
    kinds = {request.calls[0].tool: request for request in first.requests}
    assert {name: r.kind for name, r in kinds.items()} == {"book": "question", "pay": "approval"}
    answers = [kinds["book"].answer("Friday"), kinds["pay"].approve()]
    second = await run(agent, "", provider=model, resume=first.paused, answers=answers)
    assert [r.text for r in second.requests] == ["How many are you?"]
    assert "paid" in [getattr(m, "content", "") for m in second.messages]


async def test_a_kept_run_goes_on_and_a_finished_call_is_not_made_again():
    began = []
    agent = Agent(name="host", tools=[_booking(began)])
    model = ScriptedModel(call("book", table=4), "Booked.")
    kept = {"journal": MemoryRunStore(), "run_id": "r", "provider": model}
    first = await run(agent, "A table", **kept)
    again = await run(agent, "A table", **kept)
    assert again.requests == first.requests
    answers = [again.requests[0].answer("Friday")]
    second = await run(agent, "", resume=again.paused, answers=answers, **kept)
    waits = await run(agent, "A table", **kept)
    assert waits.requests == second.requests
    answers = [waits.requests[0].answer("six")]
    for _ in range(2):
        done = await run(agent, "", resume=waits.paused, answers=answers, **kept)
        assert done.messages[2].content == "table 4 on Friday for six"
    assert began == [4, 4, 4]


async def test_a_stream_tells_what_a_tool_asks():
    agent = Agent(name="host", tools=[_booking([])])
    model = ScriptedModel(call("book", table=4), "Booked.")
    events = [event async for event in run.stream(agent, "A table", provider=model)]
    (asked,) = [event for event in events if isinstance(event, InputRequestEvent)]
    assert asked.request.text == "Which day?"


async def test_a_run_that_cannot_wait_tells_the_model():
    host = Agent(name="host", description="Books.", tools=[_booking([])])
    flow = Swarm(agents=[host, Agent(name="last")], flow="host >> last")
    model = ScriptedModel(call("book", table=4), "I could not ask.", "Bye.")
    result = await run(flow, "A table", provider=model)
    errors = [m.error for m in result.messages if getattr(m, "error", None)]
    assert errors == [
        "Tool 'book' asks a person, and this run cannot wait for a person: Which day?"
    ]


async def test_a_call_asks_a_bounded_number_of_times():
    @tool
    def curious() -> str:
        """Ask on and on."""
        for number in range(100):
            ask_person(f"Why {number}?")
        return ""

    agent = Agent(name="child", tools=[curious])
    model = ScriptedModel(call("curious"), "Enough.")
    result = await run(agent, "go", provider=model)
    for _ in range(20):
        (request,) = result.requests
        result = await run(agent, "", provider=model, resume=result.paused,
                           answers=[request.answer("so")])  # fmt: skip
    assert result.output == "Enough."
    assert "a call may ask 20 times: Why 20?" in result.messages[2].error


async def test_a_question_that_cannot_be_kept_is_an_error_of_the_call():
    @tool
    def half() -> str:
        """Ask with half a character."""
        return ask_person("\ud800") or ""

    model = ScriptedModel(call("half"), "Sorry.")
    result = await run(Agent(name="a", tools=[half]), "go", provider=model)
    assert "the question cannot be kept" in result.messages[2].error


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda kept: kept["asked"].update(x={"question": "a"}), "of a call that does not wait"),
        (lambda kept: kept["asked"]["call_1"].update(question="Your password?"), "not that of"),
        (lambda kept: kept["asked"]["call_1"].update(question=""), "asks nothing"),
        (lambda kept: kept["asked"]["call_1"].update(edited={"table": 9}), "what was shown"),
        (lambda kept: kept["asked"]["call_1"].update(replies={str(n): "" for n in range(21)}),
         "at most 20"),
    ],
)  # fmt: skip
async def test_a_changed_question_is_refused(change, why):
    agent = Agent(name="host", tools=[_booking([])])
    first = await run(agent, "A table", provider=ScriptedModel(call("book", table=4)))
    kept = json.loads(first.paused)
    change(kept)
    with pytest.raises(OrbiterError, match=why):
        requests_of(json.dumps(kept))
