"""For the tests of all packages: no test ever calls a real model."""

import pytest


@pytest.fixture(autouse=True)
def _no_real_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBITER_FORBID_MODEL_CALLS", "1")
