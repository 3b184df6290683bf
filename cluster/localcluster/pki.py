"""Keys and certificates of a local cluster, made once with openssl."""

from pathlib import Path

from localcluster.config import CLIENTS
from localcluster.node import API_SERVICE_IP, Node
from localcluster.shell import run

DAYS = "3650"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def ensure(node: Node) -> None:
    """Create what is missing; every file appears whole or not at all."""
    node.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (node.pki / "ca.crt").exists():
        _authority(node.pki)
    if not (node.pki / "sa.pub").exists():
        _service_account_key(node.pki)
    client = "extendedKeyUsage=clientAuth\n"
    certificates = {name: (subject, client) for name, subject in CLIENTS.items()}
    certificates[f"kubelet-{node.name}"] = (f"/O=system:nodes/CN=system:node:{node.name}", client)
    certificates["admin"] = ("/O=system:masters/CN=orbiter-admin", client)
    certificates["apiserver-kubelet"] = ("/O=system:masters/CN=apiserver-kubelet", client)
    # Names that hold addresses carry the link's number: a new link means new certificates.
    certificates[f"apiserver-{node.links[0]}"] = ("/CN=kube-apiserver", apiserver_names(node))
    certificates[f"kubelet-server-{node.link}"] = (
        f"/CN={node.name}",
        f"extendedKeyUsage=serverAuth\nsubjectAltName=DNS:{node.name},IP:{node.ip}\n",
    )
    for name, (subject, extensions) in certificates.items():
        if not (node.pki / f"{name}.crt").exists():
            _certificate(node.pki, name, subject, extensions)


def apiserver_names(node: Node) -> str:
    """Every name and address clients use for the API server, as an openssl extension."""
    service = "kubernetes.default.svc"
    names = ["localhost", "kubernetes", "kubernetes.default", service, f"{service}.cluster.local"]
    addresses = ["127.0.0.1", API_SERVICE_IP, node.api_ip]
    listed = [f"DNS:{name}" for name in names] + [f"IP:{address}" for address in addresses]
    return f"extendedKeyUsage=serverAuth\nsubjectAltName={','.join(listed)}\n"


def _authority(pki: Path) -> None:
    key, new = pki / "ca.key", pki / "ca.crt.new"
    subject = "/CN=orbiter-local-ca"
    run(["openssl", "req", "-x509", *CURVE, "-keyout", str(key), "-out", str(new),
         "-days", DAYS, "-subj", subject])  # fmt: skip
    for stale in pki.glob("*.crt"):
        stale.unlink()
    new.rename(pki / "ca.crt")


def _service_account_key(pki: Path) -> None:
    key, new = pki / "sa.key", pki / "sa.pub.new"
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)])
    run(["openssl", "ec", "-in", str(key), "-pubout", "-out", str(new)])
    new.rename(pki / "sa.pub")


def _certificate(pki: Path, name: str, subject: str, extensions: str) -> None:
    request, options, new = (pki / f"{name}.{end}" for end in ("csr", "ext", "crt.new"))
    options.write_text(extensions)
    run(["openssl", "req", *CURVE, "-keyout", str(pki / f"{name}.key"), "-out", str(request),
         "-subj", subject])  # fmt: skip
    run(["openssl", "x509", "-req", "-in", str(request), "-CA", str(pki / "ca.crt"),
         "-CAkey", str(pki / "ca.key"), "-CAcreateserial", "-out", str(new), "-days", DAYS,
         "-extfile", str(options)])  # fmt: skip
    new.rename(pki / f"{name}.crt")
    request.unlink()
    options.unlink()
