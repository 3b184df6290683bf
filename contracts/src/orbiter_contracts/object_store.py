"""An S3-compatible store: where it is, what its objects are called, and who tells a worker of it.

Credentials are no part of this: they are in a Secret of the tasks' namespace, whose two keys become
two variables of the worker, and nobody else's.
"""

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, StringConstraints

from orbiter_contracts.message_base import Message

ENDPOINT: Final = "ARTIFACTS_ENDPOINT"
BUCKET: Final = "ARTIFACTS_BUCKET"
REGION: Final = "ARTIFACTS_REGION"
PREFIX: Final = "ARTIFACTS_PREFIX"
RETENTION: Final = "ARTIFACTS_RETENTION_SECONDS"
TRANSCRIPT: Final = "ARTIFACTS_TRANSCRIPT"
ACCESS_KEY_ID: Final = "ARTIFACTS_ACCESS_KEY_ID"
SECRET_ACCESS_KEY: Final = "ARTIFACTS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
VARIABLES: Final = (
    *(ENDPOINT, BUCKET, REGION, PREFIX, RETENTION, TRANSCRIPT),
    ACCESS_KEY_ID,
    SECRET_ACCESS_KEY,
)
"""Variables of a worker; the agent sees none of them."""
SECRET: Final = "orbiter-artifacts"  # noqa: S105 - the name of one
"""The Secret with the credentials, unless the chart says otherwise."""
SECRET_KEYS: Final = {ACCESS_KEY_ID: "access-key-id", SECRET_ACCESS_KEY: "secret-access-key"}
DEFAULT_REGION: Final = "us-east-1"


def endpoint_problem(url: str) -> str | None:
    """Why a text is no endpoint of a store; None when it is one. Never repeats a password."""
    try:
        parts = urlsplit(url)
        port, user = parts.port, parts.username
    except ValueError:
        return "is no URL"
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        return "has to be like https://s3.example.com or http://minio.storage.svc:9000"
    if user is not None or parts.password is not None:
        return "has credentials in it: put them into the Secret instead"
    if parts.query or parts.fragment or parts.path.strip("/"):
        return "has more than scheme, host and port: the bucket has a setting of its own"
    return None


def _sane_endpoint(url: str) -> str:
    if problem := endpoint_problem(url):
        raise ValueError(problem)
    return url.rstrip("/")


Endpoint = Annotated[str, StringConstraints(max_length=500), AfterValidator(_sane_endpoint)]
Bucket = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$")]
Prefix = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9._-]*/?)*$", max_length=200)
]
"""Names with a slash between: no part of it is `.` or `..`, and it begins with none."""


class StoreAddress(Message):
    """Where a store is. A bucket is a directory below the endpoint (path style)."""

    endpoint: Endpoint
    bucket: Bucket
    region: Region = DEFAULT_REGION
    prefix: Prefix = ""

    @property
    def insecure(self) -> bool:
        """Whether it is reached without TLS."""
        return self.endpoint.startswith("http://")

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.endpoint}/{self.bucket}"

    def attempt(self, namespace: str, uid: str, attempt: int | str) -> str:
        """How the names of an attempt's objects begin.

        The credentials of a namespace may be held to `PREFIX/NAMESPACE/`.
        """
        return f"{self._namespace(namespace)}/tasks/{uid}/{attempt}"

    def transcript(self, namespace: str, kind: str, *which: str) -> str:
        """How the names of a transcript's parts begin (`stored_transcripts`).

        Args:
            namespace: Of the task or the session.
            kind: `tasks` or `sessions`.
            *which: Its uid; of a task the attempt, too.
        """
        return "/".join((self._namespace(namespace), kind, *which, "transcript"))

    def _namespace(self, namespace: str) -> str:
        prefix = self.prefix.strip("/")
        return f"{prefix}/{namespace}" if prefix else namespace


def environment(address: StoreAddress | None, retention_seconds: int) -> dict[str, str]:
    """The variables that tell a worker of a store, but for its credentials."""
    told = {RETENTION: str(retention_seconds)}
    if address is None:
        return told
    where = {ENDPOINT: address.endpoint, BUCKET: address.bucket, REGION: address.region}
    return told | where | ({PREFIX: address.prefix} if address.prefix else {})
