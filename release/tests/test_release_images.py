"""An image is built for each architecture, looked at, and pushed; docker is a stand-in."""

import json
import os
import sys
from pathlib import Path

import pytest
from orbiter_images.runner import StepError
from orbiter_release import elf, images

DIGEST = f"sha256:{7:064x}"
DOCKER = """#!{python}
import io, json, os, sys, tarfile
words = sys.argv[1:]
with open(os.environ["TYPED"], "a") as log:
    log.write(json.dumps(words) + "\\n")
said = dict(zip(words, words[1:]))
output = said.get("--output", "")
if output.startswith("type=tar"):
    machine = int(os.environ.get("MACHINE_OF_" + said["--platform"].partition("/")[2], 0))
    header = b"\\x7fELF\\2\\1".ljust(18, b"\\0") + machine.to_bytes(2, "little")
    with tarfile.open(output.partition("dest=")[2], "w") as tar:
        entry = tarfile.TarInfo("bin/agent")
        entry.size = len(header)
        tar.addfile(entry, io.BytesIO(header))
if "--metadata-file" in said:
    with open(said["--metadata-file"], "w") as file:
        json.dump({{"containerimage.digest": os.environ["DIGEST"]}}, file)
"""


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker that builds nothing; what it is told stands in this file."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER.format(python=sys.executable))
    program.chmod(0o755)
    log = tmp_path / "typed"
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TYPED", str(log))
    monkeypatch.setenv("DIGEST", DIGEST)
    for architecture, machine in elf.MACHINES.items():
        monkeypatch.setenv(f"MACHINE_OF_{architecture}", str(machine))
    return log


def commands(log: Path) -> list[str]:
    return [" ".join(json.loads(line)) for line in log.read_text().splitlines()]


def test_each_architecture_is_built_and_looked_at_before_anything_is_pushed(typed, tmp_path):
    found = images.push("worker-claude", "registry.example.com/o", "0.2.0", tmp_path / "digests")
    assert found == DIGEST
    assert (tmp_path / "digests" / "worker-claude").read_text() == f"{DIGEST}\n"
    *looked_at, pushed = commands(typed)
    begin = "buildx build --file images/worker.Dockerfile --build-arg AGENT=claude"
    assert all(command.startswith(begin) for command in (*looked_at, pushed))
    assert ["--platform linux/amd64 " in looked_at[0], "arm64" in looked_at[1]] == [True, True]
    assert not [command for command in looked_at if "--push" in command]
    assert "--platform linux/amd64,linux/arm64 " in pushed
    assert "--tag registry.example.com/o/worker-claude:0.2.0 --push" in pushed
    assert "--attest type=provenance,mode=max --attest type=sbom" in pushed


def test_an_image_with_a_file_for_another_machine_is_not_pushed(typed, tmp_path, monkeypatch):
    monkeypatch.setenv("MACHINE_OF_arm64", "62")
    with pytest.raises(StepError, match=r"arm64\.tar is not all arm64"):
        images.push("operator", "registry.example.com/o", "0.2.0", tmp_path / "digests")
    assert not [command for command in commands(typed) if "--push" in command]
    assert not (tmp_path / "digests").exists()


def test_what_an_image_is_built_from_stays_on_the_machine(typed, tmp_path):
    images.push("worker-orbiter", "registry.example.com/o", "0.2.0", tmp_path)
    parent, *others = commands(typed)
    assert parent.startswith("buildx build --file images/worker.Dockerfile --platform")
    assert "type=oci,tar=false" in parent
    assert "--push" not in parent
    assert len(others) == 3
    for command in others:
        assert "--build-context localhost/orbiter/worker:dev=oci-layout://" in command
        assert f"/worker@{DIGEST}" in command


def test_an_agent_that_is_not_published_for_arm64_has_an_image_for_amd64(typed, tmp_path):
    images.push("worker-factory", "registry.example.com/o", "0.2.0", tmp_path)
    assert not [command for command in commands(typed) if "arm64" in command]


def test_a_digest_that_docker_does_not_tell_is_not_made_up(typed, tmp_path, monkeypatch):
    monkeypatch.setenv("DIGEST", "")
    with pytest.raises(StepError, match="docker says no digest of server"):
        images.push("server", "registry.example.com/o", "0.2.0", tmp_path)
    assert not (tmp_path / "server").exists()


def test_an_image_that_is_not_released_is_refused(typed, tmp_path):
    with pytest.raises(StepError, match="worker-echo is no image of a release; these are: oper"):
        images.push("worker-echo", "registry.example.com/o", "0.2.0", tmp_path)
