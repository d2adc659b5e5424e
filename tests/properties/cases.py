"""A random case: tables, views and transactions from one seed; running it; making it smaller.

A case is a list of operations, each of which stands alone, so that a failing case can be cut down
to a small one (`shrink`) and printed as a script that anyone can replay.

Most random queries have results that are empty or never change, which test little. So for each view
several are written, tried on a few epochs of a stream like the case's own (`_Preview`), and one
that has rows and changes is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from planner.calculus import types as t
from planner.errors import UnsupportedError
from sqlview.oracle import CannotSay, DuckDBOracle, RowError, TooLarge, canonical_rows
from tests.harness import LOG, LOG_SCHEMA, Checked, mentioned, quoted, work
from tests.properties.features import SUPPORTED
from tests.properties.queries import QueryMaker
from tests.properties.streams import Domain, Stream, domain
from tests.properties.values import EXTREME, MAX_ROWS, MAX_WORK, WIDE, Relation, Value
from tests.reference.tables import Change, Rejected, Table, arrow_table

_TYPES: tuple[t.SqlType, ...] = (
    *(t.INT, t.INT, t.INT, t.BIGINT, t.BIGINT, t.TINYINT, t.SMALLINT),
    *(t.DecimalType(6, 2), t.DecimalType(12, 4), t.DecimalType(22, 6), WIDE),
    *(t.STRING, t.STRING, t.STRING, t.BINARY, t.BOOLEAN),
    *(t.DATE, t.DATE, t.TIMESTAMP, t.DOUBLE, t.DOUBLE, t.FLOAT),
)
_KEY_TYPES: tuple[t.SqlType, ...] = (
    *(t.STRING, t.STRING, t.BIGINT, t.BINARY, t.TIMESTAMP, t.DATE, WIDE, t.SMALLINT),
)
#: Of relations, which have no dots of their own, and of columns.
_ODD_RELATIONS = ("my table", "select", "名前", "a-b", "1st", "x  y", "λ", "order by")
_ODD_NAMES = (*_ODD_RELATIONS, "a.b")


@dataclass(frozen=True, slots=True)
class MakeTable:
    table: Table


@dataclass(frozen=True, slots=True)
class MakeView:
    """`features`: what the query uses, and how often. `reads`: the views among its relations."""

    name: str
    query: str
    features: tuple[tuple[str, int], ...] = ()
    reads: frozenset[str] = frozenset()
    columns: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplaceView:
    """CREATE OR REPLACE of a view that no other reads."""

    view: MakeView


@dataclass(frozen=True, slots=True)
class DropView:
    name: str


@dataclass(frozen=True, slots=True)
class React:
    """From now on whatever changes a view is followed by a commit of its subscriber's."""

    view: str


@dataclass(frozen=True, slots=True)
class Step:
    """One physical step of one or more transactions; `as_columns`: handed over together."""

    transactions: tuple[tuple[Change, ...], ...]
    as_columns: bool = False


