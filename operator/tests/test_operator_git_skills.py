"""Skills of repositories: who of a pod fetches them and has their Secrets, what is told of them."""

import json

import pytest
from support.observed import NOW, decide, job, observed, spec
from support.observed import pod as pod_facts

from orbiter_contracts.skills import FetchedSkill, GitSkills, fetched_report, read_fetched
from orbiter_operator.kube.models import Agent
from orbiter_operator.pods.agent import CREDENTIALS
from orbiter_operator.pods.reasons import why_ended_silently, why_not_ready
from orbiter_operator.pods.rules import pod_error
from orbiter_operator.pods.state import PodState, pod_state
from orbiter_operator.pods.template import Object, WorkerDefaults
from orbiter_operator.profiles.models import CLUSTER, NAMESPACED, ProfileSpec
from orbiter_operator.profiles.wiring import profile_error
from orbiter_operator.sessions.deployment import build_template
from orbiter_operator.sessions.models import SessionSpec
from orbiter_operator.streams.pending_outputs import AttemptRecord
from orbiter_operator.tasks.job import build_job

DEFAULTS = WorkerDefaults(
    images=dict.fromkeys(CREDENTIALS, "worker:1"),
    pull_policy="IfNotPresent",
    redis_secret="orbiter-redis",
    service_account="orbiter-worker",
    resources={"limits": {"memory": "1Gi"}},
    grace_seconds=60,
    job_ttl_seconds=3600,
    template_fields=("spec.volumes", "spec.containers[worker].volumeMounts"),
)
URL = "https://git.example.com/team/skills.git"
COMMIT = "0123456789" * 4
NOTES = {"name": "notes", "git": {"url": URL, "ref": "v1", "path": "skills/$(HOME)"}}
LETTERS = {"name": "letters", "git": {"url": URL, "credentialsSecretRef": {"name": "git-key"}}}
MAILS = {"name": "mails", "git": {"url": URL, "credentialsSecretRef": {"name": "other"}}}
POEMS = {"name": "poems", "git": {"url": URL, "credentialsSecretRef": {"name": "git-key"}}}
HOUSE = {"name": "house", "configMapRef": {"name": "house"}}
SKILLS = (HOUSE, NOTES, LETTERS, MAILS, POEMS)


def pod(*skills: Object, template: Object | None = None, **workspace: object) -> Object:
    task = spec(agent={"skills": skills}, workspace=workspace, podTemplate=template)
    assert pod_error(task.agent, task.workspace, task.pod_template or {}, DEFAULTS) is None
    made: Object = build_job(observed(spec=task), 1, "7-0", DEFAULTS)["spec"]["template"]["spec"]
    return made


def mounts(container: Object) -> dict[str, Object]:
    return {item["mountPath"]: item for item in container["volumeMounts"]}


def environment(container: Object) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in container["env"]}


def test_one_container_fetches_all_of_them_before_any_other_of_ours():
    secret = {"name": "workspace-key"}
    found = pod(*SKILLS, git={"url": URL, "push": "Always", "credentialsSecretRef": secret})
    names = [item["name"] for item in found["initContainers"]]
    assert names == ["git-skills", "git-clone", "git-push"]
    [fetching, clone, push] = found["initContainers"]
    assert (fetching["args"], fetching["image"]) == (["skills"], "worker:1")
    assert fetching["securityContext"]["readOnlyRootFilesystem"] is True
    assert "restartPolicy" not in fetching
    told = GitSkills.model_validate_json(environment(fetching)["GIT_SKILLS"]).root
    assert [(each.name, each.ref, each.path, each.credentials) for each in told] == [
        ("notes", "v1", "skills/$$(HOME)", None),
        ("letters", None, None, 0),
        ("mails", None, None, 1),
        ("poems", None, None, 0),
    ]
    for other in (clone, push):
        assert "git-skills" not in json.dumps(other)


def test_their_secrets_are_mounted_there_and_nowhere_else():
    found = pod(*SKILLS)
    secrets = {
        item["name"]: item["secret"]["secretName"] for item in found["volumes"] if "secret" in item
    }
    assert secrets == {"git-skills-secret-0": "git-key", "git-skills-secret-1": "other"}
    [fetching], [worker] = found["initContainers"], found["containers"]
    have = mounts(fetching)
    assert have["/run/secrets/git-skills/1"]["name"] == "git-skills-secret-1"
    assert all(item["readOnly"] for path, item in have.items() if path.startswith("/run/secrets"))
    for word in ("git-skills", "git-key", "GIT_SKILLS", "CREDENTIALS_DIR"):
        assert word not in json.dumps(worker).replace("agent-git-skills", "")


