"""DISTINCT values of the rows inside ranges and regions."""
