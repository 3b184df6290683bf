"""Importing a part of a package without the rest of it: what keeps the wrapper's start short.

`import redis.asyncio.connection` first runs the package's own code, which imports cluster, sentinel
and every command: 200 ms and 20 MB that a wrapper with one plain connection never uses.
"""

import sys
from importlib.util import find_spec, module_from_spec


def skip_package_code(*packages: str) -> None:
    """Let modules of these packages be imported without the code of the packages' `__init__`.

    Only for a process of one's own, before anything else imports them: a package that is imported
    already is left as it is. Outer packages come before inner ones.
    """
    for name in packages:
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            sys.modules[name] = module_from_spec(spec)
