"""What is retained: everything after a cursor, or the word that something is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.gateway.core.history import DeliveredBatch, History

STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=40)


@given(steps=STEPS, per_subscription=st.integers(1, 4), characters=st.integers(1, 30))
def test_what_is_told_again_is_all_of_it_or_nothing(
    steps: list[tuple[str, int]], per_subscription: int, characters: int
) -> None:
    history = History(per_subscription=per_subscription, characters=characters)
    everything: dict[str, list[DeliveredBatch]] = {"a": [], "b": []}
    for number, (subscription, size) in enumerate(steps, 1):
        told = DeliveredBatch(number, "x" * size)
        history.append(subscription, told)
        everything[subscription].append(told)
        assert history.size <= characters
        for name, all_told in everything.items():
            for after in range(number + 1):
                missed = history.since(name, after)
                assert missed is None or missed == [each for each in all_told if each.number > after]
            assert history.since(name, number) == []
    kept = [told for _, told in history.entries()]
    assert kept == sorted(kept)
    assert history.size == sum(len(told.changes) for told in kept)


def test_the_newest_are_retained() -> None:
    history = History(per_subscription=2)
    for number in range(1, 6):
        history.append("a", DeliveredBatch(number, "[]"))
    assert history.since("a", 3) == [DeliveredBatch(4, "[]"), DeliveredBatch(5, "[]")]
    assert history.since("a", 2) is None


def test_a_new_subscription_of_an_old_name_knows_nothing_older() -> None:
    history = History()
    history.append("a", DeliveredBatch(1, "[]"))
    history.open("a", 5)
    assert history.since("a", 4) is None
    assert history.since("a", 5) == []
    assert history.size == 0


def test_a_tenant_gives_way_to_nobody_who_has_more() -> None:
    history = History(characters=100)
    history.append("small/a", DeliveredBatch(1, "x" * 10))
    for number in range(2, 50):
        history.append("large/a", DeliveredBatch(number, "x" * 40))
        history.append("larger/a", DeliveredBatch(number, "x" * 60))
        assert history.size <= 100
    assert history.since("small/a", 0) == [DeliveredBatch(1, "x" * 10)]
    assert history.since("large/a", 1) is None
