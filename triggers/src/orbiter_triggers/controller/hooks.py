"""Publishes the addresses and secrets of webhooks: one Secret of a fixed name in each namespace.

Two keys for each trigger: `NAME.secret`, and `NAME.url`, which is a path where nobody has said
under what name the receiver is reached. The Secret's name is fixed so that the program may be given
the right to this one alone.
"""

import asyncio
import base64
from collections.abc import Callable, Iterable

import structlog

from orbiter_contracts.webhook_signatures import Hook
from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.names import MANAGED_BY, MANAGER
from orbiter_operator.kube.resources import SECRETS
from orbiter_triggers.naming import WEBHOOK_SECRET

log = structlog.get_logger(__name__)


class Hooks:
    """The hooks of all triggers.

    Args:
        kube: The API client.
        master_key: What their secrets follow from.
        generation: Of these secrets.
        url: Where the receiver is reached, for instance `https://hooks.example.com`; may be empty.
        hooks_of: The hooks that there are in a namespace.
        allowed: Raises unless this replica is the active one.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        master_key: str,
        generation: int,
        url: str,
        hooks_of: Callable[[str], Iterable[Hook]],
        allowed: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._master_key = master_key
        self._generation = generation
        self._url = url.rstrip("/")
        self._hooks_of = hooks_of
        self._allowed = allowed
        self._published: dict[str, frozenset[Hook]] = {}
        self._publishing = asyncio.Lock()

    async def publish(self, namespace: str) -> None:
        """Have the Secret of a namespace say what there is.

        Raises:
            ApiError: The API server refused.
        """
        async with self._publishing:
            hooks = frozenset(self._hooks_of(namespace))
            if self._published.get(namespace, frozenset()) == hooks:
                return
            self._allowed()
            await self._kube.apply(SECRETS, namespace, self._secret(namespace, hooks))
            self._published[namespace] = hooks
            log.info("webhooks published", namespace=namespace, hooks=len(hooks))

    def _secret(self, namespace: str, hooks: Iterable[Hook]) -> dict[str, object]:
        texts = dict[str, str]()
        for hook in sorted(hooks):
            texts[f"{hook.name}.secret"] = hook.secret(self._master_key, self._generation)
            texts[f"{hook.name}.url"] = f"{self._url}{hook.path}"
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": WEBHOOK_SECRET,
                "namespace": namespace,
                "labels": {MANAGED_BY: MANAGER},
            },
            "type": "Opaque",
            # Not stringData, of which an apply takes nothing away.
            "data": {
                name: base64.b64encode(text.encode()).decode() for name, text in texts.items()
            },
        }
