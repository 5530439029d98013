"""The server's side of a carrier: messages sorted into zones, maps, snapshots. Pure: returns what to send."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import ParameterError
from tocsin.network.areas import areas_of_table
from tocsin.network.post import (
    MAP,
    MESSAGES,
    MOVE,
    SNAPSHOT,
    Letter,
    pack,
    parts_of,
    space_subject,
    zone_subject,
)
from tocsin.network.zones import Zones

#: `since` of a map that holds from the first message on.
ALWAYS = -2


class Publisher:
    """Keeps the current map of each space. The same calls give the same letters, to the byte.

    `maps` gives a space's map when it is first heard of: its text and dimensions in, a map or None for one
    zone out.
    """

    def __init__(self, root: str = "tocsin", maps: Callable[[str, int], Zones | None] | None = None) -> None:
        self.root = root
        self._maps = maps or (lambda space, dimensions: None)
        self._zones: dict[str, Zones] = {}
        #: by space: the seq of the last message that was posted
        self._seq: dict[str, int] = {}
        #: maps that hold from the next message on
        self._next: dict[str, Zones] = {}

    def __contains__(self, space: str) -> bool:
        return space in self._zones

    def zones(self, space: str) -> Zones:
        """The current map of a space that has been heard of."""
        return self._zones[space]

    def adopt(self, space: str, zones: Zones) -> None:
        """Go on with a map that has been published before."""
        self._zones[space] = zones

    def open(self, space: str, zones: Zones) -> list[Letter]:
        """Begin a space with a map."""
        self.adopt(space, zones)
        return [self._map_letter(space, ALWAYS)]

    def switch(self, space: str, zones: Zones) -> None:
        """Go on with the next version of a map, from the next message on.

        Edges move by themselves, and miss nothing: each zone of the old version is told that it has ended,
        and then the new map goes out. In that order, a publisher that dies in between and begins again with
        the newest map that is out does it again.
        """
        old = self._zones[space]
        if zones.version <= old.version:
            raise ParameterError(f"version {zones.version} of the map is not newer than the one in use")
        if not zones.refines(old):
            raise ParameterError(
                "the next map must split zones of the one in use: make it with `Zones.split`"
            )
        self._next[space] = zones

    def post(self, messages: pa.Table) -> list[Letter]:
        """Messages as `engine.messages` returns them, of any spaces: a letter for each zone that they meet.

        Cost: linear in the messages and the zones they meet.
        """
        letters = []
        for space in pc.unique(messages.column("space")).to_pylist():
            mine = messages.filter(pc.equal(messages.column("space"), space))
            mine = mine.sort_by([("seq", "ascending"), ("n", "ascending")])
            letters += self._known(space, mine)
            letters += self._switched(space, int(mine.column("seq")[0].as_py()))
            letters += self._sorted(space, mine)
            self._seq[space] = int(mine.column("seq")[-1].as_py())
        return letters

    def snapshot(self, rows: pa.Table) -> list[Letter]:
        """A table's snapshot, as `engine.snapshot` returns it, of any spaces; none of no rows.

        An edge that starts from it reads what is sent from then on: it must know all that was posted before.
        """
        letters = []
        for space in pc.unique(rows.column("space")).to_pylist():
            mine = rows.filter(pc.equal(rows.column("space"), space))
            # Snapshots of several moments may come in one batch: the newest says all.
            newest = pc.max(mine.column("seq"))
            mine = mine.filter(pc.equal(mine.column("seq"), newest))
            if newest.as_py() < self._seq.get(space, newest.as_py()):
                raise ParameterError(f"the snapshot of {space!r} is older than messages that were posted")
            letters += self._known(space, mine)
            parts = parts_of(mine)
            subject = space_subject(self.root, space, SNAPSHOT)
            for number, part in enumerate(parts):
                said = {"seq": newest.as_py(), "part": number, "parts": len(parts)}
                letters.append(Letter(subject, pack(SNAPSHOT, part, **said)))
        return letters

    def _known(self, space: str, rows: pa.Table) -> list[Letter]:
        """Begin a space that is new, with the dimensions that its rows have."""
        if space in self._zones:
            return []
        dimensions = len(rows.column("x")[0])
        return self.open(space, self._maps(space, dimensions) or Zones.whole(dimensions))

    def _switched(self, space: str, seq: int) -> list[Letter]:
        """Begin with the next map, if there is one, from the message `seq` on."""
        if space not in self._next:
            return []
        old, new = self._zones[space], self._next.pop(space)
        self._zones[space] = new
        end = pack(MOVE, version=new.version)
        subjects = (zone_subject(self.root, space, old.version, zone) for zone in range(len(old)))
        return [*(Letter(subject, end) for subject in subjects), self._map_letter(space, seq - 1)]

    def _map_letter(self, space: str, since: int) -> Letter:
        text = self._zones[space].to_json()
        return Letter(space_subject(self.root, space, MAP), pack(MAP, space=space, since=since, zones=text))

    def _sorted(self, space: str, messages: pa.Table) -> list[Letter]:
        zones = self._zones[space]
        found, ends = zones.meeting(areas_of_table(messages, zones.dimensions))
        place = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        order = np.argsort(found, kind="stable")
        found, place = found[order], place[order]
        begins = np.flatnonzero(np.diff(found, prepend=-1))
        letters = []
        columns = messages.drop_columns(["space"]).combine_chunks()
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(found)], strict=True):
            subject = zone_subject(self.root, space, zones.version, int(found[begin]))
            mine = columns.take(pa.array(place[begin:end]))
            letters += [Letter(subject, pack(MESSAGES, part)) for part in parts_of(mine)]
        return letters
