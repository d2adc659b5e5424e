"""The logical algebra: what a query means, before any decision on how to maintain it.

Small immutable nodes that check themselves when built. Columns are positions; `schema` names them
for display. Bags throughout: a relation is a multiset of rows.

Nodes: Scan, Values, Filter, Project, Join (n-way, inner), OuterJoin, SemiJoin, MarkJoin, Aggregate,
UnionAll, Repeat, Explode, TopK, Window, Retain, SingleRow, Apply (a subquery in an expression),
Recursive and RecursiveRef (WITH RECURSIVE); made by the planner: Minus, Keep, Threshold, Timeline.

DISTINCT is an `Aggregate` without aggregates; INTERSECT and EXCEPT are
aggregates over a UNION ALL of tagged rows; a CTE used twice is the same subtree twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from planner.calculus.expr import Column, Expr, Literal, columns_used
from planner.calculus.node import node
from planner.calculus.types import BOOLEAN, INT, ArrayType, Field, Schema, SqlType

#: Of a bitmap of BITMAP_CONSTRUCT_AGG.
BITMAP_BYTES = 4096
#: Where rows of a recursion do not end: behind every round.
FOREVER = 1 << 40
#: Labels that wait for rounds (planner.analysis.priority): so many for each of a label's bits, and
#: at most.
LABEL_ROUNDS = 64
MOST_DELAY = 64 * LABEL_ROUNDS


@node
class Scan:
    """All columns of a table, view or `stream` of the catalog, by its canonical name."""

    relation: str
    schema: Schema = field(hash=False)
    stream: bool = False


@node
class Filter:
    """Rows for which `predicate` is TRUE."""

    input: Plan
    predicate: Expr

    def __post_init__(self) -> None:
        if self.predicate.type != BOOLEAN:
            raise ValueError(f"a filter needs BOOLEAN, not {self.predicate.type}")
        _check_columns(self.input.schema, self.predicate)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class Project:
    """One output column per expression; `schema` carries the display names."""

    input: Plan
    exprs: tuple[Expr, ...]
    schema: Schema = field(hash=False)

    def __post_init__(self) -> None:
        if tuple(e.type for e in self.exprs) != tuple(f.type for f in self.schema):
            raise ValueError("the types of a projection differ from its schema")
        _check_columns(self.input.schema, *self.exprs)


@node
class Join:
    """Inner join of all inputs: rows of the product for which `predicate` is TRUE.

    Columns are those of the inputs one after the other. `predicate` None is the whole product.
    """

    inputs: tuple[Plan, ...]
    predicate: Expr | None

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ValueError("a join has at least two inputs")
        if self.predicate is not None:
            _check_columns(self.schema, self.predicate)

    @property
    def schema(self) -> Schema:
        return tuple([f for i in self.inputs for f in i.schema])


@node
class AggregateCall:
    """`function` is sum, count, count_rows, avg, min, max, any_value (the least value, so that it
    is deterministic), stddev_samp, stddev_pop, var_samp or var_pop (DOUBLE; of numbers), or one of
    RECOMPUTED; `arg` is None for count_rows alone. `distinct`: of the distinct values of arg.
    FILTER clauses, BOOL_AND and BOOL_OR, COUNT_IF are expressed by these on a CASE.

    Of RECOMPUTED alone: `more` arguments, an `order` whose columns are positions in `args`, and
    `parameters`, which are constants.
    """

    function: str
    arg: Expr | None
    type: SqlType
    nullable: bool
    distinct: bool = False
    more: tuple[Expr, ...] = ()
    order: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()

    @property
    def args(self) -> tuple[Expr, ...]:
        """All arguments; none for count_rows."""
        return () if self.arg is None else (self.arg, *self.more)

    def over(self, change: Callable[[Expr], Expr]) -> AggregateCall:
        """The call of changed arguments; the same object if none changes."""
        new = tuple(change(a) for a in self.args)
        if all(a is b for a, b in zip(new, self.args, strict=True)):
            return self
        return replace(self, arg=new[0], more=new[1:])


#: Aggregates without a state that a change could be added to or taken from: they are computed anew
#: from all rows of a group. Each takes a group's rows without NULL in an argument, but where it
#: says otherwise; all are NULL where there is none. Those that are DOUBLE take any numbers.
#:
#:     percentile_cont  DOUBLE; parameter p: between the two values around rank p * (n - 1)
#:     percentile_disc  DOUBLE; parameter p: the value at rank p * n, rounded up
#:     mode             the most frequent value; of several the first in `order`
#:     max_by, min_by   arg, which may be NULL, of the row with the greatest or least second
#:                      argument; of several rows the least arg, NULL last
#:     listagg          the texts in `order` (whose arguments may be NULL), then ascending, with the
#:                      parameter, a separator, in between
#:     collect_list     an ARRAY of the values, ascending
#:     collect_union    an ARRAY of the distinct elements of ARRAYs that are not NULL, ascending
#:     bit_and, bit_or, bit_xor      of integers
#:     bitmap_construct_agg          BINARY of BITMAP_BYTES: the bits at the values, from 0 on
#:     bitmap_or_agg, bitmap_and_agg   of BINARY, each as if zeros followed to BITMAP_BYTES
#:     skewness, kurtosis            DOUBLE
#:     covar_pop, covar_samp, corr   DOUBLE; of two arguments
#:     regr_…                        DOUBLE; of y and x
#:
#: `order` is by the one argument, ascending or descending, for percentiles and mode.
RECOMPUTED = frozenset(
    "percentile_cont percentile_disc mode max_by min_by listagg collect_list collect_union "
    "bitmap_construct_agg bitmap_or_agg bitmap_and_agg bit_and bit_or "
    "bit_xor skewness kurtosis covar_pop covar_samp corr regr_r2 regr_slope regr_intercept "
    "regr_sxx regr_syy regr_sxy".split()
)


@node
class Aggregate:
    """GROUP BY `keys`; output is the keys, then the aggregates.

    Without keys there is always exactly one output row. NULL keys form a group.
    """

    input: Plan
    keys: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    schema: Schema = field(hash=False)

    def __post_init__(self) -> None:
        if len(self.schema) != len(self.keys) + len(self.aggregates):
            raise ValueError("the schema of an aggregate names its keys and its aggregates")
        _check_columns(self.input.schema, *self.keys)
        _check_columns(self.input.schema, *(e for a in self.aggregates for e in a.args))


@node
class UnionAll:
    """The rows of all inputs."""

    inputs: tuple[Plan, ...]
    schema: Schema = field(hash=False)

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ValueError("a UNION ALL has at least two inputs")
        for i in self.inputs:
            if _types(i.schema) != _types(self.schema):
                raise ValueError("the inputs of UNION ALL have the types of its schema")


@node
class Minus:
    """The rows of `input` but those of `part`, each of which is a row of it, as often as it is
    there (planner-made: what has no match is all rows minus the matched). So it is told by sign,
    and nothing is stored for it.
    """

    input: Plan
    part: Plan

    def __post_init__(self) -> None:
        if _types(self.part.schema) != _types(self.input.schema):
            raise ValueError("what is taken away has the types of what it is taken from")

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class Keep:
    """The rows of `input`, stored once for all who read them (planner-made: a selective join whose
    rows several others look up). A join does not dissolve into another one across it.
    """

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class SortKey:
    """ORDER BY one column of the input. Defaults are Spark's: NULLS FIRST when ascending."""

    column: int
    descending: bool = False
    nulls_first: bool = True


