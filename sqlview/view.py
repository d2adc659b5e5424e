"""Reading: a view's rows at the current epoch, and the result of a statement."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from operators.flight.arrow import in_zone
from operators.flight.rendering import python_values
from planner.calculus.types import Schema
from planner.calculus.zones import Zone
from planner.errors import SqlViewError
from sqlview import display
from sqlview.arguments import checked_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Rows(Protocol):
    """Where a result's rows come from."""

    def table(self, first: int | None = None) -> pa.Table:
        """All rows, or the `first`."""

    def count(self) -> int | None:
        """How many there are; None if only reading them all would tell."""

    def dataframe(self) -> DataFrame: ...


class Result:
    """Rows with names and types: Arrow, Python tuples, pandas, polars or a Spark DataFrame.

    `str()` is a small table for people, of at most 1,000 rows; `repr()` and notebooks show the
    first 20 rows with their types and number. Whatever takes Arrow streams (`pa.table`,
    `polars.DataFrame`, DuckDB) takes a result.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def to_arrow(self) -> pa.Table:
        return self._rows.table()

    def to_df(self) -> DataFrame:
        """A Spark DataFrame, which is a snapshot: it does not follow later changes."""
        return self._rows.dataframe()

    def to_pandas(self) -> Any:
        """A pandas DataFrame, as pyarrow makes it (types that pandas lacks become objects)."""
        return self._rows.table().to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame. Raises: ImportError if polars is not installed."""
        try:
            polars = importlib.import_module("polars")
        except ImportError:
            raise ImportError("to_polars needs polars: pip install polars") from None
        return polars.DataFrame(self._rows.table())

    def rows(self) -> list[tuple[Any, ...]]:
        """Rows as tuples of Python values.

        Raises: DataError for a date or timestamp outside the years 1 to 9999, which Python lacks.
        """
        return _tuples(self._rows.table())

    def head(self, n: int = 10) -> Result:
        """The first `n` rows, read now. Raises: TypeError or ValueError if `n` is no number of
        rows. Cost: those rows, where the result has no order."""
        return Result(Given(self._rows.table(checked_count("n", n))))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __len__(self) -> int:
        count = self._rows.count()
        return int(self._rows.table().num_rows) if count is None else count

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.table().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        table, count = self._first(display.MANY_ROWS)
        return display.text_table(table, display.left_out(table.num_rows, count))

    def __repr__(self) -> str:
        table, count = self._first(display.FEW_ROWS)
        table, columns = _narrowed(table)
        rest = " ".join(filter(None, [display.left_out(table.num_rows, count), columns]))
        types = ", ".join(self._types(table))
        return f"{self._title(count)} ({types})\n{display.text_table(table, rest)}"

    def _repr_html_(self) -> str:
        table, count = self._first(display.FEW_ROWS)
        table, columns = _narrowed(table)
        rest = " ".join(filter(None, [display.left_out(table.num_rows, count), columns]))
        return display.html_table(self._title(count), self._types(table), table, rest)

    def _first(self, most: int) -> tuple[pa.Table, int | None]:
        """The first rows, and how many there are; None: more than those."""
        count = self._rows.count()
        table = self._rows.table(most + 1 if count is None else most)
        if count is None and table.num_rows <= most:
            count = table.num_rows
        return table.slice(0, most), count

    def _title(self, count: int | None) -> str:
        return "rows" if count is None else display.rows_text(count)

    def _types(self, table: pa.Table) -> list[str]:
        return [str(field.type) for field in table.schema]


class Given:
    """Rows that are at hand, and what makes a DataFrame of them."""

    def __init__(
        self, table: pa.Table, dataframe: Callable[[pa.Table], DataFrame] | None = None
    ) -> None:
        self._table = table
        self._dataframe = dataframe

    def table(self, first: int | None = None) -> pa.Table:
        return self._table if first is None else self._table.slice(0, first)

    def count(self) -> int:
        return int(self._table.num_rows)

    def dataframe(self) -> DataFrame:
        if self._dataframe is None:
            raise SqlViewError(
                "the first rows are no DataFrame", hint="Use to_df().limit(n) of the whole."
            )
        return self._dataframe(self._table)


class Selected:
    """The rows of a query that Spark runs when they are read, instants in this time zone."""

    def __init__(self, frame: DataFrame, zone: Zone) -> None:
        self._frame = frame
        self._zone = zone

    def table(self, first: int | None = None) -> pa.Table:
        from sqlview.lending import selected  # Spark is there already
        from sqlview.spark.running import using

        frame = self._frame if first is None else self._frame.limit(first)
        with using(frame.sparkSession):
            return in_zone(selected(frame), self._zone)

    def count(self) -> None:
        return None

    def dataframe(self) -> DataFrame:
        return self._frame


