"""Baselines of messages over ranges: Unicast, CN-Relax and Coalesce for top-k, Mar and Hull for MIN and MAX.

Albert Yu, Pankaj K. Agarwal, Jun Yang: "Processing and Notifying Range Top-k Subscriptions", ICDE 2012.
Its own algorithms, Paint-Dense, Paint-Sparse and Paint-Batch, are what `engine.messages` runs:
`tocsin.indexes.ranges`. Mar, Hull and EMar are those of the SIGMOD 2006 paper (see `tocsin.papers.network`);
the engine sends the same messages, found by Paint-Dense with k = 1.
See `docs/papers/topk-paint.md`.
"""

from tocsin.papers.topk_paint.coalesce import PaintCoalesce
from tocsin.papers.topk_paint.minmax import MarHull
from tocsin.papers.topk_paint.relax import RelaxedSubscriber, relax_events
from tocsin.papers.topk_paint.unicast import Unicast

__all__ = ["MarHull", "PaintCoalesce", "RelaxedSubscriber", "Unicast", "relax_events"]
