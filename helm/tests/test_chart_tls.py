"""What helm makes of TLS: one certificate, `rediss://` and the CA for all parts, and HTTPS."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from support.cluster import Cluster, CommandError, Object
from support.manifests import read_manifests

from .test_chart_render import environment, plan

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
CA = "redis.tls.ca=PEM"
GIVEN = ("redis.tls.enabled=true", "redis.tls.existingSecret=redis-certificate", CA)
ISSUED = (
    *("redis.tls.enabled=true", CA),
    *("redis.tls.certManager.issuerRef.name=ours", "redis.tls.certManager.issuerRef.kind=Issuer"),
)
SERVER = ("server.enabled=true", "server.agents.helper.model=m", "server.tls.existingSecret=https")


def render(cluster: Cluster, *settings: str) -> list[Object]:
    flags = [word for setting in settings for word in ("--set", setting)]
    text = cluster.helm("template", "orbiter", str(CHART), "-n", "orbiter-system", *flags)
    return read_manifests(text)


def only(items: list[Object], kind: str, name: str) -> Object:
    [found] = [i for i in items if (i["kind"], i["metadata"]["name"]) == (kind, name)]
    return found


def pod(items: list[Object], kind: str, name: str) -> Object:
    spec: Object = only(items, kind, name)["spec"]["template"]["spec"]
    return spec


def volume(spec: Object, name: str) -> Object:
    [found] = [item for item in spec["volumes"] if item["name"] == name]
    secret: Object = found["secret"]
    return secret


@pytest.mark.parametrize(
    ("settings", "secret"),
    [(GIVEN, "redis-certificate"), (ISSUED, "orbiter-redis-tls")],
)
def test_redis_talks_tls_only(cluster: Cluster, settings: tuple[str, ...], secret: str) -> None:
    items = render(cluster, *settings)
    lines = only(items, "ConfigMap", "orbiter-redis")["data"]["redis.conf"].splitlines()
    assert "port 0" in lines
    assert "tls-port 6379" in lines
    assert "tls-auth-clients no" in lines
    spec = pod(items, "StatefulSet", "orbiter-redis")
    assert volume(spec, "tls")["secretName"] == secret
    [container] = spec["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert "redis-cli --tls " in container[probe]["exec"]["command"][-1]


def test_all_parts_have_a_url_with_tls_and_the_ca_beside_it(cluster: Cluster) -> None:
    items = render(cluster, *GIVEN, "redis.users=Static")
    told = plan(items)["default", "orbiter-redis"].texts
    assert told["ca.crt"] == "PEM"
    for url in (environment(items)["ORBITER_REDIS_URL"], told["developer-url"]):
        parts = urlsplit(url)
        assert (parts.scheme, parts.hostname) == ("rediss", "orbiter-redis.orbiter-system.svc")
        assert parts.query == "ssl_ca_certs=/etc/orbiter/redis/ca.crt"
    # Of a front end the chart knows neither the files nor which options its library takes.
    chat = urlsplit(told["chat-url"])
    assert (chat.scheme, chat.query) == ("rediss", "")


def test_a_ca_that_nobody_gives_is_taken_from_the_certificates_secret(cluster: Cluster) -> None:
    items = render(cluster, *GIVEN[:2], "redis.users=Static")
    told = plan(items)["default", "orbiter-redis"]
    assert told.files == {"ca.crt": Path("/etc/orbiter/redis/ca.crt")}
    source = {"secretName": "redis-certificate", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    assert volume(pod(items, "Deployment", "orbiter-operator"), "redis-ca") == source
    job = pod(items, "Job", "orbiter-make-secrets")
    assert volume(job, "redis-ca") == source | {"optional": True}
    [container] = job["containers"]
    assert container["volumeMounts"][0]["mountPath"] == "/etc/orbiter/redis"


def test_the_operator_finds_the_ca_and_gives_workers_theirs(cluster: Cluster) -> None:
    items = render(cluster, *GIVEN)
    spec = pod(items, "Deployment", "orbiter-operator")
    [container] = spec["containers"]
    variables = {item["name"]: item.get("value") for item in container["env"]}
    assert variables["ORBITER_REDIS_CA_KEY"] == "ca.crt"
    assert "redis-certificate" in str(variables["ORBITER_PROTECTED_SECRETS"]).split(",")
    [ca] = [item for item in spec["volumes"] if item["name"] == "redis-ca"]
    assert ca["configMap"] == {"name": "orbiter-redis-ca"}
    assert only(items, "ConfigMap", "orbiter-redis-ca")["data"] == {"ca.crt": "PEM"}
    mount = {"name": "redis-ca", "mountPath": "/etc/orbiter/redis", "readOnly": True}
    assert mount in container["volumeMounts"]


def test_cert_manager_is_asked_for_the_name_in_the_urls(cluster: Cluster) -> None:
    spec = only(render(cluster, *ISSUED), "Certificate", "orbiter-redis")["spec"]
    assert spec["issuerRef"] == {"name": "ours", "kind": "Issuer"}
    assert spec["secretName"] == "orbiter-redis-tls"
    assert spec["dnsNames"][0] == "orbiter-redis.orbiter-system.svc"
    assert "Certificate" not in {item["kind"] for item in render(cluster, *GIVEN)}


def test_without_tls_nothing_of_it_is_there(cluster: Cluster) -> None:
    text = yaml.safe_dump_all(
        item for item in render(cluster) if item["kind"] != "CustomResourceDefinition"
    )
    for word in ("tls", "ca.crt", "redis-ca", "CA_KEY", "--tls"):
        assert word not in text


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (("redis.tls.enabled=true", CA), "redis.tls.enabled without a certificate: name a Secret"),
        ((*ISSUED, "redis.tls.existingSecret=mine"), "both say where the certificate comes from"),
        ((*GIVEN, "redis.external.existingSecret=mine"), "say TLS in its URL, rediss://"),
    ],
)
def test_tls_that_cannot_work_is_refused_with_what_to_do(
    cluster: Cluster, settings: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        render(cluster, *settings)


def test_an_external_redis_may_have_a_ca_of_its_own_and_sentinels(cluster: Cluster) -> None:
    items = render(
        cluster,
        *("redis.external.existingSecret=mine", "redis.external.caKey=ca.crt"),
        "redis.external.sentinelPort=26379",
    )
    spec = pod(items, "Deployment", "orbiter-operator")
    assert volume(spec, "redis-ca")["secretName"] == "mine"
    for name in ("orbiter-operator", "orbiter-worker"):
        ports = [
            [port["port"] for port in rule["ports"]]
            for rule in only(items, "NetworkPolicy", name)["spec"]["egress"]
        ]
        assert [6379, 26379] in ports


def test_the_server_serves_https_with_a_secret_of_its_own(cluster: Cluster) -> None:
    items = render(cluster, *SERVER, "metrics.serviceMonitor.enabled=true")
    spec = pod(items, "Deployment", "orbiter-server")
    [container] = spec["containers"]
    assert {"--tls-certificate=/etc/orbiter/tls/tls.crt", "--tls-key=/etc/orbiter/tls/tls.key"} < {
        *container["args"]
    }
    assert volume(spec, "tls")["secretName"] == "https"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    [endpoint] = only(items, "ServiceMonitor", "orbiter-server")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == "orbiter-server.orbiter-system.svc"
