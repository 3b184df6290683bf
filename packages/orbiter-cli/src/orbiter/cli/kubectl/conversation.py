"""A front end's side of a session's two streams: put a message in, follow its answer.

docs/sessions.md describes the same in Redis' own words, for bots in any language.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.kubectl.session import Session
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter_contracts import (
    InvalidMessageError,
    POState,
    POWorkerInput,
    POWorkerOutput,
    decode,
    encode,
)
from orbiter_contracts.queues import BARE
from orbiter_contracts.stream_names import read_stream_name

_BEGINNING = "0-0"


class Conversation:
    """One front end of one session.

    What it reads begins behind the newest output there was when it was made, so that it sees every
    answer to what it sends and none from before.
    """

    def __init__(self, forward: RedisForward, session: Session) -> None:
        self._forward = forward
        self.follow(session)
        newest = self._ask("XREVRANGE", session.output_stream, "+", "-", "COUNT", 1)
        self._after = newest[0][0] if newest else _BEGINNING

    def follow(self, session: Session) -> None:
        """Go on in the streams that the session's status names now.

        A session that has moved has taken its streams along: what was read of them is known.
        """
        self._session = session
        name = read_stream_name(session.output_stream)
        self._keys = name.keys if name else BARE

    def send(self, prompt: str, timeout: int | None = None) -> str:
        """Put a message on the session's input stream.

        Args:
            prompt: The text.
            timeout: Seconds the agent may take, its default when None.

        Returns:
            The request id that its outputs will have.
        """
        limits = {} if timeout is None else {"timeout": timeout}
        self._forward.check()
        message = POWorkerInput(user_id=self._session.user_id, prompt=prompt, **limits)
        fields = encode(message)
        words = [word for pair in fields.items() for word in pair]
        self._ask("XADD", self._session.input_stream, "*", *words)
        return message.request_id

    def hear(self, wait_ms: int) -> list[POWorkerOutput]:
        """Return the next outputs, of whatever request; empty when none come in time.

        A lost connection is made again; nothing is missed, because the outputs stay in the stream.
        """
        words = ("COUNT", 100, "BLOCK", wait_ms, "STREAMS", self._session.output_stream)
        reply = self._read("XREAD", *words, self._after)
        outputs = []
        for entry, fields in reply[0][1] if reply else ():
            self._after = entry
            with suppress(InvalidMessageError):
                outputs.append(decode(POWorkerOutput, fields))
        return outputs

    def state(self) -> POState | None:
        """Where the worker stands; None when none ever did."""
        return POState.of(self._read("HGETALL", self._keys.po_state(self._session.worker_id)) or {})

    def _read(self, command: str, *words: str | int) -> Any:
        """Read something that can be read again: a lost connection is made anew, with no reply."""
        redis: Any = self._forward.redis
        try:
            return redis.execute_command(command, *words)
        except (RedisConnectionError, RedisTimeoutError):
            self._forward.reopen_patiently()
            return None
        except RedisError as error:
            raise _refused(command, words, error) from None

    def _ask(self, command: str, *words: str | int) -> Any:
        redis: Any = self._forward.redis
        try:
            return redis.execute_command(command, *words)
        except RedisError as error:
            raise _refused(command, words, error) from None


def _refused(command: str, words: tuple[str | int, ...], error: RedisError) -> CommandError:
    unclear = "; the message may or may not have been sent" if command == "XADD" else ""
    return CommandError(f"Redis, {command} {words[0]}: {error}{unclear}", ExitCode.UNREACHABLE)


@dataclass(slots=True)
class Answer:
    """Puts the pieces of one answer together.

    Attributes:
        restarted: The worker crashed and another one began the answer anew.
    """

    restarted: bool = False
    _first: str | None = None
    _sequence: int = -1
    _part: int = 0
    _shown: str = ""

    def add(self, output: POWorkerOutput) -> str:
        """Take the next output of this request; return the text to print after what was printed.

        >>> answer = Answer()
        >>> def piece(text, sequence, **fields):
        ...     fields = {"is_final": False, **fields}
        ...     return POWorkerOutput(
        ...         request_id="r", user_id=7, text=text, sequence=sequence, **fields
        ...     )
        >>> [answer.add(piece("Hel", 0)), answer.add(piece("lo", 1))]
        ['Hel', 'lo']
        >>> answer.add(piece("Hello, world", 2, is_final=True))
        ', world'
        """
        if output.is_final:
            return self._end(output.text)
        anew = output.sequence == 0 and self._sequence >= 0
        if output.sequence <= self._sequence and (not anew or output.text == self._first):
            return ""
        before = ""
        if anew:
            self.restarted = True
            before, self._shown = self._break(), ""
        if output.sequence == 0:
            self._first = output.text
        if output.part != self._part:
            self._shown = ""  # the blank lines between an agent's texts are part of the piece
        self._sequence, self._part = output.sequence, output.part
        self._shown = (self._shown + output.text).lstrip("\n")
        return before + output.text

    def _end(self, whole: str) -> str:
        if whole.startswith(self._shown):
            return whole[len(self._shown) :]
        if self._shown.startswith(whole):
            return ""
        return self._break() + whole

    def _break(self) -> str:
        return "\n" if self._shown.endswith("\n") else "\n\n"
