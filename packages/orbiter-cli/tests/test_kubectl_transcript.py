"""`kubectl orbiter transcript`: what an agent said and did, also after its pod is gone."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, a_task, an_object, kubectl
from support.front_end import PASSWORD, StubWorker, server, worker
from support.redis_server import RedisServer
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.transcript import as_markdown
from orbiter_contracts.messages import Usage
from orbiter_contracts.queues import Keys
from orbiter_contracts.transcript import (
    AnyEvent,
    CutEvent,
    ErrorEvent,
    InputRequestEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
    VerdictEvent,
)
from orbiter_contracts.transcript_reading import entry_data
from orbiter_contracts.transcript_scripts import APPEND_TRANSCRIPT

__all__ = ["kubectl", "server", "worker"]
KEYS = Keys.of_namespace("default")
HEAD: dict[str, Any] = {"at": datetime(2026, 1, 10, 12, tzinfo=UTC), "attempt": 1}
STORY: list[AnyEvent] = [
    ThinkingEvent(**HEAD, text="Where is it?\nHere."),
    TextEvent(**HEAD, text="I look "),
    UsageEvent(**HEAD, usage=Usage(input_tokens=4)),
    TextEvent(**HEAD, text="at it."),
    ToolCallEvent(**HEAD, tool_name="Bash", tool_call_id="t", arguments='{"command":"cat a"}'),
    ToolResultEvent(**HEAD, tool_name="Bash", tool_call_id="t", content="```\nx\n```", seconds=0.5),
    ToolResultEvent(**HEAD, tool_name="Read", error="no such file"),
    UsageEvent(**HEAD, usage=Usage(input_tokens=5)),
    TextEvent(**HEAD, text="One."),
    TextEvent(**HEAD, text="Two.", opens=True),
    TextEvent(**HEAD, text="They.", agent_name="toolu_9"),
    ErrorEvent(**HEAD, error="the model is away"),
    CutEvent(**HEAD, events=2, bytes=100),
    InputRequestEvent(**HEAD, question="Which one?"),
    VerdictEvent(**HEAD, status="failed", reason="AgentError", text="It broke.", cost_usd=0.5),
]
MARKDOWN = """\
> Where is it?
> Here.

I look at it.

**Bash**
```json
{"command":"cat a"}
```

Bash (0.5 s) answered:
````
```
x
```
````

Read failed:
```
no such file
```

One.

Two.

**toolu_9:** They.

**Error:** the model is away

*2 events are missing here, 100 bytes*

**Asks:** Which one?

**failed** (AgentError), 0.5000 USD

It broke.
"""


def test_it_is_markdown_in_which_no_agent_can_leave_its_fence() -> None:
    assert "\n".join(as_markdown(STORY)) == MARKDOWN


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["transcript", *words], catch_exceptions=False)


@pytest.fixture
def task(kubectl: FakeKubectl, server: RedisServer) -> FakeKubectl:
    found = a_task(phase="Completed", attempts=2, inputStream=KEYS.developer_input)
    data = {"transcript-url": server.url}
    kubectl.has(found, an_object("Secret", "orbiter-transcript", data=data))
    return kubectl


def append(worker: StubWorker, key: str, *events: AnyEvent, first: int = 0) -> None:
    """Write one entry."""
    numbered = [one.model_copy(update={"sequence": first + n}) for n, one in enumerate(events)]
    words = (entry_data(numbered), first, len(events), 0, "")
    worker.redis.eval(APPEND_TRANSCRIPT, 1, key, *words)


@pytest.mark.integration
def test_the_latest_attempt_is_shown_or_the_one_that_is_asked_for(
    task: FakeKubectl, worker: StubWorker
) -> None:
    append(worker, KEYS.task_transcript("uid-hello", 1), TextEvent(**HEAD, text="first"))
    append(worker, KEYS.task_transcript("uid-hello", 2), TextEvent(**HEAD, text="second"))
    assert run("hello").stdout == "# at/hello, attempt 2\n\nsecond\n\n"
    assert "first" in run("hello", "--attempt", "1").stdout
    assert PASSWORD not in " ".join(" ".join(call.argv) for call in task.calls)


@pytest.mark.integration
def test_programs_read_it_as_json_with_what_is_missing(
    task: FakeKubectl, worker: StubWorker
) -> None:
    key = KEYS.task_transcript("uid-hello", 2)
    for first in range(0, 120, 2):
        append(worker, key, *(TextEvent(**HEAD, text=f"{first + n}") for n in (0, 1)), first=first)
    worker.redis.xtrim(key, maxlen=55, approximate=False)
    worker.redis.xadd(key, {"data": b"\xff[", "next": "x"})
    told = json.loads(run("hello", "-o", "json").stdout)
    assert (told["name"], told["attempt"]) == ("hello", 2)
    assert told["events"][0]["type"] == "cut"
    assert told["events"][0]["events"] == 10
    assert [event["sequence"] for event in told["events"]] == [0, *range(10, 120)]


@pytest.mark.integration
def test_what_an_agent_wrote_for_the_terminal_does_not_reach_it(
    task: FakeKubectl, worker: StubWorker
) -> None:
    hostile = "a\x1b[2Jb\u202ec\x9b1m"
    key = KEYS.task_transcript("uid-hello", 2)
    events = [
        TextEvent(**HEAD, text=hostile, agent_name=hostile),
        ToolCallEvent(**HEAD, tool_name=hostile, arguments=hostile),
        ToolResultEvent(**HEAD, tool_name=hostile, error=hostile),
        VerdictEvent(**HEAD, status="failed", reason=hostile, text=hostile),
    ]
    append(worker, key, *events)
    shown = run("hello").stdout
    assert not {"\x1b", "\u202e", "\x9b"} & {*shown}


@pytest.mark.integration
def test_a_sessions_transcript_is_found_by_its_stream(
    kubectl: FakeKubectl, server: RedisServer, worker: StubWorker
) -> None:
    session = an_object("POSession", "alice")
    session["status"] = {"inputStream": KEYS.po_input("default.alice")}
    secret = an_object("Secret", "orbiter-transcript", data={"transcript-url": server.url})
    kubectl.has(session, secret)
    said = TextEvent(at=HEAD["at"], attempt=0, request_id="r-1", text="hello")
    append(worker, KEYS.po_transcript("default.alice"), said)
    assert run("pos/alice").stdout == "# pos/alice\n\nhello\n\n"


@pytest.mark.integration
def test_where_there_is_none_it_says_why(task: FakeKubectl, worker: StubWorker) -> None:
    result = run("hello")
    assert result.exit_code == 3
    assert (
        "at/hello has no transcript of attempt 2: its agent has said nothing yet" in result.output
    )
    key = KEYS.task_transcript("uid-hello", 2)
    append(worker, key, TextEvent(**HEAD, text="x"))
    worker.redis.xtrim(key, maxlen=0, approximate=False)
    assert "all of it has given way" in run("hello").output
    assert run("hello", "-o", "yaml").exit_code == 2


@pytest.mark.integration
def test_a_task_that_has_not_begun_has_none(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Pending"))
    result = run("hello")
    assert result.exit_code == 3
    assert "it is Pending, and no attempt has begun" in result.output


@pytest.mark.integration
def test_without_the_readers_secret_the_command_says_what_to_give(
    kubectl: FakeKubectl,
) -> None:
    kubectl.has(a_task(phase="Completed", attempts=1))
    result = run("hello")
    assert result.exit_code == 6
    assert "there is no Secret orbiter-transcript or orbiter-redis" in result.output
