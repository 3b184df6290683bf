"""Amazon Bedrock's doors: Anthropic's API in frames of AWS, and STS, which gives keys for a token.

Claude Code asks STS with the token of AWS_WEB_IDENTITY_TOKEN_FILE, then `InvokeModel` and its like,
signed with the keys it got. The keys follow from the token, so nothing is kept, and a request
without them is refused; whether a signature is right only the tests compute, with botocore.
"""

import base64
import hashlib
import json
import re
import struct
import zlib
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from . import anthropic
from .anthropic import read, whole
from .conversation import Conversation
from .script import Reply

__all__ = ["error", "of_path", "read", "stream", "whole"]
PATH = re.compile(r"/model/(?P<model>[^/]+)/(?P<verb>invoke|invoke-with-response-stream)")
FRAMES = "application/vnd.amazon.eventstream"
_ROLE = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+")
_HOUR = timedelta(hours=1)
_ANSWER = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId>
<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{session}</SessionToken>
<Expiration>{end}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
_REFUSAL = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
)


class Credentials(NamedTuple):
    """What STS gives for a token."""

    key: str
    secret: str
    session: str

    @classmethod
    def of(cls, token: str) -> "Credentials":
        """Those for this token, always the same."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        return cls(f"ASIA{digest[:16].upper()}", digest[16:56], f"session-{digest}")


def of_path(path: str) -> tuple[str, str] | None:
    """Return the model and the verb that a path names; None when it is none of this API."""
    found = PATH.fullmatch(path)
    return (unquote(found["model"]), found["verb"]) if found else None


def unsigned(headers: Mapping[str, str]) -> str | None:
    """Why a request is none that the keys of STS have signed; None when it may be one."""
    session = headers.get("x-amz-security-token", "")
    key = re.escape(f"ASIA{session.removeprefix('session-')[:16].upper()}")
    scope = rf"AWS4-HMAC-SHA256 Credential={key}/\d{{8}}/[a-z0-9-]+/bedrock/aws4_request,"
    if session.startswith("session-") and re.match(scope, headers.get("authorization", "")):
        return None
    return "the security token included in the request is invalid"


def error(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error answer."""
    return {"message": message}


async def stream(conversation: Conversation, reply: Reply) -> AsyncGenerator[bytes, None]:
    """Yield the events of Anthropic's API as frames."""
    async for event in anthropic.stream(conversation, reply):
        told = event.partition("data: ")[2].strip().encode()
        headers = {":message-type": "event", ":event-type": "chunk"}
        payload = json.dumps({"bytes": base64.b64encode(told).decode()}).encode()
        yield frame({**headers, ":content-type": "application/json"}, payload)


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Write one message of an event stream, with both its checksums."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value))
        + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack("!I", zlib.crc32(message))


def assume_role(body: bytes) -> tuple[int, bytes]:
    """Answer a call of STS: the status, and XML.

    Args:
        body: The form that was sent.
    """
    told = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    if told.get("Action") != "AssumeRoleWithWebIdentity":
        return 400, _refusal("InvalidAction", f"no such action here: {told.get('Action')}")
    if not _ROLE.fullmatch(told.get("RoleArn", "")):
        return 400, _refusal("ValidationError", f"no role: {told.get('RoleArn')}")
    if not (token := told.get("WebIdentityToken", "")):
        return 400, _refusal("InvalidIdentityToken", "there is no token")
    found = Credentials.of(token)
    end = (datetime.now(UTC) + _HOUR).isoformat(timespec="seconds")
    return 200, _ANSWER.format(**found._asdict(), end=end.replace("+00:00", "Z")).encode()


def _refusal(code: str, message: str) -> bytes:
    return _REFUSAL.format(code=code, message=escape(message)).encode()
