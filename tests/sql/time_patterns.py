"""`python -m tests.sql.time_patterns --texts N --seed S`: texts read as times by patterns, compared
with what Spark makes of them, N for each of some seventy patterns. Exit code 1 if one differs.
"""

from __future__ import annotations

import argparse
import random
import sys

from operators.scalar.formats import formatter, parser
from planner.calculus.datetime_patterns import check_readable

_USUAL = (
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd", "dd/MM/yyyy", "yyyyMMdd", "yyyyMMddHHmmss", "HHmmssSSS",
    "d/M/yyyy H:m:s", "MMM d, yyyy hh:mm a", "MMMM dd yyyy", "yy-MM-dd", "HH:mm", "hh:mm", "a",
    "yyyy", "MM", "dd", "ss.SSSSSS", "yyyy-MM-dd'T'HH:mm:ss.SSS", "h a", "MM-dd HH", "M-yyyy",
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "ddMMyyyy", "dd MMM yy hh:mm:ss a", "s", "m", "S", "h",
    "'T'HH", "yyyy''MM", "mm:ss", "d MMM", "a hh:mm", "yyMMdd",
)  # fmt: skip
_FIELDS = (("yyyy", "yy"), ("M", "MM", "MMM", "MMMM"), ("d", "dd"), ("H", "HH", "h", "hh"),
           ("m", "mm"), ("s", "ss"), ("S", "SSS", "SSSSSS"), ("a",))  # fmt: skip
_BETWEEN = ("-", "/", " ", ":", ".", "", "", "'x'", ", ")
_ODD = (*"0123456789 -:/.apmAPMJ+", "", "00", "9")


def _patterns(chance: random.Random) -> list[str]:
    """The usual ones, and some of random fields; those that are refused are left out."""
    found = list(_USUAL)
    for _ in range(40):
        fields = chance.sample([chance.choice(f) for f in _FIELDS], chance.randint(1, 6))
        found.append("".join(field + chance.choice(_BETWEEN) for field in fields))
    return [pattern for pattern in found if _is_readable(pattern)]


def _is_readable(pattern: str) -> bool:
    try:
        check_readable(pattern)
    except ValueError:
        return False
    return True


def _text(chance: random.Random, pattern: str) -> str:
    """A time as the pattern has it; half of them spoilt."""
    day = chance.choice((chance.randint(-20_000, 40_000), chance.randint(-719_162, 2_932_896)))
    text = formatter(pattern)(day, chance.randrange(86_400 * 10**6))
    draw = chance.random()
    if draw < 0.45 and text:
        at = chance.randrange(len(text))
        return text[:at] + chance.choice(_ODD) + text[at + chance.randint(0, 1) :]
    if draw < 0.55:
        return chance.choice((text.upper(), text.lower(), text + " ", " " + text, text + "0"))
    return text


def _ours(pattern: str, text: str) -> int | None:
    try:
        return parser(pattern)(text)
    except ValueError:
        return None


def main() -> int:
    from pyspark.sql import SparkSession

    arguments = argparse.ArgumentParser(
        prog="python -m tests.sql.time_patterns", description=__doc__
    )
    arguments.add_argument("--texts", type=int, default=150)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    chance = random.Random(given.seed)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    compared = wrong = 0
    for pattern in _patterns(chance):
        texts = [_text(chance, pattern) for _ in range(given.texts)]
        quoted = pattern.replace("'", "\\'")
        rows = spark.createDataFrame(list(enumerate(texts)), "i INT, s STRING").selectExpr(
            "i", f"unix_micros(try_to_timestamp(s, '{quoted}')) AS m"
        )
        for row in rows.collect():
            compared += 1
            if (mine := _ours(pattern, texts[row.i])) != row.m:
                wrong += 1
                print(f"{pattern!r} of {texts[row.i]!r}: {mine}, Spark {row.m}")
    spark.stop()
    print(f"{compared:,} texts, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
