"""Sessions on the real cluster with the real CLI: they sleep, wake, remember, and end."""

import threading
import uuid
from collections.abc import Iterator

import pytest
from support.session_world import SessionWorld, clear_sessions, front_end
from support.world import World

RUN = uuid.uuid4().hex[:4]


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
