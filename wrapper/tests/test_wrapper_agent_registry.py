"""The agents a worker knows, and what of the environment each of them sees."""

from pathlib import Path

import pytest

from worker_wrapper.agents import UnknownAgentError, known_agents, load_agent
from worker_wrapper.agents.base import Agent, AgentOptions, Session, Turn
from worker_wrapper.process.environment import agent_environment

WORKDIR = Path("/workspace")


def needed(agent: Agent) -> tuple[str, ...]:
    return (*agent.credentials, *agent.passes)


def test_every_file_of_the_package_is_an_agent() -> None:
    assert known_agents() == ("claude", "codex", "factory", "gemini", "opencode", "orbiter")


@pytest.mark.parametrize("name", known_agents())
def test_an_agent_is_loaded_by_its_name(name: str) -> None:
    assert load_agent(name).name == name


def test_an_unknown_agent_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownAgentError, match="'clod': this worker knows claude, codex, factory"):
        load_agent("clod")


@pytest.mark.parametrize("name", ["base", "../claude", "__init__", ""])
def test_what_is_no_agent_is_not_imported(name: str) -> None:
    with pytest.raises(UnknownAgentError):
        load_agent(name)


@pytest.mark.parametrize("name", known_agents())
def test_prompts_and_credentials_are_never_arguments(name: str) -> None:
    secret = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "sk-secret")
    turn = Turn("-- the prompt", 1, Session("x"), WORKDIR, AgentOptions(), environ=secret)

    command = load_agent(name).build(turn)

    assert b"-- the prompt" in command.stdin
    assert not any("the prompt" in word or "sk-secret" in word for word in command.argv)


def test_the_agent_sees_its_own_credentials_and_little_else() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/agent",
        "HTTPS_PROXY": "http://proxy",
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": "http://models",
        "OPENAI_API_KEY": "another agent's",
        "REDIS_URL": "redis://user:password@host",
        "GIT_CREDENTIALS_DIR": "/git",
        "WORKER_ID": "w",
        "TASK_ENTRY_ID": "1-0",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "SESSION_ID": "s",
    }

    seen = agent_environment(needed(load_agent("claude")), environ, WORKDIR)

    assert {name for name in seen if not name.startswith("GIT_")} == {
        "PATH",
        "HOME",
        "HTTPS_PROXY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    }
    assert "GIT_CREDENTIALS_DIR" not in seen


@pytest.mark.parametrize("agent", known_agents())
def test_a_companys_proxy_and_certificates_are_the_agents_too(agent: str) -> None:
    told = {
        "HTTPS_PROXY": "http://proxy.example.com:3128",
        "NO_PROXY": ".svc",
        **dict.fromkeys(
            ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
             "AWS_CA_BUNDLE", "GIT_SSL_CAINFO"), "/etc/company/ca.crt"
        ),
        "SSL_CERT_DIR": "/etc/company",
    }  # fmt: skip
    seen = agent_environment(needed(load_agent(agent)), told, WORKDIR)
    assert {name: seen.get(name) for name in told} == told


def test_the_user_lists_what_else_it_may_see_but_not_what_is_ours() -> None:
    environ = {
        "AGENT_ENV": "NPM_TOKEN, MISSING,REDIS_URL,WORKER_ID,TASK_RECORD,GIT_CREDENTIALS_DIR,",
        "NPM_TOKEN": "t",
        "REDIS_URL": "r",
        "WORKER_ID": "w",
        "TASK_RECORD": "a",
        "GIT_CREDENTIALS_DIR": "/git",
    }

    seen = agent_environment(needed(load_agent("claude")), environ, WORKDIR)

    assert {name for name in seen if not name.startswith("GIT_")} == {"NPM_TOKEN"}
    assert "GIT_CREDENTIALS_DIR" not in seen


def test_commits_of_the_agent_have_an_author_and_its_workspace_is_trusted() -> None:
    seen = agent_environment(needed(load_agent("claude")), {}, WORKDIR)

    assert seen["GIT_AUTHOR_NAME"]
    assert seen["GIT_COMMITTER_EMAIL"]
    assert (seen["GIT_CONFIG_KEY_0"], seen["GIT_CONFIG_VALUE_0"]) == (
        "safe.directory",
        "/workspace",
    )


def test_of_its_task_an_agent_sees_what_its_adapter_needs_and_no_more() -> None:
    environ = {"TASK_ATTEMPT": "2", "TASK_RECORD": "agenttask:9f1c:2", "AGENT_ENV": "TASK_RECORD"}
    seen = agent_environment(needed(load_agent("orbiter")), environ, WORKDIR)
    assert seen["TASK_ATTEMPT"] == "2"
    assert "TASK_RECORD" not in seen
    assert "TASK_ATTEMPT" not in agent_environment(needed(load_agent("claude")), environ, WORKDIR)
