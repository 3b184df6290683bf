"""What an agent can do with a sandbox, and what is decided without one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orbiter import Agent, run
from orbiter.models import ScriptedModel, call
from orbiter.sandbox import Limits, LocalSandbox, SandboxError, sandbox_tools
from orbiter.sandbox._internal.bwrap import command
from orbiter.sandbox._internal.guard import _listed, _scanned, disk_of, memory_of
from orbiter.sandbox._internal.output import Kept
from orbiter.sandbox._internal.seccomp import program
from orbiter.types import OrbiterError

MIB = 1024 * 1024


@pytest.mark.integration
async def test_an_agent_works_in_a_sandbox(sandbox):
    model = ScriptedModel(
        call("write_file", path="primes.py", content="print([2, 3, 5])"),
        call("run_command", command="python3 primes.py"),
        call("run_python", code="1 / 0"),
        call("run_command", command="sleep 60", timeout=0.1),
        call("read_file", path="/etc/shadow"),
        call("list_files"),
        "Done.",
    )
    agent = Agent(name="coder", tools=sandbox_tools(sandbox))
    result = await run(agent, "Find primes", provider=model)
    answers = [message for message in result.messages if message.role == "tool"]
    assert [answer.content for answer in answers[:2]] == [
        "wrote primes.py",
        '{"exit_code":0,"stdout":"[2, 3, 5]\\n"}',
    ]
    assert "ZeroDivisionError" in answers[2].content
    assert answers[3].content == '{"exit_code":124,"stopped":"timeout"}'
    assert answers[4].error.startswith("Tool 'read_file' failed: /etc/shadow: ")
    assert answers[5].content == '["primes.py"]'


def test_the_tools_tell_the_model_what_they_are_for():
    tools = {tool.name: tool for tool in sandbox_tools(LocalSandbox())}
    assert set(tools) == {"run_command", "run_python", "write_file", "read_file", "list_files"}
    assert tools["run_command"].parameters["required"] == ["command"]
    assert "/workspace" in tools["read_file"].parameters["properties"]["path"]["description"]


async def test_a_sandbox_that_is_not_open_says_so():
    with pytest.raises(SandboxError, match="not open; use `async with`"):
        await LocalSandbox().run("true")


def words(**changes):
    settings = {
        "read_only": [],
        "limits": Limits(),
        "info": 7,
        "seccomp": 8,
        "argv": ["true"],
        **changes,
    }
    return command("bwrap", root=Path("/r"), **settings)


def test_limits_are_set_inside_and_namespaces_are_all_its_own():
    line = words(limits=Limits(processes=5, tmp_bytes=100))
    inside = line[line.index("--") + 1 :]
    assert inside[0] == "prlimit"
    assert "--nproc=5" in inside
    assert inside[-2:] == ["--", "true"]
    for word in ("--unshare-all", "--disable-userns", "--die-with-parent", "--new-session"):
        assert word in line
    assert line[line.index("/dev/shm") - 3 : line.index("/dev/shm")][:2] == ["--size", "100"]


def test_a_machine_whose_calls_are_not_known_has_no_filter():
    assert program("riscv64") is None
    for machine in ("x86_64", "aarch64"):
        assert len(program(machine)) % 8 == 0


def test_no_value_of_the_environment_is_on_the_command_line():
    assert "--setenv" not in words()


def test_of_long_output_the_ends_are_kept():
    kept = Kept(10)
    for piece in (b"abc", b"defgh", b"ijk", b"l" * 5, b"xyz"):
        kept.add(piece)
    assert kept.truncated
    assert kept.content() == b"abcde\n[... 9 bytes left out ...]\nllxyz"
    whole = Kept(10)
    whole.add(b"0123456789")
    assert (whole.truncated, whole.content()) == (False, b"0123456789")


def test_sizes_are_summed_without_following_links(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(100_000))
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "self").symlink_to("self")
    assert 100_000 <= disk_of(tmp_path) < 200_000


def test_memory_is_summed_over_all_descendants():
    take = "import os, time; x = bytearray(30 << 20); os.write(1, b'.'); time.sleep(60)"
    line = f'{sys.executable} -c "{take}" & exec {sys.executable} -c "{take}"'
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout.read(2) == b".."  # both have taken it
        both = memory_of(process.pid)
        assert _scanned()(process.pid) == _listed(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert 60 * MIB < both < 120 * MIB
    assert memory_of(1 << 30) == 0


def test_tools_of_a_sandbox_wait_for_a_person():
    sandbox = LocalSandbox()
    waiting = {t.name: t.approval for t in sandbox_tools(sandbox, approval=["run_*"])}
    assert waiting == {
        "run_command": True,
        "run_python": True,
        "write_file": False,
        "read_file": False,
        "list_files": False,
    }
    assert all(t.approval is True for t in sandbox_tools(sandbox, approval=True))
    with pytest.raises(OrbiterError, match="there is no tool 'rm'; the tools are: run_command"):
        sandbox_tools(sandbox, approval=["rm"])


async def test_a_command_waits_and_is_not_run():
    model = ScriptedModel(call("run_command", command="rm -r ."))
    agent = Agent(name="coder", tools=sandbox_tools(LocalSandbox(), approval=True))
    result = await run(agent, "Tidy up", provider=model)
    assert result.requests[0].calls[0].arguments == {"command": "rm -r ."}
