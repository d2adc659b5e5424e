"""Functions of `calculus.library`, and those that are others in disguise: calls left by their name.

Source: Spark SQL, the functions' own input types; tests/sql/function_answers.json has its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from planner.bind import nested
from planner.bind.nested import NESTED
from planner.calculus import functions
from planner.calculus.coercion import (
    TypeMismatch,
    as_decimal,
    cast,
    common_type,
    explicit_cast,
    unify,
)
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.library import LIBRARY, SECONDS, Function, Takes
from planner.calculus.number_patterns import number_pattern
from planner.calculus.session_zone import zone_argument
from planner.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    ArrayType,
    BinaryType,
    BooleanType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    IntervalType,
    MapType,
    NestedType,
    NullType,
    SqlType,
    StringType,
    StructType,
    integer_as_decimal,
    parts_of,
)
from planner.calculus.zones import find
from planner.parse.columns import schema_type


def call(name: str, args: Sequence[Expr]) -> Expr:
    """A function of the library; arguments may be left out at the end where it has defaults."""
    function = LIBRARY[name]
    given = [*args, *_defaults(function, len(args))]
    if NESTED.intersection(function.takes):
        given = nested.nested_arguments(function, given)
    cast_args = [_argument(t, a, name) for t, a in zip(function.takes, given, strict=True)]
    nullable = function.gives_null or any(a.nullable for a in cast_args)
    if function.zoned:
        cast_args += zone_argument()
    kind = function.type
    if not isinstance(kind, SqlType):
        kind = kind([a.type for a in cast_args])
    return Call(name, tuple(cast_args), kind, nullable)


def least(name: str) -> int:
    """How many arguments the function has at least."""
    return len(LIBRARY[name].takes) - len(LIBRARY[name].defaults)


def _defaults(function: Function, given: int) -> list[Literal]:
    missing = len(function.takes) - given
    values = function.defaults[len(function.defaults) - missing :] if missing else ()
    kinds = function.takes[len(function.takes) - missing :]
    return [Literal(v, _LITERALS.get(k, INT)) for v, k in zip(values, kinds, strict=True)]


_LITERALS = {
    **dict.fromkeys((Takes.WORD, Takes.PATTERN, Takes.TEXT), STRING),
    Takes.FLAG: BOOLEAN,
    Takes.FLOAT: FLOAT,
}


def _argument(takes: Takes, value: Expr, name: str) -> Expr:
    shown = name.upper()
    match takes:
        case Takes.DOUBLE:
            return cast(functions.positive(value), DOUBLE)
        case Takes.INT:
            return cast(functions.positive(value), INT)
        case Takes.BIGINT:
            return cast(functions.positive(value), BIGINT)
        case Takes.NUMERIC:
            return functions.positive(value)
        case Takes.INTEGRAL:
            if isinstance(value.type, (IntegerType, NullType)):
                return cast(value, BIGINT)
            raise TypeMismatch(f"{shown} needs an integer here, not {value.type}")
        case Takes.SECONDS:
            return cast(functions.positive(value), SECONDS)
        case Takes.TEXT:
            return cast(value, STRING)
        case Takes.BYTES:
            return _bytes(value, shown)
        case _ if takes in NESTED:
            return value
        case Takes.ANY:
            return value
        case Takes.PARTED:
            if isinstance(value.type, NestedType):
                return value
            raise TypeMismatch(f"{shown} needs a STRUCT, ARRAY or MAP, not {value.type}")
        case Takes.VECTOR | Takes.FLOAT:
            needed: SqlType = ArrayType(FLOAT) if takes is Takes.VECTOR else FLOAT
            if value.type != needed:
                raise TypeMismatch(
                    f"{shown} needs {needed} here, not {value.type}", hint="Cast it."
                )
            return value
        case Takes.INSTANT:
            return cast(functions.instant(value, TIMESTAMP), TIMESTAMP)
        case _:
            wanted = _LITERALS.get(takes, INT)
            constant = cast(value, wanted)
            if not isinstance(constant, Literal) or constant.value is None:
                raise TypeMismatch(
                    f"{shown} needs a literal {wanted} here", hint="Write it as a constant."
                )
            return constant


def _bytes(value: Expr, shown: str) -> Expr:
    match value.type:
        case BinaryType():
            return value
        case StringType() | NullType():
            return explicit_cast(cast(value, STRING), BINARY, False)
        case other:
            raise TypeMismatch(f"{shown} needs STRING or BINARY, not {other}", hint="Cast it.")


# --- functions of their own --------------------------------------------------------------------


def attempt(function: str, left: Expr, right: Expr) -> Expr:
    """TRY_ADD and the like."""
    whole = functions.arithmetic(function, left, right)
    assert isinstance(whole, Call)
    return Call(f"try_{function}", whole.args, whole.type, True)


def bits(function: str, left: Expr, right: Expr) -> Expr:
    """&, | and ^ of integers."""
    kind = common_type(left.type, right.type)
    if isinstance(kind, NullType):
        kind = INT
    if not isinstance(kind, IntegerType):
        sign = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}[function]
        raise TypeMismatch(f"operator {sign} does not take {left.type} and {right.type}")
    args = (cast(left, kind), cast(right, kind))
    return Call(function, args, kind, left.nullable or right.nullable)


def inverted(value: Expr) -> Expr:
    """~ of an integer."""
    kind = value.type
    if isinstance(kind, NullType):
        value, kind = cast(value, INT), INT
    if not isinstance(kind, IntegerType):
        raise TypeMismatch(f"operator ~ does not take {value.type}")
    return Call("bit_not", (value,), kind, value.nullable)


def shifted(function: str, value: Expr, by: Expr) -> Expr:
    """<<, >> and >>> of an INT or BIGINT."""
    kind = BIGINT if value.type == BIGINT else INT
    number = cast(functions.positive(value), kind)
    places = cast(functions.positive(by), INT)
    return Call(function, (number, places), kind, number.nullable or places.nullable)


def bit_count(value: Expr) -> Expr:
    if not isinstance(value.type, (IntegerType, BooleanType)):
        raise TypeMismatch(f"BIT_COUNT needs an integer or BOOLEAN, not {value.type}")
    return Call("bit_count", (value,), INT, value.nullable)


def bit_get(value: Expr, position: Expr) -> Expr:
    if not isinstance(value.type, IntegerType):
        raise TypeMismatch(f"BIT_GET needs an integer, not {value.type}")
    place = cast(functions.positive(position), INT)
    return Call("bit_get", (value, place), TINYINT, value.nullable or place.nullable)


def hexadecimal(value: Expr) -> Expr:
    number = isinstance(value.type, (IntegerType, DecimalType, FloatType))
    return call("hex_of_number" if number else "hex", [value])


def nan_else(value: Expr, otherwise: Expr) -> Expr:
    """NANVL: the second where the first is NaN."""
    first, second = (cast(functions.positive(e), DOUBLE) for e in (value, otherwise))
    nan = functions.compare("eq", first, functions.NAN)
    return functions.conditional([(nan, second)], first, "NANVL")


def decoded(args: Sequence[Expr]) -> Expr:
    """DECODE: of (bytes, charset), or of (value, search, result, …[, otherwise])."""
    if len(args) == 2:
        return call("decode", args)
    value, *rest = args
    otherwise = rest.pop() if len(rest) % 2 else None
    branches = [
        (functions.compare("eq_null_safe", value, search), result)
        for search, result in zip(rest[::2], rest[1::2], strict=True)
    ]
    return functions.conditional(branches, otherwise, "DECODE")


def chosen(args: Sequence[Expr]) -> Expr:
    """ELT."""
    number = cast(functions.positive(args[0]), INT)
    kinds = [a.type for a in args[1:]]
    if all(isinstance(k, BinaryType) for k in kinds):
        texts = list(args[1:])
    else:
        texts = list(unify([cast(a, STRING) for a in args[1:]], "ELT"))
    return Call("elt", (number, *texts), texts[0].type, True)


def edits(args: Sequence[Expr]) -> Expr:
    """LEVENSHTEIN of two texts, or within a number of edits."""
    return call("levenshtein" if len(args) == 2 else "levenshtein_within", args)


def written_seconds(seconds: Expr, pattern: str) -> Expr:
    """FROM_UNIXTIME. Raises: ValueError, as functions.date_format."""
    return functions.date_format(call("timestamp_seconds", [cast(seconds, BIGINT)]), pattern)


def moved(value: Expr, zone: str, to_utc: bool) -> Expr:
    """FROM_UTC_TIMESTAMP and TO_UTC_TIMESTAMP: what clocks of a zone show at an instant, as if it
    were UTC's, and back. Raises: TypeMismatch if there is no such zone."""
    there = _zone(zone, "TO_UTC_TIMESTAMP" if to_utc else "FROM_UTC_TIMESTAMP")
    instant = cast(functions.instant(value, TIMESTAMP), TIMESTAMP)
    first, second = ((), there) if to_utc else (there, ())
    local = Call("cast", (instant, *first), TIMESTAMP_NTZ, instant.nullable)
    return Call("cast", (local, *second), TIMESTAMP, instant.nullable)


