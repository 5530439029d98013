"""A job: its file and its checks, the query that runs it, its progress and its lag."""
