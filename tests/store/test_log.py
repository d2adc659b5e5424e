"""The log of a store: what was written is read again, or reading says why not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from operators.state.files import Appended
from planner.errors import StoreError
from sqlview.store import log
from sqlview.store.log import End, Log, is_old, log_files, read

MARK = b"\x01arkmark"


def _bodies(directory: Path) -> list[bytes]:
    return [bytes(record.body) for record in read(str(directory), MARK, End())]


def _log(directory: Path, sync_each: bool = True, mark: bytes = MARK) -> Log:
    """Where it goes on."""
    end = End()
    for _ in read(str(directory), mark, end):
        pass
    return Log(str(directory), mark, sync_each, end)


def _written(directory: Path, *bodies: bytes) -> Path:
    """A log that nobody closed; its one file."""
    end = _log(directory)
    for body in bodies:
        end.append([body])
    end._file.close()
    ((_, path),) = log_files(str(directory))
    return Path(path)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    bodies = [b"", b"a", b"\0" * 1000, os.urandom(100_000)]
    end = _log(tmp_path, sync_each=False)
    assert [end.append([body[:3], body[3:]]) for body in bodies] == [1, 2, 3, 4]
    assert _bodies(tmp_path) == bodies  # while it is being written
    end.sync()
    end.close()
    assert _bodies(tmp_path) == bodies
    again = _log(tmp_path)
    assert again.append([b"more"]) == 5
    again.close()
    assert _bodies(tmp_path) == [*bodies, b"more"]


def test_another_file_comes_when_nothing_is_behind_the_records_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_LEAVE_BYTES", 0)
    end = _log(tmp_path)
    end.append([b"whole"])
    with end.begin(lambda: [b"never committed" * 100]):
        pass
    made, left = end._new_file, []

    def making() -> Appended:
        file = made()
        left.append(_bodies(tmp_path))  # what there is if the process is killed here
        return file

    end._new_file = making  # type: ignore[method-assign]
    end.leave()
    assert left == [[b"whole"]]
    end.close()


def test_a_record_that_is_not_whole_is_cut_off(tmp_path: Path) -> None:
    """Wherever the process stopped writing it."""
    whole = _written(tmp_path, b"first", b"second").read_bytes()
    first = 40 + 8
    for length in range(first, first + 40 + 8):
        for filled in (True, False):
            directory = tmp_path / f"{length}{filled}"
            directory.mkdir()
            data = whole[:length] + bytes(5000 if filled else 0)
            (directory / "log-00000000000000000001").write_bytes(data)
            expected = [b"first"] if length < first + 40 + 6 else [b"first", b"second"]
            assert _bodies(directory) == expected, length
            end = _log(directory)
            end.append([b"third"])
            end.close()
            assert _bodies(directory) == [*expected, b"third"]


@pytest.mark.parametrize("place", [0, 7, 9, 17, 25, 33, 41, 48, 70])
def test_a_flipped_bit_is_found_and_its_file_named(tmp_path: Path, place: int) -> None:
    path = _written(tmp_path, b"first", b"second", b"third")
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r'the file ".*log-0{19}1" is damaged'):
        _bodies(tmp_path)


def test_records_are_read_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that met the second record half written, and the third whole, is no damage."""
    path = _written(tmp_path, b"first", b"second", b"third", b"fourth")
    whole = path.read_bytes()
    halves = [whole[:60] + bytes(36) + whole[96:], whole]
    monkeypatch.setattr(log, "read_file", lambda path: halves.pop(0))
    assert _bodies(tmp_path) == [b"first", b"second", b"third", b"fourth"]
    assert not halves


@pytest.mark.parametrize("mark", [b"another1", MARK])
def test_a_row_is_not_taken_for_a_record(tmp_path: Path, mark: bytes) -> None:
    """A row that holds records of another store, and was being written when the process stopped."""
    for name in ("other", "own"):
        (tmp_path / name).mkdir()
    other = _log(tmp_path / "other", mark=mark)
    for _ in range(4):
        other.append([b"a" * 8])
    other.close()
    row = Path(log_files(str(tmp_path / "other"))[0][1]).read_bytes()
    path = _written(tmp_path / "own", b"first", row + bytes(100))
    path.write_bytes(path.read_bytes()[: 48 + 40 + len(row)])
    if mark == MARK:  # which nobody knows
        with pytest.raises(StoreError, match="is damaged"):
            _bodies(tmp_path / "own")
    else:
        assert _bodies(tmp_path / "own") == [b"first"]


