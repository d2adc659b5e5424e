"""The stream of transactions: a valid history, complete, deterministic, with its churn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpch import stream
from tpch.schema import TABLES, TABLES_BY_NAME
from tpch.stream import BatchPlan, StreamOptions, plan_stream

SIZES = {
    "region": 5,
    "nation": 25,
    "supplier": 30,
    "customer": 150,
    "part": 200,
    "partsupp": 800,
    "orders": 1500,
    "lineitem": 6005,
}


def replay(plans: list[BatchPlan], live: dict[str, set[int]], arrived: dict[str, set[int]]) -> None:
    """Apply the plans to sets of live rows, checking each against the rules of a transaction."""
    for batch in plans:
        assert len({part.table for part in batch}) == len(batch)
        for part in batch:
            rows = live[part.table]
            deleted, updated = part.deleted.tolist(), part.updated.tolist()
            assert len(set(deleted + updated)) == len(deleted) + len(updated)
            assert rows.issuperset(deleted) and rows.issuperset(updated)
            rows.difference_update(deleted)
            inserted = part.returned.tolist() + list(range(*part.arriving))
            assert len(set(inserted)) == len(inserted)
            assert rows.isdisjoint(inserted)
            assert arrived[part.table].issuperset(part.returned.tolist())
            assert arrived[part.table].isdisjoint(range(*part.arriving))
            rows.update(inserted)
            arrived[part.table].update(inserted)
            fleeting = part.fleeting.tolist()
            assert len(set(fleeting)) == len(fleeting)
            assert rows.isdisjoint(fleeting) and not set(fleeting) & set(deleted)
            assert arrived[part.table].issuperset(fleeting)
            assert len(part.origins) == len(part.returned)
            assert arrived[part.table].issuperset(part.origins.tolist())


def plan(sizes: dict[str, int], options: StreamOptions, load: float = 0.0) -> list[BatchPlan]:
    return list(plan_stream(sizes, stream.loaded_rows(sizes, load), options))


def start(sizes: dict[str, int], load: float) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    loaded = {name: set(range(int(rows * load))) for name, rows in sizes.items()}
    return loaded, {name: set(rows) for name, rows in loaded.items()}


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.fixed_dictionaries({table.name: st.integers(0, 60) for table in TABLES}),
    batch_rows=st.integers(1, 40),
    deletes=st.floats(0, stream.MAXIMUM_DELETES),
    load=st.sampled_from([0.0, 0.3, 0.99]),
    seed=st.integers(0, 9),
)
def test_every_prefix_is_a_valid_history_and_all_rows_arrive(
    sizes: dict[str, int], batch_rows: int, deletes: float, load: float, seed: int
) -> None:
    plans = plan(sizes, StreamOptions(batch_rows, deletes, seed=seed), load)
    live, arrived = start(sizes, load)
    replay(plans, live, arrived)
    assert arrived == {name: set(range(rows)) for name, rows in sizes.items()}
    for batch in plans[:-1]:
        assert sum(part.rows for part in batch) == batch_rows


@pytest.mark.parametrize("deletes", [0.0, 0.1, 0.3, 0.5])
def test_share_of_churn(deletes: float) -> None:
    plans = plan(SIZES, StreamOptions(100, deletes), 0.2)
    touched = sum(len(part.deleted) + len(part.updated) for batch in plans for part in batch)
    changed = sum(part.rows for batch in plans for part in batch)
    assert touched / changed == pytest.approx(deletes, abs=0.02)
    if deletes:
        deleted = sum(len(part.deleted) for batch in plans for part in batch)
        assert deleted / touched == pytest.approx(0.5, abs=0.05)


def test_churn_reaches_all_tables_and_deleted_rows_return() -> None:
    plans = plan(SIZES, StreamOptions(50, 0.2))
    for name in SIZES:
        parts = [part for batch in plans for part in batch if part.table == name]
        assert sum(len(part.deleted) for part in parts) > 0, name
        assert sum(len(part.updated) for part in parts) > 0, name
        assert sum(len(part.returned) for part in parts) > 0, name
    same = [
        part
        for batch in plans
        for part in batch
        if set(part.deleted.tolist()) & set(part.returned.tolist())
    ]
    assert same, "no row is deleted and inserted in one transaction"


def test_rows_are_rekeyed_in_all_tables_and_some_are_fleeting() -> None:
    plans = plan(SIZES, StreamOptions(50, 0.3), 0.5)
    fleeting: set[str] = set()
    exchanged = 0
    for name in SIZES:
        parts = [part for batch in plans for part in batch if part.table == name]
        rekeyed = [part for part in parts if (part.returned != part.origins).any()]
        assert rekeyed, name
        for part in rekeyed:
            origins = part.origins[part.returned != part.origins].tolist()
            assert len(set(origins)) == len(origins)
            assert set(origins) <= set(part.deleted.tolist())
            exchanged += bool(set(origins) & set(part.returned.tolist()))
        fleeting |= {name for part in parts if len(part.fleeting)}
    assert exchanged > 5
    assert fleeting >= {"supplier", "orders", "lineitem"}


def test_small_tables_end_whole_but_for_rows_about_to_return() -> None:
    live, arrived = start(SIZES, 0.5)
    plans = plan(SIZES, StreamOptions(100, 0.3), 0.5)
    leaving = [
        set(part.deleted.tolist() + part.fleeting.tolist()) - set(part.returned.tolist())
        for batch in plans[-stream.RETURN_DELAY_BATCHES - 1 :]
        for part in batch
        if part.table == "nation"
    ]
    replay(plans, live, arrived)
    assert arrived["nation"] - live["nation"] <= set().union(*leaving)
    assert len(live["lineitem"]) < SIZES["lineitem"]


def test_second_update_undoes_the_first() -> None:
    changed: set[int] = set()
    for batch in plan(SIZES, StreamOptions(100, 0.5), 0.5):
        for part in batch:
            if part.table == "nation":
                changed -= set(part.deleted.tolist())
                for row, donor in zip(part.updated.tolist(), part.donors.tolist(), strict=True):
                    assert row not in changed or row == donor
                    changed ^= {row}


def test_rows_come_in_turns() -> None:
    (batch,) = plan({"region": 2, "nation": 9, "orders": 50}, StreamOptions(10, changes=10))
    assert {part.table: part.arriving for part in batch} == {
        "region": (0, 2),
        "nation": (0, 4),
        "orders": (0, 4),
    }


def test_plan_is_a_function_of_the_seed() -> None:
    def shape(seed: int) -> list[list[tuple[str, list[int], list[int], list[int]]]]:
        return [
            [(p.table, p.deleted.tolist(), p.updated.tolist(), p.returned.tolist()) for p in batch]
            for batch in plan(SIZES, StreamOptions(70, 0.25, seed=seed))
        ]

    assert shape(3) == shape(3)
    assert shape(3) != shape(4)


@pytest.mark.parametrize("changes", [1, 99, 100, 250])
def test_stops_after_changes(changes: int) -> None:
    plans = plan(SIZES, StreamOptions(100, 0.2, changes=changes))
    assert sum(part.rows for batch in plans for part in batch) == changes


def test_subset_of_tables_in_schema_order() -> None:
    sizes = {"lineitem": 40, "orders": 10}
    names = {part.table for batch in plan(sizes, StreamOptions(7)) for part in batch}
    assert names == {"lineitem", "orders"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_rows": 0}, "at least one row"),
        ({"batch_rows": 1, "deletes": 0.7}, "fraction of deletes"),
        ({"batch_rows": 1, "deletes": float("nan")}, "fraction of deletes"),
        ({"batch_rows": 1, "changes": 0}, "at least one changed row"),
    ],
)
def test_bad_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamOptions(**options)  # type: ignore[arg-type]


def small_table(name: str, rows: int) -> pa.Table:
    """Rows whose every value names its row, in the table's types."""
    schema = TABLES_BY_NAME[name].arrow_schema
    numbers = pa.array(np.arange(rows))
    columns = []
    for field in schema:
        if pa.types.is_date(field.type):
            columns.append(numbers.cast(pa.int32()).cast(field.type))
        elif pa.types.is_decimal(field.type):
            columns.append(numbers.cast(pa.decimal128(38, 2)).cast(field.type))
        else:
            columns.append(numbers.cast(field.type))
    return pa.table(columns, schema=schema)


