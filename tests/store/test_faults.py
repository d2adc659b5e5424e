"""A store whose disk fails, or whose process or machine stops, at some of its calls. The long run,
at every call: `python -m tests.store`."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import sqlview
from tests.store.disk import in_memory
from tests.store.faults import error, stopped, stops
from tests.store.kills import FORKED, killed
from tests.store.life import states


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    in_memory()


def test_what_is_expected_is_right() -> None:
    assert states(verified=True) == states()


def test_a_call_that_fails_fails_its_operation_alone() -> None:
    tried = 0
    for at, second in ((1, False), (2, True), (9, True), (24, False), (77, True)):
        failures, wrong = error(at, second)
        assert wrong is None
        tried += failures
    assert tried >= 40


def test_wherever_it_stops_nothing_is_lost_and_nothing_doubled() -> None:
    found = stops(stride=101)
    assert {mode for at in found for mode, _, _ in at.times} == {"kill", "torn", "power"}
    assert len(found) > 30
    assert [wrong for at in found for wrong in stopped(at)] == []


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    assert killed(tmp_path, seed=1, kills=4) > 0


def test_another_process_reads_beside_the_writer_at_a_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    with sqlview.connect(url, cache=tmp_path / "writer") as db:
        db.sql("CREATE TABLE t (a INT)")
        for a in range(4):
            with db.transaction() as tx:
                tx.insert("t", [(a,)])
            if a == 1:
                db.checkpoint()
        heard, said = FORKED.Pipe(duplex=False)
        reader = FORKED.Process(target=_read, args=(url, tmp_path / "reader", said))
        reader.start()
        said.close()
        assert heard.recv() == [0, 1, 2, 3]
        reader.join()
        with db.transaction() as tx:
            tx.insert("t", [(4,)])


def _read(url: str, cache: Path, said: Connection) -> None:
    with sqlview.connect(url, read_only=True, cache=cache) as db:
        said.send(sorted(db._read("t")["a"].to_pylist()))
