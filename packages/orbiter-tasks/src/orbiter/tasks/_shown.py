"""How an error names what was given."""


def shown(value: object) -> str:
    """Return a value as an error names it."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"{value!r:.80}"
