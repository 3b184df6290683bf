"""Orbiter beside a real Kueue, on a cluster that has nothing else on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import kueue
from support.cluster import Cluster
from support.go_programs import BUILD_SECONDS
from support.installation import OURS, clear, installed
from support.world import World

HIGH, LOW = "tests-high", "tests-low"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here: it has a verb and a cluster of its own, and takes long."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.apart)
            item.add_marker(pytest.mark.timeout(BUILD_SECONDS + 900))


@pytest.fixture(scope="session")
def world(cluster: Cluster) -> Iterator[World]:
    """Orbiter with the tests' settings, Kueue with its own, and two classes of priority."""
    classes = f"workers.queuePriorityClassNames={{{HIGH},{LOW}}}"
    with installed(cluster, classes) as world:
        kueue.install(world)
        for name, value in ((HIGH, 1000), (LOW, 10)):
            cluster.apply(kueue.priority_class(name, value), namespace=None)
        yield world


@pytest.fixture(autouse=True)
def nothing_left_over(world: World) -> Iterator[None]:
    """Each test ends with no task and no queue left, so that the next one has Kueue to itself."""
    yield
    for namespace in OURS:
        clear(world, namespace)
        world.kubectl("-n", namespace, "delete", "localqueues", "--all", "--wait=true")
    world.kubectl("delete", "clusterqueues,cohorts", "--all", "--wait=true")
