"""The cluster with Orbiter, the scripted model and a git server on it, for the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.installation import OURS, clear, installed
from support.world import ENDED, World


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here: it needs the cluster."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def world(cluster: Cluster) -> Iterator[World]:
    """Orbiter installed with the tests' settings, the servers it talks to, and empty namespaces."""
    with installed(cluster) as world:
        yield world


@pytest.fixture(autouse=True)
def nothing_left_over(world: World) -> Iterator[None]:
    """Each test ends with no task still at work, so that the next one has the machine to itself."""
    yield
    for namespace in OURS:
        if any(status.get("phase") not in ENDED for status in world.tasks(namespace).values()):
            clear(world, namespace)
