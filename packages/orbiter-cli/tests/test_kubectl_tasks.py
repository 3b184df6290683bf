"""`kubectl orbiter` and AgentTasks: what is sent to the API server, and what a person reads."""

import json

import pytest
from support.fake_kubectl import FakeKubectl, a_session, a_task, an_object, kubectl
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.submit import slug

__all__ = ["kubectl"]


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)


def spec_of(kubectl: FakeKubectl, name: str) -> dict[str, object]:
    spec: dict[str, object] = kubectl.get("AgentTask", name)["spec"]
    return spec


def test_submit_creates_a_task_whose_name_says_what_it_is_about(kubectl: FakeKubectl) -> None:
    result = run("submit", "Fix the login page!")
    assert result.exit_code == 0
    assert result.stdout == "agenttask/fix-the-login-page-x7k2p created\n"
    spec = spec_of(kubectl, "fix-the-login-page-x7k2p")
    assert spec == {
        "prompt": "Fix the login page!",
        "agent": {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}},
    }


def test_submit_leaves_the_agent_to_the_namespaces_default_profile(kubectl: FakeKubectl) -> None:
    kubectl.has(an_object("AgentProfile", "default", spec={"agent": {"type": "codex"}}))
    assert run("submit", "Fix it", "--name", "profiled").exit_code == 0
    assert spec_of(kubectl, "profiled") == {"prompt": "Fix it", "profileRef": {"name": "default"}}
    assert run("submit", "Fix it", "--name", "own", "--agent", "gemini").exit_code == 0
    assert spec_of(kubectl, "own")["agent"] == {
        "type": "gemini",
        "credentialsSecretRef": {"name": "gemini-credentials"},
    }


def test_submit_leaves_the_agent_to_the_clusters_default_where_the_namespace_has_none(
    kubectl: FakeKubectl,
) -> None:
    kubectl.has(an_object("ClusterAgentProfile", "default"))
    assert run("submit", "Fix it", "--name", "of-all").exit_code == 0
    reference = {"kind": "ClusterAgentProfile", "name": "default"}
    assert spec_of(kubectl, "of-all") == {"prompt": "Fix it", "profileRef": reference}
    kubectl.has(an_object("AgentProfile", "default"))
    assert run("submit", "Fix it", "--name", "of-ours").exit_code == 0
    assert spec_of(kubectl, "of-ours") == {"prompt": "Fix it", "profileRef": {"name": "default"}}


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Fix the login page, please: it is blank after", "fix-the-login-page-please-it-is-blank"),
        ("修理", "task"),
        ("-- [[ ]]", "task"),
        ("a" * 90, "a" * 40),
    ],
)
def test_a_name_is_made_of_whole_words(prompt: str, name: str) -> None:
    assert slug(prompt) == name


def test_a_prompt_is_on_no_command_line(kubectl: FakeKubectl) -> None:
    run("submit", "the password is hunter2", "--name", "secret")
    assert spec_of(kubectl, "secret")["prompt"] == "the password is hunter2"
    assert not any("hunter2" in " ".join(call.argv) for call in kubectl.calls)


@pytest.mark.parametrize("words", [(), ("-",), ("--file", "-")])
def test_submit_reads_the_prompt_from_stdin(kubectl: FakeKubectl, words: tuple[str, ...]) -> None:
    assert run("submit", "--name", "piped", *words, stdin="do\nthis\n").exit_code == 0
    assert spec_of(kubectl, "piped")["prompt"] == "do\nthis"


def test_submit_reads_the_prompt_from_a_file(kubectl: FakeKubectl, tmp_path) -> None:
    (tmp_path / "prompt.md").write_text("# Do this\n")
    run("submit", "--name", "filed", "-f", str(tmp_path / "prompt.md"))
    assert spec_of(kubectl, "filed")["prompt"] == "# Do this"


