"""Settings: from the environment, checked at once, explained by --help, silent about secrets."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from orbiter_operator.settings import Settings


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orbiter_operator", *arguments],
        env={"PATH": "", "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_lists_are_written_with_commas_and_maps_as_json(monkeypatch):
    monkeypatch.setenv("ORBITER_WATCH_NAMESPACES", "team-a, team-b,")
    monkeypatch.setenv("ORBITER_MAX_CONCURRENT_JOBS_BY_NAMESPACE", '{"team-a": 2}')
    settings = Settings()
    assert settings.watch_namespaces == ("team-a", "team-b")
    assert (settings.job_limit("team-a"), settings.job_limit("team-b")) == (2, 20)


def test_secrets_and_service_accounts_are_lists_too(monkeypatch):
    monkeypatch.setenv("ORBITER_PROTECTED_SECRETS", "a,b.*")
    monkeypatch.setenv("ORBITER_ALLOWED_SERVICE_ACCOUNTS", "")
    settings = Settings()
    assert (settings.protected_secrets, settings.allowed_service_accounts) == (("a", "b.*"), ())


def test_a_field_that_no_pod_template_can_have_is_refused_with_an_example(monkeypatch):
    monkeypatch.setenv("ORBITER_POD_TEMPLATE_FIELDS", "spec.volumes[].configMap,spec.dnsConfig")
    assert Settings().pod_template_fields == ("spec.volumes[].configMap", "spec.dnsConfig")
    monkeypatch.setenv("ORBITER_POD_TEMPLATE_FIELDS", "volumes")
    with pytest.raises(ValidationError, match=r"'volumes' is no path .* spec\.dnsConfig"):
        Settings()


def test_a_pod_template_by_which_no_worker_is_safe_ends_the_start_with_a_sentence():
    done = program(ORBITER_WORKER_POD_TEMPLATE='{"spec": {"hostPID": true}}')
    assert done.returncode == 2
    assert "workers.podTemplate.default.spec.hostPID is True" in done.stderr


def test_no_namespaces_means_all(monkeypatch):
    monkeypatch.setenv("ORBITER_WATCH_NAMESPACES", "")
    assert Settings().watch_namespaces == ()


def test_the_address_of_redis_is_shown_without_its_password():
    settings = Settings(redis_url="redis://operator:s3cret@host:6379/0")
    assert settings.redis_address == "redis://host:6379/0"


def test_a_wrong_redis_url_is_not_repeated():
    with pytest.raises(ValidationError) as caught:
        Settings(redis_url="http://operator:s3cret@host")
    assert "s3cret" not in str(caught.value.errors(include_input=False))


def test_help_teaches_every_setting():
    shown = program("--help").stdout
    for name, field in Settings.model_fields.items():
        assert f"ORBITER_{name.upper()} [" in shown
        assert field.description in shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ORBITER_METRICS_PORT", "many"),
        ("ORBITER_REDIS_URL", "http://operator:s3cret@host"),
        ("ORBITER_MAX_CONCURRENT_JOBS", "0"),
        ("ORBITER_LOG_LEVEL", "loud"),
        ("ORBITER_WORKER_IMAGES", "not json"),
        ("ORBITER_WORKER_IMAGES", '{"cursor": "an/image:1"}'),
        ("ORBITER_ADOPT_AGENT", '{"type": "clippy"}'),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it_and_exit_code_2(name, value):
    ended = program(**{name: value})
    assert ended.returncode == 2
    (line,) = ended.stderr.strip().splitlines()
    assert name in line
    assert "s3cret" not in line


def test_an_unknown_agent_type_is_answered_with_those_there_are():
    for setting in (
        {"worker_images": {"cursor": "an/image:1"}},
        {"adopt_agent": {"type": "cursor"}},
    ):
        with pytest.raises(ValidationError, match="'cursor'; write one of claude, codex, factory"):
            Settings(**setting)


def test_no_way_to_the_api_server_is_one_line_and_exit_code_2():
    ended = program(ORBITER_HEALTH_PORT="0", ORBITER_METRICS_PORT="0")
    assert ended.returncode == 2
    assert "KUBECONFIG" in ended.stderr.strip().splitlines()[-1]


def test_a_kubeconfig_that_is_not_there_is_named():
    ended = program(ORBITER_HEALTH_PORT="0", ORBITER_METRICS_PORT="0", KUBECONFIG="/no/such")
    assert ended.returncode == 2
    assert "/no/such" in ended.stderr