def converted(value: Expr, names: Sequence[str]) -> Expr:
    """CONVERT_TIMEZONE. Raises: TypeMismatch if there is no such zone."""
    zones = [_zone(name, "CONVERT_TIMEZONE") for name in names]
    if len(zones) == 1:
        zones.insert(0, zone_argument())
    local = explicit_cast(value, TIMESTAMP_NTZ, False)
    instant = Call("cast", (local, *zones[0]), TIMESTAMP, local.nullable)
    return Call("cast", (instant, *zones[1]), TIMESTAMP_NTZ, local.nullable)


def made_in_zone(args: Sequence[Expr], name: str) -> Expr:
    """MAKE_TIMESTAMP and the like: with a seventh argument, of the clocks of that zone."""
    if len(args) == 6:
        return call(name, args)
    said = args[6]
    if not isinstance(said, Literal) or not isinstance(said.value, str):
        raise TypeMismatch(
            f"{name.upper()} needs its time zone as a literal",
            hint="Use to_utc_timestamp, or one view for each zone.",
        )
    there = _zone(said.value, name.upper())
    local = call(f"{name}_ntz", args[:6])
    return Call("cast", (local, *there), TIMESTAMP, local.nullable)


def _zone(name: str, shown: str) -> tuple[Literal, ...]:
    """The argument of a cast that says of which zone a time is; none for UTC. Raises: TypeMismatch
    if there is no such zone."""
    zone = find(name)
    if zone is None:
        raise TypeMismatch(f"{shown} does not know the time zone '{name}'")
    return () if zone.is_utc else (Literal(zone.id, STRING),)


