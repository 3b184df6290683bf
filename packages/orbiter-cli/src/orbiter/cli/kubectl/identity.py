"""Who runs the command, as the API server knows them: what spec.input[].by and cancelledBy say."""

from typing import Final

from orbiter.cli.kubectl.client import Kubectl, decode
from orbiter.cli.ui.outcome import CommandError

_LONGEST: Final = 512
"""The resource definition takes no longer name."""


def username(kubectl: Kubectl) -> str | None:
    """The name under which the API server sees the user (a SelfSubjectReview).

    Returns:
        None where it does not tell: then nobody is named, and the command works all the same.
    """
    try:
        said = decode(kubectl.run("auth", "whoami", "-o", "json"))
    except (CommandError, ValueError):
        return None
    name = said.get("status", {}).get("userInfo", {}).get("username")
    return name if isinstance(name, str) and 0 < len(name) <= _LONGEST else None
