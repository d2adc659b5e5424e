"""RF1 and RF2: the specification's keys and proportions, a valid history, views that stay right."""

from __future__ import annotations

import io
import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from tpch import cli, refresh, refresh_run
from tpch.refresh import PAIRS, order_keys, refresh_pairs
from tpch.runner import RunOptions
from tpch.stream import Batch


def keys(rows: pa.Table, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def part(batch: Batch, table: str) -> pa.Table:
    (change,) = (change for change in batch.changes if change.table == table)
    return change.rows


def test_generated_keys_are_block_zero(generated_tables: dict[str, pa.Table]) -> None:
    orders = generated_tables["orders"]
    expected = orders.column("o_orderkey").to_numpy()
    assert np.array_equal(order_keys(np.arange(orders.num_rows), 0), expected)


def test_keys_of_the_blocks_do_not_meet() -> None:
    indexes = np.arange(500)
    found = np.concatenate([order_keys(indexes, block) for block in range(4)])
    assert len(np.unique(found)) == len(found)


def test_a_pair_is_a_thousandth_of_the_orders(generated_tables: dict[str, pa.Table]) -> None:
    for pair in refresh_pairs(generated_tables, 3, seed=0):
        assert part(pair.inserts, "orders").num_rows == 15
        assert part(pair.deletes, "orders").num_rows == 15


def test_pairs_are_a_valid_history(
    generated_tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "_PAIRS_PER_BLOCK", 20)
    orders = set(keys(generated_tables["orders"], "o_orderkey"))
    lines = set(keys(generated_tables["lineitem"], "l_orderkey", "l_linenumber"))
    supplied = set(keys(generated_tables["lineitem"], "l_partkey", "l_suppkey"))
    counts = []
    for pair in refresh_pairs(generated_tables, 42, seed=0):
        new_orders, new_lines = part(pair.inserts, "orders"), part(pair.inserts, "lineitem")
        assert new_orders.schema == generated_tables["orders"].schema
        assert new_lines.schema == generated_tables["lineitem"].schema
        inserted = keys(new_orders, "o_orderkey")
        line_keys = keys(new_lines, "l_orderkey", "l_linenumber")
        assert len(inserted) == 750
        assert orders.isdisjoint(inserted) and lines.isdisjoint(line_keys)
        assert {key for key, _ in line_keys} == {key for (key,) in inserted}
        assert len(set(line_keys)) == len(line_keys)
        assert supplied.issuperset(keys(new_lines, "l_partkey", "l_suppkey"))
        orders.update(inserted)
        lines.update(line_keys)
        counts.append(len(line_keys))
        old_orders = keys(part(pair.deletes, "orders"), "o_orderkey")
        old_lines = keys(part(pair.deletes, "lineitem"), "l_orderkey", "l_linenumber")
        assert len(old_orders) == 750
        assert orders.issuperset(old_orders) and lines.issuperset(old_lines)
        assert {key for key, _ in old_lines} == {key for (key,) in old_orders}
        orders.difference_update(old_orders)
        lines.difference_update(old_lines)
    assert np.mean(counts) == pytest.approx(3000, rel=0.05)
    # No line item is left without its order, and no order without line items.
    assert {key for key, _ in lines} == {key for (key,) in orders}


def test_total_price_is_that_of_the_line_items(generated_tables: dict[str, pa.Table]) -> None:
    (pair,) = refresh_pairs(generated_tables, 1, seed=3)
    cent = Decimal("0.01")
    totals: dict[int, Decimal] = {}
    for line in part(pair.inserts, "lineitem").to_pylist():
        charged = line["l_extendedprice"] * (1 + line["l_tax"]) * (1 - line["l_discount"])
        totals[line["l_orderkey"]] = totals.get(line["l_orderkey"], Decimal(0)) + charged
    for order in part(pair.inserts, "orders").to_pylist():
        total = totals[order["o_orderkey"]].quantize(cent, ROUND_HALF_UP)
        assert abs(order["o_totalprice"] - total) <= cent


@pytest.mark.parametrize(("mode", "sessions"), [("each", ["q01", "q03", "q14"]), ("together", 1)])
def test_views_stay_right(generated: Path, mode: str, sessions: list[str] | int) -> None:
    options = RunOptions(
        sf=0.01, queries="q01,q03,q14", params="lively", mode=mode, placement="inline",
        verify="every", data=generated,
    )  # fmt: skip
    outcome = refresh_run.run(options, 2, console=Console(quiet=True))
    assert not outcome.differences
    names = sessions if isinstance(sessions, list) else [refresh_run.ALL]
    assert [(pair.query, pair.pair) for pair in outcome.report.pairs] == [
        (name, number) for name in names for number in range(2)
    ]
    assert all(view.verified and view.verified_epochs == 5 for view in outcome.report.queries)
    assert all(pair.insert_rows > 30 < pair.delete_rows for pair in outcome.report.pairs)
    output = io.StringIO()
    refresh_run.print_report(outcome.report, Console(file=output, width=120))
    assert "5 epochs" in output.getvalue()


def test_command(generated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    arguments = ["refresh", "--sf", "0.01", "--queries", "q06", "--data", str(generated)]
    assert cli.main([*arguments, "--verify", "final", "--json", str(figures)]) == 0
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert [view["verified"] for view in found["queries"]] == [True]
    assert [pair["pair"] for pair in found["pairs"]] == [0]
    assert "RF1" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        cli.main([*arguments, "--pairs", str(PAIRS + 1)])
    assert stopped.value.code == 2
    assert "there are 1 to 3000 pairs, not 3001" in capsys.readouterr().err
