"""The requests of OpenAI's chat completions, as far as an agent can honour them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orbiter.parts import TextPart
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.images import image_of
from orbiter.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolResult
from orbiter.types import UserMessage as User


class _Part(BaseModel):
    # what is not understood here is passed over, as every server of this protocol does
    model_config = ConfigDict(frozen=True, extra="ignore")


class _TextPart(_Part):
    type: Literal["text"]
    text: str


class _RefusalPart(_Part):
    type: Literal["refusal"]
    refusal: str


class _ImageUrl(_Part):
    url: str


class _ImagePart(_Part):
    type: Literal["image_url"]
    image_url: _ImageUrl


Content = str | list[Annotated[_TextPart | _RefusalPart, Field(discriminator="type")]]
Said = str | list[Annotated[_TextPart | _RefusalPart | _ImagePart, Field(discriminator="type")]]


class _Function(_Part):
    name: str = Field(min_length=1)
    arguments: str = ""


class _Call(_Part):
    id: str
    type: Literal["function"] = "function"
    function: _Function


class _Instructions(_Part):
    role: Literal["system", "developer"]
    content: Content


class _User(_Part):
    role: Literal["user"]
    content: Said


class _Assistant(_Part):
    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: list[_Call] | None = None


class _Tool(_Part):
    role: Literal["tool"]
    tool_call_id: str
    content: Content


ChatMessage = Annotated[_Instructions | _User | _Assistant | _Tool, Field(discriminator="role")]


class FunctionSpec(_Part):
    """A function the client can call."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolSpec(_Part):
    """A tool of the client's."""

    type: Literal["function"]
    function: FunctionSpec


class StreamOptions(_Part):
    """How to stream."""

    include_usage: bool = False


class ResponseFormat(_Part):
    """Only text: what an agent answers is its own `output_type`'s matter."""

    type: Literal["text"] = "text"


class ChatRequest(_Part):
    """A chat completion; `model` is the name of an agent."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=2**31)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=2**31)
    n: Literal[1] | None = None
    response_format: ResponseFormat | None = None


def conversation(messages: list[ChatMessage]) -> list[Message]:
    """Return a client's conversation in Orbiter's words.

    Raises:
        RequestError: A result answers no call, or an image is not in the request itself.
    """
    names: dict[str, str] = {}
    found: list[Message] = []
    for message in messages:
        match message:
            case _Instructions():
                found.append(SystemMessage(content=_text(message.content)))
            case _User():
                found.append(_user(message.content))
            case _Assistant():
                calls = [
                    ToolCall(id=c.id, name=c.function.name, arguments=c.function.arguments)
                    for c in message.tool_calls or ()
                ]
                names |= {call.id: call.name for call in calls}
                found.append(AssistantMessage(content=_text(message.content), tool_calls=calls))
            case _Tool():
                key = message.tool_call_id
                if key not in names:
                    raise RequestError(
                        400, f"tool_call_id '{key[:100]}' answers no call of an earlier message",
                        param="messages",
                    )  # fmt: skip
                found.append(
                    ToolResult(
                        tool_call_id=key, tool_name=names[key], content=_text(message.content)
                    )
                )
    return found


def _text(content: Content | Said | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_words(part) for part in content)


def _words(part: _TextPart | _RefusalPart | _ImagePart) -> str:
    if isinstance(part, _ImagePart):
        return ""
    return part.text if isinstance(part, _TextPart) else part.refusal


def _user(content: Said) -> User:
    if isinstance(content, str) or not any(isinstance(part, _ImagePart) for part in content):
        return User(content=_text(content))
    parts = tuple(
        image_of(part.image_url.url, "image_url.url", "messages")
        if isinstance(part, _ImagePart)
        else TextPart(text=_words(part))
        for part in content
    )
    texts = (part.text for part in parts if isinstance(part, TextPart))
    return User(content="\n".join(texts), parts=parts)
