"""All queries in one session, under inserts and deletes in all tables, each epoch compared."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import sqlview
from tests.tpcds.rows import Row, Rows
from tests.tpcds.source import queries, tables


@dataclass
class Found:
    """What became of the queries: names, and for those refused or wrong why.

    `lively`: had rows at some epoch, `changing`: and not the same at all. `creates`: CPU seconds of
    each CREATE; `seconds` of each step, `cpu`: of CPU, and `rows`: that it changed; `prefixes`:
    rows that joins came to on their way, in all steps together. `share`: at worst, of the bound of
    a step's work that TPC-H has (tests.tpch.test_work): 4 times its prefixes, and what searching a
    batch may take for every batch visited.
    """

    maintained: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    unsaid: dict[str, str] = field(default_factory=dict)
    lively: set[str] = field(default_factory=set)
    changing: set[str] = field(default_factory=set)
    creates: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    compared: int = 0
    prefixes: int = 0
    share: float = 0.0


def run(
    names: Iterable[str] | None,
    epochs: int,
    seed: int,
    changed: int = 20,
    say: Callable[[str], None] = lambda text: None,
) -> Found:
    """Maintain the queries of these names (None: all) for so many epochs, in each of which about
    `changed` rows of each of some tables change."""
    texts, columns = queries(), tables()
    chosen = list(texts) if names is None else list(names)
    found, rng = Found(), random.Random(seed)
    rows = Rows(columns, {name: texts[name] for name in chosen}, seed)
    with sqlview.connect(placement="inline") as db:
        held: dict[str, list[Row]] = {}
        for name, kinds in columns.items():
            listed = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
            db.sql(f"CREATE TABLE {name} ({listed})")
            held[name] = rows.first(name)
        with db.transaction() as tx:
            for name, first in held.items():
                tx.insert(name, first)
        for name in chosen:
            started = time.process_time()
            refused = _create(db, name, texts[name])
            found.creates[name] = time.process_time() - started
            if refused is None:
                found.maintained.append(name)
            else:
                found.refused[name] = refused
                say(f"{name} is refused: {refused}")
        some = {name: first[:1] for name, first in held.items() if first}
        for verb in ("delete", "insert"):  # the indexes that find a row to delete are made now
            with db.transaction() as tx:
                for name, row in some.items():
                    getattr(tx, verb)(name, row)
        shown: dict[str, list[Row]] = {}
        for epoch in range(epochs + 1):
            if epoch:
                _change(db, held, rows, rng, changed, found)
            _compare(db, found, shown, say)
            say(f"epoch {epoch}: {found.compared:,} compared, {len(found.wrong)} wrong")
    return found


def _create(db: sqlview.Session, name: str, text: str) -> str | None:
    """Why the query is refused. Where names of columns repeat, it takes those of the hint."""
    try:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    except sqlview.SqlViewError as error:
        begin = re.search(rf"begin with (CREATE MATERIALIZED VIEW {name} \([^)]*\))", str(error))
        if begin is None:
            return str(error).splitlines()[0]
        try:
            db.sql(f"{begin[1]} AS {text}")
        except sqlview.SqlViewError as again:
            return str(again).splitlines()[0]
    return None


def _change(
    db: sqlview.Session,
    held: dict[str, list[Row]],
    rows: Rows,
    rng: random.Random,
    count: int,
    found: Found,
) -> None:
    """Delete, update and insert rows of some tables in one transaction."""
    tx, total = db.begin(), 0
    for name in rng.sample(sorted(held), 8):
        there = held[name]
        rng.shuffle(there)
        gone = [there.pop() for _ in range(min(rng.randint(0, count), len(there)))]
        new = rows.more(name, rng.randint(0, count), there)
        if gone:
            tx.delete(name, gone)
        if new:
            tx.insert(name, new)
        there += new
        total += len(gone) + len(new)
    before = {
        i.spec: (i.state.work.batches, len(i.state.spine.batches)) for i in db._dataflow.indexes
    }
    started, cpu = time.perf_counter(), time.process_time()
    db.apply([tx])
    found.seconds.append(time.perf_counter() - started)
    found.cpu.append(time.process_time() - cpu)
    found.rows.append(total)
    done = db.metrics().steps[-1]
    batches = sum(
        max(len(i.state.spine.batches), before.get(i.spec, (0, 0))[1])
        for i in db._dataflow.indexes
        if i.state.work.batches > before.get(i.spec, (0, 0))[0]
    )
    stored = sum(len(rows) for rows in held.values())
    bound = 4 * done.prefixes + 64 * math.log2(stored) * batches
    found.share = max(found.share, (done.entries_visited + done.rows_gathered) / max(1.0, bound))
    found.prefixes += done.prefixes


def _compare(
    db: sqlview.Session, found: Found, shown: dict[str, list[Row]], say: Callable[[str], None]
) -> None:
    for name in found.maintained:
        try:
            there = db.view(name).rows()
        except sqlview.ViewError:  # an error of its rows, which the oracle has too
            there = []
        if there:
            found.lively.add(name)
            if name in shown and shown[name] != there:
                found.changing.add(name)
        shown[name] = there
        if name in found.wrong:
            continue
        try:
            result = db.verify(name, engine="duckdb")
        except sqlview.SqlViewError as error:
            if name not in found.unsaid:
                say(f"{name}: {str(error).splitlines()[0]}")
            found.unsaid[name] = str(error)
            continue
        found.compared += 1
        if not result.equal:
            found.wrong[name] = str(result)
            say(f"{name} is wrong: {result}")
