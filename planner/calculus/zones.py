"""Time zones: what their clocks show at an instant, and which instant a clock shows.

Rules are those of the IANA database, read from the files of the PyPI package tzdata, so that every
process of a cluster that has this environment computes alike. Names and offsets are those that
Spark takes.

    zone at T: offset before a, after b      b > a, a gap        b < a, an overlap
    clocks that are shown never or twice     [T + a, T + b)      [T + b, T + a)
    taken for                                later by b - a      the first, of offset a

so that a local time before T + max(a, b) has the offset a. Beyond the transitions of the file its
last rule holds for ever: the Gregorian calendar repeats every 400 years, weekdays included, so one
cycle is kept, and other times are moved into it.

Invariant: `Zone.id` alone decides the rules.

Source: RFC 9636 (TZif, and the rule at its end); Java `ZoneId.of`, `ZoneRules`,
`ZonedDateTime.ofLocal`; Spark `DateTimeUtils.getZoneId`.
"""

from __future__ import annotations

import datetime
import importlib.resources
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

SECONDS_PER_DAY = 86_400
#: 400 years of the Gregorian calendar, in seconds.
CYCLE_SECONDS = 146_097 * SECONDS_PER_DAY
MAX_OFFSET_SECONDS = 18 * 3600


@dataclass(frozen=True, slots=True)
class Zone:
    """The rules of a time zone, in seconds since 1970-01-01 00:00 UTC.

    `offsets[i]` holds from `transitions[i - 1]` on and before `transitions[i]`. They reach 400
    years beyond `cycle_start`, from where on they repeat; None: the last offset holds for ever.
    """

    id: str
    transitions: tuple[int, ...] = field(repr=False, compare=False)
    offsets: tuple[int, ...] = field(repr=False, compare=False)
    cycle_start: int | None = field(repr=False, compare=False)
    #: transitions[i] + max(offsets[i], offsets[i + 1]): local times before it have offsets[i].
    local_transitions: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pairs = zip(self.transitions, self.offsets, self.offsets[1:], strict=False)
        object.__setattr__(self, "local_transitions", tuple(t + max(a, b) for t, a, b in pairs))

    @property
    def is_utc(self) -> bool:
        return self.offsets == (0,)

    def offset_at(self, instant: int) -> int:
        """Seconds that clocks are ahead of UTC."""
        return self.offsets[bisect_right(self.transitions, self._in_cycle(instant))]

    def instant_of(self, local: int, later: bool = False) -> int:
        """The instant at which clocks show `local`; the second one, if there are two and `later`"""
        moved = self._in_cycle(local)
        i = bisect_right(self.local_transitions, moved)
        if later and i < len(self.transitions) and self.offsets[i + 1] < self.offsets[i]:
            i += moved >= self.transitions[i] + self.offsets[i + 1]
        return local - self.offsets[i]

    def start_of_day(self, day: int) -> int:
        """The first instant of a day (since 1970-01-01); of the next one if clocks skip it."""
        midnight = day * SECONDS_PER_DAY
        moved = self._in_cycle(midnight)
        i = bisect_right(self.local_transitions, moved)
        if i < len(self.transitions) and self.transitions[i] + self.offsets[i] <= moved:
            if self.offsets[i + 1] > self.offsets[i]:
                return midnight - moved + self.transitions[i]
        return midnight - self.offsets[i]

    def _in_cycle(self, seconds: int) -> int:
        start = self.cycle_start
        if start is None or seconds < start + CYCLE_SECONDS:
            return seconds
        return start + (seconds - start) % CYCLE_SECONDS


UTC = Zone("UTC", (), (0,), None)

#: Java's ZoneId.SHORT_IDS.
_SHORT_IDS = {
    "EST": "-05:00", "HST": "-10:00", "MST": "-07:00", "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago",
    "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])"
    r"(?:([0-9]{1,2})(?::([0-9]{1,2}))?|([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"|([0-9]{2})([0-9]{2})([0-9]{2})?)",
    re.ASCII,
)
#: Zones, and names of none, that are remembered: names come from data too.
_KEPT = 1024
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", re.ASCII)


def find(name: str) -> Zone | None:
    """The zone of a name or offset as Spark takes them, or None if it knows none.

    Region ('Europe/Paris'), offset ('+2', '+02:00', '-0330', '+01:02:03', also after UTC, GMT or
    UT; at most 18 hours), Z, UTC, GMT, UT, or one of Java's short names ('PST', 'IST').
    Cost: a file is read at the first use of a region, then O(1).
    """
    name = _SHORT_IDS.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is not None:
        sign, *parts = found.groups()
        hours, minutes, seconds = (*(int(p) for p in parts if p is not None), 0, 0)[:3]
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > MAX_OFFSET_SECONDS:
            return None
        return _fixed(-total if sign == "-" else total)
    return _region(name) if _REGION.fullmatch(name) else None


