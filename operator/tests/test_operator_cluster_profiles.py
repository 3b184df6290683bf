"""What the cluster's profile says for all namespaces, and what of it others may change."""

import copy
from pathlib import Path

import pytest
import yaml
from support.observed import observed
from support.running_sessions import DEFAULTS as PLAIN

from orbiter_operator.kube.models import Profiled
from orbiter_operator.kube.names import Key, revision_name
from orbiter_operator.profiles.merge import clash
from orbiter_operator.profiles.models import CLUSTER, DEFAULT, NAMESPACED, Profile
from orbiter_operator.profiles.store import Profiles, profile_cache
from orbiter_operator.profiles.wiring import profile_error
from orbiter_operator.tasks.job import build_job
from orbiter_operator.tasks.observe import read_spec

DEFAULTS = PLAIN._replace(
    images={"claude": "claude:1", "codex": "codex:1"},
    allowed_service_accounts=("deployer",),
    template_fields=("spec.containers[].image", "spec.containers[worker].volumeMounts"),
)
KEY = Key("team", "fix")


def pod(**fields):
    return {"podTemplate": {"spec": fields}}


def worker(**fields):
    return {"containers": [{"name": "worker", **fields}]}


# What the list of a task's podTemplate refuses, field by field.
CACHE = {"name": "tools", "persistentVolumeClaim": {"claimName": "tools"}}
BUNDLE = {"name": "ca", "configMap": {"name": "ca-bundle"}}
FIXED = {
    "spec": {
        "serviceAccountName": "agents",
        "automountServiceAccountToken": True,
        "runtimeClassName": "gvisor",
        "volumes": [CACHE, BUNDLE],
        "containers": [
            {
                "name": "worker",
                "env": [
                    {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
                    {"name": "SSL_CERT_FILE", "value": "/etc/ca/ca.crt"},
                ],
                "volumeMounts": [
                    {"name": "tools", "mountPath": "/tools"},
                    {"name": "ca", "mountPath": "/etc/ca", "readOnly": True},
                ],
            }
        ],
    }
}


def judged(kind, said):
    return profile_error(kind, said, DEFAULTS)


def profile(kind=NAMESPACED, name="p", uid="u", generation=3, **said):
    meta = {"name": name, "uid": uid, "generation": generation}
    return Profile.read(meta, said, judged, kind)


def cluster(**said):
    return profile(CLUSTER, "all", "c", **said)


def over(base, **said):
    """A namespace's profile over the cluster's."""
    return profile(**said).model_copy(update={"base": base})


def together(used, **own):
    """The spec of a task with its profiles, and why it cannot be run."""
    return read_spec({"prompt": "do it", **own}, DEFAULTS, used)


def pod_of(used, **own):
    """The pod of a task's Job; its profile is as it would be told of it."""
    read, why = together(used, **own)
    assert why is None
    told = Profiled(kind=used.kind, name=used.name, raw=used.raw)
    if used.base is not None:
        told = told.model_copy(
            update={"base": Profiled(kind=CLUSTER, name="all", raw=used.base.raw)}
        )
    job = build_job(observed(spec=read, profile=told), 1, "1-0", DEFAULTS)
    return job["spec"]["template"]["spec"]


@pytest.mark.parametrize("field", sorted(FIXED["spec"]))
def test_what_a_tasks_podtemplate_may_not_have_is_the_clusters_to_say(field):
    said = {"spec": {field: FIXED["spec"][field]}}
    if field == "automountServiceAccountToken":
        said["spec"]["serviceAccountName"] = "agents"
    if field == "containers":
        said["spec"]["volumes"] = FIXED["spec"]["volumes"]
    assert cluster(podTemplate=said).error is None
    assert "podTemplate" in (profile(podTemplate=said).error or "")
    assert "podTemplate" in (together(None, podTemplate=said)[1] or "")


@pytest.mark.parametrize("used", [cluster(podTemplate=FIXED), over(cluster(podTemplate=FIXED))])
def test_the_pod_of_a_task_has_what_the_cluster_says(used):
    pod = pod_of(used)
    assert (pod["serviceAccountName"], pod["runtimeClassName"]) == ("agents", "gvisor")
    assert pod["automountServiceAccountToken"] is True
    assert CACHE in pod["volumes"]
    [worker] = pod["containers"]
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in worker["env"]
    assert {"name": "tools", "mountPath": "/tools"} in worker["volumeMounts"]


def test_a_variable_of_the_clusters_podtemplate_counts_more_than_the_agents_own():
    own = {"agent": {"env": [{"name": "HTTPS_PROXY", "value": "http://mine"}]}}
    [worker] = pod_of(cluster(podTemplate=FIXED), **own)["containers"]
    found = [item["value"] for item in worker["env"] if item["name"] == "HTTPS_PROXY"]
    assert found == ["http://proxy:3128"]


def test_the_installations_template_is_beneath_the_clusters_and_that_beneath_a_tasks():
    installed = {"spec": {"nodeSelector": {"of": "installation", "a": "1"}}}
    base = cluster(
        podTemplate={"spec": {"nodeSelector": {"of": "cluster", "b": "2", "a": None}}},
        allowOverrides=["podTemplate"],
    )
    house = over(
        base,
        podTemplate={"spec": {"nodeSelector": {"of": "namespace", "c": "3", "b": None}}},
        allowOverrides=["podTemplate"],
    )
    own = {"podTemplate": {"spec": {"nodeSelector": {"of": "task"}}}}
    read, why = read_spec({"prompt": "go", **own}, DEFAULTS, house)
    assert why is None
    told = Profiled(name="p", raw=house.raw, base=Profiled(kind=CLUSTER, name="all", raw=base.raw))
    job = build_job(
        observed(spec=read, profile=told), 1, "1-0", DEFAULTS._replace(pod_template=installed)
    )
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"of": "task", "c": "3"}


