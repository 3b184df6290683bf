"""One turn of a conversation: a message goes in, its answer is followed to the end."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.conversation import Answer, Conversation
from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.kubectl.session import Session, find_session, taken_up
from orbiter.cli.ui.outcome import CommandError, ExitCode, ended_by_signals
from orbiter.cli.ui.progress import Progress
from orbiter_contracts import POWorkerOutput

_TICK_MS = 200
_CHECK_SECONDS = 2.0
_CHECK_BUSY_SECONDS = 10.0
_STILL_ASLEEP_SECONDS = 20.0
"""An operator sees a message within moments, and one that it has missed after 15 s."""

EXIT_CODES = {
    "success": ExitCode.OK,
    "timeout": ExitCode.TIMEOUT,
    "cancelled": ExitCode.CANCELLED,
    "input_required": ExitCode.WAITING,
}
"""By the status of an answer; every other one is FAILED."""


@dataclass(slots=True)
class Turns:
    """The turns of one front end.

    Attributes:
        unanswered: Request ids that were sent and given up waiting for, the oldest first.
    """

    kubectl: Kubectl
    session: Session
    conversation: Conversation
    progress: Progress
    unanswered: list[str] = field(default_factory=list)

    def take(
        self, prompt: str, show: Callable[[str], None], timeout: int | None = None
    ) -> POWorkerOutput:
        """Send a message and wait for its answer.

        Args:
            prompt: The message.
            show: Called with each new piece of the answer's text.
            timeout: Seconds for the agent, and for the wait; no limit for the wait when None.

        Returns:
            The final output.

        Raises:
            CommandError: It cannot be answered any more, or not in time.
        """
        self.session.check()
        self.progress.start()
        request = self.conversation.send(prompt, timeout)
        self.unanswered.append(request)
        answer, check_at = Answer(), _CHECK_SECONDS
        while True:
            doing = self._doing(request)
            why = self._why(doing)
            standing = f"{self.session.phase or 'new':<7}  {why or doing}"
            self.progress.waiting(doing, standing, unusual=bool(why))
            for output in self.conversation.hear(_TICK_MS):
                if output.request_id in self.unanswered[:-1]:
                    self._late(output)
                if output.request_id != request:
                    continue
                if text := answer.add(output):
                    if answer.restarted:
                        self.progress.note("(the worker was restarted and answers anew)")
                        answer.restarted = False
                    show(text)
                if output.is_final:
                    self.unanswered.remove(request)
                    self.progress.done()
                    return output
            if timeout is not None and self.progress.elapsed > timeout:
                self._check_session()
                raise CommandError(
                    f"no answer of session {self.session.name} within {timeout} s"
                    f" ({self._doing(request)});"
                    f" the message {request} stays in the queue",
                    ExitCode.TIMEOUT,
                )
            if self.progress.elapsed > check_at:
                self._check_session()
                busy = doing.startswith("thinking")
                check_at = self.progress.elapsed + (_CHECK_BUSY_SECONDS if busy else _CHECK_SECONDS)

    def refresh(self) -> None:
        """Read the session's object anew, and go on where it is."""
        self.session = find_session(self.kubectl, f"pos/{self.session.name}")
        if self.session.output_stream:
            self.conversation.follow(self.session)

    def _doing(self, request: str) -> str:
        state = self.conversation.state()
        if state is not None and state.state == "busy":
            return "thinking…" if state.request_id == request else "busy with another message…"
        if state is not None and state.state == "ready" and self.session.phase in ("Ready", "Busy"):
            return "sent…"
        hint = self.session.hint
        waits = "waiting…" if self.session.phase == "Waiting" else "waking…"
        if not hint and self._is_overslept():
            return (
                "nobody has taken up the message: is the operator running? `kubectl orbiter doctor`"
            )
        return f"{waits} ({hint})" if hint else waits

    def _is_overslept(self) -> bool:
        return self.session.phase == "Asleep" and self.progress.elapsed > _STILL_ASLEEP_SECONDS

    def _why(self, doing: str) -> str:
        """What keeps an answer from being there; empty while somebody works, or is woken."""
        return "" if doing.startswith(("thinking", "busy", "sent")) else self.session.why

    def _check_session(self) -> None:
        """End the wait for what will not come; an API server that is away proves nothing."""
        try:
            self.refresh()
        except CommandError as error:
            if error.code == ExitCode.NOT_FOUND:
                raise
            return
        try:
            self.session.check()
        except CommandError as error:
            raise CommandError(f"{error} (your message stays in the queue)", error.code) from None

    def _late(self, output: POWorkerOutput) -> None:
        if output.is_final:
            self.unanswered.remove(output.request_id)
            self.progress.note("(the answer to an earlier message)")
            self.progress.text(f"{output.text or output.error}\n\n")


def problem(output: POWorkerOutput) -> str:
    """Why an answer is no success, in one line."""
    reason = f"{output.reason}: " if output.reason else ""
    return f"{reason}{output.error or output.status}"


def as_json_line(output: POWorkerOutput) -> str:
    """One line of ASCII: everything is said, and a terminal obeys nothing of it."""
    return json.dumps(output.model_dump(mode="json"), separators=(",", ":"))


@contextmanager
def open_turns(kubectl: Kubectl, name: str, redis_url: str | None) -> Iterator[Turns]:
    """Everything a turn needs; what was started for it ends with it, also when we are told to."""
    progress = Progress()
    session = taken_up(kubectl, name, progress)
    session.check()
    with ended_by_signals(), _opened(kubectl, redis_url, session) as forward:
        try:
            yield Turns(kubectl, session, Conversation(forward, session), progress)
        except KeyboardInterrupt:
            progress.note("interrupted; what was sent is answered all the same")
            raise
        finally:
            progress.done()
            progress.end_line()


@contextmanager
def _opened(kubectl: Kubectl, redis_url: str | None, session: Session) -> Iterator[RedisForward]:
    """The way to Redis; where there is none, why the session could not answer is said as well."""
    with ExitStack() as opened:
        try:
            forward = opened.enter_context(RedisForward(kubectl, redis_url))
        except CommandError as error:
            if not session.why:
                raise
            told = f"session {session.name} is {session.phase}, {session.why}"
            raise CommandError(f"{told}; {error}", error.code) from None
        yield forward
