"""A random case: tables, views and transactions from one seed; running it; making it smaller.

A case is a list of operations, each of which stands alone, so that a failing case can be cut down
to a small one (`shrink`) and printed as a script that anyone can replay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from planner import types as t
from tests.harness import Checked
from tests.properties.queries import MAX_ROWS, QueryMaker, Relation, Value
from tests.properties.streams import Stream
from tests.reference.tables import Change, Rejected, Table

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
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Step:
    """One physical step of one or more transactions."""

    transactions: tuple[tuple[Change, ...], ...]


Operation = MakeTable | MakeView | Step


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    operations: tuple[Operation, ...]
    features: dict[str, int]


@dataclass(slots=True)
class Tally:
    """What ran: pairs of a query and an epoch, and how many had rows, or changed."""

    pairs: int = 0
    nonempty: int = 0
    changed: int = 0
    lively: int = 0
    features: dict[str, int] = field(default_factory=dict)

    def add(self, checked: Checked) -> None:
        for watched in checked.views.values():
            self.pairs += watched.epochs
            self.nonempty += watched.nonempty_epochs
            self.changed += watched.changed_epochs
            self.lively += watched.lively_epochs


def make(seed: int, epochs: int) -> Case:
    """A case of about `epochs` transactions. The same seed gives the same case."""
    rng = Random(seed)
    tables = {f"t{i + 1}": _table(rng, f"t{i + 1}") for i in range(rng.randint(2, 4))}
    relations = [
        Relation(name, tuple(Value(f.name, f.type) for f in table.schema))
        for name, table in tables.items()
    ]
    maker = QueryMaker(rng, relations)
    operations: list[Operation] = [MakeTable(table) for table in tables.values()]
    views = rng.randint(2, 4)
    made = 0
    stream = Stream(rng, tables)
    done = 0
    while done < epochs:
        # Some views come late, over data and live arrangements, but not too late to change.
        if made < views and (done > epochs // 3 or rng.random() < (0.8 if done == 0 else 0.3)):
            made += 1
            query, columns = maker.view()
            operations.append(MakeView(f"v{made}", query))
            maker.relations.append(Relation(f"v{made}", columns))
            continue
        many = rng.choice((1, 1, 1, 3, 6))
        # Sometimes everything comes at once and sometimes row by row.
        fill = done == 0 and rng.random() < 0.85
        transactions = [stream.filling() if fill else stream.transaction() for _ in range(many)]
        operations.append(Step(tuple(tuple(changes) for changes in transactions)))
        done += many
    return Case(seed, tuple(operations), maker.features)


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
    """Raises Mismatch, or whatever the engine raises, at the first fault."""
    for operation in case.operations:
        match operation:
            case MakeTable(table):
                columns = ", ".join(
                    f"{f.name} {f.type}{'' if f.nullable else ' NOT NULL'}" for f in table.schema
                )
                key = [table.schema[i].name for i in table.key]
                checked.create_table(table.name, columns, key)
            case MakeView(name, query):
                checked.create_view(name, query)
            case Step((only,)):
                checked.step(*only)
            case Step(transactions):
                checked.batch(*transactions)
        if any(sum(w.total.values()) > MAX_ROWS for w in checked.views.values()):
            break
    checked.verify()
    if tally is not None:
        tally.add(checked)
        for feature, count in case.features.items():
            tally.features[feature] = tally.features.get(feature, 0) + count


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


def shrink(case: Case, connect: Callable[[], Checked], seconds: float = 20.0) -> Case:
    """A smaller case that fails in the same way: operations, transactions and changes left out."""
    found = fault(case, connect)
    if found is None:
        return case
    kind = type(found[0])
    deadline = time.monotonic() + seconds

    def fails(operations: Sequence[Operation]) -> bool:
        again = fault(replace(case, operations=tuple(operations)), connect)
        return again is not None and type(again[0]) is kind and kind is not Rejected

    operations = list(case.operations)
    smaller = True
    while smaller and time.monotonic() < deadline:
        smaller = False
        for candidate in _smaller(operations):
            if time.monotonic() > deadline:
                break
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
