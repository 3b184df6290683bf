"""The vendors' real SDKs, talking to a local server that speaks their wire formats."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from support.model_wire import Answer, Refusal, WireServer
from support.vendor_types import check_request

from orbiter.config import ModelConfig
from orbiter.models import ModelProvider, forbid_real_calls
from orbiter.models._internal.clock import Clock
from orbiter.models.anthropic import AnthropicProvider
from orbiter.models.google import GoogleProvider
from orbiter.models.openai import OpenAIProvider


@dataclass
class Vendor:
    """One vendor: its provider, the server behind it and the pauses it has made."""

    name: str
    server: WireServer
    provider: ModelProvider
    pauses: list[float] = field(default_factory=list)
    more: set[str] = field(default_factory=set)
    """Fields of requests that the test makes up: the SDK's types need not know them."""

    def will(self, *answers: Answer | Refusal) -> ModelProvider:
        """Tell the server what to answer next."""
        self.server.answers.extend(answers)
        return self.provider


VendorFactory = Callable[[str], Vendor]


@pytest.fixture
async def vendors(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[VendorFactory]:
    """Make vendors by name; calls of these real SDKs are allowed, they stay on this machine.

    What they were sent has to fit the SDKs' own types.
    """
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    forbid_real_calls(False)
    made: list[Vendor] = []

    kinds = {"openai": OpenAIProvider, "anthropic": AnthropicProvider, "google": GoogleProvider}

    async with AsyncExitStack() as stack:
        servers = {name: await stack.enter_async_context(WireServer().running()) for name in kinds}

        def make(name: str) -> Vendor:
            server = servers[name]
            pauses: list[float] = []

            async def sleep(seconds: float) -> None:
                pauses.append(seconds)

            clock = Clock(sleep=sleep, now=lambda: 1_000_000.0, chance=lambda: 1.0)
            config = ModelConfig(
                provider=name,
                model_name="test-model",
                api_key="sk-test",
                base_url=f"{server.url}/v1" if name == "openai" else server.url,
            )
            vendor = Vendor(name, server, kinds[name](config, clock=clock), pauses)
            made.append(vendor)
            return vendor

        try:
            yield make
            for vendor in made:
                for request in vendor.server.received:
                    check_request(vendor.name, request.body, frozenset(vendor.more))
        finally:
            for vendor in made:
                await vendor.provider.aclose()


@pytest.fixture(params=["openai", "anthropic"])
def vendor(request: pytest.FixtureRequest, vendors: VendorFactory) -> Vendor:
    """Each vendor in turn."""
    return vendors(request.param)
