"""What steps and views have cost: plain records, kept for every step since the session began."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One physical step: `epochs` transactions, `rows_in` changed rows of base tables."""

    placement: str
    seconds: float
    rows_in: int
    epochs: int


@dataclass(frozen=True, slots=True)
class ViewMetrics:
    """`changes`: rows of signed deltas emitted since CREATE. `state_bytes`: derived relations,
    indexes and filters that the view reads, whether or not others read them too.
    `shared_arrangements` of its `arrangements` are read by other views as well."""

    changes: int
    state_bytes: int
    arrangements: int
    shared_arrangements: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """`state_bytes`: derived relations, indexes and filters, each once; `table_bytes`: base rows.
    `index_builds`: indexes ever built."""

    steps: tuple[StepMetrics, ...]
    views: dict[str, ViewMetrics] = field(default_factory=dict)
    state_bytes: int = 0
    table_bytes: int = 0
    index_builds: int = 0
