"""How Anthropic counts tokens."""

from typing import Any

from orbiter.types import Usage


class Counter:
    """Adds up a call's tokens: the API tells them cumulatively, in pieces, cached ones apart."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._reported = Usage()

    def add(self, usage: Any) -> "Counter":
        """Take what the API tells; what it leaves out stays as it was."""
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ):
            value = getattr(usage, name, None)
            if value is not None:
                self._seen[name] = value
        details = getattr(usage, "output_tokens_details", None)
        if details is not None:
            self._seen["thinking_tokens"] = details.thinking_tokens
        return self

    def increment(self) -> Usage:
        """Return what has not been told yet, so that what a stream tells adds up."""
        before, self._reported = self._reported, self.usage
        now = self._reported
        return Usage(
            input_tokens=now.input_tokens - before.input_tokens,
            output_tokens=now.output_tokens - before.output_tokens,
            total_tokens=now.total_tokens - before.total_tokens,
            cached_tokens=now.cached_tokens - before.cached_tokens,
            cache_write_tokens=now.cache_write_tokens - before.cache_write_tokens,
            reasoning_tokens=now.reasoning_tokens - before.reasoning_tokens,
        )

    @property
    def usage(self) -> Usage:
        """All that was told."""
        cached = self._seen.get("cache_read_input_tokens", 0)
        written = self._seen.get("cache_creation_input_tokens", 0)
        fresh = self._seen.get("input_tokens", 0) + written
        output = self._seen.get("output_tokens", 0)
        return Usage(
            input_tokens=fresh + cached,
            output_tokens=output,
            total_tokens=fresh + cached + output,
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=self._seen.get("thinking_tokens", 0),
        )
