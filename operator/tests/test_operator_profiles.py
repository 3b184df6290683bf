"""What a task and its AgentProfile say together, and when a profile cannot be used."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.observed import decide, observed, spec
from support.running_sessions import DEFAULTS as PLAIN

from orbiter_operator.kube.models import Profiled
from orbiter_operator.kube.names import Key, revision_name
from orbiter_operator.pods.overlay import merge
from orbiter_operator.profiles.models import Profile
from orbiter_operator.profiles.store import Profiles, profile_cache
from orbiter_operator.profiles.wiring import profile_error
from orbiter_operator.tasks.observe import read_spec

DEFAULTS = PLAIN._replace(images={"claude": "claude:1", "codex": "codex:1"})
ENV = [{"name": "REGION", "value": "eu"}, {"name": "TIER", "value": "1"}]


def judged(kind, said):
    return profile_error(kind, said, DEFAULTS)


def profile(**said):
    """A profile as the API server has it, read."""
    return Profile.read({"name": "p", "uid": "u", "generation": 3}, said, judged)


def together(said, **own):
    """The spec of a task with a profile, and why it cannot be run."""
    return read_spec({"prompt": "do it", **own}, DEFAULTS, profile(**said))


def value(read, field):
    """The value of a field, by its name in YAML."""
    name = {"maxTurns": "max_turns", "maxCostUSD": "max_cost_usd", "timeoutSeconds": None}
    if field == "timeoutSeconds":
        return read.timeout_seconds
    return getattr(read.agent, name.get(field, field) or field)


def put(field, said):
    return {field: said} if field == "timeoutSeconds" else {"agent": {field: said}}


CHOICES = {"type": ("codex", "claude"), "model": ("large", "small")}
LIMITS = {"maxTurns": (9, 5), "maxCostUSD": (2.5, 1), "timeoutSeconds": (3600, 60)}
FIELDS = {**CHOICES, **LIMITS}


@pytest.mark.parametrize("field", FIELDS)
def test_what_only_one_of_them_says_holds(field):
    theirs, mine = FIELDS[field]
    read, why = together(put(field, theirs))
    assert (value(read, field), why) == (theirs, None)
    read, why = together({}, **put(field, mine))
    assert (value(read, field), why) == (mine, None)


@pytest.mark.parametrize("field", CHOICES)
def test_what_both_say_is_the_profiles_and_a_task_that_says_otherwise_is_refused(field):
    theirs, mine = FIELDS[field]
    read, why = together(put(field, theirs), **put(field, mine))
    assert why == (
        f"spec.agent.{field} is '{mine}': leave it out, or have AgentProfile p let it be said "
        "(allowOverrides)"
    )
    read, why = together(put(field, theirs), **put(field, theirs))
    assert (value(read, field), why) == (theirs, None)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("allowed", ["this", "*"])
def test_what_may_be_overridden_is_the_tasks_to_say(field, allowed):
    more, less = FIELDS[field]
    allow = [field if allowed == "this" else "*"]
    read, why = together({**put(field, less), "allowOverrides": allow}, **put(field, more))
    assert (value(read, field), why) == (more, None)


@pytest.mark.parametrize("field", LIMITS)
def test_a_limit_may_be_made_smaller_and_not_larger(field):
    more, less = LIMITS[field]
    read, why = together(put(field, more), **put(field, less))
    assert (value(read, field), why) == (less, None)
    assert "let it be said" in (together(put(field, less), **put(field, more))[1] or "")


def test_a_default_of_the_operator_is_nothing_that_the_task_says():
    read, why = together({"agent": {"type": "codex"}, "timeoutSeconds": 60})
    assert (read.agent.type, read.timeout_seconds, why) == ("codex", 60, None)
    read, why = together({})
    assert (read.agent.type, read.timeout_seconds, why) == ("claude", 1800, None)


def test_variables_are_told_apart_by_their_names():
    own = {"agent": {"env": [{"name": "DEBUG", "value": "x"}]}}
    read, why = together({"agent": {"env": ENV}}, **own)
    assert [item["name"] for item in read.agent.env] == ["REGION", "TIER", "DEBUG"]
    assert why is None
    other = {"agent": {"env": [{"name": "TIER", "value": "2"}]}}
    _, why = together({"agent": {"env": ENV}}, **other)
    assert why is not None
    assert why.startswith("spec.agent.env[TIER] is another than the profile's: leave it out")
    assert "2" not in why
    read, why = together({"agent": {"env": ENV}, "allowOverrides": ["env"]}, **other)
    assert [(item["name"], item["value"]) for item in read.agent.env] == [
        ("REGION", "eu"),
        ("TIER", "2"),
    ]
    assert why is None


def test_so_are_mcp_servers():
    docs, files = ({"name": name, "url": f"https://{name}/"} for name in ("docs", "files"))
    other = {**docs, "url": "https://elsewhere/"}
    own = {"agent": {"mcpServers": [files]}}
    read, why = together({"agent": {"mcpServers": [docs]}}, **own)
    assert ([*read.agent.mcp_servers], why) == ([docs, files], None)
    own = {"agent": {"mcpServers": [other]}}
    _, why = together({"agent": {"mcpServers": [docs]}}, **own)
    assert (why or "").startswith("spec.agent.mcpServers[docs] is another than the profile's")
    allowed = {"agent": {"mcpServers": [docs]}, "allowOverrides": ["mcpServers"]}
    read, why = together(allowed, **own)
    assert ([*read.agent.mcp_servers], why) == ([other], None)


def test_so_are_skills_and_instructions_are_one_value():
    notes, letters = ({"name": n, "configMapRef": {"name": n}} for n in ("notes", "letters"))
    theirs = {"agent": {"skills": [notes], "instructions": {"text": "theirs"}}}
    read, why = together(theirs, agent={"skills": [letters]})
    assert ([*read.agent.skills], why) == ([notes, letters], None)
    assert read.agent.instructions == {"text": "theirs"}
    _, why = together(theirs, agent={"instructions": {"text": "mine"}})
    assert "let it be said" in (why or "")


def test_templates_are_merged_as_over_the_pod_and_only_where_that_is_allowed():
    theirs = {"spec": {"containers": [{"name": "worker", "image": "mine:1"}]}}
    limits = {"limits": {"memory": "1Gi"}}
    own = {"podTemplate": {"spec": {"containers": [{"name": "worker", "resources": limits}]}}}
    read, why = together({"podTemplate": theirs, "allowOverrides": ["podTemplate"]}, **own)
    assert why is None
    [worker] = read.pod_template["spec"]["containers"]
    assert worker == {"name": "worker", "image": "mine:1", "resources": limits}
    assert (together({"podTemplate": theirs}, **own)[1] or "").startswith("spec.podTemplate is")
    assert together({"podTemplate": theirs}, podTemplate=theirs)[1] is None


def test_a_null_of_the_task_takes_away_what_the_operator_itself_would_have_said():
    """Laid over the profile's template first, it would be gone before it meets the pod's."""
    theirs = {"spec": {"nodeSelector": {"disk": "ssd"}}}
    own = {"spec": {"enableServiceLinks": None, "nodeSelector": {"disk": None}}}
    assert (together({"podTemplate": theirs}, podTemplate=own)[1] or "").startswith("spec.podTem")
    allowed = {"podTemplate": theirs, "allowOverrides": ["podTemplate"]}
    read, _ = together(allowed, podTemplate=own)
    base = {"spec": {"enableServiceLinks": False, "nodeSelector": {"zone": "a", "disk": "hdd"}}}
    assert merge(base, read.pod_template) == {"spec": {"nodeSelector": {"zone": "a"}}}


def objects_with(inner):
    """Objects whose fields `a` and `b` are plain and `m` and `n` objects, as a schema has them."""
    plain, maps = st.none() | st.integers(0, 2), st.none() | inner
    return st.fixed_dictionaries({}, optional={"a": plain, "b": plain, "m": maps, "n": maps})


TREES = objects_with(objects_with(objects_with(st.just({}))))
NAMED = st.builds(lambda name, more: {**more, "name": name}, st.sampled_from("xy"), TREES)
TEMPLATES = st.builds(
    lambda more, items: {**more, "containers": items},
    TREES,
    st.lists(NAMED, max_size=2, unique_by=lambda item: item["name"]),
)


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


WHOLE = TEMPLATES.map(without_nulls)


@given(base=WHOLE, theirs=WHOLE, own=TEMPLATES)
def test_two_templates_together_are_one_after_the_other(base, theirs, own):
    """But for a null of the profile, which a task undoes that is allowed to say something there."""
    step_by_step = merge(merge(base, theirs), own)
    at_once = merge(base, merge(theirs, own, nulls=True))
    assert without_nulls(at_once) == without_nulls(step_by_step)


@pytest.mark.parametrize("theirs", [[1], [{"name": []}], [{}], [{"name": "A"}]])
@pytest.mark.parametrize("own", [[2], [{"name": []}], [{"name": "A"}]])
def test_a_list_that_only_has_the_name_of_one_that_is_merged_ends_nothing(theirs, own):
    """Below a field that may have anything, `env` may be anything."""
    templates = [{"spec": {"nodeSelector": {"env": each}}} for each in (theirs, own)]
    said, why = together({"podTemplate": templates[0], "allowOverrides": ["*"]},
                         podTemplate=templates[1])  # fmt: skip
    assert why is None
    assert "env" in said.pod_template["spec"]["nodeSelector"]


def test_an_empty_template_of_the_profile_keeps_a_task_from_having_one():
    """Its variables could tell the worker another model, and its image be another worker."""
    own = {"spec": {"containers": [{"name": "worker", "image": "mine:1"}]}}
    assert (together({"podTemplate": {}}, podTemplate=own)[1] or "").startswith("spec.podTemplate")
    read, why = together({"podTemplate": {}, "allowOverrides": ["podTemplate"]}, podTemplate=own)
    assert (read.pod_template, why) == (own, None)
    assert together({"podTemplate": {}})[1] is None


def test_a_variable_of_the_profile_is_no_other_one_in_the_pod_template():
    """There it counts more than in `agent.env`, so it would be the task's all the same."""
    theirs = {"agent": {"env": ENV}}

    def said(**item):
        worker = {"name": "worker", "env": [{"name": "REGION"} | item]}
        return {"podTemplate": {"spec": {"containers": [worker]}}}

    _, why = together(theirs, **said(value="us"))
    assert why == (
        "spec.podTemplate.spec.containers[worker].env[REGION] is another than the profile's: leave "
        "it out, or have AgentProfile p let it be said (allowOverrides)"
    )
    assert together(theirs, **said(value=None))[1] is not None
    assert together(theirs | {"allowOverrides": ["podTemplate"]}, **said(value="us"))[1] == why
    assert together(theirs | {"allowOverrides": ["env"]}, **said(value="us"))[1] is None
    assert together(theirs, **said(value="eu"))[1] is None
    assert together(theirs, **said(name="OTHER", value="us"))[1] is None


