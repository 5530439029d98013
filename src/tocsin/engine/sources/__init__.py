"""Sources: tables, windows and streams; the rows that they hold, and the deltas of each batch."""
