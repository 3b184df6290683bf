"""What the files of the images promise: pinned, without secrets, and buildable anywhere."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from orbiter_images.catalog import CATALOG
from orbiter_images.places import ROOT, versions

DOCKERFILES = sorted({image.dockerfile for image in CATALOG})
PACKAGES = {
    "operator": ("contracts", "operator"),
    "worker": ("contracts", "wrapper"),
    "orbiter": tuple(f"packages/orbiter-{name}" for name in ("core", "models", "mcp", "cli")),
    "server": tuple(
        f"packages/orbiter-{name}" for name in ("core", "models", "mcp", "tasks", "server", "cli")
    ),
}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def pins(path: Path) -> dict[str, str]:
    return dict(PINNED.findall(path.read_text()))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_lock_has_every_dependency_at_the_version_of_the_workspace(name: str) -> None:
    locked = pins(ROOT / "images" / f"{name}.lock")
    workspace = pins(ROOT / "requirements.lock")
    stale = {p: v for p, v in locked.items() if workspace.get(p) != v}
    assert not stale, f"images/{name}.lock is behind requirements.lock: run `make lock-images`"
    for package in PACKAGES[name]:
        project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
        for requirement in project["dependencies"]:
            wanted = re.split(r"[<>=~!\[; ]", requirement)[0]
            assert wanted in locked or wanted.startswith("orbiter-"), (
                f"images/{name}.lock lacks {wanted}: run `make lock-images`"
            )


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_of_a_lock_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "images" / f"{name}.lock").read_text()
    assert "://" not in text
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_runs_as_an_ordinary_user(dockerfile: str) -> None:
    text = (ROOT / dockerfile).read_text()
    own = "FROM ${WORKER}" in text
    assert own or "USER 1000:1000" in text


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_a_dockerfile_names_only_public_bases_as_defaults(dockerfile: str) -> None:
    text = (ROOT / dockerfile).read_text()
    assert "://" not in text
    bases = re.findall(r"^ARG (?:BASE|NODE|WORKER)=(\S+)", text, re.MULTILINE)
    assert bases
    assert all(base.startswith(("docker.io/library/", "localhost/orbiter/")) for base in bases)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_a_dockerfile_uses_only_what_every_engine_understands(dockerfile: str) -> None:
    text = (ROOT / dockerfile).read_text()
    assert "--mount" not in text
    assert "<<" not in text
    assert "# syntax" not in text


@pytest.mark.parametrize("name", ["operator", "server", "worker"])
def test_a_program_of_ours_imports_nothing_from_its_home_or_its_working_directory(
    name: str,
) -> None:
    text = (ROOT / f"images/{name}.Dockerfile").read_text()
    starts = re.findall(r'^ENTRYPOINT \["python3", (.*)\]$|#!(.*?)\'', text, re.MULTILINE)
    assert [start for pair in starts for start in pair if start]
    for start in (start for pair in starts for start in pair if start):
        flags = set(re.findall(r"-\w", start))
        assert "-I" in flags or {"-P", "-s"} <= flags, start


def test_every_part_of_every_image_is_there() -> None:
    assert [p for image in CATALOG for p in image.parts if not (ROOT / p).exists()] == []


def test_every_agent_has_a_version_and_a_sum() -> None:
    pinned = versions()
    for agent in (image.agent for image in CATALOG if image.agent):
        assert pinned[f"{agent.upper()}_VERSION"]
        assert len(pinned[f"{agent.upper()}_X64_SHA512"]) == 128


def test_an_unknown_agent_is_named_with_the_known_ones(tmp_path: Path) -> None:
    command = ["sh", str(ROOT / "images/fetch-agent.sh"), "clippy", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "unknown agent 'clippy'; known: none claude codex factory gemini opencode" in done.stderr


def test_no_agent_is_an_empty_directory(tmp_path: Path) -> None:
    command = ["sh", str(ROOT / "images/fetch-agent.sh"), "none", str(tmp_path / "x")]
    subprocess.run(command, check=True)
    assert list((tmp_path / "x").iterdir()) == []


def test_the_echo_agent_answers_as_the_cli_does() -> None:
    echo = ROOT / "tests/images/echo-claude"
    done = subprocess.run(
        [str(echo), "-p", "--session-id", "abc"], input="hello", capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    assert (answer["session_id"], answer["is_error"], answer["num_turns"]) == ("abc", False, 1)
    assert answer["result"].startswith("<result>")
