"""The workspace: files an agent can write and read beside its window.

In memory by default; in a directory when one is given, where the files outlive the process. Names
are relative paths; none leads out of the directory.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from orbiter.context.errors import ArtifactNotFoundError, ContextError

# Tools may return text with halves of surrogate pairs; it is written and read as it is.
SURROGATES = "surrogatepass"
ARTIFACT = "artifact-"


class Workspace:
    """Text artifacts by name."""

    def __init__(
        self, directory: str | Path | None = None, *, artifacts: Mapping[str, str] | None = None
    ) -> None:
        """Create a workspace.

        Args:
            directory: Where files are kept; it is made when the first one is written. In memory
                when absent.
            artifacts: What an in-memory workspace starts with.
        """
        self.directory = None if directory is None else Path(directory)
        # Replaced, never changed: a checkpoint may hold it as it is.
        self._artifacts: Mapping[str, str] = dict(artifacts or {})

    @property
    def artifacts(self) -> Mapping[str, str]:
        """What an in-memory workspace holds, by name; the mapping never changes."""
        return self._artifacts

    @property
    def is_empty(self) -> bool:
        """True when there is certainly nothing in it; a directory is not looked into for this."""
        return self.directory is None and not self._artifacts

    async def write(self, name: str, content: str) -> None:
        """Write an artifact; an old one of that name is replaced, as a whole or not at all.

        Raises:
            ContextError: The name leads out of the workspace, or the content is no text.
        """
        _check(name)
        if not isinstance(content, str):
            raise ContextError(
                f"artifact '{name}' must be text, not {type(content).__name__}; decode it first"
            )
        if self.directory is None:
            self._artifacts = {**self._artifacts, name: content}
            return
        try:
            await asyncio.to_thread(_write_file, self.directory / name, content)
        except OSError as error:
            raise ContextError(f"workspace file '{name}' cannot be written: {error}") from error

    async def write_artifact(self, content: str) -> str:
        """Write a text under a name made of its content; return that name."""
        digest = blake2b(content.encode("utf-8", SURROGATES), digest_size=6).hexdigest()
        name = f"{ARTIFACT}{digest}"
        await self.write(name, content)
        return name

    async def read(self, name: str) -> str:
        """Return the text of an artifact.

        Raises:
            ArtifactNotFoundError: There is none of that name.
        """
        _check(name)
        try:
            if self.directory is None:
                return self._artifacts[name]
            return await asyncio.to_thread(_read_file, self.directory / name)
        except (KeyError, FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise ArtifactNotFoundError("workspace file", name, await self.list()) from None

    async def delete(self, name: str) -> None:
        """Delete an artifact.

        Raises:
            ArtifactNotFoundError: There is none of that name.
        """
        await self.read(name)
        if self.directory is None:
            self._artifacts = {key: text for key, text in self._artifacts.items() if key != name}
        else:
            await asyncio.to_thread((self.directory / name).unlink)

    # Annotations below this method would take `list` for it: keep it the last one.
    async def list(self) -> list[str]:
        """Return the names of all artifacts, sorted."""
        if self.directory is None:
            return sorted(self._artifacts)
        return await asyncio.to_thread(_names_in, self.directory)


def _check(name: str) -> None:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ContextError(
            f"'{name}' is no name for a workspace file; use a relative path such as 'notes/a.md'"
        )


def _write_file(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors=SURROGATES, newline="") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


def _read_file(path: Path) -> str:
    with path.open(encoding="utf-8", errors=SURROGATES, newline="") as file:
        return file.read()


def _names_in(directory: Path) -> list[str]:
    if not directory.is_dir():
        return []
    files = (path for path in directory.rglob("*") if path.is_file())
    return sorted(
        path.relative_to(directory).as_posix()
        for path in files
        if not (path.name.startswith(".") and path.name.endswith(".tmp"))
    )
