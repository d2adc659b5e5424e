"""Errors of the binder, and the check that nothing of a syntax tree goes unread.

Invariant: every node that the binder visits passes `Report.check`, which knows the arguments that
the binder reads of each type of node. Any other argument that is set, and any other type of node,
is refused by name: what is not understood is never ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, cast

from sqlglot import exp

from planner.bind.nodes import PeriodEdge
from planner.bind.refused import BY_NAME
from planner.errors import BindError, UnsupportedError
from planner.parse import line_and_column, offset_of, written_name
from planner.parse.tokens import lexemes


def _table(*rows: tuple[type[exp.Expression], str]) -> dict[type[exp.Expression], frozenset[str]]:
    return {kind: frozenset(names.split()) for kind, names in rows}


_CLAUSES = "expressions order limit offset with_"
#: What the binder reads of each node, and flags that say nothing beyond Spark's meaning.
_READ = _table(
    # queries
    (
        exp.Select,
        f"{_CLAUSES} from_ joins laterals where group having qualify windows distinct",
    ),
    (exp.Qualify, "this"),
    (exp.Window, "this partition_by order spec over alias"),
    (exp.WindowSpec, "kind start start_side end end_side"),
    *(
        (k, "this expression distinct order limit offset with_")
        for k in (exp.Union, exp.Intersect, exp.Except)
    ),
    (exp.Values, f"{_CLAUSES} alias"),
    (exp.Tuple, "expressions"),
    (exp.Subquery, "this alias joins order limit offset with_"),
    (exp.With, "expressions recursive"),
    (exp.CTE, "this alias materialized"),
    (exp.Lateral, "this alias view outer ordinality"),
    (exp.TableAlias, "this columns"),
    (exp.From, "this"),
    (exp.Table, "this db catalog alias joins"),
    (exp.Join, "this side kind method on using"),
    (exp.Where, "this"),
    (exp.Having, "this"),
    (exp.Group, "expressions rollup cube grouping_sets all"),
    (exp.Rollup, "expressions"),
    (exp.Cube, "expressions"),
    (exp.GroupingSets, "expressions"),
    (exp.Grouping, "expressions"),
    (exp.GroupingId, "expressions"),
    (exp.Distinct, "expressions"),
    (exp.Order, "this expressions"),
    (exp.Ordered, "this desc nulls_first"),
    (exp.Limit, "expression"),
    (exp.Offset, "expression"),
    (exp.Alias, "this alias"),
    (exp.Aliases, "this expressions"),
    (exp.Star, "except_"),
    # names and constants
    (exp.Column, "this table db catalog"),
    (exp.Identifier, "this quoted"),
    (exp.Literal, "this is_string"),
    (exp.RawString, "this"),
    (exp.Boolean, "this"),
    (exp.Null, ""),
    (exp.Var, "this"),
    (exp.Paren, "this"),
    (exp.Interval, "this unit"),
    (exp.IntervalSpan, "this expression"),
    (exp.DataType, "this expressions nested"),
    (exp.DataTypeParam, "this"),
    (exp.ColumnDef, "this kind"),
    (exp.Dot, "this expression"),
    (exp.Bracket, "this expressions"),
    # operators
    *((k, "this expression") for k in (exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod)),
    (exp.Div, "this expression typed safe"),
    (exp.DPipe, "this expression safe"),
    *((k, "this expression") for k in (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)),
    *((k, "this expression") for k in (exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.Is)),
    (exp.Not, "this"),
    (exp.Neg, "this"),
    (exp.Between, "this low high"),
    (exp.In, "this expressions query"),
    (exp.Exists, "this expression"),
    (exp.Lambda, "this expressions"),
    (exp.Any, "this"),
    (exp.All, "this"),
    (exp.Like, "this expression negate"),
    (exp.ILike, "this expression negate"),
    (exp.Escape, "this expression"),
    (exp.RegexpLike, "this expression"),
    (exp.Case, "this ifs default"),
    (exp.If, "this true false"),
    (exp.Cast, "this to"),
    (exp.TryCast, "this to safe"),
    # functions
    (exp.Anonymous, "this expressions"),
    (exp.Coalesce, "this expressions"),
    (exp.Nullif, "this expression"),
    (exp.Nvl2, "this true false"),
    (exp.Extract, "this expression"),
    *((k, "this") for k in (exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.Quarter)),
    *((k, "this") for k in (exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear)),
    *((k, "this") for k in (exp.Hour, exp.Minute, exp.Second)),
    (exp.TsOrDsToDate, "this safe"),
    (PeriodEdge, "this slide offset back"),
    *((k, "") for k in (exp.CurrentTimestamp, exp.CurrentDate, exp.Localtimestamp)),
    (exp.TsOrDsAdd, "this expression unit"),
    *((k, "this expression unit") for k in (exp.DateDiff, exp.TimestampDiff, exp.TimestampAdd)),
    (exp.AddMonths, "this expression"),
    (exp.TimestampTrunc, "this unit"),
    (exp.DateTrunc, "this unit"),
    (exp.Substring, "this start length"),
    (exp.Left, "this expression"),
    (exp.Upper, "this"),
    (exp.Lower, "this"),
    (exp.Trim, "this position expression"),
    (exp.Chr, "expressions charset"),
    (exp.Initcap, "this expression"),
    (exp.StrPosition, "this substr position"),
    (exp.Right, "this expression"),
    (exp.Sign, "this"),
    (exp.Negative, "this"),
    (exp.LastDay, "this"),
    (exp.IsNan, "this"),
    (exp.Length, "this"),
    (exp.Concat, "expressions safe coalesce"),
    (exp.Replace, "this expression replacement"),
    (exp.SplitPart, "this delimiter part_index"),
    (exp.StartsWith, "this expression"),
    (exp.EndsWith, "this expression"),
    (exp.Contains, "this expression"),
    (exp.Round, "this decimals"),
    (exp.Floor, "this decimals"),
    (exp.Ceil, "this decimals"),
    (exp.HexString, "this"),
    (exp.Abs, "this"),
    (exp.Sqrt, "this"),
    (exp.Pow, "this expression"),
    (exp.Greatest, "this expressions ignore_nulls"),
    (exp.Least, "this expressions ignore_nulls"),
    (exp.Overlay, "this expression from_ for_"),
    (exp.Decode, "this charset"),
    (exp.DecodeCase, "expressions"),
    *((k, "this expression") for k in (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)),
    *((k, "this expression") for k in (exp.BitwiseLeftShift, exp.BitwiseRightShift)),
    (exp.BitwiseNot, "this"),
    # aggregates
    (exp.Count, "this expressions big_int"),
    (exp.ApproxDistinct, "this accuracy"),
    *((k, "this expressions") for k in (exp.Min, exp.Max)),
    *((k, "this") for k in (exp.Sum, exp.Avg, exp.AnyValue, exp.CountIf)),
    *((k, "this") for k in (exp.LogicalAnd, exp.LogicalOr)),
    *((k, "this") for k in (exp.Stddev, exp.StddevSamp, exp.StddevPop)),
    *((k, "this") for k in (exp.Variance, exp.VariancePop)),
    *((k, "") for k in (exp.RowNumber, exp.CumeDist)),
    *((k, "expressions") for k in (exp.Rank, exp.DenseRank, exp.PercentRank)),
    *((k, "this") for k in (exp.Ntile, exp.First, exp.FirstValue, exp.Last, exp.LastValue)),
    *((k, "this offset default") for k in (exp.Lag, exp.Lead)),
    (exp.NthValue, "this offset"),
    (exp.ArrayAgg, "this nulls_excluded"),
    (exp.ArrayUniqueAgg, "this"),
    (exp.Filter, "this expression"),
    (exp.WithinGroup, "this expression"),
    *((k, "this") for k in (exp.Median, exp.PercentileCont, exp.PercentileDisc)),
    (exp.Quantile, "this quantile"),
    (exp.Mode, "this deterministic"),
    (exp.GroupConcat, "this separator"),
    *((k, "this expression") for k in (exp.ArgMax, exp.ArgMin)),
    *((k, "this") for k in (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)),
    *((k, "this") for k in (exp.Skewness, exp.Kurtosis)),
    *((k, "this expression") for k in (exp.CovarPop, exp.CovarSamp, exp.Corr)),
    *((k, "this expression") for k in (exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy, exp.RegrR2)),
    *((k, "this expression") for k in (exp.RegrSlope, exp.RegrIntercept)),
    *((k, "this expression") for k in (exp.RegrSxx, exp.RegrSyy, exp.RegrSxy)),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not maintained, and what to do instead. `why` continues "… at line 1"."""

    what: str
    why: str
    hint: str


