"""The queries of a file as views, over its tables, which change and come back.

What a file makes before it asks (views over VALUES, tables, rows) is made here as tables, so that
rows can leave and return under each view: it is compared before and after.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pyarrow as pa

import sqlview
from planner.calculus import types as t
from tests.spark_sql.answers import ZONE, lines, same
from tests.spark_sql.source import Statement, files

_VIEW = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:global\s+)?(?:temporary\s+|temp\s+)?view\s+"
    r"(?:if\s+not\s+exists\s+)?(?P<name>[\w.`]+)\s*(?P<columns>\([^()]*\))?\s*as\s+(?P<body>.*)",
    re.IGNORECASE | re.DOTALL,
)
_QUERY = re.compile(r"(select|with|values|from|table|map|reduce)\b|\(", re.IGNORECASE)
_INSERT = re.compile(
    r"insert\s+into\s+(?:table\s+)?(?P<name>[\w.`]+)\s*(?P<columns>\([^()]*\))?\s*(?P<body>values\b.*)",
    re.IGNORECASE | re.DOTALL,
)
#: Statements that need no Spark here.
_CHANGE = re.compile(
    r"create\s+(or\s+replace\s+)?(schema|database|(global\s+)?(temp(orary)?\s+)?view)\b"
    r"|create\s+table\s+(?!.*\b(as|like)\b)|insert\b|drop\b",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(r"(re)?set\s+([\w.]+)\s*=?\s*(.*)", re.IGNORECASE | re.DOTALL)
#: Settings that change no meaning.
_HARMLESS = re.compile(
    r"(?i)spark\.sql\.(autoBroadcast|codegen|adaptive|cteRecursion|maxMetadata|crossJoin|cbo|shuffle)"
)
_KNOWN = Path(__file__).with_name("known.txt")


Known = Sequence[tuple[re.Pattern[str], str]]


class Kind(Enum):
    """What became of a query."""

    RIGHT = "maintained, and right"
    WRONG = "wrong"
    KNOWN = "differs, for a known reason"
    REFUSED = "refused"
    BOTH = "refused by Spark too, or in error in both"
    LENIENT = "refused by Spark alone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`detail`: of a refusal its message, of a difference what was found and wanted."""

    file: str
    query: str
    kind: Kind
    detail: str = ""

    @property
    def reason(self) -> str:
        """The refusal without names and numbers, so that equal ones are counted together."""
        first = re.sub(r" \(line \d+, column \d+\)", "", self.detail.split("\n", 1)[0])
        if not first.startswith(("cannot maintain", "unknown function")):
            first = re.sub(r'"[^"]*"|\'[^\']*\'', "…", first)
        return re.sub(r"\d+", "n", first)


def _session() -> sqlview.Session:
    return sqlview.connect(placement="inline", timezone=ZONE.key)


@dataclass(slots=True)
class _File:
    name: str
    known: Known
    db: sqlview.Session = field(default_factory=_session)
    tables: dict[str, str | None] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    views: int = 0
    settings: set[str] = field(default_factory=set)
    outcomes: list[Outcome] = field(default_factory=list)


def run(
    names: Iterable[str] | None = None, say: Callable[[str], None] = lambda text: None
) -> list[Outcome]:
    """The outcome of each query of the files (None: all). Raises: Missing."""
    found, known = files(), known_differences()
    chosen = list(found) if names is None else [n for n in found if n in set(names)]
    outcomes: list[Outcome] = []
    for i, name in enumerate(chosen):
        started = time.perf_counter()
        outcomes += run_file(name, found[name], known.get(name, ()))
        say(f"{i + 1}/{len(chosen)} {name}: {time.perf_counter() - started:.1f} s")
    return outcomes


def known_differences() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """By file, of queries in which an expression is found (blanks are one) why they differ from
    what Spark recorded."""
    found: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for line in _KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            name, expression, why = line.split(" | ")
            found.setdefault(name, []).append((re.compile(expression), why))
    return found


