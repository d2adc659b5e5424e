"""Streams: a step's events as a delta that nothing keeps.

The delta holds the columns themselves, not row ids: no relation has the rows. Each event is there
at its own time alone; whoever consumes the delta keeps what it makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from operators.flight.column import Column, Ints, concat
from operators.flight.delta import Delta
from planner.calculus.types import Schema


def events(schema: Schema, batches: Sequence[tuple[Sequence[Column], int | Ints]]) -> Delta:
    """Events as births: batches of columns of `schema` (at least one), each at its time, or with
    the time of each row, int64[n].

    Cost: no copy for one batch; else one of each column.
    """
    columns = [concat([c[i] for c, _ in batches]) for i in range(len(schema))]
    time = np.concatenate([np.broadcast_to(np.asarray(t), len(c[0])) for c, t in batches])
    return Delta(schema, time, np.ones(len(time), np.int64), list(columns))