_LATER = "Compute it when reading the view."
_CHANGING = Refusal(
    "",
    "has another value each time it is asked, while a view changes only with its tables",
    "Write the value as a literal, or filter by it when reading the view.",
)
_RANDOM = Refusal(
    "",
    "gives another value each time it is evaluated, so its row could not be found again to delete",
    "Compute it where the rows are made, or when reading the view.",
)

_NODES: dict[type[exp.Expression], Refusal] = {
    exp.Array: Refusal(
        "ARRAY(…)[…]", "is misread by the parser", "Put parentheses around it: (array(…))[0]."
    ),
    exp.Tuple: Refusal(
        "a row of several values", "is not of a scalar type", "Compare the columns one by one."
    ),
    exp.Fetch: Refusal("FETCH", "is not part of Spark SQL", "Use LIMIT."),
    exp.Star: Refusal("* in an expression", "stands for several columns", "Name the columns."),
    **dict.fromkeys(
        (exp.Placeholder, exp.Parameter),
        Refusal(
            "a parameter",
            "has no value in a view",
            "Write the value, or a query with :name for Session.prepare.",
        ),
    ),
    **dict.fromkeys((exp.CurrentTime, exp.CurrentUser), _CHANGING),
    **dict.fromkeys((exp.Rand, exp.Randn, exp.Uuid), _RANDOM),
    **dict.fromkeys(
        (exp.First, exp.Last, exp.FirstValue, exp.LastValue),
        Refusal(
            "",
            "depends on the order of the rows, and a table has none",
            "Use min_by(x, y) or max_by(x, y), which say by what, or any_value(x).",
        ),
    ),
    exp.IgnoreNulls: Refusal(
        "IGNORE NULLS",
        "belongs to aggregates that depend on the order of the rows, or ignore NULL anyway",
        "Use min_by(x, y) or max_by(x, y), which say by what, or any_value(x).",
    ),
}

