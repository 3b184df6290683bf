"""A YAML file is read by the loader in C where there is one: same values, errors and lines."""

import pytest

from orbiter.cli.agent import yaml_lines
from orbiter.cli.agent.objects import AgentFileError
from orbiter.cli.agent.yaml_lines import read_documents

GOOD = """# two documents
name: a
tools:
  - x
  - {deep: [1, "é", yes, 0777, 2001-01-01, ~]}
text: |
  more
---
---
second: &it {a: 1}
third: *it
"""
PLACES = [["name"], ["tools", 1], ["tools", 1, "deep", 1], ["text"], ["none"]]


@pytest.fixture(params=["C", "Python"], autouse=True)
def loader(request, monkeypatch):
    kinds = {"C": yaml_lines._LOADER, "Python": yaml_lines._PYTHON}
    monkeypatch.setattr(yaml_lines, "_LOADER", kinds[request.param])


def read(tmp_path, text):
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    return read_documents(file)


def test_values_and_lines_are_the_same(tmp_path):
    first, second = read(tmp_path, GOOD)
    assert first.values == {
        "name": "a",
        "tools": ["x", {"deep": [1, "é", True, 511, "2001-01-01", None]}],
        "text": "more\n",
    }
    assert second.values == {"second": {"a": 1}, "third": {"a": 1}}
    assert [first.line(place) for place in PLACES] == [2, 5, 5, 6, 2]
    assert [second.line([key]) for key in ("second", "third")] == [10, 11]


def test_a_date_is_the_text_that_was_written(tmp_path):
    (one,) = read(tmp_path, "a: 2001-13-45\nb: 2001-12-14t21:59:43.10-05:00\n2001-01-01: c\n")
    assert one.values == {
        "a": "2001-13-45",
        "b": "2001-12-14t21:59:43.10-05:00",
        "2001-01-01": "c",
    }


@pytest.mark.parametrize(
    "value", ["9" * 5000, "!!timestamp 2001-13-45", "!!binary é", "!!float x", "!!int 1x"]
)
def test_a_value_that_cannot_be_read_is_a_mistake_of_the_file(tmp_path, value):
    with pytest.raises(AgentFileError, match=r"a\.yaml.*: it is no YAML: "):
        read(tmp_path, f"a: {value}\n")


@pytest.mark.parametrize("part", ["[", "{a: ", "- ", "? "])
def test_what_is_nested_without_end_does_not_end_the_process(tmp_path, part):
    with pytest.raises(AgentFileError, match="it is no YAML: it is nested too deep"):
        read(tmp_path, "a:\n  " + part * 3000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: [1\nc: 2\n", ":3: it is no YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", ":2: it is no YAML: found character '\\t' that cannot start any token"),
        ("a: 'x\n", ":2: it is no YAML: found unexpected end of stream"),
        ("a: 1\nb: *x\n", ":2: it is no YAML: found undefined alias 'x'"),
        ("- a\nb: 1\n", ":2: it is no YAML: expected <block end>, but found '?'"),
        ("a: 1: 2\n", ":1: it is no YAML: mapping values are not allowed here"),
        ("a: !!python/object:os.x {}\n", ":1: it is no YAML: could not determine a constructor"),
        ("a: \x00\n", ": it is no YAML: unacceptable character #x0000: special characters"),
    ],
)
def test_errors_are_the_same_with_the_same_line(tmp_path, text, told):
    with pytest.raises(AgentFileError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'a.yaml'}{told}")
