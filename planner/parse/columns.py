"""Columns, as CREATE TABLE, CREATE STREAM and ALTER TABLE say them, and what none of them takes."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from planner.calculus import types
from planner.calculus.types import Field, SqlType
from planner.context import Trait
from planner.errors import suggestion
from planner.names import folded
from planner.parse.queries import string_value
from planner.parse.tokens import Cursor, Token, shortened

_TYPES: dict[str, SqlType] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "BYTE": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "SHORT": types.SMALLINT,
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "LONG": types.BIGINT,
    "FLOAT": types.FLOAT,
    "REAL": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "STRING": types.STRING,
    "BINARY": types.BINARY,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_LTZ": types.TIMESTAMP,
    "TIMESTAMP_NTZ": types.TIMESTAMP_NTZ,
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_LIMITED = ("CHAR", "CHARACTER", "VARCHAR")
_NESTED = ("ARRAY", "MAP", "STRUCT")
_OTHER_TYPES = ("VARIANT", "VOID", "GEOMETRY", "GEOGRAPHY")
#: What may follow the value of DEFAULT.
_AFTER_DEFAULT = frozenset((",", "COMMENT", "NOT", "PRIMARY", "GENERATED", "FIRST", "AFTER"))
#: Of clauses: what each would do, and what to write.
PLACED = (
    "says where rows lie, and they are kept in memory and found through indexes here",
    "Leave it out; indexes are made as views need them.",
)
DESCRIBED = ("is kept by no table of this library", "Leave it out.")


def column_at(cursor: Cursor) -> tuple[Field, bool, Trait]:
    """A column, whether it is PRIMARY KEY, and what else is said of it."""
    column = typed_column(cursor)
    trait = Trait()
    while True:
        if cursor.accept("NOT", "NULL"):
            column = replace(column, nullable=False)
        elif cursor.accept("PRIMARY", "KEY"):
            return column, True, trait
        elif cursor.accept("COMMENT"):
            trait = replace(trait, comment=string_value(cursor.take("string", "a string")))
        elif cursor.accept("DEFAULT"):
            trait = replace(trait, default=default_at(cursor))
        elif cursor.peek().word in ("GENERATED", "CHECK", "UNIQUE", "REFERENCES"):
            refuse_constraint(cursor)
        else:
            return column, False, trait


def typed_column(cursor: Cursor) -> Field:
    """The name and the type of a column, which may be CHAR(n) or VARCHAR(n)."""
    name = cursor.name("column")
    kind = cursor.peek()
    if kind.word not in _LIMITED:
        return Field(name, type_at(cursor))
    cursor.next()
    sizes = _sizes(cursor, 1)
    padded = kind.word != "VARCHAR"
    if not sizes and padded:
        sizes = ["1"]
    digits = "".join(sizes)
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 1 << 31):
        cursor.fail_at(
            kind,
            f"a column of type {kind.word} says how many characters it takes",
            hint=f"Write {kind.word}(10), or STRING.",
        )
    return Field(name, types.STRING, True, int(digits), padded)


def comment_at(cursor: Cursor) -> str | None:
    """What COMMENT says, if that comes next."""
    if cursor.accept("COMMENT"):
        return string_value(cursor.take("string", "a string"))
    return None


def default_at(cursor: Cursor) -> str | None:
    """The expression behind DEFAULT, as written; None for NULL."""
    start = cursor.peek()
    depth = 0
    last: Token | None = None
    while (token := cursor.peek()).kind != "end":
        if depth == 0 and token.word in _AFTER_DEFAULT and last is not None:
            break
        depth += (token.word in ("(", "[", "CASE")) - (token.word in (")", "]", "END"))
        if depth < 0:
            break
        last = cursor.next()
    if last is None:
        cursor.fail(detail="Expected a value.")
    text = cursor.text[start.start : last.start + len(last.text)]
    return None if text.upper() == "NULL" else text


def enforcement(cursor: Cursor) -> bool:
    """What follows PRIMARY KEY: whether the key is checked."""
    start = cursor.peek()
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")
        cursor.accept("RELY")
        return True
    if not cursor.accept("RELY"):
        cursor.unsupported(
            "a primary key that is NOT ENFORCED without RELY",
            start,
            "promises nothing that could be relied on",
            "Write NOT ENFORCED RELY where the source guarantees the key, or leave both out.",
        )
    return False


def refuse_constraint(cursor: Cursor) -> NoReturn:
    """Refuse what comes next, a clause of a column."""
    word = cursor.peek().word
    cursor.unsupported(
        f"the column clause {word}",
        cursor.peek(),
        "is not checked or computed by this library",
        "Leave it out; NOT NULL and PRIMARY KEY are checked.",
    )


def type_at(cursor: Cursor) -> SqlType:
    """The type that comes next."""
    token = cursor.take("word", "a type")
    name = token.text.upper()
    if name in _DECIMALS:
        sizes = _sizes(cursor, 2)
        kind = types.written_decimal(*sizes)
        if kind is None:
            named = shortened(f"DECIMAL({','.join(sizes)})")
            cursor.fail_at(token, f"there is no type {named}", detail=types.DECIMAL_SIZES)
        return kind
    if name in _LIMITED:
        cursor.unsupported(
            f"{name} inside another type",
            token,
            "has a length, which only columns of their own are checked for",
            "Use STRING.",
        )
    if name in _OTHER_TYPES:
        cursor.unsupported(
            f"a column of type {name}",
            token,
            "is not among the types that can be maintained",
            "Use columns of scalar types.",
        )
    if name in _NESTED:
        return _nested(cursor, name)
    if name == "INTERVAL":
        return _interval(cursor)
    if name not in _TYPES:
        known = (*_TYPES, *_DECIMALS, *_NESTED)
        cursor.fail_at(
            token,
            f'unknown type "{shortened(token.text)}"',
            hint=suggestion(token.text, known) or f"Types: {', '.join(known)}.",
        )
    return _TYPES[name]


def _interval(cursor: Cursor) -> SqlType:
    """unit [TO unit], behind INTERVAL."""
    start = cursor.take("word", "a unit")
    end = cursor.take("word", "a unit") if cursor.accept("TO") else start
    kind = types.written_interval(start.text.upper(), end.text.upper())
    if kind is None:
        said = start.text if end is start else f"{start.text} TO {end.text}"
        cursor.fail_at(
            start,
            f'there is no type "INTERVAL {shortened(said)}"',
            hint="Write INTERVAL YEAR TO MONTH, INTERVAL DAY TO SECOND, or fewer of their units.",
        )
    return kind


def _nested(cursor: Cursor, name: str) -> SqlType:
    """ARRAY<type>, MAP<key, value> or STRUCT<field: type, …>, behind that word."""
    start = cursor.peek()
    cursor.expect("<")
    kind: SqlType
    if name == "ARRAY":
        kind = types.ArrayType(type_at(cursor))
    elif name == "MAP":
        key = type_at(cursor)
        cursor.expect(",")
        kind = types.MapType(key, type_at(cursor))
        if types.holds(key, types.MapType):
            cursor.fail_at(start, "a key of a map holds no map")
    else:
        fields = [_struct_field(cursor)]
        while cursor.accept(","):
            fields.append(_struct_field(cursor))
        if len({folded(f.name) for f in fields}) < len(fields):
            cursor.fail_at(start, "a struct has a field of one name twice")
        kind = types.StructType(tuple(fields))
    cursor.expect(">")
    return kind


def _struct_field(cursor: Cursor) -> Field:
    name = cursor.name("field")
    cursor.accept(":")
    start = cursor.peek()
    kind = type_at(cursor)
    if cursor.accept("NOT", "NULL"):
        cursor.unsupported(
            "NOT NULL inside a struct", start, "is not checked", "Leave it out, or filter the rows."
        )
    if cursor.accept("COMMENT"):
        string_value(cursor.take("string", "a string"))
    return Field(name, kind)


def _sizes(cursor: Cursor, most: int) -> list[str]:
    if not cursor.accept("("):
        return []
    sizes = [cursor.take("number", "a number").text]
    while len(sizes) < most and cursor.accept(","):
        sizes.append(cursor.take("number", "a number").text)
    cursor.expect(")")
    return sizes


def schema_type(text: str) -> SqlType:
    """The type that a schema in a literal says: columns (`a INT, b STRING`), or one type.

    Raises: BindError, at its place in the schema, for what is neither.
    """
    cursor = Cursor(text)
    following = cursor.ahead()
    if following is None or following.kind == "end" or following.text in "<(":
        kind = type_at(cursor)
        cursor.end()
        return kind
    fields = []
    while True:
        name = cursor.name("column")
        cursor.accept(":")
        kind = type_at(cursor)
        cursor.accept("NOT", "NULL")  # what is not there is NULL still, as in Spark
        if cursor.accept("COMMENT"):
            string_value(cursor.take("string", "a string"))
        fields.append(Field(name, kind))
        if not cursor.accept(","):
            break
    cursor.end()
    return types.StructType(tuple(fields))
