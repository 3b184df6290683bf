"""Whatever goes wrong, a person reads one sentence that names the thing and the next step."""

import json
import sys

import pytest
from pydantic import BaseModel, ValidationError
from support.markdown_blocks import staged
from typer.testing import CliRunner

from orbiter.cli.commands.eval import keep_report
from orbiter.cli.main import app
from orbiter.cli.ui.sentences import sentence
from orbiter.listening import listen
from orbiter.models import ScriptedModel
from orbiter.server._internal.directory import owned

TOOLS = '''
from orbiter import Agent, tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

def needs(name, other):
    return Agent(name=name)

def raises():
    raise ValueError("boom")

def forgets(context):
    raise RuntimeError("no instructions today")

broken = Agent(name="broken", instructions=forgets)

async def later():
    return Agent(name="late")
'''
FILES = {
    "tools_of_sentences.py": TOOLS,
    "limits_of_sentences.py": "from orbiter.config import TaskConfig\nTaskConfig(timeout='soon')\n",
    "calc.yaml": "name: calc\nmodel: openai:gpt-4o\n",
    "swarm.yaml": "model: test\nagents: [calc.yaml]\n",
    "typo.yaml": "name: calc\ninstrutions: Add.\n",
    "member.yaml": "agents:\n- {name: one, modle: x}\n",
    "steps.yaml": "name: calc\nmax_steps: many\n",
    "sums.jsonl": '{"id": "a", "input": "2+2?", "expected": "4"}\n',
    "other.jsonl": '{"question": "2+2?", "answer": "4"}\n',
    "spans.jsonl": '{"a": 1}\n',
    "talk.json": '{"messages": [{"role": "x", "content": 5}]}',
    "tools.json": "{}",
    "settings.json": '{"theme": "dark"}',
    "servers.yaml": "name: calc\nmcpServers: {a: {command: none}}\n",
    "task.yaml": "apiVersion: orbiter.dev/v1alpha1\nkind: AgentTask\nmetadata: {name: a}\n",
}


@pytest.fixture
def orbiter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xee\x00\n")
    with staged("openai", "anthropic") as stage:

        def invoke(*words, replies=("4",), input=None):
            stage.script = ScriptedModel(*replies)
            told = [word.replace("@", "tools_of_sentences:") for word in words]
            return CliRunner().invoke(app, told, input=input)

        invoke.stage = stage
        yield invoke
    for name in ("tools_of_sentences", "limits_of_sentences"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("run @add hi", 2, "'tools_of_sentences:add' is a tool, not an Agent: list it under"),
        ("run @needs hi", 2, "needs arguments (name, other): name an Agent"),
        ("run @later hi", 2, "'tools_of_sentences:later' is an async function: name an Agent, a"),
        ("run @raises hi", 2, "'tools_of_sentences:raises' raised ValueError: boom ("),
        ("run @broken hi", 1, "no instructions today"),
        ("run limits_of_sentences:x hi", 2, "unable to parse string as a number, not 'soon'"),
        ("run swarm.yaml hi", 2, "swarm.yaml:1: model: a swarm has no such field; known: name,"),
        ("run typo.yaml hi", 2, "an agent has no such field; known: name, model, instructions,"),
        ("run member.yaml hi", 2, "agents.0.modle: an agent has no such field; known: name,"),
        ("run steps.yaml hi", 2, "max_steps: Input should be a valid integer, unable to parse"),
        ("run steps.yaml hi", 2, ", not 'many'"),
        (
            "run calc.yaml hi --trace /proc/t.jsonl",
            2,
            "error: --trace /proc/t.jsonl cannot be used",
        ),
        ("serve calc.yaml --trace /proc/t.jsonl", 2, "error: --trace /proc/t.jsonl cannot be used"),
        (
            "run calc.yaml hi --trace oltp",
            2,
            "error: --trace oltp: name a file that ends in .jsonl",
        ),
        (
            "eval calc.yaml sums.jsonl --journal /proc/j",
            2,
            "error: --journal /proc/j cannot be use",
        ),
        ("eval calc.yaml sums.jsonl --journal .", 2, "error: --journal . cannot be used: Is a dir"),
        ("eval calc.yaml sums.jsonl --journal /proc/j", 2, "; choose another place"),
        ("eval calc.yaml other.jsonl", 2, "line 1: input: it is missing"),
        ("eval calc.yaml none.jsonl", 2, "none.jsonl cannot be read: No such file or directory\n"),
        ("eval calc.yaml other.jsonl", 2, "line 1: input"),
        ("eval calc.yaml other.jsonl", 2, "the names are id, input, expected"),
        ("eval calc.yaml other.jsonl", 2, "--column question=input"),
        ("eval calc.yaml sums.jsonl --baseline none.jsonl", 2, "error: --baseline none.jsonl"),
        ("trace spans.jsonl", 2, "spans.jsonl, line 1 is no span: "),
        ("trace .", 2, "Is a directory"),
        ("trace bytes.jsonl", 2, "bytes.jsonl, line 1 is no span: it is no text in UTF-8"),
        ("chat calc.yaml --session bytes.jsonl", 2, "no conversation: it is no text in UTF-8"),
        (
            "chat calc.yaml --session talk.json",
            2,
            "talk.json holds no conversation: messages.0: Input",
        ),
        ("chat calc.yaml --session .", 2, "Is a directory"),
        ("tools calc.yaml --args {}", 2, "--args is for --call: name the tool with --call TOOL"),
        ("task run -f none.yaml", 2, "none.yaml: No such file"),
        ("mcp tools none.json", 2, "none.json"),
        ("serve none.yaml", 2, "none.yaml"),
    ],
)
def test_what_goes_wrong_is_one_sentence(orbiter, words, code, told):
    done = orbiter(*words.split())
    assert isinstance(done.exception, SystemExit), done.exception
    assert told in done.stderr
    assert done.exit_code == code
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "validation error" not in done.stderr
    assert "[Errno" not in done.stderr


