"""What a session asks a person, as its last answer says, and when a message answers just that.

A session asks by an answer with the status `input_required`; the question's id is the `request_id`
of that answer. Any message goes on with the conversation, so whoever answers a question that was
shown sends it only while the session still asks it. Streams say so: the input is empty, because a
worker takes off what it has answered, and the output ends with the question. A front end reads both
and adds its message in one transaction that WATCHes both; who comes second has said nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from orbiter_contracts.envelope import InvalidMessageError, decode
from orbiter_contracts.messages import POWorkerOutput

LOOKED_AT: Final = 4
"""How many outputs are read from the end: messages that were none do not take a question away."""
TRIES: Final = 3
"""How often a transaction is tried: a worker that looks for messages may have touched the input."""
_NEVER_TOLD: Final = "InvalidMessage"


def asked_in(outputs: Iterable[Mapping[bytes, bytes] | Mapping[str, str]]) -> POWorkerOutput | None:
    """The answer by which a session asks something; None when it asks nothing.

    Args:
        outputs: The fields of its last outputs, the newest first; whatever is in them.
    """
    for fields in outputs:
        try:
            output = decode(POWorkerOutput, fields)
        except InvalidMessageError:
            return None
        if output.reason == _NEVER_TOLD:
            continue  # of a message that could not be read: the agent has not heard of it
        asks = output.is_final and output.status == "input_required"
        return output if asks else None
    return None


def refusal(
    question: str,
    waiting: int,
    outputs: Iterable[Mapping[bytes, bytes] | Mapping[str, str]],
) -> str | None:
    """Why a message is no answer to a question any more; None when it is one.

    Args:
        question: Its id, as it was shown.
        waiting: How many messages are on the session's input.
        outputs: As of `asked_in`.
    """
    if waiting:
        return "it has a message already that it has not answered yet"
    asked = asked_in(outputs)
    if asked is None:
        return "it asks nothing any more"
    return None if asked.request_id == question else "it asks something else by now"
