"""What a podTemplate may say and what not, for the operator and the API server: one row a field.

The keys of REFUSED are how the refusal's sentence begins behind `spec.podTemplate.`. A field of
Kubernetes that is not here yet is missed by a test that asks the API server for all of them.
"""

from typing import Any

Object = dict[str, Any]
OURS = "orbiter-redis"
REFUSAL = "spec.podTemplate."


def pod(**spec: Any) -> Object:
    """A podTemplate with these fields of the pod."""
    return {"spec": spec}


def worker(**fields: Any) -> Object:
    """A podTemplate with these fields of the worker's container."""
    return pod(containers=[{"name": "worker", **fields}])


_PROBE = {"exec": {"command": ["env"]}}
_ROOT = {"runAsUser": 0, "runAsNonRoot": False}
_OTHER = {"name": "helper", "image": "helper:1"}
_SELECTOR = {"matchLabels": {"app": "shop"}}
_EVERYBODY = {"topologyKey": "zone", "labelSelector": _SELECTOR, "namespaceSelector": {}}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

POD: Object = {
    "activeDeadlineSeconds": 5,
    "dnsConfig": {"nameservers": ["203.0.113.1"]},
    "dnsPolicy": "None",
    "enableServiceLinks": True,
    "ephemeralContainers": [_OTHER],
    "hostAliases": [{"ip": "203.0.113.1", "hostnames": ["api.example.com"]}],
    "hostIPC": True,
    "hostNetwork": True,
    "hostPID": True,
    "hostUsers": True,
    "hostname": "a",
    "hostnameOverride": "a",
    "initContainers": [_OTHER],
    "nodeName": "control-plane",
    "os": {"name": "linux"},
    "overhead": {"cpu": "1m"},
    "preemptionPolicy": "Never",
    "priority": 1000000,
    "priorityClassName": "system-node-critical",
    "readinessGates": [{"conditionType": "a"}],
    "resourceClaims": [{"name": "gpu"}],
    "resources": {"limits": {"cpu": "1"}},
    "restartPolicy": "Always",
    "runtimeClassName": "unconfined",
    "schedulerName": "mine",
    "schedulingGates": [{"name": "example.com/gate"}],
    "schedulingGroup": {"podGroupName": "a"},
    "securityContext": _ROOT,
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "setHostnameAsFQDN": True,
    "shareProcessNamespace": True,
    "subdomain": "a",
    "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
    "workloadRef": {"name": "a", "podGroup": "b"},
}
"""Every field of a PodSpec that a podTemplate may not have, each with a value one could want."""
ALLOWED_OF_POD = frozenset(
    (
        *("affinity", "automountServiceAccountToken", "containers", "imagePullSecrets"),
        *("nodeSelector", "terminationGracePeriodSeconds", "tolerations"),
        "topologySpreadConstraints",
    )
)
WORKER: Object = {
    "args": ["-c"],
    "command": ["sh", "-c", "echo $REDIS_URL"],
    "envFrom": [{"secretRef": {"name": "mine"}}],
    "imagePullPolicy": "Never",
    "lifecycle": {"postStart": _PROBE},
    "livenessProbe": _PROBE,
    "ports": [{"containerPort": 80, "hostPort": 80}],
    "readinessProbe": _PROBE,
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "restartPolicy": "Always",
    "restartPolicyRules": [{"action": "Restart"}],
    "securityContext": {"privileged": True},
    "startupProbe": _PROBE,
    "stdin": True,
    "stdinOnce": True,
    "terminationMessagePath": "/workspace/x",
    "terminationMessagePolicy": "File",
    "tty": True,
    "volumeDevices": [{"name": "v", "devicePath": "/dev/sda"}],
    "volumeMounts": [{"name": "tmp", "mountPath": "/usr"}],
    "workingDir": "/workspace",
}
"""Every field of a Container that the worker's may not have."""
ALLOWED_OF_WORKER = frozenset(("name", "image", "env", "resources"))
METADATA: Object = {
    "clusterName": "a",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 1,
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "finalizers": ["example.com/forever"],
    "generateName": "a-",
    "generation": 1,
    "managedFields": [],
    "name": "a",
    "namespace": "kube-system",
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}],
    "resourceVersion": "1",
    "selfLink": "/a",
    "uid": "a",
}
"""Every field of an ObjectMeta but labels and annotations."""

