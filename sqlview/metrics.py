"""What steps and views have cost: plain records, of the latest steps and of each view."""

from __future__ import annotations

from dataclasses import dataclass, field

from operators.executor.placement import SparkCosts
from operators.quick import quick

#: So many steps are remembered: some megabytes, however long a session lives.
STEPS_KEPT = 10_000


@quick
@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One physical step: `epochs` transactions, `rows_in` changed rows of base tables.

    What it cost, for all views together: `entries_visited` of indexes and `rows_gathered` from what
    is stored, merges apart; `prefixes`: changed rows and their matches, join by join, that came
    through the filters; `seeks` in `batches_visited` of indexes, counted once for every lookup. Of
    a step on Spark only the driver's part is counted. `rounds` of recursive relations ran, in which
    `keys`, their rows and those rows' rounds, changed.
    """

    placement: str
    seconds: float
    rows_in: int
    epochs: int
    entries_visited: int = 0
    rows_gathered: int = 0
    prefixes: int = 0
    seeks: int = 0
    batches_visited: int = 0
    rounds: int = 0
    keys: int = 0


@dataclass(frozen=True, slots=True)
class ViewMetrics:
    """`changes`: rows of signed deltas emitted since CREATE. `state_bytes`: derived relations,
    indexes and filters that the view reads, whether or not others read them too.
    `shared_arrangements` of its `arrangements` are read by other views as well. `seconds`: what the
    operators under it took in this process in all steps, with the upkeep of the indexes over them,
    shared ones counted in full; writing tables, and merges between steps, are not in it.
    `computed`: False for a lazy view that nobody has read so far."""

    changes: int
    state_bytes: int
    arrangements: int
    shared_arrangements: int
    seconds: float = 0.0
    computed: bool = True


@dataclass(frozen=True, slots=True)
class Metrics:
    """`steps`: the latest STEPS_KEPT, in order. `state_bytes`: derived relations, indexes and
    filters, each once; `table_bytes`: base rows. `spare_bytes`: memory that is ready for more of
    both, of all sessions of the process; `process_bytes`: all its memory that belongs to no file,
    with what Python, Arrow, DuckDB and compiled kernels take, and what steps made on their way and
    the C library has not given back. `index_builds`: indexes ever built. `operators`:
    those that run, each once, whoever shares it. `spark`: what jobs cost there, by which "auto"
    places steps; None before it had to know. `heavy_exchanges`: how often, in this session's jobs
    there, the rows of a key that one task would have had too many of went to all tasks instead.
    """

    steps: tuple[StepMetrics, ...]
    views: dict[str, ViewMetrics] = field(default_factory=dict)
    state_bytes: int = 0
    table_bytes: int = 0
    spare_bytes: int = 0
    process_bytes: int = 0
    index_builds: int = 0
    operators: int = 0
    spark: SparkCosts | None = None
    heavy_exchanges: int = 0
