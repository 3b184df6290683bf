"""How Python looks to a model: signatures as JSON schemas, values as text."""