def test_every_option_has_its_place_in_the_spec(kubectl: FakeKubectl) -> None:
    options = [
        *("--name", "full", "--agent", "codex", "--model", "big", "--credentials", "mine"),
        *("--system-prompt", "be brief", "--max-turns", "9", "--max-cost", "1.5"),
        *("--git-url", "https://git.example.com/shop.git", "--git-ref", "main"),
        *("--git-branch", "fix", "--git-credentials", "git", "--push"),
        *("--task-timeout", "1h30m", "--retries", "2", "--ttl", "1d"),
        *("--depends-on", "first", "--depends-on", "at/second", "--project", "shop"),
        *("--concurrency-key", "agents/fix"),
    ]
    assert run("submit", "go", *options).exit_code == 0
    assert spec_of(kubectl, "full") == {
        "prompt": "go",
        "agent": {
            "type": "codex",
            "model": "big",
            "maxTurns": 9,
            "maxCostUSD": 1.5,
            "systemPrompt": "be brief",
            "credentialsSecretRef": {"name": "mine"},
        },
        "workspace": {
            "git": {
                "url": "https://git.example.com/shop.git",
                "ref": "main",
                "branch": "fix",
                "push": "Always",
                "credentialsSecretRef": {"name": "git"},
            }
        },
        "timeoutSeconds": 5400,
        "retry": {"limit": 2},
        "ttlSecondsAfterFinished": 86400,
        "dependsOn": ["first", "second"],
        "concurrencyKey": "agents/fix",
        "projectId": "shop",
    }


def test_with_a_profile_only_what_is_given_is_said(kubectl: FakeKubectl) -> None:
    run("submit", "go", "--name", "short", "--profile", "house")
    short = {"prompt": "go", "profileRef": {"name": "house"}}
    assert spec_of(kubectl, "short") == short
    run("submit", "go", "--name", "own", "--profile", "house", "--agent", "codex", "--model", "m")
    assert spec_of(kubectl, "own")["agent"] == {
        "type": "codex",
        "model": "m",
        "credentialsSecretRef": {"name": "codex-credentials"},
    }
    run("submit", "go", "--name", "key", "--profile", "house", "--credentials", "mine")
    assert spec_of(kubectl, "key")["agent"] == {"credentialsSecretRef": {"name": "mine"}}


def test_a_profile_of_the_cluster_is_named_with_a_word_before_it(kubectl: FakeKubectl) -> None:
    assert run("submit", "go", "--name", "short", "--profile", "cap/strict").exit_code == 0
    reference = {"kind": "ClusterAgentProfile", "name": "strict"}
    assert spec_of(kubectl, "short") == {"prompt": "go", "profileRef": reference}
    for wrong, said in (
        ("namespace/strict", "write NAME for an AgentProfile, or cap/NAME for a ClusterAgent"),
        ("clusteragentprofiles.orbiter.dev/Strict", "'Strict' is not the name of an object"),
    ):
        refused = run("submit", "go", "--profile", wrong)
        assert refused.exit_code == 2
        assert said in " ".join(refused.stderr.split())


