"""Measurements: one program an index family, each against its rivals. `python -m benchmarks` lists them."""
