"""What users and tools give besides text, on its way to a message."""

from typing import Any

from orbiter._misuse import require_all
from orbiter.outputs import as_text
from orbiter.parts import DocumentPart, ImagePart, Part, ResultPart, TextPart, has_parts

_PARTS = (TextPart, ImagePart, DocumentPart)


class Given(str):
    """The text of an input that has more than text; all that only reads it takes it for a text.

    Attributes:
        parts: All of the input, in its order.
    """

    parts: tuple[Part, ...] = ()


def given(input: Any) -> Given:
    """Take the parts of an input.

    Raises:
        OrbiterError: They are something else.
    """
    where = "run(agent, input)"
    say = "what the user says, as text or a list of parts"
    require_all(input, _PARTS, where, "a part, such as TextPart(text=...)", say)
    parts = tuple(input)
    text = Given("\n".join(part.text for part in parts if isinstance(part, TextPart)))
    text.parts = parts
    return text


def content_of(value: Any) -> tuple[str, tuple[ResultPart, ...]]:
    """Return what a tool gave as text, and the images and documents of it apart."""
    if not has_parts(value):
        return as_text(value), ()
    items = value if isinstance(value, list | tuple) else (value,)
    files = tuple(item for item in items if isinstance(item, ImagePart | DocumentPart))
    words = (
        item.text if isinstance(item, TextPart) else as_text(item)
        for item in items
        if not isinstance(item, ImagePart | DocumentPart)
    )
    return "\n".join(words), files
