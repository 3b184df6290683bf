"""One turn of a PO conversation: what the agent is told, what is heard meanwhile, what is kept."""

import asyncio
from dataclasses import dataclass, replace

from orbiter_contracts import POTurn, POWorkerInput, POWorkerOutput
from orbiter_contracts.worker_scripts import OUTPUTS_KEPT, PIECE
from worker_wrapper.agents.base import Session, Turn
from worker_wrapper.checkpoint.limits import UsedUp, left
from worker_wrapper.checkpoint.meter import Meter
from worker_wrapper.checkpoint.resume import told_again
from worker_wrapper.handlers.message_handler import Answer, DisruptedError, Worker
from worker_wrapper.handlers.po_cut import FIELD, Begun, CutTurn, CutTurns
from worker_wrapper.handlers.transcript import all_of, noted, transcribed
from worker_wrapper.queue import session_state
from worker_wrapper.queue.session_state import Bookkeeping
from worker_wrapper.session.conversations import Conversations
from worker_wrapper.session.embedding import Embedder
from worker_wrapper.session.recap import recap, thread_of
from worker_wrapper.session.snapshot import SnapshotStore, not_stored
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn import outputs
from worker_wrapper.turn.outputs import without_turn
from worker_wrapper.turn.streaming import Streamer
from worker_wrapper.turn.turn import TurnReport, take_turn
from worker_wrapper.turn.usage import priced, together

NEW_SESSION_TEXT = "A new session has started."
_RECENT_TURNS = 20


@dataclass(frozen=True, slots=True)
class Message:
    """A message with all that was decided about it.

    Attributes:
        input: The message.
        prompt: What of it the agent is told; "" when it was only a command.
        session_id: The session it belongs to.
        poison: Why it is answered without asking the agent, if it is.
        entry: Its entry.
        again: Whether a worker that ended had it before, and may have asked the agent.
        cut: Where its turn was cut off in an earlier pod, if it was.
        turn: Which of the session's turns this is; 0 when the agent is not asked.
    """

    input: POWorkerInput
    prompt: str
    session_id: str
    poison: str | None
    entry: str
    again: bool = False
    cut: CutTurn | None = None
    turn: int = 0


