"""What kopf reads of the API server, bounded before kopf decodes it. Used by `watch`.

kopf decodes with Python's own json, which gives up from a thousand levels on; that ends kopf, and
the next one reads the same object. It is given an HTTP session of ours, so its responses are ours.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from orbiter_operator.kube.codec import LIST, events, read


class BoundedResponse(aiohttp.ClientResponse):
    """A response of the API server to kopf."""

    async def start(self, connection: Any) -> "BoundedResponse":
        """See ClientResponse: called when the head has come and the body may be read."""
        await super().start(connection)
        self.content = BoundedLines(self.content)  # type: ignore[assignment]
        return self

    async def json(self, **_: Any) -> Any:
        """The body, decoded and bounded.

        Raises:
            aiohttp.ClientPayloadError: It is no JSON; whoever asked tries again.
        """
        try:
            return await read(await self.read(), LIST)
        except ValueError as error:
            raise aiohttp.ClientPayloadError(f"the answer is no JSON: {error}") from None


class BoundedLines:
    """The body of a watch. All that is not said here is the stream's own."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """A line for each event of a watch, bounded."""
        async for event in events(self._content.iter_chunked(size)):
            yield orjson.dumps(event) + b"\n"
