"""For which machine a program was compiled: the first bytes of each ELF file of a tree say it."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orbiter_images.runner import StepError

# e_machine, of the ELF header (elf.h)
MACHINES: Final = {"amd64": 62, "arm64": 183}
_HEADER_BYTES: Final = 20
_MAGIC: Final = b"\x7fELF"
_LITTLE_64: Final = b"\x02\x01"
"""Of both machines: 64 bits, the low byte first."""


def machine(header: bytes) -> int | None:
    """The machine of a file that begins so; None when it is no ELF, 0 when it is of no machine."""
    if not header.startswith(_MAGIC):
        return None
    if len(header) < _HEADER_BYTES or header[4:6] != _LITTLE_64:
        return 0
    return int.from_bytes(header[18:20], "little")


def headers(place: Path) -> Iterator[tuple[str, bytes]]:
    """Name and beginning of each regular file of a directory, or of a tar archive."""
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    yield str(path.relative_to(place)), file.read(_HEADER_BYTES)
        return
    with tarfile.open(place) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content:
                yield member.name, content.read(_HEADER_BYTES)


def check(place: Path, architecture: str) -> int:
    """See that all ELF files are for one machine; return how many there are.

    Args:
        place: A directory, or a tar archive of one.
        architecture: "amd64" or "arm64".

    Raises:
        StepError: Some are not, or there are none.
    """
    count, others = 0, []
    for name, header in headers(place):
        found = machine(header)
        if found is None:
            continue
        count += 1
        if found != MACHINES[architecture]:
            others.append(f"{name} is for machine {found}")
    if others or not count:
        what = others[:10] or ["there is no ELF file"]
        raise StepError("\n".join([f"{place.name} is not all {architecture}:", *what]))
    return count
