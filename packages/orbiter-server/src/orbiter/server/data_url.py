"""How clients write an image into a request, for who checks it and who describes it."""

from typing import Annotated

from pydantic import Field, WithJsonSchema

MAX_IMAGE_BYTES = 2_500_000
MOST_IMAGES = 20
IMAGE = (
    r"data:(image/(?:jpeg|png|gif|webp));base64,"
    r"((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))"
)
# what does not fit is refused in words that say what to do
Image = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{IMAGE}$"})]
Images = Annotated[list[Image], Field(max_length=MOST_IMAGES)]