@cache
def _fixed(offset: int) -> Zone:
    if not offset:
        return UTC
    minutes, seconds = divmod(abs(offset), 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return Zone(text + (f":{seconds:02d}" if seconds else ""), (), (offset,), None)


@cache
def _region(name: str) -> Zone | None:
    data = _file(name)
    if data is None:
        return None
    transitions, offsets, rule = _parsed(data)
    cycle_start = None
    if rule:
        last = transitions[-1] if transitions else 0
        first_year = (_EPOCH + datetime.timedelta(seconds=last)).year
        following = sorted(
            t for year in range(first_year, first_year + 403) for t in _of_year(rule, year)
        )
        for instant, offset in following:
            if instant > last:
                transitions.append(instant)
                offsets.append(offset)
        cycle_start = _seconds(datetime.datetime(first_year + 1, 1, 1))
    # Files repeat offsets where only a name changes.
    changes = [i for i in range(len(transitions)) if offsets[i] != offsets[i + 1]]
    offsets = [offsets[0], *(offsets[i + 1] for i in changes)]
    if offsets == [0]:
        return UTC
    return Zone(name, tuple(transitions[i] for i in changes), tuple(offsets), cycle_start)


def _file(name: str) -> bytes | None:
    place = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    try:
        data = place.read_bytes()
    except OSError:
        return None
    return data if data.startswith(b"TZif") else None


# ---------------------------------------------------------------------------------- files and rules

_EPOCH = datetime.datetime(1970, 1, 1)
_HEADER = struct.Struct(">4s c 15x 6l")


def _seconds(moment: datetime.datetime) -> int:
    return (moment - _EPOCH) // datetime.timedelta(seconds=1)


def _parsed(data: bytes) -> tuple[list[int], list[int], _Rule | None]:
    """Transitions, offsets (one more) and the rule after them."""
    _, version, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data)
    size, at = 4, _HEADER.size
    if version >= b"2":  # the same again, in 64 bits
        at += times * 5 + types * 6 + chars + leap * 8 + isstd + isut
        _, _, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data, at)
        size, at = 8, at + _HEADER.size
    transitions = list(struct.unpack_from(f">{times}{'q' if size == 8 else 'l'}", data, at))
    at += times * size
    indexes = struct.unpack_from(f">{times}B", data, at)
    at += times
    offset_of = [struct.unpack_from(">l", data, at + 6 * i)[0] for i in range(types)]
    at += types * 6 + chars + leap * (size + 4) + isstd + isut
    rule = data[at:].decode("ascii").strip("\n") if size == 8 else ""
    return transitions, [offset_of[0], *(offset_of[i] for i in indexes)], _rule(rule)


@dataclass(frozen=True, slots=True)
class _Change:
    """Every year on that date, at `seconds` after midnight by the clocks before it, to `offset`."""

    date: str
    seconds: int
    before: int
    offset: int

    def in_year(self, year: int) -> tuple[int, int]:
        """The instant, and the offset from then on."""
        if self.date[0] == "M":
            month, week, weekday = map(int, self.date[1:].split("."))
            first = datetime.date(year, month, 1)
            day = first + datetime.timedelta((weekday - first.isoweekday()) % 7 + 7 * (week - 1))
            if day.month != month:
                day -= datetime.timedelta(7)
        elif self.date[0] == "J":  # 1 to 365, without 29 February
            day = datetime.date(2001, 1, 1) + datetime.timedelta(int(self.date[1:]) - 1)
            day = day.replace(year=year)
        else:
            day = datetime.date(year, 1, 1) + datetime.timedelta(int(self.date))
        midnight = (day - _EPOCH.date()).days * SECONDS_PER_DAY
        return midnight + self.seconds - self.before, self.offset


_Rule = tuple[_Change, _Change]
_NAME = r"(?:[A-Za-z]+|<[^>]+>)"
_CLOCK = r"[+-]?[0-9]+(?::[0-9]+){0,2}"
_DATE = rf"((?:J[0-9]+|[0-9]+|M[0-9]+\.[0-9]+\.[0-9]+))(?:/({_CLOCK}))?"
_RULE = re.compile(rf"{_NAME}({_CLOCK}){_NAME}({_CLOCK})?,{_DATE},{_DATE}")


def _rule(text: str) -> _Rule | None:
    """The changes of each year, from a POSIX TZ string; None if there are none."""
    found = _RULE.fullmatch(text)
    if found is None:
        return None
    standard = -_clock(found[1])
    summer = -_clock(found[2]) if found[2] else standard + 3600
    return (
        _Change(found[3], _clock(found[4] or "2"), standard, summer),
        _Change(found[5], _clock(found[6] or "2"), summer, standard),
    )


def _clock(text: str) -> int:
    parts = [int(p) for p in text.lstrip("+-").split(":")]
    hours, minutes, seconds = (*parts, *(0, 0)[len(parts) - 1 :])
    total = hours * 3600 + minutes * 60 + seconds
    return -total if text.startswith("-") else total


def _of_year(rule: _Rule, year: int) -> Iterator[tuple[int, int]]:
    return (change.in_year(year) for change in rule)