@pytest.mark.parametrize(
    ("option", "file"),
    [("--report", "no/dir/x.md"), ("--report", "/proc/x.md"), ("--session", "no/dir/x.json")],
)
def test_what_cannot_be_written_in_the_end_is_told_before_the_first_model_call(
    orbiter, option, file
):
    words = ["chat", "calc.yaml"] if option == "--session" else ["eval", "calc.yaml", "sums.jsonl"]
    done = orbiter(*words, option, file, input="hi\n")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {option} {file}")
    assert orbiter.stage.script.requests == []


def test_a_file_without_a_conversation_is_not_written_over(orbiter, tmp_path):
    done = orbiter("chat", "calc.yaml", "--session", "settings.json", input="hi\n")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "settings.json holds no conversation: messages: it is missing" in done.stderr
    assert (tmp_path / "settings.json").read_text() == FILES["settings.json"]
    assert orbiter.stage.script.requests == []


class Limits(BaseModel):
    timeout: float
    tags: list[str] = []


def test_mistakes_in_fields_are_told_with_their_values():
    with pytest.raises(ValidationError) as raised:
        Limits.model_validate({"timeout": "soon", "tags": [{"a": 1}]})
    assert sentence(raised.value) == (
        "timeout: Input should be a valid number, unable to parse string as a number, not 'soon'; "
        "tags.0: Input should be a valid string, not a mapping"
    )


def test_an_unknown_error_names_its_place_and_how_to_see_more(orbiter, monkeypatch):
    done = orbiter("run", "@broken", "hi")
    assert "tools_of_sentences.py:16" in done.stderr
    assert "ORBITER_DEBUG=1 shows the traceback" in done.stderr
    monkeypatch.setenv("ORBITER_DEBUG", "1")
    assert "Traceback" in orbiter("run", "@broken", "hi").stderr


def test_a_report_is_written_where_there_was_an_older_one(orbiter, tmp_path):
    (tmp_path / "x.md").write_text("old")
    done = orbiter("eval", "calc.yaml", "sums.jsonl", "--report", "x.md", "--json")
    assert json.loads(done.stdout)["errors"] == 0
    assert "old" not in (tmp_path / "x.md").read_text()


@pytest.mark.parametrize(
    "words", ["serve calc.yaml --port {}", "mcp serve calc.yaml --http --port {}"]
)
def test_a_port_in_use_is_told_and_nothing_is_announced(orbiter, words):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        done = orbiter(*words.format(port).split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: port {port} of 127.0.0.1 is in use: stop the program that listens there, or "
        "choose another port (0 takes one that is free)\n"
    )


def test_a_second_server_in_a_directory_is_told_and_nothing_is_announced(orbiter, tmp_path):
    with owned(tmp_path / "orbiter-server"):
        done = orbiter("serve", "calc.yaml", "--port", "0")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: another server uses orbiter-server: stop it or give this one its own directory\n"
    )


def test_a_server_that_is_to_ask_a_cluster_needs_one(orbiter, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = orbiter("serve", "calc.yaml", "--port", "0", "--auth", "kubernetes")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: auth is kubernetes, and there is no cluster to ask: run the server in one, with "
        "its service account's token mounted, or give a kubeconfig\n"
    )
    done = orbiter("serve", "calc.yaml", "--auth", "nobody")
    assert done.exit_code == 2
    assert "'token', 'kubernetes'" in done.stderr


def test_a_directory_of_the_server_that_cannot_be_made_is_told(orbiter):
    done = orbiter("serve", "calc.yaml", "--port", "0", "--directory", "/proc/x")
    assert done.stderr == (
        "error: the server's directory /proc/x cannot be used: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        ("eval calc.yaml sums.jsonl", "orbiter.eval", "eval"),
        ("mcp tools tools.json", "orbiter.mcp", "mcp"),
        ("mcp serve calc.yaml", "orbiter.mcp", "mcp"),
        ("run servers.yaml hi", "orbiter.mcp", "mcp"),
        ("serve calc.yaml", "orbiter.server", "serve"),
        ("trace spans.jsonl", "orbiter.trace", "trace"),
        ("run calc.yaml hi --trace t.jsonl", "orbiter.trace", "trace"),
        ("task run -f task.yaml", "jsonschema", "local"),
    ],
)
def test_a_missing_extra_is_told_with_the_way_to_install_it(
    orbiter, monkeypatch, words, module, extra
):
    monkeypatch.setitem(sys.modules, module, None)
    done = orbiter(*words.split())
    assert done.exit_code == 2
    assert done.stderr == f"error: this needs {module}: pip install 'orbiter-cli[{extra}]'\n"


def test_a_report_whose_place_is_gone_in_the_end_is_kept_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    keep_report("what it cost money to know", tmp_path / "gone" / "nightly.html")
    [kept] = tmp_path.glob("nightly-*.html")
    assert kept.read_text() == "what it cost money to know"
    assert capsys.readouterr().err.endswith(f"gone first; it is in {kept} instead\n")
