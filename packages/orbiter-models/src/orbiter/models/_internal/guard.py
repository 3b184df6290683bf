"""The switch that keeps tests from calling real models.

Its state is an environment variable, so that programs a test starts obey it as well.
"""

import os

from orbiter.models.types import ModelError

VARIABLE = "ORBITER_FORBID_MODEL_CALLS"


class ModelCallForbiddenError(ModelError):
    """A real model was about to be called although that is forbidden."""


def forbid_real_calls(forbidden: bool = True) -> None:
    """Make every call of a real model raise ModelCallForbiddenError, or allow them again."""
    os.environ[VARIABLE] = "1" if forbidden else ""


def check_allowed(model: str, provider: str) -> None:
    """Raise when real calls are forbidden.

    Raises:
        ModelCallForbiddenError: They are.
    """
    if os.environ.get(VARIABLE, "") not in ("", "0"):
        raise ModelCallForbiddenError(
            f"calls of real models are forbidden ({VARIABLE} is set): give the run "
            "provider=ScriptedModel(...), a memory embedder='hash', or allow them with "
            "forbid_real_calls(False)",
            model=model,
            provider=provider,
        )
