"""The rules that choose the index of a plan, and their switch points.

`questions` reduces a plan to what the choice depends on. `named` makes an index by its name, and reads the
names that a user gave instead of the choice made here. Where a rule names two indexes, `adaptive` replaces
one by the other as subscriptions arrive; where it divides them by k, `limit_classes` passes each to the index
of its class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tocsin.indexes.contract import Index
from tocsin.planning.adaptive import (
    Adaptive,
    AdaptiveMatching,
    AdaptiveRanked,
    AdaptiveThresholds,
    NamedMaker,
    SwitchPoint,
)
from tocsin.planning.limit_classes import ByLimit, LimitClass, prefixed
from tocsin.planning.named import index_maker
from tocsin.planning.questions import (
    AGGREGATES,
    DISTINCT,
    FAMILIES,
    JOINS,
    MATCHING,
    PREFERENCES,
    ROWS,
    THRESHOLDS,
    TOPK,
    Answering,
    Question,
)

#: Subscriptions from which on tiles are faster, whether rows come one by one or many at once.
TILES = SwitchPoint(min_subscriptions=4096, is_reversible=True)

#: Access predicates: as fast as the scan from 4,096 slots on for an event alone; in batches of 100 and of
#: 1,000 from a few hundred on.
ACCESS = SwitchPoint(min_subscriptions=1 << 12, min_pairs=1 << 16, pairs_from=1 << 9)

#: Deferred counting. Where few mature it is faster from a few hundred slots on, by 6 to 100 times; where many
#: mature, in batches of 10,000, from 1,000 or 2,000 on (by pairs from 200 on, in batches of 100 from 16,000).
#: Where many mature in batches of 100 the two are within twice of each other, and in single rows the scan is
#: up to 2.7 times as fast, up to 32,000, the most tried.
DEFERRED = SwitchPoint(min_subscriptions=1 << 12, min_pairs=1 << 21, pairs_from=1 << 7)


class Choice(NamedTuple):
    """An index by name; with a switch point, the one for few subscriptions, and `large` for many."""

    name: str
    switch: SwitchPoint | None = None
    large: str = ""

    def __str__(self) -> str:
        return self.name if self.switch is None else f"{self.name}, {self.large} {self.switch}"

    @property
    def own_name(self) -> str:
        """The name to put before what its index explains: none if it switches, as it then says the name."""
        return self.name if self.switch is None else ""


class Rule(NamedTuple):
    """Chooses an index for the questions that it fits.

    Long top-k lists may have an index of their own (`above`), because what an index shares among its lists is
    sized for the largest k.
    """

    kind: str
    #: how many ranges there may be
    ranges: range | None
    #: whether a disk or a half-plane is allowed
    region: bool
    functions: tuple[str, ...]
    choice: Choice
    #: other choices for LIMIT above the given k
    above: tuple[tuple[int, Choice], ...] = ()

    def __str__(self) -> str:
        functions = f" ({', '.join(self.functions)})" if self.functions else ""
        others = "".join(f"; k above {k:,}: {choice}" for k, choice in self.above)
        return f"{self.kind}{functions}{RANGES[self.ranges]}: {self.choice}{others}"

    def fits(self, question: Question[Any]) -> bool:
        return (
            self.kind == question.kind
            and (self.ranges is None or question.dimensions in self.ranges)
            and (self.region or question.region is None)
            and (not self.functions or question.function in self.functions)
        )


ANY, ONE, UP_TO_ONE = None, range(1, 2), range(2)
#: The ranges of a rule in words.
RANGES = {ANY: "", ONE: " over one range", UP_TO_ONE: " over at most one range"}
TREES_TILES = Choice("trees", TILES, "tiles")
LONG = (1024, Choice("long-lists"))

#: The first rule that fits decides. Measured in `benchmarks`: docs/benchmarks.md has the figures.
RULES = (
    # kind        ranges     region functions        index
    Rule(TOPK,        ONE,       False, (),                      TREES_TILES, ((64, TREES_TILES), LONG)),
    Rule(TOPK,        ANY,       True,  (),                      Choice("trees"), (LONG,)),
    Rule(PREFERENCES, ANY,       True,  (),                      Choice("views"), (LONG,)),
    Rule(AGGREGATES,  ONE,       False, ("min", "max"),          TREES_TILES),
    Rule(AGGREGATES,  ANY,       True,  ("min", "max"),          Choice("trees")),
    Rule(AGGREGATES,  UP_TO_ONE, False, ("count", "sum", "avg"), Choice("range-totals")),
    Rule(AGGREGATES,  ANY,       True,  ("count", "sum", "avg"), Choice("box-totals")),
    Rule(DISTINCT,    ANY,       True,  (),                      Choice("trees")),
    Rule(JOINS,       ANY,       True,  (),                      Choice("trees")),
    Rule(ROWS,        ANY,       True,  (),                      Choice("tiles")),
    Rule(THRESHOLDS,  ANY,       True,  (),                      Choice("scan", DEFERRED, "deferred")),
    Rule(MATCHING,    ANY,       True,  (),                      Choice("scan", ACCESS, "access-predicates")),
)  # fmt: skip


#: By kind of question, what switches between two indexes.
ADAPTIVE: dict[str, type[Adaptive[Any]]] = {
    TOPK: AdaptiveRanked,
    AGGREGATES: AdaptiveRanked,
    THRESHOLDS: AdaptiveThresholds,
    MATCHING: AdaptiveMatching,
}


def make_index(question: Question[Answering], name: str | None = None) -> Answering:
    """An empty index for a question: the one named, or the choice of the rules.

    Raises IndexRefused if the index of this name cannot hold the plan.
    """
    if name is not None:
        return index_maker(question, name)()
    rule = _rule_for(question)
    made = _maker(question, rule.choice)()
    if rule.above:
        classes = [LimitClass(k, _maker(question, choice), choice.own_name) for k, choice in rule.above]
        made = ByLimit(made, classes, name=rule.choice.own_name)
    index: Answering = made
    return index


def explain(question: Question[Any], name: str | None, index: Index) -> str:
    """The family, the name and the rule of what `make_index` made, and what it explains itself."""
    if name is not None:
        own_name, rule = name, "named, not chosen"
    else:
        found = _rule_for(question)
        own_name, rule = "" if found.above else found.choice.own_name, str(found)
    return f"family: {FAMILIES[question.kind]}\nindex: {prefixed(own_name, index.explain())}\nrule: {rule}"


def _rule_for(question: Question[Any]) -> Rule:
    return next(rule for rule in RULES if rule.fits(question))


def _maker(question: Question[Any], choice: Choice) -> Callable[[], Any]:
    small = index_maker(question, choice.name)
    if choice.switch is None:
        return small
    large, switch = index_maker(question, choice.large), choice.switch
    adaptive = ADAPTIVE[question.kind]
    return lambda: adaptive(NamedMaker(choice.name, small), NamedMaker(choice.large, large), switch)
