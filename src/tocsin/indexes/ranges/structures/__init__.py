"""Data structures of several indexes over rows: trees over boxes and rows, sorted blocks."""
