"""Workloads to measure matching: the parameters of the paper's generator, and plain boxes.

Independent attributes give a negligible matching probability, so matches are *planted*:
subscriptions and events are drawn from the same few profiles. A profile is a set of attributes, each with
a cluster of values; an event takes a value of every cluster of its profile, and a subscription asks
for a range of a few of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.matching.conjunctions import Conjunctions
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import KINDS, NUMBER, OPERAND, PREDICATE, TEST


@dataclass(frozen=True)
class Knobs:
    """The parameters that the paper varies, and its middle values."""

    subscriptions: int = 1_000_000
    dimensions: int = 400
    #: values of a dimension: whole numbers from 0 on
    cardinality: int = 250_000_000
    #: clusters of a dimension, and values of a cluster
    clusters: int = 4
    cluster_size: int = 100
    #: predicates of a subscription, and attributes of an event
    subscription_size: int = 8
    event_size: int = 15
    #: share of the subscriptions that an event matches
    match_probability: float = 0.001
    #: attributes are drawn evenly, or the i-th with probability proportional to 1 / i
    is_zipf: bool = False
    profiles: int = 250
    seed: int = 1


class Workload(NamedTuple):
    """Subscriptions, and a way to draw events that some of them match."""

    knobs: Knobs
    subscriptions: Conjunctions
    #: int64 (profiles, event_size): attribute of each cluster, and its least value
    profile_attribute: Longs
    profile_value: Longs

    def events(self, count: int, seed: int = 2) -> Events:
        """Events of any profile, each value from anywhere in its cluster. Cost: linear."""
        random, knobs = np.random.default_rng(seed), self.knobs
        profile = random.integers(0, knobs.profiles, count)
        offset = random.integers(0, knobs.cluster_size, (count, knobs.event_size))
        return numeric_events(
            [_name(number) for number in range(knobs.dimensions)],
            self.profile_attribute[profile],
            (self.profile_value[profile] + offset).astype(np.float64),
        )


def planted(knobs: Knobs) -> Workload:
    """The paper's workload. Cost: linear."""
    random = np.random.default_rng(knobs.seed)
    attribute = _attributes(random, knobs)
    starts = random.integers(0, knobs.cardinality - knobs.cluster_size, (knobs.dimensions, knobs.clusters))
    value = starts[attribute, random.integers(0, knobs.clusters, attribute.shape)]
    shape = knobs.subscriptions, knobs.subscription_size
    profile = random.integers(0, knobs.profiles, knobs.subscriptions)
    # The first few of a shuffled profile are a sample without replacement.
    chosen = random.random((knobs.subscriptions, knobs.event_size)).argpartition(shape[1] - 1, axis=1)
    chosen = chosen[:, : shape[1]]
    length = _lengths(random, knobs, shape)
    low = value[profile[:, None], chosen] + (random.random(shape) * (knobs.cluster_size - length + 1)).astype(
        int
    )
    asked = attribute[profile[:, None], chosen]
    subscriptions = numeric_conjunctions(
        [_name(number) for number in range(knobs.dimensions)],
        asked,
        low.astype(np.float64),
        (low + length - 1).astype(np.float64),
        _weights(random, asked, knobs.dimensions),
    )
    return Workload(knobs, subscriptions, attribute, value)


def boxes(subscriptions: int, attributes: int, width: float, seed: int = 1, ranges: int = 3) -> Conjunctions:
    """Ranges of a share `width` of [0, 1], anywhere, over a few of the attributes each. Cost: linear."""
    random = np.random.default_rng(seed)
    asked = random.random((subscriptions, attributes)).argpartition(ranges - 1, axis=1)[:, :ranges]
    low = random.uniform(0, 1 - width, asked.shape)
    names = [_name(number) for number in range(attributes)]
    return numeric_conjunctions(names, asked, low, low + width, np.ones(asked.shape))


def points(count: int, attributes: int, seed: int = 2) -> Events:
    """Events with a value of [0, 1] in every attribute. Cost: linear."""
    random = np.random.default_rng(seed)
    names = [_name(number) for number in range(attributes)]
    asked = np.broadcast_to(np.arange(attributes), (count, attributes))
    return numeric_events(names, asked, random.random((count, attributes)))


def numeric_conjunctions(
    names: list[str], attribute: Longs, low: Floats, high: Floats, weight: Floats
) -> Conjunctions:
    """Conjunctions of equally many ranges: all columns are (conjunctions, ranges). Cost: linear."""
    predicates = np.zeros(attribute.size, PREDICATE)
    predicates["key"] = KINDS * attribute.ravel() + NUMBER
    predicates["low"], predicates["high"] = low.ravel(), high.ravel()
    predicates["weight"], predicates["test"] = weight.ravel(), -1
    counts = np.full(len(attribute), attribute.shape[1], np.int32)
    return Conjunctions(
        names, counts, predicates, np.zeros(0, TEST), np.zeros(0, OPERAND), np.zeros(0, np.uint8)
    )


def numeric_events(names: list[str], attribute: Longs, value: Floats) -> Events:
    """Events of equally many numbers: both columns are (events, numbers). Cost: linear."""
    flat = np.ascontiguousarray(value).ravel()
    return Events(
        names=names,
        offsets=value.shape[1] * np.arange(len(value) + 1),
        attribute=attribute.astype(np.int32).ravel(),
        kind=np.full(flat.size, NUMBER, np.int8),
        low=flat,
        high=flat,
        text_start=np.zeros(flat.size, np.int64),
        text_length=np.zeros(flat.size, np.int32),
        heap=np.zeros(0, np.uint8),
        weight=np.ones(flat.size),
    )


def _name(number: int) -> str:
    return f"a{number}"


def _attributes(random: np.random.Generator, knobs: Knobs) -> Longs:
    """Different attributes for each profile, in any order."""
    chance = 1.0 / np.arange(1, knobs.dimensions + 1) if knobs.is_zipf else np.ones(knobs.dimensions)
    # The largest of log chance + Gumbel noise are a sample without replacement by chance.
    noise = np.log(chance) + random.gumbel(size=(knobs.profiles, knobs.dimensions))
    return np.argsort(-noise, axis=1)[:, : knobs.event_size]


def _lengths(random: np.random.Generator, knobs: Knobs, shape: tuple[int, int]) -> Longs:
    """Lengths of ranges such that all of a subscription's hold with the matching probability."""
    holds = min(1.0, knobs.match_probability * knobs.profiles) ** (1 / knobs.subscription_size)
    spread = min(holds, 1 - holds)
    length = knobs.cluster_size * random.uniform(holds - spread, holds + spread, shape)
    return np.maximum(1, np.rint(length)).astype(np.int64)


def _weights(random: np.random.Generator, asked: Longs, dimensions: int) -> Floats:
    """By inverse frequency, as in the paper, with `min` for its `max`, which is almost always the first."""
    frequency = np.bincount(asked.ravel(), minlength=dimensions)
    inverse = (frequency.max() / np.maximum(frequency, 1))[asked]
    weights: Floats = np.minimum(inverse, random.normal(0.8 * inverse, 0.05 * inverse))
    return weights
