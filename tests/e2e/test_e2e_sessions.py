"""Sessions on the real cluster with the real CLI: they sleep, wake, remember, and end."""

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from support.session_world import SessionWorld, clear_sessions, front_end, worker_id
from support.world import NAMESPACE, SYSTEM, World, worker_container

from orbiter_contracts.queues import BARE

RUN = uuid.uuid4().hex[:4]
NOW = ("--force", "--grace-period=0", "--wait=false")
OPERATOR = "app.kubernetes.io/component=operator"


@pytest.fixture(scope="module")
def talks(world: World) -> Iterator[SessionWorld]:
    clear_sessions(world)
    with front_end(world) as redis:
        yield SessionWorld(world, redis)
    clear_sessions(world)


class Phases:
    """What `kubectl get posessions -w` shows of one session."""

    def __init__(self, talks: SessionWorld, name: str) -> None:
        self.shown: list[str] = []
        self._talks = talks
        self._name = name
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        # What happens before the watch has begun would not be shown.
        talks.world.until(f"{name} is shown", lambda: self.shown)

    def until(self, phase: str, after: str) -> list[str]:
        """Wait until a phase is shown after another one; returns all so far."""

        def seen() -> bool:
            return after in self.shown and phase in self.shown[self.shown.index(after) :]

        self._talks.world.until(f"{self._name} is {phase} after {after}: {self.shown}", seen)
        return list(self.shown)

    def _watch(self) -> None:
        def note(status: dict[str, str]) -> bool:
            phase = status.get("phase", "")
            if phase and self.shown[-1:] != [phase]:
                self.shown.append(phase)
            return False

        try:
            self._talks.wait_until(self._name, note, seconds=60)
        except AssertionError:
            return


def test_a_session_wakes_for_a_message_answers_and_goes_back_to_sleep(
    talks: SessionWorld,
) -> None:
    name = f"wakes-{RUN}"
    talks.apply(name)
    talks.wait(name, "Asleep")
    assert talks.pods(name) == []
    phases = Phases(talks, name)
    answer = talks.ask(name, "[[say: good morning]]")
    assert (answer.status, answer.text) == ("success", "good morning")
    shown = phases.until("Asleep", after="Waking")
    assert shown[:2] == ["Asleep", "Waking"]
    assert set(shown[2:-1]) <= {"Ready", "Busy"}
    assert len(shown) <= 5, f"it flaps: {shown}"
    status = talks.status(name)
    assert (status["replicas"], status["pendingMessages"]) == (0, 0)
    talks.world.until("its pod is gone", lambda: talks.pods(name) == [])


def test_an_agent_remembers_after_a_sleep_a_deleted_pod_and_a_restarted_operator(
    talks: SessionWorld,
) -> None:
    name = f"recalls-{RUN}"
    talks.apply(name)
    talks.ask(name, "[[remember: the shop is called Kiosk 9]] [[say: noted]]")
    first = talks.status(name).get("sessionId")
    talks.wait(name, "Asleep")
    assert talks.ask(name, "[[say: still here]]").status == "success"
    for pod in talks.pods(name):
        talks.world.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], *NOW)
    talks.world.kubectl("-n", SYSTEM, "delete", "pods", "-l", OPERATOR, *NOW)
    answer = talks.ask(name, "[[recall]]")
    assert answer.text == "I remember: the shop is called Kiosk 9"
    assert first in (None, answer.session_id)
    status = talks.wait_until(name, lambda status: status.get("turns") == 3)
    assert status["sessionId"] == answer.session_id
    assert status["usage"]["costUSD"] > 0
    persisted = next(item for item in status["conditions"] if item["type"] == "Persisted")
    assert (persisted["status"], persisted["reason"]) == ("True", "SnapshotStored")


def test_a_change_of_a_sessions_profile_holds_from_the_next_wake_on(talks: SessionWorld) -> None:
    name = f"profiled-{RUN}"

    def say(turns: int) -> None:
        made = {
            "apiVersion": "orbiter.dev/v1alpha1",
            "kind": "AgentProfile",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"agent": {"maxTurns": turns}},
        }
        talks.world.apply(made)

    def limit() -> str | None:
        found = talks.world.cluster.get("deployment", name, NAMESPACE)
        [worker] = found["spec"]["template"]["spec"]["containers"]
        values: dict[str, str | None] = {each["name"]: each.get("value") for each in worker["env"]}
        return values.get("AGENT_MAX_TURNS")

    talks.apply(name, echo=True, idle=8, profileRef={"name": name})
    status = talks.wait_until(name, lambda status: status.get("phase"))
    assert "profile" not in status
    say(5)
    talks.ask(name, "one")
    assert limit() == "5"
    say(6)
    talks.ask(name, "two")
    assert limit() == "5"
    talks.wait(name, "Asleep")
    talks.ask(name, "three")
    talks.world.until("it has the new profile", lambda: limit() == "6")
    status = talks.wait_until(name, lambda status: status["profile"]["generation"] == 2)
    revision = status["profile"]["revision"]
    kept = talks.world.cluster.get("controllerrevision", revision, NAMESPACE)
    assert kept["metadata"]["ownerReferences"][0]["kind"] == "POSession"
    talks.world.cluster.delete("agentprofile", name, NAMESPACE)


