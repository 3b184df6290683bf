"""A command runs under supervision: to its end, or to the end we put to it."""

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from worker_wrapper.process.command import Command, Outcome
from worker_wrapper.process.kernel import become_subreaper
from worker_wrapper.process.run import CannotStartError, Grace, run
from worker_wrapper.shutdown import StopTurn

QUICK = Grace(0.1, 0.1)
GRACE = {"timeout": QUICK, "cancelled": QUICK, "terminated": QUICK}
ENV = {"PATH": "/usr/bin:/bin"}
Shell = Callable[..., Awaitable[Outcome]]


@pytest.fixture(autouse=True, scope="module")
def _subreaper() -> None:
    become_subreaper()


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    """Run a shell script in tmp_path, and give its disk space back."""
    outcomes = []

    async def run_script(script: str, *, seconds: float = 20.0, **options: object) -> Outcome:
        given = {"grace": GRACE, "stop": StopTurn(), "env": ENV} | options
        outcome = await run(
            Command(("sh", "-c", script), stdin=b"the prompt"),
            workdir=tmp_path,
            timeout_seconds=seconds,
            spill_dir=tmp_path,
            **given,  # type: ignore[arg-type]
        )
        outcomes.append(outcome)
        return outcome

    yield run_script
    for outcome in outcomes:
        outcome.stdout.close()


@pytest.fixture
def anyone_left(tmp_path: Path) -> Iterator[Callable[[], bool]]:
    """Whether a process still holds `lifeline` open for writing, a script or a child of it."""
    os.mkfifo(tmp_path / "lifeline")
    reader = os.open(tmp_path / "lifeline", os.O_RDONLY | os.O_NONBLOCK)

    def check() -> bool:
        try:
            return os.read(reader, 1) != b""
        except BlockingIOError:
            return True

    yield check
    os.close(reader)


def printed(outcome: Outcome) -> str:
    return outcome.stdout.read(0, 10_000).decode()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(turn: Awaitable[Outcome]) -> AsyncIterator[asyncio.Future[Outcome]]:
    task = asyncio.ensure_future(turn)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_the_command_gets_its_input_on_stdin_and_nothing_but_its_environment(
    shell: Shell,
) -> None:
    outcome = await shell("cat; echo; env", env=ENV | {"GIVEN": "yes"})

    prompt, *environment = printed(outcome).splitlines()
    assert prompt == "the prompt"
    assert {line.split("=")[0] for line in environment} <= {"PATH", "GIVEN", "PWD", "_", "SHLVL"}
    assert "GIVEN=yes" in environment


async def test_it_runs_in_its_working_directory(shell: Shell, tmp_path: Path) -> None:
    assert printed(await shell("pwd")).strip() == str(tmp_path)


async def test_the_exit_code_and_stderr_are_kept_apart_from_stdout(shell: Shell) -> None:
    outcome = await shell("echo out; echo err >&2; exit 7")

    assert (outcome.exit_code, outcome.signal) == (7, None)
    assert printed(outcome) == "out\n"
    assert outcome.complaint == "err"


async def test_of_stderr_only_the_last_64_kib_are_kept(shell: Shell) -> None:
    outcome = await shell("head -c 300000 /dev/zero | tr '\\0' x >&2; echo end >&2")

    assert len(outcome.stderr_tail) == 64 * 1024
    assert outcome.stderr_tail.endswith(b"xend\n")


async def test_a_program_that_never_reads_its_input_does_not_hold_us_up(tmp_path: Path) -> None:
    outcome = await run(
        Command(("true",), stdin=b"x" * 4_000_000),
        env=ENV,
        workdir=tmp_path,
        timeout_seconds=10,
        stop=StopTurn(),
        spill_dir=tmp_path,
    )

    assert outcome.exit_code == 0


