"""Every public call with arguments of all kinds: python -m tests.api_fuzz --calls 100000 --seed 1

Calls are found by walking `sqlview.__all__` with inspect.signature, so a new method or parameter is
fuzzed from the day it is there. Each argument is one that fits, or one from ODD, of a kind that
somebody may give by mistake: None, numbers, bytes, surrogates, objects whose methods raise,
recursive lists, Arrow tables of odd types. Calls come in random sequences on a live session.

Law: a call returns, or raises a SqlViewError, or a TypeError or ValueError of this library that
names a parameter of the call, or what the argument's own methods raised (`Hostile`); and after each
sequence the session takes a transaction, and its views equal their recompute. Nothing is counted by
the clock: the same seed makes the same calls.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import datetime
import decimal
import gc
import inspect
import io
import math
import pathlib
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import sqlview

#: Calls on one session before it is checked.
SEQUENCE_CALLS = 25


class Hostile(Exception):
    """Raised by arguments."""


def _raising(*_: object, **__: object) -> Any:
    raise Hostile("this object is hostile")


def _hostile(*names: str) -> object:
    """An object some of whose special methods raise."""
    return type("HostileObject", (), dict.fromkeys(names, _raising))()


def _recursive() -> list[Any]:
    values: list[Any] = [(1, 2)]
    values.append(values)
    return values


def _closed() -> io.StringIO:
    file = io.StringIO("1,2\n")
    file.close()
    return file


def _generator(*rows: object) -> Iterator[object]:
    yield from rows


def _failing_generator() -> Iterator[object]:
    yield (1, 1)
    raise Hostile("this generator is hostile")


class _Shy(str):
    """A text that shows nothing of itself."""

    __str__ = __repr__ = __format__ = _raising


class _Row:
    a, b = 1, 2


def _pair(a: Any, b: Any = None) -> pa.Table:
    """A table of the columns a and b."""
    a = a if isinstance(a, (pa.Array, pa.ChunkedArray)) else pa.array(a)
    return pa.table({"a": a, "b": pa.array([1] * len(a), pa.int32()) if b is None else b})


def _arrow_arrays() -> dict[str, Callable[[], Any]]:
    """One array of two values for each kind of type."""
    return {
        "null": lambda: pa.nulls(2),
        "bool": lambda: pa.array([True, None]),
        "int8": lambda: pa.array([1, 2], pa.int8()),
        "uint64": lambda: pa.array([2**64 - 1, 1], pa.uint64()),
        "half": lambda: pa.array(np.array([1, 2], np.float16)),
        "double": lambda: pa.array([1.5, math.nan]),
        "decimal32": lambda: pa.array([decimal.Decimal("1.5"), None], pa.decimal32(3, 1)),
        "decimal256": lambda: pa.array([decimal.Decimal(10) ** 60, None], pa.decimal256(76, 0)),
        "negative scale": lambda: pa.array([decimal.Decimal("1E+5"), None], pa.decimal128(5, -3)),
        "string": lambda: pa.array(["1", None]),
        "large string": lambda: pa.array(["1", "x"], pa.large_string()),
        "string view": lambda: pa.array(["1", "x"], pa.string_view()),
        "binary": lambda: pa.array([b"\xff", b""]),
        "binary view": lambda: pa.array([b"\xff", b""], pa.binary_view()),
        "fixed binary": lambda: pa.array([b"ab", b"cd"], pa.binary(2)),
        "no utf-8": lambda: pa.array([b"\xff\xfe", b"x"]).cast(pa.string(), safe=False),
        "date32": lambda: pa.array([datetime.date.min, None]),
        "date64": lambda: pa.array([0, 86_400_000], pa.date64()),
        "far date": lambda: pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
        "time": lambda: pa.array([datetime.time(1, 2), None]),
        "duration": lambda: pa.array([datetime.timedelta(1), None]),
        "timestamp": lambda: pa.array([2**62, -(2**62)], pa.timestamp("ns")),
        "zoned": lambda: pa.array([0, 1], pa.timestamp("s", "Europe/Paris")),
        "no zone": lambda: pa.array([0, 1], pa.timestamp("us", "Nowhere/Town")),
        "interval": lambda: pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
        "dictionary": lambda: pa.array(["x", "y"]).dictionary_encode(),
        "dictionary of ints": lambda: pa.array([1, 2], pa.int32()).dictionary_encode(),
        "run ends": lambda: pa.RunEndEncodedArray.from_arrays([1, 2], pa.array([1, 2], pa.int32())),
        "list": lambda: pa.array([[1], None]),
        "empty list": lambda: pa.array([[], []]),
        "fixed list": lambda: pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
        "struct": lambda: pa.array([{"a": 1}, None]),
        "map": lambda: pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        "union": lambda: pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])]
        ),
        "uuid": lambda: pa.array([b"0" * 16, None], pa.uuid()),
        "tensor": lambda: pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.int32(), [2]),
            pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
        ),
        "sliced": lambda: pa.array([1, 2, 3, 4], pa.int32()).slice(1, 2),
        "chunks": lambda: pa.chunked_array([[1], [], [2]], pa.int32()),
        "no chunks": lambda: pa.chunked_array([], pa.int32()),
    }


#: Name -> what makes the argument.
ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2**31": lambda: 2**31,
    "10**400": lambda: 10**400,
    "nan": lambda: math.nan,
    "-inf": lambda: -math.inf,
    "1j": lambda: 1j,
    "Decimal": lambda: decimal.Decimal("sNaN"),
    "''": lambda: "",
    "'t'": lambda: "t",
    "space": lambda: "  ",
    "quote": lambda: 't"; DROP TABLE t; --`',
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "surrogate in SQL": lambda: "SELECT '\udfff' AS x",
    "long text": lambda: "x" * 100_000,
    "many brackets": lambda: "(" * 5_000,
    "shy text": lambda: _Shy("t"),
    "b''": lambda: b"",
    "bytes": lambda: b"SELECT 1",
    "bytearray": lambda: bytearray(b"ab"),
    "memoryview": lambda: memoryview(b"ab"),
    "array": lambda: array.array("i", [1, 2]),
    "date": lambda: datetime.date.max,
    "timedelta": lambda: datetime.timedelta.max,
    "object": object,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "type": lambda: int,
    "module": lambda: types,
    "repr": lambda: repr,
    "lambda": lambda: lambda: None,
    "exception": lambda: ValueError("an argument"),
    "closed file": _closed,
    "path": lambda: pathlib.Path("nowhere/at/all.csv"),
    "row object": _Row,
    "hostile len": lambda: _hostile("__len__"),
    "hostile iter": lambda: _hostile("__iter__"),
    "hostile eq": lambda: _hostile("__eq__", "__hash__"),
    "hostile str": lambda: _hostile("__str__", "__repr__", "__format__"),
    "hostile bool": lambda: _hostile("__bool__"),
    "hostile getattr": lambda: _hostile("__getattr__"),
    "hostile sequence": lambda: _hostile("__getitem__", "__len__", "__iter__", "__next__"),
    "hostile fspath": lambda: _hostile("__fspath__"),
    "hostile stream": lambda: _hostile("__arrow_c_stream__"),
    "no stream": type("S", (), {"__arrow_c_stream__": lambda self, s=None: 1}),
    "[]": list,
    "()": tuple,
    "{}": dict,
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "generator": lambda: _generator((1, 1), (2, 2)),
    "failing generator": _failing_generator,
    "recursive list": _recursive,
    "list of None": lambda: [None],
    "list of ints": lambda: [1],
    "list of texts": lambda: ["ab"],
    "list of empty": lambda: [()],
    "ragged": lambda: [(1,), (1, 2, 3)],
    "mixed": lambda: [(1, 2), {"a": 3, "b": 4}, None],
    "surrogate row": lambda: [(1, "\ud800")],
    "NaT row": lambda: [(pd.NaT, pd.NA)],
    "hostile row": lambda: [_hostile("__len__", "__iter__", "__getitem__")],
    "hostile value": lambda: [(1, _hostile("__eq__", "__repr__", "__bool__", "__index__"))],
    "odd values": lambda: [(object(), 1j)],
    "wide row": lambda: [tuple(range(1_000))],
    "int keys": lambda: [{1: 2, None: 3}],
    "columns": lambda: {"a": [1], "b": [2, 3]},
    "columns of ints": lambda: {"a": 1, "b": 2},
    "int columns": lambda: {1: [1], 2: [2]},
    "NaT": lambda: pd.NaT,
    "NA": lambda: pd.NA,
    "Series": lambda: pd.Series([1, 2], name="a"),
    "DataFrame": lambda: pd.DataFrame({"a": [1, 2], "b": [object(), None]}),
    "multi-index": lambda: pd.DataFrame({("a", 1): [1], ("b", 2): [2]}),
    "np.int64": lambda: np.int64(1),
    "np.str_": lambda: np.str_("t"),
    "np.bool_": lambda: np.bool_(True),
    "0-d": lambda: np.array(1),
    "1-d": lambda: np.array([1, 2]),
    "2-d": lambda: np.zeros((2, 2)),
    "objects": lambda: np.array([object(), None], object),
    "records": lambda: np.array([(1, 2)], [("a", "i4"), ("b", "i4")]),
    "masked": lambda: np.ma.masked_array([1, 2], [True, False]),
    "datetime64": lambda: np.array(["NaT", "2020-01-01"], "datetime64[D]"),
    "pa.Schema": lambda: pa.schema([("a", pa.int32())]),
    "pa.Scalar": lambda: pa.scalar(1),
    "pa.Array": lambda: pa.array([1, 2]),
    "no columns": lambda: pa.table({}),
    "duplicate columns": lambda: pa.table([pa.array([1]), pa.array([1])], ["a", "a"]),
    "folded columns": lambda: pa.table({"a": [1], "A": [1], "b": [1]}),
    "odd names": lambda: pa.table({"": [1], "a\0": [1]}),
    "reader": lambda: _pair([7, 8]).to_reader(),
    "batch": lambda: pa.record_batch({"a": [1], "b": [2]}),
    **{
        f"a: {name}": lambda make=make: _pair(make())  # type: ignore[misc]
        for name, make in _arrow_arrays().items()
    },
    **{
        f"b: {name}": lambda make=make: _pair([91, 92], make())  # type: ignore[misc]
        for name, make in _arrow_arrays().items()
        if name != "no chunks"
    },
}


STATEMENTS = (
    "SHOW TABLES",
    "SHOW MATERIALIZED VIEWS",
    "EXPLAIN MATERIALIZED VIEW v",
    "VERIFY MATERIALIZED VIEW w",
    "CREATE TABLE t (a INT)",
    "CREATE TABLE IF NOT EXISTS x (a INT, s STRING)",
    "DROP TABLE IF EXISTS x",
    "DROP TABLE t",
    "CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT b, max(a) AS m FROM t GROUP BY b",
    "CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT a + 1 AS a FROM t WHERE b > 0",
    "CREATE MATERIALIZED VIEW y AS SELECT s FROM x",
    "CREATE OR REPLACE MATERIALIZED VIEW y WITH (lazy = true) AS SELECT count(*) AS n FROM t",
    "DROP MATERIALIZED VIEW IF EXISTS y",
    "DROP MATERIALIZED VIEW nothing",
    "SELECT a FROM t WHERE b = :b",
    "",
)

#: Calls that need Spark, or leave this process: tested elsewhere.
_LEFT_OUT = {"start_spark", "Result.to_df", "ViewReader.to_df"}


@dataclass(slots=True)
class Outcome:
    """What was called, and how it ended."""

    calls: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    #: How the law was broken, with the calls that led there, by what went wrong.
    failures: dict[str, str] = field(default_factory=dict)


def public_calls() -> dict[str, Callable[..., Any]]:
    """Functions and methods of the public API, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in sqlview.__all__:
        value = getattr(sqlview, name)
        if inspect.isfunction(value):
            found[name] = value
        elif not issubclass(value, BaseException):
            for member, method in inspect.getmembers(value):
                special = member in ("__iter__", "__len__", "__str__", "__repr__", "_repr_html_")
                if callable(method) and (special or not member.startswith("_")):
                    found[f"{name}.{member}"] = method
    return {k: v for k, v in found.items() if k not in _LEFT_OUT}