Operation = MakeTable | MakeView | ReplaceView | DropView | React | Step


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class Tally:
    """What ran: pairs of a query and an epoch, and how many had rows, changed, both, or an error.

    A view that the engine refuses counts for nothing but `refused`, with its features. `cut_short`:
    cases that ended early, as a view became too large for the oracle.
    """

    pairs: int = 0
    nonempty: int = 0
    changed: int = 0
    lively: int = 0
    errors: int = 0
    cut_short: int = 0
    views: int = 0
    refused: int = 0
    features: dict[str, int] = field(default_factory=dict)
    refused_features: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, checked: Checked) -> None:
        for watched in checked.views.values():
            self.pairs += watched.epochs
            self.nonempty += watched.nonempty_epochs
            self.changed += watched.changed_epochs
            self.lively += watched.lively_epochs
            self.errors += watched.error_epochs

    def count(self, feature: str, times: int = 1) -> None:
        """Something done to views, not in their text."""
        _count(self.features, [(feature, times)])

    def merge(self, other: Tally) -> None:
        """Add what another run covered."""
        for name in (
            "pairs", "nonempty", "changed", "lively", "errors", "cut_short", "views", "refused"
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("features", "refused_features", "reasons"):
            _count(getattr(self, name), list(getattr(other, name).items()))

    def made(self, view: MakeView) -> None:
        self.views += 1
        _count(self.features, view.features)

    def refuse(self, view: MakeView, error: UnsupportedError) -> None:
        self.refused += 1
        _count(self.refused_features, view.features)
        _count(self.reasons, [(error.message, 1)])


def _count(counts: dict[str, int], more: Collection[tuple[str, int]]) -> None:
    for name, count in more:
        counts[name] = counts.get(name, 0) + count


#: Queries written for one view at most, and epochs that each is tried on.
_CANDIDATES, _PREVIEWED = 5, 3
#: Cases of so many transactions may have a step of FLOOD times.
_LONG, FLOOD = 25, 1_500


def make(seed: int, epochs: int, allowed: Collection[str] = SUPPORTED) -> Case:
    """A case of about `epochs` transactions. The same arguments give the same case."""
    return _Making(seed, epochs, allowed).case()


class _Making:
    """Making one case: its tables, what their columns hold, the views that there are."""

    def __init__(self, seed: int, epochs: int, allowed: Collection[str]) -> None:
        self._seed, self._epochs = seed, epochs
        self._rng = rng = Random(seed)
        odd = rng.random() < 0.15
        names = rng.sample(_ODD_RELATIONS, 3) if odd else ["t1", "t2", "t3"]
        self._deep = rng.random() < 0.06
        size = rng.choice((12,) * 12 + (40, 40, 150, 400))
        many = 2 if size > 40 else rng.choice((2, 2, 3))
        self._tables = {name: _table(rng, name, odd) for name in names[:many]}
        self._domains = {
            name: tuple(domain(rng, f.type) for f in table.schema)
            for name, table in self._tables.items()
        }
        self._maker = QueryMaker(rng, tuple(allowed), odd=odd, deep=self._deep)
        for name, table in self._tables.items():
            self._maker.relations.append(_relation(table, self._domains[name]))
        self._size = size
        self._view_names = [f"v{i + 1}" for i in range(40)]
        if odd:
            self._view_names[0] = "the view"
        self._live: dict[str, MakeView] = {}
        self._reacting = ""
        self._operations: list[Operation] = [MakeTable(x) for x in self._tables.values()]

    def case(self) -> Case:
        rng = self._rng
        views = 8 if self._deep else rng.randint(2, 4)
        # Now and then thousands of times in one step, over few views: each is compared.
        flood = rng.random() < 0.02 and self._epochs >= _LONG
        stream = Stream(rng, self._tables, self._size, self._domains)
        made = done = 0
        with _Preview(self._seed, self._tables, self._size, self._domains) as preview:
            while done < self._epochs:
                # Some views come late, over data and live arrangements, but not too late to change.
                late = done > self._epochs // 3
                if made < views and (late or rng.random() < (0.8 if done == 0 else 0.3)):
                    made += 1
                    self._create(preview)
                    continue
                if done and rng.random() < 0.08:
                    self._define(preview)
                many = rng.choice((1, 1, 1, 3, 6))
                as_columns = rng.random() < 0.25
                if as_columns and done:
                    many = rng.choice((10, 20)) if not flood else FLOOD
                    flood = False
                # Sometimes everything comes at once and sometimes row by row.
                fill = done == 0 and rng.random() < 0.85
                transactions = [
                    stream.filling() if fill and i == 0 else stream.transaction()
                    for i in range(many)
                ]
                as_columns = as_columns and any(transactions)
                self._operations.append(Step(tuple(map(tuple, transactions)), as_columns))
                done += many
        return Case(self._seed, tuple(self._operations))

    def _create(self, preview: _Preview) -> None:
        view = self._written(self._view_names.pop(0), preview)
        self._operations.append(view)
        self._add(view, preview)

    def _define(self, preview: _Preview) -> None:
        """Drop or replace a view that no other reads, or let one react."""
        rng = self._rng
        reacts = not self._reacting and not self._deep
        free = [
            name
            for name in self._live
            if name != self._reacting and not any(name in v.reads for v in self._live.values())
        ]
        kind = rng.choice(("drop", "replace", "replace", *(("react",) if reacts else ())))
        if kind == "react" and self._live:
            self._reacting = next(iter(self._live))
            self._operations.append(React(self._reacting))
            log = Value("n", t.INT, EXTREME)
            self._maker.relations.append(Relation(LOG, (log, Value("at", t.BIGINT, EXTREME))))
            preview.log()
        elif free:
            name = rng.choice(free)
            self._forget(name, preview)
            if kind == "replace":
                view = self._written(name, preview)
                self._operations.append(ReplaceView(view))
                self._add(view, preview)
            else:
                self._operations.append(DropView(name))
                if self._view_names:
                    self._create(preview)

    def _add(self, view: MakeView, preview: _Preview) -> None:
        self._live[view.name] = view
        self._maker.relations.append(Relation(quoted(view.name), view.columns, view=True))
        preview.add(view.name, view.query)

    def _forget(self, name: str, preview: _Preview) -> None:
        del self._live[name]
        self._maker.relations = [r for r in self._maker.relations if r.name != quoted(name)]
        preview.drop(name)

    def _written(self, name: str, preview: _Preview) -> MakeView:
        """The first candidate that is lively, else the liveliest."""
        best: tuple[float, str, tuple[Value, ...], dict[str, int]] | None = None
        tried = 0
        while tried < _CANDIDATES or best is None:
            tried += 1
            self._maker.features = {}
            query, columns = self._maker.view()
            score = preview.score(query)
            if score >= 0 and (best is None or score > best[0]):
                best = (score, query, columns, self._maker.features)
            if score >= 0.5:
                break
        assert best is not None
        _, query, columns, features = best
        reads = frozenset(mentioned(query)) & frozenset(self._live)
        return MakeView(name, query, tuple(sorted(features.items())), reads, columns)


class _Preview:
    """The case's tables at a few successive epochs, each in an oracle, to try queries on."""

    def __init__(
        self,
        seed: int,
        tables: Mapping[str, Table],
        size: int,
        domains: Mapping[str, Sequence[Domain]],
    ) -> None:
        stream = Stream(Random(seed + 1_000_000_007), tables, size, domains)
        stream.filling()
        self._sizes = {name.lower(): size for name in tables}
        self._rows: dict[str, int] = {}
        self._epochs: list[DuckDBOracle] = []
        for _ in range(_PREVIEWED):
            stream.transaction()
            oracle = DuckDBOracle(threads=1)
            for name, table in stream.tables.items():
                oracle.load(name, arrow_table(table.schema, list(table.rows.elements())))
            self._epochs.append(oracle)

    def __enter__(self) -> _Preview:
        return self

    def __exit__(self, *error: object) -> None:
        for oracle in self._epochs:
            oracle.close()

    def score(self, query: str) -> float:
        """The share of epochs at which the result has rows and changes; 0 if it is too large, and
        less if DuckDB cannot say it."""
        if work(mentioned(query), self._sizes) > MAX_WORK:
            return 0.0
        lively = most = 0
        before: Counter[Any] | None = None
        for oracle in self._epochs:
            try:
                types = oracle.describe(query).types
                schema = tuple(t.Field(f"c{i}", k or t.STRING) for i, k in enumerate(types))
                found = oracle.query(query, schema, MAX_ROWS // 10)
                most = max(most, found.num_rows)
                now: Counter[Any] | None = Counter(canonical_rows(found))
            except RowError:
                now = None
            except TooLarge:
                return 0.0
            except CannotSay:
                return -1.0
            lively += before is not None and bool(now) and now != before
            before = now
        self._rows[query] = most
        return lively / (_PREVIEWED - 1)

    def add(self, name: str, query: str) -> None:
        self._sizes[name.lower()] = self._rows.get(query, MAX_ROWS // 10)
        for oracle in self._epochs:
            oracle.create_view(name, query)

    def drop(self, name: str) -> None:
        for oracle in self._epochs:
            oracle.drop(name)

    def log(self) -> None:
        """The table of what subscribers commit."""
        self._sizes[LOG] = _PREVIEWED
        for i, oracle in enumerate(self._epochs):
            oracle.load(LOG, arrow_table(LOG_SCHEMA, [(i, j) for j in range(i)]))


def _table(rng: Random, name: str, odd: bool) -> Table:
    keyed = rng.random() < 0.6
    first = rng.choice(_KEY_TYPES) if keyed and rng.random() < 0.25 else t.INT
    fields = [t.Field("k", first, nullable=not keyed)]
    if keyed and rng.random() < 0.3:
        fields.append(t.Field("l", rng.choice((t.INT, t.STRING, t.DATE)), nullable=False))
    key = tuple(range(len(fields))) if keyed else ()
    for i in range(rng.randint(1, 4)):
        named = f"x{i + 1} {rng.choice(_ODD_NAMES)}" if odd and rng.random() < 0.4 else f"x{i + 1}"
        fields.append(t.Field(named, rng.choice(_TYPES), nullable=rng.random() < 0.8))
    return Table(name, tuple(fields), key)


def _relation(table: Table, domains: Sequence[Domain]) -> Relation:
    columns = tuple(
        Value(quoted(f.name), f.type, d.bound) for f, d in zip(table.schema, domains, strict=True)
    )
    key = columns[table.key[0]] if len(table.key) == 1 else None
    return Relation(quoted(table.name), columns, key)


def run(case: Case, checked: Checked, tally: Tally | None = None) -> None:
    """Raises Mismatch, or whatever the engine raises, at the first fault.

    A view that the engine refuses (UnsupportedError) is left out, and so are views over it.
    """
    tally = Tally() if tally is None else tally
    try:
        _run(case, checked, tally)
        checked.verify()
    except (TooLarge, CannotSay):
        tally.cut_short += 1
    tally.add(checked)


def _run(case: Case, checked: Checked, tally: Tally) -> None:
    left_out: set[str] = set()
    # The reference engine takes transactions one by one, and views that are dropped and made.
    plain = not hasattr(checked.db, "transactions")
    for operation in case.operations:
        match operation:
            case MakeTable(table):
                columns = ", ".join(
                    f"{quoted(f.name)} {f.type}{'' if f.nullable else ' NOT NULL'}"
                    for f in table.schema
                )
                key = [table.schema[i].name for i in table.key]
                checked.create_table(table.name, columns, key)
            case MakeView():
                _make_view(operation, checked, tally, left_out)
            case ReplaceView(view):
                if plain or view.name in left_out or view.reads & left_out:
                    _drop(view.name, checked, left_out)
                    _make_view(view, checked, tally, left_out)
                else:
                    tally.count("replace")
                    _make_view(view, checked, tally, left_out, replace=True)
            case DropView(name):
                tally.count("drop")
                _drop(name, checked, left_out)
            case React(view):
                tally.count("subscriber that commits")
                if plain or view in left_out:
                    left_out.add(LOG)
                else:
                    checked.react(view)
            case Step((only,)) if plain or not operation.as_columns:
                checked.step(*only)
            case Step(transactions):
                if operation.as_columns and not plain:
                    tally.count("transactions as columns", len(transactions))
                    checked.columns(*transactions)
                else:
                    checked.batch(*transactions)
        if any(sum(w.total.values()) > MAX_ROWS for w in checked.views.values()):
            raise TooLarge("a view has too many rows")


def _make_view(
    view: MakeView, checked: Checked, tally: Tally, left_out: set[str], replace: bool = False
) -> None:
    left_out.discard(view.name)
    if not left_out.isdisjoint(mentioned(view.query)):
        left_out.add(view.name)
        return
    try:
        if replace:
            checked.replace_view(view.name, view.query)
        else:
            checked.create_view(view.name, view.query)
    except UnsupportedError as error:
        checked.script.pop()
        if replace:
            _drop(view.name, checked, left_out)
        left_out.add(view.name)
        tally.refuse(view, error)
    else:
        tally.made(view)


def _drop(name: str, checked: Checked, left_out: set[str]) -> None:
    if name not in left_out:
        checked.drop_view(name)


def fault(case: Case, connect: Callable[[], Checked]) -> tuple[BaseException, str] | None:
    """The exception that running the case ends in, and the script up to it; None if it is fine."""
    checked = connect()
    try:
        run(case, checked)
    except Exception as error:  # whatever it is, it is what we look for
        return error, "\n".join(checked.script)
    finally:
        checked.close()
    return None


def shrink(case: Case, connect: Callable[[], Checked], attempts: int = 200) -> Case:
    """A smaller case that fails in the same way: operations, transactions and changes left out.

    `attempts`: how many candidates are run at most.
    """
    found = fault(case, connect)
    if found is None:
        return case
    kind = type(found[0])

    def fails(operations: Sequence[Operation]) -> bool:
        again = fault(replace(case, operations=tuple(operations)), connect)
        return again is not None and type(again[0]) is kind and kind is not Rejected

    operations = list(case.operations)
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(operations):
            if attempts == 0:
                break
            attempts -= 1
            if fails(candidate):
                operations, smaller = candidate, True
                break
    return replace(case, operations=tuple(operations))


def _smaller(operations: list[Operation]) -> Any:
    """Candidates, the most promising first: without the end, without one, with less in one."""
    for i in range(len(operations) // 2, 0, -1):
        yield operations[:-i] if i < len(operations) else operations
    for i in reversed(range(len(operations))):
        yield operations[:i] + operations[i + 1 :]
    for i, operation in enumerate(operations):
        if not isinstance(operation, Step):
            continue
        many = operation.transactions
        for j, changes in enumerate(many):
            if len(many) > 1:
                less = Step(many[:j] + many[j + 1 :])
                yield [*operations[:i], less, *operations[i + 1 :]]
            for k in range(len(changes)):
                fewer = changes[:k] + changes[k + 1 :]
                less = Step((*many[:j], fewer, *many[j + 1 :]))
                yield [*operations[:i], less, *operations[i + 1 :]]
