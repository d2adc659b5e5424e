"""The logical algebra: what a query means, before any decision on how to maintain it.

Small immutable nodes that check themselves when built. Columns are positions; `schema` names them
for display. Bags throughout: a relation is a multiset of rows.

Nodes: Scan, Values, Filter, Project, Join (n-way, inner), OuterJoin, SemiJoin, MarkJoin, Aggregate,
UnionAll, Repeat, TopK, SingleRow, Apply (a subquery in an expression), Threshold (made by the
planner). DISTINCT is an `Aggregate` without aggregates; INTERSECT and EXCEPT are aggregates over a
UNION ALL of tagged rows; a CTE used twice is the same subtree twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from planner.expr import Column, Expr, Literal, columns_used
from planner.types import BOOLEAN, Field, Schema, SqlType


@dataclass(frozen=True, slots=True)
class Scan:
    """All columns of a table or view of the catalog, by its canonical name."""

    relation: str
    schema: Schema


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Project:
    """One output column per expression; `schema` carries the display names."""

    input: Plan
    exprs: tuple[Expr, ...]
    schema: Schema

    def __post_init__(self) -> None:
        if tuple(e.type for e in self.exprs) != tuple(f.type for f in self.schema):
            raise ValueError("the types of a projection differ from its schema")
        _check_columns(self.input.schema, *self.exprs)


@dataclass(frozen=True, slots=True)
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
        return tuple(f for i in self.inputs for f in i.schema)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`function` is sum, count, count_rows, avg, min, max, any_value (the least value, so that it
    is deterministic), stddev_samp, stddev_pop, var_samp or var_pop (DOUBLE; of numbers); `arg` is
    None for count_rows alone. `distinct`: of the distinct values of arg. FILTER clauses, BOOL_AND
    and BOOL_OR, COUNT_IF are expressed by these on a CASE."""

    function: str
    arg: Expr | None
    type: SqlType
    nullable: bool
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY `keys`; output is the keys, then the aggregates.

    Without keys there is always exactly one output row. NULL keys form a group.
    """

    input: Plan
    keys: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    schema: Schema

    def __post_init__(self) -> None:
        if len(self.schema) != len(self.keys) + len(self.aggregates):
            raise ValueError("the schema of an aggregate names its keys and its aggregates")
        _check_columns(self.input.schema, *self.keys)
        _check_columns(self.input.schema, *(a.arg for a in self.aggregates if a.arg is not None))


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of all inputs. An input whose `negated` is set is taken away instead: its rows are a
    part of the others' (planner-made: the rows without a match are all rows minus the matched)."""

    inputs: tuple[Plan, ...]
    schema: Schema
    negated: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if self.negated and len(self.negated) != len(self.inputs):
            raise ValueError("a UNION ALL has one sign for each input")
        for i in self.inputs:
            if tuple(f.type for f in i.schema) != tuple(f.type for f in self.schema):
                raise ValueError("the inputs of UNION ALL have the types of its schema")


@dataclass(frozen=True, slots=True)
class SortKey:
    """ORDER BY one column of the input. Defaults are Spark's: NULLS FIRST when ascending."""

    column: int
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class TopK:
    """The rows at positions [offset, offset + limit) in the order of `order`.

    Ties in `order` are broken by the columns `ties` in turn, ascending, NULLs first; rows that are
    still equal there are equal in all columns. The order itself is not part of the result.
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


@dataclass(frozen=True, slots=True)
class Values:
    """Constant rows: rows[i][j] is a literal of column j."""

    rows: tuple[tuple[Literal, ...], ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Repeat:
    """Each row `count` times (a BIGINT column, not NULL; 0 or less drops the row)."""

    input: Plan
    count: int

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class MarkJoin:
    """Rows of `left` with one more BOOLEAN column, never NULL: whether a SemiJoin would keep it."""

    left: Plan
    right: Plan
    condition: Expr | None
    name: str

    @property
    def schema(self) -> Schema:
        return (*self.left.schema, Field(self.name, BOOLEAN, False))


@dataclass(frozen=True, slots=True)
class SingleRow:
    """At most one row per value of the columns `keys`: where there are more, the view that reads
    them is in error (SCALAR_SUBQUERY_TOO_MANY_ROWS) until they are one."""

    input: Plan
    keys: tuple[int, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Apply:
    """A dependent join: for each row of `input`, the subquery with that row's columns (`Outer` of
    depth 1 in its expressions), turned into one more column.

    kind        column                                                      type
    exists      whether the subquery has a row                              BOOLEAN, not NULL
    any         operands `comparison` ANY row of the subquery, SQL's NULL    BOOLEAN
                rules; one operand per column of the subquery, of its type;
                more than one operand only for `eq`
    scalar      the one value of the subquery; NULL without rows, an        the subquery's column
                error with more than one

    IN is any/eq; NOT IN its negation; x > ALL s is the negation of x <= ANY s. `comparison` is the
    name of a function of planner.expr. Decorrelation turns every Apply into joins.
    """

    input: Plan
    subquery: Plan
    kind: str
    name: str
    operands: tuple[Expr, ...] = ()
    comparison: str = ""

    @property
    def schema(self) -> Schema:
        match self.kind:
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
    | Repeat
    | TopK
    | SingleRow
    | Threshold
    | Apply
)


def nullable(schema: Schema) -> Schema:
    """The schema with every column nullable."""
    return tuple(Field(f.name, f.type, True) for f in schema)


def inputs(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan() | Values():
            return ()
        case Join() | UnionAll():
            return plan.inputs
        case OuterJoin() | SemiJoin() | MarkJoin():
            return (plan.left, plan.right)
        case Apply():
            return (plan.input, plan.subquery)
        case Threshold():
            return (plan.input, plan.bound)
        case _:
            return (plan.input,)


def identity(schema: Schema, offset: int = 0) -> tuple[Column, ...]:
    """The columns of `schema` as expressions, the first at position `offset`."""
    return tuple(Column(offset + i, f.type, f.nullable, f.name) for i, f in enumerate(schema))


def _check_columns(schema: Schema, *exprs: Expr) -> None:
    used = columns_used(*exprs)
    if used and max(used) >= len(schema):
        raise ValueError(f"column #{max(used)} is outside the {len(schema)} columns of the input")
