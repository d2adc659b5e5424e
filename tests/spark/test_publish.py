"""State published in files and attached again, and blobs; no Spark needed."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.executor.spark import blobs
from operators.executor.spark.builder import chunks
from operators.flight.column import Column, Ints
from operators.flight.delta import Pairs, bound
from operators.kernels.memory import BLOCK_ROWS
from operators.state import publish
from operators.state.arrangement import ArrangementState
from operators.state.filters import Filter
from operators.state.hashing import Hashing
from operators.state.pieces import Place, Stored
from operators.state.publish import Attachment, Publication, Publisher
from operators.state.relation import Relation
from operators.state.shared import Shared
from operators.state.values import ValueFiles
from planner import dataflow as ir
from planner.calculus.expr import Call, Literal
from planner.calculus.expr import Column as ColumnRef
from planner.calculus.types import BIGINT, BOOLEAN, STRING, DecimalType, Field

WIDE = DecimalType(38, 2)
SCHEMA = (Field("k", BIGINT, False), Field("s", STRING), Field("d", WIDE))
SOURCE = ir.Source("t", SCHEMA)


def columns(first: int, n: int) -> list[Column]:
    keys = np.arange(first, first + n, dtype=np.int64)
    valid = keys % 7 != 0
    texts = pa.array([f"text {k}" if v else "" for k, v in zip(keys, valid, strict=True)])
    pair = np.stack((keys, -(keys % 2)), axis=1)
    return [Column(BIGINT, keys), Column(STRING, texts, valid), Column(WIDE, pair)]


def fill(relation: Relation, n: int, time: int) -> None:
    relation.append(columns(relation.next_row, n), np.full(n, time, np.int64))


def equal(left: Column, right: Column) -> bool:
    if isinstance(left.values, pa.Array):
        same = left.values.equals(right.values)
    else:
        same = np.array_equal(left.values, right.values)
    if left.valid is None or right.valid is None:
        return bool(same) and left.valid is right.valid
    return bool(same) and np.array_equal(left.valid, right.valid)


@pytest.fixture
def relation() -> Relation:
    """Three blocks, the first compacted, with deaths that some reader can tell."""
    relation = Relation(SCHEMA)
    fill(relation, 2 * BLOCK_ROWS + 1000, 1)
    early = np.flatnonzero(np.arange(BLOCK_ROWS) % 10)
    relation.kill(early, np.full(len(early), 2, np.int64))
    relation.advance(2)
    assert relation.compacted_rows(0) is not None
    fill(relation, 500, 3)
    relation.kill(np.array([10, BLOCK_ROWS + 5], np.int64), np.array([4, 4], np.int64))
    return relation


def stored_in(
    relations: Sequence[Relation],
    indexes: Sequence[ArrangementState] = (),
    filters: Sequence[Filter] = (),
) -> tuple[list[Stored], list[Stored]]:
    """Where all their values lie, and dead bits."""
    values = [s for r in relations for s in r.stored_blocks]
    values += [b.stored for i in indexes for b in i.spine.batches]
    values += [s for f in filters for s in f.stored_bitmaps]
    return values, [s for r in relations for s in r.stored_dead]


def publication(
    publisher: Publisher, relation: Relation | None = None
) -> AbstractContextManager[Publication]:
    return publisher.publication(*stored_in([] if relation is None else [relation]))


def attachment(directory: Path, values: Path | None = None) -> Attachment:
    shared = Shared(hashing=Hashing.drawn())
    return Attachment(str(directory if values is None else values), str(directory), shared)


@pytest.mark.parametrize("durable", [False, True])
def test_attached_state_reads_alike(relation: Relation, durable: bool, tmp_path: Path) -> None:
    """In files of the session, or of a store beside it."""
    index = ArrangementState(ir.Arrangement(SOURCE, (0,)), relation)
    predicate = Call(
        "lt", (ColumnRef(0, BIGINT, False, "k"), Literal(100_000, BIGINT)), BOOLEAN, False
    )
    passing = Filter(relation, predicate)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    publisher = Publisher(str(tmp_path), ValueFiles(str(store), durable) if durable else None)
    with publication(publisher, relation) as job:
        refs = (job.relation(relation, range(3), None), job.index(index), job.filter(passing))

    found = attachment(tmp_path, store if durable else tmp_path)
    attached = found.relation(refs[0])
    attached_index = found.index(refs[1], attached)
    attached_filter = found.filter(refs[2], attached)
    rows = relation.visible(3)
    for time in (2, 3, 4):
        assert np.array_equal(attached.visible(time), relation.visible(time))
    for i in range(3):
        assert equal(attached.gather(i, rows), relation.gather(i, rows))
    assert np.array_equal(attached_filter.test(rows), passing.test(rows))
    probes = np.arange(0, 140_000, 3, dtype=np.int64).reshape(1, -1)
    for as_of in (True, False):
        times = np.full(probes.shape[1], 4, np.int64)
        ours, theirs = (
            i.lookup(probes, times, as_of, f.bits)
            for i, f in ((index, passing), (attached_index, attached_filter))
        )
        assert len(ours.row) > 0
        assert np.array_equal(ours.row, theirs.row)
        assert np.array_equal(ours.probe, theirs.probe)


def test_empty_arrays_take_no_place(tmp_path: Path) -> None:
    none, some = np.empty(0, np.int64), np.arange(3)
    with publication(Publisher(str(tmp_path))) as job:
        places = [job.array(a) for a in (none, some, none)]
    back = [attachment(tmp_path).ints(p) for p in places]
    assert [b.tolist() for b in back] == [[], [0, 1, 2], []]
    with publication(Publisher(str(tmp_path))) as alone:
        place = alone.array(none)
    assert len(attachment(tmp_path).ints(place)) == 0


@pytest.mark.parametrize(
    "place",
    [
        ("step", 0, 25),
        ("step", -8, 8),
        ("step", 16, 16),
        ("../step", 0, 8),
        ("/etc/hostname", 0, 1),
    ],
)
def test_places_outside_what_was_published(place: tuple[str, int, int], tmp_path: Path) -> None:
    directory = tmp_path / "session"
    directory.mkdir()
    for path in (directory / "step", tmp_path / "step"):
        path.write_bytes(bytes(24))
    with pytest.raises(ValueError):
        attachment(directory).ints(Place(*place))


def test_files_that_are_gone_are_published_again(relation: Relation, tmp_path: Path) -> None:
    """The directory with all that is in it, or some of its files: whoever took them."""
    directory = tmp_path / "session"
    publisher = Publisher(str(directory))
    rows = np.arange(3 * BLOCK_ROWS // 2, 3 * BLOCK_ROWS // 2 + 10)

    def publish() -> int:
        before = publisher.written_bytes
        with publication(publisher, relation) as job:
            ref = job.relation(relation, [0], None)
        attached = attachment(directory).relation(ref)
        assert equal(attached.gather(0, rows), relation.gather(0, rows))
        job.drop()
        return publisher.written_bytes - before

    first = publish()
    assert publish() < first // 2
    for taken in (shutil.rmtree, lambda d: [f.unlink() for f in d.glob("rows*")]):
        taken(directory)
        assert publish() >= first - 2 * BLOCK_ROWS // 8
        assert publish() < first // 2
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    shutil.rmtree(directory)
    publisher.collect(*stored_in([relation]))
    publisher.close()
    assert not directory.exists()


def _calls(work: Callable[[], Any]) -> tuple[Any, int]:
    """What comes of it, and how many functions of Python were called for it."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return work(), calls
    finally:
        sys.setprofile(before)


