"""When a schedule is due: changes of summer time, downtime, deadlines; and what is no schedule."""

from datetime import UTC, datetime, timedelta

import pytest

from orbiter_triggers.schedule import MOST_COUNTED, due, schedule_problem

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def runs(schedule: str, zone: str, begin: str, end: str) -> list[str]:
    """All runs that somebody starts who looks every five minutes."""
    last, now, found = at(begin), at(begin), []
    while now <= at(end):
        if (run := due(schedule, zone, last, now).run) is not None:
            found.append(f"{run:%dT%H:%M}")
            last = run
        now += timedelta(minutes=5)
    return found


def test_nothing_is_due_before_its_time() -> None:
    found = due("0 6 * * *", "UTC", at("2026-03-01T06:00"), at("2026-03-02T05:59:59"))
    assert (found.run, found.missed) == (None, 0)
    assert found.next == at("2026-03-02T06:00")


def test_a_run_is_due_at_its_time_and_once() -> None:
    now = at("2026-03-02T06:00")
    found = due("0 6 * * *", "UTC", at("2026-03-01T06:00"), now)
    assert (found.run, found.missed, found.next) == (now, 0, at("2026-03-03T06:00"))
    assert due("0 6 * * *", "UTC", now, now).run is None
    assert due("0 6 * * *", "UTC", now, now + timedelta(seconds=1, microseconds=7)).run is None


def test_half_a_second_after_its_time_it_is_due() -> None:
    found = due("0 6 * * *", "UTC", at("2026-03-01T06:00"), at("2026-03-02T06:00:00.5"))
    assert found.run == at("2026-03-02T06:00")


def test_a_fixed_time_that_summer_time_leaves_out_runs_when_the_hour_has_passed() -> None:
    # On 2026-03-29 there is no 02:30 in Berlin: it goes from 02:00 CET to 03:00 CEST, 01:00 UTC.
    found = runs("30 2 * * *", BERLIN, "2026-03-28T00:00", "2026-03-30T12:00")
    assert found == ["28T01:30", "29T01:00", "30T00:30"]


def test_a_fixed_time_that_winter_time_has_twice_runs_once() -> None:
    # On 2026-10-25 there are two 02:30 in Berlin, 00:30 and 01:30 UTC.
    found = runs("30 2 * * *", BERLIN, "2026-10-24T00:00", "2026-10-26T12:00")
    assert found == ["24T00:30", "25T00:30", "26T01:30"]


@pytest.mark.parametrize(("begin", "end"), [("2026-03-29", "2026-03-29"), ("2026-10-25",) * 2])
def test_what_runs_every_hour_does_so_through_both_changes(begin: str, end: str) -> None:
    found = runs("0 * * * *", BERLIN, f"{begin}T00:00", f"{end}T04:00")
    assert [run[3:] for run in found] == ["01:00", "02:00", "03:00", "04:00"]


def test_in_another_time_zone_midnight_is_elsewhere() -> None:
    found = due("0 0 * * *", "Asia/Kolkata", at("2026-03-01T00:00"), at("2026-03-01T20:00"))
    assert found.run == at("2026-03-01T18:30")


def test_after_a_day_of_downtime_the_latest_run_starts_and_the_others_are_told() -> None:
    found = due("0 * * * *", "UTC", at("2026-03-01T06:00"), at("2026-03-02T06:20"))
    assert (found.run, found.missed) == (at("2026-03-02T06:00"), 23)
    assert found.first_missed == at("2026-03-01T07:00")


def test_beyond_the_deadline_nothing_starts() -> None:
    last, now = at("2026-03-01T06:00"), at("2026-03-02T06:20")
    late = due("0 * * * *", "UTC", last, now, deadline=600)
    assert (late.run, late.missed, late.decided) == (None, 24, at("2026-03-02T06:00"))
    assert due("0 * * * *", "UTC", last, now, deadline=1200).run == at("2026-03-02T06:00")


def test_a_year_of_missed_minutes_is_counted_as_far_as_it_is_worth_it() -> None:
    found = due("* * * * *", "UTC", at("2025-03-01T06:00"), at("2026-03-01T06:00"))
    assert found.missed == MOST_COUNTED
    assert found.run == at("2026-03-01T06:00")


def test_a_last_time_of_the_future_counts_as_now() -> None:
    found = due("0 6 * * *", "UTC", at("2030-01-01T00:00"), at("2026-03-01T00:00"))
    assert (found.run, found.next) == (None, at("2026-03-01T06:00"))


@pytest.mark.parametrize(
    ("schedule", "zone", "sentence"),
    [
        ("0 6 * *", "UTC", "spec.source.cron.schedule: '0 6 * *' has 4 fields, not the five"),
        ("0 0 6 * * *", "UTC", "has 6 fields, not the five"),
        ("61 6 * * *", "UTC", "schedule: '61 6 * * *': Bad minute"),
        ("0 6 31 2 *", "UTC", "schedule: '0 6 31 2 *': Bad day-of-month"),
        ("0 6 30 FEB *", "UTC", "Bad day-of-month"),
        ("x" * 5000, "UTC", "has 1 field"),
        ("0 " * 4 + "1-" + "9" * 5000, "UTC", "schedule: is longer than 100 characters"),
        ("0 6 * * *", "Europe/Bärlin", "spec.source.cron.timeZone: 'Europe/Bärlin' is no time"),
        ("0 6 * * *", "../../etc/passwd", "is no time zone"),
        ("0 6 * * *", "", "is no time zone"),
        ("0 6 29 2 MON#5", "UTC", ""),
    ],
)
def test_what_is_no_schedule_is_told_in_words(schedule: str, zone: str, sentence: str) -> None:
    assert sentence in (schedule_problem(schedule, zone) or "")


def test_a_schedule_in_order_has_no_problem() -> None:
    assert schedule_problem("*/15 6-18 * * MON-FRI", BERLIN) is None
    assert schedule_problem("0 6 L * *", "UTC") is None
