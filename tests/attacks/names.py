"""Who is who, and the names of their keys: victims A and C, and the attackers' own, B.

A is the namespace of the keys without a prefix, where entries are adopted. C and B are tenants as
all others are, behind a prefix each.
"""

from support.world import CROWDED, NAMESPACE, STRANGERS, SYSTEM, World

from orbiter_contracts.queues import BARE, Keys, dead_letter

A, B, C = NAMESPACE, STRANGERS, CROWDED
OPERATOR = "app.kubernetes.io/component=operator"
Names = dict[str, str]


def settings_of(world: World) -> dict[str, str]:
    """The variables of this installation's operator, without those that a Secret gives."""
    (operator,) = world.cluster.list_all("deployments", SYSTEM, OPERATOR)
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", "") for item in container["env"]}


def keys_of(world: World, namespace: str) -> Keys:
    """The keys of a namespace, as the operator of this installation names them."""
    env = settings_of(world)
    apart = env.get("ORBITER_KEY_PREFIXES", "").lower() in ("true", "1")
    if apart and namespace != env.get("ORBITER_ADOPT_NAMESPACE"):
        return Keys.of_namespace(namespace)
    return Keys()


def names_of(world: World, task: str, session: str, own_session: str) -> Names:
    """Names of keys as `$name` of an attack's line: A's, C's as `$c_name`, B's as `$own_name`."""
    keys, own = keys_of(world, C), keys_of(world, B)
    assert keys.prefix, f"{C} has no keys of its own: nothing would be tried against a tenant's"
    return {
        **_victims(world, keys_of(world, A), A, task, session),
        **{f"c_{name}": key for name, key in _victims(world, keys, C, task, session).items()},
        **{f"own_{name}": key for name, key in _talk(own, f"{B}.{own_session}").items()},
        "registry": BARE.session_registry(SYSTEM, "orbiter-operator"),
        "own_producer_input": own.developer_input,
        "own_output": own.developer_output,
        "own_lifecycle": own.lifecycle,
        "own_events": Keys.of_namespace(B).trigger_events,
    }


def _victims(world: World, keys: Keys, namespace: str, task: str, session: str) -> Names:
    """The keys of a victim: of its task at work, and of its session."""
    found = world.cluster.get("agenttask", task, namespace)
    uid, worker = found["metadata"]["uid"], f"{namespace}.{session}"
    (pod,) = world.pods(task, namespace)
    env = {
        item["name"]: item.get("value", "")
        for container in pod["spec"]["containers"]
        for item in container.get("env", ())
    }
    user = world.cluster.get("posession", session, namespace)["spec"]["userId"]
    triggers = Keys.of_namespace(namespace)
    return {
        **_talk(keys, worker),
        "events": triggers.trigger_events,
        "told": triggers.notified(uid),
        "untold": dead_letter(triggers.notifications),
        "input": keys.developer_input,
        "output": keys.developer_output,
        "lifecycle": keys.lifecycle,
        "record": keys.attempt_record(uid, 1),
        "checkpoint": keys.attempt_checkpoint(uid, 1),
        "transcript": keys.task_transcript(uid, 1),
        "artifacts": keys.task_artifacts(uid, 1),
        "task_snapshot": keys.task_snapshot(uid),
        "lease": keys.developer_lease(env["WORKER_ID"], env["TASK_ENTRY_ID"]),
        "user_record": keys.session_record(user),
    }


def _talk(keys: Keys, worker: str) -> Names:
    """The keys of one session."""
    return {
        "po_input": keys.po_input(worker),
        "po_output": keys.po_output(worker),
        "po_snapshot": keys.po_snapshot(worker),
        "po_state": keys.po_state(worker),
        "po_turns": keys.po_turns(worker),
        "po_hold": keys.po_hold(worker),
        "po_transcript": keys.po_transcript(worker),
        "po_lease": keys.po_lease(worker),
        "po_dead": dead_letter(keys.po_input(worker)),
    }
