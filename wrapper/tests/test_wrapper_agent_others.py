"""Factory's droid and Codex: command lines and output. Samples are from the real CLIs."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orbiter_contracts import Usage
from worker_wrapper.agents import codex, factory
from worker_wrapper.agents.base import AgentOptions, Session, Turn
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Outcomes = Callable[..., Outcome]
THREAD = '{"type":"thread.started","thread_id":"01a2"}'
MESSAGE = '{"type":"item.completed","item":{"type":"agent_message","text":"%s"}}'
COMPLETED = (
    '{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":7,'
    '"cache_write_input_tokens":2,"output_tokens":20}}'
)


@pytest.fixture
def outcome(tmp_path: Path) -> Outcomes:
    def make(*lines: str, exit_code: int = 0, stderr: str = "") -> Outcome:
        spill = OutputBuffer(tmp_path)
        spill.write("".join(f"{line}\n" for line in lines).encode())
        tail = stderr.encode()
        return Outcome(exit_code, None, spill, tail, False, None, False, NOW, NOW)

    return make


def turn(
    session: Session | None = None, environ: dict[str, str] | None = None, **options: object
) -> Turn:
    return Turn(
        "do it",
        60,
        session,
        Path("/workspace"),
        AgentOptions(**options),  # type: ignore[arg-type]
        environ or {},
    )


def test_droid_runs_headless_and_may_do_everything_in_its_workspace() -> None:
    command = factory.AGENT.build(turn())

    assert command.argv == (
        *("droid", "exec", "-o", "json", "--auto", "high", "--cwd", "/workspace"),
    )
    assert command.stdin == b"do it"


def test_droid_takes_its_model_from_the_task_or_else_from_factory_model() -> None:
    environ = {"FACTORY_MODEL": "custom:mine"}

    assert factory.AGENT.build(turn(environ=environ)).argv[-2:] == ("-m", "custom:mine")
    assert factory.AGENT.build(turn(environ=environ, model="gpt")).argv[-2:] == ("-m", "gpt")


@pytest.mark.parametrize(
    ("model", "begin", "url", "told"),
    [
        ("my-model", "OPENAI", "https://llm.example.com/v1/", ("my-model", "/v1", "generic-chat")),
        ("openai/m", "OPENAI", "https://llm.example.com/v1", ("m", "/v1", "generic-chat")),
        ("vendor/m", "OPENAI", "https://llm.example.com/v1", ("vendor/m", "/v1", "generic-chat")),
        ("anthropic/m", "ANTHROPIC", "https://llm.example.com/v1", ("m", "", "anthropic")),
        ("m", "ANTHROPIC", "https://llm.example.com", ("m", "", "anthropic")),
    ],
)
def test_droid_is_told_of_a_model_at_an_address_of_ones_own_and_no_key_is_written(
    model: str, begin: str, url: str, told: tuple[str, str, str]
) -> None:
    environ = {f"{begin}_BASE_URL": url, f"{begin}_API_KEY": "top-secret"}
    argv = factory.AGENT.build(turn(environ=environ, model=model)).argv
    assert argv[-2:] == ("-m", "custom:worker")
    assert argv[4] == "settings.json"
    [own] = json.loads(argv[5])["customModels"]
    name, path, api = told
    assert (own["model"], own["baseUrl"]) == (name, f"https://llm.example.com{path}")
    assert own["provider"].startswith(api)
    assert own["apiKey"] == f"${{{begin}_API_KEY}}"
    assert "top-secret" not in " ".join(argv)


@pytest.mark.parametrize(
    ("model", "url"), [("custom:mine", "https://x/v1"), ("gpt", None), (None, "https://x/v1")]
)
def test_droid_has_factorys_models_and_those_of_its_home_as_before(
    model: str | None, url: str | None
) -> None:
    environ = {"OPENAI_BASE_URL": url} if url else {}
    assert factory.AGENT.build(turn(environ=environ, model=model)).argv[0] == "droid"


def test_droid_continues_a_conversation_under_the_id_it_gave() -> None:
    assert "--fork" not in factory.AGENT.build(turn(Session("chat"))).argv
    later = Session("chat", resumed=True, agent_session_id="bb6a")
    assert factory.AGENT.build(turn(later)).argv[-2:] == ("--fork", "bb6a")


def test_droids_result_is_read(outcome: Outcomes) -> None:
    said = {
        **{"type": "result", "subtype": "success", "is_error": False, "num_turns": 1},
        **{"result": "Hello.", "session_id": "bb6a"},
        "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 7},
    }

    result = factory.AGENT.parse(outcome(json.dumps(said)))

    assert (result.text, result.agent_session_id, result.is_error) == ("Hello.", "bb6a", False)
    assert result.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=7)
    assert result.totals is None


def test_droids_failure_is_one(outcome: Outcomes) -> None:
    said = '{"type":"result","subtype":"failure","is_error":true,"num_turns":0,"result":"No key."}'

    result = factory.AGENT.parse(outcome(said, exit_code=1))

    assert (result.is_error, result.error) == (True, "No key.")


def test_droid_refuses_an_unknown_session_in_silence(outcome: Outcomes) -> None:
    assert factory.AGENT.parse(outcome(exit_code=1)).session_conflict == "unknown"
    assert factory.AGENT.parse(outcome(exit_code=1, stderr="oh")).session_conflict is None


def test_codex_runs_headless_with_the_instructions_before_the_prompt() -> None:
    command = codex.AGENT.build(turn(system_prompt="Be brief.", model="gpt"))

    assert command.argv == (
        *("codex", "exec", "--json", "--skip-git-repo-check"),
        *("--dangerously-bypass-approvals-and-sandbox", "-m", "gpt", "-"),
    )
    assert command.stdin == b"Be brief.\n\ndo it"


def test_codex_resumes_the_thread_it_started() -> None:
    argv = codex.AGENT.build(turn(Session("chat", resumed=True, agent_session_id="01a2"))).argv

    assert argv[:3] == ("codex", "exec", "resume")
    assert argv[-2:] == ("01a2", "-")


def test_codex_gets_its_key_under_the_name_it_reads() -> None:
    both = {"OPENAI_API_KEY": "one", "CODEX_API_KEY": "two"}

    assert codex.AGENT.build(turn(environ={"OPENAI_API_KEY": "one"})).env == {
        "CODEX_API_KEY": "one"
    }
    assert codex.AGENT.build(turn(environ=both)).env == {}


def test_codex_is_told_of_another_server() -> None:
    argv = codex.AGENT.build(turn(environ={"OPENAI_BASE_URL": 'http://models/"v1"'})).argv

    assert "model_provider=custom" in argv
    assert any(r'base_url="http://models/\"v1\""' in word for word in argv)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://me:hush@models:8443/v1", "https://models:8443/v1"),
        ("https://me:hu%2Fsh@models/v1?key=hush#hush", "https://models/v1"),
        ("https://hush@[::1]:80/v1/", "https://[::1]:80/v1/"),
        ("https://me:hush/@models/v1", "http://openai-base-url-is-malformed.invalid"),
        ("https://[hush", "http://openai-base-url-is-malformed.invalid"),
    ],
)
def test_no_password_is_in_the_arguments_of_codex(url: str, told: str) -> None:
    """Whoever may list processes reads them; codex sends none of it beside its key."""
    argv = codex.AGENT.build(turn(environ={"OPENAI_BASE_URL": url})).argv

    assert "hush" not in " ".join(argv)
    assert any(f'base_url="{told}"' in word for word in argv)


def test_the_last_message_of_codex_is_its_answer(outcome: Outcomes) -> None:
    result = codex.AGENT.parse(
        outcome("noise", THREAD, MESSAGE % "first", MESSAGE % "last", COMPLETED)
    )

    assert (result.text, result.agent_session_id) == ("last", "01a2")
    assert (result.is_error, result.turns) == (False, 1)
    assert result.totals == Usage(
        input_tokens=93, output_tokens=20, cache_read_tokens=7, cache_write_tokens=2
    )


def test_codex_failing_a_turn_is_an_error_with_its_words(outcome: Outcomes) -> None:
    result = codex.AGENT.parse(
        outcome(
            THREAD,
            '{"type":"error","message":"Reconnecting... 1/5"}',
            '{"type":"turn.failed","error":{"message":"401 Unauthorized"}}',
            exit_code=1,
        )
    )

    assert (result.is_error, result.error) == (True, "401 Unauthorized")


def test_trouble_that_codex_got_over_is_no_error(outcome: Outcomes) -> None:
    trouble = '{"type":"error","message":"Reconnecting... 1/5"}'

    result = codex.AGENT.parse(outcome(THREAD, trouble, MESSAGE % "done", COMPLETED))

    assert (result.is_error, result.error) == (False, None)


def test_codex_ending_without_completing_is_an_error(outcome: Outcomes) -> None:
    result = codex.AGENT.parse(outcome(THREAD, MESSAGE % "half"))

    assert (result.is_error, result.error) == (True, None)


def test_codex_not_knowing_a_thread_is_recognised(outcome: Outcomes) -> None:
    stderr = "Error: thread/resume failed: no rollout found for thread id 01a2 (code -32600)"

    assert codex.AGENT.parse(outcome(exit_code=1, stderr=stderr)).session_conflict == "unknown"
