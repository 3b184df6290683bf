"""`python -m worker_wrapper`: PID 1 of a worker container.

Reads the settings, prepares the process, and runs worker.py. Exit codes: 0 the outcome was
published, or there was nothing to do; 1 a mistake of this program; 2 the environment is not usable
or another process has our name; 3 Redis was not to be had; 4 another process took our name over;
143 asked to leave before anything had begun, or before an attempt was done that goes on elsewhere.

`python -m worker_wrapper clone` and `… push` are the two containers of a pod that have the git
credential: workspace/container.py; `… skills` fetches skills: workspace/skills_container.py.
`--help` lists the variables.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

_TERMINATED = 128 + signal.SIGTERM


def main() -> NoReturn:
    """Run the wrapper, and end here, without the interpreter's own end.

    The client of the artifacts' store has threads of its own, which let go of Python's objects a
    moment after their answer: when the interpreter ends meanwhile, they abort the process (exit
    code -6, of 400 workers on a busy machine 72).
    """
    code = _run()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def _run() -> int:
    # As PID 1 a process without a handler would not even notice this signal.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))

    if sys.argv[1:] in (["clone"], ["push"]):
        from worker_wrapper.workspace import container

        return container.main(sys.argv[1], os.environ)

    if sys.argv[1:] == ["skills"]:
        from worker_wrapper.workspace import skills_container

        return skills_container.main(os.environ)

    if {"-h", "--help"} & {*sys.argv[1:]}:
        from worker_wrapper.help_text import help_text

        print(help_text(), end="")  # noqa: T201 - that is what was asked for
        return 0

    from orbiter_contracts.exit_codes import UNUSABLE
    from worker_wrapper import preflight
    from worker_wrapper.settings import SettingsError, load

    try:
        settings = load(os.environ)
        preflight.check(settings, os.environ)
    except (SettingsError, preflight.UnfitError) as error:
        print(f"worker-wrapper: {error}", file=sys.stderr)  # noqa: T201 - before logs exist
        return UNUSABLE

    from worker_wrapper.import_trimming import skip_package_code

    skip_package_code("redis", "redis.asyncio")

    import asyncio

    from worker_wrapper import worker
    from worker_wrapper.process.kernel import become_subreaper, hide_environment

    become_subreaper()
    hide_environment()
    return asyncio.run(worker.run(settings, os.environ))


if __name__ == "__main__":
    main()
