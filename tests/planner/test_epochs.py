"""VERSION AS OF in a query: which relations, which epochs, and places that stay what they are."""

from __future__ import annotations

import pytest

from planner.errors import SqlSyntaxError, UnsupportedError
from planner.parse import without_epochs
from planner.parse.epochs import AsOf

NAMES = ("v", "Odd name", "w")


@pytest.mark.parametrize(
    ("text", "wanted", "asked"),
    [
        ("SELECT * FROM v", "SELECT * FROM v", ()),
        ("SELECT * FROM V VERSION AS OF 12", "SELECT * FROM _0v AS V", [AsOf("v", 12, "_0v")]),
        (
            "SELECT * FROM v FOR VERSION AS OF 3 WHERE a > 1",
            "SELECT * FROM _0v AS v              WHERE a > 1",
            [AsOf("v", 3, "_0v")],
        ),
        (
            "SELECT x.a FROM v for system_version as of '3' x",
            "SELECT x.a FROM _0v                            x",
            [AsOf("v", 3, "_0v")],
        ),
        (
            "SELECT * FROM `odd name` VERSION AS\n /* of */ OF 3, `w` VERSION AS OF 4 AS b",
            "SELECT * FROM _1v AS `odd name`\n              , _0v                 AS b",
            [AsOf("w", 4, "_0v"), AsOf("Odd name", 3, "_1v")],
        ),
        (
            "SELECT * FROM v VERSION AS OF 3 JOIN v version as of 3 AS _0v USING (a)",
            "SELECT * FROM _0vv AS v         JOIN _0vv              AS _0v USING (a)",
            [AsOf("v", 3, "_0vv")],
        ),
        ("SELECT version AS of FROM v", None, ()),
        ("SELECT 'v VERSION AS OF 3' FROM v -- v VERSION AS OF 3", None, ()),
        ("SELECT * FROM delta VERSION AS OF 3, s.v VERSION AS OF 3", None, ()),
    ],
)
def test_relations_get_other_names(text: str, wanted: str | None, asked: list[AsOf]) -> None:
    new, found = without_epochs(text, NAMES)
    assert (new.rstrip(), found) == (wanted or text, tuple(asked))
    assert [len(line) for line in new.split("\n")][-1] == len(text.rsplit("\n", maxsplit=1)[-1])


@pytest.mark.parametrize("clause", ["TIMESTAMP", "FOR TIMESTAMP", "FOR SYSTEM_TIME"])
def test_times_are_refused(clause: str) -> None:
    with pytest.raises(UnsupportedError, match='cannot read "v" as of a time') as raised:
        without_epochs(f"SELECT 1\nFROM v {clause} AS OF '2020-01-01'", NAMES)
    assert raised.value.line == 2 and raised.value.hint is not None


@pytest.mark.parametrize("epoch", ["x", "-1", "1.5", "'a'", "current_date()"])
def test_what_is_no_epoch(epoch: str) -> None:
    with pytest.raises(SqlSyntaxError, match="is no epoch"):
        without_epochs(f"SELECT * FROM v VERSION AS OF {epoch}", NAMES)