def test_the_worker_has_each_where_one_of_a_config_map_would_be_and_writes_none():
    [worker] = pod(*SKILLS)["containers"]
    assert environment(worker)["AGENT_SKILLS_DIR"] == "/run/agent-skills"
    have = mounts(worker)
    assert have["/run/agent-skills/house"]["name"] == "agent-skill-house"
    assert have["/run/agent-skills/notes"] == {
        "name": "agent-git-skills",
        "mountPath": "/run/agent-skills/notes",
        "subPath": "notes",
        "readOnly": True,
    }


def test_without_one_of_them_a_pod_is_as_it_was():
    found = pod(HOUSE)
    assert "initContainers" not in found
    assert "git-skills" not in json.dumps(found)


def test_a_session_has_them_too():
    said = SessionSpec.model_validate({"userId": 7, "agent": {"skills": [LETTERS]}})
    made = build_template("team", "s", "u", "team.s", said, DEFAULTS, ("orbiter-redis", "po-url"))
    assert [item["name"] for item in made["spec"]["initContainers"]] == ["git-skills"]


GIT = {"url": URL}


@pytest.mark.parametrize(
    ("skill", "words"),
    [
        ({"name": "../../x", "git": GIT}, "skills[0].name: is no name of a skill"),
        ({"name": "a"}, "skills[0]: write configMapRef or git, one of them"),
        ({"name": "a", "git": GIT, "configMapRef": {"name": "c"}}, "configMapRef or git, one of"),
        ({"name": "a", "git": {}}, "skills[0].git.url: Field required"),
        ({"name": "a", "git": {"url": "file:///etc"}}, "write an https://, http://, ssh://"),
        ({"name": "a", "git": {"url": "/srv/x"}}, "write an https://, http://, ssh://"),
        ({"name": "a", "git": {"url": "ext::sh -c id"}}, "write an https://, http://, ssh://"),
        ({"name": "a", "git": {"url": "https://-x/y"}}, "write an https://, http://, ssh://"),
        ({"name": "a", "git": {"url": "-x@host:y"}}, "write an https://, http://, ssh://"),
        ({"name": "a", "git": {"url": "https://u:pw@x/y"}}, "the URL contains credentials"),
        ({"name": "a", "git": {"url": "ssh://u:pw@x/y"}}, "the URL contains credentials"),
        ({"name": "a", "git": {**GIT, "ref": "-x"}}, "skills[0].git.ref: write the name of a"),
        ({"name": "a", "git": {**GIT, "ref": "a b"}}, "skills[0].git.ref: write the name of a"),
        ({"name": "a", "git": {**GIT, "path": "../x"}}, "skills[0].git.path: write a directory"),
        ({"name": "a", "git": {**GIT, "path": "/etc"}}, "skills[0].git.path: write a directory"),
        (
            {"name": "a", "git": {**GIT, "credentialsSecretRef": {"name": "A/b"}}},
            "skills[a].git.credentialsSecretRef.name is 'A/b', which is no name",
        ),
        (
            {"name": "a", "git": {**GIT, "credentialsSecretRef": {"name": "orbiter-redis"}}},
            "skills[a].git.credentialsSecretRef.name is 'orbiter-redis', a Secret of Orbiter",
        ),
    ],
)
def test_what_cannot_be_is_refused_of_a_task_and_of_both_kinds_of_profiles(skill, words):
    agent = Agent.model_validate({"skills": [skill]})
    said = ProfileSpec.model_validate({"agent": {"skills": [skill]}})
    found = [pod_error(agent, spec().workspace, {}, DEFAULTS)]
    found += [profile_error(kind, said, DEFAULTS) for kind in (NAMESPACED, CLUSTER)]
    for why in found:
        assert why is not None
        assert words in why
        assert "pw" not in why


