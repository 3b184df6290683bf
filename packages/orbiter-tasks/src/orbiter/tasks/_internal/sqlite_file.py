"""The file of a store: opening it, and what to do where that fails."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiosqlite


async def begun(connecting: "aiosqlite.Connection") -> "aiosqlite.Connection":
    """Open the file; where it cannot be, its thread has ended when this raises."""
    try:
        return await connecting
    except BaseException:
        # Its thread still reports to this loop; the loop must not be gone by then.
        await asyncio.to_thread(connecting._thread.join)
        raise


def advice(path: Path) -> str:
    """Return what may be done about a file that cannot be opened."""
    if path.is_dir():
        return "it is a directory: name a file in it"
    if not path.parent.is_dir():
        return f"its directory {path.parent} does not exist: make it, or name another file"
    return "is it a SQLite file, and may we write there?"
