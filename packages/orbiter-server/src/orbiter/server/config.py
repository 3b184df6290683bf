"""Everything that can be configured of the server: validated, frozen, one home for each value."""

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from orbiter.types import OrbiterError

_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACES = re.compile(rf"\*|{_NAME}(,{_NAME})*")


class ServerConfig(BaseModel):
    """How a server runs.

    Attributes:
        directory: Where sessions, tasks and a generated token are kept; made when missing. One
            server at a time may use it.
        token: What clients present as `Authorization: Bearer ...`. None serves only this machine's
            own programs: requests to and from a loopback address.
        auth: `token` is the one above, and whoever has it sees all. With `kubernetes` clients
            present tokens of the cluster instead, and each sees what the cluster's RBAC lets them.
        audience: For whom such a token has to be made, so that it is of no use elsewhere; empty
            takes those that are for the API server itself.
        max_runs: Runs at a time; more are refused with 429.
        max_streams: Event streams at a time; more are refused with 503.
        max_body_bytes: Size of the largest request.
        max_resumes: How often a run that a dead server left behind is gone on with.
        drain_seconds: How long runs, and after them tasks, may go on after SIGTERM; what is left
            then waits for the next server.
        heartbeat_seconds: Pause after which a silent event stream sends a comment.
        kubeconfig: File by which the page finds a cluster's tasks and sessions; inside of a
            cluster the pod's own service account is used.
        transcripts: Whether what the cluster's agents say and do is shown to who may read it: the
            server then reads the Secrets of the transcripts' readers, and Redis.
        namespace: The cluster's namespace to show, several with commas between them, or `*` for
            all; None is the pod's or the context's own.
        tls_certificate: File with the certificate for HTTPS, as PEM; None serves HTTP.
        tls_key: File with its key.
    """

    model_config = {"frozen": True}

    directory: Path = Path("orbiter-server")
    token: SecretStr | None = None
    auth: Literal["token", "kubernetes"] = "token"
    audience: str = Field(default="orbiter-server", max_length=1000)
    max_runs: int = Field(default=1000, ge=1)
    max_streams: int = Field(default=5000, ge=1)
    max_body_bytes: int = Field(default=4_000_000, ge=1)
    max_resumes: int = Field(default=2, ge=0)
    drain_seconds: float = Field(default=30.0, ge=0)
    heartbeat_seconds: float = Field(default=15.0, gt=0)
    kubeconfig: Path | None = None
    namespace: str | None = None
    transcripts: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Certificate and key for HTTPS.

        Raises:
            OrbiterError: There is one without the other.
        """
        if self.tls_certificate is None and self.tls_key is None:
            return None
        if self.tls_certificate is None or self.tls_key is None:
            raise OrbiterError(
                "HTTPS needs a certificate and its key: name both, tls_certificate and tls_key"
            )
        return self.tls_certificate, self.tls_key

    @field_validator("namespace")
    @classmethod
    def _namespaces(cls, value: str | None) -> str | None:
        if value is not None and not _NAMESPACES.fullmatch(value):
            # not a ValueError: pydantic would show the user its pattern
            raise OrbiterError(
                f"namespace is {value!r}: name one, several with commas between them, or * for all"
            )
        return value

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if self.auth == "kubernetes" and self.token is not None:
            raise OrbiterError(
                "auth is kubernetes, where the cluster judges each token: leave token= out"
            )
        return self
