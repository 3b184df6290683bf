"""Whose a token is: the cluster says, and nobody else; what it cannot say is no yes."""

import asyncio
import logging

import pytest
from support.fake_api import RefusedRequestError
from support.fake_reviews import API_AUDIENCE

from orbiter import Agent
from orbiter.server import ServerConfig, create_app
from orbiter.server._internal import reviews as module
from orbiter.server._internal.review_models import allowed_by, person_of
from orbiter.server.main import with_token
from orbiter.types import OrbiterError

pytestmark = pytest.mark.integration
ADA = "ada.token-1"
AGENTS = {"helper": Agent(name="helper")}


@pytest.fixture
async def server(start, api, reviews, tmp_path):
    """A server that asks the cluster; ada may talk to its agents."""
    reviews.token(ADA, "ada")
    reviews.give("ada", "use", "agents", "default")
    return await start(auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path))


async def status(server, token, path="/v1/agents"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return await server.http.get(path, headers=headers)


@pytest.mark.parametrize(
    "token",
    [None, "garbage", "x" * 16_385, "a b", "b\u00e9b\u00e9", "=", "{}", "a\tb"],
    ids=["none", "unknown", "too long", "a space", "no ASCII", "empty", "JSON", "a tab"],
)
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/cluster/tasks", "/openapi.json", "/metrics"])
async def test_without_a_token_of_the_cluster_nothing_is_told(server, token, path):
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode("latin-1"))]
    answer = await server.http.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    error = answer.json()["error"]
    assert error["code"] == "cluster_token"
    assert "kubectl create token SERVICEACCOUNT -n NAMESPACE --audience=orb" in error["message"]
    assert "helper" not in answer.text
    assert token is None or len(token) < 4 or token not in answer.text


@pytest.mark.parametrize("token", ["x" * 16_385, "a b", "b\u00e9b\u00e9", "="])
async def test_what_can_be_no_token_is_not_even_asked_about(server, api, token):
    headers = [(b"authorization", f"Bearer {token}".encode("latin-1"))]
    await server.http.get("/v1/agents", headers=headers)
    assert api.requests["create", "tokenreviews"] == 0


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/page/app.js"])
async def test_health_and_the_empty_page_ask_nobody(server, api, path):
    assert (await status(server, None, path)).status_code == 200
    assert api.requests["create", "tokenreviews"] == 0


async def test_this_machine_is_not_let_in_without_a_token(server):
    assert (await status(server, None)).status_code == 401


async def test_a_token_for_another_audience_is_refused(server, reviews):
    other = reviews.token("other-audience", "ada", audience=API_AUDIENCE)
    assert (await status(server, other)).status_code == 401
    assert reviews.asked[-1] == {"token": other, "audiences": ["orbiter-server"]}


async def test_a_cluster_that_knows_no_audiences_is_not_believed():
    user = {"username": "ada"}
    told = {"status": {"authenticated": True, "user": user}}
    assert person_of(told, "orbiter-server") is None
    assert person_of(told, "").username == "ada"


async def test_the_api_servers_own_audience_can_be_chosen(start, api, reviews, tmp_path):
    token = reviews.token(ADA, "ada", audience=API_AUDIENCE)
    reviews.give("ada", "use", "agents", "default")
    server = await start(auth="kubernetes", audience="", kubeconfig=api.kubeconfig(tmp_path))
    assert (await status(server, token)).status_code == 200
    assert reviews.asked[0] == {"token": token}


async def test_all_that_the_cluster_says_of_somebody_counts_for_their_rights(server, reviews):
    assert (await status(server, ADA)).status_code == 200
    assert reviews.asked[-1] == {
        "user": "ada", "uid": "uid-ada", "groups": ["people"], "extra": {"from": ["test"]},
        "resourceAttributes": {
            "group": "orbiter.dev", "resource": "agents", "verb": "use",
            "namespace": "default", "name": "",
        },
    }  # fmt: skip


async def test_one_look_at_the_page_asks_the_cluster_once(server, api):
    for _ in range(5):
        assert (await status(server, ADA)).status_code == 200
    assert api.requests["create", "tokenreviews"] == 1
    assert api.requests["create", "subjectaccessreviews"] == 1


@pytest.mark.parametrize("plural", ["tokenreviews", "subjectaccessreviews"])
async def test_a_refusal_by_the_api_server_is_no_yes(server, api, plural, caplog):
    async def refuse(verb, asked, body):
        if asked == plural:
            raise RefusedRequestError(403, "Forbidden", f"you may not: {body}")

    api.before = refuse
    with caplog.at_level(logging.DEBUG):
        answer = await status(server, ADA)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert "try again" in answer.json()["error"]["message"]
    assert f"a review of {plural} failed: RefusedError 403" in caplog.text
    assert ADA not in caplog.text + answer.text


async def test_an_api_server_that_is_away_lets_nobody_in_until_it_is_back(server, api):
    await api.stop()
    assert (await status(server, ADA)).status_code == 503
    assert (await status(server, ADA, "/v1/cluster/tasks")).status_code == 503
    await api.start()
    assert (await status(server, ADA)).status_code == 200


