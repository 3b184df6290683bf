"""A git server for tests: smart HTTP with a password, in front of `git http-backend`.

A repository exists as soon as somebody asks for it (`http://HOST/anything.git`), with one commit on
`main`. Below /public/ nobody is asked for a password. Environment: GIT_ROOT (a writable directory),
GIT_USERNAME and GIT_PASSWORD, PORT.
"""

import base64
import fcntl
import hmac
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

REPOSITORY = re.compile(r"/(?P<name>(?:public/)?[A-Za-z0-9][A-Za-z0-9._-]*\.git)(?P<rest>/.*)?")
README = "# A repository for tests\n\nIts first commit is made by the server.\n"
AUTHOR = {
    name: value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in (
        (f"GIT_{role}_NAME", "Orbiter tests"),
        (f"GIT_{role}_EMAIL", "tests@orbiter.invalid"),
        (f"GIT_{role}_DATE", "2026-01-01T00:00:00Z"),
    )
}


class Repositories:
    """Bare repositories below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def ensure(self, name: str) -> None:
        """Create a repository with its first commit, once, whoever asks at the same time."""
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.root / name
            if not (path / "HEAD").exists():
                self._create(path)

    def _create(self, path: Path) -> None:
        git(self.root, "init", "--quiet", "--bare", "--initial-branch=main", str(path))
        git(path, "config", "http.receivepack", "true")
        with tempfile.TemporaryDirectory(dir=self.root) as work:
            git(Path(work), "clone", "--quiet", str(path), "seed")
            seed = Path(work) / "seed"
            (seed / "README.md").write_text(README)
            git(seed, "checkout", "--quiet", "-B", "main")
            git(seed, "add", "README.md")
            git(seed, "commit", "--quiet", "-m", "Begin")
            git(seed, "push", "--quiet", "origin", "main")


def git(directory: Path, *arguments: str) -> None:
    """Run git; its complaints appear in the server's log."""
    environment = os.environ | AUTHOR | {"HOME": "/tmp", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=directory, env=environment, check=True)


class Handler(BaseHTTPRequestHandler):
    """One request of a git client."""

    protocol_version = "HTTP/1.1"
    repositories: Repositories
    credentials: str

    def do_GET(self) -> None:
        """Serve a reference listing, or /healthz."""
        if self.path == "/healthz":
            self._answer(200, b"ok\n")
        else:
            self._git()

    def do_POST(self) -> None:
        """Serve a fetch or a push."""
        self._git()

    def _git(self) -> None:
        path, _, query = self.path.partition("?")
        found = REPOSITORY.fullmatch(path)
        with tempfile.TemporaryFile() as body:
            self._receive(body)
            if found is None:
                self._answer(404, b"ask for /NAME.git or /public/NAME.git\n")
            elif not found["name"].startswith("public/") and not self._allowed():
                self._answer(401, b"a password is needed\n", {"WWW-Authenticate": "Basic"})
            else:
                self.repositories.ensure(found["name"])
                self._backend(path, query, body)

    def _allowed(self) -> bool:
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        return scheme == "Basic" and hmac.compare_digest(given.strip(), self.credentials)

    def _receive(self, body: IO[bytes]) -> None:
        """Take the whole body, which git sends in chunks when it is large."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline(), 16):
                body.write(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        else:
            body.write(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        body.seek(0)

    def _backend(self, path: str, query: str, body: IO[bytes]) -> None:
        length = body.seek(0, os.SEEK_END)
        body.seek(0)
        environment = os.environ | {
            "GIT_PROJECT_ROOT": str(self.repositories.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(length),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": os.environ.get("GIT_USERNAME", "") if self._allowed() else "",
        }
        done = subprocess.run(
            ["git", "http-backend"], stdin=body, capture_output=True, env=environment, check=False
        )
        sys.stderr.write(done.stderr.decode(errors="replace"))
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        pairs = (line.partition(": ") for line in head.decode().split("\r\n") if line)
        headers = {name: value for name, _, value in pairs}
        status = int(headers.pop("Status", "200").split()[0]) if head else 500
        self._answer(status, content, headers)

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(root: Path, username: str, password: str, port: int) -> ThreadingHTTPServer:
    """Return a server that listens; port 0 takes a free one."""
    credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
    shared = {"repositories": Repositories(root), "credentials": credentials}
    server = ThreadingHTTPServer(("", port), type("Bound", (Handler,), shared))
    server.daemon_threads = True
    return server


def main() -> None:
    """Serve until killed."""
    environment = os.environ
    server = serve(
        Path(environment["GIT_ROOT"]),
        environment.get("GIT_USERNAME", "orbiter"),
        environment["GIT_PASSWORD"],
        int(environment.get("PORT", "8080")),
    )
    print(f"git server: port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
