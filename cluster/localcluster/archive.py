"""A minimal OCI image archive of one program that needs no other file. Needs no image builder."""

import hashlib
import io
import json
import tarfile
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def single_program_image(
    program: bytes, name: str, architecture: str, *, file: str = "pause"
) -> bytes:
    """An oci-archive whose only file is `file`, which it runs, named `name` when imported."""
    layer = _tar({file: program})
    config = _json({
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [f"/{file}"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    })  # fmt: skip
    manifest = _json({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config),
        "layers": [_descriptor(LAYER, layer)],
    })  # fmt: skip
    named = _descriptor(MANIFEST, manifest)
    named["annotations"] = {"io.containerd.image.name": name}
    blobs = {f"blobs/sha256/{_digest(blob)[7:]}": blob for blob in (layer, config, manifest)}
    return _tar({
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [named]}),
        **blobs,
    })  # fmt: skip


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
