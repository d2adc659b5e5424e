"""Arrays, maps and structs: how they are written, taken apart, and given to functions.

Source: Spark SQL, `CreateArray`, `CreateNamedStruct`, `CreateMap`, `ExtractValue`, and the input
types of its collection functions; tests/sql/function_answers.json has its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from planner.bind.report import Report
from planner.calculus import functions, types
from planner.calculus.algebra import Aggregate, Plan, TopK, Window
from planner.calculus.coercion import TypeMismatch, cast, common_type, unify
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.library import Function, Takes
from planner.calculus.types import (
    INT,
    STRING,
    ArrayType,
    Field,
    IntegerType,
    MapType,
    NullType,
    SqlType,
    StringType,
    StructType,
)
from planner.calculus.visit import walk
from planner.names import folded

#: Aggregates that do not compare their first argument.
_PASSED_ON = frozenset(("count", "max_by", "min_by", "collect_list", "any_value"))
#: Arguments of library functions that are cast together.
NESTED = frozenset(
    (Takes.ARRAY, Takes.ELEMENT, Takes.ARRAYS, Takes.TEXTS, Takes.MAP, Takes.KEY, Takes.ENTRIES)
) | {Takes.LIST}


# --- arguments ---------------------------------------------------------------------------------


def nested_arguments(function: Function, args: Sequence[Expr]) -> list[Expr]:
    """The arguments, those that are nested cast as the function takes them."""
    shown = function.name.upper()
    cast_args = list(args)
    pairs = list(zip(function.takes, args, strict=True))
    for i, (takes, arg) in enumerate(pairs):
        if takes in NESTED and takes not in (Takes.ELEMENT, Takes.KEY):
            cast_args[i] = _whole(takes, arg, shown)
    element = _element(shown, [(k, a) for (k, _), a in zip(pairs, cast_args, strict=True)])
    for i, (takes, _) in enumerate(pairs):
        if takes is Takes.ARRAY:
            cast_args[i] = cast(cast_args[i], ArrayType(element))
        elif takes is Takes.ELEMENT:
            cast_args[i] = cast(cast_args[i], element)
        elif takes is Takes.KEY:
            kind = cast_args[i - 1].type
            assert isinstance(kind, MapType)
            cast_args[i] = _key(kind, cast_args[i], shown)
    if function.compares:
        functions.refuse_maps(element, shown)
    return cast_args


def _whole(takes: Takes, arg: Expr, shown: str) -> Expr:
    kind = arg.type
    wanted: SqlType | None = None
    match takes:
        case Takes.ARRAY:
            fits, what = isinstance(kind, ArrayType), "an ARRAY"
        case Takes.ARRAYS:
            nested = isinstance(kind, ArrayType) and isinstance(kind.element, ArrayType)
            fits, what = nested, "an ARRAY of ARRAYs"
        case Takes.TEXTS:
            fits, what = isinstance(kind, ArrayType), "an ARRAY<STRING>"
            if fits and isinstance(kind, ArrayType):
                if not isinstance(kind.element, (StringType, NullType)):
                    raise TypeMismatch(
                        f"{shown} needs an ARRAY<STRING>, not {kind}",
                        hint="Cast it: CAST(… AS ARRAY<STRING>).",
                    )
                wanted = ArrayType(STRING)
        case Takes.MAP:
            fits, what = isinstance(kind, MapType), "a MAP"
        case Takes.ENTRIES:
            pairs = isinstance(kind, ArrayType) and isinstance(kind.element, StructType)
            fits = pairs and len(types.parts_of(types.parts_of(kind)[0])) == 2
            what = "an ARRAY of STRUCTs of two fields"
        case _:
            fits, what = isinstance(kind, (ArrayType, MapType)), "an ARRAY or MAP"
    if not fits:
        raise TypeMismatch(f"{shown} needs {what}, not {kind}")
    return arg if wanted is None else cast(arg, wanted)


def _element(shown: str, args: list[tuple[Takes, Expr]]) -> SqlType:
    """The common type of the elements of all arrays, and of all single elements."""
    kind: SqlType = types.NULL
    for takes, arg in args:
        if takes not in (Takes.ARRAY, Takes.ELEMENT):
            continue
        part = (
            arg.type.element if isinstance(arg.type, ArrayType) and takes is Takes.ARRAY else None
        )
        wider = common_type(kind, part or arg.type)
        if wider is None:
            raise TypeMismatch(
                f"{shown} does not take elements of {kind} and {part or arg.type}",
                hint="Cast one of them.",
            )
        kind = wider
    return kind


def _key(kind: MapType, key: Expr, shown: str) -> Expr:
    common = common_type(kind.key, key.type)
    if common != kind.key and not isinstance(key.type, NullType):
        numbers = types.is_numeric(kind.key) and types.is_numeric(key.type)
        if common is None or not (numbers or isinstance(kind.key, StringType)):
            raise TypeMismatch(f"{shown} of {kind} needs a key of {kind.key}, not {key.type}")
    return cast(key, kind.key)


# --- made --------------------------------------------------------------------------------------


def array(args: Sequence[Expr]) -> Expr:
    """ARRAY(…)."""
    if not args:
        return Call("array", (), ArrayType(types.NULL), False)
    elements = unify(args, "ARRAY")
    return Call("array", elements, ArrayType(elements[0].type), False)


def struct(names: Sequence[str], args: Sequence[Expr]) -> Expr:
    """A struct of fields of these names."""
    fields = tuple(Field(n, a.type) for n, a in zip(names, args, strict=True))
    return Call("struct", tuple(args), StructType(fields), False)


def zipped(names: Sequence[str], args: Sequence[Expr]) -> Expr:
    """ARRAYS_ZIP of arrays, whose elements become fields of these names."""
    kinds = []
    for arg in args:
        if not isinstance(arg.type, ArrayType):
            raise TypeMismatch(f"ARRAYS_ZIP needs an ARRAY, not {arg.type}")
        kinds.append(arg.type.element)
    entry = StructType(tuple(Field(n, k) for n, k in zip(names, kinds, strict=True)))
    return Call("arrays_zip", tuple(args), ArrayType(entry), any(a.nullable for a in args))


def named_struct(args: Sequence[Expr]) -> Expr:
    """NAMED_STRUCT(name, value, …)."""
    if not args or len(args) % 2:
        raise TypeMismatch("NAMED_STRUCT needs a name before each value")
    names = []
    for name in args[::2]:
        if not isinstance(name, Literal) or not isinstance(name.value, str):
            raise TypeMismatch("a name of NAMED_STRUCT must be a string as it stands")
        names.append(name.value)
    return struct(names, args[1::2])


def map_of(args: Sequence[Expr]) -> Expr:
    """MAP(key, value, …)."""
    if len(args) % 2:
        raise TypeMismatch("MAP needs a value behind each key")
    keys, values = unify(args[::2], "MAP"), unify(args[1::2], "MAP")
    if types.holds(keys[0].type, MapType):
        raise TypeMismatch("a key of a map holds no map")
    pairs = [e for pair in zip(keys, values, strict=True) for e in pair]
    return Call("map", tuple(pairs), MapType(keys[0].type, values[0].type), False)


# --- taken apart -------------------------------------------------------------------------------


def field(value: Expr, name: str) -> Expr:
    """value.name: a field of a struct, those of an array's structs, or the value of a map's key."""
    match value.type:
        case StructType() as kind:
            at = _place(kind, name)
            found = kind.fields[at]
            args = (value, Literal(at, INT))
            if isinstance(value, Call) and value.function == "struct":
                return value.args[at]
            return Call("field", args, found.type, True)
        case ArrayType(element=StructType() as kind):
            at = _place(kind, name)
            result = ArrayType(kind.fields[at].type)
            return Call("element_fields", (value, Literal(at, INT)), result, value.nullable)
        case MapType():
            return item(value, Literal(name, STRING))
        case other:
            raise TypeMismatch(f'{other} has no field "{name}"')


def window_time(period: Expr) -> Expr:
    """The last microsecond of a period of time."""
    match period.type:
        case StructType(fields=(Field(name="start", type=kind), Field(name="end", type=end))) if (
            isinstance(kind, types.TimestampType) and kind == end
        ):
            last = field(period, "end")
            back = Literal(-1, types.BIGINT)
            return Call("add_microseconds", (last, back), kind, last.nullable)
        case other:
            raise TypeMismatch(f"WINDOW_TIME needs a period of window(…), not {other}")


def _place(kind: StructType, name: str) -> int:
    found = [i for i, f in enumerate(kind.fields) if folded(f.name) == folded(name)]
    if len(found) != 1:
        listed = ", ".join(f.name for f in kind.fields)
        said = "has no field" if not found else "has more than one field"
        raise TypeMismatch(f'{kind} {said} "{name}"', hint=f"The fields are {listed}.")
    return found[0]


def item(value: Expr, key: Expr) -> Expr:
    """value[key]."""
    match value.type:
        case ArrayType(element=element):
            return Call("item", (value, _index(key, "an index")), element, True)
        case MapType() as kind:
            return Call("map_value", (value, _key(kind, key, "[]")), kind.value, True)
        case StructType() if isinstance(key, Literal) and isinstance(key.value, str):
            return field(value, key.value)
        case other:
            raise TypeMismatch(f"{other} has no elements")


def _index(value: Expr, what: str) -> Expr:
    if not isinstance(value.type, (IntegerType, NullType)):
        raise TypeMismatch(f"{what} of an array must be an integer, not {value.type}")
    return cast(value, INT)


def element_at(args: Sequence[Expr], tried: bool) -> Expr:
    """ELEMENT_AT and TRY_ELEMENT_AT."""
    value, key = args
    shown = "TRY_ELEMENT_AT" if tried else "ELEMENT_AT"
    match value.type:
        case ArrayType(element=element):
            name = "try_element_of" if tried else "element_of"
            return Call(name, (value, _index(key, "the position")), element, True)
        case MapType() as kind:
            return Call("map_value", (value, _key(kind, key, shown)), kind.value, True)
        case other:
            raise TypeMismatch(f"{shown} needs an ARRAY or MAP, not {other}")


def reverse(args: Sequence[Expr]) -> Expr:
    """REVERSE of an array, or a text."""
    (value,) = args
    if isinstance(value.type, ArrayType):
        return Call("reverse_array", (value,), value.type, value.nullable)
    return functions.scalar("reverse", [value])


def concat(args: Sequence[Expr]) -> Expr | None:
    """CONCAT of arrays; None of others."""
    if not any(isinstance(a.type, ArrayType) for a in args):
        return None
    arrays = unify(args, "CONCAT")
    nullable = any(a.nullable for a in arrays)
    return Call("concat_arrays", arrays, arrays[0].type, nullable)


def appended(array: Expr, element: Expr, shown: str) -> Expr:
    """ARRAY_APPEND and ARRAY_PREPEND: a concatenation, where the element may be NULL."""
    if not isinstance(array.type, ArrayType):
        raise TypeMismatch(f"{shown} needs an ARRAY, not {array.type}")
    kind = common_type(array.type.element, element.type)
    if kind is None:
        raise TypeMismatch(
            f"{shown} does not take elements of {array.type.element} and {element.type}",
            hint="Cast one of them.",
        )
    one = Call("array", (cast(element, kind),), ArrayType(kind), False)
    parts = (cast(array, ArrayType(kind)), one)
    ordered = parts if shown == "ARRAY_APPEND" else parts[::-1]
    return Call("concat_arrays", ordered, ArrayType(kind), array.nullable)


def map_concat(args: Sequence[Expr]) -> Expr:
    """MAP_CONCAT."""
    if not all(isinstance(a.type, (MapType, NullType)) for a in args):
        raise TypeMismatch("MAP_CONCAT needs MAPs")
    maps = unify(args, "MAP_CONCAT")
    return Call("map_concat", maps, maps[0].type, any(a.nullable for a in maps))


def sequence(args: Sequence[Expr]) -> Expr:
    """SEQUENCE of integers: from, to[, step]."""
    if not all(isinstance(a.type, (IntegerType, NullType)) for a in args):
        kinds = ", ".join(str(a.type) for a in args)
        raise TypeMismatch(
            f"SEQUENCE of {kinds} is not among the functions",
            hint="Use integers: date_add(day, i) for i of sequence(0, datediff(a, b)).",
        )
    ends = unify(args[:2], "SEQUENCE")
    both = (*ends, *(cast(a, ends[0].type) for a in args[2:]))
    return Call("sequence", both, ArrayType(ends[0].type), any(a.nullable for a in both))


def array_join(args: Sequence[Expr], call: Callable[[str, Sequence[Expr]], Expr]) -> Expr:
    """ARRAY_JOIN, with or without a text for NULLs."""
    return call("array_join" if len(args) == 2 else "array_join_all", args)


# --- compared ----------------------------------------------------------------------------------


def check_compared(plan: Plan, node: exp.Expression, report: Report) -> None:
    """Refuse a plan that would compare maps, which have no order and no equality."""
    for what, kind in _compared(plan):
        try:
            functions.refuse_maps(kind, what)
        except TypeMismatch as mismatch:
            report.fail(node, mismatch.message, mismatch.detail, mismatch.hint)


def _compared(plan: Plan) -> Iterator[tuple[str, SqlType]]:
    """Types of what rows are compared by, and by what."""
    for part in walk(plan):
        match part:
            case Aggregate(keys=keys, aggregates=calls):
                yield from (("GROUP BY, or DISTINCT,", k.type) for k in keys)
                for call in calls:
                    first = 1 if call.function in _PASSED_ON and not call.distinct else 0
                    yield from ((call.function.upper(), e.type) for e in call.args[first:])
            case TopK(order=order, partition=partition):
                columns = [*(k.column for k in order), *partition]
                yield from (("ORDER BY", part.schema[c].type) for c in columns)
            case Window(order=order, partition=partition):
                columns = [*(k.column for k in order), *partition]
                yield from (("a window", part.schema[c].type) for c in columns)
            case _:
                pass
