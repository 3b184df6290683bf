"""A run that is kept: it goes on where its process stopped, and its conversation is stored."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

from orbiter._internal.content import Given, given
from orbiter._internal.message_builder import close_calls
from orbiter._internal.run_journal import RunJournal
from orbiter._internal.state import RunState
from orbiter._internal.unfinished import keep
from orbiter._misuse import require_method, require_name
from orbiter._paused import Paused
from orbiter.agent import Agent
from orbiter.durable import RunLog, RunStore, Session
from orbiter.errors import InputAnswerError, JournalError
from orbiter.history import to_json
from orbiter.journal import Begun, read_entry
from orbiter.replay import Progress
from orbiter.types import Message, OrbiterError, RunResult, ToolResult, UserMessage

Execute = Callable[[Any, str, RunState], Awaitable[RunResult]]
_STORE = 'a store of runs, such as SqliteRunStore("runs.db")'
_SESSION = 'a conversation, such as SqliteSession("chats.db", "alice")'
_NOT_BEGUN = "Nothing was asked of the model."
_BY_RUN = "The run is kept: the same call goes on behind its complete steps, by run_id='{}'."
_BY_SESSION = 'Its complete steps are in the session: run(agent, "", session=...) goes on.'
SHOWN = 60


class DurableRun:
    """One call of `run` with a journal, a session, or both."""

    def __init__(
        self,
        journal: RunStore | None,
        run_id: str | None,
        session: Session | None,
        messages: Sequence[Message],
    ) -> None:
        """Check what was given.

        Raises:
            OrbiterError: It does not go together.
        """
        if journal is not None:
            require_method(journal, "open", "run(journal=...)", _STORE)
            if run_id is None:
                raise OrbiterError(
                    "run(journal=...) needs a run_id: a name of yours for this run, by which the "
                    "same call finds it after a crash"
                )
            require_name(run_id, "run(run_id=...)")
        elif run_id is not None:
            raise OrbiterError(
                f"run(run_id='{run_id}') needs a journal to keep the run in: give journal={_STORE}"
            )
        if session is not None:
            require_method(session, "load", "run(session=...)", _SESSION)
            if messages:
                raise OrbiterError(
                    "run(session=..., messages=...): the session has the conversation before; "
                    "give one of the two"
                )
        self._store = journal
        self._run_id = run_id
        self._session = session
        self._key = run_id or uuid4().hex

    async def execute(self, execute: Execute, target: Any, input: str, state: RunState) -> Any:
        """Run to the end."""
        async with AsyncExitStack() as leaving:
            state.go_on = _BY_SESSION if self._store is None else _BY_RUN.format(self._run_id)
            said = input
            try:
                if self._store is not None:
                    log = await self._store.open(self._run_id or "")
                    leaving.push_async_callback(log.close)
                    state.journal, said = await self._take_up(log, target, input, state)
                    leaving.push_async_callback(state.journal.settle)
                    state.began = len(state.history)
                elif state.resumed is None:
                    state.history = close_calls(list(await self._loaded()))
                    state.began = len(state.history)
            except Exception as error:
                keep(error, state.result("", "error"), go_on=_NOT_BEGUN)
                raise
            return await self._run(execute, target, said, state)

    async def _run(self, execute: Execute, target: Any, input: str, state: RunState) -> Any:
        known = state.began
        if state.resumed is not None:
            # who goes on once more takes the place of what this call keeps
            self._key = self._run_id or state.resumed.paused.id
        try:
            result = await execute(target, input, state)
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, InputAnswerError):
                await self._save_steps(state.result("", "error").messages[known:], error)
            raise
        # what waits says its messages when it has gone on
        if self._session is not None and result.paused is None:
            try:
                await self._save(result.messages[known:])
            except Exception as error:
                keep(error, result, run_id=self._run_id, go_on=state.go_on)
                raise
        return result

    async def _take_up(
        self, log: RunLog, target: Any, input: str, state: RunState
    ) -> tuple[RunJournal, str]:
        name = f"agent {target.name}" if isinstance(target, Agent) else repr(target)
        asked = UserMessage(content=str(input))
        if isinstance(input, Given):
            asked = UserMessage(content=str(input), parts=input.parts)
        entries = [read_entry(text) for text in log.entries]
        if not entries and state.resumed is None:
            if self._session is not None:
                state.history = close_calls(list(await self._loaded()))
            journal = RunJournal(self._run_id or "", log, [])
            await journal.write(Begun(target=name, input=asked, history=state.history))
            return journal, input
        if not entries:
            raise self._not_paused()
        begun = entries[0]
        if not isinstance(begun, Begun):
            raise JournalError(
                f"run '{self._run_id}' does not begin with what was asked: it is no run of "
                "run(journal=...), or its first entries are lost"
            )
        before = begun.history if self._session is not None else state.history
        if state.resumed is not None:
            asked, before = begun.input, begun.history
        said = given(asked.parts) if asked.parts else asked.content
        self._compare(begun, name, asked, before)
        state.history = list(begun.history)
        journal = RunJournal(self._run_id or "", log, entries)
        if state.resumed is not None:
            self._compare_pause(state.resumed.paused, journal.scope().progress)
        for spent in journal.spent:
            state.steps += sum(spent.steps.values())
            state.count(spent.usage)
        return journal, said

    def _compare_pause(self, paused: Paused, progress: Progress) -> None:
        waiting = None if progress.last is None else progress.last.waits_for
        if paused.id in progress.decided:
            # the call that decided did not come to its end, and this one goes on with it
            return
        if waiting is None or waiting.id != paused.id or waiting.requests != paused.open:
            raise self._not_paused()

    def _not_paused(self) -> JournalError:
        return JournalError(
            f"run '{self._run_id}' does not wait for what run(resume=...) has: give the run_id and "
            "the journal that the run was paused with, or neither of them"
        )

    def _compare(
        self, begun: Begun, target: str, asked: UserMessage, before: Sequence[Message]
    ) -> None:
        other = ""
        if begun.target != target:
            other = f"{begun.target}, not {target}"
        elif begun.input.model_dump_json() != asked.model_dump_json():
            other = f"the input {begun.input.content[:SHOWN]!r}, not {asked.content[:SHOWN]!r}"
        elif to_json(begun.history) != to_json(before):
            other = f"{len(begun.history)} messages before it, not these {len(before)}"
        if other:
            raise JournalError(
                f"run '{self._run_id}' began with {other}: give the same again, or a new run_id"
            )

    async def _loaded(self) -> Sequence[Message]:
        return [] if self._session is None else await self._session.load()

    async def _save(self, messages: Sequence[Message]) -> None:
        if self._session is not None and messages:
            await self._session.save(self._key, messages)

    async def _save_steps(self, messages: Sequence[Message], error: BaseException) -> None:
        """Keep the complete steps of a run that failed: a reply counts with all its results."""
        ends = (i for i, said in enumerate(messages, 1) if isinstance(said, ToolResult))
        try:
            await self._save(messages[: max(ends, default=0)])
        except Exception as problem:
            error.add_note(f"Its session kept nothing of it: {problem}")
