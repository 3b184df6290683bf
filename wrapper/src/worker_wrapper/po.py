"""A PO worker: one user's conversation, message after message, until it is asked to leave."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from structlog.contextvars import bound_contextvars

from orbiter_contracts import InvalidMessageError, POWorkerInput, WorkerOutput, decode
from orbiter_contracts.queues import DATA_FIELD, PO_GROUP, po_input, po_output
from worker_wrapper import outputs
from worker_wrapper.agents.base import Turn
from worker_wrapper.claims import QueueClaim
from worker_wrapper.conversations import Conversations
from worker_wrapper.exchange import POISONED_DELIVERIES, Worker, answer, begin, poisoned
from worker_wrapper.heartbeat import STANDALONE_SECONDS
from worker_wrapper.outputs import without_turn
from worker_wrapper.session import SessionTable, split_command
from worker_wrapper.stop import StopTurn
from worker_wrapper.streams import Entry, InputStream
from worker_wrapper.turn import TurnReport, take_turn

NEW_SESSION_TEXT = "A new session has started."


async def run(worker: Worker) -> None:
    """Answer messages in their order until we are asked to leave."""
    await PO(worker).run()


class PO:
    """One PO worker: its stream, its users' sessions and the agent's conversations."""

    def __init__(self, worker: Worker) -> None:
        settings = worker.settings
        self._worker = worker
        self._stream = InputStream(
            worker.redis, po_input(settings.worker_id), PO_GROUP, settings.worker_id
        )
        self._sessions = SessionTable(
            worker.redis,
            worker_id=settings.worker_id,
            first_id=settings.session_id,
            clock=worker.clock,
            new_id=lambda: str(uuid4()),
        )
        home = Path(worker.environ.get("HOME") or settings.spill_dir)
        self._conversations = Conversations(home, settings.agent.name)

    async def run(self) -> None:
        """Answer messages in their order until we are asked to leave."""
        shutdown = self._worker.shutdown
        if not await shutdown.unless(begin(self._worker, self._stream)):
            return
        while not shutdown.requested.is_set():
            entry = await shutdown.unless(self._stream.next())
            if entry is not None and await self._handle(entry):
                await self._worker.lifecycle.announce("ready")

    async def _handle(self, entry: Entry) -> bool:
        """Answer one message; False when it was none."""
        worker, settings = self._worker, self._worker.settings
        claim = QueueClaim(self._stream, entry, output=po_output(settings.worker_id))
        try:
            message = read_message(entry, settings.user_id)
        except InvalidMessageError as error:
            worker.log.warning("dead_letter", entry=entry.id, reason=str(error))
            await claim.settle("", "", dead_reason=str(error))
            return False
        new, prompt = split_command(message.prompt, settings.session_commands)
        fresh = new or not message.session_continue
        choice = await self._sessions.open(message.user_id, fresh=fresh)
        session_id = choice.record.session_id
        poison = poisoned(entry) if entry.deliveries >= POISONED_DELIVERIES else None

        async def work(stop: StopTurn) -> WorkerOutput:
            if poison:
                report = without_turn(worker.clock(), reason="WorkerCrashed", error=poison)
            elif not prompt:
                report = without_turn(worker.clock(), text=NEW_SESSION_TEXT)
            else:
                report = await self._turn(prompt, message.timeout, session_id, stop)
            return outputs.po_output(message, report, session_id=session_id)

        with bound_contextvars(request_id=message.request_id, session_id=session_id):
            worker.log.info("session", why=choice.why)
            await answer(
                worker,
                claim,
                work,
                renew_seconds=STANDALONE_SECONDS,
                details={"request_id": message.request_id, "session_id": session_id},
                dead_reason=poison or "",
            )
        await self._sessions.touch(message.user_id, session_id)
        return True

    async def _turn(
        self, prompt: str, timeout_seconds: float, session_id: str, stop: StopTurn
    ) -> TurnReport:
        worker, settings = self._worker, self._worker.settings
        report = await take_turn(
            settings.agent,
            Turn(
                prompt=prompt,
                timeout_seconds=timeout_seconds,
                session=self._conversations.session(session_id),
                workdir=settings.workspace_dir,
                options=settings.options,
            ),
            developer=False,
            environ=worker.environ,
            stop=stop,
            spill_dir=settings.spill_dir,
            clock=worker.clock,
        )
        if report.session is not None:
            self._conversations.keep(replace(report.session, id=session_id))
        return report


def read_message(entry: Entry, user_id: int | None) -> POWorkerInput:
    """Read a message; one that does not say whose it is belongs to the worker's own user.

    Raises:
        InvalidMessageError: It is none.
    """
    fields = dict(entry.fields)
    if user_id is not None:
        with contextlib.suppress(KeyError, ValueError):
            data = json.loads(fields[DATA_FIELD])
            if isinstance(data, dict):
                fields[DATA_FIELD] = json.dumps({"user_id": user_id} | data)
    return decode(POWorkerInput, fields)
