import pytest

from orbiter import Agent, Swarm, tool
from orbiter.models import ScriptedModel, call
from orbiter.tasks import (
    AgentSpec,
    InputRequiredError,
    TaskBroker,
    TaskState,
    TransitionError,
    ask_user,
)

QUICK = 0.02


async def test_an_agent_asks_and_goes_on_in_the_same_conversation(store):
    looked = []

    @tool
    def look(where: str) -> str:
        """Look."""
        looked.append(where)
        return f"nothing in {where}"

    model = ScriptedModel(
        [call("look", where="drawer"), call("ask_user", question="Which colour?")],
        call("ask_user", question="And which size?"),
        "A small red one.",
    )
    spec = AgentSpec(name="default", tools=(ask_user, look))
    async with TaskBroker(store, model=model, agent_specs=[spec], poll_interval=QUICK) as broker:
        task_id = await broker.submit("Find a hat")
        task = await broker.wait(task_id, timeout=5)
        assert (task.state, task.question) == (TaskState.INPUT_REQUIRED, "Which colour?")
        assert (await broker.answer(task_id, "red")).state is TaskState.PENDING
        task = await broker.wait(task_id, timeout=5)
        assert task.question == "And which size?"
        await broker.answer(task_id, "small")
        task = await broker.wait(task_id, timeout=5)
    assert (task.state, task.result) == (TaskState.COMPLETED, "A small red one.")
    assert task.answers == ["red", "small"]
    assert looked == ["drawer"]
    said = [message.content for message in model.requests[-1].messages]
    assert said[1:] == ["Find a hat", "", "nothing in drawer", "red", "", "small"]


async def test_an_agent_of_ones_own_can_ask_too(store):
    model = ScriptedModel(call("ask_user", question="Who?"), "Hello Ada.")
    agent = Agent(name="default", tools=[ask_user])
    async with TaskBroker(store, model=model, agent_specs=[agent], poll_interval=QUICK) as broker:
        task_id = await broker.submit("Greet")
        await broker.wait(task_id, timeout=5)
        await broker.answer(task_id, "Ada")
        assert (await broker.wait(task_id, timeout=5)).result == "Hello Ada."
    assert not agent.hooks


async def test_an_agent_that_was_handed_the_task_can_ask():
    model = ScriptedModel(
        call("transfer_to_clerk"), call("ask_user", question="Who?"), "Ada, then."
    )
    clerk = Agent(name="clerk", tools=[ask_user])
    agent = Agent(name="default", handoffs=[clerk])
    clerk.handoffs.append(agent)
    async with TaskBroker(model=model, agent_specs=[agent]) as broker:
        task_id = await broker.submit("Greet")
        assert (await broker.wait(task_id, timeout=5)).question == "Who?"
        await broker.answer(task_id, "Ada")
        assert (await broker.wait(task_id, timeout=5)).result == "Ada, then."
    assert agent.handoffs == [clerk]
    assert clerk.handoffs == [agent]


async def test_where_nobody_can_be_asked_the_model_is_told():
    model = ScriptedModel(call("ask_user", question="Who?"), "Then not.")
    swarm = Swarm(agents=[Agent(name="clerk", tools=[ask_user])])
    async with TaskBroker(model=model, agent_specs={"default": swarm}) as broker:
        task = await broker.wait(await broker.submit("Greet"), timeout=5)
    assert task.result == "Then not."
    assert "nobody can be asked here" in model.requests[1].messages[-1].error


async def test_a_function_asks_by_raising(store):
    async def greet(task):
        if not task.answers:
            raise InputRequiredError("Who?")
        return f"Hello {task.answers[-1]}."

    async with TaskBroker(store, agent_specs={"default": greet}, poll_interval=QUICK) as broker:
        task_id = await broker.submit("Greet")
        assert (await broker.wait(task_id, timeout=5)).question == "Who?"
        await broker.answer(task_id, "Ada")
        assert (await broker.wait(task_id, timeout=5)).result == "Hello Ada."


async def test_a_question_of_the_last_step_is_still_a_question():
    spec = AgentSpec(name="default", tools=(ask_user,), max_steps=1)
    model = ScriptedModel(call("ask_user", question="Who?"), "Hello Ada.")
    async with TaskBroker(model=model, agent_specs=[spec]) as broker:
        task_id = await broker.submit("Greet")
        assert (await broker.wait(task_id, timeout=5)).question == "Who?"
        await broker.answer(task_id, "Ada")
        assert (await broker.wait(task_id, timeout=5)).result == "Hello Ada."


async def test_a_task_that_asks_nothing_takes_no_answer(store):
    broker = TaskBroker(store)
    task_id = await broker.submit("x")
    with pytest.raises(TransitionError, match="it is pending and has asked nothing"):
        await broker.answer(task_id, "x")
