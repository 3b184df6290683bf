"""The built-in tools: commands and files of a directory."""

import pytest

from orbiter.cli.agent.objects import AgentFileError, load_tools
from orbiter.cli.agent.workspace_tools import (
    KEPT_CHARACTERS,
    edit_file,
    list_files,
    read_file,
    run_command,
    write_file,
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_a_command_says_what_it_printed_and_how_it_ended():
    assert await run_command.execute(command="echo one; echo two >&2") == "one\ntwo"
    assert await run_command.execute(command="echo no; exit 3") == "no\n[exit code 3]"


async def test_a_command_that_takes_too_long_is_stopped():
    said = await run_command.execute(command="echo begun; tail -f /dev/null", timeout=0.2)
    assert "[stopped after 0.2 s]" in said


async def test_much_output_is_cut_in_the_middle():
    said = await run_command.execute(command="seq 100000")
    assert len(said) < KEPT_CHARACTERS + 100
    assert said.startswith("1\n2\n")
    assert said.endswith("100000")
    assert "characters left out]" in said


async def test_files_are_written_read_changed_and_listed(here):
    await write_file.execute(path="src/a.txt", content="one\ntwo\nthree\n")
    assert await read_file.execute(path="src/a.txt", first_line=2, lines=1) == "two\n"
    await edit_file.execute(path="src/a.txt", old="two", new="2")
    assert (here / "src/a.txt").read_text() == "one\n2\nthree\n"
    assert await list_files.execute() == "src/"


async def test_a_change_must_be_meant_for_one_place():
    await write_file.execute(path="a", content="x x")
    with pytest.raises(Exception, match="stands there 2 times, not once"):
        await edit_file.execute(path="a", old="x", new="y")


def test_they_have_names_in_agent_files(here):
    names = [tool.name for tool in load_tools("workspace", here)]
    assert names == ["run_command", "read_file", "write_file", "edit_file", "list_files"]
    assert [tool.name for tool in load_tools("ask_user", here)] == ["ask_user"]
    with pytest.raises(AgentFileError, match="'shell' is no built-in tool: write module:attr, or"):
        load_tools("shell", here)
