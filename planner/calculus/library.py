"""Functions of Spark that take arguments of fixed types, or arrays and maps: one record each.

The binder finds a function here by its name, the optimizer whether it fails or gives NULL, EXPLAIN
and README its meaning, the evaluator (operators.scalar) the implementation of the same name. What
has a form of its own (CASE, CAST, arithmetic, dates in zones) is bound by hand in planner.bind.

Source: Spark SQL, the functions' own input types; tests/sql/function_answers.json has its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from planner.calculus.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    Field,
    MapType,
    SqlType,
    StructType,
    parts_of,
)


class Takes(Enum):
    """What an argument is cast to; `planner.calculus.functions` has the casts."""

    DOUBLE = auto()
    INT = auto()
    BIGINT = auto()
    INTEGRAL = auto()  #: BIGINT, of integers alone
    NUMERIC = auto()  #: any number as it is; a text as DOUBLE
    SECONDS = auto()  #: DECIMAL(16,6)
    TEXT = auto()
    PATTERN = auto()  #: a literal: a regular expression
    WORD = auto()  #: a literal text
    NUMBER = auto()  #: a literal integer
    FLAG = auto()  #: a literal BOOLEAN
    BYTES = auto()  #: BINARY, or a text's UTF-8
    INSTANT = auto()  #: TIMESTAMP
    #: The elements of all ARRAYs, and all ELEMENTs, have one common type.
    ARRAY = auto()
    ELEMENT = auto()
    ARRAYS = auto()  #: ARRAY<ARRAY<…>>
    TEXTS = auto()  #: ARRAY<STRING>
    MAP = auto()
    KEY = auto()  #: of the map before it
    ENTRIES = auto()  #: ARRAY<STRUCT<key, value>>
    LIST = auto()  #: ARRAY or MAP
    VECTOR = auto()  #: ARRAY<FLOAT>, without a cast
    FLOAT = auto()  #: without a cast
    PARTED = auto()  #: ARRAY, MAP or STRUCT
    ANY = auto()  #: as it is


@dataclass(frozen=True, slots=True)
class Function:
    """`name` in SQL, and of the evaluator; NULL where an argument is, unless it `shows_null`.

    `type`: of the result, or what it is by the types of the arguments, once they are cast.
    `compares`: elements, which hold no map then. `defaults`: of arguments left out at the end.
    `fails`: some rows are in error. `gives_null`: also where no argument is NULL. `zoned`: the
    session's zone is passed behind.
    `shown`: what Spark prints behind all of these in the name of a column.
    """

    name: str
    takes: tuple[Takes, ...]
    type: SqlType | Callable[[Sequence[SqlType]], SqlType]
    meaning: str
    defaults: tuple[str | int | bool | float, ...] = ()
    shown: tuple[str, ...] = ()
    fails: bool = False
    gives_null: bool = False
    zoned: bool = False
    compares: bool = False
    shows_null: bool = False


_N = Takes.INTEGRAL
_D, _I, _L, _T, _B = Takes.DOUBLE, Takes.INT, Takes.BIGINT, Takes.TEXT, Takes.BYTES

_A, _E, _M, _V = Takes.ARRAY, Takes.ELEMENT, Takes.MAP, Takes.VECTOR


def _same(kinds: Sequence[SqlType]) -> SqlType:
    return kinds[0]


def _part(position: int) -> Callable[[Sequence[SqlType]], SqlType]:
    """What the first argument holds."""
    return lambda kinds: parts_of(kinds[0])[position]


def _arrays_of(position: int) -> Callable[[Sequence[SqlType]], SqlType]:
    return lambda kinds: ArrayType(parts_of(kinds[0])[position])


def _entries(kinds: Sequence[SqlType]) -> SqlType:
    key, value = parts_of(kinds[0])
    return ArrayType(StructType((Field("key", key, False), Field("value", value))))


def _map_of_entries(kinds: Sequence[SqlType]) -> SqlType:
    return MapType(*parts_of(parts_of(kinds[0])[0]))


_ALL = (
    # numbers
    Function("sin", (_D,), DOUBLE, "sine"),
    Function("cos", (_D,), DOUBLE, "cosine"),
    Function("tan", (_D,), DOUBLE, "tangent"),
    Function("cot", (_D,), DOUBLE, "1 / tan(a)"),
    Function("sec", (_D,), DOUBLE, "1 / cos(a)"),
    Function("csc", (_D,), DOUBLE, "1 / sin(a)"),
    Function("asin", (_D,), DOUBLE, "arc sine; NaN beyond -1 to 1"),
    Function("acos", (_D,), DOUBLE, "arc cosine; NaN beyond -1 to 1"),
    Function("atan", (_D,), DOUBLE, "arc tangent"),
    Function("atan2", (_D, _D), DOUBLE, "(y, x): the angle of the point"),
    Function("sinh", (_D,), DOUBLE, "hyperbolic sine"),
    Function("cosh", (_D,), DOUBLE, "hyperbolic cosine"),
    Function("tanh", (_D,), DOUBLE, "hyperbolic tangent"),
    Function("asinh", (_D,), DOUBLE, "inverse hyperbolic sine"),
    Function("acosh", (_D,), DOUBLE, "inverse hyperbolic cosine; NaN below 1"),
    Function("atanh", (_D,), DOUBLE, "inverse hyperbolic tangent; NaN beyond -1 to 1"),
    Function("hypot", (_D, _D), DOUBLE, "sqrt(a * a + b * b)"),
    Function("factorial", (_I,), BIGINT, "a!; NULL beyond 0 to 20", gives_null=True),
    Function("bin", (_L,), STRING, "binary digits, of a negative number its two's complement"),
    Function(
        "conv", (_T, _I, _I), STRING,
        "(digits, base, base): the digits of another base, 2 to 36; NULL for other bases",
        fails=True, gives_null=True,
    ),
    Function(
        "width_bucket", (_D, _D, _D, _L), BIGINT,
        "(a, low, high, count): which of so many equal ranges; NULL where there are none",
        gives_null=True,
    ),
    # bytes and codes
    Function("unhex", (_T,), BINARY, "bytes of hexadecimal digits, else NULL", gives_null=True),
    Function("md5", (_B,), STRING, "MD5 in hexadecimal digits"),
    Function("sha1", (_B,), STRING, "SHA-1 in hexadecimal digits"),
    Function(
        "sha2", (_B, _I), STRING, "(a, bits): SHA-2 in hexadecimal digits; NULL for other bits",
        gives_null=True,
    ),
    Function(
        "hmac", (_B, _B, Takes.WORD), BINARY,
        "(key, message[, algorithm literal]): a digest that needs the key; fails on an empty key",
        defaults=("SHA-256",), fails=True,
    ),
    Function("crc32", (_B,), BIGINT, "cyclic redundancy check"),
    Function("base64", (_B,), STRING, "bytes in base 64"),
    Function("unbase64", (_T,), BINARY, "bytes of base 64; fails on other text", fails=True),
    Function("octet_length", (_B,), INT, "number of bytes"),
    Function("bit_length", (_B,), INT, "number of bits"),
    Function(
        "encode", (_T, Takes.WORD), BINARY, "(a, charset literal): bytes; fails on other letters",
        fails=True,
    ),
    Function("url_encode", (_T,), STRING, "a as a part of a URL"),
    Function("url_decode", (_T,), STRING, "text of a part of a URL; fails on others", fails=True),
    Function(
        "try_url_decode", (_T,), STRING, "text of a part of a URL; NULL for others", gives_null=True
    ),
    Function(
        "decode", (_B, Takes.WORD), STRING, "(bytes, charset literal): text; fails on other bytes",
        fails=True,
    ),
    Function("hex", (_B,), STRING, "hexadecimal digits of bytes"),
    Function("hex_of_number", (_L,), STRING, "hexadecimal digits of a BIGINT"),
    # texts
    Function("find_in_set", (_T, _T), INT, "(a, list): position in a list parted by commas, or 0"),
    Function("levenshtein", (_T, _T), INT, "edits from one text to the other"),
    Function(
        "levenshtein_within", (_T, _T, _I), INT, "levenshtein, or -1 beyond a number of edits"
    ),
    Function("soundex", (_T,), STRING, "code of how a word sounds"),
    Function("luhn_check", (_T,), BOOLEAN, "whether the digits pass Luhn's check"),
    Function(
        "mask", (_T, Takes.WORD, Takes.WORD, Takes.WORD), STRING,
        "(a, upper, lower, digit literals): letters and digits replaced",
        defaults=("X", "x", "n"), shown=("NULL",),
    ),
    Function(
        "overlay", (_T, _T, _I, _I), STRING,
        "(a, by, start, length): replaced from there; so many characters, or as many as `by` has",
        defaults=(-1,),
    ),
    Function("quote", (_T,), STRING, "a in quotes, its own escaped"),
    Function(
        "format_number", (Takes.NUMERIC, _I), STRING, "(a, digits): #,###.##; NULL below 0 digits",
        gives_null=True,
    ),
    Function(
        "to_char", (Takes.NUMERIC, Takes.WORD), STRING,
        "(a, format literal): a number in digits, as '999,990.99'; # where it has no room",
    ),
    Function(
        "to_number", (_T, Takes.WORD), NULL,
        "(text, format literal): DECIMAL of a text of the format; fails on others", fails=True,
    ),
    Function(
        "try_to_number", (_T, Takes.WORD), NULL, "to_number, or NULL", gives_null=True
    ),
    # regular expressions
    Function("regexp_count", (_T, Takes.PATTERN), INT, "how often it is found"),
    Function(
        "regexp_extract", (_T, Takes.PATTERN, Takes.NUMBER), STRING,
        "(a, regex, group): of the first place where it is found, else empty",
        defaults=(1,),
    ),
    Function(
        "regexp_substr", (_T, Takes.PATTERN), STRING,
        "the first part of a that it matches, else NULL", gives_null=True,
    ),
    Function(
        "regexp_instr", (_T, Takes.PATTERN), INT, "where it is found first, else 0", shown=("0",)
    ),
    Function(
        "regexp_replace", (_T, Takes.PATTERN, Takes.WORD, Takes.NUMBER), STRING,
        "(a, regex, replacement[, from position]): all places replaced", defaults=(1,),
    ),
    # instants
    Function("timestamp_seconds", (_N,), TIMESTAMP, "seconds since 1970 (UTC)", fails=True),
    Function("timestamp_millis", (_N,), TIMESTAMP, "milliseconds since 1970 (UTC)", fails=True),
    Function("timestamp_micros", (_N,), TIMESTAMP, "microseconds since 1970 (UTC)"),
    Function("unix_seconds", (Takes.INSTANT,), BIGINT, "seconds since 1970 (UTC)"),
    Function(
        "unix_timestamp", (Takes.INSTANT,), BIGINT, "seconds since 1970 (UTC), towards 1970",
        shown=("yyyy-MM-dd HH:mm:ss",),
    ),
    Function("unix_millis", (Takes.INSTANT,), BIGINT, "milliseconds since 1970 (UTC)"),
    Function("unix_micros", (Takes.INSTANT,), BIGINT, "microseconds since 1970 (UTC)"),
    Function(
        "months_between", (Takes.INSTANT, Takes.INSTANT, Takes.FLAG), DOUBLE,
        "(a, b[, rounded]) (*): months of 31 days from b to a, whole between same or last days",
        defaults=(True,), zoned=True,
    ),
    Function(
        "make_timestamp", (_I, _I, _I, _I, _I, Takes.SECONDS), TIMESTAMP,
        "(year, month, day, hour, minute, seconds) (*); fails where there is no such time",
        fails=True, zoned=True,
    ),
    Function(
        "make_timestamp_ntz", (_I, _I, _I, _I, _I, Takes.SECONDS), TIMESTAMP_NTZ,
        "(year, month, day, hour, minute, seconds): what clocks show; fails where they never do",
        fails=True,
    ),
    Function(
        "try_make_timestamp", (_I, _I, _I, _I, _I, Takes.SECONDS), TIMESTAMP,
        "make_timestamp (*), or NULL", gives_null=True, zoned=True,
    ),
    Function(
        "try_make_timestamp_ntz", (_I, _I, _I, _I, _I, Takes.SECONDS), TIMESTAMP_NTZ,
        "make_timestamp_ntz, or NULL", gives_null=True,
    ),
    # arrays
    Function(
        "array_insert", (_A, _I, _E), _same,
        "(a, place, value): put in from 1 on, from -1 back, with NULLs between; fails on 0",
        fails=True,
    ),
    Function("size", (Takes.LIST,), INT, "number of elements, or of entries"),
    Function("cardinality", (Takes.LIST,), INT, "number of elements, or of entries"),
    Function("array_size", (_A,), INT, "number of elements"),
    Function(
        "array_contains", (_A, _E), BOOLEAN, "whether an element equals; NULL for NULLs alone",
        gives_null=True, compares=True,
    ),
    Function(
        "array_position", (_A, _E), BIGINT, "of the first element that equals, or 0", compares=True
    ),
    Function("array_distinct", (_A,), _same, "the first of equal elements", compares=True),
    Function("array_union", (_A, _A), _same, "distinct elements of either", compares=True),
    Function("array_intersect", (_A, _A), _same, "distinct elements of both", compares=True),
    Function("array_except", (_A, _A), _same, "distinct elements of the first", compares=True),
    Function(
        "arrays_overlap", (_A, _A), BOOLEAN, "whether they share an element; NULL if NULL hides it",
        gives_null=True, compares=True,
    ),
    Function("array_remove", (_A, _E), _same, "without the elements that equal", compares=True),
    Function("array_compact", (_A,), _same, "without NULLs"),
    Function(
        "array_repeat", (_E, _I), lambda kinds: ArrayType(kinds[0]),
        "(a, count): so many of it, NULL too", fails=True, shows_null=True,
    ),
    Function("flatten", (Takes.ARRAYS,), _part(0), "of arrays: one of all; NULL if one is",
             gives_null=True),
    Function(
        "slice", (_A, _I, _I), _same, "(a, start, length): fails on start 0 and negative lengths",
        fails=True,
    ),
    Function(
        "sort_array", (_A, Takes.FLAG), _same, "(a[, ascending]): NULLs least", defaults=(True,),
        compares=True,
    ),
    Function("array_min", (_A,), _part(0), "the least element that is not NULL", gives_null=True,
             compares=True),
    Function("array_max", (_A,), _part(0), "the greatest element", gives_null=True, compares=True),
    Function("array_join", (Takes.TEXTS, _T), STRING, "texts with a text between, without NULLs"),
    Function(
        "array_join_all", (Takes.TEXTS, _T, _T), STRING, "array_join with a text for each NULL"
    ),
    Function("reverse_array", (_A,), _same, "elements in reverse"),
    Function("get", (_A, _I), _part(0), "element from 0 on; NULL where there is none",
             gives_null=True),
    Function("item", (_A, _I), _part(0), "a[i] from 0 on; fails where there is none",
             gives_null=True, fails=True),
    Function("element_of", (_A, _I), _part(0), "from 1 on, from -1 back; fails where there is none",
             gives_null=True, fails=True),
    Function("try_element_of", (_A, _I), _part(0), "from 1 on, from -1 back, or NULL; fails on 0",
             gives_null=True, fails=True),
    Function(
        "split", (_T, Takes.PATTERN, Takes.NUMBER), ArrayType(STRING),
        "(a, regex[, most parts]): what is between the places where it is found", defaults=(-1,),
    ),
    Function(
        "regexp_extract_all", (_T, Takes.PATTERN, Takes.NUMBER), ArrayType(STRING),
        "(a, regex, group): of all places where it is found", defaults=(1,),
    ),
    Function(
        "get_json_object", (_T, Takes.WORD), STRING,
        "(JSON, path literal): the value at $.name[0]…, or NULL", gives_null=True,
    ),
    Function("json_array_length", (_T,), INT, "elements of a JSON array, else NULL",
             gives_null=True),
    Function("json_object_keys", (_T,), ArrayType(STRING), "of a JSON object, else NULL",
             gives_null=True),
    Function(
        "from_json", (_T,), NULL,
        "(JSON, schema literal): a struct, array or map; NULL for what is not of the schema",
        gives_null=True, zoned=True,
    ),
    Function("to_json", (Takes.PARTED,), STRING, "a struct, array or map in JSON", zoned=True),
    Function("json_fields", (_T,), NULL, "fields of a JSON object by their names"),
    Function("schema_of_json", (Takes.WORD,), STRING, "(JSON literal): its schema", fails=True),
    Function(
        "from_csv", (_T,), NULL,
        "(CSV, schema literal): a struct; fields are NULL for what is not of their types",
        gives_null=True, zoned=True,
    ),
    Function(
        "to_csv", (Takes.PARTED,), STRING, "a struct in CSV", gives_null=True, zoned=True
    ),
    Function(
        "schema_of_csv", (Takes.WORD,), STRING, "(CSV literal): its schema", fails=True, zoned=True
    ),
    Function(
        "format_string", (_T,), STRING, "(template, a, b, …): %s, %d, %.2f … filled", fails=True,
        shows_null=True,
    ),
    # XML
    *(
        Function(
            name, (_T, Takes.WORD), kind,
            f"(XML, path literal): {meaning}; fails on what is no XML",
            fails=True, gives_null=True,
        )
        for name, kind, meaning in (
            ("xpath", ArrayType(STRING), "values of the nodes, NULL of elements"),
            ("xpath_boolean", BOOLEAN, "whether there are nodes, or it holds"),
            ("xpath_string", STRING, "text of the first node"),
            ("xpath_double", DOUBLE, "number of the text, else NaN"),
            ("xpath_float", FLOAT, "number of the text, else NaN"),
            ("xpath_long", BIGINT, "whole number of the text, else 0"),
            ("xpath_int", INT, "whole number of the text, else 0"),
            ("xpath_short", SMALLINT, "whole number of the text, else 0"),
        )
    ),
    # URLs, codes
    Function(
        "parse_url", (_T, _T), STRING, "(URL, part): HOST, PATH, QUERY …; fails on what is none",
        fails=True, gives_null=True,
    ),
    Function(
        "parse_url_key", (_T, _T, _T), STRING, "(URL, 'QUERY', key): the value of a key",
        fails=True, gives_null=True,
    ),
    Function(
        "try_parse_url", (_T, _T), STRING, "(URL, part): NULL for what is no URL", gives_null=True
    ),
    Function(
        "str_to_map", (_T, Takes.PATTERN, Takes.PATTERN), MapType(STRING, STRING),
        "(a[, regex between pairs[, regex in them]]): fails on a key that is there twice",
        defaults=(",", ":"), fails=True,
    ),
    Function(
        "bytes_in", (_T, Takes.WORD), BINARY, "(a, 'hex', 'base64' or 'utf-8'): bytes", fails=True
    ),
    Function(
        "bytes_in_or_null", (_T, Takes.WORD), BINARY, "bytes_in, or NULL", gives_null=True
    ),
    Function("is_valid_utf8", (_B,), BOOLEAN, "whether bytes are UTF-8"),
    Function("validate_utf8", (_B,), STRING, "text of bytes; fails on others", fails=True),
    Function("try_validate_utf8", (_B,), STRING, "text of bytes, or NULL", gives_null=True),
    Function("make_valid_utf8", (_B,), STRING, "text of bytes, with marks for others"),
    Function("to_base32", (_B,), STRING, "bytes in base 32"),
    Function("from_base32", (_T,), BINARY, "bytes of base 32"),
    Function("bitmap_bucket_number", (_L,), BIGINT, "which 32,768 numbers a number is among"),
    Function("bitmap_bit_position", (_L,), BIGINT, "its place among them, from 0 on"),
    Function("bitmap_place", (_L,), BIGINT, "the place itself; fails where a bitmap has none",
             fails=True),
    Function("bitmap_count", (_B,), BIGINT, "bits that are 1"),
    Function("jaro_winkler_similarity", (_T, _T), DOUBLE, "likeness of two texts, 0 to 1"),
    # vectors
    Function(
        "vector_inner_product", (_V, _V), FLOAT, "sum of products; fails on vectors of two lengths",
        fails=True, gives_null=True,
    ),
    Function(
        "vector_l2_distance", (_V, _V), FLOAT, "Euclidean; fails on vectors of two lengths",
        fails=True, gives_null=True,
    ),
    Function(
        "vector_cosine_similarity", (_V, _V), FLOAT,
        "cosine of the angle between, NULL beside a vector of zeros; fails on two lengths",
        fails=True, gives_null=True,
    ),
    Function(
        "vector_norm", (_V, Takes.FLOAT), FLOAT,
        "(a[, degree]): of degree 1, 2 or infinity; fails on others",
        defaults=(2.0,), fails=True, gives_null=True,
    ),
    Function(
        "vector_normalize", (_V, Takes.FLOAT), _same,
        "(a[, degree]): divided by the norm, NULL where that is 0; fails on other degrees",
        defaults=(2.0,), fails=True, gives_null=True,
    ),
    # maps
    Function("map_value", (_M, Takes.KEY), _part(1), "of a key, or NULL", gives_null=True),
    Function("map_keys", (_M,), _arrays_of(0), "array of the keys"),
    Function("map_values", (_M,), _arrays_of(1), "array of the values"),
    Function("map_entries", (_M,), _entries, "array of structs of key and value"),
    Function("map_contains_key", (_M, Takes.KEY), BOOLEAN, "whether it has the key"),
    Function(
        "map_from_arrays", (_A, Takes.LIST),
        lambda kinds: MapType(parts_of(kinds[0])[0], parts_of(kinds[1])[0]),
        "(keys, values): fails on a key that is NULL or there twice, and on other lengths",
        fails=True, compares=True,
    ),
    Function(
        "map_from_entries", (Takes.ENTRIES,), _map_of_entries,
        "of an array of structs; fails on a key that is NULL or there twice", fails=True,
        gives_null=True,
    ),
)  # fmt: skip

#: By name.
LIBRARY: dict[str, Function] = {f.name: f for f in _ALL}
#: DECIMAL(16,6).
SECONDS = DecimalType(16, 6)
