"""An edge holds subscriptions of one space and maintains their answers from a carrier's payloads. No I/O.

It starts from a snapshot and the map that was in use at that moment, and reads the subjects of its zones from
their beginning, skipping messages that the snapshot includes. A zone's subject ends with a payload that names
the next version of the map; the edge then splits the zone's subscriptions by the new map and continues with
the new subjects. So neither a split nor a restart loses messages, in whatever order payloads arrive, and
duplicates are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats, Ints
from tocsin.errors import ParameterError, StateError, UnknownSubscription
from tocsin.network.areas import bounds_by_row, points_of
from tocsin.network.wire import MAP, MOVE, SNAPSHOT, Payload, space_subject, unpack, zone_subject
from tocsin.network.zone_answers import ANSWERS, KeyInterner, ZoneAnswers, new_zone_answers
from tocsin.network.zones import Zones
from tocsin.subscriber import Entry


class Subscribe(NamedTuple):
    """An instruction: deliver every payload of a subject, from the first on, in order."""

    subject: str


class Unsubscribe(NamedTuple):
    """An instruction: this subject has ended."""

    subject: str


class Deliver(NamedTuple):
    """An instruction: the answers of these subscriptions may have changed; numbers are those of the edge."""

    numbers: Ints


Instruction: TypeAlias = Subscribe | Unsubscribe | Deliver


class Origin(NamedTuple):
    """The start of an edge: a snapshot, and the map that was in use at that moment."""

    zones: Zones
    rows: pa.Table
    seq: int


class _Zone(NamedTuple):
    """The subscriptions in one zone, and their answers."""

    version: int
    #: int32: numbers of the subscriptions, ascending
    numbers: Ints
    answers: ZoneAnswers


class Edge:
    """Subscriptions `[lo, hi]` of one space, as `engine.spaces` describes it.

    Bounds are (subscriptions,), or (subscriptions, dimensions). Ids are optional.
    """

    def __init__(
        self,
        space: dict[str, Any],
        lo: Floats,
        hi: Floats,
        *,
        ids: Sequence[str] | None = None,
        root: str = "tocsin",
    ) -> None:
        self.space = str(space["space"])
        self.root = root
        self._described = space
        self._lo, self._hi = bounds_by_row(lo), bounds_by_row(hi)
        if self._lo.shape != self._hi.shape or (ids is not None and len(ids) != len(lo)):
            raise ParameterError("lo, hi and ids must have the same length, lo and hi the same dimensions")
        self._ids = None if ids is None else {each: number for number, each in enumerate(ids)}
        self._points = points_of(self._lo, self._hi)
        self._maps: dict[int, Zones] = {}
        self._zones: dict[str, _Zone] = {}
        #: by subject of a zone: (seq, n) of the last message that was applied
        self._applied: dict[str, tuple[int, int]] = {}
        #: by subject that has ended: the version of the next map, which has not arrived yet
        self._ended: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._lo)

    @property
    def seq(self) -> int:
        """The seq of the last row that a message described here; -1 before the start."""
        return max((seq if n >= 0 else seq - 1 for seq, n in self._applied.values()), default=-1)

    def is_level_with(self, other: Edge) -> bool:
        """Whether this edge has applied all that another edge of the space has, in the zones of that one."""
        return all(self._applied.get(subject, (-1, -1)) >= at for subject, at in other._applied.items())

    def start(self, origin: Origin) -> list[Instruction]:
        """Start, or start over. Cost: reading the snapshot, and k searches per subscription."""
        self._maps, self._zones, self._applied, self._ended = {}, {}, {}, {}
        self._maps[origin.zones.version] = origin.zones
        zone_of = origin.zones.find(self._points)
        keys = KeyInterner()
        instructions: list[Instruction] = [Subscribe(space_subject(self.root, self.space, MAP))]
        for zone in np.unique(zone_of).tolist():
            numbers = np.flatnonzero(zone_of == zone).astype(np.int32)
            answers = new_zone_answers(self._described, self._lo[numbers], self._hi[numbers], keys)
            answers.start(origin.rows)
            # The snapshot includes all messages of its own seq, whatever their n.
            applied = (origin.seq + 1, -1)
            subject = self._add_zone(origin.zones.version, zone, numbers, answers, applied)
            instructions.append(Subscribe(subject))
        return instructions

    def handle(self, subject: str, payload: bytes) -> list[Instruction]:
        """Apply a payload; returns instructions. Cost: see `TopKAnswers.apply`; a move copies answers."""
        read = unpack(payload)
        if read.kind == MAP:
            return self._add_map(Zones.from_json(read.header["zones"]))
        zone = self._zones.get(subject)
        if zone is None:
            return []
        if read.kind == MOVE:
            self._ended[subject] = int(read.header["version"])
            return self._move(subject)
        return self._apply(subject, zone, read)

    def result(self, subscription: int | str) -> list[Entry]:
        """The answer of a subscription, by number or by id."""
        number = subscription if isinstance(subscription, int) else (self._ids or {}).get(subscription, -1)
        for zone in self._zones.values():
            place = int(np.searchsorted(zone.numbers, number))
            if place < len(zone.numbers) and zone.numbers[place] == number:
                return zone.answers.result(place)
        raise UnknownSubscription(f"this edge has no subscription {subscription!r}")

    def answers(self) -> pa.Table:
        """All answers: `number, key, y, born`, by number and then best first. Cost: sorting them."""
        parts = [held.answers.answers(held.numbers) for held in self._zones.values()]
        table = pa.concat_tables([ANSWERS.empty_table(), *parts])
        order = np.argsort(table.column("number").to_numpy(), kind="stable")
        return table.take(pa.array(order))

    def _apply(self, subject: str, zone: _Zone, read: Payload) -> list[Instruction]:
        table = read.table
        assert table is not None
        seq, n = table.column("seq").to_numpy(), table.column("n").to_numpy()
        last_seq, last_n = self._applied[subject]
        is_new = (seq > last_seq) | ((seq == last_seq) & (n > last_n))
        if not is_new.any():
            return []
        if not is_new.all():
            table = table.filter(pa.array(is_new))
        self._applied[subject] = int(seq[-1]), int(n[-1])
        notified = zone.answers.apply(table)
        return [Deliver(zone.numbers[notified])] if len(notified) else []

    def _add_map(self, zones: Zones) -> list[Instruction]:
        self._maps[zones.version] = zones
        waiting = [subject for subject, version in self._ended.items() if version == zones.version]
        return [instruction for subject in waiting for instruction in self._move(subject)]

    def _move(self, subject: str) -> list[Instruction]:
        """Split the subscriptions of an ended subject by the next map, if that has arrived."""
        version = self._ended[subject]
        zones = self._maps.get(version)
        if zones is None:
            return []
        del self._ended[subject]
        zone_answers, applied = self._zones.pop(subject), self._applied.pop(subject)
        instructions: list[Instruction] = [Unsubscribe(subject)]
        zone_of = zones.find(self._points[zone_answers.numbers])
        for zone in np.unique(zone_of).tolist():
            places = np.flatnonzero(zone_of == zone).astype(np.int32)
            part = zone_answers.answers if len(places) == len(zone_of) else zone_answers.answers.part(places)
            instructions.append(
                Subscribe(self._add_zone(version, zone, zone_answers.numbers[places], part, applied))
            )
        return instructions

    def _add_zone(
        self, version: int, zone: int, numbers: Ints, answers: ZoneAnswers, applied: tuple[int, int]
    ) -> str:
        subject = zone_subject(self.root, self.space, version, zone)
        self._zones[subject] = _Zone(version, numbers, answers)
        self._applied[subject] = applied
        return subject


def origin_of(maps: Sequence[bytes], snapshots: Sequence[bytes]) -> Origin:
    """The newest complete snapshot among payloads, and the map that was in use at its moment.

    Raises StateError if there is none yet.
    """
    parts: dict[int, dict[int, Payload]] = {}
    for read in map(unpack, snapshots):
        assert read.kind == SNAPSHOT
        parts.setdefault(int(read.header["seq"]), {})[int(read.header["part"])] = read
    whole = [seq for seq, several in parts.items() if len(several) == several[min(several)].header["parts"]]
    if not whole:
        raise StateError("there is no snapshot yet")
    seq = max(whole)
    tables = [parts[seq][number].table for number in sorted(parts[seq])]
    maps_since = [
        (int(read.header["since"]), Zones.from_json(read.header["zones"])) for read in map(unpack, maps)
    ]
    usable = [zones for since, zones in maps_since if since <= seq]
    if not usable:
        raise StateError("there is no map of zones as old as the snapshot")
    return Origin(max(usable, key=lambda zones: zones.version), pa.concat_tables(tables), seq)