def test_each_rotation_is_an_event_with_its_reason(talks: SessionWorld) -> None:
    name = f"rotates-{RUN}"
    talks.apply(name, idle=600, rotation={"afterIdleSeconds": 3, "maxTokens": 50_000})
    talks.ask(name, "[[remember: blue]] [[say: one]]")
    assert "remember nothing" in talks.ask(name, "/new [[recall]]").text
    # More than three seconds without a message, as long as it takes the session to be Ready again.
    talks.wait(name, "Ready")
    quiet = time.monotonic() + 3.5
    talks.world.until("it was idle", lambda: time.monotonic() > quiet)
    talks.ask(name, "[[usage: 60000 in, 10 out]] [[say: large]]")
    talks.ask(name, "[[say: after the large one]]")

    def reasons() -> list[str]:
        told = [message for reason, message in talks.events(name) if reason == "SessionRotated"]
        return [message.partition(":")[0] for message in told]

    talks.world.until(f"three rotations: {talks.events(name)}", lambda: len(reasons()) >= 3)
    assert set(reasons()) == {"Command", "Idle", "Tokens"}
    assert talks.status(name)["rotations"] == 3


def test_a_message_about_something_else_begins_a_new_session(talks: SessionWorld) -> None:
    name = f"topics-{RUN}"
    talks.apply(name, echo=True, idle=600, rotation={"topicSimilarity": 0.05})
    first = talks.ask(name, "The invoice of the web shop shows the wrong tax for books.")
    same = talks.ask(name, "Then correct the tax for books on the invoice of the shop.")
    other = talks.ask(name, "Which football team won yesterday evening in Lisbon?")
    assert first.session_id == same.session_id != other.session_id
    talks.wait_until(name, lambda status: status.get("rotations") == 1)
    [told] = [message for reason, message in talks.events(name) if reason == "SessionRotated"]
    assert told.startswith("Topic: ")


def test_a_streamed_answer_comes_in_pieces_in_their_order(talks: SessionWorld) -> None:
    name = f"streams-{RUN}"
    talks.apply(name, idle=600, streaming="Enabled")
    text = " ".join(f"word{n}" for n in range(60))
    request = talks.send(name, f"[[stream: 20 chunks over 2s]] [[say: {text}]]")
    final = talks.answer(name, request)
    assert (final.text, final.is_final) == (text, True)
    assert final.usage is not None
    pieces = [output for output in talks.outputs(name) if not output.is_final]
    assert len(pieces) > 2
    assert [piece.sequence for piece in pieces] == list(range(len(pieces)))
    assert final.sequence == len(pieces)
    assert "".join(piece.text for piece in pieces) == text


def test_a_suspended_session_keeps_its_messages_and_answers_them_in_order(
    talks: SessionWorld,
) -> None:
    name = f"pauses-{RUN}"
    talks.apply(name, idle=600)
    requests = [talks.send(name, "[[hang: 3s]] [[say: the long one]]")]
    state = BARE.po_state(worker_id(name))
    talks.world.until("its turn began", lambda: talks.redis.hget(state, "state") == "busy")
    talks.change(name, operatingMode="Suspended")
    hold = BARE.po_hold(worker_id(name))
    with talks.world.redis() as redis:
        talks.world.until("its worker is held", lambda: redis.exists(hold))
    requests += [talks.send(name, f"[[say: {word}]]") for word in ("two", "three")]
    talks.wait(name, "Suspended")
    talks.wait_until(name, lambda status: status.get("pendingMessages") == 2)
    talks.world.until("its pod is gone", lambda: talks.pods(name) == [])
    talks.answered_once(name, requests[:1])
    talks.change(name, operatingMode="Running")
    assert talks.answer(name, requests[-1]).text == "three"
    talks.answered_once(name, requests)


def test_a_deleted_session_leaves_nothing_and_a_retained_one_its_streams(
    talks: SessionWorld,
) -> None:
    gone, kept = f"gone-{RUN}", f"kept-{RUN}"
    talks.apply(gone, echo=True)
    talks.apply(kept, echo=True, retainPolicy="Retain")
    for name in (gone, kept):
        talks.ask(name, "hello")
    talks.world.kubectl("-n", NAMESPACE, "delete", "posession", gone, kept)
    with talks.world.redis() as redis:
        talks.world.until(
            "its streams are gone", lambda: not redis.exists(*BARE.po_keys(f"e2e.{gone}"))
        )
        assert redis.xlen(BARE.po_output(f"e2e.{kept}")) == 1
    assert talks.world.cluster.find("deployment", gone, NAMESPACE) is None


def test_the_second_session_of_a_user_says_so(talks: SessionWorld) -> None:
    first, second = f"first-{RUN}", f"second-{RUN}"
    talks.apply(first)
    talks.wait(first, "Asleep")
    found = talks.get(first)
    # Kubernetes knows ages in whole seconds, and of two of one second either may be the older.
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    talks.world.until(
        "a second has passed", lambda: datetime.now(UTC) - created > timedelta(seconds=1)
    )
    talks.apply(second, userId=found["spec"]["userId"])
    status = talks.wait(second, "Asleep")
    available = next(item for item in status["conditions"] if item["type"] == "Available")
    assert (available["status"], available["reason"]) == ("False", "DuplicateUser")
    assert f"{NAMESPACE}/{first}" in available["message"]


def test_a_session_whose_image_does_not_come_says_so(talks: SessionWorld) -> None:
    name = f"noimage-{RUN}"
    image = "localhost/orbiter/does-not-exist:dev"
    talks.apply(name, podTemplate=worker_container(image=image))
    talks.send(name, "hello")
    status = talks.wait(name, "Failed", seconds=60)  # workers.imagePullTimeoutSeconds is 8
    available = next(item for item in status["conditions"] if item["type"] == "Available")
    assert available["reason"] == "ImagePullFailed"
    assert image in available["message"]
    assert "ImagePullFailed" in dict(talks.events(name))
