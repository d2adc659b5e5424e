"""TPC-H data by tpchgen-cli: generated once per scale factor, kept, and read as Arrow.

Invariant: a directory under its final name is complete. Data is generated beside it under a
temporary name and renamed, so that a run that is killed or that races another leaves no half.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tpch.schema import TABLES, TABLES_BY_NAME

_DIRECTORY_VARIABLE = "SQLVIEW_TPCH_DIR"

# Below it there are so few suppliers that the keys of partsupp recur.
MINIMUM_SCALE_FACTOR = 0.01


class GenerateError(RuntimeError):
    """The data could not be generated; the message says why and what to do."""


def cache_directory() -> Path:
    """Where data is kept: `$SQLVIEW_TPCH_DIR`, or a directory in the user's cache."""
    if chosen := os.environ.get(_DIRECTORY_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sqlview" / "tpch"


def scale_name(sf: float) -> str:
    """`sf1`, `sf0.1`: the directory of a scale factor."""
    return f"sf{sf:g}"


def generate(sf: float, directory: Path | None = None) -> Path:
    """The directory with one Parquet file per table at scale factor `sf`, generated if missing.

    Raises: GenerateError if `sf` is too small, or if tpchgen-cli is not found or fails.
    Cost: a second or two per 0.1 of scale factor, once.
    """
    if not sf >= MINIMUM_SCALE_FACTOR:
        raise GenerateError(f"a scale factor is at least {MINIMUM_SCALE_FACTOR}, not {sf:g}")
    root = directory or cache_directory()
    final = root / scale_name(sf)
    if _is_complete(final):
        return final
    program = _find_program()
    root.mkdir(parents=True, exist_ok=True)
    # Not TemporaryDirectory: on success the directory moves away.
    partial = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=root))
    try:
        command = [program, "parquet", "-s", f"{sf:g}", "--output-dir", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise GenerateError(
                f"tpchgen-cli failed with exit code {done.returncode}: {''.join(last)}"
            )
        if not _is_complete(partial):
            raise GenerateError(f"tpchgen-cli wrote no complete set of tables into {partial}")
        partial.chmod(0o755)
        try:
            partial.rename(final)
        except OSError as error:
            if not _is_complete(final):
                raise GenerateError(
                    f"{final} exists and does not hold all eight tables ({error.strerror}); "
                    "remove it"
                ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return final


def parquet_file(directory: Path, table: str) -> Path:
    return directory / f"{table}.parquet"


def load(
    directory: Path,
    tables: Sequence[str] | None = None,
    *,
    shuffle_seed: int | None = None,
) -> dict[str, pa.Table]:
    """The tables (all by default) in memory, in one chunk per column where that is possible.

    Rows are in the generator's order, which is that of the keys; with `shuffle_seed` each table is
    in a random order of its own, a function of the seed and the table's name alone.
    """
    loaded: dict[str, pa.Table] = {}
    for name in tables if tables is not None else [table.name for table in TABLES]:
        schema = TABLES_BY_NAME[name].arrow_schema
        # tpchgen-cli writes string_view, for which pyarrow.compute has no kernels.
        rows = pq.read_table(parquet_file(directory, name)).select(schema.names).cast(schema)
        if shuffle_seed is not None:
            place = [table.name for table in TABLES].index(name)
            order = np.random.default_rng([shuffle_seed, place]).permutation(rows.num_rows)
            rows = rows.take(pa.array(order))
        loaded[name] = rows.combine_chunks()
    return loaded


def _is_complete(directory: Path) -> bool:
    return all(parquet_file(directory, table.name).is_file() for table in TABLES)


def _find_program() -> str:
    """tpchgen-cli, first in the environment that this Python runs in."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    program = shutil.which("tpchgen-cli", path=path)
    if program is None:
        raise GenerateError(
            "tpchgen-cli is not found; install it with pip install 'sqlview-spark[tpch]'"
        )
    return program
