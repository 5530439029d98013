"""The publishing side: sorts messages into zones, announces maps and snapshots. Pure: returns payloads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import ParameterError
from tocsin.network.areas import areas_of_table
from tocsin.network.wire import (
    MAP,
    MESSAGES,
    MOVE,
    SNAPSHOT,
    OutboundMessage,
    pack,
    space_subject,
    split_table,
    zone_subject,
)
from tocsin.network.zones import Zones

#: `since` of a map that is valid from the first message on.
ALWAYS = -2


class Publisher:
    """Holds the current map of each space. The same calls return the same payloads, to the byte.

    `maps` returns the map of a new space from its text and dimensions, or None for a single zone.
    """

    def __init__(self, root: str = "tocsin", maps: Callable[[str, int], Zones | None] | None = None) -> None:
        self.root = root
        self._maps = maps or (lambda space, dimensions: None)
        self._zones: dict[str, Zones] = {}
        #: by space: the seq of the last posted message
        self._seq: dict[str, int] = {}
        #: maps that are valid from the next message on
        self._next: dict[str, Zones] = {}

    def __contains__(self, space: str) -> bool:
        return space in self._zones

    def zones(self, space: str) -> Zones:
        """The current map of a known space."""
        return self._zones[space]

    def adopt(self, space: str, zones: Zones) -> None:
        """Continue with a map that has been published before."""
        self._zones[space] = zones

    def open(self, space: str, zones: Zones) -> list[OutboundMessage]:
        """Announce a new space with its map."""
        self.adopt(space, zones)
        return [self._map_message(space, ALWAYS)]

    def switch(self, space: str, zones: Zones) -> None:
        """Switch to the next version of a map, from the next message on.

        Edges follow without missing messages: an end payload goes to each zone of the old version, then the
        new map is published. In that order, a publisher that dies in between and restarts from the newest
        published map repeats both.
        """
        old = self._zones[space]
        if zones.version <= old.version:
            raise ParameterError(f"version {zones.version} of the map is not newer than the one in use")
        if not zones.refines(old):
            raise ParameterError(
                "the next map must split zones of the one in use: create it with `Zones.split`"
            )
        self._next[space] = zones

    def post(self, messages: pa.Table) -> list[OutboundMessage]:
        """Payloads for messages of `engine.messages`, of any spaces: one for each zone that they intersect.

        Cost: linear in the messages and the zones that they intersect.
        """
        outbound = []
        for space in pc.unique(messages.column("space")).to_pylist():
            of_space = messages.filter(pc.equal(messages.column("space"), space))
            of_space = of_space.sort_by([("seq", "ascending"), ("n", "ascending")])
            outbound += self._open_if_new(space, of_space)
            outbound += self._apply_switch(space, int(of_space.column("seq")[0].as_py()))
            outbound += self._by_zone(space, of_space)
            self._seq[space] = int(of_space.column("seq")[-1].as_py())
        return outbound

    def snapshot(self, rows: pa.Table) -> list[OutboundMessage]:
        """Payloads for a snapshot of `engine.snapshot`, of any spaces; none if it has no rows.

        An edge that starts from it reads what is published after it, so it must include all posted messages.
        """
        outbound = []
        for space in pc.unique(rows.column("space")).to_pylist():
            of_space = rows.filter(pc.equal(rows.column("space"), space))
            # A batch may have snapshots of several moments: the newest suffices.
            newest = pc.max(of_space.column("seq"))
            of_space = of_space.filter(pc.equal(of_space.column("seq"), newest))
            if newest.as_py() < self._seq.get(space, newest.as_py()):
                raise ParameterError(f"the snapshot of {space!r} is older than messages that were posted")
            outbound += self._open_if_new(space, of_space)
            parts = split_table(of_space)
            subject = space_subject(self.root, space, SNAPSHOT)
            for number, part in enumerate(parts):
                header = {"seq": newest.as_py(), "part": number, "parts": len(parts)}
                outbound.append(OutboundMessage(subject, pack(SNAPSHOT, part, **header)))
        return outbound

    def _open_if_new(self, space: str, rows: pa.Table) -> list[OutboundMessage]:
        """Announce a space if it is new, with the dimensions of its rows."""
        if space in self._zones:
            return []
        dimensions = len(rows.column("x")[0])
        return self.open(space, self._maps(space, dimensions) or Zones.whole(dimensions))

    def _apply_switch(self, space: str, seq: int) -> list[OutboundMessage]:
        """Switch to the next map, if there is one, from the message `seq` on."""
        if space not in self._next:
            return []
        old, new = self._zones[space], self._next.pop(space)
        self._zones[space] = new
        end = pack(MOVE, version=new.version)
        subjects = (zone_subject(self.root, space, old.version, zone) for zone in range(len(old)))
        return [*(OutboundMessage(subject, end) for subject in subjects), self._map_message(space, seq - 1)]

    def _map_message(self, space: str, since: int) -> OutboundMessage:
        text = self._zones[space].to_json()
        return OutboundMessage(
            space_subject(self.root, space, MAP), pack(MAP, space=space, since=since, zones=text)
        )

    def _by_zone(self, space: str, messages: pa.Table) -> list[OutboundMessage]:
        zones = self._zones[space]
        zone_of, ends = zones.intersecting(areas_of_table(messages, zones.dimensions))
        place = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        order = np.argsort(zone_of, kind="stable")
        zone_of, place = zone_of[order], place[order]
        begins = np.flatnonzero(np.diff(zone_of, prepend=-1))
        outbound = []
        columns = messages.drop_columns(["space"]).combine_chunks()
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(zone_of)], strict=True):
            subject = zone_subject(self.root, space, zones.version, int(zone_of[begin]))
            of_zone = columns.take(pa.array(place[begin:end]))
            outbound += [OutboundMessage(subject, pack(MESSAGES, part)) for part in split_table(of_zone)]
        return outbound
