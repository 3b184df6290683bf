"""The version, which stands in many files: all of them say the same, and so does the tag."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orbiter_images.runner import StepError

# What a file says of its version, beside the packages' pyproject.toml.
_SAYS: Final = {
    "helm/orbiter/Chart.yaml": (r"^version: (\S+)$", r'^appVersion: "(\S+)"$'),
    "packages/orbiter-core/src/orbiter/__init__.py": (r'^__version__ = "(\S+)"$',),
    "packages/orbiter-trace/src/orbiter/trace/_internal/convert.py": (
        r'InstrumentationScope\("orbiter\.trace", "(\S+)"\)',
    ),
    "CONTRIBUTING.md": (r"share one version, today (\S+), and",),
}
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-?(?:a|b|rc)\d+)?")
_UNRELEASED: Final = "Unreleased"


def packages(root: Path) -> list[Path]:
    """The directories of the packages that are released, by their names."""
    places = ("contracts", "operator", "triggers", "wrapper", "packages/*")
    found = [file.parent for place in places for file in root.glob(f"{place}/pyproject.toml")]
    return sorted(found, key=lambda directory: directory.name)


def said(root: Path) -> Iterator[tuple[str, str]]:
    """Each place that says a version, and which."""
    for directory in [root, *packages(root)]:
        file = directory / "pyproject.toml"
        project = tomllib.loads(file.read_text())["project"]
        yield str(file.relative_to(root)), project["version"]
    for name, patterns in _SAYS.items():
        for pattern in patterns:
            found = re.search(pattern, (root / name).read_text(), re.MULTILINE)
            yield name, found[1] if found else "no version"


def agreed(root: Path, tag: str | None = None) -> str:
    """The version that all places say.

    Args:
        root: The repository.
        tag: The tag of a release, `v` and the version; None when it is none.

    Raises:
        StepError: Places differ from the tag, or from each other; or the version is none.
    """
    places = list(said(root))
    version = tag.removeprefix("v") if tag else places[0][1]
    if not _VERSION.fullmatch(version) or (tag and not tag.startswith("v")):
        raise StepError(f"{tag or version} is no tag: write v and a version, like v0.2.0")
    other = [f"{name} says {found}" for name, found in places if found != version]
    other += _pins(root, version)
    if other:
        raise StepError("\n".join([f"not all say {version}:", *other]))
    return version


def _pins(root: Path, version: str) -> Iterator[str]:
    """Packages that would not take their sisters of this version."""
    major, minor, _ = map(int, _VERSION.fullmatch(version).groups())  # type: ignore[union-attr]
    names = {tomllib.loads((one / "pyproject.toml").read_text())["project"]["name"]
             for one in packages(root)}  # fmt: skip
    wanted = f">={major}.{minor},<{major}.{minor + 1}"
    for directory in packages(root):
        project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
        extras = project.get("optional-dependencies", {}).values()
        for need in (*project["dependencies"], *(one for extra in extras for one in extra)):
            name, pin = re.fullmatch(r"([\w.-]+)(?:\[.*?\])?(.*)", need).groups()  # type: ignore[union-attr]
            if name in names and pin != wanted:
                yield f"{directory.name} needs {need}, which has to be {name}{wanted}"


def notes(root: Path, version: str) -> str:
    """What CHANGELOG.md says of a version.

    Raises:
        StepError: It says nothing of it, or something is still under *Unreleased*.
    """
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    texts = {head.split()[0]: text.strip() for head, _, text in
             (section.partition("\n") for section in sections)}  # fmt: skip
    if texts.get(_UNRELEASED):
        raise StepError(f"CHANGELOG.md: move what is under {_UNRELEASED} to a section {version}")
    if not texts.get(version):
        raise StepError(f"CHANGELOG.md has no section {version}")
    return texts[version]
