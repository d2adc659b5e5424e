"""`python -m tests.bad_sql --texts N --seed S`: SQL that nobody would write, N texts of it.

Each text is a valid one (of tests/sql, TPC-H, the planner's cases) after a few mutations: tokens
deleted, doubled, swapped, spliced in from elsewhere; the text cut off; odd characters; huge
numbers; deep nesting. A query is explained as a view over the tables that it was written for; any
other statement runs, but what Spark or DuckDB would be started for is only parsed.

What may come out is a result, or a SqlViewError in the style of the project (`fault_of`). All else
is printed with the text, and the exit code is 1. A text is a function of the seed and its number:
`--first K --texts 1` makes number K again.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

import sqlview
from planner import parse
from planner.errors import SqlViewError
from planner.parse.tokens import lexemes
from tests.planner import cases
from tests.sql import function_cases, test_bad_sql
from tests.sql.test_traps import SCENARIOS
from tpch.queries import all_queries
from tpch.schema import TABLES

#: Texts of one session: its catalog has what the statements among them made.
_SESSION_TEXTS = 100
_CHUNK_TEXTS = 1_000
_MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Original:
    """A text that is valid, or nearly, over these tables (CREATE TABLE statements)."""

    tables: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A text and what is wrong with what came of it."""

    number: int
    text: str
    problem: str


@cache
def originals() -> tuple[Original, ...]:
    found: list[Original] = []
    for scenario in SCENARIOS:
        tables = []
        for spec in scenario.tables:
            key = f", PRIMARY KEY ({', '.join(spec.key)})" if spec.key else ""
            tables.append(f"CREATE TABLE {spec.name} ({spec.columns}{key})")
        views = (*scenario.views.values(), *scenario.late.values())
        found += [Original(tuple(tables), text) for text in views]
    functions = (f"CREATE TABLE t ({function_cases.COLUMNS})",)
    found += [Original(functions, f"SELECT {e} AS x FROM t") for e in function_cases.EXPRESSIONS]
    plain = ("CREATE TABLE t (id INT PRIMARY KEY, v INT, b BOOLEAN, d DATE, s STRING)",
             "CREATE TABLE u (id INT, w INT)")  # fmt: skip
    found += [Original(plain, bad.query) for bad in test_bad_sql.QUERIES]
    found += [Original(plain, case.text) for case in cases.read("statements")]
    tpch = tuple(t.sql for t in TABLES)
    found += [Original(tpch, query.sql) for query in all_queries()]
    return tuple(found)


# -- mutations -----------------------------------------------------------------------------------

#: A mutation of the pieces of a text.
_Mutation = Callable[[list[str], Random], None]

_CHARACTERS = [
    *"\0\ud800\udffféİß日😀\u202e\ufeff\xa0\u2028\x1b\r\t\\'\"`;$@?:!~^&|#{}[].,()*%",
    *"-- /* */ -> => :: || <=> == ..".split(),
]
_NUMBERS = [
    *"0 -1 .5 5. 1L 128Y 32768S 1.5D 1e5BD 1.5F 1E+5 0x1F 1_000 1e 2147483648 1e308 1e309".split(),
    *"9223372036854775807 9223372036854775808 -9223372036854775809 1e-400 1e99999999".split(),
    *("9" * digits for digits in (38, 39, 400, 5000)),
    "0." + "0" * 39 + "1",
    "1." + "0" * 60,
]
#: One a line.
_PHRASES = Path(__file__).with_name("sql").joinpath("phrases.txt").read_text().splitlines()


def _at(pieces: Sequence[str], random: Random) -> int:
    """A place that is no white space, if there is one."""
    places = [i for i, piece in enumerate(pieces) if not piece.isspace()]
    return random.choice(places or range(len(pieces)))


def _delete(pieces: list[str], random: Random) -> None:
    at = _at(pieces, random)
    del pieces[at : at + random.choice((1, 1, 1, 2, 5))]


def _double(pieces: list[str], random: Random) -> None:
    at = _at(pieces, random)
    pieces[at:at] = pieces[at : at + random.choice((1, 2, 3, 8))]


def _swap(pieces: list[str], random: Random) -> None:
    a, b = _at(pieces, random), _at(pieces, random)
    pieces[a], pieces[b] = pieces[b], pieces[a]


def _move(pieces: list[str], random: Random) -> None:
    pieces.insert(_at(pieces, random), pieces.pop(_at(pieces, random)))


def _splice(pieces: list[str], random: Random) -> None:
    other = _split(random.choice(originals()).text)
    start, at = _at(other, random), _at(pieces, random)
    pieces[at : at + random.choice((0, 1, 4))] = other[start : start + random.randint(1, 12)]