def run_file(name: str, statements: tuple[Statement, ...], known: Known) -> list[Outcome]:
    """The outcome of each query of a file."""
    file = _File(name, known)
    with file.db:
        for statement in statements:
            words = statement.words
            if setting := _SET.match(words):
                _note_setting(file, *setting.groups())
            elif _QUERY.match(words) and not file.settings:
                file.outcomes.append(_outcome(file, statement))
            elif _CHANGE.match(words) and statement.error is None:
                _prepare(file, words)
    return file.outcomes


def _note_setting(file: _File, resets: str | None, key: str, value: str) -> None:
    """While a setting is not what it was, answers are of another language."""
    if _HARMLESS.match(key) or not key.lower().startswith("spark."):
        return
    if resets or key in file.settings:
        file.settings.discard(key)
    elif value:
        file.settings.add(key)


def _prepare(file: _File, words: str) -> None:
    """Make a table of what the file makes; what is refused here is missing for its queries."""
    try:
        if view := _VIEW.match(words):
            _make_view(file, view["name"], view["columns"] or "", view["body"])
        elif insert := _INSERT.match(words):
            _insert(file, insert["name"], insert["columns"], insert["body"])
        elif words.lower().startswith("insert"):
            raise sqlview.UnsupportedError("rows that are not written out")
        else:
            words = re.sub(r"(?i)^drop\s+view", "DROP MATERIALIZED VIEW", words)
            words = re.sub(r"(?is)^(create\s+table\s.*?\))\s*using\s+\w+.*$", r"\1", words)
            words = re.sub(r"(?is)^(create\s+table\s+[\w.`]+)\s+using\s+\w+", r"\1", words)
            _forget(file, words)
            file.db.sql(words)
            if made := re.match(r"(?i)create\s+table\s+(?:if\s+not\s+exists\s+)?([\w.`]+)", words):
                file.tables[made[1].lower()] = None
    except sqlview.SqlViewError:
        file.broken |= set(re.findall(r"\w+", words.lower().split(" as ")[0].split("values")[0]))


def _make_view(file: _File, name: str, columns: str, body: str) -> None:
    db = file.db
    if name.lower() in file.tables:
        _forget(file, name)
        db.sql(f"DROP TABLE {name}")
    db.sql(f"DROP MATERIALIZED VIEW IF EXISTS {name}")
    db.sql(f"CREATE MATERIALIZED VIEW {name} {columns} AS {body}")
    if re.search(r"(?i)\bvalues\b", body) and not _reads(file, body):
        plain = name.strip("`")
        fields, rows = db.view(plain).schema, db.view(plain).to_arrow()
        db.sql(f"DROP MATERIALIZED VIEW {name}")
        listed = ", ".join(f"`{f.name}` {f.type}" for f in fields)
        db.sql(f"CREATE TABLE {name} ({listed})")
        with db.transaction() as tx:
            tx.insert(plain, rows)
        file.tables[name.lower()] = None


def _insert(file: _File, name: str, columns: str | None, body: str) -> None:
    """Rows of VALUES, each cast to the type of its column."""
    if name.lower() not in file.tables:
        return
    _rows(file, name.lower())
    kinds = {f.name.lower(): f.type for f in file.db.view(str(file.tables[name.lower()])).schema}
    named = list(kinds) if columns is None else [c.strip(" `") for c in columns[1:-1].split(",")]
    listed = ", ".join(f"`{c}`" for c in named)
    cast = ", ".join(f"CAST(`{c}` AS {kinds[c.lower()]}) AS `{c}`" for c in named)
    made = f"SELECT {cast} FROM ({body.rstrip(';')}) AS given ({listed})"
    file.db.sql(f"CREATE MATERIALIZED VIEW given AS {made}")
    try:
        rows = file.db.view("given").to_arrow()
        with file.db.transaction() as tx:
            tx.insert(name.strip("`"), rows, cast=True)
    finally:
        file.db.sql("DROP MATERIALIZED VIEW given")


