"""What a sandbox is for: running commands and keeping files. The isolated kind, for real."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from support.eventually import eventually

from orbiter.sandbox import Limits, LocalSandbox, SandboxError, SandboxUnavailableError

pytestmark = pytest.mark.integration


def places():
    return Path(tempfile.gettempdir()).glob("orbiter-sandbox-*")


async def test_a_command_tells_its_exit_code_and_what_it_printed(sandbox):
    result = await sandbox.run("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.ok
    assert (await sandbox.run(["printf", "%s|", "a b", "$HOME"])).stdout == "a b|$HOME|"
    assert (await sandbox.run("kill -9 $$")).exit_code == 137
    assert (await sandbox.run("no-such-program")).exit_code == 127
    assert (await sandbox.run("cat", stdin="to me")).stdout == "to me"


async def test_files_stay_and_processes_do_not(sandbox):
    await sandbox.run("mkdir -p a/b && echo 1 > a/b/one; (sleep 60; echo late > late) &")
    assert await sandbox.list() == ["a/"]
    assert await sandbox.list("a/b") == ["one"]
    assert (await sandbox.run("ps -e -o comm= | grep -c sleep")).stdout == "0\n"


async def test_python_runs_and_its_tracebacks_show_the_code(sandbox):
    result = await sandbox.run_python("import os\nprint(os.getcwd(), __name__)")
    assert (result.stdout, result.stderr) == ("/workspace __main__\n", "")
    failed = await sandbox.run_python("def half(x):\n    return x / 0\n\nhalf(1)")
    assert failed.exit_code == 1
    assert "return x / 0" in failed.stderr
    assert "linecache" not in failed.stderr
    assert (await sandbox.run_python("raise SystemExit(5)")).exit_code == 5


async def test_files_are_written_and_read(sandbox):
    await sandbox.write("notes/été.txt", "grüße\n")
    await sandbox.write("/workspace/-n", b"\x00\xff")
    assert await sandbox.read("notes/été.txt") == "grüße\n"
    assert await sandbox.read_bytes("-n") == b"\x00\xff"
    assert (await sandbox.run("cat notes/*")).stdout == "grüße\n"
    await sandbox.run("touch .hidden 'with space' \"$(printf 'line\\nbreak')\"; ln -s / slash")
    names = ["-n", ".hidden", "line\nbreak", "notes/", "slash", "with space"]
    assert await sandbox.list() == names


async def test_what_cannot_be_read_or_written_is_named(sandbox):
    with pytest.raises(SandboxError, match=r"missing: .*No such file"):
        await sandbox.read("missing")
    with pytest.raises(SandboxError, match=r"/usr/x: .*Read-only file system"):
        await sandbox.write("/usr/x", "")
    with pytest.raises(SandboxError, match=r"missing: .*can't cd"):
        await sandbox.list("missing")
    await sandbox.write("blob", b"\xff")
    with pytest.raises(SandboxError, match="blob: is no text; use read_bytes"):
        await sandbox.read("blob")
    with pytest.raises(SandboxError, match="is no path"):
        await sandbox.read("a\0b")
    with pytest.raises(SandboxError, match="is no command"):
        await sandbox.run([])


async def test_commands_run_beside_each_other(sandbox):
    await sandbox.run("mkfifo pipe")
    told, heard = await asyncio.gather(sandbox.run("echo hello > pipe"), sandbox.run("cat pipe"))
    assert (told.ok, heard.stdout) == (True, "hello\n")


async def test_it_has_the_environment_it_is_given_and_no_other(secret):
    async with LocalSandbox(env={"COLOR": "red"}) as sandbox:
        result = await sandbox.run("env | sort | cut -d= -f1")
    assert result.stdout.split() == ["COLOR", "HOME", "LANG", "PATH", "PWD"]


async def test_more_of_the_machine_is_shown_on_request(secret):
    async with LocalSandbox(read_only=[secret]) as sandbox:
        assert await sandbox.read(secret) == "s3cret"
        with pytest.raises(SandboxError, match="Read-only"):
            await sandbox.write(secret, "changed")


async def test_nothing_is_left_of_a_closed_sandbox():
    before = set(places())
    async with LocalSandbox() as sandbox:
        # neither a very deep tree nor one without permissions stays behind
        await sandbox.run_python(
            "import os\nfor i in range(3000):\n    os.mkdir('d' * 9); os.chdir('d' * 9)\n"
        )
        await sandbox.run("mkdir -p locked/in && touch locked/in/file && chmod 000 locked")
        assert "locked/" in await sandbox.list()
    assert set(places()) == before
    with pytest.raises(SandboxError, match="not open; use `async with`"):
        await sandbox.run("true")


async def test_a_cancelled_run_leaves_nothing_running(sandbox):
    await sandbox.run("mkfifo pipe")
    running = asyncio.create_task(sandbox.run("setsid sleep 3456 & echo > pipe; sleep 3456"))
    await sandbox.run("cat pipe")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "sleep\x003456" not in _command_lines()


@pytest.mark.parametrize("times", [2, 5])
async def test_whoever_cancels_again_while_it_ends_leaves_nothing_either(
    sandbox, times, monkeypatch
):
    begun, begin = [], asyncio.create_subprocess_exec

    async def noted(*words, **options):
        begun.append(await begin(*words, **options))
        return begun[-1]

    await sandbox.run("mkfifo pipe")
    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    running = asyncio.create_task(sandbox.run("setsid sleep 3457 & echo > pipe; sleep 3457"))
    await sandbox.run("cat pipe")
    for _ in range(times):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [process._transport.is_closing() for process in begun] == [True, True]
    await eventually(lambda: "sleep\x003457" not in _command_lines())


def _command_lines():
    lines = ""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines += path.read_text()
        except OSError:
            continue
    return lines


async def test_nothing_runs_on_when_this_process_is_killed(tmp_path):
    before = set(places())
    program = tmp_path / "user.py"
    program.write_text(
        "import asyncio\n"
        "from orbiter.sandbox import LocalSandbox\n"
        "async def main():\n"
        "    async with LocalSandbox() as sandbox:\n"
        "        await sandbox.run('setsid sleep 3458 & sleep 3458')\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, program),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    await eventually(lambda: "sleep\x003458" in _command_lines())
    process.kill()
    await process.wait()
    await eventually(lambda: "sleep\x003458" not in _command_lines())
    for left in set(places()) - before:  # whoever is killed cannot remove its files
        shutil.rmtree(left)


async def test_a_strict_umask_does_not_matter():
    before = os.umask(0o077)
    try:
        async with LocalSandbox() as sandbox:
            assert (await sandbox.run("id -un; cat /etc/hosts")).stdout.startswith("sandbox\n127")
    finally:
        os.umask(before)


async def test_sandboxes_do_not_see_each_other(sandbox):
    await sandbox.write("mine", "text")
    async with LocalSandbox() as other:
        assert await other.list() == []
        assert "sandbox-" not in (await other.run("cat /proc/mounts; ls -R /tmp")).stdout


async def test_a_command_that_is_too_long_is_refused(sandbox):
    with pytest.raises(SandboxError, match="cannot be started: Argument list too long"):
        await sandbox.run("true " + "x" * 200_000)


async def test_without_bubblewrap_it_refuses_and_says_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailableError) as caught:
        async with LocalSandbox():
            pass
    assert "there is no program 'bwrap' (package bubblewrap)" in str(caught.value)
    assert 'isolation="none"' in str(caught.value)


@pytest.fixture
def open_path():
    """A directory open to every user; pytest's own is closed whenever another pytest begins."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made)
        path.chmod(0o755)
        yield path


