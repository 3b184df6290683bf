"""Artifacts: files of a workspace that are kept when an attempt has ended and its pod is gone.

`spec.artifacts` says which, as paths and patterns. A worker keeps them in the installation's store
(`object_store`), or small ones in Redis beside the attempt's record (`queues.artifacts_of`), and
says in its output what it kept. Names are an agent's choice: they are bounded and of printable
characters, and whoever writes such a file checks again.
"""

import re
import unicodedata
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from orbiter_contracts.bounds import Count, Line, Moment, Name, Text
from orbiter_contracts.message_base import Message
from orbiter_contracts.object_store import StoreAddress

MAX_PATTERNS: Final = 32
MAX_PATTERN_CHARACTERS: Final = 256
MAX_ARTIFACTS: Final = 500
"""How many files are kept of an attempt."""
MAX_ARTIFACT_BYTES: Final = 512 * 1024 * 1024
"""The largest file that a store takes."""
MAX_ARTIFACTS_BYTES: Final = 2 * 1024 * 1024 * 1024
"""All of an attempt's."""
MAX_REDIS_BYTES: Final = 1024 * 1024
"""All of an attempt's that Redis takes, where there is no store or it does not answer."""
MAX_FILE_NAME_BYTES: Final = 512
MAX_INDEX_BYTES: Final = 1024 * 1024
"""The longest text that is read as an index: `MAX_ARTIFACTS` of the longest names."""
RETENTION_SECONDS: Final = 7 * 24 * 60 * 60
"""How long Redis keeps them, unless ARTIFACTS_RETENTION_SECONDS says otherwise."""
SHOWN_NAMES: Final = 10
INDEX: Final = "index"
"""Field of the hash, and name of the object in the store, with the JSON of `Artifacts`."""
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

ArtifactPlace = Literal["redis", "store"]


def pattern_problem(pattern: str) -> str | None:
    """Why a text is no pattern of a workspace's files; None when it is one."""
    if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"has to have 1 to {MAX_PATTERN_CHARACTERS} characters"
    if pattern.startswith("/"):
        return "begins with /: write it from the workspace on, for instance out/report.md"
    if re.search(r"[\x00-\x1f\x7f\\]", pattern):
        return "has a control character or a backslash"
    if any(part in ("", ".", "..") for part in pattern.removesuffix("/").split("/")):
        return "has an empty part, . or ..: write it from the workspace on"
    return None


def file_name_problem(name: str) -> str | None:
    """Why a text is no name of an artifact: a relative path, printable and not too long."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is no UTF-8"
    if not name or size > MAX_FILE_NAME_BYTES:
        return f"is longer than {MAX_FILE_NAME_BYTES} bytes"
    if any(unicodedata.category(character) in _UNPRINTABLE for character in name):
        return "has a character that cannot be printed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "is no path below a directory"
    return None


def _sane_pattern(pattern: str) -> str:
    if problem := pattern_problem(pattern):
        raise ValueError(problem)
    return pattern


def _sane_name(name: str) -> str:
    if problem := file_name_problem(name):
        raise ValueError(problem)
    return name


ArtifactPattern = Annotated[str, AfterValidator(_sane_pattern)]
Patterns = Annotated[list[ArtifactPattern], Field(max_length=MAX_PATTERNS)]
FileName = Annotated[str, AfterValidator(_sane_name)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Artifact(Message):
    """A file that was kept.

    Attributes:
        name: Its path in the workspace.
        size_bytes: How large it is.
        sha256: What its bytes have to come to.
        place: Where they are: a field of the hash beside this index, or an object of the store.
        key: That field or, behind the attempt's own prefix, that object.
    """

    name: FileName
    size_bytes: Count
    sha256: Digest
    place: ArtifactPlace
    key: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}(-[A-Za-z0-9._-]{1,100})?$")]


class Artifacts(Message):
    """All files that were kept of an attempt: the index.

    Attributes:
        time: When.
        files: The files, each name once.
        store: Where those are whose place is the store.
    """

    time: Moment
    files: Annotated[list[Artifact], Field(max_length=MAX_ARTIFACTS)] = Field(default_factory=list)
    store: StoreAddress | None = None


class ArtifactsReport(Message):
    """What a worker's output says of its attempt's artifacts.

    Attributes:
        reason: One CamelCase word: `Kept`, or why not all of them were.
        message: The same for people.
        count: How many files were kept.
        size_bytes: How large they are together.
        names: The first of their names.
        store: Where those are that Redis does not have.
    """

    reason: Name = "Kept"
    message: Text = ""
    count: Count = 0
    size_bytes: Count = 0
    names: Annotated[list[Line], Field(max_length=SHOWN_NAMES)] = Field(default_factory=list)
    store: StoreAddress | None = None

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was kept."""
        return self.reason == "Kept"
