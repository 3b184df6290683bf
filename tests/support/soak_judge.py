"""What a soak must not have found, said in words. Pure: it is told what there is."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

STEPS = 5


class Final(NamedTuple):
    """A final answer of a session.

    Attributes:
        request: Id of the message.
        entry: Id of the answer's entry.
        status: What it says became of it.
        reason: Why, where that was no success.
    """

    request: str
    entry: str
    status: str
    reason: str | None = None


def tasks_lost(
    made: Collection[str],
    found: Mapping[str, Mapping[str, Any]],
    story: Callable[[str], str] = lambda name: "",
) -> list[str]:
    """What has not become of tasks what should have.

    Args:
        made: Their names: every one that the soak has made.
        found: The status of each that is there now.
        story: Tells more of one.
    """
    lost = []
    for name in made:
        status = found.get(name)
        if status is None:
            lost.append(f"{name} has vanished")
        elif status.get("phase") != "Completed":
            why = ": ".join(str(status.get(of)) for of in ("phase", "reason", "message"))
            lost.append(f"{name}: {why}\n{story(name)}")
        else:
            lost += [f"{name} {what}" for what in _wrong(status)]
    return lost


def _wrong(status: Mapping[str, Any]) -> list[str]:
    done = str((status.get("result") or {}).get("summary"))
    missing = [str(n) for n in range(STEPS) if str(n) not in done.split(",")]
    wrong = [f"has forgotten steps {missing}: {done!r}"] if missing else []
    if status.get("attempts") != 1:
        wrong.append(f"took {status.get('attempts')} attempts")
    return wrong


def messages_lost(name: str, sent: Sequence[str], finals: Sequence[Final]) -> list[str]:
    """What has not become of a session's messages what should have.

    Args:
        name: The session.
        sent: Request ids that Redis has taken, in their order.
        finals: Its final answers, in theirs. Those to messages of which it is not known whether
            Redis took them are judged by their status alone.
    """
    answered = [final.request for final in finals]
    lost = [f"{name} has not answered {request}" for request in sent if request not in answered]
    if [request for request in answered if request in sent] != list(sent):
        lost.append(f"{name} answered in another order")
    return lost + [
        f"{name} answered {final.request} with {final.status}: {final.reason}"
        for final in finals
        if final.status != "success"
    ]
