"""What both vendors take of images and documents, and the error for what a vendor does not."""

from orbiter.models._internal.settings import Refuse
from orbiter.parts import DocumentPart, ImagePart, Part, TextPart
from orbiter.types import UserMessage

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF = "application/pdf"


def parts_of(message: UserMessage) -> tuple[Part, ...]:
    """Return all that a user's message says, in its order; empty for one of text alone."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    if not message.parts or "\n".join(texts) == message.content:
        return message.parts
    # a context has replaced the text, to shorten it or take a secret out; or it stands beside
    files = tuple(part for part in message.parts if not isinstance(part, TextPart))
    return (TextPart(text=message.content), *files) if message.content else files


def media_type(part: ImagePart | DocumentPart, vendor: str, refuse: Refuse) -> str:
    """Return the media type of a part's bytes, which every vendor takes.

    Raises:
        ModelError: It is another one.
    """
    kind = part.media_type or ""
    if isinstance(part, ImagePart):
        if kind in IMAGES:
            return kind
        raise refuse(f"{vendor} takes no image of type '{kind}': give {', '.join(IMAGES)}")
    if kind == PDF or kind.startswith("text/"):
        return kind
    raise refuse(f"{vendor} takes no document of type '{kind}': give {PDF} or text")


def text_of(part: DocumentPart, refuse: Refuse) -> str:
    """Return the words of a document that is text.

    Raises:
        ModelError: It is not UTF-8.
    """
    try:
        return (part.data or b"").decode()
    except UnicodeDecodeError as error:
        raise refuse(f"the document {part.name or ''} is no UTF-8: {error}") from error
