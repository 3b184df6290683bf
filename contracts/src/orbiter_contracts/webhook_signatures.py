"""Addresses and signatures of webhooks: what the receiver checks and who sends by hand writes.

A hook's secret follows from the installation's master key, from all that its address says and from
a generation, so the receiver keeps nothing and asks nobody: an address with another namespace, name
or scheme in it has another secret. Standard Webhooks (standardwebhooks.com) and CloudEvents are
signed with the former's headers, GitHub and everybody else with the SHA-256 HMAC of the body.
"""

import base64
import hashlib
import hmac
import re
from typing import Final, Literal, NamedTuple, get_args

from orbiter_contracts.queues import NAMESPACE_PATTERN

Scheme = Literal["github", "hmac", "standard-webhooks", "cloudevents"]
SCHEMES: Final[tuple[Scheme, ...]] = get_args(Scheme)
TOLERANCE_SECONDS: Final = 300
"""How far the time that Standard Webhooks signs may be from now."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
"""Headers of Standard Webhooks, as they are compared: in small letters."""
GITHUB_SIGNATURE: Final = "x-hub-signature-256"
GITHUB_EVENT, GITHUB_DELIVERY = "x-github-event", "x-github-delivery"
BODY_SIGNATURES: Final = (GITHUB_SIGNATURE, "x-signature-256")
"""Headers for the HMAC of the body alone, of which one is enough."""
TEST: Final = "x-orbiter-test"
"""Header of an event that makes no task: the trigger's status says what would have come of it."""
_ROOT: Final = "/v1/triggers/"
_PREFIX: Final = "whsec_"
_VERSION: Final = "v1,"
_MOST_SIGNATURES: Final = 16
_LONGEST_PATH: Final = 512
_PATH: Final = re.compile(
    rf"{_ROOT}({NAMESPACE_PATTERN})/([a-z0-9](?:[a-z0-9.-]{{0,61}}[a-z0-9])?)/"
    rf"({'|'.join(SCHEMES)})/([0-9A-Za-z-]{{1,64}})"
)


class Hook(NamedTuple):
    """Whose events come in at an address, and how they are signed."""

    namespace: str
    name: str
    scheme: Scheme
    uid: str

    @property
    def path(self) -> str:
        """The address, without the host."""
        return f"{_ROOT}{self.namespace}/{self.name}/{self.scheme}/{self.uid}"

    def secret(self, master_key: str, generation: int = 1) -> str:
        """The secret as its sender is given it.

        Args:
            master_key: The installation's.
            generation: Of the secrets of all hooks.

        Raises:
            ValueError: There is no master key.
        """
        if not master_key:
            raise ValueError("without a master key there are no secrets of webhooks")
        text = f"webhook {self.path} {generation}"
        made = hmac.new(master_key.encode(), text.encode(), hashlib.sha256)
        if self.scheme in ("standard-webhooks", "cloudevents"):
            return _PREFIX + base64.b64encode(made.digest()).decode()
        return made.hexdigest()


def read_hook_path(path: str) -> Hook | None:
    """The hook of an address, without its query; None when it is none. Total."""
    found = _PATH.fullmatch(path) if len(path) <= _LONGEST_PATH else None
    if found is None:
        return None
    namespace, name, scheme, uid = found.groups()
    return Hook(namespace, name, next(one for one in SCHEMES if one == scheme), uid)


def signed_body(secret: str, body: bytes) -> str:
    """The header's value where the body alone is signed: `sha256=` and hexadecimal digits."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed_message(secret: str, identifier: str, timestamp: str, body: bytes) -> str:
    """The `webhook-signature` of Standard Webhooks: `v1,` and Base64.

    Raises:
        ValueError: The secret is none of theirs.
    """
    key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    text = f"{identifier}.{timestamp}.".encode("utf-8", "surrogateescape") + body
    return _VERSION + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def is_signed_body(value: str, secret: str, body: bytes) -> bool:
    """Whether a header's value is the signature of a body. Total."""
    return _same(value, signed_body(secret, body))


def is_signed_message(
    value: str, secret: str, identifier: str, timestamp: str, body: bytes
) -> bool:
    """Whether one of the signatures in a header, which spaces divide, is right. Total."""
    right = signed_message(secret, identifier, timestamp, body)
    return any(_same(one, right) for one in value.split(" ")[:_MOST_SIGNATURES])


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())
