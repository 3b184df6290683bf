"""What every package's tests may use: a real Redis, real agent CLIs, waiting for a condition."""

import gc
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parent
for directory in ("tests", "images", "release"):
    sys.path.insert(0, str(ROOT / directory))

# A script that runs the tests in the background has them ignore SIGINT, and the programs they start
# inherit that; what those do at Ctrl-C is tested too.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "support.agent_clis",
    "support.cluster",
    "support.redis_server",
    "support.s3_server",
    "support.namespaced",
    "support.replicated",
    "support.wrapper",
    "support.real_agents",
]

# A shared machine is slow now and then; how long one example takes is no property of the code.
hypothesis.settings.register_profile(
    "shared-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shared-machine")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Refuse a test that leaves something to others: it would fail a later one, in its stead.

    Such as Ctrl-C: a server that is begun in a running loop takes the loop's own handler for the
    usual one, and puts it back when that loop has ended. Or a program whose outputs nobody has
    closed: that is told when it is collected, which takes 0.2 s, so behind each file of those that
    start programs.
    """
    yield
    ends_file = nextitem is None or nextitem.path != item.path
    if ends_file and item.get_closest_marker("integration"):
        gc.collect()
    left = signal.getsignal(signal.SIGINT)
    if left is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise AssertionError(f"this test has left Ctrl-C to {left!r}")
