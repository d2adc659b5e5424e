"""Files of values: checkpoints and the jobs of Spark refer to the same, and nobody deletes one that
another needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlview
from operators.checkpoint import stored_dead, stored_values
from operators.state import relation
from operators.state.hashing import Hashing
from operators.state.publish import Attachment, Publisher
from operators.state.shared import Shared
from tests.store.life import state_of

ROWS = 1000


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlview.Session]:
    """A session with full blocks, batches and filters, of which no file has any."""
    monkeypatch.setattr(relation, "BULK_ROWS", 64)
    with sqlview.connect(tmp_path / "s") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT, s STRING)")
        db.sql("CREATE TABLE u (g INT PRIMARY KEY, n INT)")
        with db.transaction() as tx:
            tx.insert("t", [(k, k % 10, f"text {k}" if k % 7 else None) for k in range(ROWS)])
            tx.insert("u", [(g, g) for g in range(100)])
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT t.s, u.n FROM t JOIN u USING (g) WHERE u.n < 5"
        )
        yield db


def publish(db: sqlview.Session, publisher: Publisher) -> int:
    """Publish all that there is, read it back; the bytes written."""
    flow, before = db._dataflow, publisher.written_bytes
    relations = [r for _, r in flow.relations()]
    indexes = [i.state for i in flow.indexes]
    with publisher.publication(stored_values(flow), stored_dead(flow)) as job:
        refs = [job.relation(r, range(len(r.schema)), None) for r in relations]
        index_refs = [job.index(i) for i in indexes]
        filters = [job.filter(f.state) for f in flow.filters]
    found = Attachment(job.values, publisher.directory, Shared(hashing=Hashing.drawn()))
    for ref, own in zip(refs, relations, strict=True):
        seen = found.relation(ref)
        rows = own.visible(db.epoch)
        assert seen.visible(db.epoch).tolist() == rows.tolist()
        for column in range(len(own.schema)):
            read, expected = seen.gather(column, rows), own.gather(column, rows)
            assert list(read.values) == list(expected.values)
    for ref_of_index, index in zip(index_refs, indexes, strict=True):
        reader = found.index(ref_of_index, index.relation)
        assert reader.spine.entries == index.spine.entries
    for ref_of_filter, live in zip(filters, flow.filters, strict=True):
        passing = found.filter(ref_of_filter, live.state.relation)
        assert passing.passing_rows == live.state.passing_rows
    job.drop()
    publisher.collect(stored_values(flow), stored_dead(flow))
    return publisher.written_bytes - before


def values_of(path: Path) -> dict[str, int]:
    kinds = ("rows", "large", "small")
    return {n: (path / n).stat().st_ino for n in os.listdir(path) if n.startswith(kinds)}


@pytest.fixture
def publisher(db: sqlview.Session, tmp_path: Path) -> Publisher:
    assert db._store is not None
    return Publisher(str(tmp_path / "s" / "session-1"), db._store.values)


def test_a_job_reads_what_a_checkpoint_wrote(
    db: sqlview.Session, publisher: Publisher, tmp_path: Path
) -> None:
    db.checkpoint()
    there = values_of(tmp_path / "s")
    first = publish(db, publisher)
    assert values_of(tmp_path / "s") == there, "nothing is written twice"
    assert first < 40_000 < sum((tmp_path / "s" / name).stat().st_size for name in there)


def test_a_checkpoint_refers_to_what_was_published(
    db: sqlview.Session, publisher: Publisher, tmp_path: Path
) -> None:
    """And it stays, although the session and the publisher end."""
    publish(db, publisher)
    there = values_of(tmp_path / "s")
    assert there
    db.checkpoint()
    assert values_of(tmp_path / "s") == there
    expected = state_of(db)
    publisher.close()
    db.close()
    with sqlview.connect(tmp_path / "s") as again:
        assert state_of(again) == expected
        assert again._dataflow.index_builds == 0
        assert values_of(tmp_path / "s").items() <= there.items()


def test_a_checkpoint_deletes_nothing_that_jobs_read(
    db: sqlview.Session, publisher: Publisher, tmp_path: Path
) -> None:
    """What was published after it was taken is not in it; what is used no more goes with a later
    one."""
    held = db._store
    assert held is not None
    present = db._present

    def publishing(lock: object) -> object:
        taken = present(lock)  # type: ignore[arg-type]
        lock.release()  # type: ignore[attr-defined]
        with db.transaction() as tx:
            tx.upsert("t", [(k, 3, "later") for k in range(ROWS)])
        publish(db, publisher)
        published.update(s.home.file for s in stored_values(db._dataflow) if s.home is not None)
        lock.acquire()  # type: ignore[attr-defined]
        return taken

    published: set[str] = set()
    held.save(publishing)  # type: ignore[arg-type]
    assert held.checkpoint is not None
    assert published - set(held.checkpoint.values), "some are later than the checkpoint"
    assert published <= values_of(tmp_path / "s").keys()
    publish(db, publisher)
    with db.transaction() as tx:
        tx.delete("t", [(k,) for k in range(ROWS)])
    db.checkpoint()
    db.checkpoint(even_if_same=True)
    files = {s.home.file for s in stored_values(db._dataflow) if s.home is not None}
    assert values_of(tmp_path / "s").keys() == files
    expected = state_of(db)
    db.close()
    with sqlview.connect(tmp_path / "s") as again:
        assert state_of(again) == expected


def test_files_that_somebody_took_are_written_again(
    db: sqlview.Session, publisher: Publisher, tmp_path: Path
) -> None:
    db.checkpoint()
    for name in values_of(tmp_path / "s"):
        (tmp_path / "s" / name).unlink()
    publish(db, publisher)
    db.checkpoint(even_if_same=True)
    expected = state_of(db)
    db.close()
    with sqlview.connect(tmp_path / "s") as again:
        assert state_of(again) == expected
