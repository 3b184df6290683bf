"""The commands of `orbiter`, a module each; `orbiter.cli.main` puts them together."""
