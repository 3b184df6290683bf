"""examples/chat_sessions.py: how long answers are cut, which users there are, what is believed."""

import html
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "chat-bots.md"


@pytest.fixture
def bots(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "chat_sessions", raising=False)
    return importlib.import_module("chat_sessions")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("short", ["short"]),
        ("exactly 10", ["exactly 10"]),
        ("one two\nthree", ["one two\n", "three"]),
        ("a\nlong line is cut", ["a\nlong lin", "e is cut"]),
        ("\n\n\n\n\n\n\n\n\n\n\n", ["\n" * 10, "\n"]),
    ],
)
def test_a_text_is_cut_at_the_end_of_a_line_where_there_is_one(
    bots: ModuleType, text: str, parts: list[str]
) -> None:
    assert bots.split(text, 10, len) == parts


def test_a_character_is_as_wide_as_its_chat_says(bots: ModuleType) -> None:
    escaped = bots.split("<<<ab", 10, lambda character: len(html.escape(character)))
    assert escaped == ["<<", "<ab"]


def test_what_would_be_too_many_messages_ends_with_how_much_is_left_out(bots: ModuleType) -> None:
    parts = bots.split("x" * 5000, 200, len)
    assert len(parts) == bots.PARTS
    assert parts[-1].endswith("x\n… (3000 more characters)")
    assert max(map(len, parts)) <= 200


def test_the_list_of_users_has_a_session_in_each_line(bots: ModuleType) -> None:
    users = bots.read_users("4711 4711 worker:po:a.b:input worker:po:a.b:output\n\n")
    assert users["4711"].user_id == 4711
    assert users["4711"].outputs == "worker:po:a.b:output"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has to name sessions"),
        ("4711 4711 worker:po:a.b:input", "no line CHAT_USER USER_ID INPUT OUTPUT: '4711 4711"),
        ("4711 x in out", "no line CHAT_USER"),
        ("4711 -1 in out", "no line CHAT_USER"),
        ("1 1 {a}:worker:po:x:input o\n2 2 {b}:worker:po:x:input o", "of one namespace"),
    ],
)
def test_a_list_that_is_none_is_refused_with_the_line(
    bots: ModuleType, text: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        bots.read_users(text)


@pytest.mark.parametrize(("wanted", "waited"), [(3, 3), (-1, 0), (10**9, 600)])
def test_a_chat_says_how_long_to_wait_within_reason(
    bots: ModuleType, wanted: int, waited: int
) -> None:
    assert bots.LaterError("too fast", wanted).seconds == waited


def test_the_manifest_has_every_secret_by_reference_and_runs_one_bot() -> None:
    manifest = yaml.safe_load((EXAMPLES / "telegram-bot.yaml").read_text())
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    secrets = {
        one["name"]: one["valueFrom"]["secretKeyRef"]["name"]
        for one in container["env"]
        if "valueFrom" in one
    }
    assert secrets == {"REDIS_URL": "orbiter-chat", "TELEGRAM_BOT_TOKEN": "telegram-bot"}
    assert manifest["spec"]["replicas"] == 1
    assert manifest["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("program", ["telegram_bot.py", "slack_app.py"])
def test_the_page_names_every_variable_of_a_bot(program: str) -> None:
    told = (EXAMPLES / program).read_text().partition("Reads ")[2].partition(":")[0]
    names = [word.strip(",") for word in told.split() if word.strip(",").isupper()]
    assert len(names) >= 3
    assert all(f"`{name}`" in PAGE.read_text() for name in names)
