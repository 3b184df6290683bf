"""Headers of a tar within bounds: tarfile reads a long name, or a map of holes, however long it is.

Whoever wrote the tar need not have been we, and compressed a header takes a thousandth of its size.
"""

import tarfile
from typing import Any, Final, NoReturn

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
