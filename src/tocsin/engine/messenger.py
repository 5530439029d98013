"""All spaces of an engine: those that were created, and those that subscriptions are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine import saving
from tocsin.engine.deltas import SourceDelta
from tocsin.engine.forms import Form, as_told, matching, ranked_by
from tocsin.engine.groups import RowGroup
from tocsin.engine.messages import SCHEMA
from tocsin.engine.spaces import DistinctSpace, RankedSpace, Space
from tocsin.engine.tables import Table
from tocsin.errors import ParameterError
from tocsin.indexes.contract import Arrays, Floats, Ints
from tocsin.indexes.shared.limits import ByLimit
from tocsin.language import Dimension
from tocsin.language.shapes import box_of

ALGORITHMS = ("dense", "sparse")


class Ranges(NamedTuple):
    """The subscriptions of one space: slots of the registry, ascending, and their ranges."""

    slots: Ints
    lo: Floats
    hi: Floats


class Survey(NamedTuple):
    """What the subscriptions of a table say of its spaces."""

    ranges: dict[Form, Ranges]
    #: a statement with a subscription that is in no space
    odd: str | None


class Messenger:
    """Keeps the spaces of all tables, and tells of a batch through those of one."""

    def __init__(self) -> None:
        self._created: list[Form] = []
        self._spaces: dict[Form, Space] = {}
        #: by table: the registry's version that the subscriptions were surveyed at, and what was found
        self._surveys: dict[str, tuple[int, Survey]] = {}

    def create(self, form: Form, table: Table) -> None:
        """Take in a space that needs no subscriptions. Cost: reading the table."""
        if form not in self._created:
            self._created.append(form)
            self._surveys.pop(form.source, None)
            self._open(form, table)

    def survey(self, name: str, groups: Iterable[tuple[str, RowGroup]], version: int) -> Survey:
        """The spaces of a table's subscriptions, given as groups and a statement of each.

        Cost: linear in the subscriptions, if `version` says that they have changed since the last time.
        """
        known = self._surveys.get(name)
        if known is None or known[0] != version:
            known = version, self._look(groups)
            self._surveys[name] = known
        return known[1]

    def forms(self, name: str, survey: Survey) -> list[Form]:
        """The spaces of a table, in the order of their names."""
        created = [form for form in self._created if form.source == name]
        return sorted({*created, *survey.ranges}, key=str)

    def check(
        self, forms: list[Form], survey: Survey, algorithm: object, epsilon: object, others: object
    ) -> None:
        """Raise ParameterError for what cannot be told like this."""
        if algorithm not in ALGORITHMS:
            raise ParameterError(f"algorithm is 'dense' or 'sparse', not {algorithm!r}")
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon <= 1:
            raise ParameterError(f"epsilon is a number from 0 to 1, not {epsilon!r}")
        if others not in ("refuse", "ignore"):
            raise ParameterError(f"others is 'refuse' or 'ignore', not {others!r}")
        inexact = next((form for form in forms if form.kind != "top-k"), None)
        if epsilon and inexact is not None:
            raise ParameterError(
                f"an epsilon goes with top-k alone, and there is the space {str(inexact)!r}; use epsilon 0"
            )
        if survey.odd is not None and others == "refuse":
            raise ParameterError(
                f"messages do not describe what changes for subscriptions such as {survey.odd!r}. End them, "
                "create a space if they differ in one range, or say others='ignore': they stay exact, but "
                "nobody is told what changes for them"
            )

    def adopt(self, table: Table, forms: list[Form], survey: Survey, *, is_sparse: bool) -> None:
        """Have exactly these spaces over the table, with the subscriptions of the survey if sparse."""
        name = table.schema.name
        for form in [form for form in self._spaces if form.source == name and form not in forms]:
            del self._spaces[form]
        for form in forms:
            if form not in self._spaces:
                self._open(form, table)
            if is_sparse:
                self._spaces[form].subscribe(*survey.ranges.get(form, _NOBODY))

    def follow(self, name: str, delta: SourceDelta) -> None:
        """A batch that is told in another way."""
        for form, space in self._spaces.items():
            if form.source == name:
                space.follow(delta)

    def tell(self, forms: list[Form], delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        """The messages of all spaces, one after the other."""
        told = [self._spaces[form].tell(delta, is_sparse=is_sparse, epsilon=epsilon) for form in forms]
        return pa.concat_tables(told) if told else SCHEMA.empty_table()

    def snapshot(self, form: Form, table: Table) -> pa.Table:
        """The rows that a subscriber of a space starts from. Cost: linear."""
        return (self._spaces.get(form) or _new_space(form, table)).snapshot()

    def kept(self, name: str) -> list[Form]:
        """The spaces of a table that follow its rows."""
        return [form for form in self._spaces if form.source == name]

    def manifest(self) -> list[dict[str, Any]]:
        """The spaces as JSON can hold them."""
        return [{**form.as_dict(), "created": form in self._created} for form in self._spaces]

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """What does not follow from the tables."""
        for number, space in enumerate(self._spaces.values()):
            yield from saving.prefixed(f"space/{number}", space.arrays())

    def restore(self, manifest: list[Mapping[str, Any]], arrays: Arrays, tables: Mapping[str, Table]) -> None:
        """Become what `manifest` and `arrays` describe."""
        for number, described in enumerate(manifest):
            given = dict(described)
            is_created = given.pop("created")
            form = Form.from_dict(given)
            if is_created:
                self._created.append(form)
            space = self._spaces[form] = _new_space(form, tables[form.source])
            space.load(saving.below(arrays, f"space/{number}"))

    def _open(self, form: Form, table: Table) -> None:
        space = self._spaces[form] = _new_space(form, table)
        space.load({})

    def _look(self, groups: Iterable[tuple[str, RowGroup]]) -> Survey:
        parts: dict[Form, list[Ranges]] = {}
        odd = None
        for statement, group in groups:
            ranked = ranked_by(group.plan)
            if ranked is None:
                odd = odd or statement
                continue
            box = box_of(group.plan)
            columns = [dimension.column for dimension in box]
            local, lo, hi, k = _bounds_of(group, ranked[0], box)
            forms = self._candidates(group, ranked, columns, k)
            found = matching(forms, columns, lo, hi, k)
            if (found < 0).any():
                odd = odd or statement
            for number, form in enumerate(forms):
                mine = np.flatnonzero(found == number)
                if not len(mine):
                    continue
                at = None if form.column is None else columns.index(form.column)
                bounds = [np.zeros(len(mine)) if at is None else side[at, mine] for side in (lo, hi)]
                parts.setdefault(form, []).append(Ranges(group.owner[local[mine]], bounds[0], bounds[1]))
        return Survey({form: _joined(several) for form, several in parts.items()}, odd)

    def _candidates(
        self, group: RowGroup, ranked: tuple[str, str, bool], columns: list[str], k: Ints
    ) -> list[Form]:
        """The spaces that a group's subscriptions may be in: with several ranges, those that were created."""
        kind, order, descending = ranked
        source = group.sources[0]
        if len(columns) > 1:
            wanted = source, kind, order, descending
            return [f for f in self._created if (f.source, f.kind, f.order, f.descending) == wanted]
        column = columns[0] if columns else None
        return [Form(source, kind, column, order, descending, each) for each in np.unique(k).tolist()]


