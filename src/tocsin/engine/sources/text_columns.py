"""Text columns that subscriptions are bound to: a code for each text, which indexes compare as a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from tocsin.arrays.types import Arrays
from tocsin.engine.interning import ValueInterner, Values
from tocsin.engine.saving import with_prefix, with_prefix_stripped


class TextColumns:
    """The codes of a source's text columns, by column. Rows that the source retains hold theirs.

    A column has codes while any group reads it.
    """

    def __init__(self, columns: list[str], live: Callable[[str], Values] | None = None) -> None:
        #: the source's columns, by whose places codes are saved
        self._columns = columns
        #: the texts of a column that the source's rows hold, if it retains rows
        self._live = live
        self._codes: dict[str, ValueInterner] = {}
        #: by column, how many groups read it
        self._readers: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._codes

    def __getitem__(self, name: str) -> ValueInterner:
        return self._codes[name]

    def items(self) -> Iterator[tuple[str, ValueInterner]]:
        """The columns that have codes."""
        yield from self._codes.items()

    def open(self, name: str) -> None:
        """A group begins to read a column. Cost: for the first, linear in the source's rows."""
        self._readers[name] += 1
        if name not in self._codes:
            codes = self._codes[name] = ValueInterner()
            if self._live is not None:
                codes.acquire(self._live(name))

    def close(self, name: str) -> None:
        """A group has ended that read a column."""
        self._readers[name] -= 1
        if not self._readers[name]:
            del self._codes[name]

    def free_unused(self) -> None:
        """Free the codes that neither rows nor subscriptions hold."""
        for codes in self._codes.values():
            codes.free_unused()

    def arrays(self) -> Arrays:
        arrays: Arrays = {}
        for name, codes in self._codes.items():
            arrays.update(with_prefix(f"texts/{self._columns.index(name)}", codes.arrays()))
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays`, the source's, was taken from; then groups open the columns."""
        for place, name in enumerate(self._columns):
            saved = with_prefix_stripped(arrays, f"texts/{place}")
            if saved:
                self._codes[name] = ValueInterner()
                self._codes[name].restore(saved)
