"""The Deployment of a session, as a dict. Pure: the same session always gives the same one."""

import hashlib
import json
from typing import Any

from orbiter_contracts.queues import BARE, Keys
from orbiter_operator.kube.models import Workspace
from orbiter_operator.kube.names import (
    APP_NAME,
    MANAGED_BY,
    MANAGER,
    PROFILE,
    SESSION,
    SESSION_UID,
    TEMPLATE,
    WORKER_APP,
    owner_reference,
)
from orbiter_operator.pods.template import WorkerDefaults, worker_template
from orbiter_operator.sessions.models import SessionSpec

Object = dict[str, Any]
_DIGEST = 16


def build_template(
    namespace: str,
    name: str,
    uid: str,
    worker_id: str,
    spec: SessionSpec,
    defaults: WorkerDefaults,
    redis_secret: tuple[str, str],
    keys: Keys = BARE,
    fixed: Object | None = None,
) -> Object:
    """The pod template of a session's worker.

    Args:
        namespace: The session's namespace.
        name: The session's name.
        uid: The session's uid.
        worker_id: Its worker id.
        spec: Its spec.
        defaults: What is the same for all workers.
        redis_secret: Name and key of the Secret with the worker's Redis URL.
        keys: Its keys in Redis.
        fixed: The podTemplate of the cluster's profile.
    """
    environment = _environment(worker_id, spec, keys)
    environment["SESSION_RECORD_PREFIX"] = records_of(namespace, defaults, keys)
    if redis_secret[0] != defaults.redis_secret:
        environment["SESSION_USERS"] = "Own"  # its Redis user has no other user's record
    overlay: Object = spec.pod_template or {}
    template = worker_template(
        spec.agent,
        Workspace(),
        overlay,
        _labels(name, uid),
        environment,
        defaults,
        redis_secret=redis_secret,
        restart="Always",
        transcript=(namespace, "sessions", uid),
        fixed=fixed,
    )
    claim = spec.persistence.persistent_volume_claim
    if spec.persistence.type == "PersistentVolumeClaim" and claim is not None:
        for volume in template["spec"]["volumes"]:
            if volume["name"] == "home":
                volume.pop("emptyDir", None)
                volume["persistentVolumeClaim"] = {"claimName": claim.claim_name}
    return template


def records_of(namespace: str, defaults: WorkerDefaults, keys: Keys = BARE) -> str:
    """How the keys of session records begin: users are counted within their namespace.

    Where entries are adopted they are the short ones that front ends of a single namespace know.
    """
    alone = keys.prefix or namespace == defaults.adopt_namespace
    return keys.session_records("" if alone else namespace)


def fingerprint(template: Object) -> str:
    """Short and stable name of a pod template."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def build_deployment(
    namespace: str, name: str, uid: str, template: Object, *, replicas: int, profile: str = ""
) -> Object:
    """The Deployment of a session.

    Recreate: a conversation has one worker at a time.

    Args:
        namespace: The session's namespace.
        name: The session's name, and the Deployment's.
        uid: The session's uid.
        template: Its pod template.
        replicas: 0 or 1.
        profile: The revision that keeps its profile, if it has one.
    """
    labels, kept = _labels(name, uid), {PROFILE: profile} if profile else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {TEMPLATE: fingerprint(template)} | kept,
            "ownerReferences": [owner_reference("POSession", name, uid)],
        },
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 0,
            # A worker that cannot start is explained in the session's status, not given up.
            "progressDeadlineSeconds": 2**31 - 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {SESSION_UID: uid}},
            "template": template,
        },
    }


def _labels(name: str, uid: str) -> dict[str, str]:
    return {MANAGED_BY: MANAGER, APP_NAME: WORKER_APP, SESSION: name, SESSION_UID: uid}


def _environment(worker_id: str, spec: SessionSpec, keys: Keys) -> dict[str, str]:
    """What identifies the worker and its conversation; the wrapper's README has each variable."""
    rotation = spec.rotation
    environment = {"KEY_PREFIX": keys.prefix} if keys.prefix else {}
    environment |= {
        "WORKER_ID": worker_id,
        "WORKER_TYPE": "po",
        "USER_ID": str(spec.user_id),
        # a comma alone means none; an empty variable would mean the default
        "SESSION_COMMANDS": ",".join(rotation.commands) or ",",
        "SESSION_IDLE_SECONDS": str(rotation.after_idle_seconds),
        "SESSION_MAX_TOKENS": str(rotation.max_tokens),
        "STREAMING": spec.streaming,
    }
    if spec.session_id:
        environment["SESSION_ID"] = spec.session_id
    if rotation.topic_similarity is not None:
        environment["SESSION_TOPIC_SIMILARITY"] = str(rotation.topic_similarity)
    if spec.persistence.type == "Snapshot":
        environment["SNAPSHOT_KEY"] = keys.po_snapshot(worker_id)
    return environment