def _cut(pieces: list[str], random: Random) -> None:
    if random.random() < 0.5:
        del pieces[max(1, _at(pieces, random)) :]
    else:
        del pieces[: _at(pieces, random)]


def _character(pieces: list[str], random: Random) -> None:
    at = _at(pieces, random)
    cut = random.randint(0, len(pieces[at]))
    odd = random.choice(_CHARACTERS) if random.random() < 0.8 else chr(random.randrange(0x110000))
    pieces[at] = pieces[at][:cut] + odd + pieces[at][cut:]


def _number(pieces: list[str], random: Random) -> None:
    numbers = [i for i, piece in enumerate(pieces) if piece[0].isdigit()]
    at = random.choice(numbers) if numbers else _at(pieces, random)
    pieces[at] = random.choice(_NUMBERS)


def _phrase(pieces: list[str], random: Random) -> None:
    at = _at(pieces, random)
    pieces[at : at + random.choice((0, 0, 1))] = [" ", random.choice(_PHRASES), " "]


def _exchange(pieces: list[str], random: Random) -> None:
    """A word for another of the same text."""
    words = [i for i, piece in enumerate(pieces) if piece[0].isalpha()]
    if len(words) > 1:
        pieces[random.choice(words)] = pieces[random.choice(words)]


def _nest(pieces: list[str], random: Random) -> None:
    """Part of the text many times over, inside itself or one after the other."""
    start = _at(pieces, random)
    end = min(len(pieces), start + random.choice((1, 1, 2, 3, 9)))
    part, times = "".join(pieces[start:end]), random.choice((3, 20, 70, 300, 1500))
    before, joint, after = random.choice(
        (("(", "", ")"), ("NOT ", "", ""), ("-", "", ""), ("upper(", "", ")"), ("", " + ", ""),
         ("", " AND ", ""), ("", " OR ", ""), ("", " || ", ""), ("", ", ", ""), ("", " * ", ""),
         ("(SELECT ", "", ")"), ("", " UNION ALL ", ""), ("", " = ", ""), ("", " - ", ""),
         ("CASE WHEN TRUE THEN ", "", " END"), ("coalesce(1, ", "", ")"), ("", " UNION ", ""),
         ("(1 + ", "", ")"), ("(", " AND x)", ""), ("", " IN (", ""), ("cast(", "", " AS INT)"))
    )  # fmt: skip
    times = max(1, min(times, _MOST_CHARACTERS // (len(part) + len(before + joint + after))))
    chain = joint.join([part] * times) if joint else part
    depth = 1 if joint and not before else times
    pieces[start:end] = [before * depth + chain + after * depth]


_MUTATIONS: tuple[_Mutation, ...] = (
    _delete, _double, _swap, _move, _splice, _cut, _character, _number, _phrase, _phrase, _exchange,
    _nest,
)  # fmt: skip


def _grafted(text: str, random: Random) -> str:
    """An expression or clause of the query in the place of which stands one of another query: what
    parses, and means nothing."""
    tree, other = _tree(text), _tree(random.choice(originals()).text)
    if tree is None or other is None:
        return text
    tree = tree.copy()
    places = [n for n in tree.walk() if n.parent is not None]
    for _ in range(random.choice((1, 1, 2, 3))):
        place = random.choice(places)
        alike = [n for n in other.walk() if _alike(n, place)]
        if alike:
            graft = random.choice(alike).copy()
            for kind in (exp.Column, exp.Table):  # those that are there
                own = [n for n in tree.walk() if type(n) is kind]
                for foreign in [n for n in graft.walk() if type(n) is kind and n.parent] * bool(
                    own
                ):
                    foreign.replace(random.choice(own).copy())
            if isinstance(graft, exp.Query) and not isinstance(place, exp.Query):
                graft = exp.Paren(this=graft)
            place.replace(graft)
    return tree.sql(dialect="spark")


def _alike(one: exp.Expression, other: exp.Expression) -> bool:
    clauses = (exp.Query, exp.Condition)
    return type(one) is type(other) or (isinstance(one, clauses) and isinstance(other, clauses))


@cache
def _tree(text: str) -> exp.Expression | None:
    if not text.lstrip(" (\n").upper().startswith(("SELECT", "WITH", "VALUES")):
        return None
    try:
        return sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return None


def _split(text: str) -> list[str]:
    return [token.text for token in lexemes(text)] or [" "]


def text_of(seed: int, number: int) -> Original:
    """The text of that number."""
    random = Random(f"{seed}/{number}")
    original = random.choice(originals())
    text, mutations = original.text, random.choice((1, 1, 1, 2, 2, 3, 5))
    if random.random() < 0.6:
        text, mutations = _grafted(text, random), mutations // 3
    pieces = _split(text)
    for _ in range(mutations):
        random.choice(_MUTATIONS)(pieces, random)
        pieces = [p for p in pieces if p] or [" "]
    return Original(original.tables, "".join(pieces)[:_MOST_CHARACTERS])


# -- what comes of it ----------------------------------------------------------------------------


def attempt(db: sqlview.Session, text: str) -> None:
    """Explain the query as a view, or run the statement."""
    try:
        statement = parse.parse_statement(text)
    except SqlViewError:
        if not text.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
            raise
        statement = parse.Select(text)
    if isinstance(statement, parse.Select):
        db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW explained AS {text}")
    elif not isinstance(statement, parse.VerifyView):
        db.sql(text)


#: What no message shows: Python's and the planner's own.
_INTERNAL = re.compile(
    r"<class|object at 0x|Traceback|sqlglot|\bexp\.|\bNone\b|Error\(|Type\(\)|Expression|"
    r"_top\b|\bsum_|__\w|outer\(\d|single_value|checked_sum|exact_sum|eq_null_safe|#\d"
)


def fault_of(error: SqlViewError, text: str) -> str | None:
    """How the error leaves the style of the project; what it quotes of the text aside."""
    message = error.message
    if not message or message.endswith(".") or "\n" in message:
        return f"the message is no line without a full stop: {message!r}"
    first = re.match(r"[A-Za-z]+", message)
    if first and not (first[0].islower() or first[0].isupper()):
        return f"the message begins with a capital: {message!r}"
    for part in (error.detail, error.hint):
        if part is not None and not (part[:1].strip() and part.rstrip()[-1:] in ".?"):
            return f"not a sentence: {part!r}"
    if error.line is not None:
        lines = text.count("\n") + 1
        if not (1 <= error.line <= lines and error.column is not None and error.column >= 1):
            return f"the place is outside the text: line {error.line}, column {error.column}"
    shown = _INTERNAL.search(str(error))
    if shown and shown[0] not in text:
        return f"shows {shown[0]!r}: {error}"
    return None


@dataclass(frozen=True, slots=True)
class Outcome:
    kinds: Counter[str]
    faults: tuple[Fault, ...]


def run(seed: int, first: int, texts: int) -> Outcome:
    """Texts `first` and following."""
    kinds: Counter[str] = Counter()
    faults: list[Fault] = []
    sessions: dict[tuple[str, ...], sqlview.Session] = {}
    for number in range(first, first + texts):
        if (number - first) % _SESSION_TEXTS == 0:
            sessions.clear()
        made = text_of(seed, number)
        db = sessions.get(made.tables)
        if db is None:
            db = sessions[made.tables] = sqlview.connect()
            for table in made.tables:
                db.sql(table)
        try:
            attempt(db, made.text)
            kinds["no error"] += 1
        except SqlViewError as error:
            kinds[f"{type(error).__name__}: {_kind(error.message)}"] += 1
            problem = fault_of(error, made.text)
            if problem is not None:
                faults.append(Fault(number, made.text, problem))
        except Exception as error:
            kinds[f"fault: {type(error).__name__}"] += 1
            trace = "".join(traceback.format_exception(error)[-6:])
            faults.append(Fault(number, made.text, trace))
    return Outcome(kinds, tuple(faults))


def _kind(message: str) -> str:
    """The message without what it quotes."""
    masked = re.sub(r"""("[^"]*("|$)|'[^']*('|$))""", "…", message, flags=re.DOTALL)
    return re.sub(r"\d+|\b[A-Z][A-Z_]+\b.*", "…", masked)[:50]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bad_sql", description=__doc__)
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kinds", type=int, default=40, help="how many kinds of errors to list")
    options = parser.parse_args(arguments)
    kinds: Counter[str] = Counter()
    faults = 0
    for outcome in _outcomes(options.seed, options.first, options.texts, options.processes):
        kinds += outcome.kinds
        faults += len(outcome.faults)
        for fault in outcome.faults:
            print(f"-- number {fault.number}\n{fault.text[:2000]!r}\n{fault.problem}\n", flush=True)
        print(f"{kinds.total()} texts, {faults} faults", file=sys.stderr, flush=True)
    print(f"{kinds.total():,} texts: {kinds['no error']:,} without an error, {faults:,} faults")
    for kind, count in kinds.most_common(options.kinds):
        print(f"{count:8,}  {kind}")
    return 1 if faults else 0


def _outcomes(seed: int, first: int, texts: int, processes: int) -> Iterator[Outcome]:
    end = first + texts
    starts = range(first, end, _CHUNK_TEXTS)
    sizes = [min(_CHUNK_TEXTS, end - start) for start in starts]
    if processes == 1:
        yield from map(partial(run, seed), starts, sizes)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(run, seed), starts, sizes)


if __name__ == "__main__":
    sys.exit(main())
