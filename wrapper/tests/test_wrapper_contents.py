"""A workspace as one piece: what comes out is what went in, and nothing is written beside it."""

import gzip
import io
import os
import tarfile
import tracemalloc
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worker_wrapper.process import below
from worker_wrapper.session import archive
from worker_wrapper.workspace import contents, packing
from worker_wrapper.workspace.contents import MAGIC, Repository, UnreadableError
from worker_wrapper.workspace.packing import TooLargeError

LIMIT = 1024 * 1024
NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=12
).filter(lambda name: name not in (".", ".."))


def packed(root: Path, limit: int = LIMIT, about: Repository | None = None) -> bytes:
    files = list(packing.every_file(root))
    return packing.pack(root, files, limit=limit, about=about, commits=None)


def tree(root: Path) -> dict[str, object]:
    """All that is there: bytes and modes of files, targets of links, modes of directories."""
    found: dict[str, object] = {}
    for parts in packing.every_file(root):
        path, about = root.joinpath(*parts), below.status(root, parts)
        assert about is not None
        name = "/".join(parts)
        if path.is_symlink():
            found[name] = path.readlink()
        elif path.is_dir():
            found[name] = about.st_mode & 0o777
        else:
            found[name] = (path.read_bytes(), about.st_mode & 0o777)
    return found


