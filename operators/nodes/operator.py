"""What an operator is: what runs one node of a dataflow, and what it is given to do so.

`operators.nodes.registry` says which class runs which kind of node. The dataflow puts a new
operator in its `Place`, lets it `start`, once, from the rows that its inputs have then, and from
then on `step` with their changes. Whoever needs all rows of a node that runs already asks for its
`rows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from typing_extensions import Self

from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.nodes.errors import ErrorState
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.relation import Relation
from operators.state.rows import Rows
from operators.state.shared import Shared
from planner import dataflow as ir
from planner.calculus.types import Schema


class Place(Protocol):
    """Where an operator stands in a dataflow. What it asks for here is kept for its view."""

    @property
    def shared(self) -> Shared:
        """What all state of the dataflow shares."""

    def relation(self, node: ir.Stored) -> Relation:
        """The rows of an input."""

    def new_relation(self, schema: Schema) -> Relation:
        """One of the operator's own, empty, that nobody else finds."""

    def own_relation(self, node: ir.Stored) -> Relation:
        """The rows of the operator's node itself, empty."""

    def index(self, spec: ir.Index) -> ArrangementState:
        """The index that was planned where the operator's node names `spec`, itself or one that
        serves for it; it has all rows there are."""

    def inside(self, loop: ir.Loop) -> Inside:
        """The nodes inside of a loop, which run already."""

    def filter(self, i: ir.JoinInput) -> Filter | None:
        """The bitmap of a join input's filter, if it has one."""


class Inside(Protocol):
    """The nodes inside of a loop."""

    def waiting(self) -> list[dict[int, list[Delta]]]:
        """What those that wait for rounds wait for, each, by round."""

    def run(self, changes: Mapping[ir.Node, Delta], tick: int) -> Mapping[ir.Node, Delta]:
        """Run those that the changes of these nodes, all at a tick, come to, and those that wait
        for its round; returns what changes in all."""

    def enter(self, node: ir.Stored, changed: Delta) -> None:
        """The relation of the variable, or of a node inside, has changed so: let its indexes
        follow."""

    def operator(self, node: ir.Node) -> AnyOperator:
        """What runs a node inside."""


class Inputs(Protocol):
    """The rows that nodes have as of `time`, the latest epoch, as births at that time."""

    @property
    def time(self) -> int: ...

    def pieces(self, node: ir.Node) -> Iterator[Delta]:
        """All rows of an input, piece by piece, no piece empty."""

    def whole(self, node: ir.Node) -> Delta:
        """All rows of an input."""

    def read(self, relation: Rows) -> Iterator[Delta]:
        """All rows of a relation, piece by piece."""


Node = TypeVar("Node", bound=ir.Node)
#: Texts, numbers, arrays that nobody changes, and lists and dicts of these, by name.
Kept: TypeAlias = dict[str, Any]


class Operator(ABC, Generic[Node]):
    """Runs `node`."""

    node: Node

    @classmethod
    @abstractmethod
    def install(cls, node: Node, place: Place) -> Self:
        """A new one, with the state that it needs."""

    @abstractmethod
    def step(self, changes: Sequence[Delta | None]) -> Delta:
        """What the changes of a step in what it `takes`, each None or empty where there are none,
        change in the node. Indexes over the inputs have the changes already."""

    @abstractmethod
    def start(self, inputs: Inputs) -> Iterator[Delta]:
        """The node's first rows, in pieces; called once. State is complete when all are taken."""

    @abstractmethod
    def rows(self, inputs: Inputs) -> Iterator[Delta]:
        """All rows of the node as of `inputs.time`, in pieces; changes nothing."""

    def kept(self) -> Kept:
        """What it keeps beside the relations and indexes of its place, as it is now."""
        return {}

    def load(self, kept: Kept) -> None:
        """Be what another one of its node was when `kept` was taken."""
        assert not kept, "an operator that keeps something says how to load it"

    @property
    def takes(self) -> tuple[ir.Node, ...]:
        """The nodes whose changes it takes, in the order of `step`; one may be there twice."""
        return ir.inputs(self.node)

    @property
    def failing(self) -> ErrorState | None:
        """Errors as data that it keeps, if it may have some."""
        return None

    def columns_read(self, node: ir.Node) -> tuple[int, ...]:
        """The columns of an input that it reads: what changes in others alone may be left out."""
        return tuple(range(len(node.schema)))

    def together(self, parts: list[Delta]) -> Delta:
        """Pieces of the node's rows, none of them empty, as one."""
        return deltas.concatenate(self.node.schema, parts)


class InRounds(Operator[Node]):
    """Runs a node inside of a loop that has something to do in rounds in which nothing that it
    takes changes."""

    @property
    @abstractmethod
    def waiting(self) -> dict[int, list[Delta]]:
        """By round, what it is to look at then; the same dict for good."""

    @abstractmethod
    def turn(self, tick: int, changes: Sequence[Delta | None]) -> Delta:
        """`step` in the round of a tick, which is the time of all changes."""

    def step(self, changes: Sequence[Delta | None]) -> Delta:
        raise AssertionError("its loop says which round it is")


#: Of whatever node.
AnyOperator: TypeAlias = Operator[Any]
