"""Variables by which the operator tells a worker what both have to call the same."""

from typing import Final

SECRET_ENV: Final = "SECRET_ENV"  # noqa: S105 - the name of a variable
"""Lists, with commas between, the variables that come from Secrets."""