@pytest.mark.parametrize("name", ["agent-git-skills", "git-skills-private"])
def test_no_other_pod_writes_where_git_has_a_credential(name):
    shared = {"name": name, "emptyDir": None, "persistentVolumeClaim": {"claimName": "all"}}
    said = spec(agent={"skills": [LETTERS]}, podTemplate={"spec": {"volumes": [shared]}})
    why = pod_error(said.agent, said.workspace, said.pod_template or {}, DEFAULTS)
    assert "where other pods can write while git has agent.skills" in str(why)


def test_what_a_pod_template_adds_for_certificates_is_there_for_git_too():
    mount = {"name": "certificates", "mountPath": "/etc/certificates"}
    template = {
        "spec": {
            "volumes": [{"name": "certificates", "configMap": {"name": "certificates"}}],
            "containers": [{"name": "worker", "volumeMounts": [mount]}],
        }
    }
    [fetching] = pod(NOTES, template=template)["initContainers"]
    assert mounts(fetching)["/etc/certificates"] == {**mount, "readOnly": True}


WAITING = {"waiting": {"reason": "PodInitializing"}}


def facts(state: Object, phase: str = "Pending", *, restarts: int = 0) -> PodState:
    """What a pod says whose first container is in this state."""
    first = {"name": "git-skills", "image": "worker:1", "restartCount": restarts, **state}
    status = {
        "phase": phase,
        "initContainerStatuses": [first],
        "containerStatuses": [{"name": "worker", "image": "worker:1", "state": WAITING}],
    }
    meta = {"name": "p", "creationTimestamp": "2026-01-02T03:04:05Z"}
    return pod_state({"metadata": meta, "spec": {}, "status": status}, owner="u")


def ended(code: int, message: object) -> Object:
    return {"terminated": {"exitCode": code, "reason": "Error", "message": message}}


WHY = f"agent.skills[notes]: {URL} has no branch or tag 'v9'"


def test_a_skill_that_cannot_be_had_fails_the_attempt_with_its_reason():
    found = facts({"state": ended(1, WHY)}, "Failed")
    over = job().model_copy(update={"state": "failed"})
    why = why_ended_silently(over, (found,), AttemptRecord(entry="7-0"))
    assert (why.reason, why.message) == ("SkillsError", WHY)
    assert found.began is None


def test_of_a_session_it_is_why_it_does_not_wake_and_passes_when_the_repository_is_back():
    again = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    state = {"state": again, "lastState": ended(1, WHY)}
    why = why_not_ready(facts(state, restarts=9), NOW, NOW - NOW)
    assert why is not None
    assert (why.reason, why.message, why.lasting) == ("SkillsError", WHY, False)


def test_one_that_was_killed_for_its_memory_says_so():
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": ""}}
    over = job().model_copy(update={"state": "failed"})
    found = facts({"state": killed}, "Failed")
    why = why_ended_silently(over, (found,), AttemptRecord(entry="7-0"))
    assert why.reason == "OOMKilled"


REPORT = fetched_report({"notes": COMMIT, "letters": COMMIT[::-1]})


def test_the_commits_are_in_the_tasks_status():
    found = facts({"state": ended(0, REPORT)}, "Running")
    assert [(each.name, each.commit) for each in found.skills] == [
        ("notes", COMMIT),
        ("letters", COMMIT[::-1]),
    ]
    works = pod_facts(phase="Running", running_since=NOW, skills=found.skills)
    record = AttemptRecord(entry="7-0")
    plan = decide(observed(jobs=(job(),), pods=(works,), record=record, record_attempt=1))
    assert plan.status is not None
    told = plan.status.to_api()["skills"]
    assert told[0] == {"name": "notes", "commit": COMMIT}


@pytest.mark.parametrize(
    "message",
    [
        *(None, 7, "", "no JSON", "{}", "[1]", "[" * 4000, "x" * 5000),
        '[{"name": "../x", "commit": "' + COMMIT + '"}]',
        '[{"name": "notes", "commit": "none"}]',
        json.dumps([{"name": "notes", "commit": COMMIT}] * 21),
    ],
)
def test_words_that_are_no_report_tell_nothing(message):
    assert facts({"state": ended(0, message)}).skills == ()


def test_a_report_of_all_that_there_may_be_has_room():
    most = {f"{number:02}{'n' * 49}": "a" * 64 for number in range(20)}
    assert len(read_fetched(fetched_report(most))) == 20
    assert FetchedSkill(name="notes", commit=COMMIT) in read_fetched(REPORT)
