"""What is sent to the receiver of webhooks, as B's tenant, who knows the secrets of B's hooks.

The control is an event as it should be, at the hook of B. All are marked as tests: a request that
was let in makes no task.
"""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from support.cluster import CommandError, Object
from support.world import SYSTEM, World, echo_task

from attacks.field import Field
from attacks.names import A, B
from attacks.scene import secret_of
from attacks.table import Attack, Guard, Party, Refused
from orbiter_contracts.trigger_events import MAX_BODY_BYTES
from orbiter_contracts.webhook_signatures import (
    TOLERANCE_SECONDS,
    Hook,
    read_hook_path,
    signed_message,
)

HOOK: Final = "attacks-hook"
_EVENT: Final = b'{"type": "attacks.knock"}'
_ID: Final = "attacks-1"
_SECONDS: Final = 30.0
_TRIES: Final = 5
Hooks = dict[str, tuple[Hook, str]]
Made = Callable[[Field], bytes]


def trigger(namespace: str) -> Object:
    """A trigger whose events are signed per Standard Webhooks."""
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTrigger",
        "metadata": {"name": HOOK, "namespace": namespace},
        "spec": {
            "source": {"webhook": {"scheme": "standard-webhooks"}},
            "filters": {"events": ["nothing"]},
            "taskTemplate": {"spec": echo_task("unused")["spec"]},
        },
    }


def hooks_of(world: World) -> Hooks:
    """The hooks of A and B, and their secrets, as the people of each namespace find them."""
    return {namespace: _hook(world, namespace) for namespace in (A, B)}


def _hook(world: World, namespace: str) -> tuple[Hook, str]:
    def path() -> str:
        found: Object = world.cluster.get("agenttrigger", HOOK, namespace).get("status") or {}
        return str(found.get("webhookPath") or "")

    world.until(f"the address of the hook of {namespace}", path, 90)
    hook = read_hook_path(path())
    assert hook is not None
    name = f"{HOOK}.secret"

    def secret() -> str:
        return secret_of(world.cluster, "orbiter-webhooks", namespace).get(name, "")

    world.until(f"the secret of the hook of {namespace}", secret, 90)
    return hook, secret()


def request(
    hook: Hook,
    secret: str,
    *more: tuple[str, str],
    body: bytes = _EVENT,
    sent: bytes | None = None,
    early: float = 0,
    method: str = "POST",
    length: str | None = None,
) -> bytes:
    """A request, byte by byte.

    Args:
        hook: Where.
        secret: Signs it.
        *more: Further headers.
        body: What is signed.
        sent: What is sent instead.
        early: How many seconds ago it was signed.
        method: Its method.
        length: What it says of its length; by default what is so, "" for nothing.
    """
    content = body if sent is None else sent
    at = str(int(time.time() - early))
    headers = [
        ("Host", "receiver"),
        ("Content-Type", "application/json"),
        ("X-Orbiter-Test", "true"),
        ("webhook-id", _ID),
        ("webhook-timestamp", at),
        ("webhook-signature", signed_message(secret, _ID, at, body)),
        *more,
    ]
    if length != "":
        headers.append(("Content-Length", length or str(len(content))))
    lines = [f"{method} {hook.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode() + content


def knock(field: Field, sent: bytes) -> None:
    """Send a request to the receiver, over a forward of its own.

    Raises:
        Refused: With what it answered.
    """
    for _ in range(_TRIES):
        with suppress(OSError, CommandError, AssertionError):
            if answer := _answer(field, sent):
                break
    else:
        raise AssertionError("the receiver does not answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 202 " not in head.partition(b"\r\n")[0]:
        raise Refused(f"{head.partition(b'HTTP/1.')[2][2:5].decode()} {body.decode()}")


def _answer(field: Field, sent: bytes) -> bytes:
    answer = b""
    with (
        field.world.forward("service/orbiter-receiver", 80, SYSTEM) as port,
        socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as connection,
    ):
        with suppress(ConnectionError):  # it hangs up on what it reads no further
            connection.sendall(sent)
        while data := connection.recv(65_536):
            answer += data
    return answer


def _own(field: Field) -> tuple[Hook, str]:
    return field.hooks[B]


def _as_its_sender(field: Field) -> None:
    knock(field, request(*_own(field)))


def _knocks(name: str, refusal: str, made: Made) -> Attack:
    return Attack(
        name=name,
        party=Party.TENANT,
        guard=Guard.RECEIVER,
        action=lambda field: knock(field, made(field)),
        control=_as_its_sender,
        refusal=refusal,
    )


def _of_nobody(hook: Hook) -> str:
    """A secret of that form which follows from another master key."""
    return hook.secret("of another installation")


ATTACKS: list[Attack] = [
    _knocks(
        "sends A's trigger an event, signed with the secret of its own",
        "^401 .*forged",
        lambda field: request(field.hooks[A][0], _own(field)[1]),
    ),
    _knocks(
        "sends A's trigger an event, signed with a secret of its own making",
        "^401 .*forged",
        lambda field: request(field.hooks[A][0], _of_nobody(field.hooks[A][0])),
    ),
    _knocks(
        "guesses which triggers A has",
        "^401 .*forged",
        lambda field: request(field.hooks[A][0]._replace(name="guessed"), _own(field)[1]),
    ),
    _knocks(
        "sends something else than what was signed",
        "^401 .*forged",
        lambda field: request(*_own(field), sent=_EVENT.replace(b"knock", b"other")),
    ),
    _knocks(
        "sends an event again when its time is over",
        "^401 .*replayed",
        lambda field: request(*_own(field), early=TOLERANCE_SECONDS + 60),
    ),
    _knocks(
        "sends an event of the future",
        "^401 .*replayed",
        lambda field: request(*_own(field), early=-TOLERANCE_SECONDS - 60),
    ),
    _knocks(
        "sends two signatures, of which one is right",
        "^400 .*twice",
        lambda field: request(*_own(field), ("webhook-signature", "v1,AAAA")),
    ),
    _knocks(
        "sends a request of two lengths",
        "^400 .*malformed",
        lambda field: request(*_own(field), ("Transfer-Encoding", "chunked")),
    ),
    _knocks(
        "sends an event without an end",
        "^413 .*oversized",
        lambda field: request(*_own(field), length=str(MAX_BODY_BYTES + 1)),
    ),
    _knocks(
        "sends half an event, and waits",
        "^408 .*slow",
        lambda field: request(*_own(field), length=str(len(_EVENT) + 1)),
    ),
    _knocks(
        "sends an event that is a bomb",
        "^400 .*compressed",
        lambda field: request(*_own(field), ("Content-Encoding", "gzip")),
    ),
    _knocks(
        "sends an event of brackets without end",
        "^400 .*no JSON",
        lambda field: request(*_own(field), body=b"[" * 1000),
    ),
    _knocks(
        "asks an address of events what is there",
        "^405 .*unknown",
        lambda field: request(*_own(field), method="GET"),
    ),
]
