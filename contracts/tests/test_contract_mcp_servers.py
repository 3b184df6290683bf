"""MCP servers as a spec and as a worker's variable have them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.mcp_servers import (
    MAX_BYTES,
    MAX_SERVERS,
    MAX_VALUES,
    VARIABLE,
    decode_mcp_servers,
    mcp_problem,
    secrets_of,
    told_of_mcp_servers,
)

SECRET = {"valueFrom": {"secretKeyRef": {"name": "docs", "key": "token"}}}
DOCS = {
    "name": "docs",
    "url": "https://docs.example.com/mcp?v=$(A)",
    "headers": [{"name": "Authorization", **SECRET}, {"name": "X-Team", "value": "shop"}],
}
FILES = {
    "name": "files",
    "command": "npx",
    "args": ["-y", "server $HOME", "."],
    "env": [{"name": "TOKEN", **SECRET}],
}


def docs(**changes: Any) -> list[dict[str, Any]]:
    return [{**DOCS, **changes}]


def header(**changes: Any) -> list[dict[str, Any]]:
    return docs(headers=[{"name": "X", **changes}])


def test_a_worker_reads_the_same_servers_with_variables_in_the_place_of_secrets() -> None:
    told = told_of_mcp_servers([DOCS, FILES])
    assert {name: (ref.name, ref.key) for name, ref in told.secrets.items()} == {
        "AGENT_MCP_SECRET_1": ("docs", "token"),
        "AGENT_MCP_SECRET_2": ("docs", "token"),
    }
    one, two = decode_mcp_servers(told.environment[VARIABLE])
    assert (one.url, two.command, two.args) == (DOCS["url"], "npx", tuple(FILES["args"]))
    values = [*one.headers, *two.env]
    assert [(value.name, value.value) for value in values] == [
        ("Authorization", None),
        ("X-Team", "shop"),
        ("TOKEN", None),
    ]
    sources = [value.value_from.variable for value in values if value.value_from]
    assert sources == list(told.secrets)


def test_kubernetes_finds_no_variable_to_expand_in_it() -> None:
    assert "$" not in told_of_mcp_servers([DOCS, FILES]).environment[VARIABLE]


def test_without_servers_nothing_is_told() -> None:
    assert told_of_mcp_servers([]) == ({}, {})


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({}, "valid tuple"),
        ([7], "mcpServers[0]"),
        ([{"url": "https://a/"}], "mcpServers[0].name: Field required"),
        (docs(name="Docs"), "mcpServers[0].name: is no name of a server"),
        (docs(name="d" * 33), "is no name of a server"),
        ([DOCS, DOCS], "mcpServers: docs is there twice"),
        ([{**DOCS, "name": f"s{n}"} for n in range(MAX_SERVERS + 1)], "at most 20"),
        (docs(url="ftp://a/"), "is no http(s) URL"),
        (docs(url="https://user:secret@a/"), "has a password"),
        (docs(url="https://a/ b"), "is no http(s) URL"),
        (docs(url=f"https://a/{'b' * 2048}"), "at most 2048"),
        (docs(url=None), "write url or command, one of them"),
        (docs(command="npx"), "write url or command, one of them"),
        ([{"name": "a", "command": "npx", "headers": DOCS["headers"]}], "headers are for a url"),
        (docs(args=["x"]), "args and env are for a command"),
        (docs(headers=[*DOCS["headers"], {"name": "x-team", "value": "b"}]), "x-team is there"),
        (header(value="a\nb"), "is no header's value"),
        (header(value=" a"), "is no header's value"),
        (header(value="ä"), "is no header's value"),
        (header(value="a" * 4097), "at most 4096"),
        (header(value="a", **SECRET), "write value or valueFrom"),
        (header(), "write value or valueFrom"),
        (header(valueFrom={}), "write secretKeyRef"),
        (header(valueFrom={"configMapKeyRef": {"name": "a", "key": "b"}}), "write secretKeyRef"),
        (header(valueFrom={"variable": "AGENT_MCP_SECRET_1"}), "write secretKeyRef"),
        (header(valueFrom={"variable": "REDIS_URL"}), "mcpServers[0].headers[0]"),
        (docs(headers=[{"name": "X Y", "value": "a"}]), "is no name of a header"),
        (docs(headers=[{"name": f"X{n}", "value": "a"} for n in range(MAX_VALUES + 1)]), "50"),
        ([{**FILES, "args": ["a\0b"]}], "has a control character"),
        ([{**FILES, "command": ""}], "at least 1"),
        ([{**FILES, "env": [{"name": "A=B", "value": "c"}]}], "is no name of a variable"),
        ([{**FILES, "env": [{"name": "REDIS_URL", "value": "c"}]}], "a name of Orbiter's own"),
        ([{**FILES, "env": [{"name": "TASK_X", "value": "c"}]}], "a name of Orbiter's own"),
        ([{**FILES, "env": FILES["env"] * 2}], "TOKEN is there twice"),
        ([{**FILES, "args": ["x" * 4096] * 17}], f"more than {MAX_BYTES} bytes"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(servers: Any, words: str) -> None:
    problem = mcp_problem(servers)
    assert problem is not None
    assert words in problem
    assert "secret@" not in problem


@pytest.mark.parametrize("servers", [[], [DOCS], [FILES, DOCS], [{**FILES, "args": ["a\nb"]}]])
def test_what_can_work_is_not(servers: Any) -> None:
    assert mcp_problem(servers) is None


def test_secrets_are_told_with_the_place_that_names_them() -> None:
    assert list(secrets_of([DOCS, FILES])) == [
        ("mcpServers[docs].headers[Authorization].valueFrom.secretKeyRef.name", "docs"),
        ("mcpServers[files].env[TOKEN].valueFrom.secretKeyRef.name", "docs"),
    ]


def test_a_worker_takes_no_longer_text() -> None:
    with pytest.raises(ValueError, match="more than 65536 bytes"):
        decode_mcp_servers(" " * MAX_BYTES + "[]")


KEYS = st.sampled_from(
    ["name", "url", "headers", "command", "args", "env", "value", "valueFrom", "secretKeyRef"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS | st.text(), inner),
)


@given(JSON)
def test_no_value_of_json_does_more_than_be_refused(value: Any) -> None:
    list(secrets_of(value))
    if mcp_problem(value) is None:
        told = told_of_mcp_servers(value).environment.get(VARIABLE, "[]")
        assert len(decode_mcp_servers(told)) == len(value)


@given(st.text())
def test_no_text_does_more_than_be_refused(text: str) -> None:
    for said in (text, json.dumps(text), json.dumps([{"name": text}])):
        try:
            decode_mcp_servers(said)
        except ValueError:
            continue
