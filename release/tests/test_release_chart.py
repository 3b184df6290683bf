"""The chart's package: the images of a release in it, and the same bytes each time."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest
import yaml
from orbiter_images.runner import StepError
from orbiter_release import chart

VALUES = Path(__file__).resolve().parents[2] / "helm/orbiter/values.yaml"
NAMES = ("operator", "server", *(
    f"worker-{agent}" for agent in ("claude", "factory", "codex", "gemini", "opencode", "orbiter")
))  # fmt: skip
DIGESTS = {name: f"sha256:{number:064x}" for number, name in enumerate(NAMES)}
IMAGES = chart.Images("registry.example.com/orbiter", "0.2.0", DIGESTS)


def test_every_image_of_the_chart_gets_its_digest_and_all_else_stays():
    text = VALUES.read_text()
    old, new = yaml.safe_load(text), yaml.safe_load(chart.filled(text, IMAGES))
    named = new.pop("images")
    at = {name: f"registry.example.com/orbiter/{name}@{DIGESTS[name]}" for name in NAMES}
    assert named == {
        **old.pop("images"),
        "registry": "registry.example.com/orbiter",
        "tag": "0.2.0",
        "operator": at["operator"],
        "server": at["server"],
        "workers": {name.removeprefix("worker-"): at[name] for name in NAMES[2:]},
    }
    assert new == old
    comments = [line for line in text.splitlines() if line.strip().startswith("#")]
    kept = [line for line in chart.filled(text, IMAGES).splitlines() if "#" in line]
    assert [line for line in kept if line.strip().startswith("#")] == comments


def test_an_image_without_a_digest_is_named():
    digests = {name: digest for name, digest in DIGESTS.items() if name != "server"}
    with pytest.raises(StepError, match="names the image server, and there is no digest of it"):
        chart.filled(VALUES.read_text(), chart.Images("r", "0.2.0", digests))


def test_a_digest_of_an_image_that_the_chart_does_not_have_is_named():
    images = chart.Images("r", "0.2.0", {**DIGESTS, "worker-clippy": DIGESTS["server"]})
    with pytest.raises(StepError, match="does not name the image worker-clippy"):
        chart.filled(VALUES.read_text(), images)


@pytest.mark.parametrize("digest", ["", "latest", "sha256:12", f"sha256:{'0' * 63}g"])
def test_what_is_no_digest_is_said(tmp_path, digest):
    (tmp_path / "operator").write_text(digest)
    with pytest.raises(StepError, match="operator has no digest"):
        chart.read_digests(tmp_path)


def test_digests_are_read_by_the_names_of_their_files(tmp_path):
    for name, digest in DIGESTS.items():
        (tmp_path / name).write_text(f"{digest}\n")
    assert chart.read_digests(tmp_path) == DIGESTS


def archive(mtime: int, names: list[str]) -> bytes:
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=mtime) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uid = len(name), mtime, mtime
            tar.addfile(entry, io.BytesIO(name.encode()))
    return out.getvalue()


def test_the_hour_of_packing_and_the_order_of_files_leave_no_trace():
    one = chart.same_bytes(archive(1, ["orbiter/a", "orbiter/b"]), 1_700_000_000)
    other = chart.same_bytes(archive(2, ["orbiter/b", "orbiter/a"]), 1_700_000_000)
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert tar.getnames() == ["orbiter/a", "orbiter/b"]
        assert [tar.extractfile(name).read() for name in tar.getnames()] == [
            b"orbiter/a",
            b"orbiter/b",
        ]