def bytes_of(args: Sequence[Expr], name: str) -> Expr:
    """TO_BINARY and TRY_TO_BINARY."""
    return call(name, args if len(args) > 1 else [*args, Literal("hex", STRING)])


def half_even(value: Expr, digits: Expr) -> Expr:
    """BROUND: as ROUND, half to even."""
    rounded = functions.scalar("round", [value, digits])
    assert isinstance(rounded, Call)
    return Call("bround", rounded.args, rounded.type, rounded.nullable)


#: What CEIL and FLOOR with digits make of a number that is no DECIMAL.
_EXACT: dict[SqlType, DecimalType] = {FLOAT: DecimalType(14, 7), DOUBLE: DecimalType(30, 15)}


def rounded_to(name: str, value: Expr, digits: Expr) -> Expr:
    """CEIL and FLOOR to a number of digits: a DECIMAL, of the type that ROUND has."""
    if isinstance(value.type, (StringType, NullType)):
        value = cast(value, DOUBLE)
    if not isinstance(value.type, (IntegerType, FloatType, DecimalType)):
        raise TypeMismatch(f"{name.upper()} needs a number, not {value.type}")
    if isinstance(value.type, IntegerType):
        value = cast(value, integer_as_decimal(value.type))
    value = explicit_cast(value, _EXACT.get(value.type, value.type), False)
    rounded = functions.scalar("round", [value, digits])
    assert isinstance(rounded, Call)
    return Call(f"{name}_to", rounded.args, rounded.type, rounded.nullable)


def in_digits(args: Sequence[Expr]) -> Expr:
    """FORMAT_NUMBER, by a number of digits."""
    if isinstance(args[1].type, StringType):
        raise TypeMismatch(
            "FORMAT_NUMBER by a pattern is not among the functions",
            hint="Write the number of digits behind the point, as in format_number(x, 2).",
        )
    return call("format_number", args)