async def test_the_clock_says_when_it_started_and_finished(shell: Shell) -> None:
    ticks = count()
    start = datetime(2026, 1, 1, tzinfo=UTC)

    outcome = await shell("true", clock=lambda: start + timedelta(seconds=next(ticks)))

    assert outcome.finished_at - outcome.started_at == timedelta(seconds=1)


async def test_at_the_time_limit_it_is_interrupted_and_may_still_say_something(
    shell: Shell,
) -> None:
    script = "trap 'echo interrupted; exit 0' INT; while :; do sleep 0.01; done"

    outcome = await shell(script, seconds=0.1, grace=GRACE | {"timeout": Grace(20, 20)})

    assert outcome.timed_out
    assert outcome.exit_code == 0
    assert printed(outcome) == "interrupted\n"


async def test_a_wrapper_started_in_the_background_can_still_interrupt_its_agent(
    shell: Shell,
) -> None:
    script = "trap 'echo interrupted; exit 0' INT; while :; do sleep 0.01; done"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `worker & ` in a script does
    try:
        outcome = await shell(script, seconds=0.1, grace=GRACE | {"timeout": Grace(20, 20)})
    finally:
        signal.signal(signal.SIGINT, before)

    assert printed(outcome) == "interrupted\n"


async def test_what_ignores_sigint_gets_sigterm(shell: Shell) -> None:
    script = "trap '' INT; trap 'echo terminated; exit 0' TERM; while :; do sleep 0.01; done"

    outcome = await shell(script, seconds=0.1, grace=GRACE | {"timeout": Grace(0.1, 20)})

    assert outcome.timed_out
    assert printed(outcome) == "terminated\n"


async def test_what_ignores_sigterm_too_is_killed(shell: Shell) -> None:
    outcome = await shell("trap '' INT TERM; while :; do sleep 0.01; done", seconds=0.1)

    assert outcome.timed_out
    assert outcome.signal == 9


async def test_a_cli_behind_a_shell_script_is_interrupted_as_well(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "cli").write_text("trap 'echo inner; exit 0' INT; while :; do sleep 0.01; done")

    outcome = await shell(
        "trap 'exit 3' INT; sh ./cli; true", seconds=0.2, grace=GRACE | {"timeout": Grace(20, 20)}
    )

    assert outcome.exit_code == 3
    assert printed(outcome) == "inner\n"


@pytest.mark.parametrize("reason", ["cancelled", "terminated"])
async def test_setting_stop_ends_it_early_and_the_reason_is_kept(
    shell: Shell, tmp_path: Path, reason: str
) -> None:
    stop = StopTurn()
    async with running(shell("echo > started; sleep 60", stop=stop)) as task:
        await until((tmp_path / "started").exists)
        stop.set(reason)  # type: ignore[arg-type]
        outcome = await asyncio.wait_for(task, 10)

    assert outcome.interrupted == reason
    assert not outcome.timed_out


async def test_the_first_reason_to_stop_is_the_one_that_counts() -> None:
    stop = StopTurn()
    stop.set("cancelled")
    stop.set("terminated")

    assert await stop.wait() == "cancelled"


async def test_a_stop_set_beforehand_ends_it_at_once(shell: Shell) -> None:
    stop = StopTurn()
    stop.set("cancelled")

    outcome = await asyncio.wait_for(shell("sleep 60", stop=stop), 10)

    assert outcome.interrupted == "cancelled"


async def test_a_daemon_that_holds_stdout_does_not_delay_the_answer(
    shell: Shell, tmp_path: Path
) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 60' & while [ ! -s pid ]; do :; done; echo ok"

    began = time.monotonic()
    outcome = await shell(script)

    assert time.monotonic() - began < 5
    assert printed(outcome) == "ok\n"
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


async def test_a_process_forked_twice_into_its_own_session_is_gone_afterwards(
    shell: Shell, tmp_path: Path
) -> None:
    script = """
    (setsid sh -c 'trap "" INT TERM HUP; echo $$ > pid; while :; do sleep 0.01; done' \
        </dev/null >/dev/null 2>&1 &)
    while [ ! -s pid ]; do :; done"""

    await shell(script)

    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


