"""The store of docs/artifacts.md, as it is typed: it runs, and takes what a worker puts there.

Where it listens and who reaches it there is the end-to-end test's (test_e2e_artifacts.py).
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from support.eventually import eventually
from support.ports import free_port
from support.s3_server import s3_program

from orbiter_contracts.object_store import StoreAddress
from worker_wrapper.artifacts.store import ObjectStore, StoreError

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "artifacts.md").read_text()
[TYPED] = re.findall(r"^```sh\n(make s3-server\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "make": "",
    "pgrep": "echo 1",
    # What comes behind the `--`, in the network that there is here.
    "nsenter": 'shift 2; exec "$@"',
    "kubectl": 'echo "$*" >> calls; case "$*" in "get node local "*) echo 127.0.0.1 ;; esac',
    "helm": 'echo "$*" > upgrade',
}


def typed(home: Path, port: int) -> subprocess.Popen[bytes]:
    """Type the block in a directory that is like a checkout; its shell stays with the store."""
    (home / ".orbiter" / "bin").mkdir(parents=True)
    (home / ".orbiter" / "bin" / "versitygw").symlink_to(s3_program())
    for name, does in PROGRAMS.items():
        program = home / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    script = f"trap 'kill $!; wait' TERM\n{TYPED.replace('7070', str(port))}touch typed\nwait\n"
    given = os.environ | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    return subprocess.Popen(["sh", "-euc", script], cwd=home, env=given)


async def test_the_store_of_the_page_takes_what_a_worker_keeps(tmp_path: Path) -> None:
    port = free_port()
    with typed(tmp_path, port) as shell:
        try:
            address = StoreAddress(endpoint=f"http://127.0.0.1:{port}", bucket="agents")
            s3 = tmp_path / ".orbiter" / "s3"

            async def stored() -> bool:
                assert shell.poll() is None, (s3 / "log").read_text()
                try:
                    keys = (s3 / "id").read_text(), (s3 / "key").read_text()
                    store = ObjectStore(address, *keys)
                    await store.put("default/tasks/uid/1/0000-report.md", b"hello")
                except (OSError, StoreError):
                    return False
                return True

            await eventually(stored)
            identity, key = (s3 / "id").read_text(), (s3 / "key").read_text()
            kept = s3 / "buckets" / "agents" / "default" / "tasks"
            assert (kept / "uid" / "1" / "0000-report.md").read_bytes() == b"hello"
            with pytest.raises(StoreError, match="look at the keys of the Secret"):
                await ObjectStore(address, identity, "another").put("a", b"")
        finally:
            shell.terminate()
    assert (s3 / "key").stat().st_mode & 0o077 == 0
    assert (tmp_path / "typed").exists()
    assert key not in (tmp_path / "calls").read_text()


def test_what_the_page_sets_are_values_of_the_chart() -> None:
    words = shlex.split(TYPED.replace("\\\n", " "))
    given = [word.partition("=")[0] for word in words if word.startswith("artifacts.")]
    known = yaml.safe_load((ROOT / "helm" / "orbiter" / "values.yaml").read_text())["artifacts"]
    names = {re.split(r"[.\[]", name.removeprefix("artifacts."))[0] for name in given}
    assert names <= set(known)
    # Without these two no worker comes to a store that is on no public address.
    assert {"port", "peers", "insecure"} <= names