def test_files_are_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "FILE_BYTES", 1000)
    bodies = [bytes([i]) * (100 + 300 * (i % 5 == 4)) for i in range(20)] + [b"x" * 3000, b"y"]
    end = _log(tmp_path)
    for body in bodies[:7]:
        end.append([body])
    end.close()
    end = _log(tmp_path)
    for body in bodies[7:]:
        end.append([body])
    end.close()
    assert _bodies(tmp_path) == bodies
    files = log_files(str(tmp_path))
    assert len(files) > 3
    os.remove(files[1][1])
    with pytest.raises(StoreError, match="is missing"):
        _bodies(tmp_path)


def test_a_log_is_read_from_any_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "FILE_BYTES", 200)
    monkeypatch.setattr(log, "_LEAVE_BYTES", 50)
    written, ends = _log(tmp_path), [End()]
    for i in range(12):
        written.append([bytes([i]) * 50])
        ends.append(written.end)
        if i == 6:
            written.leave()
            ends[-1] = written.end
            assert (ends[-1].file, ends[-1].offset) == (8, 0)
    written.close()
    assert len({end.file for end in ends}) > 3
    for i, end in enumerate(ends):
        rest = list(read(str(tmp_path), MARK, end))
        assert [r.number for r in rest] == list(range(i + 1, 13))
        assert end == ends[-1]
    old = [path for first, path in log_files(str(tmp_path)) if first < 8]
    assert old and all(is_old(os.path.basename(path), End(7, 8, 0)) for path in old)
    os.remove(old[0])
    with pytest.raises(StoreError, match="is missing"):
        _bodies(tmp_path)
    for path in old[1:]:
        os.remove(path)
    assert len(list(read(str(tmp_path), MARK, End(7, 8, 0)))) == 5
    for gone in (End(7, 7, 0), End(7, 8, 10_000)):
        with pytest.raises(StoreError, match="is damaged"):
            list(read(str(tmp_path), MARK, gone))


def test_a_record_can_be_taken_back(tmp_path: Path) -> None:
    end = _log(tmp_path)
    end.append([b"stays"])
    for _ in range(2):  # it may be asked for again
        mark = end.mark()
        end.append([b"goes", b" away"])
        end.restore(mark)
        end.restore(mark)
    assert _bodies(tmp_path) == [b"stays"]
    assert end.append([b"next"]) == 2
    end.close()
    assert _bodies(tmp_path) == [b"stays", b"next"]


def test_a_record_is_written_beside_its_step(tmp_path: Path) -> None:
    """It is there when it is finished; what was not leaves nothing, however much was written."""
    end = _log(tmp_path)
    end.append([b"first"])
    for body in (b"x" * 5000, MARK * 100):
        with end.begin(lambda body=body: [body]):  # its step was refused
            pass
        assert _bodies(tmp_path) == [b"first"]
    with end.begin(lambda: [b"sec", b"ond"]) as pending:
        assert _bodies(tmp_path) == [b"first"]
        assert pending.finish() == 2
    assert _bodies(tmp_path) == [b"first", b"second"]
    with end.begin(lambda: [b"t" * 3000]):
        pass
    assert end.append([b"third"]) == 3
    assert _bodies(tmp_path) == [b"first", b"second", b"third"]
    with end.begin(lambda: [b"stopped" * 1000]) as pending:
        pending._thread.join()
        end._file.close()  # the process ends here
        again = _log(tmp_path)
    assert again.append([b"fourth"]) == 4
    again.close()
    assert _bodies(tmp_path) == [b"first", b"second", b"third", b"fourth"]


def test_a_record_that_cannot_be_written_beside_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = _log(tmp_path)
    end.append([b"first"])

    def packs() -> log.Parts:
        raise MemoryError

    with end.begin(packs) as pending, pytest.raises(MemoryError):
        pending.finish()
    calls = [0]

    def full(*_: object) -> int:
        calls[0] += 1
        if calls[0] < 2:
            return pwritev(*_)
        raise OSError(errno.ENOSPC, "no space left on device")

    pwritev = os.pwritev
    for written in (0, 1):  # the body, the header
        calls[0] = 1 - written
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwritev", full)
            with end.begin(lambda: [b"body"]) as pending, pytest.raises(OSError, match="no space"):
                pending.finish()
        assert _bodies(tmp_path) == [b"first"]
    assert end.append([b"second"]) == 2
    end.close()
    assert _bodies(tmp_path) == [b"first", b"second"]


def test_a_log_that_cannot_be_cut_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = _log(tmp_path)
    end.append([b"stays"])

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(OSError, match="Input"):
            end.append([b"lost"])
    with pytest.raises(StoreError, match="takes no more changes"):
        end.append([b"after"])
    end.close()


def test_space_need_not_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems cannot."""

    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    end = _log(tmp_path)
    end.append([b"a" * 10_000])
    end.append([b"b"])
    end.close()
    assert _bodies(tmp_path) == [b"a" * 10_000, b"b"]
