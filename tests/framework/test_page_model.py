"""Who types a page can have its own model, which answers as the page shows it."""

from pathlib import Path

from support.model_wire import WireServer
from support.page_model import answers_of

from orbiter import Agent, run
from orbiter.models import get_provider

DOCS = Path(__file__).resolve().parents[2] / "docs"


async def test_the_model_of_a_page_answers_in_the_pages_order():
    model = WireServer()
    model.answers = answers_of(DOCS / "agents.md")
    async with model.running():
        provider = get_provider("openai:gpt-4o", base_url=f"{model.url}/v1", api_key="any")
        said = await run(Agent(name="a"), "What is the capital of Japan?", provider=provider)
    assert said.output == "Tokyo."


def test_several_calls_at_once_and_commands_are_answered_too():
    assert any(len(answer.calls) == 2 for answer in answers_of(DOCS / "agents.md"))
    assert answers_of(DOCS / "cli.md")[1].text == "4"
