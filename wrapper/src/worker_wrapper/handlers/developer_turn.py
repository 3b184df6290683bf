"""The work on one task: its workspace, its agent, and what became of both; over several pods.

An attempt of an AgentTask may have begun in another pod, which the cluster has stopped. Then the
work goes on where the latest checkpoint has it, under the same message, and what is published is of
all pods together. checkpoint/ knows how; a task without a record has one pod.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from orbiter_contracts import ArtifactsReport, DeveloperWorkerInput, Workspace, WorkspaceReport
from orbiter_contracts.stored_transcripts import TranscriptReport
from worker_wrapper.agents.base import Session, Turn
from worker_wrapper.checkpoint.limits import Left, UsedUp, left
from worker_wrapper.checkpoint.resume import Earlier, find_earlier, prompts, put_back
from worker_wrapper.checkpoint.saver import Attempt, Saver
from worker_wrapper.checkpoint.schedule import meanwhile
from worker_wrapper.handlers.artifacts import keep_artifacts
from worker_wrapper.handlers.message_handler import Answer, DisruptedError, Worker
from worker_wrapper.handlers.transcript import all_of, transcribed
from worker_wrapper.queue.checkpoints import Checkpoints
from worker_wrapper.session.copies import SessionCopies
from worker_wrapper.session.snapshot import AttemptMemory
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn.outputs import developer_output, without_turn
from worker_wrapper.turn.setup import Place, set_up
from worker_wrapper.turn.steps import StepLog
from worker_wrapper.turn.turn import TurnReport, take_turn
from worker_wrapper.turn.usage import priced, together
from worker_wrapper.workspace import workspace
from worker_wrapper.workspace.fetching import Fetch, fetch_with
from worker_wrapper.workspace.git import Git
from worker_wrapper.workspace.keeping import BaseGoneError, restore
from worker_wrapper.workspace.push_client import PushConnection, take_over

GIT_SECONDS = 60.0
"""How long one git command of a checkpoint may take."""


async def work_on(
    worker: Worker, task: DeveloperWorkerInput, session_id: str, stop: StopTurn, *, again: bool
) -> Answer:
    """Prepare the workspace, run the agent in it, and see what became of it.

    Args:
        worker: Who works.
        task: What there is to do.
        session_id: The conversation, where no checkpoint names one.
        stop: Ends the turn.
        again: Whether a worker of the same attempt has begun before, and was taken away.

    Raises:
        DisruptedError: We have to go before that is done, and another pod goes on with it.
    """
    work = _Work(worker, task, session_id, stop, again)
    return await work.done()


class _Work:
    def __init__(
        self,
        worker: Worker,
        task: DeveloperWorkerInput,
        session_id: str,
        stop: StopTurn,
        again: bool,
    ) -> None:
        self._worker = worker
        self._settings = worker.settings
        self._task = task
        self._session_id = session_id
        self._stop = stop
        self._again = again
        self._checkpoints = _checkpoints(worker)
        self._copies = SessionCopies(worker.settings.agent, worker.environ, worker.home)
        self._earlier = Earlier()
        self._steps = StepLog(worker.clock, kept=worker.settings.traceparent is not None)

    async def done(self) -> Answer:
        """See `work_on`."""
        if self._checkpoints is not None:
            resume = self._settings.disruption_policy == "Resume"
            self._earlier = await find_earlier(
                self._checkpoints, self._copies, resume=resume, log=self._worker.log
            )
        limits = left(self._task.timeout, self._settings.options, self._earlier.spent)
        if isinstance(limits, UsedUp):
            return self._answer(self._used_up(limits))
        memory = await AttemptMemory.of(self._worker.snapshots(), self._session_id)
        try:
            with self._steps.phase("prepare workspace"):
                prepared, connection = await self._prepared()
        except workspace.WorkspaceError as error:
            self._leave_it_to_another_pod()
            reason = "Terminated" if self._stop.is_set() else "WorkspaceError"
            now = self._worker.clock()
            return self._answer(without_turn(now, reason=reason, error=str(error)))
        session = memory.session
        if self._earlier.resumed is not None:
            with self._steps.phase("restore session"):
                session = await put_back(self._earlier.resumed, self._copies, self._session_id)
        report, limits = await self._set_up(limits)
        report = report or await self._turn(session, prepared, limits)
        if self._worker.storing is not None:
            self._worker.storing.begin()
        snapshot = None
        if report.status == "input_required":
            snapshot, warnings = await memory.keep(report.session)
            report = replace(report, warnings=[*report.warnings, *warnings])
        with self._steps.phase("finish workspace"):
            finished = await self._finished(report, prepared, connection)
        report = replace(report, warnings=[*report.warnings, *finished.warnings])
        kept = await self._artifacts()
        storing = self._worker.storing
        stored = await storing.report() if storing and not self._stop.is_set() else None
        return replace(self._answer(report, finished.report, kept, stored), snapshot=snapshot)

    async def _prepared(self) -> tuple[WorkspaceReport, PushConnection | None]:
        """The workspace as the work begins with it, or as it was when it was cut off."""
        settings, wanted = self._settings, self._task.workspace
        connection: PushConnection | None = None
        fetch: Fetch | None = None
        if settings.worker_handover_dir and wanted and wanted.git:
            prepared, connection = await take_over(
                settings.worker_handover_dir, wanted.git, self._stop
            )
            fetch = connection.fetch if connection else None
        else:
            prepared = await workspace.prepare(
                *self._place, environ=self._worker.environ, spill_dir=self._spill, stop=self._stop
            )
            if wanted and wanted.git:
                fetch = fetch_with(wanted.git, settings.git_credentials_dir)
        if self._earlier.resumed is None:
            return prepared, connection
        try:
            restored = await restore(
                Git(self._worker.environ, self._spill, workspace.GIT_SECONDS, self._stop),
                self._earlier.workspace,
                settings.workspace_dir,
                prepared,
                self._earlier.resumed.checkpoint.base_commit,
                fetch=fetch,
            )
        except BaseGoneError as error:
            self._earlier = self._earlier.anew(str(error))
            return prepared, connection
        return restored, connection

    async def _set_up(self, limits: Left) -> tuple[TurnReport | None, Left]:
        """Do what the task has done before its agent begins; what that leaves of the limits."""
        script = self._task.workspace.setup if self._task.workspace else None
        if script is None:
            return None, limits
        place = Place(self._settings.workspace_dir, self._worker.environ, self._spill)
        with self._steps.phase("set up workspace"):
            report, seconds = await set_up(
                *(script, self._settings.agent, place, limits.seconds, self._stop),
                clock=self._worker.clock,
            )
        if report is not None:
            self._leave_it_to_another_pod()
        return report, replace(limits, seconds=seconds)

    async def _turn(self, session: Session, prepared: WorkspaceReport, limits: Left) -> TurnReport:
        settings, task = self._settings, self._task
        prompt, anew = prompts(task.prompt, self._earlier, settings.disruption_note)
        # From here on the agent works, and nothing that is said meanwhile may hold it up.
        self._worker.redis.insists = lambda: False
        before = self._earlier.spent.usage if self._earlier.spent else None
        async with (
            self._saved(session, prepared) as saver,
            transcribed(self._worker, before=before, steps=self._steps) as transcript,
        ):
            report = await take_turn(
                settings.agent,
                Turn(
                    prompt=prompt,
                    timeout_seconds=limits.seconds,
                    session=session,
                    workdir=settings.workspace_dir,
                    options=limits.options,
                    prompt_anew=anew,
                    again=self._again,
                ),
                developer=True,
                environ=self._worker.environ,
                stop=self._stop,
                spill_dir=self._spill,
                clock=self._worker.clock,
                watcher=all_of(
                    saver.hear if saver else None, transcript.hear if transcript else None
                ),
                missed=transcript.miss if transcript else None,
            )
            used = together(priced(before, report.usage), report.usage)
            if transcript is not None:
                goes_on = report.reason == "Terminated" and saver is not None
                goes_on = goes_on or self._stop.reason == "cancelled"
                await transcript.finish(None if goes_on else report, used)
        if report.reason == "Terminated" and saver is not None:
            await saver.save(leaving=True)
            self._leave_it_to_another_pod()
        return replace(
            report,
            usage=used,
            warnings=[*self._earlier.warnings, *report.warnings],
        )

    @asynccontextmanager
    async def _saved(
        self, session: Session, prepared: WorkspaceReport
    ) -> AsyncIterator[Saver | None]:
        """Meanwhile, checkpoints are made of the turn as often as its agent allows."""
        if self._checkpoints is None:
            yield None
            return
        agent, git = self._settings.agent, self._task.workspace and self._task.workspace.git
        saver = Saver(
            Attempt(
                agent,
                session,
                self._settings.workspace_dir,
                prepared if git else None,
                self._earlier,
            ),
            self._checkpoints,
            self._copies,
            Git(self._worker.environ, self._spill, GIT_SECONDS, self._stop, beside=True),
            clock=self._worker.clock,
            log=self._worker.log,
        )
        if not agent.resumes_mid_turn or self._settings.disruption_policy != "Resume":
            yield saver
            return
        async with meanwhile(
            saver.from_time_to_time(
                self._settings.checkpoint_seconds, self._worker.shutdown.requested
            )
        ):
            yield saver

    async def _finished(
        self, report: TurnReport, prepared: WorkspaceReport, connection: PushConnection | None
    ) -> workspace.Finished:
        """What became of the workspace; with it, the connection to who pushes is of no more use."""
        finished = workspace.Finished(prepared)
        if report.status != "success":
            finished = workspace.unfinished(self._task.workspace, prepared)
        elif not self._stop.is_set():
            finished = await workspace.finish(
                *self._place,
                prepared=prepared,
                environ=self._worker.environ,
                spill_dir=self._spill,
                stop=self._stop,
                push_with=connection.push if connection else None,
            )
        if connection:
            connection.close()
        return finished

    async def _artifacts(self) -> ArtifactsReport | None:
        """Keep what the task names of the workspace, however the agent has ended."""
        if not self._task.artifacts or self._stop.reason == "cancelled":
            return None
        with self._steps.phase("keep artifacts"):
            return await keep_artifacts(self._worker, self._task.artifacts)

    def _answer(
        self,
        report: TurnReport,
        place: WorkspaceReport | None = None,
        artifacts: ArtifactsReport | None = None,
        transcript: TranscriptReport | None = None,
    ) -> Answer:
        has_git = self._task.workspace and self._task.workspace.git
        return Answer(
            developer_output(
                self._task,
                report,
                worker_id=self._settings.worker_id,
                workspace=place if has_git else None,
                artifacts=artifacts,
                transcript=transcript,
                steps=self._steps.steps,
            )
        )

    def _used_up(self, limits: UsedUp) -> TurnReport:
        """Nothing is left of the attempt's limits, so that the agent is not asked again."""
        report = without_turn(self._worker.clock(), reason=limits.reason, error=limits.error)
        spent = self._earlier.spent
        return replace(report, status=limits.status, usage=spent.usage if spent else None)

    def _leave_it_to_another_pod(self) -> None:
        """End here when we have to go, and the attempt may go on without us."""
        if self._checkpoints is not None and self._stop.reason == "terminated":
            raise DisruptedError(
                "asked to leave before the task was done: another pod goes on with it"
            )

    @property
    def _place(self) -> tuple[Workspace | None, Path, Path | None]:
        settings = self._settings
        return self._task.workspace, settings.workspace_dir, settings.git_credentials_dir

    @property
    def _spill(self) -> Path:
        return self._settings.spill_dir


def _checkpoints(worker: Worker) -> Checkpoints | None:
    """Those of the attempt that we exist for; None where a disruption ends the work."""
    settings, bound = worker.settings, worker.settings.task
    if not settings.outlives_disruption or bound is None:
        return None
    if bound.record is None or bound.name is None or bound.attempt is None:
        return None
    return Checkpoints(
        worker.redis,
        settings.keys,
        record=bound.record,
        entry=bound.entry_id,
        worker_id=settings.worker_id,
        lease=(settings.lease_key, worker.token),
        lifecycle=worker.lifecycle,
        routing=(bound.name, bound.attempt),
    )
