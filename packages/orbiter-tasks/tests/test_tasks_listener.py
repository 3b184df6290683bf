"""Hearing a task's agent as it speaks, and giving it what was said before."""

from orbiter.models import ScriptedModel, call
from orbiter.tasks import AgentSpec, TaskBroker, ask_user


async def test_a_listener_hears_every_piece_of_the_run_in_order():
    heard = []
    waiter = AgentSpec(tools=(ask_user,))
    model = ScriptedModel(call("ask_user", question="How many?"), "A table for four.")

    def listener(task_id, event):
        heard.append((task_id, getattr(event, "text", event.type)))

    async with TaskBroker(
        model=model, agent_specs={"default": waiter}, listener=listener
    ) as broker:
        key = await broker.submit("Book")
        assert (await broker.wait(key)).question == "How many?"
        await broker.answer(key, "Four.")
        assert (await broker.wait(key)).result == "A table for four."
    assert {task_id for task_id, _ in heard} == {key}
    told = [what for _, what in heard]
    assert told == [
        "step", "usage", "tool_call", "tool_result", "step", "error",
        "step", "A ", "table ", "for ", "four.", "usage", "result",
    ]  # fmt: skip


async def test_a_task_goes_on_from_an_earlier_conversation():
    model = ScriptedModel("Rain.")
    before = [
        {"role": "user", "content": "And today?"},
        {"role": "assistant", "content": "Sunny."},
    ]
    async with TaskBroker(model=model) as broker:
        await broker.wait(await broker.submit("And tomorrow?", messages=before))
    said = [message.content for message in model.requests[0].messages if message.role != "system"]
    assert said == ["And today?", "Sunny.", "And tomorrow?"]
