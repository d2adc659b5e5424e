"""Every function of Spark is maintained or refused with a reason, and FUNCTIONS.md says which."""

from __future__ import annotations

import pytest

import sqlview
from planner.bind.builtin import maintained
from planner.bind.refused import BY_NAME
from tests.sql.spark_functions import PAGE, listed, page


def test_every_function_is_maintained_or_refused() -> None:
    known, refused, names = maintained(), BY_NAME.keys(), listed().keys()
    assert not known & refused
    assert not names - known - refused
    assert not refused - names, "refused, and not there"
    assert len(names & known) >= 430


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.sql.spark_functions"


@pytest.mark.parametrize("name", ["aes_encrypt", "parse_json", "from_xml", "vector_sum", "st_srid"])
def test_a_refused_function_says_why(name: str) -> None:
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE t (s STRING)")
        with pytest.raises(sqlview.UnsupportedError) as caught:
            db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {name}(s, s) AS x FROM t")
    assert name.upper() in caught.value.message
    assert caught.value.line == 1