async def test_where_namespaces_are_forbidden_it_refuses_with_the_reason(monkeypatch, open_path):
    # as a kernel that forbids user namespaces lets bubblewrap end
    fake = open_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailableError, match="No permissions to create new namespace"):
        async with LocalSandbox():
            pass


async def test_without_isolation_commands_run_as_this_user():
    async with LocalSandbox(Limits(timeout=5), isolation="none", env={"A": "1"}) as sandbox:
        await sandbox.write("a/b", "text")
        assert await sandbox.read("a/b") == "text"
        assert (await sandbox.run("id -u; echo $A; sleep 3457 &")).stdout == f"{os.getuid()}\n1\n"
        assert "sleep\x003457" not in _command_lines()
        assert (await sandbox.run("sleep 3457", timeout=0.1)).timed_out
        assert (await sandbox.run_python("x = bytearray(4 << 30)")).exit_code == 1


def test_an_unknown_isolation_is_refused():
    with pytest.raises(SandboxError, match="isolation is 'docker'; it can be 'bubblewrap' or"):
        LocalSandbox(isolation="docker")


# forking beside threads is safe here: the child does nothing that another thread could hold
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_it_isolates_for_root_and_for_everybody_else():
    if os.geteuid() != 0:
        assert asyncio.run(_isolated_as()) == 0
        return
    asyncio.run(_isolated_as())  # imports what the other user may not be able to read
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            code = asyncio.run(_isolated_as())
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def _isolated_as():
    async with LocalSandbox(Limits(processes=20)) as sandbox:
        await sandbox.write("a", "text")
        checks = [
            await sandbox.read("a") == "text",
            (await sandbox.run("id -u; grep CapEff /proc/self/status")).stdout
            == "1000\nCapEff:\t0000000000000000\n",
            "fork" in (await sandbox.run("for i in $(seq 30); do sleep 60 & done")).stderr,
            (await sandbox.run("ls /root /home")).exit_code != 0,
            not (await sandbox.run("mkdir -p d/e; chmod 0 d; ls -d /proc/[0-9]*")).stderr,
        ]
    return 0 if all(checks) else 10 + checks.index(False)
