"""The clocks of time zones: against zoneinfo, against their plain twin, and their names."""

from __future__ import annotations

import datetime
import importlib.resources
import random
import zoneinfo

import numpy as np
import pytest

from operators.scalar.zones import MICROS_PER_DAY, UTC_CLOCKS, clocks_of
from planner.calculus import zones

EPOCH = datetime.datetime(1970, 1, 1)
SECOND = datetime.timedelta(seconds=1)
NAMES = (
    "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Casablanca",
    "America/Toronto", "Pacific/Apia", "America/Sao_Paulo", "Europe/Dublin", "Asia/Gaza",
    "America/Nuuk", "Antarctica/Troll", "+02:00", "-00:00:01",
)  # fmt: skip


def zone_of(name: str) -> zones.Zone:
    found = zones.find(name)
    assert found is not None
    return found


def moments(zone: zones.Zone, random_: random.Random) -> list[int]:
    """Seconds of all years of Python, thick around changes of the zone."""
    low, high = -62_135_000_000, 253_402_000_000
    found = [random_.randrange(low, high) for _ in range(200)]
    for change in random_.sample(zone.transitions, min(60, len(zone.transitions))):
        found += [change + random_.choice((-7200, -3600, -1, 0, 1, 3599, 3600)) for _ in range(4)]
        found += [change + random_.randrange(-90_000, 90_000) for _ in range(4)]
    return found


@pytest.mark.parametrize("name", [n for n in NAMES if "/" in n])
def test_rules_are_those_of_zoneinfo(name: str) -> None:
    zone = zone_of(name)
    # The machine's own files may be of another year.
    with (importlib.resources.files("tzdata") / "zoneinfo" / name).open("rb") as file:
        info = zoneinfo.ZoneInfo.from_file(file)
    for seconds in moments(zone, random.Random(name)):
        moment = (EPOCH + seconds * SECOND).replace(tzinfo=datetime.timezone.utc)
        offset = moment.astimezone(info).utcoffset()
        assert offset is not None
        assert zone.offset_at(seconds) == offset // SECOND, moment
        local = EPOCH + seconds * SECOND
        earlier = local.replace(tzinfo=info).utcoffset()
        assert earlier is not None
        assert seconds - zone.instant_of(seconds) == earlier // SECOND, local


@pytest.mark.parametrize("name", NAMES)
def test_arrays_agree_with_the_plain_rules(name: str) -> None:
    zone, clocks, random_ = zone_of(name), clocks_of(zone_of(name)), random.Random(name)
    seconds = moments(zone, random_)
    seconds += [random_.randrange(-9_223_372_000_000, 9_223_372_000_000) for _ in range(100)]
    micros = np.array([s * 1_000_000 + random_.randrange(1_000_000) for s in seconds], np.int64)
    days, rest = clocks.local(micros)
    for instant, day, time in zip(micros.tolist(), days.tolist(), rest.tolist(), strict=True):
        assert day * MICROS_PER_DAY + time == instant + 1_000_000 * zone.offset_at(
            instant // 1_000_000
        )
    instants, bad = clocks.instants(*UTC_CLOCKS.local(micros))
    assert not bad.any()
    for local, instant in zip(micros.tolist(), instants.tolist(), strict=True):
        assert instant == zone.instant_of(local // 1_000_000) * 1_000_000 + local % 1_000_000
    starts, bad = clocks.starts(days)
    assert not bad.any()
    assert starts.tolist() == [zone.start_of_day(d) * 1_000_000 for d in days.tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_what_clocks_show_leads_back_to_the_instant(name: str) -> None:
    clocks = clocks_of(zone_of(name))
    seconds = moments(zone_of(name), random.Random(name))
    micros = np.array(seconds, np.int64) * 1_000_000
    back, _ = clocks.instants(*clocks.local(micros), near=micros)
    assert back.tolist() == micros.tolist()


def test_beyond_64_bits_of_microseconds() -> None:
    top = np.array([(1 << 63) - 1, -(1 << 63)], np.int64)
    clocks = clocks_of(zone_of("+02:00"))
    days, rest = clocks.local(top)
    assert rest.tolist() == [
        ((1 << 63) - 1 + 7_200_000_000) % MICROS_PER_DAY,
        (-(1 << 63) + 7_200_000_000) % MICROS_PER_DAY,
    ]
    back, bad = clocks.instants(days, rest)
    assert back.tolist() == top.tolist() and not bad.any()
    assert UTC_CLOCKS.instants(days, rest)[1].tolist() == [True, False]
    assert clocks.instants(*UTC_CLOCKS.local(top))[1].tolist() == [False, True]
    assert clocks.starts(np.array([1 << 30, -(1 << 30), 0]))[1].tolist() == [True, True, False]


#: A gap of an hour begins at 23:30, so that the day begins at 00:30 and midnight is taken for 1:00.
def test_a_day_that_begins_in_a_gap() -> None:
    toronto = zone_of("America/Toronto")
    day = (datetime.date(1919, 3, 31) - EPOCH.date()).days
    half_past = toronto.start_of_day(day)
    assert half_past + toronto.offset_at(half_past) == day * 86_400 + 1800
    assert toronto.instant_of(day * 86_400) == half_past + 1800


@pytest.mark.parametrize(
    ("name", "id"),
    [
        *(("UTC", "UTC"), ("Z", "UTC"), ("GMT", "UTC"), ("UT", "UTC"), ("+00:00", "UTC")),
        *(("+2", "+02:00"), ("+02", "+02:00"), ("-3:30", "-03:30"), ("+02:3", "+02:03")),
        *(("+0330", "+03:30"), ("+01:02:03", "+01:02:03"), ("-010203", "-01:02:03")),
        *(("GMT+2", "+02:00"), ("UTC-08:00", "-08:00"), ("UT+1", "+01:00")),
        *(("+18:00", "+18:00"), ("EST", "-05:00"), ("PST", "America/Los_Angeles")),
        *(("Europe/Paris", "Europe/Paris"), ("Etc/UTC", "UTC"), ("CET", "CET")),
    ],
)
def test_names_that_spark_takes(name: str, id: str) -> None:
    assert zone_of(name).id == id
    assert zones.find(id) == zone_of(name)


@pytest.mark.parametrize(
    "name",
    ["", "+", "+18:01", "+19", "+1:60", "+01:2:03", "+123", "utc", "europe/paris", "Mars/Base",
     "Europe", "../etc/passwd", "Europe/../Europe/Paris", "a\0b", "+٢", "zone.tab", "/", "UTC+"],
)  # fmt: skip
def test_names_that_are_none(name: str) -> None:
    assert zones.find(name) is None