def test_prebatched_rows_match_the_plan() -> None:
    sizes = {"supplier": 40, "lineitem": 300}
    tables = {name: small_table(name, rows) for name, rows in sizes.items()}
    plans = plan(sizes, StreamOptions(30, 0.4), 0.5)
    batches = stream.prebatch(iter(plans), tables)
    initial = stream.initial_batch(tables, stream.loaded_rows(sizes, 0.5))
    assert initial.rows == 170
    assert [batch.rows for batch in batches] == [sum(p.rows for p in plan) for plan in plans]
    current: dict[str, dict[tuple[object, ...], dict[str, object]]] = {n: {} for n in sizes}
    changed_columns: set[str] = set()
    for batch in [initial, *batches]:
        for change in batch.changes:
            key = TABLES_BY_NAME[change.table].primary_key
            rows = current[change.table]
            if change.verb == "delete":
                assert change.rows.column_names == list(key)
            else:
                assert change.rows.schema == tables[change.table].schema
            for row in change.rows.to_pylist():
                name = tuple(row[k] for k in key)
                if change.verb == "insert":
                    assert name not in rows
                    rows[name] = row
                elif change.verb == "upsert":
                    changed_columns |= {k for k in row if row[k] != rows[name][k]}
                    rows[name] = row
                else:
                    del rows[name]
    assert changed_columns >= {
        column for name in sizes for group in TABLES_BY_NAME[name].update_groups for column in group
    }


def test_update_groups_hold_no_key_column() -> None:
    for table in TABLES:
        columns = {column for group in table.update_groups for column in group}
        assert columns <= {name for name, _ in table.columns}
        assert columns.isdisjoint(table.primary_key)
