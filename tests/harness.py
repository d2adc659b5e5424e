"""A session under observation: after every epoch every view is compared with the oracle.

`Checked` pushes each transaction to the engine and, through `tests.reference.tables`, to an
`Oracle`. For every view and every epoch, the epochs inside one physical step included, it asserts:

1. the deltas that the subscription has delivered up to that epoch, added up, are the multiset that
   the oracle recomputes, with no negative multiplicity, at the epochs of the step only, and not
   both signs of one row at one time;
2. after the step, what the view holds is exactly that sum;
3. where the view has an order, its rows come in it;
4. the view's types are the ones that Spark gives, where the oracle knows them;
5. while the oracle cannot compute the view for an error in its data, or a view that it reads,
   reading it raises ViewError, the epoch commits all the same, and once the error has left the
   deltas add up again.

A failure shows the whole session as a script. Before it is one, DuckDB is asked once more, with its
optimizer off: where that gives what the engine gives, DuckDB contradicts itself, and this is kept
as a `Dispute` (`Checked.disputes`) and not as a failure. Whoever runs sessions reports them.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

import sqlview
from planner.calculus import types as t
from planner.errors import SqlViewError, ViewError
from sqlview.oracle import (
    CannotSay,
    Difference,
    DuckDBOracle,
    RowError,
    TooLarge,
    canonical_rows,
    compare,
)
from tests.reference.engine import parse_table
from tests.reference.tables import Change, Row, Table, arrow_table, arrow_type, net

__all__ = ["Checked", "Mismatch"]


_WORDS = frozenset({"select", "order", "from", "group", "at"})

#: What a view must hold; None while it must be in error.
Expected = pa.Table | None


@dataclass(slots=True)
class _Moment:
    """The tables as of an epoch, and what each view must hold then.

    `disputed`: the views of which that is DuckDB's second answer.
    """

    tables: dict[str, Table]
    results: dict[str, Expected]
    disputed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Dispute:
    """DuckDB's two answers to one query differ, and the one without its optimizer is the engine's.

    `difference`: the engine's rows against the other answer. `when`: the epoch of the session.
    """

    view: str
    text: str
    when: str
    difference: str

    def __str__(self) -> str:
        return f"{self.view} {self.when}: {self.difference}\n{self.text}"


#: Tables of at most so many different rows are loaded anew for each epoch, which takes DuckDB a
#: tenth of what a DELETE takes.
_LOADED_ROWS = 200
#: The table of what subscribers commit (`Checked.react`).
LOG = "log"
LOG_SCHEMA = (t.Field("n", t.INT), t.Field("at", t.BIGINT))


def quoted(name: str) -> str:
    """An identifier as SQL text, in backticks unless it is a plain word."""
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in _WORDS:
        return name
    return f"`{name.replace('`', '``')}`"


def mentioned(query: str) -> tuple[str, ...]:
    """The relations in a query, in lower case, each as often as it is there."""
    tables = sqlglot.parse_one(query, read="databricks").find_all(exp.Table)
    return tuple(table.name.lower() for table in tables)


def work(relations: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Rows that joining the relations looks at, at worst: the same number on every machine.

    One without a size (a CTE, VALUES) is taken to be as large as the largest.
    """
    largest = max(sizes.values(), default=1)
    return math.prod(max(sizes.get(name, largest), 1) for name in relations)


E = TypeVar("E", bound=BaseException)


class Mismatch(AssertionError):
    """A view is not what it must be. The message holds the session so far, to be replayed."""


@dataclass(slots=True)
class _Watched:
    """What the harness knows of a view: its text, and the sum of the deltas it was given.

    `reads`: the relations in its text, each as often as it is there. `based`: whether the sum
    started from rows; it did not if the view was in error when it was made, and then starts with
    the first rows that it shows. `former`: the view that it replaced, of which a subscriber is
    still to hear that it was. `under`: the tables under it; `latest`: what it must hold while they
    are as of `state`.
    Counted: epochs compared, and those that changed the view, left rows in it, both (lively), or
    left it in error.
    """

    name: str
    text: str
    schema: t.Schema
    reads: tuple[str, ...]
    total: Counter[Row] = field(default_factory=Counter)
    based: bool = False
    batches: list[pa.Table] = field(default_factory=list)
    former: _Watched | None = None
    under: tuple[str, ...] = ()
    state: tuple[int, ...] = (-1,)
    latest: Expected = None
    epochs: int = 0
    changed_epochs: int = 0
    nonempty_epochs: int = 0
    lively_epochs: int = 0
    error_epochs: int = 0

    def hear(self, changes: pa.Table) -> None:
        self.batches.append(changes)