def written_json(value: Expr) -> Expr:
    """TO_JSON. Spark writes a key that is nested as it holds it in memory."""

    def parts(kind: SqlType) -> Iterator[SqlType]:
        yield kind
        for part in parts_of(kind):
            yield from parts(part)

    if any(isinstance(k, MapType) and isinstance(k.key, NestedType) for k in parts(value.type)):
        raise TypeMismatch(
            f"TO_JSON of {value.type} is not among the functions",
            hint="Write the entries of the map, as in to_json(map_entries(m)).",
        )
    return call("to_json", [value])


def hashed(function: str, args: Sequence[Expr]) -> Expr:
    """HASH and XXHASH64."""
    for arg in args:
        if isinstance(arg.type, NestedType):
            raise TypeMismatch(
                f"{function.upper()} of {arg.type} is not among the functions",
                hint="Hash its elements or fields.",
            )
    return Call(function, tuple(args), INT if function == "hash" else BIGINT, False)


def raised(message: Expr) -> Expr:
    """RAISE_ERROR: a row that computes it is in error."""
    said = functions.coalesce([cast(message, STRING), Literal("null", STRING)])
    whole = functions.scalar("concat", [Literal("[USER_RAISED_EXCEPTION] ", STRING), said])
    return Call("raise_error", (whole,), NULL, True)


def asserted(condition: Expr, message: Expr) -> Expr:
    """ASSERT_TRUE: NULL, or an error where the condition does not hold."""
    if not isinstance(condition.type, (BooleanType, NullType)):
        raise TypeMismatch(f"ASSERT_TRUE needs BOOLEAN, not {condition.type}")
    args = (cast(condition, BOOLEAN), Literal(None, NULL), raised(message))
    return Call("case", args, NULL, True)


def read_as(name: str, value: Expr, kind: SqlType) -> Expr:
    """FROM_JSON and FROM_CSV, of a type that SCHEMAS gave."""
    if not isinstance(value.type, (StringType, NullType)):
        raise TypeMismatch(f"{name.upper()} needs a STRING, not {value.type}", hint="Cast it.")
    return Call(name, (cast(value, STRING), *zone_argument()), kind, True)


def at_path(name: str, value: Expr, path: str) -> Expr:
    """XPATH and the like, by a path that `xpaths.parse` reads, or an empty one."""
    if not isinstance(value.type, (StringType, NullType)):
        raise TypeMismatch(f"{name.upper()} needs a STRING, not {value.type}", hint="Cast it.")
    return call(name, [value, Literal(path, STRING)])


def read_number(name: str, value: Expr, pattern: str) -> Expr:
    """TO_NUMBER and TRY_TO_NUMBER. Raises: ValueError for what is no pattern."""
    form = number_pattern(pattern)
    kind = DecimalType(form.precision, form.scale)
    text = _argument(Takes.TEXT, value, name)
    nullable = text.nullable or LIBRARY[name].gives_null
    return Call(name, (text, Literal(pattern, STRING)), kind, nullable)


def written(value: Expr, pattern: str) -> Expr:
    """TO_CHAR of a number, or of bytes. Raises: ValueError for what is no pattern."""
    if isinstance(value.type, BinaryType):
        match pattern.lower():
            case "hex":
                return call("hex", [value])
            case "base64":
                return call("base64", [value])
            case "utf-8":
                return call("decode", [value, Literal("UTF-8", STRING)])
        raise ValueError("bytes are written in 'hex', 'base64' or 'utf-8'")
    if not isinstance(value.type, (IntegerType, DecimalType, FloatType, NullType)):
        raise TypeMismatch(f"TO_CHAR writes a number, a day or time, or bytes, not {value.type}")
    number_pattern(pattern)
    match value.type:
        case DecimalType() as kind:
            pass
        case IntegerType() as integer:
            kind = as_decimal(integer)
        case FloatType(bits=32):
            kind = DecimalType(14, 7)
        case FloatType():
            kind = DecimalType(30, 15)
        case _:
            kind = DecimalType(10, 0)
    number = cast(value, kind)
    return Call("to_char", (number, Literal(pattern, STRING)), STRING, number.nullable)