@pytest.mark.parametrize(
    "own",
    [
        {"volumes": [{"name": "tools", "emptyDir": {}}]},
        worker(volumeMounts=[{"name": "tools", "mountPath": "/x"}]),
        worker(volumeMounts=[{"name": "x", "mountPath": "/tools"}]),
        {"hostNetwork": True},
        {"serviceAccountName": "admin"},
        {"automountServiceAccountToken": True},
    ],
)
@pytest.mark.parametrize("whose", ["task", "namespace"])
def test_where_a_podtemplate_is_allowed_it_says_no_more_than_ever_and_takes_nothing(own, whose):
    fixed = copy.deepcopy(FIXED)
    del fixed["spec"]["automountServiceAccountToken"]
    base = cluster(podTemplate=fixed, allowOverrides=["*"])
    said = {"podTemplate": {"spec": own}}
    if whose == "task":
        assert "podTemplate.spec" in (together(base, **said)[1] or "")
    else:
        house = over(base, **said)
        assert house.problem or "podTemplate.spec" in (together(house)[1] or "")


@pytest.mark.parametrize("whose", ["task", "namespace"])
def test_where_the_cluster_has_a_podtemplate_others_have_one_where_it_lets_them(whose):
    said = {"podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    sentence = "spec.podTemplate is there: leave it out, or have ClusterAgentProfile all let"
    for base, allowed in (
        (cluster(podTemplate={}), False),
        (cluster(podTemplate={}, allowOverrides=["podTemplate"]), True),
    ):
        house = profile(allowOverrides=["*"], **(said if whose == "namespace" else {}))
        why = clash(house, base)
        if whose == "task":
            why = together(base, **said)[1]
        assert (why or "").startswith(sentence) is not allowed


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            pod(volumes=[{"name": "r", "secret": {"secretName": "orbiter-redis"}}]),
            "a Secret of Orbiter itself",
        ),
        (
            pod(**worker(command=["sh"])),
            "what the worker's container runs",
        ),
        (pod(containers="text"), "not a list of items"),
        (pod(**worker(env=[{"name": "REDIS_URL"}])), "REDIS_URL"),
        ({"agent": {"credentialsSecretRef": {"name": "orbiter-redis"}}}, "a Secret of Orbiter"),
        ({"agent": {"env": [{"name": "LD_PRELOAD", "value": "x"}]}}, "spec.agent.env is"),
        ({"agent": {"type": "cursor"}}, "no worker image for agent type 'cursor'"),
        ({"agent": 7}, "spec.agent"),
        ({"podTemplate": [1]}, "spec.podTemplate"),
    ],
)
def test_what_no_worker_can_have_the_clusters_profile_cannot_say_either(said, sentence):
    assert sentence in (cluster(**said).error or "")


