from pathlib import Path

import pytest

from orbiter.context import ArtifactNotFoundError, ContextError, Workspace


@pytest.fixture(params=["memory", "directory"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "files" if request.param == "directory" else None)


async def test_what_was_written_can_be_listed_and_read(workspace: Workspace) -> None:
    assert await workspace.list() == []
    await workspace.write("output.md", content="# Report\r\nline\n")
    await workspace.write("data/table.csv", content="a,b")
    assert await workspace.list() == ["data/table.csv", "output.md"]
    assert await workspace.read("output.md") == "# Report\r\nline\n"


async def test_writing_again_replaces(workspace: Workspace) -> None:
    await workspace.write("a", content="old")
    await workspace.write("a", content="new")
    assert await workspace.read("a") == "new"
    assert await workspace.list() == ["a"]


async def test_an_artifacts_name_is_made_of_its_content(workspace: Workspace) -> None:
    first = await workspace.write_artifact("some result")
    assert await workspace.write_artifact("some result") == first
    assert await workspace.write_artifact("another") != first
    assert await workspace.read(first) == "some result"


async def test_a_missing_file_is_named_with_those_there_are(workspace: Workspace) -> None:
    await workspace.write("there.md", content="")
    with pytest.raises(ArtifactNotFoundError, match=r"'gone\.md'; there are: there\.md"):
        await workspace.read("gone.md")
    with pytest.raises(ArtifactNotFoundError, match=r"gone\.md"):
        await workspace.delete("gone.md")


async def test_deleting_removes_one(workspace: Workspace) -> None:
    await workspace.write("a", content="1")
    await workspace.write("b", content="2")
    await workspace.delete("a")
    assert await workspace.list() == ["b"]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../up", "a/../../up", "a\\..\\b", "nul\0"])
async def test_no_name_leads_out(workspace: Workspace, name: str) -> None:
    with pytest.raises(ContextError, match="no name for a workspace file"):
        await workspace.write(name, content="x")
    with pytest.raises(ContextError, match="no name for a workspace file"):
        await workspace.read(name)


async def test_content_must_be_text(workspace: Workspace) -> None:
    with pytest.raises(ContextError, match=r"'a\.pdf' must be text, not bytes"):
        await workspace.write("a.pdf", content=b"%PDF")  # type: ignore[arg-type]


async def test_files_in_a_directory_outlive_the_workspace(tmp_path: Path) -> None:
    await Workspace(tmp_path).write("a.md", content="kept")
    assert await Workspace(tmp_path).read("a.md") == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


async def test_a_write_that_fails_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    await workspace.write("notes/a.md", content="old")
    for name in ("notes", "notes/a.md/b"):
        with pytest.raises(ContextError, match=f"'{name}' cannot be written"):
            await workspace.write(name, content="new")
    assert [path.name for path in tmp_path.rglob("*")] == ["notes", "a.md"]
    assert await workspace.read("notes/a.md") == "old"


async def test_any_text_comes_back_as_it_was(workspace: Workspace) -> None:
    text = "half a pair \ud800, a nul \0, a return \r\n and é"
    assert await workspace.read(await workspace.write_artifact(text)) == text