def json_type(schema: str) -> SqlType:
    """The type of a schema: columns, or a struct, array or map.

    Raises: BindError for what is none, TypeMismatch for types that FROM_JSON does not read.
    """
    kind = schema_type(schema)
    if not isinstance(kind, NestedType):
        raise TypeMismatch(f"FROM_JSON reads a STRUCT, an ARRAY or a MAP, not {kind}")
    _check_json(kind)
    return kind


def _check_json(kind: SqlType) -> None:
    if isinstance(kind, IntervalType):
        raise TypeMismatch(
            f"FROM_JSON does not read {kind}",
            hint="Read a number, and multiply an interval by it.",
        )
    if isinstance(kind, MapType) and not isinstance(kind.key, StringType):
        raise TypeMismatch(f"a key in JSON is a STRING, not {kind.key}")
    for field in kind.fields if isinstance(kind, StructType) else ():
        if field.name == "_corrupt_record":
            raise TypeMismatch("the column _corrupt_record of FROM_JSON is not filled")
    for part in parts_of(kind) if isinstance(kind, NestedType) else ():
        _check_json(part)


def csv_type(schema: str) -> SqlType:
    """The type of a schema: columns, none of them nested.

    Raises: BindError for what is none, TypeMismatch for types that FROM_CSV does not read.
    """
    kind = schema_type(schema)
    if not isinstance(kind, StructType):
        raise TypeMismatch(f"FROM_CSV reads a STRUCT, not {kind}")
    for field in kind.fields:
        if isinstance(field.type, (NestedType, IntervalType)):
            raise TypeMismatch(f"FROM_CSV does not read {field.type}", hint="Read a STRING.")
        if field.name == "_corrupt_record":
            raise TypeMismatch("the column _corrupt_record of FROM_CSV is not filled")
    return kind


def written_csv(value: Expr) -> Expr:
    """TO_CSV, of what is not nested itself."""
    kind = value.type
    if not isinstance(kind, StructType) or any(isinstance(f.type, NestedType) for f in kind.fields):
        raise TypeMismatch(
            f"TO_CSV writes a STRUCT of plain values, not {kind}",
            hint="Write the parts of nested values as texts, by TO_JSON or CAST.",
        )
    return call("to_csv", [value])


def json_fields(args: Sequence[Expr]) -> Expr:
    """The fields of JSON_TUPLE as a struct of c0, c1, …"""
    if len(args) < 2:
        raise TypeMismatch("JSON_TUPLE needs a text, and names")
    names = [_argument(Takes.WORD, a, "json_tuple") for a in args[1:]]
    kind = StructType(tuple(Field(f"c{i}", STRING) for i in range(len(names))))
    return Call("json_fields", (_any_text(args[0]), *names), kind, False)


def _any_text(value: Expr) -> Expr:
    text = cast(value, STRING)
    return functions.coalesce([text, Literal("", STRING)]) if text.nullable else text


def formatted(args: Sequence[Expr]) -> Expr:
    """FORMAT_STRING. A decimal can be written as a text alone."""
    template = cast(args[0], STRING)
    values = []
    for value in args[1:]:
        if isinstance(value.type, (NestedType, BinaryType)):
            raise TypeMismatch(
                f"FORMAT_STRING of {value.type} is not among the functions",
                hint="Cast it to STRING.",
            )
        decimal = isinstance(value.type, (DecimalType, NullType))
        values.append(cast(value, STRING) if decimal else value)
    return Call("format_string", (template, *values), STRING, template.nullable)


def url_part(args: Sequence[Expr], name: str) -> Expr:
    """PARSE_URL, of a part or of a key of the query."""
    return call(name if len(args) == 2 else f"{name}_key", args)


def type_name(value: Expr) -> Expr:
    """TYPEOF."""
    if isinstance(value.type, IntervalType):
        return Literal(str(value.type).lower(), STRING)
    name = "void" if isinstance(value.type, NullType) else str(value.type).lower()
    return Literal(name.replace(" ", ""), STRING)


