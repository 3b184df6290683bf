"""Which repository, from which commit, on which branch: the decisions of workspace.py. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from orbiter_contracts import GitWorkspace

_SCHEMES = ("https", "http", "ssh", "git", "file")
_SCP_LIKE = re.compile(r"[\w.-]+@[\w.-]+:(?!:)[^\s]+")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NO_REF = re.compile(r"^[-/]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|[/.]$|\.lock$|^$")
_HEADS, _TAGS = "refs/heads/", "refs/tags/"


class WorkspaceError(Exception):
    """The workspace cannot be what the task wants; the text says why and what to do."""

    reason = "WorkspaceError"


@dataclass(frozen=True, slots=True)
class Remote:
    """What a repository says about itself: refs by full name, and which is its default branch."""

    refs: Mapping[str, str]
    default: str | None


@dataclass(frozen=True, slots=True)
class Start:
    """Where the work begins: what to fetch, and the branch to be on (None: on none)."""

    wanted: str
    branch: str | None


def check(git: GitWorkspace, field: str = "workspace.git") -> None:
    """Refuse what git would misunderstand, and credentials where everyone could read them.

    Args:
        git: The repository.
        field: Whose it is, as the spec has it.

    Raises:
        WorkspaceError: The URL, ref or branch cannot be used. Never repeats a URL with credentials.
    """
    for what, name in (("ref", git.ref), ("branch", git.branch)):
        if name is not None and _NO_REF.search(name):
            raise WorkspaceError(f"{field}.{what} {name!r} is not a name git allows")
    _check_url(git.url, field)


def read_remote(listing: str) -> Remote:
    """Read what `git ls-remote --symref` printed."""
    refs, default = {}, None
    for line in listing.splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: ") and name == "HEAD":
            default = _branch_of(value.removeprefix("ref: "))
        else:
            refs[name] = value
    # An empty repository names a default branch that does not exist.
    return Remote(refs, default if "HEAD" in refs else None)


def is_ref(name: str) -> bool:
    """Whether git allows a name for a branch or a tag."""
    return not _NO_REF.search(name)


def _branch_of(ref: str) -> str | None:
    """The full name of a branch, if it is one that git allows: a server can say anything."""
    name = ref.removeprefix(_HEADS)
    return ref if name != ref and not _NO_REF.search(name) else None


def patterns(git: GitWorkspace) -> list[str]:
    """The refs to ask the repository about."""
    names = [name for name in (git.ref, git.branch) if name]
    return ["HEAD", *(f"{kind}{name}" for name in names for kind in ("", _HEADS, _TAGS))]


def choose_start(git: GitWorkspace, remote: Remote) -> Start:
    """Choose where the work begins.

    A branch that exists already is continued, so that a second attempt or task finds the work of
    the first; otherwise it begins at `ref`, and without one at the default branch.

    Raises:
        WorkspaceError: There is no such ref, or no branch to push to.
    """
    start = _start(git, remote)
    if git.push == "Always" and start.branch is None:
        raise WorkspaceError(
            f"workspace.git.push is Always, but {git.ref or 'HEAD'} is no branch: "
            "say in workspace.git.branch where to push"
        )
    return start


def _start(git: GitWorkspace, remote: Remote) -> Start:
    if git.branch and _HEADS + git.branch in remote.refs:
        return Start(_HEADS + git.branch, git.branch)
    if git.ref is None:
        if remote.default:
            return Start(remote.default, git.branch or remote.default.removeprefix(_HEADS))
        if "HEAD" in remote.refs:
            return Start("HEAD", git.branch)
        raise WorkspaceError(f"{git.url} has no commits: push a first one, then start the task")
    for name in (_HEADS + git.ref, git.ref):
        if name.startswith(_HEADS) and name in remote.refs:
            return Start(name, git.branch or name.removeprefix(_HEADS))
    for name in (_TAGS + git.ref, git.ref):
        if name.startswith("refs/") and name in remote.refs:
            return Start(name, git.branch)
    if _SHA.fullmatch(git.ref):
        return Start(git.ref, git.branch)
    raise WorkspaceError(f"{git.url} has no branch or tag {git.ref!r} (a commit needs its full id)")


def ssh_host(url: str) -> str | None:
    """The host that git reaches by SSH for this URL; None when it does not.

    >>> ssh_host("git@example.org:team/app.git"), ssh_host("https://example.org/app.git")
    ('example.org', None)
    """
    if _SCP_LIKE.fullmatch(url):
        return url.partition("@")[2].partition(":")[0]
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme == "ssh" else None


def _check_url(url: str, field: str) -> None:
    if _SCP_LIKE.fullmatch(url) or re.fullmatch(r"/[^\x00-\x20]+", url):
        return
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:
        raise WorkspaceError(f"{field}.url is not a URL") from None
    if password is not None or (user is not None and parts.scheme in ("http", "https")):
        raise WorkspaceError(
            f"{field}.url has credentials in it, where everyone can read them: put them into "
            f"a Secret and name it in {field}.credentialsSecretRef"
        )
    if parts.scheme not in _SCHEMES or re.search(r"[\x00-\x20]", url):
        known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise WorkspaceError(f"{field}.url {url!r} must begin with one of {known}")
