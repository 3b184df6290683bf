"""Every package says what it is: metadata, a licence, and a README whose first example is run."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.console_pages import run_page
from support.markdown_blocks import blocks_of, run_blocks
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = sorted(
    path
    for part in ("contracts", "operator", "triggers", "wrapper", "packages/*")
    for path in ROOT.glob(f"{part}/pyproject.toml")
)
PROJECTS = {path.parent: tomllib.loads(path.read_text())["project"] for path in MANIFESTS}
SISTERS = {project["name"] for project in PROJECTS.values()}
NEEDS_A_PROGRAM = {"orbiter-sandbox"}
IN_PYTHON = [home / "README.md" for home in PROJECTS if blocks_of(home / "README.md")]
LONGEST_README = 50

every_package = pytest.mark.parametrize("home", PROJECTS, ids=lambda home: home.name)


@every_package
def test_a_package_has_complete_metadata(home):
    project = PROJECTS[home]
    assert project["name"] in SISTERS
    assert project["description"].endswith(".")
    assert project["readme"] == "README.md"
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "Apache-2.0"
    assert project["authors"] == [{"name": "Orbiter contributors"}]
    assert "Development Status :: 3 - Alpha" in project["classifiers"]
    assert project["keywords"]


@every_package
def test_a_package_carries_the_licence_that_it_names(home):
    assert PROJECTS[home]["license-files"] == ["LICENSE"]
    assert (home / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@every_package
def test_sister_packages_are_pinned_to_their_minor_version(home):
    extras = PROJECTS[home].get("optional-dependencies", {})
    for needed in sum(extras.values(), PROJECTS[home]["dependencies"]):
        name = re.match(r"[a-z0-9-]+", needed)[0]
        if name in SISTERS:
            [version] = [p["version"] for p in PROJECTS.values() if p["name"] == name]
            major, minor, _ = map(int, version.split("."))
            assert re.sub(r".*?(?=>)", "", needed) == f">={major}.{minor},<{major}.{minor + 1}"


def test_the_packages_have_one_version():
    assert len({project["version"] for project in PROJECTS.values()}) == 1


@every_package
def test_a_readme_begins_with_the_package_and_stays_short(home):
    lines = (home / "README.md").read_text().splitlines()
    assert lines[0].startswith("# ")
    if home.parent.name == "packages":
        assert lines[0] == f"# {home.name}"
        assert len(lines) <= LONGEST_README


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=page.parent.name,
            marks=[pytest.mark.integration] if page.parent.name in NEEDS_A_PROGRAM else [],
        )
        for page in IN_PYTHON
    ],
)
async def test_the_first_example_of_a_package_does_what_it_tells(page):
    [block] = blocks_of(page)
    assert block.prints
    assert await run_blocks(page) == 1


@pytest.mark.parametrize("home", ["operator", "packages/orbiter-cli"])
async def test_the_first_command_of_a_package_does_what_it_tells(home, tmp_path):
    text = (ROOT / home / "README.md").read_text()
    first = re.search(r"^```console\n.*?^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "README.md").write_text(text[: first.end()])
    assert await run_page(tmp_path / "README.md", tmp_path, {}) == 1


@pytest.mark.integration
def test_the_wrapper_can_be_tried_by_hand_as_its_page_tells(tmp_path):
    page = (ROOT / "wrapper/README.md").read_text().partition("## Try it by hand")[2]
    script = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    port = str(free_port())
    script = script.replace("7777", port).replace("/tmp/try", str(tmp_path / "try"))
    script = script.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
    leave = f"trap 'redis-cli -p {port} SHUTDOWN NOSAVE 2> /dev/null || true' EXIT\n"
    done = subprocess.run(
        ["bash", "-eu", "-c", leave + script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert '"status":"success"' in done.stdout
    assert '"summary":"fixed the login"' in done.stdout
    assert '"user_id":7' in done.stdout
