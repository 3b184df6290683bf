"""The program as people start it: a process, a terminal, a signal, a shell that completes."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from support.ports import free_port

pytestmark = pytest.mark.integration
ORBITER = str(Path(sys.executable).with_name("orbiter"))
AGENTS = '''
import asyncio
from orbiter import Agent, tool
from orbiter.models import ModelProvider, ModelResponse, StreamChunk, model_registry
from orbiter.types import Usage

class Parrot(ModelProvider):
    model = "parrot"
    async def complete(self, messages, **options):
        text = messages[-1].content.upper()
        return ModelResponse(content=text, usage=Usage(input_tokens=1, output_tokens=1))

class Slow(Parrot):
    async def stream(self, messages, **options):
        if "slow" not in messages[-1].content:
            async for chunk in super().stream(messages, **options):
                yield chunk
            return
        yield StreamChunk(delta="It ")
        await asyncio.Event().wait()

model_registry.register("parrot", lambda config: Parrot())
model_registry.register("slow", lambda config: Slow())

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

parrot = Agent(name="parrot", model="parrot:x", tools=[add])
slow = Agent(name="slow", model="slow:x")
'''
# what costs time to import and is not needed to show help
HEAVY = {
    "anthropic", "fakeredis", "httpx", "jsonschema", "kubernetes", "mcp", "openai",
    "opentelemetry", "redis", "rich", "starlette", "uvicorn", "yaml",
}  # fmt: skip


@pytest.fixture
def here(tmp_path):
    (tmp_path / "birds.py").write_text(AGENTS)
    return tmp_path


def orbiter(*words, cwd, input="", env=()):
    return subprocess.run(
        [ORBITER, *words], cwd=cwd, input=input, capture_output=True, text=True, timeout=60,
        env={**os.environ, **dict(env)},
    )  # fmt: skip


def test_help_loads_nothing_heavy(here):
    program = (
        "import sys\nfrom orbiter.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))\n"
        "print(sorted(name for name in sys.modules if name.startswith('orbiter.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    *_, roots, ours = done.stdout.splitlines()
    assert not HEAVY & set(eval(roots))
    mine = {name for name in eval(ours) if not name.startswith("orbiter.cli")}
    assert not {name for name in mine if name.split(".")[1] in ("models", "eval", "server", "mcp")}


def test_commands_are_completed_by_the_shell(here):
    env = {
        "_ORBITER_COMPLETE": "complete_bash", "COMP_WORDS": "orbiter ev", "COMP_CWORD": "1",
    }  # fmt: skip
    assert orbiter(cwd=here, env=env).stdout.split() == ["eval"]
    options = {**env, "COMP_WORDS": "orbiter run --ti", "COMP_CWORD": "2"}
    assert orbiter(cwd=here, env=options).stdout.split() == ["--timeout"]


def test_ctrl_c_ends_a_run_with_130_and_no_traceback(here):
    run = subprocess.Popen(
        [ORBITER, "run", "birds:slow", "be slow"], cwd=here, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert run.stdout.read(3) == "It "
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert (run.returncode, out, err) == (130, "\n", "")


def test_a_reader_that_has_enough_is_no_error(here):
    done = subprocess.run(
        ["bash", "-c", f"{ORBITER} run birds:parrot 'a b' --events | head -n 1"],
        cwd=here, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["type"] == "step"
    assert done.stderr == ""


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, *words, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execv(ORBITER, [ORBITER, *words])
        self.seen = ""

    def until(self, text):
        """Wait until the text appears; what was before it is forgotten."""
        deadline = time.monotonic() + 60
        while text not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096).decode()
                except OSError:
                    raise AssertionError(f"it ended: {self.seen!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self, again=""):
        """Read to the end and return the exit code; type `again` each second until then."""
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, "it did not end"
            if not select.select([self.fd], [], [], 1)[0]:
                self.type(again)
                continue
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_person_talks_at_a_terminal_and_stops_an_answer_with_ctrl_c(here):
    chat = Terminal("chat", "birds:slow", cwd=here)
    chat.until("> ")
    chat.type("hello\r")
    chat.until("HELLO")
    chat.until("> ")
    chat.type("be slow\r")
    chat.until("It ")
    chat.type("\x03")
    chat.until("(stopped)")
    chat.until("> ")
    chat.type("again\r")
    chat.until("AGAIN")
    chat.until("> ")
    chat.type("\x04")
    assert chat.end() == 0


def test_ctrl_c_at_the_prompt_leaves(here):
    chat = Terminal("chat", "birds:parrot", cwd=here)
    chat.until("> ")
    chat.type("\x03")
    # Python misses a signal that comes between its prompt and its waiting for a key
    assert chat.end(again="\x03") == 130


def test_what_an_agent_says_is_text_to_a_terminal(here):
    chat = Terminal("run", "birds:parrot", "a \x1b]0;owned\x07 \x1b[31mred", cwd=here)
    assert "\x1b" not in chat.until("RED")
    assert chat.end() == 0


def test_kill_9_of_an_evaluation_loses_nothing(here):
    cases = [{"id": str(n), "input": f"c{n}", "expected": f"C{n}"} for n in range(400)]
    (here / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    words = ["eval", "birds:parrot", "cases.jsonl", "--journal", "j.jsonl", "-c", "1"]
    process = subprocess.Popen([ORBITER, *words], cwd=here, stdout=subprocess.DEVNULL)
    journal = here / "j.jsonl"
    while process.poll() is None and not (journal.exists() and journal.stat().st_size > 5_000):
        time.sleep(0.005)
    process.kill()
    process.wait()
    killed_at = journal.read_bytes().count(b"\n") - 1
    assert 0 < killed_at < 400
    done = orbiter(*words, cwd=here)
    assert done.stdout.startswith("exact  1.000")
    ids = [json.loads(line)["case_id"] for line in journal.read_text().splitlines()[1:]]
    assert sorted(ids) == sorted(case["id"] for case in cases)


def answered(url, process, data=None):
    deadline = time.monotonic() + 60
    while True:
        try:
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)
        except OSError:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_agents_are_served(here):
    port = free_port()
    served = subprocess.Popen(
        [ORBITER, "serve", "birds:parrot", "other=birds:slow", "--port", str(port), "--json"],
        cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        told = json.loads(served.stdout.readline())
        assert told == {"url": f"http://127.0.0.1:{port}", "agents": ["parrot", "other"]}
        request = {"model": "parrot", "messages": [{"role": "user", "content": "hi"}]}
        answer = answered(
            told["url"] + "/v1/chat/completions", served, json.dumps(request).encode()
        )
        assert answer["choices"][0]["message"]["content"] == "HI"
        served.send_signal(signal.SIGTERM)
        served.communicate(timeout=30)
        assert served.returncode in (0, -signal.SIGTERM)
    finally:
        served.kill()
        served.communicate()


MCP_FILE = """
name: helper
model: parrot:x
tools: ["birds:add"]
mcpServers:
  parrots: {{command: {python}, args: [{orbiter}, mcp, serve, "birds:parrot"], cwd: {cwd},
            env: {{PYTHONPATH: "{path}"}}}}
