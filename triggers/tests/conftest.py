"""Fixtures of the triggers' tests."""

from collections.abc import AsyncIterator

import pytest
from support.fake_api import FakeApi
from support.fake_api import api as api
from support.trigger_world import TriggerWorld


@pytest.fixture
async def world(api: FakeApi) -> AsyncIterator[TriggerWorld]:
    """A fake cluster whose controller runs."""
    made = TriggerWorld(api)
    await made.start()
    yield made
    await made.stop()
