"""Scores that are not sums: all indexes against the oracle, and bad declarations."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import examples
from tests.indexes.matching.test_access import AccessMachine
from tests.indexes.matching.test_scan import MatchMachine
from tests.oracles.matching import score_of
from tocsin import DeclarationError, Engine
from tocsin.papers.be_star_tree import BEStarTree, CountingIndex, KIndex, TreeOptions


class TreeMachine(MatchMachine):
    def make(self) -> BEStarTree:
        return BEStarTree(capacity=2, options=TreeOptions(leaf=1), score_rule=self.score)


class ListMachine(MatchMachine):
    def make(self) -> CountingIndex:
        return KIndex(capacity=2, score_rule=self.score)


@pytest.mark.parametrize("score", ["max", "min", "product"])
@pytest.mark.parametrize("machine", [MatchMachine, AccessMachine, TreeMachine, ListMachine])
def test_scores_are_those_of_the_oracle(machine: type[MatchMachine], score: str) -> None:
    scored = type(f"{machine.__name__}{score}", (machine,), {"score": score})
    run_state_machine_as_test(scored, settings=settings(max_examples=examples(12), stateful_step_count=10))


ADS = {
    "one": "SELECT * FROM visitors WHERE WEIGHT(age > 20, 0.4) AND WEIGHT(city = 'Oslo', 0.5)",
    "two": "SELECT * FROM visitors WHERE WEIGHT(age > 20, 0.3) AND WEIGHT(city = 'Oslo', 0.9)",
}
EVENT = {"age": 30.0, "city": "Oslo", "_weights": {"age": 2.0}}


@pytest.mark.parametrize("score", ["sum", "max", "min", "product"])
def test_a_stream_says_what_a_score_is(score: str, tmp_path: Path) -> None:
    engine = Engine()
    engine.create_stream("visitors", score=score)
    for name, sql in ADS.items():
        engine.subscribe(sql, id=name)
    expected = {"one": score_of(score, [0.4 * 2.0, 0.5]), "two": score_of(score, [0.3 * 2.0, 0.9])}

    def scores(of: Engine) -> dict[str, float]:
        found: pa.Table = of.publish("visitors", [EVENT], top=5)
        return dict(zip(found["subscription"].to_pylist(), found["score"].to_pylist(), strict=True))

    assert scores(engine) == expected
    assert list(scores(engine)) == sorted(expected, key=lambda name: -expected[name])
    assert f"score {expected['one']}" in engine.explain("one", EVENT)
    assert f"a score is the {score} of weights" in engine.explain("one")
    engine.save(str(tmp_path / "saved"))
    assert scores(Engine.load(str(tmp_path / "saved"))) == expected


def test_bad_declarations_of_a_score() -> None:
    engine = Engine()
    with pytest.raises(DeclarationError, match="score= must be one of sum, max, min, product, got 'mean'"):
        engine.create_stream("visitors", score="mean")
    with pytest.raises(DeclarationError, match="score= requires a stream without a window"):
        engine.create_stream("flows", columns={"bytes": "double"}, window="10 rows", score="max")
    engine.create_stream("visitors", score="max")
