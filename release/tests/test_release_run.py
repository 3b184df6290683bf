"""The program as the workflow runs it, with digests; and what it refuses before it begins."""

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from orbiter_release import images, versions

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "release" / "release.py"


def release(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True)


@pytest.mark.integration
@pytest.mark.timeout(600)
def test_a_release_has_every_package_sums_that_hold_and_a_chart_that_names_digests(tmp_path):
    digests, dist = tmp_path / "digests", tmp_path / "dist"
    digests.mkdir()
    for number, name in enumerate(images.names()):
        (digests / name).write_text(f"sha256:{number:064x}\n")
    place = "registry.example.com/orbiter"
    done = release("--no-install", "--dist", dist, "--registry", place, "--digests", digests)
    assert done.returncode == 0, done.stderr
    version = versions.agreed(ROOT)
    sums = dict(
        reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines()
    )
    assert {file.name for file in dist.iterdir()} == {*sums, "SHA256SUMS"}
    assert len(sums) == 2 * 18 + 2
    for name, expected in sums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == expected
    with tarfile.open(dist / f"orbiter-{version}.tgz") as tar:
        named = yaml.safe_load(tar.extractfile("orbiter/values.yaml"))["images"]
    assert named["operator"] == f"{place}/operator@sha256:{images.names().index('operator'):064x}"
    assert named["tag"] == version
    assert "built again, the same bytes" in done.stdout


def test_a_tag_of_another_version_is_refused_before_anything_is_built(tmp_path):
    done = release("--tag", "v9.9.9", "--dist", tmp_path / "dist")
    assert done.returncode == 1
    assert "release: not all say 9.9.9:\npyproject.toml says " in done.stderr
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--registry", "registry.example.com"), "--registry and --digests belong together"),
        (("--push-image", "operator"), "--push-image needs --registry, --digests and --tag"),
        (("--notes",), "--notes needs --tag"),
    ],
)
def test_options_that_need_each_other_say_so(words, sentence):
    done = release(*words)
    assert done.returncode == 2
    assert sentence in done.stderr
