"""What the vendors are sent of settings, and what they refuse before anything is sent."""

import pytest
from support.model_wire import Answer

from orbiter import Agent, run, tool
from orbiter.config import ModelSettings
from orbiter.models import ModelError
from orbiter.types import UserMessage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]

HI = [UserMessage(content="hi")]
BASE = {"model", "messages", "max_tokens", "tools"}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def sent(vendor, settings, *, tools=(), more=()):
    """Run once and return what the server received besides what it always does."""
    vendor.more.update(more)
    agent = Agent(name="a", tools=list(tools))
    await run(agent, "hi", provider=vendor.will(Answer(text="ok")), settings=settings)
    body = vendor.server.received[-1].body
    return {name: value for name, value in body.items() if name not in BASE}


async def test_nothing_is_sent_that_nobody_gave(vendor):
    assert await sent(vendor, None, tools=[add]) == {}
    assert await sent(vendor, ModelSettings(), tools=[add]) == {}


async def test_an_explicit_temperature_of_one_is_sent(vendor):
    assert await sent(vendor, ModelSettings(temperature=1.0)) == {"temperature": 1.0}


EVERYTHING = {
    "temperature": 0.2, "max_tokens": 50, "top_p": 0.9, "stop": ["END", "STOP"],
    "tool_choice": "add", "parallel_tool_calls": False,
}  # fmt: skip


async def test_openai_is_sent_each_in_its_words(vendors):
    settings = ModelSettings(**EVERYTHING, seed=7, reasoning_effort="low")
    assert await sent(vendors("openai"), settings, tools=[add]) == {
        "temperature": 0.2,
        "top_p": 0.9,
        "stop": ["END", "STOP"],
        "seed": 7,
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
    }


async def test_anthropic_is_sent_each_in_its_words(vendors):
    vendor = vendors("anthropic")
    assert await sent(vendor, ModelSettings(**EVERYTHING), tools=[add]) == {
        "temperature": 0.2,
        "top_p": 0.9,
        "stop_sequences": ["END", "STOP"],
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
    }
    assert vendor.server.received[-1].body["max_tokens"] == 50


