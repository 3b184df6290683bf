import pytest

from orbiter.eval import Case, DatasetError, ExpectedCall, load_dataset, save_dataset


def written(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def test_json_lines_hold_one_case_each(tmp_path):
    file = written(
        tmp_path,
        "cases.jsonl",
        '{"id": 1, "input": "2+2?", "expected": 4, "tools": ["add", {"name": "log"}]}\n'
        "\n"
        '{"input": "Hi", "tags": ["small talk"]}\n',
    )
    first, second = load_dataset(file)
    assert (first.id, first.expected) == ("1", 4)
    assert first.tools == [ExpectedCall(name="add"), ExpectedCall(name="log")]
    assert (second.id, second.tags) == ("line-3", ["small talk"])


def test_csv_has_a_heading_and_json_where_it_needs_some(tmp_path):
    file = written(
        tmp_path,
        "cases.csv",
        "id,input,expected,tags,tools\n"
        'a,"Where, then?",Oslo,geo; easy,"[{""name"": ""find"", ""arguments"": {""q"": 1}}]"\n'
        "b,Hi,,,\n",
    )
    first, second = load_dataset(file)
    assert first == Case(
        id="a",
        input="Where, then?",
        expected="Oslo",
        tags=["geo", "easy"],
        tools=[ExpectedCall(name="find", arguments={"q": 1})],
    )
    assert second == Case(id="b", input="Hi")


def test_columns_of_other_names_are_renamed_and_the_rest_left_out(tmp_path):
    file = written(tmp_path, "qa.csv", "question,answer,source\nCapital of Japan?,Tokyo,atlas\n")
    [case] = load_dataset(file, columns={"question": "input", "answer": "expected"})
    assert (case.input, case.expected) == ("Capital of Japan?", "Tokyo")


def test_a_name_of_a_column_that_cannot_be_is_told_with_what_was_meant(tmp_path):
    file = written(tmp_path, "qa.csv", "question,answer\n2+2?,4\n")
    with pytest.raises(DatasetError, match=r"no field 'inptu', only id, .*; did you mean input\?"):
        load_dataset(file, columns={"question": "inptu"})
    with pytest.raises(DatasetError, match=r"no case of .*qa\.csv has 'q'; they have question, an"):
        load_dataset(file, columns={"question": "input", "q": "expected"})


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonl", '{"input": "x"}\n{"input"', "line 2 is no JSON"),
        ("a.jsonl", "[1]\n", "line 1 is no JSON object"),
        ("a.jsonl", '{"id": "x"}\n', "line 1: input: it is missing"),
        ("a.jsonl", '{"input": "x", "expcted": "y"}\n', "expcted.*names are id, input, expected"),
        ("a.jsonl", '{"id": 1, "input": "x"}\n{"id": 1, "input": "y"}\n', "two cases.*'1'"),
        ("a.jsonl", "", "has no cases"),
        ("a.csv", "id,input\na,b,c\n", "line 2 has another number of cells"),
        ("a.csv", "input,tools\nx,{\n", "line 2: tools is no JSON"),
        ("a.txt", "x", "is a .jsonl or a .csv file"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_line(tmp_path, name, text, told):
    with pytest.raises(DatasetError, match=told):
        load_dataset(written(tmp_path, name, text))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(DatasetError, match=r"none\.jsonl cannot be read"):
        load_dataset(tmp_path / "none.jsonl")


def test_what_was_saved_is_read_again(tmp_path):
    cases = [Case(id="a", input="x", expected={"n": [1, None]}), Case(id="b", input="ü\n")]
    save_dataset(cases, tmp_path / "a.jsonl")
    assert load_dataset(tmp_path / "a.jsonl") == cases
