"""What is in a release: an SBOM in CycloneDX's JSON, of the wheels and of requirements.lock.

A few lines of our own instead of a library: both of its sources are ours, and the file has to be
the same bytes each time.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_VIA: Final = re.compile(r"^    # +(?:via )?([A-Za-z0-9._-]+)", re.MULTILINE)
_ROOT: Final = "orbiter"


@dataclass
class Locked:
    """A package of requirements.lock: its version, and who needs it."""

    version: str
    needed_by: list[str] = field(default_factory=list)


def canonical(name: str) -> str:
    """A package's name as an index has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, Locked]:
    """The packages of a lock file, by name."""
    found = {}
    places = [*_PINNED.finditer(text)]
    ends = [*(place.start() for place in places[1:]), len(text)]
    for place, end in zip(places, ends, strict=True):
        # `# via` stands alone on its line where several follow it
        names = [name for name in _VIA.findall(text[place.end() : end]) if name != "via"]
        found[canonical(place[1])] = Locked(place[2], [canonical(name) for name in names])
    return found


def document(version: str, wheels: Sequence[Path], lock: str, *, epoch: int) -> str:
    """The SBOM, as JSON.

    Args:
        version: Of the release.
        wheels: The wheels.
        lock: The text of requirements.lock.
        epoch: The time that it says, in seconds since 1970.
    """
    ours = [_wheel(wheel) for wheel in sorted(wheels)]
    pinned = locked(lock)
    names = {component["name"]: component["bom-ref"] for component in ours}
    names |= {name: _purl(name, one.version) for name, one in pinned.items()}
    needs = _needs(names, pinned)
    shipped = _reached([component["bom-ref"] for component in ours], needs)
    theirs = [
        {
            "type": "library",
            "bom-ref": names[name],
            "name": name,
            "version": one.version,
            "purl": names[name],
            # What only a developer of Orbiter installs is no part of what is released.
            "scope": "required" if names[name] in shipped else "excluded",
        }
        for name, one in sorted(pinned.items())
    ]
    root = {"type": "application", "bom-ref": _ROOT, "name": _ROOT, "version": version}
    needs[_ROOT] = {component["bom-ref"] for component in ours}
    seed = sha256(json.dumps([ours, theirs], sort_keys=True).encode()).hexdigest()
    sbom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, seed)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root,
        },
        "components": [*ours, *theirs],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(needs[ref])}
            for ref in sorted({_ROOT, *names.values()})
        ],
    }
    return json.dumps(sbom, indent=1) + "\n"


def _wheel(wheel: Path) -> dict[str, Any]:
    """A wheel of ours, as its own metadata has it."""
    with ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        told = HeaderParser().parsestr(archive.read(name).decode())
    purl = _purl(canonical(told["Name"]), told["Version"])
    return {
        "type": "library",
        "bom-ref": purl,
        "name": canonical(told["Name"]),
        "version": told["Version"],
        "description": told["Summary"],
        "licenses": [{"license": {"id": told["License-Expression"]}}],
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": sha256(wheel.read_bytes()).hexdigest()}],
        "scope": "required",
        "properties": [{"name": "orbiter:file", "value": wheel.name}],
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _needs(names: Mapping[str, str], pinned: Mapping[str, Locked]) -> defaultdict[str, set[str]]:
    """Who needs whom, by references; the lock says it the other way round."""
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for name, one in pinned.items():
        for parent in one.needed_by:
            if parent in names:
                needs[names[parent]].add(names[name])
    return needs


def _reached(begin: Sequence[str], needs: Mapping[str, set[str]]) -> set[str]:
    def follow() -> Iterator[str]:
        seen, waiting = set(begin), list(begin)
        while waiting:
            one = waiting.pop()
            yield one
            new = needs.get(one, set()) - seen
            seen |= new
            waiting += new

    return set(follow())