#: Functions that sqlglot does not know as such.
CHANGING_FUNCTIONS = {
    **dict.fromkeys(
        "now curdate current_database current_catalog current_schema "
        "current_timezone session_user user version".split(),
        _CHANGING,
    ),
    **dict.fromkeys("random shuffle monotonically_increasing_id".split(), _RANDOM),
}

_ARGUMENTS: dict[str, Refusal] = {
    "hint": Refusal("a hint", "would have no effect", "Leave it out."),
    "sample": Refusal("TABLESAMPLE", "picks rows at random", "Use a filter."),
    "distribute": Refusal("DISTRIBUTE BY", "would have no effect", "Leave it out."),
    "sort": Refusal("SORT BY", "sorts within partitions only", "Use ORDER BY."),
    "cluster": Refusal("CLUSTER BY", "would have no effect", "Leave it out."),
    "decimals": Refusal(
        "a number of digits", "is an argument of ROUND alone", "Use ROUND, or leave it out."
    ),
    "version": Refusal(
        "a table as of an earlier version", "never changes", "Read the table itself."
    ),
    "replace": Refusal("* REPLACE", "changes columns by name", "Name the columns."),
    "format": Refusal("a format", "is not read", "Cast without a format."),
    "into": Refusal("SELECT INTO", "makes a table", "Use CREATE MATERIALIZED VIEW."),
    "locks": Refusal("FOR UPDATE", "locks rows", "Leave it out."),
    "on": Refusal("DISTINCT ON", "is not part of Spark SQL", "Use ORDER BY … LIMIT."),
    "by_name": Refusal("UNION BY NAME", "matches columns by name", "List the columns in order."),
}


