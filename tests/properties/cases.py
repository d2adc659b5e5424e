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

from planner import types as t
from planner.errors import UnsupportedError
from sqlview.oracle import DuckDBOracle, RowError, TooLarge, canonical_rows
from tests.harness import Checked
from tests.properties.features import SUPPORTED
from tests.properties.queries import QueryMaker
from tests.properties.streams import Stream
from tests.properties.values import MAX_ROWS, Relation, Value
from tests.reference.tables import Change, Rejected, Table, arrow_table

_TYPES: tuple[t.SqlType, ...] = (
    t.INT,
    t.INT,
    t.BIGINT,
    t.DecimalType(6, 2),
    t.DecimalType(12, 4),
    t.STRING,
    t.STRING,
    t.DATE,
    t.DOUBLE,
    t.BOOLEAN,
)


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


@dataclass(frozen=True, slots=True)
class Step:
    """One physical step of one or more transactions."""

    transactions: tuple[tuple[Change, ...], ...]


Operation = MakeTable | MakeView | Step


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class Tally:
    """What ran: pairs of a query and an epoch, and how many had rows, changed, both, or an error.

    A view that the engine refuses counts for nothing but `refused`, with its features. `cut_short`:
    cases that ended early, as a view became too large.
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
_CANDIDATES, _PREVIEWED = 6, 5


def make(seed: int, epochs: int, allowed: Collection[str] = SUPPORTED) -> Case:
    """A case of about `epochs` transactions. The same arguments give the same case."""
    rng = Random(seed)
    tables = {f"t{i + 1}": _table(rng, f"t{i + 1}") for i in range(rng.choice((2, 2, 3)))}
    maker = QueryMaker(rng, tuple(allowed))
    for name, table in tables.items():
        columns = tuple(Value(f.name, f.type) for f in table.schema)
        key = table.schema[table.key[0]].name if len(table.key) == 1 else ""
        maker.relations.append(Relation(name, columns, key))
    operations: list[Operation] = [MakeTable(table) for table in tables.values()]
    views = rng.randint(2, 4)
    made = 0
    stream = Stream(rng, tables)
    done = 0
    with _Preview(seed, tables) as preview:
        while done < epochs:
            # Some views come late, over data and live arrangements, but not too late to change.
            if made < views and (done > epochs // 3 or rng.random() < (0.8 if done == 0 else 0.3)):
                made += 1
                operations.append(_view(f"v{made}", maker, preview))
                continue
            many = rng.choice((1, 1, 1, 3, 6))
            # Sometimes everything comes at once and sometimes row by row.
            fill = done == 0 and rng.random() < 0.85
            transactions = [stream.filling() if fill else stream.transaction() for _ in range(many)]
            operations.append(Step(tuple(tuple(changes) for changes in transactions)))
            done += many
    return Case(seed, tuple(operations))


def _view(name: str, maker: QueryMaker, preview: _Preview) -> MakeView:
    """The first candidate that is lively, else the liveliest."""
    best: tuple[float, str, tuple[Value, ...], dict[str, int]] | None = None
    for _ in range(_CANDIDATES):
        maker.features = {}
        query, columns = maker.view()
        score = preview.score(query)
        if best is None or score > best[0]:
            best = (score, query, columns, maker.features)
        if score >= 0.7:
            break
    assert best is not None
    _, query, columns, features = best
    preview.add(name, query)
    maker.relations.append(Relation(name, columns))
    words = set(query.replace("(", " ").replace(",", " ").split())
    reads = frozenset(r.name for r in maker.relations[:-1] if r.name in words and r.name[0] == "v")
    return MakeView(name, query, tuple(sorted(features.items())), reads)


class _Preview:
    """The case's tables at a few successive epochs, each in an oracle, to try queries on."""

    def __init__(self, seed: int, tables: Mapping[str, Table]) -> None:
        stream = Stream(Random(seed + 1_000_000_007), tables)
        stream.filling()
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
        """The share of epochs at which the result has rows and changes; 0 if it is too large."""
        lively = 0
        before: Counter[Any] | None = None
        for oracle in self._epochs:
            types = oracle.describe(query).types
            schema = tuple(t.Field(f"c{i}", k or t.STRING) for i, k in enumerate(types))
            try:
                rows = canonical_rows(oracle.query(query, schema, MAX_ROWS // 10))
                now: Counter[Any] | None = Counter(rows)
            except RowError:
                now = None
            except TooLarge:
                return 0.0
            lively += before is not None and bool(now) and now != before
            before = now
        return lively / (_PREVIEWED - 1)

    def add(self, name: str, query: str) -> None:
        for oracle in self._epochs:
            oracle.create_view(name, query)


def _table(rng: Random, name: str) -> Table:
    keyed = rng.random() < 0.6
    fields = [t.Field("k", t.INT, nullable=not keyed)]
    if keyed and rng.random() < 0.3:
        fields.append(t.Field("l", rng.choice((t.INT, t.STRING, t.DATE)), nullable=False))
    key = tuple(range(len(fields))) if keyed else ()
    fields += [
        t.Field(f"x{i + 1}", rng.choice(_TYPES), nullable=rng.random() < 0.8)
        for i in range(rng.randint(1, 4))
    ]
    return Table(name, tuple(fields), key)


def run(case: Case, checked: Checked, tally: Tally | None = None) -> None:
    """Raises Mismatch, or whatever the engine raises, at the first fault.

    A view that the engine refuses (UnsupportedError) is left out, and so are views over it.
    """
    tally = Tally() if tally is None else tally
    try:
        _run(case, checked, tally)
        checked.verify()
    except TooLarge:
        tally.cut_short += 1
    tally.add(checked)


def _run(case: Case, checked: Checked, tally: Tally) -> None:
    left_out: set[str] = set()
    for operation in case.operations:
        match operation:
            case MakeTable(table):
                columns = ", ".join(
                    f"{f.name} {f.type}{'' if f.nullable else ' NOT NULL'}" for f in table.schema
                )
                key = [table.schema[i].name for i in table.key]
                checked.create_table(table.name, columns, key)
            case MakeView():
                if operation.reads & left_out:
                    left_out.add(operation.name)
                    continue
                try:
                    checked.create_view(operation.name, operation.query)
                except UnsupportedError as error:
                    checked.script.pop()
                    left_out.add(operation.name)
                    tally.refuse(operation, error)
                else:
                    tally.made(operation)
            case Step((only,)):
                checked.step(*only)
            case Step(transactions):
                checked.batch(*transactions)
        if any(sum(w.total.values()) > MAX_ROWS for w in checked.views.values()):
            raise TooLarge("a view has too many rows")


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
