"""Real git repositories for tests, and git's own server over HTTP behind a password."""

import base64
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

IDENTITY = {
    **{"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t"},
    **{"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"},
    **{"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
}


def git(where: Path, *args: str, stdin: IO[str] | None = None) -> str:
    """Run git somewhere, as nobody in particular; return what it printed."""
    done = subprocess.run(
        ["git", *args],
        cwd=where,
        env=os.environ | IDENTITY,
        stdin=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def commit(where: Path, name: str = "file") -> str:
    """Add a file and commit it; return the commit."""
    (where / name).write_text(f"{name}\n")
    git(where, "add", name)
    git(where, "commit", "-qm", name)
    return git(where, "rev-parse", "HEAD")


def make_template(source: Path) -> Path:
    """A repository with two commits on main, a branch `topic`, a tag `v1` at the first commit."""
    git(source, "init", "-qb", "main")
    commit(source, "first")
    git(source, "tag", "-am", "one", "v1")
    commit(source, "second")
    git(source, "checkout", "-qb", "topic")
    commit(source, "third")
    git(source, "checkout", "-q", "main")
    return source


def bare_copy(template: Path, bare: Path) -> Path:
    """A bare repository like another one."""
    shutil.copytree(template / ".git", bare)
    git(bare, "config", "core.bare", "true")
    return bare


def give_password(directory: Path) -> Path:
    """The directory of a mounted Secret with what the server below asks for."""
    directory.mkdir()
    (directory / "username").write_text("robot\n")
    (directory / "password").write_text("pa ss'word\n")
    return directory


class _GitOverHttp(BaseHTTPRequestHandler):
    """Git's own HTTP backend behind a password."""

    root: Path
    asked: list[str]
    gives_any_commit: bool

    def do_GET(self) -> None:
        """Hand the request to git, if it comes with the password."""
        expected = base64.b64encode(b"robot:pa ss'word").decode()
        given = self.headers.get("Authorization", "")
        self.asked.append(given)
        if given != f"Basic {expected}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        size = int(self.headers.get("Content-Length") or 0)
        done = subprocess.run(
            ["git", "-c", "http.receivepack=true", "http-backend"],
            input=self.rfile.read(size),
            env=os.environ
            | {
                **{"GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1"},
                **{"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command},
                **{"CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "robot"},
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                # By its first protocol git gives the heads of branches and tags only.
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", "") * self.gives_any_commit,
            },
            capture_output=True,
            check=True,
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name http.server asks for

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(root: Path, *, gives_any_commit: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Serve the repositories of a directory; yield the URL and the passwords it was given."""
    asked: list[str] = []
    known = {"root": root, "asked": asked, "gives_any_commit": gives_any_commit}
    handler = type("Handler", (_GitOverHttp,), known)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}", asked
        finally:
            running.shutdown()
            thread.join()
