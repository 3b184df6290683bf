"""A conversation that outgrows its budget: what is taken out of it, in which order."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbiter.context import Context, ContextConfig
from orbiter.context._internal.budget import compact
from orbiter.context._internal.compactor import Shown
from orbiter.context._internal.meter import Room
from orbiter.context._internal.shortening import LARGE_CHARS
from orbiter.context.tokens import message_tokens
from orbiter.parts import ImagePart, TextPart
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, UserMessage

PNG = ImagePart(data=b"x", media_type="image/png")
LARGE = "words of a result " * 700
ARGUMENTS = json.dumps({"path": "a.py", "text": "line of code\n" * 1000, "mode": 7})


def step(n: int, content: str = "ok", arguments: str = "{}", **more: Any) -> list[Message]:
    call = ToolCall(id=str(n), name="f", arguments=arguments)
    result = ToolResult(tool_call_id=str(n), tool_name="f", content=content, **more)
    return [AssistantMessage(tool_calls=[call]), result]


class Kept:
    """A conversation that is brought within its limit again and again."""

    def __init__(self, limit: int, input: str = "go") -> None:
        self.room = Room(limit, limit // 2)
        self.input = input
        self.shown = Shown()
        self.stored: list[str] = []
        self.left: list[Message] = []
        self.summaries = 0

    async def after(self, messages: list[Message]) -> list[Message]:
        self.shown.read(messages, message_tokens)
        await compact(
            self.shown, self.room, input=self.input, store=self._store,
            summarize=self._summarize, size=message_tokens,
        )  # fmt: skip
        return self.shown.messages

    async def _store(self, text: str) -> str:
        self.stored.append(text)
        return f"[Result stored as artifact: a{len(self.stored)}]\n{text[:400]}"

    async def _summarize(self, left: list[Message]) -> str:
        self.left += left
        self.summaries += 1
        return f"SUMMARY {self.summaries}"

    @property
    def tokens(self) -> int:
        return sum(map(message_tokens, self.shown.messages))


def results(messages: list[Message]) -> list[str]:
    return [m.content for m in messages if isinstance(m, ToolResult)]


def arguments_of(messages: list[Message]) -> list[str]:
    said = [m for m in messages if isinstance(m, AssistantMessage)]
    return [call.arguments for m in said for call in m.tool_calls]


async def test_within_its_limit_nothing_happens() -> None:
    messages: list[Message] = [UserMessage(content="go"), *step(1, LARGE)]
    kept = Kept(10_000)
    assert await kept.after(messages) == messages
    assert (kept.stored, kept.left, kept.shown.changed) == ([], [], False)


async def test_old_large_results_are_shortened_first_down_to_half() -> None:
    messages: list[Message] = [UserMessage(content="go")]
    for n in range(10):
        messages += step(n, f"{n} {LARGE}")
    kept = Kept(20_000)
    shown = await kept.after(messages)
    short = [n for n, text in enumerate(results(shown)) if "artifact" in text]
    assert short == list(range(len(short)))
    assert 5_000 < kept.tokens <= 10_000
    assert kept.summaries == 0
    assert kept.stored[0] == f"0 {LARGE}"
    assert len(shown) == len(messages)


async def test_large_arguments_are_shortened_too_and_stay_an_object() -> None:
    messages: list[Message] = [UserMessage(content="go")]
    for n in range(10):
        messages += step(n, arguments=ARGUMENTS)
    kept = Kept(20_000)
    shown = await kept.after(messages)
    first = json.loads(arguments_of(shown)[0])
    assert (first["path"], first["mode"]) == ("a.py", 7)
    assert first["text"].endswith("… [13000 characters]")
    assert "artifact: a1]" in first["_shortened"]
    assert kept.stored[0] == ARGUMENTS
    assert arguments_of(shown)[-1] == ARGUMENTS
    assert kept.summaries == 0


@pytest.mark.parametrize(
    "arguments", ["[1" * 3_000, "x" * 9_000, json.dumps([1] * 5_000), "[" * 200_000,
                  json.dumps({f"k{n}": "v" * 90 for n in range(90)})]
)  # fmt: skip
async def test_arguments_of_any_kind_become_a_small_object(arguments: str) -> None:
    kept = Kept(1_000)
    messages = [UserMessage(content="go"), *step(1, arguments=arguments), *step(2, "x" * 3_000)]
    shown = await kept.after(messages)
    first = arguments_of(shown)[0]
    assert isinstance(json.loads(first), dict)
    assert len(first) <= LARGE_CHARS


async def test_images_of_old_results_go_and_it_is_said() -> None:
    messages: list[Message] = [UserMessage(content="go")]
    for n in range(10):
        messages += step(n, "a page", parts=(PNG,))
    kept = Kept(10_000)
    shown = await kept.after(messages)
    assert shown[2].content.endswith("[Files that were here and are not shown any more: 1]")
    parts = [m.parts for m in shown if isinstance(m, ToolResult)]
    assert (parts[0], parts[-1]) == ((), (PNG,))
    assert kept.tokens <= 5_000


async def test_when_nothing_is_large_the_oldest_steps_become_a_summary() -> None:
    messages: list[Message] = [UserMessage(content="go")]
    for n in range(200):
        messages += step(n, "small " * 30)
    kept = Kept(5_000)
    shown = await kept.after(messages)
    assert shown[0].content == "<conversation_summary>\nSUMMARY 1\n</conversation_summary>\n\ngo"
    assert shown[1:] == messages[-len(shown) + 1 :]
    assert isinstance(shown[1], AssistantMessage)
    assert kept.tokens <= 2_500
    assert kept.left == messages[1 : 1 - len(shown)]
    assert kept.stored == []


async def test_the_prompt_stays_with_its_files_and_earlier_rounds_go() -> None:
    prompt = UserMessage(content="go", parts=(TextPart(text="go"), PNG))
    messages: list[Message] = [UserMessage(content="hello"), AssistantMessage(content="Hi.")]
    messages.append(prompt)
    for n in range(200):
        messages += step(n, "small " * 30)
    kept = Kept(6_000)
    first = (await kept.after(messages))[0]
    assert isinstance(first, UserMessage)
    assert first.content.endswith("</conversation_summary>\n\ngo")
    assert [part.type for part in first.parts] == ["text", "text", "image"]
    assert kept.left[:2] == messages[:2]
    assert prompt not in kept.left


async def test_a_correction_is_not_taken_for_the_prompt() -> None:
    messages: list[Message] = [UserMessage(content="go"), *step(0)]
    messages.append(UserMessage(content="the answer has to be JSON"))
    for n in range(1, 200):
        messages += step(n, "small " * 30)
    kept = Kept(5_000)
    assert (await kept.after(messages))[0].content.endswith("\n\ngo")
    assert messages[3] in kept.left


async def test_a_later_summary_takes_the_place_of_the_one_before() -> None:
    messages: list[Message] = [UserMessage(content="go")]
    kept = Kept(5_000)
    for n in range(400):
        messages += step(n, "small " * 30)
        shown = await kept.after(messages)
        assert kept.tokens <= 5_000
    assert kept.summaries > 2
    assert shown[0].content.count("SUMMARY") == 1
    assert f"SUMMARY {kept.summaries}\n" in shown[0].content
    # each message left once, in its order
    assert kept.left == messages[1 : 1 + len(kept.left)]


async def test_what_is_new_is_shortened_only_when_there_is_no_other_way() -> None:
    kept = Kept(8_000)
    shown = await kept.after([UserMessage(content="go"), *step(1, LARGE), *step(2, LARGE * 2)])
    assert results(shown)[-1] == LARGE * 2
    calls = [ToolCall(id=str(n), name="f", arguments="{}") for n in range(5)]
    many = [ToolResult(tool_call_id=c.id, tool_name="f", content=LARGE) for c in calls]
    kept = Kept(8_000)
    shown = await kept.after([UserMessage(content="go"), AssistantMessage(tool_calls=calls), *many])
    assert ["artifact" in text for text in results(shown)] == [True, True, True, False, False]


async def test_a_prompt_that_is_larger_than_the_budget_is_shortened_last() -> None:
    kept = Kept(5_000, input="word " * 40_000)
    shown = await kept.after([UserMessage(content=kept.input)])
    assert shown[0].content.startswith("[Result stored as artifact: a1]\nword word")
    assert kept.tokens <= 5_000
    assert kept.stored == [kept.input]


async def test_another_conversation_starts_from_nothing() -> None:
    kept = Kept(2_000)
    await kept.after([UserMessage(content="go"), *step(1, LARGE), *step(2)])
    other: list[Message] = [UserMessage(content="other"), *step(1), *step(2), *step(3)]
    assert await kept.after(other) == other


TEXTS = st.sampled_from(["", "a", "\u4e16\u754c" * 50, "b" * 300, "\0" * 2_500, "c" * 9_000])
STEPS = st.lists(
    st.tuples(TEXTS, TEXTS, st.lists(st.tuples(TEXTS, st.booleans()), max_size=4)), max_size=12
)
ROUNDS = st.lists(st.tuples(TEXTS, st.booleans(), STEPS), min_size=1, max_size=5)


def conversation(rounds: Any) -> list[Message]:
    messages: list[Message] = []
    for text, image, steps in rounds:
        parts = (TextPart(text=text), PNG) if image else ()
        messages.append(UserMessage(content=text, parts=parts))
        for said, argument, found in steps:
            start = len(messages)
            calls = [
                ToolCall(id=f"{start}-{n}", name="f", arguments=json.dumps({"x": argument}))
                for n in range(len(found))
            ]
            messages.append(AssistantMessage(content=said, tool_calls=calls))
            messages += [
                ToolResult(tool_call_id=c.id, tool_name="f", content=t, parts=(PNG,) * shown)
                for c, (t, shown) in zip(calls, found, strict=True)
            ]
    return messages


def check_pairs(messages: list[Message]) -> list[str]:
    """Return the ids of the calls; each has its result right behind it."""
    ids: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            assert open_calls.pop(0) == message.tool_call_id
            continue
        assert open_calls == []
        if isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.tool_calls]
            ids += open_calls
            assert all(isinstance(json.loads(c.arguments), dict) for c in message.tool_calls)
    assert open_calls == []
    return ids


def is_whole(messages: list[Message], end: int) -> bool:
    """Whether a model could be called with so many of them: all calls are answered."""
    return end == len(messages) or not isinstance(messages[end], ToolResult)


@settings(deadline=None)
@given(ROUNDS, st.integers(300, 20_000))
async def test_compaction_keeps_pairs_order_and_budget_and_is_idempotent(
    rounds: Any, limit: int
) -> None:
    messages = conversation(rounds)
    whole = check_pairs(messages)
    kept = Kept(limit, input=rounds[-1][0])
    for end in range(1, len(messages) + 1):
        if not is_whole(messages, end):
            continue
        before = list(kept.shown.messages)
        new = messages[len(kept.shown.source) : end]
        fitted = kept.shown.tokens + sum(map(message_tokens, new))
        shown = list(await kept.after(messages[:end]))
        ids = check_pairs(shown)
        assert whole[: len(check_pairs(messages[:end]))][-len(ids) or len(whole) :] == ids
        assert kept.shown.tokens == kept.tokens
        if fitted <= limit:
            assert shown[: len(before)] == before  # what was cached is still of use
        again = list(await kept.after(messages[:end]))
        assert kept.tokens <= limit or again == shown
        if kept.tokens > limit:
            # all that is left is the prompt and the newest step, and nothing of it is large
            newest = [m for m in shown if isinstance(m, AssistantMessage)]
            assert len(newest) <= 1
            assert all(len(m.content) <= LARGE_CHARS for m in shown)
            assert not any(getattr(m, "parts", ()) for m in shown)
    assert shown == list(await kept.after(messages))
    left = [m for m in kept.left if isinstance(m, UserMessage)]
    assert len(left) == len({id(m) for m in left})


@pytest.mark.parametrize("mode", ["copilot", "navigator"])
async def test_a_run_that_goes_on_is_sent_what_was_sent_before(mode: str) -> None:
    config = ContextConfig.model_validate({"mode": mode, "window_tokens": 20_000})
    ctx = Context(task_id="t", config=config)
    history: list[Message] = [UserMessage(content="go")]
    for n in range(10):
        history += step(n, f"{n} {LARGE}")

    async def sent(input: str, history: list[Message], new: list[Message]) -> list[Message]:
        given = await ctx.start_run(agent_name="a", input=input, history=history, provider=None)
        payload: dict[str, Any] = {
            "agent_name": "a", "system_prompt": "", "messages": [*given, *new]
        }  # fmt: skip
        await ctx.process("pre_llm_call", payload)
        shown: list[Message] = payload["messages"]
        return shown

    first = await sent("go", [], history)
    assert first != history
    files = await ctx.workspace.list()
    more: list[Message] = [UserMessage(content="and?")]
    read_again = [m.model_copy() for m in history]
    assert (await sent("and?", read_again, more))[:-1] == first
    assert await ctx.workspace.list() == files
