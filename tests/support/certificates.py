"""A CA of one's own, made with openssl, and a certificate of it for this machine."""

import subprocess
from pathlib import Path
from typing import NamedTuple

IN_CLUSTER = "orbiter-redis.orbiter-system.svc"


class Certificates(NamedTuple):
    """Files: the CA's certificate, and a server's certificate with its key."""

    ca: Path
    certificate: Path
    key: Path


def make_certificates(directory: Path, *names: str, address: str = "127.0.0.1") -> Certificates:
    """Make a CA and a server's certificate, for an address unless names are given."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Certificates(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    ca_key, request = directory / "ca.key", directory / "tls.csr"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(
        *("req", "-x509", *kind, "-days", "1", "-subj", f"/CN={directory.name} CA"),
        *("-keyout", ca_key, "-out", made.ca),
    )
    _openssl("req", *kind, "-subj", "/CN=server", "-keyout", made.key, "-out", request)
    extensions = directory / "extensions"
    where = ",".join(f"DNS:{name}" for name in names) or f"IP:{address},DNS:localhost"
    extensions.write_text(f"subjectAltName={where}\n")
    _openssl(
        *("x509", "-req", "-in", request, "-CA", made.ca, "-CAkey", ca_key, "-CAcreateserial"),
        *("-days", "1", "-extfile", extensions, "-out", made.certificate),
    )
    return made


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