class Explanation(Result):
    """A plan: one column of text lines, which `str()`, `repr()` and notebooks show whole."""

    def __str__(self) -> str:
        return "\n".join(str(line) for (line,) in self.rows())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return display.preformatted(str(self))


class ViewRows(Rows, Protocol):
    """A view's rows; what the reader of a view asks beyond those."""

    @property
    def schema(self) -> Schema: ...
    @property
    def key(self) -> tuple[str, ...] | None: ...
    @property
    def changes(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    def lookup(self, names: tuple[str, ...], values: tuple[Any, ...]) -> pa.Table: ...
    def as_of(self, epoch: int) -> Rows: ...


class ViewReader(Result):
    """A materialized view. Every read sees the epoch that is current when it is made.

    Raises on reading: ViewError while a row under the view cannot be computed; `repr()` and
    notebooks say so instead.
    """

    def __init__(self, name: str, rows: ViewRows) -> None:
        super().__init__(rows)
        self.name = name
        self._view = rows

    @property
    def schema(self) -> Schema:
        """The columns: name, SQL type, whether NULL may occur."""
        return self._view.schema

    @property
    def key(self) -> tuple[str, ...] | None:
        """Columns that no two rows agree on, if the query tells of some: those of GROUP BY, or of a
        primary key that it keeps. () where there is at most one row."""
        return self._view.key

    @property
    def changes(self) -> int:
        """Rows of signed deltas that the view has emitted since CREATE."""
        return self._view.changes

    def get(self, *key: Any) -> tuple[Any, ...] | None:
        """The row with these values of `key`, in its order; None if there is none.

        Raises: SqlViewError if the view has no key, or one of other width; DataError for a value
        that a column cannot hold. Cost: see `lookup`.
        """
        names = self.key
        if names is None:
            raise SqlViewError(
                f'view "{self.name}" has no key that its query tells of',
                hint="Use lookup(column=value), which finds all rows with that value.",
            )
        if len(key) != len(names):
            listed = ", ".join(f'"{n}"' for n in names) or "no columns"
            raise SqlViewError(
                f'the key of view "{self.name}" has {len(names)} values, not {len(key)}',
                detail=f"It is {listed}.",
            )
        if not names:
            found = self._rows.table(1)
        else:
            found = self._view.lookup(names, key)
        return next(iter(_tuples(found)), None)

    def lookup(self, **values: Any) -> Result:
        """The rows that have these values in these columns; None finds NULL. Read now.

        Raises: DataError for a column that the view lacks, or a value that it cannot hold;
        ValueError without any.
        Cost: a seek in an index, and the rows found. The first look at some columns builds the
        index, a pass over the view; later steps keep it, and SHOW ARRANGEMENTS shows it.
        """
        if not values:
            raise ValueError("name at least one column: lookup(column=value)")
        return Result(Given(self._view.lookup(tuple(values), tuple(values.values()))))

    def as_of(self, epoch: int) -> Result:
        """The rows that the view had at an epoch, read now.

        Raises: DataError if the changes since then are not retained (see `retain` of
        sqlview.connect); TypeError. Cost: a sort of the rows and of the changes since then.
        """
        return Result(self._view.as_of(epoch))

    def __repr__(self) -> str:
        try:
            return super().__repr__()
        except SqlViewError as error:
            return self._trouble(error)

    def _repr_html_(self) -> str:
        try:
            return super()._repr_html_()
        except SqlViewError as error:
            return display.preformatted(self._trouble(error))

    def _trouble(self, error: SqlViewError) -> str:
        return f'materialized view "{self.name}": {error}'

    def _title(self, count: int | None) -> str:
        return (
            f'materialized view "{self.name}" at epoch {self._view.epoch}: {super()._title(count)}'
        )

    def _types(self, table: pa.Table) -> list[str]:
        return [f"{f.type}" for f in self.schema[: table.num_columns]]


def _narrowed(table: pa.Table) -> tuple[pa.Table, str]:
    """The first columns, and what is said of the others."""
    more = table.num_columns - display.FEW_COLUMNS
    if more <= 0:
        return table, ""
    return table.select(range(display.FEW_COLUMNS)), f"… and {more:,} columns more"


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    if table.num_columns == 0:
        return [()] * table.num_rows
    names = table.column_names
    columns = (python_values(c, name) for c, name in zip(table.columns, names, strict=True))
    return list(zip(*columns, strict=True))