def _forget(file: _File, words: str) -> None:
    """What is dropped or altered is no longer read; what is made anew is a table from then on."""
    for table in _reads(file, words):
        view = file.tables.pop(table)
        if view is not None:
            file.db.sql(f"DROP MATERIALIZED VIEW {view}")


def _reads(file: _File, text: str) -> list[str]:
    """The tables that a text names."""
    words = {w.lower() for w in re.findall(r"\w+", text)}
    return sorted(x for x in file.tables if x.strip("`").split(".")[-1].lower() in words)


def _outcome(file: _File, statement: Statement) -> Outcome:
    query = statement.words.rstrip(";")

    def outcome(kind: Kind, detail: str = "") -> Outcome:
        return Outcome(file.name, query, kind, detail)

    try:
        _create(file.db, query)
    except sqlview.SqlViewError as error:
        if statement.error is not None:
            return outcome(Kind.BOTH, str(error))
        missing = file.broken & set(re.findall(r"\w+", query.lower()))
        return outcome(Kind.REFUSED, "what it reads is not made here" if missing else str(error))
    try:
        for moment in ("at first", "after rows left and came back"):
            found = _read(file.db)
            if isinstance(found, str):
                kind = Kind.WRONG if statement.error is None else Kind.BOTH
                detail = f"in error: {found}"
            elif statement.error is not None:
                return outcome(Kind.LENIENT, statement.error)
            else:
                wanted = sorted(statement.answer.split("\n"))
                kind = Kind.RIGHT if same(found, wanted) else Kind.WRONG
                detail = (
                    f"{moment}: {found[:8]}, Spark: {sorted(statement.answer.split(chr(10)))[:8]}"
                )
            if kind is Kind.WRONG and file.broken & set(re.findall(r"\w+", query.lower())):
                return outcome(Kind.REFUSED, "what it reads is not made here")
            if kind is Kind.WRONG:
                spoken = " ".join(query.split())
                reasons = [why for expression, why in file.known if expression.search(spoken)]
                return outcome(Kind.KNOWN, reasons[0]) if reasons else outcome(kind, detail)
            if not _leave_and_return(file, query):
                break
        return outcome(kind)
    finally:
        file.db.sql("DROP MATERIALIZED VIEW asked")


def _create(db: sqlview.Session, query: str) -> None:
    """The query as a view; where names of columns repeat, with those of the hint."""
    try:
        db.sql(f"CREATE MATERIALIZED VIEW asked AS {query}")
    except sqlview.SqlViewError as error:
        begin = re.search(
            r"begin with (CREATE MATERIALIZED VIEW asked \((?:`[^`]*`|[^()`])*\))", str(error)
        )
        if begin is None:
            raise
        db.sql(f"{begin[1]} AS {query}")


def _read(db: sqlview.Session) -> list[str] | str:
    """The lines of the view, or its error."""
    view = db.view("asked")
    kinds: list[t.SqlType] = [f.type for f in view.schema]
    try:
        return lines(view.rows(), kinds)
    except sqlview.SqlViewError as error:
        return str(error).split("\n", 1)[0]


def _rows(file: _File, table: str) -> pa.Table:
    """The rows of a table, by a view of all of it (whose name is kept in `tables`)."""
    view = file.tables[table]
    if view is None:
        file.views += 1
        view = file.tables[table] = f"rows_{file.views}"
        file.db.sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT * FROM {table}")
    return file.db.view(view).to_arrow()


def _leave_and_return(file: _File, query: str) -> bool:
    """Some rows of the tables that the query reads leave, and come back. Whether there are any."""
    chosen = random.Random(len(query))
    gone = {}
    for name in _reads(file, query):
        rows = _rows(file, name)
        some = sorted(chosen.sample(range(rows.num_rows), (rows.num_rows + 1) // 2))
        if some:
            gone[name.strip("`")] = rows.take(some)
    for verb in ("delete", "insert") if gone else ():
        with file.db.transaction() as tx:
            for name, rows in gone.items():
                getattr(tx, verb)(name, rows)
    return bool(gone)
