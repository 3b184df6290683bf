"""State that children inherit and cannot change: a mapping that falls through to its parent.

Reading searches this state, then its parents; writing and deleting only ever touch this one. So
forking a context copies nothing, and what a child does is undone by forgetting the child.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

_MISSING: Any = object()


class ContextState(MutableMapping[str, Any]):
    """A key-value store with a parent."""

    __slots__ = ("_local", "_parent")

    def __init__(
        self, initial: Mapping[str, Any] | None = None, *, parent: "ContextState | None" = None
    ) -> None:
        """Create a state.

        Args:
            initial: Values to start with; the mapping is copied.
            parent: The state that is searched for what is not found here.
        """
        self._local: dict[str, Any] = dict(initial or {})
        self._parent = parent

    @property
    def parent(self) -> "ContextState | None":
        """The state this one inherits from."""
        return self._parent

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key here or in the nearest parent that has it."""
        state: ContextState | None = self
        while state is not None:
            value = state._local.get(key, _MISSING)
            if value is not _MISSING:
                return value
            state = state._parent
        return default

    def set(self, key: str, value: Any) -> None:
        """Set a key here; a parent's value of the same name is hidden, not changed."""
        self._local[key] = value

    def delete(self, key: str) -> None:
        """Delete a key that was set here; an inherited value shows again.

        Raises:
            KeyError: The key is not set here.
        """
        del self._local[key]

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Delete a key that was set here and return its value.

        Raises:
            KeyError: The key is not set here and there is no default.
        """
        if default is _MISSING:
            return self._local.pop(key)
        return self._local.pop(key, default)

    def clear(self) -> None:
        """Delete everything that was set here."""
        self._local.clear()

    def update(self, other: Any = None, /, **values: Any) -> None:
        """Set several keys here; of another ContextState all that can be read in it."""
        if isinstance(other, ContextState):
            other = other.to_dict()
        self._local.update(other or {}, **values)

    def local_dict(self) -> dict[str, Any]:
        """Return a copy of what was set here, without what is inherited."""
        return dict(self._local)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be read here, as one new dict."""
        inherited = {} if self._parent is None else self._parent.to_dict()
        inherited.update(self._local)
        return inherited

    def __getitem__(self, key: str) -> Any:
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._local[key] = value

    def __delitem__(self, key: str) -> None:
        del self._local[key]

    def __contains__(self, key: object) -> bool:
        return key in self._local or (self._parent is not None and key in self._parent)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __bool__(self) -> bool:
        return bool(self._local) or bool(self._parent)

    def __repr__(self) -> str:
        return f"ContextState({self._local!r}, parent={self._parent!r})"
