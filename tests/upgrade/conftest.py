"""The upgrade from the release before this one, on a cluster that has nothing else on it."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here: it needs a cluster of its own, and images of the release before."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.upgrade)
