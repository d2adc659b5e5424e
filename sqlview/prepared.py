"""Prepared statements: a query with parameters, kept up for all values that somebody subscribes to.

A statement is one view: its query is joined, as LATERAL, with a table that has a row for each
combination of values in use. Who subscribes to new values inserts a row, which is a step like any
other: it costs what the query costs for these values, through the indexes and operators that there
are, and adds none. Whoever is last to leave deletes it.

The table and the view are the catalog's: they are shown, explained, verified and dropped as others,
and lie in the store. Subscriptions are the process's: a session that prepares a statement which its
store has already takes away the values of those who are gone.

Invariant: the table has the values of the open subscriptions, each once.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from typing_extensions import Self

from operators.flight.arrow import arrow_type
from planner.calculus.types import Field, Schema
from planner.errors import CatalogError, DataError, SqlViewError
from planner.names import DEFAULT_SCHEMA, folded
from planner.parse.tokens import line_and_column
from sqlview.arguments import check_callable, kind_of
from sqlview.catalog import Catalog, Table, View
from sqlview.parameters import Parameters, Rewritten, for_all, listed, parameters_of, types_of
from sqlview.quoting import spark_name, spark_relation
from sqlview.view import Given, Result

if TYPE_CHECKING:
    from sqlview.session import Session

#: Called with the columns of the query, `__time` and `__diff`.
Callback: TypeAlias = Callable[[pa.Table], None]
#: The values of all parameters, in their order.
Values: TypeAlias = tuple[Any, ...]


class Statement:
    """A prepared statement: see Session.prepare. State: who subscribes to which values."""

    def __init__(self, session: Session, view: View, table: Table) -> None:
        self._session = session
        self._view = view
        self._values = table
        self._fields: Schema = table.schema
        self._subscriptions: dict[Values, list[Subscription]] = {}

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name} {f.type}" for f in self._fields)
        return f'statement "{self.name}" ({fields}), {len(self)} values'

    def __len__(self) -> int:
        """How many combinations of values are kept up."""
        return len(self._subscriptions)

    @property
    def name(self) -> str:
        """That of its view, for EXPLAIN and VERIFY; `name` and "_parameters" is its table."""
        return self._view.name

    @property
    def parameters(self) -> dict[str, str]:
        """The SQL type of each parameter."""
        return {f.name[1:]: str(f.type) for f in self._fields}

    def subscribe(self, callback: Callback | None = None, /, **values: Any) -> Subscription:
        """Keep the query's rows for these values, until the subscription is closed.

        callback(table): as that of Session.subscribe, for these values alone, with the columns of
        the query; first with the rows that there are, if any.
        Raises: SqlViewError for a value that is missing or not a parameter's; DataError for one
        that its type does not hold, or NULL.
        Cost: if nobody subscribes to the values yet, a step: what the query costs for them.
        """
        if callback is not None:
            check_callable("callback", callback)
        key, row = self._checked(values)
        subscription = Subscription(self, key, callback)
        others = self._subscriptions.get(key)
        if others is not None:
            self._tell_rows(subscription)
            others.append(subscription)
            return subscription
        self._subscriptions[key] = [subscription]
        try:
            with self._session.transaction() as tx:
                tx.insert(self._values.name, row)
        except BaseException:
            if not self._is_kept(key):
                del self._subscriptions[key]
            raise
        return subscription

    def drop(self) -> None:
        """Drop the view and the table. Raises: CatalogError if other views read them."""
        self._session._run(f"DROP MATERIALIZED VIEW {spark_relation(self.name)}", DEFAULT_SCHEMA)
        self._session._run(f"DROP TABLE {spark_relation(self._values.name)}", DEFAULT_SCHEMA)
        self._subscriptions.clear()

    def _is_of(self, other: Statement) -> bool:
        """Whether the other is of the same view, which may have been dropped and made anew."""
        return self._view.id == other._view.id

    def _take_over(self) -> None:
        """Hear of the view's changes, and delete the values of sessions that have ended."""
        left = self._present()
        if left.num_rows:
            with self._session.transaction() as tx:
                tx.delete(self._values.name, left)
        self._session.subscribe(self.name, self._hear)

    def _rows(self, key: Values) -> Result:
        """The query's rows for values that are kept up."""
        by_name = {f.name: v for f, v in zip(self._fields, key, strict=True)}
        found = self._session.view(self.name).lookup(**by_name).to_arrow()
        return Result(Given(found.select(range(len(self._fields), found.num_columns))))

    def _leave(self, subscription: Subscription) -> None:
        """Take a subscription back, and with the last one of its values these."""
        key = subscription.key
        others = self._subscriptions.get(key, [])
        if subscription not in others:
            return
        others.remove(subscription)  # it does not hear of its rows leaving
        if others:
            return
        self._subscriptions.pop(key, None)
        try:
            with self._session.transaction() as tx:
                tx.delete(self._values.name, self._row(key))
        except BaseException:
            if self._is_kept(key):
                self._subscriptions.setdefault(key, []).append(subscription)
            raise

    def _checked(self, values: Mapping[str, Any]) -> tuple[Values, pa.Table]:
        names = [f.name[1:] for f in self._fields]
        unknown = [name for name in values if name not in names]
        missing = [name for name in names if name not in values]
        if unknown or missing:
            what = "there is no parameter" if unknown else "there is no value for parameter"
            raise SqlViewError(
                f"{what} {listed(tuple(unknown or missing))}",
                detail=f"The parameters of \"{self.name}\" are {listed(tuple(names))}.",
                hint="Give each a value: subscribe("
                + ", ".join(f"{name}=…" for name in names) + ").",
            )  # fmt: skip
        row = self._row(tuple(values[name] for name in names))
        return tuple(column[0].as_py() for column in row.columns), row

    def _row(self, values: Values) -> pa.Table:
        columns = [_array(f, value) for f, value in zip(self._fields, values, strict=True)]
        return pa.table(columns, names=[f.name for f in self._fields])

    def _is_kept(self, key: Values) -> bool:
        """Whether the values are in the table: a subscriber may have failed after the commit."""
        try:
            return key in {tuple(row.values()) for row in self._present().to_pylist()}
        except SqlViewError:
            return False

    def _present(self) -> pa.Table:
        """The values that the table has."""
        with self._session.snapshot() as snapshot:
            return snapshot.table(self._values.name).to_arrow()

    def _tell_rows(self, subscription: Subscription) -> None:
        if subscription.callback is None:
            return
        rows = self._rows(subscription.key).to_arrow()
        if rows.num_rows:
            for name, value in (("__time", self._session.epoch), ("__diff", 1)):
                column = pa.array([value] * rows.num_rows, pa.int64())
                rows = rows.append_column(pa.field(name, pa.int64(), nullable=False), column)
            subscription.callback(rows)

    def _hear(self, table: pa.Table) -> None:
        """Tell a step's changes to those who subscribe to their values; the first failure counts,
        when all have been told."""
        many = len(self._fields)
        rows: dict[Values, list[int]] = {}
        keys = zip(*(c.to_pylist() for c in table.columns[:many]), strict=True)
        for at, key in enumerate(keys):
            rows.setdefault(key, []).append(at)
        rest = table.select(range(many, table.num_columns))
        failure: Exception | None = None
        for key, some in rows.items():
            for subscription in list(self._subscriptions.get(key, ())):
                if subscription.callback is None:
                    continue
                try:
                    subscription.callback(rest if len(rows) == 1 else rest.take(some))
                except Exception as error:
                    failure = failure or error
        if failure is not None:
            raise failure


