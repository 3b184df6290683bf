import os
from pathlib import Path

import pytest

from orbiter.sandbox import LocalSandbox


@pytest.fixture
async def sandbox():
    async with LocalSandbox() as sandbox:
        yield sandbox


@pytest.fixture
def secret(monkeypatch):
    """A secret of the host, in a file everybody may read and in the environment."""
    path = Path(f"/tmp/orbiter-test-secret-{os.getpid()}")
    path.write_text("s3cret")
    path.chmod(0o644)
    monkeypatch.setenv("ORBITER_TEST_SECRET", "s3cret")
    yield str(path)
    path.unlink()
