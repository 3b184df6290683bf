"""What the start must not import: every Job pays for it."""

import subprocess
import sys

import pytest

NEVER = ("redis.cluster", "redis.commands", "redis.asyncio.client", "worker_wrapper.agents.codex")


def imported(statement: str) -> set[str]:
    """The modules a fresh interpreter has after a statement."""
    program = f"{statement}\nimport sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("kind", ["developer", "po"])
def test_a_worker_imports_only_what_its_kind_needs(kind: str) -> None:
    modules = imported(
        "from worker_wrapper.settings import load\n"
        "load({'WORKER_ID': 'w', 'WORKER_TYPE': 'po', 'REDIS_URL': 'redis://r',"
        " 'ANTHROPIC_API_KEY': 'k'})\n"
        "from worker_wrapper.import_trimming import skip_package_code\n"
        "skip_package_code('redis', 'redis.asyncio')\n"
        "from worker_wrapper import worker\n"
        f"from worker_wrapper.handlers import {kind}"
    )
    assert "redis.asyncio.connection" in modules
    other = {"developer": "worker_wrapper.handlers.po", "po": "worker_wrapper.workspace"}[kind]
    assert not modules & {*NEVER, other}


def test_a_package_that_is_imported_already_is_left_alone() -> None:
    modules = imported(
        "import redis\n"
        "from worker_wrapper.import_trimming import skip_package_code\n"
        "skip_package_code('redis', 'redis.asyncio')\n"
        "assert redis.Redis"
    )
    assert "redis.client" in modules
