"""An identity provider, scripted: OpenID Connect's discovery and keys over HTTPS, and ID tokens."""

import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web
from support import servers
from support.certificates import make_certificates

KEY_ID = "key-1"


class IdentityProvider:
    """Who signs in here is given a token; `url` is the issuer."""

    def __init__(self, host: str, directory: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._host = host
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._certificates = make_certificates(directory, address=host)
        self.url = ""
        self.asked: list[str] = []

    @property
    def ca(self) -> str:
        """The certificate by which its own is to be checked."""
        return self._certificates.ca.read_text()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["IdentityProvider"]:
        """Serve."""
        application = web.Application()
        application.router.add_get("/.well-known/openid-configuration", self._discovery)
        application.router.add_get("/keys", self._keys)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificates.certificate, self._certificates.key)
        await web.TCPSite(runner, self._host, 0, ssl_context=context).start()
        self.url = f"https://{self._host}:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await servers.stop(runner)

    def token(self, user: str, *, seconds: int = 600, **claims: Any) -> str:
        """An ID token of somebody."""
        import jwt

        now = int(time.time())
        said = {
            "iss": self.url, "sub": user, "aud": "orbiter", "iat": now, "exp": now + seconds,
            "email": f"{user}@acme.test", "groups": ["developers"],
        }  # fmt: skip
        return jwt.encode(said | claims, self._key, algorithm="RS256", headers={"kid": KEY_ID})

    def authenticator(self) -> dict[str, Any]:
        """What an API server's AuthenticationConfiguration has for it."""
        return {
            "issuer": {
                "url": self.url, "audiences": ["orbiter"], "certificateAuthority": self.ca,
            },
            "claimMappings": {
                "username": {"claim": "email", "prefix": "oidc:"},
                "groups": {"claim": "groups", "prefix": "oidc:"},
            },
        }  # fmt: skip

    async def _discovery(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        return web.json_response({
            "issuer": self.url, "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        })  # fmt: skip

    async def _keys(self, request: web.Request) -> web.Response:
        import jwt

        self.asked.append(request.path)
        algorithm = jwt.algorithms.RSAAlgorithm
        key = json.loads(algorithm.to_jwk(self._key.public_key()))
        return web.json_response({"keys": [{**key, "kid": KEY_ID, "alg": "RS256", "use": "sig"}]})
