"""The writing half of a run's journal: what the loop tells it, and what it knows from before."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orbiter._asking import Asked
from orbiter._input_requests import InputRequest
from orbiter._paused import ASIDE
from orbiter.config import Spent
from orbiter.durable import RunLog
from orbiter.errors import JournalError
from orbiter.journal import (
    LARGEST_RUN,
    MOST_ENTRIES,
    Answered,
    Decided,
    Entry,
    HandedOff,
    ModelCalled,
    Replied,
    Said,
    Took,
    ToolDone,
    Waiting,
    write_entry,
)
from orbiter.replay import Progress, progress_by_scope
from orbiter.types import (
    AssistantMessage,
    StopReason,
    ToolResult,
    Usage,
    UserMessage,
)

_BEHIND = " >> "


class RunJournal:
    """The journal of a run that goes on.

    Attributes:
        run_id: The run.
    """

    def __init__(self, run_id: str, log: RunLog, entries: list[Entry]) -> None:
        self.run_id = run_id
        self._log = log
        self._count = len(entries)
        self._size = sum(map(len, log.entries))
        self._writing: set[asyncio.Task[None]] = set()
        self._progress = progress_by_scope(entries)

    @property
    def spent(self) -> list[Spent]:
        """What the run has taken, by scope."""
        return [progress.spent for progress in self._progress.values()]

    def scope(self, name: str = "") -> "ScopeJournal":
        """Return the journal of an agent of a flow, or of the run when it has none."""
        return ScopeJournal(self, name, self._progress.get(name) or Progress())

    def within(self, name: str) -> "PartJournal":
        """Return the journal of a swarm in a flow, whose agents go on by themselves too."""
        return PartJournal(self, f"{name}{_BEHIND}")

    def aside(self) -> "PartJournal":
        """Return the journal of what works for a tool: what it spends counts, no more."""
        return PartJournal(self, None)

    async def write(self, entry: Entry) -> None:
        """Keep an entry; a run that is cancelled meanwhile keeps it all the same."""
        text = write_entry(entry)
        self._count += 1
        self._size += len(text)
        if self._count > MOST_ENTRIES or self._size > LARGEST_RUN:
            raise JournalError(
                f"run '{self.run_id}' has {self._count:,} entries of {self._size:,} characters; a "
                f"journal keeps {MOST_ENTRIES:,} of {LARGEST_RUN:,}: go on with the messages of "
                "this error in a new run"
            )
        writing = asyncio.ensure_future(self._append(text))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        await asyncio.shield(writing)

    async def settle(self) -> None:
        """Wait for what is being written for those who were cancelled."""
        if self._writing:
            done, _ = await asyncio.wait(self._writing)
            for writing in done:
                # the run has ended otherwise by now
                writing.cancelled() or writing.exception()

    async def _append(self, text: str) -> None:
        await self._log.append(text)


class PartJournal:
    """What a run inside of the run has of its journal.

    Attributes:
        run_id: The run that is kept.
    """

    def __init__(self, journal: RunJournal, prefix: str | None) -> None:
        self.run_id = journal.run_id
        self._journal = journal
        self._prefix = prefix

    def scope(self, name: str = "") -> "ScopeJournal":
        """Return the journal of an agent of this part."""
        if self._prefix is None:
            return _Aside(self._journal, ASIDE, Progress())
        return self._journal.scope(self._prefix + name)

    def within(self, name: str) -> "PartJournal":
        """Return the journal of a swarm in a flow of this part."""
        prefix = None if self._prefix is None else f"{self._prefix}{name}{_BEHIND}"
        return PartJournal(self._journal, prefix)

    def aside(self) -> "PartJournal":
        """Return the journal of what works for a tool in this part."""
        return PartJournal(self._journal, None)


class ScopeJournal:
    """What one agent, and those it hands off to, do in a run.

    Attributes:
        progress: What they had done before.
    """

    __slots__ = ("_journal", "_name", "progress")

    def __init__(self, journal: RunJournal, name: str, progress: Progress) -> None:
        self._journal = journal
        self._name = name
        self.progress = progress

    async def model_called(self, agent_name: str) -> None:
        """A step begins."""
        await self._write(ModelCalled, agent_name=agent_name)

    async def replied(
        self, message: AssistantMessage, usage: Usage, cut: StopReason | None
    ) -> None:
        """The model has replied; nothing it asks for has begun."""
        if cut == "incomplete":
            # it broke off, so whoever goes on asks again
            await self._write(Took, spent=Spent(usage=usage))
        else:
            await self._write(Replied, message=message, usage=usage, cut=cut)

    async def tools_done(self, results: Iterable[ToolResult]) -> None:
        """Calls have their results."""
        for result in results:
            await self._write(ToolDone, result=result)

    async def waits(
        self,
        pause: str,
        requests: Mapping[str, InputRequest],
        results: Sequence[ToolResult],
        asked: Mapping[str, Asked],
    ) -> None:
        """Calls wait for a person; others of the reply have not begun, or have their results."""
        found = {key: asked[key] for key in requests if key in asked}
        await self._write(
            Waiting, id=pause, requests=dict(requests), results=list(results), asked=found
        )

    async def decided(
        self, pause: str, results: Sequence[ToolResult], edited: Mapping[str, dict[str, Any]]
    ) -> None:
        """People have answered; what they approved has not begun."""
        await self._write(Decided, id=pause, results=list(results), edited=dict(edited))

    async def said(self, message: UserMessage) -> None:
        """The model is told what to correct."""
        await self._write(Said, message=message)

    async def handed_off(self, target: str) -> None:
        """Another agent has the conversation."""
        await self._write(HandedOff, target=target)

    async def answered(self, answer: str) -> None:
        """There is an output, and everybody was told."""
        await self._write(Answered, answer=answer)

    async def _write(self, kind: Any, **values: Any) -> None:
        await self._journal.write(kind(scope=self._name, **values))


class _Aside(ScopeJournal):
    """Of an agent whose run is a tool's of another: it is not gone on with."""

    async def model_called(self, agent_name: str) -> None:
        await self._write(Took, spent=Spent(steps={agent_name: 1}))

    async def replied(
        self, message: AssistantMessage, usage: Usage, cut: StopReason | None
    ) -> None:
        await self._write(Took, spent=Spent(usage=usage))

    async def tools_done(self, results: Iterable[ToolResult]) -> None:
        pass

    async def said(self, message: UserMessage) -> None:
        pass

    async def handed_off(self, target: str) -> None:
        pass

    async def answered(self, answer: str) -> None:
        pass
