"""Images that clients send: in the request itself, bounded, and never an address to fetch."""

import base64
import re
from collections.abc import Sequence

from orbiter.parts import ImagePart, TextPart
from orbiter.server._internal.errors import RequestError
from orbiter.server.data_url import IMAGE, MAX_IMAGE_BYTES
from orbiter.types import UserMessage

_IMAGE = re.compile(IMAGE)


def image_of(url: str, where: str, param: str) -> ImagePart:
    """Read an image that a client has sent.

    A URL of another kind would have this server, or a model in its network, ask for whatever a
    client names.

    Args:
        url: Any text.
        where: What the client calls it, for the error.
        param: The field of the request that it stands in.

    Raises:
        RequestError: It is no image of a known kind, or too large.
    """
    found = _IMAGE.fullmatch(url)
    if found is None:
        raise RequestError(
            400, f"{where}: give the image itself, as data:image/png;base64,... (or jpeg, gif, "
            "webp); no URL is fetched", param=param,
        )  # fmt: skip
    data = base64.b64decode(found[2])
    if len(data) > MAX_IMAGE_BYTES:
        raise RequestError(
            413, f"{where}: an image has {MAX_IMAGE_BYTES:,} bytes at most: make it smaller",
            param=param,
        )  # fmt: skip
    return ImagePart(data=data, media_type=found[1])


def said(text: str, images: Sequence[str]) -> UserMessage:
    """Return what a client says by a text and images, which a model sees first.

    Raises:
        RequestError: It is nothing, or one of the images is none.
    """
    if not images:
        if not text:
            raise RequestError(
                422, "input: say something, by words or images", code="invalid_value", param="input"
            )  # fmt: skip
        return UserMessage(content=text)
    shown = (image_of(url, f"images.{n}", f"images.{n}") for n, url in enumerate(images))
    words = (TextPart(text=text),) if text else ()
    return UserMessage(content=text, parts=(*shown, *words))


def images_of(message: UserMessage) -> list[ImagePart]:
    """Return the images of a message."""
    return [part for part in message.parts if isinstance(part, ImagePart)]
