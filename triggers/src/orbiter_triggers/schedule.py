"""When a schedule is due: a pure function of the schedule, its time zone, the last time and now.

Fixed times follow Debian's cron through a change of summer time: one that the clock leaves out runs
when the hour has passed, one that it has twice runs once. What runs every hour, or in every minute
of some, goes by the time that has passed. After a downtime the latest time counts and the others
are missed, as with a CronJob.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from orbiter_contracts.bounds import one_line

MOST_COUNTED: Final = 100
"""Missed times of one downtime that are counted: a year of minutes is half a million."""
_LONGEST: Final = 100
_FIELDS: Final = 5
_SHOWN: Final = 60
_SECOND: Final = timedelta(seconds=1)


class Due(NamedTuple):
    """What a schedule has come to.

    Attributes:
        run: The time that a task is due for; None when none is.
        missed: How many times since the last one make no task, at most `MOST_COUNTED`.
        first_missed: The first of these that was counted.
        last_missed: The last of them.
        decided: The latest time that has passed, whether it makes a task or not; None for none.
        next: When it is due next; None for never.
    """

    run: datetime | None = None
    missed: int = 0
    first_missed: datetime | None = None
    last_missed: datetime | None = None
    decided: datetime | None = None
    next: datetime | None = None


def schedule_problem(schedule: str, time_zone: str) -> str | None:
    """Why this is no schedule, in words; None when it is one."""
    shown = one_line(schedule, _SHOWN)
    where = "spec.source.cron.schedule"
    fields = len(schedule.split())
    if fields != _FIELDS:
        noun = "field" if fields == 1 else "fields"
        return f"{where}: {shown!r} has {fields} {noun}, not the five of cron"
    if len(schedule) > _LONGEST:
        return f"{where}: is longer than {_LONGEST} characters"
    if _zone(time_zone) is None:
        name = one_line(time_zone, _SHOWN)
        return f"spec.source.cron.timeZone: {name!r} is no time zone; write for instance UTC"
    try:
        CronSim(schedule, datetime(2026, 1, 1, tzinfo=UTC))
    except (CronSimError, ValueError) as error:
        return f"{where}: {shown!r}: {error}; write for instance 0 6 * * MON"
    return None


def due(
    schedule: str,
    time_zone: str,
    last: datetime,
    now: datetime,
    deadline: int | None = None,
) -> Due:
    """What is due now.

    Args:
        schedule: One without a `schedule_problem`.
        time_zone: Its time zone.
        last: The latest time that was decided about; later than now counts as now.
        now: The time.
        deadline: Seconds after its time in which a run may start; None for no limit.
    """
    following = next(_times(schedule, time_zone, now), None)
    passed = list[datetime]()
    if last < now:
        for moment in _times(schedule, time_zone, now, back=True):
            # The latest and those that are counted beside it.
            if moment <= last or len(passed) > MOST_COUNTED:
                break
            passed.append(moment)
    if not passed:
        return Due(next=following)
    latest = passed[0]
    late = deadline is not None and (now - latest).total_seconds() > deadline
    missed = passed[0 if late else 1 :][:MOST_COUNTED]
    return Due(
        run=None if late else latest,
        missed=len(missed),
        first_missed=missed[-1] if missed else None,
        last_missed=missed[0] if missed else None,
        decided=latest,
        next=following,
    )


def _times(
    schedule: str, time_zone: str, now: datetime, *, back: bool = False
) -> Iterator[datetime]:
    """The times of a schedule after now, or back from now, which counts; in UTC."""
    zone = _zone(time_zone) or UTC
    begin = now.astimezone(zone)
    if back:
        # The library leaves out the very moment that it begins with.
        begin = (now.replace(microsecond=0) + _SECOND).astimezone(zone)
    before = None
    for moment in CronSim(schedule, begin, reverse=back):
        found = moment.astimezone(UTC)
        # Around a change of summer time the library may name one again, or one beyond now.
        if found == before or (found > now if back else found <= now):
            continue
        before = found
        yield found


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None  # none of that name, none at all, or a path
