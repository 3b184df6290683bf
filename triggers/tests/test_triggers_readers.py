"""Whatever tenants, GitHub or Redis hand to the triggers' readers: it is read, or it is nothing."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import MOMENTS, TEXTS, VALUES, WRITTEN, with_fields, written

from orbiter_contracts.bounds import printable
from orbiter_operator.kube.models import read_model, read_status
from orbiter_operator.kube.names import Key, owner_reference
from orbiter_triggers.controller.cache import task_state
from orbiter_triggers.controller.observed import Observed
from orbiter_triggers.controller.plan import plan
from orbiter_triggers.courier.answers import _json, said
from orbiter_triggers.courier.conversation import _said
from orbiter_triggers.courier.lists import LISTS, identity_of, kept, moment_of, number_in_url
from orbiter_triggers.courier.notify.models import Notification
from orbiter_triggers.courier.notify.outbox import _read
from orbiter_triggers.courier.poll_state import PollState
from orbiter_triggers.courier.rate_limits import LONGEST_SECONDS, pause_after
from orbiter_triggers.courier.records import Record, read_record
from orbiter_triggers.courier.targets import Target
from orbiter_triggers.courier.tasks import read_task
from orbiter_triggers.models import TriggerSpec, TriggerStatus
from orbiter_triggers.naming import COMMIT, EVENT, KIND, NUMBER, SCHEDULED

SIX = datetime(2026, 11, 30, 6, tzinfo=UTC)
OWNER = Target(Key("team", "deps", KIND), "u-1", SIX, TriggerSpec(), "octo/shop")
WISHES = ["prompt", "workspace", "input", "agent", "timeout"]
WORDS = ["phase", "inputRequest", "result", "conditions", "attempts", "reason", "message"]
ITEM = with_fields(
    ["id", "created_at", "updated_at", "timestamp", "html_url", "issue_url", "user", "body"]
)


def names_of(model: Any) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


@given(
    st.dictionaries(st.sampled_from([SCHEDULED, EVENT, NUMBER, COMMIT]), TEXTS | MOMENTS),
    with_fields(WISHES),
    st.dictionaries(st.sampled_from(WORDS), VALUES | MOMENTS),
)
def test_a_task_of_any_contents_is_some_triggers_or_nobodys(
    annotations: dict[str, str], spec: Any, status: dict[str, Any]
) -> None:
    meta = {
        "name": "odd",
        "namespace": "team",
        "uid": "t-1",
        "creationTimestamp": "2026-11-30T05:00:00Z",
        "annotations": annotations,
        "ownerReferences": [owner_reference(KIND, "deps", "u-1")],
    }
    obj = {"metadata": meta, "spec": spec, "status": status}
    state = task_state(obj)
    assert state is not None
    assert state.owner == "u-1"
    found = read_task(Key("team", "odd"), obj, OWNER)
    assert found is None or found.asks is None or found.asks.id


@given(with_fields(names_of(TriggerSpec)), with_fields(names_of(TriggerStatus)))
def test_a_trigger_of_any_contents_has_a_plan(raw: Any, said_before: Any) -> None:
    spec, error = read_model(TriggerSpec, raw)
    observed = Observed(
        namespace="team",
        name="deps",
        uid="u-1",
        generation=1,
        created=SIX,
        spec=spec,
        spec_error=error,
        status=read_status(TriggerStatus, said_before),
        tasks=(),
        now=SIX,
    )
    assert json.dumps(plan(observed).status.to_api(), allow_nan=False)


@given(
    st.dictionaries(
        st.sampled_from(["whole", "issues"]),
        WRITTEN | with_fields(["after", "seen", "etag", "repository", "begin"]).map(written),
    )
)
def test_how_far_a_poll_was_is_known_or_it_begins_anew(fields: dict[str, str]) -> None:
    reached = PollState(fields).reached("issues", SIX)
    assert reached.since <= reached.after
    assert reached.with_item(SIX, "1").identities


@given(WRITTEN | with_fields(names_of(Record)).map(written), st.binary(max_size=60))
def test_what_is_kept_of_comments_and_notifications_is_read_or_nothing(
    text: str, data: bytes
) -> None:
    for one in (text, data.decode("utf-8", "surrogateescape")):
        assert read_record(one).model_dump_json()
        assert _read(one) is None or one


@given(with_fields(names_of(Notification)).map(written))
def test_a_notification_of_any_fields_is_read_or_none(text: str) -> None:
    told = _read(text)
    assert told is None or told.model_dump_json()


@given(ITEM)
def test_an_item_of_any_list_is_read_or_left_out(item: Any) -> None:
    for listing in LISTS:
        moment = moment_of(listing, item)
        assert moment is None or moment.tzinfo is UTC
    assert len(identity_of(item)) <= 64
    number = number_in_url(kept(item), "issue_url")
    assert number is None or number >= 0
    comment = _said(kept(item))
    assert comment is None or comment.created.tzinfo
    assert printable(said(item)) == said(item)


@given(WRITTEN.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary())
def test_an_answer_is_json_or_nothing(text: bytes) -> None:
    value = _json(text)
    assert value is None or json.dumps(value)


@given(
    st.sampled_from([200, 304, 403, 429, 500]),
    st.dictionaries(
        st.sampled_from(["Retry-After", "X-RateLimit-Remaining", "X-RateLimit-Reset"]),
        TEXTS | st.sampled_from(["0", "\u00b2", "9" * 12, "9" * 5000, "-1", " 5 "]),
    ),
    TEXTS,
)
def test_a_limit_of_any_words_has_an_end(status: int, headers: dict[str, str], text: str) -> None:
    pause = pause_after(status, headers, text, 1e9)
    assert pause is None or 1 <= pause <= LONGEST_SECONDS
