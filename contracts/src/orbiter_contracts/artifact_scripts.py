"""How artifacts are kept in Redis, all in one step or not at all, and how their index is read."""

from typing import Final

from orbiter_contracts.artifacts import MAX_INDEX_BYTES, Artifacts
from orbiter_contracts.envelope import InvalidMessageError, decode_json
from orbiter_contracts.queues import DEVELOPER_GROUP, Keys, artifacts_of
from orbiter_contracts.scripts import Script


def read_index(text: bytes | str | None) -> Artifacts | None:
    """Read an index; total: what is none, or too large, is None."""
    if not text or len(text) > MAX_INDEX_BYTES:
        return None
    try:
        return decode_json(Artifacts, text)
    except InvalidMessageError:
        return None


KEEP_ARTIFACTS: Final = """
local held = redis.pcall('XPENDING', KEYS[3], ARGV[3], ARGV[2], ARGV[2], 1)
if #redis.call('XRANGE', KEYS[3], ARGV[2], ARGV[2]) == 0 then return 'gone' end
if redis.call('HEXISTS', KEYS[1], 'output') == 1 then return 'gone' end
if held.err or not held[1] or held[1][2] ~= ARGV[4] then return 'taken' end
local token = redis.pcall('HGET', KEYS[4], 'token')
if type(token) == 'string' and token ~= ARGV[5] then return 'taken' end
redis.call('EXPIRE', KEYS[2], 0)
for i = 6, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 'kept'
"""
"""Keep an attempt's index and its small files, in the place of what was kept of it before.

KEYS: the attempt's record, the hash (`queues.artifacts_of`), input stream, the writer's lease.
ARGV: seconds to keep them, entry id, group, consumer, token of the lease, then fields and values in
turn. Returns `kept`; `gone` when the attempt was answered or withdrawn; `taken` when another
process has its entry or its name.
"""

KEEP: Final = Script("keep_artifacts", KEEP_ARTIFACTS)
"""KEEP_ARTIFACTS as what a worker runs, which may have to call a function instead."""


def keep_keys(keys: Keys, record: str, lease: str) -> tuple[str, ...]:
    """KEYS of the script, for the attempt that has this record."""
    return record, artifacts_of(record), keys.developer_input, lease


def keep_words(seconds: int, entry: str, consumer: str, token: str) -> tuple[str | int, ...]:
    """The first of its ARGV."""
    return seconds, entry, DEVELOPER_GROUP, consumer, token
