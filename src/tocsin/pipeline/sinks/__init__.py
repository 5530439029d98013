"""Sinks of a job, which write the changes, messages, snapshots and rejects of each batch."""
