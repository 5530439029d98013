"""`save` and `load`: the engine goes on as if nothing had happened, and a file that is none is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import tocsin
from tests.oracles.pair import saved
from tocsin.engine import saving

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def full_engine() -> tocsin.Engine:
    """Every kind of source and query, with rows held back, half a threshold, and free slots in between."""
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    engine.create_table("owners", key="owner", columns={"owner": "bigint", "symbol": "string"})
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint", "fee": "decimal(8,2)"})
    engine.create_stream(
        "flows",
        columns={"bytes": "double", "at": "timestamp"},
        window="1 minute",
        time="at",
        delay="10 seconds",
    )
    engine.create_stream("packets", columns={"size": "double"}, window="3 rows")
    engine.create_stream("visitors")
    statements = {
        "top": "SELECT symbol, per FROM stocks WHERE risk BETWEEN 0 AND 50 ORDER BY per LIMIT 2",
        "best": "SELECT symbol FROM stocks ORDER BY risk + per DESC LIMIT 2",
        "min": "SELECT MIN(per) FROM stocks WHERE risk < 50",
        "sum": "SELECT SUM(per) FROM stocks WHERE risk < 50",
        "distinct": "SELECT DISTINCT per FROM stocks WHERE risk < 50",
        "rows": "SELECT symbol FROM stocks WHERE risk < 50",
        "join": "SELECT stocks.per, owners.owner FROM stocks JOIN owners ON stocks.symbol = owners.symbol",
        "flows": "SELECT bytes FROM flows WHERE bytes > 0",
        "large": "SELECT size FROM packets WHERE 2 * size > 3",
        "largest": "SELECT size FROM packets ORDER BY size DESC LIMIT 1",
        "adults": "SELECT * FROM visitors WHERE WEIGHT(age > 18, 0.5) AND city = 'Oslo'",
        "hundred": "SELECT SUM(shares) FROM trades WHERE price < 5 HAVING SUM(shares) >= 100",
    }
    for id, sql in statements.items():
        engine.subscribe(sql, id=id)
    engine.subscribe("SELECT SUM(fee) FROM trades HAVING SUM(fee) >= 1.5", id="fees", repeat=True)
    engine.publish("stocks", [{"symbol": symbol, "risk": 9.0, "per": 4.0} for symbol in "DACB"])
    engine.delete("stocks", ["A"])
    engine.publish("owners", [{"owner": 7, "symbol": "C"}])
    engine.publish("trades", [{"price": 1.0, "shares": 60, "fee": Decimal("1.00")}])
    engine.publish("flows", [{"bytes": 5.0, "at": NOON}, {"bytes": 6.0, "at": NOON + timedelta(seconds=12)}])
    engine.publish("packets", [{"size": 1.0}, {"size": 2.0}])
    engine.publish("visitors", [{"age": 20}])
    engine.subscribe("SELECT symbol FROM stocks WHERE risk < 7", id="gone")
    engine.unsubscribe("gone")
    engine.unsubscribe("best")
    return engine


def go_on(engine: tocsin.Engine) -> list[list[dict[str, object]]]:
    """More of everything; what was told."""
    told = [
        engine.publish("stocks", [{"symbol": "A", "risk": 9.0, "per": 4.0}, {"symbol": "D", "risk": 99.0}]),
        engine.publish("owners", [{"owner": 8, "symbol": "A"}, {"owner": 7, "symbol": "B"}], each=True),
        engine.publish("trades", [{"price": 1.0, "shares": 50}]),
        engine.publish("flows", [{"bytes": 7.0, "at": NOON + timedelta(seconds=75)}]),
        engine.advance("flows", NOON + timedelta(seconds=200)),
        engine.publish("packets", [{"size": 3.0}, {"size": 2.0}], rows=True),
        engine.publish("visitors", [{"age": 20, "city": "Oslo"}], top=1),
    ]
    new = engine.subscribe("SELECT symbol FROM stocks WHERE risk < 50 ORDER BY per DESC LIMIT 1")
    told.append(engine.result(new))
    kept = ("top", "min", "sum", "distinct", "rows", "join", "flows", "large", "largest", "fees")
    told += [engine.result(id) for id in kept]
    return [table.to_pylist() for table in told]


def test_a_loaded_engine_goes_on_as_the_saved_one(tmp_path: Path) -> None:
    engine = full_engine()
    engine.save(tmp_path / "engine")
    loaded = tocsin.Engine.load(tmp_path / "engine")
    assert len(loaded) == len(engine)
    assert go_on(loaded) == go_on(engine)
    assert saved(loaded, tmp_path) == saved(engine, tmp_path)


def test_equal_engines_are_saved_as_equal_bytes(tmp_path: Path) -> None:
    first = saved(full_engine(), tmp_path)
    assert saved(full_engine(), tmp_path) == first
    assert saved(tocsin.Engine.load(tmp_path / "saved"), tmp_path) == first


def test_saving_changes_nothing(tmp_path: Path) -> None:
    engine, other = full_engine(), full_engine()
    saved(engine, tmp_path)
    assert go_on(engine) == go_on(other)


def test_ids_are_known_after_a_load(tmp_path: Path) -> None:
    full_engine().save(tmp_path / "engine")
    loaded = tocsin.Engine.load(tmp_path / "engine")
    with pytest.raises(tocsin.DuplicateSubscription):
        loaded.subscribe("SELECT symbol FROM stocks WHERE risk < 1", id="top")
    with pytest.raises(tocsin.UnknownSubscription):
        loaded.result("gone")
    assert loaded.explain("top").startswith("subscription: top")


def test_an_empty_engine(tmp_path: Path) -> None:
    tocsin.Engine().save(tmp_path / "engine")
    assert len(tocsin.Engine.load(tmp_path / "engine")) == 0


def test_save_replaces_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    path.write_bytes(b"something older")
    full_engine().save(path)
    assert len(tocsin.Engine.load(path)) == len(full_engine())
    assert [file.name for file in tmp_path.iterdir()] == ["engine"], "nothing is left aside"


@pytest.mark.parametrize(
    "content", [b"", b"symbol,risk\nA,1\n", b"PK\x03\x04 not really a zip", b"\x93NUMPY\x01\x00"]
)
def test_a_file_that_is_no_saved_engine(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "engine"
    path.write_bytes(content)
    with pytest.raises(tocsin.StateError, match="engine"):
        tocsin.Engine.load(path)


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    full_engine().save(path)
    whole = path.read_bytes()
    for length in (len(whole) // 3, len(whole) - 10):
        path.write_bytes(whole[:length])
        with pytest.raises(tocsin.StateError):
            tocsin.Engine.load(path)


def test_a_file_that_was_damaged(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    full_engine().save(path)
    whole = path.read_bytes()
    for place in [*range(0, len(whole), len(whole) // 300), *range(len(whole) - 30, len(whole))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(tocsin.StateError, match=r"damaged|not a saved engine|earlier version"):
            tocsin.Engine.load(path)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(tocsin.StateError, match="nothing-here"):
        tocsin.Engine.load(tmp_path / "nothing-here")
    with pytest.raises(tocsin.StateError):
        tocsin.Engine.load(tmp_path)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (".", "must be a file, got the folder"),
        ("none/engine", "there is no folder"),
        ("file/engine", "cannot be saved"),
    ],
)
def test_a_place_that_cannot_be_saved_to(tmp_path: Path, place: str, words: str) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "file").write_bytes(b"")
    with pytest.raises(tocsin.StateError, match=words):
        tocsin.Engine().save(folder / place)
    assert [file.name for file in tmp_path.iterdir()] == ["here"]
    assert [file.name for file in folder.iterdir()] == ["file"], "nothing is left aside"


def test_a_full_disk_leaves_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "engine"
    full_engine().save(path)
    before = path.read_bytes()

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "dump", full)
    with pytest.raises(tocsin.StateError, match="No space left"):
        tocsin.Engine().save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["engine"], "nothing is left aside"


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda engine: pickle.loads(pickle.dumps(engine))]
)
def test_a_copy_goes_on_by_itself(copied: Callable[[tocsin.Engine], tocsin.Engine]) -> None:
    engine = full_engine()
    other = copied(engine)
    assert go_on(other) == go_on(engine)
    assert go_on(copied(engine)) == go_on(engine)
