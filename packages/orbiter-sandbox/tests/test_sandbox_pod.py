"""What a KubernetesSandbox asks for, and what it says when there is nobody to ask."""

import sys

import pytest

from orbiter.sandbox import KubernetesSandbox, Limits, SandboxError, SandboxUnavailableError
from orbiter.sandbox._internal.pod import line, no_network, pod


def body(**changes):
    settings = {
        "image": "python:3.13-slim",
        "pull_policy": "IfNotPresent",
        "env": {},
        "limits": Limits(),
        "cpu": "1",
        "runtime_class": None,
        "lifetime": 60,
    }
    return pod("box", **{**settings, **changes})


def test_the_pod_has_no_rights():
    spec = body()["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    container = spec["containers"][0]["securityContext"]
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert (container["allowPrivilegeEscalation"], container["readOnlyRootFilesystem"]) == (
        False,
        True,
    )


def test_limits_become_the_cluster_s():
    limits = Limits(memory_bytes=100, disk_bytes=200, tmp_bytes=300)
    spec = body(limits=limits, cpu="500m", lifetime=7)["spec"]
    assert spec["activeDeadlineSeconds"] == 7
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "100"}
    sizes = [volume["emptyDir"]["sizeLimit"] for volume in spec["volumes"]]
    assert sizes == ["200", "300"]


def test_a_runtime_class_is_asked_for_only_when_given():
    assert "runtimeClassName" not in body()["spec"]
    assert body(runtime_class="gvisor")["spec"]["runtimeClassName"] == "gvisor"


def test_the_policy_opens_nothing_and_goes_with_the_pod():
    policy = no_network("box", "uid-1")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= (
        body()["metadata"]["labels"].items()
    )
    assert policy["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def test_a_command_is_not_taken_apart_by_the_shell_around_it():
    words = line(["echo", "$(id); x"], 3, 1.5, Limits(file_bytes=1024, open_files=9))
    assert words[:2] == ["/bin/sh", "-c"]
    assert words[3:] == ["sh", "2", "9", "1.500", "3", "echo", "$(id); x"]


def test_every_sandbox_has_a_name_of_its_own():
    assert KubernetesSandbox().name != KubernetesSandbox().name


async def test_without_the_extra_it_says_what_to_install(monkeypatch):
    for name in ("kubernetes", "kubernetes.aio", "kubernetes.aio.client"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        SandboxUnavailableError, match=r"pip install 'orbiter-sandbox\[kubernetes\]"
    ):
        async with KubernetesSandbox():
            pass


@pytest.mark.integration
async def test_without_a_cluster_it_says_what_to_give(tmp_path):
    with pytest.raises(SandboxUnavailableError, match="no Kubernetes cluster is configured: "):
        async with KubernetesSandbox(kubeconfig=tmp_path / "none"):
            pass


async def test_one_that_is_not_open_says_so():
    with pytest.raises(SandboxError, match="not open; use `async with`"):
        await KubernetesSandbox().run("true")
