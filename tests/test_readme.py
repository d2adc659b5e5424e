"""The README says what is true: its Python runs and prints what it shows, and the SQL that it calls
maintained or refused is."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlview

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """The text under a heading."""
    found = re.search(
        rf"^## {title}$(.*?)(?=^## |\Z)", README.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"the README has no section {title!r}"
    return found[1]


def statements(title: str) -> list[str]:
    """The SQL statements in the ```sql blocks of a section."""
    blocks = [text for kind, text in BLOCK.findall(section(title)) if kind == "sql"]
    return [part.strip() for text in blocks for part in text.split(";") if part.strip()]


def pattern(shown: str) -> str:
    """What a ```text block matches: the widths of columns may differ, in a table of sizes the
    numbers too, and a line with an ellipsis stands for any lines."""
    lines = []
    number = r"|(?<= )\d+(?= )" if "bytes" in shown else ""
    for line in shown.strip().splitlines():
        if line.strip() == "…":
            lines.append(r"[\s\S]*")
            continue
        cells = re.split(rf"( {{2,}}|-{{3,}}{number})", line.strip())
        lines.append("".join(_loose(cell, bool(number)) for cell in cells))
    return r"\s*\n\s*".join(lines)


def _loose(cell: str, sizes: bool) -> str:
    if re.fullmatch(r" {2,}", cell):
        return r" +"
    if re.fullmatch(r"-{3,}", cell):
        return r"-+"
    return r"\d+" if sizes and cell.isdigit() else re.escape(cell)


@pytest.fixture
def db() -> Iterator[sqlview.Session]:
    with sqlview.connect() as session:
        session.sql(
            "CREATE TABLE lines (id BIGINT PRIMARY KEY, part INT, size INT, price DECIMAL(15,2),"
            " discount DECIMAL(15,2), day DATE, note STRING)"
        )
        session.sql("CREATE TABLE parts (id INT PRIMARY KEY, name STRING, size INT, twin INT)")
        yield session


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_python_blocks_print_what_is_shown() -> None:
    blocks = BLOCK.findall(README.read_text())
    names: dict[str, Any] = {}
    ran = 0
    for (kind, text), following in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(README), "exec"), names)  # the README's own text
        assert following[0] == "text", f"nothing shows what this prints:\n{text}"
        assert re.fullmatch(pattern(following[1]), printed.getvalue().strip()), printed.getvalue()
        ran += 1
    names["db"].close()
    assert ran >= 8


def test_the_first_view_is_short() -> None:
    kind, text = BLOCK.findall(section("A first view"))[0]
    assert kind == "python"
    assert len(text.splitlines()) <= 12


@pytest.mark.parametrize("query", statements("What is maintained"))
def test_maintained(db: sqlview.Session, query: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert db.verify("v").equal


@pytest.mark.parametrize("query", statements("What is refused"))
def test_refused(db: sqlview.Session, query: str) -> None:
    with pytest.raises(sqlview.UnsupportedError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert caught.value.message.startswith("cannot maintain ")
    assert caught.value.hint
    with pytest.raises(sqlview.CatalogError):
        db.view("v")


def test_every_directory_and_target_named_is_there() -> None:
    for name in re.findall(r"^    (\w+)/ ", section("The repository"), re.MULTILINE):
        assert (README.parent / name).is_dir(), name
    targets = (README.parent / "Makefile").read_text()
    for name in set(re.findall(r"\bmake (\w+)\b", README.read_text())):
        assert re.search(rf"^{name}:", targets, re.MULTILINE), name
