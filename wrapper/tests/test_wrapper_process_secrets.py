"""What is published or logged has no secrets in it."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_wrapper.redact import Redactor


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("ANTHROPIC_API_KEY", "sk-ant-123", "sk-ant-123"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "tok-123456", "tok-123456"),
        ("ANTHROPIC_AUTH_TOKEN", "tok-123456", "tok-123456"),
        ("my_password", "hunter22", "hunter22"),
        ("REDIS_URL", "redis://worker:p%40ss-word@host:6379/0", "p%40ss-word"),
        ("REDIS_URL", "redis://worker:p%40ss-word@host:6379/0", "p@ss-word"),
        ("ANTHROPIC_CUSTOM_HEADERS", "X-Team: shop\nX-Gate: gate-123456", "gate-123456"),
        ("ANTHROPIC_CUSTOM_HEADERS", "Authorization: Bearer abc-123456", "abc-123456"),
        ("my_password", "hunter22\n", "hunter22"),
        ("HTTPS_PROXY", "http://me:proxy-pw@proxy:3128", "proxy-pw"),
    ],
)
def test_values_named_like_secrets_and_passwords_in_urls_are_masked(
    name: str, value: str, secret: str
) -> None:
    redactor = Redactor.of({name: value})

    assert redactor.scrub(f"before {secret} after {secret}") == "before [redacted] after [redacted]"


def test_the_git_credentials_are_known_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("gh-123456\n")

    redactor = Redactor.of({"GIT_CREDENTIALS_DIR": str(tmp_path)})

    assert redactor.scrub(f"{tmp_path}: gh-123456") == f"{tmp_path}: [redacted]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/home/agent"),
        ("GIT_AUTHOR_NAME", "Somebody"),
        ("SSH_AUTH_SOCK", "/tmp/agent.sock"),
        ("A_TOKEN", "short"),
        ("SESSION_MAX_TOKENS", "100000"),
        ("SECRET_ENV", "SHOP_DSN"),
        ("KEY_PREFIX", "{team-a}:"),
        ("SNAPSHOT_KEY", "worker:po:w-1:snapshot"),
        ("REDIS_URL", "redis://host:6379/0"),
    ],
)
def test_what_is_no_secret_stays(name: str, value: str) -> None:
    assert Redactor.of({name: value}).scrub(f"say {value}") == f"say {value}"


def test_a_variable_is_a_secret_when_the_operator_says_that_it_comes_from_one() -> None:
    environ = {"SECRET_ENV": "SHOP_DSN,MODE", "SHOP_DSN": "shop-dsn-1", "MODE": "on", "OTHER": "x"}

    assert Redactor.of(environ).scrub("shop-dsn-1 is on: x") == "[redacted] is on: x"


def test_the_keys_of_an_object_are_masked_like_its_values() -> None:
    told = {"seen": {"secret-one": ["secret-two"], "secret-two": 1}, "n": 5}

    scrubbed = Redactor(["secret-one", "secret-two"]).scrub(told)

    assert scrubbed == {"seen": {"[redacted]": ["[redacted]"], "[redacted] (1)": 1}, "n": 5}


def test_of_secrets_that_contain_each_other_the_longest_is_masked() -> None:
    assert (
        Redactor(["secret", "secret-long"]).scrub("secret-long secret") == "[redacted] [redacted]"
    )


def test_a_malformed_url_is_masked_as_a_whole() -> None:
    assert (
        Redactor.of({"X_URL": "redis://[password"}).scrub("at redis://[password") == "at [redacted]"
    )


def test_of_secrets_that_overlap_nothing_is_left() -> None:
    assert Redactor(["abcdefg", "defghijk"]).scrub("1 abcdefghijk 2") == "1 [redacted] 2"


def test_masking_takes_no_longer_when_the_text_nearly_is_a_secret() -> None:
    redactor, text = Redactor(["a" * 50_000 + "b", "z" * 10]), "a" * 1_000_000
    began = time.process_time()
    assert redactor.scrub(text) == text
    assert time.process_time() - began < 10.0


@pytest.mark.parametrize("end", ["", "c"])
def test_whether_a_secret_has_begun_is_told_at_once_however_long_it_is(end: str) -> None:
    redactor, began = Redactor(["a" * 500_000 + "b"]), time.process_time()
    assert redactor.begun("a" * 499_000 + end) == (0 if end else 499_000)
    assert time.process_time() - began < 2.0


@given(
    st.lists(st.text("ab", min_size=6, max_size=20), min_size=1, max_size=4),
    st.text("ab", max_size=40),
)
def test_what_has_begun_is_the_longest_beginning_at_the_end(secrets: list[str], text: str) -> None:
    beginnings = (secret[:length] for secret in secrets for length in range(1, len(secret)))
    longest = max((len(each) for each in beginnings if text.endswith(each)), default=0)
    assert Redactor(secrets).begun(text) == longest


def test_the_token_in_a_file_is_known_also_when_it_was_made_anew_and_the_one_before(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("first-token\n")
    redactor = Redactor.of({"AWS_WEB_IDENTITY_TOKEN_FILE": str(token)})
    assert redactor.scrub("first-token") == "[redacted]"
    (tmp_path / "next").write_text("second-token")
    (tmp_path / "next").rename(token)
    assert redactor.scrub({"a": ["second-token first-token"]}) == {"a": ["[redacted] [redacted]"]}
    token.unlink()
    assert redactor.begun("it is second-tok") == len("second-tok")
    assert redactor.scrub("second-token") == "[redacted]"


def test_a_token_file_that_is_none_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    for name in ("token", "nothing", ""):
        path = str(tmp_path / name)
        assert Redactor.of({"AWS_WEB_IDENTITY_TOKEN_FILE": path}).scrub("as it is") == "as it is"


def test_who_writes_a_token_file_again_and_again_fills_no_memory(tmp_path: Path) -> None:
    token = tmp_path / "token"
    redactor = Redactor.of({"AWS_WEB_IDENTITY_TOKEN_FILE": str(token)})
    for number in range(40):
        (tmp_path / "next").write_text(f"token-number-{number}")
        (tmp_path / "next").rename(token)
        assert redactor.scrub(f"token-number-{number}") == "[redacted]"
    assert redactor.scrub("token-number-1") == "token-number-1"
