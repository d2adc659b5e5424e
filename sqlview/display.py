"""How rows look to people: small tables as text, and as HTML in notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence

import pyarrow as pa

from operators.flight.rendering import texts
from operators.scalar.text import shortened

#: Rows that `repr` and a notebook show, and that `str` does at most.
FEW_ROWS, MANY_ROWS = 20, 1_000
#: Columns that `repr` and a notebook show.
FEW_COLUMNS = 40
#: Characters of a value.
CELL_CHARACTERS = 100


def text_table(table: pa.Table, rest: str = "") -> str:
    """Columns under their names, padded; `rest` is a last line of its own."""
    cells = _cells(table)
    widths = [
        max([len(name), *(len(row[i]) for row in cells)])
        for i, name in enumerate(table.schema.names)
    ]
    lines = [table.schema.names, ["-" * w for w in widths], *cells]
    padded = ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)) for r in lines]
    return "\n".join([*(line.rstrip() for line in padded), *([rest] if rest else [])])


def html_table(title: str, types: Sequence[str], table: pa.Table, rest: str = "") -> str:
    """A <table> with a caption; `types` stand under the columns' names."""
    names = "".join(f"<th>{html.escape(n)}</th>" for n in table.schema.names)
    kinds = "".join(f"<td><small>{html.escape(k)}</small></td>" for k in types)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(v)}</td>" for v in row) + "</tr>"
        for row in _cells(table)
    )
    end = f"<p>{html.escape(rest)}</p>" if rest else ""
    return (
        f"<table><caption>{html.escape(title)}</caption>"
        f"<thead><tr>{names}</tr><tr>{kinds}</tr></thead><tbody>{rows}</tbody></table>{end}"
    )


def rows_text(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")


def left_out(shown: int, count: int | None) -> str:
    """What a table says of the rows that it does not show."""
    if count is None:
        return "… and more rows"
    return f"… and {rows_text(count - shown)} more" if count > shown else ""


def preformatted(text: str) -> str:
    """Text as it stands, for notebooks."""
    return f"<pre>{html.escape(text)}</pre>"


def _cells(table: pa.Table) -> list[tuple[str, ...]]:
    columns = [[shortened(text, CELL_CHARACTERS) for text in texts(c)] for c in table.columns]
    return list(zip(*columns, strict=True))
