"""What a framework does, found out by doing it: `python probes.py pydantic_ai`, in its own Python.

Each probe is one question of the feature table. It is put to a framework by an adapter, a module
`adapter_NAME` beside this one; all of them have the functions of `Adapter`. A question is answered
with yes where the framework does it by itself or by an option of its own. A probe that fails in
another way than it expects fails as a whole: that is no answer. Only the standard library and
pydantic are used.
"""

import asyncio
import importlib
import importlib.util
import inspect
import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel


class City(BaseModel):
    """What typed answers are."""

    name: str
    people: int


@dataclass(frozen=True)
class Call:
    """A reply of the model that calls a tool."""

    name: str
    arguments: dict[str, Any]


Reply = str | Call | list[Call]


@dataclass(frozen=True)
class Answer:
    """What came of a run, and in words all that the model was sent last."""

    output: Any
    told: str


class Adapter(Protocol):
    """How one framework is asked."""

    Stopped: tuple[type[Exception], ...]
    """What ends a run that goes wrong; any other exception is a mistake of a probe."""

    async def ask(
        self,
        *replies: Reply,
        tools: Sequence[Callable[..., Any]] = (),
        output_type: Any = None,
        limit: int | None = None,
    ) -> Answer:
        """Run an agent whose model replies so, with at most so many model calls."""

    def final(self, value: Any) -> Reply:
        """Write a typed answer as the framework wants it from a model."""

    async def leave(self, *replies: Reply, tools: Sequence[Callable[..., Any]]) -> None:
        """Stream a run and leave it at its first event."""

    async def fallback(self) -> bool:
        """Does a second model answer when the first is overloaded?"""

    def token_rates(self) -> bool:
        """Can the tokens of a minute be limited?"""

    async def scripted_model(self) -> bool:
        """Does a model that comes along drive an agent through a call of a tool?"""

    async def forbids_real_calls(self) -> bool:
        """Can calls of real models be forbidden?"""

    async def handoff(self) -> bool:
        """Does an agent pass the conversation on to another one?"""

    async def side_by_side(self) -> bool:
        """Do two agents work at the same time, and a third one with what they found?"""

    async def spans(self) -> list[str]:
        """The names of the OpenTelemetry spans of a run."""

    def cycles(self) -> bool:
        """Can nodes of one's own form a graph with cycles?"""

    def speech(self) -> bool:
        """Is there a session for speech in real time?"""


async def weigh(item: str) -> str:
    """Weigh an item."""
    return f"{item}: 2 kg"


def breaks(item: str) -> str:
    """Break."""
    raise OSError("the scale is broken")


async def typed_list(peer: Adapter) -> bool:
    """An answer that is a list of models."""
    value = [{"name": "Oslo", "people": 700000}]
    try:
        answer = await peer.ask(peer.final(value), output_type=list[City])
    except peer.Stopped:
        return False
    return bool(answer.output == [City(name="Oslo", people=700000)])


async def answer_retried(peer: Adapter) -> bool:
    """A typed answer that does not fit goes back to the model."""
    bad, good = ({"name": "Oslo", "people": people} for people in ("many", 700000))
    try:
        answer = await peer.ask(peer.final(bad), peer.final(good), output_type=City)
    except peer.Stopped:
        return False
    return bool(answer.output == City(name="Oslo", people=700000))


async def tool_exception_told(peer: Adapter) -> bool:
    """The model is told of a tool's exception."""
    try:
        answer = await peer.ask(Call("breaks", {"item": "a"}), "Sorry.", tools=[breaks])
    except peer.Stopped:
        return False
    return "the scale is broken" in answer.told


async def bad_arguments_told(peer: Adapter) -> bool:
    """The model is told of arguments that do not fit."""
    called = []

    async def count(item: str, number: int) -> str:
        """Count."""
        called.append((item, number))
        return "done"

    bad = Call("count", {"item": "a", "number": "many"})
    try:
        answer = await peer.ask(bad, "Sorry.", tools=[count])
    except peer.Stopped:
        return False
    return not called and answer.output == "Sorry."


