"""A real Kueue on the cluster, as its own manifests install it: built once from its Go module.

The version stands in kueue_manager/go.mod. The manifests are those of the module itself, read where
Go keeps modules. Ours are the image, which has only the program; what the pod asks the node for,
and how long it may take to answer, on a busy machine; and fair sharing, which their configuration
mentions and leaves off. The API that shows queues is left out: it wants an aggregation layer, which
the local cluster has not, and an API that does not answer keeps namespaces from being deleted.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from support.cluster import ROOT, STATE, Cluster, CommandError, Object
from support.go_programs import go_program
from support.world import World

sys.path.insert(0, str(ROOT / "cluster"))

from localcluster.archive import single_program_image

SOURCES = Path(__file__).with_name("kueue_manager")
MODULE = "sigs.k8s.io/kueue"
SYSTEM = "kueue-system"
MANAGER = "kueue-controller-manager"
API = "kueue.x-k8s.io/v1beta2"
FLAVOR = "default-flavor"
_SETTINGS = "controller_manager_config.yaml"
_OURS = {
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]},
    "featureGates": {"VisibilityOnDemand": False},
    "leaderElection": {"leaderElect": False},
}
_READY_SECONDS = 180.0


def version() -> str:
    """The version that is built, as Go names it."""
    found = re.search(rf"^require {MODULE} (\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found, f"{SOURCES / 'go.mod'} names no version of {MODULE}"
    return found[1]


def manager_program() -> Path:
    """Return the path of Kueue's controller manager, building it when it is not here yet."""
    flags = f"-s -w -X {MODULE}/pkg/version.GitVersion={version()}"
    return go_program("kueue", SOURCES, package=f"{MODULE}/cmd/kueue", flags=flags)


def install(world: World) -> None:
    """Install Kueue, or leave it as it is, and wait until it answers."""
    cluster = world.cluster
    image = _load_image(manager_program())
    text = cluster.kubectl("kustomize", str(_module() / "config" / "default"))
    objects = [
        _ours(item, image) for item in yaml.safe_load_all(text) if item["kind"] != "APIService"
    ]
    # What others of these are kept in first: they are applied in this order.
    objects.sort(key=lambda item: item["kind"] not in ("Namespace", "CustomResourceDefinition"))
    cluster.apply(objects, "--server-side", "--force-conflicts", namespace=None)
    wait_until_ready(cluster)
    world.until("Kueue's webhook answers", lambda: _answers(cluster), seconds=_READY_SECONDS)


def _answers(cluster: Cluster) -> bool:
    """Whether it takes an object of its own, which its webhook has to see."""
    flavor: Object = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    try:
        cluster.apply(flavor, namespace=None)
    except CommandError:
        return False
    return True


def wait_until_ready(cluster: Cluster) -> None:
    """Wait until its manager is ready and answers webhooks."""
    cluster.wait_for(
        "deployment",
        MANAGER,
        lambda found: found.get("status", {}).get("readyReplicas"),
        namespace=SYSTEM,
        seconds=_READY_SECONDS,
    )


def scale(cluster: Cluster, replicas: int) -> None:
    """Have so many managers; wait until it is so."""
    cluster.patch("deployment", MANAGER, {"spec": {"replicas": replicas}}, SYSTEM)
    if replicas:
        return wait_until_ready(cluster)
    cluster.wait_for_all("pods", lambda pods: not pods, namespace=SYSTEM, seconds=_READY_SECONDS)
    return None


def cluster_queue(name: str, pods: int, *, cohort: str = "", **spec: Any) -> Object:
    """A queue of the cluster with room for so many workers; cpu and memory are no limit."""
    body: Object = {"namespaceSelector": {}, "resourceGroups": [quota(pods)], **spec}
    if cohort:
        body["cohortName"] = cohort
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": body}


def cohort(name: str, pods: int) -> Object:
    """Queues of the cluster that share so many workers."""
    body = {"resourceGroups": [quota(pods)]}
    return {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": body}


def quota(pods: int) -> Object:
    """So many workers, of as much cpu and memory as they like; for none, of nothing."""
    much = {"cpu": "100", "memory": "1000Gi"} if pods else {"cpu": "0", "memory": "0"}
    amounts = {**much, "pods": str(pods)}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    flavors = [{"name": FLAVOR, "resources": quotas}]
    return {"coveredResources": list(amounts), "flavors": flavors}


def local_queue(name: str, namespace: str, of: str) -> Object:
    """A namespace's door to a queue of the cluster."""
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": API, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": of}}


def priority_class(name: str, value: int) -> Object:
    """A WorkloadPriorityClass."""
    kind = "WorkloadPriorityClass"
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "value": value}


def _module() -> Path:
    """Where Go keeps the module's source; fetched when it is not there."""
    words = ["go", "mod", "download", "-json", f"{MODULE}@{version()}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(words)} failed: {done.stdout}{done.stderr}"
    return Path(json.loads(done.stdout)["Dir"])


def _load_image(program: Path) -> str:
    """Have the nodes know an image of the program; returns its name."""
    name = f"localhost/kueue-manager:{program.resolve().name.rpartition('-')[2]}"
    tool = [sys.executable, str(ROOT / "cluster" / "cluster.py")]
    if subprocess.run([*tool, "has-image", name]).returncode != 0:
        architecture = subprocess.run(
            ["go", "env", "GOARCH"], capture_output=True, text=True, check=True
        ).stdout.strip()
        archive = STATE / "build" / "kueue-manager.tar"
        content = single_program_image(program.read_bytes(), name, architecture, file="manager")
        archive.write_bytes(content)
        subprocess.run([*tool, "load-image", str(archive)], check=True)
        archive.unlink()
    return name


def _ours(item: Object, image: str) -> Object:
    """One of its manifests, with what is ours."""
    if item["kind"] == "ConfigMap" and _SETTINGS in item["data"]:
        settings = yaml.safe_load(item["data"][_SETTINGS]) | _OURS
        item["data"][_SETTINGS] = json.dumps(settings)
    if item["kind"] == "Deployment":
        (container,) = item["spec"]["template"]["spec"]["containers"]
        container |= {"image": image, "imagePullPolicy": "IfNotPresent"}
        container["livenessProbe"] |= {"timeoutSeconds": 20, "failureThreshold": 6}
        container["resources"] = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    return item
