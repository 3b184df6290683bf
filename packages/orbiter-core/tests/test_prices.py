import sys

import pytest

from orbiter import prices
from orbiter.types import Usage


@pytest.fixture
def no_table(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    forget()
    yield
    forget()


def forget():
    prices._table.cache_clear()
    prices._price.cache_clear()


def test_a_call_costs_what_the_table_says():
    usage = Usage(input_tokens=1000, output_tokens=100)
    assert prices.price("openai", "gpt-4o", usage) == pytest.approx(0.0035)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("xai", "grok-4"),
        ("moonshot", "kimi-k2-0905-preview"),
        ("groq", "llama-3.3-70b-versatile"),
        ("mistral", "mistral-large-latest"),
        ("deepseek", "deepseek-chat"),
        ("google", "gemini-2.5-flash"),
        ("openai-responses", "gpt-5"),
        ("azure", "gpt-5-mini"),
        ("azure-chat", "gpt-5-mini"),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("vertex", "claude-sonnet-4-5@20250929"),
        ("vertex", "gemini-2.5-flash"),
    ],
)
def test_providers_of_model_strings_are_found_under_the_names_of_the_table(provider, model):
    assert prices.price(provider, model, Usage(input_tokens=1000, output_tokens=100))


def test_cached_tokens_are_cheaper():
    cached = Usage(input_tokens=1000, output_tokens=100, cached_tokens=1000)
    assert prices.price("openai", "gpt-4o", cached) == pytest.approx(0.00225)


def test_what_is_written_to_a_cache_costs_more():
    model = "claude-sonnet-4-5"
    plain = Usage(input_tokens=1000)
    written = Usage(input_tokens=1000, cache_write_tokens=1000)
    cost = prices.price("anthropic", model, written)
    assert cost == pytest.approx(1.25 * prices.price("anthropic", model, plain))


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "made-up", Usage(input_tokens=1)),
        ("nobody", "gpt-4o", Usage(input_tokens=1)),
        ("openai", "gpt-4o", Usage()),
    ],
)
def test_what_the_table_does_not_know_has_no_price(provider, model, usage):
    assert prices.price(provider, model, usage) is None


def test_without_the_table_nothing_has_a_price(no_table):
    assert prices.price("openai", "gpt-4o", Usage(input_tokens=1)) is None
