"""A snapshot: what goes in, what comes out, and what never does."""

import io
import itertools
import os
import random
import sqlite3
import tarfile
from pathlib import Path
from typing import IO

import pytest

from worker_wrapper.session import tree
from worker_wrapper.session.archive import MAGIC, UnreadableError, forget, pack, unpack
from worker_wrapper.session.tree import TooLargeError

OWN = "5e55104e-0000-4000-8000-000000000000"
OTHER = "5e55104e-1111-4000-8000-000000000000"
MEGABYTE = 1024 * 1024


class Home:
    """A home directory with an agent's conversations below `projects`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.projects = path / ".claude" / "projects"
        self.roots = {".claude/projects": self.projects}

    def write(self, name: str, text: str = "said") -> Path:
        path = self.projects / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def pack(self, *sessions: str, limit: int = MEGABYTE) -> bytes:
        return pack(self.roots, agent="claude", sessions=sessions or (OWN,), limit=limit)

    def unpack(self, data: bytes, **how: int) -> int:
        return unpack(data, self.roots, agent="claude", **how)

    @property
    def files(self) -> dict[str, str]:
        found = (path for path in self.path.rglob("*") if path.is_file() and not path.is_symlink())
        return {path.relative_to(self.path).as_posix(): path.read_text() for path in found}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Home:
    return Home(tmp_path / "elsewhere")


def snapshot_with(*entries: tarfile.TarInfo) -> bytes:
    """What somebody who could write to Redis might put there."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as tar:
        for entry in entries:
            entry.size = 4 if entry.isreg() else 0
            tar.addfile(entry, io.BytesIO(b"evil"))
    return MAGIC + b"claude\n" + body.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_what_is_packed_is_unpacked_elsewhere(home: Home, elsewhere: Home) -> None:
    home.write(f"-work/{OWN}.jsonl", "one\ntwo\n")
    home.write(f"-work/{OWN}/subagents/a.jsonl", "three")
    home.write("-work/memory/MEMORY.md", "likes blue")
    assert elsewhere.unpack(home.pack()) == 3
    assert elsewhere.files == home.files


def test_when_a_file_was_changed_is_kept(home: Home, elsewhere: Home) -> None:
    path = home.write("a")
    os.utime(path, (1_000_000, 1_000_000))
    elsewhere.unpack(home.pack())
    assert (elsewhere.projects / "a").stat().st_mtime == 1_000_000


def test_what_is_there_already_is_replaced_and_the_rest_is_left(home: Home) -> None:
    home.write("a", "old")
    data = home.pack()
    home.write("a", "half of a turn that was cut off")
    home.write("b", "newer")
    home.unpack(data)
    assert home.files == {".claude/projects/a": "old", ".claude/projects/b": "newer"}


def test_a_root_may_be_a_single_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    data = pack({"known.json": tmp_path / "one"}, agent="a", sessions=(), limit=MEGABYTE)
    unpack(data, {"known.json": tmp_path / "deep" / "two"}, agent="a")
    assert (tmp_path / "deep" / "two").read_text() == "1"


def database(home: Home) -> sqlite3.Connection:
    """A database that keeps a log, as that of opencode does."""
    home.projects.mkdir(parents=True, exist_ok=True)
    opened = sqlite3.connect(home.projects / "own.db", isolation_level=None)
    opened.execute("PRAGMA journal_mode=WAL")
    opened.execute("CREATE TABLE IF NOT EXISTS said (words)")
    return opened


def said(home: Home) -> list[str]:
    return [words for (words,) in database(home).execute("SELECT words FROM said")]


def test_a_database_is_copied_with_its_log_and_over_another_one(
    home: Home, elsewhere: Home
) -> None:
    working, other = database(home), database(elsewhere)
    working.execute("INSERT INTO said VALUES ('blue')")
    other.executemany("INSERT INTO said VALUES (?)", [("red",)] * 1000)
    data = home.pack()
    working.execute("INSERT INTO said VALUES ('later')")
    elsewhere.unpack(data)
    assert said(elsewhere) == ["blue"]
    working.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    working.close()
    other.close()
    with sqlite3.connect(elsewhere.projects / "own.db") as stale:
        stale.execute("INSERT INTO said VALUES ('stale')")
    elsewhere.unpack(home.pack())
    assert said(elsewhere) == ["blue", "later"]


