"""`kubectl orbiter watch`, as docs/transcripts.md shows it: the real CLIs edit, test and ask.

`make recordings` compares what a terminal shows now with docs/recordings, but for times, tokens and
money; `RECORD=1 make recordings` writes it anew.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.cluster import ROOT, Object
from support.installation import MODEL_URL, delete
from support.plugin import CALL_SECONDS, Plugin
from support.recording import Recording, the_same_every_time
from support.world import NAMESPACE, World, task

pytestmark = [pytest.mark.apart, pytest.mark.timeout(1200)]
RECORDINGS = ROOT / "docs" / "recordings"
BUILD_SECONDS = 590
PASSWORD = "only-for-tests"  # the one in manifests/git-server.yaml
URL = "http://git-server.orbiter-test.svc/{}.git"
BRANCH = "login"
QUESTION = "Who mistypes a password now sees why. Shall the page say which part was wrong?"
ANSWER = "No: only that it failed."
LOGIN = """\
def login(users, name, password):
    if users.get(name) == password:
        return f"Welcome, {name}."
    return ""
"""
TEST = """\
import unittest

from login import login


class Login(unittest.TestCase):
    def test_who_mistypes_a_password_is_told(self):
        self.assertIn("wrong", login({"ada": "x"}, "ada", "y"))


unittest.main()
"""
FIRST = '    return ""'
SECOND = '    return "The password is wrong."'
THIRD = '    return "Name or password is wrong."'
SETUP = f"""\
[[bash: cat > login.py <<'END'
{LOGIN}END
cat > test_login.py <<'END'
{TEST}END
git add -A && git commit -qm "A login"]]
[[result]]
"""
RUN = "[[bash: python3 test_login.py]]"
ASKS = f'[[result: {{"status": "input_required", "summary": "mended", "question": "{QUESTION}"}}]]'
DONE = '[[result: {"summary": "who cannot sign in is told so, and not what was wrong"}]]'


def edit(agent: str, old: str, new: str) -> str:
    """How an agent's program changes a line of login.py."""
    if agent == "claude":
        words = f'"old_string": {quoted(old)}, "new_string": {quoted(new)}'
        return f'[[tool: Edit {{"file_path": "/workspace/login.py", {words}}}]]'
    patch = f"*** Begin Patch\n*** Update File: login.py\n@@\n-{old}\n+{new}\n*** End Patch"
    return f"[[bash: apply_patch <<'PATCH'\n{patch}\nPATCH]]"


def quoted(text: str) -> str:
    """A text as JSON writes it."""
    return '"' + text.replace('"', '\\"') + '"'


def look(agent: str) -> str:
    """How it reads a file."""
    if agent == "claude":
        return '[[tool: Read {"file_path": "/workspace/login.py"}]]'
    return "[[bash: cat login.py]]"


def prompts(agent: str) -> tuple[str, str]:
    """What the scripted model does for the task, and for the answer."""
    first = (
        "[[say: I look at the login first.]]",
        look(agent),
        RUN,
        "[[say: Who mistypes a password sees an empty page; I mend it.]]",
        edit(agent, FIRST, SECOND),
        RUN,
        ASKS,
    )
    # what is not pushed is not there any more: a question ends the attempt
    then = (look(agent), edit(agent, FIRST, THIRD), RUN, DONE)
    return "\n".join(first), "\n".join(then)


def login_task(agent: str, name: str, prompt: str, **git: str) -> Object:
    """A task on the login's repository."""
    repository = {
        "url": URL.format(f"login-{agent}"),
        "credentialsSecretRef": {"name": "git-credentials"},
        **git,
    }
    made = task(name, prompt, workspace={"git": repository})
    if agent != "claude":
        secret = {"name": f"{agent}-credentials"}
        made["spec"]["agent"] = {"type": agent, "credentialsSecretRef": secret}
    return made


@pytest.fixture
def prepared(world: World, agent: str) -> str:
    """The agent's image, its key and a repository with something to mend."""
    command = [sys.executable, "images/build.py", "--only", f"worker-{agent}"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=BUILD_SECONDS, capture_output=True)
    secrets = {
        "git-credentials": {"username": "orbiter", "password": PASSWORD},
        "codex-credentials": {"CODEX_API_KEY": "scripted", "OPENAI_BASE_URL": f"{MODEL_URL}/v1"},
    }
    for name, data in secrets.items():
        metadata = {"name": name, "namespace": NAMESPACE}
        world.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
        )
    delete(world, NAMESPACE, "--wait=true")
    made = login_task("claude", "set-up", SETUP, branch=BRANCH, push="Always")
    made["spec"]["workspace"]["git"]["url"] = URL.format(f"login-{agent}")
    world.apply(made)
    world.wait("set-up", "Completed")
    world.cluster.delete("agenttask", "set-up", NAMESPACE)
    return agent


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_watching_an_agent_that_edits_tests_and_asks(
    world: World, prepared: str, agent: str
) -> None:
    plugin, recording = Plugin(world), Recording()
    first, then = prompts(agent)
    world.apply(login_task(agent, "mend-login", first, ref=BRANCH, branch="mended", push="Always"))

    def typed(*words: str, shown: str = "") -> int:
        command, environ = plugin.command(*words)
        shown = shown or " ".join(["kubectl", "orbiter", *words])
        return recording.run(shown, command, environ, seconds=CALL_SECONDS)

    assert typed("watch", "mend-login") == 4, recording.text
    # what is typed is the answer; what the scripted model is told has its script behind it
    line = f'kubectl orbiter answer mend-login "{ANSWER}"'
    assert typed("answer", "mend-login", f"{ANSWER}\n{then}", shown=line) == 0
    assert typed("watch", "mend-login") == 0, recording.text
    keep_or_compare(recording, f"watch-{agent}", f"kubectl orbiter watch, with {agent} at work")


def keep_or_compare(recording: Recording, name: str, title: str) -> None:
    """Write a recording, or hold it beside the one that is kept."""
    text, picture = RECORDINGS / f"{name}.txt", RECORDINGS / f"{name}.svg"
    if os.environ.get("RECORD"):
        text.write_text(recording.text)
        picture.write_text(recording.svg(title))
    shown = the_same_every_time(recording.text)
    assert shown == the_same_every_time(Path(text).read_text())
