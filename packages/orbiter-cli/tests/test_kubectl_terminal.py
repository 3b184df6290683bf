"""`kubectl orbiter chat` at a terminal, with a real worker and a stand-in for Claude behind it."""

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from support.eventually import eventually
from support.fake_kubectl import FakeKubectl, a_session, a_task, kubectl
from support.front_end import StubWorker, server, worker
from support.queues import Queues
from support.redis_server import RedisServer
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import OutputStatus, POWorkerInput, POWorkerOutput, decode, encode
from orbiter_contracts.input_requests import digest
from orbiter_contracts.queues import Keys

pytestmark = pytest.mark.integration
__all__ = ["kubectl", "server", "worker"]
PROGRAM = "from orbiter.cli.kubectl.main import main; main()"
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>])")
AGAIN_SECONDS = 2.0
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
PATIENCE_SECONDS = 30.0


class Terminal:
    """A person at a terminal: types, and reads what appears."""

    def __init__(self, environ: dict[str, str], *words: str) -> None:
        self._near, far = os.openpty()
        # setsid gives the program this terminal as its own, so that Ctrl-C reaches it
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", sys.executable, "-c", PROGRAM, *words],
            stdin=far,
            stdout=far,
            stderr=far,
            env=environ,
        )
        os.close(far)
        self._seen = ""
        self.raw = ""

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._near, text.encode())

    def shows(self, text: str, again: str = "") -> str:
        """Wait until a text appears; return what appeared up to it since the last time.

        While nothing appears, the keys `again` are pressed now and then.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self._seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not in {self._seen!r}"
            pause = min(left, AGAIN_SECONDS) if again else left
            if not select.select([self._near], [], [], pause)[0]:
                self.types(again)
            else:
                try:
                    raw = os.read(self._near, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"{text!r} is not in {self._seen!r}") from None
                self.raw += raw
                self._seen = ESCAPES.sub("", self._seen + raw)
        before, self._seen = self._seen.split(text, 1)
        return before + text

    def ends(self) -> int:
        """Wait until the program has left; return its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._near)


@pytest.fixture
def terminal(kubectl: FakeKubectl, redis_server: RedisServer, tmp_path: Path) -> Iterator[Terminal]:
    """`kubectl orbiter chat alice`, just started."""
    kubectl.has(a_session())
    environ = {
        **os.environ,
        "TERM": "xterm",
        "COLUMNS": "120",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "ORBITER_REDIS_URL": redis_server.url,
    }
    terminal = Terminal(environ, "chat", "alice")
    yield terminal
    terminal.close()


async def test_a_conversation_from_the_first_word_to_quit(
    terminal: Terminal, redis: Redis, wrappers: Wrappers, fake_claude: FakeClaude, tmp_path: Path
) -> None:
    fake_claude.says("hello to you")
    assert "a message wakes it" in terminal.shows("/new begins a new session.")
    terminal.shows("> ")
    terminal.types("hello\r")
    terminal.shows("waking…")
    wrappers.start("po-1", WORKER_TYPE="po", USER_ID="7")
    terminal.shows("hello to you")
    assert "10 + 5 tokens" in terminal.shows("> ")
    assert [turn.prompt for turn in fake_claude.turns] == ["hello"]
    terminal.types(f"{UP}\r")
    terminal.shows("hello to you")
    terminal.shows("> ")
    terminal.types("/quit\r")
    assert terminal.ends() == 0
    history = tmp_path / "state" / "orbiter" / "chat_history"
    assert history.stat().st_mode & 0o077 == 0
    assert "hello" in history.read_text()


async def test_ctrl_c_stops_waiting_and_the_answer_is_shown_later(
    terminal: Terminal, redis: Redis, wrappers: Wrappers, fake_claude: FakeClaude
) -> None:
    wrappers.start("po-1", WORKER_TYPE="po", USER_ID="7")
    fake_claude.says("the slow one")
    fake_claude.hold()
    terminal.shows("> ")
    terminal.types("first\r")
    terminal.shows("thinking…")
    terminal.types(CTRL_C)
    terminal.shows("no longer waiting")
    terminal.shows("> ")
    fake_claude.release()
    await Queues(redis).answers(1)
    fake_claude.says("the second one")
    terminal.types("second\r")
    terminal.shows("(the answer to an earlier message)")
    terminal.shows("the slow one")
    terminal.shows("the second one")
    terminal.shows("> ")
    terminal.types(CTRL_D)
    assert terminal.ends() == 0


async def test_the_line_with_the_time_is_not_painted_over_an_answer_that_comes_in_pieces(
    terminal: Terminal, redis: Redis
) -> None:
    async def looks() -> int:
        """How often the terminal has asked where the worker stands."""
        stats = await redis.info("commandstats")
        return int(stats.get("cmdstat_hgetall", {}).get("calls", 0))

    async def say(text: str, **fields: Any) -> None:
        output = POWorkerOutput(request_id=request, user_id=7, text=text, **fields)
        await redis.xadd("worker:po:po-1:output", encode(output))

    terminal.shows("> ")
    terminal.types("count\r")
    [(_, fields)] = await eventually(lambda: redis.xrange("worker:po:po-1:input"))
    request = decode(POWorkerInput, fields).request_id
    await say("one", is_final=False, sequence=0)
    terminal.shows("one")
    before = await looks()

    async def looked_often() -> bool:
        return await looks() > before + 3

    await eventually(looked_often)
    await say("one two", sequence=1)
    assert terminal.shows("two") == " two"


