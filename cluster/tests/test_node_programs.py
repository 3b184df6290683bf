"""The parts of the node that are ours and written in Go have tests of their own, beside them."""

import os
import subprocess

import pytest
from localcluster.toolchain import NODE_SOURCES

pytestmark = pytest.mark.cluster

PARTS = ("./announce", "./pod-address", "./policies")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("verb", ["vet", "test"])
def test_the_go_parts_hold_what_their_own_tests_say(verb: str) -> None:
    # With the flag of the real build, so that what that has compiled serves here, too. In a network
    # of its own, where no cluster of this machine listens.
    done = subprocess.run(
        ["unshare", "--net", "go", verb, "-trimpath", *PARTS],
        cwd=NODE_SOURCES,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
