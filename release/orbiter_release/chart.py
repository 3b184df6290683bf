"""The chart as one file: packed, the same bytes each time, with the images' digests in it."""

import gzip
import io
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orbiter_images.runner import StepError, run

NAME: Final = "orbiter"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_LINE: Final = re.compile(r"^(?P<head> +(?P<key>\w+): )(?P<value>[\w./:-]+)$")


@dataclass(frozen=True)
class Images:
    """Where the images of a release are.

    Attributes:
        registry: For example "registry.example.com/orbiter".
        tag: The version.
        digests: Of each image, by its name without the registry.
    """

    registry: str
    tag: str
    digests: Mapping[str, str]


def is_digest(text: str) -> bool:
    """Whether a text is the digest of an image."""
    return _DIGEST.fullmatch(text) is not None


def read_digests(directory: Path) -> dict[str, str]:
    """Digests of images: a file for each, whose name is the image's.

    Raises:
        StepError: A file has none.
    """
    found = {file.name: file.read_text().strip() for file in sorted(directory.iterdir())}
    for name, digest in found.items():
        if not is_digest(digest):
            raise StepError(f"{directory / name} has no digest, which is sha256: and 64 digits")
    return found


def filled(values: str, images: Images) -> str:
    """The text of values.yaml with the images of a release in it, comments and all.

    Raises:
        StepError: There is no digest for an image, or one that the chart does not name.
    """
    lines, inside, used = [], False, set()
    for line in values.splitlines():
        if line and not line.startswith((" ", "#")):
            inside = line == "images:"
        found = _LINE.match(line) if inside else None
        if found and found["key"] in ("registry", "tag"):
            line = found["head"] + getattr(images, found["key"])
        elif found and found["key"] != "pullPolicy":
            name = found["value"]
            if name not in images.digests:
                raise StepError(f"the chart names the image {name}, and there is no digest of it")
            used.add(name)
            line = f"{found['head']}{images.registry}/{name}@{images.digests[name]}"
        lines.append(line)
    if unused := sorted(images.digests.keys() - used):
        raise StepError(f"the chart does not name the image {unused[0]}, which has a digest")
    return "\n".join(lines) + "\n"


def package(
    helm: Path, chart: Path, into: Path, *, epoch: int, images: Images | None = None
) -> Path:
    """Pack the chart; return the file.

    Helm packs; then its archive is written anew, because it has the time of day in it.

    Args:
        helm: The program.
        chart: The directory of the chart.
        into: Where the file goes.
        epoch: The time that it says, in seconds since 1970.
        images: What is put into values.yaml; None leaves it as it is.
    """
    with tempfile.TemporaryDirectory() as directory:
        staged = Path(directory) / NAME
        shutil.copytree(chart, staged)
        if images:
            values = staged / "values.yaml"
            values.write_text(filled(values.read_text(), images))
        run([str(helm), "package", str(staged), "--destination", directory])
        [packed] = Path(directory).glob("*.tgz")
        into.mkdir(parents=True, exist_ok=True)
        target = into / packed.name
        target.write_bytes(same_bytes(packed.read_bytes(), epoch))
    return target


def same_bytes(archive: bytes, epoch: int) -> bytes:
    """An archive with the same files, which differs only where a file does."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime, entry.mode = member.size, epoch, 0o644
            new.addfile(entry, old.extractfile(member))
    return out.getvalue()


def check(helm: Path, packed: Path, chart: Path, images: Images | None = None) -> int:
    """Lint the package, and see that it renders what its source does; return how often.

    Raises:
        StepError: It does not.
    """
    given: list[str] = []
    if images:
        import yaml

        named = yaml.safe_load(filled((chart / "values.yaml").read_text(), images))["images"]
        flat = {f"images.{key}": value for key, value in named.items() if isinstance(value, str)}
        flat |= {f"images.workers.{key}": value for key, value in named["workers"].items()}
        given = [word for pair in flat.items() for word in ("--set-string", "=".join(pair))]
    ways = [[], *(["-f", str(values)] for values in sorted(chart.glob("ci/*.yaml")))]
    for way in ways:
        run([str(helm), "lint", "--quiet", "--strict", str(packed), *way])
        source, package = (
            run([str(helm), "template", NAME, str(what), "-n", f"{NAME}-system", *way, *more])
            for what, more in ((chart, given), (packed, []))
        )
        if source != package:
            raise StepError(f"{packed.name} renders something else than its source ({way})")
    return len(ways)