async def test_ctrl_c_at_the_prompt_ends_nothing(terminal: Terminal, redis: Redis) -> None:
    terminal.shows("> ")
    terminal.types("half a li")
    terminal.shows("half a li")
    terminal.types(CTRL_C)
    # Python misses a signal that comes between its echo and its waiting for a key.
    terminal.shows("/quit or Ctrl-D leaves", again=CTRL_C)
    terminal.shows("> ")
    terminal.types("/quit\r")
    assert terminal.ends() == 0
    assert await redis.xlen("worker:po:po-1:input") == 0


async def test_a_session_that_is_suspended_meanwhile_is_told_and_may_come_back(
    terminal: Terminal,
    redis: Redis,
    kubectl: FakeKubectl,
    wrappers: Wrappers,
    fake_claude: FakeClaude,
) -> None:
    wrappers.start("po-1", WORKER_TYPE="po", USER_ID="7")
    fake_claude.says("here I am")
    terminal.shows("> ")
    kubectl.has(a_session(spec={"operatingMode": "Suspended"}))
    terminal.types("anybody?\r")
    terminal.shows("error: session alice is suspended")
    terminal.shows("> ")
    kubectl.has(a_session())
    terminal.types("and now?\r")
    terminal.shows("here I am")
    kubectl.delete("POSession", "alice")
    terminal.shows("> ")
    terminal.types("still?\r")
    terminal.shows("no POSession 'alice'")
    assert terminal.ends() == 3


async def test_once_with_ctrl_c_ends_with_130_and_leaves_the_message(
    kubectl: FakeKubectl, redis: Redis, redis_server: RedisServer
) -> None:
    kubectl.has(a_session())
    environ = {**os.environ, "TERM": "xterm", "ORBITER_REDIS_URL": redis_server.url}
    terminal = Terminal(environ, "chat", "alice", "--once", "hi")
    try:
        terminal.shows("waking…")
        terminal.types(CTRL_C)
        terminal.shows("interrupted; what was sent is answered all the same")
        assert terminal.ends() == 130
    finally:
        terminal.close()
    assert await redis.xlen("worker:po:po-1:input") == 1


def started(kubectl: FakeKubectl, *words: str) -> Terminal:
    path = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    return Terminal({**path, **kubectl.environment()}, *words)


def test_questions_are_answered_in_the_inbox_by_number(kubectl: FakeKubectl) -> None:
    call = {"tool": "refund", "arguments": {"order": 7}, "digest": digest("refund", {"order": 7})}
    approval = {"id": "q-2", "question": "May I?", "kind": "approval", "calls": [call]}
    asked = {"id": "q-1", "question": "Which colour?", "askedAt": "2026-01-10T12:00:00Z"}
    kubectl.has(a_task("paint", phase="InputRequired", inputRequest=asked))
    kubectl.has(a_task("pay", phase="InputRequired", inputRequest=approval))
    terminal = started(kubectl, "inbox")
    try:
        terminal.shows("answer which? 1-2, Enter leaves: ")
        terminal.types("7\r")
        terminal.shows("there is no number '7' in the list")
        terminal.types("2\r")
        terminal.shows("at/paint in namespace default asks:")
        terminal.shows("> ")
        terminal.types("blue\r")
        terminal.shows("at/paint answered")
        terminal.shows("answer which? 1-1, Enter leaves: ")
        terminal.types("1\r")
        terminal.shows('refund({"order": 7})')
        terminal.shows("> ")
        terminal.types("perhaps\r")
        terminal.shows("error: task pay: ")
        terminal.shows("Enter leaves: ")
        terminal.types("1\r")
        terminal.shows("> ")
        terminal.types("approve\r")
        terminal.shows("nothing waits for a person")
        assert terminal.ends() == 0
    finally:
        terminal.close()
    [painted] = kubectl.get("AgentTask", "paint")["spec"]["input"]
    assert painted == {"id": "q-1", "text": "blue", "by": "alice@example.com"}
    [paid] = kubectl.get("AgentTask", "pay")["spec"]["input"]
    assert call["digest"] in paid["text"]


