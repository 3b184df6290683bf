import pytest

from orbiter import Agent, run, tool
from orbiter.hooks import Hook, HookEvent, HookManager, HookPoint
from orbiter.models import (  # pyright: ignore[reportMissingImports]
    ModelError,
    ScriptedModel,
    call,
)
from orbiter.types import OrbiterError, SystemMessage


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder(**options) -> Agent:
    return Agent(name="calc", instructions="Add.", tools=[add], **options)


def recorder(points=HookPoint) -> tuple[list[HookEvent], list[Hook]]:
    events: list[HookEvent] = []
    return events, [Hook(point, events.append) for point in points]


async def test_the_points_of_a_run_are_passed_in_order():
    events, hooks = recorder()
    model = ScriptedModel(call("add", a=2, b=3), "5")
    await run(adder(hooks=hooks), "2 + 3", provider=model)
    assert [event.point for event in events] == [
        HookPoint.START,
        HookPoint.PRE_LLM_CALL,
        HookPoint.POST_LLM_CALL,
        HookPoint.PRE_TOOL_CALL,
        HookPoint.POST_TOOL_CALL,
        HookPoint.PRE_LLM_CALL,
        HookPoint.POST_LLM_CALL,
        HookPoint.FINISHED,
    ]


async def test_each_point_tells_what_happens_there():
    events, hooks = recorder()
    model = ScriptedModel(call("add", a=2, b=3), "5")
    await run(adder(hooks=hooks), "2 + 3", provider=model, deps="me")
    at = {event.point: event for event in events}
    assert {event.agent_name for event in events} == {"calc"}
    assert {event.run.deps for event in events} == {"me"}
    assert at[HookPoint.PRE_LLM_CALL].messages[0] == SystemMessage(content="Add.")
    assert at[HookPoint.PRE_LLM_CALL].step == 2
    assert at[HookPoint.POST_LLM_CALL].response.content == "5"
    assert at[HookPoint.PRE_TOOL_CALL].tool_call.arguments == '{"a": 2, "b": 3}'
    assert at[HookPoint.POST_TOOL_CALL].tool_result.content == "5"
    assert at[HookPoint.FINISHED].output == "5"


async def test_a_pair_is_a_hook_too():
    heard = []
    agent = adder(hooks=[(HookPoint.START, heard.append)])
    await run(agent, "hi", provider=ScriptedModel("hello"))
    assert [event.point for event in heard] == [HookPoint.START]


async def test_an_async_hook_is_awaited():
    heard = []

    async def hook(event: HookEvent) -> None:
        heard.append(event.point)

    await run(adder(hooks=[Hook(HookPoint.FINISHED, hook)]), "hi", provider=ScriptedModel("hello"))
    assert heard == [HookPoint.FINISHED]


async def test_a_hook_without_positional_parameters_names_what_it_needs():
    heard = []

    async def few(*, agent_name, output):
        heard.append((agent_name, output))

    def all_of_it(**fields):
        heard.append(sorted(fields))

    hooks = [Hook(HookPoint.FINISHED, few), Hook(HookPoint.FINISHED, all_of_it)]
    await run(adder(hooks=hooks), "hi", provider=ScriptedModel("hello"))
    assert heard[0] == ("calc", "hello")
    assert {"point", "run", "messages", "output", "error"} <= set(heard[1])


async def test_the_error_point_tells_what_ended_the_run():
    events, hooks = recorder([HookPoint.ERROR, HookPoint.FINISHED])
    broken = ModelError("overloaded")
    with pytest.raises(ModelError):
        await run(adder(hooks=hooks), "hi", provider=ScriptedModel(broken))
    assert [(event.point, event.error) for event in events] == [(HookPoint.ERROR, broken)]


async def test_what_a_hook_raises_ends_the_run_as_it_is():
    def guard(event: HookEvent) -> None:
        raise PermissionError(f"{event.tool_call.name} is not allowed")

    model = ScriptedModel([call("add", a=1, b=1), call("add", a=2, b=2)])
    with pytest.raises(PermissionError, match="add is not allowed"):
        await run(adder(hooks=[Hook(HookPoint.PRE_TOOL_CALL, guard)]), "hi", provider=model)


async def test_hooks_of_a_point_run_in_the_order_they_were_added():
    heard = []
    agent = adder(hooks=[Hook(HookPoint.START, lambda event: heard.append("first"))])
    agent.hooks.add((HookPoint.START, lambda event: heard.append("second")))
    await run(agent, "hi", provider=ScriptedModel("x"))
    assert heard == ["first", "second"]


def test_a_manager_knows_where_somebody_listens():
    manager = HookManager([Hook(HookPoint.START, print)])
    assert manager
    assert HookPoint.START in manager
    assert HookPoint.ERROR not in manager
    assert not HookManager()


@pytest.mark.parametrize(
    "wrong", [42, (HookPoint.START,), ("nowhere", print), (HookPoint.START, 1)]
)
def test_what_is_no_hook_is_refused(wrong):
    with pytest.raises(OrbiterError, match="hook"):
        adder(hooks=[wrong])


def test_hook_events_are_frozen():
    event = HookEvent(HookPoint.START, "calc", None, 0, [])
    with pytest.raises(AttributeError):
        event.agent_name = "other"
