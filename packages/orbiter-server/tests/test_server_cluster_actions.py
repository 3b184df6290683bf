"""What somebody does to a task from the page: as themselves, and never by a right of the server."""

import pytest
from support.fake_api import RefusedRequestError
from support.fake_reviews import API_AUDIENCE

from orbiter.approval import digest
from orbiter_contracts.attempts import OPERATOR

from .test_server_transcripts import put_task

pytestmark = pytest.mark.integration
TASK = "/v1/cluster/tasks/team-a/fix"
ADA, BOB, EVE = "ada.token", "bob.token", "eve.token"
ASKED = {"id": "q1", "question": "main or trunk?", "askedAt": "2026-01-01T00:00:00Z"}


@pytest.fixture
async def launch(start, api, reviews, tmp_path):
    """Ada may do everything and her token is good at the API server; bob's is for the page only.

    Eve's is good there too, and she only looks.
    """
    both = ("orbiter-server", API_AUDIENCE)
    reviews.token(ADA, "ada", audience=both)
    reviews.token(BOB, "bob")
    reviews.token(EVE, "eve", audience=both)
    for user in ("ada", "bob", "eve"):
        reviews.give(user, "get", "agenttasks", "team-a")
    for user in ("ada", "bob"):
        reviews.give(user, "patch", "agenttasks", "team-a")
        reviews.give(user, "create", "agenttasks", "team-a")

    async def begin(**config):
        server = await start(
            auth="kubernetes", kubeconfig=api.kubeconfig(tmp_path), namespace="*", **config
        )
        return [server.signed_in(token) for token in (ADA, BOB, EVE)]

    return begin


async def act(server, what, body=None):
    return await server.http.post(f"{TASK}/{what}", json=body)


async def actions(server):
    return (await server.http.get(TASK)).json()["actions"]


def written(api):
    return [entry for entry in api.bearers if entry[0] in ("patch", "create")]


@pytest.mark.parametrize(
    ("status", "fitting"),
    [
        ({"phase": "Running"}, ["cancel"]),
        ({"phase": None}, ["cancel"]),
        ({"phase": "InputRequired", "inputRequest": ASKED}, ["answer", "cancel"]),
        ({"phase": "Completed", "checkpoint": {"time": "x"}}, ["retry"]),
        ({"phase": "Failed", "checkpoint": {"time": "x"}}, ["retry", "resume"]),
        ({"phase": "Cancelled"}, ["retry"]),
    ],
)
async def test_what_fits_a_task_is_told_to_whoever_may_do_it(launch, api, status, fitting):
    put_task(api, **status)
    ada, bob, eve = await launch()
    assert await actions(ada) == fitting
    assert await actions(bob) == [], "bob's token is none at the API server"
    assert await actions(eve) == [], "eve may only look"


async def test_a_task_of_a_broker_is_left_to_it(launch, api):
    put_task(api)
    api.patch("agenttasks", "team-a", "fix", {"spec": {"managedBy": "orbiter.dev/task-broker"}})
    ada, *_ = await launch()
    assert await actions(ada) == []


@pytest.mark.parametrize(
    ("status", "what", "body"),
    [
        ({"phase": "Running"}, "cancel", None),
        ({"phase": "InputRequired", "inputRequest": ASKED}, "answer", {"id": "q1", "text": "x"}),
        ({"phase": "Completed"}, "retry", {}),
    ],
)
async def test_what_a_broker_would_never_read_is_not_written(launch, api, status, what, body):
    """202 would say that it was done, and nobody would do it."""
    put_task(api, **status)
    api.patch("agenttasks", "team-a", "fix", {"spec": {"managedBy": "orbiter.dev/task-broker"}})
    ada, *_ = await launch()
    answer = await act(ada, what, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "managed_elsewhere")
    assert "orbiter.dev/task-broker" in answer.json()["error"]["message"]
    assert written(api) == []


async def test_a_task_that_names_the_operator_itself_is_its_own(launch, api):
    put_task(api, phase="Running")
    api.patch("agenttasks", "team-a", "fix", {"spec": {"managedBy": OPERATOR}})
    ada, *_ = await launch()
    assert await actions(ada) == ["cancel"]
    assert (await act(ada, "cancel")).status_code == 202


async def test_a_task_is_cancelled_as_whoever_asks(launch, api):
    put_task(api)
    ada, *_ = await launch()
    answer = await act(ada, "cancel")
    assert (answer.status_code, answer.json()) == (202, {"namespace": "team-a", "name": "fix"})
    spec = api.get("agenttasks", "team-a", "fix")["spec"]
    assert (spec["desiredState"], spec["cancelledBy"]) == ("Cancelled", "ada")
    assert written(api) == [("patch", "agenttasks", f"Bearer {ADA}")]
    # once more changes nothing, and asks nothing of the API server
    assert (await act(ada, "cancel")).status_code == 202
    assert len(written(api)) == 1
    assert await actions(ada) == []


