"""What we ask of the kernel: who was killed for memory, whose orphans are ours, who may look."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker_wrapper.process.kernel import oom_kills

V1_OWN = "9:name=systemd:/\n4:memory:/pods/one\n0::/\n"


@pytest.mark.parametrize(
    ("own", "file", "text"),
    [
        ("0::/\n", "memory.events", "low 0\nhigh 0\noom 4\noom_kill 3\noom_group_kill 0\n"),
        ("0::/pods/one\n", "pods/one/memory.events", "oom 4\noom_kill 3\n"),
        ("0::/not/mounted/here\n", "memory.events", "oom_kill 3\n"),
        (V1_OWN, "memory/pods/one/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        (V1_OWN, "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ],
    ids=["v2", "v2-host-namespace", "v2-own-mount", "v1-host-namespace", "v1"],
)
def test_the_counter_of_our_own_cgroup_is_read(
    tmp_path: Path, own: str, file: str, text: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    (tmp_path / "own").write_text(own)

    assert oom_kills(tmp_path, tmp_path / "own") == 3


def test_without_a_memory_cgroup_nothing_was_killed(tmp_path: Path) -> None:
    assert oom_kills(tmp_path, tmp_path / "own") == 0


def test_an_orphan_becomes_our_child() -> None:
    script = """
import os, pathlib, subprocess, worker_wrapper.process.kernel
worker_wrapper.process.kernel.become_subreaper()
said = subprocess.run(["sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!"], capture_output=True)
pid = int(said.stdout)
parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
os.kill(pid, 9)
os.waitpid(pid, 0)
print(int(parent) == os.getpid())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.strip() == b"True"


def test_a_process_of_the_same_user_cannot_read_our_environment() -> None:
    script = """
import os, subprocess
from worker_wrapper.process import kernel
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    kernel._prctl(kernel._PR_SET_DUMPABLE, 1)  # the change of user has cleared it
def readable():
    return b"password" in subprocess.run(["cat", f"/proc/{os.getpid()}/environ"],
                                         capture_output=True).stdout
before = readable()
kernel.hide_environment()
print(before, readable())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "REDIS_URL": "redis://:password@host"},
        capture_output=True,
        check=True,
    )

    assert done.stdout.split() == [b"True", b"False"]