def test_a_database_that_takes_in_its_log_meanwhile_is_not_kept_by_halves(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = database(home)
    working.execute("INSERT INTO said VALUES ('blue')")
    opened = tree.opened

    def slowly(found: tree.Found) -> IO[bytes]:
        if found.name.endswith("-wal"):
            working.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return opened(found)

    monkeypatch.setattr(tree, "opened", slowly)
    with pytest.raises(OSError, match="changed while it was copied"):
        home.pack()
    assert home.pack()


def test_nothing_to_keep_is_a_snapshot_too(home: Home, elsewhere: Home) -> None:
    assert elsewhere.unpack(home.pack()) == 0


def test_conversations_that_are_not_asked_for_are_left_out(home: Home, elsewhere: Home) -> None:
    home.write(f"-work/{OWN}.jsonl")
    home.write(f"-work/{OTHER}.jsonl")
    home.write("-work/notes.md")
    elsewhere.unpack(home.pack(OWN))
    assert set(elsewhere.files) == {
        f".claude/projects/-work/{OWN}.jsonl",
        ".claude/projects/-work/notes.md",
    }


def test_credentials_are_never_kept_wherever_they_are(home: Home, elsewhere: Home) -> None:
    for name in (".credentials.json", "auth.json", "deep/.credentials.json"):
        home.write(name, "sk-secret")
    home.write("a")
    data = home.pack()
    assert b"sk-secret" not in data
    assert elsewhere.unpack(data) == 1


def test_no_link_is_followed_when_packing(home: Home, elsewhere: Home, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the password of Redis")
    home.write("a")
    (home.projects / "file").symlink_to(tmp_path / "secret")
    (home.projects / "directory").symlink_to(tmp_path)
    (home.projects / "environment").symlink_to("/proc/self/environ")
    os.mkfifo(home.projects / "pipe")
    assert elsewhere.unpack(home.pack()) == 1


def test_a_root_that_is_a_link_is_not_followed(home: Home, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "a").write_text("secret")
    home.projects.parent.mkdir(parents=True)
    home.projects.symlink_to(tmp_path / "secrets")
    assert home.unpack(home.pack()) == 0


@pytest.mark.parametrize(
    "hostile",
    [
        entry("../escaped"),
        entry(".claude/projects/../../../escaped"),
        entry("/tmp/escaped"),
        entry(".ssh/authorized_keys"),
        entry(".claude/settings.json"),
        entry(".claude/projects/.credentials.json"),
        entry(".claude/projects/link", tarfile.SYMTYPE, "/etc/passwd"),
        entry(".claude/projects/hard", tarfile.LNKTYPE, "/etc/passwd"),
        entry(".claude/projects/device", tarfile.CHRTYPE),
        entry(".claude/projects/pipe", tarfile.FIFOTYPE),
    ],
    ids=lambda made: f"{made.name}-{made.type!r}",
)
def test_only_files_below_the_roots_come_out(
    elsewhere: Home, tmp_path: Path, hostile: tarfile.TarInfo
) -> None:
    before = set(tmp_path.rglob("*"))
    assert elsewhere.unpack(snapshot_with(hostile)) == 0
    made = {path for path in set(tmp_path.rglob("*")) - before if not path.is_dir()}
    assert made == set()


def test_nothing_is_written_through_a_link_that_is_there(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    home.projects.mkdir(parents=True)
    (home.projects / "deep").symlink_to(outside)
    (home.projects / "precious").symlink_to(outside / "precious")
    home.unpack(
        snapshot_with(
            entry(".claude/projects/deep/new"),
            entry(".claude/projects/precious"),
        )
    )
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"precious": "precious"}
    assert (home.projects / "precious").read_text() == "evil"


def test_a_snapshot_beyond_the_limit_is_refused_before_it_is_whole(home: Home) -> None:
    noise = random.Random(1).randbytes(MEGABYTE).hex()
    home.write("a", noise)
    with pytest.raises(TooLargeError) as caught:
        home.pack(limit=100_000)
    assert 100_000 < caught.value.reached < 400_000


def test_a_bomb_is_refused(home: Home, elsewhere: Home) -> None:
    home.write("a", "0" * 5 * MEGABYTE)
    data = home.pack()
    assert len(data) < 20_000
    with pytest.raises(UnreadableError, match="more than 1048576 bytes"):
        elsewhere.unpack(data, limit=MEGABYTE)


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_a_damaged_snapshot_is_refused(home: Home, elsewhere: Home, cut: int) -> None:
    home.write("a", random.Random(1).randbytes(10_000).hex())
    with pytest.raises(UnreadableError):
        elsewhere.unpack(home.pack()[:cut])


@pytest.mark.parametrize("length", range(20))
def test_one_that_ends_within_the_compressions_own_header_is_refused(
    home: Home, elsewhere: Home, length: int
) -> None:
    path = home.write("a", "text")
    for modified, flags in itertools.product(range(50), (0, 0xFF)):
        os.utime(path, (modified, modified))  # what bytes follow counts too
        whole = home.pack()
        body = whole.index(b"\n") + 1
        torn = bytearray(whole[: body + length])
        torn[body + 3 : body + 4] = bytes([flags])[: len(torn[body + 3 : body + 4])]
        with pytest.raises(UnreadableError):
            elsewhere.unpack(bytes(torn))


def test_another_agents_snapshot_is_refused(home: Home) -> None:
    with pytest.raises(UnreadableError, match="no snapshot of codex"):
        unpack(home.pack(), home.roots, agent="codex")


def test_one_conversation_can_be_forgotten(home: Home) -> None:
    home.write(f"-work/{OWN}.jsonl")
    home.write(f"-work/{OWN}/subagents/a.jsonl")
    home.write(f"-work/{OTHER}.jsonl")
    forget(home.roots, OWN)
    assert set(home.files) == {f".claude/projects/-work/{OTHER}.jsonl"}
