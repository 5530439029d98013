"""The baselines of range top-k messages: Unicast and CN-Relax.

Albert Yu, Pankaj K. Agarwal, Jun Yang: "Processing and Notifying Range Top-k Subscriptions", ICDE 2012.
Its own algorithms, Paint-Dense, Paint-Sparse and Paint-Batch, are what `engine.messages` runs:
`tocsin.indexes.ranges`.
"""

from tocsin.papers.topk_paint.relax import RelaxedSubscriber, relax_events
from tocsin.papers.topk_paint.unicast import Unicast

__all__ = ["RelaxedSubscriber", "Unicast", "relax_events"]
