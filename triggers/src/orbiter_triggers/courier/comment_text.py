"""The comment about a task, and the reply to an answer that names none, as text. Pure.

An agent's words stand in a quotation in which they mention nobody, show no picture and are no HTML:
they were written by a program that has read what strangers wrote.
"""

import re
from collections.abc import Mapping
from typing import Final

from orbiter_contracts.bounds import one_line, shortened
from orbiter_contracts.trigger_events import OWN_MARK
from orbiter_triggers.courier.tasks import Question, Task

ANSWER: Final = "/answer"
"""How a comment begins that answers a question."""
_PROSE: Final = 8 * 1024
_LINE: Final = 300
_MOST_NAMED: Final = 20
"""Of the tasks that ask in a thread, in one reply."""
_SAYS: Final = {
    "Pending": "waits to begin",
    "Running": "works",
    "InputRequired": "asks something",
    "Completed": "is done",
    "Failed": "has failed",
    "Cancelled": "was cancelled",
}
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9./:%?=&#~_+-]{1,300}")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_GAP: Final = "\u200b"
_MEANT: Final = re.compile(
    r"@(?=\w)|#(?=\d)|!(?=\[)|\bgh(?=-\d)|\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?=\W{1,9}http)",
    re.IGNORECASE,
)
"""Mentions, issues, pictures; and what closes an issue that is written as an address."""


def mark(uid: str) -> str:
    """How the comment about a task begins, which GitHub does not show."""
    return f"{OWN_MARK}task {uid} -->"


def mark_of_reply(comment: int) -> str:
    """How our reply to a comment begins: by it the reply is found again."""
    return f"{OWN_MARK}comment {comment} -->"


def quoted(text: str, most: int = _PROSE) -> str:
    """Somebody's words as a quotation that does nothing."""
    return "\n".join(f"> {line}".rstrip() for line in harmless(shortened(text, most)).splitlines())


def harmless(text: str) -> str:
    """Somebody's words, in which nobody is mentioned, no issue meant and no HTML written."""
    # GitHub looks for mentions behind what Markdown makes of `&commat;`.
    plain = text.replace("&", "&amp;").replace("<", "&lt;")
    return unmeant(plain)


def unmeant(text: str) -> str:
    """Somebody's words where no Markdown is: nobody is mentioned and no issue meant."""
    return _MEANT.sub(lambda found: found[0] + _GAP, text.replace("\x00", ""))


def comment_text(task: Task, *, answers: bool, link: str, pull: str) -> str:
    """The comment about a task as it is now.

    Args:
        task: The task.
        answers: Whether comments answer questions.
        link: Where there is more of it; "" for nowhere.
        pull: The pull request that was opened; "" for none.
    """
    status, name = task.status, task.key.name
    state = _SAYS.get(status.phase, status.phase)
    reason = f" ({status.reason})" if status.phase == "Failed" and status.reason else ""
    parts = [
        mark(task.uid),
        f"**AgentTask `{name}` {state}{reason}**",
        " · ".join(_facts(task, link)),
        *_body(task, answers=answers),
        *_links(task, pull),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def which_text(comment: int, namespace: str, tasks: Mapping[str, Question | None]) -> str:
    """The reply to who has answered without saying which of several tasks is meant.

    Args:
        comment: The answer's id.
        namespace: Of the tasks.
        tasks: The names of the thread's tasks, and what each asks.
    """
    asking = [(name, asked) for name, asked in sorted(tasks.items()) if asked is not None]
    parts = [
        mark_of_reply(comment),
        "Several tasks ask something here, so this has answered none of them. "
        "An answer begins with the name of its task:",
    ]
    for name, asked in asking[:_MOST_NAMED]:
        parts.append(_begins(name, namespace, asked))
        parts.append(quoted(one_line(asked.question, _LINE)))
    if more := asking[_MOST_NAMED:]:
        parts.append(f"… and {len(more)} more, each of which says so in its own comment.")
    return "\n\n".join(filter(None, parts)) + "\n"


def _begins(name: str, namespace: str, asked: Question) -> str:
    if asked.approval:
        command = f"`kubectl orbiter answer {name} -n {namespace}`"
        return f"`{name}` asks for an approval: {command} or the page, never here"
    return f"`{ANSWER} {name}`, then your words, answers"


def _facts(task: Task, link: str) -> list[str]:
    status = task.status
    facts = [f"trigger `{task.target.key.name}`"]
    if status.attempts > 1:
        facts.append(f"attempt {status.attempts}")
    if status.usage.cost_usd is not None:
        facts.append(f"{status.usage.cost_usd:.4f} USD")
    if status.duration:
        facts.append(one_line(status.duration, _LINE))
    if link:
        facts.append(f"[more]({link})")
    return facts


def _body(task: Task, *, answers: bool) -> list[str]:
    status = task.status
    asked = task.asks
    if asked is not None:
        return [quoted(asked.question or status.message or ""), _how(task, asked, answers=answers)]
    if status.phase == "Completed":
        return [quoted(status.result.summary or status.message or "")]
    if status.phase == "Running":
        return [quoted(one_line(status.progress or "", _LINE))]
    return [quoted(one_line(status.message or "", _LINE))]


def _how(task: Task, asked: Question, *, answers: bool) -> str:
    command = f"`kubectl orbiter answer {task.key.name} -n {task.key.namespace}`"
    if asked.approval:
        return f"This is an approval. It is given with {command} or on the page, and never here."
    if not answers:
        return f"It is answered with {command} or on the page."
    return (
        f"Who may write to this repository answers with a comment that begins with `{ANSWER}`, or "
        f"with `{ANSWER} {task.key.name}` where several ask; or with {command}."
    )


def _links(task: Task, pull: str) -> list[str]:
    result = task.status.result
    # Not in a quotation, so an agent's word counts where it is an address or a commit alone.
    address = result.pr_url or "" if _ADDRESS.fullmatch(result.pr_url or "") else ""
    commit = result.commit_sha or "" if _COMMIT.fullmatch(result.commit_sha or "") else ""
    # Each is a line of its own: GitHub makes links of addresses and of commits.
    return [harmless(one_line(text, _LINE)) for text in (pull or address, commit) if text]
