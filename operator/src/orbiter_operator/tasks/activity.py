"""What agents do now, in a few words for `status.progress`: from the ends of their transcripts.

It is the agent's word, so it is bounded, and decides nothing. Each running attempt is looked at
every 10 seconds, and its task reconciled when the words are others: one write in that time. Whoever
may append to a transcript may append an entry of any size: what is too large stays in Redis.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_contracts.attempts import OPERATOR
from orbiter_contracts.bounds import one_line
from orbiter_contracts.queues import DATA_FIELD, KeysOf
from orbiter_contracts.tool_targets import tool_target
from orbiter_contracts.transcript import (
    MAX_ENTRY_BYTES,
    TRANSCRIPT_BYTES,
    AnyEvent,
    ToolCallEvent,
)
from orbiter_contracts.transcript_reading import read_entry
from orbiter_operator.kube.names import Key
from orbiter_operator.streams.pending_outputs import PendingOutputs

log = structlog.get_logger(__name__)
EVERY_SECONDS: Final = 10.0
_AT_ONCE: Final = 20
_ENTRIES: Final = 20
"""A worker writes two a second at most. A transcript has 256 KiB, so _AT_ONCE have 5 MiB."""
_END: Final = f"""
local position, left, found = '+', {TRANSCRIPT_BYTES}, {{}}
for _ = 1, {_ENTRIES} do
  local entry = redis.call('XREVRANGE', KEYS[1], position, '-', 'COUNT', 1)[1]
  if not entry then break end
  for i = 1, #entry[2] - 1, 2 do
    if entry[2][i] == '{DATA_FIELD}' then
      local data = entry[2][i + 1]
      if #data <= {MAX_ENTRY_BYTES} then
        left = left - #data
        if left < 0 then return found end
        found[#found + 1] = data
      end
      break
    end
  end
  position = '(' .. entry[1]
end
return found
"""
"""What the latest entries have in `data`, the newest first, without those that are too large.

KEYS: the transcript."""
_LONGEST: Final = 100
_VERBS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), verb)
    for pattern, verb in (
        ("todo|plan", "plans"),
        ("edit|replace|patch|file_change|insert", "edits"),
        ("write|create", "writes"),
        ("grep|search|glob|find|^list|^ls$", "searches"),
        ("read|view", "reads"),
        ("bash|shell|exec|command|run|terminal", "runs"),
        ("fetch|browse|http", "fetches"),
    )
)
_WORKSPACE: Final = re.compile(r"^/workspace/")


class Attempted(NamedTuple):
    """An attempt that runs, and where its transcript is."""

    key: Key
    attempt: int
    transcript: str


class Tasks(Protocol):
    """All tasks that are known."""

    def __iter__(self) -> Iterator[Key]: ...

    def get(self, key: Key, /) -> dict[str, Any] | None: ...  # noqa: D102


class Activity:
    """Reads the transcripts of the attempts that run.

    Args:
        redis: A client for short commands.
        tasks: All of them: one in a queue of Kueue's has no slot, and works all the same.
        keys: Which keys a namespace has.
        pending: Where the words are kept.
        enqueue: Called with the key of a task of which there are other words.
    """

    def __init__(
        self,
        *,
        redis: Redis,
        tasks: Tasks,
        keys: KeysOf,
        pending: PendingOutputs,
        enqueue: Callable[[Key], None],
    ) -> None:
        self._redis, self._tasks = redis, tasks
        self._keys, self._pending, self._enqueue = keys, pending, enqueue

    async def run(self) -> None:
        """Check for ever."""
        while True:
            try:
                await self.check()
            except (RedisError, OSError) as error:
                log.debug("what agents do is not known", error=str(error))
            await asyncio.sleep(EVERY_SECONDS)

    def _running(self) -> Iterator[Attempted]:
        for key in self._tasks:
            task = self._tasks.get(key) or {}
            spec, status = task.get("spec") or {}, task.get("status") or {}
            attempt, ours = status.get("attempts"), spec.get("managedBy") in (None, OPERATOR)
            if ours and status.get("phase") == "Running" and isinstance(attempt, int):
                keys, uid = self._keys(key.namespace), task["metadata"]["uid"]
                yield Attempted(key, attempt, keys.task_transcript(uid, attempt))

    async def check(self) -> None:
        """Read the end of every running attempt's transcript, once.

        Raises:
            RedisError: Redis did not answer.
        """
        running = list(self._running())
        for start in range(0, len(running), _AT_ONCE):
            some = running[start : start + _AT_ONCE]
            async with self._redis.pipeline(transaction=False) as pipe:
                for each in some:
                    pipe.execute_command("EVAL", _END, 1, each.transcript, NEVER_DECODE=True)
                answers = await pipe.execute(raise_on_error=False)
            for each, entries in zip(some, answers, strict=True):
                does = _last(entries)
                if does and self._pending.doing(each.key, each.attempt) != does:
                    self._pending.does(each.key, each.attempt, does)
                    self._enqueue(each.key)


def _last(entries: Any) -> str | None:
    """The words about the latest call of a tool that some entries tell of, the newest first."""
    if isinstance(entries, Exception):
        return None
    for data in entries:
        for event in reversed(read_entry({DATA_FIELD.encode(): data}).events):
            if told := activity(event):
                return told
    return None


def activity(event: AnyEvent) -> str | None:
    """What the agent does, in a few words; None for what is no use of a tool.

    >>> from datetime import UTC, datetime
    >>> fields = {"at": datetime.now(UTC), "attempt": 1, "tool_name": "Edit"}
    >>> activity(ToolCallEvent(arguments='{"file_path": "/workspace/src/login.py"}', **fields))
    'edits src/login.py'
    """
    if not isinstance(event, ToolCallEvent):
        return None
    tool, target = _words(event.tool_name), _WORKSPACE.sub("", _words(tool_target(event.arguments)))
    verb = next((verb for pattern, verb in _VERBS if pattern.search(tool)), None)
    return _words(f"{verb or f'uses {tool}'} {target}") or None


def _words(text: str) -> str:
    return one_line("".join(each if each.isprintable() else " " for each in text), _LONGEST)