FIELDS = {
    "model": ("large", "small"),
    "type": ("codex", "claude"),
    "credentialsSecretRef": ({"name": "house"}, {"name": "own"}),
}


@pytest.mark.parametrize("field", FIELDS)
def test_what_the_cluster_has_fixed_a_namespaces_profile_says_otherwise_for_nobody(field):
    theirs, mine = FIELDS[field]
    base = cluster(agent={field: theirs})
    house = profile(agent={field: mine}, allowOverrides=["*"])
    assert (clash(house, base) or "").endswith(
        "leave it out, or have ClusterAgentProfile all let it be said (allowOverrides)"
    )
    assert clash(profile(agent={field: theirs}), base) is None
    allowing = cluster(agent={field: theirs}, allowOverrides=[field])
    assert clash(house, allowing) is None


@pytest.mark.parametrize("field", FIELDS)
def test_what_a_namespaces_profile_lets_be_said_widens_nothing_that_the_cluster_has_fixed(field):
    theirs, mine = FIELDS[field]
    used = over(cluster(agent={field: theirs}), allowOverrides=["*"])
    _, why = together(used, agent={field: mine})
    assert (why or "").startswith(f"spec.agent.{field} is ")
    assert "ClusterAgentProfile all" in (why or "")
    assert together(used, agent={field: theirs})[1] is None


def test_what_the_cluster_lets_be_said_a_namespaces_profile_may_fix():
    base = cluster(agent={"model": "large"}, allowOverrides=["model"])
    house = over(base, agent={"model": "small"})
    read, why = together(house)
    assert (read.agent.model, why) == ("small", None)
    assert "have AgentProfile p let it" in (together(house, agent={"model": "large"})[1] or "")


@pytest.mark.parametrize("named", ["maxTurns", "maxCostUSD", "timeoutSeconds"])
def test_a_limit_gets_smaller_from_the_cluster_to_the_task_and_never_larger(named):
    def said(value):
        return {named: value} if named == "timeoutSeconds" else {"agent": {named: value}}

    def limit(read):
        return {
            "maxTurns": read.agent.max_turns,
            "maxCostUSD": read.agent.max_cost_usd,
            "timeoutSeconds": read.timeout_seconds,
        }[named]

    base = cluster(**said(50))
    assert clash(profile(**said(60), allowOverrides=["*"]), base) is not None
    house = over(base, **said(40), allowOverrides=["*"])
    assert limit(together(house)[0]) == 40
    read, why = together(house, **said(45))
    assert (limit(read), why) == (45, None)
    assert "ClusterAgentProfile all" in (together(house, **said(51))[1] or "")
    read, why = together(over(base, **said(40)), **said(45))
    assert "AgentProfile p let" in (why or "")


def test_variables_of_all_three_are_told_apart_by_their_names():
    def env(**values):
        return {"env": [{"name": name, "value": value} for name, value in values.items()]}

    house = over(cluster(agent=env(REGION="eu", A="1")), agent=env(TEAM="a"))
    read, why = together(house, agent=env(DEBUG="x"))
    assert why is None
    assert [item["name"] for item in read.agent.env] == ["REGION", "A", "TEAM", "DEBUG"]
    assert "agent.env[REGION]" in (together(house, agent=env(REGION="us"))[1] or "")
    assert "agent.env[REGION]" in (clash(profile(agent=env(REGION="us")), house.base) or "")


