"""What is handed in as work: messages that are forged, too large or no messages, and sessions that
say they are somebody else's. The control is the same of B's own.
"""

import json
import time
from typing import Any

from support.manifests import po_session

from attacks.field import Field
from attacks.names import A, B, C
from attacks.redis_attacks import DEVELOPER
from attacks.table import Attack, Guard, Party, Refused
from orbiter_contracts import (
    DeveloperWorkerOutput,
    POWorkerInput,
    POWorkerOutput,
    WorkerLifecycleEvent,
    decode,
    encode,
)
from orbiter_contracts.queues import OPERATOR_GROUP, dead_letter

_PATIENCE_SECONDS = 60.0
_MIB = 1024 * 1024
_FRONT_END = "a chat front end"


def _dead_or_answered(field: Field, fields: dict[str, Any]) -> None:
    """Hand a message to B's session, and wait for what becomes of it.

    Raises:
        Refused: It was answered with an error, or is a dead letter.
    """
    stream, answers, dead = (field.names[f"own_po_{n}"] for n in ("input", "output", "dead"))
    with field.client(_FRONT_END) as client, field.world.redis() as admin:
        seen, buried = _newest(admin, answers), _newest(admin, dead)
        client.xadd(stream, fields)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            letters: Any = admin.xrange(dead, min=f"({buried}")
            if letters:
                raise Refused(letters[0][1]["reason"])
            replies: Any = client.xread({answers: seen}, block=200)
            for entry, reply in replies[0][1] if replies else ():
                seen = entry.decode()
                output = decode(POWorkerOutput, {k.decode(): v.decode() for k, v in reply.items()})
                if output.is_final and output.error:
                    raise Refused(output.error)
                if output.is_final:
                    return
    raise AssertionError(f"nothing became of {str(fields)[:200]}")


def _newest(client: Any, stream: str) -> str:
    found = client.xrevrange(stream, count=1)
    return str(found[0][0]) if found else "0-0"


def _message(field: Field, **changes: Any) -> dict[str, Any]:
    """A good message to B's session, but for the changes."""
    told = json.loads(encode(POWorkerInput(user_id=field.own_user, prompt="hello"))["data"])
    return {"data": json.dumps(told | changes)}


def _sent(name: str, refusal: str, made: Any) -> Attack:
    return Attack(
        name=f"{name}, as {_FRONT_END}",
        party=Party.FRONT_END,
        guard=Guard.WRAPPER,
        action=lambda field: _dead_or_answered(field, made(field)),
        control=lambda field: _dead_or_answered(field, _message(field)),
        refusal=refusal,
    )


def _session(field: Field, worker_id: str) -> None:
    """Make a session of this worker id, and wait until the operator has said something.

    Raises:
        Refused: It is not available, and why.
    """
    name = "attacks-double"
    body = po_session(
        name,
        userId=10**9 + 11,
        workerId=worker_id,
        agent={"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}},
    )
    field.kubectl("-n", B, "create", "-f", "-", stdin=json.dumps(body))
    try:
        found = field.admin.wait_for(
            "posession", name, lambda item: item.get("status", {}).get("phase"), namespace=B
        )
    finally:
        field.kubectl("-n", B, "delete", "posession", name)
        field.admin.wait_until_gone("posession", name, namespace=B)
    if found["status"]["phase"] == "Failed":
        told = [item["message"] for item in found["status"]["conditions"]]
        raise Refused("; ".join(told))


def _said(
    field: Field, stream: str, message: DeveloperWorkerOutput | WorkerLifecycleEvent, task: str
) -> None:
    """Say something of a task in a stream of B's workers, and wait until the operator has read it.

    Raises:
        Refused: It is a dead letter.
    """
    with field.client(DEVELOPER) as worker, field.world.redis() as admin:
        dead = dead_letter(stream)
        buried = _newest(admin, dead)
        fields: Any = encode(message, agenttask=task, attempt="1")
        entry = worker.xadd(stream, fields).decode()

        def read() -> Any:
            (group,) = (g for g in admin.xinfo_groups(stream) if g["name"] == OPERATOR_GROUP)
            if _order(group["last-delivered-id"]) < _order(entry):
                return None
            # in this order: a dead letter is written before its entry is acknowledged
            if admin.xpending_range(stream, OPERATOR_GROUP, entry, entry, 1):
                return None
            letters: Any = admin.xrange(dead, min=f"({buried}")
            return letters[0][1]["reason"] if letters else "acknowledged"

        reason = field.world.until("the operator has read it", read)
        if reason != "acknowledged":
            raise Refused(reason)


def _order(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split("-"))


def _forged(whose: str, victim: str) -> list[Attack]:
    """What a worker of B says of a victim's task where B's workers speak."""
    output = DeveloperWorkerOutput(request_id="forged", task_id="forged", status="success")
    event = WorkerLifecycleEvent(worker_id="forged", event="busy")
    return [
        Attack(
            name=f"{does.format(whose)}, as {DEVELOPER}",
            party=Party.TENANT,
            guard=Guard.OPERATOR,
            action=lambda field, stream=stream, message=message: _said(
                field, field.names[stream], message, f"{victim}/{field.places['task']}"
            ),
            control=lambda field, stream=stream, message=message: _said(
                field, field.names[stream], message, f"{B}/{field.places['task']}"
            ),
            refusal="is no task of this stream",
        )
        for does, stream, message in (
            ("says by its own stream that {}'s task is done", "own_output", output),
            ("says by its own stream that {}'s worker is busy", "own_lifecycle", event),
        )
    ]


ATTACKS: list[Attack] = [
    *(
        _sent(
            f"speaks in the name of {whose}'s user",
            "user_id|this session is that of user",
            lambda field, victim=victim: _message(field, user_id=field.users[victim]),
        )
        for whose, victim in (("A", A), ("C", C))
    ),
    *_forged("A", A),
    *_forged("C", C),
    _sent("sends what is no JSON", "not valid JSON|JSON|json", lambda field: {"data": "{" * 100}),
    _sent(
        "sends brackets without end",
        "deep|nested|recursion|JSON|values",
        lambda field: {"data": '{"prompt": ' + "[" * 100_000},
    ),
    _sent("sends a message without data", "data", lambda field: {"other": "x"}),
    _sent(
        "sends a prompt of five mebibytes",
        "bytes|long|large",
        lambda field: _message(field, prompt="x" * 5 * _MIB),
    ),
    _sent("sends a user of 65 bits", "user_id", lambda field: _message(field, user_id=2**65)),
    *(
        Attack(
            name=f"makes a session that is {what}",
            party=Party.TENANT,
            guard=Guard.OPERATOR,
            action=lambda field, worker=worker: _session(field, worker),
            control=lambda field: _session(field, f"{B}.attacks-double"),
            refusal=r"spec\.workerId is .*write",
        )
        for what, worker in (
            ("A's, by its worker's name", f"{A}.attacks-talk"),
            ("C's, by its worker's name", f"{C}.attacks-talk"),
            ("the platform's, by its worker's name", "orbiter-system.attacks-talk"),
        )
    ),
]
