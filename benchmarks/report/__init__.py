"""The report: docs/benchmarks.md and its pictures, written from the results."""