async def test_an_api_server_that_does_not_answer_is_not_waited_for_long(server, api, monkeypatch):
    monkeypatch.setattr(module, "ASK_SECONDS", 0.05)
    never = asyncio.Event()

    async def hang(verb, plural, body):
        await never.wait()

    api.before = hang
    try:
        assert (await status(server, ADA)).status_code == 503
    finally:
        never.set()


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"status": None}, {"status": {"authenticated": "true", "user": {"username": "ada"}}},
        {"status": {"authenticated": True, "audiences": ["orbiter-server"]}},
        {"status": {"authenticated": True, "user": {"username": ""},
                    "audiences": ["orbiter-server"]}},
        {"status": {"authenticated": True, "user": {"username": "ada", "groups": "admins"},
                    "audiences": ["orbiter-server"]}},
    ],
)  # fmt: skip
async def test_a_strange_token_review_is_no_yes(server, api, answer):
    api.reviews["tokenreviews"] = lambda body: answer
    assert (await status(server, ADA)).status_code == 503


@pytest.mark.parametrize(
    "answer",
    [{}, {"status": {}}, {"status": {"allowed": 1}}, {"status": {"allowed": "true"}}, []],
)
async def test_a_strange_access_review_is_no_yes(server, api, answer):
    api.reviews["subjectaccessreviews"] = lambda body: answer
    assert (await status(server, ADA)).status_code == 503


def test_a_denial_outranks_a_permission():
    assert allowed_by({"status": {"allowed": True}})
    assert not allowed_by({"status": {"allowed": True, "denied": True}})
    assert not allowed_by({"status": {"allowed": False, "reason": "no"}})


async def test_no_token_is_in_a_log_an_address_or_an_error(server, api, reviews, caplog):
    bad = reviews.token("bad.token-2", "eve")
    with caplog.at_level(logging.DEBUG):
        texts = [(await status(server, token)).text for token in (ADA, bad, "unknown-3")]
        await api.stop()
        texts += [(await status(server, token)).text for token in ("new-4", "unknown-5")]
    for token in (ADA, bad, "unknown-3", "new-4", "unknown-5"):
        assert token not in caplog.text
        assert not any(token in text for text in texts)


async def test_a_socket_needs_the_same_token_and_right(server, reviews):
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    eve = reviews.token("eve.token", "eve")
    address = f"{server.url.replace('http', 'ws')}/v1/socket"
    for token in ("unknown", eve):
        with pytest.raises(InvalidStatus):
            async with connect(address, subprotocols=["orbiter", f"orbiter.bearer.{token}"]):
                pass
    async with connect(address, subprotocols=["orbiter", f"orbiter.bearer.{ADA}"]) as socket:
        assert socket.subprotocol == "orbiter"


async def test_metrics_are_for_whoever_may_get_them_with_a_token_of_the_api_server(server, reviews):
    prometheus = reviews.token("prom", "prometheus", audience=API_AUDIENCE)
    assert (await status(server, prometheus, "/metrics")).status_code == 403
    reviews.rights.add(("scraper", "get", "/metrics"))
    scraper = reviews.token("scrape", "scraper", audience=API_AUDIENCE)
    assert "orbiter_server_requests" in (await status(server, scraper, "/metrics")).text
    assert (await status(server, scraper)).status_code == 401


def test_two_ways_in_at_once_are_refused(tmp_path):
    with pytest.raises(OrbiterError, match="leave token= out"):
        ServerConfig(directory=tmp_path, auth="kubernetes", token="abc")


def test_no_token_is_made_where_the_cluster_judges(tmp_path):
    config = ServerConfig(directory=tmp_path, auth="kubernetes")
    assert with_token(config, "0.0.0.0", {"ORBITER_SERVER_TOKEN": "abc"}).token is None
    assert not (tmp_path / "token").exists()


def test_without_a_cluster_to_ask_there_is_no_server(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    config = ServerConfig(directory=tmp_path, auth="kubernetes")
    with pytest.raises(OrbiterError, match="there is no cluster to ask: run the server in one"):
        create_app(AGENTS, config=config)


async def test_pages_of_others_are_refused_before_anybody_is_asked(server, api):
    headers = {"Authorization": f"Bearer {ADA}", "Origin": "https://evil.example"}
    assert (await server.http.get("/v1/agents", headers=headers)).status_code == 403
    assert api.requests["create", "tokenreviews"] == 0


async def test_the_document_says_that_the_cluster_decides(server):
    document = (await status(server, ADA, "/openapi.json")).json()
    assert document["security"] == [{"token": []}]
    assert {"401", "403", "503"} <= set(document["paths"]["/v1/agents"]["get"]["responses"])


def test_a_client_is_never_given_another_ones_answer():
    """The kept answers are by the hash of the whole token, and by the audience."""
    hashes = {module._hash(token) for token in ("a", "b", "ab", "a=", "A")}
    assert len(hashes) == 5
    assert all(len(found) == 32 for found in hashes)
