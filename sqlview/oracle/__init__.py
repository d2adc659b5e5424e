"""What a view must hold, recomputed from scratch by another engine.

`Oracle` (protocol.py) is the one interface: tables and views by name, changes to them, and queries.
`DuckDBOracle` keeps copies of the tables in this process, and `SparkOracle` (spark_engine.py, not
imported here: Spark costs seconds) asks Spark. `compare` tells whether two results are the same
rows. Users are VERIFY, the tests and the TPC-H job.

    protocol.py      the interface, and the errors that any engine's answer may be
    database.py      a DuckDB that can only compute       duckdb_engine.py  the oracle on it
    spelling.py, translation.py, kinds.py, arithmetic.py, aggregates.py, groups.py, functions.py
                     Spark SQL in DuckDB's
    comparison.py    equality of results
"""

from __future__ import annotations

from sqlview.oracle.comparison import RELATIVE_TOLERANCE, Difference, canonical_rows, compare
from sqlview.oracle.duckdb_engine import DuckDBOracle
from sqlview.oracle.kinds import named_type
from sqlview.oracle.protocol import CannotSay, Oracle, OracleError, RowError, TooLarge

__all__ = [
    "RELATIVE_TOLERANCE",
    "CannotSay",
    "Difference",
    "DuckDBOracle",
    "Oracle",
    "OracleError",
    "RowError",
    "TooLarge",
    "canonical_rows",
    "compare",
    "named_type",
]
