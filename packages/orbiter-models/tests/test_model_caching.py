"""What caching saves, against a server that bills like Anthropic, and what usage knows of it."""

from itertools import pairwise

import pytest
from support.cached_run import bills, cost_ratio, look, looking, looking_agent
from support.model_wire import Answer

from orbiter import Agent, run
from orbiter.config import ModelSettings
from orbiter.models import ModelError
from orbiter.types import Usage

# not a conftest: every package's tests are a package called `tests`, so there can be only one
pytest_plugins = ["support.model_vendors"]


def marks(body):
    return str(body).count("cache_control")


async def test_ten_steps_cost_at_most_a_quarter_of_what_they_would(vendors):
    vendor = vendors("anthropic")
    result = await run(looking_agent(), "Look.", provider=vendor.will(*looking()))
    found = bills(vendor.server.received)
    assert (result.steps, len(found)) == (10, 10)
    assert 9_900 < found[0].tokens < 10_200
    steps = [b.tokens - a.tokens for a, b in pairwise(found)]
    assert all(450 < step < 550 for step in steps)
    assert 0.2 < cost_ratio(found) <= 0.25


async def test_without_caching_they_cost_all_of_it(vendors):
    vendor = vendors("anthropic")
    agent = looking_agent(settings=ModelSettings(prompt_caching=False))
    await run(agent, "Look.", provider=vendor.will(*looking(3)))
    assert all(bill.cost == bill.tokens for bill in bills(vendor.server.received))
    assert marks(vendor.server.received[-1].body) == 0


async def test_a_step_of_thirty_calls_still_finds_what_was_kept(vendors):
    vendor = vendors("anthropic")
    calls = tuple((f"c{n}", "look", {"at": f"{n}"}) for n in range(30))
    agent = looking_agent(800)
    await run(agent, "Look.", provider=vendor.will(Answer(calls=calls), Answer(text="Seen.")))
    first, second = bills(vendor.server.received)
    assert second.read == first.written


async def test_a_single_call_without_tools_asks_for_no_cache(vendors):
    vendor = vendors("anthropic")
    agent = Agent(name="a", instructions="Be brief.")
    result = await run(agent, "Hi", provider=vendor.will(Answer(text="Hello."), Answer(text="x")))
    assert marks(vendor.server.received[0].body) == 0
    await run(agent, "And?", provider=vendor.provider, messages=result.messages)
    body = vendor.server.received[1].body
    assert body["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    ]
    assert marks(body) == 3


async def test_no_request_has_more_breakpoints_than_the_api_allows(vendors):
    vendor = vendors("anthropic")
    agent = Agent(name="a", instructions="Be brief.", tools=[look])
    await run(agent, "Look.", provider=vendor.will(*looking(5)))
    assert [marks(request.body) for request in vendor.server.received] == [3, 4, 4, 4, 4]


async def test_who_lets_the_api_place_its_breakpoint_gets_none_of_ours(vendors):
    vendor = vendors("anthropic")
    settings = ModelSettings(extra_body={"cache_control": {"type": "ephemeral"}})
    agent = Agent(name="a", tools=[look], settings=settings)
    await run(agent, "Hi", provider=vendor.will(Answer(text="x")))
    assert marks(vendor.server.received[0].body) == 1


async def test_openai_caches_by_itself_and_cannot_be_kept_from_it(vendors):
    vendor = vendors("openai")
    await run(Agent(name="a", tools=[look]), "Look.", provider=vendor.will(*looking(2)))
    assert marks(vendor.server.received[1].body) == 0
    with pytest.raises(ModelError, match="the setting 'prompt_caching' is False"):
        await run(
            Agent(name="a"), "Hi", provider=vendor.provider,
            settings=ModelSettings(prompt_caching=False),
        )  # fmt: skip


@pytest.mark.parametrize("streamed", [False, True])
async def test_usage_knows_reads_writes_and_thoughts(vendor, streamed):
    answer = {
        "input_tokens": 100, "output_tokens": 20, "cached_tokens": 60, "written_tokens": 30,
        "thinking_tokens": 9,
    }  # fmt: skip
    provider = vendor.will(
        Answer(calls=(("c1", "look", {"at": "it"}),), **answer), Answer(text="x", **answer)
    )
    agent = Agent(name="a", tools=[look])
    if streamed:
        stream = run.stream(agent, "Look.", provider=provider)
        async for _ in stream:
            pass
        result = stream.result
    else:
        result = await run(agent, "Look.", provider=provider)
    assert result.usage == Usage(
        input_tokens=200, output_tokens=40, total_tokens=240, cached_tokens=120,
        cache_write_tokens=60, reasoning_tokens=18,
    )  # fmt: skip