def crafted(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """What somebody who wants to do harm could put in the place of a workspace."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as tar:
        for entry, data in entries:
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return MAGIC + body.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.lists(NAMES, min_size=1, max_size=3).map(tuple),
        st.tuples(st.binary(max_size=200), st.sampled_from([0o644, 0o755, 0o600, 0o444])),
        max_size=6,
    )
)
def test_whatever_is_in_it_it_is_the_same_afterwards(
    tmp_path_factory: pytest.TempPathFactory, files: dict[tuple[str, ...], tuple[bytes, int]]
) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    for parts, (data, mode) in files.items():
        try:
            below.write(one, parts, io.BytesIO(data), mode, 0)
        except OSError:
            continue  # A name in the place of a directory, or one that is too long.
    contents.write(contents.check(packed(one)), other)
    assert tree(other) == tree(one)


def test_links_modes_and_empty_directories_are_kept(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    (one / "bin").mkdir()
    (one / "bin" / "run").write_text("#!/bin/sh\n")
    (one / "bin" / "run").chmod(0o755)
    (one / "link").symlink_to("bin/run")
    (one / "away").symlink_to("/etc/passwd")
    (one / "empty").mkdir()
    os.mkfifo(one / "fifo")
    contents.write(contents.check(packed(one)), other)
    assert (other / "bin" / "run").stat().st_mode & 0o777 == 0o755
    assert (other / "link").readlink() == Path("bin/run")
    assert (other / "away").readlink() == Path("/etc/passwd")
    assert (other / "empty").is_dir()
    assert not (other / "fifo").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "files/../../outside",
        "/outside",
        "files//etc/passwd",
        "files/a/../../outside",
        "files/.",
        "files/",
        "elsewhere/a",
        "files/" + "d/" * 80 + "x",
        "files/" + "n" * 5000,
    ],
)
def test_a_path_that_is_none_of_a_workspace_is_refused_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    hostile = crafted((entry("files/good"), b"good"), (entry(name), b"bad"))
    with pytest.raises(UnreadableError):
        contents.check(hostile)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".git/config", ".git", ".GIT/hooks/post-checkout", ".Git/x"])
def test_of_a_repository_gits_own_directory_is_nobodys_to_write(name: str) -> None:
    about = Repository(base="a" * 40, head="a" * 40).model_dump_json().encode()
    hostile = crafted((entry("repository.json"), about), (entry(f"files/{name}"), b"bad"))
    with pytest.raises(UnreadableError, match="no path"):
        contents.check(hostile)


@pytest.mark.parametrize("name", [".git/config", "../x", "/etc/passwd", "a/../../x", "ጀ"])
def test_nor_is_it_anybodys_to_delete(name: str) -> None:
    about = Repository(base="a" * 40, head="a" * 40, deleted=[name]).model_dump_json().encode()
    with pytest.raises(UnreadableError):
        contents.check(crafted((entry("repository.json"), about)))


@pytest.mark.parametrize(
    "kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_what_is_neither_file_nor_link_nor_directory_is_refused(kind: bytes) -> None:
    with pytest.raises(UnreadableError, match="neither file nor link"):
        contents.check(crafted((entry("files/x", kind, "/etc/passwd"), b"")))


def test_nothing_is_written_through_a_link_that_was_written_before(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir(), outside.mkdir()
    hostile = crafted(
        (entry("files/door", tarfile.SYMTYPE, str(outside)), b""),
        (entry("files/door/planted"), b"bad"),
        (entry("files/file", tarfile.SYMTYPE, str(outside / "planted")), b""),
        (entry("files/file"), b"bad"),
    )
    contents.write(contents.check(hostile), root)
    assert list(outside.iterdir()) == []
    assert (root / "door" / "planted").read_bytes() == b"bad"


def test_what_is_deleted_is_not_looked_for_through_a_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir(), outside.mkdir()
    (outside / "kept").touch()
    (root / "door").symlink_to(outside)
    below.remove(root, ("door", "kept"))
    below.remove(root, ("nothing",))
    assert (outside / "kept").exists()


def test_a_directory_that_becomes_a_link_while_it_is_read_leads_nowhere(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "self").symlink_to("/proc/self")
    data = packing.pack(
        root, [("self", "environ"), ("self", "stat")], limit=LIMIT, about=None, commits=None
    )
    assert contents.check(data).files == 0


def test_what_compresses_well_is_bounded_all_the_same() -> None:
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb") as file:
        header = entry("files/zeros")
        header.size = contents.UNPACKED_BYTES + 1
        file.write(header.tobuf())
    with pytest.raises(UnreadableError, match="more than"):
        contents.check(MAGIC + bomb.getvalue())


def test_a_header_that_says_it_is_huge_is_not_read() -> None:
    body = io.BytesIO()
    with gzip.GzipFile(fileobj=body, mode="wb") as file:
        header = entry("././@PaxHeader", tarfile.XHDTYPE)
        header.size = 2**32
        file.write(header.tobuf())
        file.write(b"\0" * 1024 * 1024)
    with pytest.raises(UnreadableError, match="too long"):
        contents.check(MAGIC + body.getvalue())


def bombs() -> list[bytes]:
    """Tars that cost who reads them far more than they are long."""
    chained = entry("././@PaxHeader", tarfile.XHDTYPE).tobuf() * 3000
    holes = entry("files/a")
    holes.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    holes.size = 64 * 1024 * 1024
    older = entry("files/a", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT)
    more = older[:482] + b"\1" + older[483:]  # another header with holes follows, and so on
    name = entry("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    name.size = 64 * 1024 * 1024
    zeros = b"1" * (64 * 1024 * 1024)
    return [
        chained,
        holes.tobuf(tarfile.PAX_FORMAT) + zeros,
        more + (b"\1" * 512) * 100_000,
        name.tobuf(tarfile.GNU_FORMAT) + zeros,
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_bomb_is_refused_before_it_goes_off(number: int) -> None:
    body = gzip.compress(bombs()[number], 1)
    tracemalloc.start()
    with pytest.raises(UnreadableError):
        contents.check(MAGIC + body)
    with pytest.raises(archive.UnreadableError):
        archive.unpack(archive.MAGIC + b"a\n" + body, {}, agent="a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024


def test_too_many_files_are_refused_on_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    whole = packed(tmp_path)
    monkeypatch.setattr(packing, "FILES", 4)
    with pytest.raises(TooLargeError, match="more than 4 files"):
        packed(tmp_path)
    monkeypatch.setattr(contents, "FILES", 2)
    with pytest.raises(UnreadableError, match="more than 2 files"):
        contents.check(whole)


def test_what_is_larger_than_the_limit_is_said(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(20_000))
    with pytest.raises(TooLargeError, match="more than 10000 bytes"):
        packed(tmp_path, limit=10_000)


def test_a_file_that_shrinks_while_it_is_read_ends_in_zeros(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * 10)
    exactly = packing._Exactly(io.BytesIO(b"abc"), 5)
    assert exactly.read(4) == b"abc\0"
    assert exactly.read(4) == b"\0"
    assert exactly.read(4) == b""


@given(st.binary(max_size=300))
def test_whatever_bytes_there_are_they_are_refused_or_read(data: bytes) -> None:
    for bytes_ in (data, MAGIC + data, MAGIC + gzip.compress(data)):
        with suppress(UnreadableError):
            contents.check(bytes_)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_torn_one_is_refused_or_holds_no_file_that_was_not_in_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("work")
    for number in range(3):
        (root / f"file-{number}").write_bytes(Random(number).randbytes(300))
        os.utime(root / f"file-{number}", (0, 0))
    whole = packed(root)
    torn = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with suppress(UnreadableError):
        assert contents.check(torn).files <= 3


@pytest.mark.parametrize("length", range(20))
def test_one_that_ends_within_the_compressions_own_header_is_refused(
    tmp_path: Path, length: int
) -> None:
    (tmp_path / "file").write_bytes(b"text")
    whole = packed(tmp_path)
    for flags in (0, 0xFF):
        header = bytearray(whole[len(MAGIC) : len(MAGIC) + length])
        header[3:4] = bytes([flags])[: len(header[3:4])]
        with pytest.raises(UnreadableError):
            contents.check(MAGIC + header)