def test_a_null_does_not_take_away_the_workers_variables():
    """What the agent may cost, and which model it asks, is told to the worker in them."""
    taken = {"spec": {"containers": [{"name": "worker", "env": None}]}}
    _, why = together({"agent": {"maxCostUSD": 1}}, podTemplate=taken)
    assert why == (
        "spec.podTemplate.spec.containers[worker].env is None, not a list of items with a name each"
    )
    assert profile(podTemplate=taken).error == why


@pytest.mark.parametrize(
    "containers", ["text", [1], [{"name": ["worker"]}], [{"name": {}}], [None], {"a": 1}]
)
def test_a_template_that_is_none_is_explained_and_ends_nothing(containers):
    broken = {"spec": {"containers": containers}}
    said = {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}, "allowOverrides": ["*"]}
    _, why = together(said, podTemplate=broken)
    assert why is not None
    assert why.startswith("spec.podTemplate.spec.containers is")
    assert profile(podTemplate=broken).error == why


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"agent": {"type": "cursor"}}, "no worker image for agent type 'cursor'"),
        ({"agent": {"maxTurns": "many"}}, "spec.agent.maxTurns: Input should be a valid integer"),
        ({"podTemplate": {"spec": {"hostPID": True}}}, "spec.podTemplate.spec.hostPID: other"),
        (
            {"agent": {"credentialsSecretRef": {"name": "orbiter-redis"}}},
            "spec.agent.credentialsSecretRef.name is 'orbiter-redis', a Secret of Orbiter itself",
        ),
        (
            {"podTemplate": {"spec": {"serviceAccountName": "admin"}}},
            "spec.podTemplate.spec.serviceAccountName is 'admin', not one of the chart's",
        ),
        ({"agent": {"env": [{"name": "LD_PRELOAD", "value": "x"}]}}, "spec.agent.env is"),
    ],
)
def test_a_profile_may_ask_for_no_more_than_a_task(said, sentence):
    assert (profile(**said).error or "").startswith(sentence)