_NOBODY = Ranges(np.empty(0, np.int32), np.empty(0), np.empty(0))


def _new_space(form: Form, table: Table) -> Space:
    return DistinctSpace(form, table) if form.kind == "distinct" else RankedSpace(form, table)


def _bounds_of(group: RowGroup, kind: str, box: tuple[Dimension, ...]) -> tuple[Ints, Floats, Floats, Ints]:
    """Local slots of a group's subscriptions, their bounds by dimension, their k.

    Those whose range is empty are left out: no message is for them.
    """
    index = group.index
    classes = index.class_arrays() if isinstance(index, ByLimit) else [index.arrays()]
    parts = [_bounds_in(arrays, len(box)) for arrays in classes]
    local, lo, hi, k = (np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True))
    for place, dimension in enumerate(box):
        lo[place], hi[place] = as_told(dimension, lo[place]), as_told(dimension, hi[place])
    return local, lo, hi, k if kind == "top-k" else np.ones(len(local), np.int32)


def _bounds_in(arrays: Arrays, dimensions: int) -> tuple[Ints, Floats, Floats, Ints]:
    """Those of one index: arrays have a column a slot, or a row for each of `slots`."""
    lo, hi, slots = arrays["lo"], arrays["hi"], arrays.get("slots")
    if slots is not None:
        lo, hi = lo.T, hi.T
    is_used = (lo <= hi).all(axis=0)
    local = np.flatnonzero(is_used).astype(np.int32) if slots is None else slots[is_used]
    k = arrays["k"][is_used] if "k" in arrays else np.ones(len(local), np.int32)
    return local, lo[:dimensions, is_used], hi[:dimensions, is_used], k.astype(np.int32)


def _joined(parts: list[Ranges]) -> Ranges:
    """The subscriptions of several groups, by slot."""
    slots, lo, hi = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(slots)
    return Ranges(slots[order], lo[order], hi[order])
