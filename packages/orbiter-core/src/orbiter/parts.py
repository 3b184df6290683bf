"""What messages consist of: text, images and documents of users and tools, thoughts of models.

Everything that a message says in words is in its `content` too, so who reads nothing but text may
leave the parts aside. All classes are frozen; this module imports nothing of Orbiter.
"""

import base64
import binascii
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_serializer, field_validator, model_validator


class TextPart(BaseModel):
    """Words."""

    model_config = {"frozen": True, "extra": "forbid"}

    type: Literal["text"] = "text"
    text: str


class _File(BaseModel):
    """What a model is shown besides words: by its URL, which the vendor fetches, or as bytes.

    Attributes:
        url: Where the vendor finds it; nothing is fetched here.
        data: Its bytes; in JSON they are Base64.
        media_type: What the bytes are, such as "image/png".
    """

    model_config = {"frozen": True, "extra": "forbid"}

    url: str | None = Field(default=None, pattern="^https?://[^\\s]+$")
    data: bytes | None = Field(default=None, repr=False)
    media_type: str | None = Field(default=None, pattern="^[a-z]+/[a-z0-9.+-]+$")

    @field_validator("data", mode="before")
    @classmethod
    def _of_json(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError("text stands for bytes in Base64, and this is none") from error

    @field_serializer("data", when_used="json")
    def _as_json(self, value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.url is None) == (self.data is None):
            raise ValueError("give url= or data=, one of the two")
        if self.data is not None and self.media_type is None:
            raise ValueError("bytes need a media_type=, such as 'image/png'")
        return self

    @property
    def base64(self) -> str:
        """The bytes in Base64, as vendors take them."""
        return base64.b64encode(self.data or b"").decode()


class ImagePart(_File):
    """An image, by URL or as bytes with a media type."""

    type: Literal["image"] = "image"


class DocumentPart(_File):
    """A document, such as a PDF, by URL or as bytes with a media type; it may have a name."""

    type: Literal["document"] = "document"
    name: str | None = None


class ThinkingPart(BaseModel):
    """What a model thought; it is no part of the answer.

    Attributes:
        text: The thoughts, or the vendor's summary of them.
        signature: What the vendor wants back with them.
        vendor: Whose it is; others are not sent it.
    """

    model_config = {"frozen": True, "extra": "forbid"}

    type: Literal["thinking"] = "thinking"
    text: str = ""
    signature: str | None = None
    vendor: str = ""


class ToolCallPart(BaseModel):
    """Where among the parts of a reply a tool is called: `tool_calls[index]`."""

    model_config = {"frozen": True, "extra": "forbid"}

    type: Literal["tool_call"] = "tool_call"
    index: int = Field(ge=0)


class OpaquePart(BaseModel):
    """What only its vendor understands, such as a tool that it runs; it is sent back as it came."""

    model_config = {"frozen": True, "extra": "forbid"}

    type: Literal["opaque"] = "opaque"
    vendor: str
    data: dict[str, Any]


Part = TextPart | ImagePart | DocumentPart
"""What users say."""
ResultPart = ImagePart | DocumentPart
"""What a tool's result holds besides its text."""
ReplyPart = TextPart | ThinkingPart | ToolCallPart | OpaquePart
"""What models say, in its order."""

Parts = tuple[Annotated[Part, Field(discriminator="type")], ...]
ResultParts = tuple[Annotated[ResultPart, Field(discriminator="type")], ...]
ReplyParts = tuple[Annotated[ReplyPart, Field(discriminator="type")], ...]


_GIVEN = (TextPart, ImagePart, DocumentPart)


def has_parts(value: Any) -> bool:
    """Whether what a tool gave is a part of a message, or a list with some."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, _GIVEN) for item in value)
    return isinstance(value, _GIVEN)
