"""Amazon Bedrock for the local server: frames of its streams, and signatures computed anew.

What is written here is held against botocore's model of the service.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from model_server.bedrock import frame

# what the scripted errors of Anthropic's own streams are called here
_EXCEPTIONS = {
    "overloaded_error": "throttlingException",
    "api_error": "internalServerException",
    "invalid_request_error": "validationException",
}


def bedrock_frames(
    answer: Any, body: dict[str, Any], events: Callable[..., Iterator[str]]
) -> Iterator[bytes]:
    """Write the events of Anthropic's API as frames of Bedrock's stream."""
    for event in events(answer, body):
        told = json.loads(event.partition("data: ")[2])
        if told["type"] == "error":
            name = _EXCEPTIONS.get(told["error"]["type"], told["error"]["type"])
            headers = {":message-type": "exception", ":exception-type": name}
            payload = {"message": told["error"]["message"]}
        else:
            headers = {":message-type": "event", ":event-type": "chunk"}
            payload = {"bytes": base64.b64encode(json.dumps(told).encode()).decode()}
        written = frame(
            {**headers, ":content-type": "application/json"}, json.dumps(payload).encode()
        )
        assert _understood(written) in (200, 400), "botocore reads it"
        yield written


def _understood(written: bytes) -> int:
    from botocore.eventstream import EventStreamBuffer
    from botocore.parsers import EventStreamJSONParser

    buffer = EventStreamBuffer()
    buffer.add_data(written)
    [message] = list(buffer)
    told = message.to_response_dict()
    stream = service().shape_for("ResponseStream")
    found = EventStreamJSONParser().parse(told, stream)
    assert found.get("chunk") or found["Error"]["Code"] in stream.members
    return int(told["status_code"])


@cache
def service() -> Any:
    """Return botocore's model of Bedrock's runtime."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def check_operation(received: Any, model: str, *, stream: bool) -> None:
    """Compare a request with what botocore would have sent for the same operation.

    Raises:
        AssertionError: It is another one.
    """
    from botocore.serialize import create_serializer

    name = "InvokeModelWithResponseStream" if stream else "InvokeModel"
    operation = service().operation_model(name)
    given = {"modelId": model, "body": received.raw, "contentType": "application/json"}
    wanted = create_serializer("rest-json").serialize_to_request(given, operation)
    assert (wanted["method"], wanted["body"]) == ("POST", received.raw)
    # both escape the name; a colon may stay
    assert received.target.replace("%3A", ":") == wanted["url_path"].replace("%3A", ":")
    assert received.headers["content-type"] == wanted["headers"]["Content-Type"]


def check_signature(received: Any, url: str, *, key: str, secret: str, region: str) -> None:
    """Compute a request's signature anew, with botocore.

    Raises:
        AssertionError: It is another one.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = received.headers["authorization"]
    signed = re.search("SignedHeaders=([^,]+)", given)
    assert signed is not None
    names = signed[1].split(";")
    assert {"host", "x-amz-date"} <= set(names)
    request = AWSRequest(
        method="POST",
        url=url + received.target,
        data=received.raw,
        headers={name: received.headers[name] for name in names},
    )
    request.context["timestamp"] = received.headers["x-amz-date"]
    signer = SigV4Auth(Credentials(key, secret), "bedrock", region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    day = received.headers["x-amz-date"][:8]
    assert f"Credential={key}/{day}/{region}/bedrock/aws4_request" in given
    assert given.endswith(f"Signature={signer.signature(text, request)}")
