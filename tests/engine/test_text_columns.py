"""Text columns that subscriptions are bound to: what rows and subscriptions hold has a code, nothing else."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.oracles.strategies import effort
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window

COLUMNS = {"id": "string", "s": "string", "t": "string", "x": "double"}
cells = st.sampled_from([None, "", "a", "b", "it's", "é"])
rows = st.fixed_dictionaries({"id": st.sampled_from("pqrst"), "s": cells, "t": cells})
steps = st.one_of(
    st.tuples(st.just("publish"), st.lists(rows, min_size=1, max_size=4), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from("pqrst")),
    st.tuples(st.just("subscribe"), st.lists(st.sampled_from(["a", "b", "z"]), min_size=1, max_size=3)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 9)),
    st.tuples(st.just("load")),
)


@effort(1.0)
@given(kind=st.sampled_from(["table", "window", "stream"]), steps=st.lists(steps, max_size=12))
def test_codes_are_of_what_is_held(kind: str, steps: list[tuple[Any, ...]], tmp_path_factory: Any) -> None:
    engine, path = tocsin.Engine(), tmp_path_factory.mktemp("texts") / "saved"
    bound: dict[str, str] = {}
    if kind == "table":
        engine.create_table("t", key="id", columns=COLUMNS)
    else:
        engine.create_stream("t", columns=COLUMNS, window="3 rows" if kind == "window" else None)
    sql = "SELECT COUNT(*) FROM t WHERE s = :a HAVING COUNT(*) >= 9"
    if kind != "stream":
        sql = "SELECT id FROM t WHERE s = :a"
    for step in steps:
        if step[0] == "publish":
            engine.publish("t", step[1], each=step[2])
        elif step[0] == "delete" and kind == "table":
            engine.delete("t", [step[1]])
        elif step[0] == "subscribe":
            ids = [f"{len(bound)}-{place}" for place in range(len(step[1]))]
            if not bound.keys() & set(ids):
                engine.subscribe_many(sql, {"id": ids, "a": step[1]})
                bound.update(zip(ids, step[1], strict=True))
        elif step[0] == "unsubscribe" and bound:
            sid = sorted(bound)[step[1] % len(bound)]
            engine.unsubscribe(sid)
            del bound[sid]
        elif step[0] == "load":
            engine.save(path)
            engine = tocsin.Engine.load(path)
        source = engine._sources["t"]
        held = set(bound.values())
        if kind != "stream":
            held |= set(cast(Table | Window, source).rows().column("s").to_pylist()) - {None}
        codes = dict(source.texts.items())
        assert set(codes) == ({"s"} if bound else set())
        if bound:
            assert set(codes["s"].texts().to_pylist()) == held
            assert len(codes["s"]) == len(held)


def test_a_subscription_shows_its_texts() -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="id", columns={**COLUMNS, "b": "boolean"})
    sid = engine.subscribe("SELECT COUNT(*) FROM t WHERE s = 'it''s' AND NOT b AND x > 3")
    assert '"it\'s", FALSE' in engine.explain(sid)
    sid = engine.subscribe("SELECT COUNT(*) FROM t WHERE s = 'a' AND x > 3 AND s = 'b'")
    assert "lo: [nothing, " in engine.explain(sid)


def test_messages_say_that_texts_are_not_described() -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="id", columns=COLUMNS)
    engine.subscribe("SELECT id FROM t WHERE s = 'a' AND x > 3 ORDER BY x LIMIT 2")
    row = {"id": "1", "s": "a", "x": 4}
    with pytest.raises(tocsin.ParameterError, match="messages cannot describe"):
        engine.messages("t", [row])
    engine.messages("t", [row], others="ignore")
    assert engine.result("s0").num_rows == 1
