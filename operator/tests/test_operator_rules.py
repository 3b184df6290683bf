"""What no spec may ask of the worker's pod, whatever the chart allows, and the sentence for it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.observed import observed, spec
from support.running_sessions import DEFAULTS as PLAIN

from orbiter_operator.kube.names import Key
from orbiter_operator.pods.overlay import DEEPEST, merge
from orbiter_operator.profiles.store import Profiles, profile_cache
from orbiter_operator.streams.pending_outputs import PendingOutputs
from orbiter_operator.tasks.cache import TaskCache
from orbiter_operator.tasks.capacity import Capacity
from orbiter_operator.tasks.job import build_job
from orbiter_operator.tasks.observe import Observer, read_spec

LENGTHENED = (
    *("spec.containers", "spec.initContainers", "spec.ephemeralContainers", "spec.volumes"),
    *("spec.hostPID", "spec.shareProcessNamespace"),
)
"""What the chart allows here, so that only the rules for everybody refuse."""
DEFAULTS = PLAIN._replace(
    protected_secrets=("orbiter-redis-auth", "sh.helm.release.v1.orbiter.*"),
    template_fields=LENGTHENED,
)
OURS = "orbiter-redis"
REFERENCE = {"secretKeyRef": {"name": OURS, "key": "po-url"}}
TOKEN = {"serviceAccountToken": {"path": "token"}}
DOCS = {"name": "docs", "url": "https://docs.example.com/mcp"}
FILES = {"name": "docs", "command": "npx"}


def why(defaults: Any = DEFAULTS, **fields: Any) -> str | None:
    """Why no pod is made of a spec with these fields."""
    return read_spec({"prompt": "do it", **fields}, defaults)[1]


def template(**pod: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": pod}}


def worker(**fields: Any) -> dict[str, Any]:
    return template(containers=[{"name": "worker", **fields}])


def volume(**source: Any) -> dict[str, Any]:
    return template(volumes=[{"name": "v", **source}])


def git(secret: str) -> dict[str, Any]:
    where = {"url": "https://git.example.com/r.git", "credentialsSecretRef": {"name": secret}}
    return {"workspace": {"git": where}}


SECRETS: dict[str, dict[str, Any]] = {
    "spec.agent.env[A].valueFrom.secretKeyRef.name": {
        "agent": {"env": [{"name": "A", "valueFrom": REFERENCE}]}
    },
    "spec.agent.mcpServers[docs].headers[A].valueFrom.secretKeyRef.name": {
        "agent": {"mcpServers": [{**DOCS, "headers": [{"name": "A", "valueFrom": REFERENCE}]}]}
    },
    "spec.agent.mcpServers[docs].env[A].valueFrom.secretKeyRef.name": {
        "agent": {"mcpServers": [{**FILES, "env": [{"name": "A", "valueFrom": REFERENCE}]}]}
    },
    "spec.agent.credentialsSecretRef.name": {"agent": {"credentialsSecretRef": {"name": OURS}}},
    "spec.workspace.git.credentialsSecretRef.name": git(OURS),
    "spec.podTemplate.spec.containers[worker].env[A].valueFrom.secretKeyRef.name": worker(
        env=[{"name": "A", "valueFrom": REFERENCE}]
    ),
    "spec.podTemplate.spec.containers[worker].envFrom[0].secretRef.name": worker(
        envFrom=[{"secretRef": {"name": OURS}}]
    ),
    "spec.podTemplate.spec.containers[helper].env[A].valueFrom.secretKeyRef.name": template(
        containers=[{"name": "helper", "env": [{"name": "A", "valueFrom": REFERENCE}]}]
    ),
    "spec.podTemplate.spec.initContainers[first].envFrom[0].secretRef.name": template(
        initContainers=[{"name": "first", "envFrom": [{"secretRef": {"name": OURS}}]}]
    ),
    "spec.podTemplate.spec.ephemeralContainers[late].envFrom[0].secretRef.name": template(
        ephemeralContainers=[{"name": "late", "envFrom": [{"secretRef": {"name": OURS}}]}]
    ),
    "spec.podTemplate.spec.volumes[v].secret.secretName": volume(secret={"secretName": OURS}),
    "spec.podTemplate.spec.volumes[v].projected.sources[0].secret.name": volume(
        projected={"sources": [{"secret": {"name": OURS}}]}
    ),
    "spec.podTemplate.spec.volumes[v].csi.nodePublishSecretRef.name": volume(
        csi={"driver": "d", "nodePublishSecretRef": {"name": OURS}}
    ),
    "spec.podTemplate.spec.volumes[v].csi.volumeAttributes.secretName": volume(
        csi={"driver": "d", "volumeAttributes": {"secretName": OURS}}
    ),
    "spec.podTemplate.spec.volumes[v].azureFile.secretName": volume(azureFile={"secretName": OURS}),
    "spec.podTemplate.spec.volumes[v].rbd.secretRef.name": volume(
        rbd={"secretRef": {"name": OURS}}
    ),
    "spec.podTemplate.spec.imagePullSecrets[orbiter-redis].name": template(
        imagePullSecrets=[{"name": OURS}]
    ),
}


@pytest.mark.parametrize("field", SECRETS)
def test_our_secret_is_refused_wherever_a_spec_names_it(field):
    assert why(**SECRETS[field]) == (
        f"{field} is 'orbiter-redis', a Secret of Orbiter itself; name one of your own"
    )


def test_mcp_servers_that_cannot_be_and_secrets_that_are_no_names_are_refused():
    nowhere = {"secretKeyRef": {"name": "../x", "key": "k"}}
    headers = [{"name": "A", "valueFrom": nowhere}]
    assert "headers[A].valueFrom.secretKeyRef.name is '../x', which is no name" in (
        why(agent={"mcpServers": [{**DOCS, "headers": headers}]}) or ""
    )
    assert why(agent={"mcpServers": [DOCS, {**DOCS, "name": "Two"}]}) == (
        "spec.agent.mcpServers[1].name: is no name of a server; write at most 32 lower-case "
        "letters, digits and -"
    )
    assert why(agent={"mcpServers": [DOCS, {**FILES, "name": "files"}]}) is None


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ({"instructions": {}}, "spec.agent.instructions: write text or configMapKeyRef"),
        ({"instructions": {"text": "é" * 32769}}, "more than 65536 bytes"),
        (
            {"instructions": {"configMapKeyRef": {"name": "../x", "key": "k"}}},
            "spec.agent.instructions.configMapKeyRef.name is '../x', which is no name",
        ),
        ({"skills": [{"name": "a/b", "configMapRef": {"name": "c"}}]}, "is no name of a skill"),
        ({"skills": [{"name": "a", "configMapRef": {"name": "C"}}]}, "skills[a].configMapRef.name"),
        ({"skills": [{"name": "a", "configMapRef": {"name": "c"}}] * 2}, "a is there twice"),
        (
            {"skills": [{"name": "a"}]},
            "spec.agent.skills[0]: write configMapRef or git, one of them",
        ),
    ],
)
def test_instructions_and_skills_that_cannot_be_are_refused(agent, words):
    assert words in (why(agent=agent) or "")


@pytest.mark.parametrize("name", ["orbiter-redis-auth", "sh.helm.release.v1.orbiter.v12"])
def test_so_are_the_other_secrets_of_the_installation(name):
    assert name in (why(**git(name)) or "")
    assert name in (why(**volume(secret={"secretName": name})) or "")


def test_the_name_of_our_secret_is_the_installations():
    renamed = DEFAULTS._replace(redis_secret="queue")
    assert why(renamed, **git(OURS)) is None
    assert "'queue'" in (why(renamed, **git("queue")) or "")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        git("git-key"),
        {"agent": {"credentialsSecretRef": {"name": "keys"}}},
        volume(secret={"secretName": "mine"}),
        volume(configMap={"name": OURS}),
        worker(image="mine:1", env=[{"name": "A", "value": OURS}]),
        worker(envFrom=[{"configMapRef": {"name": "settings"}}]),
        template(nodeSelector={"env": "prod"}, serviceAccountName="orbiter-worker"),
        template(containers=[{"name": "helper", "image": "h:1", "command": ["serve"]}]),
        {"podTemplate": {"metadata": {"labels": {"env": "prod", "volumes": "none"}}}},
        {"podTemplate": {}},
    ],
)
def test_what_is_the_specs_own_is_taken(fields):
    assert why(**fields) is None


IDENTITIES: dict[str, dict[str, Any]] = {
    "serviceAccountName is 'default'": {"serviceAccountName": "default"},
    "serviceAccountName is None": {"serviceAccountName": None},
    "serviceAccount is 'default'": {"serviceAccount": "default"},
    "automountServiceAccountToken is True": {"automountServiceAccountToken": True},
    "automountServiceAccountToken is None": {"automountServiceAccountToken": None},
    "sources[0].serviceAccountToken is": {
        "volumes": [{"name": "v", "projected": {"sources": [TOKEN]}}]
    },
    "sources[0].podCertificate is": {
        "volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {}}]}}]
    },
}


@pytest.mark.parametrize("field", IDENTITIES)
def test_who_the_pod_is_in_the_cluster_is_not_the_specs_to_choose(field):
    sentence = why(**template(**IDENTITIES[field])) or ""
    assert field in sentence
    assert sentence.startswith("spec.podTemplate.spec.")
    assert "leave it out" in sentence
    assert "workers.allowedServiceAccountNames" in sentence


def test_a_service_account_that_the_installation_allows_may_have_its_token():
    allows = DEFAULTS._replace(allowed_service_accounts=("builder",))
    volumes = [{"name": "v", "projected": {"sources": [TOKEN]}}]
    pod = {"automountServiceAccountToken": True, "volumes": volumes}
    assert why(allows, **template(serviceAccountName="builder", **pod)) is None
    assert why(allows, **template(**pod)) is not None
    both = template(serviceAccountName="builder", serviceAccount="default")
    assert "serviceAccount is 'default'" in (why(allows, **both) or "")


@pytest.mark.parametrize(
    "fields",
    [
        worker(command=["sh", "-c", "echo $REDIS_URL"]),
        worker(args=["-c"]),
        worker(lifecycle={"postStart": {"exec": {"command": ["env"]}}}),
        worker(livenessProbe={"exec": {"command": ["env"]}}),
        worker(readinessProbe={"exec": {"command": ["env"]}}),
        worker(startupProbe={"exec": {"command": ["env"]}}),
        worker(env=[{"name": "REDIS_URL", "value": "redis://mine"}]),
        worker(env=[{"name": "SNAPSHOT_KEY", "value": "worker:po:other.alice:snapshot"}]),
        worker(env=[{"name": "KEY_PREFIX", "value": "{other}:"}]),
        {"agent": {"env": [{"name": "KEY_PREFIX", "value": "{other}:"}]}},
        worker(env=[{"name": "REDIS_SCRIPTS", "value": "Eval"}]),
        {"agent": {"env": [{"name": "REDIS_SCRIPTS", "value": "Eval"}]}},
        {"agent": {"env": [{"name": "SESSION_RECORD_PREFIX", "value": "session:user:other:"}]}},
        worker(volumeMounts=[{"name": "tmp", "mountPath": "/x", "subPathExpr": "$(REDIS_URL)"}]),
        template(hostPID=True),
        template(shareProcessNamespace=True),
        volume(hostPath={"path": "/var/lib/kubelet"}),
    ],
)
def test_what_would_read_the_workers_password_is_refused(fields):
    sentence = why(**fields) or ""
    assert sentence.startswith("spec.")
    assert any(word in sentence for word in ("leave", "choose another name", "use another kind"))


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH"),
        *("OPENSSL_CONF", "OPENSSL_MODULES", "SSLKEYLOGFILE"),
    ],
)
def test_a_variable_by_which_the_worker_would_run_others_code_is_refused(name):
    given = [{"name": name, "value": "/workspace/x"}]
    said = why(**worker(env=given))
    where = "spec.podTemplate.spec.containers[worker].env"
    assert said == f"{where} is {name!r}, by which the worker would run what is not its own; " + (
        "set it in the agent's commands"
    )
    assert (why(agent={"env": given}) or "").startswith(f"spec.agent.env is {name!r}, by which")


@pytest.mark.parametrize(
    "name",
    [
        *("AGENT_MODEL", "AGENT_MAX_COST_USD", "AGENT_ENV", "AGENT_MCP_SERVERS"),
        *("AGENT_MCP_SECRET_1", "AGENT_INSTRUCTIONS_FILE", "AGENT_SKILLS_DIR"),
    ],
)
def test_what_a_profile_may_keep_for_itself_is_said_by_no_variable(name):
    given = [{"name": name, "value": "x"}]
    anything = DEFAULTS._replace(template_fields=("spec",))
    for fields, where in (
        ({"agent": {"env": given}}, "spec.agent.env"),
        (worker(env=given), "spec.podTemplate.spec.containers[worker].env"),
    ):
        said = f"{where} is {name!r}, which a field of spec.agent says; write that"
        assert why(anything, **fields) == said


def test_the_file_of_an_orbiter_agent_is_a_variable_of_ones_own():
    assert why(agent={"env": [{"name": "AGENT_FILE", "value": "agents/a.yaml"}]}) is None


@pytest.mark.parametrize("name", ["GIT_AUTHOR_NAME", "PYTHONPATH", "NODE_OPTIONS", "LDFLAGS"])
def test_a_variable_that_only_the_agents_programs_heed_is_its_own(name):
    assert why(agent={"env": [{"name": name, "value": "x"}]}) is None


@pytest.mark.parametrize(
    ("seconds", "taken"), [(0, True), (3600, True), (3601, False), (-1, False)]
)
def test_a_worker_has_an_hour_to_end(seconds, taken):
    said = why(**template(terminationGracePeriodSeconds=seconds))
    assert (said is None) is taken
    if not taken:
        where = "spec.podTemplate.spec.terminationGracePeriodSeconds"
        assert said == f"{where} is {seconds}, not from 0 to 3600; write fewer seconds"


def test_no_variable_can_contain_the_password():
    env = [
        {"name": "REDIS_URL", "value": "first"},
        {"name": "LEAK", "value": "$(REDIS_URL)"},
    ]
    task = spec(**worker(env=env, envFrom=[{"configMapRef": {"name": "mine"}}]))
    job = build_job(observed(spec=task), 1, "7-0", DEFAULTS)
    names = [item["name"] for item in job["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert names.index("LEAK") < names.index("REDIS_URL") == len(names) - 1
    assert len(set(names)) == len(names)
    assert "SESSION_RECORD_PREFIX" in names


@pytest.mark.parametrize(
    "overlay",
    [
        {"spec": None},
        {"metadata": None},
        {"spec": "x"},
        {"metadata": {"labels": "x"}},
        *(
            {"spec": {key: value}}
            for key in ("containers", "volumes")
            for value in (None, "x", 1, [None], ["x"], [{}], [{"name": 1}], [{"name": ["a"]}])
        ),
        {"spec": {"containers": [{"name": "worker", "env": "x"}]}},
        {"spec": {"containers": [{"name": "worker", "env": [{"name": None}]}]}},
        {"spec": {"initContainers": [{"name": "a", "env": [{"name": {}}]}]}},
    ],
)
def test_a_template_that_makes_no_pod_is_explained(overlay):
    sentence = why(podTemplate=overlay) or ""
    assert sentence.startswith("spec.podTemplate.")
    assert len(sentence) < 800


def test_a_template_of_any_depth_is_answered_at_once():
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": [deep]}
    assert f"deeper than {DEEPEST} levels" in (why(podTemplate={"spec": deep}) or "")


def test_a_container_is_never_replaced_as_a_whole():
    base = {"containers": [{"name": "worker", "image": "a", "securityContext": {}}]}
    over = {"containers": [{"name": "worker", "value": "x"}]}
    assert merge(base, over)["containers"][0]["image"] == "a"


KEYS = ["containers", "volumes", "env", "name", "secret", "metadata", "spec", "labels", "worker"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(KEYS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.fixed_dictionaries({}, optional={"metadata": JUNK, "spec": JUNK}))
def test_every_template_is_either_explained_or_makes_a_job(overlay):
    read, sentence = read_spec({"prompt": "p", "podTemplate": overlay}, DEFAULTS)
    if sentence is None:
        build_job(observed(spec=read), 1, "7-0", DEFAULTS)


SHARED: dict[str, dict[str, Any]] = {
    "a claim": {"persistentVolumeClaim": {"claimName": "team"}},
    "a file server": {"nfs": {"server": "files", "path": "/team"}},
    "a driver's": {"csi": {"driver": "files.example.com"}},
}
OWN_VOLUMES: dict[str, dict[str, Any]] = {
    "the node's disk": {"emptyDir": {"sizeLimit": "1Gi"}},
    "the pod's own claim": {"emptyDir": None, "ephemeral": {"volumeClaimTemplate": {}}},
}


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("name", ["workspace", "git-handover", "git-private"])
def test_where_the_credential_is_used_no_other_pod_writes(name, kind):
    shared = template(volumes=[{"name": name, "emptyDir": None, **SHARED[kind]}])
    told = why(**git("forge"), **shared) or ""
    assert told.startswith(f"spec.podTemplate.spec.volumes[{name}] is ")
    assert "other pods" in told
    beside = template(volumes=[{"name": name, **SHARED[kind]}])
    assert "other pods" in (why(**git("forge"), **beside) or "")


@pytest.mark.parametrize("kind", OWN_VOLUMES)
def test_a_volume_of_the_pods_own_may_be_the_workspace(kind):
    own = template(volumes=[{"name": "workspace", **OWN_VOLUMES[kind]}])
    assert why(**git("forge"), **own) is None


def test_a_workspace_without_a_credential_may_be_shared():
    shared = template(volumes=[{"name": "workspace", "emptyDir": None, **SHARED["a claim"]}])
    url = {"workspace": {"git": {"url": "https://git.example.com/r.git"}}}
    assert why(**url, **shared) is None
    claim = {"persistentVolumeClaim": {"claimName": "team"}}
    assert why(workspace=claim) is None


def test_a_verdict_is_that_of_the_installation_and_of_the_whole_spec():
    forbidden = template(hostPID=True)
    allowed = DEFAULTS._replace(template_fields=())
    first = why(DEFAULTS, **forbidden)
    assert first is not None
    assert why(DEFAULTS, **forbidden) == first
    assert why(allowed, **forbidden) != first
    assert why(DEFAULTS, **forbidden) == first
    assert why(DEFAULTS) is None
    assert why(DEFAULTS, **SECRETS["spec.agent.credentialsSecretRef.name"]) is not None
    assert why(DEFAULTS, **git(OURS)) is not None


@pytest.mark.parametrize("deep", [100, 300, 2000])
def test_an_agents_variable_is_judged_however_deep_it_is(deep):
    value: Any = {"secretKeyRef": {"name": OURS, "key": "k"}}
    nested: Any = {}
    for _ in range(deep):
        nested = {"a": nested}
    variable = {"name": "A", "valueFrom": value, "more": nested}
    sentence = why(DEFAULTS, agent={"env": [variable]})
    assert sentence is not None


EMPTY: Any = profile_cache(lambda kind, said: None, lambda namespace: None)


@pytest.mark.parametrize(("phase", "asked"), [("Pending", True), ("Completed", False)])
async def test_whether_a_pod_may_be_made_is_not_asked_of_a_finished_task(phase, asked):
    nobody: Any = None
    observer = Observer(
        store=TaskCache(lambda key: None),
        pending=PendingOutputs(),
        attempts=nobody,
        capacity=Capacity(lambda namespace: 1),
        kube=nobody,
        profiles=Profiles(nobody, EMPTY, EMPTY, nobody, nobody),
        defaults=DEFAULTS,
    )
    meta = {"namespace": "team", "name": "fix", "uid": "u", "resourceVersion": "1"}
    task = {
        "metadata": meta | {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"prompt": "do it", "ttlSecondsAfterFinished": 5} | template(hostPID=True),
        "status": {"phase": phase},
    }
    found = await observer.observe(Key("team", "fix"), task)
    assert (found.spec_error is not None) is asked
    assert found.spec.ttl_seconds_after_finished == 5


@pytest.mark.parametrize(
    "name", ["a/b", "../../other/configmaps/x", "Upper", "a..b", "-a", "", "a" * 254]
)
@pytest.mark.parametrize(
    ("spec", "where"),
    [
        (lambda name: {"agent": {"credentialsSecretRef": {"name": name}}}, "credentialsSecretRef"),
        (
            lambda name: {"promptFrom": {"configMapKeyRef": {"name": name, "key": "k"}}},
            "promptFrom",
        ),
        (
            lambda name: {"agent": {"fileFrom": {"configMapKeyRef": {"name": name, "key": "k"}}}},
            "fileFrom",
        ),
        (
            lambda name: {
                "agent": {
                    "env": [
                        {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}
                    ]
                }
            },
            "env[A]",
        ),
        (
            lambda name: {
                "workspace": {"git": {"url": "https://x/y", "credentialsSecretRef": {"name": name}}}
            },
            "credentialsSecretRef",
        ),
        (
            lambda name: {"workspace": {"persistentVolumeClaim": {"claimName": name}}},
            "claimName",
        ),
    ],
)
def test_a_name_that_no_object_can_have_is_refused_with_its_field(name, spec, where):
    said = read_spec({"prompt": "p", **spec(name)}, DEFAULTS)[1] or ""
    assert where in said
    assert "is no name of an object" in said
    assert read_spec({"prompt": "p", **spec("team.key-1")}, DEFAULTS)[1] is None
