"""What Gemini is told of settings, and what its answers mean."""

import base64
import json
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models._internal.google_contents import VENDOR
from orbiter.models._internal.settings import Refuse, only_cached, refusal, with_tools
from orbiter.models.types import FinishReason, StreamChunk, ToolCallDelta
from orbiter.parts import OpaquePart, ReplyPart, TextPart, ThinkingPart, ToolCallPart
from orbiter.types import ToolCall, Usage

_CANNOT = {"parallel_tool_calls": "the API knows none; leave it out"}

_FINISH: dict[str, FinishReason] = {
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
            "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR",
        ),
        "content_filter",
    ),
    **dict.fromkeys(
        (
            "OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE", "IMAGE_OTHER", "NO_IMAGE",
        ),
        "incomplete",
    ),
}  # fmt: skip


def add_settings(config: dict[str, Any], settings: ModelSettings, refuse: Refuse) -> None:
    """Write settings into a request's config; those of tools mean nothing without tools.

    Raises:
        ModelError: The API cannot do what they say.
    """
    refusal(settings, _CANNOT, refuse)
    only_cached(settings, refuse)
    for name in ("top_p", "seed"):
        value = getattr(settings, name)
        if value is not None:
            config[name] = value
    if settings.stop:
        config["stop_sequences"] = list(settings.stop)
    effort = settings.reasoning_effort
    if settings.thinking_budget is not None:
        thinking = {"thinking_budget": settings.thinking_budget, "include_thoughts": True}
        config["thinking_config"] = thinking
    elif effort == "none":
        config["thinking_config"] = {"thinking_budget": 0}
    elif effort == "max":
        raise refuse("the setting 'reasoning_effort' is 'max': Gemini's most is 'xhigh'")
    elif effort is not None:
        config["thinking_config"] = {"thinking_level": effort.upper(), "include_thoughts": True}
    if "tools" in config and settings.tool_choice is not None:
        mode = {"auto": "AUTO", "none": "NONE"}.get(settings.tool_choice, "ANY")
        choice: dict[str, Any] = {"mode": mode}
        if settings.forces_a_call and settings.tool_choice != "required":
            choice["allowed_function_names"] = [settings.tool_choice]
        config["tool_config"] = {"function_calling_config": choice}
    http: dict[str, Any] = {}
    if settings.timeout is not None:
        http["timeout"] = int(settings.timeout * 1000)
    if settings.extra_headers:
        http["headers"] = settings.extra_headers
    if settings.extra_body:
        http["extra_body"] = with_tools(_declared(config), settings.extra_body)
    if http:
        config["http_options"] = http


def _declared(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The agent's tools as the SDK puts them into the body."""
    tools = config.get("tools", ())
    return [{"functionDeclarations": tool["function_declarations"]} for tool in tools]


class Reply:
    """A reply, whole or put together from the pieces of a stream."""

    def __init__(self) -> None:
        """Begin one."""
        self.calls: list[ToolCall] = []
        self.thoughts = self.text = ""
        self.usage = Usage()
        self.finish: FinishReason | None = None
        self.id = self.model = ""
        self._parts: list[ReplyPart] = []

    def add(self, answer: Any) -> StreamChunk:
        """Take an answer or a piece of one; returns what it tells a reader."""
        self.id = answer.response_id or self.id
        self.model = answer.model_version or self.model
        before, said, thought, made = self.usage, self.text, self.thoughts, len(self.calls)
        if answer.usage_metadata is not None:
            self.usage = usage_of(answer.usage_metadata)
        feedback = answer.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self.finish = "content_filter"
        ended = False
        for candidate in (answer.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                self._take(part)
            if candidate.finish_reason is not None:
                ended = True
                word = str(candidate.finish_reason.value)
                self.finish = _FINISH.get(word, "tool_calls" if self.calls else "stop")
        return StreamChunk(
            delta=self.text[len(said) :],
            thinking=self.thoughts[len(thought) :],
            tool_call_deltas=[
                ToolCallDelta(index=n, id=c.id or None, name=c.name, arguments=c.arguments)
                for n, c in enumerate(self.calls[made:], made)
            ],
            finish_reason=self.finish if ended or feedback is not None else None,
            usage=_difference(self.usage, before),
        )

    @property
    def parts(self) -> tuple[ReplyPart, ...]:
        """All that was said in its order, if it is more than text and calls."""
        if all(isinstance(part, (TextPart, ToolCallPart)) for part in self._parts):
            return ()
        return tuple(self._parts)

    def _take(self, part: Any) -> None:
        signature = part.thought_signature
        call = part.function_call
        if signature is not None:
            # it belongs to this part; kept before it, so that no part needs a field for it
            encoded = base64.b64encode(signature).decode()
            self._parts.append(ThinkingPart(signature=encoded, vendor=VENDOR))
        if call is not None:
            self._parts.append(ToolCallPart(index=len(self.calls)))
            arguments = json.dumps(call.args or {})
            self.calls.append(ToolCall(id=call.id or "", name=call.name, arguments=arguments))
        elif part.text is not None and part.thought:
            self.thoughts += part.text
            self._append(ThinkingPart(text=part.text, vendor=VENDOR))
        elif part.text is not None:
            self.text += part.text
            self._append(TextPart(text=part.text))
        else:
            data = part.model_dump(mode="json", exclude_none=True)
            self._parts.append(OpaquePart(vendor=VENDOR, data=data))

    def _append(self, part: TextPart | ThinkingPart) -> None:
        """Add words, to those before them if they are of one kind."""
        last = self._parts[-1] if self._parts else None
        signed = isinstance(last, ThinkingPart) and last.signature
        if type(last) is type(part) and not signed:
            text = last.text + part.text
            self._parts[-1] = part.model_copy(update={"text": text})
        else:
            self._parts.append(part)


def usage_of(told: Any) -> Usage:
    thought = told.thoughts_token_count or 0
    sent = (told.prompt_token_count or 0) + (told.tool_use_prompt_token_count or 0)
    received = (told.candidates_token_count or 0) + thought
    return Usage(
        input_tokens=sent,
        output_tokens=received,
        total_tokens=sent + received,
        cached_tokens=told.cached_content_token_count or 0,
        reasoning_tokens=thought,
    )


def _difference(now: Usage, before: Usage) -> Usage:
    fields = Usage.model_fields
    return Usage(**{name: getattr(now, name) - getattr(before, name) for name in fields})
