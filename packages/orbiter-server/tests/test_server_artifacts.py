"""What was kept of a task's workspace: told and handed out by the rights of whoever asks."""

import base64
import hashlib
import json

import pytest
from redis.asyncio import Redis
from support.fake_api import RefusedRequestError
from support.redis_server import redis_server

from orbiter.server._internal.cluster_artifacts import told_of
from orbiter_contracts import redis_users
from orbiter_contracts.queues import Keys

from .test_server_cluster_actions import ADA, BOB, launch
from .test_server_transcripts import UID, put_task

__all__ = ["launch", "redis_server"]
PATH = "/v1/cluster/tasks/team-a/fix/artifacts"
OURS = Keys.of_namespace("team-a")
STORE = {
    "endpoint": "https://s3.example.com", "bucket": "agents", "region": "eu", "prefix": "orbiter"
}  # fmt: skip
HTML = b"<script>alert(1)</script>"


def put_producer(api, url, name="orbiter-producer", key="producer-url"):
    data = {key: base64.b64encode(url.encode()).decode()}
    api.put("secrets", {"metadata": {"name": name, "namespace": "team-a"}, "data": data})


def entry(number, name, data, place="redis", **more):
    return {
        "name": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
        "place": place, "key": f"{number:04}-{name.rpartition('/')[2]}", **more,
    }  # fmt: skip


async def keep(redis, files, *, attempt=1, entries=None):
    """As a worker keeps them."""
    entries = entries or [entry(n, name, data) for n, (name, data) in enumerate(files.items())]
    index = {"time": "2026-01-05T09:00:00Z", "files": entries, "store": STORE}
    fields = {"index": json.dumps(index)}
    fields |= {e["key"]: files[e["name"]] for e in entries if e["place"] == "redis"}
    await redis.hset(OURS.task_artifacts(UID, attempt), mapping=fields)


@pytest.fixture
async def redis(redis_server, api):
    client = Redis.from_url(redis_server.url)
    await client.flushall()
    rules = redis_users.producer_rules(OURS)
    await client.execute_command("ACL", "SETUSER", "p:team-a", "reset", "on", ">pw", *rules)
    put_producer(api, redis_server.url.replace("redis://", "redis://p%3Ateam-a:pw@"))
    put_kept(api)
    yield client
    await client.execute_command("ACL", "DELUSER", "p:team-a")
    await client.aclose()


def put_kept(api, **more):
    kept = {"attempt": 1, "count": 2, "bytes": 30, "names": ["out/report.html", "big.bin"], **more}
    put_task(api, phase="Completed", artifacts=kept)


@pytest.mark.integration
async def test_files_are_listed_and_a_small_one_is_handed_out_as_a_file(launch, api, redis):
    big = entry(1, "big.bin", b"x" * 9_000_000, place="store")
    small = entry(0, "out/report.html", HTML)
    await keep(redis, {"out/report.html": HTML}, entries=[small, big])
    ada, *_ = await launch(transcripts=True)
    detail = (await ada.http.get(PATH.removesuffix("/artifacts"))).json()
    assert (detail["artifacts"], detail["artifacts_of"]) == (2, 1)
    found = (await ada.http.get(PATH)).json()
    assert found == {
        "attempt": 1, "count": 2, "size_bytes": len(HTML) + 9_000_000, "problem": "",
        "store": "https://s3.example.com/agents",
        "command": "kubectl orbiter artifacts fix -n team-a --attempt 1 --fetch DIR",
        "files": [
            {"name": "out/report.html", "size_bytes": len(HTML), "place": "redis",
             "key": "0000-report.html"},
            {"name": "big.bin", "size_bytes": 9_000_000, "place": "store", "key": ""},
        ],
    }  # fmt: skip
    file = await ada.http.get(f"{PATH}/1/0000-report.html")
    assert (file.status_code, file.content) == (200, HTML)
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''report.html"
    assert file.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in file.headers["content-security-policy"]
    stored = await ada.http.get(f"{PATH}/1/0001-big.bin")
    assert (stored.status_code, stored.json()["error"]["code"]) == (409, "in_store")
    assert "kubectl orbiter artifacts fix" in stored.text
    for wrong in ("1/0009-x", "2/0000-report.html", "0/0000-report.html", "x/index", "1/index"):
        assert (await ada.http.get(f"{PATH}/{wrong}")).status_code == 404
    assert ("get", "secrets", f"Bearer {ADA}") in api.bearers


