"""`kubectl orbiter` as a kubectl plugin: kubectl's own flags, its errors, a quick start."""

import doctest
import importlib
import subprocess
import sys

import pytest
from support.fake_kubectl import FakeKubectl, a_task, kubectl
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app

__all__ = ["kubectl"]
PACKAGE = "orbiter.cli.kubectl"
COMMANDS = (
    "chat", "rotate", "submit", "watch", "answer", "cancel", "retry", "logs", "usage", "describe",
    "inbox", "top", "artifacts", "transcript", "cost",
)  # fmt: skip


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.mark.parametrize(
    "words",
    [
        ("-n", "team", "--context", "prod", "--kubeconfig", "/k", "describe", "hello"),
        ("describe", "hello", "-n", "team", "--context=prod", "--kubeconfig=/k"),
        ("-n", "other", "describe", "hello", "-n", "team", "--context=prod", "--kubeconfig=/k"),
        ("--context", "prod", "describe", "--namespace", "team", "--kubeconfig", "/k", "hello"),
    ],
)
def test_kubectls_flags_are_passed_on_wherever_they_stand(
    kubectl: FakeKubectl, words: tuple[str, ...]
) -> None:
    kubectl.has(a_task() | {"metadata": a_task()["metadata"] | {"namespace": "team"}})
    assert run(*words).exit_code == 0
    flags = ["--kubeconfig=/k", "--context=prod", "--namespace=team"]
    assert [call.argv[:3] for call in kubectl.calls] == [flags] * len(kubectl.calls)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_them_and_says_so(command: str) -> None:
    shown = run(command, "--help").stdout
    assert all(flag in shown for flag in ("--namespace", "--context", "--kubeconfig"))


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        (
            'error: the server doesn\'t have a resource type "agenttasks"',
            6,
            "Orbiter is not installed there",
        ),
        (  # of `get --raw`, by which costs are listed
            "Error from server (NotFound): the server could not find the requested resource",
            6,
            "could not find the requested resource: Orbiter is not installed there",
        ),
        ("Unable to connect to the server: dial tcp: no such host", 6, "no such host"),
        (
            'Error from server (Forbidden): agenttasks is forbidden: User "eve" cannot get',
            6,
            'error: agenttasks is forbidden: User "eve" cannot get',
        ),
        ("error: You must be logged in to the server (Unauthorized)", 6, "must be logged in"),
        ('Error from server (NotFound): namespaces "x" not found', 3, 'namespaces "x" not found'),
        (
            'E1122 04:56:03.65 9660 memcache.go:265] "Unhandled Error"\nThe connection was refused',
            6,
            "error: The connection was refused",
        ),
        (
            'error: error validating "STDIN": error validating data: failed to download openapi: '
            "connection refused; if you choose to ignore these errors, turn validation off with "
            "--validate=false",
            6,
            "error: failed to download openapi: connection refused\n",
        ),
        ("error: something else", 1, "error: something else"),
        ("", 1, "kubectl get failed without a word"),
    ],
)
def test_what_kubectl_says_becomes_an_error_with_a_code(
    kubectl: FakeKubectl, said: str, code: int, told: str
) -> None:
    kubectl.fails(said)
    result = run("describe", "hello")
    assert (result.exit_code, result.stdout) == (code, "")
    assert told in result.stderr
    assert "error: error:" not in result.stderr


def test_a_missing_kubectl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = run("describe", "hello")
    assert result.exit_code == 6
    assert "kubectl is not on PATH; install it" in result.stderr


@pytest.mark.integration
@pytest.mark.parametrize("name", ["redis", "orbiter_contracts"])
def test_a_missing_extra_is_named_by_the_commands_that_need_it(
    kubectl: FakeKubectl, name: str
) -> None:
    kubectl.has(a_task(phase="Completed"))
    program = f"import sys\nsys.modules[{name!r}] = None\nfrom {PACKAGE}.main import main\nmain()"

    def start(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *words]
        return subprocess.run(command, capture_output=True, text=True, input="")

    chat = start("chat", "alice", "--once", "hi")
    assert (chat.returncode, chat.stdout) == (2, "")
    assert "pip install 'orbiter-cli[kubernetes]'" in chat.stderr
    assert "Traceback" not in chat.stderr
    assert start("watch", "hello").returncode == 0


def test_no_command_shows_the_help() -> None:
    result = run()
    assert all(command in result.output for command in COMMANDS)


@pytest.mark.integration
def test_help_loads_nothing_that_takes_time() -> None:
    program = (
        f"import sys\nfrom {PACKAGE}.main import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit:\n    print(sorted(set(sys.modules) & set(sys.argv[1:])))\n"
    )
    slow = ["redis", "rich.console", "yaml", "orbiter_contracts", "kubernetes", "orbiter.models"]
    command = [sys.executable, "-c", program, *slow]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "name", ["ui.text", "ui.input", "kubectl.references", "kubectl.conversation"]
)
def test_the_examples_of_the_modules_tell_what_is_so(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"orbiter.cli.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
