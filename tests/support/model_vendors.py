"""The vendors' real SDKs, talking to a local server that speaks their wire formats."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

import pytest
from support.model_wire import Answer, Refusal, WireServer
from support.vendor_types import check_request

from orbiter.config import ModelConfig
from orbiter.models import ModelProvider, forbid_real_calls
from orbiter.models._internal.clock import Clock
from orbiter.models.anthropic import AnthropicProvider
from orbiter.models.azure import AzureProvider
from orbiter.models.bedrock import BedrockProvider
from orbiter.models.google import GoogleProvider
from orbiter.models.openai import OpenAIProvider
from orbiter.models.vertex import VertexClaudeProvider, VertexGeminiProvider


@dataclass(frozen=True)
class Kind:
    """How a vendor is asked.

    `types` are those that its SDK has for requests.
    """

    vendor: str
    make: Callable[..., ModelProvider]
    types: str
    path: str = ""


_AZURE = partial(AzureProvider, api_version="2025-04-01-preview")
KINDS = {
    "openai": Kind("openai", OpenAIProvider, "openai", "/v1"),
    "responses": Kind("openai", partial(OpenAIProvider, api="responses"), "responses", "/v1"),
    "anthropic": Kind("anthropic", AnthropicProvider, "anthropic"),
    "google": Kind("google", GoogleProvider, "google"),
    "bedrock": Kind("bedrock", BedrockProvider, "bedrock"),
    "vertex-claude": Kind("vertex", VertexClaudeProvider, "vertex"),
    "vertex-gemini": Kind("vertex", VertexGeminiProvider, "google"),
    "azure": Kind("azure", partial(_AZURE, api="chat"), "openai"),
    "azure-responses": Kind("azure", partial(_AZURE, api="responses"), "responses"),
}


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

    async with AsyncExitStack() as stack:
        servers = {name: await stack.enter_async_context(WireServer().running()) for name in KINDS}

        def make(name: str) -> Vendor:
            server = servers[name]
            pauses: list[float] = []

            async def sleep(seconds: float) -> None:
                pauses.append(seconds)

            clock = Clock(sleep=sleep, now=lambda: 1_000_000.0, chance=lambda: 1.0)
            kind = KINDS[name]
            config = ModelConfig(
                provider=kind.vendor,
                model_name="test-model",
                api_key="sk-test",
                base_url=server.url + kind.path,
            )
            vendor = Vendor(name, server, kind.make(config, clock=clock), pauses)
            made.append(vendor)
            return vendor

        try:
            yield make
            for vendor in made:
                for request in vendor.server.received:
                    check_request(KINDS[vendor.name].types, request.body, frozenset(vendor.more))
        finally:
            for vendor in made:
                await vendor.provider.aclose()


@pytest.fixture(params=["openai", "anthropic"])
def vendor(request: pytest.FixtureRequest, vendors: VendorFactory) -> Vendor:
    """Each vendor in turn."""
    return vendors(request.param)
