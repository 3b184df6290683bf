"""Kubernetes Events: what a person would want to know, in `kubectl describe agenttask`.

An Event's name follows from its object, attempt and reason. Posting one a second time answers 409
and changes nothing, so a crash between the Event and the status repeats neither.
"""

import hashlib
from collections import OrderedDict
from datetime import datetime
from typing import Any

import structlog

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.kube.models import Event, timestamp
from orbiter_operator.kube.names import API_VERSION
from orbiter_operator.kube.resources import EVENTS

log = structlog.get_logger(__name__)
_COMPONENT = "orbiter-operator"
_REMEMBERED = 2000
_LONGEST_MESSAGE = 1000
_LONGEST_NAME = 253
_DIGEST = 16


class EventPoster:
    """Posts Events, each once.

    Args:
        kube: The API client.
        identity: Name of this replica.
    """

    def __init__(self, kube: Kube, identity: str) -> None:
        self._kube = kube
        self._identity = identity
        self._posted: OrderedDict[str, None] = OrderedDict()

    async def post(self, subject: dict[str, Any], event: Event, now: datetime) -> None:
        """Post an Event about one of our objects unless it was posted before.

        Raises:
            ApiError: The API server could not take it, now.
        """
        body = build_event(subject, event, now, self._identity)
        name = body["metadata"]["name"]
        if name in self._posted:
            return
        try:
            await self._kube.create(EVENTS, subject["metadata"]["namespace"], body)
        except ApiError as error:
            if error.passes:
                raise
            # 409: posted before. 403 and 404: the namespace is on its way out. What else is refused
            # stays so, and the status behind it is not to wait for that.
            if error.status not in (403, 404, 409):
                log.warning("an Event was refused", name=name, error=str(error))
        self._posted[name] = None
        if len(self._posted) > _REMEMBERED:
            self._posted.popitem(last=False)


def build_event(
    subject: dict[str, Any], event: Event, now: datetime, identity: str
) -> dict[str, Any]:
    """The Event as the API server takes it."""
    meta = subject["metadata"]
    number = f"/{event.number}" if event.number else ""
    seed = f"{meta['uid']}/{event.attempt}/{event.reason}{number}"
    digest = hashlib.sha256(seed.encode()).hexdigest()[:_DIGEST]
    # An object's name may be as long as an Event's altogether.
    beginning = meta["name"][: _LONGEST_NAME - _DIGEST - 1].rstrip("-.")
    when = timestamp(now).partition(".")[0] + "Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{beginning}.{digest}", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": subject.get("kind") or "AgentTask",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "type": event.kind,
        "reason": event.reason,
        "message": event.message[:_LONGEST_MESSAGE],
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": identity,
    }
