"""A primary and the Sentinel that names it, both with TLS and a certificate of one's own CA."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.certificates import Certificates
from support.ports import free_port
from support.redis_server import PROGRAMS, RedisServer, running_server

PASSWORD = "data-word"


@contextmanager
def tls_sentinel(directory: Path, certificates: Certificates) -> Iterator[tuple[RedisServer, str]]:
    """Start both; yields the server, and the Sentinel's URL, which names no CA.

    The Sentinel may not answer yet.
    """
    tls = {"tls-ca-cert-file": str(certificates.ca), "tls-replication": "yes"}
    with running_server(directory, password=PASSWORD, options=tls, tls=certificates) as server:
        port, config = free_port(), directory / "sentinel.conf"
        lines = [
            *("port 0", f"tls-port {port}", "tls-auth-clients no"),
            *(f"tls-cert-file {certificates.certificate}", f"tls-key-file {certificates.key}"),
            *(f"{name} {value}" for name, value in tls.items()),
            f"sentinel monitor mymaster 127.0.0.1 {server.port} 1",
            f"sentinel auth-pass mymaster {PASSWORD}",
        ]
        config.write_text("\n".join(lines))
        program = next(filter(None, map(shutil.which, PROGRAMS)))
        sentinel = subprocess.Popen([program, str(config), "--sentinel"], stdout=subprocess.DEVNULL)
        try:
            yield server, f"rediss+sentinel://:{PASSWORD}@127.0.0.1:{port}/mymaster/0"
        finally:
            sentinel.kill()
            sentinel.wait()
