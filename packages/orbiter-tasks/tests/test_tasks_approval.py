"""Tasks whose agent has tools that wait for a person."""

import json

import pytest

from orbiter import Agent, tool
from orbiter.approval import ask_user
from orbiter.errors import InputAnswerError
from orbiter.models import ScriptedModel, call
from orbiter.tasks import (
    AgentSpec,
    OtherRequestError,
    TaskBroker,
    TaskEvent,
    TaskState,
    TaskStoreMemory,
    TransitionError,
    Worker,
)
from orbiter.tasks import ask_user as ask_of_tasks
from orbiter.tasks.models import EventType

QUICK = 0.02


class Shop:
    def __init__(self):
        self.did = []

    @tool(approval=True)
    def refund(self, order: int) -> str:
        """Give money back."""
        self.did.append(f"refund {order}")
        return "refunded"

    @tool
    def look(self, order: int) -> str:
        """Look."""
        self.did.append(f"look {order}")
        return "a lamp"

    @property
    def clerk(self):
        return Agent(name="default", tools=[self.refund, self.look, ask_user])


def broker_of(store, shop, *replies):
    return TaskBroker(
        store, model=ScriptedModel(*replies), agent_specs=[shop.clerk], poll_interval=QUICK
    )


async def asked(broker, task_id):
    task = await broker.wait(task_id, timeout=5)
    assert task.state is TaskState.INPUT_REQUIRED, task.error
    return task


async def test_a_task_waits_for_approval_and_goes_on(store):
    shop = Shop()
    replies = [[call("look", order=7), call("refund", order=7)], "Done."]
    async with broker_of(store, shop, *replies) as broker:
        task_id = await broker.submit("Refund")
        task = await asked(broker, task_id)
        assert task.question.startswith('May it call refund {"order":7} ?')
        assert task.input_request.calls[0].arguments == {"order": 7}
        assert shop.did == ["look 7"]
        answered = await broker.answer(task_id, 'approve {"order": 8}', by="ada")
        (kept,) = [e.payload["decision"] for e in answered.events if "decision" in e.payload]
        decision = json.loads(kept)
        assert (decision["by"], decision["digest"]) == (
            "ada", task.input_request.calls[0].digest
        )  # fmt: skip
        task = await broker.wait(task_id, timeout=5)
    assert (task.state, task.result) == (TaskState.COMPLETED, "Done.")
    assert task.input_request is None
    assert shop.did == ["look 7", "refund 8"]


async def test_another_process_goes_on_with_it(store):
    shop = Shop()
    async with broker_of(store, shop, call("refund", order=7)) as broker:
        task_id = await broker.submit("Refund")
        await asked(broker, task_id)
    async with broker_of(store, shop, "Done.") as broker:
        await broker.answer(task_id, "approve")
        assert (await broker.wait(task_id, timeout=5)).result == "Done."
    assert shop.did == ["refund 7"]


async def test_requests_are_asked_one_after_the_other_and_questions_too(store):
    shop = Shop()
    replies = [[call("refund", order=7), call("ask_user", question="Which?")], "Done."]
    async with broker_of(store, shop, *replies) as broker:
        task_id = await broker.submit("Refund")
        await asked(broker, task_id)
        await broker.answer(task_id, "deny it is too late")
        assert (await asked(broker, task_id)).question == "Which?"
        await broker.answer(task_id, "the red one")
        task = await broker.wait(task_id, timeout=5)
    assert (task.result, shop.did) == ("Done.", [])


async def test_what_is_no_answer_is_refused_and_the_first_answer_wins(store):
    shop = Shop()
    async with broker_of(store, shop, call("refund", order=7), "Done.") as broker:
        task_id = await broker.submit("Refund")
        request = (await asked(broker, task_id)).input_request
        other = json.dumps({"id": request.id, "decision": "approve", "digest": "0" * 64})
        for text in ("perhaps", other):
            with pytest.raises(InputAnswerError):
                await broker.answer(task_id, text)
        await broker.answer(task_id, request.deny().model_dump_json(exclude_none=True))
        with pytest.raises(TransitionError):
            await broker.answer(task_id, "approve")
        assert (await broker.wait(task_id, timeout=5)).result == "Done."
    assert shop.did == []


async def test_a_bare_approve_is_taken_for_the_first_request_and_no_other(store):
    shop = Shop()
    replies = [call("refund", order=7), call("refund", order=900), "Done."]
    async with broker_of(store, shop, *replies) as broker:
        task_id = await broker.submit("Refund")
        first = (await asked(broker, task_id)).input_request
        await broker.answer(task_id, "approve")
        second = (await asked(broker, task_id)).input_request
        late = ["approve", "yes", '{"decision": "approve"}', first.approve().model_dump_json()]
        for text in late:
            with pytest.raises(OtherRequestError, match=second.id) as refused:
                await broker.answer(task_id, text)
            assert refused.value.request_id == second.id
        with pytest.raises(OtherRequestError, match=second.id):
            await broker.answer(task_id, "approve", request_id=first.id)
        assert shop.did == ["refund 7"]
        await broker.answer(task_id, "approve", request_id=second.id)
        assert (await broker.wait(task_id, timeout=5)).result == "Done."
    assert shop.did == ["refund 7", "refund 900"]


