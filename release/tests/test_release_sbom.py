"""The SBOM: what the wheels and the lock have in it, who needs whom, the same bytes each time."""

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
from orbiter_release import sbom

LOCK = """\
anyio==4.1.0 \\
    --hash=sha256:00
    # via httpx
httpx==0.28.1 ; python_full_version < '3.13' \\
    --hash=sha256:01 \\
    --hash=sha256:02
    # via
    #   orbiter-core (packages/orbiter-core/pyproject.toml)
    #   somebody
pytest==9.0.0 \\
    --hash=sha256:03
    # via orbiter-workspace (pyproject.toml:dev)
Typing_Extensions==4.15.0 \\
    --hash=sha256:04
    # via
    #   anyio
    #   pytest
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "orbiter_core-0.2.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr(
            "orbiter_core-0.2.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: orbiter-core\nVersion: 0.2.0\nSummary: Agents.\n"
            "License-Expression: Apache-2.0\n\nDescription: none\n",
        )
    return path


def test_wheels_stand_in_it_with_licence_and_sum_and_pinned_packages_with_their_version(wheel):
    found = json.loads(sbom.document("0.2.0", [wheel], LOCK, epoch=1_700_000_000))
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    ours, *theirs = found["components"]
    assert ours["purl"] == "pkg:pypi/orbiter-core@0.2.0"
    assert ours["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert len(ours["hashes"][0]["content"]) == 64
    assert [(one["name"], one["version"], one["scope"]) for one in theirs] == [
        ("anyio", "4.1.0", "required"),
        ("httpx", "0.28.1", "required"),
        ("pytest", "9.0.0", "excluded"),
        ("typing-extensions", "4.15.0", "required"),
    ]


def test_it_says_who_needs_whom(wheel):
    found = json.loads(sbom.document("0.2.0", [wheel], LOCK, epoch=0))
    needs = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    assert needs["orbiter"] == ["pkg:pypi/orbiter-core@0.2.0"]
    assert needs["pkg:pypi/orbiter-core@0.2.0"] == ["pkg:pypi/httpx@0.28.1"]
    assert needs["pkg:pypi/httpx@0.28.1"] == ["pkg:pypi/anyio@4.1.0"]
    refs = {found["metadata"]["component"]["bom-ref"]}
    refs |= {one["bom-ref"] for one in found["components"]}
    assert set(needs) == refs


def test_two_of_the_same_release_are_the_same_bytes_and_another_wheel_is_another(wheel):
    first = sbom.document("0.2.0", [wheel], LOCK, epoch=7)
    assert sbom.document("0.2.0", [wheel], LOCK, epoch=7) == first
    with ZipFile(wheel, "a") as archive:
        archive.writestr("more.py", "")
    other = sbom.document("0.2.0", [wheel], LOCK, epoch=7)
    assert json.loads(other)["serialNumber"] != json.loads(first)["serialNumber"]


def test_the_lock_of_this_repository_is_read_to_its_end():
    text = (Path(__file__).resolve().parents[2] / "requirements.lock").read_text()
    found = sbom.locked(text)
    assert len(found) == sum(line[:1].isalnum() for line in text.splitlines())
    assert all(one.needed_by for one in found.values())
    assert "orbiter-operator" in found["kopf"].needed_by