class Checked:
    """A session `db` of the engine, and the oracle beside it.

    `form`: how rows are handed over: arrow, batch, tuples, dicts, or mixed (each in turn).
    `most_rows`, `most_work`: `TooLarge` is raised for a view that DuckDB finds to be larger, or
    whose relations' sizes multiply to more, which is what joining them costs at worst; before the
    engine is told of the change. The session is over then.
    """

    def __init__(
        self,
        db: Any,
        *,
        form: str = "arrow",
        most_rows: int | None = None,
        most_work: int | None = None,
    ) -> None:
        self.db = db
        self.oracle = DuckDBOracle(threads=1)
        self.tables: dict[str, Table] = {}
        self.views: dict[str, _Watched] = {}
        self.script: list[str] = []
        self.disputes: list[Dispute] = []
        self._reactions: list[tuple[int, Change]] = []
        self._changed: Counter[str] = Counter()
        self._most_rows = most_rows
        self._most_work = most_work
        self._form = form
        self._handed_over = 0

    def close(self) -> None:
        self.oracle.close()
        self.db.close()

    def create_table(self, name: str, columns: str, key: Sequence[str] = ()) -> None:
        """`columns` as in CREATE TABLE; `key`: names of the primary key's columns."""
        constraint = f", PRIMARY KEY ({', '.join(map(quoted, key))})" if key else ""
        text = f"CREATE TABLE {quoted(name)} ({columns}{constraint})"
        self.script.append(f"sql: {text}")
        tree = sqlglot.parse_one(text, read="databricks")
        assert isinstance(tree, exp.Create)
        _, schema, positions = parse_table(tree)
        self.db.sql(text)
        self.tables[name] = Table(name, schema, positions)
        self.oracle.load(name, arrow_table(schema, []), key)

    def create_view(self, name: str, query: str) -> None:
        """Create the view over what is there now and compare its first result."""
        self._create_view(name, f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query}", query)

    def replace_view(self, name: str, query: str) -> None:
        """CREATE OR REPLACE a view. Whoever subscribed to the old one hears, with the next step at
        the latest, that its rows left and the new ones came."""
        old, text = self.views[name], f"CREATE OR REPLACE MATERIALIZED VIEW {quoted(name)}"
        self._create_view(name, f"{text} AS {query}", query)
        new = self.views[name]
        if old.based and new.based and old.schema == new.schema:
            new.former = old

    def react(self, name: str) -> None:
        """From now on a subscriber of the view commits a row to table LOG for each of its changes.

        A view made before does not read LOG, so one change leads to one commit.
        """
        if LOG not in self.tables:
            self.create_table(LOG, ", ".join(f"{quoted(f.name)} {f.type}" for f in LOG_SCHEMA))
        self.script.append(f"react({name!r})")

        def commit(changes: pa.Table) -> None:
            row = (changes.num_rows % 3, changes["__time"][0].as_py() % 2)
            with self.db.transaction() as tx:
                tx.insert(LOG, [row])
            self._reactions.append((tx.epoch, Change("insert", LOG, (row,))))

        self.db.subscribe(name, commit)

    def _create_view(self, name: str, statement: str, query: str) -> None:
        self.script.append(f"sql: {statement}")
        self.db.sql(statement)
        if name in self.views:
            self.oracle.drop(name)
            del self.views[name]
        view = self.db.view(name)
        known = self.oracle.describe(query).types
        for column, kind in zip(view.schema, known, strict=True):
            if kind is not None and not isinstance(kind, t.NullType) and kind != column.type:
                self._fail(name, f"column {column.name!r} is {column.type}; Spark gives {kind}")
        self.oracle.create_view(name, query, view.schema)
        watched = _Watched(name, query, view.schema, mentioned(query))
        above = {v.name.lower(): v.under for v in self.views.values()}
        tables = {base for read in watched.reads for base in above.get(read, (read,))}
        watched.under = tuple(sorted(tables))
        self.views[name] = watched
        self.db.subscribe(name, watched.hear)
        self._check_snapshot(watched, self._moment())

    def drop_view(self, name: str) -> None:
        text = f"DROP MATERIALIZED VIEW {quoted(name)}"
        self.script.append(f"sql: {text}")
        self.db.sql(text)
        self.oracle.drop(name)
        del self.views[name]

    def step(self, *changes: Change) -> int:
        """One transaction, one epoch. Returns the epoch."""
        self.script.append(f"step({', '.join(map(str, changes))})")
        before = self.db.epoch
        expected = [self._advance(changes)]
        with self.db.transaction() as tx:
            self.fill(tx, changes)
        self._check_step(before, [tx.epoch], expected)
        return int(tx.epoch)

    def batch(self, *transactions: Sequence[Change]) -> list[int]:
        """Many transactions, one physical step. Returns their epochs."""
        shown = ", ".join(f"[{', '.join(map(str, changes))}]" for changes in transactions)
        self.script.append(f"batch({shown})")
        before = self.db.epoch
        expected = [self._advance(changes) for changes in transactions]
        begun = []
        for changes in transactions:
            begun.append(self.db.begin())
            self.fill(begun[-1], changes)
        epochs = self.db.apply(begun)
        if [tx.epoch for tx in begun] != list(epochs):
            self._fail("apply", f"epochs {epochs}, but transactions say {[x.epoch for x in begun]}")
        self._check_step(before, list(epochs), expected)
        return list(epochs)

    def columns(self, *transactions: Sequence[Change]) -> list[int]:
        """Many transactions as columns, one physical step. Returns their epochs."""
        shown = ", ".join(f"[{', '.join(map(str, changes))}]" for changes in transactions)
        self.script.append(f"columns({shown})")
        before = self.db.epoch
        expected = [self._advance(changes) for changes in transactions]
        with self.db.transactions() as txs:
            self.fill_columns(txs, transactions)
        # Trailing transactions without rows are not told.
        epochs = list(txs.epochs)
        self._check_step(before, epochs, expected[: len(epochs)])
        return epochs

    def rejected(self, error: type[SqlViewError], *changes: Change) -> SqlViewError:
        """Assert that the transaction raises `error` and that nothing of it was applied."""
        self.script.append(f"rejected({', '.join(map(str, changes))})")
        before = self.db.epoch

        def attempt() -> None:
            with self.db.transaction() as tx:
                self.fill(tx, changes)

        return self.unchanged_by(error, attempt, before)

    def unchanged_by(self, error: type[E], attempt: Any, epoch: int) -> E:
        """Assert that `attempt()` raises `error` and leaves epoch, tables and views as they are."""
        try:
            attempt()
        except error as raised:
            caught = raised
        else:
            self._fail("session", f"{error.__name__} was not raised")
        if self.db.epoch != epoch:
            self._fail("session", f"epoch {epoch} moved to {self.db.epoch} by a failed change")
        for watched in self.views.values():
            if any(b.num_rows for b in watched.batches):
                self._fail(watched.name, "a failed change was delivered to subscribers")
            self._check_snapshot(watched, self._moment())
        return caught

    def verify(self) -> None:
        """Assert that the engine's own VERIFY finds every view right, or in error."""
        moment = self._moment()
        for name, watched in self.views.items():
            self._check_snapshot(watched, moment)
            if moment.results[name] is None and not isinstance(self.db, sqlview.Session):
                continue
            try:
                found = self.db.verify(name, engine="duckdb")
            except ViewError as error:
                if "cannot say this query" not in str(error):
                    raise
                continue  # which is no answer, and left to Spark
            if not (found.equal or name in moment.disputed) or found.epoch != self.db.epoch:
                self._fail(name, f"VERIFY says: {found}")

    def rows(self, name: str) -> list[Row]:
        """What the view holds now, as tuples in the view's order."""
        return list(canonical_rows(self.db.view(name).to_arrow()))

    def error(self, name: str) -> ViewError:
        """Assert that the view is in error; returns the error that reading it raises."""
        try:
            self.db.view(name).to_arrow()
        except ViewError as error:
            caught = error
        else:
            self._fail(name, "the view is readable, but it must be in error")
        return caught

    def _advance(self, changes: Sequence[Change]) -> _Moment:
        after = {name: table.copy() for name, table in self.tables.items()}
        for change in changes:
            after[change.table].apply(change)
        for name, table in after.items():
            inserts, deletes = net(self.tables[name], table)
            if inserts or deletes:
                self._changed[name.lower()] += 1
                if len(table.rows) <= _LOADED_ROWS:
                    rows = arrow_table(table.schema, list(table.rows.elements()))
                    self.oracle.load(name, rows, [table.schema[i].name for i in table.key])
                    continue
                self.oracle.apply(
                    name, arrow_table(table.schema, inserts), arrow_table(table.schema, deletes)
                )
        self.tables = after
        return self._moment()

    def _moment(self) -> _Moment:
        """What each view must hold now. A view over a view in error is in error too."""
        expected: dict[str, Expected] = {}
        wrong: set[str] = set()
        for name, watched in self.views.items():
            try:
                if wrong.isdisjoint(watched.reads):
                    expected[name] = self._recomputed(watched, expected)
                    if expected[name] is not None:
                        continue
            except RowError:
                pass
            expected[name] = watched.latest = None
            wrong.add(name.lower())
        return _Moment(self.tables, expected)

    def _recomputed(self, watched: _Watched, expected: dict[str, Expected]) -> Expected:
        """What the view must hold; as before if nothing under it has changed."""
        state = tuple(self._changed[name] for name in watched.under)
        if watched.state != state:
            watched.state = state
            self._bound_work(watched, expected)
            watched.latest = self.oracle.query(watched.text, watched.schema, self._most_rows)
        return watched.latest

    def _bound_work(self, watched: _Watched, expected: dict[str, Expected]) -> None:
        if self._most_work is None:
            return
        sizes = {name.lower(): sum(table.rows.values()) for name, table in self.tables.items()}
        for name, found in expected.items():
            sizes[name.lower()] = 0 if found is None else found.num_rows
        if work(watched.reads, sizes) > self._most_work:
            raise TooLarge(f"the relations of {watched.name} multiply to too many rows")

    def _differs(
        self, watched: _Watched, actual: pa.Table, moment: _Moment, when: str, ordered: bool = False
    ) -> Difference | str | None:
        """What is wrong with `actual`; nothing if only DuckDB's optimizer says so."""
        first = moment.results[watched.name]
        found: Difference | str | None = "the view is readable, but it must be in error"
        if first is not None:
            found = compare(actual, first, ordered)
        if found is None:
            return None
        second = self._second_opinion(watched, moment.tables)
        if second is None or compare(actual, second, ordered) is not None:
            return found
        moment.results[watched.name] = second
        moment.disputed.add(watched.name)
        self.disputes.append(Dispute(watched.name, watched.text, when, str(found)))
        return None

    def _second_opinion(self, watched: _Watched, tables: dict[str, Table]) -> Expected:
        with DuckDBOracle(threads=1, optimize=False) as other:
            for name, table in tables.items():
                other.load(name, arrow_table(table.schema, list(table.rows.elements())))
            for view in self.views.values():
                if view is watched:
                    break  # those made later cannot be under it
                other.create_view(view.name, view.text, view.schema)
            try:
                return other.query(watched.text, watched.schema)
            except (CannotSay, RowError):
                return None

    def fill(self, tx: Any, changes: Sequence[Change]) -> None:
        """Put the changes into a transaction of the engine, unchecked."""
        for change in changes:
            getattr(tx, change.op)(change.table, self._hand_over(change))

    def fill_columns(self, txs: Any, transactions: Sequence[Sequence[Change]]) -> None:
        """Put the transactions into `Transactions` of the engine, unchecked, in few calls: each
        holds rows of many transactions, and those of one transaction stay in order."""
        calls: list[tuple[str, str, list[Row], list[int]]] = []
        for time, changes in enumerate(transactions):
            first = 0
            for change in changes:
                places = (i for i in range(first, len(calls)) if calls[i][0] == change.op)
                place = next((i for i in places if calls[i][1] == change.table), len(calls))
                if place == len(calls):
                    calls.append((change.op, change.table, [], []))
                calls[place][2].extend(change.rows)
                calls[place][3].extend([time] * len(change.rows))
                first = place
        for number, (op, table, rows, times) in enumerate(calls):
            # The times of a call may come in any order.
            order = sorted(range(len(rows)), key=lambda i: -times[i] if number % 3 == 2 else 0)
            moved = [times[i] for i in order]
            given = (moved, np.array(moved, np.int32), pa.array(moved, pa.int64()))[number % 3]
            change = Change(op, table, tuple(rows[i] for i in order))
            getattr(txs, op)(table, self._hand_over(change), times=given)

    def _hand_over(self, change: Change) -> Any:
        table = self.tables[change.table]
        forms = ("arrow", "batch", "tuples", "dicts")
        form = forms[self._handed_over % 4] if self._form == "mixed" else self._form
        self._handed_over += 1
        names = [f.name for f in table.schema]
        match form:
            case "tuples":
                return list(change.rows)
            case "dicts":
                if change.op == "delete" and table.key:
                    return [{names[i]: row[i] for i in table.key} for row in change.rows]
                return [dict(zip(names, row, strict=True)) for row in change.rows]
            case "batch":
                whole = arrow_table(table.schema, change.rows).combine_chunks().to_batches()
                return whole[0] if whole else arrow_table(table.schema, change.rows)
            case _:
                return arrow_table(table.schema, change.rows)

    def _check_step(self, before: int, epochs: list[int], expected: list[_Moment]) -> None:
        if epochs != list(range(before + 1, before + 1 + len(epochs))):
            self._fail("session", f"epochs {epochs} do not follow {before}")
        for epoch, change in self._reactions:
            epochs.append(epoch)
            expected.append(self._advance((change,)))
        self._reactions.clear()
        if epochs != list(range(before + 1, before + 1 + len(epochs))):
            self._fail("session", f"epochs {epochs} with what subscribers did")
        if self.db.epoch != epochs[-1]:
            self._fail("session", f"the epoch is {self.db.epoch}, not {epochs[-1]}")
        for watched in self.views.values():
            deltas = self._deltas(watched)
            if stray := set(deltas) - set(epochs):
                self._fail(watched.name, f"deltas at {sorted(stray)} in a step of {epochs}")
            for epoch, moment in zip(epochs, expected, strict=True):
                self._check_epoch(watched, epoch, deltas.get(epoch), moment)
            self._check_snapshot(watched, expected[-1])
            if watched.former is not None and deltas:
                self._check_replaced(watched, watched.former)
                watched.former = None

    def _check_epoch(
        self, watched: _Watched, epoch: int, deltas: Counter[Row] | None, moment: _Moment
    ) -> None:
        expected = moment.results[watched.name]
        total = watched.total
        for row, diff in (deltas or Counter()).items():
            total[row] += diff
            if total[row] < 0 and watched.based and expected is not None:
                self._fail(watched.name, f"multiplicity {total[row]} of {row} at {epoch}")
            if not total[row]:
                del total[row]
        watched.epochs += 1
        watched.changed_epochs += bool(deltas)
        if expected is None:
            watched.error_epochs += 1
            return
        watched.nonempty_epochs += bool(total)
        watched.lively_epochs += bool(total) and bool(deltas)
        if watched.based:
            rows = [_plain(row) for row in total.elements()]
            summed = arrow_table(watched.schema, rows)
            when = f"at {epoch}"
            self._report(watched, self._differs(watched, summed, moment, when), when)

    def _check_replaced(self, new: _Watched, old: _Watched) -> None:
        """A subscriber of the old view has been told how to get from its rows to the new ones."""
        for batch in old.batches:
            for *row, _, diff in canonical_rows(batch):
                old.total[tuple(row)] += diff
        if Counter({row: n for row, n in old.total.items() if n}) != new.total:
            self._fail(new.name, f"a subscriber of the view that it replaced has {old.total}")

    def _deltas(self, watched: _Watched) -> dict[int, Counter[Row]]:
        names = [f.name for f in watched.schema]
        deltas: defaultdict[int, Counter[Row]] = defaultdict(Counter)
        for batch in watched.batches:
            if batch.column_names != [*names, "__time", "__diff"]:
                self._fail(watched.name, f"a delta batch has the columns {batch.column_names}")
            for *row, time, diff in canonical_rows(batch):
                counts = deltas[time]
                if diff * counts[tuple(row)] < 0 or diff == 0:
                    self._fail(watched.name, f"deltas of {row} at {time} are not consolidated")
                counts[tuple(row)] += diff
        watched.batches.clear()
        return deltas

    def _check_snapshot(self, watched: _Watched, moment: _Moment) -> None:
        try:
            actual = self.db.view(watched.name).to_arrow()
        except ViewError as error:
            if moment.results[watched.name] is None:
                return
            self._fail(watched.name, f"the view must be readable, but: {error}\n{watched.text}")
        if not watched.based:
            watched.total, watched.based = Counter(canonical_rows(actual)), True
        for column, arrow in zip(watched.schema, actual.schema, strict=True):
            if arrow.type != arrow_type(column.type):
                self._fail(watched.name, f"column {column} is read as {arrow.type}")
        if Counter(canonical_rows(actual)) != watched.total:
            gone = watched.total - Counter(canonical_rows(actual))
            come = Counter(canonical_rows(actual)) - watched.total
            self._fail(watched.name, f"the view lacks {gone} and has {come} beside its deltas")
        ordered = self.oracle.is_ordered(watched.text)
        when = f"as read at {self.db.epoch}"
        self._report(watched, self._differs(watched, actual, moment, when, ordered), "as read")

    def _report(self, watched: _Watched, found: Difference | str | None, when: str) -> None:
        if found is not None:
            self._fail(watched.name, f"{when}: {found}\n{watched.text}")

    def _fail(self, name: str, problem: str) -> NoReturn:
        raise Mismatch(f"{name}: {problem}\n--- the session so far\n" + "\n".join(self.script))


def _plain(row: Row) -> Row:
    return tuple(float("nan") if v == "NaN" else v for v in row)