@pytest.mark.integration
async def test_who_may_not_read_the_secret_gets_no_file_and_sees_names(launch, api, redis):
    await keep(redis, {"out/report.html": HTML, "big.bin": b"xx"})
    _, bob, eve = await launch(transcripts=True)
    found = (await bob.http.get(PATH)).json()
    assert "this token only reads" in found["problem"]
    assert [each["name"] for each in found["files"]] == ["out/report.html", "big.bin"]
    assert {(each["size_bytes"], each["key"]) for each in found["files"]} == {(None, "")}
    assert (await bob.http.get(f"{PATH}/1/0000-report.html")).status_code == 403
    assert not [token for *_, token in api.bearers if BOB in token]

    async def refuse(verb, plural, body):
        if plural == "secrets":
            raise RefusedRequestError(403, "Forbidden", 'secrets "orbiter-producer" is forbidden')

    api.before = refuse
    assert (await eve.http.get(f"{PATH}/1/0000-report.html")).status_code == 403
    assert "is forbidden" in (await eve.http.get(PATH)).json()["problem"]


@pytest.mark.integration
async def test_where_a_namespace_has_one_redis_user_for_all_that_one_reads(
    launch, api, redis, redis_server
):
    await keep(redis, {"a": b"1"})
    api.remove("secrets", "team-a", "orbiter-producer")
    ada, *_ = await launch(transcripts=True)
    assert "has no Secret" in (await ada.http.get(PATH)).json()["problem"]
    put_producer(api, redis_server.url, "orbiter-redis", "developer-url")
    assert (await ada.http.get(f"{PATH}/1/0000-a")).content == b"1"


@pytest.mark.integration
async def test_what_is_not_what_was_kept_is_not_handed_out(launch, api, redis):
    await keep(redis, {"a": b"one", "b": b"two"})
    key = OURS.task_artifacts(UID, 1)
    await redis.hset(key, "0000-a", b"One")
    await redis.hset(key, "0001-b", b"x" * 6_000_000)
    ada, *_ = await launch(transcripts=True)
    assert (await ada.http.get(f"{PATH}/1/0000-a")).status_code == 502
    assert (await ada.http.get(f"{PATH}/1/0001-b")).status_code == 502
    for index in (b"\xff", b"[]", b"{" * 100_000, b"x" * 2_000_000, b"x" * 6_000_000):
        await redis.hset(key, "index", index)
        found = (await ada.http.get(PATH)).json()
        assert found["problem"], index[:9]
        assert [each["name"] for each in found["files"]] == ["out/report.html", "big.bin"]
    put_producer(api, "redis://127.0.0.1:1/0")
    assert "does not give them now" in (await ada.http.get(PATH)).json()["problem"]
    put_task(api, artifacts={"attempt": 1}, inputStream="{team-b}:worker:developer:input")
    assert (await ada.http.get(PATH)).json()["problem"]


@pytest.mark.integration
async def test_a_server_that_shows_no_transcripts_asks_no_redis(launch, api, redis):
    await keep(redis, {"out/report.html": HTML})
    ada, *_ = await launch()
    found = (await ada.http.get(PATH)).json()
    assert "--transcripts" in found["problem"]
    assert (await ada.http.get(f"{PATH}/1/0000-report.html")).status_code == 404
    assert not [asked for asked in api.bearers if asked[1] == "secrets"]


@pytest.mark.integration
async def test_the_shared_token_reads_what_the_status_says(start, api, redis, tmp_path):
    await keep(redis, {"out/report.html": HTML})
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*", transcripts=True)
    found = (await server.http.get(PATH)).json()
    assert "only reads" in found["problem"]
    assert found["count"] == 2
    assert (await server.http.get(f"{PATH}/1/0000-report.html")).status_code == 403


@pytest.mark.parametrize(
    "kept", [None, [], {"attempt": "x", "names": "abc"}, {"names": [1, None, "a" * 900]}]
)
def test_a_status_that_is_odd_is_told_as_far_as_it_can_be(kept):
    found = told_of({"metadata": {"name": "fix"}, "status": {"artifacts": kept}}, None)
    assert (found.attempt, found.count) == (0, 0)
    assert all(len(each.name) <= 512 for each in found.files)
