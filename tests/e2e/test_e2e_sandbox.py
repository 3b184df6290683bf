"""Sandboxes as pods of a real cluster."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from support.cluster import Cluster

from orbiter import Agent, run
from orbiter.models import ScriptedModel, call
from orbiter.sandbox import (
    KubernetesSandbox,
    Limits,
    SandboxError,
    SandboxUnavailableError,
    sandbox_tools,
)

IMAGE = "localhost/orbiter/worker-echo:dev"
MIB = 1024 * 1024

Maker = Callable[..., KubernetesSandbox]


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace with the Restricted Pod Security Standard."""
    with cluster.namespace("e2e-sandbox") as name:
        yield name


@pytest.fixture
def make(cluster: Cluster, namespace: str) -> Maker:
    """Describe a sandbox on this cluster."""

    def make(limits: Limits | None = None, **settings) -> KubernetesSandbox:
        place = {"namespace": namespace, "kubeconfig": cluster.kubeconfig, "image": IMAGE}
        return KubernetesSandbox(limits, **{**place, **settings})

    return make


async def test_an_agent_works_in_a_pod_that_goes_with_its_sandbox(cluster, namespace, make):
    model = ScriptedModel(
        call("write_file", path="src/primes.py", content="print([2, 3, 5])"),
        call("run_command", command="python3 src/primes.py; pwd; exit 3"),
        call("run_python", code="def half(x):\n    return x / 0\nhalf(1)"),
        call("read_file", path="src/primes.py"),
        call("list_files"),
        call("read_file", path="none"),
        "Done.",
    )
    async with make(env={"COLOR": "red"}) as sandbox:
        agent = Agent(name="coder", tools=sandbox_tools(sandbox))
        result = await run(agent, "Find primes", provider=model)
        answers = [message for message in result.messages if message.role == "tool"]
        printed = '{"exit_code":3,"stdout":"[2, 3, 5]\\n/workspace\\n"}'
        assert [answers[0].content, answers[1].content] == ["wrote src/primes.py", printed]
        assert "return x / 0" in answers[2].content
        assert [answers[3].content, answers[4].content] == ["print([2, 3, 5])", '["src/"]']
        assert "No such file" in answers[5].error

        assert (await sandbox.run("echo $COLOR; wc -c", stdin=b"x" * 300_000)).stdout == (
            "red\n300000\n"
        )
        policy = cluster.get("networkpolicy", sandbox.name, namespace)["spec"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert "egress" not in policy
    cluster.wait_until_gone("pod", sandbox.name, namespace=namespace)
    cluster.wait_until_gone("networkpolicy", sandbox.name, namespace=namespace)


async def test_a_command_in_a_pod_has_no_rights_and_leaves_nothing_behind(make):
    count = "cat /proc/[0-9]*/comm | grep -c tail; true"
    async with make(Limits(output_bytes=2000, tmp_bytes=4 * MIB)) as sandbox:
        status = (await sandbox.run("cat /proc/self/status")).stdout
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        for command in (
            "ls /var/run/secrets/kubernetes.io",
            "echo x > /etc/x",
            "mount -t tmpfs none /tmp",
            "head -c 9000000 /dev/zero > /tmp/x",
        ):
            assert not (await sandbox.run(command)).ok, command

        late = await sandbox.run("setsid tail -f /dev/null & tail -f /dev/null", timeout=0.5)
        assert (late.timed_out, late.exit_code) == (True, 124)
        assert (await sandbox.run(count)).stdout == "0\n"
        # a command that kills all around it and wants to stay
        await sandbox.run("(setsid tail -f /dev/null) & kill -9 $PPID; kill -9 -1; exit 0")
        assert (await sandbox.run(count)).stdout == "0\n"

        hanging = asyncio.create_task(sandbox.run("echo > started; tail -f /dev/null"))
        await asyncio.wait([hanging], timeout=1)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert (await sandbox.run(count)).stdout == "0\n"

        flood = await sandbox.run("yes | head -c 5000000; echo end")
        assert flood.truncated
        assert flood.stdout.endswith("end\n")
        assert len(flood.stdout) < 2100


async def test_a_pod_survives_a_command_that_wants_all_memory(make):
    async with make(Limits(memory_bytes=128 * MIB)) as sandbox:
        await sandbox.write("kept", "text")
        greedy = await sandbox.run_python("x = bytearray(400 << 20)")
        assert not greedy.ok
        assert await sandbox.read("kept") == "text"


async def test_what_the_cluster_does_not_give_is_said_with_its_reason(make):
    with pytest.raises(SandboxUnavailableError, match='RuntimeClass "none-such" not found'):
        async with make(runtime_class="none-such"):
            pass
    with pytest.raises(SandboxUnavailableError, match='namespaces "nowhere" not found'):
        async with make(namespace="nowhere"):
            pass
    with pytest.raises(SandboxUnavailableError, match="does not run: ErrImageNeverPull"):
        async with make(image="localhost/none:1", pull_policy="Never", open_timeout=30):
            pass


async def test_a_pod_that_somebody_deleted_is_missed(cluster, namespace, make):
    async with make() as sandbox:
        cluster.delete("pod", sandbox.name, namespace)
        with pytest.raises(SandboxError, match=f"pod '{sandbox.name}' is gone"):
            await sandbox.run("true")
