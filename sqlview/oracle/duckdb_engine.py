"""The oracle that every installation has: DuckDB, in this process.

It keeps a copy of the base tables in memory, in step with the changes that it is told of, and runs
the view's own text over them, translated (`translation`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from planner.calculus import types as t
from planner.names import folded
from planner.parse.tokens import words_of
from planner.room import with_room
from sqlview.oracle.comparison import plain
from sqlview.oracle.database import connect
from sqlview.oracle.kinds import MaybeType, spark_type
from sqlview.oracle.protocol import CannotSay, OracleError, RowError, TooLarge
from sqlview.oracle.recursion import Apart, Group, apart
from sqlview.oracle.translation import MACROS, Columns, Translated, translate
from sqlview.quoting import decoded, duckdb_name, encoded

#: What DuckDB raises where a value cannot be computed, not for text that is wrong.
_FAILURES = (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)
#: What it raises when it is no use any more, or has too much in memory.
_BROKEN = (duckdb.FatalException, duckdb.InternalException, duckdb.OutOfMemoryException)


class DuckDBOracle:
    """Implements Oracle.

    `zone`: the session's time zone. `optimize=False` runs queries as they are written, for a second
    opinion: a rewrite of DuckDB's that is wrong gives two answers. `sound` is False once DuckDB has
    failed in a way that leaves it unfit for more.
    State: a copy of every base table.
    """

    engine = "DuckDB"

    def __init__(
        self, *, zone: str = "UTC", threads: int | None = None, optimize: bool = True
    ) -> None:
        self.optimizes = optimize
        self.sound = True
        try:
            self._db = connect(zone=zone, threads=threads, optimize=optimize)
        except duckdb.Error as error:
            raise CannotSay(f"it cannot be set up: {_said(error)}") from error
        for macro in MACROS:
            self._db.execute(macro)
        self._catalog: dict[str, Columns] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        #: Texts of views, with their columns; those of recursive ones are tables, filled anew for
        #: each query that reads them.
        self._texts: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._recursive: set[str] = set()

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> DuckDBOracle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def load(self, name: str, table: pa.Table, key: Sequence[str] = ()) -> None:
        name = encoded(name)
        table = _encoded(plain(table))
        with self._failing(), self._batch(table):
            self._db.execute(
                f"CREATE OR REPLACE TABLE {duckdb_name(name)} AS SELECT * FROM oracle_batch"
            )
        self._catalog[name] = {f.name: spark_type(f.type) for f in table.schema}
        self._keys[name] = tuple(map(encoded, key))

    def drop(self, name: str) -> None:
        name = encoded(name)
        kind = "TABLE" if name in self._keys or name in self._recursive else "VIEW"
        with self._failing():
            self._db.execute(f"DROP {kind} {duckdb_name(name)}")
        del self._catalog[name]
        self._keys.pop(name, None)
        self._texts.pop(name, None)
        self._recursive.discard(name)

    def apply(self, name: str, inserts: pa.Table | None, deletes: pa.Table | None) -> None:
        name = encoded(name)
        with self._failing():
            if deletes is not None and deletes.num_rows:
                self._delete(name, _encoded(plain(deletes)))
            if inserts is not None and inserts.num_rows:
                with self._batch(_encoded(plain(inserts))):
                    insert = f"INSERT INTO {duckdb_name(name)} BY NAME SELECT * FROM oracle_batch"
                    self._db.execute(insert)

    def _delete(self, name: str, rows: pa.Table) -> None:
        columns = [duckdb_name(c) for c in self._keys[name] or self._catalog[name]]
        listed = ", ".join(columns)
        same = " AND ".join(f"b.{c} IS NOT DISTINCT FROM d.{c}" for c in columns)
        with self._batch(rows):
            self._db.execute("BEGIN")
            deleted = self._db.execute(f"""
                DELETE FROM {duckdb_name(name)} WHERE rowid IN (
                    SELECT victim FROM (
                        SELECT b.rowid AS victim, d.copies AS copies, row_number() OVER (
                            PARTITION BY {", ".join(f"b.{c}" for c in columns)} ORDER BY b.rowid
                        ) AS nth
                        FROM {duckdb_name(name)} b JOIN (
                            SELECT {listed}, count(*) AS copies FROM oracle_batch GROUP BY ALL
                        ) d ON {same}
                    ) WHERE nth <= copies
                )""").fetchone()
            if deleted is None or deleted[0] != rows.num_rows:
                self._db.execute("ROLLBACK")
                found = deleted[0] if deleted else 0
                missing = rows.num_rows - found
                raise OracleError(f"{missing} rows to delete are not in {decoded(name)!r}")
            self._db.execute("COMMIT")

    def create_view(self, name: str, text: str, schema: t.Schema | None = None) -> None:
        name = encoded(name)
        given = tuple(encoded(f.name) for f in schema or ())
        if _apart(text) is not None:
            self._fill_view(name, text, given)
            self._recursive.add(name)
        else:
            translated = self._translate(text)
            names = given or tuple(encoded(c) for c in translated.names)
            listed = ", ".join(map(duckdb_name, names))
            with self._failing():
                self._db.execute(f"CREATE VIEW {duckdb_name(name)} ({listed}) AS {translated.sql}")
            self._catalog[name] = dict(zip(names, translated.types, strict=True))
        self._texts[name] = text, given

    def is_ordered(self, text: str) -> bool:
        """Whether the result of `text` has an order: an ORDER BY of output columns at the top."""
        return self._translate(text).ordered

    def describe(self, text: str) -> Translated:
        """The query as DuckDB runs it, with its columns: names, and Spark's types where known."""
        return self._translate(text)

    def query(self, text: str, schema: t.Schema, most_rows: int | None = None) -> pa.Table:
        """As Oracle.query, the columns cast to `schema`.

        Raises: also TooLarge for more than `most_rows`.
        """
        with self._filled(text) as said:
            return self._query(said, schema, most_rows)

    def _query(self, text: str, schema: t.Schema, most_rows: int | None) -> pa.Table:
        translated = self._translate(text)
        inner = ", ".join(f"c{i}" for i in range(len(schema)))
        casts = ", ".join(f"CAST(c{i} AS {_type_name(f.type)})" for i, f in enumerate(schema))
        limit = "" if most_rows is None else f" LIMIT {most_rows + 1:d}"
        query = f"SELECT {casts} FROM ({translated.sql}) AS r({inner}){limit}"
        with self._failing():
            table = self._db.sql(query).to_arrow_table()
        if most_rows is not None and table.num_rows > most_rows:
            raise TooLarge(f"the query has more than {most_rows} rows")
        return table.rename_columns([f.name for f in schema])

    @contextmanager
    def _filled(self, text: str) -> Iterator[str]:
        """The text over tables that have the rows of its recursive relations, and of recursive
        views that it reads. Raises: RowError where there are more rounds than they may have."""
        for name in self._texts:
            if name in self._recursive and self._reads(text, name):
                self._fill_view(name, *self._texts[name])
        found = _apart(text)
        if found is None:
            yield text
            return
        made: list[str] = []
        try:
            for group in found.groups:
                made += [encoded(relation.name) for relation in group.relations]
                with self._failing():
                    self._fill(group)
            yield found.text
        finally:
            for name in made:
                self._db.execute(f"DROP TABLE IF EXISTS {name}")
                self._catalog.pop(name, None)

    def _reads(self, text: str, name: str) -> bool:
        """Whether a text names a view, or one that does."""
        words = set(words_of(text))
        if decoded(name) in words:
            return True
        under = (other for other in self._texts if other != name and decoded(other) in words)
        return any(self._reads(self._texts[other][0], name) for other in under)

    def _fill_view(self, name: str, text: str, columns: tuple[str, ...]) -> None:
        with self._filled(text) as said:
            translated = self._translate(said)
            names = columns or tuple(encoded(c) for c in translated.names)
            self._create(name, names, translated)

    def _create(self, name: str, names: tuple[str, ...], translated: Translated) -> None:
        listed = ", ".join(map(duckdb_name, names))
        with self._failing():
            self._db.execute(
                f"CREATE OR REPLACE TABLE {duckdb_name(name)} AS "
                f"SELECT * FROM ({translated.sql}) AS r({listed})"
            )
        self._catalog[name] = dict(zip(names, translated.types, strict=True))

    def _fill(self, group: Group) -> None:
        """Round by round, as Spark's levels or until no relation changes."""
        for relation in group.relations:
            first = self._translate(relation.begins)
            names = tuple(map(encoded, relation.columns or first.names))
            self._create(encoded(relation.name), names, first)
        if group.is_all:
            self._fill_levels(group)
        else:
            self._fill_sets(group)

    def _fill_levels(self, group: Group) -> None:
        """UNION ALL: a step reads the rows of the round before."""
        ((relation,), run) = group.relations, self._db.execute
        name = encoded(relation.name)
        run(f"CREATE OR REPLACE TEMP TABLE ways AS SELECT * FROM {name}")
        for round in range(group.limit + 1):
            if not run(f"SELECT * FROM {name} LIMIT 1").fetchall():
                break
            if round == group.limit:
                raise _exceeded(group)
            run(f"CREATE OR REPLACE TEMP TABLE made AS SELECT * FROM {name} LIMIT 0")
            for text in relation.goes_on:
                run(f"INSERT INTO made {self._translate(text).sql}")
            run(f"DELETE FROM {name}")
            run(f"INSERT INTO {name} SELECT * FROM made")
            run("INSERT INTO ways SELECT * FROM made")
        run(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM ways")

    def _fill_sets(self, group: Group) -> None:
        """Each relation in turn is what its query makes of what they all are by then."""
        run = self._db.execute
        for relation in group.relations:
            run(f"DELETE FROM {encoded(relation.name)}")
        for _ in range(group.limit + 1):
            changed = False
            for relation in group.relations:
                name, (text,) = encoded(relation.name), relation.goes_on
                run(f"CREATE OR REPLACE TEMP TABLE made AS SELECT * FROM {name} LIMIT 0")
                run(f"INSERT INTO made SELECT DISTINCT * FROM ({self._translate(text).sql})")
                differ = (
                    f"(SELECT * FROM made EXCEPT SELECT * FROM {name}) UNION ALL "
                    f"(SELECT * FROM {name} EXCEPT SELECT * FROM made) LIMIT 1"
                )
                if run(differ).fetchall():
                    changed = True
                    run(f"DELETE FROM {name}")
                    run(f"INSERT INTO {name} SELECT * FROM made")
            if not changed:
                return
        raise _exceeded(group)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What DuckDB raises, as errors of ours."""
        try:
            yield
        except _FAILURES as failure:
            said = str(failure)
            if "cannot say: " in said:
                raise CannotSay(said.partition("cannot say: ")[2].splitlines()[0]) from failure
            raise RowError(said) from failure
        except (duckdb.Error, RuntimeError) as failure:
            self.sound = self.sound and not isinstance(failure, _BROKEN)
            raise CannotSay(_said(failure)) from failure

    @contextmanager
    def _batch(self, rows: pa.Table) -> Iterator[None]:
        self._db.register("oracle_batch", rows)
        try:
            yield
        finally:
            self._db.unregister("oracle_batch")

    def _translate(self, text: str) -> Translated:
        words = folded(text)
        mentioned = tuple(
            (name, tuple(columns.items()))
            for name, columns in self._catalog.items()
            if "`" in (spelled := decoded(name)) or spelled in words
        )
        try:
            return _translated(text, mentioned)
        except CannotSay:
            raise
        except Exception as error:
            # sqlglot raises what its code meets, its own errors and Python's alike.
            raise CannotSay(_said(error)) from error


@functools.lru_cache(maxsize=4096)
def _translated(
    text: str, catalog: tuple[tuple[str, tuple[tuple[str, MaybeType], ...]], ...]
) -> Translated:
    """Oracles over equal tables translate a text once: it takes longer than a small query.

    `catalog` has all the tables and views that the text mentions; more do no harm.
    """
    known = {name: dict(columns) for name, columns in catalog}
    return with_room(lambda: translate(text, known))


def _exceeded(group: Group) -> RowError:
    return RowError(f"the recursion exceeds its limit of {group.limit} rounds")


def _apart(text: str) -> Apart | None:
    """Raises: CannotSay."""
    try:
        return apart(text)
    except CannotSay:
        raise
    except Exception as error:
        raise CannotSay(_said(error)) from error


def _said(error: BaseException) -> str:
    """The first line of what a library says, without the colours of a terminal."""
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _encoded(table: pa.Table) -> pa.Table:
    return table.rename_columns([encoded(name) for name in table.column_names])


def _type_name(kind: t.SqlType) -> str:
    match kind:
        case t.StringType():
            return "VARCHAR"
        case t.BinaryType():
            return "BLOB"
        case t.TimestampType():
            return "TIMESTAMP" if kind.local else "TIMESTAMPTZ"
        case t.ArrayType(element=element):
            return f"{_type_name(element)}[]"
        case t.MapType(key=key, value=value):
            return f"MAP({_type_name(key)}, {_type_name(value)})"
        case t.StructType(fields=fields):
            inner = (f"{duckdb_name(f.name)} {_type_name(f.type)}" for f in fields)
            return f"STRUCT({', '.join(inner)})"
        case t.IntervalType():
            raise CannotSay("DuckDB has other intervals")
        case t.NullType():
            raise OracleError(f"a view has no column of type {kind}")
        case _:
            return str(kind)
