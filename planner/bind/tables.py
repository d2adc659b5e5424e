"""What the scalar binder knows of sqlglot's nodes, names and units."""

from __future__ import annotations

from sqlglot import exp

from planner.calculus import types
from planner.calculus.expr import Literal
from planner.calculus.types import INT, SqlType

CHAINED = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Escape,
    exp.RegexpLike,
    exp.Not,
)
ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "integral_divide",
    exp.Mod: "remainder",
}
COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "eq_null_safe",
}
#: Functions whose arguments are these arguments of the node, in turn.
PLAIN: dict[type[exp.Expression], tuple[str, tuple[str, ...]]] = {
    exp.Year: ("year", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)),
    exp.DayOfWeek: ("day_of_week", ("this",)),
    exp.DayOfYear: ("day_of_year", ("this",)),
    exp.WeekOfYear: ("week", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Pow: ("power", ("this", "expression")),
    exp.AddMonths: ("add_months", ("this", "expression")),
}
_AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Sum: "sum",
    exp.Count: "count",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.AnyValue: "any_value",
    exp.CountIf: "count_if",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Median: "median",
    exp.Quantile: "percentile",
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.Mode: "mode",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.GroupConcat: "listagg",
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
    exp.RegrCount: "regr_count",
    exp.RegrAvgx: "regr_avgx",
    exp.RegrAvgy: "regr_avgy",
    exp.RegrR2: "regr_r2",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
    exp.Grouping: "grouping",
    exp.GroupingId: "grouping_id",
}
#: Aggregates that sqlglot leaves by their name.
NAMED_AGGREGATES = {
    "every": "bool_and",
    "some": "bool_or",
    "std": "stddev_samp",
    "mean": "avg",
    "percentile_approx": "percentile_approx",
    "approx_percentile": "percentile_approx",
    **{
        name: name
        for name in "try_sum try_avg bitmap_construct_agg bitmap_or_agg bitmap_and_agg "
        "collect_union".split()
    },
}


def aggregate_name(node: exp.Expression) -> str | None:
    """Which aggregate the node is, if it is one."""
    if isinstance(node, exp.Anonymous):
        return NAMED_AGGREGATES.get(str(node.this).lower())
    if isinstance(node, exp.WithinGroup):
        return aggregate_name(node.this)
    if isinstance(node, exp.Any) and isinstance(node.this, exp.Paren):
        return None if isinstance(node.this.unnest(), (exp.Query, exp.Values)) else "bool_or"
    return _AGGREGATES.get(type(node))


EXTRACT = {
    **dict.fromkeys(("YEAR", "YEARS", "Y", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MONTHS", "MON", "MONS"), "month"),
    **dict.fromkeys(("WEEK", "WEEKS", "W"), "week"),
    **dict.fromkeys(("DAY", "DAYS", "D"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "day_of_week"),
    "DOY": "day_of_year",
    **dict.fromkeys(("HOUR", "HOURS", "H", "HR", "HRS"), "hour"),
    **dict.fromkeys(("MINUTE", "MINUTES", "MIN", "MINS", "M"), "minute"),
    **dict.fromkeys(("SECOND", "SECONDS", "SEC", "SECS", "S"), "second_fraction"),
}
TRUNC_DATE = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MON", "MM"), "month"),
    "WEEK": "week",
}
TRUNC_TIMESTAMP = {
    **TRUNC_DATE,
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
CAST_TYPES: dict[str, SqlType] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": types.DOUBLE,
    "TEXT": types.STRING,
    "BINARY": types.BINARY,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMPTZ": types.TIMESTAMP,
    "TIMESTAMPLTZ": types.TIMESTAMP,
    "TIMESTAMPNTZ": types.TIMESTAMP_NTZ,
}
TO_THE_END = Literal(2**31 - 1, INT)