@pytest.mark.parametrize(
    ("settings", "openai", "anthropic"),
    [
        ({"tool_choice": "auto"}, "auto", {"type": "auto"}),
        ({"tool_choice": "none"}, "none", {"type": "none"}),
        ({"tool_choice": "required"}, "required", {"type": "any"}),
        (
            {"parallel_tool_calls": False},
            None,
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": True}, None, None),
    ],
)
async def test_each_choice_of_tools_has_the_vendors_word(vendors, settings, openai, anthropic):
    given = ModelSettings(**settings)
    assert (await sent(vendors("openai"), given, tools=[add])).get("tool_choice") == openai
    assert (await sent(vendors("anthropic"), given, tools=[add])).get("tool_choice") == anthropic


async def test_a_choice_of_tools_is_not_sent_without_tools(vendor):
    settings = ModelSettings(tool_choice="none", parallel_tool_calls=False)
    assert await sent(vendor, settings) == {}


async def test_anthropic_thinks_with_a_budget_beside_its_answer(vendors):
    vendor = vendors("anthropic")
    found = await sent(vendor, ModelSettings(thinking_budget=2000))
    assert found == {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert vendor.server.received[-1].body["max_tokens"] == 4096 + 2000


async def test_anthropic_thinks_as_hard_as_it_is_told(vendors):
    vendor = vendors("anthropic")
    assert await sent(vendor, ModelSettings(reasoning_effort="high")) == {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
    }
    found = await sent(vendor, ModelSettings(reasoning_effort="none"))
    assert found == {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("openai", {"thinking_budget": 2000}, "'thinking_budget' is not possible"),
        ("anthropic", {"seed": 1}, "'seed' is not possible"),
        ("anthropic", {"reasoning_effort": "minimal"}, "'reasoning_effort' is 'minimal'"),
        ("anthropic", {"thinking_budget": 1000}, "'thinking_budget' is 1000: give 1024 or more"),
        (
            "anthropic",
            {"thinking_budget": 2000, "max_tokens": 2000},
            r"give 1024 or more and less than max_tokens \(2000\)",
        ),
        (
            "anthropic",
            {"thinking_budget": 2000, "tool_choice": "required"},
            "'tool_choice' is 'required': Claude does not think when a call is forced",
        ),
    ],
)
async def test_what_a_vendor_cannot_do_names_setting_and_model(vendors, name, settings, told):
    vendor = vendors(name)
    with pytest.raises(ModelError, match=r"^\[test-model\] the setting .*" + told) as caught:
        await sent(vendor, ModelSettings(**settings), tools=[add])
    assert caught.value.provider == name
    assert vendor.server.received == []


async def test_headers_and_body_of_ones_own_pass_through(vendor):
    settings = ModelSettings(
        temperature=0.2, extra_headers={"x-team": "blue"}, extra_body={"top_k": 3, "odd": [1]}
    )
    found = await sent(vendor, settings, more={"top_k", "odd"})
    assert found == {"temperature": 0.2, "top_k": 3, "odd": [1]}
    assert vendor.server.received[-1].headers["x-team"] == "blue"


async def test_the_users_body_outranks_ours(vendor):
    settings = ModelSettings(temperature=0.2, extra_body={"temperature": 0.7})
    assert (await sent(vendor, settings))["temperature"] == 0.7


FURTHER = {
    "openai": {"type": "function", "function": {"name": "more", "parameters": {"type": "object"}}},
    "responses": {"type": "web_search"},
    "anthropic": {"name": "more", "description": "", "input_schema": {"type": "object"}},
    "google": {"googleSearch": {}},
}


@pytest.mark.parametrize("name", FURTHER)
@pytest.mark.parametrize("tools", [[], [add]])
async def test_tools_in_a_body_of_ones_own_come_behind_the_agents(vendors, name, tools):
    vendor = vendors(name)
    hosted = FURTHER[name]
    agent = Agent(name="a", tools=tools)
    for settings in (ModelSettings(), ModelSettings(extra_body={"tools": [hosted]})):
        await run(agent, "hi", provider=vendor.will(Answer(text="x")), settings=settings)
    plain, more = (one.body.get("tools", []) for one in vendor.server.received)
    assert len(plain) == len(tools)
    assert more == [*plain, hosted]


async def test_a_call_may_take_less_time_than_others(vendors):
    vendor = vendors("openai")
    await sent(vendor, ModelSettings(timeout=7.0))
    assert vendor.server.received[-1].headers["x-stainless-read-timeout"] == "7.0"


async def test_a_call_may_go_by_an_http_client_of_ones_own(vendor):
    sdk = pytest.importorskip(vendor.name)
    seen = []

    async def note(request):
        seen.append(request.url.path)

    async with sdk.DefaultAsyncHttpxClient(event_hooks={"request": [note]}) as client:
        settings = ModelSettings(http_client=client)
        assert await sent(vendor, settings) == {}
        assert len(seen) == 1
        assert not client.is_closed
        await sent(vendor, None)
    assert len(seen) == 1


async def test_what_is_no_http_client_is_refused_before_it_is_used(vendor):
    with pytest.raises(ModelError, match="the setting 'http_client' does not fit the SDK"):
        await sent(vendor, ModelSettings(http_client=object()))


async def test_a_provider_called_without_a_run_takes_all_of_them(vendor):
    provider = vendor.will(Answer(text="x"), Answer(text="y"))
    settings = ModelSettings(temperature=0.5, max_tokens=9)
    await provider.complete(HI, settings=settings)
    async for _ in provider.stream(HI, temperature=0.1, settings=settings):
        pass
    first, second = (request.body for request in vendor.server.received)
    assert (first["temperature"], first["max_tokens"]) == (0.5, 9)
    assert (second["temperature"], second["max_tokens"]) == (0.1, 9)
