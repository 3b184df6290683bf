"""What a remote agent is told, and how its answer is put together: without a network."""

import httpx
import pytest
from a2a.types.a2a_pb2 import Artifact, Message, Part, StreamResponse, TaskArtifactUpdateEvent

from orbiter import Agent, Swarm
from orbiter.a2a import A2AServer
from orbiter.a2a._internal.reply import Reply
from orbiter.a2a._internal.transcript import asked, fingerprint, last_words
from orbiter.types import (
    AssistantMessage,
    OrbiterError,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)

HELLO = [SystemMessage(content="Be kind."), UserMessage(content="Hello")]
TALK = [
    *HELLO,
    AssistantMessage(content="", tool_calls=[ToolCall(id="c", name="look_up")]),
    ToolResult(tool_call_id="c", tool_name="look_up", content="the secret"),
    AssistantMessage(content="Hi."),
    UserMessage(content="And now?"),
]


def test_a_first_message_is_sent_as_it_is():
    assert asked(HELLO) == "Hello"


def test_a_conversation_is_told_without_instructions_and_tools():
    told = asked(TALK)
    assert told == "The conversation so far:\n\nUser: Hello\n\nAgent: Hi.\n\nUser: And now?"
    assert last_words(TALK) == "And now?"


def test_conversations_are_known_by_what_was_said():
    same = [message for message in TALK if not isinstance(message, SystemMessage)]
    assert fingerprint(TALK) == fingerprint(same) != fingerprint(HELLO)


def piece(text, *, append, key="a"):
    artifact = Artifact(artifact_id=key, parts=[Part(text=text)])
    update = TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=append)
    return StreamResponse(artifact_update=update)


def test_pieces_grow_and_a_part_begun_anew_replaces_the_old_one():
    reply = Reply()
    told = [reply.take(event) for event in (
        piece("Let me ", append=False), piece("see.", append=True),
        piece("Sunny.", append=False), piece("22 degrees", append=False, key="b"),
    )]  # fmt: skip
    assert told == ["Let me ", "see.", "\n\nSunny.", "\n\n22 degrees"]
    assert reply.text == "Sunny.\n\n22 degrees"


def test_data_and_addresses_become_text():
    part = Part()
    part.data.struct_value.update({"city": "Oslo"})
    message = Message(parts=[part, Part(url="https://example.org/a.png")])
    reply = Reply()
    assert reply.take(StreamResponse(message=message)) == (
        '{"city": "Oslo"}https://example.org/a.png'
    )
    assert reply.ended


def test_a_swarm_needs_a_name():
    swarm = Swarm(agents=[Agent(name="a")])
    with pytest.raises(OrbiterError, match="give A2AServer"):
        A2AServer(swarm)
    assert A2AServer(swarm, name="team").card.name == "team"


async def test_without_a_token_only_this_machine_is_served():
    server = A2AServer(Agent(name="a"))
    with pytest.raises(OrbiterError, match="can be reached by others"):
        server.serve(host="0.0.0.0")
    for peer, headers in [("192.0.2.1", {}), ("127.0.0.1", {"Origin": "https://evil.example"})]:
        transport = httpx.ASGITransport(server.app, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            assert (await http.post("/", json={}, headers=headers)).status_code == 403
