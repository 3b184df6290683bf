"""Vectors as vendors' answers hold them, read by one total function."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from orbiter.models.types import ModelError

MAX_DIMENSIONS = 16_384
"""Numbers of one vector; the longest that a vendor documents have 4,096."""

Vector = tuple[float, ...]
Refuse = Callable[[str], ModelError]


class _Item(BaseModel):
    model_config = {"from_attributes": True}

    vector: Annotated[tuple[FiniteFloat, ...], Field(min_length=1, max_length=MAX_DIMENSIONS)]
    index: int | None = None


_ITEMS = TypeAdapter(list[_Item])


def read(items: list[dict[str, Any]], expected: int, refuse: Refuse) -> list[Vector]:
    """Return the vectors of an answer in the order of the texts.

    Args:
        items: Of each the `vector` and perhaps the `index` of its text, as the vendor tells them.
        expected: How many texts there were.
        refuse: Builds the error that names the model.

    Raises:
        ModelError: They are no vectors, or not one for each text.
    """
    if len(items) != expected:
        raise refuse(f"the answer holds {len(items)} vectors for {expected} texts")
    try:
        found = _ITEMS.validate_python(items)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise refuse(
            f"the answer holds no usable vectors: {where}: {first['msg']}; "
            "is it an embedding model?"
        ) from error
    if any(item.index is not None for item in found):
        found.sort(key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in found] != list(range(expected)):
            raise refuse("the answer does not say which vector is of which text")
    return [item.vector for item in found]