REFUSED: dict[str, Object] = {
    **{f"spec.{field}": pod(**{field: value}) for field, value in POD.items()},
    **{f"spec.containers[worker].{f}": worker(**{f: value}) for f, value in WORKER.items()},
    **{f"metadata.{field}": {"metadata": {field: value}} for field, value in METADATA.items()},
    "metadata.labels[orbiter.dev/agenttask]": {
        "metadata": {"labels": {"orbiter.dev/agenttask": "other"}}
    },
    "metadata.labels[kueue.x-k8s.io/queue-name]": {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
    },
    "metadata.labels[app.kubernetes.io/managed-by]": {
        "metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}
    },
    "spec.automountServiceAccountToken": pod(automountServiceAccountToken=True),
    "spec.containers[helper]": pod(containers=[_OTHER]),
    "spec.containers[worker].env[A].valueFrom": worker(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "a"}}}]
    ),
    "spec.containers[worker].env": worker(env=[{"name": "REDIS_URL", "value": "redis://mine"}]),
    "spec.containers[worker].resources.claims": worker(resources={"claims": [{"name": "gpu"}]}),
    "spec.imagePullSecrets[orbiter-redis].name": pod(imagePullSecrets=[{"name": OURS}]),
    "spec.tolerations[]": pod(tolerations=[{"operator": "Exists"}]),
    f"spec.affinity.podAntiAffinity.{_REQUIRED}[].namespaceSelector": pod(
        affinity={"podAntiAffinity": {_REQUIRED: [_EVERYBODY]}}
    ),
    f"spec.affinity.podAffinity.{_PREFERRED}[].podAffinityTerm.namespaceSelector": pod(
        affinity={
            "podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _EVERYBODY}]},
        }
    ),
    "spec.containers": pod(containers="none"),
    "spec.nodeSelecter": pod(nodeSelecter={"disk": "ssd"}),
    "spec.containers[worker].resources.limit": worker(resources={"limit": {"memory": "1Gi"}}),
    "spec.affinity.nodeafinity": pod(affinity={"nodeafinity": {}}),
    "spec.topologySpreadConstraints[].maxskew": pod(
        topologySpreadConstraints=[{"topologyKey": "zone", "maxskew": 1}]
    ),
    "sepc": {"sepc": {}},
}
"""How the refusal begins, to a template that is refused by default."""

HINTS: dict[str, str] = {
    "spec.nodeSelecter": "did you mean nodeSelector?",
    "spec.containers[worker].resources.limit": "did you mean limits?",
    "spec.topologySpreadConstraints[].maxskew": "did you mean maxSkew?",
    "spec.securityContext": "add spec.securityContext to the chart's workers.podTemplate.allow",
    "spec.containers[helper]": "add spec.containers to the chart's workers.podTemplate.allow",
    "spec.containers[worker].env[A].valueFrom": (
        "add spec.containers[worker].env[].valueFrom to the chart's workers.podTemplate.allow"
    ),
    "spec.priorityClassName": (
        "is 'system-node-critical', not one of the chart's workers.podTemplate.priorityClassNames"
    ),
    "spec.tolerations[]": "is not one of the chart's workers.podTemplate.tolerations",
}
"""Words of some of these refusals."""

_TERM = {"topologyKey": "zone", "labelSelector": _SELECTOR, "matchLabelKeys": ["a"]}
_DISK = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
ACCEPTED: dict[str, Object] = {
    "nothing": {},
    "an-empty-spec": {"spec": {}},
    "labels": {"metadata": {"labels": {"cost-center": "7"}, "annotations": {"a": "b"}}},
    "resources": worker(resources={"limits": {"memory": "4Gi"}, "requests": {"cpu": "1"}}),
    "an-image": worker(image="mine:1") | {"metadata": {"labels": {}}},
    "a-pull-secret": pod(imagePullSecrets=[{"name": "registry"}]),
    "a-variable": worker(env=[{"name": "A", "value": "orbiter-redis"}, {"name": "B"}]),
    "a-node": pod(nodeSelector={"disk": "ssd"}, terminationGracePeriodSeconds=300),
    "no-token": pod(automountServiceAccountToken=False),
    "our-own-account": pod(serviceAccountName="orbiter-worker"),
    "affinity": pod(
        affinity={
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [_DISK]},
                _PREFERRED: [{"weight": 1, "preference": _DISK}],
            },
            "podAffinity": {_REQUIRED: [_TERM]},
            "podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _TERM}]},
        }
    ),
    "spread": pod(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": _SELECTOR,
                "nodeTaintsPolicy": "Honor",
            }
        ]
    ),
    "nulls": pod(nodeSelector=None, affinity=None, tolerations=None),
}
"""What is accepted by default, by a name for it."""

_GPU = {"key": "gpu", "operator": "Exists", "tolerationSeconds": 300}
PATHS = (
    *("spec.volumes[].configMap", "spec.containers[worker].volumeMounts", "spec.initContainers"),
    *("spec.securityContext.fsGroup", "spec.containers[].image", "spec.affinity.podAffinity"),
    "spec.containers[worker].env[].valueFrom.configMapKeyRef",
)
VALUES: Object = {
    "allow": list(PATHS),
    "priorityClassNames": ["batch"],
    "runtimeClassNames": ["gvisor"],
    "tolerations": [_GPU],
}
"""Values of the chart's `workers.podTemplate` that lengthen the list."""
LENGTHENED: tuple[Object, ...] = (
    pod(volumes=[{"name": "v", "configMap": {"name": "mine"}}]),
    pod(volumes=[{"name": "v", "secret": {"secretName": "mine"}}]),
    pod(securityContext={"fsGroup": 1}),
    pod(securityContext={"fsGroup": 1, "runAsUser": 0}),
    pod(containers=[_OTHER]),
    pod(containers=[_OTHER | {"command": ["a"]}]),
    pod(initContainers=[_OTHER | {"command": ["a"]}]),
    pod(affinity={"podAffinity": {_REQUIRED: [_EVERYBODY]}}),
    pod(affinity={"podAntiAffinity": {_REQUIRED: [_EVERYBODY]}}),
    worker(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
    worker(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "a"}}}]),
    worker(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "a"}}}]),
    *(pod(priorityClassName=name) for name in ("batch", "system-node-critical")),
    *(pod(runtimeClassName=name) for name in ("gvisor", "runc")),
    pod(tolerations=[_GPU]),
    pod(tolerations=[_GPU, _GPU | {"tolerationSeconds": 301}]),
    pod(tolerations=[{"key": "gpu"}]),
)
"""Templates of which these values allow some."""