async def test_a_question_is_answered_by_name_and_once(launch, api):
    put_task(api, phase="InputRequired", inputRequest=ASKED)
    ada, *_ = await launch()
    other = await act(ada, "answer", {"id": "q0", "text": "trunk"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "other_request")
    assert (await act(ada, "answer", {"id": "q1", "text": "main"})).status_code == 202
    given = api.get("agenttasks", "team-a", "fix")["spec"]["input"]
    assert given == [{"id": "q1", "text": "main", "by": "ada"}]
    assert (await act(ada, "answer", {"id": "q1", "text": "trunk"})).status_code == 409
    assert await actions(ada) == ["cancel"]
    put_task(api, phase="InputRequired", inputRequest={**ASKED, "id": "q2"})
    api.patch("agenttasks", "team-a", "fix", {"spec": {"input": given}})
    assert (await act(ada, "answer", {"id": "q2", "text": "yes"})).status_code == 202
    both = api.get("agenttasks", "team-a", "fix")["spec"]["input"]
    assert [each["id"] for each in both] == ["q1", "q2"]


async def test_an_approval_wants_a_decision_and_goes_with_the_digest_that_was_shown(launch, api):
    call = {"tool": "deploy", "arguments": {"to": "prod"}}
    call["digest"] = digest(**call)
    asked = {"id": "q1", "question": "", "kind": "approval", "calls": [call]}
    put_task(api, phase="InputRequired", inputRequest=asked)
    ada, *_ = await launch()
    shown = (await ada.http.get(TASK)).json()
    assert shown["calls"] == [{"tool": "deploy", "arguments": '{"to": "prod"}'}]
    refused = await act(ada, "answer", {"id": "q1", "text": "perhaps"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_answer")
    assert (await act(ada, "answer", {"id": "q1", "text": "deny not today"})).status_code == 202
    text = api.get("agenttasks", "team-a", "fix")["spec"]["input"][0]["text"]
    assert '"decision":"deny"' in text
    assert "not today" in text


async def test_what_is_over_is_done_once_more_under_a_new_name(launch, api):
    put_task(api, phase="Failed", checkpoint={"time": "2026-01-01T00:00:00Z"})
    change = {"spec": {"input": [{"id": "q", "text": "t"}], "desiredState": "Cancelled"}}
    api.patch("agenttasks", "team-a", "fix", change)
    ada, *_ = await launch()
    made = await act(ada, "retry", {})
    assert made.status_code == 201
    name = made.json()["name"]
    assert name.startswith("fix-")
    spec = api.get("agenttasks", "team-a", name)["spec"]
    assert spec == {"prompt": "Fix it", "agent": {"type": "claude", "model": "opus"}}
    again = await act(ada, "retry", {"name": "fix-2", "resume": True})
    assert again.json()["name"] == "fix-2"
    assert api.get("agenttasks", "team-a", "fix-2")["spec"]["resumeFrom"] == "fix"
    # the name is what makes it happen once
    assert (await act(ada, "retry", {"name": "fix-2"})).status_code == 409
    assert {token for _, _, token in written(api)} == {f"Bearer {ADA}"}


@pytest.mark.parametrize(
    ("phase", "what", "body"),
    [
        ("Completed", "cancel", None),
        ("Running", "retry", {}),
        ("Failed", "retry", {"resume": True}),
        ("Running", "answer", {"id": "q1", "text": "x"}),
    ],
)
async def test_what_does_not_fit_is_said(launch, api, phase, what, body):
    put_task(api, phase=phase)
    ada, *_ = await launch()
    answer = await act(ada, what, body)
    assert answer.status_code == 409, answer.text
    assert written(api) == []


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("answer", {"id": "q1"}),
        ("answer", {"id": "q1", "text": ""}),
        ("answer", {"id": "q1", "text": "x" * 65_537}),
        ("answer", {"id": "q1", "text": "x", "by": "root"}),
        ("retry", {"name": "Not A Name"}),
        ("retry", {"name": "../../secrets"}),
        ("retry", {"spec": {}}),
    ],
)
async def test_a_malformed_wish_is_refused_before_anything_is_asked(launch, api, what, body):
    put_task(api, phase="InputRequired", inputRequest=ASKED)
    ada, *_ = await launch()
    assert (await act(ada, what, body)).status_code == 422
    assert written(api) == []


async def test_a_token_for_the_page_alone_only_reads_and_is_never_sent_on(launch, api):
    put_task(api)
    _, bob, _ = await launch()
    answer = await act(bob, "cancel")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "reads_only")
    assert "--audience" in answer.text
    assert not [token for *_, token in api.bearers if BOB in token]


async def test_the_api_server_has_the_last_word_and_its_words_are_told(launch, api):
    put_task(api)
    ada, _, eve = await launch()
    status = 403

    async def refuse(verb, plural, body):
        if (verb, plural) == ("patch", "agenttasks"):
            raise RefusedRequestError(status, "Refused", 'agenttasks "fix" is forbidden: no')

    api.before = refuse
    answer = await act(eve, "cancel")
    assert answer.status_code == 403
    assert "is forbidden: no" in answer.text
    for status, told in ((401, 403), (409, 409), (422, 422), (500, 502), (404, 404)):
        assert (await act(ada, "cancel")).status_code == told, status


async def test_whoever_may_not_even_look_learns_nothing(launch, api, reviews):
    put_task(api)
    ada, *_ = await launch()
    reviews.take("ada")
    reviews.give("ada", "patch", "agenttasks", "team-a")
    assert (await act(ada, "cancel")).status_code == 403
    answers = {"/v1/cluster/tasks/team-b/fix": (403, 404), "/v1/cluster/tasks/*/fix": (422,)}
    for path, codes in answers.items():  # what is no name is refused before anybody is asked
        assert (await ada.http.post(f"{path}/cancel")).status_code in codes
    assert written(api) == []


async def test_the_shared_token_only_reads(start, api, tmp_path):
    put_task(api)
    server = await start(kubeconfig=api.kubeconfig(tmp_path), namespace="*")
    assert await actions(server) == []
    answer = await act(server, "cancel")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "reads_only")
    assert written(api) == []
