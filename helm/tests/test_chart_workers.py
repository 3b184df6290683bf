"""What every worker has by the chart: the example of its README, from the values to the Job."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster
from support.manifests import read_manifests
from support.observed import observed, spec

from orbiter_operator.pods.rules import installation_error
from orbiter_operator.pods.template import CREDENTIALS, WorkerDefaults
from orbiter_operator.tasks.job import build_job
from worker_wrapper.process.environment import agent_environment

CHART = Path(__file__).resolve().parents[1] / "orbiter"
DEFAULTS = WorkerDefaults(
    images=dict.fromkeys(CREDENTIALS, "worker:1"),
    pull_policy="IfNotPresent",
    redis_secret="orbiter-redis",
    service_account="orbiter-worker",
    resources={},
    grace_seconds=60,
    job_ttl_seconds=3600,
)


def example() -> dict[str, Any]:
    """The values that the README has for it."""
    chapter = (CHART / "README.md").read_text().split("### What every worker has")[1]
    [text] = re.findall(r"```yaml\n(.*?)```", chapter.split("\n## ")[0], re.DOTALL)
    values: dict[str, Any] = yaml.safe_load(text)
    return values


def test_a_companys_proxy_and_certificates_reach_the_agent_as_the_readme_has_them() -> None:
    defaults = DEFAULTS._replace(pod_template=example()["workers"]["podTemplate"]["default"])
    assert installation_error(defaults) is None
    pod = build_job(observed(spec=spec()), 1, "7-0", defaults)["spec"]["template"]["spec"]
    [worker] = [one for one in pod["containers"] if one["name"] == "worker"]
    assert {"name": "company-ca", "configMap": {"name": "company-ca"}} in pod["volumes"]
    [mount] = [one for one in worker["volumeMounts"] if one["name"] == "company-ca"]
    assert mount["readOnly"] is True
    environ = {one["name"]: one["value"] for one in worker["env"] if "value" in one}
    seen = agent_environment((), environ, Path("/workspace"))
    assert seen["HTTPS_PROXY"] == "http://proxy.example.com:3128"
    paths = {name: seen[name] for name in seen if "CA" in name or "CERT" in name}
    assert set(paths) == {"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "GIT_SSL_CAINFO"}
    assert {str(Path(path).parent) for path in paths.values()} == {mount["mountPath"]}


@pytest.mark.e2e
def test_the_example_is_told_to_the_operator_as_it_stands(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(example()))
    text = cluster.helm("template", "orbiter", str(CHART), "-n", "orbiter-system", "-f", str(file))
    items = read_manifests(text)
    [operator] = [one for one in items if one["kind"] == "Deployment"
                  and one["metadata"]["name"] == "orbiter-operator"]  # fmt: skip
    [container] = operator["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert (
        json.loads(told["ORBITER_WORKER_POD_TEMPLATE"])
        == (example()["workers"]["podTemplate"]["default"])
    )
