"""Chart, operator and command find each other's Secrets by name: each spells them, and alike."""

import re
from pathlib import Path

import yaml

from orbiter.cli.kubectl import artifacts, redis_forward, transcript_source
from orbiter.client import _records
from orbiter.server._internal import cluster_artifacts
from orbiter_operator.kube.names import SESSION_SECRETS
from orbiter_operator.namespaces.users import CHAT_SECRET, PRODUCER_SECRET, TRANSCRIPT_SECRET
from orbiter_operator.settings import Settings

CHART = Path(__file__).parents[2] / "helm" / "orbiter"


def defined(file: str, name: str) -> str:
    """What a template of one line says."""
    text = (CHART / "templates" / file).read_text()
    found = re.search(rf'define "{re.escape(name)}" -?}}}}(.*?){{{{-? end', text, re.DOTALL)
    assert found, f"{file} defines no {name}"
    return found[1].strip()


def test_a_namespace_has_the_secrets_that_the_operator_and_the_command_look_for():
    developer, chat, *others = defined("_namespace.tpl", "orbiter.namespace.secrets").split(",")
    assert (chat, *others) == (CHAT_SECRET, PRODUCER_SECRET, TRANSCRIPT_SECRET)
    assert TRANSCRIPT_SECRET == transcript_source.SECRET
    assert chat == redis_forward.SECRET
    assert cluster_artifacts.SECRETS == artifacts._SECRETS == _records.OUTPUTS
    assert cluster_artifacts.SECRETS[0][0] == PRODUCER_SECRET
    assert cluster_artifacts.SECRETS[1][0] == redis_forward.SHARED_SECRET
    assert f'ternary "{developer}"' in defined("_namespace.tpl", "orbiter.worker.secret")


def test_the_secret_that_namespaces_share_has_one_name():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    name = Settings.model_fields["redis_secret_name"].default
    assert values["workers"]["redisSecretName"] == name
    assert name == redis_forward.SHARED_SECRET


def test_the_secrets_of_sessions_are_those_that_the_chart_protects():
    assert f'"{SESSION_SECRETS}*"' in defined("_helpers.tpl", "orbiter.protectedSecrets")
