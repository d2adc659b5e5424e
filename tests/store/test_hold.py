"""Claims: files of a store that stay for those who read them later."""

from __future__ import annotations

import os
from pathlib import Path

import sqlview
from sqlview.store.hold import LASTING_SECONDS, claim, claimed


def test_a_claim_counts_until_it_was_not_renewed_for_long(tmp_path: Path) -> None:
    first, second = claim(str(tmp_path), ["rows-a", "rows-b"]), claim(str(tmp_path), ["rows-b"])
    assert claimed(str(tmp_path)) == {"rows-a", "rows-b"}
    at = os.stat(first).st_mtime - LASTING_SECONDS - 3600
    os.utime(first, (at, at))
    assert claimed(str(tmp_path)) == {"rows-b"}
    assert list(tmp_path.iterdir()) == [Path(second)]
    os.remove(second)
    assert claimed(str(tmp_path)) == set()


def test_what_is_left_of_claims_goes_when_the_store_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path) as db:
        db.sql("CREATE TABLE t (a INT)")
    for name in ("reader-1", "reader-2.part"):
        (path / name).write_bytes(b"")
    with sqlview.connect(path) as db:
        assert db.sql("SHOW TABLES").rows() == [("t",)]
    assert not list(path.glob("reader-*"))


def test_who_reads_closes_whatever_became_of_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlview.connect(path) as writer:
        writer.sql("CREATE TABLE t (a INT)")
        writer.checkpoint()
        with sqlview.connect(path, read_only=True) as db:
            assert db._store is not None and db._store._verification is not None
            db._store._verification.is_done = False  # it has not come to the end yet
            with writer.transaction() as tx:
                tx.insert("t", [(1,)])
            writer.checkpoint()
