"""Views with random bodies over random graphs, every round of every epoch beside the twin's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sqlview
from operators.nodes import fused
from operators.nodes.loop import LoopOperator
from planner.calculus.algebra import FOREVER
from planner.errors import ViewError
from tests.recursion.bodies import Body, Expected, Row, Tables, last, random_body

#: Views over one pair of tables, and epochs of each.
VIEWS, EPOCHS = 6, 25
#: What is counted beside forms.
TOGETHER = "(epochs whose rounds one kernel ran)"


def check(seed: int, counts: Counter[str], path: Path | None = None) -> None:
    """Compare after every step; `counts` gains the pairs of a view and an epoch, by form. With a
    path the store is opened again now and then."""
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patched:
        _by_turns(patched, Random(seed), counts)
        _check(random, seed, counts, path)


def _by_turns(patched: pytest.MonkeyPatch, random: Random, counts: Counter[str]) -> None:
    """Let some epochs be for the kernel, which may have little room, and some for the operators;
    `counts` says how many the kernel did."""
    alone = fused.Fused.run

    def run(self: fused.Fused, time: int, given: Any) -> Any:
        if random.random() < 0.3:
            return None
        found = alone(self, time, given)
        counts[TOGETHER] += found is not None
        return found

    patched.setattr(fused.Fused, "run", run)
    patched.setattr(fused, "LEAST_ROOM", random.choice((1, 4, 256)))
    patched.setattr(fused, "MOST_ROOM", random.choice((8, 64, 1 << 16)))


def _check(random: Random, seed: int, counts: Counter[str], path: Path | None) -> None:
    tables: Tables = {"e": [], "f": []}
    bodies = {f"v{i}": random_body(random) for i in range(VIEWS)}
    db = sqlview.connect(path, placement="inline")
    try:
        for name in tables:
            db.sql(f"CREATE TABLE {name} (a INT, b INT)")
        nodes = random.choice((3, 5, 7))
        late = set(random.sample(sorted(bodies), VIEWS // 2))
        for name in sorted(set(bodies) - late):
            _create(db, name, bodies[name])
        there = set(bodies) - late
        for epoch in range(EPOCHS):
            expected = dict(
                zip(bodies, _commit(db, random, tables, nodes, bodies.values()), strict=True)
            )
            if epoch == EPOCHS // 3:  # on live indexes, over rows
                for name in sorted(late):
                    _create(db, name, bodies[name])
                there = set(bodies)
            if epoch == EPOCHS // 2 and path is not None:
                db.close()
                db = sqlview.connect(path, placement="inline")
            if epoch == 2 * EPOCHS // 3:
                gone = random.choice(sorted(there))
                db.sql(f"DROP MATERIALIZED VIEW {gone}")
                there.discard(gone)
            for name in sorted(there):
                waits = _compare(
                    db,
                    name,
                    bodies[name],
                    expected[name],
                    tables,
                    f"seed {seed}, epoch {epoch}, {name}: {bodies[name].text}\n{tables}",
                )
                counts[bodies[name].form + ", small labels first" * waits] += 1
    finally:
        db.close()


def _create(db: Any, name: str, body: Body) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {body.text}")


def _commit(
    db: Any, random: Random, tables: Tables, nodes: int, bodies: Iterable[Body]
) -> list[Expected]:
    """One step of one or more transactions; what each body then has. A step in which one had more
    rows than anybody wants to count is thought better of."""
    before = {name: list(rows) for name, rows in tables.items()}
    ways = [body for body in bodies if body.kind == "all"]  # which may be many on the way too
    while True:
        steps = []
        try:
            for _ in range(random.choice((1, 1, 1, 2, 4))):
                steps.append(_changes(random, tables, nodes))
                for body in ways:
                    body.rounds(tables)
            expected = [body.rounds(tables) for body in bodies]
            break
        except OverflowError:
            tables.update({name: list(rows) for name, rows in before.items()})
    begun = []
    for step in steps:
        begun.append(db.begin())
        for action, name, row in step:
            getattr(begun[-1], action)(name, [row])
    db.apply(begun)
    return expected


def _changes(random: Random, tables: Tables, nodes: int) -> list[tuple[str, str, Row]]:
    """A transaction, which the tables then have had."""
    found: list[tuple[str, str, Row]] = []
    for _ in range(random.choice((1, 1, 2, 5))):
        name = random.choice("eef")
        rows = tables[name]
        if rows and random.random() < min(0.9, len(rows) / (1.5 * nodes + 3)):
            row = rows.pop(random.randrange(len(rows)))
            found.append(("delete", name, row))
            if random.random() < 0.6:
                continue
            row = row[0], _value(random, nodes)
        else:
            row = _value(random, nodes), _value(random, nodes)
        rows.append(row)
        found.append(("insert", name, row))
    return found


def _value(random: Random, nodes: int) -> int | None:
    return None if random.random() < 0.05 else random.randint(1, nodes)


def _compare(db: Any, name: str, body: Body, expected: Expected, tables: Tables, told: str) -> bool:
    """Returns: whether labels wait for their turn in the view's loop."""
    loop, kind = _loop(db, name), body.kind
    waits = loop is not None and loop.node.delay is not None
    if expected is None:
        with pytest.raises(ViewError, match="RECURSION_LEVEL_LIMIT_EXCEEDED"):
            raise AssertionError(f"no error: {told}\n{db.view(name).rows()}")
        return waits
    rows = last(expected)
    found = Counter(tuple(row) for row in db.view(name).rows())
    assert found == rows, f"{told}\nlost {rows - found}\nadded {found - rows}"
    if kind == "between" or loop is None:  # the loop has the rows of one of the two
        return waits
    kept = _kept(loop)
    if waits:
        expected = body.delayed(tables)
        assert expected is not None
    if kind == "span" and all(len(rounds) == 1 for _, rounds in kept):
        # Nobody reads what rounds take back.
        assert all(rounds[1] == FOREVER for _, rounds in expected), told
        expected = Counter({(row, rounds[:1]): n for (row, rounds), n in expected.items()})
    assert kept == expected, f"{told}\nrounds {kept}\nbut {expected}"
    return waits


def _loop(db: Any, name: str) -> LoopOperator | None:
    view = db._catalog.any(name)
    found = [
        i.operator
        for i in db._dataflow.nodes_of(view.reader)
        if isinstance(i.operator, LoopOperator)
    ]
    return found[0] if len(found) == 1 else None


def _kept(loop: LoopOperator) -> Counter[tuple[Row, tuple[int, ...]]]:
    """The rows of a loop, with their rounds."""
    relation, marks = loop._relation, loop.node.variable.marks
    rows = relation.visible(1 << 62)
    columns = [relation.gather(c, rows) for c in range(len(relation.schema))]
    values = [
        [
            None if c.valid is not None and not c.valid[i] else int(c.values[i])
            for i in range(len(rows))
        ]
        for c in columns
    ]
    return Counter((row[:-marks], row[-marks:]) for row in zip(*values, strict=True))
