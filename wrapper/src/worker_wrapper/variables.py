"""Environment variables, read one by one and checked; settings.py asks for them.

Whatever is wrong is said in one sentence that names the variable. No error repeats a secret.
"""

import re
from collections.abc import Mapping
from pathlib import Path


class SettingsError(ValueError):
    """The environment is not usable; the text names the variable and what it should be."""


class Variables:
    """The variables, read one by one; an empty one counts as absent."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def optional(self, name: str) -> str | None:
        """The value, if it has one."""
        return self._environ.get(name, "").strip() or None

    def required(self, name: str) -> str:
        """The value, which has to be there."""
        value = self.optional(name)
        if value is None:
            raise SettingsError(f"{name} is missing")
        return value

    def choice(self, name: str, choices: tuple[str, ...], *, default: str | None = None) -> str:
        """One of several words."""
        value = (self.optional(name) or default) if default else self.required(name)
        if value not in choices:
            raise SettingsError(f"{name} is {value!r}: it must be one of {', '.join(choices)}")
        return value

    def matching(self, name: str, pattern: re.Pattern[str], what: str) -> str:
        """A text of a certain form, which `what` describes."""
        value = self.required(name)
        if not pattern.fullmatch(value):
            raise SettingsError(f"{name} is {value!r}: it must be {what}")
        return value

    def integer(self, name: str, *, least: int | None = None) -> int | None:
        """A whole number, if there is one."""
        value = self.optional(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise SettingsError(f"{name} is {value!r}: it must be a whole number") from None
        if least is not None and number < least:
            raise SettingsError(f"{name} is {value!r}: it must be at least {least}")
        return number

    def number(self, name: str) -> float | None:
        """A number above 0, if there is one."""
        value = self.optional(name)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            raise SettingsError(f"{name} is {value!r}: it must be a number") from None
        if not 0 < number < float("inf"):
            raise SettingsError(f"{name} is {value!r}: it must be above 0")
        return number

    def words(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Words with commas or spaces between; a comma alone says that there are none."""
        value = self.optional(name)
        return default if value is None else tuple(value.replace(",", " ").split())

    def path(self, name: str) -> Path | None:
        """A path, if there is one."""
        value = self.optional(name)
        return Path(value) if value else None