async def test_a_process_that_runs_away_from_pid_to_pid_is_caught(
    shell: Shell, tmp_path: Path, anyone_left: Callable[[], bool]
) -> None:
    (tmp_path / "run.sh").write_text("[ -e run.sh ] || exit\necho > ran\nsh ./run.sh &\n")

    await shell("exec 9>lifeline; setsid sh ./run.sh & while [ ! -s ran ]; do :; done")

    left = anyone_left()
    (tmp_path / "run.sh").unlink()
    assert not left


async def test_zombies_of_orphans_are_reaped_while_the_command_runs(
    shell: Shell, tmp_path: Path
) -> None:
    script = "(sleep 0.05 & echo $! > orphan); while [ ! -e stop ]; do sleep 0.01; done"
    async with running(shell(script)) as task:
        await until(lambda: (tmp_path / "orphan").exists() and bool(_text(tmp_path / "orphan")))
        pid = _text(tmp_path / "orphan")
        await until(lambda: not Path("/proc", pid).exists())
        still_running = not task.done()
        (tmp_path / "stop").touch()
        outcome = await asyncio.wait_for(task, 10)

    assert still_running
    assert outcome.exit_code == 0


async def test_processes_that_were_there_before_are_left_alone(shell: Shell) -> None:
    with subprocess.Popen(["sleep", "60"]) as mine:
        try:
            await shell("true")
            assert mine.poll() is None
        finally:
            mine.kill()


async def test_cancelling_the_run_leaves_nothing_behind(
    shell: Shell, tmp_path: Path, anyone_left: Callable[[], bool]
) -> None:
    async with running(shell("exec 9>lifeline; trap '' INT; sleep 60 & echo > started; wait")):
        await until((tmp_path / "started").exists)

    assert not anyone_left()


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotStartError, match="no-such-agent: not found in PATH"):
        await run(
            Command(("no-such-agent",)),
            env=ENV,
            workdir=tmp_path,
            timeout_seconds=1,
            stop=StopTurn(),
            spill_dir=tmp_path,
        )


async def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotStartError, match=r"gone does not exist"):
        await run(
            Command(("true",)),
            env=ENV,
            workdir=tmp_path / "gone",
            timeout_seconds=1,
            stop=StopTurn(),
            spill_dir=tmp_path,
        )


async def test_arguments_the_kernel_refuses_are_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(CannotStartError, match="cannot start true: Argument list too long"):
        await run(
            Command(("true", "x" * 200_000)),
            env=ENV,
            workdir=tmp_path,
            timeout_seconds=1,
            stop=StopTurn(),
            spill_dir=tmp_path,
        )


@pytest.mark.parametrize("word", ["nul\0", "half a character \ud800"])
async def test_arguments_that_are_no_text_are_an_error_in_words(tmp_path: Path, word: str) -> None:
    with pytest.raises(CannotStartError, match=r"cannot start true: .*(null byte|surrogates)"):
        await run(
            Command(("true", word)),
            env=ENV,
            workdir=tmp_path,
            timeout_seconds=1,
            stop=StopTurn(),
            spill_dir=tmp_path,
        )


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EMFILE])
async def test_a_kernel_without_pidfds_is_no_hindrance(
    shell: Shell,
    anyone_left: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    """Kernels before 5.3 have none, sandboxes and seccomp profiles forbid them."""

    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    outcome = await shell("cat; (sleep 60 > lifeline) & exit 3")
    assert (outcome.exit_code, printed(outcome), outcome.survivors) == (3, "the prompt", ())
    ended = await shell("exec sleep 60 > lifeline", seconds=0.2)
    assert (ended.timed_out, ended.signal) == (True, signal.SIGINT)
    assert not anyone_left()
