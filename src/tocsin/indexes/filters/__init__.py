"""Live rows: those inside a box, or with a score inside an interval."""

from tocsin.indexes.filters.index import FilterIndex

__all__ = ["FilterIndex"]
