"""Who is told of a task or a session: by its spec and its profiles, as its status says."""

from datetime import UTC, datetime, timedelta
from typing import Any

from support.observed import decide, job, observed, record, running_pod, spec
from support.running_sessions import DEFAULTS

from orbiter_contracts.notify import MAX_SINKS, OF_AN_END
from orbiter_operator.kube.models import ProfileKind
from orbiter_operator.profiles.models import Profile
from orbiter_operator.profiles.wiring import profile_error
from orbiter_operator.sessions.models import ObservedSession, SessionSpec, SessionStatus
from orbiter_operator.sessions.plan import plan_session
from orbiter_operator.tasks.models import TaskSpec, TaskStatus
from orbiter_operator.tasks.observe import read_spec

KEY = {"name": "orbiter-notify"}
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sink(name: str, *events: str) -> dict[str, Any]:
    told = {"events": list(events)} if events else {}
    return {"url": f"https://{name}.example.com/", "secretRef": KEY, **told}


def profile(*sinks: dict[str, Any], base: Profile | None = None) -> Profile:
    kind: ProfileKind = "AgentProfile" if base else "ClusterAgentProfile"
    meta = {"name": "p", "uid": "u", "generation": 3}

    def judge(of: ProfileKind, said: Any) -> str | None:
        return profile_error(of, said, DEFAULTS)

    made = Profile.read(meta, {"notify": list(sinks)}, judge, kind)
    return made.model_copy(update={"base": base})


def together(own: list[dict[str, Any]], *profiles: Profile) -> tuple[TaskSpec, str | None]:
    return read_spec({"prompt": "do it", "notify": own}, DEFAULTS, *profiles)


def places(read: TaskSpec) -> list[str]:
    return [str(one.url).split(".")[0].removeprefix("https://") for one in read.notify]


def test_a_task_is_told_of_to_its_own_receivers_and_those_of_its_profiles() -> None:
    both = profile(sink("team"), base=profile(sink("platform")))
    read, why = together([sink("own"), sink("team", "BudgetWarning")], both)
    assert why is None
    assert places(read) == ["platform", "team", "own"]
    assert read.notify[1].events == (*OF_AN_END, "BudgetWarning")


def test_more_than_five_together_are_refused_and_the_sentence_says_whose() -> None:
    many = profile(*[sink(f"t{number}") for number in range(MAX_SINKS)])
    read, why = together([sink("own")], many)
    assert why == (
        "spec.notify: 6 receivers with those of ClusterAgentProfile p, 5 at most; leave some out"
    )
    assert places(read) == ["own"]
    assert together([sink("t1")], many)[1] is None


def test_a_receiver_that_cannot_be_one_is_invalid_and_its_address_is_not_told() -> None:
    _, why = together([{"url": "https://me:pw@a.example.com", "secretRef": KEY}])
    assert why is not None
    assert why.startswith("spec.notify.0.url: ")
    assert "pw" not in why
    wrong = profile({"url": "https://a.example.com"})
    assert wrong.error is not None
    assert wrong.error.startswith("spec.notify.0.secretRef")


def test_the_status_of_a_task_says_who_is_told_from_the_first_moment_on() -> None:
    first = decide(observed(spec=spec(notify=[sink("own")], dependsOn=["other"]))).status
    assert first is not None
    assert first.notify is not None
    assert first.to_api()["notify"] == [
        {**sink("own", *OF_AN_END), "secretRef": {**KEY, "key": "secret"}}
    ]


def test_who_is_told_stays_as_it_was_when_the_first_attempt_began() -> None:
    kept = TaskStatus(attempts=1, notify=spec(notify=[sink("own")]).notify, phase="Pending")
    seen = observed(status=kept, jobs=(job(),), pods=(running_pod(),), spec=spec(), **record())
    now = decide(seen).status
    assert now is not None
    assert now.notify == kept.notify


def session(*sinks: dict[str, Any], status: SessionStatus) -> SessionStatus:
    read = SessionSpec.model_validate({"userId": 7, "notify": list(sinks)})
    seen = ObservedSession(
        namespace="team",
        name="alice",
        uid="9f1c",
        generation=1,
        created=NOW - timedelta(days=9),
        worker_id="team.alice",
        spec=read,
        spec_error="spec.agent.type: unknown",
        status=status,
    )
    decided = plan_session(seen, NOW, image_patience=timedelta(minutes=5)).status
    assert decided is not None
    return decided


def test_a_sessions_status_says_since_when_somebody_is_told() -> None:
    first = session(sink("own"), status=SessionStatus())
    assert first.notify_since == NOW - timedelta(days=9)
    before = first.model_copy(update={"notify_since": NOW - timedelta(hours=1)})
    assert session(sink("own"), status=before).notify_since == NOW - timedelta(hours=1)
    assert session(sink("other"), status=before).notify_since == NOW
    gone = session(status=before)
    assert (gone.notify, gone.notify_since) == (None, None)
