"""One command as a process of this machine, from its start until nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from orbiter.sandbox._internal.output import Kept, feed, keep
from orbiter.sandbox.sandbox import STOPPED, Outcome
from orbiter.sandbox.types import Stop

_LAST_WORDS_SECONDS = 1.0
_REAP_PAUSE = 0.002


class Setting(NamedTuple):
    """How the process is started.

    Attributes:
        cwd: Its directory.
        env: Its whole environment.
        user: Whom to be, when this process is root.
        seccomp: The filter of system calls for bubblewrap; None when it is not bubblewrap.
    """

    cwd: Path
    env: Mapping[str, str]
    user: int | None
    seccomp: Path | None


Guard = Callable[[int], Coroutine[Any, Any, Stop]]


async def execute(
    argv: Callable[[int, int], list[str]],
    setting: Setting,
    stdin: bytes,
    *,
    timeout: float,
    output_bytes: int,
    guard: Guard,
) -> Outcome:
    """Run a command to its end, or to the end of its time.

    Args:
        argv: Makes the command line, given the descriptors that bubblewrap writes of the process
            inside to, and reads the filter from.
        setting: How to start it.
        stdin: What it reads.
        timeout: Seconds.
        output_bytes: What is kept of each of its outputs.
        guard: Returns when the command has to be stopped; given the pid of the process inside.
    """
    reading, writing = os.pipe()
    try:
        process = await _start(argv, setting, writing)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    out, err = Kept(output_bytes), Kept(output_bytes)
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
    assert process.stderr is not None  # noqa: S101
    streams = [
        asyncio.create_task(feed(process.stdin, stdin)),
        asyncio.create_task(keep(process.stdout, out)),
        asyncio.create_task(keep(process.stderr, err)),
    ]
    # not process.wait(), which also waits for the outputs to end
    ended = asyncio.create_task(_exited(_descriptor(process.pid)))
    inside: int | None = None
    watching: asyncio.Task[Stop] | None = None
    stopped: Stop | None = None
    try:
        async with asyncio.timeout(timeout):
            inside = await _inside(reading) if setting.seccomp else None
            watching = asyncio.create_task(guard(process.pid))
            waited: list[asyncio.Future[Any]] = [ended, watching]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                stopped = watching.result()
    except TimeoutError:
        stopped = "timeout"
    finally:
        if watching is not None:
            watching.cancel()
        os.close(reading)
        await _end(process, inside, ended, streams)
    code = STOPPED if stopped else _as_shells_tell(process.returncode)
    return Outcome(code, out.content(), err.content(), out.truncated or err.truncated, stopped)


async def _start(
    argv: Callable[[int, int], list[str]], setting: Setting, writing: int
) -> asyncio.subprocess.Process:
    who: dict[str, Any] = {}
    if setting.user is not None:
        who = {"user": setting.user, "group": setting.user, "extra_groups": []}
    seccomp = os.open(setting.seccomp or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return await asyncio.create_subprocess_exec(
            *argv(writing, seccomp),
            cwd=setting.cwd,
            env=setting.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=[writing, seccomp] if setting.seccomp else [],
            **who,
        )
    finally:
        os.close(seccomp)


async def _inside(reading: int) -> int | None:
    """Return a descriptor of the first process inside, whose end is the end of all of them."""
    text = await asyncio.to_thread(_read_all, os.dup(reading))
    # without a word of it, bubblewrap has failed
    return _descriptor(json.loads(text)["child-pid"]) if text.strip() else None


def _descriptor(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


async def _end(
    process: asyncio.subprocess.Process,
    inside: int | None,
    ended: asyncio.Task[None],
    streams: Sequence[asyncio.Task[None]],
) -> None:
    try:
        await _killed(process, inside, ended, streams)
    finally:
        # also where whoever waits is cancelled again, as at the end of a loop
        for task in streams:
            task.cancel()
        # asyncio closes it only when the outputs end, and without isolation a stray may hold them
        process._transport.close()  # type: ignore[attr-defined]


async def _killed(
    process: asyncio.subprocess.Process,
    inside: int | None,
    ended: asyncio.Task[None],
    streams: Sequence[asyncio.Task[None]],
) -> None:
    with suppress(ProcessLookupError):
        if inside is None:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            # with the first process inside, the kernel ends all others; bubblewrap ends by itself
            signal.pidfd_send_signal(inside, signal.SIGKILL)
    try:
        if inside is not None:
            await asyncio.wait([ended], timeout=_LAST_WORDS_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await _exited(inside)
    # asyncio learns of the end a moment later, and process.wait() is no help, see above
    while process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(_REAP_PAUSE)
    await asyncio.wait(streams, timeout=_LAST_WORDS_SECONDS)


async def _exited(descriptor: int | None) -> None:
    """Wait for the end of a process, and close its descriptor."""
    if descriptor is None:
        return
    loop = asyncio.get_running_loop()
    gone = loop.create_future()
    loop.add_reader(descriptor, lambda: None if gone.done() else gone.set_result(None))
    try:
        await gone
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _as_shells_tell(code: int | None) -> int:
    assert code is not None  # noqa: S101
    return code if code >= 0 else 128 - code
