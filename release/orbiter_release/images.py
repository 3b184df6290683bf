"""The images of a release: built for each architecture by docker's buildx, looked at, and pushed.

The Dockerfiles are those of `make images`; with a registry of base images in reach they need
nothing from this machine. For another architecture than the machine's, what a Dockerfile has run is
emulated; of the image itself nothing is run, it is only looked at.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orbiter_images.catalog import BY_NAME, CATALOG, Image
from orbiter_images.places import versions
from orbiter_images.runner import StepError, run

from orbiter_release import elf
from orbiter_release.chart import is_digest

_TESTS: Final = "tests/"
_LOCAL: Final = {"worker", "redis"}
"""Only what others are built from, and what stands in for a public image on a local cluster."""
_FOREIGN: Final = "arm64"


def names() -> list[str]:
    """The images that are released."""
    return [image.short for image in CATALOG
            if image.short not in _LOCAL and not image.dockerfile.startswith(_TESTS)]  # fmt: skip


def architectures(image: Image) -> list[str]:
    """For which it is built: not for those for which its agent's program is not published."""
    if image.agent and f"{image.agent.upper()}_{_FOREIGN.upper()}_SHA512" not in versions():
        return ["amd64"]
    return ["amd64", _FOREIGN]


def push(name: str, registry: str, tag: str, digests: Path) -> str:
    """Build an image, look at each ELF file of each architecture, and push it.

    Args:
        name: One of `names`.
        registry: Where it goes.
        tag: Its tag.
        digests: A directory, for a file of its name with its digest.

    Returns:
        Its digest, as the registry has it.

    Raises:
        StepError: It cannot be built, or has a file for another machine.
    """
    if name not in names():
        raise StepError(f"{name} is no image of a release; these are: {', '.join(names())}")
    image = BY_NAME[name]
    platforms = architectures(image)
    with tempfile.TemporaryDirectory() as directory:
        options = _options(image, Path(directory), platforms)
        for architecture in platforms:
            tree = Path(directory) / f"{architecture}.tar"
            output = ["--platform", f"linux/{architecture}", "--output", f"type=tar,dest={tree}"]
            _buildx(image, [*options, *output])
            elf.check(tree, architecture)
            tree.unlink()
        told = Path(directory) / "pushed.json"
        attested = ["--attest", "type=provenance,mode=max", "--attest", "type=sbom"]
        output = ["--platform", _list(platforms), "--tag", f"{registry}/{name}:{tag}", "--push"]
        _buildx(image, [*options, *attested, *output, "--metadata-file", str(told)])
        digest = str(json.loads(told.read_text()).get("containerimage.digest"))
    if not is_digest(digest):
        raise StepError(f"docker says no digest of {name}, but {digest!r}")
    digests.mkdir(parents=True, exist_ok=True)
    (digests / name).write_text(f"{digest}\n")
    return digest


def _options(image: Image, directory: Path, platforms: Sequence[str]) -> list[str]:
    """Build arguments; and the image that it is built from, which stays on this machine."""
    options = ["--build-arg", f"AGENT={image.agent}"] if image.agent else []
    if image.parent:
        parent = BY_NAME[image.parent]
        layout = directory / parent.short
        told = directory / "parent.json"
        output = ["--platform", _list(platforms), "--output", f"type=oci,tar=false,dest={layout}"]
        _buildx(parent, [*output, "--metadata-file", str(told)])
        digest = json.loads(told.read_text())["containerimage.digest"]
        options += ["--build-context", f"{parent.name}=oci-layout://{layout}@{digest}"]
    return options


def _buildx(image: Image, options: Sequence[str]) -> None:
    run(["docker", "buildx", "build", "--file", image.dockerfile, *options, "."])


def _list(platforms: Sequence[str]) -> str:
    return ",".join(f"linux/{one}" for one in platforms)
