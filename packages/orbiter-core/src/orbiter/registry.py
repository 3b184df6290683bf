"""Named things that can be looked up: the one registry class of Orbiter.

Registries are the only mutable state that lives in modules; a name is taken once.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, overload

from orbiter.types import OrbiterError

T = TypeVar("T")


class RegistryError(OrbiterError):
    """A name is unknown or already taken."""


class Registry(Generic[T]):
    """A map from names to items that says what it holds when a name is wrong."""

    def __init__(self, kind: str) -> None:
        """Create an empty registry.

        Args:
            kind: What the items are called in errors, for example "tool".
        """
        self.kind = kind
        self._items: dict[str, T] = {}

    @overload
    def register(self, name: str) -> Callable[[T], T]: ...
    @overload
    def register(self, name: str, item: T) -> T: ...
    def register(self, name: str, item: Any = None) -> Any:
        """Add an item, or return a decorator that does.

        Raises:
            RegistryError: The name is taken by another item.
        """
        if item is None:
            return lambda decorated: self.register(name, decorated)
        if self._items.setdefault(name, item) is not item:
            raise RegistryError(
                f"{self.kind} '{name}' is already registered; unregister it first or choose "
                "another name"
            )
        return item

    def unregister(self, name: str) -> None:
        """Remove an item.

        Raises:
            RegistryError: No item has that name.
        """
        self.get(name)
        del self._items[name]

    def get(self, name: str) -> T:
        """Return the item of that name.

        Raises:
            RegistryError: No item has that name; the text lists the names there are.
        """
        try:
            return self._items[name]
        except KeyError:
            known = ", ".join(sorted(self._items)) or "none yet"
            raise RegistryError(f"unknown {self.kind} '{name}'; known: {known}") from None

    def names(self) -> list[str]:
        """Return all names in the order of registration."""
        return list(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)


agent_registry: Registry[Any] = Registry("agent")
tool_registry: Registry[Any] = Registry("tool")
