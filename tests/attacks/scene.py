"""What is on the field: sessions, what B's Secrets say, and what attackers aim at."""

import base64
import json
from typing import Any

from redis import Redis
from support.cluster import Cluster, CommandError, Object
from support.manifests import agent_task, po_session
from support.pod_templates import REFUSED
from support.world import ECHO_IMAGE, SYSTEM, World, worker_container

from attacks.names import OPERATOR, A, B, C

WORK, TALK, INSIDE, ECHO = "attacks-work", "attacks-talk", "attacks-inside", "attacks-echo"
USER, OWN_USER, INSIDE_USER, C_USER = (10**9 + number for number in range(1, 5))
USERS = {A: USER, C: C_USER}
"""Whose conversations go on, and with whom."""
AGENT = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}
SMALL = worker_container(image=ECHO_IMAGE, resources={"requests": {"cpu": "5m", "memory": "32Mi"}})
LONG = 3600
COPY, COPY_PASSWORD = "attacks-copy", "only-for-tests"


def session(name: str, namespace: str, user: int, *, echo: bool) -> Object:
    """A session that stays awake; `echo` answers without a model."""
    spec: dict[str, Any] = {"podTemplate": SMALL} if echo else {}
    made = po_session(
        name, userId=user, agent=AGENT, idle={"scaleToZeroAfterSeconds": LONG}, **spec
    )
    made["metadata"]["namespace"] = namespace
    return made


def pods_of(world: World, namespace: str, name: str) -> list[Object]:
    """A session's pods."""
    return world.cluster.list_all("pods", namespace, f"orbiter.dev/posession={name}")


def secret_of(cluster: Cluster, name: str, namespace: str) -> dict[str, str]:
    """What a Secret holds; nothing when there is none."""
    found = cluster.find("secret", name, namespace)
    data = (found or {}).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def chat_url(cluster: Cluster, namespace: str) -> str:
    """What a chat front end of a namespace is given."""
    return secret_of(cluster, "orbiter-chat", namespace)["chat-url"]


def reader_of_everything(operator: Any, port: int) -> "Redis[bytes]":
    """A client in the name of a user without rules, whom the field's end removes."""
    operator.execute_command(
        *("ACL", "SETUSER", COPY, "reset", "on", f">{COPY_PASSWORD}", "~*", "+dump")
    )
    return Redis(host="127.0.0.1", port=port, protocol=2, username=COPY, password=COPY_PASSWORD)


def session_secret(cluster: Cluster) -> str:
    """The name of the Secret with the URL of B's session that has become a shell."""
    names = [item["metadata"]["name"] for item in cluster.list_all("secrets", B)]
    (found,) = (name for name in names if name.startswith(f"orbiter-session-{ECHO}-"))
    return found


def policy_holds(world: World) -> bool:
    """Whether the API server looks at podTemplates; one just installed takes a moment."""
    body = agent_task("probe", podTemplate=REFUSED["spec.hostNetwork"])
    try:
        words = ("create", "--validate=false", "--dry-run=server", "-f", "-")
        world.kubectl("-n", B, *words, stdin=json.dumps(body))
    except CommandError:
        return True
    return False


def places(world: World, tenant: Cluster) -> dict[str, str]:
    """Names and addresses that attackers aim at."""
    (pod,) = world.pods(WORK, A)
    operator, *_ = world.cluster.list_all("pods", SYSTEM, OPERATOR)
    (api,) = world.cluster.list_all(
        "endpointslices", "default", "kubernetes.io/service-name=kubernetes"
    )
    (job,) = world.jobs(WORK, A)
    return {
        "task": WORK,
        "session": TALK,
        "pod": pod["metadata"]["name"],
        "job": job["metadata"]["name"],
        "policy": "orbiter-system-orbiter-pod-template",
        "session_secret": session_secret(tenant),
        "redis": f"orbiter-redis.{SYSTEM}.svc",
        "api": api["endpoints"][0]["addresses"][0],
        "api_port": str(api["ports"][0]["port"]),
        "node": pod["status"]["hostIP"],
        "operator": operator["status"]["podIP"],
    }