class Subscription:
    """The rows of a prepared statement for some values. `key`: them. Closed, or at the end of a
    `with`, it is heard no more, and its values are kept up only for others."""

    def __init__(self, statement: Statement, key: Values, callback: Callback | None) -> None:
        self._statement = statement
        self.key = key
        self.callback = callback
        self._closed = False

    @property
    def values(self) -> dict[str, Any]:
        return dict(zip(self._statement.parameters, self.key, strict=True))

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows now, as tuples. Raises: SqlViewError when it is closed; ViewError."""
        return self.result().rows()

    def result(self) -> Result:
        """The rows now, read by an index on the parameters. Raises: as `rows`."""
        if self._closed:
            raise SqlViewError("the subscription is closed", hint="Subscribe again.")
        return self._statement._rows(self.key)

    def close(self) -> None:
        """Be done with it. Cost: a step, where it is the last one of its values."""
        if not self._closed:
            self._statement._leave(self)
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _array(field: Field, value: Any) -> pa.Array:
    """A parameter's value as a column of one row.

    Raises: DataError if the type does not hold it.
    """
    kind = arrow_type(field.type)
    if value is None:
        raise DataError(
            f"parameter {field.name} is NULL",
            hint="Write IS NULL in a statement of its own: nothing equals NULL.",
        )
    try:
        if isinstance(value, bool) != pa.types.is_boolean(kind):
            raise TypeError
        made = pa.array([value], kind)
        taken = made[0].as_py()
        if isinstance(taken, float):
            is_it = not math.isnan(taken)  # it would not find itself
        else:  # Arrow cuts 1.5 off to 1, and a timestamp to its date
            is_it = pa.types.is_timestamp(kind) or taken == value
        if not is_it:
            raise ValueError
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(
            f"parameter {field.name} takes {field.type}",
            detail=f"It was given a value of type {kind_of(value)} that is none.",
        ) from None
    return made


class Prepared:
    """The statements that a session has prepared. State: them, by the names of their views."""

    def __init__(self, session: Session, catalog: Catalog) -> None:
        self._session = session
        self._catalog = catalog
        self._statements: dict[str, Statement] = {}

    def prepare(self, text: str, name: str | None, types: Mapping[str, str]) -> Statement:
        """See Session.prepare."""
        parameters = parameters_of(text)
        found = types_of(parameters, types, self._catalog)
        if name is None:
            said = repr((text, sorted(found.items())))
            name = f"prepared_{hashlib.sha256(said.encode()).hexdigest()[:12]}"
        made = self._made(parameters, found, name)
        old = self._statements.get(folded(made.name))
        if old is not None and old._is_of(made):
            return old
        made._take_over()
        self._statements[folded(made.name)] = made
        return made

    def _made(self, parameters: Parameters, types: Mapping[str, str], name: str) -> Statement:
        """The view and the table, new ones where there are none."""
        session, catalog = self._session, self._catalog
        table = f"{name}_parameters"
        query = for_all(parameters, table)
        there = catalog.find(name)
        if there is not None and not (isinstance(there, View) and there.text == query.text):
            raise CatalogError(
                f'"{there.name}" exists already', hint="Give the statement another name."
            )
        if there is None:
            columns = ", ".join(f"{spark_name(f':{n}')} {types[n]} NOT NULL" for n in types)
            key = ", ".join(spark_name(f":{n}") for n in types)
            session._run(
                f"CREATE TABLE {spark_relation(table)} ({columns}, PRIMARY KEY ({key}))",
                DEFAULT_SCHEMA,
            )
            create = f"CREATE MATERIALIZED VIEW {spark_relation(name)} AS "
            try:
                session._run(create + query.text, DEFAULT_SCHEMA)
            except BaseException as error:
                session._run(f"DROP TABLE {spark_relation(table)}", DEFAULT_SCHEMA)
                if isinstance(error, SqlViewError):
                    _put_back(error, create, query, parameters.text)
                raise
        return Statement(session, catalog.view(name), catalog.table(table))


def _put_back(error: SqlViewError, before: str, query: Rewritten, text: str) -> None:
    """Let the places in an error about `query`, which stood behind `before`, be those in `text`."""
    lines = (before + query.text).splitlines(keepends=True)

    def place(line: int, column: int) -> tuple[int, int]:
        offset = sum(map(len, lines[: line - 1])) + column - 1
        return line_and_column(text, query.origin(offset - len(before)))

    def placed(found: re.Match[str]) -> str:
        line, column = place(int(found[1]), int(found[2]))
        return f"line {line}, column {column}"

    if error.line is not None and error.column is not None:
        error.line, error.column = place(error.line, error.column)
    if error.detail is not None:
        error.detail = re.sub(r"line (\d+), column (\d+)", placed, error.detail)
