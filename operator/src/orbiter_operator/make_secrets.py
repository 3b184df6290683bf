"""`python -m orbiter_operator.make_secrets PLAN`: makes an installation's Secrets, each once.

A hook of the chart runs it before an installation and before each upgrade, so that the chart itself
has nothing random in it. A password that is there stays, whoever made it. What follows from the
passwords, a URL for instance, is written anew when it has changed. A Secret of an earlier version's
manifest is marked to be kept, or Helm would delete it with that manifest.
"""

import argparse
import asyncio
import base64
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kopf import LoginError
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.connection import Credentials, load_connection
from orbiter_operator.kube.resources import SECRETS

Object = dict[str, Any]
KEEP = "helm.sh/resource-policy"
_PASSWORD_BYTES = 32
_TRIES = 5
_REFERENCE = re.compile(r"\$\{([-._a-zA-Z0-9]+)\}")


class WantedSecret(BaseModel):
    """One Secret.

    Attributes:
        namespace: Where it is; there has to be such a namespace.
        name: Its name.
        labels: Labels it is made with.
        passwords: Keys that get a password of their own unless they have one.
        texts: Other keys; `${KEY}` stands for a password that was made or found before.
        files: Keys with what a file has, whose path this is; one that is empty or not there is
            refused.
        found: Of an earlier version: it is kept where it is found, and never made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str
    name: str
    labels: dict[str, str] = {}
    passwords: tuple[str, ...] = ()
    texts: dict[str, str] = {}
    files: dict[str, Path] = {}
    found: bool = False


PLAN: TypeAdapter[tuple[WantedSecret, ...]] = TypeAdapter(tuple[WantedSecret, ...])


class CannotMakeError(Exception):
    """A Secret cannot be made; the sentence says what to do."""


async def make_secrets(kube: Kube, wanted: Sequence[WantedSecret]) -> list[str]:
    """Make what is missing, in this order.

    Returns:
        What was done, a line for each Secret, without any value.

    Raises:
        CannotMakeError: One of them cannot be made.
        ApiError: The API server has troubles of its own.
    """
    known: dict[str, str] = {}
    return [await _make(kube, secret, known) for secret in wanted]


async def _make(kube: Kube, wanted: WantedSecret, known: dict[str, str]) -> str:
    where = f"{wanted.namespace}/{wanted.name}"
    try:
        for _ in range(_TRIES):
            found = await _create(kube, wanted, known)
            if found is None:
                return f"{where}: made"
            changes = _changes(wanted, found, known)
            if not changes:
                return f"{where}: kept"
            version = found["metadata"]["resourceVersion"]
            changes.setdefault("metadata", {})["resourceVersion"] = version
            try:
                await kube.patch(SECRETS, wanted.namespace, wanted.name, changes)
            except ApiError as error:
                if error.status != 409:
                    raise
                continue  # somebody else has changed it meanwhile
            keys = ", ".join(sorted(changes.get("data", {}))) or "nothing but its annotation"
            return f"{where}: kept, and changed in {keys}"
    except ApiError as error:
        if wanted.found and error.status == 404:
            return f"{where}: not there"
        if error.passes:
            raise
        raise CannotMakeError(
            f"the Secret {where} cannot be made: {error.message}; make it yourself, with the keys "
            f"{', '.join((*wanted.passwords, *wanted.texts, *wanted.files))}"
        ) from error
    raise CannotMakeError(f"the Secret {where} changes all the time: see who else writes it")


async def _create(kube: Kube, wanted: WantedSecret, known: dict[str, str]) -> Object | None:
    """Make it; returns the one that is there already."""
    if wanted.found:
        return await kube.get(SECRETS, wanted.namespace, wanted.name)
    passwords = {key: secrets.token_hex(_PASSWORD_BYTES) for key in wanted.passwords}
    body: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": wanted.name,
            "namespace": wanted.namespace,
            "labels": wanted.labels,
            "annotations": {KEEP: "keep"},
        },
        "type": "Opaque",
        "data": _encoded(passwords | _told(wanted, known | passwords)),
    }
    try:
        await kube.create(SECRETS, wanted.namespace, body)
    except ApiError as error:
        if error.status != 409:
            raise
        return await kube.get(SECRETS, wanted.namespace, wanted.name)
    known |= passwords
    return None


def _changes(wanted: WantedSecret, found: Object, known: dict[str, str]) -> Object:
    """The patch that gives a Secret what it lacks; empty when it lacks nothing."""
    data = found.get("data") or {}
    passwords = {key: data.get(key) for key in wanted.passwords}
    made = {key: secrets.token_hex(_PASSWORD_BYTES) for key, old in passwords.items() if not old}
    known |= {key: base64.b64decode(old).decode() for key, old in passwords.items() if old} | made
    changed = {
        key: value
        for key, value in _encoded(made | _told(wanted, known)).items()
        if data.get(key) != value
    }
    changes: Object = {"data": changed} if changed else {}
    if (found["metadata"].get("annotations") or {}).get(KEEP) != "keep":
        changes["metadata"] = {"annotations": {KEEP: "keep"}}
    return changes


def _told(wanted: WantedSecret, known: Mapping[str, str]) -> dict[str, str]:
    texts = {
        key: _REFERENCE.sub(lambda match: known[match[1]], text)
        for key, text in wanted.texts.items()
    }
    return texts | {key: _read(path) for key, path in wanted.files.items()}


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    if not text.strip():
        raise CannotMakeError(
            f"nobody knows the CA of Redis yet: {path} is empty, so the Secret with its "
            "certificate has no ca.crt; add --set-file redis.tls.ca=ca.crt"
        )
    return text


def _encoded(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make them; returns the exit code: 2 when the plan is wrong, 1 when one cannot be made."""
    parser = argparse.ArgumentParser(prog="orbiter_operator.make_secrets", description=__doc__)
    parser.add_argument("plan", help="which, as a JSON list")
    try:
        wanted = PLAN.validate_json(parser.parse_args(arguments).plan)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return _say(2, f"the plan cannot be read at {where or 'its beginning'}: {first['msg']}")
    try:
        lines = asyncio.run(_run(wanted))
    except (CannotMakeError, LoginError, ApiError, *TRANSPORT_ERRORS) as error:
        return _say(1, str(error) or type(error).__name__)
    return _say(0, *lines)


async def _run(wanted: Sequence[WantedSecret]) -> list[str]:
    async with Kube(Credentials(load_connection)) as kube:
        return await make_secrets(kube, wanted)


def _say(code: int, *lines: str) -> int:
    for line in lines:
        print(f"make_secrets: {line}", file=sys.stderr)  # noqa: T201 - a program for people and logs
    return code


if __name__ == "__main__":
    sys.exit(main())
