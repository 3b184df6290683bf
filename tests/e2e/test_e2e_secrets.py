"""No secret where it does not belong: logs, events, status, process lists, agents' environments."""

import base64
import json
from urllib.parse import urlsplit

from support.world import NAMESPACE, SYSTEM, World, task

# The brackets keep the patterns from finding the command that looks for them.
LOOK = (
    "echo env:$(env | grep -cE 'REDI[S]|TASK[_]|WORKER[_]|redi[s]:') "
    "pid1:$(tr '\\0' '\\n' 2>&1 < /proc/1/environ | grep -c 'redi[s]:') "
    "args:$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'redi[s]:') "
    "key:$(env | grep -c 'scripte[d]-key') uid:$(id -u) "
    "token:$(ls /var/run/secrets/kubernetes.io 2>/dev/null | wc -l) "
    "root:$(touch /usr/x 2>&1 | grep -c 'Read-only')"
)
KEY = "sk-scripted-key"


def redis_passwords(world: World) -> list[str]:
    """Every password of the bundled Redis, and what those of workers follow from."""
    data = world.cluster.get("secret", "orbiter-redis-auth", SYSTEM)["data"]
    found = [base64.b64decode(value).decode() for value in data.values()]
    for name in ("orbiter-developer", "orbiter-chat", "orbiter-producer", "orbiter-transcript"):
        data = world.cluster.get("secret", name, NAMESPACE)["data"]
        urls = [base64.b64decode(v).decode() for k, v in data.items() if k.endswith("-url")]
        found += [str(urlsplit(url).password) for url in urls]
    return found


def test_the_agent_sees_its_own_key_and_nothing_else(world: World) -> None:
    world.apply(task("nosy", f"[[bash: {LOOK}]]\n[[say: {{output}}]]\n[[result]]"))
    status = world.wait("nosy", "Completed")
    assert status["result"]["summary"]
    seen = world.output_of("nosy")
    assert "env:0 pid1:0 args:0 key:1 uid:1000 token:0 root:1" in seen, seen


def test_no_secret_in_logs_events_status_or_pods(world: World) -> None:
    world.apply(task("quiet", '[[bash: sleep 3]]\n[[result: {"summary": "done"}]]'))
    world.wait("quiet", "Running")
    shown = {"processes": world.until("its processes", lambda: world.processes("quiet"))}
    world.wait("quiet", "Completed")
    selector = "orbiter.dev/agenttask=quiet"
    operators = ("-l", "app.kubernetes.io/component=operator", "--tail=-1", "--prefix")
    shown |= {
        "worker log": world.kubectl("-n", NAMESPACE, "logs", "-l", selector, "--tail=-1"),
        "operator log": world.kubectl("-n", SYSTEM, "logs", *operators),
        "redis log": world.kubectl("-n", SYSTEM, "logs", "orbiter-redis-0"),
        "events": json.dumps(world.cluster.list_all("events", NAMESPACE)),
        "tasks": json.dumps(world.cluster.list_all("agenttasks", NAMESPACE)),
        "jobs": json.dumps(world.cluster.list_all("jobs", NAMESPACE)),
        "pods": json.dumps(world.cluster.list_all("pods", NAMESPACE)),
    }
    with world.redis() as redis:
        for stream in ("worker:developer:output", "worker:developer:input", "worker:lifecycle"):
            shown[stream] = json.dumps(redis.xrange(stream))
    # Where nothing was said nothing is found; an entry that is done is off the input.
    empty = {name for name, text in shown.items() if text.strip() in ("", "[]")}
    assert empty <= {"worker:developer:input"}
    for secret in (KEY, *redis_passwords(world)):
        where = [name for name, text in shown.items() if secret in text]
        assert not where


def test_worker_pods_are_restricted_and_have_no_token(world: World) -> None:
    world.apply(task("posture", '[[bash: sleep 1]]\n[[result: {"summary": "done"}]]'))
    world.wait("posture", "Completed")
    template = world.jobs("posture")[0]["spec"]["template"]["spec"]
    container = template["containers"][0]
    assert template["automountServiceAccountToken"] is False
    assert template["securityContext"]["runAsNonRoot"] is True
    assert template["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    values = {variable["name"] for variable in container["env"] if "value" in variable}
    assert not values & {"REDIS_URL", "ANTHROPIC_API_KEY"}
