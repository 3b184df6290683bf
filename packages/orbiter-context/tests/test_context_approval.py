"""A run with a context waits for a person and goes on."""

from orbiter import Agent, run, tool
from orbiter.context import Context
from orbiter.models import ScriptedModel, call


@tool(approval=True)
def refund(order: int) -> str:
    """Give money back."""
    return "refunded"


async def test_a_context_has_the_whole_conversation_once():
    model = ScriptedModel("Hello.", call("refund", order=7), "Done.")
    context = Context(task_id="t")
    agent = Agent(name="clerk", tools=[refund], context=context)
    before = await run(agent, "Hi", provider=model)
    first = await run(agent, "Refund", provider=model, messages=before.messages)
    assert first.stop_reason == "input_required"
    answers = [first.requests[0].approve()]
    last = await run(agent, "", provider=model, resume=first.paused, answers=answers)
    said = ["Hi", "Hello.", "Refund", "", "refunded", "Done."]
    assert [message.content for message in last.messages] == said
    assert [message.content for message in context.history] == said
    seen = [m for m in model.requests[-1].messages if m.role != "system"]
    # what the context adds to the newest message is for that call only
    assert [getattr(m.content, "said", m.content) for m in seen] == said[:-1]


async def test_another_process_goes_on_with_a_context_of_its_own():
    model = ScriptedModel(call("refund", order=7), "Done.")
    first = await run(
        Agent(name="clerk", tools=[refund], context=Context(task_id="t")), "Refund", provider=model
    )
    context = Context(task_id="t")
    agent = Agent(name="clerk", tools=[refund], context=context)
    answers = [first.requests[0].approve()]
    last = await run(agent, "", provider=model, resume=first.paused, answers=answers)
    assert last.output == context.task_output == "Done."
    assert [m.content for m in context.history] == ["Refund", "", "refunded", "Done."]
