"""The workflow that releases: whether it is one, what it may, and what it takes from a tag."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from orbiter_images.catalog import BY_NAME
from orbiter_release import images
from support.go_programs import go_program

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
TEXT = (WORKFLOWS / "release.yml").read_text()
RELEASE: dict[str, Any] = yaml.load(TEXT, yaml.BaseLoader)
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint"
SIGNS = {"packages": "write", "id-token": "write", "attestations": "write"}


def steps() -> list[dict[str, Any]]:
    return [step for job in RELEASE["jobs"].values() for step in job["steps"]]


@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_actionlint_finds_nothing():
    program = go_program("actionlint", ROOT / "release" / "actionlint", ACTIONLINT)
    files = sorted(WORKFLOWS.iterdir())
    done = subprocess.run([program, "-no-color", *files], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_tag_and_nothing_else_begins_it():
    assert RELEASE["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}


def test_each_job_may_what_it_has_to_and_the_one_that_checks_may_read():
    assert RELEASE["permissions"] == {}
    assert {name: job["permissions"] for name, job in RELEASE["jobs"].items()} == {
        "check": {"contents": "read"},
        "images": {"contents": "read", **SIGNS},
        "publish": {"contents": "write", **SIGNS},
    }
    behind = {name: job.get("environment") for name, job in RELEASE["jobs"].items()}
    assert behind == {"check": None, "images": "release", "publish": "release"}


def test_nothing_is_public_before_the_check_and_no_chart_before_its_images():
    jobs = RELEASE["jobs"]
    assert jobs["images"]["needs"] == "check"
    assert jobs["publish"]["needs"] == ["check", "images"]


def test_every_action_is_pinned_by_a_digest_with_its_version_beside_it():
    used = re.findall(r"uses: (.*)$", TEXT, re.MULTILINE)
    assert len(used) == sum("uses" in step for step in steps())
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_no_checkout_leaves_the_token_in_the_working_copy():
    found = [step for step in steps() if "checkout" in step.get("uses", "")]
    assert [step["with"]["persist-credentials"] for step in found] == ["false"] * 3


def test_what_somebody_has_called_a_tag_is_never_read_as_a_script():
    assert not [step["run"] for step in steps() if "${{" in step.get("run", "")]


def test_the_images_of_a_release_are_those_that_the_chart_names():
    values = yaml.safe_load((ROOT / "helm/orbiter/values.yaml").read_text())["images"]
    named = {values["operator"], values["server"], *values["workers"].values()}
    assert set(images.names()) == named
    told = subprocess.run(
        [sys.executable, ROOT / "release/release.py", "--list-images"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout) == images.names()


def test_an_image_is_for_arm64_where_its_agent_is():
    found = {name: images.architectures(BY_NAME[name]) for name in images.names()}
    assert {name for name, known in found.items() if known == ["amd64"]} == {
        "worker-factory",
        "worker-opencode",
    }
    assert all(known in (["amd64"], ["amd64", "arm64"]) for known in found.values())
