"""`python -m orbiter_operator` is `orbiter-operator`."""

from orbiter_operator.main import main

main()
