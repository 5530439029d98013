"""SQL text → statement: the only modules that know sqlglot."""