"""


def test_an_agent_is_an_mcp_server_and_its_tools_are_there_for_another(here):
    path = os.environ.get("PYTHONPATH", "")
    text = MCP_FILE.format(python=sys.executable, orbiter=ORBITER, cwd=here, path=path)
    (here / "helper.yaml").write_text(text)
    called = orbiter(
        "tools", "helper.yaml", "--call", "parrots_parrot", "--args", '{"input": "hi"}', cwd=here
    )
    assert (called.stdout, called.stderr) == ("HI\n", "")


def test_an_agent_with_mcp_servers_is_served_with_their_tools(here):
    path = os.environ.get("PYTHONPATH", "")
    text = MCP_FILE.format(python=sys.executable, orbiter=ORBITER, cwd=here, path=path)
    (here / "helper.yaml").write_text(text)
    port = free_port()
    served = subprocess.Popen(
        [ORBITER, "serve", "helper.yaml", "--port", str(port)],
        cwd=here, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        told = answered(f"http://127.0.0.1:{port}/v1/agents", served)
        assert "parrots_parrot" in json.dumps(told)
    finally:
        served.terminate()
        served.communicate(timeout=30)


def test_what_an_mcp_server_refuses_is_told_in_one_line(here):
    env = {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{here}"}
    (here / "servers.json").write_text(
        json.dumps(
            {
                "mcpServers": {
                    "bird": {
                        "command": sys.executable,
                        "args": [ORBITER, "mcp", "serve", "birds:parrot"],
                        "env": env,
                    }
                }
            }
        )
    )
    wrong = orbiter("mcp", "call", "servers.json", "bird_parrot", "{}", "--json", cwd=here)
    assert wrong.returncode == 1
    assert json.loads(wrong.stdout)["output"] is None
    gone = orbiter("mcp", "tools", "/nowhere/server", cwd=here)
    assert (gone.returncode, gone.stderr.count("\n")) == (1, 1)
    assert "Traceback" not in gone.stderr
