"""The TOML file of a simulation: a network, a workload, and figures that vary one setting."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from tocsin.errors import ParameterError
from tocsin.papers.network.approaches import NAMES, Traffic

WORKLOADS = ("walking", "jumping", "stocks")
RANGES = ("normal", "uniform", "clustered", "correlated", "anti-correlated")
PLOTS = ("line", "cdf")
MEASURES = Traffic._fields

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """One point of a figure: a workload, subscriptions, and k."""

    workload: str = "jumping"
    rows: int = 10_000
    events: int = 10_000
    #: of walking: shares of events
    spikes: float = 0.005
    ignorable: float = 0.0
    #: of jumping: distribution of x, and how far y changes; negative for anywhere
    x: str = "uniform"
    spread: float = -1.0
    #: of stocks
    path: str = ""
    subscriptions: int = 100_000
    ranges: str = "uniform"
    #: of normal ranges: mean and deviation
    middle: tuple[float, ...] = (5000.0, 1500.0)
    length: tuple[float, ...] = (1000.0, 1000.0)
    #: of clustered ranges
    deviation: float = 0.5
    k: int = 1
    seed: int = 1


@dataclass(frozen=True)
class Network:
    """`[network]`."""

    nodes: int = 20_000
    brokers: int = 1_000
    seed: int = 7


@dataclass(frozen=True)
class Figure:
    """`[[figures]]`: some measures of some approaches, as one setting varies."""

    name: str
    approaches: tuple[str, ...]
    vary: str = "k"
    values: tuple[Any, ...] = ()
    measures: tuple[str, ...] = ("bytes",)
    title: str = ""
    plot: str = "line"
    log: bool = True
    set: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """A whole file."""

    name: str
    network: Network
    settings: Settings
    figures: tuple[Figure, ...]

    def points(self, figure: Figure) -> list[tuple[Any, Settings]]:
        """The values of the varied setting, and the settings at each."""
        common = _changed(self.settings, figure.set, f"figure {figure.name}")
        if not figure.values:
            return [(getattr(common, figure.vary), common)]
        where = f"figure {figure.name}"
        return [(value, _changed(common, {figure.vary: value}, where)) for value in figure.values]


def read_spec(path: str | PathLike[str]) -> Spec:
    """Read and check a file. Raises ParameterError."""
    file = Path(path)
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as failure:
        raise ParameterError(f"{file}: {failure}") from None
    try:
        return parse_spec(given, file.stem)
    except ParameterError as failure:
        raise ParameterError(f"{file}: {failure}") from None


def parse_spec(given: Mapping[str, Any], name: str) -> Spec:
    """Check the content of a file. Raises ParameterError."""
    for key in given:
        if key not in ("network", "settings", "figures"):
            raise ParameterError(f"unknown table {key!r}; known are network, settings, figures")
    figures = given.get("figures")
    if not isinstance(figures, list) or not figures:
        raise ParameterError("there are no [[figures]]")
    spec = Spec(
        name,
        _made(Network, given.get("network", {}), "[network]"),
        _made(Settings, given.get("settings", {}), "[settings]"),
        tuple(_made(Figure, one, f"figure {number}") for number, one in enumerate(figures)),
    )
    for figure in spec.figures:
        _check(spec, figure)
    return spec


def _check(spec: Spec, figure: Figure) -> None:
    where = f"figure {figure.name}"
    _one_of(figure.plot, PLOTS, f"{where}: plot")
    _one_of(figure.vary, [each.name for each in fields(Settings)], f"{where}: vary")
    for measure in figure.measures:
        _one_of(measure, MEASURES, f"{where}: measure")
    for approach in figure.approaches:
        _one_of(approach.partition("(")[0], NAMES, f"{where}: approach")
    for _, settings in spec.points(figure):
        _one_of(settings.workload, WORKLOADS, f"{where}: workload")
        _one_of(settings.ranges, RANGES, f"{where}: ranges")
        if min(settings.rows, settings.events, settings.subscriptions, settings.k) < 1:
            raise ParameterError(f"{where}: rows, events, subscriptions and k are at least 1")


def _one_of(value: str, known: Any, where: str) -> None:
    if value not in known:
        near = difflib.get_close_matches(value, list(known), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise ParameterError(f"{where} {value!r} is not known; {hint}")


def _changed(settings: Settings, given: Mapping[str, Any], where: str) -> Settings:
    return replace(settings, **_values(Settings, given, where))


def _made(cls: type[T], given: Any, where: str) -> T:
    if not isinstance(given, Mapping):
        raise ParameterError(f"{where} must be a table")
    values = _values(cls, given, where)
    try:
        return cls(**values)
    except TypeError as failure:
        raise ParameterError(f"{where}: {str(failure).partition(') ')[2]}") from None


def _values(cls: Any, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values in the types that the dataclass declares."""
    kinds = {each.name: str(each.type) for each in fields(cls)}
    values = {}
    for key, value in given.items():
        _one_of(key, kinds, f"{where}: key")
        values[key] = _value(value, kinds[key], f"{where}: {key}")
    return values


def _value(value: Any, kind: str, where: str) -> Any:
    plain: dict[str, Any] = {"int": int, "float": (int, float), "str": str, "bool": bool}
    if kind.startswith("tuple[") and isinstance(value, list):
        return tuple(_value(each, kind[6:].partition(",")[0], where) for each in value)
    if kind == "Any" or (kind.startswith("Mapping") and isinstance(value, dict)):
        return value
    if kind in plain and isinstance(value, plain[kind]) and (kind == "bool" or not isinstance(value, bool)):
        return float(value) if kind == "float" else value
    raise ParameterError(f"{where} is {value!r}; it must be a {kind}")
