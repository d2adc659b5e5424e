"""VARCHAR(n) and CHAR(n): what is written into such a column.

As Spark writes it: blanks beyond the limit are cut, other characters beyond it are refused, and
CHAR is filled up with blanks.

Source: Spark SQL, CharVarcharCodegenUtils.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight.misfits import Misfit
from planner.calculus.types import Field


def within(array: pa.Array, field: Field) -> pa.Array:
    """The texts as the column has them.

    Raises: Misfit for the first that has more characters than it takes.
    Cost: a pass; a copy where there is something to cut or to fill up.
    """
    assert field.limit is not None
    lengths = pc.fill_null(pc.utf8_length(array), 0).to_numpy(zero_copy_only=False)
    if len(lengths) and lengths.max() > field.limit:
        kept = pc.fill_null(pc.utf8_length(pc.utf8_rtrim(array, " ")), 0)
        long = np.flatnonzero(kept.to_numpy(zero_copy_only=False) > field.limit)
        if len(long):
            row = int(long[0])
            raise Misfit(
                f'a text in column "{field.name}" has more characters than {field.declared} takes',
                row,
                f"has {lengths[row]}",
                "Cut it with left(…), or let the column be STRING.",
            )
        array = pc.utf8_slice_codeunits(array, 0, field.limit)
    if field.padded and len(lengths) and lengths.min() < field.limit:
        array = pc.utf8_rpad(array, field.limit, " ")
    return array
