"""Columns, growth, interning and buffers of changes, and how kernels are compiled and cached."""
