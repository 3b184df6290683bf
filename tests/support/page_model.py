"""The model of a page of docs/, for people who type it: `make docs-model PAGE=docs/agents.md`.

It gives the replies that the page's source names, in the page's order, over the APIs of OpenAI and
Anthropic. Each request takes the next one, whatever it asks: the blocks are typed in their order.
"""

import asyncio
import sys
from pathlib import Path

from support.console_pages import steps_of
from support.markdown_blocks import blocks_of
from support.model_wire import Answer, Refusal, WireServer
from support.page_replies import answer_of

PORT = 8124
_OVER = Refusal(400, "the page has no more replies: begin it, and this model, anew")


def answers_of(page: Path) -> list[Answer | Refusal]:
    """Return what the model says on a page, in its order."""
    blocks = sorted([*blocks_of(page), *steps_of(page)], key=lambda block: block.line)
    replies = [reply for block in blocks for reply in block.replies]
    return [answer_of(number, reply) for number, reply in enumerate(replies)]


async def serve(page: Path, port: int = PORT) -> None:
    """Play a page until this is cancelled."""
    model = WireServer()
    model.answers = [*answers_of(page), *[_OVER] * 1000]
    async with model.running(port):
        print(
            f"the model of {page} ({len(answers_of(page))} replies): in the other terminal,\n"
            f"  export OPENAI_BASE_URL={model.url}/v1 OPENAI_API_KEY=any\n"
            f"  export ANTHROPIC_BASE_URL={model.url} ANTHROPIC_API_KEY=any",
            flush=True,
        )
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
