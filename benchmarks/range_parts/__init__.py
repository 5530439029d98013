"""Parts of the benchmark of ranges."""
