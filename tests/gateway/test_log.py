"""The write-ahead log: what was synced is read back, and a torn end is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin import StateError
from tocsin.gateway.log import Log, Record, encode

RECORDS = [Record(number, {"op": "publish", "n": number}, b"x" * number) for number in range(1, 6)]


def written(folder: Path) -> Path:
    log = Log(folder)
    log.resume(1)
    for record in RECORDS:
        log.append(record)
    log.sync()
    log.close()
    return next(folder.glob("log-*.wal"))


def read(folder: Path, after: int = 0) -> list[Record]:
    return list(Log(folder).replay(after))


def test_records_are_read_back(tmp_path: Path) -> None:
    written(tmp_path)
    assert read(tmp_path) == RECORDS
    assert read(tmp_path, after=3) == RECORDS[3:]


def test_a_torn_end_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    ends = [sum(len(encode(record)) for record in RECORDS[:count]) for count in range(6)]
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = sum(end <= size for end in ends[1:])
        assert read(tmp_path) == RECORDS[:whole]
        assert path.stat().st_size == ends[whole]


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


@pytest.mark.parametrize("place", [0, 5, 9, 30])
def test_a_flipped_bit_is_seen(tmp_path: Path, place: int) -> None:
    path = written(tmp_path)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert read(tmp_path) == []


def test_damage_before_newer_segments_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    log = Log(tmp_path)
    log.start(6)
    log.append(Record(6, {}, b""))
    log.sync()
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateError, match="damaged"):
        read(tmp_path)


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.start(1)
    log.append(RECORDS[0])
    log.append(RECORDS[2])
    log.sync()
    log.close()
    with pytest.raises(StateError, match="missing"):
        read(tmp_path)


def test_old_segments_are_forgotten(tmp_path: Path) -> None:
    written(tmp_path)
    log = Log(tmp_path)
    log.start(6)
    log.append(Record(6, {}, b""))
    log.sync()
    log.forget(6)
    log.close()
    assert [record.number for record in read(tmp_path)] == [6]
