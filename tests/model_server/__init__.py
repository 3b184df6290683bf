"""A scripted model: the real agent CLIs talk to it as if it were the model's API.

It makes whole-system tests and the demo possible without a model, a key or a bill. The prompt
says what the model shall do (`[[say: hello]]`, `[[bash: git log]]`, `[[status: 429 x2]]`); the
language is described in docs/model-server.md. Run it with `python -m model_server`.
"""
