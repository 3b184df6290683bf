"""The examples are what the API server takes, to the letter."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster

pytestmark = pytest.mark.e2e

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("chart-examples") as name:
        yield name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_accepted(cluster: Cluster, namespace: str, example: Path) -> None:
    said = cluster.apply(example, "--dry-run=server", "--validate=strict", namespace=namespace)
    assert "created (server dry run)" in said