def test_the_page_has_a_profile_of_the_cluster_that_can_be_used():
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
    text = page.split("A **ClusterAgentProfile**")[1].split("```yaml")[1].split("```")[0]
    said = yaml.safe_load(text)
    assert (said["kind"], said["metadata"]) == (CLUSTER, {"name": DEFAULT})
    found = cluster(**said["spec"])
    assert found.error is None
    pod = pod_of(found, agent={"credentialsSecretRef": {"name": "own"}})
    assert pod["serviceAccountName"] == "agents"


class Nobody:
    """An API server that has no revision of anybody, and keeps those that are made."""

    def __init__(self):
        self.made = {}

    async def create(self, resource, namespace, body):
        self.made[body["metadata"]["name"]] = body
        return copy.deepcopy(body)

    async def get(self, resource, namespace, name):
        return copy.deepcopy(self.made[name])


def put(cache, name, namespace="", **spec):
    meta = {"name": name, "uid": f"uid of {namespace}/{name}", "generation": 3}
    meta |= {"namespace": namespace} if namespace else {}
    cache.put({"metadata": {**meta, "resourceVersion": "1"}, "spec": spec})


def store(kube=None, seal=lambda text: ()):
    """Profiles, and the caches of the namespaces' and the cluster's."""
    spaces, whole = (
        profile_cache(judged, lambda namespace: None, kind) for kind in (NAMESPACED, CLUSTER)
    )
    profiles = Profiles(kube or Nobody(), spaces, whole, judged, lambda: None, seal)
    return profiles, spaces, whole


def task(reference=None):
    return {"metadata": {"uid": "t"}, "spec": {"profileRef": reference} if reference else {}}


NONE, HOUSE, ALL = None, {"name": "house"}, {"kind": CLUSTER, "name": "strict"}


@pytest.mark.parametrize(
    ("there", "reference", "used"),
    [
        ("", NONE, None),
        ("cluster/default", NONE, "cluster/default"),
        ("cluster/other", NONE, None),
        ("default", NONE, "default"),
        ("default cluster/default", NONE, "default over cluster/default"),
        ("house", HOUSE, "house"),
        ("house cluster/default", HOUSE, "house over cluster/default"),
        ("house default", HOUSE, "house"),
        ("cluster/house", HOUSE, "ProfileMissing"),
        ("cluster/default", HOUSE, "ProfileMissing"),
        ("default cluster/default cluster/strict", ALL, "cluster/strict"),
        ("strict default", ALL, "ProfileMissing"),
        ("elsewhere:default cluster/default", NONE, "cluster/default"),
    ],
)
def test_which_profiles_a_task_has(there, reference, used):
    profiles, spaces, whole = store()
    for each in there.split():
        if each.startswith("cluster/"):
            put(whole, each.removeprefix("cluster/"))
        else:
            namespace, _, name = each.rpartition(":")
            put(spaces, name, namespace or "team")
    told, found = profiles.of(KEY, task(reference))
    if told is None:
        assert (found, used) == (None, None)
    elif told.reason:
        assert (found, told.reason) == (None, used)
    else:
        shown = [
            f"{'cluster/' * (each.kind == CLUSTER)}{each.name}"
            for each in (found, found.base)
            if each
        ]
        assert " over ".join(shown) == used


def test_a_profile_of_the_cluster_that_is_not_there_is_named_with_its_kind():
    told, _ = store()[0].of(KEY, task(ALL))
    assert told is not None
    assert (told.kind, told.message) == (
        CLUSTER,
        "ClusterAgentProfile strict does not exist; create it, and the task goes on",
    )