class Fuzz:
    """One sequence of calls after the other, on sessions of their own where one was closed."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._calls = public_calls()
        #: Those that take arguments come more often.
        self._names = [
            name
            for name, call in self._calls.items()
            if "." not in name or self._kind(name) in _TARGETS
            for _ in range(1 + 5 * _takes_arguments(call))
        ]
        self._odd = list(ODD)
        self._script: list[str] = []
        self._subjects: dict[str, list[Any]] = {}
        self.outcome = Outcome()
        self._open()

    @staticmethod
    def _kind(name: str) -> str:
        return name.partition(".")[0]

    def run(self, calls: int) -> Outcome:
        for i in range(calls):
            self._call()
            if i % SEQUENCE_CALLS == SEQUENCE_CALLS - 1 or i == calls - 1:
                self._check()
        self.close()
        return self.outcome

    def close(self) -> None:
        for session in self._subjects["Session"]:
            session.close()

    # -- the session under test ------------------------------------------------------------------

    def _open(self) -> None:
        db = sqlview.connect(progress=False)
        db.sql("CREATE TABLE t (a BIGINT PRIMARY KEY, b INT)")
        db.sql("CREATE TABLE bag (a INT, b STRING)")
        db.sql("CREATE STREAM events (a INT, b STRING)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT t.a, bag.b FROM t JOIN bag USING (a)")
        with db.transaction() as tx:
            tx.insert("t", [(1, 1), (2, None)])
            tx.insert("bag", [(1, "x"), (None, None)])
        self._script = []
        statement = db.prepare("SELECT a FROM t WHERE b = :b")
        self._subjects = {
            "Session": [db],
            "ViewReader": [db.view("v")],
            "Statement": [statement],
            "Subscription": [statement.subscribe(b=1)],
        }
        self._renew()

    def _renew(self) -> None:
        db = self._subjects["Session"][0]
        self._subjects |= {
            "Transaction": [db.begin(), db.transaction()],
            "Transactions": [db.transactions()],
            "Result": [db.sql("SHOW TABLES")],
            "Verification": [db.verify("v")],
            "Metrics": [db.metrics()],
        }

    def _check(self) -> None:
        """The session works, and its views are right."""
        self.outcome.checks += 1
        db = self._subjects["Session"][0]
        try:
            if db._closed:
                db.close()
                self._open()
                return
            epoch = db.epoch
            tx = db.begin()
            tx.upsert("t", [(int(epoch) % 50 + 1_000, epoch % 7)])
            with contextlib.suppress(sqlview.SubscriberError):
                db.apply([tx])
            assert db.epoch > epoch
            for (name,) in db.sql("SHOW MATERIALIZED VIEWS").rows():
                found = db.verify(name)
                assert found.equal, str(found)
            gc.collect()  # of generators and readers that nobody finished
            self._renew()
        except Exception as error:
            self._fail("the session does not work any more", error)
            self._open()

    # -- one call --------------------------------------------------------------------------------

    def _call(self) -> None:
        rng = self._rng
        name = rng.choice(self._names)
        kind = self._kind(name)
        # Closing makes everything else a refusal: seldom.
        if name in ("Session.close", "Session.__exit__") and rng.random() < 0.9:
            return
        call = self._calls[name]
        target: list[Any] = []
        if kind in _TARGETS:
            target = [rng.choice(self._subjects[kind])]
        args, keywords, told = self._arguments(name, call, bool(target))
        self._script.append(f"{name}({', '.join(told)})")
        self.outcome.calls[name] += 1
        try:
            result = call(*target, *args, **keywords)
            if inspect.isgenerator(result):
                list(result)
        except BaseException as error:
            self._judge(name, call, error)
        else:
            self.outcome.endings["returned"] += 1
            self._take_over(result)

    def _arguments(
        self, name: str, call: Callable[..., Any], bound: bool
    ) -> tuple[list[Any], dict[str, Any], list[str]]:
        rng = self._rng
        try:
            parameters = list(inspect.signature(call).parameters.values())[int(bound) :]
        except ValueError:  # of a builtin
            return [], {}, []
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        told: list[str] = []
        #: Mostly one argument is odd, so that the others do not hide what becomes of it.
        wrong = rng.choice([p.name for p in parameters]) if parameters else ""
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and rng.random() < 0.5:
                continue
            if p.default is not p.empty and p.name != wrong and rng.random() < 0.5:
                continue
            odd = p.name == wrong and rng.random() < 0.8
            label, value = self._odd_value() if odd else self._fitting(p.name, name)
            told.append(f"{p.name}={label}")
            if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) or keywords:
                keywords["b" if p.kind == p.VAR_KEYWORD else p.name] = value
            elif p.default is not p.empty:
                keywords[p.name] = value
            else:
                args.append(value)
        return args, keywords, told

    def _odd_value(self) -> tuple[str, Any]:
        label = self._rng.choice(self._odd)
        self.outcome.odd[label] += 1
        return label, ODD[label]()

    def _fitting(self, parameter: str, call: str) -> tuple[str, Any]:
        rng = self._rng
        choices: list[Any]
        match parameter:
            case "text":
                choices = list(STATEMENTS)
            case "table" | "name":
                views = call.startswith("Session.") and call != "Session.load"
                choices = ["v", "w", "V"] if views else ["t", "bag", "events", "T"]
            case "types":
                choices = [None, {"b": "INT"}, {"b": "no type"}]
            case "values":
                choices = [1, 2, None]
            case "placement":
                choices = [None, "auto", "inline"]
            case "transactions":
                choices = [[t] for t in self._subjects["Transaction"]]
            case "times":
                choices = [[0], [0, 1], [0, 0], "b", pa.array([1])]
            case "data":
                first = rng.randrange(100)
                choices = [[(first, 5)], [{"a": first, "b": None}], _pair([first, first + 100])]
            case "callback":
                choices = [print_nothing]
            case "n" | "first":
                choices = [0, 1, 3]
            case "spark" | "path" | "requested_schema":
                choices = [None]
            case "share" | "progress" | "cast":
                choices = [False]
            case _:
                choices = [None, 1, "b"]
        value = rng.choice(choices)
        try:
            return repr(value)[:60], value
        except Hostile:
            return "?", value

    def _take_over(self, result: Any) -> None:
        if isinstance(result, sqlview.Session):
            if result is not self._subjects["Session"][0]:
                result.close()
            return
        for kind in _TARGETS:
            if type(result).__name__ == kind:
                self._subjects[kind] = [*self._subjects[kind][-3:], result]

    # -- what is allowed -------------------------------------------------------------------------

    def _judge(self, name: str, call: Callable[..., Any], error: BaseException) -> None:
        if isinstance(error, sqlview.SqlViewError):
            str(error)
            self.outcome.endings[type(error).__name__] += 1
            return
        if isinstance(error, Hostile) or str(error) == "I/O operation on closed file.":
            self.outcome.endings["Hostile"] += 1
            return
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, ImportError) and name.endswith("to_polars"):
            self.outcome.endings["ImportError"] += 1
            return
        if isinstance(error, (TypeError, ValueError)):
            own = "/sqlview/" in frames[-1].filename.replace("\\", "/")
            names = [
                p.name
                for p in inspect.signature(call).parameters.values()
                if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "self"
            ]
            named = not names or any(name in str(error) for name in names)
            if len(frames) == 1 or (own and named):  # Python's own check of the call, or ours
                self.outcome.endings[type(error).__name__] += 1
                return
        self._fail(f"{name} raised what is not allowed", error)

    def _fail(self, why: str, error: BaseException) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {pathlib.Path(frame.filename).name}:{frame.name}"
        told = "".join(traceback.format_exception(error))
        script = "\n".join(self._script[-2 * SEQUENCE_CALLS :])
        self.outcome.failures.setdefault(f"{why}: {where}", f"{told}--- the calls\n{script}")


_TARGETS = (
    "Session",
    "Transaction",
    "Transactions",
    "ViewReader",
    "Result",
    "Verification",
    "Metrics",
    "Statement",
    "Subscription",
)


def _takes_arguments(call: Callable[..., Any]) -> bool:
    try:
        return len(inspect.signature(call).parameters) > 1
    except ValueError:  # of a builtin
        return False


def print_nothing(changes: pa.Table) -> None:
    """A subscriber."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    outcome = Fuzz(options.seed).run(options.calls)
    print(f"{outcome.calls.total()} calls of {len(outcome.calls)} functions and methods")
    print(f"{len(outcome.odd)} kinds of odd arguments, given {outcome.odd.total()} times")
    print(", ".join(f"{name}: {n}" for name, n in outcome.endings.most_common()))
    print(f"{outcome.checks} times the session worked on, and all views were right")
    for what, told in outcome.failures.items():
        print(f"\n=== {what}\n{told}")
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
