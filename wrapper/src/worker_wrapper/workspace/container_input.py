"""What a container of a worker's pod that works with git is told in its environment."""

import sys
from collections.abc import Mapping
from typing import Self

from pydantic import AliasGenerator, BaseModel, ConfigDict, ValidationError


class ContainerInput(BaseModel):
    """Fields that are variables, in capitals; the operator has written them."""

    model_config = ConfigDict(
        frozen=True, alias_generator=AliasGenerator(validation_alias=str.upper)
    )

    @classmethod
    def of(cls, environ: Mapping[str, str], which: str) -> Self | None:
        """Read them; None, and a sentence on stderr, when they cannot be used.

        Args:
            environ: The container's environment.
            which: The image's argument, for the sentence.
        """
        try:
            return cls.model_validate(dict(environ))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            print(f"worker-wrapper {which}: {where}: {first['msg']}", file=sys.stderr)  # noqa: T201
            return None