class POTurns:
    """Takes turns of the conversations of one worker."""

    def __init__(
        self,
        worker: Worker,
        conversations: Conversations,
        snapshots: SnapshotStore | None,
        embedder: Embedder,
    ) -> None:
        self.conversations = conversations
        self._worker = worker
        self._snapshots = snapshots
        self._embedder = embedder
        self._cuts = CutTurns(worker)

    async def kept(self, *, last: int = session_state.KEPT_TURNS) -> list[POTurn]:
        """The last turns of all sessions, the oldest first."""
        settings = self._worker.settings
        key = settings.keys.po_turns(settings.worker_id)
        return session_state.read_turns(await self._worker.redis.call("LRANGE", key, -last, -1))

    async def answer(self, message: Message, stop: StopTurn) -> Answer:
        """Answer a message, with the agent's help if it takes that."""
        worker = self._worker
        if message.poison:
            report = without_turn(worker.clock(), reason="WorkerCrashed", error=message.poison)
        elif not message.prompt:
            report = without_turn(worker.clock(), text=NEW_SESSION_TEXT)
        else:
            return await self._asked(message, stop)
        await noted(worker, message.input, report, again=message.again)
        output = outputs.po_output(message.input, report, session_id=message.session_id)
        changes = session_state.answered(
            output, turn=0, context_tokens=None, snapshot=None, now=worker.clock()
        )
        return Answer(output, Bookkeeping(changes))

    async def _asked(self, message: Message, stop: StopTurn) -> Answer:
        """Ask the agent."""
        worker = self._worker
        prompt, thread = await self._prompt(message)
        report, sequence = await self._streamed(message, prompt, stop)
        output = outputs.po_output(
            message.input, report, session_id=message.session_id, sequence=sequence
        )
        session = replace(report.session or Session(message.session_id), id=message.session_id)
        if report.session is not None:
            self.conversations.keep(session)
        snapshot = (
            await self._snapshots.take(session, self.conversations) if self._snapshots else None
        )
        if snapshot and not snapshot.report.stored:
            warnings = [*output.warnings, not_stored(snapshot)]
            output = output.model_copy(update={"warnings": warnings})
        if worker.storing is not None:
            if problem := worker.storing.problem():  # of what was said before
                warnings = [*output.warnings, f"transcript: {problem}"]
                output = output.model_copy(update={"warnings": warnings})
            worker.storing.begin()
        now = worker.clock()
        kept = session_state.turn_of(message.input, message.prompt, output, thread=thread, now=now)
        changes = session_state.answered(
            output,
            turn=message.turn,
            context_tokens=session.context_tokens,
            snapshot=snapshot.report if snapshot else None,
            now=now,
        )
        bookkeeping = Bookkeeping(
            {**changes, FIELD: ""},
            self._scrubbed(kept).model_dump_json(),
        )
        return Answer(output, bookkeeping, snapshot)

    def _scrubbed(self, turn: POTurn) -> POTurn:
        scrub = self._worker.redactor.scrub
        return turn.model_copy(update={"prompt": scrub(turn.prompt), "text": scrub(turn.text)})

    async def _prompt(self, message: Message) -> tuple[str, str]:
        """What the agent is told, and the conversation this belongs to.

        A session that continues one that grew too large begins with a recap of that one, also when
        its first try came to nothing.
        """
        session_id = message.session_id
        turns = await self.kept(last=_RECENT_TURNS)
        if any(t.session_id == session_id and t.status == "success" for t in turns):
            return message.prompt, thread_of(turns, session_id)
        state = await self._worker.redis.call("HGET", self._worker.state_key, "rotation")
        continued = session_state.continues(state, session_id)
        if continued is None:
            return message.prompt, session_id
        turns = await self.kept()
        thread = thread_of(turns, continued)
        before = await recap(
            turns,
            thread=thread,
            user_id=message.input.user_id,
            message=message.prompt,
            embedder=self._embedder,
        )
        return before + message.prompt, thread

    async def _streamed(
        self, message: Message, prompt: str, stop: StopTurn
    ) -> tuple[TurnReport, int]:
        """Run the agent; return what came of it and how many pieces of it were sent before.

        Raises:
            DisruptedError: We have to go before it is done, and the next worker goes on with it.
        """
        worker, settings = self._worker, self._worker.settings
        cut = message.cut
        limits = left(message.input.timeout, settings.options, cut.checkpoint if cut else None)
        if isinstance(limits, UsedUp):
            over = without_turn(worker.clock(), reason=limits.reason, error=limits.error)
            return replace(
                over, status=limits.status, usage=cut.checkpoint.usage if cut else None
            ), 0
        session, anew, known = self.conversations.session(message.session_id), None, None
        if cut is not None and cut.checkpoint.session:
            session = await self._cuts.session(session)
            prompt, anew = self._cuts.prompts(prompt, cut)
        elif message.again and not self._snapshots:
            anew, known = prompt, told_again(prompt)
            prompt = known if session.resumed else prompt
        begun = settings.agent.conversation_id(session)
        if self._snapshots:
            self.conversations.begin(None if session.resumed else begun)
        turn = Turn(
            prompt=prompt,
            timeout_seconds=limits.seconds,
            session=session,
            workdir=settings.workspace_dir,
            options=limits.options,
            prompt_anew=anew,
            prompt_known=known,
            again=message.again or cut is not None,
        )
        meter = Meter(settings.agent)
        under_way = Begun(message.entry, session, asyncio.get_running_loop().time(), cut)

        async def send(text: str, part: int, sequence: int) -> None:
            await self._send(message, text, part, sequence)

        before = cut.checkpoint.usage if cut else None
        async with (
            Streamer(send, worker.redactor) as streamer,
            transcribed(worker, request_id=message.input.request_id, before=before) as transcript,
            self._cuts.kept_meanwhile(under_way, meter, self.conversations, self._snapshots),
        ):
            if transcript is not None and not turn.again:
                transcript.ask(message.prompt)
            report = await take_turn(
                settings.agent,
                turn,
                developer=False,
                environ=worker.environ,
                stop=stop,
                spill_dir=settings.spill_dir,
                clock=worker.clock,
                listener=streamer.take if settings.streaming else None,
                watcher=all_of(meter.hear, transcript.hear if transcript else None),
                missed=transcript.miss if transcript else None,
            )
            used = together(priced(before, report.usage), report.usage)
            if stop.reason != "cancelled":
                await streamer.finish()
            if transcript is not None:
                goes_on = stop.reason == "cancelled" or report.reason == "Terminated"
                await transcript.finish(None if goes_on else report, used)
        if (
            report.reason == "Terminated"
            and stop.reason == "terminated"
            and await self._cuts.keep(under_way, meter, self.conversations, self._snapshots)
        ):
            raise DisruptedError("asked to leave within a turn: the next worker goes on with it")
        return replace(report, usage=used), streamer.next_sequence

    async def _send(self, message: Message, text: str, part: int, sequence: int) -> None:
        settings, now = self._worker.settings, self._worker.clock()
        piece = POWorkerOutput(
            request_id=message.input.request_id,
            user_id=message.input.user_id,
            session_id=message.session_id,
            text=text,
            is_final=False,
            part=part,
            sequence=sequence,
            timestamp=now,
        )
        await self._worker.redis.run(
            PIECE,
            (settings.keys.po_output(settings.worker_id), self._worker.state_key),
            *(piece.model_dump_json(), OUTPUTS_KEPT, now.isoformat()),
            tries=1,
        )