def test_no_credentials_and_no_retries_can_be_said(kubectl: FakeKubectl) -> None:
    run("submit", "go", "--name", "bare", "--credentials", "", "--retries", "0")
    assert spec_of(kubectl, "bare")["agent"] == {"type": "claude"}
    assert spec_of(kubectl, "bare")["retry"] == {"limit": 0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["go", "--agent", "cursor"], "--agent cursor: unknown agent type; write one of claude, "),
        (["go", "--git-ref", "main"], "--git-url is missing"),
        (["go", "--task-timeout", "soon"], "'soon' is no duration"),
        (["go", "--name", "Not A Name"], "'Not A Name' is not the name of an object"),
        (["go", "--depends-on", "pod/x"], "no kind 'pod'"),
        (["   "], "a prompt is missing"),
        (["go", "-f", "prompt.md"], "not both"),
        (["-f", "/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_created(
    kubectl: FakeKubectl, words: list[str], said: str
) -> None:
    result = run("submit", *words)
    assert (result.exit_code, kubectl.objects) == (2, [])
    assert said in result.stderr


def test_a_dry_run_prints_the_manifest(kubectl: FakeKubectl) -> None:
    result = run("submit", "go", "--name", "dry", "--dry-run", "--json")
    assert json.loads(result.stdout)["metadata"] == {"name": "dry"}
    assert run("submit", "go", "--name", "dry", "--dry-run").stdout.startswith("apiVersion: orb")
    assert kubectl.calls == []


def test_a_name_that_is_taken_is_said(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task())
    result = run("submit", "go", "--name", "hello")
    assert result.exit_code == 1
    assert 'error: agenttasks.orbiter.dev "hello" already exists' in result.stderr


def pod(name: str, attempt: int | None = None, **labels: str) -> dict[str, object]:
    number = {} if attempt is None else {"orbiter.dev/attempt": str(attempt)}
    return an_object(
        "Pod",
        name,
        metadata={"labels": {**number, **labels}},
        status={"containerStatuses": [{"state": {"running": {}}}]},
    )


def test_logs_are_those_of_the_latest_attempt_or_the_one_that_is_named(
    kubectl: FakeKubectl, capfd
) -> None:
    mine = {"orbiter.dev/agenttask": "hello"}
    kubectl.has(a_task(phase="Running", attempts=2))
    kubectl.has(pod("hello-1-a", 1, **mine), pod("hello-2-b", 2, **mine))
    earlier = {**mine, "orbiter.dev/agenttask-uid": "of-an-earlier-hello"}
    kubectl.has(pod("hello-3-c", 3, **earlier))
    result = run("logs", "hello", "--tail", "5", "-f")
    assert result.exit_code == 0
    assert result.stderr == "attempt 2 of 2, pod hello-2-b\n"
    assert kubectl.calls[-1].argv == [
        *("logs", "hello-2-b", "--container=worker", "--follow", "--tail=5"),
    ]
    run("logs", "at/hello", "--attempt", "1")
    assert capfd.readouterr().out == "the log of hello-2-b\nthe log of hello-1-a\n"


def test_a_missing_log_is_explained(kubectl: FakeKubectl) -> None:
    kubectl.has(a_task(phase="Pending", message="waits for first"), a_session())
    pending = run("logs", "hello")
    assert (pending.exit_code, "no pod: waits for first" in pending.stderr) == (1, True)
    asleep = run("logs", "pos/alice")
    assert (asleep.exit_code, "alice is Asleep" in asleep.stderr) == (4, True)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Failed", "Completed"])
def test_a_pod_that_is_gone_is_said_to_be_gone_and_what_is_left_is_named(
    kubectl: FakeKubectl, phase: str
) -> None:
    began = "2026-01-10T12:00:00Z"
    kubectl.has(a_task(phase=phase, attempts=2, startTime=began, message="the agent works"))
    result = run("logs", "hello")
    assert result.exit_code == 1
    assert "the pod of attempt 2 of task hello is gone" in result.stderr
    assert f"the task is {phase}; what the agent said" in result.stderr
    assert result.stderr.endswith("kubectl orbiter transcript at/hello\n")
    assert "an hour" not in result.stderr
    first = run("logs", "hello", "--attempt", "1").stderr
    assert first.endswith("kubectl orbiter transcript at/hello --attempt 1\n")
    never = run("logs", "hello", "--attempt", "3")
    assert (never.exit_code, "has begun 2 attempts: there is no 3" in never.stderr) == (3, True)


def test_a_transcript_that_is_gone_too_is_not_named(kubectl: FakeKubectl) -> None:
    times = {"startTime": "2026-01-10T12:00:00Z", "completionTime": "2026-01-10T12:01:00Z"}
    kubectl.has(a_task(phase="Failed", attempts=1, **times))
    assert "transcript" not in run("logs", "hello").stderr
    kubectl.status("AgentTask", "hello", transcript={"store": {"bucket": "b"}})
    assert "kubectl orbiter transcript at/hello" in run("logs", "hello").stderr


def test_an_evicted_pod_without_a_log_is_told_with_what_is_left(
    kubectl: FakeKubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl.has(a_task(phase="Running", attempts=1, startTime="2026-01-10T12:00:00Z"))
    kubectl.has(pod("hello-1-a", 1, **{"orbiter.dev/agenttask": "hello"}))
    monkeypatch.setattr(Kubectl, "pass_through", lambda self, *words: 1)
    result = run("logs", "hello")
    assert result.exit_code == 1
    assert "kubectl gave no log of pod hello-1-a; what the agent said" in result.stderr


def test_describe_tells_a_task_with_its_conditions_and_events(kubectl: FakeKubectl) -> None:
    event = an_object("Event", "e-1", message="Completed after 4 s", reason="Completed")
    event |= {"involvedObject": {"uid": "uid-hello"}, "lastTimestamp": "2026-01-10T12:00:04Z"}
    condition = {"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "done"}
    kubectl.has(a_task(phase="Completed", reason="Succeeded", conditions=[condition]), event)
    shown = run("describe", "hello").stdout
    for text in ("hello in namespace default", "Completed (Succeeded)", "say hello", "30m"):
        assert text in shown
    assert "Succeeded  True (Succeeded)" in shown
    assert "Completed: Completed after 4 s" in shown


def test_describe_tells_the_profile_of_a_task_and_who_works_by_it(kubectl: FakeKubectl) -> None:
    task = a_task(phase="Pending", reason="ProfileMissing")
    task["spec"] = {"prompt": "go", "agent": {}, "profileRef": {"name": "house"}}
    kubectl.has(task)
    shown = " ".join(run("describe", "hello").stdout.split())
    assert "profile house, read when the first attempt begins" in shown
    assert "limits the profile's time for an attempt" in shown


def test_describe_tells_the_profile_that_a_task_has_begun_with(kubectl: FakeKubectl) -> None:
    used = {"name": "house", "generation": 3, "revision": "hello-profile-1"}
    task = a_task(phase="Running", profile=used, agent={"type": "codex", "model": "large"})
    task["spec"] = {"prompt": "go", "agent": {}, "profileRef": {"name": "house"}}
    kubectl.has(task)
    shown = " ".join(run("describe", "hello").stdout.split())
    assert "agent codex, large" in shown
    kept = "as it was at generation 3 (ControllerRevision hello-profile-1)"
    assert f"profile house, {kept}" in shown


def test_describe_tells_the_clusters_profile_and_what_a_profile_is_laid_over(
    kubectl: FakeKubectl,
) -> None:
    used = {"kind": "ClusterAgentProfile", "name": "strict", "generation": 3, "revision": "r"}
    kubectl.has(a_task(phase="Running", profile=used))
    shown = " ".join(run("describe", "hello").stdout.split())
    assert "profile cap/strict, as it was at generation 3 (ControllerRevision r)" in shown
    base = {"base": {"name": "default", "generation": 2}}
    kubectl.has(a_task(phase="Running", profile=used | base | {"kind": "AgentProfile"}))
    shown = " ".join(run("describe", "hello").stdout.split())
    assert "profile strict, as it was at generation 3, over ClusterAgentProfile default" in shown


def test_describe_tells_the_profile_of_a_session(kubectl: FakeKubectl) -> None:
    session = a_session("alice")
    session["spec"]["profileRef"] = {"kind": "ClusterAgentProfile", "name": "strict"}
    kubectl.has(session)
    shown = " ".join(run("describe", "alice").stdout.split())
    assert "profile cap/strict, read when it wakes" in shown


@pytest.mark.parametrize(
    ("reference", "code", "said"),
    [
        ("nobody", 3, "no AgentTask or POSession 'nobody' in namespace 'default'"),
        ("both", 2, "write at/both or pos/both"),
        ("deploy/x", 2, "there is no kind 'deploy' here"),
        ("--all", 2, "No such option"),
        ("UPPER", 2, "is not the name of an object"),
    ],
)
def test_a_reference_that_means_nothing_or_two_things_is_explained(
    kubectl: FakeKubectl, reference: str, code: int, said: str
) -> None:
    kubectl.has(a_task("both"), a_session("both"))
    result = run("describe", reference)
    assert result.exit_code == code
    assert said in result.stderr


@pytest.mark.parametrize("word", ["at", "agenttask", "agenttasks", "agenttasks.orbiter.dev"])
def test_a_reference_may_name_the_kind_as_kubectl_does(kubectl: FakeKubectl, word: str) -> None:
    kubectl.has(a_task("both"), a_session("both"))
    assert json.loads(run("usage", f"{word}/both", "--json").stdout)["kind"] == "AgentTask"


def test_a_command_says_which_kind_it_is_for(kubectl: FakeKubectl) -> None:
    result = run("watch", "pos/alice")
    assert (result.exit_code, kubectl.calls) == (2, [])
    assert "this command is for AgentTasks only" in result.stderr
