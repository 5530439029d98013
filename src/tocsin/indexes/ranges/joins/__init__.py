"""The select-join of two tables, with ranges over the rows of each."""
