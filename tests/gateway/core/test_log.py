"""The write-ahead log: what was synced is read back, and a torn end is cut off."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tocsin import StateError
from tocsin.gateway.core.storage import files
from tocsin.gateway.core.storage.log import Log, Record, encode

RECORDS = [Record(number, {"op": "publish", "n": number}, b"x" * number) for number in range(1, 6)]
ENDS = [sum(len(encode(record)) for record in RECORDS[:count]) for count in range(6)]


def written(folder: Path, *, together: int = len(RECORDS)) -> Path:
    """All records in one segment, so many with one sync."""
    log = Log(folder)
    log.resume(1)
    for record in RECORDS:
        log.append(record)
        if record.number % together == 0:
            log.sync()
    log.close()
    return next(folder.glob("log-*.wal"))


def read(folder: Path, after: int = 0) -> list[Record]:
    """What a start reads; it then cuts a torn end off."""
    log = Log(folder)
    found = list(log.replay(after))
    log.resume(after + 1)
    log.close()
    return found


def test_records_are_read_back(tmp_path: Path) -> None:
    written(tmp_path)
    assert read(tmp_path) == RECORDS
    assert read(tmp_path, after=3) == RECORDS[3:]


@pytest.mark.parametrize("together", [1, 5])
def test_a_torn_end_is_cut_off_at_every_byte(tmp_path: Path, together: int) -> None:
    path = written(tmp_path, together=together)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = sum(end <= size for end in ENDS[1:])
        assert read(tmp_path) == RECORDS[:whole]
        assert path.stat().st_size == ENDS[whole]


def test_a_torn_end_is_written_over(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    log = Log(tmp_path)
    assert len(list(log.replay(0))) == 4
    log.resume(5)
    log.append(RECORDS[4])
    log.sync()
    log.close()
    assert read(tmp_path) == RECORDS


def flip(path: Path, place: int) -> bytes:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("place", [0, 5, 9, 20, 30])
def test_what_was_never_synced_may_be_in_any_state(tmp_path: Path, place: int) -> None:
    """A crash of the machine may lose a record and leave a later one of the same sync."""
    path = written(tmp_path)
    flip(path, place)
    assert read(tmp_path) == []
    assert path.stat().st_size == 0


@pytest.mark.parametrize("place", range(0, ENDS[3], 7))
def test_damage_before_what_was_synced_later_is_refused(tmp_path: Path, place: int) -> None:
    path = written(tmp_path, together=1)
    data = flip(path, place)
    begin = max(end for end in ENDS if end <= place)
    number = ENDS.index(begin) + 1
    with pytest.raises(StateError, match=f"byte {begin}: record {number} was acknowledged") as refused:
        read(tmp_path)
    assert path.read_bytes() == data, "nothing is changed"
    assert f"truncate -s {begin} {path}" in str(refused.value)
    path.write_bytes(data[:begin])
    assert read(tmp_path) == RECORDS[: number - 1]


def test_damage_before_a_torn_end_is_refused_too(tmp_path: Path) -> None:
    path = written(tmp_path, together=1)
    flip(path, 3)
    path.write_bytes(path.read_bytes()[:-1])
    size = path.stat().st_size
    with pytest.raises(StateError, match="record 1 was acknowledged"):
        read(tmp_path)
    assert path.stat().st_size == size


def test_a_record_inside_a_torn_one_is_no_record(tmp_path: Path) -> None:
    """Somebody publishes what looks like a record of long ago."""
    path = written(tmp_path, together=1)
    body = encode(Record(3, {"op": "x"}, b""), 2)
    torn = encode(Record(6, {"op": "publish"}, body + b"more"), 5)[:-1]
    path.write_bytes(path.read_bytes() + torn)
    assert read(tmp_path) == RECORDS


def test_segments_that_a_snapshot_has_made_superfluous_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    log = Log(tmp_path)
    log.rotate(6)
    log.append(Record(6, {"op": "x"}, b""))
    log.sync()
    log.close()
    flip(path, 0)
    assert [record.number for record in read(tmp_path, after=5)] == [6]


def test_a_gap_behind_the_snapshot_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.rotate(6)
    log.append(Record(6, {"op": "x"}, b""))
    log.sync()
    log.close()
    with pytest.raises(StateError, match="record 4 is missing") as refused:
        read(tmp_path, after=3)
    assert "6 follows" in str(refused.value)


def test_damage_before_newer_segments_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    log = Log(tmp_path)
    log.rotate(6)
    log.append(Record(6, {}, b""))
    log.sync()
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateError, match="damaged") as refused:
        read(tmp_path)
    assert path.name in str(refused.value)


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.rotate(1)
    log.append(RECORDS[0])
    log.append(RECORDS[2])
    log.sync()
    log.close()
    with pytest.raises(StateError, match="missing") as refused:
        read(tmp_path)
    assert "record 2" in str(refused.value)


def test_old_segments_are_forgotten(tmp_path: Path) -> None:
    written(tmp_path)
    log = Log(tmp_path)
    log.rotate(6)
    log.append(Record(6, {}, b""))
    log.sync()
    log.forget(6)
    log.close()
    assert [record.number for record in read(tmp_path, after=5)] == [6]


@pytest.mark.parametrize("call", ["open_file", "sync"])
def test_a_rotation_that_fails_goes_on_with_the_old_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The old descriptor stays open: nobody else can get its number, and with it the records."""
    log = Log(tmp_path)
    log.resume(1)
    log.append(RECORDS[0])
    log.sync()

    def refuse(*given: Any) -> Any:
        raise OSError(24, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(files, call, refuse)
        with pytest.raises(OSError, match="too many"):
            log.rotate(2)
    reading, writing = os.pipe()
    log.append(RECORDS[1])
    log.sync()
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    log.close()
    assert read(tmp_path) == RECORDS[:2]


def test_an_append_that_fails_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    log = Log(tmp_path)
    assert len(list(log.replay(0))) == 5
    log.resume(6)
    with monkeypatch.context() as patched:
        real = files.write

        def short(descriptor: int, data: Any) -> int:
            if len(data) < 10:
                raise OSError(28, "no space left on device")
            return real(descriptor, bytes(data)[: len(data) - 5])

        patched.setattr(files, "write", short)
        with pytest.raises(OSError, match="no space"):
            log.append(Record(6, {"op": "x"}, b""))
    with pytest.raises(StateError, match="could not be written"):
        log.append(Record(6, {"op": "x"}, b""))
    log.close()
    assert path.stat().st_size == ENDS[-1]


def test_segments_that_a_failed_rotation_left_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "log-00000000000000000003.wal").touch()
    path.write_bytes(path.read_bytes()[:-1])
    assert read(tmp_path) == RECORDS[:4]
    assert path.stat().st_size == ENDS[4]
