"""What hostile code tries, and how far it gets. Everything here runs for real."""

import asyncio
import os
import socket
from errno import EPERM
from pathlib import Path

import pytest

from orbiter.sandbox import Limits, LocalSandbox, SandboxError

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


async def failed(sandbox, command):
    result = await sandbox.run(command)
    assert not result.ok, f"{command} succeeded: {result.stdout}"
    return result


async def test_files_of_the_host_cannot_be_read(sandbox, secret):
    for path in (secret, str(Path(__file__)), "/etc/shadow", "/root", "/home", "/var", "/sys"):
        await failed(sandbox, f"cat {path} || ls -A {path}/")
    await failed(sandbox, f"cat /proc/1/root{secret}")
    await failed(sandbox, "ls /proc/1/root/root")
    everything = await sandbox.run("grep -rl s3cret / --exclude-dir=proc --exclude-dir=usr")
    assert everything.stdout == ""


async def test_the_environment_of_the_host_cannot_be_read(sandbox, secret):
    result = await sandbox.run("env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert "HOME=/workspace" in result.stdout
    assert "s3cret" not in result.stdout


async def test_the_system_cannot_be_changed(sandbox):
    for path in (
        "/usr/bin/x",
        "/etc/x",
        "/etc/passwd",
        "/x",
        "/dev/x",
        "/proc/sys/kernel/hostname",
    ):
        await failed(sandbox, f"echo x > {path}")


async def test_there_is_no_network(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        refused = await sandbox.run_python(connect)
    assert "Connection refused" in refused.stderr
    outside = await sandbox.run_python(
        "import socket; socket.create_connection(('1.1.1.1', 53), 2)"
    )
    assert "Network is unreachable" in outside.stderr
    assert (await sandbox.run("cut -d: -f1 /proc/net/dev | tail -n +3")).stdout.split() == ["lo"]


async def test_abstract_sockets_of_the_host_cannot_be_reached(sandbox):
    name = f"\0orbiter-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert "Connection refused" in (await sandbox.run_python(code)).stderr


async def test_there_are_no_privileges_and_none_to_get(sandbox):
    status = (await sandbox.run("cat /proc/self/status")).stdout
    for line in ("Uid:\t1000\t1000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"):
        assert line in status
    assert "NoNewPrivs:\t1" in status
    for command in ("unshare -Ur true", "unshare -m true", "mount -t tmpfs none /tmp", "chroot /"):
        await failed(sandbox, command)
    await failed(sandbox, "su -c id; sudo -n id")
    await failed(sandbox, "mknod disk b 254 0")


KEYS = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
SEARCH, READ, SESSION = 10, 11, -3
CALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    found = libc.syscall(*map(lambda a: ctypes.c_long(a) if isinstance(a, int) else a, arguments))
    return found, ctypes.get_errno()
"""


async def test_keys_that_the_kernel_keeps_for_the_host_cannot_be_read(sandbox):
    add_key, keyctl = KEYS
    here: dict = {}
    exec(CALLS, here)
    call = here["call"]
    kept, _ = call(add_key, b"user", b"orbiter-test", b"s3cret", 6, SESSION)
    assert call(keyctl, SEARCH, SESSION, b"user", b"orbiter-test", 0)[0] == kept
    tries = CALLS + f"print(call({keyctl}, {SEARCH}, {SESSION}, b'user', b'orbiter-test', 0))\n"
    tries += f"print(call({keyctl}, {READ}, {kept}, ctypes.create_string_buffer(9), 9, 0))\n"
    assert (await sandbox.run_python(tries)).stdout == f"(-1, {EPERM})\n" * 2


@pytest.mark.parametrize("number", [425, 428, 442])
async def test_calls_for_administrators_are_refused(sandbox, number):
    result = await sandbox.run_python(CALLS + f"print(call({number}, 0, 0, 0))")
    assert result.stdout == f"(-1, {EPERM})\n"


async def test_no_open_file_of_the_host_is_handed_in(sandbox):
    with Path(__file__).open() as file:
        os.set_inheritable(file.fileno(), True)
        result = await sandbox.run_python("import os; print(sorted(os.listdir('/proc/self/fd')))")
    # the three streams, and the directory itself
    assert result.stdout == "['0', '1', '2', '3']\n"


async def test_processes_of_the_host_are_neither_seen_nor_reached(sandbox):
    result = await sandbox.run("ls -d /proc/[0-9]* | wc -l; kill -9 -1; kill -9 1; echo alive")
    seen = result.stdout.split()
    assert int(seen[0]) < 8
    assert seen[-1] == "alive"
    assert (await sandbox.run(f"kill -0 {os.getpid()}")).exit_code != 0


FORK_UNTIL_REFUSED = """
import os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        n += 1
except OSError:
    print(n)
"""


async def test_a_fork_bomb_meets_its_limit():
    async with LocalSandbox(Limits(processes=20)) as sandbox:
        await sandbox.run("f() { f | f & }; f; sleep 1", timeout=1)
        assert 0 < int((await sandbox.run_python(FORK_UNTIL_REFUSED)).stdout) < 20
        assert (await sandbox.run("echo fine")).stdout == "fine\n"


async def test_memory_of_one_process_is_limited():
    async with LocalSandbox(Limits(memory_bytes=256 * MIB)) as sandbox:
        assert "MemoryError" in (await sandbox.run_python("x = bytearray(300 << 20)")).stderr


async def test_memory_of_all_processes_is_limited_together():
    async with LocalSandbox(Limits(memory_bytes=128 * MIB)) as sandbox:
        take = "python3 -c 'import time; x = bytearray(60 << 20); time.sleep(60)' &\n"
        result = await sandbox.run(take * 4 + "wait")
        assert (result.stopped, result.exit_code) == ("memory", 124)


async def test_memory_behind_file_systems_is_limited():
    async with LocalSandbox(Limits(tmp_bytes=4 * MIB)) as sandbox:
        for path in ("/tmp/x", "/dev/shm/x"):
            full = await failed(sandbox, f"head -c 9000000 /dev/zero > {path}")
            assert "No space left" in full.stderr


async def test_a_flood_of_output_is_cut_and_costs_no_memory():
    async with LocalSandbox(Limits(output_bytes=1000)) as sandbox:
        result = await sandbox.run("echo begin; yes | head -c 20000000; echo end")
        assert result.ok
        assert result.truncated
        assert result.stdout.startswith("begin\n")
        assert result.stdout.endswith("end\n")
        assert "bytes left out" in result.stdout
        assert len(result.stdout) < 1100
        endless = await sandbox.run("yes >&2", timeout=0.3)
        assert endless.timed_out
        assert len(endless.stderr) < 1100


async def test_one_file_and_all_files_are_limited():
    limits = Limits(file_bytes=2 * MIB, disk_bytes=5 * MIB)
    async with LocalSandbox(limits) as sandbox:
        await failed(sandbox, "head -c 3000000 /dev/zero > big")
        with pytest.raises(SandboxError, match="more than 2097152"):
            await sandbox.write("big", bytes(3 * MIB))
        many = "for i in 1 2 3 4 5; do head -c 2000000 /dev/zero > f$i; done; sleep 60"
        assert (await sandbox.run(many)).stopped == "disk"
        assert (await sandbox.run("rm f*; sleep 0.2")).ok


async def test_what_times_out_ends_with_all_that_it_started(sandbox):
    command = "setsid sleep 4567 & (sleep 4567 &) ; trap '' TERM INT HUP; sleep 4567; sleep 4567"
    result = await sandbox.run(command, timeout=0.3)
    assert (result.timed_out, result.exit_code) == (True, 124)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"4567" not in path.read_bytes()
        except OSError:
            continue


async def test_links_lead_nowhere_out_of_the_sandbox(sandbox, secret):
    await sandbox.run(f"ln -s {secret} file; ln -s /tmp dir; ln -s ../../.. up; ln -s self self")
    for path in ("file", f"dir/{Path(secret).name}", f"up{secret}", f"../../..{secret}", "self"):
        with pytest.raises(SandboxError):
            await sandbox.read(path)
    for path in ("file", f"dir/{Path(secret).name}", f"up/{secret}"):
        try:
            await sandbox.write(path, "changed")
        except SandboxError:
            continue
    assert Path(secret).read_text() == "s3cret"
    assert Path(secret).name not in await sandbox.list("dir")


async def test_a_link_that_changes_while_it_is_used_leads_nowhere_either(sandbox, secret):
    await sandbox.run("echo mine > mine; mkfifo ready")
    swap = f"echo > ready; while :; do ln -sfn mine x; ln -sfn {secret} x; done"
    swapping = asyncio.create_task(sandbox.run(swap, timeout=1))
    await sandbox.run("cat ready")
    for _ in range(10):
        try:
            assert await sandbox.read("x") == "mine\n"
        except SandboxError:
            continue
    swapping.cancel()
    # not left to the end of the loop, which may be before that of the process
    await asyncio.wait([swapping])


async def test_files_that_never_end_or_never_answer_do_not_hold_the_reader():
    async with LocalSandbox(Limits(timeout=0.5, file_bytes=1 * MIB)) as sandbox:
        await sandbox.run("mkfifo pipe; ln -s /dev/zero endless")
        with pytest.raises(SandboxError, match="pipe: not done, the limit of timeout"):
            await sandbox.read("pipe")
        with pytest.raises(SandboxError, match="larger than 1048576 bytes"):
            await sandbox.read("endless")


async def test_the_terminal_of_the_host_is_out_of_reach(sandbox):
    assert (
        "no" in (await sandbox.run("(echo x > /dev/tty) 2>/dev/null && echo yes || echo no")).stdout
    )
