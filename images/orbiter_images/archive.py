"""Archives of images, and how to leave out the layers that a cluster has already.

containerd takes an OCI archive without a layer's content when it knows the layer. So an image of
650 MB of which only our own code has changed is loaded in a fraction of a second.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Collection
from pathlib import Path

from .runner import StepError

OCI = "application/vnd.oci.image"
LAYOUT = {"imageLayoutVersion": "1.0.0"}


def layers(archive: Path) -> list[str]:
    """Return the names of the layers in a docker archive, the lowest first."""
    with tarfile.open(archive) as source:
        return list(_manifest(source)["Layers"])


def without(archive: Path, target: Path, name: str, known: Collection[str]) -> None:
    """Write a docker archive as an OCI archive that lacks the known layers.

    Args:
        archive: What buildah wrote: layers are uncompressed and named as their digests.
        target: Where to write.
        name: The image's name.
        known: Names of layers to leave out.
    """
    with tarfile.open(archive) as source, tarfile.open(target, "w") as out:
        manifest = _manifest(source)
        config = _add(out, _content(source, manifest["Config"]))
        described = []
        for layer in manifest["Layers"]:
            entry = source.getmember(layer)
            digest = layer.removesuffix(".tar")
            described.append(_descriptor("layer.v1.tar", digest, entry.size))
            if layer not in known:
                blob = tarfile.TarInfo(f"blobs/sha256/{digest}")
                blob.size = entry.size
                out.addfile(blob, source.extractfile(entry))
        body = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _descriptor("config.v1+json", *config),
            "layers": described,
        }
        top = _descriptor("manifest.v1+json", *_add(out, json.dumps(body).encode()))
        top["annotations"] = {"io.containerd.image.name": name}
        _add(out, json.dumps({"schemaVersion": 2, "manifests": [top]}).encode(), "index.json")
        _add(out, json.dumps(LAYOUT).encode(), "oci-layout")


def _manifest(source: tarfile.TarFile) -> dict[str, list[str]]:
    manifest: dict[str, list[str]] = json.loads(_content(source, "manifest.json"))[0]
    return manifest


def _content(source: tarfile.TarFile, name: object) -> bytes:
    found = source.extractfile(str(name))
    if found is None:
        raise StepError(f"the archive of the image is broken: {name} is no file")
    return found.read()


def _add(out: tarfile.TarFile, content: bytes, name: str | None = None) -> tuple[str, int]:
    """Add a file, named by its digest if it has no name; return digest and size."""
    digest = hashlib.sha256(content).hexdigest()
    entry = tarfile.TarInfo(name or f"blobs/sha256/{digest}")
    entry.size = len(content)
    out.addfile(entry, io.BytesIO(content))
    return digest, entry.size


def _descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": size}