@node
class TopK:
    """The rows at positions [offset, offset + limit) in the order of `order`.

    Ties in `order` are broken by the columns `ties` in turn, ascending, NULLs first; rows that are
    still equal there are equal in all columns, or in all that are read of the result. The order
    itself is not part of the result.
    With `partition`, those rows of every group of rows that are equal in these columns (NULL is
    equal to NULL).
    """

    input: Plan
    order: tuple[SortKey, ...]
    ties: tuple[int, ...]
    limit: int
    offset: int = 0
    partition: tuple[int, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class FrameEnd:
    """Where the frame of a row begins or ends, in its partition. `kind`:

    edge    the partition's first row; as an end its last
    peers   the first of the rows that are equal to it in `order`; as an end the last
    rows    the row `offset` rows behind it; before it where that is negative
    value   the first row whose order key is not before the value of column `offset` in this row; as
            an end the last whose is not behind it
    """

    kind: str
    offset: int = 0


@node
class Frame:
    """The rows from `start` to `end`, both included; none where they meet none."""

    start: FrameEnd
    end: FrameEnd

    def moved(self, at: Mapping[int, int]) -> Frame:
        """The frame over columns that are elsewhere."""
        ends = (self.start, self.end)
        return Frame(*(replace(e, offset=at[e.offset]) if e.kind == "value" else e for e in ends))


#: The frame of all rows of the partition.
WHOLE = Frame(FrameEnd("edge"), FrameEnd("edge"))


@node
class WindowCall:
    """A column of a `Window`: `function` is an aggregate (see AggregateCall) over the frame's rows,
    or one of RANKED; `args` are columns of its input, `order` of an aggregate counts in them.

    row_number, rank, dense_rank, ntile (a parameter)  INT, from 1; percent_rank, cume_dist: DOUBLE
    shift         args[0] in the row that is the parameter behind this one (negative: before it);
                  where there is none args[1], if there is one, of this row, else NULL
    session_start args[0], the one order key, never NULL, of the first row of its session: of rows
                  each at most the parameter, microseconds, behind the one before
    first_value, last_value, nth_value (a parameter, from 1)   args[0] in that row of the frame

    `ignore_nulls`, of shift and the last line: rows with NULL in args[0] are not counted.
    """

    function: str
    args: tuple[int, ...]
    type: SqlType
    nullable: bool
    frame: Frame = WHOLE
    order: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()
    ignore_nulls: bool = False

    def moved(self, at: Mapping[int, int]) -> WindowCall:
        """The call over columns that are elsewhere, `at` their new positions."""
        args = tuple(at[a] for a in self.args)
        return replace(self, args=args, frame=self.frame.moved(at))


#: What a window computes of a row's place, rather than of a frame's values.
RANKED = frozenset(
    "row_number rank dense_rank percent_rank cume_dist ntile shift session_start first_value "
    "last_value nth_value".split()
)


@node
class Window:
    """The rows of `input`, with one more column for each of `calls`: of the row's partition, the
    rows that are equal in the columns `partition` (NULL is equal to NULL), in the order of `order`.

    Ties in `order` are broken as in TopK, by the columns `ties`; rows that are equal there too are
    equal in all columns. What is of peers or of values is by `order` alone.
    """

    input: Plan
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    ties: tuple[int, ...]
    calls: tuple[WindowCall, ...]

    @property
    def schema(self) -> Schema:
        made = tuple(Field(c.function, c.type, c.nullable) for c in self.calls)
        return (*self.input.schema, *made)


@node
class Values:
    """Constant rows: rows[i][j] is a literal of column j."""

    rows: tuple[tuple[Literal, ...], ...]
    schema: Schema = field(hash=False)


@node
class Repeat:
    """Each row `count` times (a BIGINT column, not NULL; 0 or less drops the row)."""

    input: Plan
    count: int

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class Explode:
    """Each row once for each element of its column `array`, an ARRAY, with the position of the
    element (INT, from 0) and the element behind its columns; both NULL, once, where there is none
    and `outer` is set."""

    input: Plan
    array: int
    outer: bool

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, *element_fields(self.input.schema[self.array].type, self.outer))