def collation(value: Expr) -> Expr:
    """COLLATION: that of all texts is by their bytes."""
    if not isinstance(value.type, (StringType, NullType)):
        raise TypeMismatch(f"COLLATION needs a STRING, not {value.type}", hint="Cast it.")
    return Literal("SYSTEM.BUILTIN.UTF8_BINARY", STRING)


#: Of the functions that read texts by a schema, what its type is.
SCHEMAS: dict[str, Callable[[str], SqlType]] = {"from_json": json_type, "from_csv": csv_type}

#: Functions of expressions alone: (fewest arguments, most, what they are).
FORMS: dict[str, tuple[int, int, Callable[[Sequence[Expr]], Expr]]] = {
    "try_add": (2, 2, lambda a: attempt("add", *a)),
    "try_subtract": (2, 2, lambda a: attempt("subtract", *a)),
    "try_multiply": (2, 2, lambda a: attempt("multiply", *a)),
    "try_divide": (2, 2, lambda a: attempt("divide", *a)),
    "try_mod": (2, 2, lambda a: attempt("remainder", *a)),
    "shiftleft": (2, 2, lambda a: shifted("shift_left", *a)),
    "shiftright": (2, 2, lambda a: shifted("shift_right", *a)),
    "shiftrightunsigned": (2, 2, lambda a: shifted("shift_right_unsigned", *a)),
    "bit_count": (1, 1, lambda a: bit_count(*a)),
    "bit_get": (2, 2, lambda a: bit_get(*a)),
    "getbit": (2, 2, lambda a: bit_get(*a)),
    "hex": (1, 1, lambda a: hexadecimal(*a)),
    "nanvl": (2, 2, lambda a: nan_else(*a)),
    "equal_null": (2, 2, lambda a: functions.compare("eq_null_safe", *a)),
    "elt": (2, 1_000_000, chosen),
    "levenshtein": (2, 3, edits),
    "format_number": (2, 2, in_digits),
    "bround": (1, 2, lambda a: half_even(a[0], a[1] if len(a) > 1 else Literal(0, INT))),
    "hash": (1, 1_000_000, lambda a: hashed("hash", a)),
    "xxhash64": (1, 1_000_000, lambda a: hashed("xxhash64", a)),
    "array_append": (2, 2, lambda a: nested.appended(a[0], a[1], "ARRAY_APPEND")),
    "array_prepend": (2, 2, lambda a: nested.appended(a[0], a[1], "ARRAY_PREPEND")),
    **dict.fromkeys(
        ("make_timestamp", "make_timestamp_ltz"),
        (6, 7, lambda a: made_in_zone(a, "make_timestamp")),
    ),
    "to_binary": (1, 2, lambda a: bytes_of(a, "bytes_in")),
    "try_to_binary": (1, 2, lambda a: bytes_of(a, "bytes_in_or_null")),
    **dict.fromkeys(
        ("try_make_timestamp", "try_make_timestamp_ltz"),
        (6, 7, lambda a: made_in_zone(a, "try_make_timestamp")),
    ),
    "to_csv": (1, 1, lambda a: written_csv(*a)),
    "to_json": (1, 1, lambda a: written_json(*a)),
    "format_string": (1, 1_000_000, formatted),
    "printf": (1, 1_000_000, formatted),
    "parse_url": (2, 3, lambda a: url_part(a, "parse_url")),
    "raise_error": (1, 1, lambda a: raised(*a)),
    "typeof": (1, 1, lambda a: type_name(*a)),
    "collation": (1, 1, lambda a: collation(*a)),
    "sha": (1, 1, lambda a: call("sha1", a)),
    # arrays, maps, structs
    "array": (0, 1_000_000, nested.array),
    "named_struct": (2, 1_000_000, nested.named_struct),
    "map": (2, 1_000_000, nested.map_of),
    "element_at": (2, 2, lambda a: nested.element_at(a, False)),
    "try_element_at": (2, 2, lambda a: nested.element_at(a, True)),
    "reverse": (1, 1, nested.reverse),
    "map_concat": (1, 1_000_000, nested.map_concat),
    "sequence": (2, 3, nested.sequence),
    "window_time": (1, 1, lambda a: nested.window_time(*a)),
    "array_join": (2, 3, lambda a: nested.array_join(a, call)),
}