def test_a_session_is_answered_only_while_it_still_asks_that(
    kubectl: FakeKubectl, server: RedisServer, worker: StubWorker
) -> None:
    def says(name: str, request: str, status: OutputStatus, text: str) -> None:
        output = POWorkerOutput(request_id=request, user_id=7, text=text, status=status)
        worker.redis.xadd(f"worker:po:{name}:output", encode(output))

    def messages(name: str) -> list[POWorkerInput]:
        entries = worker.redis.xrange(f"worker:po:{name}:input")
        return [decode(POWorkerInput, fields) for _, fields in entries]

    for name in ("anna", "bert", "carl"):
        told = {"turns": 1, "workerId": name}
        streams = {f"{way}Stream": f"worker:po:{name}:{way}" for way in ("input", "output")}
        kubectl.has(a_session(name, **told, **streams))
        says(name, f"asked-{name}", "input_required", f"What now, {name}?")
    terminal = started(kubectl, "inbox", "--redis-url", server.url)
    try:
        terminal.shows("answer which? 1-3, Enter leaves: ")
        # the second asks something else by now, and the third has an answer that waits for it
        says("bert", "another", "input_required", "Really?")
        waits = POWorkerInput(request_id="first", user_id=7, prompt="the first answer")
        worker.redis.xadd("worker:po:carl:input", encode(waits))
        for left, refused in ((3, ""), (2, "it asks something else by now"),
                              (1, "it has a message already")):  # fmt: skip
            terminal.types("1\r")
            terminal.shows("asks:")
            terminal.shows("> ")
            terminal.types("blue\r")
            terminal.shows(refused or "pos/anna answered")
            if left > 1:
                terminal.shows(f"answer which? 1-{left - 1}, Enter leaves: ")
        terminal.shows("nothing waits for a person")
        assert terminal.ends() == 0
    finally:
        terminal.close()
    assert [(each.prompt, each.user_id) for each in messages("anna")] == [("blue", 7)]
    assert messages("bert") == []
    assert [each.request_id for each in messages("carl")] == ["first"]


def test_top_looks_again_until_ctrl_c(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task("fix", phase="Running", message="the agent works"))
    terminal = started(kubectl, "top", "--interval", "1s")
    try:
        terminal.shows("at/fix")
        kubectl.has(a_task("later", phase="Running", message="another works"))
        terminal.shows("at/later")
        terminal.types(CTRL_C)
        assert terminal.ends() == 0
    finally:
        terminal.close()


def test_watch_at_a_terminal_has_colours_one_line_of_status_and_ctrl_c_stops_nothing(
    kubectl: FakeKubectl, redis_server: RedisServer
) -> None:
    keys = Keys.of_namespace("default")
    kubectl.has(a_task(phase="Running", attempts=1, inputStream=keys.developer_input))
    at = {"at": "2026-01-10T12:00:00Z", "attempt": 1, "cost_usd": 0.25}
    edit = {"file_path": "a.py", "old_string": "x", "new_string": "y\x1b[2J"}
    events = [
        {"type": "text", "text": "I look.\x1b]0;pwned\a\n", "sequence": 0} | at,
        {"type": "tool_call", "tool_name": "Edit", "arguments": json.dumps(edit), "sequence": 1}
        | at,
        {"type": "usage", "usage": {"input_tokens": 1200, "output_tokens": 34}, "sequence": 2} | at,
    ]
    entry = {"data": json.dumps(events), "next": "3", "end": "0"}
    with SyncRedis.from_url(redis_server.url) as redis:
        redis.xadd(keys.task_transcript("uid-hello", 1), entry)
    terminal = started(kubectl, "watch", "hello", "--redis-url", redis_server.url)
    try:
        terminal.shows("I look.")
        terminal.shows("→ Edit  a.py")
        terminal.shows("    - x")
        terminal.shows("    + y")
        assert "0.2500 USD · 1,200 + 34 tokens" in terminal.shows("tokens")
        assert "\x1b[36m→ Edit  a.py\x1b[0m" in terminal.raw
        assert "\x1b[31m    - x\x1b[0m" in terminal.raw
        assert "pwned" not in terminal.raw
        assert "\x1b[2J" not in terminal.raw
        terminal.types(CTRL_C)
        terminal.shows("no longer watching; `kubectl orbiter cancel hello` would stop the task")
        assert terminal.ends() == 130
    finally:
        terminal.close()
    assert "desiredState" not in kubectl.get("AgentTask", "hello")["spec"]


def test_watch_ends_when_whoever_reads_it_has_enough(
    kubectl: FakeKubectl, redis_server: RedisServer
) -> None:
    keys = Keys.of_namespace("default")
    kubectl.has(a_task(phase="Running", attempts=1, inputStream=keys.developer_input))
    key, at = keys.task_transcript("uid-hello", 1), {"at": "2026-01-10T12:00:00Z", "attempt": 1}
    words = ["watch", "hello", "--redis-url", redis_server.url]
    command = [sys.executable, "-c", PROGRAM, *words]
    environ = {**os.environ, **kubectl.environment(), "PYTHONUNBUFFERED": "1"}
    with (
        SyncRedis.from_url(redis_server.url) as redis,
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        for number in range(1000):
            event = {"type": "text", "text": f"{number}\n", "sequence": number} | at
            redis.xadd(key, {"data": json.dumps([event]), "next": str(number + 1), "end": "0"})
            if process.poll() is not None:
                break
        assert process.wait(PATIENCE_SECONDS) in (1, 143)
