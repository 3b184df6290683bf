"""The commands `orbiter` and `kubectl orbiter`."""
