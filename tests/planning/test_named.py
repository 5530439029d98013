"""Indexes that a user names: the same answers, or a refusal at once."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import tocsin
from tests.conftest import examples
from tocsin.indexes.contract import DistinctIndex, JoinIndex, MatchIndex, RowIndex, ThresholdIndex
from tocsin.language import parse, plan
from tocsin.planning import INDEXES, KINDS, choice_of, make_index

#: By kind of question: statements with parameters that every index for it holds, and where it is asked.
STATEMENTS: dict[str, list[str]] = {
    "top-k": ["SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT :k"],
    "preferences": [
        "SELECT y FROM w WHERE x BETWEEN :lo AND :hi ORDER BY x * 2 + y DESC LIMIT :k",
        "SELECT y FROM w ORDER BY y + :lo * x LIMIT :k",
    ],
    "rows": ["SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi"],
    "aggregates": ["SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi"],
    "distinct": ["SELECT DISTINCT y FROM t WHERE x BETWEEN :lo AND :hi"],
    "joins": ["SELECT t.k, u.x FROM t JOIN u ON t.y = u.y WHERE t.x BETWEEN :lo AND :hi"],
    "thresholds": ["SELECT SUM(y) FROM s WHERE x BETWEEN :lo AND :hi HAVING SUM(y) >= :k"],
    "matching": ["SELECT x FROM s WHERE x BETWEEN :lo AND :hi AND WEIGHT(y <> :k, 0.5)"],
}
#: Others, where an index holds only these.
OTHERS = {
    ("aggregates", "range-totals"): ["SELECT SUM(y) FROM t WHERE x BETWEEN :lo AND :hi"],
    ("aggregates", "box-totals"): ["SELECT AVG(y) FROM t WHERE x BETWEEN :lo AND :hi AND y < :k"],
    ("thresholds", "segment-interval-tree"): [
        "SELECT SUM(y) FROM s WHERE x BETWEEN :lo AND :hi AND y < :k HAVING SUM(y) >= :k"
    ],
}
#: What the indexes of a kind have, where it is not that of rows.
PROTOCOLS: dict[str, type] = {
    "distinct": DistinctIndex,
    "joins": JoinIndex,
    "thresholds": ThresholdIndex,
    "matching": MatchIndex,
}
COLUMNS = {"x": "double", "y": "double"}


def new_engine(**indexes: str) -> tocsin.Engine:
    engine = tocsin.Engine(indexes=indexes)
    engine.create_table("t", key="k", columns={"k": "int", **COLUMNS})
    engine.create_table("u", key="k", columns={"k": "int", **COLUMNS})
    engine.create_stream("w", columns=COLUMNS, window="5 rows")
    engine.create_stream("s", columns=COLUMNS)
    return engine


def play(engine: tocsin.Engine, statements: list[str], random: Random) -> list[Any]:
    """Subscriptions that come and go, and batches; all that anybody is told."""
    told: list[Any] = []
    sids: list[str] = []
    for number in range(8):
        for sql in statements:
            lo = float(random.randrange(4))
            names: dict[str, Any] = {"lo": lo, "hi": lo + random.randrange(3), "k": random.randint(1, 3)}
            given = {name: value for name, value in names.items() if f":{name}" in sql}
            sids.append(engine.subscribe(sql, id=f"{number} {sql[:20]} {len(sids)}", **given))
        if len(sids) > 4:
            sid = sids.pop(random.randrange(len(sids)))
            if sid in engine:
                engine.unsubscribe(sid)
        for source in ("t", "u", "w", "s"):
            values = [(random.randrange(6), random.choice([0.0, 1.0, 2.0, None])) for _ in range(4)]
            rows = [{"x": float(x), "y": y} for x, y in values]
            if source in "tu":
                rows = [{"k": random.randrange(6), **row} for row in rows]
            told.append(engine.publish(source, rows, each=bool(number % 2)).to_pylist())
        told.append([engine.result(sid).to_pylist() for sid in sids if sid in engine])
    return told


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in INDEXES[kind]], ids="-".join
)
def test_a_named_index_reports_the_same(kind: str, name: str, tmp_path: Path) -> None:
    statements = OTHERS.get((kind, name), STATEMENTS[kind])
    for seed in range(examples(3)):
        expected = play(new_engine(), statements, Random(seed))
        chosen = new_engine(**{kind: name})
        assert play(chosen, statements, Random(seed)) == expected
        chosen.save(tmp_path / "engine")
        restored = tocsin.Engine.load(tmp_path / "engine")
        again = [{"k": 1, "x": 1.0, "y": 1.0}]
        for source in ("t", "u", "w", "s"):
            rows = again if source in "tu" else [{"x": 1.0, "y": 1.0}]
            assert restored.publish(source, rows).equals(chosen.publish(source, rows))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in [*INDEXES[kind], None]],
    ids=lambda part: str(part),
)
def test_an_index_has_what_the_engine_asks_of_its_kind(kind: str, name: str | None) -> None:
    sources = new_engine()._sources
    catalog = {each: source.schema for each, source in sources.items()}
    for sql in OTHERS.get((kind, name or ""), STATEMENTS[kind]):
        question, _ = choice_of(plan(parse(sql), catalog), catalog, None, {})
        assert question.kind == kind
        assert isinstance(make_index(question, name), PROTOCOLS.get(kind, RowIndex))


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in INDEXES[kind]], ids="-".join
)
def test_explain_says_the_name_of_the_index(kind: str, name: str) -> None:
    engine = new_engine(**{kind: name})
    sql = OTHERS.get((kind, name), STATEMENTS[kind])[0]
    given: dict[str, Any] = {name: 1 for name in ("lo", "hi", "k") if f":{name}" in sql}
    sid = engine.subscribe(sql, **given)
    assert f"\nindex: {name}: " in engine.explain(sid)
    assert "\nrule: named" in engine.explain(sid)


@pytest.mark.parametrize("kind", KINDS)
def test_explain_says_the_rule(kind: str) -> None:
    engine = new_engine()
    given: dict[str, Any] = {name: 1 for name in ("lo", "hi", "k") if f":{name}" in STATEMENTS[kind][0]}
    said = engine.explain(engine.subscribe(STATEMENTS[kind][0], **given))
    assert f"\nrule: {kind}" in said
    assert any(f"{name}: " in said for name in INDEXES[kind])


@pytest.mark.parametrize(
    ("kind", "name", "sql", "why"),
    [
        (
            "preferences",
            "tsl",
            "SELECT y FROM w WHERE x >= 0 AND y >= 0 ORDER BY x * y LIMIT 1",
            "weighted sums",
        ),
        (
            "thresholds",
            "interval-tree",
            "SELECT SUM(y) FROM s WHERE x < 1 AND y < 1 HAVING SUM(y) >= 1",
            "one",
        ),
        ("thresholds", "segment-interval-tree", "SELECT SUM(y) FROM s HAVING SUM(y) >= 1", "two ranges"),
        ("top-k", "tiles", "SELECT k FROM t WHERE x < 1 AND y < 1 ORDER BY y LIMIT 1", "one range"),
        ("aggregates", "range-totals", "SELECT MAX(y) FROM t WHERE x < 1", "COUNT, SUM and AVG"),
        ("aggregates", "tiles", "SELECT COUNT(*) FROM t WHERE x < 1", "MIN and MAX"),
    ],
)
def test_a_plan_that_the_index_cannot_hold_is_refused(kind: str, name: str, sql: str, why: str) -> None:
    engine = new_engine(**{kind: name})
    with pytest.raises(tocsin.IndexRefused, match=why):
        engine.subscribe(sql)
    assert len(engine) == 0
    hinted = sql.replace("SELECT", f"SELECT /*+ INDEX('{name}') */", 1)
    with pytest.raises(tocsin.IndexRefused, match=why):
        new_engine().subscribe(hinted)


def test_a_hint_names_the_index_of_one_statement(tmp_path: Path) -> None:
    engine = new_engine()
    plain = engine.subscribe("SELECT y FROM w ORDER BY x + y LIMIT 2")
    hinted = engine.subscribe("SELECT /*+ INDEX(sma) */ y FROM w ORDER BY x + y LIMIT 2")
    engine.publish("w", [{"x": 1.0, "y": 2.0}, {"x": 0.0, "y": 1.0}, {"x": 3.0, "y": 1.0}])
    assert engine.result(plain).equals(engine.result(hinted))
    assert "index: sma:" not in engine.explain(plain)
    assert "index: sma:" in engine.explain(hinted)
    engine.save(tmp_path / "engine")
    restored = tocsin.Engine.load(tmp_path / "engine")
    assert restored.explain(hinted) == engine.explain(hinted)


def test_the_best_matches_are_the_best_of_all_expressions() -> None:
    with pytest.raises(tocsin.IndexRefused, match=r"indexes=\{'matching': 'be-tree'\}"):
        new_engine().subscribe("SELECT /*+ INDEX('be-tree') */ x FROM s WHERE x > 1")


@pytest.mark.parametrize(
    ("indexes", "why"),
    [
        ({"threshold": "scan"}, "no kind of question is named 'threshold'.*'thresholds'"),
        ({"thresholds": "btree"}, "no index for thresholds is named 'btree'.*'distributed-tracking'"),
        ({"thresholds": None}, "no index for thresholds is named None"),
    ],
)
def test_unknown_names_are_refused(indexes: dict[str, Any], why: str) -> None:
    with pytest.raises(tocsin.IndexRefused, match=why):
        tocsin.Engine(indexes=indexes)


@pytest.mark.parametrize("hint", ["INDEX()", "INDEX(a, b)", "BROADCAST(t)", "X Y", "INDEX(a), INDEX(b)"])
def test_other_hints_are_refused(hint: str) -> None:
    with pytest.raises(tocsin.SQLError, match="hint"):
        new_engine().subscribe(f"SELECT /*+ {hint} */ k FROM t WHERE x < 1")
