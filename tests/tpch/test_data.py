"""Schema, queries and generated data fit together."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tpch.generate import GenerateError, generate, load, parquet_file
from tpch.queries import UnknownQueryError, all_queries, select_queries, tables_of
from tpch.runner import spark_load_cuts
from tpch.schema import TABLES, TABLES_BY_NAME


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(0.01, tmp_path_factory.mktemp("tpch"))


def test_generated_tables_have_the_schema(directory: Path) -> None:
    tables = load(directory)
    assert list(tables) == [table.name for table in TABLES]
    for table in TABLES:
        assert tables[table.name].schema == table.arrow_schema
        assert pq.read_schema(parquet_file(directory, table.name)).names == [
            name for name, _ in table.columns
        ]
        keys = tables[table.name].select(list(table.primary_key)).to_pydict().values()
        assert len(set(zip(*keys, strict=True))) == tables[table.name].num_rows > 0


def test_generated_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpch.generate._find_program", lambda: pytest.fail("generates again"))
    assert generate(0.01, directory.parent) == directory
    assert [path.name for path in directory.parent.iterdir()] == ["sf0.01"]


def test_incomplete_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "sf0.01").mkdir()
    (tmp_path / "sf0.01" / "region.parquet").touch()
    with pytest.raises(GenerateError, match="does not hold all eight tables"):
        generate(0.01, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sf0.01"]


def test_shuffled_rows_are_the_same_rows(directory: Path) -> None:
    plain = load(directory, ["orders"])["orders"]
    mixed = load(directory, ["orders"], shuffle_seed=5)["orders"]
    assert mixed != plain
    assert mixed.sort_by("o_orderkey") == plain.sort_by("o_orderkey")


def test_cuts_select_the_rows_before_a_key(directory: Path) -> None:
    tables = load(directory)
    for name, cut in spark_load_cuts(tables, 0.5).items():
        column = tables[name].column(cut.column).to_pylist()
        assert [key < cut.key for key in column] == [i < cut.rows for i in range(len(column))]
        assert abs(cut.rows - len(column) // 2) < 8


def test_queries() -> None:
    names = [query.name for query in all_queries()]
    assert {"q01", "q03", "q05", "q06", "q10", "q12", "q14", "q19"} <= set(names)
    assert names == sorted(names)
    assert set(names) <= {f"q{number:02}" for number in range(1, 23)}
    assert select_queries("all") == all_queries()
    assert [query.name for query in select_queries("q06, Q01,q06")] == ["q01", "q06"]
    q05 = select_queries("q05")
    assert tables_of(q05) == ("region", "nation", "supplier", "customer", "orders", "lineitem")
    with pytest.raises(UnknownQueryError, match='"q00", "q7"'):
        select_queries("q00,q7,q01")


def test_create_table() -> None:
    assert TABLES_BY_NAME["region"].sql == (
        "CREATE TABLE region (\n"
        "    r_regionkey BIGINT NOT NULL,\n"
        "    r_name STRING NOT NULL,\n"
        "    r_comment STRING NOT NULL,\n"
        "    PRIMARY KEY (r_regionkey)\n"
        ")"
    )
