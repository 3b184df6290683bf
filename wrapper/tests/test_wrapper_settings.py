"""What the environment may say, and how a mistake in it is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from orbiter_contracts.queues import Keys
from worker_wrapper.settings import BoundTask, RotationRules, SettingsError, SnapshotSettings, load

BASE = {
    "WORKER_ID": "w-1",
    "WORKER_TYPE": "developer",
    "REDIS_URL": "redis://developer:s3cret-word@redis:6379/0",
    "ANTHROPIC_API_KEY": "sk-one",
}
TASK = {
    "TASK_ENTRY_ID": "1700000000000-0",
    "TASK_RECORD": "agenttask:9f1c:2",
    "TASK_NAME": "team/fix-login",
    "TASK_ATTEMPT": "2",
}


def test_the_required_variables_are_enough() -> None:
    settings = load(BASE)
    assert settings.worker_type == "developer"
    assert settings.agent.name == "claude"
    assert settings.task is None
    assert settings.session_id is None
    assert settings.rotation == RotationRules(1800, 100_000, None, ("/new",))
    assert (settings.streaming, settings.snapshot) == (False, None)
    assert settings.grace_seconds == 60
    assert settings.spill_dir == Path("/tmp")
    assert settings.log_level == "info"


@pytest.mark.parametrize("name", ["WORKER_ID", "WORKER_TYPE", "REDIS_URL"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_or_empty_required_variable_is_named(name: str, value: str | None) -> None:
    environ = {**BASE, name: value} if value is not None else {**BASE}
    if value is None:
        del environ[name]
    with pytest.raises(SettingsError, match=f"^{name} is missing"):
        load({key: text for key, text in environ.items() if text is not None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKER_ID", "two words"),
        ("WORKER_TYPE", "manager"),
        ("REDIS_URL", "redis:6379"),
        ("REDIS_URL", "http://redis:6379"),
        ("REDIS_URL", "redis://redis:port/0"),
        ("REDIS_URL", "redis://redis:6379/first"),
        ("REDIS_URL", "redis://"),
        ("REDIS_URL", "unix://"),
        ("REDIS_URL", "redis+sentinel://one:26379,two:26379"),
        ("REDIS_URL", "redis+sentinel://one:26379,two:port/mymaster/0"),
        ("REDIS_URL", "redis+sentinel://one/mymaster/first"),
        ("AGENT_TYPE", "clippy"),
        ("SESSION_RECORD_PREFIX", "worker:"),
        ("SESSION_RECORD_PREFIX", "session:user:a:b:"),
        ("SESSION_ID", "x" * 201),
        ("SESSION_ID", "-x"),
        ("SESSION_ID", "two\nlines"),
        ("AGENT_MAX_TURNS", "many"),
        ("AGENT_MAX_TURNS", "0"),
        ("AGENT_MAX_COST_USD", "-1"),
        ("AGENT_MAX_COST_USD", "nan"),
        ("AGENT_ENV", "GITHUB_TOKEN, REDIS_URL"),
        ("USER_ID", "alice"),
        ("TERMINATION_GRACE_SECONDS", "soon"),
        ("TASK_ENTRY_ID", "seventeen"),
        ("LOG_LEVEL", "loud"),
        ("STREAMING", "yes"),
        ("SESSION_IDLE_SECONDS", "0"),
        ("SESSION_MAX_TOKENS", "lots"),
        ("SESSION_TOPIC_SIMILARITY", "1.5"),
        ("SNAPSHOT_KEY", "two words"),
        ("SNAPSHOT_KEY", "worker:po:w-1:snapshot"),
    ],
)
def test_a_malformed_variable_is_named_in_one_line(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({**BASE, name: value})
    assert str(caught.value).startswith(name) or name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_agent_type_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"AGENT_TYPE.*clippy.*claude.*codex.*factory"):
        load({**BASE, "AGENT_TYPE": "clippy"})


def test_a_malformed_redis_url_is_not_repeated_because_it_may_hold_a_password() -> None:
    with pytest.raises(SettingsError) as caught:
        load({**BASE, "REDIS_URL": "rediss:/developer:s3cret-word@redis"})
    assert "s3cret-word" not in str(caught.value)


def test_settings_do_not_show_the_redis_url() -> None:
    assert "s3cret-word" not in repr(load(BASE))


@pytest.mark.parametrize(
    ("agent", "first", "other"),
    [
        ("claude", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
        ("factory", "FACTORY_API_KEY", "OPENAI_API_KEY"),
    ],
)
def test_an_agent_needs_one_of_its_credentials(agent: str, first: str, other: str) -> None:
    environ = {**BASE, "AGENT_TYPE": agent}
    del environ["ANTHROPIC_API_KEY"]
    with pytest.raises(SettingsError, match=first):
        load(environ)
    assert load({**environ, other: "token"}).agent.name == agent


def test_claude_needs_no_key_where_it_asks_bedrock_and_another_agent_does() -> None:
    environ = {**BASE, "CLAUDE_CODE_USE_BEDROCK": "1"}
    del environ["ANTHROPIC_API_KEY"]
    assert load(environ).agent.name == "claude"
    with pytest.raises(SettingsError, match="GEMINI_API_KEY is missing"):
        load({**environ, "AGENT_TYPE": "gemini"})


def test_a_bound_task_is_read_whole() -> None:
    assert load({**BASE, **TASK}).task == BoundTask(
        "1700000000000-0", "agenttask:9f1c:2", "team/fix-login", 2
    )


def test_an_entry_id_alone_binds_to_an_entry_without_a_record() -> None:
    assert load({**BASE, "TASK_ENTRY_ID": "17-0"}).task == BoundTask("17-0")


@pytest.mark.parametrize("missing", sorted(TASK))
def test_a_bound_task_with_a_hole_is_refused(missing: str) -> None:
    environ = {**BASE, **TASK}
    del environ[missing]
    with pytest.raises(SettingsError, match=missing):
        load(environ)


def test_what_a_session_may_be_told() -> None:
    settings = load(
        {
            **BASE,
            "WORKER_TYPE": "po",
            "STREAMING": "Enabled",
            "SESSION_IDLE_SECONDS": "60",
            "SESSION_MAX_TOKENS": "5000",
            "SESSION_TOPIC_SIMILARITY": "0.05",
            "SNAPSHOT_KEY": "worker:po:w-1:snapshot",
            "SNAPSHOT_MAX_BYTES": "1000",
        }
    )
    assert settings.streaming
    assert settings.rotation == RotationRules(60, 5000, 0.05, ("/new",))
    assert settings.snapshot == SnapshotSettings("worker:po:w-1:snapshot", 1000)


def test_a_task_with_a_record_may_have_a_snapshot() -> None:
    settings = load({**BASE, **TASK, "SNAPSHOT_KEY": "agenttask:9f1c:snapshot"})
    assert settings.snapshot == SnapshotSettings("agenttask:9f1c:snapshot", 16 * 1024 * 1024)


def test_session_commands_are_a_list() -> None:
    settings = load({**BASE, "SESSION_COMMANDS": "/new, /reset"})
    assert settings.rotation.commands == ("/new", "/reset")


@pytest.mark.parametrize(("value", "commands"), [("", ("/new",)), (",", ())])
def test_no_session_commands_is_a_comma_and_nothing_the_default(value: str, commands) -> None:
    assert load({**BASE, "SESSION_COMMANDS": value}).rotation.commands == commands


def test_agent_options_are_read() -> None:
    options = load(
        {
            **BASE,
            "AGENT_MODEL": "opus",
            "AGENT_MAX_TURNS": "7",
            "AGENT_MAX_COST_USD": "0.5",
            "AGENT_SYSTEM_PROMPT": "Be brief.",
        }
    ).options
    assert (options.model, options.max_turns, options.max_cost_usd) == ("opus", 7, 0.5)
    assert options.system_prompt == "Be brief."


def test_the_process_says_one_line_and_exits_with_2_when_a_variable_is_wrong() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker_wrapper"],
        env={**BASE, "WORKER_TYPE": "manager"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "WORKER_TYPE" in done.stderr
    assert "manager" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("WORKER_ID", "", "WORKER_ID is missing: set it to a name without spaces"),
        ("WORKER_TYPE", "x", "WORKER_TYPE is 'x': it must be po or developer"),
        (
            "REDIS_URL",
            "redis:6379",
            "REDIS_URL is malformed: it must be a URL like redis://user:password@host:6379/0, "
            "rediss://…, unix:///a/socket or "
            "redis+sentinel://user:password@host1:26379,host2:26379/NAME/0",
        ),
        (
            "REDIS_URL",
            "redis+cluster://developer:s3cret-word@one:7000,two:7000/0",
            "REDIS_URL leads to a Redis Cluster (redis+cluster://one:7000,two:7000), which Orbiter "
            "does not use: its commands go over keys that a Cluster keeps apart. Give it the URL "
            "of one primary (redis://, rediss://) or of the Sentinels of one (redis+sentinel://)",
        ),
        (
            "AGENT_TYPE",
            "x",
            "AGENT_TYPE is 'x': it must be one of claude, codex, factory, gemini, opencode, "
            "orbiter",
        ),
        (
            "SESSION_IDLE_SECONDS",
            "0",
            "SESSION_IDLE_SECONDS is '0': it must be a whole number of 1 or more",
        ),
        (
            "SESSION_TOPIC_SIMILARITY",
            "2",
            "SESSION_TOPIC_SIMILARITY is '2': it must be a number above 0 and at most 1",
        ),
        (
            "SESSION_ID",
            "-x",
            "SESSION_ID is '-x': it must be 1 to 200 printable characters, the first no dash",
        ),
        (
            "AGENT_ENV",
            "A,REDIS_URL",
            "AGENT_ENV lists REDIS_URL, but agents must not reach Redis: take it off the list",
        ),
        (
            "TASK_RECORD",
            "agenttask:9f1c:2",
            "TASK_ENTRY_ID is missing and TASK_RECORD is set: set all or none",
        ),
    ],
)
def test_a_sentence_names_variable_value_and_next_step(
    name: str, value: str, sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load({**BASE, name: value})
    assert str(caught.value) == sentence


def test_a_value_that_comes_from_a_secret_is_not_repeated() -> None:
    with pytest.raises(SettingsError, match=r"^LOG_LEVEL is '\[redacted\]': it must be debug"):
        load({**BASE, "LOG_LEVEL": "hunter-two", "SECRET_ENV": "LOG_LEVEL"})


def test_a_long_value_is_shown_by_its_beginning() -> None:
    with pytest.raises(SettingsError) as caught:
        load({**BASE, "LOG_LEVEL": "x" * 10_000})
    assert len(str(caught.value)) < 200


def test_without_a_prefix_the_keys_are_those_of_the_specification() -> None:
    settings = load(BASE)
    assert settings.keys == Keys("")
    assert settings.session_records == "session:user:"


def test_with_a_prefix_every_key_begins_with_it() -> None:
    settings = load(
        {
            **BASE,
            **TASK,
            "KEY_PREFIX": "{team-a}:",
            "TASK_RECORD": "{team-a}:agenttask:9f1c:2",
            "SNAPSHOT_KEY": "{team-a}:agenttask:9f1c:snapshot",
        }
    )
    assert settings.keys == Keys.of_namespace("team-a")
    assert settings.session_records == "{team-a}:session:user:"
    assert settings.task is not None
    assert settings.task.record == settings.keys.attempt_record("9f1c", 2)


@pytest.mark.parametrize("prefix", ["team-a", "team-a:", "{team-a}", "{Team}:", "{}:", "{a}:{b}:"])
def test_a_prefix_is_a_namespace_in_braces_and_a_colon(prefix: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({**BASE, "KEY_PREFIX": prefix})
    assert str(caught.value) == (
        f"KEY_PREFIX is {prefix!r}: it must be a namespace in braces and a colon, like {{team-a}}:"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TASK_RECORD", "agenttask:9f1c:2"),
        ("TASK_RECORD", "{team-b}:agenttask:9f1c:2"),
        ("SNAPSHOT_KEY", "agenttask:9f1c:snapshot"),
        ("SNAPSHOT_KEY", "{team-ab}:agenttask:9f1c:snapshot"),
        ("SESSION_RECORD_PREFIX", "session:user:"),
        ("SESSION_RECORD_PREFIX", "{team-b}:session:user:"),
    ],
)
def test_a_key_outside_the_prefix_is_refused(name: str, value: str) -> None:
    prefixed = {"KEY_PREFIX": "{team-a}:", "TASK_RECORD": "{team-a}:agenttask:9f1c:2"}
    with pytest.raises(SettingsError, match=rf"^{name} is .* and KEY_PREFIX is '{{team-a}}:'"):
        load({**BASE, **TASK, **prefixed, name: value})


def test_without_a_prefix_a_record_of_a_namespace_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^TASK_RECORD is .* and KEY_PREFIX is ''"):
        load({**BASE, **TASK, "TASK_RECORD": "{team-a}:agenttask:9f1c:2"})


def test_how_scripts_are_run_is_one_of_two_words() -> None:
    assert load(BASE).redis_scripts is None
    assert load({**BASE, "REDIS_SCRIPTS": "Functions"}).redis_scripts == "Functions"
    with pytest.raises(SettingsError, match=r"^REDIS_SCRIPTS is 'Lua': .* Functions or Eval$"):
        load({**BASE, "REDIS_SCRIPTS": "Lua"})
