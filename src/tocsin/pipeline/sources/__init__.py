"""Sources of a job: rows are read, checked against their declarations, and packed for the shards."""
