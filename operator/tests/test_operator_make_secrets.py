"""The Secrets of an installation: made once, kept afterwards, never shown."""

import base64
import json
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from support.fake_api import FakeApi, Object, RefusedRequestError

from orbiter_operator.kube.client import ApiError, Kube
from orbiter_operator.make_secrets import KEEP, CannotMakeError, WantedSecret, make_secrets

HOME = "orbiter-system"
AUTH = WantedSecret(namespace=HOME, name="auth", passwords=("operator-password", "master-key"))
URLS = WantedSecret(
    namespace="team-a",
    name="orbiter-redis",
    labels={"app": "x"},
    texts={"url": "redis://operator:${operator-password}@redis:6379/0"},
)


def data(api: FakeApi, wanted: WantedSecret) -> dict[str, str]:
    found = api.get("secrets", wanted.namespace, wanted.name)
    assert found is not None
    return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


def older(**values: str) -> Object:
    """The Secret as an earlier chart has made it."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"name": AUTH.name, "namespace": HOME}, "data": encoded}


async def test_each_password_is_long_and_its_own_and_stands_in_the_urls(
    api: FakeApi, kube: Kube
) -> None:
    said = await make_secrets(kube, [AUTH, URLS])
    made = data(api, AUTH)
    assert len({*made.values()}) == 2
    assert min(map(len, made.values())) == 64
    assert data(api, URLS) == {"url": f"redis://operator:{made['operator-password']}@redis:6379/0"}
    stored = api.get("secrets", "team-a", "orbiter-redis")
    assert stored is not None
    assert stored["metadata"]["labels"] == {"app": "x"}
    assert stored["metadata"]["annotations"] == {KEEP: "keep"}
    assert said == [f"{HOME}/auth: made", "team-a/orbiter-redis: made"]


async def test_a_second_run_changes_nothing(api: FakeApi, kube: Kube) -> None:
    await make_secrets(kube, [AUTH, URLS])
    before = data(api, AUTH), data(api, URLS)
    said = await make_secrets(kube, [AUTH, URLS])
    assert (data(api, AUTH), data(api, URLS)) == before
    assert api.requests["patch", "secrets"] == 0
    assert said == [f"{HOME}/auth: kept", "team-a/orbiter-redis: kept"]


async def test_what_an_earlier_chart_has_made_is_kept_from_helm_and_completed(
    api: FakeApi, kube: Kube
) -> None:
    api.put("secrets", older(**{"operator-password": "old", "users.acl": "user x"}))
    said = await make_secrets(kube, [AUTH, URLS])
    found = data(api, AUTH)
    assert found["operator-password"] == "old"
    assert found["users.acl"] == "user x"
    assert len(found["master-key"]) == 64
    assert data(api, URLS)["url"] == "redis://operator:old@redis:6379/0"
    kept = api.get("secrets", HOME, "auth")
    assert kept is not None
    assert kept["metadata"]["annotations"] == {KEEP: "keep"}
    assert said[0] == f"{HOME}/auth: kept, and changed in master-key"


async def test_what_jobs_of_an_earlier_version_read_is_kept_and_never_made(
    api: FakeApi, kube: Kube
) -> None:
    former = WantedSecret(namespace=HOME, name=AUTH.name, found=True)
    assert await make_secrets(kube, [former]) == [f"{HOME}/auth: not there"]
    assert api.get("secrets", HOME, "auth") is None
    api.put("secrets", older(**{"developer-url": "redis://developer:old@redis:6379/0"}))
    said = await make_secrets(kube, [former])
    assert said == [f"{HOME}/auth: kept, and changed in nothing but its annotation"]
    assert await make_secrets(kube, [former]) == [f"{HOME}/auth: kept"]
    assert data(api, AUTH) == {"developer-url": "redis://developer:old@redis:6379/0"}
    kept = api.get("secrets", HOME, "auth")
    assert kept is not None
    assert kept["metadata"]["annotations"] == {KEEP: "keep"}


async def test_a_url_follows_the_chart_and_its_password_stays(
    api: FakeApi, kube: Kube, tmp_path: Path
) -> None:
    await make_secrets(kube, [AUTH, URLS])
    password = data(api, AUTH)["operator-password"]
    (tmp_path / "ca.crt").write_text("PEM")
    changed = URLS.model_copy(
        update={
            "texts": {"url": "rediss://operator:${operator-password}@redis:6379/0"},
            "files": {"ca.crt": tmp_path / "ca.crt"},
        }
    )
    said = await make_secrets(kube, [AUTH, changed])
    assert data(api, URLS) == {
        "url": f"rediss://operator:{password}@redis:6379/0",
        "ca.crt": "PEM",
    }
    assert said[1] == "team-a/orbiter-redis: kept, and changed in ca.crt, url"


@pytest.mark.parametrize("text", [None, "\n"])
async def test_a_ca_that_nobody_knows_yet_is_a_sentence(
    kube: Kube, tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "ca.crt").write_text(text)
    wanted = URLS.model_copy(update={"files": {"ca.crt": tmp_path / "ca.crt"}})
    with pytest.raises(CannotMakeError, match=r"add --set-file redis\.tls\.ca=ca\.crt"):
        await make_secrets(kube, [AUTH, wanted])


async def test_two_at_once_agree_on_the_passwords(api: FakeApi, kube: Kube) -> None:
    """What another one has written between our read and our write is not lost."""
    api.put("secrets", older(**{"operator-password": "old"}))
    others = base64.b64encode(b"the other's").decode()
    writes = 0

    async def before(verb: str, plural: str, body: Object | None) -> None:
        nonlocal writes
        if verb == "patch" and not writes:
            writes += 1
            api.patch("secrets", HOME, "auth", {"data": {"master-key": others}})

    api.before = before
    await make_secrets(kube, [AUTH])
    assert data(api, AUTH) == {"operator-password": "old", "master-key": "the other's"}


async def test_a_refusal_names_the_secret_and_the_next_step(api: FakeApi, kube: Kube) -> None:
    async def before(verb: str, plural: str, body: Object | None) -> None:
        raise RefusedRequestError(404, "NotFound", 'namespaces "team-a" not found')

    api.before = before
    sentence = (
        'the Secret team-a/orbiter-redis cannot be made: namespaces "team-a" not found; '
        "make it yourself, with the keys url"
    )
    with pytest.raises(CannotMakeError) as refused:
        await make_secrets(kube, [URLS.model_copy(update={"texts": {"url": "x"}})])
    assert str(refused.value) == sentence


async def test_trouble_of_the_api_server_is_for_the_next_try(api: FakeApi, kube: Kube) -> None:
    async def before(verb: str, plural: str, body: Object | None) -> None:
        raise RefusedRequestError(503, "ServiceUnavailable", "etcd is away")

    api.before = before
    with pytest.raises(ApiError):
        await make_secrets(kube, [AUTH])


async def run(api: FakeApi, directory: Path, plan: str) -> tuple[int | None, str]:
    program = (sys.executable, "-m", "orbiter_operator.make_secrets", plan)
    environment = {"KUBECONFIG": str(api.kubeconfig(directory))}
    process = await create_subprocess_exec(*program, env=environment, stderr=PIPE)
    _, said = await process.communicate()
    return process.returncode, said.decode()


async def test_the_program_makes_them_and_shows_none(api: FakeApi, tmp_path: Path) -> None:
    plan = json.dumps([item.model_dump(mode="json") for item in (AUTH, URLS)])
    code, said = await run(api, tmp_path, plan)
    assert code == 0
    assert said.splitlines()[0] == f"make_secrets: {HOME}/auth: made"
    assert not any(value in said for value in data(api, AUTH).values())


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ("{", "the plan cannot be read at its beginning: Invalid JSON"),
        ('[{"name": "x"}]', "the plan cannot be read at 0.namespace: Field required"),
    ],
)
async def test_a_plan_that_cannot_be_read_is_named(
    api: FakeApi, tmp_path: Path, plan: str, sentence: str
) -> None:
    code, said = await run(api, tmp_path, plan)
    assert code == 2
    assert sentence in said
