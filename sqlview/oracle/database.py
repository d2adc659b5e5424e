"""A DuckDB in memory that can do nothing but compute.

It reads and writes no file, loads no extension, takes at most half of the machine's memory, spills
nothing, and its settings cannot be changed any more: whatever text reaches it, it only answers.
"""

from __future__ import annotations

import os

import duckdb

from sqlview.quoting import duckdb_literal

_SETTINGS = (
    "python_enable_replacements = false",
    "enable_progress_bar = false",
    "scalar_subquery_error_on_multiple_rows = true",
    # Conjuncts in the order of the text, so that one may guard the next against a failure.
    "disabled_optimizers = 'reorder_filter'",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "allow_community_extensions = false",
    "temp_directory = ''",
)


def connect(
    *, zone: str = "UTC", threads: int | None = None, optimize: bool = True
) -> duckdb.DuckDBPyConnection:
    """`zone`: the time zone of the session. `optimize=False`: queries run as they are written."""
    db = duckdb.connect()
    for setting in (
        *_SETTINGS,
        f"TimeZone = {duckdb_literal(zone)}",
        f"memory_limit = '{_memory()}'",
    ):
        db.execute(f"SET {setting}")
    if threads is not None:
        db.execute(f"SET threads = {threads:d}")
    if not optimize:
        db.execute("PRAGMA disable_optimizer")
    db.execute("SET enable_external_access = false")
    db.execute("SET lock_configuration = true")
    return db


def _memory() -> str:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{installed // 2 >> 20}MiB"
