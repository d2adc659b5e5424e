"""Few rows of a map in one kernel: its expressions as a program over words (kernels.programs).

Written when the map is installed, of whatever has words of 64 bits: integers, dates, timestamps,
booleans, decimals as far as their values fit, with NULLs. Texts, floating-point numbers and all
other functions are evaluated as ever, and so are the rows of a batch on which a program gives up:
where something fails, or has more than 64 bits. Equal subexpressions are computed once.

Invariant: a program's results are those of `operators.scalar`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from operators.flight.column import Column, Ints
from operators.flight.delta import Delta
from operators.kernels import programs as k
from operators.scalar.value import fits_word, physical
from operators.state.rows import Rows
from planner.calculus import types as t
from planner.calculus.expr import Call, Expr, Literal, walk
from planner.calculus.expr import Column as ColumnRef

#: The most rows of a batch for a program: of more the calls that it spares cost little.
FEW_ROWS = 4096
#: After a program gave up so many batches are evaluated without it.
_PATIENCE = 16
_MOST_REGISTERS, _MOST_LISTED, _MOST_LEVELS = 64, 8, 32
_LARGEST = (1 << 63) - 1

_COMPARISONS = {"eq": k.EQ, "ne": k.NE, "lt": k.LT, "le": k.LE, "gt": k.GT, "ge": k.GE}
_SUMS = {"add": k.ADD, "subtract": k.SUBTRACT}
_SIGNS = {"negate": k.NEGATE, "abs": k.ABS}
_FOLDS = {
    "and": k.AND, "or": k.OR, "coalesce": k.COALESCE, "least": k.LEAST, "greatest": k.GREATEST,
}  # fmt: skip


class NotWordsError(Exception):
    """An expression that has no program."""


class Computed(NamedTuple):
    """What a program makes of a batch: positions of the rows that are left, None if all are; values
    of its outputs, by their number."""

    kept: Ints | None
    columns: list[tuple[int, Column]]


class Program:
    """Predicates and outputs of a map. `covers`: the numbers of the outputs that it computes."""

    def __init__(self, writer: _Writer, outputs: Sequence[tuple[int, t.SqlType, int]]) -> None:
        """`outputs`: of each its number, type and register."""
        self.covers = frozenset(number for number, _, _ in outputs)
        self._outputs = outputs
        self._code = np.array(writer.code, np.int64).reshape(-1, 5)
        self._registers = writer.registers
        #: Of each column that is read its register, and whether that is one of two.
        self._inputs = tuple(writer.inputs.items())
        self._columns = tuple(writer.inputs)
        self._first = writer.first
        self._waits = 0
        #: Where the columns came from the last time, and which slots of a relation those are.
        self._relation: Rows | None = None
        self._origins: tuple[int, ...] = ()
        self._slots: Ints | None = None

    def run(self, delta: Delta) -> Computed | None:
        """The program over a batch of at most FEW_ROWS; None if it gives up."""
        if self._waits:
            self._waits -= 1
            return None
        n = len(delta)
        words = np.empty((self._registers, n), np.int64)
        none, nullable = np.zeros(words.shape, np.bool_), np.zeros(self._registers, np.int64)
        if not self._load(delta, n, words, none, nullable):
            self._read(delta, words, none, nullable)
        kept, moved = np.empty((2, n), np.int64)
        left = k.run(self._code, self._first, n, words, none, nullable, kept, moved)
        if left == k.GIVE_UP:
            self._waits = _PATIENCE
            return None
        columns: list[tuple[int, Column]] = []
        for number, kind, register in self._outputs:
            values = words[register, :left]
            if isinstance(kind, t.BooleanType):
                values = values != 0
            valid = None
            if nullable[register]:
                valid = ~none[register, :left]
                valid = None if valid.all() else valid
            columns.append((number, Column(kind, values, valid)))
        return Computed(None if left == n else kept[:left], columns)

    def _load(
        self, delta: Delta, n: int, words: Ints, none: npt.NDArray[np.bool_], nullable: Ints
    ) -> bool:
        """Load the registers from the blocks of the one relation that all columns are bound to, if
        there is one, and they can be read there."""
        home = delta.home(self._columns)
        if home is None:
            return False
        binding, columns = home
        relation = binding.relation
        if relation is not self._relation or columns != self._origins:
            self._relation, self._origins = relation, columns
            self._slots = _slots(relation, columns, self._inputs)
        assert self._slots is not None
        return relation.load_words(self._slots, columns, binding.rows, words, none, nullable)

    def _read(self, delta: Delta, words: Ints, none: npt.NDArray[np.bool_], nullable: Ints) -> None:
        for index, (register, pair) in self._inputs:
            column = delta.column(index)
            values = column.values
            if values.ndim == 2:
                words[register], words[register + 1] = values[:, 0], values[:, 1]
            else:
                words[register] = values
                if pair:
                    np.right_shift(words[register], 63, out=words[register + 1])
            if column.valid is not None:
                np.logical_not(column.valid, out=none[register])
                nullable[register] = 1


def program_of(predicates: Sequence[Expr], outputs: Sequence[Expr]) -> Program | None:
    """The program of all `predicates`, in turn, and of those `outputs` that have one and are no
    mere columns; None if a predicate has none, or nothing is left to be computed."""
    numbers = [i for i, o in enumerate(outputs) if _has_one([], o)]
    if not _has_one(predicates) or not (predicates or numbers):
        return None
    writer = _Writer((*predicates, *(outputs[i] for i in numbers)))
    try:
        for predicate in predicates:
            writer.keep(predicate)
        covered = [(i, outputs[i].type, writer.register(outputs[i])) for i in numbers]
    except NotWordsError:  # too many registers together
        return None
    return Program(writer, covered)


def _has_one(predicates: Sequence[Expr], output: Expr | None = None) -> bool:
    if isinstance(output, (ColumnRef, Literal)):
        return False
    writer = _Writer(predicates if output is None else (*predicates, output))
    try:
        for predicate in predicates:
            writer.keep(predicate)
        if output is not None:
            writer.register(output)
    except NotWordsError:
        return False
    return True


def is_word(kind: t.SqlType) -> bool:
    """Whether values of a type are words, or numbers of two of which most fit one."""
    return isinstance(
        kind, (t.IntegerType, t.BooleanType, t.DateType, t.TimestampType, t.DecimalType)
    )


class _Writer:
    """Writes instructions. `inputs`: of each column that is read its first register, and whether
    it has two; `first`: the first register that is no input's."""

    def __init__(self, expressions: Iterable[Expr]) -> None:
        self.code: list[tuple[int, int, int, int, int]] = []
        self.inputs: dict[int, tuple[int, bool]] = {}
        self.registers = 0
        for column in _columns(expressions):
            if is_word(column.type) and column.index not in self.inputs:
                pair = isinstance(column.type, t.DecimalType) and not column.type.narrow
                self.inputs[column.index] = self.registers, pair
                self.registers += 1 + pair
        self.first = self.registers
        self._constants: dict[int | None, int] = {}
        #: How deep what is being written lies in an expression.
        self._level = 0
        #: What was computed, until rows are thrown away.
        self._known: dict[object, int] = {}

    def keep(self, predicate: Expr) -> None:
        self._emit(k.KEEP, self.register(predicate), out=0)
        self._known = {}

    def register(self, expr: Expr) -> int:
        """The register with the values of an expression. Raises: NotWordsError."""
        known = self._known.get(expr)
        if known is None:
            if not is_word(expr.type) or self._level == _MOST_LEVELS:
                raise NotWordsError
            self._level += 1
            known = self._known[expr] = self._written(expr)
            self._level -= 1
        return known

    def _written(self, expr: Expr) -> int:
        match expr:
            case ColumnRef():
                return self._column(expr, -1)
            case Literal():
                return self._constant(expr)
            case Call(function=function, args=args):
                return self._call(expr, function, args)
            case _:
                raise NotWordsError

    def _call(self, call: Call, function: str, args: tuple[Expr, ...]) -> int:
        if function == "checked_sum":
            return self._checked_sum(call)
        if function == "cast":
            return self._cast(args[0], call.type)
        if function in _COMPARISONS or function == "eq_null_safe":
            a, b = self._alike(args)
            return self._emit(_COMPARISONS.get(function, k.SAME), a, b)
        if function in _FOLDS:
            value, *others = self._alike(args)
            for other in others:
                value = self._emit(_FOLDS[function], value, other)
            return value
        match function, call.type:
            case (("add" | "subtract"), t.DecimalType()):
                return self._decimal_sum(function, args, call.type)
            case "multiply", t.DecimalType():
                return self._product(args, call.type)
            case "divide", t.DecimalType():
                return self._quotient(args, call.type)
            case (("add" | "subtract" | "multiply"), t.IntegerType()):
                what = _SUMS.get(function, k.MULTIPLY)
                out = self._emit(what, *(self.register(a) for a in args))
                return self._within(out, call.type.min, call.type.max, call.type.bits < 64)
            case (("negate" | "abs"), (t.IntegerType() | t.DecimalType())):
                arg = self.register(args[0])
                if isinstance(call.type, t.IntegerType):
                    self._within(arg, call.type.min + 1, _LARGEST, True)
                return self._emit(_SIGNS[function], arg)
            case "not", _:
                return self._emit(k.NOT, self.register(args[0]))
            case "is_null", _:
                return self._emit(k.IS_NULL, self.register(args[0]))
            case "case", _:
                value = self.register(args[-1])
                for at in range(len(args) - 3, -1, -2):
                    condition, then = self.register(args[at]), self.register(args[at + 1])
                    value = self._emit(k.IF, condition, then, value)
                return value
            case "in", _ if len(args) <= 1 + _MOST_LISTED:
                value, *listed = self._alike(args)
                found = self._emit(k.EQ, value, listed[0])
                for other in listed[1:]:
                    found = self._emit(k.OR, found, self._emit(k.EQ, value, other))
                return found
            case _:
                raise NotWordsError

    def _alike(self, args: Sequence[Expr]) -> list[int]:
        """Registers of arguments that compare as their words do."""
        return [self.register(a) for a in args]

    def _column(self, column: ColumnRef, top: int) -> int:
        register, pair = self.inputs[column.index]
        return self._emit(k.PAIR, register, register + 1, top) if pair else register

    def _constant(self, literal: Literal) -> int:
        value = physical(literal)
        if value is not None and (not isinstance(value, int) or not fits_word(int(value))):
            raise NotWordsError
        return self._filled(None if value is None else int(value))

    def _filled(self, value: int | None) -> int:
        known = self._constants.get(value)
        if known is None:
            known = self._emit(k.FILL if value is not None else k.NULLS, value or 0)
            self._constants[value] = known
        return known

    def _checked_sum(self, call: Call) -> int:
        total, *tops = call.args
        if not isinstance(total, ColumnRef):
            raise NotWordsError
        out = self._column(total, self.register(tops[0]) if tops else -1)
        return self._in_precision(out, call.type)

    def _cast(self, arg: Expr, target: t.SqlType) -> int:
        source = arg.type
        value = self.register(arg)
        match source, target:
            case t.BooleanType(), t.IntegerType():
                return value
            case t.IntegerType(), t.IntegerType():
                return self._within(value, target.min, target.max, target.bits < source.bits)
            case t.IntegerType(), t.DecimalType():
                # As the evaluator has it: BIGINT has 19 digits.
                digits = {8: 3, 16: 5, 32: 10, 64: 19}[source.bits]
                return self._rescaled(value, t.DecimalType(digits, 0), target)
            case t.DecimalType(), t.DecimalType():
                return self._rescaled(value, source, target)
            case _:
                raise NotWordsError

    def _rescaled(self, value: int, source: t.DecimalType, target: t.DecimalType) -> int:
        places = target.scale - source.scale
        grows = target.precision - target.scale >= source.precision - source.scale
        if places >= 0:
            scaled = self._scaled(value, places)
            return scaled if grows else self._in_precision(scaled, target)
        return self._in_precision(self._down(value, -places), target)

    def _decimal_sum(self, function: str, args: Sequence[Expr], target: t.DecimalType) -> int:
        a, b = (_decimal(x) for x in args)
        scale = max(a.scale, b.scale)
        if scale != target.scale:
            raise NotWordsError
        left = self._scaled(self.register(args[0]), scale - a.scale)
        right = self._scaled(self.register(args[1]), scale - b.scale)
        digits = max(a.precision - a.scale, b.precision - b.scale) + scale
        out = self._emit(_SUMS[function], left, right)
        fits = target.precision - target.scale >= digits + 1 - scale
        return out if fits else self._in_precision(out, target)

    def _product(self, args: Sequence[Expr], target: t.DecimalType) -> int:
        a, b = (_decimal(x) for x in args)
        drop = a.scale + b.scale - target.scale
        if drop and a.scale + b.scale > t.MAX_PRECISION:
            raise NotWordsError
        out = self._emit(k.MULTIPLY, *(self.register(x) for x in args))
        if drop:
            return self._in_precision(self._down(out, drop), target)
        digits = a.precision + b.precision - a.scale - b.scale
        return out if target.precision - target.scale >= digits else self._in_precision(out, target)

    def _quotient(self, args: Sequence[Expr], target: t.DecimalType) -> int:
        a, b = (_decimal(x) for x in args)
        places = target.scale + b.scale - a.scale
        if not 0 <= places <= 18:
            raise NotWordsError
        left, right = (self.register(x) for x in args)
        out = self._emit(k.QUOTIENT, left, right, 10**places)
        return self._in_precision(out, target)

    def _scaled(self, value: int, places: int) -> int:
        if places > 18:
            raise NotWordsError
        return self._emit(k.SCALE, value, c=10**places) if places else value

    def _down(self, value: int, places: int) -> int:
        if places > 18:
            raise NotWordsError
        return self._emit(k.DOWN, value, c=10**places)

    def _in_precision(self, value: int, target: t.SqlType) -> int:
        if not isinstance(target, t.DecimalType) or not target.narrow:
            return value
        most = 10**target.precision - 1
        return self._within(value, -most, most, True)

    def _within(self, value: int, low: int, high: int, may_be_outside: bool) -> int:
        """The value; the program gives up where it lies outside."""
        if may_be_outside:
            self._emit(k.RANGE, value, low, high, out=value)
        return value

    def _emit(self, what: int, a: int, b: int | None = None, c: int = -1, out: int = -1) -> int:
        """Write an instruction; returns the register of its result, which is a new one."""
        key = what, a, b, c
        known = self._known.get(key)
        if known is not None and what != k.KEEP:
            return known
        if out < 0:
            out, self.registers = self.registers, self.registers + 1
            if self.registers > _MOST_REGISTERS:
                raise NotWordsError
        self.code.append((what, out, a, a if b is None else b, c))
        self._known[key] = out
        return out


def _decimal(expr: Expr) -> t.DecimalType:
    if not isinstance(expr.type, t.DecimalType):
        raise NotWordsError
    return expr.type


def _columns(expressions: Iterable[Expr]) -> Iterable[ColumnRef]:
    for expr in expressions:
        yield from (e for e in walk(expr) if isinstance(e, ColumnRef))


def _slots(
    relation: Rows, columns: tuple[int, ...], inputs: Sequence[tuple[int, tuple[int, bool]]]
) -> Ints:
    """Where a relation's `columns`, which are those of `inputs` in turn, lie, as k.load has it."""
    registers = (register for _, (register, _) in inputs)
    places = ((*relation.slot_of(c), r) for c, r in zip(columns, registers, strict=True))
    slots = [(slot, size, slot + 1, register) for slot, size, register in places]
    return np.array(slots, np.int64).reshape(-1, 4)
