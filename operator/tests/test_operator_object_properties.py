"""Whatever tenants write into their objects, and workers into records: it is read or refused."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.observed import UID
from support.queues import open_groups
from support.strange_values import objects, with_fields

from orbiter_contracts import Checkpoint
from orbiter_contracts.attempts import Attempt
from orbiter_contracts.bounds import one_line
from orbiter_operator.budgets.models import BudgetSpec, BudgetStatus
from orbiter_operator.kube.models import KubeModel, Status, read_model, read_status
from orbiter_operator.profiles.models import ProfileSpec
from orbiter_operator.sessions.models import SessionSpec, SessionStatus
from orbiter_operator.streams.attempts import Attempts
from orbiter_operator.streams.client import redis_client
from orbiter_operator.tasks.models import TaskSpec

SPECS: list[type[KubeModel]] = [BudgetSpec, ProfileSpec, SessionSpec, TaskSpec]
STATUSES: list[type[Status]] = [BudgetStatus, SessionStatus]


def names_of(model: type[KubeModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


@pytest.mark.parametrize("model", SPECS, ids=lambda model: model.__name__)
@given(data=st.data())
def test_a_spec_is_read_or_refused_with_its_place(model, data):
    read, wrong = read_model(model, data.draw(with_fields(names_of(model))))
    assert isinstance(read, model)
    assert wrong is None or one_line(wrong, 1000)


@pytest.mark.parametrize("model", STATUSES, ids=lambda model: model.__name__)
@given(data=st.data())
def test_a_status_is_read_and_can_be_written(model, data):
    status = read_status(model, data.draw(with_fields(names_of(model))))
    written: Any = status.to_api()
    assert read_status(model, json.loads(json.dumps(written, allow_nan=False))) == status


IDS = st.binary(max_size=30) | st.sampled_from([b"-", b"+", b"1-0", b"0", b"9" * 40, b"1-\xff"])
FIRST = Attempt("team/fix", UID, 1)


@pytest.mark.integration
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.sampled_from([b"entry", b"output", b"checkpoint"]),
        IDS | objects(list(Checkpoint.model_fields)),
        min_size=1,
    )
)
async def test_an_attempts_record_of_any_contents_says_where_it_stands(redis_server, redis, record):
    await redis.flushall()
    await open_groups(redis)
    async with redis_client(redis_server.url) as own:
        await own.hset(FIRST.record, mapping=record)
        found = await Attempts(own).read(FIRST)
        assert (found.output is None) == (found.output_id is None)
        assert found.output is None or found.output.reason == "InvalidMessage"
        await Attempts(own).withdraw(FIRST)
