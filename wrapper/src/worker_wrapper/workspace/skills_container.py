"""The container of a worker's pod that fetches skills from repositories, before all others.

The worker's image started with the argument `skills`. It alone mounts the Secrets that the skills
need; its last words are the commits it has fetched, or why it could not.
"""

import asyncio
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import Json

from orbiter_contracts.bounds import one_line
from orbiter_contracts.environment import SKILLS
from orbiter_contracts.exit_codes import UNUSABLE
from orbiter_contracts.skills import MAX_REPORT_CHARACTERS, GitSkills, fetched_report
from worker_wrapper.logging import configure
from worker_wrapper.process.kernel import become_subreaper
from worker_wrapper.redact import Redactor
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.container_input import ContainerInput
from worker_wrapper.workspace.git import Git
from worker_wrapper.workspace.skills import PACK_BYTES, SECONDS, SkillsError, fetch

FAILED: Final = 1


class Given(ContainerInput):
    """What the container is told in its environment, by the operator.

    `termination_log` is the file whose content Kubernetes keeps as the container's last words.
    """

    git_skills: Json[GitSkills]
    git_skills_dir: Path
    git_credentials_dir: Path
    tmpdir: Path
    termination_log: Path = Path("/dev/termination-log")


def main(environ: Mapping[str, str]) -> int:
    """Fetch what there is to fetch, and end.

    Returns:
        The exit code: 0 when all skills are there.
    """
    if (given := Given.of(environ, SKILLS)) is None:
        return UNUSABLE
    become_subreaper()
    _limit_files()
    redactor = Redactor.of(environ)
    log = configure(redactor, level="info", worker_id="git-skills")
    git = Git(environ, given.tmpdir, SECONDS, StopTurn())
    places = (given.git_skills_dir, given.git_credentials_dir)
    try:
        commits = asyncio.run(fetch(given.git_skills.root, *places, git))
    except SkillsError as error:
        why = str(error)
    except OSError as error:
        why = f"agent.skills: {error.filename or given.git_skills_dir}: {error.strerror}"
    else:
        log.info("fetched", skills=commits)
        _say(given.termination_log, fetched_report(commits))
        return 0
    why = one_line(redactor.scrub(why), MAX_REPORT_CHARACTERS // 4)
    log.error("not fetched", error=why)
    _say(given.termination_log, why)
    return FAILED


def _limit_files() -> None:
    """No file of ours and of git may be larger: so a large repository fills no disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_FSIZE, (min([*known, PACK_BYTES]), hard))


def _say(path: Path, words: str) -> None:
    with suppress(OSError):  # the log says it, too
        path.write_text(words)
