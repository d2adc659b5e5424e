"""Stores at URLs: on a server that speaks S3, and in a directory that is used as one. The long run,
a stop and a failure at every call: `python -m tests.store --only objects`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlview
from operators.state import objects
from planner.errors import StoreError
from sqlview.datasource import SqlViewDataSource
from sqlview.store import hold, lease
from sqlview.store import store as stores
from sqlview.store.chain import Chain, writer_of
from tests.store.disk import in_memory
from tests.store.faults import error, left_in, stopped, stops
from tests.store.server import served


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a store that is not there yet."""
    return f"file://{tmp_path}/store"


@pytest.fixture
def s3(bucket: str, tmp_path: Path) -> str:
    return f"{bucket}/{tmp_path.name}"


@pytest.fixture(autouse=True)
def _in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLVIEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", None)
    in_memory()


#: Operations of a life, of which one opens the store again.
_SHORT = 10


def filled(url: str, **options: Any) -> Any:
    db = sqlview.connect(url, **options)
    db.sql("CREATE TABLE t (k INT PRIMARY KEY, g INT)")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT g, count(*) AS n FROM t GROUP BY g")
    insert(db, *range(6))
    return db


def insert(db: Any, *keys: int) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(k, k % 2) for k in keys])


def names(url: str) -> set[str]:
    return {found.name for found in objects.listed(url)}


# ------------------------------------------------------------------------------ what is kept


def test_a_call_that_fails_fails_its_operation_alone() -> None:
    failures, wrong = error(1, second=True, late=True, length=_SHORT)
    assert wrong is None
    assert failures


def test_wherever_it_stops_nothing_is_lost_and_nothing_left() -> None:
    found = stops(stride=23, remote=True, length=_SHORT)
    assert len(found) >= 3
    assert [wrong for at in found for wrong in stopped(at)] == []


@pytest.mark.parametrize("durability", ["interval", "close"])
def test_records_that_may_wait_are_there_in_the_end(url: str, durability: str) -> None:
    with filled(url, durability=durability) as db:
        for k in range(10, 20):
            insert(db, k)
        with pytest.raises(sqlview.DataError):
            insert(db, 30, 31, 10)
    with sqlview.connect(url, durability=durability) as db:
        assert sorted(db.view("n").rows()) == [(0, 8), (1, 8)]