class Report:
    """Makes errors that say where in `source` they are."""

    def __init__(self, source: str) -> None:
        self.source = source

    def place(self, node: exp.Expression) -> tuple[int, int]:
        """Line and column of the node, its first positioned descendant, or what is around it."""
        return line_and_column(self.source, self.offset(node))

    def offset(self, node: exp.Expression) -> int:
        """`place` as an offset in the text."""
        around: exp.Expression | None = node
        while around is not None:
            offset = offset_of(around)
            if offset is not None:
                return offset
            named = self._named(around) if isinstance(around, exp.Func) else None
            if named is not None:
                return named
            around = cast("exp.Expression | None", around.parent)
        return len(self.source) - len(self.source.lstrip())

    def _named(self, function: exp.Expression) -> int | None:
        """Where a function without arguments and place, such as CURRENT_DATE, is first named."""
        name = describe(function)
        for token in lexemes(self.source):
            if token.kind == "word" and token.word == name:
                return token.start
        return None

    def error(
        self,
        node: exp.Expression,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
    ) -> BindError:
        line, column = self.place(node)
        return BindError(message, detail=detail, hint=hint, line=line, column=column)

    def fail(
        self,
        node: exp.Expression,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        raise self.error(node, message, detail, hint)

    def refusal(
        self,
        node: exp.Expression,
        refusal: Refusal,
        kind: type[UnsupportedError] = UnsupportedError,
    ) -> UnsupportedError:
        """Valid SQL that is not maintained."""
        line, column = self.place(node)
        shown = refusal.what[0].upper() + refusal.what[1:]
        return kind(
            f"cannot maintain {refusal.what}",
            detail=f"{shown} at line {line}, column {column} {refusal.why}.",
            hint=refusal.hint,
            line=line,
            column=column,
        )

    def refuse(self, node: exp.Expression, refusal: Refusal) -> NoReturn:
        raise self.refusal(node, refusal)

    def check(self, node: exp.Expression) -> None:
        """Refuse the node if it, or one of its arguments, is not among what the binder reads."""
        read = _READ.get(type(node))
        if read is None:
            self.refuse(node, refusal_of(node))
        for name, value in node.args.items():
            if name in read or value is None or value is False or value in ([], ""):
                continue
            refusal = _ARGUMENTS.get(name)
            if refusal is None:
                clause = name.strip("_").replace("_", " ").upper()
                refusal = Refusal(
                    f"{clause} in {describe(node)}",
                    "is not among what the view language has",
                    "Leave it out.",
                )
            first = value[0] if isinstance(value, list) else value
            self.refuse(first if isinstance(first, exp.Expression) else node, refusal)


def describe(node: exp.Expression) -> str:
    """A node as the user called it: COUNT_IF, ARRAY_AGG, BITWISE AND."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper()
    written = written_name(node)
    if written is not None:
        return written.upper()
    if isinstance(node, exp.Func):
        return node.sql_name().upper()
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def refusal_of(node: exp.Expression) -> Refusal:
    """Why a node that the binder has no meaning for is not maintained."""
    name = describe(node)
    refusal = _NODES.get(type(node))
    if refusal is not None:
        return refusal if refusal.what else Refusal(f"{name}", refusal.why, refusal.hint)
    if isinstance(node, exp.Func) and name.lower() in BY_NAME:
        return Refusal(f"the function {name}", BY_NAME[name.lower()], _LATER)
    if isinstance(node, exp.AggFunc):
        return Refusal(
            f"the aggregate {name}",
            "cannot be kept up from the changes of its group alone",
            "Use another aggregate, or compute it when reading the view.",
        )
    kind = "the function " if isinstance(node, exp.Func) else ""
    return Refusal(f"{kind}{name}", "is not among what the view language has", _LATER)
