"""The container that fetches an agent's skills from repositories, before all others of a pod.

As with the workspace's credential (`git_containers`), it alone mounts the Secrets, and has ended
when the worker starts. It leaves the skills in a volume that the worker mounts read-only, each
where one of a ConfigMap would be, and its last words, in the pod's status, are their commits. Pure.
"""

from typing import Any, Final

from orbiter_contracts.agent_files import read_agent_files
from orbiter_contracts.skills import (
    GIT_SKILLS,
    GIT_SKILLS_DIR,
    MAX_SKILLS,
    GitSkill,
    GitSkills,
    Skill,
)

Object = dict[str, Any]
Said = tuple[Object, ...]
"""`agent.skills`, as the API has it."""

CONTAINER: Final = "git-skills"
VOLUME: Final = "agent-git-skills"
PRIVATE: Final = "git-skills-private"
_SECRET: Final = "git-skills-secret-"  # noqa: S105 - how a volume's name begins
VOLUMES: Final = frozenset({VOLUME, PRIVATE, *(f"{_SECRET}{each}" for each in range(MAX_SKILLS))})
_DIRECTORY: Final = "/run/git-skills"
_CREDENTIALS: Final = "/run/secrets/git-skills"
_WORK: Final = "/run/git-skills-private"
_SECRET_MODE: Final = 0o440


def fetched_skills(said: Said) -> tuple[Skill, ...]:
    """Those that repositories have, of skills without an `agent_files_problem`."""
    return tuple(skill for skill in read_agent_files(None, said).skills if skill.git)


def secrets_of_skills(said: Said) -> list[tuple[str, str]]:
    """The Secrets that open them and where they are named; none of what cannot be read."""
    try:
        skills = fetched_skills(said)
    except ValueError:
        return []  # `agent_problems` says so
    return [
        (f"skills[{skill.name}].git.credentialsSecretRef.name", secret.name)
        for skill in skills
        if skill.git and (secret := skill.git.credentials_secret_ref)
    ]


def _secrets(said: Said) -> list[str]:
    return list(dict.fromkeys(name for _, name in secrets_of_skills(said)))


def skill_volumes(said: Said) -> list[Object]:
    """Where they are put, what git works in, and the Secrets."""
    if not fetched_skills(said):
        return []
    secrets = [
        {
            "name": f"{_SECRET}{number}",
            "secret": {"secretName": name, "defaultMode": _SECRET_MODE},
        }
        for number, name in enumerate(_secrets(said))
    ]
    return [{"name": VOLUME, "emptyDir": {}}, {"name": PRIVATE, "emptyDir": {}}, *secrets]


def skill_mounts(said: Said, directory: str) -> list[Object]:
    """The worker's mounts of them, each a directory of that one; made when they are there."""
    return [
        {
            "name": VOLUME,
            "mountPath": f"{directory}/{skill.name}",
            "subPath": skill.name,
            "readOnly": True,
        }
        for skill in fetched_skills(said)
    ]


def skills_told(said: Said) -> tuple[dict[str, str], list[Object]]:
    """The variables and the mounts of the container; none of both where there is nothing to do."""
    skills, secrets = fetched_skills(said), _secrets(said)
    if not skills:
        return {}, []
    asked = [_asked(skill, secrets) for skill in skills]
    values = {
        # Kubernetes would replace $(NAME), and a branch may be called so.
        GIT_SKILLS: GitSkills(asked).model_dump_json().replace("$", "$$"),
        GIT_SKILLS_DIR: _DIRECTORY,
        "GIT_CREDENTIALS_DIR": _CREDENTIALS,
        "TMPDIR": _WORK,
    }
    mounts: list[Object] = [
        {"name": VOLUME, "mountPath": _DIRECTORY},
        {"name": PRIVATE, "mountPath": _WORK},
        *(
            {
                "name": f"{_SECRET}{number}",
                "mountPath": f"{_CREDENTIALS}/{number}",
                "readOnly": True,
            }
            for number in range(len(secrets))
        ),
    ]
    return values, mounts


def _asked(skill: Skill, secrets: list[str]) -> GitSkill:
    git = skill.git
    assert git is not None  # noqa: S101 - it is of `fetched_skills`
    secret = git.credentials_secret_ref
    return GitSkill(
        name=skill.name,
        url=git.url,
        ref=git.ref,
        path=git.path,
        credentials=secrets.index(secret.name) if secret else None,
    )