def test_what_is_no_profile_at_all_says_so_or_says_nothing():
    meta = {"name": "p", "uid": "u"}
    assert Profile.read(meta, None, judged).error is None
    assert Profile.read(meta, ["text"], judged).spec.agent.type is None
    assert "spec.agent" in (Profile.read(meta, {"agent": 7}, judged).error or "")


def test_a_profile_without_a_claude_image_in_the_installation_is_judged_all_the_same():
    defaults = DEFAULTS._replace(images={"codex": "codex:1"})
    assert profile_error("AgentProfile", profile(timeoutSeconds=5).spec, defaults) is None


@pytest.mark.parametrize("reason", ["ProfileMissing", "ProfileInvalid"])
def test_a_task_whose_profile_cannot_be_used_waits_and_says_why(reason):
    waits = Profiled(name="p", reason=reason, message="why it waits")
    plan = decide(observed(profile=waits, spec_error="its own mistake"))
    assert plan.actions == ()
    assert plan.status is not None
    assert (plan.status.phase, plan.status.reason) == ("Pending", reason)
    assert plan.status.message == "why it waits"
    for kind in ("ProfileResolved", "Admitted"):
        condition = plan.status.condition(kind)
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", reason)
    assert [event.reason for event in plan.events] == [reason]
    assert plan.status.profile is None


