"""The git server of the end-to-end tests, with a real git client."""

import importlib.util
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "images" / "git_server.py"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    spec = importlib.util.spec_from_file_location("git_server", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.serve(tmp_path / "git", "bot", "secret", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    return subprocess.run(
        ["git", *arguments], cwd=directory, env=environment, capture_output=True, text=True
    )


def test_a_repository_appears_with_its_first_commit(address: str, tmp_path: Path) -> None:
    done = git(tmp_path, "clone", "--depth=1", f"http://bot:secret@{address}/new.git", "work")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "README.md").exists()


def test_without_the_password_nothing_is_served(address: str, tmp_path: Path) -> None:
    for login in ("", "bot:wrong@"):
        assert git(tmp_path, "ls-remote", f"http://{login}{address}/new.git").returncode == 128
    assert not (tmp_path / "git" / "new.git").exists()


def test_public_repositories_need_no_password(address: str, tmp_path: Path) -> None:
    done = git(tmp_path, "ls-remote", f"http://{address}/public/new.git", "refs/heads/main")
    assert done.stdout.endswith("refs/heads/main\n")


def test_large_pushes_arrive(address: str, tmp_path: Path) -> None:
    url = f"http://bot:secret@{address}/new.git"
    git(tmp_path, "clone", url, "work")
    work = tmp_path / "work"
    (work / "large").write_bytes(os.urandom(3_000_000))
    git(work, "checkout", "-b", "topic")
    git(work, "add", ".")
    git(work, "commit", "-m", "More than one buffer")
    pushed = git(work, "push", "origin", "topic")
    assert pushed.returncode == 0, pushed.stderr
    head = git(work, "rev-parse", "HEAD").stdout.strip()
    assert git(tmp_path, "ls-remote", url, "refs/heads/topic").stdout.startswith(head)
