"""The pause image, without an image builder."""

import hashlib
import io
import json
import tarfile

from localcluster.archive import single_program_image


def unpack(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file}


FILES = unpack(single_program_image(b"\x7fELF...", "localhost/pause:dev", "amd64"))


def blob(digest: str) -> bytes:
    return FILES[f"blobs/sha256/{digest.removeprefix('sha256:')}"]


def test_every_blob_is_stored_under_its_own_digest() -> None:
    blobs = {name: content for name, content in FILES.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, content in blobs.items():
        assert name.endswith(hashlib.sha256(content).hexdigest())


def test_the_image_runs_the_program_and_has_the_name() -> None:
    named = json.loads(FILES["index.json"])["manifests"][0]
    manifest = json.loads(blob(named["digest"]))
    config = json.loads(blob(manifest["config"]["digest"]))
    layer = unpack(blob(manifest["layers"][0]["digest"]))
    assert named["annotations"]["io.containerd.image.name"] == "localhost/pause:dev"
    assert layer == {"pause": b"\x7fELF..."}
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
