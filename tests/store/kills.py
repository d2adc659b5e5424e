"""Processes that write a store and are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import sqlview

#: Commits rows (i, i % 7, i) one after the other, creates, replaces and drops a view now and then,
#: writes checkpoints all the time if it is told to, and says what has returned.
WRITER = """
import sys
import sqlview
import sqlview.store.store
if sys.argv[2] == "1":
    sqlview.store.store.CHECKPOINT_SECONDS = sqlview.store.store._LOOK_SECONDS = 0.01
    sqlview.store.store.CHECKPOINT_SHARE = 1.0
    sqlview.store.verification._BEFORE_SECONDS = 0.0  # none is written before
db = sqlview.connect(sys.argv[1])
db.sql("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, g INT, v BIGINT)")
create = "CREATE MATERIALIZED VIEW IF NOT EXISTS sums AS "
db.sql(create + "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g")
done = db.view("sums").to_arrow()["n"].to_pylist()
i = sum(done)
print("ready", i, flush=True)
while True:
    with db.transaction() as tx:
        tx.insert("t", [(i, i % 7, i)])
    print("done", i, flush=True)
    i += 1
    if i % 5 == 0:
        replace = "CREATE OR REPLACE MATERIALIZED VIEW last AS "
        db.sql(replace + f"SELECT max(k) AS k, {i} AS made FROM t")
    if i % 35 == 0:
        db.sql("DROP MATERIALIZED VIEW last")
"""


def killed(directory: Path, seed: int) -> None:
    """Kill a writer at a random time, three times over; what is there afterwards is what it had
    said, or one commit more."""
    rng = random.Random(seed)
    path, acknowledged = directory / "store", -1
    for round in range(3):
        command = [sys.executable, "-c", WRITER, str(path), str(round % 2)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            # Some die while they open the store; the others some time after that.
            if rng.random() < 0.8:
                assert writer.stdout.readline().startswith("ready")
            time.sleep(rng.random() * 0.4)
            writer.kill()
            rest = writer.stdout.read()
        whole = [line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        said = [line[1] for line in whole if line[0] == "done"]
        acknowledged = max([acknowledged, *map(int, said)])
        if not (path / "store.json").exists():
            continue
        with sqlview.connect(path) as db:
            rows = _rows(db)
            assert len(rows) in (acknowledged + 1, acknowledged + 2), f"{len(rows)} rows"
            assert sorted(rows) == [(i, i % 7, i) for i in range(len(rows))]
            for name in db.sql("SHOW VIEWS").to_arrow()["view"].to_pylist():
                assert db.verify(name, engine="duckdb").equal, name
            acknowledged = len(rows) - 1


def _rows(db: sqlview.Session) -> list[tuple[int, int, int]]:
    if "t" not in db.sql("SHOW TABLES").to_arrow()["table"].to_pylist():
        return []
    table = db._read("t")
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
