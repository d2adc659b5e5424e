"""A job as its tasks read it: a part of the dataflow, numbered, and references to published state.

The driver makes one for each layer and publishes it as a file, the *manifest*, in a plain form
(`planner.serialise`); closures carry its path alone, which is the same for every attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from operators.state.files import read
from operators.state.pieces import Place
from operators.state.publish import REFERENCES, FilterRef, IndexRef, RelationRef
from planner import dataflow as ir
from planner.serialise import PLAN_CLASSES, Format


@dataclass(frozen=True, slots=True)
class SourceRef:
    """The changes of one node, rows of relation number `relation`, in one chunk for each task.

    Chunk c is updates [starts[c], starts[c + 1]); its last 2 × pairs[c] are updates of rows: that
    many old versions, then the new ones in the same order.
    """

    node: int
    relation: int
    rows: Place
    time: Place
    diff: Place
    starts: tuple[int, ...]
    pairs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ColumnsRef:
    """The changes of one node that no relation has the rows of, in some chunks for each task: the
    columns, the time and the diff, as blobs has them."""

    node: int
    chunks: tuple[tuple[Place, ...], ...]


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """The rows of relation number `relation` as of the job's time, as births of one node: task t
    takes blocks [starts[t], starts[t + 1])."""

    node: int
    relation: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionsRef:
    """The rows of one node as of the job's time, which are those of each partition of index number
    `index` by itself: task t takes slices [starts[t], starts[t + 1])."""

    node: int
    index: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionedRef:
    """A window or a top-k of partitions, node number `node`, whose tasks take the changes of node
    `source` by the partitions of index number `index`."""

    node: int
    source: int
    index: int


@dataclass(frozen=True, slots=True)
class ThresholdRef:
    """A threshold, node number `node`, over rows of relation number `rows`; index number `bound`
    finds its scalars. Where these change, too, `moves` are their changes, and index number `index`
    finds the rows. `shared`: each task has all of those, and takes its part of the rows."""

    node: int
    rows: int
    bound: int
    index: int | None = None
    moves: SourceRef | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class JoinRef:
    """A join, node number `node`. Relations, filters and indexes by number, None where an input has
    no filter, or the job does not read an index; these as ir.indexes(node) lists them. `sources`:
    the inputs that changed. `wanted`: columns that consumers read."""

    node: int
    sources: tuple[int, ...]
    relations: tuple[int, ...]
    filters: tuple[int | None, ...]
    indexes: tuple[int | None, ...]
    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Path `source` of join number `join`, for the changes of node `node`; `exchanged` says for
    each of its half joins whether its probes go to the task of their bucket."""

    join: int
    source: int
    node: int
    exchanged: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class SinkRef:
    """A sink, node number `node`, whose changes tasks may apply: its rows and the index that finds
    them, by number. None: there are no rows yet, or the index has none of them. `members`: of a
    sink whose groups look their rows up, the relation that has these; `reads`: the indexes of it,
    as sinks.reads_of lists them, none where all rows come."""

    node: int
    relation: int | None
    index: int | None
    members: int | None = None
    reads: tuple[int, ...] = ()


#: What stage 0 deals out.
Source: TypeAlias = "SourceRef | ColumnsRef | SnapshotRef | PartitionsRef"


@dataclass(frozen=True, slots=True)
class Job:
    """`consumers[n]`: nodes that take the updates of node n, and with which sign (joins take theirs
    by routes).
    `counted`: maps whose failing rows an earlier job of the step has counted. `tasks`: per stage.
    `exchanges`: half joins with an exchange on the longest route, or one for partitions.
    `combined`: whether a last stage adds up what other tasks found for the same group or row.
    `values`: the directory of values.
    `hashing`: how the store makes keys. `time`: of all changes, if they have one. `snapshot`: it
    computes the first rows of its sinks, from all rows as of that time. `applied`: sinks whose
    changes the last stage applies, where a task has `apply_rows` of them or more; it writes files
    of `token`.
    """

    nodes: tuple[ir.Node, ...]
    consumers: tuple[tuple[tuple[int, int], ...], ...]
    sinks: tuple[int, ...]
    counted: frozenset[int]
    sources: tuple[Source, ...]
    partitioned: tuple[PartitionedRef, ...]
    thresholds: tuple[ThresholdRef, ...]
    joins: tuple[JoinRef, ...]
    routes: tuple[Route, ...]
    relations: tuple[RelationRef, ...]
    filters: tuple[tuple[int, FilterRef], ...]
    indexes: tuple[tuple[int, IndexRef], ...]
    tasks: int
    exchanges: int
    combined: bool
    values: str
    hashing: tuple[int, ...] = field(repr=False)
    time: int | None
    snapshot: bool
    applied: tuple[SinkRef, ...]
    apply_rows: int
    token: str

    @property
    def stages(self) -> int:
        return 1 + self.exchanges + self.combined

    @property
    def first_sink(self) -> int:
        """The tag of the first sink, see `task`."""
        return len(self.routes) + len(self.partitioned)


JOB_FORMAT = Format(
    "sqlview job",
    3,
    (
        *PLAN_CLASSES,
        Job,
        SourceRef,
        ColumnsRef,
        SnapshotRef,
        PartitionsRef,
        PartitionedRef,
        ThresholdRef,
        JoinRef,
        Route,
        SinkRef,
        *REFERENCES,
    ),
)


def read_manifest(path: str) -> Job:
    """Raises: FormatError for a file that is no job of this version; OSError."""
    return JOB_FORMAT.read(read(path), Job)
