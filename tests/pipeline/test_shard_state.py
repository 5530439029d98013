"""A shard in a store: whatever is lost or repeated on the way, it answers as if nothing had happened."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.faults import ERRORS, Faults
from tests.pipeline.samples import JOB, emitted, job, packed, stocks, thresholds, trades
from tocsin.errors import StateError
from tocsin.pipeline.shard import ShardJob
from tocsin.pipeline.state import shard_state, warm_cache
from tocsin.pipeline.state.shard_state import ShardMeta, ShardStateManager
from tocsin.pipeline.state.warm_cache import WarmCache

Emitted = list[tuple[str, tuple[Any, ...]]]


class DictStateStore:
    """A state store in memory, with the commit and rollback of a real one."""

    def __init__(self) -> None:
        self.meta: ShardMeta | None = None
        self.parts: dict[tuple[str, int], bytes] = {}

    def get_meta(self) -> ShardMeta | None:
        return copy.copy(self.meta)

    def put_meta(self, meta: ShardMeta) -> None:
        self.meta = copy.copy(meta)

    def get_part(self, kind: str, number: int) -> bytes:
        return self.parts[kind, number]

    def put_part(self, kind: str, number: int, data: bytes) -> None:
        self.parts[kind, number] = data

    def drop_part(self, kind: str, number: int) -> None:
        del self.parts[kind, number]


def state_manager(shard_job: ShardJob, store: DictStateStore, folder: Path) -> ShardStateManager:
    return ShardStateManager(shard_job, 0, store, WarmCache(folder, "test", shard_job, 0))


def batches() -> list[list[bytes]]:
    """Six micro-batches: parameters, rows of both sources, rejects, terminations."""
    rows = [{"id": f"q{i}", "lo": float(i % 5), "hi": float(i % 5 + 2), "tau": 40.0 + i} for i in range(30)]
    ends = [{"id": "q1", "lo": 0.0, "hi": 0.0, "tau": 1.0, "_op": "terminate"}]
    bad = [{"id": "q2", "lo": 0.0, "hi": 1.0, "tau": 5.0}, {"id": "q99", "lo": 0.0, "hi": 1.0, "tau": -5.0}]
    return [
        packed([thresholds("a", rows, 0, 2), stocks("a", {"A": (10, 5), "B": (60, 1)})]),
        packed([trades("b", [1, 2, 3], [10, 20, 30], [3, 1, 2]), trades("a", [2, 2], [5, 5], [1, 1])]),
        packed([stocks("b", {"C": (20, 2), "D": (30, 9), "A": (70, 5)}), thresholds("b", bad, 0, 2)]),
        packed([thresholds("c", ends, 0, 2), trades("c", [0, 1, 4], [50, 1, 9], [9, 8, 7])]),
        packed([trades("d", [3, 3, 3, 2], [11, 12, 13, 14], [1, 2, 3, 4])]),
        packed([stocks("c", {"B": (5, 0.5)}), trades("e", [4, 1], [70, 80], [1, 2])]),
    ]


def undisturbed(folder: Path, shard_job: ShardJob) -> list[Emitted]:
    store = DictStateStore()
    return [emitted(state_manager(shard_job, store, folder).run(batch)) for batch in batches()]


def test_a_batch_is_told_in_order(tmp_path: Path) -> None:
    first, second, *_ = undisturbed(tmp_path, job().shard_job())
    cheap = [row for kind, row in first if kind == "change" and row[0] == "cheap"]
    assert cheap in ([], [("cheap", 0, "enter", "A", 5.0, 1, '{"symbol": "A", "per": 5.0}')])
    # Rows go by `order_by`, then by file: 20 shares at 2 come before 10 at 1, after file a.
    assert [row[1] for kind, row in second if kind == "change"] == sorted(
        row[1] for kind, row in second if kind == "change"
    )


@settings(max_examples=25)
@given(data=st.data())
def test_failures_change_nothing(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    shard_job = job().shard_job()
    expected = undisturbed(tmp_path_factory.mktemp("calm"), shard_job)
    folder = tmp_path_factory.mktemp("warm")
    warm_cache._resident.clear()
    store = DictStateStore()
    small = data.draw(st.sampled_from([1, 2000, 8 << 20]), label="log that is worth a snapshot")
    dear = data.draw(st.sampled_from([1.0, 1e18]), label="bytes of state a second")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_state, "SMALL_LOG", small)
        patch.setattr(shard_state, "CHUNK", 1000)
        patch.setattr(warm_cache, "BYTES_PER_SECOND", dear)
        for number, batch in enumerate(batches()):
            event = data.draw(
                st.sampled_from(
                    ["nothing", "other worker", "files lost", "task dies", "task dies at the end"]
                ),
                label=f"before batch {number}",
            )
            if event in ("other worker", "files lost"):
                warm_cache._resident.clear()
            if event == "files lost":
                for path in folder.iterdir():
                    path.unlink()
            if event.startswith("task dies"):
                failed = copy.deepcopy(store)
                outputs = state_manager(shard_job, failed, folder).run(batch)
                next(outputs, None)
                if event.endswith("end"):
                    list(outputs)
            assert emitted(state_manager(shard_job, store, folder).run(batch)) == expected[number]


def test_a_statement_that_is_added_begins_with_the_next_batch(tmp_path: Path) -> None:
    before, after = (
        job().shard_job(),
        job(
            subscriptions=[
                *JOB["subscriptions"],
                *({"sql": "SELECT COUNT(*) FROM stocks", "id": f"all{i}"} for i in range(4)),
            ]
        ).shard_job(),
    )
    given = batches()
    store = DictStateStore()
    for batch in given[:3]:
        emitted(state_manager(before, store, tmp_path).run(batch))
    cold = copy.deepcopy(store)
    warm_rows = emitted(state_manager(after, store, tmp_path).run(given[3]))
    begun = [row for _, row in warm_rows if row[0].startswith("all")]
    assert begun
    assert all(row[2:5] == ("value", None, 4.0) for row in begun)
    warm_cache._resident.clear()
    for path in tmp_path.iterdir():
        path.unlink()
    assert emitted(state_manager(after, cold, tmp_path).run(given[3])) == warm_rows
    # And when the store is replayed later, they begin where they began.
    warm_cache._resident.clear()
    for path in tmp_path.iterdir():
        path.unlink()
    rest = emitted(state_manager(after, cold, tmp_path).run(given[5]))
    assert not [row for _, row in rest if row[0].startswith("all")]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    store = DictStateStore()
    store.put_meta(ShardMeta(format=99, token="x"))
    with pytest.raises(StateError, match="format 99"):
        list(state_manager(job().shard_job(), store, tmp_path).run([]))


@pytest.mark.parametrize("kind", ERRORS)
def test_warm_copies_may_fail_at_any_call(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard_job = job().shard_job()
    expected = undisturbed(tmp_path / "calm", shard_job)[:3]
    faults = Faults(tmp_path, monkeypatch)
    place = 0
    while place == 0 or faults.count >= place:
        folder = tmp_path / f"{place}"
        faults.arm(place, kind)
        store = DictStateStore()
        for number, batch in enumerate(batches()[:3]):
            warm_cache._resident.clear()
            assert emitted(state_manager(shard_job, store, folder).run(batch)) == expected[number]
        place += 1
    assert place > 10, "the faults are not where the files are"
    faults.arm(-1, "")


def test_a_damaged_warm_copy_is_passed_over(tmp_path: Path) -> None:
    shard_job = job().shard_job()
    expected = undisturbed(tmp_path / "calm", shard_job)
    for eighth in range(9):
        warm_cache._resident.clear()
        store = DictStateStore()
        folder = tmp_path / f"{eighth}"
        list(state_manager(shard_job, store, folder).run(batches()[0]))
        (path,) = folder.iterdir()
        damage(path, eighth)
        warm_cache._resident.clear()
        later = state_manager(shard_job, store, folder)
        assert emitted(later.run(batches()[1])) == expected[1]
        assert later.figures["found"] == "store"


def test_a_damaged_state_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever byte it is, in the log as in the snapshot, before anything is made of it."""
    shard_job = job().shard_job()
    for small in (1, 8 << 20):
        monkeypatch.setattr(shard_state, "SMALL_LOG", small)
        monkeypatch.setattr(shard_state, "LOG_TO_SNAPSHOT", 0)
        store = DictStateStore()
        list(state_manager(shard_job, store, tmp_path).run(batches()[0]))
        (kind,) = {kind for kind, _ in store.parts}
        for eighth in range(9):
            broken = copy.deepcopy(store)
            data = bytearray(broken.parts[kind, 0])
            data[min(len(data) - 1, len(data) * eighth // 8)] ^= 0x40
            broken.parts[kind, 0] = bytes(data)
            warm_cache._resident.clear()
            with pytest.raises(StateError, match="damaged"):
                list(state_manager(shard_job, broken, tmp_path / "nowhere").run(batches()[1]))


def damage(path: Path, eighth: int) -> None:
    """Flip one bit of a file, or at the end cut it."""
    data = bytearray(path.read_bytes())
    if eighth == 8:
        data = data[:-1]
    else:
        data[len(data) * eighth // 8] ^= 0x10
    path.write_bytes(data)