async def test_of_two_calls_that_wait_at_once_one_approve_typed_twice_approves_one(store):
    shop = Shop()
    replies = [[call("refund", order=7), call("refund", order=900)], "Done."]
    async with broker_of(store, shop, *replies) as broker:
        task_id = await broker.submit("Refund")
        await asked(broker, task_id)
        await broker.answer(task_id, "approve")
        second = (await asked(broker, task_id)).input_request
        with pytest.raises(OtherRequestError):
            await broker.answer(task_id, "approve")
        await broker.answer(task_id, second.deny().model_dump_json())
        assert (await broker.wait(task_id, timeout=5)).result == "Done."
    assert shop.did == ["refund 7"]


async def test_an_answer_that_names_a_request_is_none_to_a_question_without_one(store):
    spec = AgentSpec(name="default", tools=(ask_of_tasks,))
    model = ScriptedModel(call("ask_user", question="Who?"), "Hello.")
    async with TaskBroker(store, model=model, agent_specs=[spec], poll_interval=QUICK) as broker:
        task_id = await broker.submit("Greet")
        await asked(broker, task_id)
        with pytest.raises(OtherRequestError, match="a question without an id"):
            await broker.answer(task_id, "approve", request_id="other")
        await broker.answer(task_id, "Ada")
        assert (await broker.wait(task_id, timeout=5)).result == "Hello."


async def test_edited_arguments_that_do_not_fit_are_asked_again(store):
    shop = Shop()
    async with broker_of(store, shop, call("refund", order=7), "Done.") as broker:
        task_id = await broker.submit("Refund")
        await asked(broker, task_id)
        await broker.answer(task_id, 'approve {"order": "many"}')
        task = await asked(broker, task_id)
        assert "what it does not take: order" in task.question
        await broker.answer(task_id, "approve", request_id=task.input_request.id)
        assert (await broker.wait(task_id, timeout=5)).result == "Done."
    assert shop.did == ["refund 7"]


async def test_what_was_approved_is_asked_again_when_its_worker_ended_in_the_middle(store):
    shop = Shop()
    async with broker_of(store, shop, call("refund", order=7)) as broker:
        task_id = await broker.submit("Refund")
        first = (await asked(broker, task_id)).input_request
    idle = TaskBroker(store)
    await idle.answer(task_id, "approve", request_id=first.id)
    begun = TaskEvent(task_id=task_id, event_type=EventType.LOG, payload={"resumed": 1})
    await store.add_event(task_id, begun)
    async with broker_of(store, shop, "Done.") as broker:
        task = await asked(broker, task_id)
        assert "may have run already" in task.question
        # the same answer sent once more was to the first asking
        for named in (None, first.id):
            with pytest.raises(OtherRequestError):
                await broker.answer(task_id, "approve", request_id=named)
        assert shop.did == []
        await broker.answer(task_id, "deny", request_id=task.input_request.id)
        assert (await broker.wait(task_id, timeout=5)).result == "Done."


async def test_a_task_that_was_changed_in_the_store_does_not_go_on(store):
    shop = Shop()
    async with broker_of(store, shop, call("refund", order=7)) as broker:
        task_id = await broker.submit("Refund")
        task = await asked(broker, task_id)
    (kept,) = [e.payload for e in task.events if "paused" in e.payload]
    changed = {
        **kept,
        "paused": kept["paused"].replace(":7}", ":9}").replace('"order":7', '"order":9'),
    }
    event = TaskEvent(task_id=task_id, event_type=EventType.LOG, payload=changed)
    await store.add_event(task_id, event)
    async with broker_of(store, shop, "Done.") as broker:
        await broker.answer(task_id, "approve", request_id=task.input_request.id)
        task = await broker.wait(task_id, timeout=5)
    assert task.state is TaskState.FAILED
    assert "no paused run" in task.error
    assert shop.did == []


class Failing(TaskStoreMemory):
    """Keeps no word of what goes on, or has given the task to another worker."""

    trouble = ""

    async def add_event(self, task_id, event):
        if "resumed" in event.payload and self.trouble == "full":
            raise OSError("no space left on device")
        await super().add_event(task_id, event)

    async def renew(self, task_ids, owner, lease):
        return set() if self.trouble == "late" else await super().renew(task_ids, owner, lease)


@pytest.mark.parametrize("trouble", ["full", "late"])
async def test_nothing_that_was_approved_begins_unless_others_can_know_it(trouble):
    store, shop = Failing(), Shop()
    async with broker_of(store, shop, call("refund", order=7)) as broker:
        task_id = await broker.submit("Refund")
        await asked(broker, task_id)
    await TaskBroker(store).answer(task_id, "approve")
    store.trouble = trouble
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    worker = Worker(store, ScriptedModel("Done."), [shop.clerk], sleep=sleep)
    await worker.execute(task_id)
    assert shop.did == []
    assert len(slept) == (4 if trouble == "full" else 0)