def test_a_task_that_waits_for_its_profile_can_be_cancelled():
    waits = Profiled(name="p", reason="ProfileMissing", message="no")
    plan = decide(observed(profile=waits, spec=spec(desiredState="Cancelled")))
    assert plan.status is not None
    assert plan.status.phase == "Cancelled"


def test_with_the_first_attempt_the_profile_is_settled_and_named():
    used = Profiled(name="p", uid="u", generation=3, revision="fix-profile-x")
    plan = decide(observed(profile=used))
    assert plan.starts
    assert plan.status is not None
    assert plan.status.to_api()["profile"] == {
        "kind": "AgentProfile",
        "name": "p",
        "generation": 3,
        "revision": "fix-profile-x",
    }
    condition = plan.status.condition("ProfileResolved")
    assert condition is not None
    assert (condition.status, condition.message) == (
        "True",
        "AgentProfile p as it was at generation 3",
    )


def test_a_task_in_line_has_no_profile_yet():
    used = Profiled(name="p", uid="u", generation=3, revision="fix-profile-x")
    plan = decide(observed(profile=used, queue_error="Redis is away"))
    assert plan.status is not None
    assert (plan.status.profile, plan.status.condition("ProfileResolved")) == (None, None)


def test_a_task_without_a_profile_says_nothing_of_one():
    status = decide(observed()).status
    assert status is not None
    assert (status.profile, status.condition("ProfileResolved")) == (None, None)
    assert status.to_api()["agent"] == {"type": "claude"}


