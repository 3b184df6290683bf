"""The pod of a worker: how it is made, and what it says of itself."""
