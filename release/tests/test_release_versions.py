"""One version, said in many places: who disagrees with the tag is named."""

import shutil
from pathlib import Path

import pytest
from orbiter_images.runner import StepError
from orbiter_release import versions

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The files of this repository that say a version."""
    for name in {name for name, _ in versions.said(ROOT)}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_this_repository_says_one_version_and_its_tag_is_taken():
    version = versions.agreed(ROOT)
    assert versions.agreed(ROOT, f"v{version}") == version
    assert len(versions.packages(ROOT)) == 18
    assert len(list(versions.said(ROOT))) == 1 + 18 + 5


def test_each_place_that_says_another_version_is_named(repository):
    version = versions.agreed(repository)
    replace(repository / "helm/orbiter/Chart.yaml", f'appVersion: "{version}"', "appVersion: x")
    replace(repository / "triggers/pyproject.toml", f'version = "{version}"', 'version = "9.9.9"')
    with pytest.raises(StepError) as caught:
        versions.agreed(repository, f"v{version}")
    assert str(caught.value).splitlines()[1:] == [
        "triggers/pyproject.toml says 9.9.9",
        "helm/orbiter/Chart.yaml says no version",
    ]


def test_a_package_that_would_not_take_its_sisters_is_named(repository):
    replace(
        repository / "packages/orbiter-cli/pyproject.toml",
        '"orbiter-mcp>=0.1,<0.2",\n    "orbiter-models',
        '"orbiter-mcp>=0.1,<0.3",\n    "orbiter-models',
    )
    with pytest.raises(StepError, match=r"orbiter-cli needs orbiter-mcp>=0\.1,<0\.3, which has to"):
        versions.agreed(repository)


@pytest.mark.parametrize("tag", ["0.1.0", "v0.1", "release-1", "v0.1.0-final", "v"])
def test_what_is_no_tag_is_said(tag):
    with pytest.raises(StepError, match="is no tag: write v and a version"):
        versions.agreed(ROOT, tag)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## Unreleased\n\n- new\n\n## 0.2.0\n\n- old\n", "move what is under Unreleased"),
        ("## Unreleased\n\n## 0.1.0\n\n- old\n", "has no section 0.2.0"),
        ("## Unreleased\n\n## 0.2.0\n\n## 0.1.0\n\n- old\n", "has no section 0.2.0"),
    ],
)
def test_a_release_without_notes_is_none(tmp_path, text, words):
    (tmp_path / "CHANGELOG.md").write_text(text)
    with pytest.raises(StepError, match=words):
        versions.notes(tmp_path, "0.2.0")


def test_the_notes_are_what_the_changelog_says_of_the_version(tmp_path):
    text = "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n- new\n\n## 0.1.0\n\n- old\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    assert versions.notes(tmp_path, "0.2.0") == "- new"
