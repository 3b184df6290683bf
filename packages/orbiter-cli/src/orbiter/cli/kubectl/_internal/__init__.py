"""How the commands of `kubectl orbiter` are done; main.py is where to start reading."""