def test_what_is_published_for_a_job_does_not_grow_with_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same change over a tenfold of rows costs the same bytes, tells of as many blocks and
    calls as many functions, and so does reading it; it reads alike: a row goes in one block, one
    block more is full, all of another is gone."""
    monkeypatch.setattr(publish, "_LOOKS", 0)  # which no job pays for
    schema = (Field("k", BIGINT, False), Field("x", BIGINT, False))
    source, costs = ir.Source("t", schema), []
    predicate = Call("lt", (ColumnRef(0, BIGINT, False, "k"), Literal(9, BIGINT)), BOOLEAN, False)
    for blocks in (8, 80):
        relation, directory = Relation(schema), tmp_path / str(blocks)

        def add(n: int, time: int, relation: Relation = relation) -> None:
            values = [Column(BIGINT, np.arange(n)), Column(BIGINT, np.arange(n))]
            relation.append(values, np.full(n, time, np.int64))

        add(blocks * BLOCK_ROWS + 100, 1)
        index = ArrangementState(ir.Arrangement(source, (0,)), relation)
        passing, publisher = Filter(relation, predicate), Publisher(str(directory))
        relation.kill(np.arange(3, blocks * BLOCK_ROWS, BLOCK_ROWS), np.full(blocks, 2, np.int64))
        written, told, calls = list[int](), list[int](), list[int]()
        for time, n in ((3, 0), (4, 10), (5, BLOCK_ROWS), (6, 10)):
            add(n, time)
            dying = np.array([BLOCK_ROWS + 10 + time], np.int64)
            if time == 6:
                dying = np.setdiff1d(np.arange(BLOCK_ROWS), [3]) + 2 * BLOCK_ROWS
            relation.kill(dying, np.full(len(dying), time, np.int64))
            relation.advance(time)
            index.absorb()
            passing.absorb()
            before = publisher.written_bytes

            def published(
                publisher: Publisher = publisher,
                relation: Relation = relation,
                index: ArrangementState = index,
                passing: Filter = passing,
            ) -> Any:
                with publisher.publication(*stored_in([relation], [index], [passing])) as job:
                    refs = job.relation(relation, [0, 1], None), job.filter(passing)
                return job, refs

            (job, refs), calling = _calls(published)
            written.append(publisher.written_bytes - before)
            told.append(job.entries)

            def mapped(refs: Any = refs, directory: Path = directory) -> Any:
                attached = (found := attachment(directory)).relation(refs[0])
                return attached, found.filter(refs[1], attached)

            (attached, attached_filter), reading = _calls(mapped)
            calls.append(calling + reading)
            rows = relation.visible(time)
            assert np.array_equal(attached.visible(time), rows)
            some = rows[:: max(len(rows) // 1000, 1)].copy()
            assert equal(attached.gather(1, some), relation.gather(1, some))
            assert np.array_equal(attached_filter.test(some), passing.test(some))
            job.drop()
            publisher.collect(*stored_in([relation], [index], [passing]))
        costs.append((written[1:], told[1:], calls[1:]))
        del relation, index, passing, add, published, mapped, attached, attached_filter
        publisher.close()
        assert os.listdir(directory) == []
    (bytes_small, told_small, calls_small), (bytes_large, told_large, calls_large) = costs
    assert told_small == told_large
    for small, large in zip(bytes_small, bytes_large, strict=True):
        assert large <= small + 500, costs
    for small, large in zip(calls_small, calls_large, strict=True):
        assert large <= 1.2 * small, costs


def test_what_a_checkpoint_moves_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of which little is in use is left for another one, between jobs that do not look."""
    monkeypatch.setattr(publish, "_LOOKS", 0)
    relation = Relation(SCHEMA)
    fill(relation, 4 * BLOCK_ROWS + 10, 1)
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    values = ValueFiles(str(store), durable=True)
    publisher = Publisher(str(tmp_path / "session"), values)

    def published() -> Ints:
        with publication(publisher, relation) as job:
            ref = job.relation(relation, [0, 1], None)
        attached = attachment(tmp_path / "session", store).relation(ref)
        rows = relation.visible(9)
        assert np.array_equal(attached.visible(9), rows)
        assert all(equal(attached.gather(c, rows), relation.gather(c, rows)) for c in (0, 1))
        job.drop()
        return rows

    published()
    dying = np.arange(3 * BLOCK_ROWS)
    relation.kill(dying, np.full(len(dying), 2, np.int64))
    relation.advance(2)
    published()
    (old,) = store.glob("rows-*")
    values.leave(stored_in([relation])[0])
    with values.writing() as out:
        out.blocks(relation.form(), [relation.block(3)])
    old.unlink()
    assert len(published()) == BLOCK_ROWS + 10