def test_large_records_are_put_as_they_are(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlview.store.chain._SMALL_BYTES", 2_000)
    monkeypatch.setattr(stores, "CHECKPOINT_SECONDS", 1e9)
    db = filled(url)
    insert(db, *range(10, 30_000))
    reader = sqlview.connect(url, read_only=True)
    assert sorted(reader.view("n").rows()) == sorted(db.view("n").rows())
    reader.close()
    db.close()


# ------------------------------------------------------------------------------------ writers


def test_a_second_writer_is_refused_while_the_first_shows_itself(url: str) -> None:
    with filled(url), pytest.raises(StoreError, match=r'"[^"]+" is in use\nDetail: .* process \d+'):
        sqlview.connect(url)
    sqlview.connect(url).close()


def test_who_was_taken_over_writes_nothing(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3
    monkeypatch.setattr(lease, "LASTING_SECONDS", 0.0)
    first = filled(url)
    first.checkpoint()
    insert(first, 6)
    with sqlview.connect(url) as second:
        insert(second, 7)
        there = names(url)
        for _ in range(2):
            with pytest.raises(StoreError, match="not this session's any more"):
                insert(first, 8)
            assert sorted(first.view("n").rows()) == [(0, 4), (1, 3)]
        with pytest.raises(StoreError, match="not this session's any more"):
            first.checkpoint(even_if_same=True)
        first._store._discard_old()
        assert there <= names(url), "what it does not know is not its to delete"
        first.close()
        insert(second, 9)
    with sqlview.connect(url) as db:
        assert sorted(db.view("n").rows()) == [(0, 4), (1, 5)]
    assert left_in(url) == set()


def test_of_writers_that_race_one_has_each_link(s3: str) -> None:
    mark, count, won = b"12345678", 8, list[list[int]]()
    start = threading.Barrier(4)

    def race() -> None:
        mine, links = Chain(s3, mark), list[int]()
        mine.writer = writer_of(1)
        won.append(links)
        start.wait()
        while mine.next <= count:
            if mine.put(b"", None):
                links.append(mine.next - 1)
            else:
                mine.next += 1

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(link for links in won for link in links) == list(range(1, count + 1))


def test_a_lost_answer_is_no_other_writer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(url) as db:
        put = objects.put_new
        monkeypatch.setattr(objects, "put_new", lambda *given: put(*given) and False)
        insert(db, 6)
        monkeypatch.undo()
        insert(db, 7)
    with sqlview.connect(url, read_only=True) as db:
        assert sorted(db.view("n").rows()) == [(0, 4), (1, 4)]


def test_what_cannot_be_taken_back_is_before_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a change that failed nothing is found, although the server has it."""
    put, down = objects.put_new, objects.ObjectError("no answer", url, "Wait.")

    def lost(path: str, data: bytes) -> bool:
        put(path, data)
        raise down

    with filled(url) as db:
        monkeypatch.setattr(objects, "put_new", lost)
        with pytest.raises(StoreError, match="could not be written"):
            insert(db, 6)

        def nothing(path: str, data: bytes) -> bool:
            raise down

        monkeypatch.setattr(objects, "put_new", nothing)
        with pytest.raises(StoreError, match="before the one that failed is taken back"):
            insert(db, 7)
        monkeypatch.undo()
        insert(db, 9)
        assert sorted(db.view("n").rows()) == [(0, 3), (1, 4)]
    with sqlview.connect(url) as db:
        assert sorted(db.view("n").rows()) == [(0, 3), (1, 4)]


# ------------------------------------------------------------------------------------ readers


def test_what_a_reader_opens_stays(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(url) as db:
        db.checkpoint()
        old = {name for name in names(url) if name.startswith("checkpoint-")}
        with hold.hold(url):
            insert(db, 6)
            db.checkpoint()
            assert old <= names(url)
        with hold.hold(url):  # of a reader that was killed
            monkeypatch.setattr(hold, "HOLD_SECONDS", 0.0)
            insert(db, 7)
            db.checkpoint()
            assert not old & names(url)


def test_what_a_reader_claims_is_there(url: str) -> None:
    """Of a session that reads an older checkpoint, rows come along: its files may be going."""
    with filled(url) as db:
        insert(db, *range(10, 70_000))
        db.checkpoint()
        with sqlview.connect(url, read_only=True) as reader:
            planned = reader._plan_read("t", None, None, None)
            assert planned.files and set(planned.files) <= names(url)
            assert planned.reading.claim is not None
            insert(db, 6)
            db.checkpoint()
            assert set(planned.files) <= names(url)
            assert reader._plan_read("t", None, None, None).files == frozenset()


def test_the_data_source_reads_it(url: str) -> None:
    """What its tasks do, in this process; by Spark's: `python -m tests.spark.objects`."""
    with filled(url) as db:
        insert(db, *range(10, 70_000))
    source = SqlViewDataSource({"store": f"{url}/", "path": "t", "columns": "k"})
    assert source.schema().names == ["k"]
    planned = source._planned
    assert planned is not None and planned.files
    rows = [b["k"].to_pylist() for part in planned.parts for b in planned.reading.batches(part)]
    assert sorted(k for some in rows for k in some) == [*range(6), *range(10, 70_000)]


# -------------------------------------------------------------------------------------- cache


def test_what_is_not_cached_is_fetched(s3: str, tmp_path: Path) -> None:
    url = s3
    cache = tmp_path / "mine"
    with filled(url, cache=cache) as db:
        db.checkpoint()
        insert(db, 6)
    kept = [path for path in cache.rglob("*") if path.is_file()]
    assert kept and all(path.stat().st_mode & 0o077 == 0 for path in kept)
    for path in kept:
        path.unlink()
    with sqlview.connect(url, cache=cache) as db:
        assert sorted(db.view("n").rows()) == [(0, 4), (1, 3)]
        assert db.verify("n", engine="duckdb").equal


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLVIEW_CACHE_BYTES", "100000")
    urls = [f"file://{tmp_path}/{i}" for i in range(12)]
    for i, url in enumerate(urls):
        objects.put(url, bytes([i]) * 30_000)
    for i, url in enumerate(urls):
        time.sleep(0.01)
        assert Path(objects.fetched(url)).read_bytes() == bytes([i]) * 30_000
        objects.trim(objects.cache_of(url))
        assert objects.is_cached(url)
    assert [objects.is_cached(url) for url in urls] == [False] * 9 + [True] * 3


def test_the_cache_forgets_what_is_gone(url: str) -> None:
    with filled(url) as db:
        db.checkpoint()
    old = next(name for name in names(url) if name.startswith("checkpoint-"))
    objects.fetched(f"{url}/{old}")
    kept = objects.local(f"{url}/{old}")
    copied = Path(kept).with_name("rows-of-another")
    copied.write_bytes(b"")
    sqlview.connect(url).close()
    assert os.path.exists(kept) and not copied.exists()


# ------------------------------------------------------------------------------------- errors


def refusal(url: str, **options: Any) -> str:
    with pytest.raises(StoreError) as refused:
        sqlview.connect(url, **options)
    return str(refused.value)


def test_what_is_refused_says_why(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There is no bucket s3://nobody-has-it" in refusal("s3://nobody-has-it/store")
    assert 'there is no store in "' in refusal(f"{bucket}/nothing", read_only=True)
    for url in (
        "ftp://host/x",
        "s3://",
        "s3:///x",
        f"{bucket}/a//b",
        f"{bucket}/../b",
        f"{bucket}/a?b=c",
    ):
        assert f'cannot be at "{url}"' in refusal(url)
    objects.put(f"{bucket}/full/something", b"")
    assert "is not empty, and no store" in refusal(f"{bucket}/full")
    objects.put(
        f"{bucket}/old/store.json", b'{"format": "sqlview store", "version": 99, "mark": ""}'
    )
    assert "is of version 99" in refusal(f"{bucket}/old")
    with pytest.raises(ValueError, match="cache is for a store at a URL"):
        sqlview.connect(tmp_path / "store", cache=tmp_path)
    with pytest.raises(StoreError, match="is a URL"):
        sqlview.store.backup(f"{bucket}/old", str(tmp_path / "copy"))
    with monkeypatch.context() as patch:
        patch.setattr(objects, "put_new", lambda *given: objects.put(*given) is None)
        assert "does not refuse to put an object" in refusal(f"{bucket}/careless")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "obstore", None)
        assert "pip install 'sqlview-spark[s3]'" in refusal(f"{bucket}/x")
    with monkeypatch.context() as patch:
        patch.setattr(objects, "_RETRIES", 0)
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        assert "does not answer" in refusal(f"{bucket}/x")
    with monkeypatch.context() as patch:
        patch.setattr(objects, "_RETRIES", 0)
        patch.setattr(objects, "_RETRY_SECONDS", 1.0)
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        patch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
        assert "There are no credentials" in refusal(f"{bucket}/x")
