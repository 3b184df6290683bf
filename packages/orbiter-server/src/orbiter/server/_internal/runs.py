"""Runs that go on: started, followed into the journal, cancelled, drained, taken up again.

A run belongs to the server, not to the client that asked for it. Whoever wants to see it reads its
events, from the first or from wherever he was.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping

from orbiter import Agent, Swarm
from orbiter.agent import Provider
from orbiter.config import Spent
from orbiter.errors import JournalError
from orbiter.journal import read_entry
from orbiter.replay import Progress, find_agent, progress_of
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.follower import Follower, result_of
from orbiter.server._internal.journal import Journal
from orbiter.server._internal.metrics import Metrics
from orbiter.server._internal.sessions import Sessions
from orbiter.server._internal.waits import Wait
from orbiter.server.config import ServerConfig
from orbiter.server.models import Conversation, RunInfo, RunStatus
from orbiter.types import UserMessage

logger = logging.getLogger("orbiter.server")
RETRY_AFTER = 5


class Runs:
    """The runs of this process."""

    def __init__(
        self,
        agents: Mapping[str, Agent | Swarm],
        provider: Provider | None,
        sessions: Sessions,
        journal: Journal,
        metrics: Metrics,
        config: ServerConfig,
    ) -> None:
        self._agents = agents
        self._follower = Follower(provider, sessions, journal, metrics)
        self._sessions = sessions
        self._journal = journal
        self._metrics = metrics
        self._config = config
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._starting = 0
        self._guests = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    @property
    def active(self) -> int:
        """How many runs go on."""
        return len(self._tasks) + self._guests

    def agent(self, name: str) -> Agent | Swarm:
        """Return what is served under a name.

        Raises:
            RequestError: Nothing is.
        """
        if name not in self._agents:
            known = ", ".join(self._agents)
            raise RequestError(
                404, f"there is no agent '{name[:100]}'; agents: {known}", code="model_not_found"
            )
        return self._agents[name]

    def check_room(self) -> None:
        """Refuse new work when there is enough, or when the server is about to stop.

        Raises:
            RequestError: Why not now.
        """
        if self.draining:
            raise RequestError(
                503, "the server is about to stop: try again", retry_after=RETRY_AFTER
            )
        if self.active + self._starting >= self._config.max_runs:
            why = f"{self._config.max_runs} runs go on already: try again later"
            raise RequestError(429, why, code="too_many_runs", retry_after=RETRY_AFTER)

    @contextlib.contextmanager
    def guest(self) -> Iterator[None]:
        """Count a run that somebody else follows.

        Raises:
            RequestError: Why it cannot begin now.
        """
        self.check_room()
        self._guests += 1
        self._counted()
        try:
            yield
        finally:
            self._guests -= 1
            self._counted()

    async def start(
        self, session_id: str, said: UserMessage, user: str | None, request_id: str | None = None
    ) -> RunInfo:
        """Start a run in a session of that user; None is anybody.

        What is said in a session that waits answers the request that has this id.

        Raises:
            RequestError: It cannot be started now, or not there.
        """
        # whoever asked may leave: a run that is written down and never begun has no end
        return await asyncio.shield(self._start(session_id, said, user, request_id))

    async def _start(
        self, session_id: str, said: UserMessage, user: str | None, request_id: str | None
    ) -> RunInfo:
        self.check_room()
        self._starting += 1
        try:
            info, history, wait = await self._sessions.begin_run(session_id, said, user, request_id)
        finally:
            self._starting -= 1
        target = self._agents.get(info.agent)
        self._journal.open(info.id)
        if target is None:
            gone = f"agent '{info.agent}' is served no more"
            await self._follower.end(info, RunStatus.FAILED, [], error=gone)
        else:
            self._spawn(info, target, said, history, len(history), Spent(), wait)
            # a task that was never begun could not write down its own cancellation
            await asyncio.sleep(0)
        return info

    async def cancel(self, run_id: str, user: str | None) -> RunInfo:
        """Cancel a run of that user and return it once it has ended; what is over stays as it is.

        Raises:
            RequestError: There is no such run.
        """
        await self._sessions.run(run_id, user)
        task = self._tasks.get(run_id)
        if task is not None:
            if run_id not in self._cancelled:
                self._cancelled.add(run_id)
                task.cancel()
            await asyncio.wait([task])
            await self._journal.flush()
        return await self._sessions.run(run_id, user)

    async def resume(self) -> None:
        """Take up what a dead server left behind."""
        for info, asked, history, events, times, wait in await self._sessions.left_behind():
            self._journal.open(info.id, info.last_event)
            target = self._agents.get(info.agent)
            progress, agent = Progress(), None
            why = "the server stopped during this run, and only single agents can go on"
            try:
                progress = progress_of(map(read_entry, events))
            except JournalError as error:
                why = f"the server stopped during this run, and {error}"
            else:
                if isinstance(target, Agent):
                    agent = find_agent(target, progress.agent_name)
            if wait is not None:
                await self._follower.ask_again(info, wait, progress.spent)
                continue
            if agent is None or times > self._config.max_resumes:
                if agent is not None:
                    why = f"the server stopped {times} times during this run"
                await self._follower.end(
                    info, RunStatus.FAILED, [asked, *progress.messages],
                    error=f"{why}; send it again", result=result_of(progress.spent),
                )  # fmt: skip
                continue
            logger.info("going on with run %s of agent %s", info.id, info.agent)
            await self._journal.append(info.id, {"type": "resumed", "kept": progress.kept})
            if progress.messages:
                before = [*history, asked, *progress.messages]
                self._spawn(info, agent, None, before, len(history), progress.spent)
            else:
                self._spawn(info, agent, asked, history, len(history), progress.spent)

    async def drain(self) -> None:
        """Start nothing more and let runs end, for as long as the configuration says."""
        self.draining = True
        if self.active:
            logger.info("waiting for %d runs to end", self.active)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), self._config.drain_seconds)

    async def stop(self) -> None:
        """Stop what still runs, without an end: the next server goes on with it. Readers end."""
        self.draining = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            logger.info("leaving %d runs to the next server", len(tasks))
            await asyncio.wait(tasks)
        await self._journal.close()

    def _spawn(
        self, info: RunInfo, target: Agent | Swarm, said: UserMessage | None, history: Conversation,
        known: int, spent: Spent, wait: Wait | None = None,
    ) -> None:  # fmt: skip
        followed = self._follower.follow(
            info, target, said, history, known, lambda: info.id in self._cancelled, spent, wait
        )
        task = asyncio.create_task(followed)
        self._tasks[info.id] = task
        self._counted()
        task.add_done_callback(lambda _: self._done(info.id))

    def _done(self, run_id: str) -> None:
        self._tasks.pop(run_id, None)
        self._cancelled.discard(run_id)
        self._counted()

    def _counted(self) -> None:
        self._metrics.active_runs.set(self.active)
        if self.active:
            self._idle.clear()
        else:
            self._idle.set()
