"""Google's exchange of tokens, scripted: who signs with its key is given an access token."""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ACCOUNT = "robot@acme.iam.gserviceaccount.com"


@cache
def _key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def write_account(path: Path, url: str) -> Path:
    """Write the key file of a service account whose tokens come from a server here."""
    from cryptography.hazmat.primitives import serialization

    pem = _key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "project_id": "acme",
        "private_key_id": "key-1",
        "private_key": pem.decode(),
        "client_email": ACCOUNT,
        "token_uri": f"{url}/token",
    }
    path.write_text(json.dumps(account))
    return path


class TokenServer:
    """Gives tokens, in turn; `lifetime` is how many seconds each is good for."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.claims: list[dict[str, Any]] = []
        self.lifetime = 3600
        self.refusal: tuple[int, dict[str, str]] | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request."""
        form = await request.post()
        if self.refusal is not None:
            status, body = self.refusal
            return web.json_response(body, status=status)
        assert form["grant_type"] == _GRANT
        self.claims.append(_read(str(form["assertion"])))
        self.given.append(f"token-{len(self.given) + 1}")
        told = {"access_token": self.given[-1], "expires_in": self.lifetime}
        return web.json_response({**told, "token_type": "Bearer"})


def _read(assertion: str) -> dict[str, Any]:
    """Return what was signed; the signature is computed anew."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    head, claims, signature = assertion.split(".")
    wanted = _key().sign(f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    assert _bytes(signature) == wanted, "another key has signed this"
    assert json.loads(_bytes(head)) == {"typ": "JWT", "alg": "RS256", "kid": "key-1"}
    found: dict[str, Any] = json.loads(_bytes(claims))
    return found


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
