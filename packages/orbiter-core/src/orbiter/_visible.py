"""What a person is shown of a text that a stranger has written."""

import json
import unicodedata

_HIDING = ("Cc", "Cf", "Cs", "Zl", "Zp")
# many scripts need these two, and sequences of emoji
_JOINERS = "\u200c\u200d"


def visible(text: str, *, prose: bool = False) -> str:
    """Show what a terminal would obey or nobody sees, such as marks that turn letters around.

    Args:
        text: Of a model, a tool or a server.
        prose: It is to be read, and not a name or JSON: line ends, tabs, spaces of all widths and
            what joins letters stay as they are.
    """
    return "".join(c if _stays(c, prose) else json.dumps(c)[1:-1] for c in text)


def _stays(character: str, prose: bool) -> bool:
    if character.isprintable() or not prose:
        return character.isprintable()
    return (
        character in "\n\t"
        or character in _JOINERS
        or (unicodedata.category(character) not in _HIDING)
    )