@pytest.mark.parametrize("reference", [{"name": "../x"}, {"kind": "Secret", "name": "a"}, "x", {}])
def test_a_reference_that_is_none_is_for_the_reader_of_the_spec_to_say(reference):
    assert store()[0].of(KEY, task(reference)) == (None, None)
    assert "spec.profileRef" in (together(None, profileRef=reference)[1] or "")


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        ({"agent": {"type": "cursor"}}, "ClusterAgentProfile default cannot be used: no worker"),
        (
            {"agent": {"model": "large"}},
            "AgentProfile default cannot be used: spec.agent.model is 'small': leave it out, or "
            "have ClusterAgentProfile default let it be said",
        ),
    ],
)
def test_a_namespaces_profile_that_does_not_fit_the_clusters_holds_its_tasks_back(base, sentence):
    profiles, spaces, whole = store()
    put(spaces, "default", "team", agent={"model": "small"})
    put(whole, "default", **base)
    told, found = profiles.of(KEY, task())
    assert told is not None
    assert (told.reason, found) == ("ProfileInvalid", None)
    assert told.message.startswith(sentence)


def sealed(text):
    return (f"newest of {hash(text)}", f"previous of {hash(text)}")


@pytest.mark.parametrize("seal", [sealed, lambda text: ()], ids=["sealed", "without a key"])
async def test_what_is_kept_is_both_as_they_were(seal):
    kube = Nobody()
    profiles, spaces, whole = store(kube, seal)
    put(spaces, "default", "team", agent={"maxTurns": 5})
    put(whole, "default", podTemplate=FIXED)
    told, found = profiles.of(KEY, task())
    assert await profiles.fix(KEY, "t", told) is False
    assert profiles.of(KEY, task()) == (told, found)
    again, _, other = store(kube, seal)
    put(other, "default", podTemplate={})
    await again.recall(KEY, task())
    assert again.of(KEY, task()) == (told, found)
    assert told is not None
    assert told.fixed_template == FIXED


@pytest.mark.parametrize(
    "forge",
    [
        lambda data: data["profiles"][1].update(spec={"podTemplate": {}}),
        lambda data: data["profiles"].pop(),
        lambda data: data.pop("seal"),
        lambda data: data.update(seal=7),
        lambda data: data.update(seal="é"),
        lambda data: data.update(profiles=[]),
        lambda data: data.update(profiles="text"),
        lambda data: data.update(profiles=[7]),
    ],
)
async def test_what_the_operator_has_not_sealed_is_not_believed(forge):
    """Else who may make revisions in a namespace could say what the cluster's profile may."""
    kube = Nobody()
    profiles, spaces, whole = store(kube, sealed)
    put(spaces, "default", "team")
    put(whole, "default", podTemplate=FIXED)
    told, _ = profiles.of(KEY, task())
    assert told is not None
    await profiles.fix(KEY, "t", told)
    forge(kube.made[told.revision]["data"])
    again, _, other = store(kube, sealed)
    put(other, "default", agent={"maxTurns": 9})
    await again.recall(KEY, task())
    present, _ = again.of(KEY, task())
    assert present is not None
    assert present.raw == {"agent": {"maxTurns": 9}}


async def test_a_revision_of_one_task_is_none_of_another_of_its_name():
    kube = Nobody()
    profiles, _, whole = store(kube, sealed)
    put(whole, "default", podTemplate=FIXED)
    told, _ = profiles.of(KEY, task())
    assert told is not None
    await profiles.fix(KEY, "t", told)
    [body] = kube.made.values()
    stolen = copy.deepcopy(body)
    stolen["metadata"]["ownerReferences"][0]["uid"] = "another"
    again, _, _ = store(kube, sealed)
    other = task() | {"metadata": {"uid": "another"}}
    kube.made[revision_name("fix", "another")] = stolen
    await again.recall(KEY, other)
    assert again.of(KEY, other) == (None, None)


async def test_what_was_sealed_before_the_passwords_were_made_new_is_believed():
    kube = Nobody()
    profiles, _, whole = store(kube, lambda text: ("old", "older"))
    put(whole, "default", agent={"maxTurns": 5})
    told, found = profiles.of(KEY, task())
    await profiles.fix(KEY, "t", told)
    again, _, _ = store(kube, lambda text: ("new", "old"))
    await again.recall(KEY, task())
    assert again.of(KEY, task()) == (told, found)