async def unknown_tool_told(peer: Adapter) -> bool:
    """The model is told that there is no such tool."""
    try:
        answer = await peer.ask(Call("guess", {}), "Sorry.", tools=[weigh])
    except peer.Stopped:
        return False
    return answer.output == "Sorry."


async def tools_at_once(peer: Adapter) -> bool:
    """Tools of one answer run at the same time."""
    met = asyncio.Barrier(2)

    async def meet(item: str) -> str:
        """Wait for the other one."""
        try:
            async with asyncio.timeout(2):
                await met.wait()
        except TimeoutError:
            return "alone"
        return "together"

    calls = [Call("meet", {"item": "a"}), Call("meet", {"item": "b"})]
    answer = await peer.ask(calls, "Done.", tools=[meet])
    return "alone" not in answer.told


async def tools_in_threads(peer: Adapter) -> bool:
    """A tool that is not async does not hold up the event loop."""
    threads = []

    def where(item: str) -> str:
        """Note the thread."""
        threads.append(threading.get_ident())
        return "done"

    await peer.ask(Call("where", {"item": "a"}), "Done.", tools=[where])
    return threads != [threading.get_ident()]


async def limit_is_a_result(peer: Adapter) -> bool:
    """A run that meets its limit of model calls returns."""
    try:
        await peer.ask(*[Call("weigh", {"item": "a"})] * 5, tools=[weigh], limit=2)
    except peer.Stopped:
        return False
    return True


async def leaving_stops(peer: Adapter) -> bool:
    """Who leaves a stream stops its run."""
    called = asyncio.Event()

    async def act(item: str) -> str:
        """Act."""
        called.set()
        return "done"

    await peer.leave(Call("act", {"item": "a"}), "Done.", tools=[act])
    try:
        async with asyncio.timeout(2):
            await called.wait()
    except TimeoutError:
        return True
    return False


async def spans_of_its_own(peer: Adapter) -> bool:
    """A run makes OpenTelemetry spans."""
    return bool(await peer.spans())


async def fallback(peer: Adapter) -> bool:
    """A second model answers when the first is overloaded."""
    return await peer.fallback()


async def scripted_model(peer: Adapter) -> bool:
    """A model that comes along drives an agent through a call of a tool."""
    return await peer.scripted_model()


async def forbids_real_calls(peer: Adapter) -> bool:
    """Calls of real models can be forbidden."""
    return await peer.forbids_real_calls()


async def handoff(peer: Adapter) -> bool:
    """An agent passes the conversation on."""
    return await peer.handoff()


async def side_by_side(peer: Adapter) -> bool:
    """Two agents work at the same time, and a third one with what they found."""
    return await peer.side_by_side()


async def answers(peer: Adapter) -> dict[str, bool]:
    """Ask everything.

    Raises:
        ExceptionGroup: Probes failed in a way that is no answer.
    """
    found: dict[str, bool] = {}
    failed = []
    for probe in (
        typed_list, answer_retried, tool_exception_told, bad_arguments_told, unknown_tool_told,
        tools_at_once, tools_in_threads, limit_is_a_result, leaving_stops, spans_of_its_own,
        fallback, scripted_model, forbids_real_calls, handoff, side_by_side,
    ):  # fmt: skip
        try:
            found[probe.__name__] = await probe(peer)
        except Exception as error:
            error.add_note(f"the probe was {probe.__name__}")
            failed.append(error)
    for fact in (peer.token_rates, peer.cycles, peer.speech):
        found[fact.__name__] = fact()
    if failed:
        raise ExceptionGroup("these probes are mistaken", failed)
    return found


def takes(function: Any, *names: str) -> bool:
    """Whether a function or class has one of these parameters."""
    return bool(set(names) & set(inspect.signature(function).parameters))


def has_module(name: str) -> bool:
    """Whether there is such a module."""
    return importlib.util.find_spec(name) is not None


if __name__ == "__main__":
    # what a framework logs and warns of is not what it was asked
    logging.disable()
    warnings.simplefilter("ignore")
    adapter = importlib.import_module(f"adapter_{sys.argv[1]}")
    result = asyncio.run(answers(adapter.PEER))
    # these end processes: see there
    result |= importlib.import_module("kept_probes").answers(sys.argv[1])
    json.dump(result, sys.stdout)
