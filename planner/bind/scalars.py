"""Syntax trees of scalar expressions to bound, typed expressions.

One method per kind of node, found in a table; `planner.calculus.functions` knows the types. sqlglot
and Spark disagree on the precedence of comparisons and predicates that follow each other without
parentheses (`a = b < c`), so such chains are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

from planner.bind import nested
from planner.bind.calls import CALLS
from planner.bind.clock import CLOCK_NAMES, CLOCK_NODES, clock_value
from planner.bind.lambdas import LAMBDAS, Variables
from planner.bind.literals import has_suffix, interval_value, number
from planner.bind.report import (
    Refusal,
    Report,
    describe,
    refusal_of,
)
from planner.bind.resolve import Resolver, check_reference
from planner.bind.tables import (
    ARITHMETIC,
    CAST_TYPES,
    CHAINED,
    COMPARISONS,
    PLAIN,
    aggregate_name,
)
from planner.calculus import coercion, functions, intervals, types
from planner.calculus.coercion import TypeMismatch
from planner.calculus.expr import Call, Expr, Literal, Outer, Parameter
from planner.calculus.types import (
    BOOLEAN,
    DATE,
    INT,
    STRING,
    DateType,
    IntegerType,
    SqlType,
    TimestampType,
)
from planner.names import folded
from planner.parse.tokens import shortened

#: The variables that a lambda may have.
_MOST_VARIABLES = 3


class AggregateBinder(Protocol):
    def bind(self, node: exp.Expression) -> Expr:
        """An aggregate as an expression over its results."""


class SubqueryBinder(Protocol):
    """Subqueries as references to their values; `resolver` has the names around them."""

    def exists(self, node: exp.Expression, resolver: Resolver) -> Expr:
        """EXISTS (node)."""

    def scalar(self, node: exp.Expression, resolver: Resolver) -> Expr:
        """The one value of the query."""

    def any(
        self,
        comparison: str,
        operands: tuple[Expr, ...],
        node: exp.Expression,
        resolver: Resolver,
        what: str,
    ) -> Expr:
        """operands `comparison` ANY (node)."""

    def all(
        self, comparison: str, operand: Expr, node: exp.Expression, resolver: Resolver, what: str
    ) -> Expr:
        """operand `comparison` ALL (node)."""


class WindowBinder(Protocol):
    def bind(self, node: exp.Expression, around: Scalars) -> Expr:
        """A window function as an expression over its results; `around` binds its clause."""


class NoAggregates:
    """For clauses that are evaluated row by row."""

    def __init__(self, clause: str, report: Report) -> None:
        self.clause = clause
        self.report = report

    def bind(self, node: exp.Expression) -> Expr:
        hint = "Use HAVING." if self.clause == "WHERE" else None
        self.report.fail(
            node, f"an aggregate ({describe(node)}) is not allowed in {self.clause}", hint=hint
        )


class OuterAggregates(NoAggregates):
    """For clauses that are evaluated row by row, in which an aggregate may be one of the query
    around them."""

    def __init__(self, names: Resolver, clause: str, report: Report) -> None:
        super().__init__(clause, report)
        self._names = names

    def bind(self, node: exp.Expression) -> Expr:
        found = self._names.aggregate(node)
        return super().bind(node) if found is None else found


class Scalars:
    """Binds the expressions of one clause."""

    def __init__(
        self,
        resolver: Resolver,
        aggregates: AggregateBinder,
        subqueries: SubqueryBinder,
        report: Report,
        windows: WindowBinder | None = None,
    ) -> None:
        self.windows = windows
        self.resolver = resolver
        self.aggregates = aggregates
        self.subqueries = subqueries
        self.report = report
        #: Of the lambdas around what is bound, the outermost first: their variables.
        self._lambdas: list[dict[str, Parameter]] = []

    def bind(self, node: exp.Expression) -> Expr:
        """The bound expression; errors carry the place of the innermost node that is wrong."""
        self.report.check(node)
        try:
            if isinstance(node, exp.Filter) or aggregate_name(node) is not None:
                return self.aggregates.bind(node)
            if type(node) in COMPARISONS:
                return self._comparison(node)
            if type(node) in ARITHMETIC:
                left, right = self._operands(node)
                return intervals.arithmetic(ARITHMETIC[type(node)], left, right)
            if type(node) in PLAIN:
                name, args = PLAIN[type(node)]
                return functions.scalar(name, [self.argument(node, a) for a in args])
            method = _METHODS.get(type(node))
            if method is not None:
                return method(self, node)
            call = CALLS.get(type(node))
            if call is None:
                self.report.refuse(node, refusal_of(node))
            return call(self, node)
        except TypeMismatch as mismatch:
            self.report.fail(node, mismatch.message, mismatch.detail, mismatch.hint)

    def predicate(self, node: exp.Expression, clause: str) -> Expr:
        """A condition of WHERE, ON or HAVING, which Spark wants BOOLEAN without a cast."""
        bound = self.bind(node)
        if bound.type != BOOLEAN:
            self.report.fail(node, f"the condition of {clause} must be BOOLEAN, not {bound.type}")
        return bound

    def argument(self, node: exp.Expression, name: str) -> Expr:
        child = node.args.get(name)
        if child is None:
            self.report.fail(node, f"{describe(node)} has too few arguments")
        return self.bind(child)

    def _operand(self, node: exp.Expression) -> Expr:
        """An operand of a comparison or predicate."""
        if isinstance(node, CHAINED):
            self.report.fail(
                node,
                "comparisons and predicates cannot follow each other without parentheses",
                hint="Put parentheses around the one that comes first.",
            )
        return self.bind(node)

    def _operands(self, node: exp.Expression) -> tuple[Expr, Expr]:
        return self._operand(node.this), self._operand(node.expression)

    # lambdas

    @property
    def base(self) -> Literal:
        """The number of the first variable of a lambda that is written here."""
        return Literal(_MOST_VARIABLES * len(self._lambdas), INT)

    def body(self, node: exp.Expression, kinds: Variables, least: int) -> Expr:
        """The body of a lambda of `least` variables, or as many as there are types."""
        if not isinstance(node, exp.Lambda):
            self.report.fail(node, "a lambda is needed here", hint="Write it as x -> x + 1.")
        self.report.check(node)
        names = [folded(str(n.name)) for n in node.expressions]
        if len(names) not in (least, len(kinds)):
            plural = "" if len(kinds) == 1 else "s"
            said = f"{least}" if least == len(kinds) else f"{least} or {len(kinds)}"
            self.report.fail(
                node, f"the lambda has {len(names)} variable{plural} instead of {said}"
            )
        if len(set(names)) < len(names):
            self.report.fail(node, "two variables of the lambda have one name")
        first = _MOST_VARIABLES * len(self._lambdas)
        made = {
            name: Parameter(first + i, kind, nullable)
            for i, (name, (kind, nullable)) in enumerate(zip(names, kinds, strict=False))
        }
        self._lambdas.append(made)
        try:
            return self.bind(node.this)
        finally:
            self._lambdas.pop()

    def _variable(self, name: str) -> Parameter | None:
        for names in reversed(self._lambdas):
            if folded(name) in names:
                return names[folded(name)]
        return None

    def _identifier(self, node: exp.Expression) -> Expr:
        """What the parser has for a variable of a lambda."""
        found = self._variable(str(node.name))
        if found is None:
            self.report.fail(
                node,
                f'the variable "{node.name}" of a lambda cannot be used here',
                hint="Aggregates, windows and subqueries are computed outside of lambdas.",
            )
        return found

    def _row_by_row(self, node: exp.Expression) -> None:
        """Subqueries and windows are of rows, not of elements."""
        if self._lambdas:
            self.report.fail(
                node,
                f"{describe(node)} is not allowed in a lambda",
                hint="Compute it in a subquery of FROM.",
            )

    # subqueries

    def _comparison(self, node: exp.Expression) -> Expr:
        function, right = COMPARISONS[type(node)], node.expression.unnest()
        if isinstance(right, (exp.Any, exp.All)) and aggregate_name(right) is None:
            self._row_by_row(right)
            return self._quantified(node, function, right)
        row = self._row(node.this)
        if row is not None and function in ("eq", "ne"):
            equal = self._rows_equal(node, row, right)
            return equal if function == "eq" else functions.negation(equal)
        first, second = self._operands(node)
        return functions.compare(function, first, second)

    def _quantified(self, node: exp.Expression, function: str, right: exp.Expression) -> Expr:
        self.report.check(right)
        quantifier = describe(right)
        what = f"{functions.SYMBOLS[function]} {quantifier}"
        if not isinstance(right.this.unnest(), (exp.Query, exp.Values)):
            self.report.refuse(
                node,
                Refusal(
                    f"{quantifier} of a list",
                    "is not a subquery",
                    "Use IN, or a chain of OR or AND.",
                ),
            )
        if function not in functions.INVERSE:
            self.report.refuse(
                node, Refusal(what, "is not among the comparisons", "Use =, <>, <, <=, > or >=.")
            )
        value = self._operand(node.this)
        if isinstance(right, exp.All):
            return self.subqueries.all(function, value, right.this, self.resolver, what)
        return self.subqueries.any(function, (value,), right.this, self.resolver, what)

    def _window(self, node: exp.Expression) -> Expr:
        self._row_by_row(node)
        if self.windows is not None:
            return self.windows.bind(node, self)
        clause = self.aggregates.clause if isinstance(self.aggregates, NoAggregates) else ""
        hint = "Compute it in a subquery of FROM."
        if clause in ("WHERE", ""):
            hint = "Use QUALIFY, or compute it in a subquery of FROM."
        place = f"in {clause}" if clause else "here"
        raise self.report.error(node, f"a window function is not allowed {place}", hint=hint)

    def _exists(self, node: exp.Expression) -> Expr:
        if node.args.get("expression") is not None:
            return LAMBDAS["exists"][2](self, (node.this, node.expression))
        self._row_by_row(node)
        return self.subqueries.exists(node.this, self.resolver)

    def _subquery(self, node: exp.Expression) -> Expr:
        self._row_by_row(node)
        return self.subqueries.scalar(node, self.resolver)

    def clock(self, node: exp.Expression) -> Expr:
        """The time, which passes."""
        kind = CLOCK_NODES.get(type(node)) or CLOCK_NAMES[node.name.lower()]
        scalar = self.subqueries.scalar
        place = self.report.offset(node)
        return clock_value(kind, place, describe(node), lambda q: scalar(q, self.resolver))

    def _row(self, node: exp.Expression) -> list[exp.Expression] | None:
        """The values of (a, b, …), or None."""
        inner = node.unnest()
        if not isinstance(inner, exp.Tuple):
            return None
        self.report.check(inner)
        return list(inner.expressions)

    def _rows_equal(
        self, node: exp.Expression, left: list[exp.Expression], right: exp.Expression
    ) -> Expr:
        """(a, b) = (c, d), column by column: rows are never NULL, and NULL equals NULL in them."""
        values = self._row(right)
        if values is None or len(left) != len(values):
            count = 1 if values is None else len(values)
            self.report.fail(node, f"a row of {len(left)} values is compared with one of {count}")
        pairs = [(self.bind(a), self.bind(b)) for a, b in zip(left, values, strict=True)]
        return functions.chain("and", [functions.compare("eq_null_safe", a, b) for a, b in pairs])

    # constants and names

    def _column(self, node: exp.Expression) -> Expr:
        assert isinstance(node, exp.Column)
        found = self._field_of_column(node)
        if found is not None:
            return found
        check_reference(node, self.report)
        return self.resolver.resolve(node)

    def _field_of_column(self, node: exp.Column) -> Expr | None:
        """[relation.]column.field…, where the column has fields; None for another reference."""
        parts = [node.args.get(p) for p in ("catalog", "db", "table", "this")]
        given = [p for p in parts if isinstance(p, exp.Identifier)]
        if not given or not isinstance(node.this, exp.Identifier):
            return None
        variable = self._variable(given[0].name)
        if variable is not None:
            return self._fields(variable, given[1:], node)
        if len(given) < 2:
            return None
        whole = exp.Column(this=given[1].copy(), table=given[0].copy())
        value, fields = self.resolver.reach(whole), given[2:]
        if value is None:
            value, fields = self.resolver.reach(exp.Column(this=given[0].copy())), given[1:]
        if value is None or not fields or not isinstance(value.type, types.NestedType):
            return None
        return self._fields(value, fields, node)

    def _fields(self, value: Expr, names: Sequence[exp.Identifier], node: exp.Expression) -> Expr:
        self.report.check(node)
        for name in names:
            value = nested.field(value, name.name)
        return value

    def _dot(self, node: exp.Expression) -> Expr:
        name = node.expression
        if not isinstance(name, exp.Identifier):
            self.report.refuse(node, Refusal("this field", "is not a name", "Name one field."))
        self.report.check(name)
        return nested.field(self.bind(node.this), name.name)

    def _bracket(self, node: exp.Expression) -> Expr:
        if len(node.expressions) != 1:
            self.report.fail(node, "one element is taken at a time")
        return nested.item(self.bind(node.this), self.bind(node.expressions[0]))

    def _literal(self, node: exp.Expression) -> Expr:
        return (
            number(node, "", self.report) if not node.is_string else Literal(str(node.this), STRING)
        )

    def _raw_string(self, node: exp.Expression) -> Expr:
        return Literal(str(node.this), STRING)

    def _hex_string(self, node: exp.Expression) -> Expr:
        """A BINARY, by its digits; an odd number of them has a 0 before."""
        digits = str(node.this)
        try:
            return Literal(bytes.fromhex("0" * (len(digits) % 2) + digits), types.BINARY)
        except ValueError:
            self.report.fail(
                node, "a binary literal has digits from 0 to F", hint="Write it as in X'1F'."
            )

    def _boolean(self, node: exp.Expression) -> Expr:
        return Literal(bool(node.this), BOOLEAN)

    def _null(self, node: exp.Expression) -> Expr:
        return Literal(None, types.NULL)

    def _paren(self, node: exp.Expression) -> Expr:
        return self.bind(node.this)

    # arithmetic

    def _neg(self, node: exp.Expression) -> Expr:
        child = node.this
        if isinstance(child, exp.Literal) and not child.is_string:
            self.report.check(child)
            return number(child, "-", self.report)
        if isinstance(child, exp.TryCast) and has_suffix(child.this):
            return self._suffixed(child.this, "-", self._type(child.args["to"]))
        return intervals.negative(self.bind(child))

    def _add(self, node: exp.Expression) -> Expr:
        left, right = self.bind(node.this), self.bind(node.expression)
        if isinstance(right.type, DateType) and isinstance(left.type, IntegerType):
            left, right = right, left
        if isinstance(left.type, DateType) and isinstance(right.type, IntegerType):
            return functions.add_days(left, right)
        return intervals.arithmetic("add", left, right)

    def _sub(self, node: exp.Expression) -> Expr:
        left, right = self.bind(node.this), self.bind(node.expression)
        if isinstance(left.type, DateType) and isinstance(right.type, IntegerType):
            return functions.subtract_days(left, right)
        return intervals.arithmetic("subtract", left, right)

    def _interval(self, node: exp.Expression) -> Literal:
        """An interval as it is written."""
        value, unit = node.args.get("this"), node.args.get("unit")
        if isinstance(value, exp.Literal) and isinstance(unit, (exp.Var, exp.IntervalSpan)):
            self.report.check(unit)
            found = interval_value(str(value.this).strip(), unit)
            if found is not None:
                return found
        raise self.report.refusal(
            node,
            Refusal(
                "this interval",
                "is not a number of one unit, nor 'years-months' or 'days hours:minutes:seconds'",
                "Write intervals as in interval '3' month, and add several one by one.",
            ),
        )

    # logic

    def _and(self, node: exp.Expression) -> Expr:
        return self._chain(node, "and")

    def _or(self, node: exp.Expression) -> Expr:
        return self._chain(node, "or")

    def _chain(self, node: exp.Expression, function: str) -> Expr:
        """Operands of nested ANDs or ORs, without a recursion as deep as there are operands."""
        operands: list[exp.Expression] = []
        rest = node
        while type(rest) is type(node):
            self.report.check(rest)
            operands.append(rest.expression)
            rest = rest.this
        operands.append(rest)
        return functions.chain(function, [self.bind(o) for o in reversed(operands)])

    def _not(self, node: exp.Expression) -> Expr:
        return functions.negation(self.bind(node.this))

    def _distinct_from(self, node: exp.Expression) -> Expr:
        left, right = self._operands(node)
        return functions.negation(functions.compare("eq_null_safe", left, right))

    def _is(self, node: exp.Expression) -> Expr:
        value, what = self._operand(node.this), node.expression
        self.report.check(what)
        if isinstance(what, exp.Null):
            return functions.is_null(value)
        if isinstance(what, exp.Boolean):
            truth = Literal(bool(what.this), BOOLEAN)
            return functions.compare("eq_null_safe", functions.boolean(value, "IS"), truth)
        raise self.report.refusal(
            what, Refusal(f"IS {describe(what)}", "is not read", "Use IS NULL, TRUE or FALSE.")
        )

    def _between(self, node: exp.Expression) -> Expr:
        value = self._operand(node.this)
        low, high = self._operand(node.args["low"]), self._operand(node.args["high"])
        above = functions.compare("ge", value, low)
        return functions.logic("and", above, functions.compare("le", value, high))

    def _in(self, node: exp.Expression) -> Expr:
        query, row = node.args.get("query"), self._row(node.this)
        if node.expressions and isinstance(node.expressions[0], exp.Values):
            query = node.expressions[0]
        if query is not None:
            self._row_by_row(query)
            operands = [self._operand(node.this)] if row is None else [self.bind(e) for e in row]
            return self.subqueries.any("eq", tuple(operands), query, self.resolver, "IN")
        if not node.expressions:
            self.report.fail(node, "IN needs a value", hint="Write IN (a, b, …), or IN (SELECT …).")
        if row is not None:
            return functions.chain("or", [self._rows_equal(node, row, e) for e in node.expressions])
        value = self._operand(node.this)
        return functions.is_in(value, [self.bind(e) for e in node.expressions])

    def _like(self, node: exp.Expression) -> Expr:
        return self._matched(node, Literal("\\", STRING))

    def _escape(self, node: exp.Expression) -> Expr:
        like, escape = node.this, node.expression
        self.report.check(escape)
        if type(like) not in (exp.Like, exp.ILike):
            self.report.fail(node, "ESCAPE belongs to LIKE")
        self.report.check(like)
        if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.this) == 1):
            self.report.fail(escape, "ESCAPE needs a string of one character")
        return self._matched(like, Literal(str(escape.this), STRING))

    def _matched(self, node: exp.Expression, escape: Literal) -> Expr:
        any_case = isinstance(node, exp.ILike)
        value = self._operand(node.this)
        if any_case:
            value = functions.scalar("lower", (value,))
        patterns, several = [node.expression], node.expression
        if isinstance(several, (exp.Any, exp.All)):
            self.report.check(several)
            patterns = self._row(several.this) or [several.this]
        results = []
        for pattern in patterns:
            bound = coercion.cast(self._operand(pattern), STRING)
            if any_case and isinstance(bound, Literal) and isinstance(bound.value, str):
                bound = Literal(bound.value.lower(), STRING)
            elif any_case:
                bound = functions.scalar("lower", (bound,))
            result = functions.scalar("like", (value, bound, escape))
            results.append(functions.negation(result) if node.args.get("negate") else result)
        return functions.chain("and" if isinstance(several, exp.All) else "or", results)

    def _rlike(self, node: exp.Expression) -> Expr:
        return self.rlike(node.this, node.expression)

    def rlike(self, value: exp.Expression, pattern: exp.Expression) -> Expr:
        regex = coercion.cast(self._operand(pattern), STRING)
        if not isinstance(regex, Literal) or regex.value is None:
            self.report.refuse(
                pattern,
                Refusal(
                    "RLIKE with a pattern that is not a string",
                    "would have to be compiled for each row",
                    "Write the pattern as a literal, or use LIKE, contains or startswith.",
                ),
            )
        return functions.scalar("rlike", (self._operand(value), regex))

    # conditionals

    def _case(self, node: exp.Expression) -> Expr:
        subject = self.bind(node.this) if node.args.get("this") else None
        branches = []
        for branch in node.args["ifs"]:
            self.report.check(branch)
            when = self.bind(branch.this)
            if subject is not None:
                when = functions.compare("eq", subject, when)
            branches.append((when, self.argument(branch, "true")))
        otherwise = node.args.get("default")
        last = self.bind(otherwise) if otherwise is not None else None
        return functions.conditional(branches, last, "CASE")

    def _if(self, node: exp.Expression) -> Expr:
        branch = (self.bind(node.this), self.argument(node, "true"))
        return functions.conditional([branch], self.argument(node, "false"), "IF")

    def _nvl2(self, node: exp.Expression) -> Expr:
        present = functions.negation(functions.is_null(self.bind(node.this)))
        branch = (present, self.argument(node, "true"))
        return functions.conditional([branch], self.argument(node, "false"), "NVL2")

    def _coalesce(self, node: exp.Expression) -> Expr:
        return functions.coalesce([self.bind(a) for a in (node.this, *node.expressions)])

    def _nullif(self, node: exp.Expression) -> Expr:
        return functions.null_if(self.bind(node.this), self.bind(node.expression))

    # casts

    def _cast(self, node: exp.Expression) -> Expr:
        target = self._type(node.args["to"])
        if type(node) is exp.Cast and isinstance(node.this, exp.Literal) and node.this.is_string:
            return self._typed_literal(node, target)
        if has_suffix(node.this):
            return self._suffixed(node.this, "", target)
        return coercion.explicit_cast(self.bind(node.this), target, bool(node.args.get("safe")))

    def _suffixed(self, literal: exp.Expression, sign: str, target: SqlType) -> Expr:
        """5L, 5S, 5Y, 1.5D, 1.5F: a literal, where an explicit cast of an integer is none."""
        value = coercion.cast(number(literal, sign, self.report), target)
        if isinstance(target, IntegerType) and not isinstance(value, Literal):
            self.report.fail(literal, f"{sign}{literal.this} is outside the range of {target}")
        return value

    def _typed_literal(self, node: exp.Expression, target: SqlType) -> Expr:
        """DATE '…' and TIMESTAMP '…', which must be valid."""
        literal = coercion.cast(self.bind(node.this), target)
        if isinstance(target, (DateType, TimestampType)) and not isinstance(literal, Literal):
            form = "yyyy-mm-dd" if isinstance(target, DateType) else "yyyy-mm-dd hh:mm:ss.ffffff"
            self.report.fail(
                node, f"'{node.this.this}' is not a {target}", hint=f"Write it as {form}."
            )
        return literal

    def _type(self, node: exp.Expression) -> SqlType:
        self.report.check(node)
        if isinstance(node.this, exp.Interval):
            return self._interval_type(node.this)
        name = str(node.this.name)
        if name in ("ARRAY", "MAP", "STRUCT") and node.expressions:
            return self._nested_type(node, name)
        if name == "DECIMAL":
            sizes = [p.this.sql() for p in node.expressions]
            kind = types.written_decimal(*sizes)
            if kind is None:
                named = shortened(f"DECIMAL({','.join(sizes)})")
                self.report.fail(node, f"there is no type {named}", detail=types.DECIMAL_SIZES)
            return kind
        if name not in CAST_TYPES or node.expressions:
            self.report.refuse(
                node,
                Refusal(
                    f"a cast to {_type_name(node)}",
                    "is not to a type that can be maintained",
                    "Cast to a scalar type.",
                ),
            )
        return CAST_TYPES[name]

    def _interval_type(self, node: exp.Interval) -> SqlType:
        self.report.check(node)
        unit = node.args["unit"]
        span = (unit.this, unit.expression) if isinstance(unit, exp.IntervalSpan) else (unit, unit)
        first, last = (str(u.this).upper() for u in span)
        kind = types.written_interval(first, last)
        if kind is None:
            self.report.fail(node, f"there is no type INTERVAL {first} TO {last}")
        return kind

    def _nested_type(self, node: exp.Expression, name: str) -> SqlType:
        parts = node.expressions
        if name == "ARRAY":
            return types.ArrayType(self._type(parts[0]))
        if name == "MAP":
            return types.MapType(self._type(parts[0]), self._type(parts[1]))
        for part in parts:
            self.report.check(part)
        return types.StructType(
            tuple(types.Field(p.name, self._type(p.args["kind"])) for p in parts)
        )

    def _to_date(self, node: exp.Expression) -> Expr:
        return coercion.explicit_cast(self.bind(node.this), DATE, False)


def _type_name(node: exp.Expression) -> str:
    if not node.expressions:
        return str(node.this.name)
    if node.args.get("nested"):
        return f"{node.this.name}<…>"
    return f"{node.this.name}({shortened(', '.join(e.name for e in node.expressions))})"


_Method = Callable[[Scalars, exp.Expression], Expr]
_METHODS: dict[type[exp.Expression], _Method] = {
    exp.Column: Scalars._column,
    exp.Identifier: Scalars._identifier,
    exp.Literal: Scalars._literal,
    exp.RawString: Scalars._raw_string,
    exp.Boolean: Scalars._boolean,
    exp.HexString: Scalars._hex_string,
    exp.Null: Scalars._null,
    exp.Paren: Scalars._paren,
    exp.Neg: Scalars._neg,
    exp.Interval: Scalars._interval,
    exp.Add: Scalars._add,
    exp.Sub: Scalars._sub,
    exp.And: Scalars._and,
    exp.Or: Scalars._or,
    exp.Not: Scalars._not,
    exp.NullSafeNEQ: Scalars._distinct_from,
    exp.Is: Scalars._is,
    exp.Between: Scalars._between,
    exp.In: Scalars._in,
    exp.Like: Scalars._like,
    exp.ILike: Scalars._like,
    exp.Exists: Scalars._exists,
    exp.Subquery: Scalars._subquery,
    exp.Select: Scalars._subquery,
    exp.Escape: Scalars._escape,
    exp.RegexpLike: Scalars._rlike,
    exp.Window: Scalars._window,
    exp.Case: Scalars._case,
    exp.If: Scalars._if,
    exp.Nvl2: Scalars._nvl2,
    exp.Coalesce: Scalars._coalesce,
    exp.Nullif: Scalars._nullif,
    exp.Dot: Scalars._dot,
    exp.Bracket: Scalars._bracket,
    exp.Cast: Scalars._cast,
    exp.TryCast: Scalars._cast,
    exp.TsOrDsToDate: Scalars._to_date,
    **dict.fromkeys(CLOCK_NODES, Scalars.clock),
}


def is_constant(expr: Expr) -> bool:
    """Whether the expression reads no column of its own query."""
    match expr:
        case Literal() | Outer():
            return True
        case Call(args=args):
            return all(is_constant(a) for a in args)
        case _:
            return False
