"""For which machine a file was compiled, whatever it says of itself."""

import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orbiter_images.runner import StepError
from orbiter_release import elf


def header(machine: int, *, start: bytes = b"\x7fELF\x02\x01\x01") -> bytes:
    return start.ljust(16, b"\0") + b"\x02\0" + machine.to_bytes(2, "little") + b"rest"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    (place / "bin").mkdir(parents=True)
    (place / "bin/agent").write_bytes(header(183))
    (place / "bin/script").write_text("#!/bin/sh\n")
    (place / "lib.so").write_bytes(header(183))
    (place / "link.so").symlink_to("/bin/sh")
    (place / "empty").touch()
    return place


def test_all_elf_files_of_a_tree_are_counted_where_they_are_for_the_machine(tree):
    assert elf.check(tree, "arm64") == 2


def test_one_for_another_machine_is_named(tree):
    (tree / "node_modules").mkdir()
    (tree / "node_modules/pty.node").write_bytes(header(62))
    with pytest.raises(StepError, match=r"node_modules/pty\.node is for machine 62"):
        elf.check(tree, "arm64")


def test_a_tar_archive_is_looked_at_without_being_unpacked(tree, tmp_path):
    archive = tmp_path / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tree, arcname=".")
    assert elf.check(archive, "arm64") == 2
    with pytest.raises(StepError, match=r"image\.tar is not all amd64"):
        elf.check(archive, "amd64")


def test_a_tree_without_any_is_not_taken_for_one_that_is_well(tmp_path):
    with pytest.raises(StepError, match="there is no ELF file"):
        elf.check(tmp_path, "arm64")


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF",
        header(183)[:19],
        header(183, start=b"\x7fELF\x01\x01"),
        header(183, start=b"\x7fELF\x02\x02"),
    ],
)
def test_an_elf_file_that_is_cut_off_or_of_another_kind_is_of_no_machine(data):
    assert elf.machine(data) == 0


@given(st.binary(max_size=64))
def test_whatever_a_file_begins_with_there_is_an_answer(data):
    found = elf.machine(data)
    assert (found is None) == (not data.startswith(b"\x7fELF"))


def test_this_python_is_for_this_machine():
    program = Path(sys.executable).resolve().read_bytes()[:64]
    assert elf.machine(program) in elf.MACHINES.values()
