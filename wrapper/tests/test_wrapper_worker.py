"""How a worker ends that has a mistake in it."""

import json
import subprocess
import sys

PROGRAM = """
import asyncio, os
from worker_wrapper import worker
from worker_wrapper.settings import load

async def broken(_):
    raise ValueError("cannot use " + os.environ["ANTHROPIC_API_KEY"])

worker._work = broken
raise SystemExit(asyncio.run(worker.run(load(os.environ), os.environ)))
"""


def test_a_mistake_of_ours_is_logged_without_secrets_and_ends_with_1() -> None:
    environ = {
        "WORKER_ID": "w-1",
        "WORKER_TYPE": "developer",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "ANTHROPIC_API_KEY": "sk-ant-hidden",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    line = json.loads(done.stderr)
    assert (line["event"], line["worker_id"]) == ("crashed", "w-1")
    assert "ValueError: cannot use [redacted]" in line["exception"]
    assert "sk-ant-hidden" not in done.stdout + done.stderr
