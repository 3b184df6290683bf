"""What is kept of an entry that nobody can use, for people to look at: its fields and the reason.

One rule in two tongues, because whoever settles an entry in one step does it inside Redis: the
fields in their order until DEAD_LETTER_BYTES are used up, and in the reason the names of those that
were cut. The newest DEAD_LETTERS_KEPT letters of a stream stay.
"""

from collections.abc import Mapping
from typing import Final

from orbiter_contracts.bounds import DEAD_LETTER_BYTES, DEAD_LETTER_FIELDS, DEAD_LETTERS_KEPT
from orbiter_contracts.envelope import excerpt
from orbiter_contracts.queues import REASON_FIELD

_NAMED: Final = 3
_NAME_CHARACTERS: Final = 40


def dead_letter_fields(fields: Mapping[str, str], reason: str) -> dict[bytes, bytes]:
    """The fields of an entry's dead letter.

    Args:
        fields: The entry's; bytes that are not UTF-8 as `surrogateescape` has them.
        reason: Why nobody can use it.
    """
    kept: dict[bytes, bytes] = {}
    cut = []
    left = DEAD_LETTER_BYTES
    for index, (name, value) in enumerate(fields.items()):
        key, whole = _raw(name), _raw(value)
        if name == REASON_FIELD or index >= DEAD_LETTER_FIELDS or len(key) > left:
            cut.append(name)
            continue
        left -= len(key)
        kept[key] = whole[:left]
        left -= len(kept[key])
        if kept[key] != whole:
            cut.append(name)
    if cut:
        names = ", ".join(excerpt(name, _NAME_CHARACTERS) for name in cut[:_NAMED])
        reason = f"{reason} (cut here: {names})"
    return kept | {_raw(REASON_FIELD): _raw(reason)}


ADD_DEAD_LETTER: Final = f"""
local function add_dead_letter(stream, fields, reason)
  local kept, cut, left = {{}}, {{}}, {DEAD_LETTER_BYTES}
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    local head
    if name ~= '{REASON_FIELD}' and i < {2 * DEAD_LETTER_FIELDS} and #name <= left then
      left = left - #name
      head = string.sub(value, 1, left)
      left = left - #head
      kept[#kept + 1] = name
      kept[#kept + 1] = head
    end
    if head ~= value and #cut < {_NAMED} then
      cut[#cut + 1] = string.gsub(string.sub(name, 1, {_NAME_CHARACTERS}), '[^%w_.:-]', '?')
    end
  end
  if #cut > 0 then reason = reason .. ' (cut here: ' .. table.concat(cut, ', ') .. ')' end
  kept[#kept + 1] = '{REASON_FIELD}'
  kept[#kept + 1] = reason
  return redis.pcall('XADD', stream, 'MAXLEN', {DEAD_LETTERS_KEPT}, '*', unpack(kept))
end
"""
"""The same as a function for scripts: dead-letter stream, the entry's fields and values, reason."""


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
