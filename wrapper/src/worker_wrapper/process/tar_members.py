"""A gzipped tar of a stranger's: headers within bounds, and what tarfile says of damaged ones.

Tarfile reads a long name, or a map of holes, however long it is.

Whoever wrote the tar need not have been we, and compressed a header takes a thousandth of its size.
"""

import gzip
import tarfile
import zlib
from typing import IO, Any, Final, NoReturn

DAMAGE: Final = (
    *(tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError),
    RecursionError,  # headers that announce each other a thousand times
)
"""What opening and reading raise for bytes that are no whole tar."""
_HEADER_BYTES: Final = 64 * 1024


class Bounded(tarfile.TarInfo):
    """Refuses headers without a bound, and files with holes, which nobody here writes."""

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._with_holes()
        if not (self.isreg() or self.isdir() or self.issym()) and self.size > _HEADER_BYTES:
            raise tarfile.ReadError("it has a header that is too long")
        return super()._proc_member(tar)  # type: ignore[misc]

    def _with_holes(self, *_: Any) -> NoReturn:
        raise tarfile.ReadError("it has a file with holes")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _with_holes


def opened(source: IO[bytes]) -> tarfile.TarFile:
    """Open a gzipped tar, to be read once from its beginning.

    Not with mode "r|gz": tarfile's own reading of gzip's header takes one that is cut off within
    an optional field for an empty tar, by what bytes follow, or fails with a TypeError.

    Raises:
        ReadError: What begins there is none, or another one of `DAMAGE`.
    """
    return tarfile.open(fileobj=gzip.GzipFile(fileobj=source), mode="r|", tarinfo=Bounded)
