"""What a semantic trap looks like as a test: tables, views, and epochs with the rows they give.

The rows that a scenario expects are written by hand, from SQL's rules: two engines that agree are
not thereby right. Beside them, `tests.harness.Checked` compares every epoch with the oracle, and
after the written epochs come random ones over the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from sqlview.oracle import compare
from tests.harness import Checked, Mismatch
from tests.properties.streams import Stream
from tests.reference.tables import Change, Row, arrow_table

#: In the place of a view's rows: it is in error.
ERROR = None
Expected = list[Row] | None


@dataclass(frozen=True, slots=True)
class TableSpec:
    name: str
    columns: str
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Epoch:
    """One transaction, and what views hold after it: rows, or ERROR."""

    changes: tuple[Change, ...]
    expect: Mapping[str, Expected] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`late`: views that are created only after the written epochs."""

    name: str
    tables: tuple[TableSpec, ...]
    views: Mapping[str, str]
    epochs: tuple[Epoch, ...]
    late: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def table(name: str, columns: str, *key: str) -> TableSpec:
    return TableSpec(name, columns, key)


def epoch(*changes: Change, **expect: Expected) -> Epoch:
    return Epoch(changes, expect)


def install(scenario: Scenario, checked: Checked) -> None:
    for spec in scenario.tables:
        checked.create_table(spec.name, spec.columns, spec.key)
    for name, query in scenario.views.items():
        checked.create_view(name, query)


def run_written(scenario: Scenario, checked: Checked) -> None:
    """The written epochs, one at a time, each with its expected rows; then the late views."""
    for one in scenario.epochs:
        checked.step(*one.changes)
        for name, rows in one.expect.items():
            _expect(checked, name, rows)
    for name, query in scenario.late.items():
        checked.create_view(name, query)


def run_as_one_step(scenario: Scenario, checked: Checked) -> None:
    """The written epochs as one physical step; the last epoch's expected rows."""
    checked.batch(*(one.changes for one in scenario.epochs))
    for name, rows in scenario.epochs[-1].expect.items():
        _expect(checked, name, rows)


def run_random(checked: Checked, seed: int, epochs: int) -> None:
    """Random epochs over whatever the session has now, one at a time and in batches."""
    rng = Random(seed)
    stream = Stream(rng, checked.tables)
    done = 0
    while done < epochs:
        many = rng.choice((1, 1, 1, 4))
        transactions = [stream.transaction() for _ in range(many)]
        if many == 1:
            checked.step(*transactions[0])
        else:
            checked.batch(*transactions)
        done += many


def _expect(checked: Checked, name: str, rows: Expected) -> None:
    if rows is ERROR:
        checked.error(name)
        return
    watched = checked.views[name]
    ordered = checked.oracle.is_ordered(watched.text)
    found = compare(checked.db.view(name).to_arrow(), arrow_table(watched.schema, rows), ordered)
    if found is not None:
        script = "\n".join(checked.script)
        raise Mismatch(f"{name}: against the written rows: {found}\n--- the session\n{script}")
