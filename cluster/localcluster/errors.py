"""The one error the command line prints without a traceback."""


class ClusterError(Exception):
    """Something a person can act on: the message says what failed, its value and what to do."""