@node
class OuterJoin:
    """LEFT or FULL outer join; a RIGHT join is a LEFT join with its inputs exchanged.

    `condition` (over the columns of left, then right; None: always true) decides which pairs match;
    a row without a match comes once, the other side's columns NULL. Those are nullable in `schema`.
    """

    left: Plan
    right: Plan
    full: bool
    condition: Expr | None

    @property
    def schema(self) -> Schema:
        left = nullable(self.left.schema) if self.full else self.left.schema
        return left + nullable(self.right.schema)


@node
class SemiJoin:
    """Rows of `left` for which some row of `right` makes `condition` TRUE; `anti`: for which none
    does. `condition` is over the columns of left, then right (None: always true)."""

    left: Plan
    right: Plan
    condition: Expr | None
    anti: bool

    @property
    def schema(self) -> Schema:
        return self.left.schema


@node
class MarkJoin:
    """Rows of `left` with one more BOOLEAN column, never NULL: whether a SemiJoin would keep it."""

    left: Plan
    right: Plan
    condition: Expr | None
    name: str

    @property
    def schema(self) -> Schema:
        return (*self.left.schema, Field(self.name, BOOLEAN, False))


@node
class Retain:
    """What became of the events of a stream: the rows that `input` gave at each epoch since the
    view was installed, over the events and the tables of that epoch, all together. Made by
    planner.analysis.streams; nothing moves across it that is not a function of one row."""

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class SingleRow:
    """At most one row per value of the columns `keys`: where there are more, the view that reads
    them is in error (SCALAR_SUBQUERY_TOO_MANY_ROWS) until they are one."""

    input: Plan
    keys: tuple[int, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class Threshold:
    """Rows of `input` whose column `column` compares by `comparison` (lt, le, gt, ge) with column
    `scalar` of the row of `bound` whose columns `keys` equal the row's columns `partition`; rows
    without one, or with NULL on either side, are left out. `bound` has at most one row a key."""

    input: Plan
    bound: Plan
    column: int
    comparison: str
    scalar: int
    partition: tuple[int, ...]
    keys: tuple[int, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@node
class RecursiveRef:
    """The rows of the recursive relation `number`, inside its own body, whose `all` and
    `marks` it has. `line` and `column`: where the text names it, for errors."""

    number: int
    name: str = field(hash=False, compare=False)
    schema: Schema = field(hash=False)
    all: bool = False
    marks: int = 0
    line: int = field(hash=False, compare=False, default=0)
    column: int = field(hash=False, compare=False, default=0)


@node
class Timeline:
    """An `Aggregate` by `keys`, one at least, inside of a recursion, in every round: the last two
    columns of `input`, and of this, are the rounds [from, to) in which a row is there. A group has
    a row for each stretch of rounds through which it has the same values. Made by
    planner.rewrite.rules.carry_rounds."""

    input: Plan
    keys: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    schema: Schema = field(hash=False)


@node
class Recursive:
    """WITH RECURSIVE: the rows that `body` gives, round by round, over its own rows of the round
    before (`RecursiveRef` of the same number), none before round 0; at most `limit` rounds.

    `all`: UNION ALL, the rows of each round once for each way to them; the body reads itself once.
    Otherwise the set of rows that the body makes of the round before's, once that is the same set;
    of a monotone body the least one.
    `turns`: of relations over each other, all rows of which are the rows of this one, so many take
    turns in a round; the first column says whose a row is, from 0 on. Rounds are those turns
    from here on.
    `marks`: so many columns of BIGINT the body has besides, behind the others: none; the first
    round of a row, which is all that there is to say of what is monotone; or the rounds
    [from, to) in which it is there (planner.rewrite.rules.carry_rounds).
    `label`: the column whose values wait for rounds by their size (planner.analysis.priority); the
    rounds that they wait are not among those that there may be.
    """

    number: int
    name: str = field(hash=False, compare=False)
    body: Plan
    all: bool
    limit: int
    turns: int = 1
    marks: int = 0
    label: int | None = None

    @property
    def schema(self) -> Schema:
        return self.body.schema[: len(self.body.schema) - self.marks]


@node
class Apply:
    """A dependent join: for each row of `input`, the subquery with that row's columns (`Outer` of
    depth 1 in its expressions), turned into one more column, or joined (LATERAL).

    kind        column                                                      type
    exists      whether the subquery has a row                              BOOLEAN, not NULL
    any         operands `comparison` ANY row of the subquery, SQL's NULL    BOOLEAN
                rules; one operand per column of the subquery, of its type;
                more than one operand only for `eq`
    scalar      the one value of the subquery; NULL without rows, an        the subquery's column
                error with more than one
    inner       those of the subquery: the row once for each row of it      the subquery's columns
    left        the same, and once with NULLs where it has none             the same, nullable

    IN is any/eq; NOT IN its negation; x > ALL s is the negation of x <= ANY s. `comparison` is the
    name of a function of planner.calculus.expr. Decorrelation turns every Apply into joins.
    """

    input: Plan
    subquery: Plan
    kind: str
    name: str
    operands: tuple[Expr, ...] = ()
    comparison: str = ""

    @property
    def is_lateral(self) -> bool:
        """Whether it joins the rows of the subquery, rather than make a value of them."""
        return self.kind in ("inner", "left")

    @property
    def schema(self) -> Schema:
        match self.kind:
            case "inner":
                return (*self.input.schema, *self.subquery.schema)
            case "left":
                return (*self.input.schema, *nullable(self.subquery.schema))
            case "exists":
                field = Field(self.name, BOOLEAN, False)
            case "any":
                field = Field(self.name, BOOLEAN, True)
            case "scalar":
                field = Field(self.name, self.subquery.schema[0].type, True)
            case _:
                raise ValueError(f"no such kind of subquery: {self.kind!r}")
        return (*self.input.schema, field)


Plan: TypeAlias = (
    Scan
    | Values
    | Filter
    | Project
    | Join
    | OuterJoin
    | SemiJoin
    | MarkJoin
    | Aggregate
    | UnionAll
    | Minus
    | Keep
    | Repeat
    | Explode
    | TopK
    | Window
    | Retain
    | SingleRow
    | Threshold
    | RecursiveRef
    | Recursive
    | Timeline
    | Apply
)


def element_fields(kind: SqlType, outer: bool) -> Schema:
    """What an Explode puts behind the columns of a row."""
    if not isinstance(kind, ArrayType):
        raise ValueError(f"{kind} has no elements")
    return (Field("pos", INT, outer), Field("col", kind.element, True))


def nullable(schema: Schema) -> Schema:
    """The schema with every column nullable."""
    return tuple(Field(f.name, f.type, True) for f in schema)


def inputs(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan() | Values() | RecursiveRef():
            return ()
        case Recursive():
            return (plan.body,)
        case Join() | UnionAll():
            return plan.inputs
        case OuterJoin() | SemiJoin() | MarkJoin():
            return (plan.left, plan.right)
        case Minus():
            return (plan.input, plan.part)
        case Apply():
            return (plan.input, plan.subquery)
        case Threshold():
            return (plan.input, plan.bound)
        case _:
            return (plan.input,)


def union_all(plans: Sequence[Plan], schema: Schema) -> Plan:
    """UNION ALL of one or more plans, the plan itself where it is the only one."""
    return plans[0] if len(plans) == 1 else UnionAll(tuple(plans), schema)


def identity(schema: Schema, offset: int = 0) -> tuple[Column, ...]:
    """The columns of `schema` as expressions, the first at position `offset`."""
    return tuple(Column(offset + i, f.type, f.nullable, f.name) for i, f in enumerate(schema))


def _types(schema: Schema) -> tuple[SqlType, ...]:
    return tuple(f.type for f in schema)


def _check_columns(schema: Schema, *exprs: Expr) -> None:
    used = columns_used(*exprs)
    if used and max(used) >= len(schema):
        raise ValueError(f"column #{max(used)} is outside the {len(schema)} columns of the input")