def test_blocks_are_told_with_the_columns_that_are_looked_up(tmp_path: Path) -> None:
    """One block was written with more of them, for a job that read rows of that block alone."""
    relation = Relation(SCHEMA)
    fill(relation, 3 * BLOCK_ROWS + 10, 1)
    publisher, rows = Publisher(str(tmp_path)), relation.visible(9)

    def published(wanted: Sequence[int], blocks: Sequence[int] | None = None) -> None:
        with publication(publisher, relation) as job:
            ref = job.relation(relation, wanted, blocks)
        attached = attachment(tmp_path).relation(ref)
        some = rows if blocks is None else rows[np.isin(rows // BLOCK_ROWS, blocks)]
        assert all(equal(attached.gather(c, some), relation.gather(c, some)) for c in wanted)
        job.drop()

    published([0])
    published([1], [2])
    published([0])
    published([1])
    published([0, 1])


def test_a_column_that_was_told_of_and_taken_back_is_not_told_again(tmp_path: Path) -> None:
    relation = Relation(SCHEMA)
    fill(relation, 2 * BLOCK_ROWS + 10, 1)
    publisher, width = Publisher(str(tmp_path)), len(SCHEMA)

    def published() -> None:
        every = range(len(relation.schema))
        with publication(publisher, relation) as job:
            ref = job.relation(relation, every, None)
        attached, rows = attachment(tmp_path).relation(ref), relation.visible(9)
        assert all(equal(attached.gather(c, rows), relation.gather(c, rows)) for c in every)
        job.drop()

    def work() -> None:
        relation.add_columns((SCHEMA[0],), [relation.gather(0, np.zeros(1, np.int64))])
        published()
        raise KeyboardInterrupt

    published()
    with pytest.raises(KeyboardInterrupt):
        relation.undo.all_or_nothing(work)
    assert len(relation.schema) == width
    published()


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_nobody_else_reads_what_is_published(tmp_path: Path, umask: int) -> None:
    directory = tmp_path / "session"
    before = os.umask(umask)
    try:
        with publication(Publisher(str(directory))) as job:
            job.array(np.arange(10))
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(f.stat().st_mode) for f in directory.iterdir()] == [0o600]


def test_a_directory_of_others_is_not_used(tmp_path: Path) -> None:
    """Somebody else put one in the place of the session's, or a link to one."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / "own", target_is_directory=True)
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "file").touch(mode=0o600)
    for name in ("theirs", "link", "file"):
        with (
            pytest.raises(PermissionError, match="not a directory of this user alone"),
            publication(Publisher(str(tmp_path / name))),
        ):
            pass


def test_only_what_was_published(relation: Relation, tmp_path: Path) -> None:
    with publication(Publisher(str(tmp_path)), relation) as job:
        ref = job.relation(relation, [0], [1])
    attached = attachment(tmp_path).relation(ref)
    rows = np.array([BLOCK_ROWS, 2 * BLOCK_ROWS - 1], np.int64)
    assert equal(attached.gather(0, rows), relation.gather(0, rows))
    with pytest.raises(LookupError, match="column 1 cannot be read here"):
        attached.gather(1, rows)


def test_full_blocks_and_batches_are_written_once(tmp_path: Path) -> None:
    """The second job writes what is new; what the driver has dropped is deleted."""
    relation = Relation(SCHEMA)
    fill(relation, BLOCK_ROWS + 10, 1)
    index = ArrangementState(ir.Arrangement(SOURCE, (0,)), relation)
    publisher = Publisher(str(tmp_path))

    def publish(columns: Sequence[int] = (0, 1, 2)) -> int:
        before = publisher.written_bytes
        with publisher.publication(*stored_in([relation], [index])) as job:
            job.relation(relation, columns, None)
            job.index(index)
        job.drop()
        publisher.collect(*stored_in([relation], [index]))
        return publisher.written_bytes - before

    assert 1_000_000 < publish([0]) < 2_000_000, "the column that is read, and the index"
    assert publish() > 2_000_000
    assert publish([0]) < 2_000, "from a file that has more columns"
    files = set(os.listdir(tmp_path))
    fill(relation, 10, 2)
    index.absorb()
    assert publish() < 20_000
    assert files < set(os.listdir(tmp_path))
    index.spine = ArrangementState(index.spec, relation).spine
    assert publish() > 1_000_000
    assert len(os.listdir(tmp_path)) == 2, "the blocks, and the one new batch"
    publisher.close()
    assert os.listdir(tmp_path) == []


def test_dead_bits_are_written_when_rows_die(tmp_path: Path) -> None:
    """Of their blocks alone, and taken back they are as they were."""
    relation = Relation(SCHEMA)
    fill(relation, 4 * BLOCK_ROWS, 1)
    relation.kill(np.arange(0, 4 * BLOCK_ROWS, 1000), np.full(263, 2, np.int64))
    publisher = Publisher(str(tmp_path))

    def publish() -> tuple[int, Ints]:
        before = publisher.written_bytes
        with publication(publisher, relation) as job:
            ref = job.relation(relation, [0], None)
        seen = attachment(tmp_path).relation(ref).visible(9)
        job.drop()
        publisher.collect(*stored_in([relation]))
        return publisher.written_bytes - before, seen

    publish()
    for dying in ([5], [6], []):
        written, _ = publish()
        rows = np.array(dying, np.int64)
        relation.kill(rows, np.full(len(rows), 3, np.int64))
        again, seen = publish()
        assert abs(again - written - len(rows) * BLOCK_ROWS // 8) < 1000
        assert np.array_equal(seen, relation.visible(9))
    expected = relation.visible(9)

    def fail() -> None:
        relation.kill(np.array([7, 77], np.int64), np.full(2, 4, np.int64))
        publish()
        raise KeyError

    with pytest.raises(KeyError):
        relation.undo.all_or_nothing(fail)
    assert np.array_equal(publish()[1], expected)


def test_a_block_that_a_step_filled_and_left_is_written_anew(tmp_path: Path) -> None:
    relation = Relation(SCHEMA)
    fill(relation, BLOCK_ROWS - 10, 1)
    index = ArrangementState(ir.Arrangement(SOURCE, (0,)), relation)
    predicate = Call("lt", (ColumnRef(0, BIGINT, False, "k"), Literal(9, BIGINT)), BOOLEAN, False)
    passing = Filter(relation, predicate)
    publisher = Publisher(str(tmp_path))

    def publish() -> None:
        with publisher.publication(*stored_in([relation], [index], [passing])) as job:
            refs = job.relation(relation, [0], None), job.index(index), job.filter(passing)
        found = attachment(tmp_path)
        attached = found.relation(refs[0])
        rows = relation.visible(9)
        assert np.array_equal(attached.visible(9), rows)
        assert equal(attached.gather(0, rows), relation.gather(0, rows))
        tested = found.filter(refs[2], attached).test(rows)
        assert np.array_equal(tested, passing.test(rows))
        assert found.index(refs[1], attached).spine.entries == len(rows)
        job.drop()

    def fail() -> None:
        fill(relation, 20, 2)
        index.absorb()
        passing.absorb()
        publish()
        raise KeyError

    publish()
    with pytest.raises(KeyError):
        relation.undo.all_or_nothing(fail)
    zeros = [Column(BIGINT, np.zeros(20, np.int64)), *columns(0, 20)[1:]]
    relation.append(zeros, np.full(20, 2, np.int64))
    index.absorb()
    passing.absorb()
    publish()


def test_blobs(relation: Relation) -> None:
    """Columns come back as they were, over writable memory; equal values make equal bytes."""
    rows = np.arange(BLOCK_ROWS, BLOCK_ROWS + 100, dtype=np.int64)
    original = relation.gather_all(rows)
    types = [c.type for c in original]
    (blob,) = blobs.encode_columns(original)
    back = blobs.decode_columns(blob, types)
    assert all(equal(a, b) for a, b in zip(back, original, strict=True))
    assert back[0].values.flags.writeable
    assert list(blobs.encode_columns(relation.gather_all(rows))) == [blob]
    sliced = [Column(c.type, c.values[20:60], _slice(c, 20, 60)) for c in original]
    (part,) = blobs.encode_columns(sliced)
    expected = relation.gather_all(rows[20:60])
    assert all(
        equal(a, b) for a, b in zip(blobs.decode_columns(part, types), expected, strict=True)
    )


def test_blobs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "MAX_BYTES", 4096)
    skewed = [Column(STRING, pa.array(["x" * 3000, "y" * 3000] + ["z"] * 1000))]
    encoded = list(blobs.encode_columns(skewed))
    assert max(map(len, encoded)) <= 4096
    values = [v for b in encoded for v in blobs.decode_columns(b, [STRING])[0].values.to_pylist()]
    assert values == skewed[0].values.to_pylist()
    words = np.arange(3000, dtype=np.int64).reshape(3, 1000)
    pieces = list(blobs.encode_words(words))
    assert max(map(len, pieces)) <= 4096
    assert np.array_equal(blobs.decode_words(pieces, 3), words)


@pytest.mark.parametrize("count", [1, 3, 64])
def test_chunks_keep_pairs_together(relation: Relation, count: int) -> None:
    n = 20
    old, new = np.array([1, 4, 9], np.int64), np.array([12, 13, 19], np.int64)
    time = np.ones(n, np.int64)
    delta = bound(relation, np.arange(n, dtype=np.int64), time, time, Pairs(old, new, True))
    order, starts, pairs = chunks(delta, count)
    assert sorted(order.tolist()) == list(range(n))
    assert sum(pairs) == 3
    told: list[tuple[int, int]] = []
    for start, end, updated in zip(starts[:-1], starts[1:], pairs, strict=True):
        chunk: Ints = order[start:end]
        middle = len(chunk) - updated
        told += zip(chunk[middle - updated : middle].tolist(), chunk[middle:].tolist(), strict=True)
    assert told == list(zip(old.tolist(), new.tolist(), strict=True))


def _slice(
    column: Column, start: int, end: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    return None if column.valid is None else column.valid[start:end]
