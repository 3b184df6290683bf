"""Composes a system prompt from neurons and texts, in the order of their priorities."""

from bisect import insort
from typing import Any

from orbiter.context.context import Context
from orbiter.context.errors import ContextError
from orbiter.context.neuron import Neuron, neuron_registry

OWN_TEXT_PRIORITY = 0


class PromptBuilder:
    """Collects parts by name and builds one prompt of them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._parts: list[tuple[int, str | None, Neuron | None]] = []

    def add(self, name: str, text: str | None = None, **kwargs: Any) -> "PromptBuilder":
        """Add a part.

        Args:
            name: A neuron's name, or with `text` any name.
            text: Text that stands before what the neuron says. Under a name that is no neuron's
                the text is the part, and stands before everything else; `priority=` moves it.
            kwargs: Options of the neuron, for example `query` of "knowledge".

        Returns:
            The builder.

        Raises:
            RegistryError: There is no neuron of that name, and no text.
            ContextError: The neuron has no such option.
        """
        if text is not None and name not in neuron_registry:
            insort(self._parts, (kwargs.get("priority", OWN_TEXT_PRIORITY), text, None), key=_place)
            return self
        neuron = neuron_registry.get(name)
        try:
            made = neuron(**kwargs)
        except TypeError as error:
            raise ContextError(f"neuron '{name}' cannot be made with {kwargs}: {error}") from error
        insort(self._parts, (made.priority, text, made), key=_place)
        return self

    async def build(self) -> str:
        """Return the parts that say something, smallest priority first, a blank line between."""
        sections = []
        for _, text, neuron in self._parts:
            if text:
                sections.append(text)
            if neuron is not None:
                section = await neuron.format(self._ctx)
                if section:
                    sections.append(section)
        return "\n\n".join(sections)


def _place(part: tuple[int, str | None, Neuron | None]) -> int:
    return part[0]
