"""What an observer sees of a run, and that it sees the end of whatever it saw begin."""

import asyncio

import pytest

from orbiter import Agent, run, tool
from orbiter.config import ModelSettings
from orbiter.hooks import Hook, HookManager, HookPoint
from orbiter.models import ScriptedModel, call  # pyright: ignore[reportMissingImports]
from orbiter.observer import Observer, Scope, observe, observer_of_all_runs


class Journal(Observer):
    """Writes down what opens and closes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _scope(self, name: str) -> Scope:
        lines = self.lines

        class Written(Scope):
            def __enter__(self):
                lines.append(f"+{name}")
                return self

            def __exit__(self, kind, error, trace):
                lines.append(f"-{name}" if kind is None else f"-{name} {kind.__name__}")

            def done(self, outcome, cause=None):
                lines.append(f"{name} done" if cause is None else f"{name} {cause!r}")

        return Written()

    def run(self, target, input):
        return self._scope("run")

    def agent(self, agent, run):
        return self._scope(agent.name)

    def step(self, agent, number):
        return self._scope(f"step {number}")

    def model_call(self, agent, messages, provider, *, streamed):
        return self._scope("stream" if streamed else "model")

    def tool_call(self, agent, call, tool):
        return self._scope(call.name)

    def handoff(self, agent, target, call):
        self.lines.append(f"{agent.name} > {target.name}")


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_scope_learns_what_a_model_call_was_given(streamed):
    told = []

    class Asked(Scope):
        def asked_with(self, settings):
            told.append(settings)

    class Asking(Observer):
        def model_call(self, agent, messages, provider, *, streamed):
            return Asked()

    agent = Agent(name="a", hooks=[Asking()], max_tokens=9, settings=ModelSettings(top_p=0.5))
    secret = ModelSettings(seed=7, extra_headers={"Authorization": "hunter2"})
    if streamed:
        async for _ in run.stream(agent, "hi", provider=ScriptedModel("x"), settings=secret):
            pass
    else:
        await run(agent, "hi", provider=ScriptedModel("x"), settings=secret)
    await run(Agent(name="a", hooks=[Asking()]), "hi", provider=ScriptedModel("x"))
    assert told == [{"max_tokens": 9, "top_p": 0.5, "seed": 7}, {}]


@pytest.fixture
def journal():
    observer = Journal()
    observe(observer)
    yield observer
    observe(None)


@tool
async def fails() -> str:
    """Fail."""
    raise ValueError("no")


@tool
async def waits() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


async def test_the_pieces_of_a_run_enclose_each_other(journal):
    agent = Agent(name="a", tools=[fails])
    await run(agent, "go", provider=ScriptedModel(call("fails"), "done"))
    assert journal.lines == [
        "+run", "+a",
        "+step 1", "+model", "model done", "-model", "+fails", "fails ValueError('no')", "-fails",
        "-step 1",
        "+step 2", "+model", "model done", "-model", "-step 2",
        "a done", "-a", "run done", "-run",
    ]  # fmt: skip


async def test_a_handoff_is_told_before_the_target_begins(journal):
    target = Agent(name="b")
    agent = Agent(name="a", handoffs=[target])
    await run(agent, "go", provider=ScriptedModel(call("transfer_to_b"), "done"))
    told = [line for line in journal.lines if line in ("a > b", "+a", "-a", "+b", "-b")]
    assert told == ["+a", "a > b", "-a", "+b", "-b"]


async def test_whatever_opened_is_closed_when_the_run_is_cancelled(journal):
    agent = Agent(name="a", tools=[waits])
    async with run.stream(agent, "go", provider=ScriptedModel(call("waits"))) as stream:
        async for event in stream:
            if event.type == "tool_call":
                break
    assert journal.lines[-3:] == [f"-{x} CancelledError" for x in ("step 1", "a", "run")]
    assert "+stream" in journal.lines


async def test_an_agents_own_observer_takes_the_place_of_the_one_for_all(journal):
    own = Journal()
    agent = Agent(name="a", hooks=[own, Hook(HookPoint.START, lambda event: None)])
    await run(agent, "go", provider=ScriptedModel("done"))
    assert journal.lines == ["+run", "run done", "-run"]
    assert own.lines[0] == "+a"


async def test_an_observer_that_writes_no_method_changes_nothing():
    before = observe(Observer())
    try:
        result = await run(Agent(name="a"), "go", provider=ScriptedModel("done"))
    finally:
        observe(before)
    assert result.output == "done"
    assert observer_of_all_runs() is None


def test_an_observer_is_no_hook_of_any_point():
    hooks = HookManager([Observer()])
    assert not hooks
    assert isinstance(hooks.observer, Observer)
