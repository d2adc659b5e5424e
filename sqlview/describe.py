"""DESCRIBE, SHOW COLUMNS, SHOW CREATE: what a table, stream or view is, with Spark's column names.

Invariant: the statement of SHOW CREATE, parsed again, makes the same, in the time zone that it
names, if the view depends on it.
"""

from __future__ import annotations

import pyarrow as pa
from typing_extensions import assert_never

from operators.scalar import user
from planner import parse
from planner.calculus.types import Field
from planner.context import Trait
from planner.names import CATALOG, quoted, quoted_relation
from sqlview.catalog import Catalog, Entry, Space, Stream, Table, View

COLUMNS_SCHEMA = pa.schema(
    [
        pa.field("col_name", pa.string(), False),
        pa.field("data_type", pa.string(), False),  # as Spark writes it, in lower case
        pa.field("nullable", pa.bool_(), False),
        pa.field("key", pa.int32()),  # the column's place in the primary key, from 1; or NULL
        pa.field("comment", pa.string()),
        pa.field("default", pa.string()),  # as written; NULL for NULL
    ]
)


def shown(
    statement: parse.Describe | parse.ShowColumns | parse.ShowCreate, catalog: Catalog
) -> pa.Table:
    """The statement's result. Raises: CatalogError if there is nothing of that name and kind."""
    match statement:
        case parse.ShowColumns():
            names = [f.name for f in catalog.any(statement.name).schema]
            return pa.table({"col_name": pa.array(names, pa.string())})
        case parse.ShowCreate():
            entry = _named(catalog, statement.name, statement.kind)
            return pa.table({"createtab_stmt": [creation(entry)]})
        case parse.Describe():
            return columns(_named(catalog, statement.name, statement.kind))
        case _:
            assert_never(statement)


def _named(catalog: Catalog, name: str, kind: str) -> Entry:
    """Whatever has the name, as Spark's TABLE does, unless it is to be a view or a stream."""
    return catalog.of_kind(name, kind) if kind in ("view", "stream") else catalog.any(name)


def columns(entry: Entry) -> pa.Table:
    """One row a column, see COLUMNS_SCHEMA. The key of a view is what its rows are found by, if the
    tables' keys say that there is one."""
    key = () if isinstance(entry, Stream) or entry.key is None else entry.key
    rows = [
        {
            "col_name": field.name,
            "data_type": field.declared.lower(),
            "nullable": field.nullable,
            "key": key.index(place) + 1 if place in key else None,
            "comment": trait.comment,
            "default": trait.default,
        }
        for place, (field, trait) in enumerate(zip(entry.schema, entry.traits, strict=True))
    ]
    return pa.Table.from_pylist(rows, COLUMNS_SCHEMA)


def schemas(catalog: Catalog) -> pa.Table:
    """The names of all schemas."""
    return pa.table({"namespace": pa.array([s.name for s in catalog.spaces()], pa.string())})


def functions(catalog: Catalog) -> pa.Table:
    """The user's functions, the type of each, and whether this process has its code."""
    rows = [
        {"function": f.name, "type": str(f.type), "registered": user.is_known(f.id)}
        for f in catalog.functions()
    ]
    kinds = [("function", pa.string()), ("type", pa.string()), ("registered", pa.bool_())]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def schema(space: Space) -> pa.Table:
    """What is said of a schema, as Spark says it."""
    said = {"Catalog Name": CATALOG, "Namespace Name": space.name, "Comment": space.comment or ""}
    return pa.table({"info_name": list(said), "info_value": list(said.values())})


def creation(entry: Entry) -> str:
    """The statement that makes it."""
    if isinstance(entry, View):
        said = zip(entry.schema, entry.traits, strict=True)
        names = ", ".join(quoted(f.name) + _comment(t.comment) for f, t in said)
        comment = _comment(entry.comment)
        zone = f"-- in the time zone {entry.zone.id}\n" if entry.zoned else ""
        name = quoted_relation(entry.name)
        options = " WITH (lazy = true)" if entry.lazy else ""
        head = f"CREATE MATERIALIZED VIEW {name} ({names}){comment}{options}"
        return f"{zone}{head} AS\n{entry.text}"
    lines = [_column(f, t) for f, t in zip(entry.schema, entry.traits, strict=True)]
    kind = "STREAM"
    if isinstance(entry, Table):
        kind = "TABLE"
        if entry.key is not None:
            names = ", ".join(quoted(entry.schema[k].name) for k in entry.key)
            lines.append(
                f"PRIMARY KEY ({names})" + ("" if entry.enforced else " NOT ENFORCED RELY")
            )
    return (
        f"CREATE {kind} {quoted_relation(entry.name)} (\n  "
        + ",\n  ".join(lines)
        + f"){_comment(entry.comment)}"
    )


def _column(field: Field, trait: Trait) -> str:
    text = f"{quoted(field.name)} {field.declared}" + ("" if field.nullable else " NOT NULL")
    if trait.default is not None:
        text += f" DEFAULT {trait.default}"
    return text + _comment(trait.comment)


def _comment(comment: str | None) -> str:
    if comment is None:
        return ""
    escaped = comment.replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{escaped}'"
