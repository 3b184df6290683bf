"""What `make images` does: which images there are, which of them are stale, and how to make them.

`cli` reads the arguments, `catalog` lists the images, `stamp` says what changed, `plan` puts the
steps in order, `runner` runs them, and `engine`, `base`, `fetch` and `load` are the steps.
"""
