"""Leaf algorithms compiled by Numba, one idea a file: heap, sort, search, treap, kd-tree, scoring."""