def test_the_cache_has_the_newest_of_each_and_tells_what_changed():
    told = []
    cache = profile_cache(judged, told.append)

    def obj(version, uid="u", **said):
        meta = {"namespace": "team", "name": "p", "uid": uid, "resourceVersion": str(version)}
        return {"metadata": meta, "spec": said}

    cache.put(obj(5, timeoutSeconds=5))
    cache.put(obj(4, timeoutSeconds=4))
    cache.put(obj(6, timeoutSeconds=5))
    assert told == ["team"]
    found = cache.get("team", "p")
    assert found is not None
    assert found.spec.timeout_seconds == 5
    assert cache.missing_from({"u"}, 9) == []
    assert cache.missing_from(set(), 5) == []
    [gone] = cache.missing_from(set(), 6)
    cache.remove({"metadata": gone["metadata"] | {"uid": "an earlier one"}})
    assert cache.get("team", "p") is not None
    cache.remove(gone)
    assert (cache.get("team", "p"), told) == (None, ["team", "team"])
    cache.put(obj(7))  # the answer to a write that was on its way
    assert (cache.get("team", "p"), told) == (None, ["team", "team"])
    cache.put(obj(8, uid="v"))
    assert cache.get("team", "p") is not None


@pytest.mark.parametrize("name", ["fix", "a" * 63, "a" * 45 + "." + "b" * 17])
def test_a_revisions_name_fits_and_is_of_one_task_alone(name):
    found = revision_name(name, "uid-1")
    assert len(found) <= 63
    assert found != revision_name(name, "uid-2")
    assert "-profile-" in found
    assert ".-" not in found


def test_the_page_has_a_profile_and_a_task_that_fit():
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
    text = page.split("### Profiles")[1].split("```yaml")[1].split("```")[0]
    house, task = yaml.safe_load_all(text)
    found = Profile.read({"uid": "u", **house["metadata"]}, house["spec"], judged)
    assert found.error is None
    assert task["spec"]["profileRef"] == {"name": house["metadata"]["name"]}
    read, why = read_spec(task["spec"], DEFAULTS, found)
    assert why is None
    assert (read.timeout_seconds, read.agent.max_cost_usd) == (3600, 2)
    own = {"agent": {"model": "another"}}
    assert read_spec(task["spec"] | own, DEFAULTS, found)[1] is None


NO_CLUSTER = profile_cache(judged, lambda namespace: None, "ClusterAgentProfile")


class Stored:
    """An API server that keeps what is made, and decodes it anew for who asks."""

    def __init__(self):
        self.made = {}

    async def create(self, resource, namespace, body):
        self.made[body["metadata"]["name"]] = text = json.dumps(body)
        return json.loads(text)

    async def get(self, resource, namespace, name):
        return json.loads(self.made[name])


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_thousand_tasks_of_a_large_profile_keep_one_of_it(restarted):
    """A task that asks something has begun, needs no slot, and keeps its profile for days."""
    kube, changed = Stored(), []
    cache = profile_cache(judged, changed.append)
    spec_ = {"agent": {"env": [{"name": "A", "value": "x" * 1000}]}}
    meta = {"namespace": "team", "name": "p", "uid": "u", "generation": 3, "resourceVersion": "1"}
    cache.put({"metadata": meta, "spec": spec_})
    profiles = Profiles(kube, cache, NO_CLUSTER, judged, lambda: None)
    tasks = [(Key("team", name), {"metadata": {"uid": f"uid of {name}"},
                                  "spec": {"profileRef": {"name": "p"}}})
             for name in ("a", "b", "c")]  # fmt: skip
    for key, obj in tasks:
        await profiles.fix(key, obj["metadata"]["uid"], profiles.of(key, obj)[0])
    if restarted:
        cache.put({"metadata": {**meta, "resourceVersion": "2", "generation": 4}, "spec": {}})
        profiles = Profiles(kube, cache, NO_CLUSTER, judged, lambda: None)
        for key, obj in tasks:
            await profiles.recall(key, obj)
    kept = [profiles.of(key, obj)[1] for key, obj in tasks]
    assert kept[0].raw == spec_
    assert all(each is kept[0] for each in kept)
