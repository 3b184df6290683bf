"""How often Python looks for garbage. Called once, when the operator knows everything."""

import gc

_FIRST_GENERATION = 20_000


def spare_the_collector() -> None:
    """Look less often: what is here now stays, and decoded JSON has no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_FIRST_GENERATION)
