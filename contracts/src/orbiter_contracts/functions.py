"""The library of Redis functions that an operator loads for workers which may not use EVAL.

The same texts as the scripts: a worker without a prefix sends them with EVAL, one with a prefix
calls the function of that name (FCALL). A user that may call functions, but neither EVAL nor load
any, cannot make Redis run a program of its own.
"""

from typing import Final

from orbiter_contracts.artifact_scripts import KEEP as KEEP_ARTIFACTS
from orbiter_contracts.checkpoint_scripts import READ as READ_CHECKPOINT
from orbiter_contracts.checkpoint_scripts import SAVE as SAVE_CHECKPOINT
from orbiter_contracts.lease_scripts import RELEASE, TAKE
from orbiter_contracts.scripts import LIBRARY, Script
from orbiter_contracts.scripts import PUBLISH as PUBLISH_ATTEMPT
from orbiter_contracts.transcript_scripts import APPEND as APPEND_TRANSCRIPT
from orbiter_contracts.worker_scripts import (
    KEEP_TURN,
    PIECE,
    READ_RECORD,
    RENEW,
    SETTLE,
    SETTLE_TURN,
    TELL,
    WRITE_RECORD,
)

FUNCTIONS: Final[tuple[Script, ...]] = (
    *(TAKE, RELEASE, RENEW, SETTLE, SETTLE_TURN, PUBLISH_ATTEMPT),
    *(READ_RECORD, WRITE_RECORD, TELL, PIECE, SAVE_CHECKPOINT, READ_CHECKPOINT, KEEP_TURN),
    *(KEEP_ARTIFACTS, APPEND_TRANSCRIPT),
)
"""What workers call. One that is no longer needed stays for a minor version: workers of the version
before go on while the operator is replaced."""


def library() -> str:
    """The library's source, for `FUNCTION LOAD REPLACE`."""
    return f"#!lua name={LIBRARY}\n" + "".join(map(_registered, FUNCTIONS))


def _registered(script: Script) -> str:
    flags = f"'{script.flag}'" if script.flag else ""
    return (
        f"redis.register_function{{function_name='{script.function}', flags={{{flags}}},\n"
        f"callback=function(KEYS, ARGV)\n{script.text}\nend}}\n"
    )
